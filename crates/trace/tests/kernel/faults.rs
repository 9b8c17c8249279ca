//! Ends that nobody planned.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tier::Need;

use crate::traffic::{self, Trace};

/// Not a test of its own: the tracer that the next one kills.
#[test]
#[ignore = "is started and killed by a_killed_tracer_leaves_nothing"]
fn a_tracer_that_waits_to_be_killed() {
    let _trace = Trace::start(&traffic::port(1));
    println!("\ntracing");
    std::thread::sleep(Duration::from_secs(30));
}

/// The numbers of kind `what` (`prog_id`, `map_id`, `link_id`) of the BPF objects a process holds.
fn held(pid: u32, what: &str) -> Vec<u32> {
    let mut ids: Vec<u32> = std::fs::read_dir(format!("/proc/{pid}/fdinfo"))
        .unwrap()
        .flatten()
        .filter_map(|entry| std::fs::read_to_string(entry.path()).ok())
        .flat_map(|text| {
            let lines: Vec<_> = text.lines().map(str::to_owned).collect();
            lines.into_iter().filter_map(|l| l.strip_prefix(&format!("{what}:\t"))?.parse().ok())
        })
        .collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

#[test]
fn a_killed_tracer_leaves_nothing() {
    tier::needs!(Need::Root, Need::Path("/sys/kernel/btf/vmlinux"));
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "faults::a_tracer_that_waits_to_be_killed", "--ignored", "--nocapture"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let started =
        BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok).any(|line| line == "tracing");
    assert!(started);
    let (programs, maps, links) =
        (held(child.id(), "prog_id"), held(child.id(), "map_id"), held(child.id(), "link_id"));
    assert!(programs.len() >= 4 && maps.len() >= 10 && links.len() >= 4, "{programs:?} {maps:?} {links:?}");
    child.kill().unwrap();
    child.wait().unwrap();
    // The kernel frees them after a grace period.
    let end = Instant::now() + Duration::from_secs(10);
    let left = || {
        let programs = libbpf_rs::query::ProgInfoIter::default().filter(|p| programs.contains(&p.id)).count();
        let maps = libbpf_rs::query::MapInfoIter::default().filter(|m| maps.contains(&m.id)).count();
        let links = libbpf_rs::query::LinkInfoIter::default().filter(|l| links.contains(&l.id)).count();
        programs + maps + links
    };
    while left() > 0 && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(left(), 0);
}
