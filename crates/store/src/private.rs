//! Directories and files that only the one who measures reads: a run shows addresses, programs and
//! command lines.
//!
//! Modes are 0700 and 0600. Where root measures for a user who called `sudo`, they belong to that
//! user.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

/// Makes a directory that is not there yet.
///
/// # Errors
/// As [`std::fs::create_dir`].
pub fn directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(path)?;
    caller().map_or(Ok(()), |(user, group)| std::os::unix::fs::lchown(path, user, group))
}

/// A new file to write, in place of one of that name. What that was, a link to another file or a
/// second name of one, is left as it is.
///
/// # Errors
/// As [`File::create_new`] and [`std::fs::remove_file`].
pub fn file(path: &Path) -> io::Result<File> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    give_to_caller(&file)?;
    Ok(file)
}

/// Gives a file that was just made to the user who called `sudo`, where there is one.
///
/// # Errors
/// As [`std::os::unix::fs::fchown`].
pub fn give_to_caller(file: &File) -> io::Result<()> {
    caller().map_or(Ok(()), |(user, group)| std::os::unix::fs::fchown(file, user, group))
}

/// User and group who called `sudo`, where this process is root because of that: what it writes is
/// theirs.
pub fn caller() -> Option<(Option<u32>, Option<u32>)> {
    let number = |name| std::env::var(name).ok()?.parse::<u32>().ok();
    let user = number("SUDO_UID").filter(|&user| user != 0 && rustix::process::geteuid().is_root())?;
    Some((Some(user), number("SUDO_GID")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn others_read_nothing_and_links_are_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let run = dir.path().join("run");
        directory(&run).unwrap();
        file(&run.join("a")).unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&run), mode(&run.join("a"))), (0o700, 0o600));
        std::fs::write(run.join("a"), "kept").unwrap();
        std::os::unix::fs::symlink(run.join("a"), run.join("link")).unwrap();
        std::fs::hard_link(run.join("a"), run.join("name")).unwrap();
        for planted in ["link", "name"] {
            file(&run.join(planted)).unwrap();
            assert!(run.join(planted).symlink_metadata().unwrap().is_file());
            assert_eq!(std::fs::read_to_string(run.join("a")).unwrap(), "kept", "{planted}");
        }
    }
}
