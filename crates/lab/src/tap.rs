//! A TAP device: an Ethernet interface of a host with a file descriptor as its wire.
//!
//! The device is not persistent: it goes when its descriptor does. Frames carry the kernel's
//! `virtio_net_hdr`, so that a frame of many TCP segments passes as one, its checksum still to be
//! computed by the "NIC" that never is.

use std::io;
use std::os::fd::OwnedFd;

use machine::device::{Tunnel, make_tun, open_tun, take_whole};

use crate::Error;

// linux/if_tun.h
const TUN_F_CSUM: u32 = 0x01;
const TUN_F_TSO4: u32 = 0x02;
const TUN_F_TSO6: u32 = 0x04;
const TUN_F_TSO_ECN: u32 = 0x08;
/// UDP segmentation, since Linux 6.2.
const TUN_F_USO: u32 = 0x20 | 0x40;

/// Makes the device `name` in the calling thread's network namespace. Its descriptor does not
/// block.
pub(crate) fn create(name: &std::ffi::CStr) -> Result<OwnedFd, Error> {
    let file = open_tun().map_err(|error| unusable(&error))?;
    make_tun(&file, name, Tunnel::Tap).map_err(Error::system(format!("make the TAP device {name:?}")))?;
    let offloads = TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6 | TUN_F_TSO_ECN;
    // Kernels without UDP segmentation refuse the longer set.
    take_whole(&file, offloads | TUN_F_USO)
        .or_else(|_| take_whole(&file, offloads))
        .map_err(Error::system("turn segmentation offload on for a TAP device"))?;
    Ok(file.into())
}

/// Why the built-in backend cannot be used here, or `None` where it can.
pub(crate) fn missing() -> Option<String> {
    match open_tun() {
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
