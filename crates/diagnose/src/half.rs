//! One direction of a connection: what its sender did, and what the peer's answers say of it.

use std::collections::VecDeque;

use record::SeqNumber;
use wire::{Ecn, Flags, Segment};

use crate::acks::Habits;
use crate::budget::Limit;
use crate::flight::{Flight, Sent};
use crate::ranges::{Range, Ranges, START};
use crate::rare::{Headers, Rare};
use crate::resend::{Class, Recovery, Repairs};
use crate::rounds::{Rounds, Surroundings};
use crate::rtt::Rtt;
use crate::sender::Sender;

/// Every IPv4 path carries 576 bytes (RFC 791), which leaves so much to a segment with headers as long as can be
/// expected; runs of smaller ones are what the application wrote.
const SMALLEST_FULL: u32 = 512;

/// The floor that Linux gives the variation in its retransmission timer: no timer is shorter, ns.
pub(crate) const SHORTEST_TIMEOUT: u64 = 200_000_000;

/// What a segment's payload was to its direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Data {
    /// No payload, SYN or FIN.
    None,
    /// Beyond everything seen so far, in whole or in part.
    New,
    /// It fills a gap shortly after the gap was seen: packets changed places before the capture.
    OutOfOrder,
    /// Retransmitted.
    Resent(Class),
    /// A keep-alive.
    KeepAlive,
    /// A probe of a closed window.
    Probe,
}

/// The handshake options of one side.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Offered {
    pub(crate) seen: bool,
    /// The capture or the dump cut the list short: what is missing may have been there.
    pub(crate) cut: bool,
    pub(crate) mss: Option<u16>,
    pub(crate) window_scale: Option<u8>,
    pub(crate) sack: bool,
    pub(crate) timestamps: bool,
    pub(crate) fast_open: Option<u8>,
    pub(crate) mptcp: bool,
    pub(crate) flags: Flags,
}

/// A copy check: IPv4 identification and TCP header in one digest, and when, in units of 2^16 ns (of which 2^32 are 78
/// hours); 0 for none.
#[derive(Clone, Copy, Debug, Default)]
struct Print {
    digest: u32,
    at: u32,
}

/// Counters of one direction that nearly every one has.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counters {
    pub(crate) packets: u64,
    pub(crate) payload_packets: u64,
    pub(crate) payload_bytes: u64,
    pub(crate) unique_bytes: u64,
    pub(crate) resent_packets: u64,
    pub(crate) resent_bytes: u64,
    pub(crate) pure_acks: u64,
    pub(crate) small: u64,
    pub(crate) small_bursts: u64,
}

/// What the sender can know at a moment, given that ACKs reach it some time after they passed the capture.
#[derive(Clone, Debug, Default)]
pub(crate) struct View {
    pub(crate) una: u64,
    pub(crate) edge: u64,
    /// There once an ACK had a way to go.
    #[expect(clippy::box_collection, reason = "8 bytes rather than 32 where there is none")]
    on_the_way: Option<Box<VecDeque<(u64, u64, u64)>>>,
}

/// ACKs between the capture and the sender; when more are on the way, the newest is overwritten.
const ON_THE_WAY: usize = 128;

impl View {
    /// An ACK passed the capture at `at`; the sender is `lag` away.
    #[inline]
    fn pass(&mut self, at: u64, una: u64, edge: u64, lag: u64) {
        if lag == 0 {
            (self.una, self.edge) = (una, edge);
            return;
        }
        let queue = self.on_the_way.get_or_insert_default();
        if queue.len() < ON_THE_WAY {
            queue.push_back((at, una, edge));
        } else if let Some(last) = queue.back_mut() {
            *last = (at, una, edge);
        }
    }

    #[inline]
    fn catch_up(&mut self, now: u64, lag: u64) {
        let Some(queue) = &mut self.on_the_way else { return };
        while let Some(&(at, una, edge)) = queue.front().filter(|e| e.0.saturating_add(lag) <= now) {
            (self.una, self.edge) = (una, edge);
            debug_assert!(at <= now);
            queue.pop_front();
        }
    }
}

/// What ends a burst even on the shortest path, ns.
const SHORTEST_PAUSE: u64 = 200_000;

/// The fastest that bytes were seen to go by, over 16 segments at a time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Burst {
    since: u64,
    last: u64,
    bytes: u64,
    /// Bytes a second; 0 where no burst was long enough.
    pub(crate) best: u64,
}

impl Burst {
    /// `bytes` went by at `now`; a quarter of `rtt` without anything ends a burst. The first bytes only set the clock going.
    #[inline]
    pub(crate) fn add(&mut self, now: u64, bytes: u64, size: u32, rtt: u64) {
        let pause = now - self.last.min(now);
        if pause > SHORTEST_PAUSE && pause > rtt / 4 || self.since == 0 {
            (self.since, self.bytes) = (now.max(1), 0);
        } else {
            self.bytes += bytes;
            let took = now - self.since.min(now);
            // Under 20 µs it is the clock's grain or the offload that is measured.
            if self.bytes >= 16 * u64::from(size) && took >= 20_000 {
                self.best = self.best.max((self.bytes as f64 * 1e9 / took as f64) as u64);
                (self.since, self.bytes) = (now, 0);
            }
        }
        self.last = now;
    }
}

/// Both ways to see how fast data goes. Kept from the fourth data packet on: many connections never have as many.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bursts {
    pub(crate) arrivals: Burst,
    pub(crate) delivered: Burst,
}

/// After a pause: how the sender began again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Restart {
    pub(crate) at: u64,
    pub(crate) number: u64,
    /// What it had in flight at a time before the pause.
    pub(crate) prior: u32,
    /// What it sent before the first ACK came; 0 until then.
    pub(crate) first: u32,
    pub(crate) from: u64,
    pub(crate) round_end: u64,
    pub(crate) rounds: u32,
}

/// An ACK came late; what the sender does next shows whether something stood waiting.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Late {
    pub(crate) data: u64,
    pub(crate) sent_at: u64,
    pub(crate) ack: u64,
    pub(crate) at: u64,
    pub(crate) excess: u64,
    /// The limit to which the time up to the ACK was given, and how much it was.
    pub(crate) charged: Option<(Limit, u64)>,
}

/// One direction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Half {
    pub(crate) begun: bool,
    next_seq: SeqNumber,
    /// The position after the last byte seen.
    pub(crate) next: u64,
    /// Where its first data lie, where there was no SYN: what comes before was sent before the capture began.
    pub(crate) first_data: u64,
    /// The end of the data with which its sender last filled the receive window.
    pub(crate) filled: u64,
    /// The position the peer has acknowledged.
    pub(crate) una: u64,
    /// When it last moved.
    pub(crate) una_at: u64,
    /// When the peer last sent an ACK of any kind.
    pub(crate) heard_at: u64,
    pub(crate) view: View,
    pub(crate) count: Counters,
    pub(crate) rare: Rare,
    pub(crate) headers: Headers,
    recent: [Print; 4],
    recent_at: u8,
    /// The window this side last advertised, scaled as far as known, and its extremes.
    pub(crate) window: u64,
    pub(crate) max_window: u64,
    pub(crate) window_known: bool,
    pub(crate) zero_since: u64,
    pub(crate) zero_number: u64,
    /// The scale that its windows must at least have, read from what the peer dared to send.
    pub(crate) least_scale: u8,
    pub(crate) offered: Offered,
    pub(crate) ttl: u8,
    /// The identification that a sender which counts up gives its next packet, and how often it has done so.
    next_id: u16,
    ids_in_step: u8,
    /// The largest payload of one packet, at most the peer's MSS where that is known.
    pub(crate) segment_size: u32,
    /// What the handshake allows one packet to carry; 0 where it is not known.
    pub(crate) limit: u32,
    /// Packets of `segment_size` that followed one of the same size with no answer between; more than 255 are as good as 255.
    pub(crate) full_runs: u8,
    /// See [`Half::full_size`].
    full: u32,
    pub(crate) largest_acked: u32,
    pub(crate) last_data_at: u64,
    pub(crate) last_data_number: u64,
    pub(crate) last_payload: u32,
    pub(crate) previous_payload: u32,
    pub(crate) fin: Option<u64>,
    pub(crate) flight: Flight,
    pub(crate) holes: Ranges,
    pub(crate) sacked: Ranges,
    pub(crate) duplicates: u32,
    pub(crate) suspect_at: u64,
    /// When the last duplicate ACK or SACK block came, whatever became of it.
    pub(crate) disordered_at: u64,
    pub(crate) recovery: Option<Box<Recovery>>,
    pub(crate) repairs: Option<Box<Repairs>>,
    pub(crate) rtt: Rtt,
    pub(crate) habits: Habits,
    pub(crate) late: Option<Box<Late>>,
    pub(crate) restart: Option<Box<Restart>>,
    /// The most in flight.
    pub(crate) peak: u32,
    /// Growth of the congestion window, by rounds of one RTT.
    pub(crate) rounds: Rounds,
    /// What its sender learns of ACKs, where it is away from the capture and echoes timestamps.
    pub(crate) sender: Option<Box<Sender>>,
    /// How fast data passed the capture in bursts, and how fast it was acknowledged.
    pub(crate) bursts: Option<Box<Bursts>>,
}

impl Half {
    pub(crate) fn begin(&mut self, seq: SeqNumber) {
        if !self.begun {
            self.begun = true;
            (self.next_seq, self.next, self.una) = (seq, START, START);
            self.view.una = START;
        }
    }

    /// Packets of this direction were seen, or acknowledged, without a SYN.
    pub(crate) fn begun_by_data(&self) -> bool {
        self.count.packets > 0 && !self.offered.seen
    }

    /// Where `seq` lies in the stream.
    #[inline]
    pub(crate) fn place(&self, seq: SeqNumber) -> u64 {
        self.next.saturating_add_signed(seq.distance_from(self.next_seq).into())
    }

    #[inline]
    pub(crate) fn reach(&mut self, end: u64) {
        self.next_seq = self.next_seq.add((end - self.next) as u32);
        self.next = end;
    }

    /// The same IP packet seen twice: a mirror port that copies both ways, a capture on every interface at once. A stack
    /// that retransmits counts its identification on, so equal identification within 10 ms is a copy. An identification
    /// of 0 (constant where fragmentation is ruled out) says nothing.
    #[inline]
    pub(crate) fn is_copy(&mut self, s: &Segment, now: u64) -> bool {
        // 10 ms, rounded up to whole units of 2^16 ns.
        const COPY_WITHIN: u32 = 10_000_000 / 65_536 + 1;
        let Some(id) = s.network.id.filter(|id| *id != 0) else { return false };
        // Odd multipliers keep every bit of each field in the digest; the identification alone shows most packets apart.
        let digest = (s.seq.0 ^ u32::from(id) << 16 ^ u32::from(id)).wrapping_mul(0x9e37_79b1)
            ^ s.ack.0.rotate_left(16).wrapping_mul(0x85eb_ca6b)
            ^ s.payload.rotate_left(7)
            ^ u32::from(s.flags.bits()) << 20
            ^ u32::from(s.window);
        let at = ((now >> 16) as u32).max(1);
        if self.recent.iter().any(|p| p.digest == digest && p.at > 0 && at.wrapping_sub(p.at) <= COPY_WITHIN) {
            self.rare.capture_copies += 1;
            return true;
        }
        self.recent[usize::from(self.recent_at & 3)] = Print { digest, at };
        self.recent_at = self.recent_at.wrapping_add(1);
        false
    }

    /// Whether the identification counts up by more than the packets since the last one (RFC 6864 leaves that open; Linux, the BSDs
    /// and Windows count on each connection or each host). A sender that always counts in larger steps shows nothing.
    #[inline]
    pub(crate) fn skips_ids(&mut self, s: &Segment) -> bool {
        let Some(id) = s.network.id.filter(|id| *id != 0) else { return false };
        let step = id.wrapping_sub(self.next_id);
        // A frame that offload left whole counts for each of its segments.
        let segments = if self.limit > 0 { s.payload.div_ceil(self.limit).max(1) } else { 1 };
        self.next_id = id.wrapping_add(segments as u16);
        let in_step = step == 0;
        let skips = !in_step && step < 0x4000 && self.ids_in_step >= 8;
        self.ids_in_step = if in_step { self.ids_in_step.saturating_add(1) } else { self.ids_in_step / 2 };
        skips
    }

    #[inline]
    pub(crate) fn take_header(&mut self, s: &Segment) {
        self.count.packets += 1;
        if !self.headers.add(s.header_bytes) {
            self.rare.headers[usize::from(s.header_bytes >> 2) & 15] += 1;
        }
        if self.ttl == 0 {
            self.ttl = s.network.ttl;
        }
        if s.network.ecn == Ecn::Ce {
            self.rare.ce_marks += 1;
            if self.rare.first_ce == 0 {
                self.rare.first_ce = s.number;
            }
        }
        if !s.flags.intersects(Flags::RST | Flags::ECE | Flags::CWR | Flags::SYN) {
            return;
        }
        if s.flags.contains(Flags::RST) {
            self.rare.resets += 1;
        }
        if s.flags.contains(Flags::ECE) && !s.flags.contains(Flags::SYN) {
            self.rare.ece += 1;
            if self.rare.first_ece == 0 {
                self.rare.first_ece = s.number;
            }
        }
        if s.flags.contains(Flags::CWR) && !s.flags.contains(Flags::SYN) {
            self.rare.cwr += 1;
        }
        if s.flags.contains(Flags::SYN) && !self.offered.seen {
            let o = &s.options;
            self.offered = Offered {
                seen: true,
                cut: o.cut,
                mss: o.mss,
                window_scale: o.window_scale,
                sack: o.sack_permitted,
                timestamps: o.timestamps.is_some(),
                fast_open: o.fast_open,
                mptcp: o.mptcp.is_some(),
                flags: s.flags,
            };
        }
    }

    /// An ACK for this direction passed the capture.
    pub(crate) fn acknowledged_to(&mut self, now: u64, edge: u64, lag: u64) {
        if self.sender.as_ref().is_some_and(|s| s.is_known()) {
            // Its echo will say when the sender has it.
            return;
        }
        self.view.catch_up(now, lag);
        self.view.pass(now, self.una, edge, lag);
    }

    /// A segment echoes a timestamp value: what its sender had learnt by then.
    #[inline]
    pub(crate) fn echoed(&mut self, echo: u32, now: u64) {
        let Some(sender) = &mut self.sender else { return };
        let flight = u32::try_from(self.next.saturating_sub(self.view.una)).unwrap_or(u32::MAX);
        let learnt = sender.echoed(echo, now, flight, flight >= self.segment_size.saturating_mul(4));
        if let Some((una, edge)) = learnt.filter(|_| sender.is_known()) {
            (self.view.una, self.view.edge) = (self.view.una.max(una), edge);
            self.view.on_the_way = None;
        }
    }

    /// Bytes that the sender itself takes to be unacknowledged.
    #[inline]
    pub(crate) fn in_flight(&self) -> u32 {
        u32::try_from(self.next.saturating_sub(self.view.una)).unwrap_or(u32::MAX)
    }

    /// The payload of a full segment: the largest seen, unless that is so far below what the handshake allows that the
    /// application may just never have written more at a time. A path with a smaller MTU shows by runs of one size.
    #[inline(always)]
    pub(crate) fn full_size(&self) -> u32 {
        // Nothing was sent yet: what every host takes (RFC 9293, section 3.7.1).
        if self.full == 0 { 536 } else { self.full }
    }

    /// To be called when what [`Half::full_size`] depends on has changed.
    pub(crate) fn find_full_size(&mut self) {
        self.full = if self.limit == 0 {
            self.segment_size.max(536)
        } else if self.segment_size.saturating_mul(8) >= self.limit.saturating_mul(7)
            || self.full_runs >= 8 && self.segment_size >= SMALLEST_FULL
        {
            self.segment_size
        } else {
            self.limit
        };
    }

    /// Whether a packet with this payload was full, so that its sender may well have had more.
    #[inline(always)]
    pub(crate) fn is_full(&self, payload: u32) -> bool {
        let full = self.full_size();
        // What offload left whole is full where it is a multiple.
        payload == full
            || payload > full && (payload.is_multiple_of(full) || self.limit > 0 && payload.is_multiple_of(self.limit))
    }

    pub(crate) fn outstanding(&self) -> bool {
        self.begun && self.next > self.una
    }

    /// The retransmission timer's likely value at least: RFC 6298's estimate with the floor that Linux gives the
    /// variation, over the whole path (`beyond` is the part between capture and sender).
    pub(crate) fn timeout(&self, beyond: u64) -> u64 {
        let full = self.rtt.smoothed().unwrap_or(0).saturating_add(beyond);
        full.saturating_add((self.rtt.variation().saturating_mul(4)).max(SHORTEST_TIMEOUT))
    }

    /// Records new data `[start, end)`.
    #[inline(always)]
    pub(crate) fn sent(&mut self, start: u64, end: u64, now: u64, number: u64, lag: Option<u64>) {
        let is_known = lag.is_some();
        let lag = lag.unwrap_or(0);
        self.view.catch_up(now, lag);
        let flight = u32::try_from(end.saturating_sub(self.view.una)).unwrap_or(u32::MAX);
        self.peak = self.peak.max(flight);
        let window = (self.view.edge > START).then(|| self.view.edge.saturating_sub(self.view.una));
        let around = Surroundings {
            size: self.segment_size,
            window,
            full: self.is_full(self.last_payload),
            in_recovery: self.recovery.is_some(),
        };
        if is_known {
            self.rounds.sent(now, (start, end), self.view.una, flight, || around);
        }
        self.flight.push(Sent { start, end, at: now, number, flight, segments: 1, resends: 0 });
    }

    /// Bytes that the peer acknowledged and no packet of the capture brought.
    pub(crate) fn unseen_bytes(&self) -> u64 {
        self.holes.bytes_in(self.first_data.max(START), self.una) + self.holes.forgotten()
    }

    /// The capture began in the middle, a flight ago at most: what was under way or received out of order then may be missing.
    pub(crate) fn is_first_flight(&self) -> bool {
        !self.offered.seen && self.count.packets < 256
    }

    /// A gap `[start, end)` appeared.
    pub(crate) fn open_hole(&mut self, start: u64, end: u64, now: u64, id: Option<u16>) {
        self.holes.insert(Range { start, end, at: now, id });
    }
}
