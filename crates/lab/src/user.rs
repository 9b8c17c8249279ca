//! Who the user of this process is, inside its user namespace and outside.

/// Whether this process is root, and so may make a lab as it is.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Whether this process is root of a user namespace that another user made.
pub fn is_mapped() -> bool {
    outside_user() != rustix::process::geteuid().as_raw()
}

/// The user of this process as the user namespace outside knows it.
pub(crate) fn outside_user() -> u32 {
    let own = rustix::process::geteuid().as_raw();
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    map.lines().find_map(|line| mapped(line, own)).unwrap_or(own)
}

/// A line of `uid_map`: the first user inside, the first outside, and how many.
fn mapped(line: &str, user: u32) -> Option<u32> {
    let mut numbers = line.split_whitespace().map(str::parse::<u32>);
    let (inside, outside, count) = (numbers.next()?.ok()?, numbers.next()?.ok()?, numbers.next()?.ok()?);
    let offset = user.checked_sub(inside).filter(|offset| *offset < count)?;
    outside.checked_add(offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_mapped_to_the_outside() {
        assert_eq!(mapped("         0       1000          1", 0), Some(1_000));
        assert_eq!(mapped("         0          0 4294967295", 7), Some(7));
        assert_eq!(mapped("         0       1000          1", 1), None);
        assert_eq!(mapped("", 0), None);
    }
}
