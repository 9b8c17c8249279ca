//! Packets of TCP, one by one, and packets that were dropped.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use crate::leg::legs;
use crate::table::{Cell, NO_END, Value, set_address, set_port};
use crate::{ConnectionId, Disorder, Instant, Monotonic, Nanos, SeqNumber, columns, words};

legs! {
    /// The time between two stages of a packet.
    PacketLeg:
    /// `sched` → `driver`.
    Qdisc = "qdisc", "in the packet scheduler", Adds;
    /// `driver` → `ack`.
    Network = "network", "from the driver to the ACK of the last byte", Adds;
    /// `sched` → `ack`.
    Total = "total", "from the packet scheduler to the ACK", Total;
    /// From the packet before it at the driver.
    Gap = "gap", "between neighbours of a connection at the driver", Beside;
}

/// Which way a packet or datagram went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// From this host.
    Sent,
    /// To this host.
    Received,
}

words! { Direction: Sent = "sent", Received = "received"; }

/// Why the kernel threw a packet away: the name in its own `enum skb_drop_reason`, without
/// `SKB_DROP_REASON_` (`SOCKET_RCVBUFF`, `QDISC_DROP`, …), or the number where it names none.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DropReason(pub Arc<str>);

impl fmt::Display for DropReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// That a packet was dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dropped {
    /// When.
    pub at: Instant<Monotonic>,
    /// Why.
    pub reason: DropReason,
}

/// The flags of a TCP header (RFC 9293, section 3.1): CWR, ECE, URG, ACK, PSH, RST, SYN, FIN from
/// the highest bit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct TcpFlags(pub u8);

impl TcpFlags {
    const NAMES: [(u8, char); 8] =
        [(0x02, 'S'), (0x10, 'A'), (0x08, 'P'), (0x01, 'F'), (0x04, 'R'), (0x20, 'U'), (0x40, 'E'), (0x80, 'C')];

    /// From the letters that [`fmt::Display`] gives; `None` where one of them is no flag.
    pub fn from_letters(letters: &str) -> Option<Self> {
        let bit = |letter| Self::NAMES.into_iter().find(|&(_, name)| name == letter).map(|(bit, _)| bit);
        letters.chars().try_fold(0, |flags, letter| Some(flags | bit(letter)?)).map(Self)
    }

    /// Whether the packet opens its sender's side.
    pub const fn syn(self) -> bool {
        self.0 & 0x02 != 0
    }

    /// Whether the packet ends its sender's side.
    pub const fn fin(self) -> bool {
        self.0 & 0x01 != 0
    }
}

impl fmt::Display for TcpFlags {
    /// A letter for each flag: `SA`, `PA`, `FA`, …
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text: String =
            Self::NAMES.into_iter().filter(|(bit, _)| self.0 & bit != 0).map(|(_, letter)| letter).collect();
        f.pad(&text)
    }
}

/// A packet of a followed TCP connection: one `skb`, which on its way through the stack may be
/// several segments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Its connection; that of a SYN is known only later.
    pub connection: ConnectionId,
    /// This host's end.
    pub local: SocketAddr,
    /// The peer's end.
    pub remote: SocketAddr,
    /// Which way it went. Received packets are reported only where they were dropped.
    pub direction: Direction,
    /// Sequence number of its first byte.
    pub first_seq: SeqNumber,
    /// Its payload in bytes.
    pub bytes: u32,
    /// Its length with all headers as it entered the packet scheduler, in bytes; headers of a GSO
    /// packet once.
    pub frame_bytes: u32,
    /// Segments that it becomes on the wire: more than one for a GSO packet.
    pub segments: u32,
    /// The TCP flags.
    pub flags: TcpFlags,
    /// Whether all of its sequence numbers had been sent before.
    pub retransmission: bool,
    /// When it entered the packet scheduler; `None` where it was dropped before, or received.
    pub sched: Option<Instant<Monotonic>>,
    /// When it, or its first segment, was handed to the driver.
    pub driver: Option<Instant<Monotonic>>,
    /// When its last byte was acknowledged, by whichever copy it came; `None` for packets that take
    /// no sequence number, and where no ACK was seen.
    pub ack: Option<Instant<Monotonic>>,
    /// The time since the connection's packet before it was handed to the driver; `None` for the
    /// first, and where one of the two was not seen.
    pub gap: Option<Nanos>,
    /// Where it was dropped on this host.
    pub dropped: Option<Dropped>,
}

impl Packet {
    /// The time from `sched` to `driver`; `Ok(None)` where one of the two is missing.
    ///
    /// # Errors
    /// [`Disorder`] where the later stage has the earlier time.
    pub fn qdisc(&self) -> Result<Option<Nanos>, Disorder> {
        between(self.sched, self.driver)
    }

    /// The time from `driver` to `ack`, likewise.
    ///
    /// # Errors
    /// [`Disorder`], likewise.
    pub fn network(&self) -> Result<Option<Nanos>, Disorder> {
        between(self.driver, self.ack)
    }

    /// The sequence number after its last byte; SYN and FIN take one each (RFC 9293, section 3.4).
    pub fn end_seq(&self) -> SeqNumber {
        let controls = u32::from(self.flags.syn()) + u32::from(self.flags.fin());
        SeqNumber(self.first_seq.0.wrapping_add(self.bytes).wrapping_add(controls))
    }

    /// All it takes on the wire, in bytes: each segment has the headers.
    pub fn wire_bytes(&self) -> u64 {
        let headers = u64::from(self.frame_bytes.saturating_sub(self.bytes));
        u64::from(self.bytes) + headers * u64::from(self.segments.max(1))
    }
}

pub(crate) fn between(
    from: Option<Instant<Monotonic>>,
    to: Option<Instant<Monotonic>>,
) -> Result<Option<Nanos>, Disorder> {
    match (from, to) {
        (Some(from), Some(to)) => to.since(from).map(Some),
        _ => Ok(None),
    }
}

/// Puts back why a packet was dropped; its time follows.
pub(crate) fn set_reason(dropped: &mut Option<Dropped>, value: Value<'_>) -> Result<(), &'static str> {
    let reason = Option::<DropReason>::from_value(value)?;
    *dropped = reason.map(|reason| Dropped { at: Instant::from_nanos(0), reason });
    Ok(())
}

/// Puts back when it was dropped.
pub(crate) fn set_dropped_at(dropped: &mut Option<Dropped>, value: Value<'_>) -> Result<(), &'static str> {
    if let Some(dropped) = dropped {
        dropped.at = Instant::from_value(value)?;
    }
    Ok(())
}

columns! {
    Packet: "packets", "packet", blank = Packet {
        connection: ConnectionId::default(),
        local: NO_END,
        remote: NO_END,
        direction: Direction::Sent,
        first_seq: SeqNumber::default(),
        bytes: 0,
        frame_bytes: 0,
        segments: 0,
        flags: TcpFlags::default(),
        retransmission: false,
        sched: None,
        driver: None,
        ack: None,
        gap: None,
        dropped: None,
    };
    connection_id = connection, "its connection; the record of a SYN may come before that of its connection", from "sk_cookie";
    local_address = |p| p.local.ip(), set |p, v| set_address(&mut p.local, v), "this host's IP address";
    local_port = |p| p.local.port(), set |p, v| set_port(&mut p.local, v), "this host's port";
    remote_address = |p| p.remote.ip(), set |p, v| set_address(&mut p.remote, v), "the peer's IP address";
    remote_port = |p| p.remote.port(), set |p, v| set_port(&mut p.remote, v), "the peer's port";
    direction = direction, "`received`: of a packet that was dropped on its way in";
    first_seq = first_seq, "TCP sequence number of its first byte";
    bytes = bytes, "payload";
    frame_bytes = frame_bytes, "length with all headers as it entered the packet scheduler; headers of a GSO packet once", from "skb.len";
    segments = segments, "segments that it becomes: more than one for a GSO packet", from "gso_segs";
    wire_bytes = |p| p.wire_bytes(), "payload, and the headers of every segment";
    flags = flags, "TCP flags, a letter each: `S`, `A`, `P`, `F`, `R`, `U`, `E`, `C`", from "TCP header";
    retransmission = retransmission, "its first sequence number had been sent before";
    sched_at_ns = sched, null "it was dropped before, or received", "it entered the packet scheduler", from "net_dev_queue";
    driver_at_ns = driver, null "it never was", "it, or its first segment, was handed to the driver", from "net_dev_start_xmit";
    ack_at_ns = ack, null "it has no sequence number (a pure ACK), or no ACK was seen",
        "its last byte was acknowledged, by whichever copy it came";
    qdisc_ns = |p| p.qdisc().ok().flatten(), null "a stage is missing, or the two are in an impossible order", "`sched` to `driver`";
    network_ns = |p| p.network().ok().flatten(), null "a stage is missing, or the two are in an impossible order", "`driver` to `ack`";
    gap_ns = gap, null "it is the first, or a packet between was missed or overtaken",
        "since the connection's packet before it was handed to the driver";
    dropped = |p| p.dropped.as_ref().map(|d| d.reason.clone()), set |p, v| set_reason(&mut p.dropped, v), null "it was not dropped",
        "why the kernel dropped it on this host: the name in `enum skb_drop_reason`, or the number where it names none", from "kfree_skb";
    dropped_at_ns = |p| p.dropped.as_ref().map(|d| d.at), set |p, v| set_dropped_at(&mut p.dropped, v), null "it was not dropped",
        "when it was dropped", from "kfree_skb";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_and_sequence_numbers_count_headers_and_controls() {
        let end = "127.0.0.1:1".parse().unwrap();
        let mut packet = Packet {
            connection: ConnectionId(1),
            local: end,
            remote: end,
            direction: Direction::Sent,
            first_seq: SeqNumber(u32::MAX),
            bytes: 3000,
            frame_bytes: 3066,
            segments: 3,
            flags: TcpFlags(0x19),
            retransmission: false,
            sched: Some(Instant::from_nanos(5)),
            driver: Some(Instant::from_nanos(9)),
            ack: None,
            gap: None,
            dropped: None,
        };
        assert_eq!((packet.end_seq(), packet.wire_bytes()), (SeqNumber(3000), 3000 + 3 * 66));
        assert_eq!((packet.qdisc(), packet.network()), (Ok(Some(Nanos(4))), Ok(None)));
        assert_eq!(packet.flags.to_string(), "APF");
        packet.ack = Some(Instant::from_nanos(8));
        assert_eq!(packet.network(), Err(Disorder { by: Nanos(1) }));
    }
}
