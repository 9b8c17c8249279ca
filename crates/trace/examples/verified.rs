//! How many instructions the kernel's verifier went through for each program of a trace with
//! everything that it can record, and how far that is from where it gives up.
//!
//! ```console
//! # cargo build -p wirelapse-trace --example verified
//! # vm/run bookworm --limit 600 -- target/debug/examples/verified
//! ```
//!
//! The kernel tells it from Linux 5.16 on. Programs of other processes that are loaded meanwhile
//! are in the list too.

use std::collections::BTreeSet;
use std::error::Error;

use libbpf_rs::query::{ProgInfoIter, ProgInfoQueryOptions};
use trace::{Config, Histograms, Tracer};

/// `BPF_COMPLEXITY_LIMIT_INSNS`: the most that the verifier goes through.
const LIMIT: u32 = 1_000_000;

fn main() -> Result<(), Box<dyn Error>> {
    let before: BTreeSet<u32> = ProgInfoIter::default().map(|program| program.id).collect();
    let everything = Config { calls: true, receive: true, http: true, packets: true, udp: true, ..Config::default() };
    let without_packets = Config { packets: false, udp: false, ..everything.clone() };
    // Kernels without what packets need record the rest.
    let records = Tracer::start(&everything).or_else(|_| Tracer::start(&without_packets))?;
    let histograms = Tracer::start(&Config { histograms: Some(Histograms::default()), ..Config::default() })?;
    let loaded = ProgInfoIter::with_query_opts(ProgInfoQueryOptions::default().include_xlated_prog_insns(true));
    let mut programs: Vec<_> = loaded.filter(|program| !before.contains(&program.id)).collect();
    programs.sort_by_key(|program| std::cmp::Reverse(program.verified_insns));
    println!("{} and {} backend, limit {LIMIT}", records.backend().name(), histograms.backend().name());
    println!("{:<16} {:>10} {:>9} {:>12}", "program", "verified", "of limit", "instructions");
    for program in &programs {
        let name = program.name.to_string_lossy();
        let share = 100.0 * f64::from(program.verified_insns) / f64::from(LIMIT);
        // Each is eight bytes.
        let length = program.xlated_prog_insns.len() / 8;
        match program.verified_insns {
            0 => println!("{name:<16} {:>10} {:>9} {length:>12}", "not told", ""),
            verified => println!("{name:<16} {verified:>10} {share:>7.1} % {length:>12}"),
        }
    }
    Ok(())
}
