//! An agent with made-up series that grow at every look.

#![allow(dead_code)]

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant as WallInstant, SystemTime, UNIX_EPOCH};

use agent::{Agent, Observed};
use record::dns::Answered;
use record::histogram::{Series, SeriesKey};
use record::table::Record as _;
use record::{
    Arrival, Connect, ConnectStamps, Connection, ConnectionId, ConnectionTotals, Coverage, Direction, EndedBy, Ending,
    Event, Head, Instant, IpPrefix, Leg, Lost, Nanos, Opening, Outcome, Owner, Provenance, Question, Receive, Says,
    Send, SeqNumber, SpanId, Stamps, TraceContext, TraceId, WaitReason,
};

/// Durations that each look adds to each series, in order: from 100 µs to 100 ms, evenly by ratio.
pub fn durations() -> Vec<Nanos> {
    (0..1000).map(|i| Nanos((100_000.0 * 1000_f64.powf(f64::from(i) / 999.0)) as u64)).collect()
}

/// What a tracer says after so many looks, of so many peers.
pub fn observed(looks: u64, peers: u32) -> Observed {
    let once: Vec<_> = durations();
    let mut histogram = record::histogram::Histogram::default();
    histogram.extend(once);
    for n in histogram.buckets.values_mut() {
        *n *= looks;
    }
    histogram.sum = Nanos(histogram.sum.0 * looks);
    let series = (0..peers).map(|peer| Series {
        key: SeriesKey {
            peer: Some(IpPrefix::new(std::net::Ipv4Addr::from_bits(0x0a00_0001 + peer).into(), 32)),
            cgroup: Some(1),
            ..SeriesKey::default()
        },
        legs: [Leg::Tcp, Leg::Qdisc, Leg::Network, Leg::Total].map(|leg| (leg, histogram.clone())).into(),
        sends: histogram.count(),
        bytes: 1_448 * histogram.count(),
        sent_segments: 100 * looks,
        retransmitted_segments: looks,
        retransmitted_for: [0, looks, 0],
        spurious_segments: looks,
        listen_drops: looks,
        round_trips: histogram.clone(),
        window_limited: Nanos::from_millis(looks),
        zero_windows: looks,
        dropped_segments: looks,
        waited: {
            let mut waited = [Nanos::ZERO; WaitReason::ALL.len()];
            waited[WaitReason::Nagle as usize] = Nanos::from_millis(40 * looks);
            waited
        },
        ..Series::default()
    });
    Observed {
        series: series.collect(),
        lost: Lost { slots_full: looks, ..Lost::default() },
        coverage: Coverage {
            followed: Nanos::from_secs(looks),
            armed: Nanos::from_secs(looks),
            bytes_written: 100 * looks,
            bytes_armed: 50 * looks,
        },
        kernel_memory_bytes: 14 << 20,
    }
}

/// What a tracer says of connections with the first peers: one in three is refused.
fn connections(looks: u64, peers: u32) -> impl Iterator<Item = Event> {
    let at = move |n: u64| Some(Instant::from_nanos(looks * 1_000_000 + n));
    (0..peers.min(3)).flat_map(move |peer| {
        let stamps = ConnectStamps { syn: at(0), established: at(200_000), ..ConnectStamps::default() };
        let established = Connect {
            remote: (std::net::Ipv4Addr::from_bits(0x0a00_0001 + peer), 443).into(),
            cgroup: Some(1),
            opening: Opening::Accepted,
            outcome: Outcome::Established,
            stamps,
            retries: 1,
            ..Connect::blank()
        };
        let accepted = Connect {
            stamps: ConnectStamps { accepted: at(300_000), ..stamps },
            ending: Some(Ending::Fin),
            ended_by: Some(EndedBy::Peer),
            ..established.clone()
        };
        let refused = Connect {
            opening: Opening::Connected,
            outcome: Outcome::Refused,
            stamps: ConnectStamps { syn: at(0), closed: at(90_000), ..ConnectStamps::default() },
            ..established.clone()
        };
        let set_up = |connect: &Connect| Event::SetUp(Box::new(connect.clone()));
        let events = [set_up(&established), set_up(&accepted)];
        let question = Question {
            server: "10.0.0.53:53".parse().unwrap(),
            cgroup: Some(1),
            took: Some(Nanos(2_000_000)),
            answered: Answered::Found,
            code: Some("NOERROR".into()),
            ends_lookup: true,
            ..Question::blank()
        };
        let over = [accepted, refused].map(|connect| Event::Connect(Box::new(connect)));
        events.into_iter().chain(over).chain([question.into()])
    })
}

/// The trace of every made-up request that is answered, and the span.
pub const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
pub const SPAN: &str = "b7ad6b7169203331";

/// What a tracer says of a connection with the first peers: a request that is answered after 20 ms,
/// and one that the connection ends before.
fn requests(looks: u64, peers: u32) -> impl Iterator<Item = Event> {
    let at = move |ms: u64| Instant::from_nanos((looks * 100 + ms) * 1_000_000);
    (0..peers.min(3)).flat_map(move |peer| {
        let connection = ConnectionId(looks * 10 + u64::from(peer));
        let send = |first: u32, ms: u64| {
            let stamps = Stamps { driver: Some(at(ms)), ack: Some(at(ms + 1)), ..Stamps::sent_at(at(ms)) };
            Event::Send(Send { connection, first_seq: SeqNumber(first), bytes: 10, stamps, ..Send::blank() })
        };
        let context = TraceContext {
            trace: TraceId::from_digits(TRACE.as_bytes()).unwrap(),
            span: SpanId::from_digits(SPAN.as_bytes()).unwrap(),
            sampled: true,
        };
        let head =
            |direction, says| Event::Head(Box::new(Head { connection, direction, first_seq: SeqNumber(1), says }));
        let [driver_rx, tcp_rx, ready, read] = [19, 19, 19, 20].map(|ms| Some(at(ms)));
        let first_seq = SeqNumber(1);
        [
            Event::Connection(Connection {
                id: connection,
                remote: (std::net::Ipv4Addr::from_bits(0x0a00_0001 + peer), 443).into(),
                opening: Opening::Connected,
                ..Connection::blank()
            }),
            send(1, 0),
            head(Direction::Sent, Says::Cut),
            head(Direction::Sent, Says::Trace(context)),
            head(Direction::Received, Says::Answer(200)),
            Event::Receive(Receive {
                connection,
                reader: Owner::default(),
                thread: None,
                first_seq,
                bytes: 30,
                segments: 1,
                stamps: Arrival { driver_rx, tcp_rx, ready, read },
                out_of_order: false,
                queued: 0,
                buffer: 0,
                buffer_used: 0,
            }),
            send(11, 30),
            Event::Closed { connection, totals: ConnectionTotals::default() },
        ]
    })
}

/// An agent at work in a thread.
pub struct AtWork {
    pub address: Option<SocketAddr>,
    over: Arc<AtomicBool>,
    looks: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl AtWork {
    pub fn start(config: &str, peers: u32) -> Self {
        Self::with(config, peers, |_| ())
    }

    /// The same with a changed configuration.
    pub fn with(config: &str, peers: u32, change: impl FnOnce(&mut agent::config::Config)) -> Self {
        let mut config = agent::config::parse("test", config).unwrap();
        change(&mut config);
        let provenance = Provenance { version: "0.1.0".into(), ..Provenance::blank() };
        let mut agent =
            Agent::open(config, "test-host", Path::new("/"), provenance, now_at(Instant::from_nanos(1))).unwrap();
        agent.start().unwrap();
        let address = agent.address();
        let (over, looks) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (ends, counted) = (over.clone(), looks.clone());
        let thread = std::thread::spawn(move || {
            let begun = WallInstant::now();
            let now = || Instant::from_nanos(begun.elapsed().as_nanos() as u64 + 1);
            while !ends.load(Ordering::Relaxed) {
                if agent.wait(Duration::from_millis(50)) {
                    let n = counted.fetch_add(1, Ordering::Relaxed) + 1;
                    let events = connections(n, peers).chain(requests(n, peers));
                    events.for_each(|event| agent.event(&event, now()));
                    agent.observe(observed(n, peers), now_at(now()));
                }
            }
            // Something of the last interval too, so that a run that began just now has histograms.
            let n = counted.fetch_add(1, Ordering::Relaxed) + 1;
            agent.finish(observed(n, peers), now_at(now()));
        });
        Self { address, over, looks, thread: Some(thread) }
    }

    pub fn looks(&self) -> u64 {
        self.looks.load(Ordering::Relaxed)
    }

    pub fn finish(mut self) -> u64 {
        self.over.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
        self.looks()
    }
}

/// A port of a server that is not there yet, or goes away for a while: below those that the kernel
/// gives to others meanwhile, and each time another one.
pub fn free_port() -> u16 {
    static GIVEN: AtomicU16 = AtomicU16::new(0);
    let first = 20_000 + (std::process::id() % 10_000) as u16;
    loop {
        let port = first + GIVEN.fetch_add(1, Ordering::Relaxed);
        assert!(port < 32_000, "no port is free");
        if std::net::TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// This moment, with the time of day that it is.
fn now_at(at: Instant<record::Monotonic>) -> agent::Now {
    let offset = unix_ns() as i64 - at.as_nanos() as i64;
    // It is not read at the same moment as the clock of the agent.
    let clock = record::ClockReading { realtime_offset_ns: offset, realtime_offset_error_ns: 1_000_000_000 };
    agent::Now { at, clock }
}

pub fn unix_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64
}

pub fn get(url: &str) -> String {
    match ureq::get(url).call() {
        Ok(mut answer) => answer.body_mut().with_config().limit(64 << 20).read_to_string().unwrap_or_default(),
        Err(_) => String::new(),
    }
}
