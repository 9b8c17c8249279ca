//! Ends that nobody planned, and neighbours that must not be touched.
//!
//! Wrong arguments, a missing process and tracing without root are in `trace.rs`.

use crate::scene;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::JoinHandle;

use crate::scene::command::{fdinfo, held_by, is_tracing, signal, tracing};
use crate::scene::path::listen;
use crate::scene::{BTF, TUN};
use lab::Side;
use serde_json::Value;
use tier::{Need, text};

const BASH: Need<'static> = Need::Program("bash");

/// The objects of `--json`.
fn lines(out: &Output) -> Vec<Value> {
    text(&out.stdout).lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

fn of_kind<'a>(lines: &'a [Value], kind: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["kind"] == kind).collect()
}

/// Sends told and lost: every one that was made.
fn accounted(lines: &[Value]) -> u64 {
    let lost = of_kind(lines, "lost")[0];
    let counters = ["ring_buffer", "slots_full", "over_rate", "unstamped"];
    of_kind(lines, "send").len() as u64 + counters.map(|key| lost[key].as_u64().unwrap()).iter().sum::<u64>()
}

/// A bash program that makes `times` sends of two bytes to a port; without end where that is 0.
fn sender(host: &str, port: u16, times: u32) -> String {
    let more = if times == 0 { "true".to_owned() } else { format!("((i++ < {times}))") };
    format!("exec 3<>/dev/tcp/{host}/{port}; i=0; while {more}; do echo x >&3; done; exec 3>&-")
}

/// Accepts one connection and counts its bytes until the end.
fn count(listener: TcpListener) -> JoinHandle<u64> {
    std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        let (mut buffer, mut total) = (vec![0; 1 << 16], 0);
        while let Ok(n @ 1..) = socket.read(&mut buffer) {
            total += n as u64;
        }
        total
    })
}

fn loopback() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

#[test]
fn a_killed_tracer_leaves_no_program_map_or_link() {
    tier::needs!(Need::Root, BTF);
    for backend in ["timestamping", "tracepoints"] {
        let mut child = tracing(&["--port", "9", "--backend", backend]).spawn().unwrap();
        let pid = child.id();
        assert!(tier::wait_for(|| is_tracing(pid)), "the tracer does not begin");
        let (programs, maps, links) = (held_by(pid, "prog_id"), held_by(pid, "map_id"), held_by(pid, "link_id"));
        let names: Vec<String> = libbpf_rs::query::ProgInfoIter::default()
            .filter(|p| programs.contains(&p.id))
            .map(|p| p.name.to_string_lossy().into_owned())
            .collect();
        for ours in ["pass", "forked", "exited"] {
            assert!(names.iter().any(|name| name == ours), "{names:?}");
        }
        assert!(maps.len() >= 10 && links.len() >= 4, "{maps:?} {links:?}");
        child.kill().unwrap();
        child.wait().unwrap();
        let left = || {
            let programs = libbpf_rs::query::ProgInfoIter::default().filter(|p| programs.contains(&p.id)).count();
            let maps = libbpf_rs::query::MapInfoIter::default().filter(|m| maps.contains(&m.id)).count();
            let links = libbpf_rs::query::LinkInfoIter::default().filter(|l| links.contains(&l.id)).count();
            (programs, maps, links)
        };
        // The kernel frees them after a grace period.
        assert!(tier::wait_for(|| left() == (0, 0, 0)), "{backend}: {:?} left", left());
        eprintln!(
            "{backend}: {} programs {names:?}, {} maps and {} links gone",
            programs.len(),
            maps.len(),
            links.len()
        );
    }
}

#[test]
fn a_killed_program_ends_the_trace_with_all_that_it_sent() {
    tier::needs!(Need::Root, BTF, BASH);
    let (listener, port) = loopback();
    let server = std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        let (mut buffer, mut total, mut killed) = (vec![0; 1 << 12], 0, false);
        while let Ok(n @ 1..) = socket.read(&mut buffer) {
            total += n as u64;
            if total >= 2_000 && !killed {
                killed = true;
                let program = holder_of_peer(&socket);
                // SAFETY: a signal to the process that holds the other end, which this test
                // started.
                assert_eq!(unsafe { libc::kill(program, libc::SIGKILL) }, 0);
            }
        }
        total
    });
    let out = tracing(&["--json", "--", "bash", "-c", &sender("127.0.0.1", port, 0)]).output().unwrap();
    let bytes = server.join().unwrap();
    assert_eq!(out.status.code(), Some(128 + 9), "{}", text(&out.stderr));
    assert!(text(&out.stderr).contains("bash was ended by signal 9."), "{}", text(&out.stderr));
    let lines = lines(&out);
    assert_eq!(lines.last().unwrap()["kind"], "summary");
    assert_eq!(accounted(&lines), bytes / 2, "{}", of_kind(&lines, "lost")[0]);
}

/// The process that holds the peer's end of a loopback connection.
fn holder_of_peer(socket: &TcpStream) -> i32 {
    let peer = socket.peer_addr().unwrap().port();
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let local = format!(":{peer:04X}");
    let inode = table
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .find(|f| f.len() > 9 && f[1].ends_with(&local) && f[3] == "01")
        .map(|f| format!("socket:[{}]", f[9]))
        .unwrap();
    let holds = |pid: i32| {
        let files = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        files.filter_map(|f| std::fs::read_link(f.path()).ok()).any(|to| to == Path::new(&inode))
    };
    let processes = std::fs::read_dir("/proc").unwrap().flatten().filter_map(|e| e.file_name().to_str()?.parse().ok());
    processes.into_iter().find(|&pid| holds(pid)).unwrap()
}

#[test]
fn a_process_that_dies_while_traced_by_number_ends_nothing() {
    tier::needs!(Need::Root, BTF, BASH);
    let (listener, port) = loopback();
    let server = count(listener);
    let script = format!("read; {}", sender("127.0.0.1", port, 300));
    let mut program = Command::new("bash").args(["-c", &script]).stdin(Stdio::piped()).spawn().unwrap();
    let mut trace = Reading::start(&mut tracing(&["--json", "-p", &program.id().to_string()]));
    program.stdin.take().unwrap().write_all(b"go\n").unwrap();
    assert!(program.wait().unwrap().success());
    assert_eq!(server.join().unwrap(), 600);
    assert_eq!(accounted(&trace.interrupt()), 300);
}

#[test]
fn without_bpf_timestamping_the_other_backend_gives_all_stages() {
    tier::needs!(Need::Root, BTF, BASH);
    let (listener, port) = loopback();
    let server = count(listener);
    let script = sender("127.0.0.1", port, 200);
    let out = tracing(&["--json", "--backend", "tracepoints", "--", "bash", "-c", &script]).output().unwrap();
    assert!(out.status.success(), "{}", text(&out.stderr));
    assert_eq!(server.join().unwrap(), 400);
    let lines = lines(&out);
    assert_eq!(lines[0]["backend"], "tracepoints");
    let sends = of_kind(&lines, "send");
    assert_eq!(sends.len(), 200);
    for send in sends {
        for key in ["tcp_ns", "qdisc_ns", "network_ns", "total_ns"] {
            assert!(send[key].is_u64(), "{key} of {send}");
        }
    }
}

/// Runs a script, in a mount namespace of its own in which `small` is a file system of 1 MiB.
fn with_little_room(small: &Path, script: &str) -> Output {
    let script = format!("mount -t tmpfs -o size=1m none {} || exit 99; {script}", small.display());
    Command::new("unshare").args(["-m", "--propagation", "private", "sh", "-c", &script]).output().unwrap()
}

/// A field of `/proc/PID/status`.
fn status(pid: u32, key: &str) -> String {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(":\t")).unwrap_or_default().to_owned()
}

fn capabilities(pid: u32) -> u64 {
    assert_eq!(status(pid, "CapPrm"), status(pid, "CapEff"));
    u64::from_str_radix(&status(pid, "CapEff"), 16).unwrap()
}

/// A trace while it runs, and what it wrote in the end, where the user `owner` called `sudo`.
fn without_rights(backend: &str, owner: Option<u32>) {
    use std::os::unix::fs::MetadataExt as _;
    const SYS_ADMIN_PTRACE_AND_SEARCH: u64 = 1 << 21 | 1 << 19 | 1 << 2;
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run");
    let (listener, port) = loopback();
    let server = count(listener);
    let mut command = tracing(&["--backend", backend, "--port", &port.to_string(), "--receive", "--udp", "-o"]);
    command.arg(&run).env_remove("SUDO_UID").env_remove("SUDO_GID");
    if let Some(user) = owner {
        command.env("SUDO_UID", user.to_string()).env("SUDO_GID", user.to_string());
    }
    let child = command.spawn().unwrap();
    let pid = child.id();
    assert!(tier::wait_for(|| status(pid, "Seccomp") == "2"), "it gives nothing up");
    assert_eq!(capabilities(pid), 0);
    assert_eq!(status(pid, "NoNewPrivs"), "1");
    let keepers = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    let keeper: u32 = keepers.trim().parse().unwrap();
    assert_eq!(capabilities(keeper) & !SYS_ADMIN_PTRACE_AND_SEARCH, 0);
    assert_eq!((status(keeper, "Seccomp").as_str(), status(keeper, "Name").as_str()), ("2", "trace-keeper"));
    // What is attached is attached by the tracer alone, or it would stay while the last records are
    // read.
    assert!(fdinfo(keeper).iter().all(|text| !text.contains("link_type:\tcgroup")));

    // One connection that ends while it is traced, and one that does not.
    let sent = Command::new("bash").args(["-c", &sender("127.0.0.1", port, 300)]).status().unwrap();
    assert!(sent.success());
    signal(&child, libc::SIGINT);
    let out = child.wait_with_output().unwrap();
    assert!(out.status.success(), "{}", text(&out.stderr));
    assert!(!Path::new(&format!("/proc/{keeper}")).exists());
    drop(server);
    let written = store::Run::open(&run).unwrap();
    assert_eq!(written.state(), store::State::Finished);
    let (mut sends, lost) = (0, written.lost().unwrap());
    written.sends(|_| sends += 1).unwrap();
    // Three hundred sends without a pause can fill a connection's slots while ACKs wait for a busy
    // machine.
    assert_eq!(sends + lost.unstamped + lost.left_out + lost.slots_full, 300, "{lost:?}");
    for file in ["", "run.json", "sends.parquet", "sends.parquet/part-00000.parquet"] {
        assert_eq!(run.join(file).metadata().unwrap().uid(), owner.unwrap_or(0), "{file}");
    }
}

#[test]
fn once_it_runs_a_trace_has_no_rights_and_misses_nothing() {
    tier::needs!(Need::Root, BTF, BASH);
    without_rights("timestamping", None);
    without_rights("tracepoints", Some(65_534));
}

#[test]
fn a_trace_whose_keeper_was_killed_shows_what_it_has_and_names_the_cause() {
    tier::needs!(Need::Root, BTF);
    let (listener, port) = loopback();
    let child = tracing(&["--port", &port.to_string(), "--for", "60s"]).spawn().unwrap();
    let pid = child.id();
    assert!(tier::wait_for(|| status(pid, "Seccomp") == "2"), "it gives nothing up");
    let server = count(listener);
    let mut socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
    for _ in 0..10 {
        socket.write_all(b"x").unwrap();
    }
    drop(socket);
    assert_eq!(server.join().unwrap(), 10);
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    let keeper: u32 = children.trim().parse().unwrap();
    // SAFETY: a signal to a process that the tracer, its parent, has not waited for.
    assert_eq!(unsafe { libc::kill(keeper.cast_signed(), libc::SIGKILL) }, 0);
    let out = child.wait_with_output().unwrap();
    assert_eq!(out.status.code(), Some(1), "{}", text(&out.stderr));
    assert!(text(&out.stderr).contains(&format!("process {keeper}, was ended by SIGKILL")), "{}", text(&out.stderr));
    // The report is of what was gathered.
    assert!(text(&out.stdout).contains("What was not seen"), "{}", text(&out.stdout));
    assert!(text(&out.stdout).contains("10 sends"), "{}", text(&out.stdout));
}

#[test]
fn an_agent_whose_keeper_was_killed_does_not_go_on_deaf() {
    tier::needs!(Need::Root, BTF);
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("agent.toml");
    std::fs::write(&config, "[target]\nport = [9]\n[prometheus]\nlisten = \"127.0.0.1:0\"\n").unwrap();
    let mut agent = Command::new(env!("CARGO_BIN_EXE_wirelapse"));
    agent.args(["agent", "--config"]).arg(&config).stdout(Stdio::null()).stderr(Stdio::piped());
    let agent = agent.spawn().unwrap();
    let pid = agent.id();
    assert!(tier::wait_for(|| status(pid, "Seccomp") == "2"), "it gives nothing up");
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    let keeper: u32 = children.trim().parse().unwrap();
    // SAFETY: a signal to a process that the agent, its parent, has not waited for.
    assert_eq!(unsafe { libc::kill(keeper.cast_signed(), libc::SIGKILL) }, 0);
    let out = agent.wait_with_output().unwrap();
    assert_eq!(out.status.code(), Some(1), "{}", text(&out.stderr));
    assert!(text(&out.stderr).contains(&format!("process {keeper}, was ended by SIGKILL")), "{}", text(&out.stderr));
}

#[test]
fn a_full_disk_ends_the_trace_with_words_and_leaves_what_was_written_readable() {
    tier::needs!(Need::Root, BTF, BASH, Need::Program("unshare"));
    let dir = tempfile::tempdir().unwrap();
    let [small, kept, full] = ["small", "kept", "full"].map(|name| dir.path().join(name));
    std::fs::create_dir(&small).unwrap();
    let (listener, port) = loopback();
    let server = count(listener);
    // Once a part of the run is written (after ten seconds), the disk is filled while the program
    // still sends.
    let fill = format!(
        "until ls {s}/run/sends.parquet/part-* >{s}/parts; do sleep 0.1; done; cat /dev/zero >{s}/fill; touch {}",
        full.display(),
        s = small.display()
    );
    let sends = format!(
        "exec 3<>/dev/tcp/127.0.0.1/{port}; until [ -e {} ]; do echo x >&3; sleep 0.01; done; echo x >&3",
        full.display()
    );
    let script = format!(
        "({fill}) 2>/dev/null & timeout 40 {} trace -o {s}/run -- bash -c '{sends}'; code=$?; cp -r {s}/run {}; exit $code",
        env!("CARGO_BIN_EXE_wirelapse"),
        kept.display(),
        s = small.display(),
    );
    let out = with_little_room(&small, &script);
    let bytes = server.join().unwrap();
    let errors = text(&out.stderr);
    assert_eq!(out.status.code(), Some(1), "{errors}{}", text(&out.stdout));
    assert!(errors.contains("cannot write") && errors.contains("No space left"), "{errors}");
    // What was gathered is reported all the same.
    assert!(text(&out.stdout).contains("What was not seen"), "{}", text(&out.stdout));
    let run = store::Run::open(&kept).unwrap();
    assert_eq!(run.state(), store::State::Unfinished);
    let (mut sends, mut connections) = (0u64, 0);
    run.sends(|send| sends += u64::from(send.bytes == 2)).unwrap();
    run.connections(|_| connections += 1).unwrap();
    eprintln!("{errors}{sends} of {} sends kept", bytes / 2);
    assert!(sends > 100 && connections == 1, "{sends} sends of {connections} connections");
    assert!(errors.contains(&format!("the {sends} sends written before")), "{sends}: {errors}");
}

#[test]
fn a_full_device_for_perfetto_is_reported_and_the_run_is_whole() {
    tier::needs!(Need::Root, BTF, BASH, Need::Path("/dev/full"));
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run");
    let (listener, port) = loopback();
    let server = count(listener);
    let script = sender("127.0.0.1", port, 3_000);
    let out =
        tracing(&["--perfetto", "/dev/full", "-o"]).arg(&run).args(["--", "bash", "-c", &script]).output().unwrap();
    drop(server);
    let errors = text(&out.stderr);
    assert_eq!(out.status.code(), Some(1), "{errors}");
    assert!(errors.contains("Perfetto file /dev/full") && errors.contains("No space left"), "{errors}");
    assert!(text(&out.stdout).contains("What was not seen"), "{}", text(&out.stdout));
    let run = store::Run::open(&run).unwrap();
    let mut sends = 0;
    run.sends(|_| sends += 1).unwrap();
    assert!(sends > 0);
    assert_eq!(run.state(), store::State::Finished);
}

#[test]
fn a_full_disk_leaves_nothing_of_a_perfetto_file_and_what_was_there_as_it_was() {
    tier::needs!(Need::Root, BTF, BASH, Need::Program("unshare"));
    let dir = tempfile::tempdir().unwrap();
    let small = dir.path().join("small");
    std::fs::create_dir(&small).unwrap();
    for (before, left) in [("true", ""), ("echo kept >$S/t", "kept\nt\n")] {
        let (listener, port) = loopback();
        let server = count(listener);
        // Full before the first block of it is written, however much that is.
        let script = format!(
            "export S={}; {before}; cat /dev/zero >$S/fill 2>/dev/null; {} trace --force --perfetto $S/t -- bash -c '{}' >/dev/null; \
             code=$?; rm $S/fill; cat $S/t 2>/dev/null; ls -A $S; exit $code",
            small.display(),
            env!("CARGO_BIN_EXE_wirelapse"),
            sender("127.0.0.1", port, 100),
        );
        let out = with_little_room(&small, &script);
        drop(server);
        let errors = text(&out.stderr);
        assert_eq!((out.status.code(), text(&out.stdout).as_str()), (Some(1), left), "{errors}");
        assert!(errors.contains("No space left") && errors.contains("small/t"), "{errors}");
    }
}

#[test]
fn a_run_directory_that_exists_stays_as_it_is() {
    tier::needs!(Need::Root, BTF);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("run.json");
    std::fs::write(&file, "mine").unwrap();
    let before = std::fs::metadata(&file).unwrap().modified().unwrap();
    let out = tracing(&["--port", "9", "-o"]).arg(dir.path()).output().unwrap();
    assert_eq!(out.status.code(), Some(2));
    assert!(text(&out.stderr).contains("exists"), "{}", text(&out.stderr));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    assert_eq!(std::fs::read(&file).unwrap(), b"mine");
    assert_eq!(std::fs::metadata(&file).unwrap().modified().unwrap(), before);
}

/// So many bytes there and one back, one after the other.
fn exchange(client: &mut TcpStream, server: &mut TcpStream, times: usize) {
    for _ in 0..times {
        client.write_all(b"both").unwrap();
        server.read_exact(&mut [0; 4]).unwrap();
        server.write_all(b"k").unwrap();
        client.read_exact(&mut [0]).unwrap();
    }
}

#[test]
fn two_tracers_at_once_are_both_complete_and_one_survives_the_other() {
    tier::needs!(Need::Root, BTF);
    for backends in [["timestamping", "timestamping"], ["tracepoints", "timestamping"]] {
        let (listener, port) = loopback();
        let (mut client, mut server) = (TcpStream::connect(("127.0.0.1", port)).unwrap(), listener.accept().unwrap().0);
        for socket in [&client, &server] {
            socket.set_nodelay(true).unwrap();
        }
        let start =
            |backend| Reading::start(&mut tracing(&["--json", "--backend", backend, "--port", &port.to_string()]));
        let [mut first, mut second] = backends.map(start);
        exchange(&mut client, &mut server, 100);
        let lines = first.interrupt();
        assert_eq!((of_kind(&lines, "send").len(), accounted(&lines)), (200, 200), "{backends:?}");
        complete(&lines, backends);
        // Interrupted in the middle, it says all it says at the end.
        assert_eq!(lines.last().unwrap()["kind"], "summary");
        exchange(&mut client, &mut server, 100);
        let lines = second.interrupt();
        assert_eq!((of_kind(&lines, "send").len(), accounted(&lines)), (400, 400), "{backends:?}");
        for send in of_kind(&lines, "send") {
            assert!(send["tcp_ns"].is_u64() && send["qdisc_ns"].is_u64(), "{send}");
        }
        complete(&lines, backends);
    }
}

/// Every send has its ACK, but for the last: the peer may delay that one beyond the end, and then
/// it counts as unfinished.
fn complete(lines: &[Value], backends: [&str; 2]) {
    let unacked = of_kind(lines, "send").iter().filter(|send| send["total_ns"].is_null()).count() as u64;
    let lost = of_kind(lines, "lost")[0];
    assert!(unacked <= 1 && lost["unfinished"] == unacked, "{backends:?}: {unacked} of {lost}");
}

/// A tracer whose lines are read as they come.
struct Reading {
    child: Child,
    lines: std::sync::Arc<std::sync::Mutex<Vec<Value>>>,
    reader: Option<JoinHandle<()>>,
}

impl Reading {
    /// Begins, and returns when what is there is followed: that is when the first line comes.
    fn start(command: &mut Command) -> Self {
        let mut child = command.stderr(Stdio::inherit()).spawn().unwrap();
        let lines = std::sync::Arc::<std::sync::Mutex<Vec<Value>>>::default();
        let from = BufReader::new(child.stdout.take().unwrap());
        let to = lines.clone();
        let reader = std::thread::spawn(move || {
            for line in from.lines().map_while(Result::ok) {
                to.lock().unwrap().push(serde_json::from_str(&line).expect(&line));
            }
        });
        assert!(tier::wait_for(|| !lines.lock().unwrap().is_empty()), "the tracer does not begin");
        Self { child, lines, reader: Some(reader) }
    }

    /// Ends it as Ctrl-C does, and gives what it said.
    fn interrupt(&mut self) -> Vec<Value> {
        signal(&self.child, libc::SIGINT);
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}");
        self.reader.take().unwrap().join().unwrap();
        std::mem::take(&mut self.lines.lock().unwrap())
    }
}

#[test]
fn an_interrupt_in_the_middle_ends_with_the_report_and_a_whole_run() {
    tier::needs!(Need::Root, BTF, BASH);
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run");
    let (listener, port) = loopback();
    let server = count(listener);
    let script = sender("127.0.0.1", port, 0);
    // A group of its own, which is interrupted as a whole: what a terminal does.
    let child = tracing(&["-o"]).arg(&run).args(["--", "bash", "-c", &script]).process_group(0).spawn().unwrap();
    assert!(tier::wait_for(|| run.join("run.json").exists()), "the run does not begin");
    std::thread::sleep(std::time::Duration::from_millis(300));
    // SAFETY: a signal to the group that was made for this child.
    assert_eq!(unsafe { libc::kill(-child.id().cast_signed(), libc::SIGINT) }, 0);
    let out = child.wait_with_output().unwrap();
    let bytes = server.join().unwrap();
    assert_eq!(out.status.code(), Some(128 + 2), "{}", text(&out.stderr));
    let report = text(&out.stdout);
    assert!(report.contains("What was not seen") && report.contains("bash was ended by signal 2."), "{report}");
    let run = store::Run::open(&run).unwrap();
    assert_eq!(run.state(), store::State::Finished);
    let (mut sends, lost) = (0, run.lost().unwrap());
    run.sends(|_| sends += 1).unwrap();
    assert_eq!(sends + lost.ring_buffer + lost.slots_full + lost.unstamped, bytes / 2, "{lost:?}");
}

/// A cgroup of its own, gone with the value.
struct Cgroup(PathBuf);

impl Cgroup {
    fn make() -> Option<Self> {
        let mounts = std::fs::read_to_string("/proc/self/mounts").ok()?;
        let mount = mounts.lines().find_map(|line| {
            let fields: Vec<_> = line.split(' ').collect();
            (fields.get(2) == Some(&"cgroup2")).then(|| fields[1].replace("\\040", " "))
        })?;
        let path = PathBuf::from(mount).join(format!("wirelapse-test-{}", std::process::id()));
        std::fs::create_dir(&path).ok()?;
        Some(Self(path))
    }

    /// Runs a script in it to its end.
    fn run(&self, script: &str) {
        let inside = format!("echo $$ > {}/cgroup.procs; {script}", self.0.display());
        let status = Command::new("bash").args(["-c", &inside]).status().unwrap();
        assert!(status.success(), "{status}");
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // A process that has just ended may count for a moment more.
        tier::wait_for(|| std::fs::remove_dir(&self.0).is_ok() || !self.0.exists());
    }
}

/// How often the programs that a process holds have run, while the kernel counts that.
fn runs(pid: u32) -> u64 {
    let number = |text: &String| text.lines().find_map(|l| l.strip_prefix("run_cnt:\t")?.parse::<u64>().ok());
    // The tracer's passes over the sockets are runs as well; only the callbacks are of sockops type
    // (13).
    let sockops = |text: &&String| text.lines().any(|l| l == "prog_type:\t13");
    fdinfo(pid).iter().filter(sockops).filter_map(number).sum()
}

#[test]
fn sockets_outside_the_target_are_never_armed() {
    tier::needs!(Need::Root, BTF, BASH);
    let Some(cgroup) = Cgroup::make() else {
        tier::skip("sockets_outside_the_target_are_never_armed", "needs a cgroup v2 folder of its own");
        return;
    };
    // The kernel counts program runs as long as this is open; it has no other effect.
    // SAFETY: the call takes a number and gives a descriptor.
    let counting = unsafe { libbpf_rs::libbpf_sys::bpf_enable_stats(libbpf_rs::libbpf_sys::BPF_STATS_RUN_TIME) };
    assert!(counting >= 0, "{}", std::io::Error::from_raw_os_error(-counting));
    let ((inside, target), (outside, other)) = (loopback(), loopback());
    // The program sees the beginnings of connections of the whole machine, and the callbacks of
    // armed sockets: such a one calls at each stage.
    let path = cgroup.0.to_str().unwrap();
    let args = ["--json", "--backend", "timestamping", "--cgroup", path, "--port", &target.to_string()];
    let mut trace = Reading::start(&mut tracing(&args));
    const SENDS: u32 = 500;
    let mut callbacks = Vec::new();
    for (listener, port) in [(outside, other), (inside, target)] {
        let server = count(listener);
        let before = runs(trace.child.id());
        cgroup.run(&sender("127.0.0.1", port, SENDS));
        assert_eq!(server.join().unwrap(), u64::from(SENDS) * 2);
        callbacks.push(runs(trace.child.id()) - before);
    }
    // SAFETY: the descriptor is this function's, and is not used again.
    unsafe { libc::close(counting) };
    let lines = trace.interrupt();
    eprintln!("callbacks: {} outside, {} inside", callbacks[0], callbacks[1]);
    // Outside, beginnings of connections alone: connect, establish, and some that are asked of
    // every socket, of this one and of others of the machine.
    assert!(callbacks[0] < u64::from(SENDS) / 2, "{callbacks:?}");
    assert!(callbacks[1] >= u64::from(SENDS), "{callbacks:?}");
    assert_eq!(accounted(&lines), u64::from(SENDS));
    let foreign = |line: &&Value| [&line["local_port"], &line["remote_port"]].iter().any(|port| **port == other);
    assert_eq!(of_kind(&lines, "connection").into_iter().filter(foreign).count(), 0);
}

#[test]
fn in_a_pid_namespace_processes_have_the_numbers_that_are_known_there() {
    tier::needs!(Need::Root, BTF, TUN, BASH);
    let lab = scene::path::lab(2);
    let listener = listen(&lab, false);
    let to = listener.local_addr().unwrap();
    let server = count(listener);
    // Its own number as it knows it, before its traffic.
    let script = format!("echo own $$ >&2; {}", sender(&to.ip().to_string(), to.port(), 50));
    let out = tier::limit(lab.host(Side::A).command(env!("CARGO_BIN_EXE_wirelapse")).unwrap())
        .args(["trace", "--json", "--", "bash", "-c", &script])
        .output()
        .unwrap();
    assert!(out.status.success(), "{}", text(&out.stderr));
    assert_eq!(server.join().unwrap(), 100);
    let errors = text(&out.stderr);
    let own: u64 = errors.lines().find_map(|l| l.strip_prefix("own ")).unwrap().parse().unwrap();
    let lines = lines(&out);
    assert_eq!(accounted(&lines), 50, "{}", of_kind(&lines, "lost")[0]);
    for send in of_kind(&lines, "send") {
        assert_eq!(send["pid"].as_u64(), Some(own), "{send}");
        assert_eq!(send["comm"], "bash");
        // The path of 2 ms each way lies between.
        assert!(send["network_ns"].as_u64().unwrap() >= 4_000_000, "{send}");
    }
}
