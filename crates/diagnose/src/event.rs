//! Things that happened, as evidence: counted in full, the worst of them kept.

use record::Nanos;
use record::conversation::Way;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Event {
    /// A late ACK let a part-filled segment go that Nagle's algorithm had held back.
    NagleStall,
    /// A late ACK let a full segment go.
    DelayedAckStall,
    /// The receiver's window was zero.
    ZeroWindow,
    /// A loss, from the first sign to the repair; `detail` is the class of the first
    /// retransmission.
    Recovery,
    /// A recovery that was not needed.
    NeedlessRecovery,
    /// A SYN was retransmitted; `detail` is 1 where it had been answered.
    SynRetry,
    /// After a pause the sender began with a small window.
    IdleRestart,
    /// A full segment was retransmitted on a timeout while nothing that large had ever been
    /// acknowledged.
    LargeRetransmission,
    /// The sender had filled the window that the receiver offered.
    WindowFull,
    /// The path stood still with data under way.
    PathStall,
    /// Or a delayed ACK, or a step of the capture's clock.
    PossibleStall,
}

/// One case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Occurrence {
    /// When it began, ns.
    pub(crate) at: u64,
    /// What it cost, ns.
    pub(crate) cost: u64,
    /// The packets that show it; 0 for none.
    pub(crate) packets: [u64; 3],
    /// A number; the kind says what it means.
    pub(crate) detail: u64,
}

/// All cases of one kind in one direction.
#[derive(Clone, Debug)]
pub(crate) struct Occurrences {
    pub(crate) what: Event,
    pub(crate) direction: Way,
    pub(crate) count: u64,
    pub(crate) total: Nanos,
    /// The costliest, at most [`KEPT`].
    pub(crate) worst: Vec<Occurrence>,
}

/// Enough to see what happened, and few enough to keep for every connection.
const KEPT: usize = 8;

/// The cases of one connection.
#[derive(Clone, Debug, Default)]
#[expect(clippy::box_collection, reason = "8 bytes rather than 24 where there is none")]
pub(crate) struct Events(Option<Box<Vec<Occurrences>>>);

impl Events {
    pub(crate) fn add(&mut self, what: Event, direction: Way, occurrence: Occurrence) {
        let events = self.0.get_or_insert_default();
        let i = events.iter().position(|e| e.what == what && e.direction == direction).unwrap_or_else(|| {
            events.push(Occurrences { what, direction, count: 0, total: Nanos::ZERO, worst: Vec::new() });
            events.len() - 1
        });
        let all = &mut events[i];
        all.count += 1;
        all.total += Nanos(occurrence.cost);
        if all.worst.len() < KEPT {
            all.worst.push(occurrence);
        } else if let Some(least) = all.worst.iter_mut().min_by_key(|e| e.cost).filter(|e| e.cost < occurrence.cost) {
            *least = occurrence;
        }
    }

    pub(crate) fn of(&self, what: Event, direction: Way) -> Option<&Occurrences> {
        self.0.as_deref()?.iter().find(|e| e.what == what && e.direction == direction)
    }
}

impl Occurrences {
    /// The packets of the kept cases, costliest first, each once.
    pub(crate) fn packets(&self) -> Vec<u64> {
        let mut worst = self.worst.clone();
        worst.sort_by_key(|e| std::cmp::Reverse(e.cost));
        let mut packets = Vec::new();
        for n in worst.iter().flat_map(|e| e.packets).filter(|n| *n > 0) {
            if !packets.contains(&n) {
                packets.push(n);
            }
        }
        packets
    }

    /// When the first kept case began.
    pub(crate) fn first_at(&self) -> u64 {
        self.worst.iter().map(|e| e.at).min().unwrap_or(0)
    }

    /// The costliest case.
    pub(crate) fn costliest(&self) -> Option<&Occurrence> {
        self.worst.iter().max_by_key(|e| e.cost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_counted_and_the_worst_kept() {
        let mut events = Events::default();
        for n in 1..=100 {
            events.add(Event::ZeroWindow, Way::ToServer, Occurrence { at: n, cost: n, packets: [n, 0, 0], detail: 0 });
        }
        let all = events.of(Event::ZeroWindow, Way::ToServer).unwrap();
        assert_eq!((all.count, all.total, all.packets()[0], all.worst.len()), (100, Nanos(5_050), 100, KEPT));
        assert!(events.of(Event::ZeroWindow, Way::ToClient).is_none());
    }
}
