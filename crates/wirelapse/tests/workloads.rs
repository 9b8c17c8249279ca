//! The workload commands as programs: exit status, signals, and what they print.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::Value;

fn wirelapse(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wirelapse"));
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// `serve` on a free port, ended when dropped.
struct Serve {
    child: Child,
    out: BufReader<ChildStdout>,
    address: String,
}

impl Serve {
    fn start() -> Self {
        Self::with(&[])
    }

    fn with(extra: &[&str]) -> Self {
        let args = [&["serve", "--listen", "127.0.0.1:0", "--json"], extra].concat();
        let mut child = wirelapse(&args).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        let event: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(event["kind"], "listening");
        Self { child, out, address: event["address"].as_str().unwrap().to_owned() }
    }
}

impl Drop for Serve {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

#[test]
fn every_workload_ends_in_an_outcome() {
    let serve = Serve::start();
    let to = serve.address.as_str();
    for args in [
        &["stream", to, "--for", "300ms"][..],
        &["stream", to, "--for", "300ms", "--both", "--zerocopy"],
        &["stream", to, "--for", "300ms", "--down", "--sendfile", "--rate", "80M"],
        &["rr", to, "--for", "300ms", "--rate", "100"],
        &["crr", to, "--for", "300ms", "--response", "724", "--writes", "2"],
        &["udp", to, "--for", "300ms"],
        &["ping-under-load", to, "--before", "300ms", "--for", "500ms", "--after", "300ms", "-P", "1"],
    ] {
        let output = wirelapse(args).arg("--json").output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{args:?}: {error}");
        let text = String::from_utf8(output.stdout).unwrap();
        let lines: Vec<Value> = text.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
        assert_eq!(lines.last().unwrap()["kind"], "outcome", "{args:?}");
        // And words for people.
        assert!(wirelapse(args).output().unwrap().stdout.len() > 50, "{args:?}");
    }
}

#[test]
fn flent_files_are_written_and_reported_on() {
    let serve = Serve::start();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.flent.gz");
    let path = file.to_str().unwrap();
    let short = ["--before", "300ms", "--for", "1s", "--after", "300ms", "--probe-interval", "20ms", "-P", "1"];
    let run = wirelapse(&["ping-under-load", &serve.address, "--flent", path]).args(short).output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let read = wirelapse(&["ping-under-load", "--read", path, "--json"]).output().unwrap();
    assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
    let text = String::from_utf8(read.stdout).unwrap();
    let events: Vec<Value> = text.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!((events[0]["kind"].as_str(), events[0]["metadata"]["NAME"].as_str()), (Some("flent"), Some("rrul_be")));
    let series = |name: &str| events.iter().find(|e| e["name"] == name).unwrap_or_else(|| panic!("no {name}: {text}"));
    let ping = series("Ping (ms) avg");
    for part in ["before", "loaded", "after"] {
        assert!(ping[part]["n"].as_u64() > Some(3) && ping[part]["median_ns"].as_u64() > Some(0), "{ping}");
    }
    let up = series("TCP upload sum");
    assert!(up["before"].is_null() && up["loaded"]["mean_bits_per_second"].as_f64() > Some(1e6), "{up}");
    let people = wirelapse(&["ping-under-load", "--read", path]).output().unwrap();
    let people = String::from_utf8(people.stdout).unwrap();
    assert!(people.contains("the load added") && people.contains("TCP upload sum"), "{people}");
    // Neither a server nor a file, both, and a file that is none.
    std::fs::write(&file, b"\x1f\x8bno gzip").unwrap();
    for args in [
        &["ping-under-load"][..],
        &["ping-under-load", "127.0.0.1", "--read", path],
        &["ping-under-load", "--read", path],
    ] {
        assert_eq!(wirelapse(args).output().unwrap().status.code(), Some(2), "{args:?}");
    }
}

#[test]
fn a_port_in_use_and_a_refusal_are_wrong_use() {
    let serve = Serve::start();
    for (args, words) in [
        (&["serve", "--listen", &serve.address][..], "another program has that port"),
        (&["stream", &serve.address, "--for", "9000h"], "--max-duration"),
        (&["rr", &serve.address, "--congestion", "nonesuch"], "tcp_available_congestion_control"),
        (&["stream", "no such host"], "HOST:PORT"),
    ] {
        let output = wirelapse(args).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {error}");
        assert!(error.contains(words), "{args:?}: {error}");
    }
}

#[test]
fn a_signal_ends_the_server_and_its_clients_cleanly() {
    let mut serve = Serve::start();
    let client = wirelapse(&["stream", &serve.address, "--for", "60s", "--json"]).spawn().unwrap();
    let mut line = String::new();
    while !line.contains("began") {
        line.clear();
        assert!(serve.out.read_line(&mut line).unwrap() > 0);
    }
    let pid = serve.child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    let mut rest = String::new();
    serve.out.read_to_string(&mut rest).unwrap();
    assert!(serve.child.wait().unwrap().success());
    assert!(rest.lines().last().unwrap().contains("\"kind\":\"stopped\""), "{rest}");
    // Its client says why it ended early, and what it had measured.
    let output = client.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stdout).contains("\"kind\":\"outcome\""));
}

/// A cgroup that allows so many processes and threads, taken down when dropped.
struct PidsCgroup(std::path::PathBuf);

impl PidsCgroup {
    /// Where the machine has the controller of processes (version 1 or 2) and lets us make a group.
    fn new(most: u32) -> Option<Self> {
        let mounts = std::fs::read_to_string("/proc/mounts").ok()?;
        let of = |line: &str| {
            let f: Vec<&str> = line.split(' ').collect();
            let has = match f[2] {
                "cgroup" => f[3].split(',').any(|o| o == "pids"),
                "cgroup2" => std::fs::read_to_string(format!("{}/cgroup.subtree_control", f[1])).ok()?.contains("pids"),
                _ => false,
            };
            has.then(|| std::path::PathBuf::from(f[1]))
        };
        let dir = mounts.lines().find_map(of)?.join(format!("wirelapse-test-{}", std::process::id()));
        std::fs::create_dir(&dir).ok()?;
        let group = Self(dir);
        std::fs::write(group.0.join("pids.max"), most.to_string()).ok()?;
        Some(group)
    }
}

impl Drop for PidsCgroup {
    fn drop(&mut self) {
        // Empty once its last process is gone, which takes the kernel a moment.
        for _ in 0..100 {
            if std::fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}

#[test]
fn a_server_under_a_task_limit_refuses_and_goes_on() {
    tier::needs!(tier::Need::Root);
    let Some(group) = PidsCgroup::new(40) else {
        return tier::skip("a_server_under_a_task_limit_refuses_and_goes_on", "needs a cgroup controller of processes");
    };
    let mut shell = Command::new("sh");
    let run = format!("echo $$ > {}/cgroup.procs && exec \"$0\" \"$@\"", group.0.display());
    shell.args(["-c", &run, env!("CARGO_BIN_EXE_wirelapse"), "serve", "--listen", "127.0.0.1:0", "--json"]);
    let mut child = shell.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    let event: Value = serde_json::from_str(&line).unwrap();
    let serve = Serve { child, out, address: event["address"].as_str().unwrap().to_owned() };
    for _ in 0..3 {
        let output = wirelapse(&["crr", &serve.address, "--for", "300ms", "-c", "64"]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("no thread"), "{said}");
    }
    for args in [&["crr", "--for", "300ms", "-c", "4"][..], &["stream", "--for", "300ms"], &["udp", "--for", "300ms"]] {
        let output = wirelapse(&[&args[..1], &[&serve.address], &args[1..]].concat()).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    drop(serve);
    drop(group);
}

#[test]
fn a_token_comes_from_a_file_or_the_environment_too() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("token");
    std::fs::write(&file, "s3cret\n").unwrap();
    let file = file.to_str().unwrap();
    let serve = Serve::with(&["--token-file", file]);
    let rr = |extra: &[&str], variable: Option<&str>| {
        let mut command = wirelapse(&[&["rr", &serve.address, "--for", "100ms"], extra].concat());
        command.env_remove("WIRELAPSE_TOKEN").envs(variable.map(|v| ("WIRELAPSE_TOKEN", v)));
        command.output().unwrap().status.code()
    };
    assert_eq!(rr(&["--token-file", file], None), Some(0));
    assert_eq!(rr(&[], Some("s3cret")), Some(0));
    assert_eq!([rr(&[], None), rr(&[], Some("other")), rr(&["--token-file", "/no/such"], None)], [Some(2); 3]);
}
