//! Matching the frames of two taps, in bounded memory.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::RangeInclusive;

use clock::Nanos;

use super::Key;

/// Which tap saw a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tap {
    /// The one before the device.
    Before,
    /// The one behind it.
    After,
}

/// A frame that both taps saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Match {
    /// Its place among the frames of the first tap, from 0 on.
    pub number: u64,
    /// When the first tap saw it, nanoseconds on the taps' clock.
    pub before_ns: u64,
    /// Between the taps, nanoseconds. Negative where the taps' own error is larger than the delay.
    pub delay_ns: i64,
}

/// What became of the frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Frames that the first tap saw.
    pub before: u64,
    /// Frames that the second tap saw.
    pub after: u64,
    /// Frames that both saw.
    pub matched: u64,
    /// Frames that the first tap saw and the second did not, within the patience.
    pub lost: u64,
    /// Frames that the second tap saw more often than the first.
    pub duplicated: u64,
    /// Frames that the second tap saw and the first did not: the first tap missed them, or the
    /// device made them.
    pub unexplained: u64,
    /// Matched frames that left the device after a frame that had entered it later (RFC 4737
    /// section 3.3), in the order in which the second tap saw them.
    pub reordered: u64,
    /// Frames without a key: not recognised.
    pub unrecognised: u64,
    /// Frames that could not be kept until their other half came, because too many were waiting.
    pub not_kept: u64,
}

/// What is known of the frames of one key. The frames that wait are all of one tap: one of the
/// other would have matched.
#[derive(Clone, Debug)]
struct Slot {
    tap: Tap,
    /// The frame that has waited longest: its number at its tap, and its time.
    first: Option<(u64, u64)>,
    /// Those behind it, for keys that come more than once.
    more: VecDeque<(u64, u64)>,
    /// When the last pair of this key was matched: a further copy behind the device is a duplicate.
    matched: Option<u64>,
}

impl Slot {
    const EMPTY: Self = Self { tap: Tap::Before, first: None, more: VecDeque::new(), matched: None };

    fn wait(&mut self, tap: Tap, frame: (u64, u64)) {
        match self.first {
            None => (self.tap, self.first) = (tap, Some(frame)),
            Some(_) => self.more.push_back(frame),
        }
    }

    /// The longest waiting frame of `tap`.
    fn take(&mut self, tap: Tap) -> Option<(u64, u64)> {
        let taken = self.first.take_if(|_| self.tap == tap)?;
        self.first = self.more.pop_front();
        Some(taken)
    }

    /// The one that came last.
    fn take_latest(&mut self, tap: Tap) -> Option<(u64, u64)> {
        if self.tap == tap && !self.more.is_empty() { self.more.pop_back() } else { self.take(tap) }
    }
}

/// Spreads keys, which are ids or hashes already.
#[derive(Clone, Copy, Debug, Default)]
struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64((*byte).into()));
    }

    fn write_u64(&mut self, value: u64) {
        // Knuth's multiplicative hashing, with the high bits folded in: the table takes the low
        // ones.
        let product = (self.0 ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = product ^ (product >> 32);
    }
}

/// The frames of the second tap in the order in which it saw them, to find those that were
/// overtaken.
#[derive(Clone, Debug, Default)]
struct Order {
    /// The number of the first frame in `fates`.
    first: u64,
    fates: VecDeque<Fate>,
    /// The latest frame of the first tap that has left the device.
    latest: Option<u64>,
    overtaken: u64,
}

/// What became of a frame of the second tap.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Waits,
    /// The same frame's number at the first tap.
    Matched(u64),
    Unmatched,
}

impl Order {
    fn enters(&mut self) {
        self.fates.push_back(Fate::Waits);
    }

    fn settle(&mut self, number: u64, fate: Fate) {
        let place = number.checked_sub(self.first).and_then(|n| self.fates.get_mut(usize::try_from(n).ok()?));
        if let Some(place) = place {
            *place = fate;
        }
        while let Some(fate) = self.fates.pop_front_if(|fate| !matches!(fate, Fate::Waits)) {
            self.first += 1;
            if let Fate::Matched(number) = fate {
                self.overtaken += u64::from(self.latest.is_some_and(|latest| number < latest));
                self.latest = self.latest.max(Some(number));
            }
        }
    }
}

/// Joins the frames of two taps.
///
/// Counts are of a window in time ([`Matcher::count_from`], [`Matcher::count_until`]): frames that
/// the first tap sees outside it are joined with their other halves and counted nowhere, so that
/// frames on their way at either end are not taken for lost ones.
#[derive(Clone, Debug)]
pub struct Matcher {
    slots: HashMap<Key, Slot, BuildHasherDefault<Spread>>,
    /// Keys in the order of their frames, with their time: what is at the front has waited longest.
    keys: VecDeque<(u64, Key)>,
    patience: Nanos,
    most: usize,
    /// Frames that wait for their other half.
    waiting: usize,
    account: Account,
    order: Order,
    window: RangeInclusive<u64>,
    /// Frames of each tap, counted or not.
    numbers: [u64; 2],
}

impl Matcher {
    /// A frame waits `patience` for its other half; at most `most` frames wait.
    pub fn new(patience: Nanos, most: usize) -> Self {
        Self {
            slots: HashMap::default(),
            keys: VecDeque::new(),
            patience,
            most: most.max(1),
            waiting: 0,
            account: Account::default(),
            order: Order::default(),
            window: 0..=u64::MAX,
            numbers: [0; 2],
        }
    }

    /// Frames that the first tap saw before this moment are not counted.
    pub fn count_from(&mut self, at_ns: u64) {
        self.window = at_ns..=*self.window.end();
    }

    /// Frames that the first tap sees after this moment are not counted.
    pub fn count_until(&mut self, at_ns: u64) {
        self.window = *self.window.start()..=at_ns;
    }

    /// Whether no frame waits for its other half.
    pub const fn is_settled(&self) -> bool {
        self.waiting == 0
    }

    /// Takes a frame of a tap; gives the match that it completes. Frames of one tap come in the
    /// order in which it saw them; the two taps may run apart by up to the patience.
    pub fn take(&mut self, tap: Tap, key: Option<Key>, at_ns: u64) -> Option<Match> {
        let number = self.numbers[tap as usize];
        self.numbers[tap as usize] += 1;
        let counts = self.window.contains(&at_ns);
        match tap {
            Tap::Before => self.account.before += u64::from(counts),
            Tap::After => self.order.enters(),
        }
        self.forget(at_ns);
        let full = |key: &Key| self.keys.len() >= self.most && !self.slots.contains_key(key);
        let Some(key) = key.filter(|key| !full(key)) else {
            match key {
                None => self.account.unrecognised += u64::from(counts),
                Some(_) => self.account.not_kept += u64::from(counts),
            }
            if tap == Tap::After {
                self.account.after += u64::from(counts);
                self.order.settle(number, Fate::Unmatched);
            }
            return None;
        };
        self.keys.push_back((at_ns, key));
        let slot = self.slots.entry(key).or_insert(Slot::EMPTY);
        let other = if tap == Tap::Before { Tap::After } else { Tap::Before };
        // A retransmission with the same key follows one that was lost.
        let found = if key.is_part() { slot.take_latest(other) } else { slot.take(other) };
        let Some(found) = found else {
            slot.wait(tap, (number, at_ns));
            self.waiting += 1;
            return None;
        };
        self.waiting -= 1;
        slot.matched = Some(at_ns);
        let (before, after) = if tap == Tap::Before { ((number, at_ns), found) } else { (found, (number, at_ns)) };
        let counts = self.window.contains(&before.1);
        self.order.settle(after.0, if counts { Fate::Matched(before.0) } else { Fate::Unmatched });
        if !counts {
            return None;
        }
        self.account.after += 1;
        self.account.matched += 1;
        let delay = i128::from(after.1) - i128::from(before.1);
        let delay_ns = delay.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
        Some(Match { number: before.0, before_ns: before.1, delay_ns })
    }

    /// Gives up frames that have waited longer than the patience.
    fn forget(&mut self, now_ns: u64) {
        let patience = self.patience.0;
        while let Some((_, key)) = self.keys.pop_front_if(|(at, _)| now_ns.saturating_sub(*at) > patience) {
            self.forget_key(key, |at| now_ns.saturating_sub(at) > patience);
        }
    }

    /// Counts the frames of a key that are `old`, and frees it where nothing is left.
    fn forget_key(&mut self, key: Key, old: impl Fn(u64) -> bool) {
        let Some(slot) = self.slots.get_mut(&key) else { return };
        let mut over = true;
        while let Some((number, at)) = slot.first {
            if !old(at) {
                over = false;
                break;
            }
            slot.take(slot.tap);
            self.waiting -= 1;
            let counts = u64::from(self.window.contains(&at));
            match (slot.tap, slot.matched) {
                (Tap::Before, _) => self.account.lost += counts,
                (Tap::After, Some(_)) => self.account.duplicated += counts,
                (Tap::After, None) => self.account.unexplained += counts,
            }
            if slot.tap == Tap::After {
                self.account.after += counts;
                self.order.settle(number, Fate::Unmatched);
            }
        }
        if over && slot.matched.is_none_or(old) {
            self.slots.remove(&key);
        }
    }

    /// What became of the frames up to now; those that still wait are in no count but `before` and
    /// `after`.
    pub const fn account(&self) -> Account {
        Account { reordered: self.order.overtaken, ..self.account }
    }

    /// Gives up all that still wait: nothing more comes.
    pub fn finish(mut self) -> Account {
        while let Some((_, key)) = self.keys.pop_front() {
            self.forget_key(key, |_| true);
        }
        self.account()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delay::Identity;
    use crate::delay::samples::generated;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;

    fn key(id: u64) -> Option<Key> {
        Identity::Id.key(&generated(id))
    }

    fn matcher() -> Matcher {
        Matcher::new(Nanos(100 * MS), 1_000_000)
    }

    #[test]
    fn frames_match_whichever_tap_is_read_first() {
        let mut m = matcher();
        assert_eq!(m.take(Tap::Before, key(1), 10), None);
        let found = m.take(Tap::After, key(1), 25).unwrap();
        assert_eq!((found.number, found.delay_ns), (0, 15));
        assert_eq!(m.take(Tap::After, key(2), 40), None);
        assert_eq!(m.take(Tap::Before, key(2), 30).map(|f| f.delay_ns), Some(10));
        assert_eq!(m.take(Tap::Before, key(3), 50), None);
        assert_eq!(m.take(Tap::After, key(3), 45).map(|f| f.delay_ns), Some(-5), "the taps' own error");
    }

    #[test]
    fn lost_duplicated_unexplained_and_reordered_frames_are_distinguished() {
        let mut m = matcher();
        for id in 0..5 {
            m.take(Tap::Before, key(id), id);
        }
        for id in [0, 2, 1, 1, 4, 77] {
            m.take(Tap::After, key(id), 10 + id);
        }
        let account = m.finish();
        let Account { before, after, matched, lost, duplicated, unexplained, reordered, .. } = account;
        assert_eq!((before, after, matched), (5, 6, 4));
        assert_eq!((lost, duplicated, unexplained, reordered), (1, 1, 1, 1));
    }

    #[test]
    fn overtaken_frames_are_counted_whichever_tap_is_read_first() {
        let (before, after) = (0..9, [0, 3, 1, 2, 4, 8, 7, 5]);
        for after_first in [false, true] {
            let mut m = matcher();
            let mut all: Vec<_> = before.clone().map(|id| (Tap::Before, id)).collect();
            let place = if after_first { 0 } else { all.len() };
            all.splice(place..place, after.map(|id| (Tap::After, id)));
            for (tap, id) in all {
                m.take(tap, key(id), 100 + id);
            }
            let account = m.finish();
            assert_eq!((account.reordered, account.matched, account.lost), (4, 8, 1), "after first: {after_first}");
        }
    }

    #[test]
    fn frames_on_their_way_when_counting_begins_and_ends_are_in_no_count() {
        let mut m = matcher();
        m.count_from(100);
        m.count_until(200);
        // Frame 0 entered before the first tap was open; 1 before counting began; 4 leaves after
        // its end; 5 enters after it.
        for (tap, id, at) in [
            (Tap::After, 0, 90),
            (Tap::Before, 1, 95),
            (Tap::After, 1, 105),
            (Tap::Before, 2, 110),
            (Tap::Before, 3, 120),
            (Tap::After, 3, 130),
            (Tap::Before, 4, 199),
            (Tap::Before, 5, 201),
            (Tap::After, 4, 210),
            (Tap::After, 5, 212),
        ] {
            m.take(tap, key(id), at);
        }
        let Account { before, after, matched, lost, duplicated, unexplained, .. } = m.finish();
        assert_eq!((before, after, matched, lost, duplicated, unexplained), (3, 2, 2, 1, 0, 0));
    }

    #[test]
    fn what_comes_after_the_patience_was_lost_and_memory_is_bounded() {
        let mut m = Matcher::new(Nanos(100 * MS), 10);
        m.take(Tap::Before, key(1), 0);
        assert_eq!(m.take(Tap::After, key(1), 101 * MS), None);
        assert_eq!(m.account().lost, 1);
        for id in 0..1_000 {
            m.take(Tap::Before, key(id), 102 * MS);
        }
        assert!(m.slots.len() <= 10 && m.account().not_kept >= 990);
    }

    proptest! {
        #[test]
        fn every_frame_is_in_exactly_one_count(ids in prop::collection::vec((0u64..30, any::<bool>(), 0u64..50), 0..400)) {
            let keys: Vec<_> = (0..30).map(key).collect();
            let mut m = Matcher::new(Nanos(200), 1_000);
            let mut now = 0;
            for (id, before, step) in ids {
                now += step;
                m.take(if before { Tap::Before } else { Tap::After }, keys[id as usize], now);
            }
            let a = m.finish();
            prop_assert_eq!(a.before, a.matched + a.lost);
            prop_assert_eq!(a.after, a.matched + a.duplicated + a.unexplained);
        }
    }
}
