//! What a receiver has to know of its interface.

use std::ffi::CString;

use machine::device;
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
    /// Whether what is sent on it is received on it again.
    pub loops_back: bool,
}

/// All interfaces, those that come later too, as libpcap calls them.
const EVERY: &str = "any";

impl Link {
    /// Looks an interface up in the network namespace of the calling thread.
    pub fn by_name(name: &str) -> Result<Self, Error> {
        let interface = Interface::by_name(name).map_err(|_| Error::NoInterface(name.to_owned()))?;
        let c_name = c_name(name);
        let kind = device::link_kind(&c_name).map_err(Error::system("ask for the kind of an interface"))?;
        let link_type = match kind {
            libc::ARPHRD_ETHER | libc::ARPHRD_LOOPBACK => LinkType::ETHERNET,
            // Tunnels and point-to-point links hand over IP packets without a header of a link.
            _ => LinkType::RAW,
        };
        // Not every driver counts its queues.
        let queues = device::receive_queues(&c_name).unwrap_or(1).max(1);
        let loops_back = kind == libc::ARPHRD_LOOPBACK;
        Ok(Self { name: name.to_owned(), index: interface.index(), link_type, queues, loops_back })
    }

    /// All interfaces, where that is what `name` says and none is called so.
    pub fn every(name: &str) -> Option<Self> {
        let is_every = name == EVERY && Interface::by_name(name).is_err();
        // Frames of all of them begin with libpcap's own header, which says of which kind each is.
        is_every.then(|| Self {
            name: EVERY.into(),
            index: 0,
            link_type: LinkType::LINUX_SLL2,
            queues: 1,
            loops_back: false,
        })
    }

    /// Frames to be sent that it has dropped since it was made (`tx_dropped`); 0 where it does not
    /// say.
    pub fn dropped_sending(&self) -> u64 {
        // Eight figures of receiving come first; the drops are the fourth of sending.
        self.counted(11)
    }

    /// The same of frames that arrived: no room in the queue of a CPU, or in the NIC's.
    pub fn dropped_receiving(&self) -> u64 {
        self.counted(3)
    }

    /// A figure of the kernel's table of devices.
    fn counted(&self, place: usize) -> u64 {
        // The table of this thread's network namespace: the process's may be another.
        let table = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap_or_default();
        let figures = table.lines().find_map(|line| line.trim().strip_prefix(self.name.as_str())?.strip_prefix(':'));
        figures.and_then(|figures| figures.split_whitespace().nth(place)?.parse().ok()).unwrap_or(0)
    }

    /// Whether its driver takes frames from hardware. What is made of software hands them over, and
    /// whoever takes them does so later.
    pub fn has_hardware(&self) -> bool {
        device::is_on_a_bus(&c_name(&self.name)).unwrap_or(false)
    }

    /// Whether it is there and up; all interfaces together always are.
    pub fn is_up(&self) -> bool {
        self.index == 0 || device::flags(&c_name(&self.name)).is_ok_and(|flags| i32::from(flags) & libc::IFF_UP != 0)
    }

    /// Whether its frames begin with an Ethernet header.
    pub fn is_ethernet(&self) -> bool {
        self.link_type == LinkType::ETHERNET
    }
}

/// A name as the kernel takes it. One with a zero byte in it is no interface's, and neither is an
/// empty one.
fn c_name(name: &str) -> CString {
    CString::new(name).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_ethernet_with_a_queue_and_no_interface_is_named() {
        let lo = Link::by_name("lo").unwrap();
        assert!(lo.is_ethernet() && lo.queues >= 1 && lo.index >= 1 && lo.loops_back && !lo.has_hardware());
        assert!(matches!(Link::by_name("nosuch0"), Err(Error::NoInterface(n)) if n == "nosuch0"));
    }
}
