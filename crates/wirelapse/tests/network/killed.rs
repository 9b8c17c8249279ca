//! Commands that are killed in the middle of receiving, sending and matching frames leave nothing
//! in the kernel: what `ip` and `tc` show of their network namespace is as before, and no BPF
//! program, map or link that they held is there any more.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};

use libbpf_rs::libbpf_sys;
use tier::{Need, Process, needs, text, wirelapse};

fn ip(words: &str) {
    assert!(Command::new("ip").args(words.split(' ')).status().unwrap().success(), "ip {words}");
}

/// Devices, addresses, queues, filters, mirrors and packet sockets of this network namespace.
fn shown() -> String {
    let mut shown = String::new();
    for words in [
        &["ip", "-d", "link", "show"][..],
        &["ip", "address", "show"],
        &["ip", "netconf", "show"],
        &["ip", "rule", "show"],
        &["ip", "route", "show", "table", "all"],
        &["tc", "qdisc", "show"],
        &["tc", "filter", "show", "dev", "left"],
        &["tc", "filter", "show", "dev", "right"],
        &["tc", "filter", "show", "dev", "right", "ingress"],
        &["tc", "filter", "show", "dev", "right", "egress"],
        &["tc", "actions", "list", "action", "mirred"],
    ] {
        let output = Command::new(words[0]).args(&words[1..]).output().unwrap();
        shown += &format!("{words:?}\n{}{}", text(&output.stdout), text(&output.stderr));
    }
    shown + &std::fs::read_to_string("/proc/thread-self/net/packet").unwrap()
}

/// BPF programs, maps and links, by their ids. The kernel gives an id again only when all others
/// have been given.
#[derive(Debug, Default, PartialEq, Eq)]
struct Held {
    programs: BTreeSet<u32>,
    maps: BTreeSet<u32>,
    links: BTreeSet<u32>,
}

impl Held {
    /// What the descriptors of a process hold.
    fn by(pid: u32) -> Self {
        let mut held = Self::default();
        for entry in std::fs::read_dir(format!("/proc/{pid}/fdinfo")).unwrap() {
            // A descriptor may be closed meanwhile.
            let about = std::fs::read_to_string(entry.unwrap().path()).unwrap_or_default();
            for line in about.lines() {
                let Some((key, value)) = line.split_once(':') else { continue };
                let Ok(id) = value.trim().parse() else { continue };
                match key {
                    "prog_id" => held.programs.insert(id),
                    "map_id" => held.maps.insert(id),
                    "link_id" => held.links.insert(id),
                    _ => continue,
                };
            }
        }
        held
    }

    fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Those of them that the kernel has still.
    fn left(&self) -> Self {
        let of = |ids: &BTreeSet<u32>, next: Next| all(next).intersection(ids).copied().collect();
        Self {
            programs: of(&self.programs, libbpf_sys::bpf_prog_get_next_id),
            maps: of(&self.maps, libbpf_sys::bpf_map_get_next_id),
            links: of(&self.links, libbpf_sys::bpf_link_get_next_id),
        }
    }
}

type Next = unsafe extern "C" fn(u32, *mut u32) -> i32;

/// Every id, without opening what has it: a program array that is opened and closed while it is
/// being cleared is never freed (Linux 6.18: `prog_array_map_clear` takes one more reference each
/// time, and its worker, which is queued already, gives one back).
fn all(next: Next) -> BTreeSet<u32> {
    let mut last = 0;
    let following = || {
        let mut id = 0;
        // SAFETY: the id is written while it lives.
        let found = unsafe { next(last, &raw mut id) } == 0;
        last = id;
        found.then_some(id)
    };
    std::iter::from_fn(following).collect()
}

/// Runs `test` on a thread in a network namespace with two veth pairs: `left` and `right`, `source`
/// and `sink`.
fn on_two_wires(test: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            // SAFETY: moves the calling thread alone into a new network namespace.
            assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNET) }, 0);
            for [one, other] in [["left", "right"], ["source", "sink"]] {
                ip(&format!("link add {one} type veth peer name {other}"));
                for end in [one, other] {
                    ip(&format!("link set {end} addrgenmode none"));
                    ip(&format!("link set {end} up"));
                }
            }
            // Each of the four is in two of the lists.
            assert!(tier::wait_for(|| shown().matches("state UP").count() >= 8), "{}", shown());
            test();
        });
        if let Err(panic) = thread.join() {
            std::panic::resume_unwind(panic);
        }
    });
}

/// Whether a thread of the process has given its rights up: everything that it needs is open then.
fn is_ready(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default().contains("NoNewPrivs:\t1")
}

/// Starts the command, kills it once it `works`, and compares. `with_bpf`: whether it is one that
/// loads programs.
fn killed(words: &[&str], with_bpf: bool, works: impl Fn(u32) -> bool) {
    let before = shown();
    let mut child = Process::from(wirelapse!(words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    let pid = child.id();
    assert!(tier::wait_for(|| works(pid)), "{words:?} does not begin to work");
    let held = Held::by(pid);
    assert!(child.try_wait().unwrap().is_none(), "{words:?} has ended by itself");
    assert_eq!(!held.is_empty(), with_bpf, "{words:?}: {held:?}");
    child.kill().unwrap();
    child.wait().unwrap();
    let is_gone = || shown() == before && held.left().is_empty();
    let is_gone = tier::wait_for(is_gone);
    let after = shown();
    let lines = |one: &str, other: &str| -> Vec<String> {
        one.lines().filter(|line| !other.lines().any(|l| l == *line)).map(str::to_owned).collect()
    };
    assert!(
        is_gone,
        "{words:?} leaves {:?} of {held:?}\nbefore: {:#?}\nafter: {:#?}",
        held.left(),
        lines(&before, &after),
        lines(&after, &before)
    );
}

#[test]
fn a_capture_that_is_killed_leaves_nothing_by_any_technique() {
    needs!(Need::Root, Need::Program("ip"), Need::Program("tc"));
    on_two_wires(|| {
        for method in ["recvmsg", "recvmmsg", "rx-ring", "libpcap", "io-uring", "af-xdp", "xdp"] {
            let words = ["capture", "-i", "right", "--method", method, "--promiscuous", "--filter", "udp"];
            killed(&words, method.contains("xdp"), is_ready);
        }
    });
}

#[test]
fn a_measurement_of_delay_that_is_killed_leaves_nothing_at_either_tap() {
    needs!(Need::Root, Need::Program("ip"), Need::Program("tc"));
    on_two_wires(|| {
        let taps = ["delay", "--before", "right", "--after", "sink"];
        for method in ["recvmmsg", "rx-ring", "af-xdp", "xdp"] {
            killed(&[&taps[..], &["--method", method]].concat(), method.contains("xdp"), is_ready);
        }
        let on_both = |pid| crate::bpf_links(pid) == 2;
        killed(&[&taps[..], &["--in-kernel"]].concat(), true, on_both);
        killed(&[&taps[..], &["--in-kernel", "--drop-frames"]].concat(), true, on_both);
    });
}

#[test]
fn a_generator_that_is_killed_leaves_nothing_by_any_way_to_send() {
    needs!(Need::Root, Need::Program("ip"), Need::Program("tc"), Need::Program("ethtool"));
    on_two_wires(|| {
        assert!(Command::new("ethtool").args(["-K", "right", "gro", "on"]).status().unwrap().success());
        for method in ["live-frames", "af-xdp", "tx-ring", "sendmmsg"] {
            let words = [
                "generate",
                "-i",
                "left",
                "--rate",
                "1000/s",
                "--for",
                "60s",
                "--method",
                method,
                "--yes-this-interface",
            ];
            let sent = || -> u64 {
                std::fs::read_to_string("/proc/thread-self/net/dev")
                    .unwrap()
                    .lines()
                    .find_map(|line| line.trim().strip_prefix("right:"))
                    .and_then(|line| line.split_whitespace().nth(1)?.parse().ok())
                    .unwrap()
            };
            let before = sent();
            killed(&words, method == "live-frames", |_| sent() > before);
        }
    });
}

/// Network namespaces that threads of the process are in, without this thread's own.
fn namespaces(pid: u32) -> BTreeSet<String> {
    let name = |path: &std::path::Path| Some(std::fs::read_link(path).ok()?.to_str()?.to_owned());
    let ours = name("/proc/thread-self/ns/net".as_ref());
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    threads
        .filter_map(|thread| name(&thread.path().join("ns/net")))
        .filter(|found| Some(found) != ours.as_ref())
        .collect()
}

/// Whether a process or a mount still holds one of these namespaces.
fn is_held(wanted: &BTreeSet<String>) -> bool {
    let mounts = std::fs::read_to_string("/proc/thread-self/mountinfo").unwrap();
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let mut pids = processes.filter_map(|process| process.file_name().to_str()?.parse().ok());
    wanted.iter().any(|namespace| mounts.contains(namespace)) || pids.any(|pid| !namespaces(pid).is_disjoint(wanted))
}

#[test]
fn a_study_of_reception_that_is_killed_leaves_no_testbed_and_no_program() {
    needs!(Need::Root, Need::Program("ip"), Need::Program("tc"));
    on_two_wires(|| {
        let before = shown();
        let dir = tempfile::tempdir().unwrap();
        let run = dir.path().join("run");
        let words = ["study", "reception", "--quick", "-o", run.to_str().unwrap()];
        let mut child = Process::from(wirelapse!(&words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
        let found = std::cell::RefCell::new((BTreeSet::new(), Held::default()));
        // In the middle of a trial with XDP: its testbed is up, with mirrors, receivers and
        // programs.
        assert!(tier::wait_for(|| {
            *found.borrow_mut() = (namespaces(child.id()), Held::by(child.id()));
            let (testbeds, held) = &*found.borrow();
            !testbeds.is_empty() && !held.links.is_empty()
        }));
        child.kill().unwrap();
        child.wait().unwrap();
        let (testbeds, held) = found.into_inner();
        let is_gone = || shown() == before && held.left().is_empty() && !is_held(&testbeds);
        assert!(
            tier::wait_for(is_gone),
            "{testbeds:?} or {:?} of {held:?} is left\n{before}\n{}",
            held.left(),
            shown()
        );
    });
}
