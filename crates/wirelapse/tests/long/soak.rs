//! A long time in a short one: a traced server under changing load and abuse, and labs that come
//! and go. What the processes hold and what they left in the kernel is level at the end.
//! `make soak` lasts an hour, `cargo test` 40 s (WIRELAPSE_SOAK: seconds). Buffers fill for the
//! first half a minute or so: what is compared comes after.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::scene::command::signal;
use crate::scene::{BTF, TUN, turn};
use tier::{Need, Process};

const WIRELAPSE: &str = env!("CARGO_BIN_EXE_wirelapse");
const TOKEN: &str = "soak";

/// What a process holds.
#[derive(Clone, Copy, Debug)]
struct Held {
    resident_kib: u64,
    descriptors: u64,
    threads: u64,
}

impl Held {
    fn of(child: &Child) -> Self {
        let folder = format!("/proc/{}", child.id());
        let status = std::fs::read_to_string(format!("{folder}/status")).unwrap();
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.split_whitespace().next().unwrap().parse().unwrap()
        };
        Self {
            resident_kib: field("VmRSS:"),
            descriptors: std::fs::read_dir(format!("{folder}/fd")).unwrap().count() as u64,
            threads: field("Threads:"),
        }
    }
}

/// Objects in the kernel that a command could leave behind.
#[derive(Debug, PartialEq, Eq)]
struct Kernel {
    programs: usize,
    maps: usize,
    links: usize,
    interfaces: usize,
    runtime_files: usize,
}

impl Kernel {
    fn now() -> Self {
        let folder = |path: &str| std::fs::read_dir(path).map_or(0, Iterator::count);
        Self {
            programs: libbpf_rs::query::ProgInfoIter::default().count(),
            maps: libbpf_rs::query::MapInfoIter::default().count(),
            links: libbpf_rs::query::LinkInfoIter::default().count(),
            interfaces: folder("/sys/class/net"),
            // Labs of others come and go beside this.
            runtime_files: own_labs(),
        }
    }

    /// Once it has been the same for two seconds: what ended before this test is still being freed
    /// when it begins.
    fn at_rest() -> Self {
        let (mut last, mut since) = (Self::now(), Instant::now());
        while since.elapsed() < Duration::from_secs(2) {
            std::thread::sleep(Duration::from_millis(100));
            let now = Self::now();
            if now != last {
                (last, since) = (now, Instant::now());
            }
        }
        last
    }
}

/// Files of this test's labs.
fn own_labs() -> usize {
    let own = format!("soak{}-", std::process::id());
    let files = std::fs::read_dir("/run/wirelapse/labs").into_iter().flatten().flatten();
    files.filter(|file| file.file_name().to_string_lossy().starts_with(&own)).count()
}

/// Without the time limit of other tests: a soak lasts as long as it is asked to.
fn wirelapse(args: &[&str]) -> Command {
    let mut command = Command::new(WIRELAPSE);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

fn load(to: &str, round: usize) {
    let workloads: [&[&str]; 5] =
        [&["rr", "-c", "20"], &["stream", "-P", "4"], &["crr", "-c", "8"], &["udp"], &["stream", "--both", "-P", "2"]];
    let workload = workloads[round % workloads.len()];
    let args = [&[workload[0], to][..], &workload[1..], &["--for", "400ms", "--token", TOKEN]].concat();
    assert!(wirelapse(&args).status().unwrap().success(), "{args:?}");
}

/// What strangers do: nothing, a part of something, nonsense, a wrong token, and leaving in the
/// middle.
fn abuse(to: &str, address: SocketAddr) {
    let mut strangers: Vec<TcpStream> = (0..30).filter_map(|_| TcpStream::connect(address).ok()).collect();
    for (kind, stranger) in strangers.iter_mut().enumerate() {
        let said: &[u8] = match kind % 3 {
            0 => b"",
            1 => b"WIRELAPSE TRAF",
            _ => b"GET / HTTP/1.1\r\nHost: example\r\n\r\n and more than an opening holds",
        };
        // The server may have closed it already.
        stranger.write_all(said).ok();
    }
    let datagrams = UdpSocket::bind("127.0.0.1:0").unwrap();
    for size in 0..50 {
        datagrams.send_to(&vec![size; usize::from(size) * 20], address).unwrap();
    }
    assert_eq!(wirelapse(&["rr", to, "--for", "100ms", "--token", "wrong"]).status().unwrap().code(), Some(2));
    let mut leaves = Process::from(wirelapse(&["stream", to, "--for", "10s", "--token", TOKEN]).spawn().unwrap());
    std::thread::sleep(Duration::from_millis(200));
    leaves.kill().unwrap();
}

fn lab(round: usize) {
    let name = format!("soak{}-{round}", std::process::id());
    assert!(wirelapse(&["lab", "up", "--detach", "--name", &name, "--delay", "1ms"]).status().unwrap().success());
    let exec = ["lab", "exec", &format!("{name}:a"), "--", "true"];
    assert!(wirelapse(&exec).status().unwrap().success());
    assert!(wirelapse(&["lab", "down", &name]).status().unwrap().success());
}

fn median(values: impl Iterator<Item = u64>) -> u64 {
    let mut values: Vec<u64> = values.collect();
    values.sort_unstable();
    values[values.len() / 2]
}

#[test]
fn what_is_held_is_level_at_the_end() {
    tier::needs!(Need::Root, BTF, TUN);
    let _turn = turn();
    let lasts = std::env::var("WIRELAPSE_SOAK").map_or(40, |text| text.parse().expect("WIRELAPSE_SOAK: seconds"));
    let lasts = Duration::from_secs(lasts);
    let dir = tempfile::tempdir().unwrap();
    let before = Kernel::at_rest();

    let mut serve = Command::new(WIRELAPSE);
    serve.args(["serve", "--listen", "127.0.0.1:0", "--json", "--token", TOKEN]);
    let mut serve = Process::from(serve.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap());
    let mut said = BufReader::new(serve.stdout.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    let listening: serde_json::Value = serde_json::from_str(&line).unwrap();
    let to = listening["address"].as_str().unwrap().to_owned();
    let address: SocketAddr = to.parse().unwrap();
    let reader = std::thread::spawn(move || said.lines().map_while(Result::ok).last());

    let run = dir.path().join("run");
    let port = address.port().to_string();
    let mut trace = wirelapse(&["trace", "--port", &port, "--receive", "--no-live", "-o"]);
    let mut trace = Process::from(trace.arg(&run).spawn().unwrap());
    assert!(tier::wait_for(|| run.join("run.json").exists()), "the run never began");

    let (began, mut series, mut round) = (Instant::now(), Vec::new(), 0);
    while began.elapsed() < lasts {
        load(&to, round);
        abuse(&to, address);
        if round % 4 == 0 {
            lab(round);
        }
        series.push([Held::of(&serve), Held::of(&trace)]);
        round += 1;
    }
    println!("{round} rounds in {:.0} s", began.elapsed().as_secs_f64());
    assert!(series.len() >= 8, "only {} rounds: give it longer (WIRELAPSE_SOAK)", series.len());
    let quarter = series.len() / 4;
    for (at, name) in ["serve", "trace"].into_iter().enumerate() {
        let figure = |of: fn(&Held) -> u64| {
            let early = median(series[2 * quarter..3 * quarter].iter().map(|held| of(&held[at])));
            let late = median(series[3 * quarter..].iter().map(|held| of(&held[at])));
            (early, late)
        };
        let (memory, descriptors, threads) =
            (figure(|h| h.resident_kib), figure(|h| h.descriptors), figure(|h| h.threads));
        println!(
            "{name}: memory {} KiB then {}, descriptors {} then {}, threads {} then {} (medians of the third and the last quarter)",
            memory.0, memory.1, descriptors.0, descriptors.1, threads.0, threads.1
        );
        // In a short run the buffers still fill: it finds what grows with each connection, a long
        // one what grows slowly.
        let allowed = if lasts < Duration::from_secs(600) { memory.0 / 4 } else { memory.0 / 20 };
        assert!(memory.1 <= memory.0 + allowed + 4096, "{name}: memory grows");
        assert!(
            descriptors.1 <= descriptors.0 + 40 && threads.1 <= threads.0 + 4,
            "{name}: descriptors or threads grow"
        );
    }

    signal(&trace, libc::SIGINT);
    assert!(trace.wait().unwrap().success());
    signal(&serve, libc::SIGINT);
    assert!(serve.wait().unwrap().success());
    let last: serde_json::Value = serde_json::from_str(&reader.join().unwrap().unwrap()).unwrap();
    assert_eq!(last["kind"], "stopped");
    assert!(
        last["tests"].as_u64().unwrap() >= round as u64 && last["refused"].as_u64().unwrap() >= round as u64,
        "{last}"
    );
    let stored = store::Run::open(&run).unwrap();
    assert_eq!(stored.state(), store::State::Finished);
    // Links of sockets that are gone end a moment after them.
    assert!(tier::wait_for(|| Kernel::now() == before), "{before:?} before, {:?} after", Kernel::now());
}
