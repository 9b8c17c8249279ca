//! Files by whose lock one process at a time has something, and which whoever finds them stale
//! removes.

use std::os::fd::AsFd;

use rustix::fs::{fstat, stat};
use rustix::path::Arg;

/// Whether a file that was opened at a path is still there. Whoever held its lock before may have
/// removed it since: then a lock on it is worth nothing. System calls only.
pub fn is_at(file: impl AsFd, path: impl Arg) -> bool {
    match (fstat(file), stat(path)) {
        (Ok(ours), Ok(there)) => (ours.st_dev, ours.st_ino) == (there.st_dev, there.st_ino),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_was_replaced_is_no_longer_there() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let file = std::fs::File::create(&path).unwrap();
        assert!(is_at(&file, &path));
        std::fs::remove_file(&path).unwrap();
        assert!(!is_at(&file, &path));
        let _other = std::fs::File::create(&path).unwrap();
        assert!(!is_at(&file, &path));
    }
}
