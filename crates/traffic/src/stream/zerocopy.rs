//! `MSG_ZEROCOPY`: the kernel sends from the program's pages and says on the error queue when it is done with them
//! (Documentation/networking/msg_zerocopy.rst).

use std::io;
use std::os::fd::AsRawFd;

use serde::Serialize;

use crate::error::Error;
use crate::options;

/// What became of sends with `MSG_ZEROCOPY`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ZerocopyCounts {
    /// Sends that went out with the flag.
    pub sends: u64,
    /// Of these, completed.
    pub completed: u64,
    /// Completed after the kernel had copied all the same, as it always does on loopback.
    pub copied: u64,
    /// Sends made without the flag because the kernel had no room for one more notification.
    pub fell_back: u64,
}

/// `SO_EE_ORIGIN_ZEROCOPY` and `SO_EE_CODE_ZEROCOPY_COPIED` of include/uapi/linux/errqueue.h.
const ORIGIN: u8 = 5;
const COPIED: u8 = 1;

/// Asks for `SO_ZEROCOPY` on a socket.
pub(super) fn enable(socket: &impl AsRawFd) -> Result<(), Error> {
    options::set_int(socket, libc::SOL_SOCKET, libc::SO_ZEROCOPY, 1).map_err(|source| Error::SocketOption {
        option: "SO_ZEROCOPY",
        value: "1".into(),
        source,
    })
}

/// Takes the completions that wait on the error queue.
pub(super) fn reap(socket: &impl AsRawFd, counts: &mut ZerocopyCounts) {
    loop {
        let mut control = [0u64; 32];
        // SAFETY: msghdr is plain data, for which zero is a value; control is set to a live, aligned buffer.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&control) as _;
        // SAFETY: `message` points only to `control`, which lives through the call.
        let rc =
            unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT) };
        if rc < 0 {
            if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted {
                continue;
            }
            return;
        }
        // SAFETY: the kernel filled `message` and its control buffer, which is still alive.
        let mut header = unsafe { libc::CMSG_FIRSTHDR(&raw const message) };
        while !header.is_null() {
            // SAFETY: CMSG_FIRSTHDR and CMSG_NXTHDR give headers within the control buffer, or null.
            let (kind, data) = unsafe { (((*header).cmsg_level, (*header).cmsg_type), libc::CMSG_DATA(header)) };
            if matches!(kind, (libc::SOL_IP, libc::IP_RECVERR) | (libc::SOL_IPV6, libc::IPV6_RECVERR)) {
                // SAFETY: a message of this kind holds a sock_extended_err, which may be unaligned.
                let error = unsafe { data.cast::<libc::sock_extended_err>().read_unaligned() };
                if error.ee_origin == ORIGIN {
                    let number = u64::from(error.ee_data.wrapping_sub(error.ee_info)) + 1;
                    counts.completed += number;
                    if error.ee_code == COPIED {
                        counts.copied += number;
                    }
                }
            }
            // SAFETY: as above.
            header = unsafe { libc::CMSG_NXTHDR(&raw const message, header) };
        }
    }
}
