//! The cgroup v2 hierarchy: where it is, and a folder of it.

use std::fs::File;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, openat};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

use crate::Error;

/// What the kernel says of this file system (include/uapi/linux/magic.h).
const CGROUP2_SUPER_MAGIC: i64 = 0x6367_7270;

/// Where cgroup v2 is mounted.
pub(crate) fn mount() -> Result<PathBuf, Error> {
    machine::who::mount().ok_or(Error::NoCgroupMount)
}

/// The root of the hierarchy. Where no mount shows it, as within `ip netns exec`, it is mounted for
/// this descriptor alone.
pub(crate) fn root() -> Result<File, Error> {
    match mount() {
        Err(Error::NoCgroupMount) => mount_unseen().map_err(|_| Error::NoCgroupMount),
        path => open(&path?),
    }
}

/// Mounts the hierarchy without a place in the file system: it goes with its descriptor.
fn mount_unseen() -> rustix::io::Result<File> {
    let context = fsopen("cgroup2", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&context)?;
    let mount = fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())?;
    Ok(openat(&mount, ".", OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?.into())
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
