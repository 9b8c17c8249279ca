//! Responsiveness under working conditions: round trips a minute while load-generating connections
//! fill the path.
//!
//! This is draft-ietf-ippm-responsiveness-09. Load-generating connections (HTTP/2 over TLS)
//! download and upload without end; one is added each interval. Meanwhile *foreign* probes open a
//! connection each (TCP handshake, TLS handshake, a request of one byte), and *self* probes ask for
//! that byte on a load-generating connection. First goodput has to be stable, then responsiveness:
//! the mean of what the two kinds of probe give, from trimmed means over the last intervals.

mod connection;
mod discovery;
mod endpoint;
mod figures;
mod probing;
mod shared;
mod stage;

use std::net::IpAddr;
use std::ops::ControlFlow;
use std::path::PathBuf;

use clock::{Instant, Nanos, Realtime};
use serde::{Deserialize, Serialize};
use stats::Estimate;

use crate::error::Error;
use crate::options::SocketOptions;
use crate::progress::Progress;
use crate::timing;

pub use endpoint::Urls;
pub use figures::{Figures, rpm};

/// The revision of the draft.
pub const DRAFT: &str = "draft-ietf-ippm-responsiveness-09";

/// The draft's parameters; the defaults are its own.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Parameters {
    /// `MAD`: intervals that a moving average takes.
    pub moving_average_intervals: usize,
    /// `ID`: how long an interval is.
    #[serde(rename = "interval_ns")]
    pub interval: Nanos,
    /// `TMP`: the share of the values that the trimmed mean keeps, the lowest.
    pub trimmed_mean_share: f64,
    /// `SDT`: the deviation of moving averages, as a share of the latest, below which they are
    /// stable.
    pub deviation_share: f64,
    /// `INP`: load-generating connections at the start, in each direction.
    pub initial_connections: u32,
    /// `INC`: how many are added each interval.
    pub added_connections: u32,
    /// `MNP`: the most in each direction.
    pub most_connections: u32,
    /// `MPS`: the most probes a second, of both kinds together.
    pub probes_per_second: u32,
    /// `PTC`: the share of the capacity that probes may take.
    pub capacity_share: f64,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            moving_average_intervals: 4,
            interval: Nanos::from_secs(5),
            trimmed_mean_share: 0.95,
            deviation_share: 0.05,
            initial_connections: 1,
            added_connections: 1,
            most_connections: 16,
            probes_per_second: 100,
            capacity_share: 0.05,
        }
    }
}

/// Which ways are loaded at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Load {
    /// Both ways at once.
    Both,
    /// From the server.
    Down,
    /// From here.
    Up,
}

record::words! {
    Load: Both = "both", Down = "down", Up = "up";
}

/// A test of responsiveness.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Config {
    /// Where the server's configuration is: `https://HOST[:PORT]/.well-known/nq`.
    pub url: String,
    /// Connect to addresses of this family only: 4 or 6.
    pub family: Option<u8>,
    /// PEM file of the certificates to trust; without it those of the system.
    pub trusted: Option<PathBuf>,
    /// The token of a server of ours, where it wants one.
    pub token: Option<String>,
    /// The address to connect from.
    pub local: Option<IpAddr>,
    /// Options of this end's sockets.
    pub options: SocketOptions,
    /// What is loaded, one after the other.
    pub stages: Vec<Load>,
    /// Each of them ends after this time, stable or not.
    #[serde(rename = "limit_ns")]
    pub limit: Nanos,
    /// The draft's parameters.
    pub parameters: Parameters,
}

impl Config {
    /// Both ways at the same time, for at most a minute, with the draft's parameters.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            family: None,
            trusted: None,
            token: None,
            local: None,
            options: SocketOptions::default(),
            stages: vec![Load::Both],
            limit: Nanos::from_secs(60),
            parameters: Parameters::default(),
        }
    }

    fn check(&self) -> Result<(), Error> {
        self.options.validate()?;
        let p = &self.parameters;
        let wrong = |text: &str| Err(Error::Config(text.into()));
        if p.interval < Nanos::from_millis(50) || p.moving_average_intervals < 2 {
            return wrong("an interval is at least 50 ms, and a moving average takes at least 2 of them");
        }
        if !(p.trimmed_mean_share > 0.0
            && p.trimmed_mean_share <= 1.0
            && p.deviation_share > 0.0
            && p.capacity_share > 0.0)
        {
            return wrong("shares are above 0, and that of the trimmed mean is at most 1");
        }
        if !(1..=128).contains(&p.most_connections) || !(1..=p.most_connections).contains(&p.initial_connections) {
            return wrong("1 to 128 connections, and no more at the start than at the end");
        }
        if !(2..=1_000).contains(&p.probes_per_second) {
            return wrong("2 to 1,000 probes a second");
        }
        if self.limit < p.interval || self.stages.is_empty() {
            return wrong("the time is too short for one interval");
        }
        Ok(())
    }
}

/// The kind of probe that asked for a round trip.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProbeKind {
    /// On a separate connection.
    Foreign,
    /// On a load-generating connection.
    #[serde(rename = "self")]
    Own,
}

record::words! {
    ProbeKind: Foreign = "foreign", Own = "self";
}

/// One probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Probe {
    /// Of which kind.
    #[serde(rename = "probe")]
    pub kind: ProbeKind,
    /// What was loaded; none before the load.
    pub load: Option<Load>,
    /// When it began, since the start of the test.
    #[serde(rename = "at_ns")]
    pub at: Nanos,
    /// How long the TCP handshake took (foreign).
    #[serde(rename = "tcp_ns")]
    pub tcp: Option<Nanos>,
    /// A round trip of the TLS handshake: its time divided by its round trips (foreign).
    #[serde(rename = "tls_ns")]
    pub tls: Option<Nanos>,
    /// From the request to the whole response of one byte; none where it failed.
    #[serde(rename = "http_ns")]
    pub http: Option<Nanos>,
}

/// How far a stage came (the draft's confidence).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Confidence {
    /// Fewer intervals than a moving average takes.
    Low,
    /// Enough intervals, and not stable.
    Medium,
    /// Stable.
    High,
}

impl std::fmt::Display for Confidence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        })
    }
}

/// One interval of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// What was loaded.
    pub load: Load,
    /// Its beginning, since the start of the test.
    #[serde(rename = "start_ns")]
    pub start: Nanos,
    /// Its end.
    #[serde(rename = "end_ns")]
    pub end: Nanos,
    /// Load-generating connections, of all loaded ways.
    pub connections: u32,
    /// Read here.
    pub down_bits_per_second: Option<f64>,
    /// Acknowledged by the server.
    pub up_bits_per_second: Option<f64>,
    /// Responsiveness of the last intervals, once goodput is stable.
    pub rpm: Option<f64>,
}

/// What one stage showed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stage {
    /// What was loaded.
    pub load: Load,
    /// Round trips a minute under working conditions; none where a kind of probe has no answer.
    pub rpm: Option<f64>,
    /// Its interval at 95 %, from stretches of the last intervals; none where there are too few
    /// probes.
    pub rpm_interval: Option<Estimate>,
    /// How far responsiveness came.
    pub confidence: Confidence,
    /// How far goodput came.
    pub goodput_confidence: Confidence,
    /// The trimmed means that it is made of.
    pub figures: Figures,
    /// Goodput of the last intervals, from the server.
    pub down_bits_per_second: Option<f64>,
    /// To the server.
    pub up_bits_per_second: Option<f64>,
    /// Load-generating connections at the end.
    pub connections: u32,
}

/// What the test showed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// When it began, on `CLOCK_REALTIME`.
    #[serde(rename = "started_realtime_ns")]
    pub started_realtime: Instant<Realtime>,
    /// How long it took.
    #[serde(rename = "elapsed_ns")]
    pub elapsed: Nanos,
    /// The revision of the draft.
    pub draft: String,
    /// Where the server's configuration says that the objects are.
    pub urls: Urls,
    /// The server's address.
    pub server: std::net::SocketAddr,
    /// `TLSv1_3` or `TLSv1_2`, as the foreign probes agreed.
    pub tls_version: Option<String>,
    /// The same from foreign probes before the load.
    pub idle: Figures,
    /// Each stage.
    pub stages: Vec<Stage>,
    /// The intervals of all of them.
    #[serde(default)]
    pub intervals: Vec<Interval>,
    /// Every probe.
    #[serde(default)]
    pub probes: Vec<Probe>,
    /// Why it ended early, if it did.
    pub interrupted: Option<String>,
}

/// Foreign probes before the load.
const IDLE_PROBES: usize = 10;

/// Measures. `progress` is called every 100 ms; if it breaks, the test ends and its outcome says
/// so.
///
/// # Errors
/// [`Error::Config`], [`Error::Http`], [`Error::Connect`] and [`Error::Tls`] before there is a
/// load; after that what ends it early is [`Outcome::interrupted`].
pub fn run(config: &Config, progress: &mut dyn FnMut(Progress<'_>) -> ControlFlow<()>) -> Result<Outcome, Error> {
    config.check()?;
    let endpoint = discovery::discover(config)?;
    let (started_realtime, start) = (timing::realtime(), timing::now());
    let idle = probing::idle(&endpoint, IDLE_PROBES, start)?;
    let mut outcome = Outcome {
        started_realtime,
        elapsed: Nanos::ZERO,
        draft: DRAFT.into(),
        urls: endpoint.urls.clone(),
        server: endpoint.address,
        tls_version: idle.tls_version,
        idle: Figures::of(&idle.probes, config.parameters.trimmed_mean_share),
        stages: Vec::new(),
        intervals: Vec::new(),
        probes: idle.probes,
        interrupted: None,
    };
    for load in &config.stages {
        let measured = stage::run(config, &endpoint, *load, start, progress)?;
        outcome.stages.push(measured.stage);
        outcome.intervals.extend(measured.intervals);
        outcome.probes.extend(measured.probes);
        outcome.interrupted = measured.interrupted;
        if outcome.interrupted.is_some() {
            break;
        }
    }
    outcome.elapsed = timing::now().saturating_since(start);
    Ok(outcome)
}
