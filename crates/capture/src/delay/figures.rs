//! What the matched frames say: delay, its change over time, and the gaps before and behind the
//! device.

use clock::Nanos;
use stats::{Estimate, LevelChange, level_changes_that_stand_out, quantile};

use super::drift::{Drift, lower_edge};
use super::series::{CONFIDENCE, Change, STANDS_OUT, Stretch, levels, mean_about};
use super::{Account, Match, Tap};
use crate::generate::{GapSums, Gaps};

/// The most matched frames that are kept one by one; later ones are counted in `not_kept`.
const MOST: usize = 16 << 20;

/// Stretches of equally many frames in which changes of level are looked for.
const STRETCHES: usize = 1_000;

/// Frames of a stretch where there are enough for [`FEWEST`] of them: the median of fewer jumps
/// between the levels of a busy machine.
const LONG_ENOUGH: usize = 50;
/// See [`LONG_ENOUGH`].
const FEWEST: usize = 40;

/// Bins of the histogram between its tails.
const BINS: usize = 40;

/// The shares of [`Figures::quantiles`].
pub const QUANTILES: [f64; 8] = [0.0, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999, 1.0];

/// Matched frames as they come.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    matches: Vec<(u64, i64)>,
    not_kept: u64,
    gaps: [GapSums; 2],
    first: [Option<u64>; 2],
    last: [Option<u64>; 2],
}

/// The taps' own offset, from a calibration.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Offset {
    /// What is taken from each delay, nanoseconds.
    pub ns: f64,
    /// The bound on its error, to either side, nanoseconds.
    pub error_ns: f64,
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
    /// The delays at [`QUANTILES`]: least, 1 %, 10 %, 50 %, 90 %, 99 %, 99.9 % and most.
    pub quantiles: Option<[f64; QUANTILES.len()]>,
    /// Delays below zero: the taps' own error was larger than the delay.
    pub negative: u64,
    /// How the delays are spread, rising; the first and the last bin hold the tails.
    pub histogram: Vec<Bin>,
    /// Gaps between frames at the tap before the device and at the one behind it.
    pub gaps: [Option<Gaps>; 2],
    /// The delay over time.
    pub series: Vec<Stretch>,
    /// Changes of the delay's level, the place as a moment on the taps' clock.
    pub changes: Vec<Change>,
    /// The least change of level that would have been reported; `None` with too few stretches.
    pub least_change: Option<f64>,
}

/// Delays from `from_ns` up to, not including, `to_ns`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bin {
    /// Its lower end.
    pub from_ns: f64,
    /// Its upper end.
    pub to_ns: f64,
    /// Frames in it.
    pub frames: u64,
}

impl Recording {
    /// Takes the time of a frame at a tap, for the gaps; frames of one tap come in the order of
    /// their times.
    pub fn seen(&mut self, tap: Tap, at_ns: u64) {
        let tap = tap as usize;
        self.first[tap].get_or_insert(at_ns);
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

    /// From the first frame at either tap to the last.
    pub fn lasted(&self) -> Nanos {
        let first = self.first.iter().flatten().min();
        let last = self.last.iter().flatten().max();
        Nanos(first.zip(last).map_or(0, |(first, last)| last.saturating_sub(*first)))
    }

    /// The share of the delays that are below zero; `None` where there is no delay.
    pub fn share_below_zero(&self) -> Option<f64> {
        let below = self.matches.iter().filter(|m| m.1 < 0).count();
        (!self.matches.is_empty()).then(|| below as f64 / self.matches.len() as f64)
    }

    /// The slots that the taps' stamps are counted in, up to a microsecond: a reading is off by
    /// less than one. `None` where all delays and all times are the same.
    pub fn slot(&self) -> Option<Nanos> {
        const COARSEST: u64 = 1_000;
        let &(first, delay) = self.matches.first()?;
        let differences = self.matches.iter().flat_map(|m| [m.0.abs_diff(first), m.1.abs_diff(delay)]);
        let slot = differences.fold(0, common);
        (slot > 0).then_some(Nanos(slot.min(COARSEST)))
    }

    /// How many matched frames there are.
    pub fn n(&self) -> usize {
        self.matches.len()
    }

    /// How many matched frames had been seen before the device when it was this time.
    pub fn seen_before(&self, at_ns: u64) -> usize {
        self.matches.iter().filter(|m| m.0 < at_ns).count()
    }

    /// The mean delay, as a calibration takes it: with its interval. `None` below two delays.
    pub fn mean(&self) -> Option<Estimate> {
        self.mean_of(&self.stretches(), &[])
    }

    fn mean_of(&self, stretches: &[Stretch], changes: &[Change]) -> Option<Estimate> {
        let whole = self.matches.iter().map(|m| m.1 as f64).sum::<f64>() / self.matches.len().max(1) as f64;
        mean_about(stretches, changes, whole)
    }

    /// Frames of a stretch.
    fn stretch(&self) -> usize {
        let n = self.matches.len();
        n.div_ceil(STRETCHES).max(LONG_ENOUGH.min(n / FEWEST)).max(1)
    }

    fn stretches(&self) -> Vec<Stretch> {
        let of = |frames: &[(u64, i64)]| {
            let delays: Vec<f64> = frames.iter().map(|m| m.1 as f64).collect();
            Some(Stretch {
                at_ns: frames.first()?.0,
                n: frames.len(),
                min_ns: frames.iter().map(|m| m.1).min()?,
                median_ns: stats::median(&delays)?,
                mean_ns: stats::mean(&delays)?,
                max_ns: frames.iter().map(|m| m.1).max()?,
            })
        };
        self.matches.chunks(self.stretch()).filter_map(of).collect()
    }

    /// How the lower edge of the delays rises or falls over time: what two clocks that run apart
    /// look like. `None` where there is too little to see that.
    pub fn drift(&self) -> Option<Drift> {
        lower_edge(&self.stretches())
    }

    /// Takes away what the delays rise by, and the least of what is left: those are delays above
    /// the least one.
    pub fn remove(&mut self, drift: &Drift) {
        for (at, delay) in &mut self.matches {
            *delay = delay.saturating_sub(drift.at(*at).round() as i64);
        }
        let least = self.matches.iter().map(|m| m.1).min().unwrap_or(0);
        self.matches.iter_mut().for_each(|m| m.1 = m.1.saturating_sub(least));
    }

    /// The figures, each delay made smaller by the taps' own offset.
    pub fn figures(&self, account: Account, offset: Offset) -> Figures {
        let whole = offset.ns.round() as i64;
        let mut series = self.stretches();
        let changes = self.changes(&series);
        let mean = self.mean_of(&series, &changes).map(|e| e.map(|ns| ns - offset.ns));
        for stretch in &mut series {
            stretch.min_ns -= whole;
            stretch.max_ns -= whole;
            stretch.mean_ns -= offset.ns;
            stretch.median_ns -= offset.ns;
        }
        let mut delays: Vec<f64> = self.matches.iter().map(|m| m.1 as f64 - offset.ns).collect();
        delays.sort_unstable_by(f64::total_cmp);
        let quantiles = QUANTILES.map(|share| quantile(&delays, share));
        Figures {
            least_change: least_change(&series, &changes),
            account,
            n: delays.len(),
            not_kept: self.not_kept,
            mean,
            deviation: stats::deviation(&delays),
            quantiles: quantiles.into_iter().collect::<Option<Vec<_>>>().and_then(|q| q.try_into().ok()),
            negative: delays.partition_point(|d| *d < 0.0) as u64,
            histogram: histogram(&delays),
            gaps: self.gaps.map(|gaps| gaps.gaps()),
            changes,
            series,
        }
    }

    /// Changes of level, from the stretches' medians: what interrupts a machine moves the mean of a
    /// stretch, not its median.
    fn changes(&self, series: &[Stretch]) -> Vec<Change> {
        let levels: Vec<f64> = series.iter().map(|s| s.median_ns).collect();
        let found = level_changes_that_stand_out(&levels, CONFIDENCE, STANDS_OUT);
        let of = |change: LevelChange| {
            let frame = self.place(change.at, change.size.value);
            Some(Change { frame, at_ns: self.matches.get(frame)?.0, size: change.size })
        };
        found.into_iter().filter_map(of).collect()
    }

    /// The first frame of the new level, looked for in the stretches on both sides of where the
    /// change is: the place that has most frames on the right side of the middle between the
    /// levels.
    fn place(&self, stretch: usize, size: f64) -> usize {
        let each = self.stretch();
        let from = stretch.saturating_sub(1) * each;
        let to = ((stretch + 1) * each).min(self.matches.len());
        let around = self.matches.get(from..to).unwrap_or_default();
        let median = |frames: &[(u64, i64)]| stats::median(&frames.iter().map(|m| m.1 as f64).collect::<Vec<_>>());
        let Some(old) = median(&around[..each.min(around.len())]) else { return stretch * each };
        let new_level = |delay: i64| (delay as f64 - old - size / 2.0) * size > 0.0;
        let (mut score, mut best, mut place) = (0i64, 0i64, 0);
        for (i, (_, delay)) in around.iter().enumerate() {
            score += if new_level(*delay) { -1 } else { 1 };
            if score > best {
                (best, place) = (score, i + 1);
            }
        }
        from + place
    }
}

/// The greatest number that divides both.
const fn common(mut one: u64, mut other: u64) -> u64 {
    while other > 0 {
        (one, other) = (other, one % other);
    }
    one
}

impl Figures {
    /// Has what is said of changes allow for clocks that are off by so much during the run: each
    /// change is less certain by it, and one that is no larger can be the clocks'.
    pub fn allow_for(&mut self, error: Nanos) {
        let error = error.0 as f64;
        self.changes.retain(|change| change.size.value.abs() > error);
        for change in &mut self.changes {
            change.size.low -= error;
            change.size.high += error;
        }
        self.least_change = self.least_change.map(|least| least.max(error));
    }
}

/// What a change would have to be: [`STANDS_OUT`] times the deviation of the medians about their
/// levels.
fn least_change(series: &[Stretch], changes: &[Change]) -> Option<f64> {
    let medians: Vec<f64> = series.iter().map(|s| s.median_ns).collect();
    let levels = levels(&medians, series, changes);
    (series.len() > 2 * (levels.len() + 1)).then(|| STANDS_OUT * stats::scatter(levels))
}

/// Equally wide bins over the middle 99.8 % of the sorted `delays`, and one for each tail.
fn histogram(delays: &[f64]) -> Vec<Bin> {
    let (Some(&first), Some(&last)) = (delays.first(), delays.last()) else { return Vec::new() };
    let at = |share: f64| delays[((delays.len() - 1) as f64 * share) as usize];
    let (low, high) = (at(0.001).floor(), (at(0.999) + 1.0).ceil());
    let width = (high - low) / BINS as f64;
    let edges = (0..=BINS).map(|i| low + width * i as f64);
    let mut edges: Vec<f64> = std::iter::once(first.min(low)).chain(edges).chain([(last + 1.0).max(high)]).collect();
    edges.dedup();
    let below = |edge: f64| delays.partition_point(|d| *d < edge);
    let of = |pair: &[f64]| Bin { from_ns: pair[0], to_ns: pair[1], frames: (below(pair[1]) - below(pair[0])) as u64 };
    edges.windows(2).map(of).collect()
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
            recording.matched(Match { number: i, before_ns, delay_ns: delay_of(i) });
        }
        recording
    }

    #[test]
    fn a_step_in_the_delay_is_found_with_its_size_and_place() {
        // A saw tooth of ±20 ns about 1 µs, and 50 µs more in the middle half.
        let delay = |i: u64| 1_000 + (i % 41) as i64 - 20 + if (25_000..75_000).contains(&i) { 50_000 } else { 0 };
        let figures = recording(delay, 100_000).figures(Account::default(), Offset::default());
        assert_eq!(figures.changes.iter().map(|c| c.frame).collect::<Vec<_>>(), [25_000, 75_000]);
        assert!((figures.changes[0].size.value - 50_000.0).abs() < 5.0 && figures.changes[0].size.low > 49_990.0);
        assert_eq!(figures.changes[0].at_ns, 1_000_000_000 + 25_000_000);
        assert_eq!((figures.n, figures.negative, figures.series.len()), (100_000, 0, 1_000));
    }

    #[test]
    fn the_place_of_a_step_is_the_frame_and_interruptions_are_no_steps() {
        // One frame in 50 waits for up to a millisecond, which moves the means of stretches and not
        // their medians.
        let wait = |i: u64| if i % 50 == 7 { (i * i % 1_000_003) as i64 } else { 0 };
        let delay = |i: u64| 1_000 + (i % 41) as i64 + wait(i) + if i >= 54_321 { 5_000 } else { 0 };
        let figures = recording(delay, 100_000).figures(Account::default(), Offset::default());
        assert_eq!(figures.changes.iter().map(|c| c.frame).collect::<Vec<_>>(), [54_321]);
        assert!((figures.changes[0].size.value - 5_000.0).abs() < 10.0, "{:?}", figures.changes);
    }

    #[test]
    fn a_machine_that_wanders_has_a_wide_interval_and_a_step_no_wider_mean() {
        // The level moves by up to 3 µs, with a period of a sixteenth of the run, which is not that
        // of the step.
        let wander = |i: u64| (3_000.0 * (i as f64 / 1_000.0).sin()) as i64;
        let delay = |i: u64| 100_000 + wander(i) + (i % 41) as i64 + if i >= 50_000 { 50_000 } else { 0 };
        let figures = recording(delay, 100_000).figures(Account::default(), Offset::default());
        let [change] = figures.changes[..] else { panic!("{:?}", figures.changes) };
        assert!(change.size.covers(50_000.0) && (200.0..4_000.0).contains(&change.size.half_width()), "{change:?}");
        let mean = figures.mean.unwrap();
        assert!(mean.covers(125_020.0) && mean.half_width() < 2_000.0, "{mean:?}");
    }

    #[test]
    fn every_delay_is_in_one_bin() {
        for frames in [1, 2, 3, 5_000] {
            let figures =
                recording(|i| (i * i % 977) as i64 - 30, frames).figures(Account::default(), Offset::default());
            assert_eq!(figures.histogram.iter().map(|b| b.frames).sum::<u64>(), frames);
            assert!(figures.histogram.windows(2).all(|w| w[0].to_ns == w[1].from_ns && w[0].from_ns < w[0].to_ns));
        }
    }

    #[test]
    fn clocks_that_drift_apart_are_a_straight_edge_which_can_be_removed() {
        // 20 ppm over 100 ms are 2 µs, with waits above the edge.
        let delay = |i: u64| 1_000 + (i / 50) as i64 + (i * i % 301) as i64;
        let mut drifting = recording(delay, 100_000);
        let drift = drifting.drift().unwrap();
        assert!(drift.is_straight && (drift.ppb - 20_000.0).abs() < 200.0, "{drift:?}");
        drifting.remove(&drift);
        let left = drifting.figures(Account::default(), Offset::default());
        assert!(left.quantiles.unwrap()[0] >= -2.0 && left.quantiles.unwrap()[7] < 320.0, "{left:?}");
        let step = |i: u64| if i > 50_000 { 2_000 } else { 0 };
        let stepping = recording(|i| 1_000 + (i % 7) as i64 + step(i), 100_000);
        assert!(stepping.drift().is_none_or(|d| !d.is_straight));
        for sign in [1, -1] {
            let both = recording(|i| delay(i) + 2_000 + sign * step(i), 100_000).drift().unwrap();
            assert!(both.is_straight && (both.ppb - 20_000.0).abs() <= both.error_ppb, "{both:?}");
            assert!(both.error_ppb < 2_000.0, "{both:?}");
        }
    }

    #[test]
    fn the_slots_of_stamps_are_found() {
        let of = |slot: i64| recording(move |i| 1_000 + (i * i % 17) as i64 * slot, 500).slot();
        assert_eq!((of(8), of(1), of(0)), (Some(Nanos(8)), Some(Nanos(1)), Some(Nanos(1_000))));
        assert_eq!(Recording::default().slot(), None);
    }

    #[test]
    fn an_offset_of_the_taps_is_taken_from_every_figure() {
        let recording = recording(|i| 700 + (i % 3) as i64, 9_000);
        let offset = recording.mean().unwrap().value;
        let figures = recording.figures(Account::default(), Offset { ns: offset, error_ns: 0.0 });
        assert!(figures.mean.unwrap().value.abs() < 1e-6);
        assert_eq!(figures.quantiles.unwrap()[3], 0.0);
        assert_eq!(figures.negative, 3_000);
        let gaps = figures.gaps[0].unwrap();
        assert_eq!((gaps.n, gaps.mean_ns, gaps.deviation_ns), (8_999, 1_000.0, 0.0));
    }

    #[test]
    fn no_frame_is_no_figure() {
        let figures = Recording::default().figures(Account::default(), Offset::default());
        assert_eq!((figures.n, figures.mean, figures.quantiles, figures.changes.len()), (0, None, None, 0));
    }
}
