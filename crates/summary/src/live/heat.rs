//! How slow it was over the last minute: the slowest send or request of each few seconds, in a few
//! bytes for each connection.

use std::collections::HashMap;

use record::histogram::{Bounds, LOWEST, Series, SeriesKey, bucket_of, upper_bound_ns};
use record::{Instant, Leg, Monotonic, Nanos};

/// How many stretches there are.
pub const STRETCHES: usize = 20;
/// How long one is.
pub const STRETCH: Nanos = Nanos::from_secs(3);

/// The slowest of each stretch, the latest last: two buckets of a histogram are a step, and zero is
/// nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Strip([u8; STRETCHES]);

impl Strip {
    /// The slowest of each stretch, the oldest first: at most a fifth above what it was. `None`
    /// where nothing ended.
    pub fn times(&self) -> impl Iterator<Item = Option<Nanos>> + '_ {
        self.0.iter().map(|step| (*step > 0).then(|| Nanos(upper_bound_ns(LOWEST + i32::from(*step) * 2 - 1))))
    }

    /// Whether nothing ended in the last minute.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The slower of both in each stretch.
    pub fn merge(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(step, other)| *step = (*step).max(other));
    }

    fn shift(&mut self, by: u64) {
        let by = usize::try_from(by).unwrap_or(STRETCHES).min(STRETCHES);
        self.0.rotate_left(by);
        self.0[STRETCHES - by..].fill(0);
    }

    fn put(&mut self, time: Nanos) {
        let Some(bucket) = bucket_of(time) else { return };
        let step = u8::try_from((bucket - LOWEST) / 2 + 1).unwrap_or(u8::MAX);
        let last = &mut self.0[STRETCHES - 1];
        *last = step.max(*last);
    }
}

/// The strips of all connections.
#[derive(Clone, Debug, Default)]
pub struct Heat {
    /// Which stretch is the latest.
    at: u64,
    strips: HashMap<SeriesKey, Strip>,
}

/// Connections that have a strip.
const MOST: usize = 50_000;

impl Heat {
    /// Goes on to this moment.
    pub fn turn(&mut self, now: Instant<Monotonic>) {
        let at = now.as_nanos() / STRETCH.0;
        let by = at.saturating_sub(self.at);
        if by == 0 {
            return;
        }
        self.at = at;
        self.strips.retain(|_, strip| {
            strip.shift(by);
            !strip.is_empty()
        });
    }

    /// Something on this connection took so long, and ended in the latest stretch or goes on.
    pub fn add(&mut self, key: &SeriesKey, time: Nanos) {
        if let Some(strip) = self.strips.get_mut(key) {
            strip.put(time);
        } else if self.strips.len() < MOST {
            self.strips.entry(key.clone()).or_default().put(time);
        }
    }

    /// Takes what was added to a series in the latest interval.
    pub fn series(&mut self, series: &Series) {
        let slowest = series.legs.get(&Leg::Total).and_then(|times| times.buckets.keys().next_back().copied());
        if let Some(bucket) = slowest {
            self.add(&series.key, Bounds::of(bucket).middle());
        }
    }

    /// Each strip with its key.
    pub fn each(&self) -> impl Iterator<Item = (&SeriesKey, &Strip)> {
        self.strips.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant<Monotonic> {
        Instant::from_nanos(seconds * 1_000_000_000)
    }

    #[test]
    fn the_slowest_of_each_stretch_stays_for_a_minute() {
        let (mut heat, key) = (Heat::default(), SeriesKey::default());
        heat.turn(at(300));
        heat.add(&key, Nanos::from_millis(5));
        heat.add(&key, Nanos::from_millis(90));
        heat.turn(at(302));
        heat.add(&key, Nanos::from_millis(1));
        heat.turn(at(309));
        heat.add(&key, Nanos::from_millis(7));
        let strip = *heat.each().next().unwrap().1;
        let times: Vec<Option<Nanos>> = strip.times().collect();
        let there: Vec<usize> = (0..STRETCHES).filter(|at| times[*at].is_some()).collect();
        assert_eq!(there, [STRETCHES - 4, STRETCHES - 1]);
        let close = |time: Option<Nanos>, ms: u64| {
            let share = time.unwrap().0 as f64 / (ms as f64 * 1e6);
            assert!((1.0..1.2).contains(&share), "{time:?}");
        };
        close(times[STRETCHES - 4], 90);
        close(times[STRETCHES - 1], 7);
        heat.turn(at(359));
        assert_eq!(heat.each().next().unwrap().1.times().flatten().count(), 2);
        heat.turn(at(360));
        assert_eq!(heat.each().next().unwrap().1.times().flatten().count(), 1);
        heat.turn(at(9_000));
        assert_eq!(heat.each().count(), 0);
    }

    #[test]
    fn the_longest_and_the_shortest_have_a_step() {
        for time in [1, 2, 1_000, 3_600_000_000_000] {
            let mut strip = Strip::default();
            strip.put(Nanos(time));
            let shown = strip.times().last().unwrap().unwrap();
            assert!(shown.0 >= time.min(600_000_000_000) && !strip.is_empty(), "{time} {shown:?}");
        }
        let (mut one, mut other) = (Strip::default(), Strip::default());
        one.put(Nanos(50));
        other.put(Nanos(5_000));
        one.merge(&other);
        assert_eq!(one, other);
    }
}
