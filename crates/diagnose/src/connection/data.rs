//! What a segment's payload was: new, out of order, or retransmitted, and what its sender did by
//! sending it.

use std::num::NonZeroU64;

use record::conversation::Way;
use wire::{Flags, Segment};

use super::old::{Old, note_probing};
use super::{Connection, at_once, segment_limit};
use crate::distance::Distance;
use crate::event::{Event, Events, Occurrence};
use crate::half::{Data, Half, Late, Restart, SHORTEST_TIMEOUT, made};
use crate::idle::FirstTurns;
use crate::ranges::{Range, START};
use crate::retransmission::{self, Class, Recovery, Repair, Signs};

/// What became of a packet's payload.
pub(super) struct Taken {
    pub(super) data: Data,
    /// It lies beyond bytes that the capture has not.
    pub(super) opens_hole: bool,
}

impl From<Data> for Taken {
    fn from(data: Data) -> Self {
        Self { data, opens_hole: false }
    }
}

impl Connection {
    #[inline(always)]
    pub(super) fn take_data(&mut self, way: Way, s: &Segment, now: u64, lag: u64) -> Taken {
        // A window of zero is zero whatever its scale.
        let peer_window_zero = self.halves[!way].window.is_closed();
        let established = self.established;
        let knows = self.knows_lag(way);
        let h = &mut self.halves[way];
        let length = u64::from(s.sequence_length());
        let payload = u64::from(s.payload);
        if length == 0 || s.flags.contains(Flags::RST) {
            let behind = h.space.place(s.seq).wrapping_add(1) == h.space.next();
            if behind
                && h.space.una() == h.space.next()
                && h.space.next() > START + 1
                && s.flags.contains(Flags::ACK)
                && established
            {
                // One that has filled the window and not received the update that passed the
                // capture asks for it.
                let missed_update = h.filled && self.unaware_for(way, s) > lag;
                let h = &mut self.halves[way];
                return if peer_window_zero || missed_update {
                    h.anomalies.window_probes += 1;
                    Data::Probe.into()
                } else {
                    h.anomalies.keep_alives += 1;
                    Data::KeepAlive.into()
                };
            }
            return Data::None.into();
        }
        let start = h.space.place(s.seq);
        let end = start + length;
        if payload > 0 {
            h.count_payload(payload);
        }
        // SYN comes before the payload, FIN after it.
        let first = start + u64::from(s.flags.contains(Flags::SYN));
        if end <= h.space.next() {
            return self.take_old(way, s, now, lag, (start, end), first).into();
        }
        if !h.offered.seen && (h.first_data == 0 || start > h.space.next() && h.is_first_flight()) {
            h.first_data = start;
        }
        let opens_hole = start > h.space.next() && h.space.next() > START;
        if opens_hole || start > h.space.next() && h.first_data > START {
            h.open_hole(h.space.next(), start, now, s.network.id);
            h.find_unseen_timeout(now, start, lag);
        }
        let silence = h.last_data_at > 0 && payload > 0 && now - h.last_data_at.min(now) >= FirstTurns::SILENCE;
        if way == Way::ToClient && silence {
            self.idle.get_or_insert_default().turns.went_on(h.last_data_at, h.count.unique_bytes);
        }
        h.count.unique_bytes += payload;
        if first < h.space.next() && payload > 0 {
            // It begins below what was seen before and goes beyond.
            let filled = h.holes.remove(first, h.space.next().min(first + payload)).0;
            let again = h.space.next().saturating_sub(first.max(START)).min(payload).saturating_sub(filled);
            h.count.unique_bytes -= again;
            if again > 0 {
                h.anomalies.retransmitted_bytes += again;
                h.anomalies.retransmitted_packets += 1;
                h.anomalies.by_class[Class::Unclear as usize] += 1;
            }
        }
        if s.flags.contains(Flags::FIN) && h.fin.is_none() {
            h.fin = NonZeroU64::new(s.number);
        }
        self.after_pause(way, s, now, lag);
        self.released(way, s, now, knows.then_some(lag));
        self.take_new(way, s, now, knows.then_some(lag), lag, (start, end));
        if peer_window_zero && payload == 1 {
            self.halves[way].anomalies.window_probes += 1;
            self.halves[way].late = None;
            return Data::Probe.into();
        }
        Taken { data: Data::New, opens_hole }
    }

    /// Data that reach beyond everything seen so far, from `start` up to `end`, and a sender that
    /// is `lag` away; `known_lag` is that where it is more than a guess.
    #[inline(always)]
    pub(super) fn take_new(
        &mut self,
        way: Way,
        s: &Segment,
        now: u64,
        known_lag: Option<u64>,
        lag: u64,
        (start, end): (u64, u64),
    ) {
        let payload = u64::from(s.payload);
        let h = &mut self.halves[way];
        let from = h.space.next().max(start);
        h.reach(end);
        h.sent(from, end, now, s.number, known_lag);
        if payload > 0 {
            if h.restart.is_some() {
                follow_restart(h, s, now, lag, &mut self.events, way);
            }
            self.find_limit(way);
            let offered = self.halves[!way].window.largest();
            let h = &mut self.halves[way];
            if s.payload > 1_460 && h.sizes.limit() == 0 {
                h.sizes.infer_limit(s);
            }
            if s.payload > h.sizes.of_one(s.payload) {
                h.anomalies.larger_than_mss += 1;
            }
            let unanswered = h.last_data_at > h.heard_at;
            h.sizes.take(s, unanswered);
            if payload == offered / 2 {
                h.sizes.fill_half_window();
            }
            h.pushes.take(s.flags.contains(Flags::PSH));
            if h.sizes.is_small(s.payload) {
                h.count.small = h.count.small.saturating_add(1);
                // Small ones one after the other, without an answer in between: not a dialogue.
                let follows = unanswered && h.sizes.is_small(h.sizes.previous());
                h.count.small_bursts = h.count.small_bursts.saturating_add(follows.into());
            }
            if h.count.payload_packets >= 4 {
                let rtt = h.rtt.base().unwrap_or(0).saturating_add(lag);
                let (bursts, size) = (made(&mut h.bursts), h.sizes.largest());
                bursts.arrived(now, payload, size, rtt);
                let stamp = s.options.timestamps.and_then(|t| t.0);
                bursts.came(now, end, size, || h.habits.waited(stamp?, now));
            }
            let (answered_at, question) = (self.halves[!way].last_data_at, self.halves[!way].last_data_number);
            if answered_at > 0 && answered_at >= self.halves[way].last_data_at {
                self.turns[way].add(now - answered_at.min(now), question, s.number);
                self.idle.get_or_insert_default().turns.turned(way, answered_at, now);
            }
            let h = &mut self.halves[way];
            h.last_data_at = now;
            h.last_data_number = s.number;
            self.full_window(way, s.number, now);
            if let Some((Some(value), _)) = s.options.timestamps {
                self.halves[way].rtt.value_sent(value, now);
            }
        }
    }

    /// A segment that lies wholly below what was seen before: it is asked in turn whether it is a
    /// retransmitted SYN, a probe, a packet that was overtaken, or else a retransmission.
    #[cold]
    fn take_old(&mut self, way: Way, s: &Segment, now: u64, lag: u64, (start, end): (u64, u64), first: u64) -> Data {
        let old = Old::new(self, way, s, (now, lag), (start, end));
        let h = &mut self.halves[way];
        let payload = u64::from(s.payload);
        let was_damaged = h.anomalies.damage.as_mut().is_some_and(|d| d.repaired(first, first + payload));
        let (filled, hole) = if payload > 0 { h.holes.remove(first, first + payload) } else { (0, None) };
        h.count.unique_bytes += filled;
        if payload > filled {
            h.anomalies.retransmitted_bytes += payload - filled;
        }
        if s.flags.contains(Flags::SYN) {
            return self.take_syn_again(way, &old);
        }
        if let Some(probe) = old.take_probe(h) {
            return probe;
        }
        if let Some(hole) = hole
            && filled == payload
            && !was_damaged
        {
            if old.was_overtaken(&hole) {
                h.anomalies.out_of_order += 1;
                h.anomalies.reorder_extent = h.anomalies.reorder_extent.max(h.space.next() - end);
                h.sent(start, end, now, s.number, None);
                return Data::OutOfOrder;
            }
            h.anomalies.unseen_original += 1;
            h.anomalies.behind_ack += u32::from(end <= h.space.una());
        }
        self.take_retransmission(way, &old, hole)
    }

    /// A SYN or SYN-ACK that came before.
    fn take_syn_again(&mut self, way: Way, old: &Old<'_>) -> Data {
        let (h, now, number) = (&mut self.halves[way], old.now, old.s.number);
        h.anomalies.by_class[Class::Syn as usize] += 1;
        let original = h.flight.retransmit(old.start, old.end, now);
        let last = self.events.of(Event::SynRetry, way).and_then(|e| e.worst.first());
        // One that was answered is no longer in flight; the client's is the first packet.
        let begun = self.first_syn_at.filter(|_| way == Way::ToServer).map(|at| (at.get(), self.first_number));
        let first = last.map(|e| (e.at, e.packets[0])).or(original.map(|o| (o.at, o.number))).or(begun);
        let (from, first) = first.unwrap_or((now, number));
        let (cost, detail) = (now - from.min(now), u64::from(original.is_none()));
        self.events.add(Event::SynRetry, way, Occurrence { at: from, cost, packets: [first, number, 0], detail });
        Data::Retransmitted(Class::Syn)
    }

    /// What brought a retransmission about, and the recovery that it begins.
    fn take_retransmission(&mut self, way: Way, old: &Old<'_>, hole: Option<Range>) -> Data {
        let h = &mut self.halves[way];
        let Old { s, now, start, end, .. } = *old;
        let sent_last = h.last_data_at.max(h.repairs.latest().map_or(0, |l| l.at));
        let original = h.flight.retransmit(start, end, now);
        let heard = old.heard(h, original.as_ref());
        // The ACK that ended a recovery may have had to go all the way to the sender yet.
        let still = if old.distance == Distance::Near || h.recovery.is_some() {
            None
        } else {
            // Round trips vary: what came seven eighths of one later may be the answer.
            h.repairs.still_for_sender(h.view.una_at(now, old.lag - old.lag / 8))
        };
        let again = original.is_some_and(|o| o.retransmissions > 0);
        let signs = Signs {
            quiet: now - heard.min(now),
            rtt: old.rtt,
            variation: h.rtt.variation(),
            duplicates: h.scoreboard.duplicates(),
            sacked_above: h.scoreboard.highest().is_some_and(|top| top > end),
            tail: end == h.space.next() && start != h.space.una(),
            alone: end == h.space.next() && start == h.space.una(),
            again,
            stuck: old.is_stuck(h, hole, again),
            recovery: h.recovery.as_ref().map(|r| r.class).or(still.map(|r| r.class)),
            missed_first: old.missed_first(h),
            back_to_back: old.is_back_to_back(h),
            knows_no_probes: h.repairs.knows_no_probes(),
            sack_in_use: old.sack_in_use,
            answers_seen: old.answers_seen,
        };
        let class = if end <= h.space.una() {
            retransmission::belated(&old.belated(h, sent_last), &signs)
        } else {
            retransmission::classify(&signs)
        };
        h.anomalies.retransmitted_packets += 1;
        let reported = retransmission::reported(class, &signs, h.repairs.knows_probes());
        h.anomalies.by_class[reported as usize] += 1;
        h.anomalies.retransmitted_fins += u32::from(s.payload == 0);
        let value = s.options.timestamps.and_then(|t| t.0);
        h.repairs.add(Repair { start, end, at: now, number: s.number, class, value });
        note_probing(h, class, &signs, start);
        let began_later = |r: &Recovery| class == Class::Timeout && r.class != Class::Timeout;
        if still.as_ref().is_none_or(began_later)
            && h.recovery.as_deref().is_none_or(began_later)
            && h.space.next() > h.space.una()
        {
            old.begin_recovery(h, class, heard, &signs, original.map_or(0, |o| o.number));
        }
        if class == Class::Timeout
            && (signs.by_timer() || signs.stuck && again)
            && let Some(recovery) = h.recovery.as_mut().filter(|r| r.class == Class::Timeout)
        {
            // The timer ran out once more: everything sent until now is to be repaired (RFC 6582,
            // section 4).
            recovery.point = h.space.next();
        }
        let one = h.sizes.of_one(s.payload);
        if class == Class::Timeout && one > 536 && one > h.sizes.largest_acked() && one + 64 > h.sizes.largest() {
            let occurrence = Occurrence {
                at: now,
                cost: now - heard.min(now),
                packets: [original.map_or(0, |o| o.number), s.number, 0],
                detail: u64::from(one),
            };
            self.events.add(Event::LargeRetransmission, way, occurrence);
        }
        Data::Retransmitted(reported)
    }

    /// Looks at new data that comes after a pause.
    #[inline(always)]
    pub(super) fn after_pause(&mut self, way: Way, s: &Segment, now: u64, lag: u64) {
        // What waits for a closed or a full window is no pause of the sender's, and probes of it
        // are no new beginning.
        let closed = self.halves[!way].window.is_closed();
        let h = &mut self.halves[way];
        if h.last_data_at == 0 || h.outstanding() || s.payload == 0 || closed || h.filled {
            return;
        }
        // A sender that waits for an ACK is not idle.
        let idle_since = h.last_data_at.max(if h.una_at > 0 { h.una_at.saturating_add(lag) } else { 0 });
        let gap = now - idle_since.min(now);
        if gap < SHORTEST_TIMEOUT || gap < h.timeout(lag) {
            return;
        }
        h.anomalies.idle.0 += 1;
        h.anomalies.idle.1 = h.anomalies.idle.1.saturating_add(gap);
        h.anomalies.idle.2 = h.anomalies.idle.2.max(gap);
        let prior = h.rounds.recent_peak();
        h.restart = Some(Box::new(Restart {
            at: now,
            number: s.number,
            prior,
            first: 0,
            from: h.space.next(),
            rounds: h.rounds.count,
        }));
        h.rounds.peak = 0;
    }

    /// What the handshake lets a packet of this direction carry, as soon as both sides of it are
    /// known.
    #[inline(always)]
    pub(super) fn find_limit(&mut self, way: Way) {
        if self.halves[way].sizes.limit() == 0
            && let Some(limit) = segment_limit(&self.halves, way)
        {
            self.halves[way].sizes.take_limit(limit);
        }
    }

    /// New data leaves, which may have stood waiting for a late ACK.
    #[inline(always)]
    fn released(&mut self, way: Way, s: &Segment, now: u64, lag: Option<u64>) {
        self.find_limit(way);
        if let (Some(late), Some(lag)) = (self.halves[way].late.as_deref().copied(), lag) {
            self.note_stall(way, s, now, lag, &late);
        }
    }

    /// Data leaves right after a late ACK: it had stood waiting for it.
    fn note_stall(&mut self, way: Way, s: &Segment, now: u64, lag: u64, late: &Late) {
        // What the peer sent behind its ACK: the application may have had nothing to send until
        // that came.
        let question = self.halves[!way].last_data_at;
        let h = &self.halves[way];
        let answers = question > late.at && now - question.min(now) >= lag - lag / 4;
        // What comes sooner than an ACK can bring it about was on its way already; and where the
        // window had been full, that was waited for.
        let since = now - late.at;
        if answers || h.filled || since < lag - lag / 4 || since > at_once(lag) {
            return;
        }
        let full = h.sizes.is_full(s.payload);
        let what = if full { Event::DelayedAckStall } else { Event::NagleStall };
        let occurrence = Occurrence {
            at: late.sent_at,
            cost: late.excess,
            packets: [late.data, late.ack, s.number],
            detail: u64::from(h.sizes.last()) << 32 | u64::from(s.payload),
        };
        self.events.add(what, way, occurrence);
        if !full {
            self.halves[way].rounds.note_held_back();
        }
    }

    #[inline(always)]
    pub(super) fn full_window(&mut self, way: Way, number: u64, now: u64) {
        let (known, largest) = (self.halves[!way].window.scale_is_known(), self.halves[!way].window.largest());
        let h = &mut self.halves[way];
        let room = h.view.edge().saturating_sub(h.space.next());
        let size = u64::from(h.sizes.largest());
        if !known || h.view.edge() <= START || room >= size {
            return;
        }
        let window = h.view.edge().saturating_sub(h.view.una());
        // A window of less than three segments is full with a single one.
        let narrow = window < 3 * size && h.sizes.is_full(h.sizes.last());
        // Nor do the writes of a program end at its edge, to the byte.
        let to_the_byte = room == 0 && u64::from(h.in_flight()) > size;
        if u64::from(h.in_flight()) < 2 * size && !narrow && !to_the_byte {
            return;
        }
        h.filled = true;
        let counters = &mut *h.anomalies;
        if counters.full_windows == 0 {
            counters.full_least = window;
        }
        counters.full_windows += 1;
        counters.full_shrunk += u64::from(window < largest / 2);
        counters.full_least = counters.full_least.min(window);
        counters.full_most = counters.full_most.max(window);
        if counters.full_windows <= 8 {
            self.events.add(
                Event::WindowFull,
                way,
                Occurrence { at: now, cost: 0, packets: [number, 0, 0], detail: window },
            );
        }
    }
}

/// After a pause: how many rounds it takes to come back to the former window.
#[cold]
fn follow_restart(h: &mut Half, s: &Segment, now: u64, lag: u64, events: &mut Events, way: Way) {
    let (size, more) = (h.sizes.largest().max(1), h.sizes.is_full(s.payload));
    let (over, last_peak, peak) = (h.rounds.count, h.rounds.last_peak, h.rounds.recent_peak());
    let Some(r) = h.restart.as_deref_mut().filter(|r| over > r.rounds) else { return };
    if r.first == 0 {
        r.first = last_peak;
        // RFC 5681, section 4.1: the restart window is the initial window, ten segments since RFC
        // 6928.
        if r.first > size.saturating_mul(12) || r.prior < r.first.saturating_mul(2) || !more {
            h.restart = None;
            return;
        }
    }
    let rounds = over - r.rounds - 1;
    if peak >= r.prior - r.prior / 5 || !more || rounds > 30 {
        let r = *r;
        h.restart = None;
        if rounds > 0 {
            let rtt = h.rtt.smoothed().unwrap_or(0).saturating_add(lag);
            let cost = u64::from(rounds).saturating_mul(rtt).min(now - r.at.min(now));
            let detail = u64::from(r.prior) << 32 | u64::from(r.first);
            events.add(Event::IdleRestart, way, Occurrence { at: r.at, cost, packets: [r.number, 0, 0], detail });
        }
    }
}
