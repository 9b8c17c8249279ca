//! One connection, packet by packet.

use std::net::SocketAddr;

use model::SeqNumber;
use wire::{Flags, Segment};

use crate::acks::Promptness;
use crate::budget::{Budget, Limit};
use crate::episode::{Book, Episode, Happening};
use crate::half::{Data, Half, Late, Restart, START};
use crate::key::Key;
use crate::ranges::Range;
use crate::record::Recorder;
use crate::resend::{self, Class, Recovery, Repair, Signs};

/// The direction from the client to the server, and back.
pub(crate) const TO_SERVER: usize = 0;
pub(crate) const TO_CLIENT: usize = 1;

/// State of the whole connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) key: Key,
    /// Whether the client stands in the key's lower place.
    pub(crate) client_low: bool,
    pub(crate) first_at: u64,
    pub(crate) last_at: u64,
    pub(crate) first_number: u64,
    pub(crate) backwards: u64,
    pub(crate) halves: [Half; 2],
    pub(crate) established_at: Option<u64>,
    pub(crate) simultaneous: bool,
    pub(crate) first_syn_at: Option<u64>,
    /// By direction of the data that was waited for.
    pub(crate) budgets: [Budget; 2],
    /// What limits it since the last packet, and in which direction.
    state: (State, usize),
    /// Time whose cause the next packets decide: waiting with nothing more sent, or (true) with a loss suspected.
    held: u64,
    held_for: (usize, bool),
    /// The limit of the direction's last bulk phase, for the time ACKs need to reach a distant sender.
    bulk: [Limit; 2],
    /// Answers, by their direction.
    pub(crate) turns: [Turns; 2],
    pub(crate) book: Book,
    pub(crate) recorder: Option<Box<Recorder>>,
    /// Another connection came on this pair of endpoints when there was no room for one more.
    pub(crate) followed_by_uncounted: bool,
}

/// Answers that came after the other side's last data: one for each time that the direction of the data turned.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Turns {
    pub(crate) count: u32,
    /// Waiting from the question to the answer, in all, ns.
    pub(crate) total: u64,
    longest: u64,
    /// Question and answer of the longest.
    pub(crate) longest_packets: [u64; 2],
}

impl Turns {
    fn add(&mut self, waited: u64, question: u64, answer: u64) {
        self.count = self.count.saturating_add(1);
        self.total = self.total.saturating_add(waited);
        if waited >= self.longest {
            (self.longest, self.longest_packets) = (waited, [question, answer]);
        }
    }
}

/// The state between two packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Known(Limit),
    /// Everything was acknowledged.
    Quiet,
    /// Data is out, and the last of it was a part-filled segment: the application had no more, or Nagle's rule held it.
    Waiting,
    /// The same after a pure ACK has come.
    Answered,
    /// Duplicate ACKs: a loss or reordering.
    Suspect,
}

/// What one packet was.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts {
    pub(crate) data: Data,
    pub(crate) advanced: u64,
    pub(crate) duplicate_ack: bool,
    /// The late ACK that had held it back.
    pub(crate) released: Option<Late>,
}

/// New data that comes within this time of an ACK at the capture was released by it: 2 ms for the sender to act, beside
/// the way there and back.
fn at_once(lag: u64) -> u64 {
    lag.saturating_add(lag / 4 + 2_000_000)
}

impl Connection {
    pub(crate) fn new(key: Key, source_low: bool, s: &Segment, recorder: Option<Box<Recorder>>) -> Self {
        let syn = s.flags.contains(Flags::SYN);
        let from_client = match (syn, s.flags.contains(Flags::ACK)) {
            (true, ack) => !ack,
            // Without a handshake, services are where the lower port is, if it is below the ephemeral ranges.
            _ => s.source.port() >= s.destination.port() || s.source.port() >= 32_768,
        };
        let at = s.at.as_nanos();
        Self {
            key,
            client_low: source_low == from_client,
            first_at: at,
            last_at: at,
            first_number: s.number,
            backwards: 0,
            halves: [Half::default(), Half::default()],
            established_at: None,
            simultaneous: false,
            first_syn_at: None,
            budgets: [Budget::default(); 2],
            state: (State::Known(if syn { Limit::Handshake } else { Limit::Application }), usize::from(!from_client)),
            held: 0,
            held_for: (0, false),
            bulk: [Limit::Application; 2],
            turns: [Turns::default(); 2],
            book: Book::default(),
            recorder,
            followed_by_uncounted: false,
        }
    }

    /// Whether a SYN with this sequence number opens another connection on the same pair of endpoints (RFC 6191).
    pub(crate) fn is_reused_by(&self, dir: usize, s: &Segment) -> bool {
        if !s.flags.contains(Flags::SYN) || s.flags.contains(Flags::RST) {
            return false;
        }
        let half = &self.halves[dir];
        if half.offered.seen {
            return half.place(s.seq) != START;
        }
        // A SYN where none was seen: the other side of a handshake, or a new connection on a half-seen old one.
        let other = &self.halves[1 - dir];
        let answers = other.offered.seen && !half.begun_by_data();
        if s.flags.contains(Flags::ACK) {
            !(answers || self.halves.iter().all(|h| h.count.packets == 0))
        } else {
            !answers || self.established_at.is_some()
        }
    }

    /// Who opened it; by the ports where the handshake is not in the capture.
    pub(crate) fn client(&self) -> SocketAddr {
        self.key.end(self.client_low)
    }

    /// Who was called.
    pub(crate) fn server(&self) -> SocketAddr {
        self.key.end(!self.client_low)
    }

    /// How far the sender of direction `dir` is from the capture, there and back: what the other direction's packets
    /// take to be answered.
    fn lag(&self, dir: usize) -> u64 {
        // Below 200 µs it cannot be told from the sender's own delay in answering.
        self.halves[1 - dir].rtt.base().filter(|l| *l >= 200_000).unwrap_or(0)
    }

    pub(crate) fn take(&mut self, dir: usize, s: &Segment) {
        let at = s.at.as_nanos();
        self.backwards += u64::from(at < self.last_at);
        let now = at.max(self.last_at);
        if self.halves[dir].is_copy(s, now) {
            return;
        }
        let elapsed = now - self.last_at;
        let (lag, peer_lag) = (self.lag(dir), self.lag(1 - dir));
        self.halves[dir].take_header(s);
        let syn = s.flags.contains(Flags::SYN);
        if syn {
            self.first_syn_at.get_or_insert(now);
            if !s.flags.contains(Flags::ACK) && dir == TO_CLIENT && self.halves[TO_SERVER].offered.seen {
                self.simultaneous = true;
            }
        }
        let fresh = !self.halves[dir].begun;
        self.halves[dir].begin(s.seq);
        if fresh && !syn && s.sequence_length() > 0 {
            // Bytes from before the capture have been seen by nobody: should they come, they are new, not sent again.
            self.halves[dir].open_hole(START - (1 << 30), START, 0, None);
        }
        let answered = !self.halves[TO_SERVER].offered.seen || self.halves[TO_CLIENT].count.packets > 0;
        if self.established_at.is_none() && !syn && !s.flags.contains(Flags::RST) && answered {
            self.established_at = Some(now);
        }
        let (advanced, duplicate_ack) =
            if s.flags.contains(Flags::ACK) { self.take_ack(dir, s, now, peer_lag) } else { (0, false) };
        let late = self.halves[dir].late.as_deref().copied().filter(|l| now - l.at <= at_once(lag));
        let data = self.take_data(dir, s, now, lag);
        if s.flags.contains(Flags::RST) && self.halves[dir].rare.reset.is_none() {
            self.halves[dir].rare.reset = Some((s.number, now));
            self.halves[dir].rare.reset_ttl = s.network.ttl;
        }
        let released = late.filter(|_| data == Data::New);
        let facts = Facts { data, advanced, duplicate_ack, released };
        self.share_out(dir, s, elapsed, lag, &facts);
        self.last_at = now;
        self.state = self.limit_now();
        self.note_held();
        if let Some(recorder) = &mut self.recorder {
            recorder.add(dir, s, &self.halves, &facts);
        }
    }

    fn take_ack(&mut self, dir: usize, s: &Segment, now: u64, lag: u64) -> (u64, bool) {
        let (left, right) = self.halves.split_at_mut(1);
        // `h` sent this ACK; `p` sent the data that it acknowledges, and is `lag` away from the capture.
        let (h, p) = if dir == 0 { (&mut left[0], &mut right[0]) } else { (&mut right[0], &mut left[0]) };
        if s.flags.contains(Flags::RST) {
            return (0, false);
        }
        p.begin(s.ack);
        let ack = p.place(s.ack);
        let old_window = h.window;
        take_window(h, p, s, now, ack);
        if h.zero_since > 0 && h.window > 0 {
            let cost = now - h.zero_since;
            let episode = Episode { at: h.zero_since, cost, packets: [h.zero_number, s.number, 0], detail: 0 };
            self.book.add(Happening::ZeroWindow, dir, episode);
            h.zero_since = 0;
        }
        let pure = s.payload == 0 && !s.flags.intersects(Flags::SYN | Flags::FIN);
        if pure {
            h.count.pure_acks += 1;
        }
        if let Some((_, Some(echo))) = s.options.timestamps {
            p.rtt.value_echoed(echo, now);
        }
        if ack > p.next {
            // The peer has bytes that the capture has not.
            if p.count.packets > 0 {
                p.open_hole(p.next, ack, 0, None);
            }
            p.reach(ack);
        }
        let duplicate = pure
            && ack == p.una
            && p.next > ack
            && h.window == old_window
            && h.window > 0
            && !s.flags.contains(Flags::SYN);
        let (suspected, sacks) = (p.suspect_at > 0, s.options.sack.as_slice());
        if !sacks.is_empty() {
            h.rare.sack_acks += 1;
            take_sack(p, s, ack, now, &mut self.book, 1 - dir);
        }
        if duplicate {
            h.rare.duplicate_acks += 1;
            p.duplicates += 1;
            if p.suspect_at == 0 {
                p.suspect_at = now;
            }
        }
        p.heard_at = now;
        let advanced = ack.saturating_sub(p.una);
        if advanced > 0 {
            if suspected && p.recovery.is_none() {
                // Duplicate ACKs or SACK blocks, but no resend was needed: packets changed places beyond the capture.
                p.rare.reordered_beyond += 1;
                let extent = p.sacked.highest().unwrap_or(ack).saturating_sub(p.una);
                p.rare.reorder_extent = p.rare.reorder_extent.max(extent);
            }
            let late = advance(p, h, s, ack, now, pure, advanced);
            if p.next == ack {
                p.late = late.map(Box::new);
            }
            // An echo of 0 says that the side has none (RFC 7323, section 3.2).
            let echo = s.options.timestamps.and_then(|t| t.1).filter(|e| *e != 0);
            if let Some(needless) = p.repairs.as_mut().and_then(|r| r.covered(ack, echo)) {
                convict(p, needless, s.number, now, &mut self.book, 1 - dir);
            }
            if let Some(r) = p.recovery.as_deref().copied().filter(|r| ack >= r.point) {
                let episode = Episode {
                    at: r.began,
                    cost: now - r.began.min(now),
                    packets: [r.original, r.number, s.number],
                    detail: r.class as u64,
                };
                self.book.add(Happening::Recovery, 1 - dir, episode);
                p.recovery = None;
                // The window that it leaves is another one: what was in flight before says nothing of it.
                (p.round_end, p.round_peak, p.flat_rounds, p.flat_level) = (p.next, 0, 0, 0);
            }
            follow_restart(p, now, lag, &mut self.book, 1 - dir);
        }
        let edge = ack.saturating_add(h.window);
        p.acknowledged_to(now, edge, lag);
        (advanced, duplicate)
    }

    fn take_data(&mut self, dir: usize, s: &Segment, now: u64, lag: u64) -> Data {
        let peer_window_zero = self.halves[1 - dir].window == 0 && self.halves[1 - dir].window_known;
        let answers_seen = self.halves[1 - dir].count.packets > 0;
        let sack_in_use = self.halves.iter().all(|h| h.offered.sack) || self.halves[1 - dir].rare.sack_acks > 0;
        let established = self.established_at.is_some();
        let h = &mut self.halves[dir];
        let length = u64::from(s.sequence_length());
        let payload = u64::from(s.payload);
        if length == 0 || s.flags.contains(Flags::RST) {
            let behind = h.place(s.seq).wrapping_add(1) == h.next;
            if behind && h.una == h.next && h.next > START + 1 && s.flags.contains(Flags::ACK) && established {
                return if peer_window_zero {
                    h.rare.window_probes += 1;
                    Data::Probe
                } else {
                    h.rare.keep_alives += 1;
                    Data::KeepAlive
                };
            }
            return Data::None;
        }
        let start = h.place(s.seq);
        let end = start + length;
        if payload > 0 {
            h.count.payload_packets += 1;
            h.count.payload_bytes += payload;
        }
        // SYN comes before the payload, FIN after it.
        let first = start + u64::from(s.flags.contains(Flags::SYN));
        if end <= h.next {
            return self.take_old(
                dir,
                s,
                now,
                lag,
                (start, end),
                first,
                Signs {
                    quiet: 0,
                    rtt: None,
                    variation: 0,
                    duplicates: 0,
                    sacked_above: false,
                    tail: false,
                    alone: false,
                    again: false,
                    recovery: None,
                    sack_in_use,
                    answers_seen,
                },
            );
        }
        if start > h.next && h.next > START {
            h.open_hole(h.next, start, now, s.network.id);
        }
        let resent_part = h.next.saturating_sub(first.max(START)).min(payload);
        let filled =
            if first < h.next && payload > 0 { h.holes.remove(first, h.next.min(first + payload)).0 } else { 0 };
        let again = resent_part.saturating_sub(filled);
        h.count.unique_bytes += payload - again;
        h.count.resent_bytes += again;
        if again > 0 {
            h.count.resent_packets += 1;
            h.rare.by_class[Class::Unclear as usize] += 1;
        }
        if s.flags.contains(Flags::FIN) && h.fin.is_none() {
            h.fin = Some(s.number);
        }
        self.after_pause(dir, s, now, lag);
        self.released(dir, s, now, lag);
        let h = &mut self.halves[dir];
        let from = h.next.max(start);
        h.reach(end);
        h.sent(from, end, now, s.number, lag);
        if payload > 0 {
            if self.halves[dir].limit == 0 {
                self.halves[dir].limit = segment_limit(&self.halves, dir).unwrap_or(0);
            }
            let h = &mut self.halves[dir];
            let size = if h.limit > 0 { s.payload.min(h.limit) } else { s.payload };
            if s.payload > size {
                h.rare.larger_than_mss += 1;
            }
            if size > h.segment_size {
                (h.segment_size, h.full_runs) = (size, 0);
            } else if size == h.segment_size && h.last_payload == size && h.last_data_at > h.heard_at {
                h.full_runs = h.full_runs.saturating_add(1);
            }
            if u64::from(s.payload) * 4 < u64::from(h.segment_size.max(536)) {
                h.count.small += 1;
                // Small ones one after the other, without an answer in between: not a dialogue.
                h.count.small_bursts += u64::from(
                    h.last_data_at > h.heard_at && u64::from(h.last_payload) * 4 < u64::from(h.segment_size.max(536)),
                );
            }
            // A quarter of the RTT without anything is the end of a burst.
            let pause = (h.rtt.base().unwrap_or(0).saturating_add(lag) / 4).max(200_000);
            if h.count.payload_packets >= 4 {
                h.bursts.get_or_insert_default().arrivals.add(now, payload, h.segment_size, pause);
            }
            (h.previous_payload, h.last_payload) = (h.last_payload, s.payload);
            let (answered_at, question) = (self.halves[1 - dir].last_data_at, self.halves[1 - dir].last_data_number);
            if answered_at > 0 && answered_at >= self.halves[dir].last_data_at {
                self.turns[dir].add(now - answered_at.min(now), question, s.number);
            }
            let h = &mut self.halves[dir];
            h.last_data_at = now;
            h.last_data_number = s.number;
            self.full_window(dir, s.number, now);
            if let Some((Some(value), _)) = s.options.timestamps {
                self.halves[dir].rtt.value_sent(value, now);
            }
        }
        if peer_window_zero && payload == 1 {
            self.halves[dir].rare.window_probes += 1;
            return Data::Probe;
        }
        Data::New
    }

    /// A segment that lies wholly below what was seen before.
    #[expect(clippy::too_many_arguments, reason = "the facts of one packet, each by its name")]
    fn take_old(
        &mut self,
        dir: usize,
        s: &Segment,
        now: u64,
        lag: u64,
        span: (u64, u64),
        first: u64,
        mut signs: Signs,
    ) -> Data {
        let (start, end) = span;
        let peer_window_zero = self.halves[1 - dir].window == 0 && self.halves[1 - dir].window_known;
        let h = &mut self.halves[dir];
        let payload = u64::from(s.payload);
        let (filled, hole) = if payload > 0 { h.holes.remove(first, first + payload) } else { (0, None) };
        h.count.unique_bytes += filled;
        h.count.resent_bytes += payload - filled;
        if s.flags.contains(Flags::SYN) {
            h.rare.by_class[Class::Syn as usize] += 1;
            h.flight.resend(start, end, now);
            let from = self.first_syn_at.unwrap_or(now);
            let episode =
                Episode { at: from, cost: now - from.min(now), packets: [self.first_number, s.number, 0], detail: 0 };
            self.book.add(Happening::SynRetry, dir, episode);
            return Data::Resent(Class::Syn);
        }
        if payload <= 1
            && !s.flags.contains(Flags::FIN)
            && end == h.next
            && start >= h.una.saturating_sub(1)
            && (h.una == h.next || peer_window_zero)
        {
            if peer_window_zero {
                h.rare.window_probes += 1;
                return Data::Probe;
            }
            h.rare.keep_alives += 1;
            return Data::KeepAlive;
        }
        let full_rtt = h.rtt.smoothed().map(|r| r.saturating_add(lag));
        if let Some(hole) = hole
            && filled == payload
        {
            // Sent before what opened the hole? The identification tells where it counts up; else the time does: a repair
            // takes an RTT at least.
            let older = hole
                .id
                .zip(s.network.id)
                .filter(|(a, b)| *a != 0 && *b != 0)
                .map(|(opened, this)| (this.wrapping_sub(opened) as i16) < 0);
            let soon = now - hole.at.min(now) < full_rtt.map_or(3_000_000, |r| r.saturating_sub(r / 8));
            if hole.at > 0 && (older == Some(true) || soon && older != Some(false)) || hole.at == 0 && start < START {
                h.rare.out_of_order += 1;
                h.rare.reorder_extent = h.rare.reorder_extent.max(h.next - end);
                h.sent(start, end, now, s.number, lag);
                return Data::OutOfOrder;
            }
            h.rare.unseen_original += 1;
        }
        let original = h.flight.resend(start, end, now);
        let heard =
            h.heard_at.max(original.map_or(0, |o| o.at)).max(if original.is_none() { h.last_data_at } else { 0 });
        signs = Signs {
            quiet: now - heard.min(now),
            rtt: full_rtt,
            variation: h.rtt.variation(),
            duplicates: h.duplicates,
            sacked_above: h.sacked.highest().is_some_and(|top| top > end),
            tail: end == h.next && start > h.una,
            alone: end == h.next && start == h.una,
            again: original.is_some_and(|o| o.resends > 0),
            recovery: h.recovery.as_ref().map(|r| r.class),
            ..signs
        };
        let class = if end <= h.una { Class::Unclear } else { resend::classify(&signs) };
        h.count.resent_packets += 1;
        h.rare.by_class[class as usize] += 1;
        let repair =
            Repair { start, end, at: now, number: s.number, class, value: s.options.timestamps.and_then(|t| t.0) };
        h.repairs.get_or_insert_default().add(repair);
        if h.recovery.as_ref().is_none_or(|r| class == Class::Timeout && r.class != Class::Timeout) && h.next > h.una {
            let began = match class {
                Class::Timeout | Class::TailLossProbe => heard,
                _ if h.suspect_at > 0 => h.suspect_at,
                _ => now,
            };
            let began = h.recovery.as_ref().map_or(began, |r| r.began.min(began));
            h.recovery = Some(Box::new(Recovery {
                point: h.next,
                class,
                began,
                number: s.number,
                original: original.map_or(0, |o| o.number),
            }));
            (h.flat_rounds, h.flat_level) = (0, 0);
            if class != Class::TailLossProbe {
                h.past_slow_start = class != Class::Timeout;
                h.threshold = h.in_flight() / 2;
            }
        }
        let one = if h.limit > 0 { s.payload.min(h.limit) } else { s.payload };
        if class == Class::Timeout && one > 536 && one > h.largest_acked && one + 64 > h.segment_size {
            let episode = Episode {
                at: now,
                cost: now - heard.min(now),
                packets: [original.map_or(0, |o| o.number), s.number, 0],
                detail: u64::from(one),
            };
            self.book.add(Happening::LargeResend, dir, episode);
        }
        Data::Resent(class)
    }

    /// Looks at new data that comes after a pause.
    fn after_pause(&mut self, dir: usize, s: &Segment, now: u64, lag: u64) {
        let h = &mut self.halves[dir];
        if h.last_data_at == 0 || h.outstanding() || s.payload == 0 {
            return;
        }
        let gap = now - h.last_data_at;
        let timeout = h.timeout(lag);
        if gap < timeout {
            return;
        }
        h.rare.idle.0 += 1;
        h.rare.idle.1 = h.rare.idle.1.saturating_add(gap);
        h.rare.idle.2 = h.rare.idle.2.max(gap);
        let prior = h.last_peak.max(h.round_peak);
        h.restart = Some(Box::new(Restart {
            at: now,
            number: s.number,
            prior,
            first: 0,
            from: h.next,
            round_end: h.next,
            rounds: 0,
        }));
        h.round_peak = 0;
    }

    /// Data leaves right after a late ACK: it had stood waiting for it.
    fn released(&mut self, dir: usize, s: &Segment, now: u64, lag: u64) {
        if self.halves[dir].limit == 0 {
            self.halves[dir].limit = segment_limit(&self.halves, dir).unwrap_or(0);
        }
        let h = &mut self.halves[dir];
        let Some(late) = h.late.take() else { return };
        if now - late.at > at_once(lag) {
            return;
        }
        let full = h.is_full(s.payload);
        let what = if full { Happening::DelayedAckStall } else { Happening::NagleStall };
        let episode = Episode {
            at: late.sent_at,
            cost: late.excess,
            packets: [late.data, late.ack, s.number],
            detail: u64::from(h.last_payload) << 32 | u64::from(s.payload),
        };
        self.book.add(what, dir, episode);
    }

    fn full_window(&mut self, dir: usize, number: u64, now: u64) {
        let (known, largest) = (self.halves[1 - dir].window_known, self.halves[1 - dir].max_window);
        let h = &mut self.halves[dir];
        let room = h.view.edge.saturating_sub(h.next);
        if !known
            || h.view.edge <= START
            || room >= u64::from(h.segment_size)
            || u64::from(h.in_flight()) < 2 * u64::from(h.segment_size)
        {
            return;
        }
        let window = h.view.edge.saturating_sub(h.view.una);
        if h.rare.full_windows == 0 {
            h.rare.full_least = window;
        }
        h.rare.full_windows += 1;
        h.rare.full_shrunk += u64::from(window < largest / 2);
        h.rare.full_least = h.rare.full_least.min(window);
        h.rare.full_most = h.rare.full_most.max(window);
        if h.rare.full_windows <= 8 {
            self.book.add(
                Happening::WindowFull,
                dir,
                Episode { at: now, cost: 0, packets: [number, 0, 0], detail: window },
            );
        }
    }

    fn limit_now(&self) -> (State, usize) {
        if self.established_at.is_none() {
            return (State::Known(Limit::Handshake), TO_SERVER);
        }
        let out = |d: usize| self.halves[d].next.saturating_sub(self.halves[d].una);
        let dir = if out(1) >= out(0) { 1 } else { 0 };
        let h = &self.halves[dir];
        let p = &self.halves[1 - dir];
        if out(dir) == 0 {
            // A closed window with everything acknowledged: the sender would go on if it could.
            for d in [1, 0] {
                let closed = &self.halves[1 - d];
                if closed.zero_since > 0 && self.halves[d].fin.is_none() {
                    return (State::Known(Limit::ReceiveWindow), d);
                }
            }
            return (State::Quiet, dir);
        }
        if h.recovery.is_some() {
            return (State::Known(Limit::LossRecovery), dir);
        }
        if h.duplicates > 0 || !h.sacked.is_empty() {
            return (State::Suspect, dir);
        }
        if p.zero_since > 0 {
            return (State::Known(Limit::ReceiveWindow), dir);
        }
        let size = h.segment_size;
        // The last segment up to the window's edge is part-filled more often than not, so the edge is looked at first.
        let at_edge = p.window_known && h.view.edge > START && h.view.edge < h.next + u64::from(size);
        if at_edge && h.in_flight() > size && h.fin.is_none() {
            return (State::Known(Limit::ReceiveWindow), dir);
        }
        // Both parts of the path under load against both at rest. 1 ms and a quarter: what scheduling adds on a LAN.
        let rest = h.rtt.base().unwrap_or(0).saturating_add(p.rtt.base().unwrap_or(0));
        let load =
            h.rtt.loaded().or(h.rtt.base()).unwrap_or(0).saturating_add(p.rtt.loaded().or(p.rtt.base()).unwrap_or(0));
        let queued = load > rest.saturating_add(rest / 4 + 1_000_000);
        if !h.is_full(h.last_payload) || h.fin.is_some() {
            // The last of the data has been sent, but the bottleneck is still at work on what stands in its queue.
            let draining = queued && h.in_flight() / 4 >= size.max(1);
            return (if draining { State::Known(Limit::PathRate) } else { State::Waiting }, dir);
        }
        let limit = if queued {
            Limit::PathRate
        } else if h.past_slow_start {
            Limit::CongestionWindow
        } else {
            Limit::SlowStart
        };
        (State::Known(limit), dir)
    }

    /// Gives the time since the last packet to what limited it, in the light of the packet that ended it.
    fn share_out(&mut self, dir: usize, s: &Segment, elapsed: u64, lag: u64, facts: &Facts) {
        let (state, of) = self.state;
        let resent = matches!(facts.data, Data::Resent(c) if c != Class::Syn);
        let new = facts.data == Data::New;
        let handed_over = std::mem::take(&mut self.held);
        if let Some(Late { excess, charged: Some((limit, time)), .. }) = facts.released {
            self.budgets[dir].shift(limit, Limit::AckWaiting, excess.min(time));
        }
        let budget = &mut self.budgets[of];
        if resent && dir == of {
            budget.add(Limit::LossRecovery, elapsed.saturating_add(handed_over));
            return;
        }
        match state {
            State::Known(Limit::Handshake) => self.budgets[TO_SERVER].add(Limit::Handshake, elapsed),
            State::Known(limit) => {
                let path = self.halves[of].rtt.smoothed().unwrap_or(0).saturating_add(lag).max(2_000_000);
                // New data after more than an RTT in which nothing happened: nothing but the application released it.
                let by_itself = new
                    && dir == of
                    && elapsed > path
                    && matches!(limit, Limit::SlowStart | Limit::CongestionWindow | Limit::PathRate);
                let limit = if by_itself { Limit::Application } else { limit };
                budget.add(limit, elapsed);
                if let Some(late) = self.halves[of].late.as_mut().filter(|l| l.ack == s.number) {
                    late.charged = Some((limit, elapsed));
                }
                if limit != Limit::Application {
                    self.bulk[of] = limit;
                }
            }
            State::Quiet => {
                // The last ACK needs `lag` to reach the sender and for the data it releases to come here.
                let travel = if new && s.payload > 0 { elapsed.min(lag) } else { 0 };
                let bulk = if self.halves[dir].is_full(self.halves[dir].previous_payload) {
                    self.bulk[dir]
                } else {
                    Limit::Application
                };
                self.budgets[dir].add(bulk, travel);
                self.budgets[dir].add(Limit::Application, elapsed - travel);
            }
            State::Waiting | State::Answered
                if dir != of
                    && s.payload == 0
                    && facts.advanced > 0
                    && !s.flags.intersects(Flags::SYN | Flags::FIN | Flags::RST) =>
            {
                // A pure ACK: what comes after the last of them tells whether data stood waiting for it.
                self.held = elapsed.saturating_add(handed_over);
                self.held_for = (of, false);
            }
            State::Waiting => budget.add(Limit::Application, elapsed.saturating_add(handed_over)),
            State::Answered => {
                let h = &self.halves[of];
                let waited = new && dir == of && elapsed <= at_once(lag);
                // Nagle's rule holds back no full segment: one that follows the ACK of a whole flight had no room in
                // the sender's window or buffer, and waited for the ACK's own delay only where that was late.
                let no_room = waited && h.is_full(s.payload) && h.last_peak.max(h.round_peak) / 4 >= h.segment_size;
                let late = facts.released.map_or(0, |l| l.excess).min(handed_over);
                match (waited, no_room) {
                    (true, true) => {
                        budget.add(Limit::AckWaiting, late);
                        budget.add(Limit::CongestionWindow, handed_over - late + elapsed);
                    }
                    (true, false) => budget.add(Limit::AckWaiting, handed_over + elapsed),
                    (false, _) => budget.add(Limit::Application, handed_over + elapsed),
                }
            }
            State::Suspect => {
                // Until a resend (loss) or an advance (reordering) decides.
                let all = elapsed.saturating_add(handed_over);
                if dir != of && facts.advanced > 0 {
                    budget.add(self.bulk[of], all);
                } else {
                    self.held = all;
                    self.held_for = (of, true);
                }
            }
        }
    }

    /// The budgets with the time in them that no packet will decide any more.
    pub(crate) fn settled(&self) -> [Budget; 2] {
        let mut budgets = self.budgets;
        let (of, suspect) = self.held_for;
        budgets[of].add(if suspect { Limit::LossRecovery } else { Limit::Application }, self.held);
        budgets
    }

    /// Held time needs a state that asks the next packet about it; where there is none, it is decided at once.
    fn note_held(&mut self) {
        let (of, suspect) = self.held_for;
        match self.state.0 {
            _ if self.held == 0 => {}
            State::Suspect if suspect && self.state.1 == of => {}
            State::Quiet | State::Waiting if !suspect => self.state = (State::Answered, of),
            _ => {
                self.budgets = self.settled();
                self.held = 0;
            }
        }
    }
}

/// The payload that a packet of direction `dir` may carry at most, where the handshake tells: the peer's MSS less the
/// time-stamp option, which every packet then carries (RFC 6691).
pub(crate) fn segment_limit(halves: &[Half; 2], dir: usize) -> Option<u32> {
    let mss = u32::from(halves[1 - dir].offered.mss?);
    let stamped = halves.iter().all(|h| h.offered.timestamps);
    Some(mss.saturating_sub(if stamped { 12 } else { 0 }).max(1))
}

/// The scale of the windows that `h` advertises: its own where both sides offered one.
pub(crate) fn scale(h: &Half, p: &Half) -> Option<u8> {
    match (h.offered.seen, p.offered.seen) {
        (true, true) => match (h.offered.window_scale, p.offered.window_scale) {
            (Some(own), Some(_)) => Some(own.min(14)),
            _ if h.offered.cut || p.offered.cut => None,
            _ => Some(0),
        },
        _ => None,
    }
}

#[inline]
fn take_window(h: &mut Half, p: &mut Half, s: &Segment, now: u64, ack: u64) {
    let syn = s.flags.contains(Flags::SYN);
    let known = if syn { Some(0) } else { scale(h, p) };
    h.window_known = known.is_some();
    h.window = u64::from(s.window) << known.unwrap_or(h.least_scale);
    if known.is_none() && p.next > p.una.max(ack) && h.window > 0 && p.count.packets > 8 {
        // Nobody sends beyond the window, so what is out tells what the window must at least have been.
        while p.next - p.una.max(ack) > h.window + u64::from(p.segment_size) && h.least_scale < 14 {
            h.least_scale += 1;
            h.window <<= 1;
        }
    }
    h.max_window = h.max_window.max(h.window);
    if s.window == 0 && !syn {
        h.rare.zero_windows += 1;
        if h.zero_since == 0 {
            (h.zero_since, h.zero_number) = (now.max(1), s.number);
        }
    }
}

/// The peer acknowledged up to `ack`.
fn advance(p: &mut Half, h: &mut Half, s: &Segment, ack: u64, now: u64, pure: bool, advanced: u64) -> Option<Late> {
    let acked = p.flight.acknowledge(ack);
    let clean = !acked.resent && p.duplicates == 0 && p.sacked.is_empty();
    let mut late = None;
    let handshake = p.una <= START && p.offered.seen;
    if let Some(last) = acked.last.filter(|_| clean) {
        let rtt = now - last.at.min(now);
        if handshake && last.end == START + 1 {
            p.rtt.take_handshake(rtt);
        } else if !handshake || pure {
            let base = p.rtt.recent();
            if pure {
                let promptness = h.habits.take(acked.segments, advanced, p.full_size(), Some(rtt), base);
                if let Promptness::Late(excess) = promptness {
                    late = Some(Late {
                        data: last.number,
                        sent_at: last.at,
                        ack: s.number,
                        at: now,
                        excess,
                        charged: None,
                    });
                }
            }
            let loaded = u64::from(last.flight) >= 4 * u64::from(p.segment_size);
            p.rtt.take(rtt, now, last.number, last.flight, loaded, late.is_some());
        }
    }
    let pause = (p.rtt.base().unwrap_or(0) / 4).max(200_000);
    if let Some(bursts) = &mut p.bursts {
        bursts.delivered.add(now, advanced, p.segment_size.max(1), pause);
    }
    p.una = ack;
    p.una_at = now;
    p.duplicates = 0;
    p.suspect_at = 0;
    // What one packet on the wire carried: of a frame that offload left whole, that is known only where it is a multiple.
    let carried = match p.last_payload.max(p.previous_payload) {
        whole if p.limit > 0 && whole > p.limit => u32::from(whole.is_multiple_of(p.limit)) * p.limit,
        one => one,
    };
    p.largest_acked = p.largest_acked.max(u32::try_from(advanced).unwrap_or(u32::MAX).min(carried));
    p.sacked.trim(ack);
    if ack >= p.round_end {
        round(p);
    }
    late
}

/// A round of one RTT is over.
fn round(p: &mut Half) {
    let (peak, last) = (p.round_peak, p.last_peak);
    p.round_end = p.next;
    if peak == 0 {
        // Nothing was sent in it.
        return;
    }
    let size = p.segment_size.max(1);
    if p.recovery.is_none() {
        // A level is left by growth of more than a segment, which congestion avoidance makes in two rounds; a round may
        // fall short of it, because writes and acknowledgments do not come in step.
        let level = p.flat_level;
        if peak / 4 > size && peak <= level.saturating_add(size) && peak >= level / 2 {
            p.flat_rounds = p.flat_rounds.saturating_add(1);
        } else {
            (p.flat_rounds, p.flat_level) = (0, peak);
        }
        if p.flat_rounds > p.rare.most_flat.0.max(2) {
            p.rare.most_flat = (p.flat_rounds, p.flat_level);
        }
        // Slow start doubles each round (half that with delayed ACKs); two rounds of a segment or less are no slow start.
        let steady = last / 4 > size && peak.abs_diff(last) <= size;
        if p.is_full(p.last_payload) && (steady && p.steady || p.threshold > 0 && peak >= p.threshold) {
            p.past_slow_start = true;
        }
        p.steady = steady;
    }
    p.last_peak = peak;
    p.round_peak = 0;
}

fn take_sack(p: &mut Half, s: &Segment, ack: u64, now: u64, book: &mut Book, dir: usize) {
    let blocks = s.options.sack.as_slice();
    let place = |n: SeqNumber| p.place(n);
    let (left, right) = (place(blocks[0].0), place(blocks[0].1));
    let inside = blocks.get(1).is_some_and(|b| place(b.0) <= left && right <= place(b.1));
    let spans: [(u64, u64); 4] = std::array::from_fn(|i| blocks.get(i).map_or((0, 0), |b| (place(b.0), place(b.1))));
    let double = right <= ack || inside;
    if double && left < right {
        match p.repairs.as_mut().and_then(|r| r.named(left, right)) {
            Some(repair) => convict(p, repair, s.number, now, book, dir),
            None => p.rare.needless_unmatched += 1,
        }
    }
    for (start, end) in spans.into_iter().skip(usize::from(double)) {
        if start > ack && end > start && end <= p.next {
            p.sacked.insert(Range { start, end, at: now, id: None });
            if p.suspect_at == 0 {
                p.suspect_at = now;
            }
        }
    }
}

/// A resend was not needed.
fn convict(p: &mut Half, r: Repair, number: u64, now: u64, book: &mut Book, dir: usize) {
    p.rare.spurious += 1;
    let episode =
        Episode { at: r.at, cost: now - r.at.min(now), packets: [r.number, number, 0], detail: r.class as u64 };
    book.add(Happening::NeedlessRecovery, dir, episode);
}

/// After a pause: how many rounds it takes to come back to the former window.
fn follow_restart(p: &mut Half, now: u64, lag: u64, book: &mut Book, dir: usize) {
    let (size, peak, next, una, more) =
        (p.segment_size.max(1), p.round_peak.max(p.last_peak), p.next, p.una, p.is_full(p.last_payload));
    let Some(r) = p.restart.as_deref_mut() else { return };
    if una <= r.from || una < r.round_end {
        return;
    }
    if r.first == 0 {
        r.first = u32::try_from(next.saturating_sub(r.from)).unwrap_or(u32::MAX);
        // RFC 5681, section 4.1: the restart window is the initial window, ten segments since RFC 6928.
        if r.first > size.saturating_mul(12) || r.prior < r.first.saturating_mul(2) || !more {
            p.restart = None;
            return;
        }
    } else {
        r.rounds += 1;
    }
    r.round_end = next;
    let done = r.rounds > 0 && peak >= r.prior - r.prior / 5;
    if done || !more || r.rounds > 30 {
        let rtt = p.rtt.smoothed().unwrap_or(0).saturating_add(lag);
        if r.rounds > 0 {
            let cost = u64::from(r.rounds).saturating_mul(rtt).min(now - r.at.min(now));
            let detail = u64::from(r.prior) << 32 | u64::from(r.first);
            book.add(Happening::IdleRestart, dir, Episode { at: r.at, cost, packets: [r.number, 0, 0], detail });
        }
        p.restart = None;
    }
}
