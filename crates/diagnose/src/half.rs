//! One direction of a connection: what its sender did, and what the peer's answers say of it.

mod bursts;
mod datagrams;
mod offered;
mod pushes;
mod scoreboard;
mod sizes;
mod space;
mod view;
mod window;

use std::num::NonZeroU64;

use record::SeqNumber;
use wire::{Flags, Segment};

use crate::acks::Habits;
use crate::anomalies::{Anomalies, Headers};
use crate::checksums::Checksums;
use crate::fetch::{self, Fetch};
use crate::flight::{Flight, Sent};
use crate::link::Link;
use crate::ranges::{Range, Ranges, START};
use crate::retransmission::{Class, Recovery, Repairs};
use crate::rounds::{Release, Rounds, SlowStart, Surroundings};
use crate::rtt::Rtt;
use crate::sender::Sender;
use crate::stall::Heard;
use bursts::Bursts;
use datagrams::Datagrams;
pub(crate) use offered::Offered;
use pushes::Pushes;
use record::conversation::Limit;
use scoreboard::Scoreboard;
use sizes::Sizes;
use space::SequenceSpace;
use view::View;
use window::Window;

/// A sender less than this from the capture, there and back, cannot be distinguished from one
/// beside it: its own delay in answering is as long, ns.
pub(crate) const AWAY: u64 = 200_000;

/// The floor that Linux gives the variation in its retransmission timer: no timer is shorter, ns.
pub(crate) const SHORTEST_TIMEOUT: u64 = 200_000_000;

/// What an ACK lets go leaves within this time of its arrival, ns: a program may have to wake up
/// first.
pub(crate) const PROMPT: u64 = 500_000;

/// What the kernel itself lets go at an ACK leaves within this time, ns.
pub(crate) const KERNEL: u64 = 150_000;

/// Segments that follow one another within this time were let go together, ns: what offload and
/// scheduling put between them.
const AT_ONCE: u64 = 1_000_000;

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
    Retransmitted(Class),
    /// A keep-alive.
    KeepAlive,
    /// A probe of a closed window.
    Probe,
}

/// Counters of one direction that nearly every one has.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counters {
    pub(crate) packets: u64,
    pub(crate) payload_packets: u64,
    pub(crate) payload_bytes: u64,
    pub(crate) unique_bytes: u64,
    pub(crate) pure_acks: u64,
    pub(crate) small: u32,
    pub(crate) small_bursts: u32,
}

/// What there is from its first use on.
#[inline(always)]
pub(crate) fn made<T: Default>(place: &mut Option<Box<T>>) -> &mut T {
    #[cold]
    fn first<T: Default>(place: &mut Option<Box<T>>) -> &mut T {
        place.get_or_insert_default()
    }
    match place {
        Some(value) => value,
        none => first(none),
    }
}

/// After a pause: how the sender began again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Restart {
    pub(crate) at: u64,
    pub(crate) number: u64,
    /// What it had in flight at a time before the pause.
    pub(crate) prior: u32,
    /// What it sent before it learnt of the first ACK; 0 until then.
    pub(crate) first: u32,
    pub(crate) from: u64,
    /// Rounds that were over when it began.
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
///
/// Its fields stand in memory as they do here. What is for its data lies apart from what is for its
/// ACKs, and both beside what every packet needs: most directions have one of the two, and with a
/// thousand connections at a time it is the lines of cache to fetch that take the time.
#[derive(Clone, Debug, Default)]
#[repr(C)]
pub(crate) struct Half {
    // Rarely needed.
    /// Where its first data lie, where there was no SYN: what comes before was sent before the
    /// capture began.
    pub(crate) first_data: u64,
    /// The packet with its first FIN.
    pub(crate) fin: Option<NonZeroU64>,
    pub(crate) holes: Ranges,
    pub(crate) repairs: Repairs,
    pub(crate) offered: Offered,

    // For its ACKs.
    pub(crate) habits: Habits,
    pub(crate) window: Window,

    // For every packet.
    pub(crate) count: Counters,
    pub(crate) anomalies: Anomalies,
    pub(crate) headers: Headers,
    pub(crate) datagrams: Datagrams,
    pub(crate) space: SequenceSpace,
    /// When the peer last sent an ACK of any kind.
    pub(crate) heard_at: u64,
    pub(crate) last_data_at: u64,
    pub(crate) checksums: Checksums,
    pub(crate) pushes: Pushes,
    /// Whether its latest data filled the receive window.
    pub(crate) filled: bool,

    // For its data.
    pub(crate) sizes: Sizes,
    pub(crate) rtt: Rtt,
    /// When `una` last moved.
    pub(crate) una_at: u64,
    pub(crate) last_data_number: u64,
    pub(crate) view: View,
    pub(crate) flight: Flight,
    pub(crate) scoreboard: Scoreboard,
    pub(crate) recovery: Option<Box<Recovery>>,
    pub(crate) late: Option<Box<Late>>,
    pub(crate) restart: Option<Box<Restart>>,
    /// What its sender learns of ACKs, where it is away from the capture and echoes timestamps.
    pub(crate) sender: Option<Box<Sender>>,
    /// How fast data passed the capture in bursts, and how fast it was acknowledged.
    pub(crate) bursts: Option<Box<Bursts>>,
    /// Growth of the congestion window, by rounds of one RTT.
    pub(crate) rounds: Rounds,
}

impl Half {
    pub(crate) fn begin(&mut self, seq: SeqNumber) {
        if !self.space.is_begun() {
            self.space.begin(seq);
            self.view.begin();
        }
    }

    /// See [`Connection::fetch_boxes`](crate::connection::Connection::fetch_boxes).
    #[inline(always)]
    pub(crate) fn fetch_boxes(&self, with: impl Fetch) {
        fetch::each(self.habits.lateness.as_deref(), with);
        fetch::each(self.sender.as_deref(), with);
        fetch::each(self.bursts.as_deref(), with);
        self.rtt.fetch_boxes(with);
        self.flight.fetch_boxes(with);
        self.view.fetch_boxes(with);
        self.anomalies.fetch_boxes(with);
    }

    /// See [`Connection::fetch_further`](crate::connection::Connection::fetch_further).
    #[inline(always)]
    pub(crate) fn fetch_further(&self, with: impl Fetch) {
        self.sender.iter().for_each(|sender| sender.fetch_further(with));
        self.rtt.fetch_further(with);
        self.view.fetch_further(with);
        self.anomalies.fetch_further(with);
    }

    /// Packets of this direction were seen, or acknowledged, without a SYN.
    pub(crate) fn begun_by_data(&self) -> bool {
        self.count.packets > 0 && !self.offered.seen
    }

    /// The same IP packet seen twice: a mirror port that copies both ways, a capture on every
    /// interface at once (see [`Datagrams::is_copy`]). What has another TTL is no second ACK
    /// either, as what a sender retransmits goes the same way; and once copies with a TTL are
    /// known, all that repeats with it is one.
    #[inline(always)]
    pub(crate) fn is_copy(&mut self, s: &Segment, now: u64, far: bool) -> bool {
        if s.network.id.is_none() && s.network.ttl == 0 {
            return false;
        }
        // The first packet of all, a SYN mostly, is no copy, and is among the latest still when the
        // second comes.
        let begins_amid = !self.offered.seen && (1..64).contains(&self.count.packets);
        let packet = self.datagrams.packet(s, now);
        if self.datagrams.is_copy(packet, s, far, begins_amid) || packet.has_other_ttl() && self.repeats(s) {
            self.anomalies.capture_copies += 1;
            return true;
        }
        self.datagrams.keep(packet);
        false
    }

    /// Whether a packet with another TTL, of which no kept one is the original, is a copy all the
    /// same: a SYN after which its sender has gone on, or one that brings nothing new and has the
    /// TTL that copies have.
    #[cold]
    fn repeats(&mut self, s: &Segment) -> bool {
        if s.flags.contains(Flags::SYN) {
            let copy = self.offered.seen && self.count.packets >= 4 && self.space.place(s.seq) == START;
            if copy {
                self.datagrams.expect_copies(s.network.ttl);
            }
            return copy;
        }
        if !self.datagrams.is_ttl_of_copies(s) {
            return false;
        }
        let new_data = self.space.place(s.seq).saturating_add(s.sequence_length().into()) > self.space.next();
        let new_ack = s.flags.contains(Flags::ACK) && s.ack.distance_from(self.window.last_ack()) > 0;
        if new_data || new_ack || s.flags.contains(Flags::RST) {
            self.datagrams.forget_ttl_of_copies();
            return false;
        }
        true
    }

    /// Whether a packet follows its side's last: it begins where that ended, and has the TTL of all
    /// and the identification that is next.
    #[inline(always)]
    pub(crate) fn continues(&self, s: &Segment) -> bool {
        self.space.is_next(s.seq) && self.datagrams.is_continued_by(s)
    }

    /// Whether, all being acknowledged, nothing was sent and no ACK came for at least so long
    /// before `now`.
    #[inline(always)]
    pub(crate) fn has_paused(&self, now: u64, at_least: u64) -> bool {
        self.space.next() <= self.space.una()
            && self.last_data_at > 0
            && now - self.last_data_at.max(self.una_at).min(now) >= at_least
    }

    /// How long before `now` the last ACK for this direction came; 0 before the first one.
    #[inline(always)]
    pub(crate) fn unheard_for(&self, now: u64) -> u64 {
        if self.heard_at > 0 { now.saturating_sub(self.heard_at) } else { 0 }
    }

    #[inline(always)]
    pub(crate) fn count_payload(&mut self, bytes: u64) {
        self.count.payload_packets += 1;
        self.count.payload_bytes += bytes;
    }

    #[inline(always)]
    pub(crate) fn count_packet(&mut self, s: &Segment) {
        self.count.packets += 1;
        if !self.headers.add(s.header_bytes) {
            self.anomalies.headers[usize::from(s.header_bytes >> 2) & 15] += 1;
        }
    }

    #[inline(always)]
    pub(crate) fn take_header(&mut self, s: &Segment) {
        self.count_packet(s);
        self.datagrams.take_ttl(s.network.ttl);
        self.anomalies.take_header(s);
        if s.flags.contains(Flags::SYN) && !self.offered.seen {
            self.offered = Offered::new(s);
        }
    }

    /// Its clock shows one more value.
    #[inline(always)]
    pub(crate) fn take_stamp(&mut self, s: &Segment, now: u64) {
        let Some((Some(value), _)) = s.options.timestamps else { return };
        // Many connections never have as many packets.
        if self.count.packets > 4 {
            made(&mut self.habits.lateness).take_stamp(value, now);
        }
    }

    /// By how much longer than others of this side `s` was under way to the capture, at least and
    /// at most, ns; `None` where its timestamps do not show that.
    pub(crate) fn under_way(&self, s: &Segment, now: u64) -> Option<[u64; 2]> {
        let (Some(value), _) = s.options.timestamps? else { return None };
        self.habits.lateness.as_ref()?.under_way(value, now)
    }

    /// The least of [`Half::under_way`]; 0 where its timestamps do not show that.
    #[inline]
    pub(crate) fn under_way_at_least(&self, s: &Segment, now: u64) -> u64 {
        match (s.options.timestamps, &self.habits.lateness) {
            (Some((Some(value), _)), Some(lateness)) => lateness.under_way_at_least(value, now),
            _ => 0,
        }
    }

    /// Whether its sender has learnt of every ACK that passed the capture: none is on the way, and
    /// no echoes show which arrived.
    #[inline]
    pub(crate) fn knows_all(&self) -> bool {
        self.sender.is_none() && self.view.is_up_to_date()
    }

    /// An ACK for this direction passed the capture, and its sender, which is beside that, has it.
    #[inline(always)]
    pub(crate) fn acknowledged_beside(&mut self, now: u64, edge: u64) {
        self.view.arrive(now, self.space.una(), edge);
    }

    /// Whether the peer, which answers this direction's data, is away from the capture, as far as
    /// is known.
    #[inline(always)]
    pub(crate) fn is_away(&self) -> bool {
        self.rtt.base().is_none_or(|l| l >= AWAY)
    }

    /// An ACK for this direction passed the capture; where its sender `is_away`, the echoes of the
    /// ACK's timestamp say when it learns of what is acknowledged and of the window's edge.
    #[inline(always)]
    pub(crate) fn passed_to(
        &mut self,
        s: &Segment,
        now: u64,
        (una, edge): (u64, u64),
        shows_no_loss: bool,
        is_away: bool,
    ) {
        let Some((Some(value), _)) = s.options.timestamps else { return };
        if self.sender.is_none() && !is_away {
            return;
        }
        let sender = made(&mut self.sender);
        if shows_no_loss {
            sender.no_loss();
        }
        sender.pass(value, now, una, edge);
    }

    /// An ACK for this direction passed the capture.
    #[inline(always)]
    pub(crate) fn acknowledged_to(&mut self, now: u64, edge: u64, lag: u64) {
        if self.sender.as_ref().is_some_and(|s| s.is_known()) {
            // Its echo will say when the sender has it.
            return;
        }
        self.view.catch_up(now, lag);
        self.view.pass(now, self.space.una(), edge, lag);
    }

    /// A segment with data and these timestamps (its own value, the echoed one): what its sender
    /// had learnt by then, and whether the path held up the segment or the ACKs before it.
    #[inline]
    pub(crate) fn echoed(&mut self, (value, echo): (u32, u32), now: u64, s: &Segment) -> Heard {
        let Some(sender) = &mut self.sender else { return Heard::InTime };
        let flight = self.view.in_flight(self.space.next());
        // While a loss is being repaired, the sender may have to wait before it may send.
        let undisturbed = self.recovery.is_none() && !self.scoreboard.is_disordered();
        let several = self.sizes.largest().max(1).saturating_mul(4);
        let loaded = undisturbed && flight >= several;
        let learnt = sender.echoed(echo, now, flight, loaded);
        if let Some(ack) = learnt.filter(|_| sender.is_known()) {
            self.view.learn(ack.at, ack.una, ack.edge());
        }
        let is_next = self.last_data_at > 0 && self.space.is_next(s.seq);
        sender.held_up(value, now, is_next.then_some(s.number))
    }

    /// Bytes that the sender itself takes to be unacknowledged.
    #[inline]
    pub(crate) fn in_flight(&self) -> u32 {
        self.view.in_flight(self.space.next())
    }

    /// Bytes up to `end` were seen, or acknowledged.
    #[inline(always)]
    pub(crate) fn reach(&mut self, end: u64) {
        self.filled &= end == self.space.next();
        self.space.reach(end);
    }

    pub(crate) fn outstanding(&self) -> bool {
        self.space.out() > 0
    }

    /// The same of data alone: a FIN that is not acknowledged does not count.
    pub(crate) fn outstanding_data(&self) -> bool {
        self.space.out() > self.fin.is_some().into()
    }

    /// The retransmission timer's likely value at least: RFC 6298's estimate with the floor that
    /// Linux gives the variation, over the whole path (`beyond` is the part between capture and
    /// sender).
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
        let flight = self.view.in_flight(end);
        self.space.take_flight(flight);
        if is_known {
            if self.rounds.is_over(self.view.una()) {
                if self.rounds.has_data() {
                    self.close_round(now, lag > 0);
                }
                self.rounds.begin(now, end, self.view.una());
            }
            let bytes = (end - start) as u32;
            let release = self.release(now, lag);
            let full = self.sizes.is_full(bytes);
            // An ACK that has not passed here is not with the sender yet. Pieces of one segment, as
            // a capture may show it, come at once.
            if !full && self.space.una() < start && !release.follows && !self.sizes.is_full(self.sizes.last()) {
                self.rounds.note_part_filled_beside();
            }
            self.rounds.sent(now, (bytes, full), flight, release);
        }
        let since_ack = (now - self.una_at.min(now)).min(u32::MAX.into()) as u32;
        self.flight.push(Sent { start, end, at: now, number, flight, since_ack, segments: 1, retransmissions: 0 });
    }

    /// What let a segment go that is sent at `now`, where the sender is `lag` away. On a short path
    /// ACKs come all the time, so what is an eighth of the round trip later was let go by something
    /// else; but not where the sender had been silent for much longer until one came.
    #[inline(always)]
    fn release(&self, now: u64, lag: u64) -> Release {
        let since = now.saturating_sub(self.view.heard_at().saturating_add(lag));
        let pause = now - self.last_data_at.min(now);
        let eighth = self.rtt.base().unwrap_or(u64::MAX).saturating_add(lag) / 8;
        let usual = self.rtt.smoothed().unwrap_or(0) / 8;
        let prompted = since <= PROMPT.min(eighth.max(pause / 8)) + lag / 16;
        let follows = pause <= AT_ONCE.min(eighth.max(usual));
        if prompted || follows { Release { prompted, follows } } else { self.late_release(since, pause, lag, eighth) }
    }

    /// The same where it may just have taken long to cross the slowest link, which the small
    /// packets that `lag` comes from have not shown. Away from the sender, where no burst has shown
    /// that either, any time may be that.
    #[cold]
    fn late_release(&self, since: u64, pause: u64, lag: u64, eighth: u64) -> Release {
        let best = self.bursts.as_ref().map_or(0, |b| b.passing());
        let two = (2 * u64::from(self.sizes.largest()) * 1_000_000_000).checked_div(best);
        let crossing = two.unwrap_or(if lag > 0 { u64::MAX } else { 0 });
        let within = (PROMPT.min(eighth) + lag / 16).saturating_add(crossing);
        Release { prompted: lag > 0 && since <= within, follows: pause <= crossing.min(eighth) }
    }

    /// Whether the sender had more when it sent the segment before the last: what was late after
    /// that is a window's, a pacer's or the path's, and not the program's.
    pub(crate) fn had_more(&self) -> bool {
        self.pushes.left_more() && self.sizes.is_full(self.sizes.previous())
    }

    /// Whether the sender has more than its latest segment brought.
    pub(crate) fn has_more(&self) -> bool {
        self.pushes.leave_more() && self.sizes.is_full(self.sizes.last())
    }

    /// How long a segment with so much payload takes on the slowest link, as bursts have shown; on
    /// one of 5 Mbit/s where none has.
    pub(crate) fn crossing(&self, payload: u32) -> u64 {
        let best = self.bursts.as_ref().map_or(0, |b| b.passing());
        u64::from(payload) * 1_000_000_000 / if best > 0 { best } else { 625_000 }
    }

    /// What was seen of the slowest link on the way, and in how many looks.
    pub(crate) fn link(&self) -> Option<(&Link, u32)> {
        self.bursts.as_ref()?.link()
    }

    /// A round with data in it is over.
    #[inline(always)]
    fn close_round(&mut self, now: u64, away: bool) {
        let slow_start = self.rounds.close(
            now,
            &Surroundings {
                away,
                una: self.view.una(),
                size: self.sizes.largest(),
                window: self.view.window(),
                in_recovery: self.recovery.is_some(),
            },
        );
        match slow_start {
            SlowStart::Over if self.sizes.is_full(self.sizes.last()) => self.rounds.past_slow_start = true,
            SlowStart::WentOn(time) => self.anomalies.resumed += time,
            SlowStart::Over | SlowStart::AsBefore => {}
        }
    }

    /// Bytes that the peer acknowledged and no packet of the capture brought.
    pub(crate) fn unseen_bytes(&self) -> u64 {
        self.holes.bytes_in(self.first_data.max(START), self.space.una()) + self.holes.forgotten()
    }

    /// A hole `[next, start)` opens. Where it begins right behind one segment that a silence came
    /// before, an RTT after that, and is larger than what a sender with a window of two may have
    /// lost just now: the segment was the first repair of a flight that was lost whole before the
    /// capture, by a timeout (and what comes now is new data, by which the sender finds out whether
    /// the timeout was needed: RFC 5682).
    pub(crate) fn find_unseen_timeout(&mut self, now: u64, start: u64, lag: u64) {
        let rtt = self.rtt.smoothed().unwrap_or(0).saturating_add(lag);
        let after = self.restart.as_ref().is_some_and(|r| {
            let since = now - r.at.min(now);
            let one = u64::from(self.sizes.largest());
            self.space.next() - r.from.min(self.space.next()) <= one
                && since >= rtt / 2
                && since <= rtt.saturating_mul(2)
        });
        let flight = start - self.space.next() >= 2 * u64::from(self.sizes.largest().max(1));
        if after && flight && lag > 0 && self.recovery.is_none() {
            let began = self.restart.take().map_or(now, |r| r.at);
            let (class, una) = (Class::Timeout, self.space.una());
            self.recovery = Some(Box::new(Recovery { point: start, class, began, number: 0, original: 0, una }));
        }
    }

    /// The capture began in the middle, a flight ago at most: what was under way or received out of
    /// order then may be missing.
    pub(crate) fn is_first_flight(&self) -> bool {
        !self.offered.seen && self.count.packets < 1_024
    }

    /// A gap `[start, end)` appeared.
    pub(crate) fn open_hole(&mut self, start: u64, end: u64, now: u64, id: Option<u16>) {
        self.holes.insert(Range { start, end, at: now, id });
    }
}
