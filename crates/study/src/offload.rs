//! Segmentation and receive offloads of a host's device, by the ethtool ioctl (include/uapi/linux/ethtool.h).

use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

const SET_TSO: u32 = 0x1f;
const SET_GSO: u32 = 0x24;
const SET_GRO: u32 = 0x2c;

/// `struct ethtool_value`.
#[repr(C)]
struct Value {
    command: u32,
    data: u32,
}

/// Turns TSO, GSO and GRO of `interface` on or off, in the network namespace of the calling thread.
pub(crate) fn set(interface: &std::ffi::CStr, on: bool) -> io::Result<()> {
    // SAFETY: plain system calls; the request and the value it points to live over the ioctl.
    unsafe {
        let fd = libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        let socket = OwnedFd::from_raw_fd(fd);
        for command in [SET_TSO, SET_GSO, SET_GRO] {
            let mut value = Value { command, data: on.into() };
            let mut request: libc::ifreq = std::mem::zeroed();
            for (to, from) in request.ifr_name.iter_mut().zip(interface.to_bytes().iter().take(libc::IFNAMSIZ - 1)) {
                *to = *from as libc::c_char;
            }
            request.ifr_ifru.ifru_data = (&raw mut value).cast();
            if libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) != 0 {
                return Err(io::Error::last_os_error());
            }
        }
    }
    Ok(())
}
