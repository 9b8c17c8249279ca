//! What most directions of most connections never have: kept apart, so that the others are small.

use std::ops::{Deref, DerefMut};

use wire::{Ecn, Flags, Segment};

use crate::checksums::Damage;
use crate::connection::Silences;
use crate::fetch::{self, Fetch};
use crate::gathering::Gathering;
use crate::half::made;
use crate::lockstep::Lockstep;
use crate::refills::Refills;
use crate::repairing::Repairing;
use crate::retransmission::Class;
use crate::unclear::{Times, Unclear};

/// Counters of anomalies. The names that differ from the report's are explained there.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counters {
    pub(crate) retransmitted_packets: u64,
    pub(crate) retransmitted_bytes: u64,
    /// Retransmissions by class.
    pub(crate) by_class: [u32; Class::COUNT],
    pub(crate) spurious: u32,
    /// Retransmissions without payload: FINs.
    pub(crate) retransmitted_fins: u32,
    /// Finished recoveries: their time, ns, and what was acknowledged meanwhile, bytes.
    pub(crate) recoveries: (u64, u64),
    /// How much of that time the receiver held ACKs back, as its window had no room, ns.
    pub(crate) unread: u64,
    /// DSACKs that name nothing that was seen to be retransmitted.
    pub(crate) needless_unmatched: u32,
    pub(crate) unseen_original: u32,
    /// Of those, what had been acknowledged before it came.
    pub(crate) behind_ack: u32,
    /// Packets that were lost before the capture, as those show that came late for it.
    pub(crate) lost_before: u32,
    pub(crate) out_of_order: u32,
    pub(crate) reorder_extent: u64,
    pub(crate) reordered_beyond: u32,
    pub(crate) keep_alives: u32,
    pub(crate) window_probes: u32,
    /// Packets after the handshake with an MPTCP option: it was agreed on, as a host sends none
    /// before it knows that its peer has it.
    pub(crate) multipath: u64,
    pub(crate) resets: u32,
    /// Its SYN crossed the peer's (RFC 9293, section 3.5).
    pub(crate) simultaneous: bool,
    pub(crate) ce_marks: u32,
    pub(crate) ece: u32,
    /// Packets on which the sender says that it reduced its window (CWR).
    pub(crate) cwr: u32,
    /// The first packets with a mark and with an echo of one.
    pub(crate) first_ce: u64,
    pub(crate) first_ece: u64,
    pub(crate) duplicate_acks: u64,
    /// ACKs of a SYN that was retransmitted, before its sender's first data: one for each that came
    /// through (RFC 5961, section 4).
    pub(crate) syn_acks: u32,
    pub(crate) sack_acks: u64,
    pub(crate) zero_windows: u64,
    pub(crate) capture_copies: u64,
    pub(crate) larger_than_mss: u64,
    /// TCP header lengths by 4 bytes, beyond the first three.
    pub(crate) headers: [u32; 16],
    /// Pauses: how many, their sum and the longest, ns.
    pub(crate) idle: (u32, u64, u64),
    /// The first RST: packet number and time.
    pub(crate) reset: Option<(u64, u64)>,
    pub(crate) reset_ttl: u8,
    pub(crate) damage: Option<Box<Damage>>,
    /// Windows at the moments when they were full: how many, smallest and largest.
    pub(crate) full_windows: u64,
    /// Of them, those at less than half of the largest window that had been advertised until then.
    pub(crate) full_shrunk: u64,
    pub(crate) full_least: u64,
    pub(crate) full_most: u64,
    /// The packet that closed its window last.
    pub(crate) zero_number: u64,
    /// When the last duplicate ACK or SACK block came, whatever became of it.
    pub(crate) disordered_at: u64,
    /// The last flight that ended in a part-filled segment.
    pub(crate) flight: LastFlight,
    /// How long slow start went on that had been taken to be over, until that showed, ns.
    pub(crate) resumed: u64,
    /// How fast its data were delivered while they were repaired.
    pub(crate) repairing: Option<Box<Repairing>>,
    /// What may have waited for late ACKs of the peer.
    pub(crate) lockstep: Option<Box<Lockstep>>,
}

static NOTHING: Counters = Counters {
    retransmitted_packets: 0,
    retransmitted_bytes: 0,
    by_class: [0; Class::COUNT],
    spurious: 0,
    retransmitted_fins: 0,
    recoveries: (0, 0),
    unread: 0,
    needless_unmatched: 0,
    unseen_original: 0,
    behind_ack: 0,
    lost_before: 0,
    out_of_order: 0,
    reorder_extent: 0,
    reordered_beyond: 0,
    keep_alives: 0,
    window_probes: 0,
    multipath: 0,
    resets: 0,
    simultaneous: false,
    ce_marks: 0,
    ece: 0,
    cwr: 0,
    first_ce: 0,
    first_ece: 0,
    duplicate_acks: 0,
    syn_acks: 0,
    sack_acks: 0,
    zero_windows: 0,
    capture_copies: 0,
    larger_than_mss: 0,
    headers: [0; 16],
    idle: (0, 0, 0),
    reset: None,
    reset_ttl: 0,
    damage: None,
    full_windows: 0,
    full_shrunk: 0,
    full_least: 0,
    full_most: 0,
    repairing: None,
    lockstep: None,
    zero_number: 0,
    disordered_at: 0,
    resumed: 0,
    flight: LastFlight { end: 0, bytes: 0 },
};

/// A flight after which the sender waited.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LastFlight {
    /// Where it ended in the stream, and how long it was.
    end: u64,
    bytes: u64,
}

impl LastFlight {
    /// Whether the one that ends here is as long as it, to the byte.
    pub(crate) fn is_as_long(&self, end: u64) -> bool {
        self.bytes > 0 && end - self.end.min(end) == self.bytes
    }

    /// The next one ends here.
    pub(crate) fn end(&mut self, end: u64) {
        *self = Self { end, bytes: end - self.end.min(end) };
    }
}

/// The counters, of which there are some from the first write on; reading alone takes no memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Anomalies(Option<Box<Beside>>);

/// What many a direction has beside the counters, by itself.
#[derive(Clone, Debug, Default)]
struct Beside {
    unclear: Times,
    gathering: Option<Box<Gathering>>,
    refills: Option<Box<Refills>>,
    silences: Option<Box<Silences>>,
    counters: Option<Box<Counters>>,
}

impl Anomalies {
    /// See [`Connection::fetch_boxes`](crate::connection::Connection::fetch_boxes).
    #[inline(always)]
    pub(crate) fn fetch_boxes(&self, with: impl Fetch) {
        fetch::each(self.0.as_deref(), with);
    }

    /// See [`Connection::fetch_further`](crate::connection::Connection::fetch_further).
    #[inline(always)]
    pub(crate) fn fetch_further(&self, with: impl Fetch) {
        let Some(beside) = &self.0 else { return };
        fetch::each(beside.gathering.as_deref(), with);
        fetch::each(beside.refills.as_deref(), with);
    }

    /// How long it was unclear what limited the direction.
    pub(crate) fn unclear(&self) -> Times {
        self.0.as_ref().map_or(Times::NONE, |beside| beside.unclear)
    }

    /// Takes the marks, flags and options of a packet that few have.
    #[inline(always)]
    pub(crate) fn take_header(&mut self, s: &Segment) {
        if s.network.ecn == Ecn::Ce {
            self.ce_marks += 1;
            if self.first_ce == 0 {
                self.first_ce = s.number;
            }
        }
        if s.options.mptcp.is_some() && !s.flags.contains(Flags::SYN) {
            self.multipath += 1;
        }
        if !s.flags.intersects(Flags::RST | Flags::ECE | Flags::CWR) {
            return;
        }
        if s.flags.contains(Flags::RST) {
            self.resets += 1;
        }
        if s.flags.contains(Flags::ECE) && !s.flags.contains(Flags::SYN) {
            self.ece += 1;
            if self.first_ece == 0 {
                self.first_ece = s.number;
            }
        }
        if s.flags.contains(Flags::CWR) && !s.flags.contains(Flags::SYN) {
            self.cwr += 1;
        }
    }

    /// Part-filled segments that followed data of their own direction, if there are any.
    pub(crate) fn gathering(&self) -> Option<&Gathering> {
        self.0.as_ref()?.gathering.as_deref()
    }

    /// The same, to be added to.
    pub(crate) fn gather(&mut self) -> &mut Gathering {
        made(&mut self.0.get_or_insert_default().gathering)
    }

    /// Full segments that came after what looked like pauses amid data of their own direction, if
    /// there are any.
    pub(crate) fn refills(&self) -> Option<&Refills> {
        self.0.as_ref()?.refills.as_deref()
    }

    /// The same, to be added to.
    pub(crate) fn refill(&mut self) -> &mut Refills {
        made(&mut self.0.get_or_insert_default().refills)
    }

    /// The latest silences of the connection, if there are any; kept of one direction.
    pub(crate) fn take_silences(&mut self) -> Option<Box<Silences>> {
        self.0.as_mut()?.silences.take()
    }

    /// The same, to be added to.
    pub(crate) fn silences(&mut self) -> &mut Silences {
        made(&mut self.0.get_or_insert_default().silences)
    }

    /// The peer sent data.
    #[inline(always)]
    pub(crate) fn end_gathering(&mut self) {
        if let Some(gathering) = self.0.as_mut().and_then(|beside| beside.gathering.as_mut()) {
            gathering.end();
        }
    }

    /// It was unclear for so long, ns.
    pub(crate) fn add_unclear(&mut self, why: Unclear, time: u64) {
        self.0.get_or_insert_default().unclear.add(why, time);
    }
}

impl Deref for Anomalies {
    type Target = Counters;

    fn deref(&self) -> &Counters {
        self.0.as_ref().and_then(|beside| beside.counters.as_deref()).unwrap_or(&NOTHING)
    }
}

#[cold]
fn first(none: &mut Option<Box<Beside>>) -> &mut Counters {
    none.get_or_insert_default().counters.get_or_insert_default()
}

impl DerefMut for Anomalies {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Counters {
        match &mut self.0 {
            Some(beside) => made(&mut beside.counters),
            none => first(none),
        }
    }
}

/// TCP header lengths: most directions have one or two.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Headers {
    words: [u8; 3],
    counts: [u32; 3],
}

impl Headers {
    /// Counts a header; false where it has no slot here and belongs among the anomalies.
    #[inline]
    pub(crate) fn add(&mut self, bytes: u8) -> bool {
        let words = bytes >> 2;
        if self.words[0] != words {
            let Some(at) = (0..3).find(|&i| self.words[i] == words || self.counts[i] == 0) else { return false };
            self.words[at] = words;
            // The next is likely to have the same.
            self.words.swap(0, at);
            self.counts.swap(0, at);
        }
        self.counts[0] = self.counts[0].saturating_add(1);
        true
    }

    /// Lengths in bytes with their counts, ascending.
    pub(crate) fn with(&self, anomalies: &Anomalies) -> Vec<(u8, u32)> {
        let mut all: Vec<(u8, u32)> = self.words.into_iter().zip(self.counts).filter(|c| c.1 > 0).collect();
        all.extend((0u8..).zip(anomalies.headers).filter(|c| c.1 > 0));
        all.sort_unstable();
        all.into_iter().map(|(words, count)| (words * 4, count)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_header_lengths_than_slots_are_all_counted() {
        let (mut headers, mut anomalies) = (Headers::default(), Anomalies::default());
        for bytes in [40, 32, 32, 44, 52, 52, 60, 32] {
            if !headers.add(bytes) {
                anomalies.headers[usize::from(bytes >> 2)] += 1;
            }
        }
        assert_eq!(headers.with(&anomalies), [(32, 3), (40, 1), (44, 1), (52, 2), (60, 1)]);
    }

    #[test]
    fn reading_takes_no_memory() {
        let anomalies = Anomalies::default();
        assert_eq!(anomalies.spurious, 0);
        assert!(anomalies.0.is_none());
    }
}
