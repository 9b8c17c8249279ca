//! A TAP device: an Ethernet interface of a host with a file descriptor as its wire.
//!
//! The device is not persistent: it goes when its descriptor does. Frames carry the kernel's `virtio_net_hdr`, so that
//! a frame of many TCP segments passes as one, its checksum still to be computed by the "NIC" that never is.

use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

use crate::Error;

// linux/if_tun.h
const TUN_F_CSUM: libc::c_ulong = 0x01;
const TUN_F_TSO4: libc::c_ulong = 0x02;
const TUN_F_TSO6: libc::c_ulong = 0x04;
const TUN_F_TSO_ECN: libc::c_ulong = 0x08;
/// UDP segmentation, since Linux 6.2.
const TUN_F_USO: libc::c_ulong = 0x20 | 0x40;

/// Makes the device `name` in the calling thread's network namespace. Its descriptor does not block.
pub(crate) fn create(name: &std::ffi::CStr) -> Result<OwnedFd, Error> {
    // SAFETY: a nul-terminated path; the result is checked.
    let fd = unsafe { libc::open(c"/dev/net/tun".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC | libc::O_NONBLOCK) };
    if fd < 0 {
        return Err(unusable(&io::Error::last_os_error()));
    }
    // SAFETY: new, and owned by nothing else.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: ifreq is plain data, for which zeros are valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.to_bytes().iter().take(libc::IFNAMSIZ - 1)) {
        *to = *from as libc::c_char;
    }
    let flags = libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR;
    request.ifr_ifru.ifru_flags = flags as libc::c_short;
    // SAFETY: TUNSETIFF takes an ifreq, which lives over the call.
    if unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETIFF, &raw mut request) } != 0 {
        return Err(Error::last(format!("make the TAP device {name:?}")));
    }
    let offloads = TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6 | TUN_F_TSO_ECN;
    // SAFETY: TUNSETOFFLOAD takes its flags by value. Kernels without UDP segmentation refuse the longer set.
    let set = unsafe {
        libc::ioctl(fd.as_raw_fd(), libc::TUNSETOFFLOAD, offloads | TUN_F_USO) == 0
            || libc::ioctl(fd.as_raw_fd(), libc::TUNSETOFFLOAD, offloads) == 0
    };
    if !set {
        return Err(Error::last("turn segmentation offload on for a TAP device"));
    }
    Ok(fd)
}

/// Why the built-in backend cannot be used here, or `None` where it can.
pub(crate) fn missing() -> Option<String> {
    match std::fs::File::options().read(true).write(true).open("/dev/net/tun") {
        Ok(_) => None,
        Err(e) => Some(reason(&e)),
    }
}

fn unusable(error: &io::Error) -> Error {
    Error::Backend { backend: "built-in", reason: reason(error) }
}

fn reason(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::ENOENT) => "there is no /dev/net/tun; `modprobe tun`, or in a container pass that device in".into(),
        Some(libc::ENODEV | libc::ENXIO) => "this kernel has no TUN/TAP (CONFIG_TUN)".into(),
        Some(libc::EPERM | libc::EACCES) => "/dev/net/tun may not be opened; a container has to be given it".into(),
        _ => format!("/dev/net/tun cannot be opened: {error}"),
    }
}
