//! What the study measured.

use capture::delay::{Account, Figures, QUANTILES};
use capture::generate::Sent;
use capture::{Counts, Stamps};
use record::Nanos;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use stats::Effects;

use super::plan::{Interface, Levels};

/// What one trial gave.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Frames that were sent.
    pub sent: u64,
    /// Frames sent a second.
    pub per_second: f64,
    /// Frames that arrived at the interfaces of the two taps.
    pub arrived: [u64; 2],
    /// Frames that the technique received at each tap.
    pub received: [u64; 2],
    /// Frames that the kernel dropped at each tap because the technique's memory was full.
    pub dropped: [u64; 2],
    /// Frames without a timestamp, at both taps.
    pub unstamped: u64,
    /// Frames that both taps saw.
    pub matched: u64,
    /// Frames that the first tap saw and the second did not.
    pub lost: u64,
    /// Frames that the second tap saw more than once.
    pub duplicated: u64,
    /// Frames that the second tap alone saw.
    pub unexplained: u64,
    /// Frames that a later one overtook.
    pub reordered: u64,
    /// Mean delay between the taps, ns; absent without a matched frame.
    pub mean_ns: Option<f64>,
    /// Standard deviation of the delay, ns; absent below two matched frames.
    pub deviation_ns: Option<f64>,
    /// CPU time of the two receiving threads for each frame that they received, ns. The kernel's
    /// work before them is not in it.
    pub cpu_ns: Option<f64>,
}

impl Measured {
    pub(super) fn of(
        sent: &Sent,
        arrived: [u64; 2],
        counts: [Counts; 2],
        cpu_ns: f64,
        account: Account,
        delays: &[f64],
    ) -> Self {
        let received = counts.map(|c| c.received);
        let all: u64 = received.iter().sum();
        Self {
            sent: sent.frames,
            per_second: sent.per_second.unwrap_or(0.0),
            arrived,
            received,
            dropped: counts.map(|c| c.dropped),
            unstamped: counts.iter().map(|c| c.unstamped).sum(),
            matched: account.matched,
            lost: account.lost,
            duplicated: account.duplicated,
            unexplained: account.unexplained,
            reordered: account.reordered,
            mean_ns: stats::mean(delays),
            deviation_ns: stats::deviation(delays),
            cpu_ns: (all > 0).then(|| cpu_ns / all as f64),
        }
    }

    /// How long frames were sent.
    pub(super) fn lasted(&self) -> Nanos {
        if self.per_second > 0.0 { Nanos((self.sent as f64 / self.per_second * 1e9) as u64) } else { Nanos::ZERO }
    }

    /// The share of the frames sent that were matched, 0 to 1.
    pub fn share(&self) -> f64 {
        if self.sent == 0 { 0.0 } else { self.matched as f64 / self.sent as f64 }
    }
}

/// A response of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Response {
    /// The share of the frames sent that both taps saw.
    Matched,
    /// The mean delay, ns.
    Mean,
    /// The standard deviation of the delay, ns.
    Deviation,
    /// CPU time of the receiving threads a frame, ns.
    Cpu,
}

impl Response {
    /// Every response.
    pub const ALL: [Self; 4] = [Self::Matched, Self::Mean, Self::Deviation, Self::Cpu];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Matched => "share matched",
            Self::Mean => "mean delay",
            Self::Deviation => "deviation of the delay",
            Self::Cpu => "CPU per frame",
        }
    }

    /// Its value in a trial.
    pub fn of(self, measured: &Measured) -> Option<f64> {
        match self {
            Self::Matched => Some(measured.share()),
            Self::Mean => measured.mean_ns,
            Self::Deviation => measured.deviation_ns,
            Self::Cpu => measured.cpu_ns,
        }
    }
}

/// One trial of the factorial plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Its block, from 0.
    pub block: u32,
    /// Levels of technique, frame size, rate, CPU and interface, from 0, in the order of
    /// [`Outcome`]'s lists.
    #[serde(deserialize_with = "levels")]
    pub levels: Levels,
    /// What it gave.
    pub measured: Measured,
}

/// Levels as they are kept. Studies that have no interface among them were made on veth.
fn levels<'de, D: Deserializer<'de>>(kept: D) -> Result<Levels, D::Error> {
    match Vec::<usize>::deserialize(kept)?[..] {
        [technique, size, rate, cpu] => Ok([technique, size, rate, cpu, 0]),
        [technique, size, rate, cpu, interface] => Ok([technique, size, rate, cpu, interface]),
        ref other => Err(D::Error::invalid_length(other.len(), &"the levels of five factors")),
    }
}

/// The interface of studies that do not name theirs.
fn veth() -> Vec<String> {
    vec![Interface::Veth.name().into()]
}

/// A technique or clock without figures, with the reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    /// The technique.
    pub technique: String,
    /// The timestamps.
    pub timestamps: Stamps,
    /// Why.
    pub reason: String,
}

/// The highest rate at which a technique lost no frame.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Lossless {
    /// The technique.
    pub technique: String,
    /// Frames a second; absent where every rate that was tried lost frames.
    pub per_second: Option<f64>,
    /// Whether the source could send no faster: the technique's own limit is higher.
    pub of_the_source: bool,
    /// Trials that the search took.
    pub trials: u32,
}

/// A series of delays over time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Matched frames.
    pub n: usize,
    /// Frames sent.
    pub sent: u64,
    /// Mean delay, ns.
    pub mean_ns: Option<f64>,
    /// Standard deviation, ns.
    pub deviation_ns: Option<f64>,
    /// Least, 1 %, 10 %, 50 %, 90 %, 99 %, 99.9 % and most, ns.
    pub quantiles_ns: Option<[f64; QUANTILES.len()]>,
    /// Frames in a row: the first one's number, and least, mean and most of their delays, ns.
    pub stretches: Vec<[f64; 4]>,
    /// The median delay of each stretch, ns; none in what older versions kept.
    #[serde(default)]
    pub medians_ns: Vec<f64>,
    /// Changes of the level: the frame, the size in ns, and its interval.
    pub changes: Vec<[f64; 4]>,
}

impl Series {
    pub(super) fn of(figures: &Figures, sent: u64) -> Self {
        let mut number = 0;
        let stretches = figures.series.iter().map(|s| {
            let first = number;
            number += s.n;
            [first as f64, s.min_ns as f64, s.mean_ns, s.max_ns as f64]
        });
        Self {
            n: figures.n,
            sent,
            mean_ns: figures.mean.map(|m| m.value),
            deviation_ns: figures.deviation,
            quantiles_ns: figures.quantiles,
            stretches: stretches.collect(),
            medians_ns: figures.series.iter().map(|s| s.median_ns).collect(),
            changes: figures.changes.iter().map(|c| [c.frame as f64, c.size.value, c.size.low, c.size.high]).collect(),
        }
    }
}

/// The experiment with a step in the device's delay.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepTrial {
    /// How much the delay was raised after a third of the frames and lowered again after two
    /// thirds.
    #[serde(rename = "put_in_ns")]
    pub put_in: Nanos,
    /// By how much it was raised, and then lowered, by the path's own account: what was asked, and
    /// how much later than that it delivered the middle frame of each third. Absent where the path
    /// does not know, and in what older versions kept.
    #[serde(default, rename = "delivered_ns")]
    pub delivered: Option<[f64; 2]>,
    /// The matched frames that had entered the path when it was changed.
    pub at_frames: [u64; 2],
    /// What was measured.
    pub series: Series,
}

/// What the study measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Where the random draws began.
    pub seed: u64,
    /// Whether it is the short form.
    pub quick: bool,
    /// Which clocks stamped the frames.
    #[serde(default)]
    pub timestamps: Stamps,
    /// Length of a trial.
    #[serde(rename = "trial_ns")]
    pub trial: Nanos,
    /// Blocks that were finished.
    pub blocks: u32,
    /// Whether everything planned was run.
    pub finished: bool,
    /// Techniques with figures, by name.
    pub techniques: Vec<String>,
    /// Frame sizes, bytes on the wire with frame check sequence.
    pub frame_sizes: Vec<u16>,
    /// Kinds of interface with figures, by name.
    #[serde(default = "veth")]
    pub interfaces: Vec<String>,
    /// Rates: the link speed, bits a second, that the frames are as many as.
    pub line_rates: Vec<u64>,
    /// The trials.
    pub trials: Vec<Trial>,
    /// What has no figures here, and why.
    pub missing: Vec<Missing>,
    /// Effects on each response.
    pub effects: Vec<(Response, Effects)>,
    /// Frames of 64 bytes a second that the source can send into the testbed while nothing
    /// receives.
    pub source_per_second: f64,
    /// The highest lossless rate of each technique.
    pub lossless: Vec<Lossless>,
    /// Five series of rx-ring, 256 bytes, 1 Gbit/s' worth of frames, CPU idle.
    pub series: Vec<Series>,
    /// The step; absent where the lab cannot be made, with the reason in `step_missing`.
    pub step: Option<StepTrial>,
    /// Why there is no step.
    pub step_missing: Option<String>,
}
