//! What tracing costs a stream: the throughput of loopback streams of 1 KiB and 16 KiB sends, traced in several ways, as ratios to
//! no tracer within the same block, with bootstrap intervals of the median.
//!
//! `overhead [SECONDS] [--check]`: how long to measure each size (default 60); `--check` exits with status 1 where a bar is missed.
//! Build with `--release`; run alone on the machine.
//!
//! A block is every way once, in random order, a slice of 80 ms each, all on one connection. A tracer that ends leaves the connection as it found it. The writer
//! has one CPU; the reader and the tracer's poller share the other: there the poller takes time from the reader, which has some to
//! spare, and not from the sends that are timed. The congestion control is cubic, which does not pace. "No tracer" is there twice
//! (A/A): the interval of the second against the first has to hold 0. Tracers start before a slice and end after it, outside of
//! what is timed, and after a warm-up of the slice's own; where there is none, one is loaded and dropped all the same.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::num::NonZeroU32;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use model::{Ratio, Sampling};
use trace::{BackendChoice, Config, Target, Tracer};

const SLICE: Duration = Duration::from_millis(80);
const WARM_UP: Duration = Duration::from_millis(20);
const WRITER: usize = 0;
const READER: usize = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    None,
    Again,
    OtherFlows,
    Sampled,
    Floor,
    Every,
    Tracepoints,
}

const WAYS: [(Way, &str); 7] = [
    (Way::None, "no tracer"),
    (Way::Again, "no tracer, again (A/A)"),
    (Way::OtherFlows, "tracer on, other flows"),
    (Way::Sampled, "sampled 1/100"),
    (Way::Floor, "floor: armed, callback returns at once"),
    (Way::Every, "every send"),
    (Way::Tracepoints, "every send, by tracepoints"),
];

fn config(way: Way, port: u16) -> Option<Config> {
    let target = |port| Target { ports: vec![port], ..Target::default() };
    let hundred = Ratio(NonZeroU32::new(100).expect("not zero"));
    let of = |target, sampling, backend| {
        Some(Config { target, sampling, backend, max_connections: 64, ..Config::default() })
    };
    match way {
        Way::None | Way::Again => None,
        Way::OtherFlows | Way::Floor => of(target(1), Sampling::Every, BackendChoice::Timestamping),
        Way::Sampled => of(target(port), Sampling::Windows(hundred), BackendChoice::Timestamping),
        Way::Every => of(target(port), Sampling::Every, BackendChoice::Timestamping),
        Way::Tracepoints => of(target(port), Sampling::Every, BackendChoice::Tracepoints),
    }
}

/// Binds the calling thread, and the threads it starts from now on, to one CPU.
fn pin(cpu: usize) {
    // SAFETY: the set is plain data, and the call reads one.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &raw const set);
    }
}

/// A network namespace of its own with a loopback, for the process.
fn own_network() {
    // SAFETY: unshare changes the calling thread, and the threads it starts from now on.
    assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNET) }, 0, "needs root");
    let up = std::process::Command::new("ip").args(["link", "set", "lo", "up"]).status().expect("ip");
    assert!(up.success());
}

/// Chooses cubic: the machine's default may pace. By the socket, as a namespace's default must be one that anybody may choose.
fn unpaced(socket: &TcpStream) {
    let (name, fd) = (b"cubic", std::os::fd::AsRawFd::as_raw_fd(socket));
    // SAFETY: the option takes a name of the given length.
    let done = unsafe { libc::setsockopt(fd, libc::IPPROTO_TCP, libc::TCP_CONGESTION, name.as_ptr().cast(), 5) };
    assert_eq!(done, 0, "cubic: {}", std::io::Error::last_os_error());
}

/// A connection whose bytes a thread reads away.
struct Stream {
    client: TcpStream,
    port: u16,
}

impl Stream {
    fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
        let port = listener.local_addr().expect("address").port();
        let client = TcpStream::connect(("127.0.0.1", port)).expect("connect");
        let (mut server, _) = listener.accept().expect("accept");
        client.set_nodelay(true).expect("nodelay");
        unpaced(&client);
        std::thread::spawn(move || {
            pin(READER);
            let mut buffer = vec![0; 1 << 18];
            while server.read(&mut buffer).is_ok_and(|n| n > 0) {}
        });
        Self { client, port }
    }

    /// Bytes a second over `length`.
    fn write(&mut self, buffer: &[u8], length: Duration) -> f64 {
        let (begin, mut sent) = (Instant::now(), 0u64);
        loop {
            for _ in 0..32 {
                self.client.write_all(buffer).expect("write");
                sent += buffer.len() as u64;
            }
            let passed = begin.elapsed();
            if passed >= length {
                return sent as f64 / passed.as_secs_f64();
            }
        }
    }
}

/// Bytes a second of one slice, traced in this way.
fn slice(stream: &mut Stream, buffer: &[u8], way: Way) -> f64 {
    pin(READER);
    let loaded = config(way, stream.port).or_else(|| config(Way::OtherFlows, stream.port)).expect("a way to trace");
    let tracer = Tracer::start(&loaded).expect("start");
    let tracer = if config(way, 0).is_some() {
        Some(tracer)
    } else {
        tracer.finish(&mut |_| {}).expect("finish");
        None
    };
    let stop = Arc::new(AtomicBool::new(false));
    if way == Way::Floor {
        // A tracer that is dropped rather than finished leaves its sockets armed: the callbacks then go to a program that does not
        // know them and returns.
        drop(config(Way::Every, stream.port).map(|c| Tracer::start(&c).expect("start")));
    }
    let polling = tracer.map(|mut tracer| {
        let stop = Arc::clone(&stop);
        std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                tracer.poll(Duration::from_millis(20), &mut |event| drop(std::hint::black_box(event))).expect("poll");
            }
            tracer
        })
    });
    pin(WRITER);
    stream.write(buffer, WARM_UP);
    let rate = stream.write(buffer, SLICE);
    stop.store(true, Ordering::Relaxed);
    if let Some(thread) = polling {
        thread.join().expect("poll").finish(&mut |_| {}).expect("finish");
    }
    if way == Way::Floor {
        let disarming = config(Way::Every, stream.port).map(|c| Tracer::start(&c).expect("start"));
        disarming.map(|tracer| tracer.finish(&mut |_| {}).expect("finish"));
    }
    rate
}

struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n as u64) as usize
    }
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    if values.len() % 2 == 1 { values[half] } else { f64::midpoint(values[half - 1], values[half]) }
}

/// The median, and its 95 % interval by the percentiles of 2,000 resamples.
fn interval(values: &[f64], random: &mut Random) -> (f64, f64, f64) {
    let mut medians: Vec<f64> = (0..2_000)
        .map(|_| median(&mut (0..values.len()).map(|_| values[random.below(values.len())]).collect::<Vec<_>>()))
        .collect();
    medians.sort_by(f64::total_cmp);
    (median(&mut values.to_vec()), medians[50], medians[1949])
}

/// Prints one size's table; gives the bars that were missed.
fn table(size: usize, blocks: &[[f64; WAYS.len()]], random: &mut Random) -> Vec<String> {
    let base = median(&mut blocks.iter().map(|block| block[0]).collect::<Vec<_>>());
    println!("{size} byte sends, n = {} blocks, without a tracer {:.2} Gbit/s (median)", blocks.len(), base * 8e-9);
    let against = |way: usize, to: usize| blocks.iter().map(|b| 100.0 * (b[way] / b[to] - 1.0)).collect::<Vec<_>>();
    let row = |name: &str, (middle, low, high): (f64, f64, f64), ns: Option<f64>| {
        let ns = ns.map_or(String::new(), |ns| format!("   {ns:+7.1} ns a send"));
        println!("  {name:<40} {middle:+6.2} %   95 % interval {low:+6.2} to {high:+6.2} %{ns}");
    };
    let mut missed = Vec::new();
    for (number, (way, name)) in WAYS.iter().enumerate().skip(1) {
        let (middle, low, high) = interval(&against(number, 0), random);
        let a_send = size as f64 / base * 1e9;
        row(name, (middle, low, high), Some(a_send * (1.0 / (1.0 + middle / 100.0) - 1.0)));
        let bar = match way {
            Way::Again if low > 0.0 || high < 0.0 => "does not hold 0: this run cannot be trusted",
            Way::OtherFlows if low < -1.0 || high > 1.0 => "is not within 1 %",
            Way::Sampled if middle < -1.5 => "costs more than 1.5 %",
            _ => continue,
        };
        missed.push(format!("{size} byte sends: {name} {bar}"));
    }
    let at = |way| WAYS.iter().position(|(w, _)| *w == way).expect("in the list");
    let points = blocks.iter().map(|b| 100.0 * (b[at(Way::Every)] - b[at(Way::Floor)]) / b[0]).collect::<Vec<_>>();
    let above = interval(&points, random);
    row("every send, against the floor (points)", above, None);
    if above.0 < -2.0 {
        missed.push(format!("{size} byte sends: every send costs more than two points above the floor"));
    }
    missed
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let check = args.iter().any(|arg| arg == "--check");
    let seconds: u64 = args.iter().find_map(|arg| arg.parse().ok()).unwrap_or(60);
    let mut random = Random(0x9e37_79b9_7f4a_7c15 ^ u64::from(std::process::id()));
    own_network();
    let mut missed = Vec::new();
    for size in [1 << 10, 16 << 10] {
        let buffer = vec![0u8; size];
        let mut stream = Stream::open();
        pin(WRITER);
        stream.write(&buffer, Duration::from_millis(500));
        let mut blocks = Vec::new();
        let end = Instant::now() + Duration::from_secs(seconds);
        while Instant::now() < end {
            let mut order: Vec<usize> = (0..WAYS.len()).collect();
            for i in (1..order.len()).rev() {
                order.swap(i, random.below(i + 1));
            }
            let mut block = [0.0; WAYS.len()];
            for way in order {
                block[way] = slice(&mut stream, &buffer, WAYS[way].0);
            }
            blocks.push(block);
        }
        missed.extend(table(size, &blocks, &mut random));
    }
    for bar in &missed {
        println!("missed: {bar}");
    }
    ExitCode::from(u8::from(check && !missed.is_empty()))
}
