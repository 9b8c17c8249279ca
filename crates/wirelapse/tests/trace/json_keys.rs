//! Every key that a command writes with `--json` is in the documentation: the commands run on small
//! jobs, and each key of each line is looked up in the section of its kind.
//!
//! A row of a table documents the keys in back quotes in its first cell; `*` stands for any text
//! within a name, and what is in a list is documented as if it stood alone. Where the meaning links
//! to another section, that section has the keys inside.

use crate::scene;
use std::collections::{BTreeMap, BTreeSet};
use std::io::BufReader;
use std::process::{Command, Stdio};

use serde_json::Value;
use tier::{Need, Process};

/// The documentation of keys: by page and heading, the rows.
struct Docs(BTreeMap<String, Vec<Row>>);

struct Row {
    patterns: Vec<String>,
    /// The section that has the keys inside.
    inside: Option<String>,
}

impl Docs {
    fn read() -> Self {
        let docs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
        let mut sections = BTreeMap::new();
        for page in ["keys.md", "json.md", "records.md", "probe.md"] {
            let text = std::fs::read_to_string(docs.join(page)).unwrap();
            let mut section = page.to_owned();
            for line in text.lines() {
                if let Some(heading) = line.strip_prefix('#') {
                    section = format!("{page}#{}", anchor(heading.trim_start_matches('#')));
                } else if let Some(row) = line.strip_prefix("| `") {
                    let (first, rest) = row.split_once(" | ").unwrap_or((row, ""));
                    let patterns = format!("`{first}").split('`').skip(1).step_by(2).map(str::to_owned).collect();
                    let link = rest.split("](").nth(1).and_then(|l| Some(l.split_once(')')?.0));
                    let inside = link.filter(|l| l.contains('#')).map(|link| {
                        let (to, anchor) = link.split_once('#').unwrap();
                        format!("{}#{anchor}", if to.is_empty() { page } else { to })
                    });
                    sections.entry(section.clone()).or_insert_with(Vec::new).push(Row { patterns, inside });
                }
            }
        }
        Self(sections)
    }

    /// Whether a section has the key, or the section that has what is inside it.
    fn has(&self, section: &str, path: &[&str]) -> bool {
        let Some(rows) = self.0.get(section) else { return false };
        rows.iter().any(|row| {
            row.patterns.iter().any(|pattern| {
                let pattern: Vec<&str> = pattern.split('.').collect();
                let begins = pattern.iter().zip(path).all(|(p, key)| glob(p, key));
                // An object that is null is documented by its keys.
                begins
                    && match (&row.inside, path.get(pattern.len()..).unwrap_or_default()) {
                        (_, []) => true,
                        (Some(inside), rest) => self.has(inside, rest),
                        (None, _) => false,
                    }
            })
        })
    }
}

/// As GitHub makes it.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().to_lowercase();
    kept.chars().filter(|c| c.is_alphanumeric() || "-_ ".contains(*c)).map(|c| if c == ' ' { '-' } else { c }).collect()
}

fn glob(pattern: &str, key: &str) -> bool {
    match pattern.split_once('*') {
        Some((before, after)) => {
            key.len() >= before.len() + after.len() && key.starts_with(before) && key.ends_with(after)
        }
        None => pattern == key,
    }
}

/// The paths to all values.
fn paths(value: &Value, path: &str, into: &mut BTreeSet<String>) {
    match value {
        Value::Object(object) if !object.is_empty() => {
            for (key, value) in object {
                paths(value, &if path.is_empty() { key.clone() } else { format!("{path}.{key}") }, into);
            }
        }
        Value::Array(list) if list.iter().any(|item| item.is_object()) => {
            list.iter().for_each(|item| paths(item, path, into));
        }
        _ => drop(into.insert(path.to_owned())),
    }
}

/// The keys that commands wrote, by command and kind.
#[derive(Default)]
struct Written(BTreeMap<(String, String), BTreeSet<String>>);

impl Written {
    fn lines(&mut self, command: &str, text: &str) {
        for line in text.lines() {
            let mut value: Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{command}: {e}: {line}"));
            let kind = value.as_object_mut().unwrap().remove("kind").unwrap_or_else(|| panic!("{command}: {line}"));
            let keys = self.0.entry((command.to_owned(), kind.as_str().unwrap().to_owned())).or_default();
            paths(&value, "", keys);
        }
    }

    /// Runs a command to its end.
    fn run(&mut self, name: &str, args: &[&str]) {
        let output = wirelapse(args).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{args:?}: {}", tier::text(&output.stderr));
        self.lines(name, &String::from_utf8(output.stdout).unwrap());
    }

    /// Each key is documented, and each of these kinds of lines came.
    fn are_documented(&self, kinds: &[(&str, &str)]) {
        let docs = Docs::read();
        let mut missing = Vec::new();
        for ((command, kind), keys) in &self.0 {
            let section = section(command, kind);
            // What another section has beside it.
            let beside = match command.as_str() {
                "trace" if kind == "run" => "json.md#run".into(),
                "trace" => "json.md#records".into(),
                "watch" => format!("json.md#{kind}"),
                _ => format!("keys.md#{}", anchor(&format!("{command}: {kind}"))),
            };
            for key in keys {
                let path: Vec<&str> = key.split('.').collect();
                if !docs.has(&section, &path) && !docs.has(&beside, &path) {
                    missing.push(format!("{section}: {key}"));
                }
            }
        }
        assert!(missing.is_empty(), "not documented:\n{}", missing.join("\n"));
        for (command, kind) in kinds {
            assert!(self.0.contains_key(&((*command).into(), (*kind).into())), "{command} wrote no {kind}");
        }
    }
}

/// Where the keys of a line are documented.
fn section(command: &str, kind: &str) -> String {
    match (command, kind) {
        ("trace", "run") => "records.md#run-of-a-trace".into(),
        ("trace", "summary") => format!("json.md#{kind}"),
        ("trace", "closed") => "records.md#totals".into(),
        ("trace", "lost") => "records.md#lost".into(),
        ("trace", _) => format!("records.md#{kind}s"),
        ("watch", "reading") => "records.md#readings".into(),
        ("watch", _) => format!("json.md#{kind}"),
        ("probe", _) => format!("probe.md#{kind}"),
        _ => format!("keys.md#{}", anchor(&format!("{command}: {kind}"))),
    }
}

fn wirelapse(args: &[&str]) -> Command {
    let mut command = tier::wirelapse!(args);
    command.arg("--json").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A command that runs beside the test.
struct Beside(Process);

impl Beside {
    fn start(args: &[&str]) -> Self {
        Self(wirelapse(args).spawn().unwrap().into())
    }

    /// What it wrote, once it has ended.
    fn lines(self) -> String {
        let output = self.0.output();
        assert!(output.status.success(), "{}", tier::text(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn interrupt(&self) {
        let pid = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    }
}

/// A certificate for loopback and its key, as files.
fn certificate(folder: &std::path::Path) -> (String, String) {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let file = |name: &str, text: String| {
        std::fs::write(folder.join(name), text).unwrap();
        folder.join(name).to_str().unwrap().to_owned()
    };
    (file("cert.pem", made.cert.pem()), file("key.pem", made.signing_key.serialize_pem()))
}

/// A server, and where it says that it listens.
fn listening(mut beside: Beside) -> (Beside, String) {
    let (first, lines) = beside.0.first_line();
    let address = serde_json::from_str::<Value>(&first).unwrap()["address"].as_str().unwrap().to_owned();
    // It ends where what it writes is not read.
    beside.0.stdout = Some(lines.into_inner());
    (beside, address)
}

/// A server on a free port of loopback, and the lines that it writes.
struct Serve {
    beside: Beside,
    lines: BufReader<std::process::ChildStdout>,
    address: String,
    first: String,
}

impl Serve {
    fn start() -> Self {
        let mut beside = Beside::start(&["serve", "--listen", "127.0.0.1:0"]);
        let (first, lines) = beside.0.first_line();
        let event: Value = serde_json::from_str(&first).unwrap();
        Self { beside, lines, address: event["address"].as_str().unwrap().to_owned(), first }
    }

    fn stop(mut self) -> String {
        self.beside.interrupt();
        let mut text = self.first.clone();
        std::io::Read::read_to_string(&mut self.lines, &mut text).unwrap();
        text
    }
}

#[test]
fn of_commands_that_anyone_can_run() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let mut written = Written::default();
    let serve = Serve::start();
    let to = serve.address.clone();
    let flent = at("x.flent.gz");
    for args in [
        &["stream", &to, "--for", "200ms", "--both"][..],
        &["stream", &to, "--for", "200ms", "--zerocopy", "--rate", "80M", "--nodelay"],
        &["rr", &to, "--for", "200ms", "--rate", "100"],
        &["crr", &to, "--for", "200ms"],
        &["udp", &to, "--for", "200ms", "--rate", "1M"],
        &[
            "ping-under-load",
            &to,
            "--before",
            "300ms",
            "--for",
            "500ms",
            "--after",
            "300ms",
            "-P",
            "1",
            "--flent",
            &flent,
        ],
        &["ping-under-load", "--read", &flent],
        &["probe", "udp", &to, "--count", "2"],
        &["doctor"],
        &["study", "timestamps", "--dry-run", "--quick"],
    ] {
        written.run(args[0], args);
    }
    let (chain, key) = certificate(dir.path());
    let private = Beside::start(&["serve", "--listen", "127.0.0.1:0", "--tls-cert", &chain, "--tls-key", &key]);
    let (private, to_private) = listening(private);
    let short = ["--for", "800ms", "--interval", "100ms", "--tls-ca", &chain];
    written.run("responsiveness", &[&["responsiveness", &to_private][..], &short].concat());
    drop(private);
    let kept = at("rr");
    written.run("rr", &["rr", &to, "--for", "200ms", "-o", &kept]);
    // Nothing that the protocol knows.
    std::io::Write::write_all(&mut std::net::TcpStream::connect(&to).unwrap(), &[0; 64]).unwrap();
    // A test that the server refuses.
    assert!(!wirelapse(&["rr", &to, "--for", "200ms", "--response", "1G"]).output().unwrap().status.success());
    std::thread::sleep(std::time::Duration::from_millis(300));
    written.lines("serve", &serve.stop());
    let captures = concat!(env!("CARGO_MANIFEST_DIR"), "/../diagnose/tests/captures");
    for name in [
        "no_scaling_server.a",
        "loss_in_bursts.a",
        "server_thinks_tls.b",
        "ecn_queue.b",
        "reset.a",
        "mtu_black_hole.b",
        "dns",
        "quic",
        "tls",
        "udp",
    ] {
        written.run("analyze", &["analyze", &format!("{captures}/{name}.pcap.zst")]);
    }
    let [a, b] = ["nagle.a", "bbr.a"].map(|name| format!("{captures}/{name}.pcap.zst"));
    written.run("compare", &["compare", &a, &b]);
    let far = format!("{captures}/nagle.b.pcap.zst");
    written.run("compare", &["compare", &a, &far]);
    let run = concat!(env!("CARGO_MANIFEST_DIR"), "/../store/tests/version-1");
    written.run("compare", &["compare", run, run]);
    written.run("compare", &["compare", &kept, &kept]);
    written.are_documented(&[
        ("analyze", "capture"),
        ("analyze", "connection"),
        ("analyze", "dns_finding"),
        ("analyze", "echo"),
        ("analyze", "icmp_error"),
        ("analyze", "incomplete_packet"),
        ("analyze", "lookup"),
        ("analyze", "name_server"),
        ("analyze", "neighbour"),
        ("analyze", "network_finding"),
        ("analyze", "quic_connection"),
        ("analyze", "quic_finding"),
        ("analyze", "tls_finding"),
        ("analyze", "tls_handshake"),
        ("analyze", "transaction"),
        ("analyze", "udp_conversation"),
        ("analyze", "udp_finding"),
        ("analyze", "udp_stream"),
        ("compare", "comparison"),
        ("compare", "run_comparison"),
        ("compare", "workload_comparison"),
        ("crr", "outcome"),
        ("doctor", "capability"),
        ("ping-under-load", "series"),
        ("probe", "probe"),
        ("probe", "summary"),
        ("responsiveness", "interval"),
        ("responsiveness", "outcome"),
        ("responsiveness", "probe"),
        ("rr", "slow"),
        ("serve", "ended"),
        ("serve", "garbage"),
        ("serve", "refused"),
        ("serve", "stopped"),
        ("stream", "interval"),
        ("study", "plan"),
        ("udp", "outcome"),
    ]);
}

#[test]
fn of_commands_that_need_root() {
    tier::needs!(Need::Root, scene::BTF, scene::TUN);
    let _turn = scene::turn();
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let mut written = Written::default();
    let serve = Serve::start();
    let to = serve.address.clone();
    let port = to.rsplit_once(':').unwrap().1;
    let program = env!("CARGO_BIN_EXE_wirelapse");
    let load = ["rr", &to, "--for", "1s", "--rate", "50"];

    let mut traced = Command::new(program);
    traced
        .args(["trace", "--json", "--requests", "--every-packet", "--udp", "-o", &at("run"), "--", program])
        .args(load);
    let output = traced.output().unwrap();
    assert!(output.status.success(), "{}", tier::text(&output.stderr));
    written.lines("trace", &String::from_utf8(output.stdout).unwrap());

    let on_top = Beside::start(&["top", "--once", "--port", port, "-i", "2s"]);
    let watching =
        ["watch", "srtt", "--at", "every", "--every", "200ms", "--by", "comm", "--port", port, "--for", "1500ms"];
    let watching = Beside::start(&watching);
    let receiving = Beside::start(&["capture", "-i", "lo", "--for", "1500ms", "-w", &at("x.pcapng")]);
    // Longer than the kernel takes to verify the programs of all three, on a busy machine too.
    let loading = Beside::start(&["rr", &to, "--for", "60s", "--rate", "50"]);
    written.lines("watch", &watching.lines());
    written.lines("top", &on_top.lines());
    written.lines("capture", &receiving.lines());
    loading.interrupt();
    serve.stop();

    let name = format!("keys{}", std::process::id());
    let path = ["--delay", "2ms", "--rate", "100M", "--reorder", "1%@1ms", "--queue", "64K", "--ecn", "32K"];
    let lab = ["lab", "up", "--name", &name, "--jitter", "10us", "--burst-loss", "1%x2", "--black-hole", "1400"];
    let up = Beside::start(&[&lab[..], &path].concat());
    assert!(tier::wait_for(|| listed(&name)));
    let host = format!("{name}:a");
    let inside =
        ["lab", "exec", &host, "--", program, "generate", "-i", "eth0", "-c", "100", "--rate", "1k/s", "--json"];
    let output = Command::new(program).args(inside).output().unwrap();
    assert!(output.status.success(), "{}", tier::text(&output.stderr));
    written.lines("generate", &String::from_utf8(output.stdout).unwrap());
    written.run("lab change", &["lab", "change", &name, "--delay", "3ms/"]);
    written.run("lab list", &["lab", "list"]);
    up.interrupt();
    written.lines("lab up", &up.lines());

    let topology = at("net.toml");
    std::fs::write(&topology, "hosts = [\"x\", \"y\"]\n[[link]]\nbetween = [\"x\", \"y\"]\ndelay = \"1ms\"\n").unwrap();
    let up = Beside::start(&["lab", "up", "--name", &name, "--topology", &topology]);
    assert!(tier::wait_for(|| listed(&name)));
    written.run("lab list", &["lab", "list"]);
    up.interrupt();
    // Both commands write the same line.
    written.lines("lab list", &up.lines());

    let plan = at("plan.toml");
    let text = "workload = \"stream\"\nresponse = \"goodput\"\nrepetitions = 2\nduration = \"300ms\"\nwarm_up = \"0\"\n[fixed]\ndelay = \"1ms\"\n\
                [factors]\nwrite = [1000, 16000]\n";
    std::fs::write(&plan, text).unwrap();
    written.run("study", &["study", &plan]);
    std::fs::write(
        &plan,
        text.replace("stream", "ping-under-load").replace("write = [1000, 16000]", "rate = [\"10mbit\", \"20mbit\"]"),
    )
    .unwrap();
    written.run("study", &["study", &plan]);
    written.are_documented(&[
        ("capture", "capture"),
        ("generate", "generate"),
        ("lab change", "change"),
        ("lab list", "lab"),
        ("lab list", "network"),
        ("lab up", "path"),
        ("study", "conclusion"),
        ("study", "trial"),
        ("trace", "packet"),
        ("top", "row"),
        ("trace", "request"),
        ("watch", "histogram"),
        ("watch", "reading"),
    ]);
}

/// Whether a lab of this name is up.
fn listed(name: &str) -> bool {
    let output = wirelapse(&["lab", "list"]).output().unwrap();
    tier::text(&output.stdout).contains(name)
}
