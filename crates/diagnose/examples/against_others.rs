//! `wirelapse analyze` against tcptrace and tshark on one capture, in turns in one run.
//!
//! `against_others WIRELAPSE [PACKETS] [ROUNDS] [WITH_TSHARK]`, by default 2,000,000 packets of 1,000 connections, 7 rounds, tshark in every third
//! (0 leaves it out). Each round runs all of them one after the other on the same file, read once before so that it is in the page cache. Printed
//! are the median packets a second of each, and the median of the ratios within a round with the smallest and largest one:
//! of seven rounds these enclose the true median with 98 % confidence (sign test).

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

fn seconds(program: &str, args: &[&str]) -> Option<f64> {
    let start = Instant::now();
    let status = Command::new(program).args(args).stdout(Stdio::null()).stderr(Stdio::null()).status().ok()?;
    status.success().then(|| start.elapsed().as_secs_f64())
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn report(name: &str, packets: u64, ours: &[f64], theirs: &[Option<f64>]) {
    let mut times: Vec<f64> = theirs.iter().flatten().copied().collect();
    if times.is_empty() {
        return println!("{name}: not run");
    }
    let mut ratios: Vec<f64> = ours.iter().zip(theirs).filter_map(|(o, t)| Some((*t)? / o)).collect();
    let (ratio, rate) = (median(&mut ratios), packets as f64 / median(&mut times) / 1e6);
    println!(
        "{name}: {rate:.3} million packets a second; wirelapse is {ratio:.2} times as fast ({:.2} to {:.2}, n = {})",
        ratios[0],
        ratios[ratios.len() - 1],
        ratios.len()
    );
}

fn main() {
    let mut args = std::env::args().skip(1);
    let program = args.next().expect("the path of the wirelapse binary");
    let mut number = |default: u64| args.next().map_or(default, |a| a.parse().expect("a number"));
    let (packets, rounds, with_tshark) = (number(2_000_000), number(7), number(3));
    let path = std::env::temp_dir().join(format!("wirelapse-against-others-{}.pcap", std::process::id()));
    let _removed = Removed(path.clone());
    let traffic = Traffic { pattern: Pattern::Download, packets, connections: 1_000, seed: 1, loss_one_in: 100 };
    write_traffic(&mut BufWriter::new(File::create(&path).expect("a file")), &traffic).expect("room for it");
    let file = path.to_str().expect("a plain path");
    let (mut ours, mut tcptrace, mut tshark) = (Vec::new(), Vec::new(), Vec::new());
    seconds(&program, &["analyze", "--json", file]).expect("wirelapse analyses it");
    for round in 0..rounds.max(1) {
        ours.push(seconds(&program, &["analyze", "--json", file]).expect("wirelapse analyses it"));
        tcptrace.push(seconds("tcptrace", &["-l", "-n", file]));
        let turn = with_tshark > 0 && round % with_tshark == 0;
        tshark.push(if turn { seconds("tshark", &["-q", "-z", "expert", "-r", file]) } else { None });
    }
    report("tcptrace -l", packets, &ours, &tcptrace);
    report("tshark -q -z expert", packets, &ours, &tshark);
    println!("wirelapse analyze: {:.2} million packets a second", packets as f64 / median(&mut ours) / 1e6);
}
