//! One trial: its ends, its settings, the workload, and what proves that all of it was so.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lab::PathReport;
use serde::{Deserialize, Serialize};

use crate::ground::{Ground, Stage};
use crate::plan::{Place, Plan};
use crate::watch::{Evidence, Watch};
use crate::{Error, counters, measure, proof};

/// What a trial can measure: name and unit. Those in `ns` are whole nanoseconds.
pub const RESPONSES: [(&str, &str); 18] = [
    ("goodput", "bit/s"),
    ("goodput_down", "bit/s"),
    ("transactions", "1/s"),
    ("latency_p50", "ns"),
    ("latency_p99", "ns"),
    ("round_trip", "ns"),
    ("min_round_trip", "ns"),
    ("queueing", "ns"),
    ("retransmitted", "segments"),
    ("fairness", "share"),
    ("rival_share", "share"),
    ("receive_window", "bytes"),
    ("receive_space", "bytes"),
    ("receive_buffer", "bytes"),
    ("receive_used", "bytes"),
    ("send_buffer", "bytes"),
    ("rtt_deviation", "ns"),
    ("cpu_per_gigabyte", "s"),
];

/// A point of a trial's series.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Since the transfer began.
    pub at_ns: u64,
    /// Received in the interval that ends here, by all flows, from client to server; where the server alone sends, the
    /// other way.
    pub bits_per_second: f64,
    /// The same from server to client, where both send.
    #[serde(default)]
    pub down_bits_per_second: f64,
    /// Smoothed round trip at its end.
    pub srtt_ns: u64,
    /// Congestion window at its end, bytes.
    pub cwnd_bytes: u64,
    /// The window that the receiver offers, bytes.
    pub receive_window_bytes: u64,
    /// Memory of packets that the receiver has not read, bytes (`skmem` r).
    #[serde(default)]
    pub receive_used_bytes: u64,
    /// The most of that at present, bytes (`skmem` rb).
    #[serde(default)]
    pub receive_buffer_bytes: u64,
    /// Part of the warm-up.
    pub warm_up: bool,
}

/// One probe beside the streams.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ping {
    /// `tcp`, `udp` or `icmp`.
    pub probe: String,
    /// When it was meant to be sent, since the beginning; on the axis of the series.
    pub at_ns: u64,
    /// Until the answer; absent where none came.
    pub round_trip_ns: Option<u64>,
}

/// What one trial gave.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Which plan of the study, from 0.
    pub part: usize,
    /// Which block, from 0.
    pub block: u32,
    /// Which in the block's order.
    pub position: u32,
    /// The level of each factor, from 0.
    pub levels: Vec<usize>,
    /// The levels in words.
    pub labels: Vec<String>,
    /// When it began, `CLOCK_REALTIME`.
    pub started_ns: u64,
    /// How long it took, all in.
    pub took_ns: u64,
    /// By name (see [`RESPONSES`]).
    pub responses: BTreeMap<String, f64>,
    /// What was checked and held.
    pub held: Vec<String>,
    /// What did not hold: such a trial counts nowhere.
    pub broken: Vec<String>,
    /// What the packets show.
    pub evidence: Evidence,
    /// Over time (streams).
    pub series: Vec<Point>,
    /// What the client's TCP counted of itself meanwhile, by the kernel's names. Between real hosts that is all of this
    /// host's traffic.
    #[serde(default)]
    pub counters: BTreeMap<String, u64>,
    /// Every probe (`ping-under-load`).
    #[serde(default)]
    pub pings: Vec<Ping>,
    /// What the path says of itself; absent over loopback and between real hosts.
    pub path: Option<PathReport>,
}

impl Trial {
    /// Whether it counts.
    pub fn counts(&self) -> bool {
        self.broken.is_empty()
    }

    /// A response.
    pub fn response(&self, name: &str) -> Option<f64> {
        self.responses.get(name).copied()
    }
}

/// Threads that use the CPU until dropped.
struct CpuLoad {
    stop: Arc<AtomicBool>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl CpuLoad {
    fn start(threads: u32) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let spin = |stop: Arc<AtomicBool>| {
            move || {
                let mut x = 1u64;
                while !stop.load(Ordering::Relaxed) {
                    for _ in 0..1_000 {
                        x = std::hint::black_box(x.wrapping_mul(6_364_136_223_846_793_005));
                    }
                }
            }
        };
        let threads = (0..threads)
            .filter_map(|_| std::thread::Builder::new().name("study-load".into()).spawn(spin(stop.clone())).ok())
            .collect();
        Self { stop, threads }
    }
}

impl Drop for CpuLoad {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread.join().ok();
        }
    }
}

/// Runs one trial of a plan. `go_on` is asked about ten times a second; `None` where it ended the trial.
///
/// # Errors
/// [`Error::Lab`], [`Error::Sysctl`] and [`Error::Traffic`] where it cannot be run, [`Error::Gone`] where the server went
/// away.
pub fn run(
    part: usize,
    plan: &Plan,
    place: &Place,
    seed: u64,
    ground: &Ground,
    go_on: &(dyn Fn() -> bool + Sync),
) -> Result<Option<Trial>, Error> {
    let mut setup = plan.setup(&place.levels)?;
    // Every block has its own losses, the same for all of its trials.
    setup.path.seed = seed.wrapping_add(u64::from(place.block));
    if matches!(ground, Ground::Peer(_)) {
        setup.keep_to_this_host();
    }
    let (started_ns, began) = (traffic::realtime_ns(), traffic::monotonic_ns());
    let mut held = Vec::new();
    let stage = Stage::up(&setup, ground, &mut held)?;
    let watch = stage.run(|| Watch::start(&stage.interface, plan.frames, stage.server))?;
    let load = CpuLoad::start(setup.cpu_load);
    let before = stage.run(counters::read)?;
    let measured = measure::run(&stage, &setup, plan, go_on);
    let counters = counters::since(&before, &stage.run(counters::read)?);
    drop(load);
    let evidence = watch.end();
    let path = stage.end(setup.loopback);
    let Some(measured) = measured? else { return Ok(None) };
    let mut broken = measured.broken;
    proof::prove(&setup, &evidence, measured.congestion.as_deref(), &mut held, &mut broken);
    if let Some(path) = &path {
        proof::promise(path, &mut held, &mut broken);
    }
    Ok(Some(Trial {
        part,
        block: place.block,
        position: place.position,
        levels: place.levels.clone(),
        labels: plan.label(&place.levels),
        started_ns,
        took_ns: traffic::monotonic_ns().saturating_sub(began),
        responses: measured.responses,
        held,
        broken,
        evidence,
        series: measured.series,
        counters,
        pings: measured.pings,
        path,
    }))
}
