//! One stage: connections are added until goodput is stable, and responsiveness is followed until
//! it is.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use clock::{Instant, Monotonic, Nanos};
use h2::client::SendRequest;

use super::connection::{Connection, download, get, upload};
use super::discovery::runtime;
use super::endpoint::Endpoint;
use super::figures::{Stability, rpm};
use super::probing::{SMALL, UNDER_WAY, foreign};
use super::shared::Shared;
use super::{Confidence, Config, Figures, Interval, Load, Probe, ProbeKind, Stage};
use crate::error::Error;
use crate::progress::{Progress, STOPPED};
use crate::server::lock::lock;
use crate::tcp_info::TcpInfo;
use crate::timing;

/// What a pair of probes takes of the path, bytes: the draft's estimate of a foreign one and of a
/// self one.
const PAIR_BYTES: f64 = 6_000.0;
/// How often the pace of probes and the senders' backlog are set anew, and the caller is asked
/// whether to go on.
const TICK: Nanos = Nanos::from_millis(100);
/// What is measured before anything has arrived: five pairs of probes a second.
const FIRST_PAIR: Nanos = Nanos::from_millis(200);

/// What a thread of a stage does.
type Work = fn(&Endpoint, Load, Instant<Monotonic>, &Arc<Shared>) -> Result<(), Error>;

/// What a stage measured.
pub(super) struct Measured {
    pub stage: Stage,
    pub intervals: Vec<Interval>,
    pub probes: Vec<Probe>,
    pub interrupted: Option<String>,
}

impl Load {
    const fn down(self) -> bool {
        !matches!(self, Self::Up)
    }

    const fn up(self) -> bool {
        !matches!(self, Self::Down)
    }
}

/// Measures with this load.
pub(super) fn run(
    config: &Config,
    to: &Endpoint,
    load: Load,
    start: Instant<Monotonic>,
    progress: &mut dyn FnMut(Progress<'_>) -> ControlFlow<()>,
) -> Result<Measured, Error> {
    let shared = Arc::new(Shared {
        stop: AtomicBool::new(false),
        pair_ns: AtomicU64::new(FIRST_PAIR.0),
        probes: Mutex::default(),
        wanted: AtomicU32::new(config.parameters.initial_connections),
        open: AtomicU32::new(0),
        downloaded: Arc::default(),
        uploading: Mutex::default(),
        failed: Mutex::default(),
    });
    std::thread::scope(|scope| {
        let spawn = |name: &str, run: Work| {
            let shared = shared.clone();
            let thread = std::thread::Builder::new().name(name.into());
            thread.spawn_scoped(scope, move || {
                if let Err(error) = run(to, load, start, &shared) {
                    lock(&shared.failed).get_or_insert(error.to_string());
                }
            })
        };
        let started = spawn("rpm-load", generate).and_then(|_| spawn("rpm-foreign", foreign));
        if let Err(error) = started {
            shared.stop.store(true, Ordering::Relaxed);
            return Err(Error::io("starting the threads of the test")(error));
        }
        let measured = control(config, load, start, &shared, progress);
        shared.stop.store(true, Ordering::Relaxed);
        Ok(measured)
    })
}

/// Bytes carried until now: down, and up as the server has acknowledged.
fn carried(shared: &Shared) -> [u64; 2] {
    let up = lock(&shared.uploading).iter().filter_map(TcpInfo::of).map(|t| t.acked_bytes).sum();
    [shared.downloaded.load(Ordering::Relaxed), up]
}

fn control(
    config: &Config,
    load: Load,
    start: Instant<Monotonic>,
    shared: &Shared,
    progress: &mut dyn FnMut(Progress<'_>) -> ControlFlow<()>,
) -> Measured {
    let p = &config.parameters;
    let (distance, tolerance) = (p.moving_average_intervals, p.deviation_share);
    let began = timing::now();
    let since = |at: Instant<Monotonic>| at.saturating_since(start);
    let ways = [load.down(), load.up()];
    let mut goodput = [(); 2].map(|()| Stability::new(distance, tolerance));
    let mut responsiveness = Stability::new(distance, tolerance);
    let (mut saturated, mut stable) = (false, false);
    let mut marks = vec![(began, carried(shared))];
    let mut intervals: Vec<Interval> = Vec::new();
    let mut interrupted = None;
    while !stable && timing::now().saturating_since(began) + p.interval <= config.limit + TICK {
        let end = began.after(Nanos(p.interval.0 * marks.len() as u64));
        interrupted = wait(end, config, &marks, shared, start, progress);
        let now = timing::now();
        if interrupted.is_some() {
            break;
        }
        let (before, from) = marks[marks.len() - 1];
        let counts = carried(shared);
        marks.push((now, counts));
        let rate = |way: usize, from: [u64; 2], at: Instant<Monotonic>| {
            let ns = now.saturating_since(at).0.max(1) as f64;
            ways[way].then(|| counts[way].saturating_sub(from[way]) as f64 * 8e9 / ns)
        };
        let (window, counted) = marks[marks.len() - 1 - distance.min(marks.len() - 1)];
        // Each average is looked at, also where the first is not stable.
        let all: Vec<bool> = (0..2).filter_map(|way| Some(goodput[way].add(rate(way, counted, window)?))).collect();
        let mut interval = Interval {
            load,
            start: since(before),
            end: since(now),
            connections: shared.open.load(Ordering::Relaxed),
            down_bits_per_second: rate(0, from, before),
            up_bits_per_second: rate(1, from, before),
            rpm: None,
        };
        if saturated {
            interval.rpm = last(shared, p.trimmed_mean_share, since(window), since(now)).0;
            stable = interval.rpm.is_some_and(|rpm| responsiveness.add(rpm));
        }
        saturated |= all.iter().all(|stable| *stable);
        intervals.push(interval);
        let more = shared.wanted.load(Ordering::Relaxed) + p.added_connections;
        shared.wanted.store(more.min(p.most_connections), Ordering::Relaxed);
    }
    let (end, counts) = marks[marks.len() - 1];
    let (window, counted) = marks[marks.len() - 1 - distance.min(marks.len() - 1)];
    let (rpm, rpm_interval, figures) = last(shared, p.trimmed_mean_share, since(window), since(end));
    let rate = |way: usize| {
        let ns = end.saturating_since(window).0;
        (ways[way] && ns > 0).then(|| counts[way].saturating_sub(counted[way]) as f64 * 8e9 / ns as f64)
    };
    let confidence = |stable: bool, of: &Stability| match (stable, of.is_full()) {
        (true, _) => Confidence::High,
        (false, true) => Confidence::Medium,
        (false, false) => Confidence::Low,
    };
    let way = usize::from(!ways[0]);
    Measured {
        stage: Stage {
            load,
            rpm,
            rpm_interval,
            confidence: confidence(stable, &responsiveness),
            goodput_confidence: confidence(saturated, &goodput[way]),
            figures,
            down_bits_per_second: rate(0),
            up_bits_per_second: rate(1),
            connections: shared.open.load(Ordering::Relaxed),
        },
        intervals,
        probes: std::mem::take(&mut lock(&shared.probes)),
        interrupted,
    }
}

/// Responsiveness of the probes that ended in a window.
fn last(shared: &Shared, share: f64, from: Nanos, to: Nanos) -> (Option<f64>, Option<stats::Estimate>, Figures) {
    let ended = |p: &&Probe| {
        let took = [p.tcp, p.tls, p.http].into_iter().flatten().fold(Nanos::ZERO, |sum, t| sum + t);
        (from..=to).contains(&(p.at + took))
    };
    let probes: Vec<Probe> = lock(&shared.probes).iter().filter(ended).copied().collect();
    let (value, interval) = rpm(&probes, share, from, to);
    (value, interval, Figures::of(&probes, share))
}

/// Waits for the end of the interval, and keeps the pace of probes and the senders' backlog in line
/// with goodput.
fn wait(
    end: Instant<Monotonic>,
    config: &Config,
    marks: &[(Instant<Monotonic>, [u64; 2])],
    shared: &Shared,
    start: Instant<Monotonic>,
    progress: &mut dyn FnMut(Progress<'_>) -> ControlFlow<()>,
) -> Option<String> {
    let p = &config.parameters;
    let (mark, counted) = marks[marks.len().saturating_sub(2)];
    loop {
        let now = timing::now();
        let counts = carried(shared);
        let seconds = now.saturating_since(mark).as_secs_f64().max(0.05);
        let bytes_per_second = [0, 1].map(|way: usize| counts[way].saturating_sub(counted[way]) as f64 / seconds);
        // Probes take their share of the way that carries less, for they go both ways; and the
        // draft's most of them.
        let carried = bytes_per_second.into_iter().filter(|b| *b > 0.0).fold(f64::INFINITY, f64::min);
        let pairs = (p.capacity_share * carried / PAIR_BYTES)
            .clamp(1e9 / FIRST_PAIR.0 as f64, f64::from(p.probes_per_second) / 2.0);
        if carried.is_finite() {
            shared.pair_ns.store((1e9 / pairs) as u64, Ordering::Relaxed);
        }
        // Five milliseconds of unsent data, as the draft asks of an end that sends.
        let sockets = lock(&shared.uploading);
        let unsent = (bytes_per_second[1] * 0.005 / sockets.len().max(1) as f64).clamp(16_384.0, 4_194_304.0) as u32;
        for socket in sockets.iter() {
            // A socket that is going away may refuse.
            socket2::SockRef::from(socket).set_tcp_notsent_lowat(unsent).ok();
        }
        drop(sockets);
        if let Some(why) = lock(&shared.failed).clone() {
            return Some(why);
        }
        if progress(Progress::Tick { elapsed: now.saturating_since(start) }).is_break() {
            return Some(STOPPED.into());
        }
        if now >= end {
            return None;
        }
        std::thread::sleep(end.saturating_since(now).min(TICK).into());
    }
}

/// Load-generating connections, and self probes on them.
fn generate(to: &Endpoint, load: Load, start: Instant<Monotonic>, shared: &Arc<Shared>) -> Result<(), Error> {
    let tasks = tokio::task::LocalSet::new();
    let runtime = runtime()?;
    timing::without_timer_slack();
    let connections: Arc<Mutex<Vec<SendRequest<Bytes>>>> = Arc::default();
    tasks.block_on(&runtime, async {
        let ways: Vec<bool> =
            [(true, load.down()), (false, load.up())].into_iter().filter(|w| w.1).map(|w| w.0).collect();
        let mut started = 0;
        let mut next_probe = timing::now();
        let under_way = Arc::new(AtomicU32::new(0));
        while !shared.stop.load(Ordering::Relaxed) {
            while started < shared.wanted.load(Ordering::Relaxed) {
                started += 1;
                for down in &ways {
                    let (to, shared, connections, down) = (to.clone(), shared.clone(), connections.clone(), *down);
                    tokio::task::spawn_local(async move {
                        let ended = one(&to, down, &shared, &connections).await;
                        if let (Err(why), false) = (ended, shared.stop.load(Ordering::Relaxed)) {
                            lock(&shared.failed).get_or_insert(format!("a load-generating connection ended: {why}"));
                        }
                    });
                }
            }
            let now = timing::now();
            if now >= next_probe {
                next_probe = now.after(Nanos(shared.pair_ns.load(Ordering::Relaxed)));
                let chosen = {
                    let all = lock(&connections);
                    let draw = u32::from_ne_bytes(crate::wire::random_bytes()) as usize;
                    (!all.is_empty()).then(|| all[draw % all.len()].clone())
                };
                if let (Some(requests), true) = (chosen, under_way.load(Ordering::Relaxed) < UNDER_WAY as u32) {
                    under_way.fetch_add(1, Ordering::Relaxed);
                    let (to, shared, under_way) = (to.clone(), shared.clone(), under_way.clone());
                    tokio::task::spawn_local(async move {
                        let began = timing::now();
                        let answer = get(requests, &to, &to.small, SMALL).await;
                        let http = answer.is_ok().then(|| timing::now().saturating_since(began));
                        let at = began.saturating_since(start);
                        if http.is_some() || !shared.stop.load(Ordering::Relaxed) {
                            let probe =
                                Probe { kind: ProbeKind::Own, load: Some(load), at, tcp: None, tls: None, http };
                            lock(&shared.probes).push(probe);
                        }
                        under_way.fetch_sub(1, Ordering::Relaxed);
                    });
                }
            }
            let pause = next_probe.saturating_since(timing::now()).min(Nanos::from_millis(20));
            tokio::time::sleep(Duration::from(pause)).await;
        }
    });
    Ok(())
}

/// One load-generating connection, to its end.
async fn one(
    to: &Endpoint,
    down: bool,
    shared: &Shared,
    connections: &Mutex<Vec<SendRequest<Bytes>>>,
) -> Result<(), String> {
    let mut connection = Connection::open(to).await.map_err(|e| e.to_string())?;
    let requests = connection.requests();
    if !down {
        lock(&shared.uploading).extend(connection.socket.take());
    }
    lock(connections).push(connection.requests());
    shared.open.fetch_add(1, Ordering::Relaxed);
    if down { download(requests, to, shared.downloaded.clone()).await } else { upload(requests, to).await }
}
