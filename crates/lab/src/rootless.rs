//! Labs of users who are not root: the lab's owner first moves into a user namespace, in which it is root.

use std::io;

use rustix::thread::UnshareFlags;

use crate::Error;

/// What a lab made without root cannot do, in words.
pub const MISSING: &str = "Made without root: the path's threads keep time as ordinary programs do (its lateness is shown), testbeds and tracers \
                           are not possible in it, and hosts do not have the sysctls of net.core.";

/// Whether the process may make a lab as it is.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Moves this process, which has a single thread, into a user namespace in which it is root and no other user is known. A process that is
/// root already stays where it is.
///
/// # Errors
/// [`Error::NoUserNamespace`] where the machine does not let its users make one.
pub fn enter() -> Result<(), Error> {
    if is_root() {
        return Ok(());
    }
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    // The folder depends on who the user is outside.
    crate::registry::directory();
    let entered = || -> io::Result<()> {
        // SAFETY: a user namespace has no part in what descriptors and memory mean.
        unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWUSER) }?;
        std::fs::write("/proc/self/setgroups", "deny")?;
        std::fs::write("/proc/self/uid_map", format!("0 {user} 1"))?;
        std::fs::write("/proc/self/gid_map", format!("0 {group} 1"))
    };
    entered().map_err(|source| Error::NoUserNamespace { source })
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
