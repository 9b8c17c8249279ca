//! Matches stamps to sends, and counts what never came. Pure.

use std::collections::VecDeque;

use clock::{Disorder, Instant, Nanos, Phc, Realtime};

use crate::{Counting, Stages, TransmitStage, TransmitStamp};

/// A send with the stamps that came for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Matched<T> {
    /// Its id in 64 bits: the number of the datagram, or the position of its last byte.
    pub id: u64,
    /// When the program says it sent.
    pub sent: Instant<Realtime>,
    /// Whatever the program keeps with a send.
    pub tag: T,
    software: [Option<Instant<Realtime>>; TransmitStage::ALL.len()],
    hardware: Option<Instant<Phc>>,
    got: Stages,
    expected: Stages,
}

impl<T> Matched<T> {
    /// When it passed `stage`, by the kernel's clock. The stage `nic` has a time on the NIC's clock
    /// only.
    pub fn at(&self, stage: TransmitStage) -> Option<Instant<Realtime>> {
        self.software[stage as usize]
    }

    /// When the NIC put it on the wire.
    pub fn nic(&self) -> Option<Instant<Phc>> {
        self.hardware
    }

    /// Whether every stamp that was asked for came.
    pub fn is_complete(&self) -> bool {
        self.missing().is_empty()
    }

    /// The stages that never came.
    pub fn missing(&self) -> Stages {
        self.expected - self.got
    }

    /// The time from the send to `stage`; `None` where it never came.
    ///
    /// # Errors
    /// [`Disorder`] where the stamp is before the send: the clock was set, or the program's own
    /// time is wrong.
    pub fn since_sent(&self, stage: TransmitStage) -> Result<Option<Nanos>, Disorder> {
        self.at(stage).map(|at| at.since(self.sent)).transpose()
    }

    /// The time between two stages; `None` where either never came.
    ///
    /// # Errors
    /// [`Disorder`] where the later stage has the earlier time. TCP's retransmissions do not cause
    /// that: the first time of a stage is kept.
    pub fn between(&self, from: TransmitStage, to: TransmitStage) -> Result<Option<Nanos>, Disorder> {
        match (self.at(from), self.at(to)) {
            (Some(a), Some(b)) => b.since(a).map(Some),
            _ => Ok(None),
        }
    }
}

/// What became of the stamps. `sent = complete + incomplete + pending`, always.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Sends that stamps were asked for.
    pub sent: u64,
    /// Of these, finished with every stamp.
    pub complete: u64,
    /// Of these, finished with stamps missing.
    pub incomplete: u64,
    /// Stamps that never came, stage by stage in the order of [`TransmitStage::ALL`].
    pub never_came: [u64; TransmitStage::ALL.len()],
    /// Stamps matched to a send.
    pub matched: u64,
    /// Second stamps of a stage, by retransmission or stacked qdiscs: the first is kept.
    pub repeated: u64,
    /// Stamps of sends that are not known: never noted, or finished before.
    pub unknown: u64,
}

/// Matches stamps to the sends they are of. [`Matcher::finished`] gives each send with its stamps,
/// as a [`Matched`].
///
/// It holds a limited number of sends; the oldest leaves incomplete where another one needs its
/// place. TCP acknowledges in order, so an `ack` stamp also ends every earlier send of the stream:
/// those were merged into a later packet and their own will never come.
pub struct Matcher<T> {
    counting: Counting,
    expected: Stages,
    capacity: usize,
    next: u64,
    /// By rising id.
    pending: VecDeque<Matched<T>>,
    /// Complete sends stay in `pending` until they are first, so that they leave in the order of
    /// sending.
    finished: VecDeque<Matched<T>>,
    counts: Counts,
}

impl<T> Matcher<T> {
    /// A matcher for a socket with ids of this kind, that expects `stages` of every send that is
    /// noted, and holds up to `capacity` sends that wait for stamps (at least one).
    pub fn new(counting: Counting, stages: Stages, capacity: usize) -> Self {
        Self {
            counting,
            expected: stages,
            capacity: capacity.max(1),
            next: 0,
            pending: VecDeque::new(),
            finished: VecDeque::new(),
            counts: Counts::default(),
        }
    }

    /// Notes a send that takes the next of the kernel's ids; gives that id. `bytes` is what the
    /// send took, which is what counts on a stream; a send of no bytes has no id there and is not
    /// noted (`None`).
    ///
    /// Call this after the send succeeded. Where it failed, do not; but a datagram that the kernel
    /// refused after it had counted it shifts all later ids on older kernels. Ids that the program
    /// chooses ([`Self::sent_with_id`]) are safe from that.
    pub fn sent(&mut self, bytes: usize, at: Instant<Realtime>, tag: T) -> Option<u64> {
        let id = match self.counting {
            Counting::Datagrams => self.next,
            Counting::Bytes if bytes == 0 => return None,
            Counting::Bytes => self.next.saturating_add(bytes as u64 - 1),
        };
        self.note(id, at, tag);
        Some(id)
    }

    /// Notes a send without stamps: on a stream its bytes count all the same.
    pub fn sent_unstamped(&mut self, bytes: usize) {
        if self.counting == Counting::Bytes {
            self.next = self.next.saturating_add(bytes as u64);
        }
    }

    /// Notes a send with an id that the program chose, which must be larger than those before; the
    /// kernel gets its lower 32 bits. An id that is not larger is not noted (`false`).
    pub fn sent_with_id(&mut self, id: u64, at: Instant<Realtime>, tag: T) -> bool {
        let rises = id >= self.next;
        if rises {
            self.note(id, at, tag);
        }
        rises
    }

    fn note(&mut self, id: u64, sent: Instant<Realtime>, tag: T) {
        self.next = id.saturating_add(1);
        self.counts.sent += 1;
        if self.pending.len() >= self.capacity {
            self.finish_first();
        }
        self.pending.push_back(Matched {
            id,
            sent,
            tag,
            software: [None; TransmitStage::ALL.len()],
            hardware: None,
            got: Stages::empty(),
            expected: self.expected,
        });
    }

    /// Matches one stamp to its send. Gives the send's 64-bit id, or `None` where no send is
    /// waiting for it.
    pub fn stamp(&mut self, stamp: &TransmitStamp<'_>) -> Option<u64> {
        // The largest id that was sent bounds every stamp from above, so 32 bits are enough over a
        // span of 2³².
        let largest = self.next.checked_sub(1);
        let id = largest.and_then(|l| l.checked_sub(u64::from((l as u32).wrapping_sub(stamp.id))));
        let Some((id, index)) = id.and_then(|id| Some((id, self.index(id)?))) else {
            self.counts.unknown += 1;
            return None;
        };
        let send = &mut self.pending[index];
        let mut new = Stages::empty();
        if let Some(at) = stamp.software() {
            new |= Stages::from(stamp.stage);
            if !send.got.has(stamp.stage) {
                send.software[stamp.stage as usize] = Some(at);
            }
        }
        if let Some(at) = stamp.hardware() {
            new |= Stages::NIC;
            send.hardware.get_or_insert(at);
        }
        if send.got.contains(new) {
            self.counts.repeated += 1;
        } else {
            self.counts.matched += 1;
        }
        send.got |= new;
        if self.counting == Counting::Bytes && stamp.stage == TransmitStage::Ack {
            for _ in 0..index {
                self.finish_first();
            }
        }
        while self.pending.front().is_some_and(Matched::is_complete) {
            self.finish_first();
        }
        Some(id)
    }

    fn index(&self, id: u64) -> Option<usize> {
        let first = self.pending.front()?.id;
        // Datagrams usually have consecutive ids, so the place is known at once.
        let guess = usize::try_from(id.checked_sub(first)?).ok();
        if let Some(guess) = guess.filter(|g| self.pending.get(*g).is_some_and(|m| m.id == id)) {
            return Some(guess);
        }
        self.pending.binary_search_by_key(&id, |m| m.id).ok()
    }

    fn finish_first(&mut self) {
        let Some(send) = self.pending.pop_front() else { return };
        if send.is_complete() {
            self.counts.complete += 1;
        } else {
            self.counts.incomplete += 1;
            for stage in send.missing().stages() {
                self.counts.never_came[stage as usize] += 1;
            }
        }
        self.finished.push_back(send);
    }

    /// The next send that no stamp is expected for, in the order of sending: complete, or given up.
    pub fn finished(&mut self) -> Option<Matched<T>> {
        self.finished.pop_front()
    }

    /// Gives up every send made before `moment`, so that [`Self::finished`] gives it with the
    /// stamps that came.
    pub fn give_up_before(&mut self, moment: Instant<Realtime>) {
        while self.pending.front().is_some_and(|m| m.sent < moment || m.is_complete()) {
            self.finish_first();
        }
    }

    /// Gives up everything that still waits: for the end.
    pub fn give_up(&mut self) {
        while !self.pending.is_empty() {
            self.finish_first();
        }
    }

    /// How many sends wait for stamps.
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// What became of the stamps so far.
    pub const fn counts(&self) -> Counts {
        self.counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Times;
    use proptest::prelude::*;

    fn stamp(stage: TransmitStage, id: u64, at: u64) -> TransmitStamp<'static> {
        let times = match stage {
            TransmitStage::Nic => Times { software: None, hardware: Some(Instant::from_nanos(at)) },
            _ => Times { software: Some(Instant::from_nanos(at)), hardware: None },
        };
        TransmitStamp { stage, id: id as u32, times, interface: None, raw_stats: None, payload: &[] }
    }

    fn at(ns: u64) -> Instant<Realtime> {
        Instant::from_nanos(ns)
    }

    #[test]
    fn an_ack_ends_the_earlier_sends_of_a_stream() {
        let mut m = Matcher::new(Counting::Bytes, Stages::SCHED | Stages::ACK, 100);
        assert_eq!(m.sent(10, at(1), 'a'), Some(9));
        assert_eq!(m.sent(0, at(1), '-'), None);
        m.sent_unstamped(5);
        assert_eq!(m.sent(10, at(2), 'b'), Some(24));
        m.stamp(&stamp(TransmitStage::Sched, 24, 3));
        m.stamp(&stamp(TransmitStage::Ack, 24, 9));
        let (a, b) = (m.finished().unwrap(), m.finished().unwrap());
        assert_eq!((a.tag, a.missing(), b.tag, b.is_complete()), ('a', Stages::SCHED | Stages::ACK, 'b', true));
        assert_eq!(b.between(TransmitStage::Sched, TransmitStage::Ack), Ok(Some(Nanos(6))));
        assert_eq!((m.counts().never_came[0], m.counts().never_came[4]), (1, 1));
    }

    #[test]
    fn the_first_time_of_a_stage_is_kept_and_strangers_are_counted() {
        let mut m = Matcher::new(Counting::Datagrams, Stages::SCHED | Stages::DRIVER, 100);
        assert_eq!(m.stamp(&stamp(TransmitStage::Sched, 0, 1)), None);
        m.sent(1, at(0), ());
        m.stamp(&stamp(TransmitStage::Sched, 0, 5));
        m.stamp(&stamp(TransmitStage::Sched, 0, 8));
        m.stamp(&stamp(TransmitStage::Driver, 0, 9));
        m.stamp(&stamp(TransmitStage::Driver, 0, 9));
        let send = m.finished().unwrap();
        assert_eq!(send.at(TransmitStage::Sched), Some(at(5)));
        assert_eq!((m.counts().repeated, m.counts().unknown, m.counts().matched), (1, 2, 2));
    }

    #[test]
    fn nic_and_driver_of_one_message_are_two_stages() {
        let mut m = Matcher::new(Counting::Datagrams, Stages::DRIVER | Stages::NIC, 4);
        m.sent(1, at(0), ());
        let mut both = stamp(TransmitStage::Driver, 0, 5);
        both.times.hardware = Some(Instant::from_nanos(77));
        m.stamp(&both);
        let send = m.finished().unwrap();
        assert_eq!((send.is_complete(), send.nic()), (true, Some(Instant::from_nanos(77))));
    }

    proptest! {
        /// Whatever is lost, doubled or late: every send comes out once, in order, and the counters
        /// add up.
        #[test]
        fn every_send_comes_out_once_and_counters_add_up(
            start in 0u64..(1 << 34),
            room in 1usize..50,
            bytes: bool,
            ops in prop::collection::vec((0u8..4, any::<u32>(), 0usize..5), 0..300),
        ) {
            let counting = if bytes { Counting::Bytes } else { Counting::Datagrams };
            let mut m = Matcher::new(counting, Stages::SCHED | Stages::DRIVER, room);
            m.next = start;
            let (mut ids, mut stamps, mut out) = (Vec::new(), 0, Vec::new());
            for (op, number, stage) in ops {
                if op == 0 || ids.is_empty() {
                    if let Some(id) = m.sent(number as usize >> 4, at(1), ()) {
                        ids.push(id);
                    }
                } else {
                    let id = ids[number as usize % ids.len()];
                    // The span within which 32 bits are unique.
                    if m.next - id < 1 << 32 {
                        m.stamp(&stamp(TransmitStage::ALL[stage], id, 2));
                        stamps += 1;
                    }
                }
                out.extend(std::iter::from_fn(|| m.finished()));
                let c = m.counts();
                prop_assert_eq!(c.sent, c.complete + c.incomplete + m.pending() as u64);
                prop_assert_eq!(c.matched + c.repeated + c.unknown, stamps);
                prop_assert!(m.pending() <= room);
            }
            m.give_up();
            out.extend(std::iter::from_fn(|| m.finished()));
            prop_assert_eq!(out.iter().map(|s| s.id).collect::<Vec<_>>(), ids);
            let never: u64 = out.iter().map(|s| s.missing().stages().count() as u64).sum();
            prop_assert_eq!(m.counts().never_came.iter().sum::<u64>(), never);
        }
    }
}
