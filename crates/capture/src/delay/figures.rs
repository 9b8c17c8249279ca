//! What the matched frames say: delay, its change over time, and the gaps before and behind the device.

use stats::{Estimate, LevelChange, level_changes, mean_interval, quantile};

use super::{Account, Match, Tap};
use crate::generate::{GapSums, Gaps};

/// The most matched frames that are kept one by one; later ones are counted in `not_kept`.
const MOST: usize = 16 << 20;

/// Stretches of equally many frames in which changes of level are looked for.
const STRETCHES: usize = 1_000;

/// Matched frames as they come.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    matches: Vec<(u64, i64)>,
    not_kept: u64,
    gaps: [GapSums; 2],
    last: [Option<u64>; 2],
}

/// What a recording says. All times are nanoseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Figures {
    /// What became of the frames.
    pub account: Account,
    /// Delays that the figures are made of.
    pub n: usize,
    /// Matched frames beyond those that are kept.
    pub not_kept: u64,
    /// The mean delay with its interval (95 %); `None` below two delays.
    pub mean: Option<Estimate>,
    /// The standard deviation of the delay.
    pub deviation: Option<f64>,
    /// Least, 1 %, 10 %, 50 %, 90 %, 99 % and most.
    pub quantiles: Option<[f64; 7]>,
    /// Delays below zero: the taps' own error was larger than the delay.
    pub negative: u64,
    /// Gaps between frames at the tap before the device and at the one behind it.
    pub gaps: [Option<Gaps>; 2],
    /// The delay over time: first moment, least, mean and most of each stretch.
    pub series: Vec<Stretch>,
    /// Changes of the delay's level, the place as a moment on the taps' clock.
    pub changes: Vec<Change>,
}

/// Equally many matched frames in a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stretch {
    /// When the first of them was seen before the device.
    pub at_ns: u64,
    /// How many.
    pub n: usize,
    /// The least delay.
    pub min_ns: i64,
    /// The mean delay.
    pub mean_ns: f64,
    /// The largest delay.
    pub max_ns: i64,
}

/// A change of the delay's level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// The matched frame, counted from 0, that begins the first stretch of the new level.
    pub frame: usize,
    /// When it was seen before the device.
    pub at_ns: u64,
    /// The new level minus the old one.
    pub size: Estimate,
}

impl Recording {
    /// Takes the time of a frame at a tap, for the gaps; frames of one tap come in the order of their times.
    pub fn seen(&mut self, tap: Tap, at_ns: u64) {
        let tap = tap as usize;
        if let Some(last) = self.last[tap].replace(at_ns) {
            self.gaps[tap].take(at_ns.saturating_sub(last));
        }
    }

    /// Takes a matched frame.
    pub fn matched(&mut self, found: Match) {
        match self.matches.len() < MOST {
            true => self.matches.push((found.before_ns, found.delay_ns)),
            false => self.not_kept += 1,
        }
    }

    /// How many matched frames there are.
    pub fn n(&self) -> usize {
        self.matches.len()
    }

    /// The mean delay, as a calibration takes it: with its interval. `None` below two delays.
    pub fn mean(&self) -> Option<Estimate> {
        // Neighbouring delays are not independent: the interval is of the means of stretches.
        let stretches = self.stretches();
        let means: Vec<f64> = stretches.iter().map(|s| s.mean_ns).collect();
        let whole = self.matches.iter().map(|m| m.1 as f64).sum::<f64>() / self.matches.len().max(1) as f64;
        let interval = mean_interval(&means, 0.95, 1)?;
        let shift = whole - interval.value;
        Some(Estimate { value: whole, low: interval.low + shift, high: interval.high + shift, ..interval })
    }

    fn stretches(&self) -> Vec<Stretch> {
        let each = self.matches.len().div_ceil(STRETCHES).max(1);
        let of = |frames: &[(u64, i64)]| {
            let delays = || frames.iter().map(|m| m.1);
            Some(Stretch {
                at_ns: frames.first()?.0,
                n: frames.len(),
                min_ns: delays().min()?,
                mean_ns: delays().map(|d| d as f64).sum::<f64>() / frames.len() as f64,
                max_ns: delays().max()?,
            })
        };
        self.matches.chunks(each).filter_map(of).collect()
    }

    /// The figures, each delay made smaller by `offset_ns`: the taps' own, from a calibration.
    pub fn figures(&self, account: Account, offset_ns: f64) -> Figures {
        let offset = offset_ns.round() as i64;
        let mut series = self.stretches();
        for stretch in &mut series {
            stretch.min_ns -= offset;
            stretch.max_ns -= offset;
            stretch.mean_ns -= offset_ns;
        }
        let delays: Vec<f64> = self.matches.iter().map(|m| m.1 as f64 - offset_ns).collect();
        let quantiles = [0.0, 0.01, 0.1, 0.5, 0.9, 0.99, 1.0].map(|share| quantile(&delays, share));
        let levels: Vec<f64> = series.iter().map(|s| s.mean_ns).collect();
        let each = self.matches.len().div_ceil(STRETCHES).max(1);
        let of = |change: LevelChange| {
            let frame = change.at * each;
            Some(Change { frame, at_ns: self.matches.get(frame)?.0, size: change.size })
        };
        Figures {
            account,
            n: delays.len(),
            not_kept: self.not_kept,
            mean: self.mean().map(|e| e.map(|ns| ns - offset_ns)),
            deviation: stats::deviation(&delays),
            quantiles: quantiles.into_iter().collect::<Option<Vec<_>>>().and_then(|q| q.try_into().ok()),
            negative: delays.iter().filter(|d| **d < 0.0).count() as u64,
            gaps: self.gaps.map(|gaps| gaps.gaps()),
            changes: level_changes(&levels, 0.95).into_iter().filter_map(of).collect(),
            series,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recording(delay_of: impl Fn(u64) -> i64, frames: u64) -> Recording {
        let mut recording = Recording::default();
        for i in 0..frames {
            let before_ns = 1_000_000_000 + i * 1_000;
            recording.seen(Tap::Before, before_ns);
            recording.seen(Tap::After, before_ns + 5_000);
            recording.matched(Match { number: i, before_ns, delay_ns: delay_of(i), reordered: false });
        }
        recording
    }

    #[test]
    fn a_step_in_the_delay_is_found_with_its_size_and_place() {
        // A saw tooth of ±20 ns about 1 µs, and 50 µs more in the middle half.
        let delay = |i: u64| 1_000 + (i % 41) as i64 - 20 + if (25_000..75_000).contains(&i) { 50_000 } else { 0 };
        let figures = recording(delay, 100_000).figures(Account::default(), 0.0);
        assert_eq!(figures.changes.iter().map(|c| c.frame).collect::<Vec<_>>(), [25_000, 75_000]);
        assert!((figures.changes[0].size.value - 50_000.0).abs() < 5.0 && figures.changes[0].size.low > 49_990.0);
        assert_eq!(figures.changes[0].at_ns, 1_000_000_000 + 25_000_000);
        assert_eq!((figures.n, figures.negative, figures.series.len()), (100_000, 0, 1_000));
    }

    #[test]
    fn an_offset_of_the_taps_is_taken_from_every_figure() {
        let recording = recording(|i| 700 + (i % 3) as i64, 9_000);
        let offset = recording.mean().unwrap().value;
        let figures = recording.figures(Account::default(), offset);
        assert!(figures.mean.unwrap().value.abs() < 1e-6);
        assert_eq!(figures.quantiles.unwrap()[3], 0.0);
        assert_eq!(figures.negative, 3_000);
        let gaps = figures.gaps[0].unwrap();
        assert_eq!((gaps.n, gaps.mean_ns, gaps.deviation_ns), (8_999, 1_000.0, 0.0));
    }

    #[test]
    fn no_frame_is_no_figure() {
        let figures = Recording::default().figures(Account::default(), 0.0);
        assert_eq!((figures.n, figures.mean, figures.quantiles, figures.changes.len()), (0, None, None, 0));
    }
}
