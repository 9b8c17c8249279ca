//! Two taps, read apart, joined in the order of time.

use std::collections::VecDeque;

use clock::Nanos;

use super::{Account, Key, Matcher, Recording, Tap};

/// How long a frame waits for its other half.
pub const PATIENCE: Nanos = Nanos(1_000_000_000);

/// Frames that wait for their other half at most.
const MOST: usize = 8 << 20;

/// Frames that wait for the other tap to be read as far, at most.
const AHEAD: usize = 4 << 20;

/// What one tap saw: when, and which frame; `None` where it is not recognised.
pub type Seen = (u64, Option<Key>);

/// Takes what two taps saw, and joins it.
#[derive(Clone, Debug)]
pub struct Join {
    matcher: Matcher,
    recording: Recording,
    waiting: [VecDeque<Seen>; 2],
    /// Up to when each tap is read: nothing earlier comes from it.
    read: [u64; 2],
}

impl Default for Join {
    fn default() -> Self {
        Self {
            matcher: Matcher::new(PATIENCE, MOST),
            recording: Recording::default(),
            waiting: Default::default(),
            read: [0; 2],
        }
    }
}

impl Join {
    /// Takes frames of a tap in the order in which it saw them. Nothing earlier than `read_ns`
    /// comes from it any more.
    pub fn take(&mut self, tap: Tap, frames: impl IntoIterator<Item = Seen>, read_ns: u64) {
        let waiting = &mut self.waiting[tap as usize];
        waiting.extend(frames);
        let last = waiting.back().map_or(0, |last| last.0);
        self.read[tap as usize] = self.read[tap as usize].max(read_ns).max(last);
        self.advance(self.read[0].min(self.read[1]));
    }

    /// Joins what both taps have been read up to.
    fn advance(&mut self, until: u64) {
        loop {
            let front = |tap: usize| self.waiting[tap].front().map(|seen| seen.0);
            let tap = match (front(0), front(1)) {
                // A frame enters the device before it leaves.
                (Some(before), Some(after)) if before <= after => Tap::Before,
                (Some(_), None) => Tap::Before,
                (_, Some(_)) => Tap::After,
                (None, None) => return,
            };
            let full = self.waiting[tap as usize].len() > AHEAD;
            let Some((at, key)) = self.waiting[tap as usize].pop_front_if(|seen| seen.0 <= until || full) else {
                return;
            };
            self.recording.seen(tap, at);
            if let Some(found) = self.matcher.take(tap, key, at) {
                self.recording.matched(found);
            }
        }
    }

    /// Up to which moment each tap has been read.
    pub const fn read_up_to(&self) -> [u64; 2] {
        self.read
    }

    /// Frames before this moment of the first tap are not counted.
    pub fn count_from(&mut self, at_ns: u64) {
        self.matcher.count_from(at_ns);
    }

    /// Frames that the first tap sees from now on are not counted.
    pub fn count_until_now(&mut self) {
        self.matcher.count_until(self.read[0].max(self.read[1]));
    }

    /// What became of the frames so far.
    pub const fn account(&self) -> Account {
        self.matcher.account()
    }

    /// Whether every frame that was taken has met its other half.
    pub fn is_settled(&self) -> bool {
        self.waiting.iter().all(VecDeque::is_empty) && self.matcher.is_settled()
    }

    /// Nothing more comes.
    pub fn finish(mut self) -> (Account, Recording) {
        self.advance(u64::MAX);
        (self.matcher.finish(), self.recording)
    }
}
