//! What one direction of a path is asked to be, as values that are checked once.

use clock::Nanos;
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::ethernet::{BitRate, ETHERNET_OVERHEAD, SMALLEST_ON_WIRE};
use crate::recorded::Recorded;

/// One direction of a path. The default is a path that does nothing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Direction {
    /// Propagation delay, from a frame's last bit sent to its last bit received.
    #[serde(rename = "delay_ns")]
    pub delay: Nanos,
    /// How far the delay varies, drawn for every segment: see [`JitterShape`]. Order is kept unless
    /// `reorder` is set: then a segment may be delivered before an earlier one.
    #[serde(rename = "jitter_ns")]
    pub jitter: Nanos,
    /// How the jitter is distributed.
    pub jitter_shape: JitterShape,
    /// How much of each draw of the jitter is that of the segment before, 0 to below 1: the
    /// correlation of neighbours on the scale of a normal distribution, whatever the shape.
    pub jitter_memory: f64,
    /// Bits a second on the wire, everything that Ethernet adds counted (38 bytes a segment beside
    /// the IP packet).
    pub rate: Option<BitRate>,
    /// Which segments are lost after they were sent.
    pub loss: Loss,
    /// Segments held back so that later ones overtake them.
    pub reorder: Option<Reorder>,
    /// Share of the segments that arrive twice, 0 to 1. The copy arrives right behind and uses no
    /// rate.
    pub duplicate: f64,
    /// How much may wait for the wire, the segment on the wire included; more is dropped at the
    /// tail. Only with a rate; without it, [`DEFAULT_QUEUE_SEGMENTS`] full segments.
    pub queue: Option<Depth>,
    /// Who leaves the queue next, and who is dropped before it is full. Only with a rate or a
    /// recorded link.
    pub qdisc: Discipline,
    /// A recorded link gives the moments at which segments leave, in place of a rate.
    pub recorded: Option<Recorded>,
    /// ECN-capable segments that find more than this waiting are marked "congestion experienced"
    /// (RFC 3168). Only with a rate.
    pub ecn: Option<Depth>,
    /// IP packets of more bytes than this are dropped without an ICMP message, as at a link with a
    /// smaller MTU where a filter drops the message (RFC 2923, section 2.1). They count as lost.
    pub black_hole: Option<u32>,
}

/// How the delay varies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JitterShape {
    /// Evenly between `delay − jitter` and `delay + jitter`.
    #[default]
    Uniform,
    /// Normal, around the delay, with `jitter` as its standard deviation. The delay has to be at
    /// least three of these. A draw below zero, one in 740 at that limit, means no delay.
    Normal,
    /// The delay plus a draw from an exponential distribution with mean `jitter`.
    Exponential,
    /// The delay plus a draw from a Pareto distribution that begins at zero (Lomax), with shape 3
    /// and mean `jitter`: rarely, very long.
    Pareto,
}

impl JitterShape {
    /// Every shape.
    pub const ALL: [Self; 4] = [Self::Uniform, Self::Normal, Self::Exponential, Self::Pareto];

    /// Its name in settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Normal => "normal",
            Self::Exponential => "exponential",
            Self::Pareto => "pareto",
        }
    }
}

/// Who leaves a queue next, and who is dropped before it is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Discipline {
    /// First in, first out, dropped at the tail.
    #[default]
    Fifo,
    /// Controlled Delay, RFC 8289.
    Codel(CodelSettings),
    /// A CoDel queue for each flow, RFC 8290.
    FqCodel(FqCodelSettings),
    /// Proportional Integral controller Enhanced, RFC 8033.
    Pie(PieSettings),
}

impl Discipline {
    /// Its name in settings, which is that of the kernel's.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fifo => "fifo",
            Self::Codel(_) => "codel",
            Self::FqCodel(_) => "fq_codel",
            Self::Pie(_) => "pie",
        }
    }
}

/// The parameters of CoDel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CodelSettings {
    /// How long segments may wait.
    #[serde(rename = "target_ns")]
    pub target: Nanos,
    /// How long waits may stay above that before segments are dropped.
    #[serde(rename = "interval_ns")]
    pub interval: Nanos,
    /// Whether ECN-capable segments are marked instead of dropped.
    pub ecn: bool,
}

impl CodelSettings {
    /// The target and interval of RFC 8289, section 4.4, without ECN.
    pub const DEFAULT: Self = Self { target: Nanos::from_millis(5), interval: Nanos::from_millis(100), ecn: false };
}

/// The parameters of FQ-CoDel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FqCodelSettings {
    /// How many queues flows are hashed to, 1 to 65,536.
    pub flows: u32,
    /// The parameters of each queue.
    #[serde(flatten)]
    pub codel: CodelSettings,
}

impl FqCodelSettings {
    /// The values of RFC 8290, section 5.2, and of Linux: 1,024 queues, with ECN.
    pub const DEFAULT: Self = Self { flows: 1_024, codel: CodelSettings { ecn: true, ..CodelSettings::DEFAULT } };
}

/// The parameters of PIE.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PieSettings {
    /// How long segments are to wait.
    #[serde(rename = "target_ns")]
    pub target: Nanos,
    /// How often the chance of a drop is computed.
    #[serde(rename = "update_ns")]
    pub update: Nanos,
    /// Whether ECN-capable segments are marked instead of dropped.
    pub ecn: bool,
}

impl PieSettings {
    /// The values of RFC 8033, section 4, without ECN.
    pub const DEFAULT: Self = Self { target: Nanos::from_millis(15), update: Nanos::from_millis(15), ecn: false };
}

/// How many full-sized segments the queue holds where nothing else is asked for.
pub const DEFAULT_QUEUE_SEGMENTS: u64 = 1_000;

/// The longest delay, jitter or hold: one minute, several times what a path to the Moon and back
/// takes.
pub const LONGEST: Nanos = Nanos(60_000_000_000);

/// Which segments are lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Loss {
    /// None.
    #[default]
    None,
    /// Each by itself, with this share, 0 to 1.
    Independent(f64),
    /// In bursts: two states with their own loss, the chain of Gilbert and Elliott. Drawn once a
    /// segment: first the loss in the current state, then the change of state.
    GilbertElliott {
        /// Chance of going from the good state to the bad, each segment.
        good_to_bad: f64,
        /// Chance of going back; the bad state lasts `1/bad_to_good` segments on average.
        bad_to_good: f64,
        /// Share lost in the good state.
        loss_in_good: f64,
        /// Share lost in the bad state.
        loss_in_bad: f64,
    },
}

impl Loss {
    /// Bursts of `length` segments on average that make up `share` of all segments (a Gilbert
    /// chain: everything is lost in the bad state, nothing in the good one). `None` where there is
    /// no such chain.
    pub fn bursts(share: f64, length: f64) -> Option<Self> {
        let bad_to_good = 1.0 / length;
        let good_to_bad = share * bad_to_good / (1.0 - share);
        let valid = (0.0..1.0).contains(&share) && length >= 1.0 && (0.0..=1.0).contains(&good_to_bad);
        valid.then_some(Self::GilbertElliott { good_to_bad, bad_to_good, loss_in_good: 0.0, loss_in_bad: 1.0 })
    }

    /// The share that is lost in the long run, 0 to 1.
    pub fn share(&self) -> f64 {
        match *self {
            Self::None => 0.0,
            Self::Independent(p) => p,
            Self::GilbertElliott { good_to_bad, bad_to_good, loss_in_good, loss_in_bad } => {
                let changes = good_to_bad + bad_to_good;
                // A chain that never changes stays in the good state, where it begins.
                let bad = if changes > 0.0 { good_to_bad / changes } else { 0.0 };
                bad * loss_in_bad + (1.0 - bad) * loss_in_good
            }
        }
    }
}

/// Segments held back.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reorder {
    /// Share of the segments, 0 to 1.
    pub share: f64,
    /// How much later than otherwise they arrive.
    #[serde(rename = "by_ns")]
    pub by: Nanos,
}

/// How much waits in a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Depth {
    /// Bytes on the wire (see [`ETHERNET_OVERHEAD`]).
    Bytes(u64),
    /// Time that the wire needs for them.
    #[serde(rename = "time_ns")]
    Time(Nanos),
}

pub(crate) fn value(what: &'static str, value: impl ToString, problem: &str) -> Error {
    Error::Value { what, value: value.to_string(), problem: problem.into() }
}

impl Direction {
    /// Whether segments wait for their turn on a wire.
    pub fn has_bottleneck(&self) -> bool {
        self.rate.is_some() || self.recorded.is_some()
    }

    /// The rate, or the mean rate of the recorded link.
    pub fn mean_rate(&self) -> Option<BitRate> {
        self.rate.or(self.recorded.as_ref().map(|recorded| recorded.mean_rate))
    }

    /// Whether the direction passes every frame on unchanged and at once.
    pub fn is_plain(&self) -> bool {
        let Self { delay, jitter, loss, reorder, duplicate, black_hole, .. } = self;
        *delay == Nanos::ZERO
            && *jitter == Nanos::ZERO
            && !self.has_bottleneck()
            && *loss == Loss::None
            && reorder.is_none()
            && *duplicate == 0.0
            && black_hole.is_none()
    }

    pub(crate) fn check(&self, mtu: u32) -> Result<(), Error> {
        for (what, time) in [("delay", self.delay), ("jitter", self.jitter)] {
            if time > LONGEST {
                return Err(value(what, time, "is longer than a minute"));
            }
        }
        let earliest = match self.jitter_shape {
            JitterShape::Uniform => self.jitter.0,
            JitterShape::Normal => self.jitter.0.saturating_mul(3),
            JitterShape::Exponential | JitterShape::Pareto => 0,
        };
        if earliest > self.delay.0 {
            let problem = match self.jitter_shape {
                JitterShape::Normal => {
                    "of a normal shape must not exceed a third of the delay: no frame arrives before it was sent"
                }
                _ => "must not exceed the delay: no frame arrives before it was sent",
            };
            return Err(value("jitter", self.jitter, problem));
        }
        if !(0.0..1.0).contains(&self.jitter_memory) {
            let memory = format!("{}%", self.jitter_memory * 100.0);
            return Err(value("jitter memory", memory, "must lie within 0% and below 100%"));
        }
        if self.rate.is_some() && self.recorded.is_some() {
            return Err(value("rate", "", "a recorded link has its own: give one of the two"));
        }
        let share = |what, p: f64| {
            let valid = (0.0..=1.0).contains(&p);
            if valid { Ok(()) } else { Err(value(what, format!("{}%", p * 100.0), "must lie within 0% and 100%")) }
        };
        match self.loss {
            Loss::None => {}
            Loss::Independent(p) => share("loss", p)?,
            Loss::GilbertElliott { good_to_bad, bad_to_good, loss_in_good, loss_in_bad } => {
                for p in [good_to_bad, bad_to_good, loss_in_good, loss_in_bad] {
                    share("burst loss", p)?;
                }
            }
        }
        share("duplicate", self.duplicate)?;
        if let Some(reorder) = self.reorder {
            share("reorder", reorder.share)?;
            if reorder.by > LONGEST {
                return Err(value("reorder", reorder.by, "holds back for longer than a minute"));
            }
        }
        if let Some(rate) = self.rate
            && !(1_000..=1_000_000_000_000).contains(&rate.bits())
        {
            return Err(value("rate", format!("{}bit", rate.bits()), "must be 1kbit to 1000gbit"));
        }
        for (what, depth) in [("queue", self.queue), ("ecn", self.ecn)] {
            if let Some(depth) = depth.filter(|_| !self.has_bottleneck()) {
                let depth = match depth {
                    Depth::Bytes(n) => format!("{n} B"),
                    Depth::Time(time) => time.to_string(),
                };
                return Err(value(what, depth, "needs a rate: without one nothing ever waits (`none` takes it off)"));
            }
        }
        self.check_discipline()?;
        if let Some(largest) = self.black_hole.filter(|n| *n < SMALLEST_ON_WIRE - ETHERNET_OVERHEAD) {
            return Err(value("black hole", largest, "lets not even the smallest packet of 46 bytes through"));
        }
        let full = u64::from(mtu + ETHERNET_OVERHEAD);
        match self.queue {
            Some(Depth::Bytes(n)) if n < full => {
                Err(value("queue", format!("{n}B"), &format!("must hold one full segment, {full} bytes on the wire")))
            }
            Some(Depth::Time(t)) if t == Nanos::ZERO || t > LONGEST => {
                Err(value("queue", t, "must be more than nothing and no longer than a minute"))
            }
            _ => Ok(()),
        }
    }

    fn check_discipline(&self) -> Result<(), Error> {
        if self.qdisc == Discipline::Fifo {
            return Ok(());
        }
        let refuse = |problem: &str| Err(value("qdisc", self.qdisc.name(), problem));
        if !self.has_bottleneck() {
            return refuse("needs a rate: without one nothing ever waits (`fifo` takes it off)");
        }
        if self.ecn.is_some() {
            return refuse(
                "marks by itself: write it with ecn, such as codel:ecn, and leave the threshold of --ecn to fifo",
            );
        }
        let times = match self.qdisc {
            Discipline::Fifo => return Ok(()),
            Discipline::Codel(CodelSettings { target, interval, .. })
            | Discipline::FqCodel(FqCodelSettings { codel: CodelSettings { target, interval, .. }, .. }) => {
                [target, interval]
            }
            Discipline::Pie(PieSettings { target, update, .. }) => [target, update],
        };
        if times.into_iter().any(|time| time < Nanos::from_micros(10) || time > LONGEST) {
            return refuse("has times from 10us to a minute");
        }
        match self.qdisc {
            Discipline::FqCodel(FqCodelSettings { flows, .. }) if !(1..=65_536).contains(&flows) => {
                refuse("has 1 to 65536 flows")
            }
            _ => Ok(()),
        }
    }
}
