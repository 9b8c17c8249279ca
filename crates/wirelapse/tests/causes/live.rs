//! `analyze` as its user runs it on traffic that still comes: on an interface until Ctrl-C, and on
//! standard input that grows.

use std::io::{Read as _, Write as _};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use lab::Side;
use serde_json::Value;

use crate::bench::{Dump, answer, ask, join, path, pause};
use crate::in_the_lab;

fn lines(json: &[u8]) -> Vec<Value> {
    tier::text(json).lines().map(|l| serde_json::from_str(l).unwrap()).collect()
}

/// Whether the program that a host runs has a handler for SIGINT, the second bit of `SigCgt`.
fn catches_interrupts(child: &Child) -> bool {
    let status = lab::program_pid(child).and_then(|pid| std::fs::read_to_string(format!("/proc/{pid}/status")).ok());
    let caught = status.as_deref().and_then(|s| s.lines().find_map(|l| l.strip_prefix("SigCgt:")));
    caught.is_some_and(|mask| u64::from_str_radix(mask.trim(), 16).is_ok_and(|bits| bits & 2 != 0))
}

#[test]
fn live_until_interrupted_and_from_a_pipe_that_fills() {
    in_the_lab!();
    let lab = path(2);
    let dump = Dump::start(&lab, Side::A);
    let mut live = tier::limit(lab.host(Side::A).command(env!("CARGO_BIN_EXE_wirelapse")).unwrap());
    live.args(["analyze", "-i", lab::INTERFACE, "--json"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let live = live.spawn().unwrap();
    // It catches Ctrl-C once it captures.
    let until = Instant::now() + Duration::from_secs(20);
    while !catches_interrupts(&live) {
        assert!(Instant::now() < until, "it does not capture");
        pause(20);
    }
    join(&lab, Side::B.ipv4().into(), ask(10, 100, 300), answer(100, 300));
    let file = dump.finish();
    // SAFETY: a signal to a child that has not been waited for; the supervisor between hands it on.
    unsafe { libc::kill(live.id().cast_signed(), libc::SIGINT) };
    let out = live.wait_with_output().unwrap();
    assert!(out.status.success(), "{out:?}");
    let seen = lines(&out.stdout);
    let (capture, connections) = seen.split_last().unwrap();
    assert_eq!((capture["kind"].as_str(), capture["format"].as_str()), (Some("capture"), Some("live")));
    assert_eq!(connections.len(), 1);
    let c = &connections[0];
    assert_eq!((c["ending"].as_str(), c["to_server"]["unique_bytes"].as_u64()), (Some("closed"), Some(1_000)));
    let stamps =
        [&c["start_ns"], &c["duration_ns"], &c["to_server"]["rtt"]["min_ns"], &c["to_server"]["rtt"]["max_ns"]];
    assert!(stamps.iter().any(|t| t.as_u64().unwrap() % 1_000 != 0), "nanoseconds, not microseconds: {stamps:?}");

    // The same packets in tcpdump's capture, handed over bit by bit.
    let mut bytes = Vec::new();
    std::fs::File::open(file.path()).unwrap().read_to_end(&mut bytes).unwrap();
    let mut piped =
        tier::wirelapse!(["analyze", "--json", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = piped.stdin.take().unwrap();
    for part in bytes.chunks(bytes.len() / 3 + 1) {
        input.write_all(part).unwrap();
        pause(100);
    }
    drop(input);
    let out = piped.wait_with_output().unwrap();
    assert!(out.status.success());
    let piped = lines(&out.stdout);
    assert_eq!(piped.len(), 2);
    for key in ["client", "server", "ending"] {
        assert_eq!(piped[0][key], c[key]);
    }
    for key in ["packets", "unique_bytes", "header_bytes", "window_scale"] {
        assert_eq!(piped[0]["to_server"][key], c["to_server"][key], "{key}");
    }
}
