//! One trial: a lab of its own, its settings, the workload, and what proves that all of it was so.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lab::{Host, Lab, PathReport, Side};
use serde::{Deserialize, Serialize};
use traffic::{Server, ServerConfig, rr, stream};

use crate::plan::{Place, Plan};
use crate::setting::{Setup, Workload};
use crate::watch::{Evidence, Watch};
use crate::{Error, offload};

/// What a trial can measure: name and unit. Those in `ns` are whole nanoseconds.
pub const RESPONSES: [(&str, &str); 13] = [
    ("goodput", "bit/s"),
    ("transactions", "1/s"),
    ("latency_p50", "ns"),
    ("latency_p99", "ns"),
    ("round_trip", "ns"),
    ("queueing", "ns"),
    ("retransmitted", "segments"),
    ("fairness", "share"),
    ("rival_share", "share"),
    ("receive_window", "bytes"),
    ("receive_buffer", "bytes"),
    ("rtt_deviation", "ns"),
    ("cpu_per_gigabyte", "s"),
];

/// A point of a trial's series.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Since the transfer began.
    pub at_ns: u64,
    /// Received in the interval that ends here, by all flows.
    pub bits_per_second: f64,
    /// Smoothed round trip at its end.
    pub srtt_ns: u64,
    /// Congestion window at its end, bytes.
    pub cwnd_bytes: u64,
    /// The window that the receiver offers, bytes.
    pub receive_window_bytes: u64,
    /// Part of the warm-up.
    pub warm_up: bool,
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
    /// What the path says of itself; absent over loopback.
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

/// Runs one trial of a plan in a lab of its own. `go_on` is asked about ten times a second; `None` where it ended the
/// trial.
///
/// # Errors
/// [`Error::Lab`] and [`Error::Traffic`] where it cannot be run.
pub fn run(
    part: usize,
    plan: &Plan,
    place: &Place,
    seed: u64,
    go_on: &(dyn Fn() -> bool + Sync),
) -> Result<Option<Trial>, Error> {
    let mut setup = plan.setup(&place.levels)?;
    // Every block has its own losses, the same for all of its trials.
    setup.path.seed = seed.wrapping_add(u64::from(place.block));
    let (started_ns, began) = (traffic::realtime_ns(), traffic::monotonic_ns());
    let lab = Lab::up(&setup.path)?;
    let mut held = Vec::new();
    for (side, name, value) in &setup.sysctls {
        lab.host(*side).set_sysctl(name, value)?;
        let read = lab.host(*side).sysctl(name)?;
        let same = read.split_whitespace().eq(value.split_whitespace());
        if !same {
            return Err(Error::Setting(format!("{name} was set to {value} in host {} and reads {read}", side.name())));
        }
        held.push(format!("{}.{name} reads {read}", side.name()));
    }
    if let Some(on) = setup.offloads {
        for side in Side::ALL {
            lab.host(side)
                .run(|| offload::set(c"eth0", on))?
                .map_err(|source| Error::System { step: "set the offloads of a host", source })?;
        }
    }
    let client = if setup.loopback { lab.host(Side::B) } else { lab.host(Side::A) };
    let listen = SocketAddr::new(setup.server_ip(), 0);
    let server = lab.host(Side::B).run(|| Server::start(ServerConfig::new(listen)))??;
    let interface = if setup.loopback { c"lo" } else { c"eth0" };
    let port = server.local_addr().port();
    let watch = client.run(|| Watch::start(interface, plan.frames, port))??;
    let load = CpuLoad::start(setup.cpu_load);
    let measured = measure(&client, &setup, plan, server.local_addr(), go_on);
    drop(load);
    let evidence = watch.end();
    server.stop();
    let path = (!setup.loopback).then(|| lab.path().report());
    drop(lab);
    let Some(measured) = measured? else { return Ok(None) };
    let mut broken = measured.broken;
    prove(&setup, &evidence, measured.congestion.as_deref(), &mut held, &mut broken);
    if let Some(path) = &path {
        promise(path, &mut held, &mut broken);
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
        path,
    }))
}

#[derive(Default)]
struct Measured {
    responses: BTreeMap<String, f64>,
    series: Vec<Point>,
    congestion: Option<String>,
    broken: Vec<String>,
}

fn measure(
    client: &Host<'_>,
    setup: &Setup,
    plan: &Plan,
    server: SocketAddr,
    go_on: &(dyn Fn() -> bool + Sync),
) -> Result<Option<Measured>, Error> {
    let progress = |_: traffic::Progress<'_>| if go_on() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) };
    let measured = match setup.workload {
        Workload::Stream => {
            let config = stream_config(setup, plan, server, setup.options.congestion_control.clone());
            let rival = setup.rival.clone().map(|name| stream_config(setup, plan, server, Some(name)));
            let (own, other) = client.run(|| {
                std::thread::scope(|scope| {
                    let other = rival.as_ref().map(|c| scope.spawn(move || stream::run(c, &mut { progress })));
                    let own = stream::run(&config, &mut { progress });
                    (own, other.map(|o| o.join()))
                })
            })?;
            let other = match other {
                None => None,
                Some(Ok(outcome)) => Some(outcome?),
                Some(Err(panic)) => std::panic::resume_unwind(panic),
            };
            of_stream(&own?, other.as_ref(), setup)
        }
        Workload::Rr | Workload::Crr => {
            let config = rr::Config {
                connect_each: setup.workload == Workload::Crr,
                exchange: setup.exchange,
                duration_ns: plan.duration_ns,
                warm_up_ns: plan.warm_up_ns,
                options: setup.options.clone(),
                ..rr::Config::new(server)
            };
            of_exchanges(&client.run(|| rr::run(&config, &mut { progress }))??)
        }
    };
    Ok(go_on().then_some(measured))
}

fn stream_config(setup: &Setup, plan: &Plan, server: SocketAddr, congestion: Option<String>) -> stream::Config {
    stream::Config {
        flows: setup.flows,
        duration_ns: plan.duration_ns,
        warm_up_s: plan.warm_up_ns.div_ceil(1_000_000_000),
        write_bytes: setup.write_bytes,
        interval_ns: 100_000_000,
        options: traffic::SocketOptions { congestion_control: congestion, ..setup.options.clone() },
        ..stream::Config::new(server)
    }
}

/// Jain's index (1984): 1 where all have the same, 1/n where one has all.
fn fairness(shares: &[f64]) -> Option<f64> {
    let (sum, squares) = shares.iter().fold((0.0, 0.0), |(s, q), x| (s + x, q + x * x));
    (squares > 0.0).then(|| sum * sum / (shares.len() as f64 * squares))
}

fn of_stream(own: &stream::Outcome, rival: Option<&stream::Outcome>, setup: &Setup) -> Measured {
    let mut m = Measured { congestion: own.congestion_control.clone(), ..Measured::default() };
    let mut put = |name: &str, value: Option<f64>| {
        if let Some(value) = value.filter(|v| v.is_finite()) {
            m.responses.insert(name.into(), value);
        }
    };
    let total = own.up;
    let goodput = total.and_then(|t| t.goodput_bits_per_second);
    put("goodput", goodput);
    put("retransmitted", total.and_then(|t| t.retransmitted_segments).map(|n| n as f64));
    let samples = || own.series.iter().filter(|s| !s.warm_up && s.sends).filter_map(|s| s.tcp);
    let middle = |values: Vec<f64>| stats::median(&values);
    let srtt = middle(samples().map(|t| t.srtt_ns as f64).collect());
    put("round_trip", srtt);
    put("queueing", srtt.map(|s| (s - setup.round_trip_s() * 1e9).max(0.0)));
    put("rtt_deviation", middle(samples().map(|t| t.rttvar_ns as f64).collect()));
    let received = || own.server_series.iter().filter(|s| !s.sends).filter_map(|s| s.tcp);
    put("receive_window", received().map(|t| f64::from(t.rcv_wnd_bytes)).reduce(f64::max));
    put("receive_buffer", received().map(|t| f64::from(t.rcv_space_bytes)).reduce(f64::max));
    put("cpu_per_gigabyte", own.cpu_seconds_per_gigabyte);
    if own.flows.len() > 1 {
        let each: Vec<f64> = own.flows.iter().filter_map(|f| f.received_bytes).map(|b| b as f64).collect();
        put("fairness", fairness(&each));
    }
    if let (Some(mine), Some(theirs)) = (goodput, rival.and_then(|r| r.up?.goodput_bits_per_second)) {
        put("rival_share", Some(theirs / (mine + theirs)));
        put("fairness", fairness(&[mine, theirs]));
    }
    for outcome in [Some(own), rival].into_iter().flatten() {
        m.broken.extend(outcome.interrupted.iter().map(|why| format!("the transfer ended early: {why}")));
        m.broken.extend(outcome.flows.iter().filter_map(|f| f.error.clone()));
    }
    m.series = series(own);
    if !m.responses.contains_key("goodput") {
        m.broken.push("the server never said what it received".into());
    }
    m
}

/// The receivers' series, all flows together, with the senders' view of the connection.
fn series(outcome: &stream::Outcome) -> Vec<Point> {
    let mut points: BTreeMap<u64, Point> = BTreeMap::new();
    let slot = |s: &stream::Sample| s.end_ns / 100_000_000;
    for s in outcome.server_series.iter().filter(|s| !s.sends) {
        let point = points.entry(slot(s)).or_insert(Point {
            at_ns: s.end_ns,
            bits_per_second: 0.0,
            srtt_ns: 0,
            cwnd_bytes: 0,
            receive_window_bytes: 0,
            warm_up: s.warm_up,
        });
        point.bits_per_second += s.bits_per_second;
        point.receive_window_bytes = point.receive_window_bytes.max(s.tcp.map_or(0, |t| t.rcv_wnd_bytes.into()));
    }
    for s in outcome.series.iter().filter(|s| s.sends) {
        if let (Some(point), Some(tcp)) = (points.get_mut(&slot(s)), s.tcp) {
            point.srtt_ns = tcp.srtt_ns;
            point.cwnd_bytes = point.cwnd_bytes.max(tcp.snd_cwnd_bytes());
        }
    }
    points.into_values().collect()
}

fn of_exchanges(outcome: &rr::Outcome) -> Measured {
    let mut m = Measured::default();
    let mut put = |name: &str, value: f64| m.responses.insert(name.into(), value);
    put("transactions", outcome.transactions_per_second);
    put("latency_p50", outcome.latency.p50_ns as f64);
    put("latency_p99", outcome.latency.p99_ns as f64);
    m.broken.extend(outcome.interrupted.iter().map(|why| format!("the exchanges ended early: {why}")));
    if outcome.transactions == 0 {
        m.broken.push("no exchange was finished in the time given".into());
    }
    if outcome.failed > 0 {
        m.broken.push(format!("{} connections failed", outcome.failed));
    }
    m
}

/// Whether the settings took, by the packets.
fn prove(
    setup: &Setup,
    evidence: &Evidence,
    congestion: Option<&str>,
    held: &mut Vec<String>,
    broken: &mut Vec<String>,
) {
    let mut check =
        |holds: bool, what: String| if holds { held.push(what) } else { broken.push(format!("not so: {what}")) };
    let both = |name: &str| {
        let ends = if setup.loopback { [Side::B, Side::B] } else { Side::ALL };
        ends.map(|side| setup.sysctl(side, name))
    };
    if evidence.syns.is_empty() {
        if evidence.frames > 0 || setup.sysctls.iter().any(|s| s.1.contains("tcp_timestamps")) {
            check(false, format!("the SYNs of {} frames seen show the options", evidence.frames));
        }
        return;
    }
    let scaling = both("net.ipv4.tcp_window_scaling");
    if scaling.iter().any(Option::is_some) {
        let asked = scaling.iter().all(|v| v.is_none_or(|v| v != "0"));
        let in_use = [false, true]
            .iter()
            .all(|&server| evidence.syns.iter().any(|s| s.from_server == server && s.window_scale.is_some()));
        check(in_use == asked, format!("the SYNs negotiate window scaling: {}", if asked { "yes" } else { "no" }));
    }
    let timestamps = both("net.ipv4.tcp_timestamps");
    if timestamps.iter().any(Option::is_some) {
        let asked = timestamps.iter().all(|v| v.is_none_or(|v| v != "0"));
        let bytes = if asked { 32 } else { 20 };
        let segments: u64 = evidence.header_bytes.values().sum();
        let so: u64 = evidence
            .header_bytes
            .iter()
            .filter(|(length, _)| if asked { **length >= 32 } else { **length < 32 })
            .map(|(_, n)| n)
            .sum();
        check(
            segments > 0 && so == segments,
            format!("TCP headers of {bytes} bytes on {so} of {segments} data frames"),
        );
    }
    if let Some(name) = &setup.options.congestion_control {
        let found = congestion.unwrap_or("unknown");
        check(found == name, format!("the connection uses {name} (the kernel says {found})"));
    }
}

/// Whether the path was what it was asked to be.
fn promise(path: &PathReport, held: &mut Vec<String>, broken: &mut Vec<String>) {
    for (way, direction) in [("a to b", &path.a_to_b), ("b to a", &path.b_to_a)] {
        let (asked, Some(did)) = (&direction.asked, &direction.achieved) else { continue };
        for (count, what) in [
            (did.dropped_memory, "segments dropped for want of memory"),
            (did.refused, "segments refused by the receiving host"),
            (did.missed_frames, "frames missed because the path did not read in time"),
        ] {
            if count > 0 {
                broken.push(format!("the path {way}: {count} {what}"));
            }
        }
        if let Some(delay) = did.delay.filter(|d| d.n >= 10 && asked.jitter.0 == 0 && asked.reorder.is_none()) {
            let off = delay.p50.0.abs_diff(asked.delay.0);
            let text = format!("the path {way}: delay asked {}, median {} of n = {}", asked.delay, delay.p50, delay.n);
            // A twentieth, or what waking a thread on a busy machine takes.
            if off <= (asked.delay.0 / 20).max(500_000) { held.push(text) } else { broken.push(text) }
        }
        if let (Some(rate), Some(busy)) = (asked.rate, did.busy_rate)
            && did.busy.0 as f64 > 0.5 * path.up.0 as f64
        {
            let asked = rate.bits() as f64;
            let [wanted, was] = [asked, busy].map(|rate| crate::analysis::quantity("goodput", rate));
            let text = format!("the path {way}: rate asked {wanted}, {was} while busy");
            // A path that is idle now and then has many ends of busy periods, and a late wake-up at each counts.
            let saturated = did.busy.0 as f64 > 0.8 * path.up.0 as f64;
            if (busy / asked - 1.0).abs() < if saturated { 0.01 } else { 0.03 } {
                held.push(text);
            } else {
                broken.push(text);
            }
        }
        if let Some(loss) = did.loss.filter(|_| asked.loss.share() > 0.0) {
            let (share, n) = (asked.loss.share(), (did.lost + did.delivered) as f64);
            let text = format!("the path {way}: loss asked {share}, {loss:.6} of n = {n}");
            // Bursts vary more than independent losses, by their length.
            let reach = 5.0 * (share * (1.0 - share) / n * 10.0).sqrt();
            if (loss - share).abs() <= reach { held.push(text) } else { broken.push(text) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jain() {
        assert_eq!(fairness(&[1.0, 1.0]), Some(1.0));
        assert_eq!(fairness(&[1.0, 0.0]), Some(0.5));
        assert_eq!(fairness(&[0.0]), None);
    }

    #[test]
    fn a_setting_that_did_not_take_is_told() {
        let mut setup = Setup::default();
        setup.set("net.ipv4.tcp_timestamps", "0").unwrap();
        let mut evidence = Evidence { frames: 10, ..Evidence::default() };
        let outcome = |evidence: &Evidence| {
            let (mut held, mut broken) = (Vec::new(), Vec::new());
            prove(&setup, evidence, None, &mut held, &mut broken);
            (held.len(), broken.len())
        };
        assert_eq!(outcome(&evidence), (0, 1));
        let syn = crate::watch::SynOptions {
            from_server: false,
            window_scale: Some(7),
            timestamps: false,
            sack: true,
            mss: Some(1_460),
            count: 1,
        };
        evidence.syns.push(syn);
        evidence.header_bytes.insert(20, 9);
        assert_eq!(outcome(&evidence), (1, 0));
        evidence.header_bytes.insert(32, 1);
        assert_eq!(outcome(&evidence), (0, 1));
    }
}
