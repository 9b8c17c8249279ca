//! The cgroup v2 hierarchy: where it is, and a folder of it.

use std::fs::File;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::Error;

/// What the kernel says of this file system (include/uapi/linux/magic.h).
const CGROUP2_SUPER_MAGIC: i64 = 0x6367_7270;

/// Where cgroup v2 is mounted.
pub(crate) fn mount() -> Result<PathBuf, Error> {
    let mounts =
        std::fs::read_to_string("/proc/self/mounts").map_err(Error::system("cannot read /proc/self/mounts"))?;
    mounts
        .lines()
        .map(|line| line.split(' ').collect::<Vec<_>>())
        .find(|fields| fields.get(2) == Some(&"cgroup2"))
        // The kernel writes a space in a path as \040.
        .map(|fields| PathBuf::from(fields[1].replace("\\040", " ")))
        .ok_or(Error::NoCgroupMount)
}

/// Opens a folder of the cgroup v2 hierarchy.
pub(crate) fn open(path: &Path) -> Result<File, Error> {
    let fail = |source| Error::Cgroup { path: path.into(), source };
    let folder = std::fs::OpenOptions::new()
        .read(true)
        .custom_flags(OFlags::DIRECTORY.bits() as i32)
        .open(path)
        .map_err(fail)?;
    let info = rustix::fs::fstatfs(&folder).map_err(|error| fail(error.into()))?;
    if info.f_type != CGROUP2_SUPER_MAGIC {
        return Err(fail(std::io::Error::other("it is in another file system")));
    }
    Ok(folder)
}
