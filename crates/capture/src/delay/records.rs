//! What `wirelapse delay` writes for programs, as field tables.

use clock::Nanos;
use record::{columns, words};

use super::{Bin, Change, Clocks, Figures, Offset, Stretch};
use crate::generate::Gaps;

/// The delay of a device as one record.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Delay {
    /// The tap before the device: an interface or a file.
    pub before: String,
    /// The tap behind it.
    pub after: String,
    /// How frames were received, or what the file says of it; empty where nothing is known.
    pub method: String,
    /// How frames were recognised: `id`, `content`, `nat`.
    pub matched_by: String,
    /// How long frames were counted.
    pub lasted: Nanos,
    /// Frames that the receivers of the two taps dropped.
    pub dropped: [u64; 2],
    /// Frames without a timestamp at the two taps.
    pub unstamped: [u64; 2],
    /// Frames at the two taps that count as their parts.
    pub in_parts: [u64; 2],
    /// The figures.
    pub figures: Option<Box<Figures>>,
    /// The taps' own offset that was subtracted; `None` without a calibration.
    pub offset: Option<Offset>,
    /// The clocks.
    pub clocks: ClockWord,
    /// How much faster the second clock ran, parts in 10⁹.
    pub drift_ppb: Option<f64>,
    /// The bound on that, to either side.
    pub drift_error_ppb: Option<f64>,
    /// The bound on the error of comparing two stamps.
    pub clock_error: Nanos,
    /// The share of the run, 0 to 1, in which tasks of this machine waited for a CPU; `None` where
    /// that is not known, and for files.
    pub cpu_waited: Option<f64>,
}

/// What the taps' clocks are to each other, as a word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClockWord {
    /// One clock.
    #[default]
    One,
    /// Two that were compared while the run went on.
    Compared,
    /// Two that only the delays say something of.
    Apart,
}

words! { ClockWord: One = "one", Compared = "compared", Apart = "apart"; }

impl From<&Clocks> for ClockWord {
    fn from(clocks: &Clocks) -> Self {
        match clocks {
            Clocks::One => Self::One,
            Clocks::Two { .. } => Self::Compared,
            Clocks::Apart { .. } => Self::Apart,
        }
    }
}

impl Delay {
    fn count(&self, of: impl Fn(&Figures) -> u64) -> u64 {
        self.figures.as_deref().map_or(0, of)
    }

    fn quantile(&self, place: usize) -> Option<f64> {
        Some(self.figures.as_deref()?.quantiles?[place])
    }

    fn gap(&self, tap: usize, of: impl Fn(&Gaps) -> f64) -> Option<f64> {
        self.figures.as_deref()?.gaps[tap].as_ref().map(of)
    }

    /// The share of the frames before the device that were matched.
    pub fn share(&self) -> Option<f64> {
        let account = self.figures.as_deref()?.account;
        (account.before > 0).then(|| account.matched as f64 / account.before as f64)
    }

    /// The bound on the mean's error, to either side, nanoseconds: half its interval, what the
    /// calibration and the clocks add.
    pub fn error_ns(&self) -> Option<f64> {
        let interval = self.figures.as_deref()?.mean?.half_width();
        Some(interval + self.offset.map_or(0.0, |o| o.error_ns) + self.clock_error.0 as f64)
    }
}

columns! {
    Delay: "delay", "delay", blank = Delay::default();
    before = before, "the tap before the device: an interface or a file";
    after = after, "the tap behind the device";
    method = method, "how frames were received, or what the files say of it; empty where that is not known";
    matched_by = matched_by, "how frames are recognised: `id`, `content` (a hash of what a device does not change) or `nat` (the same without addresses and ports)";
    lasted_ns = lasted, "how long frames were counted; of files, from the first frame to the last";
    before_frames = |d| d.count(|f| f.account.before), "frames at the tap before the device";
    after_frames = |d| d.count(|f| f.account.after), "frames at the tap behind it";
    matched = |d| d.count(|f| f.account.matched), "frames that both saw";
    matched_share = |d| d.share(), null "no frame was seen before the device", "matched frames of those before the device";
    lost = |d| d.count(|f| f.account.lost), "frames that the tap behind the device did not see within a second";
    duplicated = |d| d.count(|f| f.account.duplicated), "frames that the tap behind the device saw more often than the one before it";
    unexplained = |d| d.count(|f| f.account.unexplained), "frames that only the tap behind the device saw";
    reordered = |d| d.count(|f| f.account.reordered), "matched frames that left the device after one that had entered it later (RFC 4737)";
    unrecognised = |d| d.count(|f| f.account.unrecognised), "frames without an id, or neither IPv4 nor IPv6";
    not_kept = |d| d.count(|f| f.account.not_kept + f.not_kept), "frames that there was no memory for: not matched, or matched and in no figure";
    before_dropped = |d| d.dropped[0], "frames that the receiver at the tap before the device dropped";
    after_dropped = |d| d.dropped[1], "frames that the receiver behind it dropped: they are among the lost";
    before_unstamped = |d| d.unstamped[0], "frames before the device without a timestamp; they are in no other count";
    after_unstamped = |d| d.unstamped[1], "the same behind it";
    before_in_parts = |d| d.in_parts[0], "frames before the device of flows that the taps saw cut differently (TSO, GRO, fragments): each is in the counts as its parts";
    after_in_parts = |d| d.in_parts[1], "the same behind it";
    n = |d| d.count(|f| f.n as u64), "delays in the figures";
    delay_mean_ns = |d| d.figures.as_deref().and_then(|f| f.mean).map(|m| m.value), null "fewer than two delays", "mean delay; below zero where the taps' own error is larger";
    delay_mean_low_ns = |d| d.figures.as_deref().and_then(|f| f.mean).map(|m| m.low), null "fewer than two delays", "lower end of its 95 % interval";
    delay_mean_high_ns = |d| d.figures.as_deref().and_then(|f| f.mean).map(|m| m.high), null "fewer than two delays", "upper end";
    delay_error_ns = |d| d.error_ns(), null "fewer than two delays", "bound on the error of the mean, to either side: half its interval, and the errors of calibration and clocks";
    delay_deviation_ns = |d| d.figures.as_deref().and_then(|f| f.deviation), null "fewer than two delays", "standard deviation";
    delay_min_ns = |d| d.quantile(0), null "no delay", "least delay";
    delay_p1_ns = |d| d.quantile(1), null "no delay", "1 % quantile";
    delay_p10_ns = |d| d.quantile(2), null "no delay", "10 % quantile";
    delay_p50_ns = |d| d.quantile(3), null "no delay", "median";
    delay_p90_ns = |d| d.quantile(4), null "no delay", "90 % quantile";
    delay_p99_ns = |d| d.quantile(5), null "no delay", "99 % quantile";
    delay_p999_ns = |d| d.quantile(6), null "no delay", "99.9 % quantile";
    delay_max_ns = |d| d.quantile(7), null "no delay", "largest delay";
    negative = |d| d.count(|f| f.negative), "delays below zero: the error of the taps is larger than they are";
    least_change_ns = |d| d.figures.as_deref().and_then(|f| f.least_change), null "too few frames", "the least change of level that would have been reported: smaller ones are within the scatter";
    offset_ns = |d| d.offset.map(|o| o.ns), null "no calibration was given", "the taps' own offset, subtracted from each delay";
    offset_error_ns = |d| d.offset.map(|o| o.error_ns), null "no calibration was given", "bound on its error, to either side";
    clocks = clocks, "`one` clock stamped both taps; two were `compared` with each other; or they run `apart`: their offset and drift are removed as far as the delays show them, and delays are above the least";
    drift_ppb = drift_ppb, null "one clock, or too little to see it", "how much faster the clock behind the device ran, parts in 10⁹";
    drift_error_ppb = drift_error_ppb, null "the drift is not estimated from the delays", "bound on the error of that drift, to either side: how far the drifts of pieces of the run are from it";
    clock_error_ns = clock_error, "bound on the error of comparing the stamps of the two taps, to either side";
    cpu_waited_share = cpu_waited, null "capture files, or a kernel without PSI", "share of the run in which tasks of this machine waited for a CPU: such waits are in the delays of a device that is a program or a kernel of this machine";
    before_gap_mean_ns = |d| d.gap(0, |g| g.mean_ns), null "fewer than two frames", "mean time between frames before the device";
    before_gap_deviation_ns = |d| d.gap(0, |g| g.deviation_ns), null "fewer than two frames", "its standard deviation";
    before_gap_max_ns = |d| d.gap(0, |g| g.max.0 as f64), null "fewer than two frames", "the longest";
    after_gap_mean_ns = |d| d.gap(1, |g| g.mean_ns), null "fewer than two frames", "mean time between frames behind the device";
    after_gap_deviation_ns = |d| d.gap(1, |g| g.deviation_ns), null "fewer than two frames", "its standard deviation";
    after_gap_max_ns = |d| d.gap(1, |g| g.max.0 as f64), null "fewer than two frames", "the longest";
}

columns! {
    Change: "delay_changes", "delay_change", blank = Change::NONE;
    frame = |c| c.frame as u64, "the matched frame, counted from 0, that begins the new level";
    at_ns = |c| c.at_ns, "when it was seen before the device, on the taps' clock";
    size_ns = |c| c.size.value, "the new level minus the old one: medians";
    low_ns = |c| c.size.low, "lower end of its 95 % interval";
    high_ns = |c| c.size.high, "upper end";
}

columns! {
    Bin: "delay_bins", "delay_bin", blank = Bin::default();
    from_ns = from_ns, "lower end, in it";
    to_ns = to_ns, "upper end, not in it";
    frames = frames, "delays in it";
}

columns! {
    Stretch: "delay_series", "delay_stretch", blank = Stretch::default();
    at_ns = |s| s.at_ns, "when the first of these frames was seen before the device, on the taps' clock";
    frames = |s| s.n as u64, "matched frames in a row";
    min_ns = |s| s.min_ns as f64, "least delay";
    median_ns = |s| s.median_ns, "median delay";
    mean_ns = |s| s.mean_ns, "mean delay";
    max_ns = |s| s.max_ns as f64, "largest delay";
}
