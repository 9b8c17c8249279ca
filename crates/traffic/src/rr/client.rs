//! The client's side of request and response.

use std::net::{Shutdown, SocketAddr, TcpStream};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};

use clock::{Instant, Nanos, Realtime};
use stats::{Distribution, DurationSummary, Precision};

use super::connections::{Job, Left, Schedule, closed, connect_each, pipelined};
use super::{Config, Gathered, Outcome};
use crate::channel::Channel;
use crate::control::{self, Request, Workload};
use crate::error::Error;
use crate::progress::{Progress, ended_early};
use crate::stop::{Stop, attended};
use crate::tcp_info::{TcpInfo, congestion_control};
use crate::timing::{self, CpuTime};

/// How long after the end an answer may still come.
const LAST_ANSWER: Nanos = Nanos::from_millis(50);

/// Carries out the transactions. `progress` is called with each interval, and every 100 ms; where
/// it breaks, they end.
///
/// # Errors
/// [`Error::Config`] before anything is sent; [`Error::Connect`], [`Error::Refused`],
/// [`Error::Busy`] and [`Error::Gone`] until transactions flow, and [`Error::Stopped`] where
/// `progress` breaks before that. After that a server that goes away is [`Outcome::interrupted`].
pub fn run(config: &Config, progress: &mut dyn FnMut(Progress<'_>) -> ControlFlow<()>) -> Result<Outcome, Error> {
    config.check()?;
    let request = Request {
        token: config.target.token.clone(),
        pass: None,
        options: config.target.options.clone(),
        duration: config.warm_up + config.duration,
        workload: if config.connect_each {
            Workload::Crr { exchange: config.exchange, at_once: config.connections }
        } else {
            Workload::Rr(config.exchange)
        },
    };
    let asked = if config.connect_each { 1 } else { config.connections };
    let (stop, done) = (Stop::new()?, AtomicU64::new(0));
    let ask = |_| control::ask(&config.target, &config.target.options, &request, &stop);
    let answered: Vec<_> = attended(progress, &stop, || (0..asked).map(ask).collect())?;
    let port = answered.last().map_or(0, |(_, ready)| ready.port);
    let streams: Vec<Channel> = answered.into_iter().map(|(stream, _)| stream).collect();
    let start = timing::now().after(config.warm_up);
    let started_realtime = timing::realtime().after(config.warm_up);
    let end = start.after(config.duration);
    let job = Job { config, start, end, stop: &stop, done: &done };
    let to = SocketAddr::new(config.target.server.ip(), port);
    let (mut broke, mut failure, mut gone, mut shown) = (false, None, false, Nanos::ZERO);
    let mut over = end;
    let threads: Vec<_> = std::thread::scope(|scope| {
        let mut handles = Vec::with_capacity(config.connections as usize);
        for index in 0..config.connections {
            if progress(Progress::Tick { elapsed: Nanos::ZERO }).is_break() {
                (broke, over) = (true, timing::now());
                stop.ask();
                break;
            }
            let (job, stream) = (&job, streams.get(index as usize).map(|channel| &**channel.stream()));
            let spawned = std::thread::Builder::new()
                .name(format!("rr-{index}"))
                .spawn_scoped(scope, move || thread(job, index, stream, to));
            match spawned {
                Ok(handle) => handles.push(handle),
                Err(source) => {
                    over = timing::now();
                    stop.ask();
                    failure = Some(Error::Io { doing: "starting a connection's thread", source });
                    break;
                }
            }
        }
        let interval = config.interval.max(Nanos::from_millis(1));
        let mut next = start.after(interval);
        let finished = || handles.iter().all(std::thread::ScopedJoinHandle::is_finished);
        // Reads have no time limit, so an answer that does not come is given up some time after the
        // end.
        while timing::now() < over.after(LAST_ANSWER) && !finished() {
            let now = timing::now();
            let wait = over.saturating_since(now).clamp(Nanos::from_millis(1), Nanos::from_millis(100));
            // A server that ends closes the connection that was asked on; each transaction has
            // another one.
            let control = streams.first().filter(|_| config.connect_each && over > now);
            match control.map(|stream| timing::readable_before(stream, now.after(wait))) {
                None => std::thread::sleep(wait.into()),
                Some(Ok(false)) => {}
                Some(_) => {
                    gone = true;
                    over = timing::now();
                    stop.ask();
                }
            }
            let now = timing::now();
            let elapsed = now.saturating_since(start);
            let told = if now >= next {
                next = now.after(interval);
                shown = elapsed;
                Progress::Transactions { elapsed, done: done.load(Ordering::Relaxed) }
            } else {
                Progress::Tick { elapsed }
            };
            if !broke && now < end && progress(told).is_break() {
                broke = true;
                over = now;
                stop.ask();
            }
        }
        stop.ask();
        if !finished() {
            for stream in &streams {
                stream.stream().shutdown(Shutdown::Both).ok();
            }
        }
        handles.into_iter().filter_map(|h| h.join().ok()).collect()
    });
    if let Some(error) = failure {
        return Err(error);
    }
    let elapsed = over.min(timing::now()).min(end).saturating_since(start);
    if !broke && elapsed.saturating_sub(shown) > Nanos::from_millis(1) {
        // The last interval; nothing is left to be broken off.
        let _ = progress(Progress::Transactions { elapsed, done: done.load(Ordering::Relaxed) });
    }
    let tcp = streams.first().filter(|_| !config.connect_each).and_then(|channel| TcpInfo::of(channel.stream()));
    let lasting = streams.first().filter(|_| !config.connect_each);
    let congestion = lasting.and_then(|channel| congestion_control(&**channel.stream()));
    let ended_early = ended_early(config.target.server, gone, broke);
    let outcome = outcome(config, threads, started_realtime, elapsed, ended_early, tcp);
    Ok(Outcome { congestion_control: congestion.or(outcome.congestion_control), ..outcome })
}

type Ended = (Gathered, Left, CpuTime);

/// One thread from its start to its end; an error that ends it early is in [`Left::error`].
fn thread(job: &Job<'_>, index: u32, stream: Option<&TcpStream>, to: SocketAddr) -> Ended {
    let before = CpuTime::of_this_thread();
    let config = job.config;
    let mut gathered = Gathered::new(index, config, job.start);
    let schedule = config.rate_per_second.map(|rate| Schedule::new(rate, index, config.connections, timing::now()));
    let pinned = config.cpu.map_or(Ok(()), timing::pin_this_thread).map_err(std::io::Error::other);
    let left = pinned.and_then(|()| match stream {
        _ if config.connect_each => connect_each(job, to, &mut gathered, schedule),
        Some(stream) if schedule.is_none() && config.outstanding == 1 => closed(job, stream, &mut gathered),
        Some(stream) => pipelined(job, stream, &mut gathered, schedule),
        None => Ok(Left::default()),
    });
    let left = left.unwrap_or_else(|error| {
        // After the end the connection is shut down under a write that still waits.
        let early = !job.over(timing::now());
        Left { unfinished: 1, error: early.then(|| why(&error, config.target.server)), ..Left::default() }
    });
    (gathered, left, CpuTime::of_this_thread().since(before))
}

/// What a connection's error means for the test.
fn why(error: &std::io::Error, server: SocketAddr) -> String {
    use std::io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    match error.kind() {
        BrokenPipe | ConnectionReset | UnexpectedEof => Error::Ended { peer: server }.to_string(),
        _ => format!("the connection to the server at {server}: {error}"),
    }
}

fn outcome(
    config: &Config,
    threads: Vec<Ended>,
    started_realtime: Instant<Realtime>,
    elapsed: Nanos,
    ended_early: Option<String>,
    tcp: Option<TcpInfo>,
) -> Outcome {
    let (mut all, mut connects) = (Distribution::new(Precision::Fine), Distribution::new(Precision::Fine));
    let (mut cpu, mut left) = (CpuTime::default(), Left::default());
    let (mut slowest, mut series) = (Vec::new(), Vec::new());
    for (mut gathered, ended, spent) in threads {
        gathered.close_last(elapsed);
        all.merge(&gathered.all);
        if let Some(of) = &gathered.connects {
            connects.merge(of);
        }
        slowest.append(&mut gathered.slowest);
        series.append(&mut gathered.series);
        cpu += spent;
        left.unfinished += ended.unfinished;
        left.waited = left.waited.max(ended.waited);
        left.never_sent += ended.never_sent;
        left.failed += ended.failed;
        left.error = left.error.or(ended.error);
        left.congestion_control = left.congestion_control.or(ended.congestion_control);
    }
    slowest.sort_by_key(|s| std::cmp::Reverse(s.latency));
    slowest.truncate(super::SLOWEST);
    series.sort_by_key(|i| (i.start, i.connection));
    let transactions = all.n();
    Outcome {
        started_realtime,
        elapsed,
        transactions,
        transactions_per_second: if elapsed == Nanos::ZERO { 0.0 } else { transactions as f64 / elapsed.as_secs_f64() },
        unfinished: left.unfinished,
        unfinished_waited: left.waited,
        never_sent: left.never_sent,
        failed: left.failed,
        latency: DurationSummary::of(&all).unwrap_or_default(),
        connect: config.connect_each.then(|| DurationSummary::of(&connects).unwrap_or_default()),
        latency_buckets: all.values().map(|(upper, n)| (Nanos(upper), n)).collect(),
        slowest,
        series,
        cpu,
        cpu_per_transaction: cpu.total().0.checked_div(transactions).map(Nanos),
        tcp,
        congestion_control: left.congestion_control,
        // A connection of many that failed is counted; a lasting one that failed ends the test.
        failure: left.error.clone().filter(|_| config.connect_each),
        socket_options: config.target.options.clone(),
        interrupted: left.error.filter(|_| !config.connect_each).or(ended_early),
    }
}
