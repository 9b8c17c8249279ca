//! From a frame to the segment, datagram or message in it, through whatever lies around it.

use std::net::{IpAddr, SocketAddr, SocketAddrV4};

use record::Instant;

use super::address::{be16, be32, ipv4_at};
use super::arp::Arp;
use super::checksum::tcp_integrity;
use super::ethernet::{Ethernet, VlanTag};
use super::fragment::Reassembly;
use super::gre::Gre;
use super::icmp::Icmp;
use super::inner::Inner;
use super::span::{Layer, NotDecoded, Span};
use super::tcp::{OptionList, Tcp};
use super::udp::{Head, Udp};
use super::vxlan::Vxlan;
use super::{
    CookedV1, CookedV2, erf, ether_type, geneve, gtp, ip_protocol, ipv4, ipv6, loopback, mpls, ppp, pppoe, wireless,
};
use crate::capture::{Frame, LinkType};
use crate::payload::{Payload, is_stream};
use crate::segment::{Flags, Integrity, Network, Segment};
use crate::shard::Shard;

/// How many tunnels within each other are opened, and how many tags and PPPoE headers within each
/// frame.
pub const DEEPEST: u8 = 8;

/// What was found in a frame. `S` is a [`Segment`], a reference to one where frame after frame is
/// read, or nothing where it is written elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packet<S = Segment> {
    /// A TCP segment.
    Tcp(S),
    /// A UDP datagram that is no tunnel.
    Udp(Udp),
    /// An ICMP or ICMPv6 message.
    Icmp(Icmp),
    /// A question or an answer of ARP.
    Arp(Arp),
}

impl Packet<()> {
    /// The same with the segment that was written.
    pub(crate) fn with_segment(self, segment: &Segment) -> Packet<&Segment> {
        match self {
            Self::Tcp(()) => Packet::Tcp(segment),
            Self::Udp(udp) => Packet::Udp(udp),
            Self::Icmp(icmp) => Packet::Icmp(icmp),
            Self::Arp(arp) => Packet::Arp(arp),
        }
    }
}

/// Reads a frame down to TCP, UDP, ICMP or ARP, opening tags, tunnels and fragments. Tunnels count
/// in [`crate::Network::tunnels`].
///
/// A segment of a frame without a time has time 0.
///
/// # Errors
/// [`NotDecoded`], to be counted: what lies in the frame instead, or why it is not known.
pub fn dissect(frame: &Frame<'_>, reassembly: &mut Reassembly) -> Result<Packet, NotDecoded> {
    dissect_keeping(frame, reassembly, &mut Payload::default())
}

/// The same, with what DNS, a handshake of TLS or QUIC carried.
///
/// # Errors
/// Those of [`dissect`].
pub fn dissect_keeping(
    frame: &Frame<'_>,
    reassembly: &mut Reassembly,
    payload: &mut Payload,
) -> Result<Packet, NotDecoded> {
    let mut segment = Segment::blank();
    if plain_segment(frame, &mut segment, &Shard::WHOLE, payload).is_some() {
        return Ok(Packet::Tcp(segment));
    }
    Ok(match descend(frame, reassembly, &mut segment, payload)? {
        Packet::Tcp(()) => Packet::Tcp(segment),
        Packet::Udp(udp) => Packet::Udp(udp),
        Packet::Icmp(icmp) => Packet::Icmp(icmp),
        Packet::Arp(arp) => Packet::Arp(arp),
    })
}

/// The segment of a frame of the commonest form, written over `segment`: TCP in IPv4 in Ethernet,
/// without tags, IP options, fragments or padding cut off, which nearly all packets are. `None` for
/// every other frame, for one that is damaged and for one whose payload is kept, for which
/// [`descend`] is to be asked. The segment is too large to be handed from function to function for
/// millions of frames.
#[inline(always)]
pub(crate) fn plain_segment(frame: &Frame<'_>, segment: &mut Segment, shard: &Shard, kept: &Payload) -> Option<Plain> {
    // The three headers without their options.
    let head = frame.data.first_chunk::<54>()?;
    let total = u32::from(be16(head, 16));
    // An EtherType, version and length of the header; neither offset nor more fragments, and the
    // protocol.
    let is_tcp = be32(head, 12) >> 8 == 0x08_0045 && be32(head, 20) & 0x3fff_00ff == u32::from(ip_protocol::TCP);
    let is_whole = total >= 40 && frame.original_length >= 14 + total;
    let (ip, tcp) = (head[14..].first_chunk::<20>()?, head[34..].first_chunk::<20>()?);
    let fixed = Tcp::fixed(tcp);
    let is_possible = (20..=total.wrapping_sub(20)).contains(&fixed.header_bytes.into());
    if !(is_tcp && is_whole && is_possible && frame.link_type == LinkType::ETHERNET) {
        return None;
    }
    let [source, destination] = [12, 16].map(|at| ipv4_at(ip, at));
    let ends = [SocketAddrV4::new(source, fixed.source_port), SocketAddrV4::new(destination, fixed.destination_port)];
    if !shard.has_v4(ends[0], ends[1]) {
        return Some(Plain::OfOtherShard);
    }
    // Its payload is kept.
    if is_stream(fixed.source_port, fixed.destination_port) {
        return None;
    }
    let captured = frame.data.get(34..34 + total as usize - 20).unwrap_or(&frame.data[34..]);
    let payload = captured.get(fixed.header_bytes.into()..).unwrap_or_default();
    if kept.wants((fixed.source_port, fixed.destination_port), fixed.flags, payload) {
        return None;
    }
    let carried = Carried {
        source: source.into(),
        destination: destination.into(),
        network: ipv4::network(ip),
        tcp: Span { data: captured, wire: total - 20 },
        summed: true,
    };
    carried.write(frame, segment, fixed, OptionList::of(captured, fixed.header_bytes));
    Some(Plain::Written)
}

/// What became of a segment of the commonest form.
pub(crate) enum Plain {
    /// It is written.
    Written,
    /// It is of another shard, and most of it was not read.
    OfOtherShard,
}

/// Reads any frame, as [`dissect`]; a segment is written over `segment`.
///
/// # Errors
/// Those of [`dissect`]; `segment` then holds nothing of meaning.
pub(crate) fn descend(
    frame: &Frame<'_>,
    reassembly: &mut Reassembly,
    segment: &mut Segment,
    kept: &mut Payload,
) -> Result<Packet<()>, NotDecoded> {
    let span = Span { data: frame.data, wire: frame.original_length };
    Descent { frame, reassembly, segment, kept, tunnels: 0, to_all: false, in_fragments: false }.open(span)
}

/// A segment's place in its packet, with what the headers around it say.
struct Carried<'a> {
    source: IpAddr,
    destination: IpAddr,
    network: Network,
    tcp: Span<'a>,
    /// See [`Inner::summed`].
    summed: bool,
}

impl Carried<'_> {
    #[inline(always)]
    fn write(self, frame: &Frame<'_>, segment: &mut Segment, tcp: Tcp, options: OptionList<'_>) {
        segment.number = frame.number;
        segment.at = frame.at.unwrap_or(Instant::from_nanos(0));
        segment.source = SocketAddr::new(self.source, tcp.source_port);
        segment.destination = SocketAddr::new(self.destination, tcp.destination_port);
        segment.seq = tcp.seq;
        segment.ack = tcp.ack;
        segment.flags = tcp.flags;
        segment.window = tcp.window;
        segment.header_bytes = tcp.header_bytes;
        let carried = unpadded(frame, self.tcp, &tcp);
        segment.payload = carried.wire - u32::from(tcp.header_bytes);
        segment.network = self.network;
        segment.integrity = if self.summed && carried.data.len() == carried.wire as usize {
            tcp_integrity(self.source, self.destination, carried.data)
        } else {
            Integrity::NotChecked
        };
        options.read_into(&mut segment.options);
    }
}

/// A segment without the padding of a frame of the least length, with or without a VLAN tag, where
/// IP's length counts it, as some gear has it. Padding is zero, as far as it was captured, and its
/// sender does not say by PSH that this is all it had.
#[inline(always)]
fn unpadded<'a>(frame: &Frame<'_>, tcp: Span<'a>, header: &Tcp) -> Span<'a> {
    /// Ethernet's least frame, without its checksum.
    const LEAST: u32 = 60;
    if frame.original_length != LEAST || !matches!(tcp.wire, 22 | 26) || header.flags.contains(Flags::PSH) {
        return tcp;
    }
    let length = u32::from(header.header_bytes);
    let rest = tcp.data.get(length as usize..).unwrap_or_default();
    if rest.iter().all(|byte| *byte == 0) { tcp.limit(length) } else { tcp }
}

/// A frame on its way down, with what it may need there.
struct Descent<'a, 's> {
    frame: &'a Frame<'a>,
    reassembly: &'a mut Reassembly,
    segment: &'s mut Segment,
    kept: &'s mut Payload,
    /// Tunnels opened so far.
    tunnels: u8,
    /// The Ethernet frame around it went to several hosts.
    to_all: bool,
    /// The packet came in fragments.
    in_fragments: bool,
}

impl Descent<'_, '_> {
    fn open(self, span: Span<'_>) -> Result<Packet<()>, NotDecoded> {
        let (kind, rest) = match self.frame.link_type {
            LinkType::ETHERNET => return self.bridged(span),
            LinkType::LINUX_SLL => CookedV1::parse(span).map(|(header, rest)| (header.protocol, rest))?,
            LinkType::LINUX_SLL2 => CookedV2::parse(span).map(|(header, rest)| (header.protocol, rest))?,
            LinkType::NULL | LinkType::LOOP => loopback::open(span)?,
            // 12 and 14 are what some systems write for raw IP instead of 101.
            LinkType::RAW | LinkType(12 | 14) | LinkType::IPV4 | LinkType::IPV6 => return self.versioned(span),
            LinkType::PPP | LinkType::PPP_SERIAL | LinkType::C_HDLC => ppp::open(span)?,
            LinkType::IEEE802_11 => wireless::open(span)?,
            LinkType::IEEE802_11_RADIOTAP => wireless::open(wireless::radiotap(span)?)?,
            LinkType::IEEE802_11_PRISM | LinkType::IEEE802_11_AVS => wireless::open(wireless::prism(span)?)?,
            LinkType::ERF => return self.bridged(erf::open(span)?),
            LinkType::PPP_ETHER => (ether_type::PPPOE_SESSION, span),
            other => return Err(NotDecoded::LinkType(other)),
        };
        self.typed(kind, rest)
    }

    fn bridged(mut self, span: Span<'_>) -> Result<Packet<()>, NotDecoded> {
        let (ethernet, rest) = Ethernet::parse(span)?;
        self.to_all = ethernet.destination[0] & 1 == 1;
        self.typed(ethernet.ether_type, rest)
    }

    /// Passes tags and PPPoE to IP.
    fn typed(self, mut kind: u16, mut span: Span<'_>) -> Result<Packet<()>, NotDecoded> {
        for _ in 0..DEEPEST {
            match kind {
                ether_type::IPV4 => {
                    let total = span.data.get(2..4).map_or(0, |l| u16::from_be_bytes([l[0], l[1]]).into());
                    let span = Self::unsnapped(self.frame, span, total);
                    return self.network(ipv4::open(span)?);
                }
                ether_type::IPV6 => {
                    let payload = span.data.get(4..6).map_or(0, |l| u32::from(u16::from_be_bytes([l[0], l[1]])));
                    let span = Self::unsnapped(self.frame, span, payload + 40);
                    return self.network(ipv6::open(span)?);
                }
                ether_type::ARP => return self.arp(span),
                ether_type::PPPOE_SESSION => (kind, span) = pppoe::open(span)?,
                // The tag of two bytes stands before the frame that the fabric carries.
                ether_type::FABRIC_PATH => return self.deeper()?.bridged(span.skip(2)),
                ether_type::MPLS | ether_type::MPLS_UPSTREAM => {
                    return match mpls::open(span)? {
                        (mpls::Below::Ip, rest) => self.versioned(rest),
                        (mpls::Below::Ethernet, rest) => self.deeper()?.bridged(rest),
                    };
                }
                tag if VlanTag::announced_by(tag) => {
                    let (tag, rest) = VlanTag::parse(span)?;
                    (kind, span) = (tag.ether_type, rest);
                }
                other => return Err(NotDecoded::EtherType(other)),
            }
        }
        Err(NotDecoded::Depth)
    }

    fn arp(&self, span: Span<'_>) -> Result<Packet<()>, NotDecoded> {
        let at = self.frame.at.unwrap_or(Instant::from_nanos(0));
        let missing = || {
            if span.data.len() < 28 && span.wire >= 28 {
                NotDecoded::Truncated(Layer::Arp)
            } else {
                NotDecoded::EtherType(ether_type::ARP)
            }
        };
        Arp::parse(span, self.frame.number, at, self.to_all).map(Packet::Arp).ok_or_else(missing)
    }

    /// Some tools write the captured length as the original one when they cut packets short. A
    /// frame that ends where the capture says it does, in the middle of its IP packet, was longer
    /// on the wire.
    fn unsnapped<'f>(frame: &Frame<'_>, span: Span<'f>, total: u32) -> Span<'f> {
        let to_the_end = span.data.as_ptr_range().end == frame.data.as_ptr_range().end;
        // Both headers are there, so that it was cut for their sake.
        let says_whole = frame.original_length as usize == frame.data.len() && span.data.len() >= 40;
        if to_the_end && says_whole && total > span.wire { Span { wire: total, ..span } } else { span }
    }

    /// IP with its version in its first bits alone.
    fn versioned(self, span: Span<'_>) -> Result<Packet<()>, NotDecoded> {
        match span.header::<1>(Layer::Ipv4)?[0] >> 4 {
            4 => self.network(ipv4::open(span)?),
            6 => self.network(ipv6::open(span)?),
            version => Err(NotDecoded::IpVersion(version)),
        }
    }

    fn network(mut self, mut inner: Inner<'_>) -> Result<Packet<()>, NotDecoded> {
        inner.network.tunnels = self.tunnels;
        let Some((key, offset, more)) = inner.fragment else { return self.transport(&inner) };
        let whole = self.reassembly.add(key, (offset, more), inner.payload, self.frame)?;
        self.in_fragments = true;
        self.transport(&Inner { fragment: None, payload: whole.span(), ..inner })
    }

    fn transport(self, inner: &Inner<'_>) -> Result<Packet<()>, NotDecoded> {
        match inner.protocol {
            ip_protocol::TCP => {
                let Inner { source, destination, network, payload, summed, .. } = *inner;
                let (tcp, options) = Tcp::parse(payload)?;
                let carried = Carried { source, destination, network, tcp: payload, summed };
                carried.write(self.frame, self.segment, tcp, options);
                self.kept.keep_segment(self.frame, self.segment, payload.skip(tcp.header_bytes.into()));
                Ok(Packet::Tcp(()))
            }
            ip_protocol::UDP => {
                let (source, destination, payload) = Udp::open(inner.payload)?;
                if Vxlan::on_port(destination)
                    && let Ok((_, rest)) = Vxlan::parse(payload)
                {
                    return self.deeper()?.bridged(rest);
                }
                if destination == geneve::PORT
                    && let Ok((kind, rest)) = geneve::open(payload)
                {
                    return match kind {
                        ether_type::BRIDGED => self.deeper()?.bridged(rest),
                        kind => self.deeper()?.typed(kind, rest),
                    };
                }
                if destination == gtp::PORT
                    && let Ok(rest) = gtp::open(payload)
                {
                    return self.deeper()?.versioned(rest);
                }
                let udp = Udp {
                    number: self.frame.number,
                    at: self.frame.at.unwrap_or(Instant::from_nanos(0)),
                    source: SocketAddr::new(inner.source, source),
                    destination: SocketAddr::new(inner.destination, destination),
                    payload: payload.wire,
                    network: inner.network,
                    in_fragments: self.in_fragments,
                    head: Head::of(payload.data),
                };
                self.kept.keep_datagram(self.frame, &udp, payload, inner.network.ecn);
                Ok(Packet::Udp(udp))
            }
            ip_protocol::ICMP | ip_protocol::ICMPV6 => {
                let v6 = inner.protocol == ip_protocol::ICMPV6;
                let at = self.frame.at.unwrap_or(Instant::from_nanos(0));
                let icmp = Icmp::parse(inner.payload, inner.source, inner.destination, v6)?;
                let icmp = Icmp { number: self.frame.number, at, ..icmp };
                self.kept.keep_error(self.frame, &icmp);
                Ok(Packet::Icmp(icmp))
            }
            ip_protocol::IPV4 | ip_protocol::IPV6 => self.deeper()?.versioned(inner.payload),
            ip_protocol::GRE => {
                let (gre, rest) = Gre::parse(inner.payload)?;
                match gre.protocol {
                    ether_type::BRIDGED => self.deeper()?.bridged(rest),
                    protocol => self.deeper()?.typed(protocol, rest),
                }
            }
            other => Err(NotDecoded::IpProtocol(other)),
        }
    }

    fn deeper(mut self) -> Result<Self, NotDecoded> {
        self.tunnels += 1;
        if self.tunnels > DEEPEST { Err(NotDecoded::Depth) } else { Ok(self) }
    }
}
