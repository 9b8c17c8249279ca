//! When frames are due: a rate, and how it is spread.

use clock::Nanos;
use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;

/// How the frames of a rate are spread over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// Evenly.
    Constant,
    /// With gaps that are exponentially distributed: a Poisson process, from a seed.
    Poisson {
        /// The same seed gives the same gaps.
        seed: u64,
    },
    /// So many at a time, as fast as can be, and then a pause.
    Bursts {
        /// Frames of a burst.
        frames: u32,
    },
}

/// A source of frames that fall due.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    /// Mean time between two frames, in nanoseconds; 0 has every frame due at once.
    gap: f64,
    spread: Spread,
    /// When the next frame is due, nanoseconds from the start. Kept as a sum of gaps that stays
    /// exact to a nanosecond over hours.
    next: f64,
    random: Pcg64Mcg,
    due: u64,
}

impl Schedule {
    /// `per_second` frames; `None` for as many as can be.
    pub fn new(per_second: Option<f64>, spread: Spread) -> Self {
        let seed = if let Spread::Poisson { seed } = spread { seed } else { 0 };
        let random = Pcg64Mcg::seed_from_u64(seed);
        Self { gap: per_second.map_or(0.0, |rate| 1e9 / rate), spread, next: 0.0, random, due: 0 }
    }

    /// How many frames are due `elapsed` after the start, in all; never fewer than the last time.
    pub fn due(&mut self, elapsed: Nanos) -> u64 {
        if self.gap == 0.0 {
            return u64::MAX;
        }
        let elapsed = elapsed.0 as f64;
        match self.spread {
            // The frame at time 0 is the first.
            Spread::Constant => self.due = self.due.max((elapsed / self.gap) as u64 + 1),
            Spread::Bursts { frames } => {
                let frames = u64::from(frames.max(1));
                let bursts = (elapsed / (self.gap * frames as f64)) as u64 + 1;
                self.due = self.due.max(bursts * frames);
            }
            Spread::Poisson { .. } => {
                while self.next <= elapsed {
                    self.due += 1;
                    self.next += self.exponential() * self.gap;
                }
            }
        }
        self.due
    }

    /// When the next frame after those that are due now falls due, at the latest.
    pub fn pause(&self, elapsed: Nanos) -> Nanos {
        let next = match self.spread {
            _ if self.gap == 0.0 => return Nanos::ZERO,
            Spread::Poisson { .. } => self.next,
            _ => self.due as f64 * self.gap,
        };
        Nanos(next as u64).saturating_sub(elapsed)
    }

    /// A draw from the exponential distribution of mean 1, by the inverse of its distribution.
    fn exponential(&mut self) -> f64 {
        -(1.0 - self.random.random::<f64>()).ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn a_constant_rate_is_exact_over_an_hour() {
        let mut schedule = Schedule::new(Some(1_000_000.0), Spread::Constant);
        assert_eq!(schedule.due(Nanos(0)), 1);
        assert_eq!(schedule.due(Nanos(999)), 1);
        assert_eq!(schedule.due(Nanos(1_000)), 2);
        assert_eq!(schedule.due(Nanos(3_600 * S)), 3_600_000_001);
        assert_eq!(schedule.due(Nanos(0)), 3_600_000_001, "time that goes back takes nothing away");
    }

    #[test]
    fn bursts_come_whole_and_keep_the_rate() {
        let mut schedule = Schedule::new(Some(1_000.0), Spread::Bursts { frames: 10 });
        assert_eq!([0, 9, 10, 19, 20].map(|ms| schedule.due(Nanos(ms * S / 1_000))), [10, 10, 20, 20, 30]);
        assert_eq!(schedule.pause(Nanos(25 * S / 1_000)), Nanos(5 * S / 1_000));
    }

    #[test]
    fn poisson_gaps_have_the_mean_and_deviation_of_their_kind_and_repeat() {
        let mut schedule = Schedule::new(Some(10_000.0), Spread::Poisson { seed: 7 });
        let counts: Vec<u64> = (1..=1_000).map(|ms| schedule.due(Nanos(ms * S / 1_000))).collect();
        let each: Vec<f64> = counts.windows(2).map(|w| (w[1] - w[0]) as f64).collect();
        let mean = each.iter().sum::<f64>() / each.len() as f64;
        let variance = each.iter().map(|n| (n - mean).powi(2)).sum::<f64>() / each.len() as f64;
        assert!((mean - 10.0).abs() < 0.4 && (variance / mean - 1.0).abs() < 0.15, "{mean} {variance}");
        let mut again = Schedule::new(Some(10_000.0), Spread::Poisson { seed: 7 });
        assert_eq!(again.due(Nanos(S)), counts[999]);
    }
}
