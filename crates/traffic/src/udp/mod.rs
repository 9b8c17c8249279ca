//! `udp`: datagrams at a rate, and what becomes of them.

mod sequence;

pub use sequence::{Datagrams, Tracker, WINDOW};

/// Datagrams dropped by this host at a socket whose buffer was full: `SK_MEMINFO_DROPS` of `SO_MEMINFO`
/// (include/uapi/linux/sock_diag.h).
pub(crate) fn dropped_at_socket(socket: &impl std::os::fd::AsRawFd) -> u64 {
    const SO_MEMINFO: i32 = 55;
    const DROPS: usize = 8;
    let mut words = [0u32; 16];
    let mut length = size_of_val(&words) as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes into `words`, and both live through the call.
    let rc = unsafe {
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, SO_MEMINFO, words.as_mut_ptr().cast(), &raw mut length)
    };
    if rc == 0 { words[DROPS].into() } else { 0 }
}
