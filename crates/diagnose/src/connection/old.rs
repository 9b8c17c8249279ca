//! A segment that lies wholly below what was seen before, and the signs of what it is, in the order
//! in which they are asked.

use record::conversation::Way;
use wire::{Flags, Segment};

use super::Connection;
use crate::distance::Distance;
use crate::flight::Sent;
use crate::half::{Data, Half};
use crate::ranges::{Range, START};
use crate::retransmission::{Belated, Class, Recovery, Signs};

/// The segment, with what the connection shows beside its own direction.
pub(super) struct Old<'a> {
    pub(super) s: &'a Segment,
    pub(super) now: u64,
    /// The way from the capture to the sender and back, at rest.
    pub(super) lag: u64,
    /// The same while the sender's queue stands, where its echoes show it.
    loaded_lag: u64,
    /// The whole path's round trip, where it is known.
    pub(super) rtt: Option<u64>,
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) distance: Distance,
    pub(super) answers_seen: bool,
    pub(super) sack_in_use: bool,
    /// The peer's window is closed. Zero is zero whatever the scale.
    window_closed: bool,
}

impl<'a> Old<'a> {
    pub(super) fn new(
        c: &Connection,
        way: Way,
        s: &'a Segment,
        (now, lag): (u64, u64),
        (start, end): (u64, u64),
    ) -> Self {
        let (h, p) = (&c.halves[way], &c.halves[!way]);
        let loaded_lag = h.sender.as_ref().and_then(|s| s.loaded()).map_or(lag, |l| l.max(lag));
        Self {
            s,
            now,
            lag,
            loaded_lag,
            rtt: h.rtt.smoothed().map(|r| r.saturating_add(loaded_lag)),
            start,
            end,
            distance: c.distance(way),
            answers_seen: p.count.packets > 0,
            sack_in_use: c.halves.iter().all(|h| h.offered.sack) || p.anomalies.sack_acks > 0,
            window_closed: p.window.is_closed(),
        }
    }

    /// A probe of a closed window (RFC 9293, section 3.8.6.1), or a keep-alive (section 3.8.4): one
    /// byte at most, from just before what is acknowledged, with nothing else out.
    pub(super) fn take_probe(&self, h: &mut Half) -> Option<Data> {
        let is_probe = self.s.payload <= 1
            && !self.s.flags.contains(Flags::FIN)
            && self.end == h.space.next()
            && self.start >= h.space.una().saturating_sub(1)
            && (h.space.una() == h.space.next() || self.window_closed);
        if !is_probe {
            return None;
        }
        if self.window_closed {
            h.anomalies.window_probes += 1;
            return Some(Data::Probe);
        }
        h.anomalies.keep_alives += 1;
        Some(Data::KeepAlive)
    }

    /// Whether it was sent before what opened the hole that it fills. The identification shows that
    /// where it counts up (RFC 6864 leaves that open); else the time does, as a repair takes a
    /// round trip at least.
    pub(super) fn was_overtaken(&self, hole: &Range) -> bool {
        let older = hole
            .id
            .zip(self.s.network.id)
            .filter(|(a, b)| *a != 0 && *b != 0)
            .map(|(opened, this)| (this.wrapping_sub(opened) as i16) < 0);
        let soon = self.now - hole.at.min(self.now) < self.rtt.map_or(3_000_000, |r| r.saturating_sub(r / 8));
        hole.at > 0 && (older == Some(true) || soon && older != Some(false)) || hole.at == 0 && self.start < START
    }

    /// When the sender last heard anything, or sent this segment last: an ACK reaches it, and what
    /// that brings about comes here, `lag` later.
    pub(super) fn heard(&self, h: &Half, original: Option<&Sent>) -> u64 {
        let heard = if h.heard_at > 0 { h.heard_at.saturating_add(self.lag) } else { 0 };
        heard.max(original.map_or(h.last_data_at, |o| o.at)).min(self.now)
    }

    /// Whether it is the first that is not acknowledged, for as long as the retransmission timer
    /// runs (RFC 6298), or nearly.
    pub(super) fn is_stuck(&self, h: &Half, hole: Option<Range>, again: bool) -> bool {
        let timeout = h.timeout(self.lag) / 8 * 7;
        let overdue = |since: u64| since > 0 && self.now - since.min(self.now) >= timeout;
        // An earlier repair may have been lost before the capture, though the sender sent without a
        // pause.
        let unseen = self.distance != Distance::Near
            && hole.is_some_and(|o| o.at.saturating_sub(h.una_at) <= self.rtt.unwrap_or(0));
        self.start == h.space.una()
            && (again && overdue(h.una_at)
                || h.scoreboard.suspected_since().is_some_and(overdue)
                || unseen && overdue(h.una_at))
    }

    /// Whether the recovery's first retransmission must have come earlier. Beyond a place where
    /// packets are lost it may never come by: a recovery begins with the first hole, soon after its
    /// sender was informed (a quarter of a round trip: RACK, RFC 8985, section 6.2).
    pub(super) fn missed_first(&self, h: &Half) -> bool {
        let informed_at = informed_at(h);
        self.distance != Distance::Near
            && self.sack_in_use
            && h.scoreboard.suspected_since().is_some()
            && (self.start > h.space.una()
                || informed_at > 0 && self.now - informed_at.min(self.now) >= self.loaded_lag.saturating_mul(3) / 4)
    }

    /// Whether it follows the repair of another segment within half a round trip, with no advance
    /// in between that the sender can know of (RFC 6582, section 3.2).
    pub(super) fn is_back_to_back(&self, h: &Half) -> bool {
        h.repairs.latest().is_some_and(|r| {
            let soon = self.rtt.is_some_and(|rtt| self.now - r.at.min(self.now) < rtt / 2);
            soon && r.start != self.start && (h.una_at < r.at || h.una_at.saturating_add(self.lag) > self.now)
        })
    }

    /// What is known of it where its acknowledgment has passed the capture already.
    pub(super) fn belated(&self, h: &Half, sent_last: u64) -> Belated {
        let rtt = self.rtt.unwrap_or(0);
        let since = |at: u64| self.now - at.min(self.now);
        let last = h.repairs.latest().filter(|l| since(l.at) <= rtt);
        let disordered = h.anomalies.disordered_at > 0 && since(h.anomalies.disordered_at) <= rtt.saturating_mul(2);
        Belated { silent: since(sent_last), last: last.map(|l| l.class), disordered }
    }

    /// A recovery begins with it.
    pub(super) fn begin_recovery(&self, h: &mut Half, class: Class, heard: u64, signs: &Signs, original: u64) {
        let began = match class {
            Class::Timeout | Class::TailLossProbe => heard,
            _ => h.scoreboard.suspected_since().unwrap_or(self.now),
        };
        let began = h.recovery.as_ref().map_or(began, |r| r.began.min(began));
        // A recovery ends where the sender was when it began. That may have been before the first
        // repair which the capture holds.
        let (informed_at, renewed_at) = (informed_at(h), h.repairs.renewed_at());
        let due = if signs.missed_first && informed_at > 0 {
            informed_at
        } else if renewed_at > 0 && renewed_at >= h.una_at {
            renewed_at.saturating_add(self.lag)
        } else {
            self.now
        };
        let point = if class == Class::Timeout { None } else { h.flight.sent_by(due) };
        let (point, number, una) = (point.unwrap_or(h.space.next()), self.s.number, h.space.una());
        h.recovery = Some(Box::new(Recovery { point, class, began, number, original, una }));
        h.rounds.leave_level();
        if class != Class::TailLossProbe {
            h.rounds.past_slow_start = class != Class::Timeout;
            h.rounds.threshold = h.in_flight() / 2;
        }
    }
}

/// When a segment showed that the sender had received the ACK after which it retransmits; 0 before.
fn informed_at(h: &Half) -> u64 {
    h.sender.as_ref().map_or(0, |s| s.informed_at)
}

/// Whether its sender sends tail-loss probes shows where two segments or more were out and no ACK
/// spoke of a loss: a probe would have come after two round trips (RFC 8985, section 7.2).
pub(super) fn note_probing(h: &mut Half, class: Class, signs: &Signs, start: u64) {
    let unheard =
        signs.by_timer() && signs.recovery.is_none() && !(signs.again || signs.sacked_above || signs.duplicates > 0);
    if unheard && signs.sack_in_use && !signs.alone {
        match class {
            Class::Timeout if start == h.space.una() => h.repairs.probed(false),
            Class::TailLossProbe if signs.tail => h.repairs.probed(true),
            _ => {}
        }
    }
}
