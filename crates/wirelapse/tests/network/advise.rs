//! `advise` on captures that others took: what it finds in a twin, and what it says where there can
//! be none.

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead as _, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lab::{Config, Direction, Lab, Side};
use record::Nanos;
use serde_json::Value;
use tier::{Need, Process};

use crate::limited::with_threads;

fn recorded(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../wire/tests/recorded").join(file)
}

fn run(words: &[&str]) -> Output {
    tier::wirelapse!(words).output().unwrap()
}

/// The advice on a file, by a user who has no lab.
fn without_root(file: &Path) -> (Option<i32>, String, Value) {
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("capture");
    fs::copy(file, &copy).unwrap();
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o644)).unwrap();
    let words = ["advise", copy.to_str().unwrap(), "--json"];
    let output = with_threads(folder.path(), 100, &words).output().unwrap();
    let advice = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
    (output.status.code(), String::from_utf8(output.stderr).unwrap(), advice)
}

fn withheld(advice: &Value) -> String {
    advice["withheld"].as_array().unwrap().iter().map(|why| why.as_str().unwrap()).collect::<Vec<_>>().join("; ")
}

/// The first of the dumps of small messages, line by line.
fn first_dump() -> Vec<String> {
    let text = fs::read_to_string(recorded("small-messages.txt")).unwrap();
    text.lines().take_while(|line| !line.is_empty()).map(str::to_owned).collect()
}

fn written(lines: &[String]) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), lines.join("\n") + "\n").unwrap();
    file
}

#[test]
fn a_dump_of_small_messages_is_enough_to_name_a_remedy_and_the_run_says_the_same() {
    tier::needs!(Need::Root, Need::Path("/dev/net/tun"));
    let folder = tempfile::tempdir().unwrap();
    let kept = folder.path().join("advice");
    let file = format!("{}#1", recorded("small-messages.txt").display());
    let output = run(&["advise", &file, "--budget", "90s", "-o", kept.to_str().unwrap(), "--json"]);
    assert!(output.status.success(), "{output:?}");
    let advice: Value = serde_json::from_slice(&output.stdout).unwrap();
    let best = &advice["remedies"][0];
    assert_eq!(best["effect"], "helps", "{best} {}", withheld(&advice));
    let names = ["TCP_NODELAY", "quick ACKs", "one write instead of several"];
    assert!(names.contains(&best["remedy"].as_str().unwrap()), "{best}");
    // What would be tried where there is time is tried, and the rest says why it is not.
    let not = advice["not_tried"].as_array().unwrap();
    assert!(not.iter().all(|one| !one["because"].as_str().unwrap().is_empty()), "{not:?}");
    let again = run(&["report", kept.to_str().unwrap(), "--json"]);
    assert_eq!(serde_json::from_slice::<Value>(&again.stdout).unwrap(), advice, "{again:?}");
    let page = String::from_utf8(run(&["report", kept.to_str().unwrap()]).stdout).unwrap();
    assert!(page.contains(best["remedy"].as_str().unwrap()) && page.contains("What helps"), "{page}");
}

#[test]
fn what_a_capture_lacks_is_named_and_nothing_is_advised() {
    tier::needs!(Need::Root);
    let dump = first_dump();
    let one_way: Vec<String> = dump.iter().filter(|line| line.contains(" 10.77.0.1.46142 > ")).cloned().collect();
    for (lines, why) in [(&dump[3..], "the handshake is not in the capture"), (&one_way, "one direction only")] {
        let (code, said, advice) = without_root(written(lines).path());
        assert!(code == Some(0) && withheld(&advice).contains(why), "{why}: {code:?} {said} {advice}");
        assert!(advice["fit"].is_null() && advice["remedies"].as_array().unwrap().iter().all(|r| r["n"] == 0));
    }
    let (code, said, advice) = without_root(written(&dump).path());
    assert!(code == Some(0) && withheld(&advice).contains("without root"), "{code:?} {said} {advice}");
    // What would be tried is there all the same.
    assert_eq!(advice["remedies"][0]["effect"], "not_tried", "{advice}");
}

#[test]
fn of_ten_thousand_connections_the_one_that_lost_most_is_chosen() {
    tier::needs!(Need::Root);
    let slow = first_dump();
    // The others answer at once: the second dump of the file, which waits for nothing.
    let text = fs::read_to_string(recorded("small-messages.txt")).unwrap();
    let quick = text.split("\n\n").nth(1).unwrap();
    let mut all = String::new();
    for port in 10_000..19_999 {
        writeln!(all, "{}\n", quick.replace("10.77.0.1.46144", &format!("10.77.0.1.{port}"))).unwrap();
    }
    all.push_str(&slow.join("\n"));
    let (code, said, advice) = without_root(written(&[all]).path());
    let chosen = advice["chosen"].as_str().unwrap_or_else(|| panic!("{code:?} {said} {advice}"));
    assert!(chosen.contains("Connection 10000 was chosen of 10,000"), "{chosen}");
}

#[test]
fn captures_of_strangers_are_advised_on_or_it_is_said_why_not() {
    tier::needs!(Need::Root);
    let shared = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/captures");
    let folders = [recorded(""), shared];
    let files = folders.iter().flat_map(|folder| fs::read_dir(folder).into_iter().flatten().flatten());
    let mut n = 0;
    for file in files.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|e| e != "md")) {
        let (code, said, advice) = without_root(&file);
        assert!(!said.contains("panicked"), "{}: {said}", file.display());
        match code {
            Some(0) => assert!(!withheld(&advice).is_empty(), "{}: {advice}", file.display()),
            Some(2) => assert!(said.starts_with("wirelapse: "), "{}: {said}", file.display()),
            other => panic!("{}: {other:?} {said}", file.display()),
        }
        n += 1;
    }
    assert!(n >= 5, "{n}");
}

/// Says its number in the host's namespace, and downloads so many times, each time on a new
/// connection.
const DOWNLOADS: &str = "
import os, socket, sys, time
print(os.getpid(), flush=True)
for _ in range(int(sys.argv[3])):
    with socket.create_connection((sys.argv[1], int(sys.argv[2]))) as s:
        s.sendall(b'?')
        while s.recv(65536): pass
    time.sleep(0.1)
";

const SETTING: &str = "net.ipv4.tcp_rmem";
const SMALL: &str = "4096\t65536\t65536";

/// A path of 40 ms to a server, and a client whose receive buffer is too small for it.
struct Downloads {
    lab: Lab,
    to: SocketAddr,
    /// Whether the server is slow.
    slow: Arc<AtomicBool>,
}

impl Downloads {
    fn new() -> Self {
        let direction = Direction { delay: Nanos::from_millis(20), ..Direction::default() };
        let lab = Lab::up(&Config::symmetric(direction)).unwrap();
        lab.host(Side::A).set_sysctl(SETTING, SMALL).unwrap();
        let there = lab.host(Side::B);
        let listener = there.run(|| TcpListener::bind((there.ipv4(), 0)).unwrap()).unwrap();
        let to = listener.local_addr().unwrap();
        let slow = Arc::new(AtomicBool::new(false));
        let is_slow = slow.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let is_slow = is_slow.clone();
                std::thread::spawn(move || serve(stream, &is_slow));
            }
        });
        Self { lab, to, slow }
    }

    /// A program in the client's host.
    fn command(&self, program: &str) -> Command {
        tier::limit(self.lab.host(Side::A).command(program).unwrap())
    }

    /// The words with which Python downloads so many times.
    fn words(&self, times: u32) -> [String; 5] {
        let (to, port) = (self.to.ip().to_string(), self.to.port().to_string());
        ["-c".into(), DOWNLOADS.into(), to, port, times.to_string()]
    }
}

#[test]
fn the_run_of_a_trace_with_its_packets_is_advised_on() {
    tier::needs!(
        Need::Root,
        Need::Path("/dev/net/tun"),
        Need::Path("/sys/kernel/btf/vmlinux"),
        Need::Program("python3")
    );
    let downloads = Downloads::new();
    let folder = tempfile::tempdir().unwrap();
    let helps = |n: u32| {
        let traced = folder.path().join(n.to_string());
        let mut trace = downloads.command(env!("CARGO_BIN_EXE_wirelapse"));
        trace.args(["trace", "--packets", "--no-live", "-o"]).arg(&traced);
        let output = trace.args(["--", "python3"]).args(downloads.words(2)).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let output = run(&["advise", traced.to_str().unwrap(), "--budget", "40s", "--json"]);
        assert!(output.status.success(), "{output:?}");
        let advice: Value = serde_json::from_slice(&output.stdout).unwrap();
        let best = &advice["remedies"][0];
        eprintln!("{best} {}", withheld(&advice));
        best["effect"] == "helps" && best["remedy"] == "a larger receive buffer"
    };
    // On a busy machine a twin may be unlike the original.
    assert!((1..=3).any(helps));
}

#[test]
fn what_is_set_is_watched_and_put_back_when_it_no_longer_does_what_was_promised() {
    tier::needs!(
        Need::Root,
        Need::Path("/dev/net/tun"),
        Need::Path("/sys/kernel/btf/vmlinux"),
        Need::Program("python3")
    );
    let downloads = Downloads::new();
    let setting = || downloads.lab.host(Side::A).sysctl(SETTING).unwrap();
    let mut client = downloads.command("python3");
    let mut client = Process::start(client.args(downloads.words(u32::MAX)).stdout(Stdio::piped()));
    let (pid, _) = client.first_line();
    let pid = pid.trim();
    let mut advise = downloads.command(env!("CARGO_BIN_EXE_wirelapse"));
    let words =
        ["advise", "-p", pid, "--for", "3s", "--budget", "40s", "--apply", "--watch", "--every", "1s", "--json"];
    advise.args(words).stdout(Stdio::piped());
    let mut advise = Process::start(&mut advise);
    let (first, rest) = advise.first_line();
    let read = |line: &str| serde_json::from_str::<Value>(line).unwrap_or_else(|e| panic!("{e}: {line}"));
    let mut lines = rest.lines().map(|line| read(&line.unwrap()));
    let mut advice = read(&first);
    // On a busy machine a twin may be unlike the original, or the program slow: then it advises
    // again.
    while advice["applied"]["left"] != "watched" {
        eprintln!("{} {}", withheld(&advice), advice["applied"]);
        advice = lines.next().unwrap();
    }
    let applied = &advice["applied"];
    assert_eq!(applied["set"][0][0], SETTING, "{applied}");
    assert_eq!(setting(), applied["set"][0][1].as_str().unwrap().replace(' ', "\t"));
    let look = lines.next().unwrap();
    assert!(look["kind"] == "advice_look" && look["n"].as_u64() > Some(0), "{look}");
    assert!(look["held"] == true || lines.any(|line| line["held"] == true));
    downloads.slow.store(true, Ordering::Relaxed);
    let mut broken = 0;
    while broken < 2 {
        let look = lines.next().unwrap();
        assert_eq!(look["kind"], "advice_look", "{look}");
        broken = if look["held"] == false { broken + 1 } else { 0 };
    }
    assert!(tier::wait_for(|| setting() == SMALL), "{} stands", setting());
}

/// An answer of 1.5 MB, in 100 pieces with pauses where it is slow.
fn serve(mut stream: TcpStream, is_slow: &AtomicBool) {
    let _ = stream.read(&mut [0; 1]);
    for _ in 0..100 {
        if is_slow.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(20));
        }
        if stream.write_all(&[b'x'; 15_000]).is_err() {
            return;
        }
    }
}
