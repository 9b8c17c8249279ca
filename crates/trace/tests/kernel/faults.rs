//! Ends that nobody planned.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Command, Stdio};
use std::time::Duration;

use tier::Need;
use trace::{Backend, Config};

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
    let left = || {
        let programs = libbpf_rs::query::ProgInfoIter::default().filter(|p| programs.contains(&p.id)).count();
        let maps = libbpf_rs::query::MapInfoIter::default().filter(|m| maps.contains(&m.id)).count();
        let links = libbpf_rs::query::LinkInfoIter::default().filter(|l| links.contains(&l.id)).count();
        programs + maps + links
    };
    assert!(tier::wait_for(|| left() == 0), "{} are left", left());
}

/// What another program does at every callback of every socket.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Other {
    /// Takes the callbacks of socket operations away.
    Clears,
    /// Sets all of them.
    Sets,
    /// Takes them away, and the stamps (Linux 6.14).
    ClearsStamps,
}

/// A program of socket operations on the root cgroup; gone with its descriptors.
fn another_program(other: Other) -> std::os::fd::OwnedFd {
    use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
    // include/uapi/linux/bpf.h: r6 = r1; r2 = FLAGS; call bpf_sock_ops_cb_flags_set.
    let flags = if other == Other::Sets { 0x7f } else { 0 };
    let mut instructions: Vec<u64> = vec![0x16bf, (flags << 32) | 0x02b7, (59 << 32) | 0x85];
    if other == Other::ClearsStamps {
        // r1 = r6; r7 = 0; *(u64 *)(r10 - 8) = r7; r2 = SOL_SOCKET; r3 = SK_BPF_CB_FLAGS; r4 = r10;
        // r4 += -8; r5 = 4; call bpf_setsockopt.
        instructions.extend([0x61bf, 0x07b7, 0xfff8_7a7b, (1 << 32) | 0x02b7, (1009 << 32) | 0x03b7]);
        instructions.extend([0xa4bf, (0xffff_fff8 << 32) | 0x0407, (4 << 32) | 0x05b7, (49 << 32) | 0x85]);
    }
    // r0 = 1; exit.
    instructions.extend([(1 << 32) | 0x00b7, 0x95]);
    let license = c"GPL";
    let bpf = |command: i32, attributes: &mut [u64; 16]| {
        // SAFETY: the attributes are as long as is said, and what they point to lives until the
        // call is over.
        unsafe { libc::syscall(libc::SYS_bpf, command, attributes.as_mut_ptr(), 128) }
    };
    // BPF_PROG_LOAD: type BPF_PROG_TYPE_SOCK_OPS (13), how many instructions, their address, the
    // licence's address.
    let mut load = [0u64; 16];
    load[0] = 13 | ((instructions.len() as u64) << 32);
    load[1] = instructions.as_ptr() as u64;
    load[2] = license.as_ptr() as u64;
    let program = bpf(5, &mut load) as i32;
    assert!(program >= 0, "{}", std::io::Error::last_os_error());
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap();
    let root = mounts.lines().find(|line| line.split(' ').nth(2) == Some("cgroup2")).unwrap();
    let cgroup = std::fs::File::open(root.split(' ').nth(1).unwrap()).unwrap();
    // BPF_LINK_CREATE: program, target, type BPF_CGROUP_SOCK_OPS (3).
    let mut link = [0u64; 16];
    link[0] = program as u64 | ((cgroup.as_raw_fd() as u64) << 32);
    link[1] = 3;
    let link = bpf(28, &mut link) as i32;
    assert!(link >= 0, "{}", std::io::Error::last_os_error());
    // SAFETY: both descriptors were just made and are owned by nothing else.
    unsafe {
        drop(OwnedFd::from_raw_fd(program));
        OwnedFd::from_raw_fd(link)
    }
}

/// Connections that each write one byte at the client and three at the server, on which another
/// program works, and one that is still there at the end: bytes that TCP counted, that the coverage
/// includes, and that sends report; and sends that nothing stamped.
fn written_beside(other: Other, backend: Backend) -> [u64; 4] {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let config = Config { max_connections: 8, ..traffic::port(listener.local_addr().unwrap().port()) };
    let mut trace = Trace::start(&traffic::on(config, backend));
    let other = another_program(other);
    let exchange = |client: &mut std::net::TcpStream, server: &mut std::net::TcpStream| {
        client.write_all(b"x").unwrap();
        server.read_exact(&mut [0]).unwrap();
        server.write_all(b"yes").unwrap();
        client.read_exact(&mut [0; 3]).unwrap();
    };
    for round in 0..40 {
        let (mut client, mut server) = traffic::accept_one(&listener);
        exchange(&mut client, &mut server);
        // Either end closes first: a FIN leaves by both ways.
        if round % 2 == 0 {
            drop(server);
            assert_eq!(client.read(&mut [0]).unwrap(), 0);
        } else {
            drop(client);
            assert_eq!(server.read(&mut [0]).unwrap(), 0);
        }
        trace.poll();
    }
    let (mut client, mut server) = traffic::accept_one(&listener);
    exchange(&mut client, &mut server);
    drop(other);
    let (events, summary) = trace.finish();
    let (lost, coverage) = (summary.lost, summary.coverage);
    assert_eq!((lost.connections_full, lost.slots_full, lost.ring_buffer), (0, 0, 0), "{lost:?}");
    let reported = traffic::sends(&events).iter().map(|send| u64::from(send.bytes)).sum();
    [coverage.bytes_written, coverage.bytes_armed, reported, lost.unstamped + lost.left_out]
}

#[test]
fn what_another_program_keeps_from_being_stamped_is_counted_and_not_covered() {
    tier::needs!(Need::Root, Need::Path("/sys/kernel/btf/vmlinux"));
    for backend in [Backend::Timestamping, Backend::Tracepoints] {
        for other in [Other::Clears, Other::Sets, Other::ClearsStamps] {
            if other == Other::ClearsStamps && backend == Backend::Tracepoints {
                continue;
            }
            let [written, covered, reported, uncounted] = written_beside(other, backend);
            eprintln!("{backend}, {other:?}: {written} B written, {covered} covered, {reported} reported");
            // Rows come back, and a FIN is no byte.
            assert_eq!(written, 164, "{backend}, {other:?}");
            assert_eq!(covered, reported, "{backend}, {other:?}");
            assert_eq!(uncounted > 0, reported < written, "{backend}, {other:?}: {uncounted}");
            // Else the other program has done nothing.
            assert_eq!(reported < written, other == Other::ClearsStamps, "{backend}, {other:?}: {reported}");
        }
    }
}
