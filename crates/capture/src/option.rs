//! Setting options of sockets.

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};

/// Sets an option of a plain type.
pub(crate) fn set<T>(socket: BorrowedFd<'_>, level: i32, name: i32, value: &T) -> io::Result<()> {
    let size = size_of::<T>() as libc::socklen_t;
    // SAFETY: the value lives over the call and has the size given; the kernel only reads it.
    let result = unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, std::ptr::from_ref(value).cast(), size) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
