//! Options of sockets that rustix and socket2 have not: those of `AF_PACKET`, and polling of the
//! driver.

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};

/// Sets an option of a plain type.
///
/// # Errors
/// The kernel's.
pub fn set<T: Copy>(socket: BorrowedFd<'_>, level: i32, name: i32, value: &T) -> io::Result<()> {
    let size = size_of::<T>() as libc::socklen_t;
    // SAFETY: the value lives over the call and has the size given; the kernel only reads it.
    let result = unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, std::ptr::from_ref(value).cast(), size) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Reads an option that is made of words; those that the kernel does not fill are zero.
///
/// # Errors
/// The kernel's.
pub fn words<const N: usize>(socket: BorrowedFd<'_>, level: i32, name: i32) -> io::Result<[u32; N]> {
    let mut value = [0u32; N];
    let mut size = size_of_val(&value) as libc::socklen_t;
    // SAFETY: the kernel writes at most `size` bytes to memory of that size.
    let result = unsafe { libc::getsockopt(socket.as_raw_fd(), level, name, value.as_mut_ptr().cast(), &raw mut size) };
    if result == 0 { Ok(value) } else { Err(io::Error::last_os_error()) }
}
