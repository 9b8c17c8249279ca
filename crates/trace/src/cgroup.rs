//! The cgroup v2 hierarchy: where it is, and a folder of it.

use std::ffi::CString;
use std::fs::File;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use crate::Error;

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
    let folder = std::fs::OpenOptions::new().read(true).custom_flags(libc::O_DIRECTORY).open(path).map_err(fail)?;
    let text =
        CString::new(path.as_os_str().as_encoded_bytes()).map_err(|_| fail(std::io::ErrorKind::InvalidInput.into()))?;
    // SAFETY: statfs is plain data; all zeros is a value of it.
    let mut info: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: the path ends in a zero byte, and statfs writes one structure.
    if unsafe { libc::statfs(text.as_ptr(), &raw mut info) } != 0 {
        return Err(fail(std::io::Error::last_os_error()));
    }
    if info.f_type != libc::CGROUP2_SUPER_MAGIC {
        return Err(fail(std::io::Error::other("it is in another file system")));
    }
    Ok(folder)
}
