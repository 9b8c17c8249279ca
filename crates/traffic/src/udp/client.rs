//! The client's side of a flow of datagrams.

use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use super::flow::{Header, HeaderKind, receive, send};
use super::{Config, Direction, Outcome, Received, Report, Sent};
use crate::clock::{self, CpuTime};
use crate::error::Error;
use crate::options::SocketOptions;
use crate::own::{self, REPORT_LIMIT, Ready, Request, STEP_NS, UdpRequest, Workload};
use crate::progress::Progress;
use crate::wire;

/// A flow that the server has opened: the connection it was asked on, the socket, the server's answer, and the round
/// trip that asking took.
pub(crate) struct Opened {
    pub control: TcpStream,
    pub socket: UdpSocket,
    pub ready: Ready,
    pub round_trip_ns: u64,
}

/// Asks for a UDP workload and opens its flow.
pub(crate) fn open(
    server: SocketAddr,
    local: Option<std::net::IpAddr>,
    options: &SocketOptions,
    request: &Request,
) -> Result<Opened, Error> {
    // The control connection is nobody's measurement: it takes no options.
    let (control, ready) = own::ask(server, local, &SocketOptions::default(), request)?;
    let any: std::net::IpAddr =
        if server.is_ipv4() { std::net::Ipv4Addr::UNSPECIFIED.into() } else { std::net::Ipv6Addr::UNSPECIFIED.into() };
    let address = SocketAddr::new(local.unwrap_or(any), 0);
    let socket = UdpSocket::bind(address).map_err(|source| Error::Listen { address, source })?;
    options.apply_connected(&socket, server.ip())?;
    socket.connect(server).map_err(|source| Error::Connect { peer: server, source })?;
    socket.set_read_timeout(Some(Duration::from_millis(200))).map_err(Error::io("opening a UDP flow"))?;
    let mut opening = [0; Header::BYTES];
    let mut buffer = [0; 65_536];
    // Either way may lose one.
    for _ in 0..25 {
        let began = clock::monotonic_ns();
        Header { kind: HeaderKind::Open, number: ready.session, sent_monotonic_ns: began }.emit(&mut opening);
        socket.send(&opening).ok();
        while let Ok(length) = socket.recv(&mut buffer) {
            if let Ok(Header { kind: HeaderKind::Open, number, sent_monotonic_ns }) = Header::parse(&buffer[..length])
                && number == ready.session
            {
                let round_trip_ns = clock::monotonic_ns().saturating_sub(sent_monotonic_ns);
                return Ok(Opened { control, socket, ready, round_trip_ns });
            }
        }
    }
    Err(Error::Gone { peer: server, during: "opening a UDP flow (is UDP let through on that port?)" })
}

/// Waits for what is still on its way: three round trips, and at least 0.3 s.
pub(crate) fn wait_for_last(round_trip_ns: u64) {
    std::thread::sleep(Duration::from_nanos(round_trip_ns.saturating_mul(3).clamp(300_000_000, 10_000_000_000)));
}

/// Sends (or lets the server send) the datagrams, and counts what became of them. `progress` is told every 100 ms; where
/// it breaks, the flow ends.
///
/// # Errors
/// [`Error::Config`] before anything is sent; [`Error::Connect`], [`Error::Refused`], [`Error::Busy`] and [`Error::Gone`]
/// until datagrams flow, and [`Error::Gone`] where the server does not tell its side at the end.
pub fn run(config: &Config, progress: &mut dyn FnMut(Progress<'_>) -> ControlFlow<()>) -> Result<Outcome, Error> {
    config.target.options.validate()?;
    if !(Header::BYTES as u32..=65_507).contains(&config.datagram_bytes) {
        return Err(Error::Config(format!(
            "a datagram has {} to 65507 bytes, not {}",
            Header::BYTES,
            config.datagram_bytes
        )));
    }
    if config.duration_ns == 0 {
        return Err(Error::Config("a duration is needed".into()));
    }
    let down = config.direction == Direction::Down;
    let opened = open(
        config.target.server,
        config.target.local,
        &config.target.options,
        &Request {
            token: config.target.token.clone(),
            options: config.target.options.clone(),
            duration_ns: config.duration_ns,
            workload: Workload::Udp(UdpRequest {
                down,
                datagram_bytes: config.datagram_bytes,
                bits_per_second: config.bits_per_second,
                interval_ns: config.interval_ns,
            }),
        },
    )?;
    let shared_clock = !opened.ready.boot_id.is_empty() && opened.ready.boot_id == own::boot_id();
    let started_realtime_ns = clock::realtime_ns();
    let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
    let start = clock::monotonic_ns();
    let until = start.saturating_add(config.duration_ns);
    let mut broke = false;
    let mine = std::thread::scope(|scope| {
        let (stop, done, socket) = (&stop, &done, &opened.socket);
        let worker = std::thread::Builder::new().name("udp".into()).spawn_scoped(scope, move || {
            let before = CpuTime::of_this_thread();
            if let Some(cpu) = config.cpu {
                clock::pin_this_thread(cpu)?;
            }
            let failed = Error::io("carrying datagrams");
            let report = if down {
                let received = receive(socket, shared_clock, config.interval_ns, stop, done).map_err(failed)?;
                Report::Received(Box::new(received), CpuTime::of_this_thread().since(before))
            } else {
                let (bytes, rate) = (config.datagram_bytes, config.bits_per_second);
                let sent = send(socket, bytes, rate, until, stop, done).map_err(failed)?;
                Report::Sent(sent, CpuTime::of_this_thread().since(before))
            };
            Ok::<_, Error>(report)
        });
        let worker = worker.map_err(Error::io("starting the flow's thread"))?;
        let mut next = start.saturating_add(config.interval_ns.max(1_000_000));
        loop {
            let now = clock::monotonic_ns();
            if now >= until || broke || worker.is_finished() {
                break;
            }
            std::thread::sleep(Duration::from_nanos((until - now).min(100_000_000)));
            let now = clock::monotonic_ns();
            let elapsed_ns = now - start;
            let told = if now >= next {
                next = now.saturating_add(config.interval_ns.max(1_000_000));
                Progress::Transactions { elapsed_ns, done: done.load(Ordering::Relaxed) }
            } else {
                Progress::Tick { elapsed_ns }
            };
            broke = progress(told).is_break();
        }
        if down {
            // The server stops when it sees this, and what it sent until then is still taken.
            opened.control.shutdown(std::net::Shutdown::Write).ok();
            wait_for_last(opened.round_trip_ns);
        }
        stop.store(true, Ordering::Relaxed);
        worker.join().map_err(|_| Error::Config("the flow's thread panicked".into()))?
    })?;
    if !down {
        wait_for_last(opened.round_trip_ns);
        opened.control.shutdown(std::net::Shutdown::Write).ok();
    }
    let never = AtomicBool::new(false);
    let deadline = clock::monotonic_ns() + STEP_NS;
    let theirs: Report = wire::read_json(&opened.control, REPORT_LIMIT, "the server's report", deadline, &never)
        .map_err(|e| e.into_error(config.target.server, "telling its side at the end"))?;
    let (sent, sender_cpu, mut received, receiver_cpu) = match (mine, theirs) {
        (Report::Sent(s, sc), Report::Received(r, rc)) | (Report::Received(r, rc), Report::Sent(s, sc)) => {
            (s, sc, r, rc)
        }
        _ => {
            return Err(Error::Wire {
                peer: config.target.server,
                source: crate::WireError::Malformed {
                    what: "the server's report",
                    why: "it is of the same side".into(),
                },
            });
        }
    };
    if !shared_clock {
        // The server cannot know whose clock the datagrams carry.
        (received.one_way, received.impossible_delays) = (None, 0);
        received.one_way_buckets_ns.clear();
        for interval in &mut received.series {
            (interval.mean_delay_ns, interval.max_delay_ns) = (None, None);
        }
    }
    Ok(outcome(started_realtime_ns, sent, *received, (sender_cpu, receiver_cpu), broke))
}

fn outcome(
    started_realtime_ns: u64,
    sent: Sent,
    received: Received,
    (sender_cpu, receiver_cpu): (CpuTime, CpuTime),
    broke: bool,
) -> Outcome {
    let mut datagrams = received.counts;
    // The receiver does not know of those that were lost after the last one it saw.
    datagrams.expected = sent.datagrams.max(datagrams.expected);
    datagrams.lost = datagrams.expected - datagrams.received;
    let elapsed = received.elapsed_ns;
    Outcome {
        started_realtime_ns,
        elapsed_ns: sent.elapsed_ns,
        sent: sent.datagrams,
        sent_bytes: sent.bytes,
        not_sent: sent.not_sent,
        datagrams,
        received_bytes: received.bytes,
        goodput_bits_per_second: if elapsed == 0 { 0.0 } else { received.bytes as f64 * 8e9 / elapsed as f64 },
        one_way_delay: received.one_way,
        one_way_delay_buckets_ns: received.one_way_buckets_ns,
        impossible_delays: received.impossible_delays,
        series: received.series,
        sender_cpu,
        receiver_cpu,
        interrupted: broke.then(|| "stopped before its time".to_owned()),
    }
}
