//! What an ACK says: of the window of its sender, and of what became of the peer's data.

use record::SeqNumber;
use record::conversation::Way;
use wire::{Flags, Segment};

use super::damage::delivered;
use super::{Connection, scale};
use crate::acks::Promptness;
use crate::event::{Event, Events, Occurrence};
use crate::flight::Sent;
use crate::half::{Half, Late};
use crate::ranges::START;
use crate::retransmission::{Class, Recovery, Repair};
use crate::stall::{SHORTEST, Stall, Verdict};

impl Connection {
    #[inline(always)]
    pub(super) fn take_ack(&mut self, way: Way, s: &Segment, now: u64, lag: u64) -> (u64, bool) {
        let is_away = self.halves[way].is_away();
        let (left, right) = self.halves.split_at_mut(1);
        // `h` sent this ACK; `p` sent the data that it acknowledges, and is `lag` away from the
        // capture.
        let (h, p) = if way == Way::ToServer { (&mut left[0], &mut right[0]) } else { (&mut right[0], &mut left[0]) };
        if s.flags.contains(Flags::RST) {
            return (0, false);
        }
        if let Some((_, Some(echo))) = s.options.timestamps {
            p.rtt.value_echoed(echo, now);
        }
        if h.window.is_repeated_by(s) {
            // It says nothing new, but the answers to it may yet show what had reached its peer.
            if is_away || lag > 0 || !p.knows_all() {
                let ack = p.space.place(s.ack);
                let edge = ack.saturating_add(h.window.size());
                p.passed_to(s, now, (p.space.una().max(ack), edge), false, is_away);
                p.acknowledged_to(now, edge, lag);
            }
            return (0, false);
        }
        p.begin(s.ack);
        let ack = p.space.place(s.ack);
        let old_window = h.window.size();
        take_window(h, p, s, now, ack);
        if let Some(since) = h.window.opens() {
            // That the window opens again was not held back by the receiver for as long as the ACK
            // was under way.
            let on_the_way = h.under_way_at_least(s, now);
            let cost = (now - since).saturating_sub(on_the_way);
            let occurrence = Occurrence { at: since, cost, packets: [h.anomalies.zero_number, s.number, 0], detail: 0 };
            self.events.add(Event::ZeroWindow, way, occurrence);
        }
        let pure = s.payload == 0 && !s.flags.intersects(Flags::SYN | Flags::FIN);
        if pure {
            h.count.pure_acks += 1;
            if p.space.next() == START + 1 && ack == p.space.next() && p.anomalies.by_class[Class::Syn as usize] > 0 {
                h.anomalies.syn_acks = h.anomalies.syn_acks.saturating_add(1);
            }
        }
        if ack > p.space.next() {
            // The peer has bytes that the capture has not.
            if p.is_first_flight() {
                p.first_data = ack;
            }
            if p.count.packets > 0 {
                p.open_hole(p.space.next(), ack, 0, None);
            }
            p.reach(ack);
        }
        let duplicate = pure
            && ack == p.space.una()
            && p.space.next() > ack
            && h.window.size() == old_window
            && old_window > 0
            && !s.flags.contains(Flags::SYN);
        let (suspected, sacks) = (p.scoreboard.suspected_since().is_some(), s.options.sack.as_slice());
        if !sacks.is_empty() {
            h.anomalies.sack_acks += 1;
            take_sack(p, s, ack, now, &mut self.events, !way);
        }
        if duplicate {
            h.anomalies.duplicate_acks += 1;
            p.anomalies.disordered_at = now;
            p.scoreboard.take_duplicate(now, p.sizes.largest());
        }
        let advanced = ack.saturating_sub(p.space.una());
        if advanced > 0 {
            delivered(p, 0, ack);
        }
        let silence = p.unheard_for(now);
        let mut stood_still = None;
        // Data of the peer's own that repeats an old ACK shows the sender nothing, and brings no
        // retransmission about.
        if pure || advanced > 0 || !sacks.is_empty() {
            p.heard_at = now;
        }
        if advanced > 0 {
            if suspected && p.recovery.is_none() {
                // Duplicate ACKs or SACK blocks, but no retransmission was needed: packets changed
                // places beyond the capture.
                p.anomalies.reordered_beyond += 1;
                let extent = p.scoreboard.highest().unwrap_or(ack).saturating_sub(p.space.una());
                p.anomalies.reorder_extent = p.anomalies.reorder_extent.max(extent);
            }
            let late = advance(p, h, s, (ack, now, silence), pure, advanced, &mut stood_still);
            if p.space.next() == ack {
                p.late = late.map(Box::new);
            }
            // An echo of 0 says that the side has none (RFC 7323, section 3.2).
            let echo = s.options.timestamps.and_then(|t| t.1).filter(|e| *e != 0);
            if let Some(needless) = p.repairs.covered(ack, echo) {
                convict(p, needless, s.number, now, &mut self.events, !way);
            }
            if let Some(r) = p.recovery.as_deref().copied().filter(|r| ack >= r.point) {
                let occurrence = Occurrence {
                    at: r.began,
                    cost: now - r.began.min(now),
                    packets: [r.original, r.number, s.number],
                    detail: r.class as u64,
                };
                self.events.add(Event::Recovery, !way, occurrence);
                p.recovery = None;
                p.scoreboard.clear_count();
                p.repairs.ended(r);
                if p.scoreboard.has_blocks() {
                    p.repairs.renewed(now);
                }
                let to = (ack, ack - advanced + old_window);
                if p.repairs.latest().is_some_and(|last| held_by_reader(p, &r, &last, now, to)) {
                    p.anomalies.unread = p.anomalies.unread.saturating_add(now - r.began.min(now));
                    if let Some(repairing) = &mut p.anomalies.repairing {
                        repairing.forget();
                    }
                }
                let (time, bytes) = &mut p.anomalies.recoveries;
                *time = time.saturating_add(now - r.began.min(now));
                *bytes = bytes.saturating_add(ack.saturating_sub(r.una));
                // The window that it leaves is another one: what was in flight before says nothing
                // of it.
                p.rounds.begin_anew(p.space.next());
            }
        }
        let left = advanced > 0 && p.scoreboard.has_blocks();
        let speaks_of_loss = duplicate || !sacks.is_empty() || left;
        if speaks_of_loss
            && let Some((Some(value), _)) = s.options.timestamps
            && let Some(sender) = &mut p.sender
        {
            if advanced > 0 {
                sender.no_loss();
            }
            sender.speaks_of_loss(value, now, left);
        }
        let edge = ack.saturating_add(h.window.size());
        if !s.flags.contains(Flags::SYN) {
            p.passed_to(s, now, (p.space.una().max(ack), edge), advanced > 0 && !speaks_of_loss, is_away);
        }
        p.acknowledged_to(now, edge, lag);
        h.window.note_ack(s);
        match stood_still {
            Some((Event::PathStall, occurrence)) => self.stood_still(!way, occurrence),
            Some((possible, occurrence)) => self.events.add(possible, !way, occurrence),
            None => {}
        }
        (advanced, duplicate)
    }
}

/// Whether a recovery that a timer began repaired nothing: an ACK of everything up to a position
/// ends it, long after the `last` retransmission could have brought it about, and covers much
/// that was not retransmitted and of which nothing was missing. The sender had filled the receive
/// window, up to an `edge`, and where a window does not grow, Linux holds even the ACK of several
/// segments back (`__tcp_ack_snd_check` in net/ipv4/tcp_input.c), until the program reads.
#[cold]
fn held_by_reader(p: &Half, r: &Recovery, last: &Repair, now: u64, (ack, edge): (u64, u64)) -> bool {
    /// An ACK that the retransmission brought about comes this much later than its round trip.
    const SLACK: u64 = 2_000_000;
    /// Linux holds none back for longer (`TCP_DELACK_MAX` in include/net/tcp.h).
    const LONGEST: u64 = 200_000_000;
    let size = u64::from(p.sizes.largest());
    let by_timer = matches!(r.class, Class::TailLossProbe | Class::Timer | Class::Timeout);
    let filled = p.space.next() + size > edge;
    let round = p.rtt.recent().unwrap_or(u64::MAX);
    let is_late = now - last.at.min(now) > round.saturating_mul(2).saturating_add(SLACK);
    let untouched = (ack - r.una.min(ack)).saturating_sub(last.end - last.start.min(last.end));
    let held = now - r.began.min(now) <= LONGEST;
    by_timer && filled && is_late && held && last.number == r.number && untouched >= 3 * size
}

#[inline(always)]
fn take_window(h: &mut Half, p: &Half, s: &Segment, now: u64, ack: u64) {
    let syn = s.flags.contains(Flags::SYN);
    let known = if syn { Some(0) } else { scale(h, p) };
    let out =
        if known.is_none() && p.count.packets > 8 { p.space.next().saturating_sub(p.space.una().max(ack)) } else { 0 };
    h.window.take(s, known, out.saturating_sub(p.sizes.largest().into()));
    if s.window == 0 && !syn {
        h.anomalies.zero_windows += 1;
        if h.window.close(now) {
            h.anomalies.zero_number = s.number;
        }
    }
}

/// The peer acknowledged up to `ack` at `now`, after a silence.
#[inline(always)]
pub(super) fn advance(
    p: &mut Half,
    h: &mut Half,
    s: &Segment,
    (ack, now, silence): (u64, u64, u64),
    pure: bool,
    advanced: u64,
    stood_still: &mut Option<(Event, Occurrence)>,
) -> Option<Late> {
    let acked = p.flight.acknowledge(ack);
    let clean = !acked.retransmitted && !p.scoreboard.is_disordered();
    let mut late = None;
    let mut queued = 0;
    let handshake = p.space.una() <= START && p.offered.seen;
    if let Some(last) = acked.last.filter(|_| clean) {
        let rtt = now - last.at.min(now);
        if handshake && last.end == START + 1 {
            p.rtt.take_handshake(rtt);
        } else if !handshake || pure {
            // An ACK is held back for no longer than since the one before, which would have
            // acknowledged this segment too. Something nearer may have answered the handshake.
            let (since, least) = (now - p.una_at.min(now), p.rtt.samples.min().map_or(rtt, |r| r.0));
            queued = rtt.saturating_sub(least).saturating_sub(since);
            // Without data, it is a FIN alone that was answered.
            let loaded = u64::from(last.flight) >= 4 * u64::from(p.sizes.largest().max(1));
            let standstill = silence >= SHORTEST && loaded || p.rtt.may_stand_still();
            let held_up =
                standstill && suspect_stall(p, s, (now, silence), &last, (advanced, acked.segments), stood_still);
            if pure && !held_up {
                let base = if loaded { p.rtt.expected() } else { p.rtt.recent() };
                let stamp = s.options.timestamps.and_then(|t| Some((t.0?, now)));
                let promptness = h.habits.take(acked.segments, advanced, p.sizes.full(), Some(rtt), base, stamp);
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
            p.rtt.take(rtt, now, &last, loaded && !held_up, late.is_some() || held_up);
        }
    }
    if let Some(bursts) = &mut p.bursts {
        bursts.acknowledged(now, advanced, p.sizes.largest().max(1), p.rtt.base().unwrap_or(0));
        bursts.queued = queued;
        // The ACK of two segments is not held back (RFC 5681, section 4.2).
        if let Some(last) = acked.last.filter(|_| clean) {
            let due = last.at.saturating_add(p.rtt.base().unwrap_or(u64::MAX));
            bursts.answered(now, ack, 2 * p.sizes.full(), (due, 0));
        }
    }
    p.space.acknowledge(ack);
    p.rtt.answered((p.una_at > p.last_data_at).then(|| now - p.una_at.min(now)));
    p.una_at = now;
    p.sizes.acknowledged(advanced);
    p.scoreboard.advance(ack, advanced, p.sizes.largest());
    late
}

/// Whether a round trip is as long as it is because the path stands still, or did until just now,
/// as far as is known.
#[cold]
fn suspect_stall(
    p: &mut Half,
    s: &Segment,
    (now, silence): (u64, u64),
    last: &Sent,
    taken_off: (u64, u32),
    stood_still: &mut Option<(Event, Occurrence)>,
) -> bool {
    let rtt = now - last.at.min(now);
    let usual = p.rtt.smoothed().unwrap_or(rtt);
    let least = p.rtt.recent().unwrap_or(usual);
    let under_way = p.space.out();
    let Some(detail) = &mut p.rtt.detail else { return false };
    if detail.stall.is_none() {
        detail.stall = Stall::suspected(now, silence, [rtt, usual, least], under_way, s.number);
    }
    let Some(stall) = &mut detail.stall else { return false };
    match stall.judge(now, last.at, rtt, taken_off) {
        Verdict::Open => return true,
        Verdict::Confirmed => *stood_still = Some((Event::PathStall, stall.occurrence())),
        Verdict::Possible => *stood_still = Some((Event::PossibleStall, stall.occurrence())),
        Verdict::Refuted => {}
    }
    detail.stall = None;
    false
}

#[inline(always)]
fn take_sack(p: &mut Half, s: &Segment, ack: u64, now: u64, events: &mut Events, way: Way) {
    let blocks = s.options.sack.as_slice();
    let place = |n: SeqNumber| p.space.place(n);
    let (left, right) = (place(blocks[0].0), place(blocks[0].1));
    let inside = blocks.get(1).is_some_and(|b| place(b.0) <= left && right <= place(b.1));
    let double = right <= ack || inside;
    if double && left < right {
        match p.repairs.named(left, right) {
            Some(repair) => convict(p, repair, s.number, now, events, way),
            None => p.anomalies.needless_unmatched += 1,
        }
    }
    for block in blocks.iter().skip(usize::from(double)) {
        let (start, end) = (p.space.place(block.0), p.space.place(block.1));
        if start > ack && end > start && end <= p.space.next() {
            // A DSACK alone speaks of data that came twice, and of none that is missing.
            p.anomalies.disordered_at = now;
            delivered(p, start, end);
            p.scoreboard.take_block(start, end, now);
        }
    }
}

/// A retransmission was not needed.
fn convict(p: &mut Half, r: Repair, number: u64, now: u64, events: &mut Events, way: Way) {
    p.anomalies.spurious += 1;
    let occurrence =
        Occurrence { at: r.at, cost: now - r.at.min(now), packets: [r.number, number, 0], detail: r.class as u64 };
    events.add(Event::NeedlessRecovery, way, occurrence);
}
