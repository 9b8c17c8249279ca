//! The client's side of request and response.

use std::net::{Shutdown, SocketAddr, TcpStream};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use stats::{Distribution, DurationSummary, Precision};

use super::connections::{Job, Left, Schedule, closed, connect_each, pipelined};
use super::{Config, Gathered, Outcome};
use crate::clock::{self, CpuTime};
use crate::error::Error;
use crate::own::{self, Request, Workload};
use crate::progress::Progress;
use crate::tcp_info::TcpInfo;

/// How long after the end an answer may still come, nanoseconds.
const LAST_ANSWER_NS: u64 = 50_000_000;

/// Carries out the transactions. `progress` is told of each interval, and every 100 ms; where it breaks, they end.
///
/// # Errors
/// [`Error::Config`] before anything is sent; [`Error::Connect`], [`Error::Refused`], [`Error::Busy`] and
/// [`Error::Gone`] until transactions flow. After that a server that goes away is [`Outcome::interrupted`].
pub fn run(config: &Config, progress: &mut dyn FnMut(Progress<'_>) -> ControlFlow<()>) -> Result<Outcome, Error> {
    config.check()?;
    let request = Request {
        token: config.target.token.clone(),
        options: config.target.options.clone(),
        duration_ns: config.warm_up_ns.saturating_add(config.duration_ns),
        workload: if config.connect_each {
            Workload::Crr { exchange: config.exchange, at_once: config.connections }
        } else {
            Workload::Rr(config.exchange)
        },
    };
    let asked = if config.connect_each { 1 } else { config.connections };
    let mut streams = Vec::with_capacity(asked as usize);
    let mut port = 0;
    for _ in 0..asked {
        let (stream, ready) = own::ask(config.target.server, config.target.local, &config.target.options, &request)?;
        port = ready.port;
        streams.push(stream);
    }
    let start_ns = clock::monotonic_ns().saturating_add(config.warm_up_ns);
    let started_realtime_ns = clock::realtime_ns().saturating_add(config.warm_up_ns);
    let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
    let end_ns = start_ns.saturating_add(config.duration_ns);
    let job = Job { config, start_ns, end_ns, stop: &stop, done: &done };
    let to = SocketAddr::new(config.target.server.ip(), port);
    let (mut broke, mut failure) = (false, None);
    let threads: Vec<_> = std::thread::scope(|scope| {
        let mut handles = Vec::with_capacity(config.connections as usize);
        for index in 0..config.connections {
            let (job, stream) = (&job, streams.get(index as usize));
            let spawned = std::thread::Builder::new()
                .name(format!("rr-{index}"))
                .spawn_scoped(scope, move || thread(job, index, stream, to));
            match spawned {
                Ok(handle) => handles.push(handle),
                Err(source) => {
                    stop.store(true, Ordering::Relaxed);
                    failure = Some(Error::Io { doing: "starting a connection's thread", source });
                    break;
                }
            }
        }
        let mut next = start_ns.saturating_add(config.interval_ns.max(1_000_000));
        let mut over_ns = end_ns;
        while !handles.iter().all(std::thread::ScopedJoinHandle::is_finished) {
            let now = clock::monotonic_ns();
            std::thread::sleep(Duration::from_nanos(over_ns.saturating_sub(now).clamp(1_000_000, 100_000_000)));
            let now = clock::monotonic_ns();
            let elapsed_ns = now.saturating_sub(start_ns);
            let told = if now >= next {
                next = now.saturating_add(config.interval_ns.max(1_000_000));
                Progress::Transactions { elapsed_ns, done: done.load(Ordering::Relaxed) }
            } else {
                Progress::Tick { elapsed_ns }
            };
            if !broke && now < end_ns && progress(told).is_break() {
                broke = true;
                over_ns = now;
                stop.store(true, Ordering::Relaxed);
            }
            // Reads have no time limit, so an answer that does not come is given up here.
            if now >= over_ns.saturating_add(LAST_ANSWER_NS) {
                for stream in &streams {
                    stream.shutdown(Shutdown::Both).ok();
                }
            }
        }
        handles.into_iter().filter_map(|h| h.join().ok()).collect()
    });
    if let Some(error) = failure {
        return Err(error);
    }
    let elapsed_ns = clock::monotonic_ns().min(end_ns).saturating_sub(start_ns);
    let tcp = streams.first().filter(|_| !config.connect_each).and_then(TcpInfo::of);
    Ok(outcome(config, threads, started_realtime_ns, elapsed_ns, broke, tcp))
}

type Ended = (Gathered, Left, CpuTime);

/// One thread from its start to its end; an error that ends it early is in [`Left::error`].
fn thread(job: &Job<'_>, index: u32, stream: Option<&TcpStream>, to: SocketAddr) -> Ended {
    let before = CpuTime::of_this_thread();
    let config = job.config;
    let mut gathered = Gathered::new(index, config, job.start_ns);
    let schedule =
        config.rate_per_second.map(|rate| Schedule::new(rate, index, config.connections, clock::monotonic_ns()));
    let pinned = config.cpu.map_or(Ok(()), clock::pin_this_thread).map_err(std::io::Error::other);
    let left = pinned.and_then(|()| match stream {
        _ if config.connect_each => connect_each(job, to, &mut gathered, schedule),
        Some(stream) if schedule.is_none() && config.outstanding == 1 => closed(job, stream, &mut gathered),
        Some(stream) => pipelined(job, stream, &mut gathered, schedule),
        None => Ok(Left::default()),
    });
    let left = left.unwrap_or_else(|error| {
        // After the end the connection is shut down under a write that still waits.
        let early = !job.over(clock::monotonic_ns());
        Left { unfinished: 1, error: early.then(|| error.to_string()), ..Left::default() }
    });
    (gathered, left, CpuTime::of_this_thread().since(before))
}

fn outcome(
    config: &Config,
    threads: Vec<Ended>,
    started_realtime_ns: u64,
    elapsed_ns: u64,
    broke: bool,
    tcp: Option<TcpInfo>,
) -> Outcome {
    let (mut all, mut connects) = (Distribution::new(Precision::Fine), Distribution::new(Precision::Fine));
    let (mut cpu, mut left) = (CpuTime::default(), Left::default());
    let (mut slowest, mut series) = (Vec::new(), Vec::new());
    for (mut gathered, ended, spent) in threads {
        gathered.close_last(elapsed_ns);
        all.merge(&gathered.all);
        if let Some(of) = &gathered.connects {
            connects.merge(of);
        }
        slowest.append(&mut gathered.slowest);
        series.append(&mut gathered.series);
        cpu += spent;
        left.unfinished += ended.unfinished;
        left.never_sent += ended.never_sent;
        left.failed += ended.failed;
        left.error = left.error.or(ended.error);
    }
    slowest.sort_by_key(|s| std::cmp::Reverse(s.latency_ns));
    slowest.truncate(super::SLOWEST);
    series.sort_by_key(|i| (i.start_ns, i.connection));
    let transactions = all.n();
    Outcome {
        started_realtime_ns,
        elapsed_ns,
        transactions,
        transactions_per_second: if elapsed_ns == 0 { 0.0 } else { transactions as f64 * 1e9 / elapsed_ns as f64 },
        unfinished: left.unfinished,
        never_sent: left.never_sent,
        failed: left.failed,
        latency: DurationSummary::of(&all).unwrap_or_default(),
        connect: config.connect_each.then(|| DurationSummary::of(&connects).unwrap_or_default()),
        latency_buckets_ns: all.values().collect(),
        slowest,
        series,
        cpu,
        cpu_per_transaction_ns: cpu.total_ns().checked_div(transactions),
        tcp,
        interrupted: left.error.or(broke.then(|| "stopped before its time".to_owned())),
    }
}
