//! Matching the frames of two taps, in bounded memory.

use std::collections::{HashMap, VecDeque};

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
    /// Whether a frame that entered the device later left it earlier (RFC 4737 section 3.3).
    pub reordered: bool,
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
    /// Frames that the second tap saw and the first did not: the first tap missed them, or the device made them.
    pub unexplained: u64,
    /// Matched frames that were overtaken by a later one.
    pub reordered: u64,
    /// Frames without a key: not recognised.
    pub unrecognised: u64,
    /// Frames that could not be kept until their other half came, because too many were waiting.
    pub not_kept: u64,
}

/// Frames of one key that wait for their other half, or have had it.
#[derive(Clone, Debug, Default)]
struct Waiting {
    before: VecDeque<(u64, u64)>,
    after: VecDeque<u64>,
    /// When the last pair of this key was matched: a further copy behind the device is a duplicate.
    matched: Option<u64>,
}

/// Joins the frames of two taps.
#[derive(Clone, Debug)]
pub struct Matcher {
    waiting: HashMap<Key, Waiting>,
    /// Keys in the order of their frames, with their time: what is at the front has waited longest.
    order: VecDeque<(u64, Key)>,
    patience: Nanos,
    most: usize,
    account: Account,
    /// The latest frame of the first tap that has left the device.
    latest: Option<u64>,
}

impl Matcher {
    /// A frame waits `patience` for its other half; at most `most` frames wait.
    pub fn new(patience: Nanos, most: usize) -> Self {
        Self {
            waiting: HashMap::new(),
            order: VecDeque::new(),
            patience,
            most: most.max(1),
            account: Account::default(),
            latest: None,
        }
    }

    /// Takes a frame of a tap; gives the match that it completes. Frames of one tap come in the order of their times; the two
    /// taps may run apart by up to the patience.
    pub fn take(&mut self, tap: Tap, key: Option<Key>, at_ns: u64) -> Option<Match> {
        let number = self.account.before;
        match tap {
            Tap::Before => self.account.before += 1,
            Tap::After => self.account.after += 1,
        }
        let Some(key) = key else {
            self.account.unrecognised += 1;
            return None;
        };
        self.forget(at_ns);
        if self.order.len() >= self.most && !self.waiting.contains_key(&key) {
            self.account.not_kept += 1;
            return None;
        }
        self.order.push_back((at_ns, key));
        let waiting = self.waiting.entry(key).or_default();
        let pair = match tap {
            Tap::Before => match waiting.after.pop_front() {
                Some(after) => Some((number, at_ns, after)),
                None => {
                    waiting.before.push_back((number, at_ns));
                    None
                }
            },
            Tap::After => match waiting.before.pop_front() {
                Some((number, before)) => Some((number, before, at_ns)),
                None => {
                    waiting.after.push_back(at_ns);
                    None
                }
            },
        };
        let (number, before_ns, after_ns) = pair?;
        waiting.matched = Some(at_ns);
        self.account.matched += 1;
        let reordered = self.latest.is_some_and(|latest| number < latest);
        self.latest = self.latest.max(Some(number));
        self.account.reordered += u64::from(reordered);
        let delay_ns = (i128::from(after_ns) - i128::from(before_ns)).clamp(i64::MIN.into(), i64::MAX.into()) as i64;
        Some(Match { number, before_ns, delay_ns, reordered })
    }

    /// Gives up frames that have waited longer than the patience.
    fn forget(&mut self, now_ns: u64) {
        while let Some(&(at, key)) = self.order.front()
            && now_ns.saturating_sub(at) > self.patience.0
        {
            self.order.pop_front();
            self.drop_key(key, now_ns);
        }
    }

    /// Counts what of a key has waited long enough, and frees it where nothing is left.
    fn drop_key(&mut self, key: Key, now_ns: u64) {
        let Some(waiting) = self.waiting.get_mut(&key) else { return };
        let old = |at: u64| now_ns.saturating_sub(at) > self.patience.0;
        while waiting.before.front().is_some_and(|&(_, at)| old(at)) {
            waiting.before.pop_front();
            self.account.lost += 1;
        }
        while waiting.after.front().is_some_and(|&at| old(at)) {
            waiting.after.pop_front();
            match waiting.matched {
                Some(_) => self.account.duplicated += 1,
                None => self.account.unexplained += 1,
            }
        }
        if waiting.before.is_empty() && waiting.after.is_empty() && waiting.matched.is_none_or(old) {
            self.waiting.remove(&key);
        }
    }

    /// What became of the frames up to now; those that still wait are in no count but `before` and `after`.
    pub const fn account(&self) -> Account {
        self.account
    }

    /// Gives up all that still wait: nothing more comes.
    pub fn finish(mut self) -> Account {
        for waiting in self.waiting.values() {
            self.account.lost += waiting.before.len() as u64;
            let rest = waiting.after.len() as u64;
            match waiting.matched {
                Some(_) => self.account.duplicated += rest,
                None => self.account.unexplained += rest,
            }
        }
        self.account
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delay::Identity;
    use crate::generate::{Mark, Shape, Template};
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;

    fn key(id: u64) -> Option<Key> {
        let template = Template::new(&Shape {
            bytes: 60,
            hardware: [[0; 6]; 2],
            vlan: None,
            source: "10.0.0.1:1".parse().unwrap(),
            destination: "10.0.0.2:2".parse().unwrap(),
            flows: 1,
        })
        .unwrap();
        let mut frame = template.bytes().to_vec();
        template.write(&mut frame, Mark { id, sent_ns: 0 });
        Identity::Id.key(&frame)
    }

    fn matcher() -> Matcher {
        Matcher::new(Nanos(100 * MS), 1_000_000)
    }

    #[test]
    fn frames_match_whichever_tap_is_read_first() {
        let mut m = matcher();
        assert_eq!(m.take(Tap::Before, key(1), 10), None);
        let found = m.take(Tap::After, key(1), 25).unwrap();
        assert_eq!((found.number, found.delay_ns, found.reordered), (0, 15, false));
        assert_eq!(m.take(Tap::After, key(2), 40), None);
        assert_eq!(m.take(Tap::Before, key(2), 30).map(|f| f.delay_ns), Some(10));
        assert_eq!(m.take(Tap::Before, key(3), 50), None);
        assert_eq!(m.take(Tap::After, key(3), 45).map(|f| f.delay_ns), Some(-5), "the taps' own error");
    }

    #[test]
    fn lost_duplicated_unexplained_and_overtaken_frames_are_told_apart() {
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
    fn what_comes_after_the_patience_was_lost_and_memory_is_bounded() {
        let mut m = Matcher::new(Nanos(100 * MS), 10);
        m.take(Tap::Before, key(1), 0);
        assert_eq!(m.take(Tap::After, key(1), 101 * MS), None);
        assert_eq!(m.account().lost, 1);
        for id in 0..1_000 {
            m.take(Tap::Before, key(id), 102 * MS);
        }
        assert!(m.waiting.len() <= 10 && m.account().not_kept >= 990);
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
