//! Whether histograms of one send in 100 cost anything: what they add to the sender's CPU time for
//! a send, and how long their programs run, by the kernel's count.
//!
//! ```console
//! # cargo run --release -p wirelapse-study --example histograms_cost -- 60      # seconds for each load and way
//! ```
//!
//! One sender writes to two connections in turn, 20 ms each, of which one is followed. The programs
//! stay attached meanwhile: after they are attached the kernel is busy for a while, for longer
//! where other programs run. Then the other one is followed, so that what makes the two differ
//! cancels. CPU time of threads that are bound to a CPU counts, and what is compared are
//! neighbours, so other programs may run. The kernel's count (`BPF_ENABLE_STATS`) takes time
//! itself, so it is on in the second part alone.

use std::error::Error;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::num::NonZeroU32;
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::time::{Duration, Instant};

use record::{Ratio, Sampling};
use study::overhead::Cpus;
use trace::histograms::Dimensions;
use trace::{Config, Histograms, Target, Tracer};
use traffic::thread_cpu_time;

/// How long the sender stays with a connection, and how much of that does not count.
const WINDOW: Duration = Duration::from_millis(20);
const WARM_UP: Duration = Duration::from_millis(3);
/// How often the other connection is followed instead.
const ROUNDS: u32 = 6;
/// How long programs are counted.
const COUNTED: Duration = Duration::from_secs(8);
/// No stretch is looked at.
const NONE: u32 = u32::MAX;

fn main() -> Result<(), Box<dyn Error>> {
    let seconds = std::env::args().nth(1).map_or(Ok(60), |word| word.parse())?;
    let cpus = Cpus::choose()?;
    // Threads that are started from here on are the receivers'.
    for size in [1 << 10, 16 << 10] {
        let mut pair = [Connection::open(size, cpus)?, Connection::open(size, cpus)?];
        traffic::pin_this_thread(cpus.sender)?;
        println!("{size} B: what is added to the CPU time of a send");
        let again = added(&mut pair, None, Duration::from_secs(seconds))?;
        let between = added(&mut pair, Some(NONE), Duration::from_secs(seconds))?;
        let every = added(&mut pair, Some(1), Duration::from_secs(seconds))?;
        for (name, values) in [("nothing (A/A)", &again), ("between stretches", &between), ("every send", &every)] {
            print_estimate(name, &values.percent)?;
        }
        let of_every = stats::median(&every.percent).ok_or("no pairs")?;
        let parts: Vec<f64> = between.percent.iter().map(|between| between + (of_every - between) / 100.0).collect();
        print_estimate("1/100, by the two parts", &parts)?;
        println!("   {:.0} ns of CPU time without anything", stats::median(&again.without).ok_or("no pairs")?);
        let _counting = counting()?;
        for every in [NONE, 100, 1] {
            counted(&mut pair[0], every)?;
        }
    }
    Ok(())
}

fn print_estimate(name: &str, percent: &[f64]) -> Result<(), Box<dyn Error>> {
    let of = stats::bca(percent, |values| stats::median(values).unwrap_or(f64::NAN), 0.95, 1).ok_or("too few pairs")?;
    println!("   {name}: {:+.2} % ({:+.2} to {:+.2}), n = {}", of.value, of.low, of.high, of.n);
    Ok(())
}

/// A sender's end, and the receiver's port.
struct Connection {
    client: TcpStream,
    port: u16,
    data: Vec<u8>,
}

impl Connection {
    fn open(size: usize, cpus: Cpus) -> Result<Self, Box<dyn Error>> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let client = TcpStream::connect(address)?;
        let (mut server, _) = listener.accept()?;
        for end in [&client, &server] {
            // It does not pace.
            rustix::net::sockopt::set_tcp_congestion(end, "cubic")?;
        }
        std::thread::spawn(move || {
            let _ = traffic::pin_this_thread(cpus.others);
            let mut buffer = vec![0; 256 << 10];
            while server.read(&mut buffer).is_ok_and(|n| n > 0) {}
        });
        Ok(Self { client, port: address.port(), data: vec![0x5a; size] })
    }

    /// Sends for so long; gives the CPU time of this thread for a send, ns, and the sends.
    fn send(&mut self, length: Duration) -> std::io::Result<(f64, u64)> {
        let (begin, cpu, mut sends) = (Instant::now(), thread_cpu_time(), 0);
        while begin.elapsed() < length {
            for _ in 0..16 {
                self.client.write_all(&self.data)?;
            }
            sends += 16;
        }
        Ok((thread_cpu_time().saturating_sub(cpu).0 as f64 / sends as f64, sends))
    }
}

/// Histograms by program of the connection with this port, of one stretch in `every`.
fn tracer(port: u16, every: u32) -> Result<Tracer, trace::Error> {
    let dimensions = Dimensions { program: true, ..Dimensions::default() };
    Tracer::start(&Config {
        target: Target { ports: vec![port.into()], ..Target::default() },
        sampling: Sampling::Windows(NonZeroU32::new(every).map_or(Ratio::ALL, Ratio)),
        connects: false,
        histograms: Some(Histograms { dimensions, ..Histograms::default() }),
        max_connections: 64,
        ..Config::default()
    })
}

/// What came of pairs of windows.
#[derive(Default)]
struct Pairs {
    /// By how much a send took longer on the connection that is followed.
    percent: Vec<f64>,
    /// CPU time of a send on the other one, ns.
    without: Vec<f64>,
}

/// By how much a send takes longer where its connection is followed: each value is of two pairs,
/// with the two connections in each role.
fn added(pair: &mut [Connection; 2], every: Option<u32>, length: Duration) -> Result<Pairs, Box<dyn Error>> {
    let mut all = Pairs::default();
    for _ in 0..ROUNDS {
        let mut ratios = [Vec::new(), Vec::new()];
        for (followed, ratios) in ratios.iter_mut().enumerate() {
            let _tracer = every.map(|every| tracer(pair[followed].port, every)).transpose()?;
            std::thread::sleep(Duration::from_millis(500));
            let begin = Instant::now();
            let mut first = 0;
            while begin.elapsed() < length / (2 * ROUNDS) {
                let mut cost = [0.0; 2];
                for which in [first, 1 - first] {
                    pair[which].send(WARM_UP)?;
                    cost[which] = pair[which].send(WINDOW)?.0;
                }
                first = 1 - first;
                ratios.push((cost[followed] / cost[1 - followed]).ln());
                all.without.push(cost[1 - followed]);
            }
        }
        let both = ratios[0].iter().zip(&ratios[1]);
        all.percent.extend(both.map(|(one, other)| 100.0 * f64::midpoint(*one, *other).exp_m1()));
    }
    Ok(all)
}

/// Sends for a while, and prints how often and how long programs ran for each send.
fn counted(connection: &mut Connection, every: u32) -> Result<(), Box<dyn Error>> {
    let _tracer = tracer(connection.port, every)?;
    let before = Programs::now()?;
    let (cpu, sends) = connection.send(COUNTED)?;
    let programs = Programs::now()?.since(&before);
    let name = if every == NONE { "no stretch".into() } else { format!("1/{every}") };
    println!(
        "   {name} looked at, counted: {:.3} callbacks and {:.2} ns of programs in {cpu:.0} ns for each of {sends} sends",
        programs.runs as f64 / sends as f64,
        programs.ns as f64 / sends as f64,
    );
    Ok(())
}

/// How often and how long the BPF programs of this process have run, by the kernel's count.
struct Programs {
    runs: u64,
    ns: u64,
}

impl Programs {
    fn now() -> Result<Self, Box<dyn Error>> {
        let mut programs = std::collections::BTreeMap::new();
        for entry in std::fs::read_dir("/proc/self/fdinfo")? {
            let Ok(text) = std::fs::read_to_string(entry?.path()) else { continue };
            let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name))?.trim().parse::<u64>().ok();
            if let (Some(id), Some(runs), Some(ns)) = (field("prog_id:"), field("run_cnt:"), field("run_time_ns:")) {
                programs.insert(id, (runs, ns));
            }
        }
        let (runs, ns) = programs.into_values().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        Ok(Self { runs, ns })
    }

    fn since(&self, earlier: &Self) -> Self {
        Self { runs: self.runs - earlier.runs, ns: self.ns - earlier.ns }
    }
}

/// The kernel counts how long BPF programs run for as long as this descriptor is open, so a process
/// that is killed leaves nothing behind.
fn counting() -> Result<OwnedFd, std::io::Error> {
    // include/uapi/linux/bpf.h
    const BPF_ENABLE_STATS: libc::c_int = 32;
    const BPF_STATS_RUN_TIME: u32 = 0;
    let kind = BPF_STATS_RUN_TIME;
    // SAFETY: the kernel reads four bytes from `kind`, which is alive.
    let fd = unsafe { libc::syscall(libc::SYS_bpf, BPF_ENABLE_STATS, &raw const kind, 4) };
    if fd < 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made it for this caller.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}
