//! Requests of the last seconds, by what their series would be known by.

use std::collections::VecDeque;

use record::histogram::{Histogram, SeriesKey};
use record::{Component, Instant, Monotonic, Nanos, Request};

/// Requests that are kept.
const MOST: usize = 20_000;

/// The requests of a row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestGroup {
    /// How long they took, from their beginning to their answer.
    pub times: Histogram,
    /// How long each component took of all of them, in the order of [`Component::ALL`].
    pub components: [Nanos; Component::ALL.len()],
}

impl RequestGroup {
    /// A quantile of how long they took: the middle of its bucket.
    pub fn quantile(&self, share: f64) -> Option<Nanos> {
        Some(self.times.quantile(share)?.middle())
    }

    /// The component that took most of the time, and its share.
    pub fn chief(&self) -> Option<(Component, f64)> {
        let all: u64 = self.components.iter().map(|time| time.0).sum();
        let (component, time) = Component::ALL.into_iter().zip(self.components).max_by_key(|(_, time)| *time)?;
        (all > 0).then(|| (component, time.0 as f64 / all as f64))
    }

    pub(super) fn add(&mut self, asked: &Asked) {
        self.times.add(asked.whole);
        self.components.iter_mut().zip(asked.components).for_each(|(all, one)| *all += one);
    }
}

/// A request that has ended.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    ended: Instant<Monotonic>,
    key: SeriesKey,
    whole: Nanos,
    components: [Nanos; Component::ALL.len()],
}

/// One of the slowest requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlowRequest {
    /// When it ended.
    pub ended: Instant<Monotonic>,
    /// How long it took, from its beginning to its answer.
    pub whole: Nanos,
    /// The component that took most of that, and how long that took; `None` where it is not known.
    pub chief: Option<(Component, Nanos)>,
}

impl Asked {
    fn shown(&self) -> SlowRequest {
        let chief = Component::ALL.into_iter().zip(self.components).max_by_key(|(_, time)| *time);
        SlowRequest { ended: self.ended, whole: self.whole, chief: chief.filter(|(_, time)| *time > Nanos::ZERO) }
    }
}

/// The requests that ended in the last seconds.
#[derive(Clone, Debug, Default)]
pub struct RequestHistory {
    asked: VecDeque<Asked>,
}

impl RequestHistory {
    /// Adds a request on a connection of this key, where its beginning and end are known.
    pub fn add(&mut self, key: SeriesKey, request: &Request) {
        let (Some(ended), Some(whole)) = (request.ended(), request.whole()) else { return };
        let of = |component| request.components.as_ref().and_then(|all| all.get(component)).unwrap_or_default();
        if self.asked.len() == MOST {
            self.asked.pop_front();
        }
        self.asked.push_back(Asked { ended, key, whole, components: Component::ALL.map(of) });
    }

    /// Forgets those that ended before.
    pub fn forget_before(&mut self, start: Instant<Monotonic>) {
        while self.asked.front().is_some_and(|asked| asked.ended < start) {
            self.asked.pop_front();
        }
    }

    /// Each with its key.
    pub(super) fn each(&self) -> impl Iterator<Item = (&SeriesKey, &Asked)> {
        self.asked.iter().map(|asked| (&asked.key, asked))
    }

    /// The slowest of those that are taken, the slowest first, at most so many.
    pub fn slowest(&self, most: usize, taken: impl Fn(&SeriesKey) -> bool) -> Vec<SlowRequest> {
        let mut slow: Vec<&Asked> = self.asked.iter().filter(|asked| taken(&asked.key)).collect();
        slow.sort_by_key(|asked| std::cmp::Reverse(asked.whole));
        slow.into_iter().take(most).map(Asked::shown).collect()
    }
}
