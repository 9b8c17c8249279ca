//! What a receiver has to know of its interface.

use std::net::UdpSocket;
use std::os::fd::AsRawFd as _;

use timestamping::Interface;
use wire::LinkType;

use crate::Error;

/// An interface with the kind of its link.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    pub name: String,
    pub index: u32,
    pub link_type: LinkType,
    /// How many receive queues it has, at least 1.
    pub queues: u32,
}

/// `struct ifreq` as `SIOCGIFHWADDR` fills it: the name, then a `sockaddr` with the hardware type as its family.
#[repr(C)]
struct HardwareRequest {
    name: [u8; libc::IFNAMSIZ],
    hardware: u16,
    address: [u8; 22],
}

/// `struct ifreq` as `SIOCGIFFLAGS` fills it.
#[repr(C)]
struct FlagsRequest {
    name: [u8; libc::IFNAMSIZ],
    flags: i16,
    rest: [u8; 22],
}

/// `struct ifreq` as `SIOCETHTOOL` takes it.
#[repr(C)]
struct EthtoolRequest {
    name: [u8; libc::IFNAMSIZ],
    channels: *mut Channels,
    rest: [u8; 16],
}

/// `struct ethtool_channels` (include/uapi/linux/ethtool.h).
#[repr(C)]
#[derive(Default)]
struct Channels {
    command: u32,
    most: [u32; 4],
    receive: u32,
    transmit: u32,
    other: u32,
    combined: u32,
}

/// `ETHTOOL_GCHANNELS`.
const GET_CHANNELS: u32 = 0x3c;
/// `SIOCETHTOOL` (include/uapi/linux/sockios.h).
const SIOCETHTOOL: libc::Ioctl = 0x8946;

impl Link {
    /// Looks an interface up in the network namespace of the calling thread.
    pub fn by_name(name: &str) -> Result<Self, Error> {
        let interface = Interface::by_name(name).map_err(|_| Error::NoInterface(name.to_owned()))?;
        let socket = UdpSocket::bind("0.0.0.0:0").map_err(Error::system("open a socket"))?;
        Ok(Self {
            name: name.to_owned(),
            index: interface.index(),
            link_type: link_type(&socket, c_name(name))?,
            queues: queues(&socket, c_name(name)).unwrap_or(1).max(1),
        })
    }

    /// Frames to be sent that it has dropped since it was made (`tx_dropped`); 0 where it does not say.
    pub fn dropped_sending(&self) -> u64 {
        // The table of this thread's network namespace: the process's may be another.
        let table = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap_or_default();
        let figures = table.lines().find_map(|line| line.trim().strip_prefix(self.name.as_str())?.strip_prefix(':'));
        // Eight figures of receiving come first; the drops are the fourth of sending.
        figures.and_then(|figures| figures.split_whitespace().nth(11)?.parse().ok()).unwrap_or(0)
    }

    /// Whether it is there and up.
    pub fn is_up(&self) -> bool {
        let mut request = FlagsRequest { name: c_name(&self.name), flags: 0, rest: [0; 22] };
        let Ok(socket) = UdpSocket::bind("0.0.0.0:0") else { return false };
        // SAFETY: SIOCGIFFLAGS reads and writes one ifreq; `request` has its layout and size.
        let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFFLAGS as _, &raw mut request) };
        result == 0 && i32::from(request.flags) & libc::IFF_UP != 0
    }

    /// Whether its frames begin with an Ethernet header.
    pub fn is_ethernet(&self) -> bool {
        self.link_type == LinkType::ETHERNET
    }
}

/// A name as the kernel takes it: ended by zeroes, cut where it is too long to be one.
fn c_name(name: &str) -> [u8; libc::IFNAMSIZ] {
    let mut out = [0; libc::IFNAMSIZ];
    for (to, from) in out[..libc::IFNAMSIZ - 1].iter_mut().zip(name.bytes()) {
        *to = from;
    }
    out
}

fn link_type(socket: &UdpSocket, name: [u8; libc::IFNAMSIZ]) -> Result<LinkType, Error> {
    let mut request = HardwareRequest { name, hardware: 0, address: [0; 22] };
    // SAFETY: SIOCGIFHWADDR reads and writes one ifreq; `request` has its layout and size.
    if unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFHWADDR as _, &raw mut request) } != 0 {
        return Err(Error::last("ask for the kind of an interface"));
    }
    Ok(match request.hardware {
        libc::ARPHRD_ETHER | libc::ARPHRD_LOOPBACK => LinkType::ETHERNET,
        // Tunnels and point-to-point links hand over IP packets without a header of a link.
        _ => LinkType::RAW,
    })
}

/// The receive queues, where the driver counts them.
fn queues(socket: &UdpSocket, name: [u8; libc::IFNAMSIZ]) -> Option<u32> {
    let mut channels = Channels { command: GET_CHANNELS, ..Channels::default() };
    let mut request = EthtoolRequest { name, channels: &raw mut channels, rest: [0; 16] };
    // SAFETY: ETHTOOL_GCHANNELS reads and writes one ethtool_channels behind the pointer of one ifreq; both outlive the call.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL as _, &raw mut request) };
    (result == 0).then_some(channels.receive + channels.combined)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_ethernet_with_a_queue_and_no_interface_is_named() {
        let lo = Link::by_name("lo").unwrap();
        assert!(lo.is_ethernet() && lo.queues >= 1 && lo.index >= 1);
        assert!(matches!(Link::by_name("nosuch0"), Err(Error::NoInterface(n)) if n == "nosuch0"));
    }
}
