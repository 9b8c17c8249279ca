//! The directory of an executor that was given none. It goes with the executor; what one that was
//! killed has left, the next one removes.

use std::fs::{self, File, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use tempfile::TempDir;

/// What their names begin with.
const PREFIX: &str = "wirelapse-executor-";

/// A directory that only this user may look into.
#[derive(Debug)]
pub struct Scratch {
    directory: TempDir,
    /// Locked as long as the directory is in use, whatever way its process ends.
    _lock: File,
}

impl Scratch {
    /// Makes one in `parent`, and removes those of this user there that no process has locked.
    ///
    /// # Errors
    /// Where none can be made.
    pub fn new(parent: &Path) -> io::Result<Self> {
        loop {
            let only_mine = Permissions::from_mode(0o700);
            let directory = tempfile::Builder::new().prefix(PREFIX).permissions(only_mine).tempdir_in(parent)?;
            // Another executor that begins now may have found it before it is locked.
            let Some(lock) = locked(directory.path())? else { continue };
            remove_left(parent, directory.path())?;
            return Ok(Self { directory, _lock: lock });
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }
}

/// The lock of a directory; `None` where another process has it, or the directory is gone.
fn locked(directory: &Path) -> io::Result<Option<File>> {
    let lock = match File::open(directory) {
        Ok(lock) => lock,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    Ok((lock.try_lock().is_ok() && directory.exists()).then_some(lock))
}

fn remove_left(parent: &Path, own: &Path) -> io::Result<()> {
    let user = fs::metadata(own)?.uid();
    for entry in fs::read_dir(parent)?.flatten() {
        let named = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX));
        // Not what a link leads to.
        let mine = entry.metadata().is_ok_and(|entry| entry.is_dir() && entry.uid() == user);
        if named
            && mine
            && entry.path() != own
            && let Ok(Some(_lock)) = locked(&entry.path())
        {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_executor_uses_any_more_is_removed_and_nothing_else() {
        let parent = tempfile::tempdir().unwrap();
        let make = |name: &str| {
            let path = parent.path().join(name);
            fs::create_dir_all(path.join("job/1")).unwrap();
            fs::write(path.join("job/1/rows"), "rows").unwrap();
            path
        };
        let left = make("wirelapse-executor-left");
        let others = make("of-others");
        let target = make("target");
        let link = parent.path().join("wirelapse-executor-link");
        std::os::unix::fs::symlink(&target, &link).unwrap();
        let first = Scratch::new(parent.path()).unwrap();
        let second = Scratch::new(parent.path()).unwrap();
        assert!(!left.exists());
        assert!(others.exists() && link.exists() && target.join("job/1/rows").exists());
        assert!(first.path().exists() && second.path().exists());
        assert_eq!(fs::metadata(first.path()).unwrap().mode() & 0o777, 0o700);
        let gone = first.path().to_owned();
        drop(first);
        assert!(!gone.exists() && second.path().exists());
    }
}
