//! The client's side of a flow of datagrams.

use std::net::{SocketAddr, UdpSocket};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use clock::{Instant, Nanos, Realtime};

use super::flow::{Arrived, Header, HeaderKind, receive, send};
use super::{Config, Direction, Outcome, Received, Report, Sent};
use crate::channel::Channel;
use crate::control::{self, REPORT_LIMIT, Ready, Request, STEP, UdpRequest, Workload};
use crate::error::Error;
use crate::options::SocketOptions;
use crate::progress::{LAST_WORD, Progress, ended_early};
use crate::sample::rate;
use crate::stop::{Stop, attended};
use crate::target::Target;
use crate::timing::{self, CpuTime};
use crate::wire;

/// A flow that the server has opened: the connection it was asked on, the socket, the server's
/// answer, and the round trip that asking took.
pub(crate) struct Opened {
    pub control: Channel,
    pub socket: UdpSocket,
    pub ready: Ready,
    pub round_trip: Nanos,
    /// The first datagram of a flow down, where it overtook the server's answer: it says as well
    /// that the flow is open.
    pub early: Option<Arrived>,
}

/// Asks for a UDP workload and opens its flow.
pub(crate) fn open(target: &Target, request: &Request, stop: &Stop) -> Result<Opened, Error> {
    let Target { server, local, options, .. } = target;
    let (server, local) = (*server, *local);
    // The control connection is not measured: it takes no options.
    let (control, ready) = control::ask(target, &SocketOptions::default(), request, stop)?;
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
        if stop.asked() {
            return Err(Error::Stopped);
        }
        let began = timing::now();
        Header { kind: HeaderKind::Open, number: ready.session, sent_monotonic: began }.emit(&mut opening);
        socket.send(&opening).ok();
        while let Ok(length) = socket.recv(&mut buffer) {
            let arrived = timing::now();
            let (round_trip, early) = match Header::parse(&buffer[..length]) {
                Ok(Header { kind: HeaderKind::Open, number, sent_monotonic }) if number == ready.session => {
                    (arrived.saturating_since(sent_monotonic), None)
                }
                Ok(header @ Header { kind: HeaderKind::Data, .. }) => {
                    (arrived.saturating_since(began), Some(Arrived { header, length, at: arrived }))
                }
                _ => continue,
            };
            return Ok(Opened { control, socket, ready, round_trip, early });
        }
    }
    Err(Error::Gone { peer: server, during: "opening a UDP flow (is UDP let through on that port?)" })
}

/// Waits for what is still on its way: three round trips, and at least 0.3 s.
pub(crate) fn wait_for_last(round_trip: Nanos) {
    let three = Nanos(round_trip.0.saturating_mul(3));
    std::thread::sleep(three.clamp(Nanos::from_millis(300), Nanos::from_secs(10)).into());
}

/// Sends (or lets the server send) the datagrams, and counts what became of them. `progress` is
/// called every 100 ms; where it breaks, the flow ends.
///
/// # Errors
/// [`Error::Config`] before anything is sent; [`Error::Connect`], [`Error::Refused`],
/// [`Error::Busy`] and [`Error::Gone`] until datagrams flow; [`Error::Stopped`] where `progress`
/// breaks before that. Where the server goes away in the
/// middle, what a client received is in the outcome; of what a client sent the server alone knows
/// what became, and it is [`Error::Ended`].
pub fn run(config: &Config, progress: &mut dyn FnMut(Progress<'_>) -> ControlFlow<()>) -> Result<Outcome, Error> {
    config.target.options.validate()?;
    if !(Header::BYTES as u32..=65_507).contains(&config.datagram_bytes) {
        return Err(Error::Config(format!(
            "a datagram has {} to 65507 bytes, not {}",
            Header::BYTES,
            config.datagram_bytes
        )));
    }
    if config.duration == Nanos::ZERO {
        return Err(Error::Config("a duration is needed".into()));
    }
    let down = config.direction == Direction::Down;
    let request = Request {
        token: config.target.token.clone(),
        pass: None,
        options: config.target.options.clone(),
        duration: config.duration,
        workload: Workload::Udp(UdpRequest {
            down,
            datagram_bytes: config.datagram_bytes,
            bits_per_second: config.bits_per_second,
            burst: config.burst,
            interval: config.interval,
        }),
    };
    let asked = Stop::new()?;
    let opened = attended(progress, &asked, || open(&config.target, &request, &asked))?;
    let shared_clock = !opened.ready.boot_id.is_empty() && opened.ready.boot_id == control::boot_id();
    let started_realtime = timing::realtime();
    let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
    let start = timing::now();
    let until = start.after(config.duration);
    let (mut broke, mut gone) = (false, false);
    let mine = std::thread::scope(|scope| {
        let (stop, done, socket, early) = (&stop, &done, &opened.socket, opened.early);
        let worker = std::thread::Builder::new().name("udp".into()).spawn_scoped(scope, move || {
            let before = CpuTime::of_this_thread();
            if let Some(cpu) = config.cpu {
                timing::pin_this_thread(cpu)?;
            }
            let failed = Error::io("carrying datagrams");
            let report = if down {
                let received = receive(socket, early, shared_clock, config.interval, stop, done).map_err(failed)?;
                Report::Received(Box::new(received), CpuTime::of_this_thread().since(before))
            } else {
                let (bytes, rate) = (config.datagram_bytes, (config.bits_per_second, config.burst));
                let sent = send(socket, bytes, rate, until, stop, done).map_err(failed)?;
                Report::Sent(sent, CpuTime::of_this_thread().since(before))
            };
            Ok::<_, Error>(report)
        });
        let worker = worker.map_err(Error::io("starting the flow's thread"))?;
        let interval = config.interval.max(Nanos::from_millis(1));
        let mut next = start.after(interval);
        loop {
            let now = timing::now();
            if now >= until || broke || gone || worker.is_finished() {
                break;
            }
            // Before the client's end the server has nothing to say: it ends, or is gone.
            let wake = until.min(now.after(Nanos::from_millis(100)));
            gone = timing::readable_before(opened.control.stream(), wake).unwrap_or(true);
            let now = timing::now();
            let elapsed = now.saturating_since(start);
            let told = if now >= next {
                next = now.after(interval);
                Progress::Transactions { elapsed, done: done.load(Ordering::Relaxed) }
            } else {
                Progress::Tick { elapsed }
            };
            broke = progress(told).is_break();
        }
        if down && !gone {
            // The server stops when it sees this, and what it sent until then is still taken.
            opened.control.end_writing();
            wait_for_last(opened.round_trip);
        }
        stop.store(true, Ordering::Relaxed);
        worker.join().map_err(|_| Error::Config("the flow's thread panicked".into()))?
    })?;
    if !down && !gone {
        wait_for_last(opened.round_trip);
        opened.control.end_writing();
    }
    let deadline = timing::now().after(if broke { LAST_WORD } else { STEP });
    let report = || Ok(wire::read_json(&opened.control, REPORT_LIMIT, "the server's report", deadline, &asked));
    let theirs = if broke { report() } else { attended(progress, &asked, report) }?;
    let theirs = match (theirs, &mine) {
        (Err(wire::ReadError::Gone), Report::Received(received, _)) => {
            gone = true;
            Report::Sent(seen_of(received, config), CpuTime::default())
        }
        (Err(wire::ReadError::Gone), Report::Sent(..)) if gone => {
            return Err(Error::Ended { peer: config.target.server });
        }
        (theirs, _) => theirs.map_err(|e| e.into_error(config.target.server, "reporting its side at the end"))?,
    };
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
        // The server cannot know which clock the datagrams carry.
        (received.one_way, received.impossible_delays) = (None, 0);
        received.one_way_buckets.clear();
        for interval in &mut received.series {
            (interval.mean_delay, interval.max_delay) = (None, None);
        }
    }
    let interrupted = ended_early(config.target.server, gone, broke);
    Ok(outcome(config, started_realtime, sent, *received, (sender_cpu, receiver_cpu), interrupted))
}

/// What a server that went away has sent at least: what its numbers say.
fn seen_of(received: &Received, config: &Config) -> Sent {
    let datagrams = received.counts.expected;
    Sent { datagrams, bytes: datagrams * u64::from(config.datagram_bytes), elapsed: received.elapsed, not_sent: 0 }
}

fn outcome(
    config: &Config,
    started_realtime: Instant<Realtime>,
    sent: Sent,
    received: Received,
    (sender_cpu, receiver_cpu): (CpuTime, CpuTime),
    interrupted: Option<String>,
) -> Outcome {
    let mut datagrams = received.counts;
    // The receiver does not know of those that were lost after the last one it saw.
    datagrams.expected = sent.datagrams.max(datagrams.expected);
    datagrams.lost = datagrams.expected - datagrams.received;
    let elapsed = received.elapsed;
    Outcome {
        started_realtime,
        elapsed: sent.elapsed,
        sent: sent.datagrams,
        sent_bytes: sent.bytes,
        not_sent: sent.not_sent,
        datagrams,
        received_bytes: received.bytes,
        goodput_bits_per_second: rate(received.bytes, elapsed),
        one_way_delay: received.one_way,
        one_way_delay_buckets: received.one_way_buckets,
        impossible_delays: received.impossible_delays,
        series: received.series,
        sender_cpu,
        receiver_cpu,
        socket_options: config.target.options.clone(),
        interrupted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};

    /// A server of which the first datagram of the flow arrives before its answer to the opening.
    #[test]
    fn data_that_overtakes_the_answer_is_received() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let flow = UdpSocket::bind(address).unwrap();
        let server = std::thread::spawn(move || {
            let (mut control, _) = listener.accept().unwrap();
            let channel = Channel::plain(control.try_clone().unwrap());
            let mut asked = [0; wire::OPENING_BYTES];
            control.read_exact(&mut asked).unwrap();
            let mut length = [0; 4];
            control.read_exact(&mut length).unwrap();
            control.read_exact(&mut vec![0; u32::from_be_bytes(length) as usize]).unwrap();
            let ready = control::Answer::Ready(Ready { session: 7, ..Ready::default() });
            wire::write_json(&channel, &ready).unwrap();
            let mut opening = [0; 100];
            let (length, client) = flow.recv_from(&mut opening).unwrap();
            for number in 1..=3 {
                let mut bytes = [0; 24];
                Header { kind: HeaderKind::Data, number, sent_monotonic: timing::now() }.emit(&mut bytes);
                flow.send_to(&bytes, client).unwrap();
                if number == 1 {
                    flow.send_to(&opening[..length], client).unwrap();
                }
            }
            // The client is done.
            assert_eq!(control.read(&mut [0]).unwrap(), 0);
            let sent = Sent { datagrams: 3, bytes: 72, ..Sent::default() };
            wire::write_json(&channel, &Report::Sent(sent, CpuTime::default())).unwrap();
            control.flush().unwrap();
        });
        let config = Config { direction: Direction::Down, duration: Nanos::from_millis(200), ..Config::new(address) };
        let outcome = run(&config, &mut |_| ControlFlow::Continue(())).unwrap();
        server.join().unwrap();
        assert_eq!((outcome.datagrams.received, outcome.datagrams.lost), (3, 0), "{:?}", outcome.datagrams);
        assert_eq!(outcome.received_bytes, 72);
    }
}
