//! More connections than the ring buffer has room to tell of at once, and what the kernel holds for
//! them.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Stdio};

use crate::scene::command::{fdinfo, held_by, is_tracing, signal, tracing};
use crate::scene::{BTF, turn};
use serde_json::Value;
use tier::Need;

/// A tracer that works, with its lines of JSON to come.
fn begun(args: &[&str]) -> Child {
    let child = tracing(&[&["--json"], args].concat()).stderr(Stdio::inherit()).spawn().unwrap();
    let pid = child.id();
    assert!(tier::wait_for(|| is_tracing(pid)), "it does not trace");
    child
}

/// So many descriptors as one test needs; whether they are to be had.
fn descriptors(most: u64) -> bool {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: each call takes one rlimit.
    unsafe {
        libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit);
        // Root may raise the hard limit too.
        let raised = libc::rlimit { rlim_cur: most, rlim_max: limit.rlim_max.max(most) };
        libc::setrlimit(libc::RLIMIT_NOFILE, &raw const raised);
        libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit);
    }
    limit.rlim_cur >= most
}

/// Effective capabilities of a process.
fn capabilities(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap();
    u64::from_str_radix(line.trim(), 16).unwrap()
}

/// The last pass is made by the keeper, which has the rights for it and cannot read the ring
/// buffer; the tracer reads it and has none. Of 18,000 connections it writes 6 MB, and a sampled
/// trace has a ring buffer of 4.
#[test]
fn the_last_pass_through_the_keeper_waits_for_the_ring_buffer_to_be_read() {
    const PAIRS: usize = 9_000;
    const ALL: u64 = (1 << 38) - 1;
    tier::needs!(Need::Root, BTF);
    let _turn = turn();
    assert!(descriptors(2 * PAIRS as u64 + 500), "this machine gives a process fewer than 18,500 descriptors");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let port = address.port().to_string();
    let pairs: Vec<_> =
        (0..PAIRS).map(|_| (TcpStream::connect(address).unwrap(), listener.accept().unwrap().0)).collect();
    let mut trace = begun(&["--port", &port, "--sample", "1/100", "--max-connections", "20000"]);
    let pid = trace.id();
    let children = || fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    assert!(tier::wait_for(|| capabilities(pid) == 0), "the tracer keeps {:x}", capabilities(pid));
    let keeper: u32 = children().trim().parse().expect("one process beside the tracer");
    assert!((1..ALL).contains(&capabilities(keeper)), "the keeper has {:x}", capabilities(keeper));
    assert!(held_by(keeper, "map_id").is_empty(), "the keeper has no map to read records from");
    signal(&trace, libc::SIGINT);
    let (mut began, mut closed, mut set_up, mut lost) = (0, 0, 0, Value::Null);
    for line in BufReader::new(trace.stdout.take().unwrap()).lines() {
        let line: Value = serde_json::from_str(&line.unwrap()).unwrap();
        match line["kind"].as_str().unwrap() {
            "connection" => began += 1,
            "closed" => closed += 1,
            "connect" => set_up += 1,
            "lost" => lost = line,
            _ => {}
        }
    }
    assert!(trace.wait().unwrap().success());
    for key in ["connection_records", "connect_ring_buffer", "connections_full"] {
        assert_eq!(lost[key], 0, "{lost}");
    }
    assert_eq!((began, closed, set_up), (2 * PAIRS, 2 * PAIRS, 2 * PAIRS), "{lost}");
    drop(pairs);
}

/// Bytes that the kernel holds for the maps of a process.
fn maps(pid: u32) -> u64 {
    let of = |text: &String| {
        let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name))?.trim().parse::<u64>().ok();
        Some((field("map_id:")?, field("memlock:")?))
    };
    fdinfo(pid).iter().filter_map(of).collect::<std::collections::BTreeMap<_, _>>().into_values().sum()
}

/// What is said to be held from the start is what the kernel holds, whatever is observed.
#[test]
fn the_memory_that_is_announced_is_what_the_kernel_holds() {
    tier::needs!(Need::Root, BTF);
    let _turn = turn();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    for with in [
        &["--max-connections", "30000"][..],
        &["--max-connections", "100000", "--sample", "1/100"],
        &["--max-connections", "2000", "--requests"],
        &["--max-connections", "2000", "--http"],
        &["--max-connections", "2000", "--every-packet", "--udp"],
    ] {
        let dir = tempfile::tempdir().unwrap();
        let notes = dir.path().join("notes");
        let args = [&["--port", &port, "--no-live"], with].concat();
        let mut child = tracing(&args).stdout(Stdio::null()).stderr(fs::File::create(&notes).unwrap()).spawn().unwrap();
        let pid = child.id();
        let line = || fs::read_to_string(&notes).unwrap();
        assert!(tier::wait_for(|| line().contains(" at most ") && line().ends_with(".\n")), "{}", line());
        let held = maps(pid);
        signal(&child, libc::SIGINT);
        assert!(child.wait().unwrap().success());
        // Tracing started: port 1, by timestamping, with 12.3 MiB of kernel memory, at most 45.6
        // MiB.
        let line = line();
        let (_, figures) = line.split_once("by timestamping, with ").unwrap_or_else(|| panic!("{line}"));
        let (start, most) = figures.trim_end_matches(".\n").split_once(" of kernel memory, at most ").unwrap();
        let [start, most] = [start, most].map(|text| quantity::parse::bytes(text).unwrap());
        let share = held as f64 / start as f64;
        eprintln!("{with:?}: {held} bytes of maps; {}", line.trim());
        assert!((0.98..1.02).contains(&share) && most > start, "{with:?}: held {held}, {line}");
    }
}
