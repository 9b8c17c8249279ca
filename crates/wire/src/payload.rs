//! What a packet of DNS, of a TLS handshake or of QUIC carried, kept beside the packet.

use std::net::SocketAddr;

use record::{Instant, Realtime, SeqNumber};

use crate::capture::Frame;
use crate::packet::{Icmp, Span, Udp, dns, ip_protocol, quic, tls};
use crate::segment::{Ecn, Flags, Segment};

/// What DNS, TLS or QUIC have to do with a packet: its payload, where it is a datagram or a segment
/// on the ports of DNS, a segment that begins with a hello of TLS, one of a connection that is
/// [watched](Payload::watch), a datagram with a long header of QUIC, or one to or from a port of
/// its [servers](Payload::watch_server); the error, where ICMP quotes such a datagram. Of all other
/// packets nothing is kept.
#[derive(Clone, Debug)]
pub struct Payload {
    watched: Watched,
    /// The ports of servers of QUIC, a bit for each; none before the first.
    servers: Vec<u64>,
    number: u64,
    at: Instant<Realtime>,
    carrier: Carrier,
    data: Vec<u8>,
    wire: u32,
}

/// What it came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// A datagram: one message.
    Datagram {
        /// Sender.
        source: SocketAddr,
        /// Receiver, perhaps a group.
        destination: SocketAddr,
    },
    /// A segment: a piece of a stream.
    Segment {
        /// Sender.
        source: SocketAddr,
        /// Receiver.
        destination: SocketAddr,
        /// Sequence number of its first byte, or of the SYN.
        seq: SeqNumber,
        /// Control bits.
        flags: Flags,
    },
    /// A datagram that looks like QUIC: packets. Of one with a short header, the first bytes.
    Quic {
        /// Sender.
        source: SocketAddr,
        /// Receiver.
        destination: SocketAddr,
        /// The ECN bits of its IP header.
        ecn: Ecn,
    },
    /// An error that quotes a datagram.
    Error(Icmp),
}

/// Whose payload it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// DNS, multicast DNS or LLMNR.
    Dns,
    /// TLS over TCP.
    Tls,
    /// QUIC.
    Quic,
}

/// What is kept of a datagram with a short header: that, with the longest connection ID.
const SHORT: usize = 21;

impl Default for Payload {
    fn default() -> Self {
        let nowhere = SocketAddr::from(([0; 4], 0));
        let carrier = Carrier::Datagram { source: nowhere, destination: nowhere };
        // Packets are numbered from 1.
        let (watched, servers) = (Watched::default(), Vec::new());
        Self { watched, servers, number: 0, at: Instant::from_nanos(0), carrier, data: Vec::new(), wire: 0 }
    }
}

/// Whether UDP between two ports is DNS, multicast DNS or LLMNR.
pub fn is_dns(source: SocketAddr, destination: SocketAddr) -> bool {
    let is_one = |at: SocketAddr| matches!(at.port(), dns::PORT | dns::MULTICAST_PORT | dns::LLMNR_PORT);
    is_one(source) || is_one(destination)
}

/// Whether TCP between two ports is DNS.
#[inline(always)]
pub(crate) fn is_stream(source: u16, destination: u16) -> bool {
    source == dns::PORT || destination == dns::PORT
}

/// Of which connections the payload is kept, by their ports alone: a packet of another connection
/// on the same ports is kept too, and whoever asks for it finds that.
#[derive(Clone, Debug, Default)]
struct Watched {
    /// How many there are in each place; no places before the first one.
    places: Vec<u16>,
    connections: usize,
}

impl Watched {
    const PLACES: usize = 4_096;

    #[inline(always)]
    fn place(source: u16, destination: u16) -> usize {
        usize::from(source.wrapping_add(destination)) % Self::PLACES
    }

    #[inline(always)]
    fn may_have(&self, source: u16, destination: u16) -> bool {
        self.connections > 0 && self.places.get(Self::place(source, destination)).is_some_and(|n| *n > 0)
    }
}

impl Payload {
    /// Whether the payload of a segment between two ports is to be kept.
    #[inline(always)]
    pub(crate) fn wants(&self, (source, destination): (u16, u16), flags: Flags, payload: &[u8]) -> bool {
        tls::hello_at(payload).is_some()
            || self.watched.may_have(source, destination)
                && (!payload.is_empty() || flags.intersects(Flags::SYN | Flags::FIN | Flags::RST))
    }

    /// Keeps the payload of the connection between these two, either way, until it is
    /// [left](Payload::leave) as often.
    pub fn watch(&mut self, source: SocketAddr, destination: SocketAddr) {
        self.watched.places.resize(Watched::PLACES, 0);
        let place = &mut self.watched.places[Watched::place(source.port(), destination.port())];
        *place = place.saturating_add(1);
        self.watched.connections += 1;
    }

    /// Keeps it no longer.
    pub fn leave(&mut self, source: SocketAddr, destination: SocketAddr) {
        if let Some(place) = self.watched.places.get_mut(Watched::place(source.port(), destination.port())) {
            *place = place.saturating_sub(1);
            self.watched.connections = self.watched.connections.saturating_sub(1);
        }
    }

    /// Keeps datagrams with a short header of QUIC to and from this port from here on.
    pub fn watch_server(&mut self, port: u16) {
        self.servers.resize(1 << 10, 0);
        self.servers[usize::from(port) >> 6] |= 1 << (port & 63);
    }

    #[inline]
    fn serves(&self, source: SocketAddr, destination: SocketAddr) -> bool {
        let is_one = |at: SocketAddr| {
            let port = at.port();
            self.servers.get(usize::from(port) >> 6).is_some_and(|bits| bits >> (port & 63) & 1 == 1)
        };
        !self.servers.is_empty() && (is_one(source) || is_one(destination))
    }

    #[inline]
    pub(crate) fn keep_datagram(&mut self, frame: &Frame<'_>, udp: &Udp, span: Span<'_>, ecn: Ecn) {
        let Udp { source, destination, .. } = *udp;
        if is_dns(source, destination) {
            self.keep(frame, Carrier::Datagram { source, destination }, span);
        } else if quic::begins_long(span.data) {
            self.keep(frame, Carrier::Quic { source, destination, ecn }, span);
        } else if self.serves(source, destination)
            && let Some(is_short) = quic::goes_on_short(span.data)
        {
            let data = if is_short { &span.data[..span.data.len().min(SHORT)] } else { span.data };
            self.keep(frame, Carrier::Quic { source, destination, ecn }, Span { data, ..span });
        }
    }

    pub(crate) fn keep_segment(&mut self, frame: &Frame<'_>, s: &Segment, span: Span<'_>) {
        let ports = (s.source.port(), s.destination.port());
        if is_stream(ports.0, ports.1) || self.wants(ports, s.flags, span.data) {
            let Segment { source, destination, seq, flags, .. } = *s;
            self.keep(frame, Carrier::Segment { source, destination, seq, flags }, span);
        }
    }

    pub(crate) fn keep_error(&mut self, frame: &Frame<'_>, icmp: &Icmp) {
        let is_one = |q: &crate::packet::Quoted| {
            let (source, destination) = (q.source, q.destination);
            q.protocol == ip_protocol::UDP && (is_dns(source, destination) || self.serves(source, destination))
        };
        if icmp.quoted.as_ref().is_some_and(is_one) {
            self.keep(frame, Carrier::Error(*icmp), Span { data: &[], wire: 0 });
        }
    }

    fn keep(&mut self, frame: &Frame<'_>, carrier: Carrier, span: Span<'_>) {
        self.number = frame.number;
        self.at = frame.at.unwrap_or(Instant::from_nanos(0));
        self.carrier = carrier;
        self.data.clear();
        self.data.extend_from_slice(span.data);
        self.wire = span.wire;
    }

    /// Leaves it to another shard where it is not of this one.
    pub(crate) fn leave_to_others(&mut self, shard: &crate::Shard) {
        let is_own = match self.carrier {
            Carrier::Datagram { source, destination } => shard.has_datagram(source, destination),
            Carrier::Segment { source, destination, .. } => shard.has(source, destination),
            // A connection goes on from other addresses.
            Carrier::Quic { .. } => shard.is_first(),
            Carrier::Error(Icmp { quoted: Some(quoted), .. }) => shard.has_datagram(quoted.source, quoted.destination),
            Carrier::Error(_) => false,
        };
        if !is_own {
            self.number = 0;
        }
    }

    /// Whether it is of the packet with this number.
    #[inline(always)]
    pub fn is_of(&self, number: u64) -> bool {
        self.number == number
    }

    /// Whose it is.
    pub fn protocol(&self) -> Protocol {
        match self.carrier {
            Carrier::Datagram { .. } => Protocol::Dns,
            Carrier::Segment { source, destination, .. } if is_stream(source.port(), destination.port()) => {
                Protocol::Dns
            }
            Carrier::Segment { .. } => Protocol::Tls,
            Carrier::Error(Icmp { quoted: Some(q), .. }) if !is_dns(q.source, q.destination) => Protocol::Quic,
            Carrier::Error(_) => Protocol::Dns,
            Carrier::Quic { .. } => Protocol::Quic,
        }
    }

    /// The number of its packet in the capture.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// When its packet was captured.
    pub fn at(&self) -> Instant<Realtime> {
        self.at
    }

    /// What it came in.
    pub fn carrier(&self) -> &Carrier {
        &self.carrier
    }

    /// Its bytes.
    pub fn span(&self) -> Span<'_> {
        Span { data: &self.data, wire: self.wire }
    }
}
