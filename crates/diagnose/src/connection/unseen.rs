//! A flight that was lost whole before the capture: what comes after it shows that it had been
//! sent.
//!
//! Away from its sender such a flight is a silence, which the retransmission timer ends with one
//! segment, as if a program had paused. When data come after that which leave a hole, the hole's
//! were sent before, and a sender counts its packets (RFC 6864 leaves that open; Linux, the BSDs
//! and Windows do): those that it has sent since the silence and the capture has not are too few
//! for the hole. So the others were sent before the silence, and waited for.

use record::conversation::{Limit, Way};
use wire::Segment;

use super::Connection;
use crate::distance::Distance;

/// Silences that are kept of a connection, the latest first.
const KEPT: usize = 4;
/// Shorter ones, ns, are next to nothing beside the retransmission timer's.
const SHORTEST: u64 = 100_000_000;
/// More packets than these between two of a sender are none that it counts.
const FAR: u16 = 0x1000;

/// The latest silences in which nothing was outstanding, as the capture saw it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Silences([Option<Silence>; KEPT]);

#[derive(Clone, Copy, Debug)]
struct Silence {
    /// In the budget of which direction it is, and how long it was, ns.
    of: Way,
    time: u64,
    /// The last packet with data before it.
    since: u64,
    /// By direction: the identification that its sender gives the packet after it, and how many of
    /// its packets had been seen, modulo 2^32.
    next_id: [u16; 2],
    packets: [u32; 2],
}

impl Silence {
    /// How many packets the sender of direction `way` has sent since and before the one with this
    /// identification, which is the last of so many `seen`, that the capture has not; `None` where
    /// it does not count.
    fn unseen(&self, way: Way, id: u16, seen: u32) -> Option<u32> {
        let sent = id.wrapping_sub(self.next_id[way as usize]);
        let seen = seen.wrapping_sub(self.packets[way as usize]).wrapping_sub(1);
        if sent < FAR { u32::from(sent).checked_sub(seen) } else { None }
    }
}

impl Connection {
    /// Data ended a silence of so much `time` after packet `since`, which is in the budget of
    /// direction `of`.
    pub(super) fn note_silence(&mut self, of: Way, time: u64, since: u64) {
        if time < SHORTEST {
            return;
        }
        let next_id = self.halves.each_ref().map(|h| h.datagrams.next_id());
        let packets = self.halves.each_ref().map(|h| h.count.packets as u32);
        let Silences(kept) = self.halves[Way::ToServer].anomalies.silences();
        kept.rotate_right(1);
        kept[0] = Some(Silence { of, time, since, next_id, packets });
    }

    /// A hole opened before this packet of direction `way`: which silences were none.
    #[cold]
    pub(super) fn judge_silences(&mut self, way: Way, s: &Segment) {
        let Some(kept) = self.halves[Way::ToServer].anomalies.take_silences() else { return };
        let (h, beside) = (&self.halves[way], self.distance(way) == Distance::Near);
        let limit = u64::from(h.sizes.limit());
        let (Some(id), Some(idle)) = (s.network.id.filter(|id| *id != 0), &mut self.idle) else { return };
        if limit == 0 || beside {
            return;
        }
        let missing = h.holes.bytes_in(h.space.una(), h.space.next()).div_ceil(limit) as u32;
        let (seen, mut lost) = (h.count.packets as u32, 0);
        for silence in kept.0.into_iter().flatten() {
            let Some(unseen) = silence.unseen(way, id, seen).filter(|unseen| *unseen < missing) else { break };
            lost = lost.max(missing - unseen);
            idle.was_no_pause(silence.since);
            self.budgets[silence.of].shift(Limit::Application, Limit::LossRecovery, silence.time);
            if let Some(repairing) = &mut self.halves[way].anomalies.repairing {
                repairing.found_lost(silence.time);
            }
        }
        if lost > 0 {
            self.halves[way].anomalies.lost_before += lost;
        }
    }
}
