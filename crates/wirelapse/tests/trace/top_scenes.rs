//! `wirelapse top` beside `ss`, `nstat` and the programs' own counts, on scenes that are drawn by
//! seed. `WIRELAPSE_SCENES=40` plays that many, `WIRELAPSE_SCENES=8..9` that of one seed.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use lab::{Direction, Host, Loss, Side};
use serde_json::Value;
use tier::draw::uniform;
use tier::{Need, Process};

use crate::scene::{BTF, TUN, path, turn};

const PROGRAM: &str = include_str!("top_scenes.py");

/// Where a program runs.
#[derive(Clone, Copy)]
pub(super) enum Place<'a> {
    Here,
    /// In a network namespace of its own.
    Apart,
    /// In that of this process.
    With(u32),
    Cgroup(&'a Path),
    Host(Host<'a>),
}

impl Place<'_> {
    fn program(self, program: &str) -> Command {
        match self {
            Self::Here => tier::command(program),
            Self::Apart => {
                let mut command = tier::command("unshare");
                command.args(["-n", "sh", "-c", "ip link set lo up && exec \"$0\" \"$@\"", program]);
                command
            }
            Self::With(pid) => {
                let mut command = tier::command("nsenter");
                command.args([&format!("--net=/proc/{pid}/ns/net"), program]);
                command
            }
            Self::Cgroup(folder) => {
                let mut command = tier::command("sh");
                let enters = "echo $$ > \"$0\"/cgroup.procs && exec \"$@\"";
                command.args(["-c", enters, folder.to_str().unwrap(), program]);
                command
            }
            Self::Host(host) => tier::limit(host.command(program).unwrap()),
        }
    }
}

/// One end of a scene.
pub(super) struct Program {
    _process: Process,
    pid: u32,
    out: BufReader<ChildStdout>,
    to: ChildStdin,
    /// Its first line.
    pub(super) begun: Value,
}

impl Program {
    pub(super) fn start(place: Place<'_>, words: &[&str]) -> Self {
        let mut command = place.program("python3");
        command.args(["-c", PROGRAM]).args(words);
        let mut process = Process::start(command.stdin(Stdio::piped()).stdout(Stdio::piped()));
        let (line, out) = process.first_line();
        let to = process.stdin.take().unwrap();
        let pid = lab::program_pid(&process).filter(|_| matches!(place, Place::Host(_))).unwrap_or(process.id());
        let begun = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{words:?}: {line:?}: {error}"));
        Self { _process: process, pid, out, to, begun }
    }

    pub(super) fn port(&self) -> String {
        self.begun["port"].to_string()
    }

    /// Has it go on.
    pub(super) fn go(&mut self) {
        writeln!(self.to).unwrap();
    }

    pub(super) fn line(&mut self) -> Value {
        let mut line = String::new();
        self.out.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line:?}: {error}"))
    }

    /// Has it go on, and takes what it says next.
    pub(super) fn counts(&mut self) -> Value {
        self.go();
        self.line()
    }
}

/// `top --json`, as it goes.
pub(super) struct Top {
    _process: Process,
    out: BufReader<ChildStdout>,
}

impl Top {
    /// Begins, and comes back after the first rows: all that is done from then on is seen.
    pub(super) fn start(options: &[&str]) -> Self {
        let mut process =
            Process::start(tier::wirelapse!(["top", "--json", "-i", "1s"]).args(options).stdout(Stdio::piped()));
        let (line, out) = process.first_line();
        assert!(line.contains("\"row\""), "{line}");
        Self { _process: process, out }
    }

    /// The first row that is as wanted.
    pub(super) fn until(&mut self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let end = Instant::now() + Duration::from_secs(40);
        let mut near = Value::Null;
        loop {
            let mut line = String::new();
            assert!(self.out.read_line(&mut line).unwrap() > 0, "top has ended");
            let row: Value = serde_json::from_str(&line).unwrap();
            if wanted(&row) {
                return row;
            }
            if is_near(&row, what) || row["label"] == what {
                near = row;
            }
            assert!(Instant::now() < end, "{what}: not seen; the last row of it: {near}");
        }
    }

    /// The row of a process, once it has what that has counted.
    fn exact(&mut self, pid: u32, counts: &Value) -> Value {
        let what = format!("[{pid}]");
        let is = |row: &Value, key: &str, count: &str| row["sockets"][key] == counts[count];
        self.until(&format!("{what} with {counts}"), |row| {
            is_near(row, &what) && is(row, "bytes_sent", "sent") && is(row, "bytes_received", "received")
        })
    }
}

/// Whether a row is of the process that is spoken of.
fn is_near(row: &Value, what: &str) -> bool {
    let of = what.split(' ').next().unwrap_or_default();
    of.starts_with('[') && row["label"].as_str().is_some_and(|label| label.ends_with(of))
}

/// The rows of `top --once --json`.
fn once(options: &[&str]) -> Vec<Value> {
    let output = tier::wirelapse!(["top", "--once", "--json", "-i", "1s"]).args(options).output().unwrap();
    assert!(output.status.success(), "{}", tier::text(&output.stderr));
    tier::text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// What is to be in a row each second: sends and their bytes, bytes sent and received by the
/// sockets. What is 0 is not judged.
type Rates = [f64; 4];

/// A second of `top --once` while programs do so much a second, and how far what it shows is from
/// that at most.
fn error_of_rates(port: &str, expected: &[(u32, Rates)]) -> f64 {
    let rows = once(&["--by", "process", "--port", port]);
    let over = |count: &Value, length: &Value| count.as_f64().unwrap() * 1e9 / length.as_f64().unwrap();
    let of_process = |(pid, rates): &(u32, Rates)| {
        let row = rows.iter().find(|row| is_near(row, &format!("[{pid}]")));
        let row = row.unwrap_or_else(|| panic!("no row of {pid} in {rows:?}"));
        let (sockets, length) = (&row["sockets"], &row["sockets"]["length_ns"]);
        let shown = [
            over(&row["sends"], &row["length_ns"]),
            over(&row["bytes"], &row["length_ns"]),
            over(&sockets["bytes_sent"], length),
            over(&sockets["bytes_received"], length),
        ];
        println!("[{pid}]: {shown:.1?} a second, to be {rates:.1?}");
        shown
            .into_iter()
            .zip(rates)
            .filter(|(_, is)| **is > 0.0)
            .map(|(shown, is)| (shown / is - 1.0).abs())
            .fold(0.0, f64::max)
    };
    expected.iter().map(of_process).fold(0.0, f64::max)
}

/// Rates are right within 5 %, and within as much more as a program on a busy machine may have been
/// late by its own account, in the second that was shown.
fn assert_rates(error: f64, done: &Value, per_second: f64) {
    let own = done["late"].as_f64().unwrap() + 1.0 / per_second;
    println!("rates: {:.1} % off; the program was {:.1} % late at most", error * 100.0, own * 100.0);
    assert!(error <= 0.05_f64.max(0.03 + own), "{error}: {done}");
}

/// The connections with this port that `ss` shows: both ports, and the process.
fn ss(command: &mut Command, port: &str) -> Vec<(String, u32)> {
    let output = command.args(["-tinmpH", "state", "established"]).output().unwrap();
    let text = tier::text(&output.stdout);
    let lines = text.lines().filter(|line| !line.starts_with(char::is_whitespace));
    let mut found: Vec<(String, u32)> = lines
        .filter_map(|line| {
            let ends: Vec<&str> = line.split_whitespace().filter(|word| word.contains(':')).collect();
            let port_of = |end: &str| end.rsplit(':').next().map(str::to_owned);
            let (local, remote) = (port_of(ends.first()?)?, port_of(ends.get(1)?)?);
            let pid = line.split("pid=").nth(1)?.split(',').next()?.parse().ok()?;
            (local == port || remote == port).then(|| (format!("{local} {remote}"), pid))
        })
        .collect();
    found.sort();
    found
}

/// The same as `top` shows it, one by one.
fn shown(port: &str) -> Vec<(String, u32)> {
    let rows = once(&["--by", "connection", "--port", port, "--filter", "state:established"]);
    let mut found: Vec<(String, u32)> = rows
        .iter()
        .filter(|row| row["sockets"]["established"] == 1)
        .map(|row| {
            let label = row["label"].as_str().unwrap();
            let (local, remote) = label.split_once(" → ").unwrap();
            let pid = row["sockets"]["pid"].as_u64().unwrap_or_default() as u32;
            (format!("{} {}", &local[1..], remote.rsplit(':').next().unwrap()), pid)
        })
        .collect();
    found.sort();
    found
}

/// What a seed draws.
struct Drawn(u64);

impl Drawn {
    fn number(&self, what: u64, low: u64, high: u64) -> u64 {
        low + (uniform(&[self.0, what]) * (high - low + 1) as f64) as u64
    }

    fn text(&self, what: u64, low: u64, high: u64) -> String {
        self.number(what, low, high).to_string()
    }
}

/// `ss` in the network namespace of a process.
fn ss_of(pid: u32) -> Command {
    Place::With(pid).program("ss")
}

/// The connections that `top` shows are those of `ss`, each with its process.
fn assert_owners(port: &str, of: u32, connections: usize) {
    let expected = ss(&mut ss_of(of), port);
    assert_eq!(expected.len(), connections);
    assert_eq!(shown(port), expected);
}

/// Requests and answers at a steady rate: rates from the first second, exact bytes, and each
/// connection's owner.
fn steady(drawn: &Drawn, address: &str, role: &str) {
    let (ask, answer) = (drawn.text(1, 50, 3_000), drawn.text(2, 50, 6_000));
    let (connections, per_second) =
        (drawn.number(3, 1, 20), drawn.number(4, 100, if role == "short" { 1_000 } else { 300 }));
    let mut server = Program::start(Place::Here, &["serve", address, "0", &ask, &answer, "0"]);
    let (port, every, count) = (server.port(), per_second.to_string(), connections.to_string());
    let client = |seconds: &str| {
        let begin = [role, address, &port];
        let of_each: &[&str] = if role == "short" { &[] } else { &[&count] };
        Program::start(Place::Here, &[&begin[..], of_each, &[&every, seconds, &ask, &answer]].concat())
    };
    let mut first = client("6");
    first.go();
    let n = per_second as f64;
    let [asked, answered] = [&ask, &answer].map(|text| n * text.parse::<f64>().unwrap());
    // Sends of more connections than there are series are in a row of their own.
    let sends = if role == "short" { 0.0 } else { n };
    let of_sends = |size: &str| sends * size.parse::<f64>().unwrap();
    let expected = [
        (first.pid, [sends, of_sends(&ask), asked, answered]),
        (server.pid, [sends, of_sends(&answer), answered, asked]),
    ];
    let error = error_of_rates(&port, &expected);
    let done = first.line();
    assert_rates(error, &done, n);
    if role != "short" {
        assert_owners(&port, server.pid, 2 * connections as usize);
    }
    drop(first);
    // The same again, from before it begins.
    let mut top = Top::start(&["--by", "process", "--port", &port]);
    let (mut second, before) = (client("2"), server.counts());
    second.go();
    let done = second.line();
    let row = top.exact(second.pid, &done);
    if role == "short" {
        assert_eq!(row["sockets"]["closed"], done["connections"], "{row}");
    }
    let after = server.counts();
    let since = |key: &str| after[key].as_u64().unwrap() - before[key].as_u64().unwrap();
    top.exact(server.pid, &serde_json::json!({ "sent": since("sent"), "received": since("received") }));
}

/// A thousand connections and more on which nothing is sent.
fn idle(drawn: &Drawn) {
    let count = drawn.number(1, 1_000, 9_000);
    let mut server = Program::start(Place::Here, &["serve", "127.0.0.1", "0", "1", "1", "0"]);
    let port = server.port();
    let mut top = Top::start(&["--by", "process", "--port", &port]);
    let mut client = Program::start(Place::Here, &["idle", "127.0.0.1", &port, &count.to_string()]);
    assert_eq!(client.counts()["held"], count);
    for pid in [client.pid, server.pid] {
        let what = format!("[{pid}] with {count} connections");
        top.until(&what, |row| is_near(row, &what) && row["sockets"]["established"] == count);
    }
    drop(top);
    assert_eq!(ss(&mut ss_of(server.pid), &port).len() as u64, 2 * count);
    server.counts();
}

/// Datagrams that find a full buffer: as many as the kernel says.
fn flood(drawn: &Drawn) {
    let mut sink = Program::start(Place::Here, &["sink", "127.0.0.1"]);
    let port = sink.port();
    let mut top = Top::start(&["--by", "process", "--port", &port]);
    let [count, bytes] = [drawn.text(1, 2_000, 8_000), drawn.text(2, 50, 1_400)];
    let mut source = Program::start(Place::Here, &["flood", "127.0.0.1", &port, &count, &bytes, "4000"]);
    let sent = source.counts()["sent"].as_u64().unwrap() / bytes.parse::<u64>().unwrap();
    let output = tier::command("ss").args(["-uanmH", "sport", "=", &format!(":{port}")]).output().unwrap();
    let text = tier::text(&output.stdout);
    let drops: u64 = text.rsplit(",d").next().unwrap().split(')').next().unwrap().parse().unwrap();
    assert!(drops > 0 && drops < sent, "{drops} of {sent}: {text}");
    let what = format!("[{}] with {drops} drops", sink.pid);
    let row = top.until(&what, |row| is_near(row, &what) && row["sockets"]["drops"] == drops);
    assert_eq!(row["trouble"], "receive_buffer_full", "{row}");
    sink.counts();
}

/// A container that is ended and started again: its row has the bytes of both, and its connections
/// are its new process's.
fn containers(drawn: &Drawn) {
    let folder = Folder::new(drawn);
    let (ask, answer) = (drawn.text(1, 50, 3_000), drawn.text(2, 50, 6_000));
    let server = Program::start(Place::Here, &["serve", "127.0.0.1", "0", &ask, &answer, "0"]);
    let port = server.port();
    let mut top = Top::start(&["--by", "pod", "--port", &port]);
    let mut all = [0, 0];
    let mut play = |connections: &str| {
        folder.make();
        let words = ["turns", "127.0.0.1", &port, connections, "200", "1", &ask, &answer];
        let mut client = Program::start(Place::Cgroup(&folder.container), &words);
        let done = client.counts();
        for (all, key) in all.iter_mut().zip(["sent", "received"]) {
            *all += done[key].as_u64().unwrap();
        }
        client
    };
    drop(play(&drawn.text(3, 1, 9)));
    folder.take_away();
    let connections = drawn.text(4, 1, 9);
    let client = play(&connections);
    let label = &folder.container.file_name().unwrap().to_str().unwrap()["docker-".len()..][..12];
    top.until("both together", |row| {
        let sockets = &row["sockets"];
        row["label"] == label && sockets["bytes_sent"] == all[0] && sockets["bytes_received"] == all[1]
    });
    drop(top);
    let rows = once(&["--by", "process", "--port", &port, "--filter", &format!("pod:{label}")]);
    let row = rows.iter().find(|row| row["sockets"]["established"] != 0).unwrap_or_else(|| panic!("{rows:?}"));
    let seen = [&row["sockets"]["pid"], &row["sockets"]["established"]].map(Value::to_string);
    assert_eq!(seen, [client.pid.to_string(), connections]);
}

/// The cgroup of a made-up container.
struct Folder {
    above: PathBuf,
    container: PathBuf,
}

impl Folder {
    fn new(drawn: &Drawn) -> Self {
        let above = machine::who::mount()
            .expect("a hierarchy of cgroups")
            .join(format!("wirelapse-scene-{}", std::process::id()));
        let id: String =
            (0..64).map(|digit| char::from_digit(drawn.number(100 + digit, 0, 15) as u32, 16).unwrap()).collect();
        let container = above.join(format!("docker-{id}.scope"));
        Self { above, container }
    }

    fn make(&self) {
        std::fs::create_dir_all(&self.container).unwrap();
    }

    /// Takes it away, once what was in it has ended.
    fn take_away(&self) {
        for folder in [&self.container, &self.above] {
            tier::until("an empty cgroup is taken away", || std::fs::remove_dir(folder).is_ok() || !folder.exists());
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        for folder in [&self.container, &self.above] {
            let _ = std::fs::remove_dir(folder);
        }
    }
}

/// The same address and port in several network namespaces: each process has its own bytes.
fn namespaces(drawn: &Drawn) {
    let port = drawn.text(1, 10_000, 30_000);
    let servers: Vec<(Program, String, String)> = (0..3)
        .map(|n| {
            let (ask, answer) = (drawn.text(10 + n, 50, 3_000), drawn.text(20 + n, 50, 6_000));
            let words = ["serve", "127.0.0.1", &port, &ask, &answer, "0"];
            (Program::start(Place::Apart, &words), ask, answer)
        })
        .collect();
    let mut top = Top::start(&["--by", "process", "--port", &port]);
    let mut clients: Vec<Program> = servers
        .iter()
        .map(|(server, ask, answer)| {
            let words = ["turns", "127.0.0.1", &port, "4", "100", "2", ask, answer];
            Program::start(Place::With(server.pid), &words)
        })
        .collect();
    clients.iter_mut().for_each(Program::go);
    let done: Vec<Value> = clients.iter_mut().map(Program::line).collect();
    for (client, done) in clients.iter().zip(&done) {
        top.exact(client.pid, done);
    }
    for ((server, ..), done) in servers.iter().zip(&done) {
        top.exact(server.pid, &serde_json::json!({ "sent": done["received"], "received": done["sent"] }));
    }
    drop(top);
    let mut expected: Vec<(String, u32)> =
        servers.iter().flat_map(|(server, ..)| ss(&mut ss_of(server.pid), &port)).collect();
    expected.sort();
    // Rows of the same ends in several namespaces are one: what is compared are the owners.
    let owners: std::collections::BTreeSet<u32> = expected.iter().map(|(_, pid)| *pid).collect();
    let rows = once(&["--by", "process", "--port", &port, "--filter", "state:established"]);
    let seen =
        rows.iter().filter(|row| row["sockets"]["established"] == 4).filter_map(|row| row["sockets"]["pid"].as_u64());
    assert_eq!(seen.map(|pid| pid as u32).collect::<std::collections::BTreeSet<_>>(), owners);
}

/// A path that loses packets, and then all of them: bytes and retransmissions are exact, and the
/// connection is stuck.
fn lossy(drawn: &Drawn) {
    let lab = path::lab(drawn.number(1, 1, 10));
    let [a, b] = [Side::A, Side::B].map(|side| lab.host(side));
    let loss = |share| Direction { loss: Loss::Independent(share), ..path::delay(5) };
    path::change(&lab, &loss(0.01 + 0.03 * uniform(&[drawn.0, 2])));
    let (ask, answer) = (drawn.text(3, 2_000, 9_000), drawn.text(4, 2_000, 9_000));
    let address = b.ipv4().to_string();
    let server = Program::start(Place::Host(b), &["serve", &address, "0", &ask, &answer, "0"]);
    let silent = Program::start(Place::Host(b), &["serve", &address, "0", "0", "0", "0"]);
    let port = server.port();
    let mut top = Top::start(&["--by", "process", "--port", &port, "--port", &silent.port()]);
    let words = ["turns", &address, &port, "4", "40", "2", &ask, &answer];
    let mut client = Program::start(Place::Host(a), &words);
    let done = client.counts();
    for (of, pid, counts) in [
        (a, client.pid, done.clone()),
        (b, server.pid, serde_json::json!({ "sent": done["received"], "received": done["sent"] })),
    ] {
        let row = top.exact(pid, &counts);
        let again = nstat(&of, "TcpRetransSegs");
        println!("{again} segments retransmitted");
        assert_eq!(row["sockets"]["retransmitted_segments"], again, "{row}");
    }
    drop(client);
    path::change(&lab, &loss(0.0));
    let mut client = Program::start(Place::Host(a), &["bulk", &address, &silent.port(), "30"]);
    client.go();
    let what = format!("[{}] that sends", client.pid);
    top.until(&what, |row| is_near(row, &what) && row["sockets"]["bytes_sent"].as_u64() > Some(100_000));
    path::change(&lab, &loss(1.0));
    let what = format!("[{}] that is stuck", client.pid);
    top.until(&what, |row| is_near(row, &what) && row["trouble"] == "no_answer");
}

/// A counter of the kernel in a host, since that was made.
fn nstat(host: &Host<'_>, name: &str) -> u64 {
    let output = tier::limit(host.command("nstat").unwrap()).args(["-asz", name]).output().unwrap();
    let text = tier::text(&output.stdout);
    let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{text}"));
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// A program that reads little: both ends say so, and in the end all has come.
fn slow_reader(drawn: &Drawn) {
    let chunk = drawn.text(1, 2_000, 8_000);
    let mut reader = Program::start(Place::Here, &["slow", "127.0.0.1", &chunk, "0.01"]);
    let port = reader.port();
    let mut top = Top::start(&["--by", "process", "--port", &port]);
    let mut writer = Program::start(Place::Here, &["bulk", "127.0.0.1", &port, "5"]);
    writer.go();
    let what = format!("[{}] that waits for a window", writer.pid);
    top.until(&what, |row| is_near(row, &what) && row["trouble"] == "receive_window");
    let what = format!("[{}] that reads slowly", reader.pid);
    top.until(&what, |row| is_near(row, &what) && (row["trouble"] == "reads_slowly" || row["trouble"] == "not_read"));
    let sent = writer.line()["sent"].clone();
    tier::until("all has come", || reader.counts()["received"] == sent);
    top.exact(writer.pid, &serde_json::json!({ "sent": sent, "received": 0 }));
    top.exact(reader.pid, &serde_json::json!({ "sent": 0, "received": sent }));
}

/// Scenes to play, by their seeds: so many, or those of a range as in `8..16`.
fn scenes() -> std::ops::Range<u64> {
    let asked = std::env::var("WIRELAPSE_SCENES").unwrap_or("40".into());
    let (first, end) = asked.split_once("..").unwrap_or(("0", &asked));
    let number = |text: &str| text.parse().expect("WIRELAPSE_SCENES is a number or a range");
    number(first)..number(end)
}

#[test]
#[ignore = "forty scenes, and a machine on which nothing else runs"]
fn scenes_are_as_the_kernel_and_the_programs_count_them() {
    tier::needs!(Need::Root, BTF, TUN, Need::Program("python3"), Need::Program("ss"), Need::Program("nstat"));
    let _turn = turn();
    for seed in scenes() {
        let drawn = Drawn(seed);
        println!("scene {seed}");
        match seed % 8 {
            0 => steady(&drawn, "127.0.0.1", "short"),
            1 => containers(&drawn),
            2 => lossy(&drawn),
            3 => namespaces(&drawn),
            4 => idle(&drawn),
            5 => flood(&drawn),
            6 => steady(&drawn, "::1", "turns"),
            _ => slow_reader(&drawn),
        }
    }
}
