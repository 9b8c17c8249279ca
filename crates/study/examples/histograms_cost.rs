//! Whether histograms of one send in 100 cost anything: what they add to the sender's CPU time for a send, by many short pairs of slices with and without
//! them, and how long their programs run, by the kernel's count.
//!
//! ```console
//! # cargo run --release -p wirelapse-study --example histograms_cost -- 240 100      # seconds for each load, milliseconds of a slice
//! ```
//!
//! Other programs may run meanwhile: this one runs before them (nice -20), CPU time counts, of threads that are bound to a CPU, and pairs are
//! neighbours. The kernel's count (`kernel.bpf_stats_enabled`) takes time itself, so it is on in the second part alone.

use std::error::Error;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use record::{Nanos, Ratio, Sampling};
use study::overhead::{Cpus, Plan, Table, find, run};
use trace::histograms::Dimensions;
use trace::{Config, Histograms, Target, Tracer};

/// How long programs are counted, for each load and sampling.
const COUNTED: Duration = Duration::from_secs(10);

fn main() -> Result<(), Box<dyn Error>> {
    let number = |at: usize, otherwise: u64| std::env::args().nth(at).map_or(Ok(otherwise), |word| word.parse());
    let (seconds, slice) = (number(1, 240)?, number(2, 100)?);
    rustix::process::setpriority_process(None, -20)?;
    let mut plan = Plan::of_bars(Duration::from_secs(seconds), u64::from(std::process::id()))?;
    plan.slice = Duration::from_millis(slice);
    plan.ways = ["again", "histograms_between", "histograms"].into_iter().filter_map(find).collect();
    for table in run(&plan, &mut |_| {}, &|| true)?.tables {
        print_pairs(&table);
    }
    let _counting = Counting::begin()?;
    for size in [1 << 10, 16 << 10] {
        for every in [u32::MAX, 100, 1] {
            counted(size, every, plan.cpus)?;
        }
    }
    Ok(())
}

fn print_pairs(table: &Table) {
    println!("{}: {} blocks, {:.0} ns of CPU time for a send without anything", table.name, table.blocks, table.cpu_ns);
    for row in &table.rows {
        if let (Some(cpu), Some(ns)) = (row.cpu, row.cpu_ns) {
            println!(
                "   {}: {:+.2} % ({:+.2} to {:+.2}), {:+.1} ns ({:+.1} to {:+.1})",
                row.name, cpu.value, cpu.low, cpu.high, ns.value, ns.low, ns.high
            );
        }
    }
    if let Some(sum) = table.histograms_sampled {
        println!("   1/100, by its parts: {:+.3} % ({:+.3} to {:+.3})", sum.value, sum.low, sum.high);
    }
    table.verdicts.iter().for_each(|verdict| println!("   {}: {}", verdict.bar, verdict.text));
}

/// Streams for a while, and prints how long programs ran for each send and what the thread of the tracer took.
fn counted(size: usize, every: u32, cpus: Cpus) -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let mut client = TcpStream::connect(listener.local_addr()?)?;
    let (mut server, _) = listener.accept()?;
    // As in the pairs: it does not pace.
    rustix::net::sockopt::set_tcp_congestion(&client, "cubic")?;
    let config = Config {
        target: Target { ports: vec![listener.local_addr()?.port().into()], ..Target::default() },
        sampling: Sampling::Windows(Ratio(every.try_into()?)),
        histograms: Some(Histograms {
            dimensions: Dimensions { program: true, ..Dimensions::default() },
            ..Histograms::default()
        }),
        max_connections: 64,
        ..Config::default()
    };
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| -> Result<(), Box<dyn Error>> {
        scope.spawn(move || {
            let _ = traffic::pin_this_thread(cpus.others);
            let mut buffer = vec![0; 256 << 10];
            while server.read(&mut buffer).is_ok_and(|n| n > 0) {}
        });
        let mut tracer = Tracer::start(&config)?;
        let over = &over;
        let sender = scope.spawn(move || -> Result<(u64, Nanos), std::io::Error> {
            let _ = traffic::pin_this_thread(cpus.sender);
            let (data, begin, mut sends) = (vec![0; size], traffic::thread_cpu_time(), 0);
            while !over.load(Ordering::Relaxed) {
                client.write_all(&data)?;
                sends += 1;
            }
            Ok((sends, traffic::thread_cpu_time().saturating_sub(begin)))
        });
        let _ = traffic::pin_this_thread(cpus.others);
        let (begin, own, programs) = (Instant::now(), traffic::thread_cpu_time(), Programs::now()?);
        let mut turns = 0;
        // As `top` does: figures once a second, and a walk over the sockets after ten of them.
        while begin.elapsed() < COUNTED {
            tracer.poll(Duration::from_secs(1), &mut |_| {})?;
            tracer.snapshot(timestamping::now())?;
            if turns % 10 == 0 {
                tracer.coverage();
            }
            turns += 1;
        }
        let own = traffic::thread_cpu_time().saturating_sub(own);
        let (programs, took) = (Programs::now()?.since(&programs), begin.elapsed());
        over.store(true, Ordering::Relaxed);
        let (sends, cpu) = sender.join().map_err(|_| "the sender failed")??;
        let name = if every == u32::MAX { "no stretch".into() } else { format!("1/{every}") };
        println!(
            "{size} B, {name} looked at: {:.3} callbacks and {:.2} ns of programs in {:.0} ns of the sender's CPU time for each of {sends} sends; the tracer's thread {:.4} % of a core",
            programs.runs as f64 / sends as f64,
            programs.ns as f64 / sends as f64,
            cpu.0 as f64 / sends as f64,
            100.0 * own.as_secs_f64() / took.as_secs_f64(),
        );
        Ok(())
    })
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
        Ok(programs
            .into_values()
            .fold(Self { runs: 0, ns: 0 }, |sum, (runs, ns)| Self { runs: sum.runs + runs, ns: sum.ns + ns }))
    }

    fn since(&self, earlier: &Self) -> Self {
        Self { runs: self.runs - earlier.runs, ns: self.ns - earlier.ns }
    }
}

/// The kernel counts how long BPF programs run, and then as before.
struct Counting {
    before: String,
}

const COUNT: &str = "/proc/sys/kernel/bpf_stats_enabled";

impl Counting {
    fn begin() -> Result<Self, std::io::Error> {
        let before = std::fs::read_to_string(COUNT)?;
        std::fs::write(COUNT, "1")?;
        Ok(Self { before })
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        if let Err(error) = std::fs::write(COUNT, &self.before) {
            eprintln!("{COUNT} cannot be set back: {error}");
        }
    }
}
