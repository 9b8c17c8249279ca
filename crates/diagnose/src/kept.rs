//! Packets kept on request, for a story, a dump, a comparison or a plot.

use record::conversation::Way;
use wire::Segment;

use crate::half::{Data, Half};
use crate::ranges::START;
use crate::retransmission::Class;

/// One packet of a connection with what it meant.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    /// The packet.
    pub segment: Segment,
    /// Its direction.
    pub way: Way,
    /// Position of its first byte in its direction's stream; the SYN is 0, the first byte 1. `None`
    /// before the capture's start.
    pub seq: Option<u64>,
    /// The position that it acknowledges.
    pub ack: Option<u64>,
    /// The window that it offers, scaled as far as known, in bytes.
    pub window: u64,
    /// What its sender had in flight after it, in bytes.
    pub in_flight: u32,
    /// What became of its payload.
    pub mark: Mark,
}

/// What one packet was.
#[derive(Debug)]
pub(crate) struct Facts {
    pub(crate) data: Data,
    pub(crate) advanced: u64,
    /// It lies beyond bytes that the capture has not.
    pub(crate) opens_hole: bool,
    /// Before it, its sender had filled the receive window.
    pub(crate) was_filled: bool,
    /// How far its sender is was known when it came.
    pub(crate) knows_lag: bool,
    /// So many packets its sender sent before it that the capture has not, as its IPv4
    /// identification shows.
    pub(crate) ids_skipped: u16,
    /// It comes so late because it, or what went before it, was lost before the capture.
    pub(crate) lost_before: bool,
    /// The path held it up, or the ACKs before it: the silence before it was not its sender's.
    pub(crate) held_up: bool,
    /// Its direction's late ACK had held it back.
    pub(crate) released: bool,
}

/// What a packet was to the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// Nothing special.
    Plain,
    /// Retransmitted.
    Retransmitted(Class),
    /// Out of order.
    OutOfOrder,
    /// A duplicate ACK.
    DuplicateAck,
    /// A keep-alive.
    KeepAlive,
    /// A window probe.
    WindowProbe,
    /// It closes the window.
    ZeroWindow,
    /// Its checksum is wrong: the receiver discards it.
    Damaged,
}

/// The packets of one connection, up to a limit.
#[derive(Debug)]
pub(crate) struct Recorder {
    pub(crate) records: Vec<Record>,
    limit: usize,
    /// Packets that found no room.
    pub(crate) left_out: u64,
}

impl Recorder {
    pub(crate) fn new(limit: usize) -> Self {
        Self { records: Vec::new(), limit, left_out: 0 }
    }

    pub(crate) fn add(&mut self, way: Way, s: &Segment, halves: &[Half; 2], data: Data, duplicate_ack: bool) {
        let mark = match data {
            Data::Retransmitted(class) => Mark::Retransmitted(class),
            Data::OutOfOrder => Mark::OutOfOrder,
            Data::KeepAlive => Mark::KeepAlive,
            Data::Probe => Mark::WindowProbe,
            _ if s.window == 0 && !s.flags.intersects(wire::Flags::SYN | wire::Flags::RST) => Mark::ZeroWindow,
            _ if duplicate_ack => Mark::DuplicateAck,
            _ => Mark::Plain,
        };
        self.keep(way, s, halves, mark);
    }

    pub(crate) fn add_damaged(&mut self, way: Way, s: &Segment, halves: &[Half; 2]) {
        self.keep(way, s, halves, Mark::Damaged);
    }

    fn keep(&mut self, way: Way, s: &Segment, halves: &[Half; 2], mark: Mark) {
        if self.records.len() >= self.limit {
            self.left_out += 1;
            return;
        }
        let (h, p) = (&halves[way], &halves[!way]);
        self.records.push(Record {
            segment: *s,
            way,
            seq: h.space.place(s.seq).checked_sub(START),
            ack: s.flags.contains(wire::Flags::ACK).then(|| p.space.place(s.ack).checked_sub(START)).flatten(),
            window: h.window.size(),
            in_flight: h.in_flight(),
            mark,
        });
    }
}
