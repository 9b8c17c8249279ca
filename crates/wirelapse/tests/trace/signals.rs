//! Every command that goes on until it is stopped takes SIGINT, SIGTERM and SIGHUP as the wish to
//! end: it ends whole, with its report.

use crate::scene;
use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use tier::{Need, Process};

/// A command that runs beside the test.
struct Beside(Process);

impl Beside {
    fn start(args: &[&str]) -> Self {
        Self::writing_to(args, Stdio::piped())
    }

    fn writing_to(args: &[&str], output: Stdio) -> Self {
        let mut command = tier::wirelapse!(args);
        command.stdin(Stdio::null()).stdout(output).stderr(Stdio::piped());
        // Under nohup the test itself ignores SIGHUP, and a program that is started so goes on
        // ignoring it. SAFETY: one system call between fork and exec.
        unsafe {
            command.pre_exec(|| match libc::signal(libc::SIGHUP, libc::SIG_DFL) {
                libc::SIG_ERR => Err(std::io::Error::last_os_error()),
                _ => Ok(()),
            });
        }
        Self(command.spawn().unwrap().into())
    }

    /// Whether the kernel has a handler of this process for SIGHUP: from there on a signal is
    /// answered.
    fn listens(&self) -> bool {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id())).unwrap_or_default();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        caught.is_some_and(|mask| u64::from_str_radix(mask.trim(), 16).unwrap() >> (libc::SIGHUP - 1) & 1 == 1)
    }

    /// The exit status, once it has ended.
    fn status(&mut self) -> Option<i32> {
        assert!(tier::wait_for(|| self.0.try_wait().unwrap().is_some()), "it goes on");
        self.0.wait().unwrap().code()
    }

    /// The same, and what it wrote.
    fn ended(&mut self) -> (Option<i32>, String) {
        let (status, mut text) = (self.status(), String::new());
        std::io::Read::read_to_string(&mut self.0.stdout.take().unwrap(), &mut text).unwrap();
        (status, text)
    }
}

fn each_signal_ends_with_the_report(args: &[&str], last: &str) {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        let mut command = Beside::start(args);
        assert!(tier::wait_for(|| command.listens()), "{args:?} never listens");
        std::thread::sleep(Duration::from_millis(700));
        scene::command::signal(&command.0, signal);
        let (status, text) = command.ended();
        assert_eq!(status, Some(0), "{args:?} after signal {signal}");
        let end = text.lines().last().unwrap_or_default();
        assert!(end.contains(last), "{args:?} after signal {signal} ends with {end:?}");
    }
}

#[test]
fn workloads_and_their_server() {
    let serve = Beside::start(&["serve", "--listen", "127.0.0.1:5698", "--json"]);
    assert!(tier::wait_for(|| std::net::TcpStream::connect("127.0.0.1:5698").is_ok()));
    let to = "127.0.0.1:5698";
    for workload in ["stream", "rr", "crr", "udp"] {
        each_signal_ends_with_the_report(&[workload, to, "--for", "60s", "--json"], "\"kind\":\"outcome\"");
    }
    each_signal_ends_with_the_report(&["probe", "udp", to, "--count", "1000", "--json"], "\"kind\":\"summary\"");
    drop(serve);
    each_signal_ends_with_the_report(&["serve", "--listen", "127.0.0.1:0", "--json"], "\"kind\":\"stopped\"");
}

#[test]
fn what_needs_root() {
    tier::needs!(Need::Root, scene::BTF, scene::TUN);
    let _turn = scene::turn();
    each_signal_ends_with_the_report(&["trace", "--port", "5697", "--json"], "\"kind\":\"summary\"");
    each_signal_ends_with_the_report(&["watch", "srtt", "--port", "5697", "--json"], "\"kind\":\"histogram\"");
    each_signal_ends_with_the_report(&["capture", "-i", "lo", "--json"], "\"kind\":\"capture\"");
    let name = format!("signals-{}", std::process::id());
    each_signal_ends_with_the_report(&["lab", "up", "--name", &name, "--json"], "\"kind\":\"path\"");
    // The lab's other processes notice a moment later that their owner is gone.
    let lock = format!("/run/wirelapse/labs/{name}.lock");
    assert!(tier::wait_for(|| !std::path::Path::new(&lock).exists()), "the name is not free");
    each_signal_ends_with_the_report(&["study", "small-messages", "--quick", "--json"], "\"kind\":\"conclusion\"");
}

#[test]
fn a_second_signal_ends_at_once() {
    tier::needs!(Need::Root, scene::BTF);
    let _turn = scene::turn();
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run");
    // It ignores what asks it to end, so the trace waits for it.
    let program = ["sh", "-c", "trap '' INT TERM HUP; exec sleep 30"];
    let mut trace = Beside::start(&[&["trace", "-o", run.to_str().unwrap(), "--"], &program[..]].concat());
    assert!(tier::wait_for(|| trace.listens() && scene::command::is_tracing(trace.0.id())));
    std::thread::sleep(Duration::from_millis(300));
    // The first waits for the program, the second for nothing but the report.
    scene::command::signal(&trace.0, libc::SIGTERM);
    std::thread::sleep(Duration::from_millis(300));
    assert!(trace.0.try_wait().unwrap().is_none(), "the first waits for the program");
    scene::command::signal(&trace.0, libc::SIGTERM);
    let (status, text) = trace.ended();
    assert_eq!(status, Some(0));
    assert!(!text.is_empty() && run.join("run.json").exists());
}

/// A pipe that a command writes to, and that can be filled behind its back.
struct Full {
    /// Nothing reads from it.
    _read: std::io::PipeReader,
    write: std::io::PipeWriter,
}

impl Full {
    fn new() -> Self {
        let (read, write) = std::io::pipe().unwrap();
        Self { _read: read, write }
    }

    /// Fills it: whoever writes to it waits from here on.
    fn fill(&self) {
        // Opened once more, so that only this writer does not wait.
        let path = format!("/proc/self/fd/{}", self.write.as_raw_fd());
        let mut writer = File::options().write(true).custom_flags(libc::O_NONBLOCK).open(path).unwrap();
        // The last bytes one by one, as a page that is not full takes a small write.
        for piece in [&[b' '; 4096][..], b" "] {
            while writer.write(piece).is_ok() {}
        }
    }
}

/// A command that cannot write its report, because nothing reads it, waits for that after the first
/// signal; the second ends it.
fn the_second_signal_ends(args: &[&str]) {
    let pipe = Full::new();
    let mut command = Beside::writing_to(args, pipe.write.try_clone().unwrap().into());
    assert!(tier::wait_for(|| command.listens()), "{args:?} never listens");
    std::thread::sleep(Duration::from_millis(700));
    assert!(command.0.try_wait().unwrap().is_none(), "{args:?} ended by itself");
    pipe.fill();
    scene::command::signal(&command.0, libc::SIGTERM);
    std::thread::sleep(Duration::from_millis(700));
    assert!(command.0.try_wait().unwrap().is_none(), "{args:?} wrote its report to a full pipe");
    scene::command::signal(&command.0, libc::SIGINT);
    assert_eq!(command.status(), Some(128 + libc::SIGINT), "{args:?}");
}

#[test]
fn a_second_signal_ends_workloads_and_their_server_without_a_report() {
    let serve = Beside::start(&["serve", "--listen", "127.0.0.1:5699", "--json"]);
    let to = "127.0.0.1:5699";
    assert!(tier::wait_for(|| std::net::TcpStream::connect(to).is_ok()));
    for workload in ["stream", "rr", "crr", "udp"] {
        the_second_signal_ends(&[workload, to, "--for", "60s", "--json"]);
    }
    the_second_signal_ends(&["ping-under-load", to, "--for", "60s", "--json"]);
    the_second_signal_ends(&["probe", "udp", to, "--count", "1000", "--json"]);
    drop(serve);
    the_second_signal_ends(&["serve", "--listen", "127.0.0.1:0", "--json"]);
}

#[test]
fn a_second_signal_ends_what_needs_root_without_a_report() {
    tier::needs!(Need::Root, scene::BTF, scene::TUN);
    let _turn = scene::turn();
    the_second_signal_ends(&["trace", "--port", "5697", "--json"]);
    the_second_signal_ends(&["watch", "srtt", "--port", "5697", "--json"]);
    the_second_signal_ends(&["capture", "-i", "lo", "--json"]);
    the_second_signal_ends(&["analyze", "-i", "lo", "--json"]);
    let name = format!("signals-twice-{}", std::process::id());
    the_second_signal_ends(&["lab", "up", "--name", &name, "--json"]);
    // The lab's other processes notice a moment later that their owner is gone.
    let lock = format!("/run/wirelapse/labs/{name}.lock");
    assert!(tier::wait_for(|| !std::path::Path::new(&lock).exists()), "the name is not free");
    the_second_signal_ends(&["study", "small-messages", "--quick", "--json"]);
    the_second_signal_ends(&["study", "overhead", "--quick", "--json"]);
    the_second_signal_ends(&["study", "reception", "--quick", "--json"]);
}

#[test]
fn a_second_signal_ends_what_works_on_a_wire_without_a_report() {
    tier::needs!(Need::Root);
    // A thread in a network namespace, which the commands that it starts are in too.
    let test = || {
        // SAFETY: moves the calling thread alone into a new network namespace.
        unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNET) }.unwrap();
        let ip =
            |words: &str| assert!(Command::new("ip").args(words.split(' ')).status().unwrap().success(), "{words}");
        ip("link add left type veth peer name right");
        ip("link set left up");
        ip("link set right up");
        the_second_signal_ends(&["delay", "--before", "left", "--after", "right", "--json"]);
        let generate = ["generate", "-i", "left", "--yes-this-interface", "--rate", "10/s", "--for", "60s", "--json"];
        the_second_signal_ends(&generate);
    };
    std::thread::scope(|scope| scope.spawn(test).join()).unwrap();
}
