//! The short way that most packets take: an ACK, or data in order, while nothing is lost, held back
//! or closed.
//!
//! It does to the connection what the long way does, [`Connection::take_any`], and skips what could
//! not come to anything: repairs, holes, SACK blocks, windows that close, pauses, steps of the
//! clock, copies and damage. What a packet has to be is checked before anything changes; what the
//! connection has to be holds until a packet comes that takes the long way. A connection of which
//! packets are kept takes the long way always, which is how the tests compare the two.

use record::conversation::Way;
use wire::{Ecn, Flags, Integrity, Segment};

use super::ack::advance;
use super::{Connection, scale};
use crate::half::{AWAY, Data, Half, SHORTEST_TIMEOUT};
use crate::kept::Facts;
use crate::ranges::START;
use crate::stall::SHORTEST;
use crate::steps;

/// What is the same for all packets of a connection in which nothing is amiss.
#[derive(Clone, Copy, Debug)]
pub(super) struct Undisturbed {
    /// The scale of the windows that each direction advertises.
    scales: [u8; 2],
    /// Both hosts are beside the capture, so that each has learnt of every ACK that passed it.
    pub(super) beside: bool,
}

impl Connection {
    /// To be asked after a packet that took the long way.
    pub(super) fn find_undisturbed(&self) -> Option<Undisturbed> {
        let [a, b] = &self.halves;
        // What is most often amiss is asked first, of both.
        if is_repaired(a) || is_repaired(b) || !(is_undisturbed(a) && is_undisturbed(b)) {
            return None;
        }
        let no_step = self.steps.as_ref().is_none_or(|s| !(Way::ALL.iter().any(|way| s.waits_for(*way))));
        if !self.established || self.recorder.is_some() || !no_step {
            return None;
        }
        let scales = [scale(a, b)?, scale(b, a)?];
        let beside = [a, b].into_iter().all(|h| h.rtt.base().is_some_and(|base| base < AWAY) && h.knows_all());
        Some(Undisturbed { scales, beside })
    }

    /// Takes a plain packet; false where it is none, or the connection is disturbed: then nothing
    /// has changed.
    #[inline(always)]
    pub(super) fn take_plain(&mut self, way: Way, s: &Segment) -> bool {
        let Some(Undisturbed { scales, beside }) = self.undisturbed else { return false };
        let now = s.at.as_nanos();
        let (lag, peer_lag) = if beside { (0, 0) } else { (self.lag(way), self.lag(!way)) };
        let [a, b] = &mut self.halves;
        // `h` sent this packet, `p` what it acknowledges.
        let (h, p, scale) = if way == Way::ToServer { (a, b, scales[0]) } else { (b, a, scales[1]) };
        if now < self.last_at || steps::may_be(now - self.last_at) || !is_plain(s) || !h.continues(s) {
            return false;
        }
        if s.payload > 0 && h.has_paused(now, SHORTEST_TIMEOUT) {
            return false;
        }
        let (pure, repeats, ack) = (s.payload == 0, h.window.is_repeated_by(s), p.space.place(s.ack));
        // What acknowledges nothing new may be a duplicate ACK or a new window, and after a silence
        // the path may have stood still.
        let silence = p.unheard_for(now);
        let moves_on = ack > p.space.una() && silence < SHORTEST;
        if !repeats && (ack > p.space.next() || !moves_on && (pure || ack != p.space.una())) {
            return false;
        }
        let Some(packet) = h.datagrams.new_packet(s, now) else { return false };
        h.datagrams.keep(packet);
        h.checksums.take(s);
        h.count_packet(s);
        if let Some((_, Some(echo))) = s.options.timestamps {
            p.rtt.value_echoed(echo, now);
        }
        let advanced = if repeats { 0 } else { ack - p.space.una() };
        let is_away = !beside && h.is_away();
        if !repeats {
            h.window.take_known(s, scale);
            h.count.pure_acks += u64::from(pure);
            if advanced > 0 {
                p.heard_at = now;
                if let Some(late) = advance(p, h, s, (ack, now, silence), pure, advanced, &mut None)
                    && p.space.next() == ack
                {
                    // What comes next shows whether something had waited for it.
                    p.late = Some(Box::new(late));
                    self.undisturbed = None;
                }
            }
            h.window.note_ack(s);
        }
        let edge = ack.saturating_add(h.window.size());
        if is_away || peer_lag > 0 || !beside && !p.knows_all() {
            p.passed_to(s, now, (p.space.una().max(ack), edge), advanced > 0, is_away);
            p.acknowledged_to(now, edge, peer_lag);
        } else if !repeats {
            p.acknowledged_beside(now, edge);
        }
        let held_up = !beside && self.echoed(way, s, now);
        let h = &mut self.halves[way];
        h.datagrams.skipped_ids(s, h.sizes.limit());
        let (start, was_filled) = (h.space.next(), h.filled);
        let data = if pure { Data::None } else { Data::New };
        if !pure {
            h.count_payload(s.payload.into());
            h.count.unique_bytes += u64::from(s.payload);
            self.find_limit(way);
            self.take_new(way, s, now, Some(lag), lag, (start, start + u64::from(s.payload)));
        }
        let facts = Facts {
            data,
            advanced,
            opens_hole: false,
            was_filled,
            knows_lag: true,
            ids_skipped: 0,
            lost_before: false,
            held_up,
            released: false,
        };
        self.conclude(way, s, now, lag, &facts);
        let (state, of) = self.limit_undisturbed(beside);
        self.enter(state, of, s.number);
        true
    }
}

/// Whether a packet has nothing in it that the long way is for, whatever its connection is.
#[inline(always)]
fn is_plain(s: &Segment) -> bool {
    (s.flags | Flags::PSH) == (Flags::ACK | Flags::PSH)
        && s.window > 0
        && s.options.sack.is_empty()
        && s.options.mptcp.is_none()
        && s.network.ecn != Ecn::Ce
        && s.integrity != Integrity::Wrong
}

/// Whether a loss is being repaired, or suspected.
#[inline(always)]
fn is_repaired(h: &Half) -> bool {
    h.recovery.is_some() || h.scoreboard.suspected_since().is_some()
}

/// Whether nothing else is amiss in a direction, its handshake was seen, and its round trip is
/// known.
fn is_undisturbed(h: &Half) -> bool {
    !h.scoreboard.is_disordered()
        && (h.restart.is_none() && h.late.is_none() && !h.rtt.may_stand_still())
        && (h.window.scale_is_known() && !h.window.is_closed() && h.fin.is_none())
        && (h.offered.seen && h.space.una() > START && h.datagrams.first_ttl() > 0 && h.rtt.base().is_some())
        && (!h.datagrams.copies_are_expected() && !h.checksums.found_damage && !h.repairs.may_be_needless())
}
