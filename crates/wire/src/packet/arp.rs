//! ARP (RFC 826), as IPv4 uses it on Ethernet and 802.11.

use std::fmt;
use std::net::Ipv4Addr;

use record::{Instant, Realtime};

use super::address::{be16, be32};
use super::ether_type;
use super::span::Span;

/// A question who has an address, or an answer to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arp {
    /// The packet's number in its capture, from 1.
    pub number: u64,
    /// When it was captured.
    pub at: Instant<Realtime>,
    /// Whether it went to all hosts of the link; one to a single host is a question whether that is
    /// still there.
    pub to_all: bool,
    /// 1 for a question, 2 for an answer.
    pub operation: u16,
    /// Who sent it; unspecified for a host that looks whether its address is free (RFC 5227).
    pub sender: Ipv4Addr,
    /// Its hardware address.
    pub hardware: [u8; 6],
    /// The address that is asked for; of an answer, who asked.
    pub target: Ipv4Addr,
}

impl Arp {
    /// [`Arp::operation`] of a question.
    pub const QUESTION: u16 = 1;
    /// [`Arp::operation`] of an answer.
    pub const ANSWER: u16 = 2;

    /// Reads one; `None` where it was cut short, or is of other addresses.
    pub(super) fn parse(span: Span<'_>, number: u64, at: Instant<Realtime>, to_all: bool) -> Option<Self> {
        let packet = span.data.first_chunk::<28>()?;
        // The types of the addresses, and the lengths of a MAC address and of one of IPv4.
        let is_known = be16(packet, 2) == ether_type::IPV4 && packet[4..6] == [6, 4];
        let mut hardware = [0; 6];
        hardware.copy_from_slice(&packet[8..14]);
        is_known.then(|| Self {
            number,
            at,
            to_all,
            operation: be16(packet, 6),
            sender: be32(packet, 14).into(),
            hardware,
            target: be32(packet, 24).into(),
        })
    }
}

impl fmt::Display for Arp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.operation {
            Self::QUESTION => write!(f, "ARP who has {} tell {}", self.target, self.sender),
            Self::ANSWER => write!(f, "ARP {} is at {:x?}", self.sender, self.hardware),
            other => write!(f, "ARP operation {other} of {}", self.sender),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_and_answers_are_read_and_what_is_cut_is_none() {
        let mut packet = vec![0, 1, 8, 0, 6, 4, 0, 2, 2, 0, 0, 0, 0, 1, 192, 0, 2, 1, 2, 0, 0, 0, 0, 9, 192, 0, 2, 9];
        let parse = |packet: &[u8]| Arp::parse(Span::whole(packet), 7, Instant::from_nanos(5), false);
        let arp = parse(&packet).unwrap();
        assert_eq!((arp.operation, arp.hardware), (Arp::ANSWER, [2, 0, 0, 0, 0, 1]));
        assert_eq!((arp.sender, arp.target), ([192, 0, 2, 1].into(), [192, 0, 2, 9].into()));
        assert_eq!(arp.to_string(), "ARP 192.0.2.1 is at [2, 0, 0, 0, 0, 1]");
        (0..28).for_each(|cut| assert_eq!(parse(&packet[..cut]), None));
        packet[4] = 8;
        assert_eq!(parse(&packet), None);
    }
}
