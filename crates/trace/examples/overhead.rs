//! What tracing costs a stream: the throughput of loopback streams of 1 KiB and 16 KiB sends, traced in several ways, in slices of
//! some 60 ms that alternate in random order, as ratios to no tracer with bootstrap intervals of the median.
//!
//! `overhead [SECONDS]`: how long to measure each size (default 40). Build with `--release`.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use model::{Ratio, Sampling};
use trace::{BackendChoice, Config, Target, Tracer};

const SLICE: Duration = Duration::from_millis(60);
const WARM_UP: Duration = Duration::from_millis(40);

/// The ways of tracing, with what they are measured against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    None,
    OtherFlows,
    Sampled,
    Every,
    Floor,
    Tracepoints,
}

const WAYS: [(Way, &str); 6] = [
    (Way::None, "no tracer"),
    (Way::OtherFlows, "tracer on, other flows"),
    (Way::Sampled, "sampled 1/100"),
    (Way::Every, "every send"),
    (Way::Floor, "floor: armed, callback returns at once"),
    (Way::Tracepoints, "every send, by tracepoints"),
];

fn config(way: Way, port: u16) -> Option<Config> {
    let target = |port| Target { ports: vec![port], ..Target::default() };
    let hundred = Ratio(NonZeroU32::new(100).expect("not zero"));
    let of = |target, sampling| Some(Config { target, sampling, ..Config::default() });
    match way {
        Way::None => None,
        Way::OtherFlows => of(target(1), Sampling::Every),
        Way::Sampled => of(target(port), Sampling::Windows(hundred)),
        Way::Every => of(target(port), Sampling::Every),
        Way::Floor => of(target(1), Sampling::Every),
        Way::Tracepoints => {
            Some(Config { target: target(port), backend: BackendChoice::Tracepoints, ..Config::default() })
        }
    }
}

/// Binds the calling thread to one CPU.
fn pin(cpu: usize) {
    // SAFETY: the set is plain data, and the call reads one.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &raw const set);
    }
}

/// A network namespace of its own with a loopback and a congestion control that does not pace, for the process.
fn own_network() {
    // SAFETY: unshare changes the calling thread, and the threads it starts from now on.
    assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNET) }, 0, "needs root");
    let up = std::process::Command::new("ip").args(["link", "set", "lo", "up"]).status().expect("ip");
    assert!(up.success());
    std::fs::write("/proc/sys/net/ipv4/tcp_congestion_control", "cubic").expect("cubic");
}

/// Bytes a second that a stream carries for one slice.
fn slice(client: &mut TcpStream, size: usize, tracer: &mut Option<Tracer>) -> f64 {
    let buffer = vec![0u8; size];
    let stop = Arc::new(AtomicBool::new(false));
    let polling = tracer.take().map(|mut tracer| {
        let stop = Arc::clone(&stop);
        std::thread::spawn(move || {
            // The tracer reads beside the reader of the stream, not on the CPU whose sends are timed.
            pin(1);
            while !stop.load(Ordering::Relaxed) {
                tracer.poll(Duration::from_millis(5), &mut |event| drop(std::hint::black_box(event))).expect("poll");
            }
            tracer
        })
    });
    let write = |client: &mut TcpStream, length: Duration| {
        let (begin, mut sent) = (Instant::now(), 0u64);
        loop {
            for _ in 0..32 {
                client.write_all(&buffer).expect("write");
                sent += size as u64;
            }
            let passed = begin.elapsed();
            if passed >= length {
                return sent as f64 / passed.as_secs_f64();
            }
        }
    };
    pin(0);
    write(client, WARM_UP);
    let rate = write(client, SLICE);
    stop.store(true, Ordering::Relaxed);
    *tracer = polling.map(|thread| thread.join().expect("poll"));
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
    values[values.len() / 2]
}

fn main() {
    let seconds: u64 = std::env::args().nth(1).and_then(|s| s.parse().ok()).unwrap_or(40);
    let mut random = Random(0x9e37_79b9_7f4a_7c15 ^ u64::from(std::process::id()));
    own_network();
    for size in [1 << 10, 16 << 10] {
        let mut ratios: Vec<Vec<f64>> = vec![Vec::new(); WAYS.len()];
        let mut rate = 0.0;
        let end = Instant::now() + Duration::from_secs(seconds);
        while Instant::now() < end {
            // One round: every way once, in random order, each on a connection of its own.
            let mut order: Vec<usize> = (0..WAYS.len()).collect();
            for i in (1..order.len()).rev() {
                order.swap(i, random.below(i + 1));
            }
            let mut round = vec![0.0; WAYS.len()];
            for way in order {
                let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
                let port = listener.local_addr().expect("address").port();
                let mut client = TcpStream::connect(("127.0.0.1", port)).expect("connect");
                let (mut server, _) = listener.accept().expect("accept");
                client.set_nodelay(true).expect("nodelay");
                let reader = std::thread::spawn(move || {
                    pin(1);
                    let mut buffer = vec![0; 1 << 18];
                    while server.read(&mut buffer).is_ok_and(|n| n > 0) {}
                });
                // A tracer that ends without disarming leaves its sockets armed: the callbacks go to a program that knows nothing
                // of them and returns.
                if WAYS[way].0 == Way::Floor {
                    drop(config(Way::Every, port).map(|c| Tracer::start(&c).expect("start")));
                }
                // Loading programs leaves the machine in another state than idling does: do it here too.
                if WAYS[way].0 == Way::None {
                    drop(config(Way::OtherFlows, port).map(|c| Tracer::start(&c).expect("start")));
                }
                let mut tracer = config(WAYS[way].0, port).map(|c| Tracer::start(&c).expect("start"));
                round[way] = slice(&mut client, size, &mut tracer);
                drop(client);
                reader.join().expect("reader");
                if let Some(tracer) = tracer {
                    tracer.finish(&mut |_| {}).expect("finish");
                }
            }
            rate = round[0];
            for (ratios, figure) in ratios.iter_mut().zip(&round) {
                ratios.push(figure / round[0] - 1.0);
            }
        }
        println!(
            "{size} byte sends, n = {} slices each, last without a tracer {:.2} Gbit/s",
            ratios[0].len(),
            rate * 8e-9
        );
        for ((_, name), ratios) in WAYS.iter().zip(&mut ratios).skip(1) {
            let mut medians: Vec<f64> = (0..2_000)
                .map(|_| {
                    let mut again: Vec<f64> = (0..ratios.len()).map(|_| ratios[random.below(ratios.len())]).collect();
                    median(&mut again)
                })
                .collect();
            medians.sort_by(f64::total_cmp);
            println!(
                "  {name:<40} {:+6.2} %   95 % interval {:+6.2} to {:+6.2} %",
                100.0 * median(ratios),
                100.0 * medians[50],
                100.0 * medians[1949]
            );
        }
    }
}
