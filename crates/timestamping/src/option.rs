//! `getsockopt` and `setsockopt`, typed, for the options that rustix has not: those of timestamps
//! among them.

use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsRawFd, BorrowedFd};

/// Sets an option to a plain value.
pub(crate) fn set<T: Copy>(fd: BorrowedFd<'_>, level: i32, name: i32, value: &T) -> io::Result<()> {
    // SAFETY: the pointer and the length are those of a live value; the kernel only reads it.
    let rc = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            level,
            name,
            std::ptr::from_ref(value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Plain values that any bytes make a valid one of.
pub(crate) trait Plain: Copy {}
impl Plain for i32 {}
impl<const N: usize> Plain for [u32; N] {}

/// Reads an option; what the kernel does not fill is zero. With the number of bytes that it filled.
pub(crate) fn get<T: Plain>(fd: BorrowedFd<'_>, level: i32, name: i32) -> io::Result<(T, usize)> {
    let mut value = MaybeUninit::<T>::zeroed();
    let mut length = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to memory of that size.
    let rc = unsafe { libc::getsockopt(fd.as_raw_fd(), level, name, value.as_mut_ptr().cast(), &raw mut length) };
    if rc != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `T` is `Plain`: any bytes are a valid value, and all of them are zero or written.
    Ok((unsafe { value.assume_init() }, length as usize))
}
