//! ICMP (RFC 792, 1191) and ICMPv6 (RFC 4443): errors, with the connection of the packet that they
//! quote.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use record::{Instant, Realtime, SeqNumber};

use super::address::{be16, be32};
use super::span::{Layer, NotDecoded, Span};
use super::{ip_protocol, ipv4, ipv6};

/// An ICMP message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Icmp {
    /// The packet's number in its capture, from 1.
    pub number: u64,
    /// When it was captured.
    pub at: Instant<Realtime>,
    /// Who sent it: for an error a router or the receiver.
    pub source: IpAddr,
    /// To whom.
    pub destination: IpAddr,
    /// Whether it is ICMPv6.
    pub v6: bool,
    /// Type.
    pub kind: u8,
    /// Code.
    pub code: u8,
    /// The next hop's MTU in bytes, from "fragmentation needed" or "packet too big"; 0 where an old
    /// router does not show.
    pub next_hop_mtu: Option<u32>,
    /// The TCP or UDP packet that an error quotes.
    pub quoted: Option<Quoted>,
    /// The sender and the receiver of the packet that an error quotes, whatever that is of.
    pub hosts: Option<[IpAddr; 2]>,
    /// What an echo request or its answer says.
    pub echo: Option<EchoOf>,
    /// What neighbour discovery says.
    pub neighbour: Option<NeighbourOf>,
}

/// An echo request, or the answer to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EchoOf {
    /// It is the request.
    pub is_request: bool,
    /// What the requests of one program have in common.
    pub identifier: u16,
    /// The number of the request.
    pub sequence: u16,
}

/// A message of neighbour discovery (RFC 4861, sections 4.3 and 4.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NeighbourOf {
    /// Who has this address?
    Question {
        /// The address.
        target: IpAddr,
    },
    /// The sender has it.
    Answer {
        /// The address.
        target: IpAddr,
        /// Its hardware address, where it is of Ethernet.
        hardware: Option<[u8; 6]>,
    },
}

/// The beginning of a packet that an ICMP error quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quoted {
    /// Its sender.
    pub source: SocketAddr,
    /// Its receiver.
    pub destination: SocketAddr,
    /// [`ip_protocol::TCP`] or [`ip_protocol::UDP`].
    pub protocol: u8,
    /// TCP's sequence number.
    pub seq: Option<SeqNumber>,
    /// Bytes of the IP packet's payload on the wire.
    pub bytes: u32,
}

impl Icmp {
    /// Reads a message from `source` to `destination`.
    ///
    /// # Errors
    /// Where its first four bytes are not there.
    pub(super) fn parse(span: Span<'_>, source: IpAddr, destination: IpAddr, v6: bool) -> Result<Self, NotDecoded> {
        let [kind, code, ..] = *span.header::<4>(Layer::Icmp)?;
        let mut icmp = Self {
            number: 0,
            at: Instant::from_nanos(0),
            source,
            destination,
            v6,
            kind,
            code,
            next_hop_mtu: None,
            quoted: None,
            hosts: None,
            echo: None,
            neighbour: None,
        };
        if let Some(header) = span.data.first_chunk::<8>() {
            icmp.next_hop_mtu = match (v6, kind, code) {
                (false, 3, 4) => Some(be16(header, 6).into()),
                (true, 2, _) => Some(be32(header, 4)),
                _ => None,
            };
            if icmp.is_error() {
                let found = quoted(span.skip(8), v6);
                icmp.hosts = found.map(|(hosts, _)| hosts);
                icmp.quoted = found.and_then(|(_, quoted)| quoted);
            }
            let is_request = kind == if v6 { 128 } else { 8 };
            if is_request || kind == if v6 { 129 } else { 0 } {
                icmp.echo = Some(EchoOf { is_request, identifier: be16(header, 4), sequence: be16(header, 6) });
            }
            if v6 && matches!(kind, 135 | 136) {
                icmp.neighbour = neighbour(span.data, kind == 135);
            }
        }
        Ok(icmp)
    }

    /// Whether it tells a sender that something became of a packet.
    pub fn is_error(&self) -> bool {
        if self.v6 { self.kind < 128 } else { matches!(self.kind, 3 | 4 | 5 | 11 | 12) }
    }

    /// Type and code in words (the registries of IANA, and RFC 1812, section 5.2.7.1).
    pub const fn meaning(v6: bool, kind: u8, code: u8) -> &'static str {
        match (v6, kind, code) {
            (false, 3, 0) => "network unreachable",
            (false, 3, 1) | (true, 1, 3) => "host unreachable",
            (false, 3, 2) => "protocol unreachable",
            (false, 3, 3) | (true, 1, 4) => "port unreachable",
            (false, 3, 4) => "fragmentation needed",
            (false, 3, 5) => "source route failed",
            (false, 3, 6) => "network unknown",
            (false, 3, 7) => "host unknown",
            (false, 3, 9) => "network administratively prohibited",
            (false, 3, 10) => "host administratively prohibited",
            (false, 3, 13) | (true, 1, 1) => "communication administratively prohibited",
            (true, 1, 0) => "no route to the destination",
            (true, 1, 5) => "source address failed policy",
            (true, 1, 6) => "route rejected",
            (false, 3, _) | (true, 1, _) => "unreachable",
            (true, 2, _) => "packet too big",
            (false, 4, _) => "source quench",
            (false, 5, _) | (true, 137, _) => "redirect",
            (false, 11, 0) => "time to live exceeded",
            (true, 3, 0) => "hop limit exceeded",
            (false, 11, _) | (true, 3, _) => "fragment reassembly time exceeded",
            (false, 12, _) | (true, 4, _) => "parameter problem",
            _ => "error",
        }
    }
}

/// The target, and the hardware address in the options.
fn neighbour(message: &[u8], is_question: bool) -> Option<NeighbourOf> {
    /// The option with the address of the target, of 8 bytes for Ethernet.
    const TARGET: [u8; 2] = [2, 1];
    let target = IpAddr::from(*message.get(8..)?.first_chunk::<16>()?);
    if is_question {
        return Some(NeighbourOf::Question { target });
    }
    let mut options = message.get(24..)?;
    let mut hardware = None;
    while let [kind, length, ..] = *options
        && length > 0
    {
        if [kind, length] == TARGET {
            hardware = options.get(2..).and_then(|address| address.first_chunk::<6>()).copied();
        }
        options = options.get(usize::from(length) * 8..).unwrap_or_default();
    }
    Some(NeighbourOf::Answer { target, hardware })
}

fn quoted(span: Span<'_>, v6: bool) -> Option<([IpAddr; 2], Option<Quoted>)> {
    // Only the beginning is quoted, so the length in its IP header goes beyond this message. 65,575
    // is the most that IPv6 can say.
    let span = Span { data: span.data, wire: 65_575 };
    let inner = if v6 { ipv6::open(span) } else { ipv4::open(span) }.ok()?;
    let hosts = [inner.source, inner.destination];
    let has_ports = matches!(inner.protocol, ip_protocol::TCP | ip_protocol::UDP);
    let Some(first) = inner.payload.data.first_chunk::<4>().filter(|_| has_ports) else { return Some((hosts, None)) };
    let seq = inner.payload.data.first_chunk::<8>().filter(|_| inner.protocol == ip_protocol::TCP);
    let quoted = Quoted {
        source: SocketAddr::new(inner.source, be16(first, 0)),
        destination: SocketAddr::new(inner.destination, be16(first, 2)),
        protocol: inner.protocol,
        seq: seq.map(|header| SeqNumber(be32(header, 4))),
        bytes: inner.payload.wire,
    };
    Some((hosts, Some(quoted)))
}

impl fmt::Display for Icmp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = if self.v6 { "ICMPv6" } else { "ICMP" };
        write!(f, "{version} {} > {} type {} code {}", self.source, self.destination, self.kind, self.code)?;
        match self.next_hop_mtu {
            Some(mtu) => write!(f, " next-hop MTU {mtu}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fragmentation_needed_names_the_connection_and_the_mtu() {
        let mut message = vec![3, 4, 0, 0, 0, 0, 0x05, 0x14];
        let ip = ipv4::Ipv4 {
            source: [10, 0, 0, 1].into(),
            destination: [10, 0, 0, 2].into(),
            protocol: 6,
            id: 1,
            dont_fragment: true,
            more_fragments: false,
            fragment_offset: 0,
            ttl: 63,
            traffic_class: 0,
        };
        ip.emit(1480, &mut message);
        message.extend_from_slice(&[0x30, 0x39, 0, 80, 0, 0, 0, 9]);
        let (router, host) = ("10.9.9.9".parse().unwrap(), "10.0.0.1".parse().unwrap());
        let icmp = Icmp::parse(Span::whole(&message), router, host, false).unwrap();
        assert_eq!(icmp.next_hop_mtu, Some(1300));
        let quoted = icmp.quoted.unwrap();
        assert_eq!(
            (quoted.source, quoted.destination),
            ("10.0.0.1:12345".parse().unwrap(), "10.0.0.2:80".parse().unwrap())
        );
        assert_eq!((quoted.seq, quoted.bytes), (Some(SeqNumber(9)), 1480));
        for cut in 0..message.len() {
            let _ = Icmp::parse(Span { data: &message[..cut], wire: 60 }, router, host, false);
        }
    }
}
