//! What limits a connection at each moment, and which of them the next packet shows.

use wire::{Flags, Segment};

use super::Connection;
use crate::acks::LATE;
use crate::distance::Distance;
use crate::half::{AWAY, Data, KERNEL, Late, PROMPT};
use crate::kept::Facts;
use crate::ranges::START;
use crate::repairing::{Path, Progress};
use crate::retransmission::Class;
use crate::rtt::least_queue;
use crate::unclear::Unclear;
use record::conversation::{Budget, Limit, Way};

/// The state between two packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Known(Limit),
    /// Everything was acknowledged.
    Quiet,
    /// Data is out, and the last of it was a part-filled segment: the application had no more, or
    /// Nagle's algorithm held it.
    Waiting,
    /// The same after a pure ACK has come.
    Answered,
    /// Duplicate ACKs: a loss or reordering.
    Suspect,
    /// Full segments are out, and several causes look the same.
    Unclear(Unclear),
}

/// Whether data wait on the path.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Queue {
    None,
    /// Round trips are longer than at rest, which ACKs that come in bunches may do as well.
    Possible,
    Stands,
}

impl Connection {
    #[inline(always)]
    pub(super) fn limit_now(&self) -> (State, Way) {
        if !self.established {
            return (State::Known(Limit::Handshake), Way::ToServer);
        }
        // Where one side has closed and the other goes on, nothing waits for the FIN's ACK.
        let out = |way: Way| {
            let (h, p) = (&self.halves[way], &self.halves[!way]);
            if p.fin.is_none() && !h.outstanding_data() { 0 } else { h.space.out() }
        };
        let way = if out(Way::ToClient) >= out(Way::ToServer) { Way::ToClient } else { Way::ToServer };
        let h = &self.halves[way];
        let p = &self.halves[!way];
        if out(way) == 0 {
            return self.limit_of_quiet();
        }
        if h.recovery.is_some() {
            return (State::Known(Limit::LossRecovery), way);
        }
        if h.scoreboard.is_disordered() {
            return (State::Suspect, way);
        }
        if p.window.is_closed() {
            return (State::Known(Limit::ReceiveWindow), way);
        }
        (self.limit_of_flight(way, false, false), way)
    }

    /// What [`Connection::limit_now`] is in a connection that is
    /// [`Undisturbed`](super::plain::Undisturbed).
    #[inline(always)]
    pub(super) fn limit_undisturbed(&self, beside: bool) -> (State, Way) {
        let out = |way: Way| self.halves[way].space.out();
        let way = if out(Way::ToClient) >= out(Way::ToServer) { Way::ToClient } else { Way::ToServer };
        if out(way) == 0 { self.limit_of_quiet() } else { (self.limit_of_flight(way, true, beside), way) }
    }

    /// What limits a connection in which everything was acknowledged.
    #[inline(always)]
    fn limit_of_quiet(&self) -> (State, Way) {
        match [Way::ToClient, Way::ToServer].into_iter().find(|way| self.window_holds(*way)) {
            Some(way) => (State::Known(Limit::ReceiveWindow), way),
            None => (State::Quiet, Way::ToClient),
        }
    }

    /// Whether the receive window keeps the sender of direction `way` from going on: it is closed,
    /// or the sender had filled it and a segment still finds no room, so that it waits for more
    /// (RFC 1122, section 4.2.3.4).
    #[inline(always)]
    fn window_holds(&self, way: Way) -> bool {
        let (h, window) = (&self.halves[way], &self.halves[!way].window);
        let small = || {
            h.filled
                && window.scale_is_known()
                && window.size() < window.largest().div_ceil(2).min(h.sizes.largest().into())
        };
        h.fin.is_none() && (window.is_closed() || small())
    }

    /// What limits direction `way`, which has data out of which no loss is suspected. Where the
    /// connection is `undisturbed`, windows are known; both sides may be `beside` the capture.
    #[inline(always)]
    fn limit_of_flight(&self, way: Way, undisturbed: bool, beside: bool) -> State {
        let (h, p) = (&self.halves[way], &self.halves[!way]);
        let size = h.sizes.largest();
        // The last segment up to the window's edge is part-filled more often than not, so the edge
        // is compared first.
        let known = undisturbed || p.window.scale_is_known();
        let at_edge = known && h.view.edge() > START && h.view.edge() < h.space.next() + u64::from(size);
        // One segment at a time may be all that a program has, unless not a byte more has room, or
        // never another full one.
        let for_one = || p.window.largest() < 2 * u64::from(size) && h.sizes.is_full(h.sizes.last());
        let is_full = || h.in_flight() > size || h.view.edge() == h.space.next() || for_one();
        if at_edge && is_full() && (undisturbed || h.fin.is_none()) {
            // Where a queue stands before a reader that keeps up, a larger window makes a longer
            // queue; one that an answer of late has not found does not stand.
            let keeps_up = h.anomalies.full_shrunk == 0 && p.anomalies.zero_windows == 0;
            let empties = h.rtt.recent() == h.rtt.base();
            let queued = keeps_up && !empties && self.queue(way, beside) == Queue::Stands;
            return State::Known(if queued { Limit::PathRate } else { Limit::ReceiveWindow });
        }
        // An unknown window that shrinks or closes may be what makes ACKs late.
        let open = known || p.anomalies.zero_windows == 0 && p.window.size() >= p.window.largest() / 2;
        let queue = || if open { self.queue(way, beside) } else { Queue::None };
        if !h.sizes.is_full(h.sizes.last()) || !undisturbed && h.fin.is_some() {
            // The last of the data has been sent, but the bottleneck is still at work on what
            // stands in its queue.
            let draining = h.in_flight() / 4 >= size.max(1) && queue() == Queue::Stands;
            return if draining { State::Known(Limit::PathRate) } else { State::Waiting };
        }
        let rounds = &h.rounds;
        match queue() {
            Queue::Stands => State::Known(Limit::PathRate),
            _ if rounds.is_even() && !rounds.has_grown() && (undisturbed || self.has_room(way)) => {
                if rounds.is_at_paths_rate() { State::Known(Limit::PathRate) } else { State::Unclear(Unclear::Pace) }
            }
            Queue::Possible if !rounds.is_one_burst() => State::Unclear(Unclear::Bunches),
            _ if rounds.is_by_itself() => State::Unclear(Unclear::ByItself),
            _ if !beside && !self.shows_window(way) => State::Known(Limit::Unknown),
            _ if !beside && self.comes_evenly(way) => State::Unclear(Unclear::Pace),
            _ if self.is_below_initial_window(way) => State::Waiting,
            _ if rounds.past_slow_start => State::Known(Limit::CongestionWindow),
            _ => State::Known(Limit::SlowStart),
        }
    }

    /// Whether less is out than the least that every congestion window begins with: two segments, a
    /// third is let go (RFC 3390), and nothing has been lost since. What is held back then is less
    /// than a segment, by Nagle's algorithm.
    fn is_below_initial_window(&self, way: Way) -> bool {
        let h = &self.halves[way];
        h.in_flight() / 2 <= h.sizes.largest() && h.rounds.threshold == 0
    }

    /// Whether data of a sender that is away have come evenly through round trip after round trip:
    /// slow start doubles what comes in each.
    fn comes_evenly(&self, way: Way) -> bool {
        const ROUNDS: u64 = 4;
        let h = &self.halves[way];
        let round = h.rtt.base().unwrap_or(0).saturating_add(self.lag(way));
        let even = h.bursts.as_ref().map_or(0, |b| b.even_for());
        self.distance(way) != Distance::Near && even > ROUNDS.saturating_mul(round).max(2 * PROMPT)
    }

    /// Whether the first packet after a SYN shows that data followed the handshake, which the
    /// capture has not: when that was over is not known.
    #[cold]
    fn is_beyond_handshake(&self, way: Way, s: &Segment, facts: &Facts) -> bool {
        let (h, p) = (&self.halves[way], &self.halves[!way]);
        let begins_later = facts.opens_hole || h.space.place(s.seq) > h.space.next();
        let unanswered = !h.offered.seen && s.payload > 0;
        let acknowledges = s.flags.contains(Flags::ACK) && p.offered.seen && p.space.place(s.ack) > START + 1;
        !s.flags.intersects(Flags::SYN | Flags::RST)
            && (begins_later || unanswered || acknowledges && p.count.payload_packets == 0)
    }

    /// Whether data of direction `way` wait on the path: both parts of it under load against both
    /// at rest.
    #[inline(always)]
    fn queue(&self, way: Way, beside: bool) -> Queue {
        let (h, p) = (&self.halves[way], &self.halves[!way]);
        let echoed = h.sender.as_ref().filter(|s| !beside && s.is_known());
        let beyond = p.rtt.base().or(echoed.and_then(|s| s.base())).unwrap_or(0);
        let beyond_loaded = echoed.and_then(|s| s.loaded()).or(p.rtt.loaded()).unwrap_or(beyond);
        let there = h.rtt.base().unwrap_or(0);
        let rest = there.saturating_add(beyond);
        let there_loaded = h.rtt.loaded().filter(|_| h.rtt.may_be_queued()).unwrap_or(there);
        let load = there_loaded.saturating_add(beyond_loaded);
        let longer = load.saturating_sub(rest);
        if longer <= least_queue(rest) {
            Queue::None
        } else if longer <= h.rounds.pause() {
            Queue::Possible
        } else {
            Queue::Stands
        }
    }

    /// Whether a full flight can be said to be the congestion window's: what the sender had in
    /// flight is known, and that the receiver's window had room.
    #[inline]
    fn shows_window(&self, way: Way) -> bool {
        let h = &self.halves[way];
        let seen = match self.distance(way) {
            Distance::Near | Distance::Echoes => true,
            // A window that is sent at once and then waited for leaves no queue, so the path at
            // rest is the path.
            Distance::AtRest => h.rounds.is_bursty(),
            Distance::Unknown => false,
        };
        seen && self.has_room(way)
    }

    /// Whether the receive window is known to have room beyond all that was ever in flight. Where
    /// the scale is not known, the window is at least what its field says.
    #[inline]
    fn has_room(&self, way: Way) -> bool {
        let (h, p) = (&self.halves[way], &self.halves[!way]);
        p.window.scale_is_known()
            || p.window.without_least_scale()
                > u64::from(h.in_flight().max(h.space.peak())) + u64::from(h.sizes.largest())
    }

    /// Gives the time since the last packet to what limited it, in the light of the packet that
    /// ended it.
    #[inline(always)]
    pub(super) fn share_out(&mut self, way: Way, s: &Segment, elapsed: u64, lag: u64, facts: &Facts) {
        let (state, of) = self.state;
        let retransmitted = matches!(facts.data, Data::Retransmitted(c) if c != Class::Syn);
        let new = facts.data == Data::New;
        let handed_over = std::mem::take(&mut self.held);
        let released = if facts.released { self.halves[way].late.as_deref() } else { None };
        if let Some(&Late { excess, charged: Some((limit, time)), .. }) = released {
            self.budgets[way].shift(limit, Limit::AckWaiting, excess.min(time));
        }
        if retransmitted && let Some(idle) = &mut self.idle {
            let waited = idle.retransmitted((way, self.halves[way].space.una()));
            self.budgets[way].shift(Limit::Application, Limit::LossRecovery, waited);
        }
        if retransmitted && way == of {
            self.budgets[of].add(Limit::LossRecovery, elapsed.saturating_add(handed_over));
            return;
        }
        let (state, why) = match state {
            State::Unclear(why) => (State::Known(Limit::Unknown), Some(why)),
            state => (state, None),
        };
        match state {
            State::Known(Limit::Handshake) => {
                let limit = if self.is_beyond_handshake(way, s, facts) { Limit::Unknown } else { Limit::Handshake };
                self.budgets[Way::ToServer].add(limit, elapsed);
            }
            State::Known(limit) => {
                // New data after more than an RTT, and 2 ms, in which nothing happened: only the
                // application released it.
                let h = &self.halves[of];
                let by_itself = new
                    && facts.knows_lag
                    && elapsed > 2_000_000
                    && way == of
                    && elapsed > h.rtt.smoothed().unwrap_or(0).saturating_add(lag)
                    && matches!(limit, Limit::SlowStart | Limit::CongestionWindow | Limit::PathRate | Limit::Unknown);
                // What the path held up is late without the application; and where ACKs of several
                // segments are overdue, a tail-loss probe of new data (RFC 8985, section 7.3) comes
                // then.
                let overdue = u64::from(h.in_flight()) >= u64::from(s.payload) + 2 * u64::from(h.sizes.largest());
                // A message that the peer answered once it had all of it was as long as it is, and
                // no window cut it off.
                let answered = new && way != of && h.space.out() == 0 && h.pushes.ended();
                let limit = match limit {
                    Limit::SlowStart | Limit::CongestionWindow | Limit::Unknown if answered => Limit::Application,
                    limit => limit,
                };
                let limit = match (by_itself, facts.held_up || overdue || h.had_more()) {
                    (true, true) => Limit::Unknown,
                    (true, false) => Limit::Application,
                    (false, _) => limit,
                };
                let why = why.filter(|_| limit == Limit::Unknown);
                self.charge(of, (limit, why), elapsed);
                if let Some(late) = self.halves[of].late.as_mut().filter(|l| l.ack == s.number) {
                    late.charged = Some((limit, elapsed));
                }
                if !matches!(limit, Limit::Application | Limit::LossRecovery) && !by_itself {
                    self.bulk[of] = (limit, why);
                }
            }
            State::Unclear(_) => {}
            State::Quiet => {
                // The last ACK needs `lag` to reach the sender and for the data it releases to come
                // here; longer where ACKs are always held up.
                let echoed = self.halves[way].sender.as_ref().and_then(|s| s.base());
                let under_way = if new && s.payload > 0 { lag.max(echoed.unwrap_or(0)) } else { 0 };
                let travel = elapsed.min(under_way);
                let bulk = if facts.was_filled {
                    (Limit::ReceiveWindow, None)
                } else if self.halves[way].sizes.is_full(self.halves[way].sizes.previous()) {
                    self.bulk[way]
                } else {
                    (Limit::Application, None)
                };
                let silence = self.silence(way, s, facts);
                let bulk = if silence == Limit::PathRate { (silence, None) } else { bulk };
                self.charge(way, bulk, travel);
                self.budgets[way].add(silence, elapsed - travel);
                self.take_back(way, bulk, under_way - travel);
            }
            State::Waiting | State::Answered
                if way != of && s.payload == 0 && !s.flags.intersects(Flags::SYN | Flags::FIN | Flags::RST) =>
            {
                // A pure ACK: what comes after the last of them shows whether data stood waiting
                // for it, or a segment was lost.
                self.held = elapsed.saturating_add(handed_over);
                let h = &self.halves[of];
                let from_the_middle = self.halves.iter().all(|h| !h.offered.seen);
                if from_the_middle && h.fin.is_some() && h.space.out() > 0 {
                    // Who has closed makes no pause: what was sent before is still on its way.
                    self.budgets[of].add(Limit::Unknown, std::mem::take(&mut self.held));
                }
                let suspect = facts.advanced == 0 && h.scoreboard.is_disordered();
                self.held_for = (of, suspect);
            }
            State::Waiting => {
                let (limit, of) = match (way == of, facts.lost_before) {
                    (true, _) => (self.silence(way, s, facts), of),
                    (false, true) => (Limit::LossRecovery, way),
                    (false, false) => (self.awaits_rest(way, s).unwrap_or(Limit::Application), of),
                };
                self.budgets[of].add(limit, elapsed.saturating_add(handed_over));
            }
            State::Answered => {
                let knows_lag = if way == of { facts.knows_lag } else { self.knows_lag(of) };
                let (shows_window, silence) = (self.shows_window(of), self.silence(way, s, facts));
                let rest = if way == of { None } else { self.awaits_rest(way, s) }.unwrap_or(Limit::Application);
                let in_queue = way == of && silence == Limit::PathRate;
                let beyond = self.halves[!of].rtt.base().unwrap_or(0);
                let informed = handed_over >= LATE && self.is_informed(way, s);
                let (h, budget) = (&self.halves[of], &mut self.budgets[of]);
                // What comes sooner after the ACK than the way to its sender and back takes was
                // under way before the ACK arrived, unless it echoes that.
                let crossed = elapsed < lag - lag / 8 && !informed;
                let full = s.payload >= h.sizes.full();
                // The kernel lets go what Nagle's algorithm holds as it takes the ACK; no program
                // has to wake up.
                let prompt = if full || facts.released { PROMPT } else { KERNEL };
                let by_then = if lag < AWAY {
                    lag + prompt
                } else {
                    lag + lag / 4 + PROMPT + h.crossing(s.payload.min(h.sizes.full()))
                };
                let at_once = new && way == of && elapsed <= by_then && !crossed && !in_queue;
                // A program that writes quicker than ACKs come has each of them let go more than
                // its first write was. Where all are as large as that, and the peer has next to
                // nothing to say, it is the program's own pace that meets the round trip. Beside
                // the sender, no pace meets it as closely.
                let (packets, answers) = (h.count.payload_packets, self.halves[!of].count.payload_packets);
                let in_step = lag >= AWAY
                    && packets >= 4
                    && answers <= packets / 4
                    && h.count.payload_bytes == packets * u64::from(s.payload);
                // A window has room as soon as the first of a flight is acknowledged: who let that
                // pass, and had a full segment when all was, had none before.
                let had_none = full && h.rtt.answered_for() >= PROMPT;
                let waited = at_once
                    && !had_none
                    && (h.sizes.is_full(s.payload) || !in_step && (full || !h.rounds.nagle_is_off()));
                // Nagle's algorithm holds back no full segment: one that follows the ACK of a whole
                // flight had no room in the congestion window or the send buffer, and waited for
                // the ACK's own delay only where that was late.
                let no_room = waited && full && h.rounds.recent_peak() / 4 >= h.sizes.largest();
                // Nor one behind another: so small a window is that of a stack before RFC 3390.
                let small_window = waited && full && !no_room && h.sizes.is_full(h.sizes.previous());
                let released = if facts.released { self.halves[way].late.as_deref() } else { None };
                let late = released.map_or(0, |l| l.excess).min(handed_over);
                let may_wait = way == of && new && knows_lag && !waited && !crossed && !full && handed_over >= LATE;
                // Beside the sender, the kernel lets it go at once.
                let away = lag >= AWAY && !in_step && !h.rounds.nagle_is_off();
                let in_lockstep = may_wait && silence == Limit::Application && away;
                match (waited, no_room) {
                    // What the ACK let go, and what came by itself, differ by the distance to the
                    // sender.
                    _ if way == of && new && !knows_lag => budget.add(Limit::Unknown, handed_over + elapsed),
                    (true, true) => {
                        budget.add(Limit::AckWaiting, late);
                        let start = h.space.next() - u64::from(s.payload);
                        let (window, why) = match (facts.was_filled, shows_window) {
                            (true, _) => (Limit::ReceiveWindow, None),
                            // Flights that are as long as one another, to the byte, may be messages
                            // at a pace near the round trip, which do not follow ACKs as closely.
                            (false, true)
                                if lag >= AWAY && elapsed > lag + KERNEL && h.anomalies.flight.is_as_long(start) =>
                            {
                                (Limit::Unknown, Some(Unclear::ByItself))
                            }
                            (false, true) => (Limit::CongestionWindow, None),
                            _ => (Limit::Unknown, None),
                        };
                        self.halves[of].anomalies.flight.end(start);
                        self.charge(of, (window, why), handed_over - late + elapsed);
                    }
                    // Nor the first of a message of several: its program had none before.
                    (true, false) if full && !small_window && h.rounds.recent_peak() > h.sizes.largest() => {
                        budget.add(silence, handed_over + elapsed);
                    }
                    (true, false) => {
                        let before = if small_window { handed_over + elapsed - late } else { 0 };
                        let past = h.rounds.past_slow_start;
                        budget.add(if past { Limit::CongestionWindow } else { Limit::SlowStart }, before);
                        budget.add(Limit::AckWaiting, handed_over + elapsed - before);
                    }
                    (false, _) if way == of => budget.add(silence, handed_over + elapsed),
                    (false, _) if facts.lost_before => {
                        budget.add(Limit::Application, handed_over);
                        self.budgets[way].add(Limit::LossRecovery, elapsed);
                    }
                    (false, _) => {
                        // What is answered had to be there first, and came through a queue.
                        let least = least_queue(h.rtt.base().unwrap_or(0).saturating_add(beyond));
                        let last = h.bursts.as_ref().map_or(0, |b| b.queued);
                        let several = h.rounds.recent_peak() / 4 >= h.sizes.full();
                        let shown = h.rtt.draining(beyond).unwrap_or(if several && last > least { last } else { 0 });
                        let queued = if new { shown.min(handed_over + elapsed) } else { 0 };
                        budget.add(Limit::PathRate, queued);
                        budget.add(rest, handed_over + elapsed - queued);
                    }
                }
                if in_lockstep {
                    let lockstep = self.halves[of].anomalies.lockstep.get_or_insert_default();
                    lockstep.take(elapsed, handed_over + elapsed);
                }
            }
            State::Suspect => {
                // Until a retransmission (loss) or an advance (reordering) decides.
                let all = elapsed.saturating_add(handed_over);
                let part_filled = !self.halves[of].sizes.is_full(self.halves[of].sizes.last());
                if way != of && facts.advanced > 0 && part_filled {
                    // No loss: an ACK of the last data, or an answer to them, as any other.
                    if s.payload == 0 {
                        (self.held, self.held_for) = (all, (of, false));
                    } else {
                        self.budgets[of].add(Limit::Application, all);
                    }
                } else if way != of && facts.advanced > 0 {
                    self.charge(of, self.bulk[of], all);
                } else {
                    self.held = all;
                    self.held_for = (of, true);
                }
            }
        }
    }

    /// A loss is suspected: takes down what limits direction `of` if it is none. Where packets
    /// change places all the time, no other moment shows it; nor do they show a window then, away
    /// from their sender.
    #[cold]
    pub(super) fn note_limit_beside_doubt(&mut self, of: Way) {
        let away = self.distance(of) != Distance::Near;
        match self.limit_of_flight(of, false, false) {
            State::Known(Limit::SlowStart | Limit::CongestionWindow) if away => {
                self.bulk[of] = (Limit::Unknown, Some(Unclear::ByItself));
            }
            State::Known(limit) => self.bulk[of] = (limit, None),
            State::Unclear(why) => self.bulk[of] = (Limit::Unknown, Some(why)),
            State::Quiet | State::Waiting | State::Answered | State::Suspect => {}
        }
    }

    /// A segment of direction `way` was under way for so much longer than since the latest packet,
    /// at most: an ACK or a window that came meanwhile had ended no pause.
    fn take_back(&mut self, way: Way, bulk: (Limit, Option<Unclear>), time: u64) {
        let time = self.idle.as_mut().map_or(0, |idle| idle.take_back(time));
        let mut left = time;
        for of in [way, !way] {
            left -= self.budgets[of].take(Limit::Application, left);
        }
        self.charge(way, bulk, time - left);
    }

    /// Gives a time to a limit of direction `of`; where that is not known, with the reason.
    #[inline(always)]
    fn charge(&mut self, of: Way, (limit, why): (Limit, Option<Unclear>), time: u64) {
        self.budgets[of].add(limit, time);
        if let Some(why) = why {
            self.halves[of].anomalies.add_unclear(why, time);
        }
    }

    /// What a time was in which nothing was outstanding, as the capture saw it, until this packet
    /// of `way`.
    fn silence(&self, way: Way, s: &Segment, facts: &Facts) -> Limit {
        let h = &self.halves[way];
        match facts.data {
            Data::Probe => return Limit::ReceiveWindow,
            // Its sender has not received the ACK that passed the capture.
            Data::Retransmitted(class) if class != Class::Syn => return Limit::LossRecovery,
            _ => {}
        }
        if facts.data != Data::New || s.payload == 0 && !facts.opens_hole {
            // An ACK of data that the capture has not shows that there were some.
            let unseen = facts.advanced > 0 && self.halves[!way].is_first_flight();
            return match self.awaits_rest(way, s) {
                Some(missing) => missing,
                None if unseen => Limit::Unknown,
                None => Limit::Application,
            };
        }
        // What stood in a queue for as long as nothing came was under way, and its sender did not
        // pause.
        if self.was_queued(way, s) || self.is_queued(way, s) {
            return Limit::PathRate;
        }
        if facts.lost_before {
            return Limit::LossRecovery;
        }
        // Near the receiver, what was sent and lost looks like nothing sent.
        let after_loss = facts.opens_hole || facts.ids_skipped > 0 && self.distance(way) != Distance::Near;
        let first = h.sizes.previous() == 0 && !h.offered.seen;
        // Without timestamps, a path that stands still for less than the retransmission timer looks
        // like a sender that pauses, away from it.
        let elapsed = s.at.as_nanos().saturating_sub(self.last_at);
        let blind = s.options.timestamps.is_none()
            && h.sizes.is_full(h.sizes.previous())
            && elapsed < h.timeout(self.lag(way))
            && self.distance(way) != Distance::Near;
        let on_the_way = !facts.knows_lag && (first || h.sizes.is_full(h.sizes.previous()) || facts.was_filled);
        // A window of unknown scale that was closed now and then may have held the data back.
        let window = !self.halves[!way].window.scale_is_known()
            && self.halves[!way].anomalies.zero_windows > 0
            && !self.has_room(way);
        if after_loss || on_the_way || h.had_more() || window || blind || facts.held_up {
            Limit::Unknown
        } else {
            Limit::Application
        }
    }

    /// What a silence is that one side ends while the rest of what the other had begun to send is
    /// missing: where its sender is away it may have been lost on the way here, and for longer than
    /// the retransmission timer, it was. Beside the sender, that timer ends what a program had
    /// corked as well (`tcp_cork` in net/ipv4/tcp.c).
    fn awaits_rest(&self, way: Way, s: &Segment) -> Option<Limit> {
        let (h, p) = (&self.halves[way], &self.halves[!way]);
        if p.last_data_at <= h.last_data_at || !p.has_more() || p.fin.is_some() {
            return None;
        }
        let elapsed = s.at.as_nanos().saturating_sub(self.last_at);
        let timed_out = elapsed >= p.timeout(self.lag(!way));
        match (self.distance(!way) != Distance::Near || self.is_farther(!way), timed_out) {
            (true, true) => Some(Limit::LossRecovery),
            (true, false) | (false, true) => Some(Limit::Unknown),
            (false, false) => None,
        }
    }

    /// Whether new data come so late because they, or what went before them, were lost before the
    /// capture and the retransmission timer had to act: their sender has sent so many packets that
    /// the capture has not. The timer, which doubles (RFC 6298, section 5.5), explains the time,
    /// and none of them was the ACK of something; or, where one may have been, it is the timer's
    /// time, and other answers take next to none. Only the handshake shows how many packets a frame
    /// stands for that offload left whole.
    #[inline(always)]
    pub(super) fn was_lost_before(&self, way: Way, s: &Segment, facts: &Facts) -> bool {
        const DOUBLED: u16 = 8;
        const LONGER: u64 = 4;
        if facts.ids_skipped == 0 || facts.data != Data::New || s.payload == 0 {
            return false;
        }
        let (h, away) = (&self.halves[way], self.distance(way) != Distance::Near || self.is_farther(way));
        let elapsed = s.at.as_nanos().saturating_sub(self.last_at);
        let doubled = (1u64 << facts.ids_skipped.min(DOUBLED)) - 1;
        let timers = doubled.saturating_mul(h.timeout(self.lag(way)));
        let turns = self.turns[way];
        let is_timers = self.last_data_of != way
            && (timers - timers / 16..timers.saturating_add(timers / 2)).contains(&elapsed)
            && elapsed / LONGER >= turns.total / u64::from(turns.count.max(1));
        away && self.halves.iter().all(|h| h.offered.seen)
            && (facts.advanced == 0 || is_timers)
            && !facts.opens_hole
            && self.halves[!way].space.out() == 0
            && elapsed < timers.saturating_mul(2)
    }

    /// Whether the sender of direction `way` is by far the farther one: on a path that is so short
    /// that neither is away, the capture is beside the other.
    fn is_farther(&self, way: Way) -> bool {
        const BY_FAR: u64 = 4;
        let to_sender = |way: Way| self.halves[!way].rtt.base();
        let farther = |own: u64, other: u64| own / BY_FAR >= other.max(1);
        to_sender(way).zip(to_sender(!way)).is_some_and(|(own, other)| farther(own, other))
    }

    /// Whether a queue on the way from its sender held a segment up for as long as nothing came
    /// before it: at rest, its sender would have received an ACK that it had not.
    fn was_queued(&self, way: Way, s: &Segment) -> bool {
        let (now, lag) = (s.at.as_nanos(), self.lag(way));
        let longer = self.unaware_for(way, s).saturating_sub(lag);
        lag > 0 && longer > least_queue(lag).max(now.saturating_sub(self.last_at))
    }

    /// Whether a segment's echo says that its sender had every ACK that passed.
    fn is_informed(&self, way: Way, s: &Segment) -> bool {
        let echoes = s.options.timestamps.is_some_and(|(_, echo)| echo.is_some());
        echoes && self.halves[way].sender.is_some() && self.unaware_for(way, s) == 0
    }

    /// How long ago the first ACK passed that the sender of a segment had not received when it sent
    /// that, as the segment's echo says; 0 where it had all of them, or that is not known.
    pub(super) fn unaware_for(&self, way: Way, s: &Segment) -> u64 {
        let (Some(sender), Some((_, Some(echo)))) = (self.halves[way].sender.as_ref(), s.options.timestamps) else {
            return 0;
        };
        // A sender that misses something goes on echoing what came before that (RFC 7323, section
        // 4.3).
        if self.halves[!way].outstanding() { 0 } else { sender.unaware_for(echo, s.at.as_nanos()) }
    }

    /// Whether what is out of a direction still waits in the queue that the latest ACK has shown.
    fn is_queued(&self, way: Way, s: &Segment) -> bool {
        let h = &self.halves[way];
        let since = s.at.as_nanos().saturating_sub(h.una_at);
        let rest = h.rtt.base().unwrap_or(0).saturating_add(self.lag(way));
        let queued = h.bursts.as_ref().map_or(0, |b| b.queued);
        queued > since.max(least_queue(rest)) && h.space.out() > u64::from(s.payload)
    }

    /// Gives the time in which losses were repaired to the path's rate where the path was full all
    /// the same.
    #[inline(always)]
    pub(super) fn follow_repairs(&mut self, way: Way, s: &Segment, now: u64) {
        for of in [Way::ToServer, Way::ToClient] {
            let h = &self.halves[of];
            let repaired = h.recovery.is_some() || h.scoreboard.is_disordered();
            if repaired || h.anomalies.repairing.as_ref().is_some_and(|r| r.is_open()) {
                self.follow_repairs_of(of, repaired, of == way && s.payload > 0, s, now);
            }
        }
    }

    /// The same of one direction, in which something is `repaired` or was until now; this packet
    /// brings data of it, or not.
    #[inline(never)]
    fn follow_repairs_of(&mut self, of: Way, repaired: bool, brings_data: bool, s: &Segment, now: u64) {
        let h = &self.halves[of];
        let una = h.space.una();
        let at = Progress {
            now,
            delivered: una + h.scoreboard.delivered(una),
            lost: self.budgets[of].of(Limit::LossRecovery).0,
        };
        let highest = h.scoreboard.highest().unwrap_or(0);
        let Some(repairing) = h.anomalies.repairing.as_deref().filter(|r| r.is_open()) else {
            self.halves[of].anomalies.repairing.get_or_insert_default().open(at, highest);
            return;
        };
        let took = h.sender.as_ref().filter(|_| brings_data).and_then(|s| s.took());
        if repaired && took.is_none() && repairing.is_unmoved(at.delivered, highest) {
            return;
        }
        let (there, beyond) = (h.rtt.base().unwrap_or(0), self.lag(of));
        let several = h.in_flight() > h.sizes.largest();
        let rest = there.saturating_add(beyond);
        let handshake = if h.rtt.saw_handshake() { rest } else { 0 };
        let reported = h.scoreboard.is_disordered();
        let path = Path { rest, rate: h.rounds.paths_rate(), several, reported, handshake };
        let h = &mut self.halves[of];
        let Some(repairing) = &mut h.anomalies.repairing else { return };
        // A segment beyond all others that was reported was sent once, so its round trip is plain.
        if repairing.is_raised_by(highest)
            && let Some(sent) = h.flight.sent_once(highest)
        {
            repairing.raise(highest);
            repairing.longer_beyond((now - sent.min(now)).saturating_sub(there));
            if let Some(bursts) = &mut h.bursts {
                bursts.answered(now, at.delivered, h.sizes.full(), (sent.saturating_add(there), 0));
            }
        } else if h.una_at == now
            && let Some((_, Some(echo))) = s.options.timestamps.filter(|_| !brings_data)
            && let Some((sent, tick)) = h.habits.left_at(echo)
            && let Some(bursts) = &mut h.bursts
        {
            // Of what was retransmitted, the echo says when it was sent.
            bursts.answered(now, at.delivered, h.sizes.full(), (sent.saturating_add(there), tick));
        }
        if let Some(took) = took {
            repairing.longer_before(took.saturating_sub(beyond));
        }
        repairing.take(at, path);
        if repaired && !repairing.is_whole(path.rest) {
            return;
        }
        let full = repairing.close(path);
        self.budgets[of].shift(Limit::LossRecovery, Limit::PathRate, full);
        if repaired {
            let lost = self.budgets[of].of(Limit::LossRecovery).0;
            let Some(repairing) = &mut self.halves[of].anomalies.repairing else { return };
            repairing.open(Progress { lost, ..at }, highest);
        }
    }

    /// The side of which the data were waited for last.
    pub(crate) fn waiting_side(&self) -> Way {
        self.held_for.0
    }

    /// The budgets with the time in them that no packet will decide any more. `link` is the rate of
    /// the slowest link on the way of its data, bytes a nanosecond; 0 where it has not shown.
    pub(crate) fn settled(&self, link: f64) -> [Budget; 2] {
        let mut budgets = self.with_held();
        for (way, budget) in Way::ALL.into_iter().zip(&mut budgets) {
            let h = &self.halves[way];
            let full = h.anomalies.repairing.as_ref().map_or(0, |r| r.at_paths_rate(h.rounds.paths_rate(), link));
            budget.shift(Limit::LossRecovery, Limit::PathRate, full);
            budget.shift(Limit::LossRecovery, Limit::ReceiveWindow, h.anomalies.unread);
            budget.shift(Limit::CongestionWindow, Limit::SlowStart, h.anomalies.resumed);
            let in_lockstep = h.anomalies.lockstep.as_ref().map_or(0, |l| l.waited());
            let waited = h.anomalies.gathering().map_or(0, |g| g.waited()).max(in_lockstep);
            budget.shift(Limit::Application, Limit::AckWaiting, waited);
            let round = h.rtt.base().unwrap_or(0).saturating_add(self.lag(way));
            let refilled = h.anomalies.refills().map_or(0, |r| r.waited(h.space.peak(), h.sizes.full(), round));
            budget.shift(Limit::Application, Limit::CongestionWindow, refilled);
        }
        budgets
    }

    /// The budgets with the time in them that is held.
    fn with_held(&self) -> [Budget; 2] {
        let mut budgets = self.budgets;
        let (of, suspect) = self.held_for;
        budgets[of].add(if suspect { Limit::LossRecovery } else { Limit::Application }, self.held);
        budgets
    }

    /// The wait for a FIN or RST that no data came before, in a connection that did not close in
    /// peace: away from a side, data of its that were lost before the capture look the same.
    pub(crate) fn unexplained_end(&self) -> u64 {
        let closed = self.halves.iter().all(|h| h.fin.is_some() && h.anomalies.reset.is_none());
        // A FIN that was retransmitted, and never acknowledged, shows that packets are lost at this
        // time.
        let unanswered = self.halves.iter().any(|h| h.fin.is_some() && h.recovery.is_some() && h.space.out() > 0);
        let beside_both = Way::ALL.iter().all(|way| self.distance(*way) == Distance::Near);
        if closed || beside_both && !unanswered { 0 } else { self.closing_wait }
    }

    /// Held time needs a state that asks the next packet about it; where there is none, it is
    /// decided at once.
    #[inline(always)]
    pub(super) fn note_held(&mut self, number: u64) {
        let (of, suspect) = self.held_for;
        match self.state.0 {
            _ if self.held == 0 => {}
            State::Suspect if suspect && self.state.1 == of => {}
            State::Quiet | State::Waiting if !suspect => self.state = (State::Answered, of),
            _ => {
                self.budgets = self.with_held();
                if !suspect {
                    // What it had sent last was part-filled, and nothing followed.
                    let packets = [self.last_data, number];
                    let trip = self.halves[of].rtt.base().unwrap_or(0);
                    self.idle.get_or_insert_default().add(of.sender(), false, self.held, trip, packets);
                }
                self.held = 0;
            }
        }
    }
}
