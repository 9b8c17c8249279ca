//! From a frame to the segment, datagram or message in it, through whatever lies around it.

use std::net::SocketAddr;

use model::Instant;

use super::ethernet::{Ethernet, VlanTag};
use super::fragment::Reassembly;
use super::gre::Gre;
use super::icmp::Icmp;
use super::ipv6::Inner;
use super::span::{Span, Unread};
use super::tcp::Tcp;
use super::udp::Udp;
use super::vxlan::Vxlan;
use super::{CookedV1, CookedV2, ether_type, ip_protocol, ipv4, ipv6, loopback, pppoe};
use crate::capture::{Frame, LinkType};
use crate::segment::Segment;

/// How many tunnels within each other are opened, and how many tags and PPPoE headers within each frame.
pub const DEEPEST: u8 = 8;

/// What was found in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packet {
    /// A TCP segment.
    Tcp(Segment),
    /// A UDP datagram that is no tunnel.
    Udp(Udp),
    /// An ICMP or ICMPv6 message.
    Icmp(Icmp),
}

/// Reads a frame down to TCP, UDP or ICMP, opening tags, tunnels and fragments. Tunnels count in [`crate::Network::tunnels`].
///
/// A segment of a frame without a time bears 0.
///
/// # Errors
/// [`Unread`], to be counted: what lies in the frame instead, or why it cannot be told.
#[inline]
pub fn dissect(frame: &Frame<'_>, reassembly: &mut Reassembly) -> Result<Packet, Unread> {
    let span = Span { data: frame.data, wire: frame.original_length };
    // Nearly all captures are of this form, and it needs none of the state below.
    if frame.link_type == LinkType::ETHERNET
        && let Some([.., 0x08, 0x00]) = frame.data.first_chunk::<14>()
    {
        return network(frame, ether_type::IPV4, span.skip(14), reassembly, 0);
    }
    beneath_link(frame, span, reassembly)
}

fn beneath_link(frame: &Frame<'_>, span: Span<'_>, reassembly: &mut Reassembly) -> Result<Packet, Unread> {
    let (kind, rest) = match frame.link_type {
        LinkType::ETHERNET => return bridged(frame, span, reassembly, 0),
        LinkType::LINUX_SLL => CookedV1::parse(span).map(|(header, rest)| (header.protocol, rest))?,
        LinkType::LINUX_SLL2 => CookedV2::parse(span).map(|(header, rest)| (header.protocol, rest))?,
        LinkType::NULL | LinkType::LOOP => loopback::open(span)?,
        // 12 and 14 are what some systems write for raw IP instead of 101.
        LinkType::RAW | LinkType(12 | 14) | LinkType::IPV4 | LinkType::IPV6 => {
            return versioned(frame, span, reassembly, 0);
        }
        LinkType::PPP_ETHER => (ether_type::PPPOE_SESSION, span),
        other => return Err(Unread::LinkType(other)),
    };
    typed(frame, kind, rest, reassembly, 0)
}

fn bridged(frame: &Frame<'_>, span: Span<'_>, reassembly: &mut Reassembly, tunnels: u8) -> Result<Packet, Unread> {
    let (ethernet, rest) = Ethernet::parse(span)?;
    typed(frame, ethernet.ether_type, rest, reassembly, tunnels)
}

/// Passes tags and PPPoE to IP.
fn typed(
    frame: &Frame<'_>,
    mut kind: u16,
    mut span: Span<'_>,
    reassembly: &mut Reassembly,
    tunnels: u8,
) -> Result<Packet, Unread> {
    for _ in 0..DEEPEST {
        match kind {
            ether_type::IPV4 | ether_type::IPV6 => return network(frame, kind, span, reassembly, tunnels),
            ether_type::PPPOE_SESSION => (kind, span) = pppoe::open(span)?,
            tag if VlanTag::announced_by(tag) => {
                let (tag, rest) = VlanTag::parse(span)?;
                (kind, span) = (tag.ether_type, rest);
            }
            other => return Err(Unread::EtherType(other)),
        }
    }
    Err(Unread::Depth)
}

fn versioned(frame: &Frame<'_>, span: Span<'_>, reassembly: &mut Reassembly, tunnels: u8) -> Result<Packet, Unread> {
    match span.data.first().map(|byte| byte >> 4) {
        None => Err(Unread::Truncated(super::Layer::Ipv4)),
        Some(4) => network(frame, ether_type::IPV4, span, reassembly, tunnels),
        Some(6) => network(frame, ether_type::IPV6, span, reassembly, tunnels),
        Some(version) => Err(Unread::IpVersion(version)),
    }
}

#[inline]
fn network(
    frame: &Frame<'_>,
    kind: u16,
    span: Span<'_>,
    reassembly: &mut Reassembly,
    tunnels: u8,
) -> Result<Packet, Unread> {
    // The version is said twice; where the two differ it is neither.
    let expected = if kind == ether_type::IPV4 { 4 } else { 6 };
    if let Some(first) = span.data.first()
        && first >> 4 != expected
    {
        return Err(Unread::IpVersion(first >> 4));
    }
    let mut inner = if kind == ether_type::IPV4 { ipv4::open(span)? } else { ipv6::open(span)? };
    inner.network.tunnels = tunnels;
    if inner.protocol == ip_protocol::TCP && inner.fragment.is_none() {
        return segment(frame, &inner);
    }
    other_protocol(frame, &inner, reassembly, tunnels)
}

#[inline]
fn segment(frame: &Frame<'_>, inner: &Inner<'_>) -> Result<Packet, Unread> {
    let tcp = Tcp::parse(inner.payload)?;
    Ok(Packet::Tcp(Segment {
        number: frame.number,
        at: frame.at.unwrap_or(Instant::from_nanos(0)),
        source: SocketAddr::new(inner.source, tcp.source_port),
        destination: SocketAddr::new(inner.destination, tcp.destination_port),
        seq: tcp.seq,
        ack: tcp.ack,
        flags: tcp.flags,
        window: tcp.window,
        header_bytes: tcp.header_bytes,
        payload: inner.payload.wire - u32::from(tcp.header_bytes),
        options: tcp.options,
        network: inner.network,
    }))
}

fn other_protocol(
    frame: &Frame<'_>,
    inner: &Inner<'_>,
    reassembly: &mut Reassembly,
    tunnels: u8,
) -> Result<Packet, Unread> {
    if let Some((key, offset, more)) = inner.fragment {
        let whole = reassembly.add(key, offset, more, inner.payload, frame.at)?;
        let (network, protocol) = (inner.network, inner.protocol);
        let put_together = Inner { network, protocol, fragment: None, payload: whole.span(), ..*inner };
        return other_protocol(frame, &put_together, reassembly, tunnels);
    }
    let deeper = tunnels + 1;
    let may_open = || if deeper > DEEPEST { Err(Unread::Depth) } else { Ok(()) };
    match inner.protocol {
        ip_protocol::TCP => segment(frame, inner),
        ip_protocol::UDP => {
            let (source, destination, payload) = Udp::open(inner.payload)?;
            if Vxlan::on_port(destination)
                && let Ok((_, rest)) = Vxlan::parse(payload)
            {
                may_open()?;
                return bridged(frame, rest, reassembly, deeper);
            }
            Ok(Packet::Udp(Udp {
                source: SocketAddr::new(inner.source, source),
                destination: SocketAddr::new(inner.destination, destination),
                payload: payload.wire,
            }))
        }
        ip_protocol::ICMP | ip_protocol::ICMPV6 => {
            let v6 = inner.protocol == ip_protocol::ICMPV6;
            Icmp::parse(inner.payload, inner.source, inner.destination, v6).map(Packet::Icmp)
        }
        ip_protocol::IPV4 | ip_protocol::IPV6 => {
            may_open()?;
            versioned(frame, inner.payload, reassembly, deeper)
        }
        ip_protocol::GRE => {
            may_open()?;
            match Gre::parse(inner.payload)? {
                (Gre { protocol: ether_type::BRIDGED, .. }, rest) => bridged(frame, rest, reassembly, deeper),
                (Gre { protocol, .. }, rest) => typed(frame, protocol, rest, reassembly, deeper),
            }
        }
        other => Err(Unread::IpProtocol(other)),
    }
}
