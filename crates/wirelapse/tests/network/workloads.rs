//! The workload commands as programs: exit status, signals, and what they print.

use crate::limited;
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{ChildStdout, Command, Stdio};

use serde_json::Value;
use tier::Process;

fn wirelapse(args: &[&str]) -> Command {
    let mut command = tier::wirelapse!(args);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// `serve` on a free port, ended when dropped.
struct Serve {
    child: Process,
    out: BufReader<ChildStdout>,
    address: String,
}

impl Serve {
    fn start() -> Self {
        Self::with(&[])
    }

    fn with(extra: &[&str]) -> Self {
        let args = [&["serve", "--listen", "127.0.0.1:0", "--json"], extra].concat();
        let mut child = Process::from(wirelapse(&args).spawn().unwrap());
        let (line, out) = child.first_line();
        let event: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(event["kind"], "listening");
        Self { child, out, address: event["address"].as_str().unwrap().to_owned() }
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
        let error = tier::text(&output.stderr);
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
    assert!(run.status.success(), "{}", tier::text(&run.stderr));
    let read = wirelapse(&["ping-under-load", "--read", path, "--json"]).output().unwrap();
    assert!(read.status.success(), "{}", tier::text(&read.stderr));
    let text = String::from_utf8(read.stdout).unwrap();
    let events: Vec<Value> = text.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!(
        (events[0]["kind"].as_str(), events[0]["metadata"]["NAME"].as_str()),
        (Some("flent"), Some("rrul_be_nflows"))
    );
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

/// The server gives up every right but that of a process which sets what only root may.
#[test]
fn a_server_that_root_starts_sets_each_congestion_control_that_there_is() {
    tier::needs!(tier::Need::Root);
    let serve = Serve::start();
    let known = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap();
    for name in known.split_whitespace() {
        for args in [&["stream", &serve.address, "-R", "-t", "200ms"][..], &["rr", &serve.address, "-t", "200ms"]] {
            let output = wirelapse(&[args, &["--json", "--congestion", name]].concat()).output().unwrap();
            assert!(output.status.success(), "{name}: {}", tier::text(&output.stderr));
            let said = tier::text(&output.stdout);
            let outcome: Value = serde_json::from_str(said.lines().last().unwrap()).unwrap();
            let server = &outcome["server_congestion_control"];
            assert!(server.is_null() || server == name, "{outcome}");
            assert_eq!(outcome["congestion_control"], name, "{outcome}");
        }
    }
}

#[test]
fn a_port_in_use_and_a_refusal_are_wrong_use() {
    let serve = Serve::start();
    for (args, words) in [
        (&["serve", "--listen", &serve.address][..], "another program has that port"),
        (&["stream", &serve.address, "--for", "9000h"], "--max-duration"),
        (&["rr", &serve.address, "--congestion", "nonesuch"], "tcp_available_congestion_control"),
        (&["ping-under-load", &serve.address, "--before", "2"], "the unit is missing"),
        (&["stream", "no such host"], "HOST:PORT"),
    ] {
        let output = wirelapse(args).output().unwrap();
        let error = tier::text(&output.stderr);
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
    assert!(tier::text(&output.stdout).contains("\"kind\":\"outcome\""));
}

#[test]
fn a_client_without_threads_says_so() {
    tier::needs!(tier::Need::Root);
    let serve = Serve::start();
    let to = serve.address.as_str();
    let folder = tempfile::tempdir().unwrap();
    for words in [
        &["rr", to, "-c", "64", "--for", "300ms"][..],
        &["crr", to, "-c", "64", "--for", "300ms"],
        &["stream", to, "-P", "16", "--for", "300ms"],
        &["ping-under-load", to, "--before", "300ms", "--for", "300ms", "--after", "300ms"],
    ] {
        let ended = limited::with_threads(folder.path(), 3, words).output().unwrap();
        let said = tier::text(&ended.stderr);
        assert_eq!(ended.status.code(), Some(1), "{words:?}: {said}");
        assert!(said.contains("thread") && !said.contains("panicked"), "{words:?}: {said}");
    }
}

#[test]
fn a_server_under_a_task_limit_refuses_and_goes_on() {
    tier::needs!(tier::Need::Root);
    let Some(group) = tier::PidsCgroup::new("serve", 40) else {
        return tier::skip("a_server_under_a_task_limit_refuses_and_goes_on", "needs a cgroup controller of processes");
    };
    let mut limited = group.command(env!("CARGO_BIN_EXE_wirelapse"), &["serve", "--listen", "127.0.0.1:0", "--json"]);
    let mut child = limited.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    let event: Value = serde_json::from_str(&line).unwrap();
    let serve = Serve { child: child.into(), out, address: event["address"].as_str().unwrap().to_owned() };
    for _ in 0..3 {
        let output = wirelapse(&["crr", &serve.address, "--for", "300ms", "-c", "64"]).output().unwrap();
        let said = tier::text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("no thread"), "{said}");
    }
    // Its flows are open before their threads are made.
    let output = wirelapse(&["stream", &serve.address, "--for", "300ms", "-P", "64"]).output().unwrap();
    let said = tier::text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("its kernel does not allow it: starting a flow's thread"), "{said}");
    // No thread for the connection itself: all of them stay until one was refused.
    let rr = || wirelapse(&["rr", &serve.address, "--for", "60s"]).stderr(Stdio::piped()).spawn().unwrap();
    let mut clients: Vec<_> = (0..60).map(|_| rr()).collect();
    let mut one_ended = || clients.iter_mut().any(|client| client.try_wait().unwrap().is_some());
    assert!(tier::wait_for(&mut one_ended), "every client had its thread");
    for client in &mut clients {
        if client.try_wait().unwrap().is_none() {
            assert!(Command::new("kill").args(["-INT", &client.id().to_string()]).status().unwrap().success());
        }
    }
    let ended: Vec<_> = clients.into_iter().map(|client| client.wait_with_output().unwrap()).collect();
    let refused = ended.iter().filter(|output| output.status.code() == Some(1)).inspect(|output| {
        let said = tier::text(&output.stderr);
        assert!(said.contains("busy"), "{said}");
    });
    assert!(refused.count() > 0, "{ended:?}");
    for output in ended.iter().filter(|output| output.status.code() != Some(1)) {
        assert_eq!(output.status.code(), Some(0), "{}", tier::text(&output.stderr));
    }
    for args in [&["crr", "--for", "300ms", "-c", "4"][..], &["stream", "--for", "300ms"], &["udp", "--for", "300ms"]] {
        let output = wirelapse(&[&args[..1], &[&serve.address], &args[1..]].concat()).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{args:?}: {}", tier::text(&output.stderr));
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

#[test]
fn a_core_file_of_a_server_holds_no_token() {
    use std::os::unix::process::ExitStatusExt as _;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("token");
    std::fs::write(&file, "s3cret\n").unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -c unlimited; exec \"$0\" serve --listen 127.0.0.1:0 --json --token-file \"$1\""]);
    command.arg(env!("CARGO_BIN_EXE_wirelapse")).arg(&file).current_dir(dir.path());
    let mut serve = Process::from(command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap());
    let (line, _out) = serve.first_line();
    assert!(line.contains("listening"), "{line}");
    assert!(Command::new("kill").args(["-ABRT", &serve.id().to_string()]).status().unwrap().success());
    let ended = serve.wait().unwrap();
    assert_eq!(ended.signal(), Some(libc::SIGABRT));
    assert!(!ended.core_dumped(), "{ended:?}");
}

#[test]
fn a_server_with_a_certificate_takes_tests_within_tls_alone() {
    let folder = tempfile::tempdir().unwrap();
    let rcgen::CertifiedKey { cert, signing_key } =
        rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (chain, key) = (file("cert.pem", &cert.pem()), file("key.pem", &signing_key.serialize_pem()));
    let serve = Serve::with(&["--tls-cert", &chain, "--tls-key", &key]);
    let run = |args: &[&str]| {
        let output = wirelapse(args).output().unwrap();
        (output.status.code(), tier::text(&output.stderr))
    };
    let to = serve.address.as_str();
    for workload in ["rr", "stream"] {
        assert_eq!(run(&[workload, to, "--for", "200ms", "--tls-ca", &chain]).0, Some(0), "{workload}");
        let (status, error) = run(&[workload, to, "--for", "200ms"]);
        assert!(status == Some(2) && error.contains("--tls-ca"), "{workload}: {error}");
    }
    let (status, error) = run(&["serve", "--listen", "127.0.0.1:0", "--tls-cert", &chain, "--tls-key", &chain]);
    assert!(status == Some(2) && error.contains("no private key"), "{error}");
}

#[test]
fn what_people_read_of_each_workload_is_a_document() {
    let serve = Serve::start();
    let to = serve.address.as_str();
    for (args, says) in [
        (
            &["stream", to, "--for", "300ms", "-i", "100ms"][..],
            &["stream to ", "up: ", "received (", "# Settings and cost"][..],
        ),
        (&["rr", to, "--for", "300ms"], &["rr to ", " transactions in ", "# Latency", "Share of transactions"]),
        (&["crr", to, "--for", "300ms"], &["crr to ", "a connection each", "handshake", "slowest transactions"]),
        (&["udp", to, "--for", "300ms"], &["udp to ", " lost (0 %)", "jitter", "one-way delay"]),
        (
            &["ping-under-load", to, "--before", "300ms", "--for", "500ms", "--after", "300ms", "-P", "1"],
            &["ping-under-load to ", "udp: the ", "round trips a minute", "# Round trips", "The load: "],
        ),
    ] {
        let output = wirelapse(args).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(0), "{text}{}", tier::text(&output.stderr));
        assert!(says.iter().all(|words| text.contains(words)), "no {says:?} in {text}");
        // Where no Unicode is, none is written.
        let plain = wirelapse(args).env("LC_ALL", "C").output().unwrap();
        assert!(plain.stdout.is_ascii(), "{}", tier::text(&plain.stdout));
    }
}

#[test]
fn a_run_is_reported_as_its_workload_ended_and_two_of_them_compare() {
    let serve = Serve::with(&["--token", "s3cret"]);
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let to = serve.address.as_str();
    let output = |args: &[&str]| {
        let output = wirelapse(args).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let load = ["--before", "500ms", "--for", "1s", "--after", "300ms", "--probe-interval", "10ms", "-P", "1"];
    let workloads: [(&str, &[&str]); 5] = [
        ("stream", &["--for", "1500ms", "-i", "100ms"]),
        ("rr", &["--for", "1500ms", "-i", "100ms"]),
        ("crr", &["--for", "1500ms", "-i", "100ms"]),
        ("udp", &["--for", "1500ms", "-i", "100ms"]),
        ("ping-under-load", &load),
    ];
    for (workload, options) in workloads {
        let (text, json) = (at(&format!("{workload}-text")), at(&format!("{workload}-json")));
        let args = |run: &str| {
            [&[workload, to, "--token", "s3cret", "-o", run], options]
                .concat()
                .into_iter()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        let call = |run: &str, more: &[&str]| {
            let all = args(run);
            output(&all.iter().map(String::as_str).chain(more.iter().copied()).collect::<Vec<_>>())
        };
        let (status, live, error) = call(&text, &[]);
        assert_eq!(status, Some(0), "{workload}: {error}");
        assert_eq!(output(&["report", &text]).1, live, "{workload}");
        let (_, live, _) = call(&json, &["--json"]);
        let kinds = |text: &str| text.lines().map(|l| serde_json::from_str::<Value>(l).unwrap()).collect::<Vec<_>>();
        assert_eq!(kinds(&output(&["report", &json, "--json"]).1), kinds(&live), "{workload}");
        assert!(!std::fs::read_to_string(format!("{text}/run.json")).unwrap().contains("s3cret"));
        let page = at(&format!("{workload}.html"));
        assert_eq!(output(&["report", &text, "--html", &page]).0, Some(0), "{workload}");
        assert!(
            std::fs::read_to_string(&page).unwrap().contains("<svg")
                || std::fs::metadata(&page).unwrap().len() > 10_000
        );
        // What is there is not overwritten, and nothing is measured first.
        let (status, _, error) = call(&text, &[]);
        assert_eq!((status, error.contains("exists")), (Some(2), true), "{error}");
        let (status, compared, error) = output(&["compare", &text, &json]);
        assert_eq!(status, Some(0), "{workload}: {error}");
        assert!(compared.contains("There is one run of each") && compared.contains('['), "{compared}");
    }
    let (status, _, error) = output(&["compare", &at("rr-text"), &at("udp-text")]);
    assert_eq!((status, error.contains("same workload")), (Some(2), true), "{error}");
}

/// A server that is stopped takes connections, as its kernel does, and answers no more: neither
/// command calls that done.
#[test]
fn a_server_that_falls_silent_is_no_success() {
    for command in ["rr", "crr"] {
        let serve = Serve::start();
        let args = [command, &serve.address, "--for", "2500ms", "--connections", "4", "--interval", "100ms"];
        let mut client = Process::from(wirelapse(&args).spawn().unwrap());
        // Transactions are under way.
        std::thread::sleep(std::time::Duration::from_millis(500));
        let pid = rustix::process::Pid::from_child(&serve.child);
        rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
        let status = client.wait().unwrap();
        let (mut out, mut error) = (String::new(), String::new());
        client.stdout.as_mut().unwrap().read_to_string(&mut out).unwrap();
        client.stderr.as_mut().unwrap().read_to_string(&mut error).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::CONT).unwrap();
        assert_eq!(status.code(), Some(1), "{command}: {out}{error}");
        assert!(error.contains("The server answered no more: 4 transactions unfinished"), "{command}: {error}");
        assert!(out.contains("4 unfinished."), "{command}: {out}");
    }
}
