//! Requests about network devices that have no netlink message, or an older kernel's no such
//! message: netdevice(7), ethtool and TUN/TAP.
//!
//! Every call acts on the network namespace of its thread.

use std::ffi::CStr;
use std::fs::{File, OpenOptions};
use std::io;
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt as _;

use rustix::ioctl::{IntegerSetter, Opcode, Updater, ioctl};

/// `struct ifreq` (include/uapi/linux/if.h): a device's name, and 24 bytes that each request takes
/// in a different way.
#[repr(C)]
struct Request<T> {
    name: [u8; libc::IFNAMSIZ],
    value: T,
}

/// The value of a request that takes or gives flags.
#[repr(C)]
struct Flags {
    flags: u16,
    rest: [u8; 22],
}

/// The value of a request that gives an address: its family first.
#[repr(C)]
struct Address {
    family: u16,
    rest: [u8; 22],
}

/// The value of a request that takes a pointer.
#[repr(C)]
struct Pointer<T> {
    to: *mut T,
    rest: [u8; 16],
}

/// `struct ethtool_channels` (include/uapi/linux/ethtool.h).
#[repr(C)]
#[derive(Default)]
struct EthtoolChannels {
    command: u32,
    most: [u32; 4],
    receive: u32,
    transmit: u32,
    other: u32,
    combined: u32,
}

/// `struct ethtool_drvinfo` (include/uapi/linux/ethtool.h).
#[repr(C)]
struct EthtoolDriver {
    command: u32,
    driver: [u8; 32],
    versions: [[u8; 32]; 2],
    bus: [u8; 32],
    rest: [u8; 64],
}

/// `struct ethtool_value` (include/uapi/linux/ethtool.h).
#[repr(C)]
struct EthtoolValue {
    command: u32,
    data: u32,
}

// 4 + 5 × 32 bytes, 12 that are reserved, and five numbers.
const _: () = assert!(size_of::<EthtoolDriver>() == 196);
const _: () = assert!(size_of::<Request<Flags>>() >= size_of::<libc::ifreq>());
const _: () = assert!(size_of::<Request<Pointer<EthtoolValue>>>() >= size_of::<libc::ifreq>());

impl<T> Request<T> {
    /// A request about the device `name`, which is cut where it is too long to be a name.
    fn about(name: &CStr, value: T) -> Self {
        let mut padded = [0; libc::IFNAMSIZ];
        for (to, from) in padded[..libc::IFNAMSIZ - 1].iter_mut().zip(name.to_bytes()) {
            *to = *from;
        }
        Self { name: padded, value }
    }
}

/// Makes the request `OPCODE`.
///
/// # Safety
/// `OPCODE` takes an `ifreq`, and reads and writes it as `T` says.
unsafe fn make<const OPCODE: Opcode, T>(on: impl AsFd, request: &mut Request<T>) -> io::Result<()> {
    // SAFETY: the caller's promise.
    let request = unsafe { Updater::<OPCODE, _>::new(request) };
    // SAFETY: the request lives over the call.
    unsafe { ioctl(on, request) }?;
    Ok(())
}

/// The flags of a device, such as `IFF_RUNNING` (`SIOCGIFFLAGS`).
///
/// # Errors
/// The kernel's: there is no such device.
pub fn flags(name: &CStr) -> io::Result<u16> {
    let mut request = Request::about(name, Flags { flags: 0, rest: [0; 22] });
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    // SAFETY: SIOCGIFFLAGS fills the flags.
    unsafe { make::<{ libc::SIOCGIFFLAGS as Opcode }, _>(&socket, &mut request) }?;
    Ok(request.value.flags)
}

/// The kind of a device's link, such as `ARPHRD_ETHER` (`SIOCGIFHWADDR`).
///
/// # Errors
/// The kernel's: there is no such device.
pub fn link_kind(name: &CStr) -> io::Result<u16> {
    let mut request = Request::about(name, Address { family: 0, rest: [0; 22] });
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    // SAFETY: SIOCGIFHWADDR fills an address, with the kind of the link as its family.
    unsafe { make::<{ libc::SIOCGIFHWADDR as Opcode }, _>(&socket, &mut request) }?;
    Ok(request.value.family)
}

/// The receive queues of a device (`ETHTOOL_GCHANNELS`).
///
/// # Errors
/// The kernel's: there is no such device, or its driver does not count them.
pub fn receive_queues(name: &CStr) -> io::Result<u32> {
    const GET_CHANNELS: u32 = 0x3c;
    let mut channels = EthtoolChannels { command: GET_CHANNELS, ..EthtoolChannels::default() };
    let mut request = Request::about(name, Pointer { to: &raw mut channels, rest: [0; 16] });
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    // SAFETY: this command of SIOCETHTOOL fills an ethtool_channels behind the pointer, which lives
    // over the call.
    unsafe { make::<{ libc::SIOCETHTOOL as Opcode }, _>(&socket, &mut request) }?;
    Ok(channels.receive + channels.combined)
}

/// Whether a device's driver serves something on a bus, such as a NIC in its slot or a paravirtual
/// one, and not a device that is made of software alone (`ETHTOOL_GDRVINFO`).
///
/// # Errors
/// The kernel's: there is no such device, or its driver does not say.
pub fn is_on_a_bus(name: &CStr) -> io::Result<bool> {
    const GET_DRIVER: u32 = 0x3;
    let mut info =
        EthtoolDriver { command: GET_DRIVER, driver: [0; 32], versions: [[0; 32]; 2], bus: [0; 32], rest: [0; 64] };
    let mut request = Request::about(name, Pointer { to: &raw mut info, rest: [0; 16] });
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    // SAFETY: this command of SIOCETHTOOL fills an ethtool_drvinfo behind the pointer, which lives
    // over the call.
    unsafe { make::<{ libc::SIOCETHTOOL as Opcode }, _>(&socket, &mut request) }?;
    Ok(info.bus[0] != 0)
}

/// Work on segments that the kernel or the NIC does many at a time, by the number of the ethtool
/// command that sets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Offload {
    /// TCP segmentation by the NIC (`ETHTOOL_STSO`).
    Tso = 0x1f,
    /// Segmentation just before the driver (`ETHTOOL_SGSO`).
    Gso = 0x24,
    /// Joining of received segments (`ETHTOOL_SGRO`).
    Gro = 0x2c,
}

/// Turns an offload of a device on or off (`SIOCETHTOOL`).
///
/// # Errors
/// The kernel's: there is no such device, or its driver cannot.
pub fn set_offload(name: &CStr, offload: Offload, on: bool) -> io::Result<()> {
    let mut value = EthtoolValue { command: offload as u32, data: on.into() };
    let mut request = Request::about(name, Pointer { to: &raw mut value, rest: [0; 16] });
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    // SAFETY: these commands of SIOCETHTOOL read an ethtool_value behind the pointer, which lives
    // over the call.
    unsafe { make::<{ libc::SIOCETHTOOL as Opcode }, _>(&socket, &mut request) }
}

/// What a TUN/TAP device carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tunnel {
    /// IP packets.
    Tun,
    /// Ethernet frames.
    Tap,
}

/// Opens `/dev/net/tun`. Reading and writing do not block.
///
/// # Errors
/// It is not there, or may not be opened.
pub fn open_tun() -> io::Result<File> {
    OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open("/dev/net/tun")
}

/// Makes a device of an open `/dev/net/tun`, where each packet has a `virtio_net_hdr` in front
/// (`TUNSETIFF`). It goes when the file is closed. With an empty name the kernel chooses one.
///
/// # Errors
/// The kernel's: it takes `CAP_NET_ADMIN`, and the name must be free.
pub fn make_tun(file: &File, name: &CStr, kind: Tunnel) -> io::Result<()> {
    let kind = if kind == Tunnel::Tun { libc::IFF_TUN } else { libc::IFF_TAP };
    let flags = (kind | libc::IFF_NO_PI | libc::IFF_VNET_HDR) as u16;
    let mut request = Request::about(name, Flags { flags, rest: [0; 22] });
    // SAFETY: TUNSETIFF takes name and flags, and writes the name.
    unsafe { make::<{ libc::TUNSETIFF as Opcode }, _>(file, &mut request) }
}

/// Says which packets its reader takes whole: the `TUN_F_` bits of include/uapi/linux/if_tun.h
/// (`TUNSETOFFLOAD`).
///
/// # Errors
/// The kernel's: it is older than one of the bits.
pub fn take_whole(file: &File, offloads: u32) -> io::Result<()> {
    // SAFETY: TUNSETOFFLOAD takes a number.
    let request = unsafe { IntegerSetter::<{ libc::TUNSETOFFLOAD as Opcode }>::new_usize(offloads as usize) };
    // SAFETY: the request points to nothing.
    unsafe { ioctl(file, request) }?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_has_its_flag_and_no_device_is_an_error() {
        assert_ne!(i32::from(flags(c"lo").unwrap()) & libc::IFF_LOOPBACK, 0);
        assert_eq!(link_kind(c"lo").unwrap(), libc::ARPHRD_LOOPBACK);
        assert_eq!(flags(c"nosuch0").unwrap_err().raw_os_error(), Some(libc::ENODEV));
        assert_eq!(flags(c"a-name-that-is-too-long").unwrap_err().raw_os_error(), Some(libc::ENODEV));
    }

    #[test]
    fn an_offload_is_set_in_a_network_namespace_alone() {
        tier::needs!(tier::Need::Root);
        let set = std::thread::spawn(|| {
            crate::enter_new_network()?;
            set_offload(c"lo", Offload::Gro, false)?;
            set_offload(c"lo", Offload::Gro, true)
        });
        set.join().unwrap().unwrap();
        assert!(set_offload(c"nosuch0", Offload::Gro, true).is_err());
    }
}
