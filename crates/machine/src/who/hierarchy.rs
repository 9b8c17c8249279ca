//! The cgroup v2 hierarchy: where it is mounted, and the path of a cgroup by the kernel's id.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::DirEntryExt as _;
use std::path::{Path, PathBuf};

/// A cgroup deeper than this is skipped; a container in a container is at about 12.
const DEEPEST: usize = 32;
/// More cgroups than this are not looked at in one walk.
const MOST: usize = 65_536;

/// Where cgroup v2 is mounted, by this process's list of mounts.
pub fn mount() -> Option<PathBuf> {
    mount_in(&fs::read_to_string("/proc/thread-self/mounts").ok()?)
}

fn mount_in(mounts: &str) -> Option<PathBuf> {
    let mut lines = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let mount = lines.find(|fields| fields.get(2) == Some(&"cgroup2"))?;
    // The kernel writes a space in a path as \040.
    Some(mount.get(1)?.replace("\\040", " ").into())
}

/// The cgroups that there are, by id. An id is the inode number of the cgroup's folder.
#[derive(Debug, Default)]
pub struct Hierarchy {
    root: PathBuf,
    paths: HashMap<u64, String>,
}

impl Hierarchy {
    /// The hierarchy that is mounted here; nothing is read before [`Self::refresh`].
    pub fn new(root: &Path) -> Self {
        Self { root: root.to_owned(), paths: HashMap::new() }
    }

    /// Reads it anew; cgroups that are gone are forgotten. What cannot be read is skipped.
    pub fn refresh(&mut self) {
        self.paths.clear();
        if let Ok(root) = fs::metadata(&self.root) {
            self.paths.insert(std::os::unix::fs::MetadataExt::ino(&root), "/".to_owned());
        }
        let mut open = vec![(self.root.clone(), String::new(), 0)];
        while let Some((folder, path, depth)) = open.pop() {
            let Ok(entries) = fs::read_dir(&folder) else { continue };
            for entry in entries.flatten() {
                if self.paths.len() >= MOST || !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    continue;
                }
                let below = format!("{path}/{}", entry.file_name().to_string_lossy());
                if depth < DEEPEST {
                    open.push((entry.path(), below.clone(), depth + 1));
                }
                self.paths.insert(entry.ino(), below);
            }
        }
    }

    /// The path of the cgroup with this id, relative to the root; `None` where it was not there at
    /// the last [`Self::refresh`].
    pub fn path(&self, id: u64) -> Option<&str> {
        self.paths.get(&id).map(String::as_str)
    }

    /// All cgroups with their ids, in no order.
    pub fn all(&self) -> impl Iterator<Item = (u64, &str)> {
        self.paths.iter().map(|(id, path)| (*id, path.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt as _;

    #[test]
    fn folders_are_found_by_inode_and_forgotten_when_gone() {
        let root = tempfile::tempdir().unwrap();
        let service = root.path().join("system.slice/a.service");
        fs::create_dir_all(&service).unwrap();
        fs::write(service.join("cgroup.procs"), "").unwrap();
        let id = fs::metadata(&service).unwrap().ino();
        let mut hierarchy = Hierarchy::new(root.path());
        hierarchy.refresh();
        assert_eq!(hierarchy.path(id), Some("/system.slice/a.service"));
        assert_eq!(hierarchy.path(fs::metadata(root.path()).unwrap().ino()), Some("/"));
        assert_eq!(hierarchy.all().count(), 3);
        fs::remove_dir_all(&service).unwrap();
        hierarchy.refresh();
        assert_eq!(hierarchy.path(id), None);
    }

    #[test]
    fn the_mount_is_found_wherever_it_is() {
        let mounts = "proc /proc proc rw 0 0\ncgroup2 /mnt/a\\040b cgroup2 rw 0 0\n";
        assert_eq!(mount_in(mounts), Some("/mnt/a b".into()));
        assert_eq!(mount_in("tmpfs /sys/fs/cgroup tmpfs rw 0 0\n"), None);
    }
}
