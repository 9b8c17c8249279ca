//! `wirelapse analyze` against tcptrace and tshark on the same captures, in turns in one run.
//!
//! `against_others WIRELAPSE [PACKETS] [ROUNDS] [WITH_TSHARK]`, by default captures of 2,000,000 packets, one for each pattern of
//! traffic with 1,000 connections at a time, 7 rounds, and tshark in every third of them (0 leaves it out). Each round runs
//! `wirelapse analyze --json`, `tcptrace -l -n` and `tshark -q -z expert` one after the other on the same file, which was read
//! once before, so that it is in the page cache. Printed are the median packets a second of each, and the median of the
//! ratios within a round with an interval: the extremes where fewer than 9 rounds were run, which enclose the true median with
//! 1 − 2/2ⁿ of confidence (sign test; 98.4 % for 7), or else the order statistics that do so with 95 % at least.

use std::fs::File;
use std::io::BufWriter;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;

use wire::generate::{Pattern, Traffic, write_traffic};

/// Removes the capture however the run ends.
struct Removed(PathBuf);

impl Drop for Removed {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// How long a program took; `None` where it is not installed or failed.
fn seconds(program: &str, args: &[&str]) -> Option<f64> {
    let start = Instant::now();
    let status = Command::new(program).args(args).stdout(Stdio::null()).stderr(Stdio::null()).status().ok()?;
    status.success().then(|| start.elapsed().as_secs_f64())
}

/// The median, and the values that enclose the true one.
fn median(mut values: Vec<f64>) -> (f64, f64, f64) {
    values.sort_by(f64::total_cmp);
    let n = values.len();
    // The largest k for which fewer than k of n tosses come out heads with 2.5 % at most.
    let (mut term, mut below, mut k) = (0.5f64.powi(n as i32), 0.0, 0);
    while below + term <= 0.025 {
        below += term;
        k += 1;
        term *= (n - k + 1) as f64 / k as f64;
    }
    let low = k.saturating_sub(1);
    ((values[n / 2] + values[(n - 1) / 2]) / 2.0, values[low], values[n - 1 - low])
}

struct Rounds {
    ours: Vec<f64>,
    tcptrace: Vec<Option<f64>>,
    tshark: Vec<Option<f64>>,
}

impl Rounds {
    fn report(&self, name: &str, packets: u64, theirs: &[Option<f64>], bar: f64) {
        let times: Vec<f64> = theirs.iter().flatten().copied().collect();
        if times.is_empty() {
            return println!("  {name}: not run");
        }
        let rate = packets as f64 / median(times).0 / 1e6;
        let ratios: Vec<f64> = self.ours.iter().zip(theirs).filter_map(|(o, t)| Some((*t)? / o)).collect();
        let n = ratios.len();
        let (ratio, low, high) = median(ratios);
        println!(
            "  {name}: {rate:.3} million packets a second; wirelapse is {ratio:.2} times as fast ({low:.2} to {high:.2}, n = {n}; the aim is {bar})"
        );
    }
}

fn run(program: &str, file: &str, rounds: u64, with_tshark: u64) -> Rounds {
    let analyze = || seconds(program, &["analyze", "--json", file]).expect("wirelapse analyses it");
    analyze();
    let mut all = Rounds { ours: Vec::new(), tcptrace: Vec::new(), tshark: Vec::new() };
    for round in 0..rounds {
        all.ours.push(analyze());
        all.tcptrace.push(seconds("tcptrace", &["-l", "-n", file]));
        let turn = with_tshark > 0 && round % with_tshark == 0;
        all.tshark.push(if turn { seconds("tshark", &["-n", "-q", "-z", "expert", "-r", file]) } else { None });
    }
    all
}

fn main() {
    let mut args = std::env::args().skip(1);
    let Some(program) = args.next() else {
        eprintln!("against_others WIRELAPSE [PACKETS] [ROUNDS] [WITH_TSHARK]");
        std::process::exit(2);
    };
    let mut number = |default: u64| args.next().map_or(default, |a| a.parse().expect("a number"));
    let (packets, rounds, with_tshark) = (number(2_000_000), number(7).max(1), number(3));
    for (name, pattern) in Pattern::ALL {
        let path = std::env::temp_dir().join(format!("wirelapse-against-others-{}.pcap", std::process::id()));
        let _removed = Removed(path.clone());
        let traffic = Traffic { pattern, packets, connections: 1_000, seed: 1, loss_one_in: 100 };
        let mut out = BufWriter::new(File::create(&path).expect("a file"));
        write_traffic(&mut out, &traffic).expect("room for it");
        drop(out);
        let all = run(&program, path.to_str().expect("a plain path"), rounds, with_tshark);
        let rate = packets as f64 / median(all.ours.clone()).0 / 1e6;
        println!("{name}: wirelapse analyze --json: {rate:.2} million packets a second (n = {rounds})");
        all.report("tcptrace -l", packets, &all.tcptrace, 3.0);
        all.report("tshark -q -z expert", packets, &all.tshark, 40.0);
    }
}
