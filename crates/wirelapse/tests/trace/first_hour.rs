//! What is asked of `trace` in the first hour: targets by name, slow sends as they happen, scripts
//! that wait for it, files that are there.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::scene::command::tracing;
use crate::scene::{BTF, TUN, path};
use tier::{Need, text};

/// A connection on loopback.
fn loopback() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    client.set_nodelay(true).unwrap();
    (client, listener.accept().unwrap().0)
}

fn port(socket: &TcpStream) -> u16 {
    socket.local_addr().unwrap().port()
}

/// A tracer that has said on a descriptor that it has begun; what it writes there goes to `ready`.
fn begun(args: &[&str], ready: &Path) -> std::process::Child {
    let mut command = tier::command("sh");
    command.args(["-c", "exec 5>\"$0\"; exec \"$@\" --ready-fd 5"]).arg(ready);
    command.arg(env!("CARGO_BIN_EXE_wirelapse")).arg("trace").args(args);
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    assert!(
        tier::wait_for(|| std::fs::read(ready).is_ok_and(|said| said == b"\n")),
        "{args:?} does not say that it has begun"
    );
    child
}

#[test]
fn what_is_slow_is_said_as_it_happens_and_kept_alone() {
    tier::needs!(Need::Root, BTF, TUN);
    let lab = path::lab(30);
    let listener = path::listen(&lab, false);
    let (mut far, mut far_end) = path::join(&lab, &listener);
    let (mut near, mut near_end) = loopback();
    let dir = tempfile::tempdir().unwrap();
    let (run, ready) = (dir.path().join("run"), dir.path().join("ready"));
    let ports = format!("{},{}", port(&far_end), port(&near_end));
    let args = ["--port", &ports, "--min-latency", "50ms", "--for", "2s", "-o", run.to_str().unwrap()];
    let child = begun(&args, &ready);
    // The server in the lab only reads, so that the client's sends alone are slow.
    for _ in 0..3 {
        far.write_all(b"slow").unwrap();
        far_end.read_exact(&mut [0; 4]).unwrap();
        for _ in 0..20 {
            near.write_all(b"quick").unwrap();
            near_end.read_exact(&mut [0; 5]).unwrap();
        }
    }
    let out = child.wait_with_output().unwrap();
    let (said, notes) = (text(&out.stdout), text(&out.stderr));
    assert!(out.status.success(), "{notes}");
    assert!(
        notes.contains("Tracing started: port ")
            && notes.contains(", by timestamping, with ")
            && notes.contains(" of kernel memory, at most "),
        "{notes}"
    );
    // A line for each slow send and for no other: the time of day, how long, what, between whom and
    // in which leg.
    let lines: Vec<&str> = said.lines().take_while(|line| line.contains("Z  ")).collect();
    assert_eq!(lines.len(), 3, "{said}");
    for line in lines {
        let (at, rest) = line.split_once("  ").unwrap();
        assert!(at.len() == 13 && at.as_bytes()[2] == b':' && at.ends_with('Z'), "{line}");
        assert!(rest.contains(" ms  send 4 B") && rest.contains("10.77.0.2:") && rest.contains("network "), "{line}");
    }
    // The report is of everything, the run of what was kept.
    assert!(said.contains("63 sends"), "{said}");
    let kept = store::Run::open(&run).unwrap();
    let mut sizes = Vec::new();
    kept.sends(|send| sizes.push(send.bytes)).unwrap();
    assert_eq!(sizes, [4, 4, 4]);
    let report = tier::command(env!("CARGO_BIN_EXE_wirelapse")).arg("report").arg(&run).output().unwrap();
    assert!(text(&report.stdout).contains("Only what took 50.0 ms or longer was kept"), "{}", text(&report.stdout));
}

/// A shell in a cgroup that connects, writes and ends.
fn client_in(cgroup: &Path, port: u16) -> std::process::Child {
    let script =
        format!("echo $$ > {}/cgroup.procs; exec 3<>/dev/tcp/127.0.0.1/{port}; echo hello >&3", cgroup.display());
    Command::new("bash").args(["-c", &script]).spawn().unwrap()
}

#[test]
fn units_and_containers_are_targets_by_their_names() {
    tier::needs!(Need::Root, BTF, Need::Program("bash"));
    let Some(mount) = machine::who::mount() else {
        tier::skip("units_and_containers_are_targets_by_their_names", "no cgroup v2 is mounted");
        return;
    };
    let unit = format!("wirelapse-test-{}", std::process::id());
    let id = format!("{:064x}", u64::from(std::process::id()) << 32 | 0xabc);
    let folders = [mount.join(format!("{unit}.service")), mount.join(format!("docker-{id}.scope"))];
    let dir = tempfile::tempdir().unwrap();
    for (folder, args) in folders.iter().zip([["--unit", &unit], ["--container", &id]]) {
        std::fs::create_dir(folder).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let ready = dir.path().join(args[0]);
        let child = begun(&[&args[..], &["--json", "--for", "1500ms"]].concat(), &ready);
        let mut others = loopback();
        others.0.write_all(b"of another").unwrap();
        let mut client = client_in(folder, listener.local_addr().unwrap().port());
        listener.accept().unwrap().0.read_exact(&mut [0; 6]).unwrap();
        client.wait().unwrap();
        let out = child.wait_with_output().unwrap();
        let gone = Instant::now() + Duration::from_secs(5);
        while std::fs::remove_dir(folder).is_err() && Instant::now() < gone {}
        let said = text(&out.stdout);
        let sends: Vec<&str> = said.lines().filter(|line| line.contains("\"kind\":\"send\"")).collect();
        assert!(sends.len() == 1 && sends[0].contains("\"bytes\":6"), "{args:?}: {said}{}", text(&out.stderr));
    }
}

#[test]
fn what_is_not_there_is_said_before_anything_begins() {
    let refused = |args: &[&str], says: &str| {
        let out = tracing(args).output().unwrap();
        assert_eq!(out.status.code(), Some(2), "{args:?}: {}", text(&out.stderr));
        assert!(text(&out.stderr).contains(says), "{args:?}: {}", text(&out.stderr));
    };
    refused(&["--port", "80,x"], "8000-8100");
    refused(&["--port", "9-8"], "8000-8100");
    refused(&["--peer", "no-such-host.invalid"], "no address");
    refused(&["--all", "--ready-fd", "77"], "no such descriptor");
    if machine::who::mount().is_some() {
        refused(&["--unit", "no-such-unit-here"], "no unit no-such-unit-here.service runs here");
        refused(&["--container", "no-such-container"], "docker ps");
    }
}

#[test]
fn no_file_and_no_run_is_written_over_unless_it_is_said() {
    tier::needs!(Need::Root, BTF);
    let dir = tempfile::tempdir().unwrap();
    let (file, run, other) = (dir.path().join("file"), dir.path().join("run"), dir.path().join("other"));
    std::fs::write(&file, "mine").unwrap();
    std::fs::create_dir(&other).unwrap();
    std::fs::write(other.join("mine"), "mine").unwrap();
    let traced = |args: &[&str]| {
        let out = tracing(&["--port", "1", "--for", "100ms", "--quiet"]).args(args).output().unwrap();
        (out.status.code(), text(&out.stdout), text(&out.stderr))
    };
    let (file_name, run_name) = (file.to_str().unwrap(), run.to_str().unwrap());
    let (code, _, errors) = traced(&["--perfetto", file_name]);
    assert!(code == Some(2) && errors.contains("--force"), "{errors}");
    assert_eq!(std::fs::read(&file).unwrap(), b"mine");
    assert_eq!(traced(&["--perfetto", file_name, "--force"]).0, Some(0));
    assert_ne!(std::fs::read(&file).unwrap(), b"mine");
    assert_eq!(traced(&["-o", run_name]).0, Some(0));
    std::fs::write(run.join("left"), "of the first").unwrap();
    let (code, _, errors) = traced(&["-o", run_name]);
    assert!(code == Some(2) && errors.contains("--force"), "{errors}");
    let (code, said, errors) = traced(&["-o", run_name, "--force"]);
    assert_eq!((code, errors.as_str()), (Some(0), ""), "{said}");
    assert!(!run.join("left").exists() && store::Run::open(&run).is_ok());
    // What is no run stays, whatever is said.
    assert_eq!(traced(&["-o", other.to_str().unwrap(), "--force"]).0, Some(2));
    assert!(other.join("mine").exists());
}

#[test]
fn tables_alone_colours_and_defaults_from_a_file() {
    tier::needs!(Need::Root, BTF);
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("config.toml");
    std::fs::write(&config, "color = 'always'\n[trace]\nfor = '200ms'\n").unwrap();
    let (client, server) = loopback();
    let port = port(&server).to_string();
    let traced = |args: &[&str], config: &Path| {
        let mut child =
            tracing(&["--port", &port, "--quiet"]).args(args).env("WIRELAPSE_CONFIG", config).spawn().unwrap();
        let mut sent = client.try_clone().unwrap();
        let mut read = server.try_clone().unwrap();
        while child.try_wait().unwrap().is_none() {
            sent.write_all(b"x").unwrap();
            read.read_exact(&mut [0]).unwrap();
            std::thread::sleep(Duration::from_millis(2));
        }
        let out = child.wait_with_output().unwrap();
        assert!(out.status.success() && out.stderr.is_empty(), "{}", text(&out.stderr));
        text(&out.stdout)
    };
    let csv = traced(&["--csv"], &config);
    assert!(csv.contains("# Time by leg\r\nleg,n,min,p50,p90,p99,p99.9,max,share\r\n"), "{csv}");
    assert!(csv.contains("retrans,0,") && !csv.contains("Memory"), "{csv}");
    let coloured = traced(&[], &config);
    assert!(coloured.contains("\u{1b}[1m") && coloured.contains("took"), "{coloured}");
    let plain = traced(&["--color", "never", "--for", "300ms"], &config);
    assert!(!plain.contains('\u{1b}') && plain.contains("Time by leg"), "{plain}");
    std::fs::write(&config, "[trace]\nfro = '1s'\n").unwrap();
    let wrong = tracing(&["--all"]).env("WIRELAPSE_CONFIG", &config).output().unwrap();
    assert_eq!(wrong.status.code(), Some(2));
    assert!(text(&wrong.stderr).contains("there is no option \"fro\": did you mean `for`?"), "{}", text(&wrong.stderr));
}

#[test]
fn hosts_have_their_names_in_reports_that_ask_for_them() {
    let dir = tempfile::tempdir().unwrap();
    let named = |args: &[&str], shown: &str| {
        let plain = tier::wirelapse!(args).current_dir(&dir).output().unwrap();
        assert!(plain.status.success() && !text(&plain.stdout).contains(shown), "{args:?}: {}", text(&plain.stdout));
        let out = tier::wirelapse!(args).arg("--resolve").current_dir(&dir).output().unwrap();
        assert!(out.status.success(), "{args:?}: {}", text(&out.stderr));
        assert!(text(&out.stdout).contains(shown), "{args:?}: {}", text(&out.stdout));
    };
    let line = |at: u32, from: &str, to: &str, rest: &str| format!("00:00:00.{at:06} IP {from} > {to}: Flags {rest}\n");
    let (client, server) = ("127.0.0.1.40000", "127.0.0.1.80");
    let mut dump = line(0, client, server, "[S], seq 1, win 65535, options [mss 1460], length 0");
    dump += &line(100, server, client, "[S.], seq 7, ack 2, win 65535, options [mss 1460], length 0");
    dump += &line(200, client, server, "[.], ack 8, win 65535, length 0");
    dump += &line(300, client, server, "[P.], seq 2:102, ack 8, win 65535, length 100");
    dump += &line(400, server, client, "[.], ack 102, win 65535, length 0");
    std::fs::write(dir.path().join("dump.txt"), dump).unwrap();
    named(&["analyze", "dump.txt"], "localhost:40000 → localhost:80");
    named(&["analyze", "dump.txt", "--connection", "1"], "localhost:40000 → localhost:80");
    assert!(
        tier::wirelapse!(["analyze", "dump.txt", "-o", "capture"]).current_dir(&dir).output().unwrap().status.success()
    );
    named(&["report", "capture"], "localhost:40000 → localhost:80");
    tier::needs!(Need::Root, BTF);
    let (mut near, mut near_end) = loopback();
    let served = port(&near_end).to_string();
    let (run, ready) = (dir.path().join("trace"), dir.path().join("ready"));
    let args = ["--port", &served, "--for", "1s", "--resolve", "--full", "-o", run.to_str().unwrap()];
    let child = begun(&args, &ready);
    near.write_all(b"hello").unwrap();
    near_end.read_exact(&mut [0; 5]).unwrap();
    let out = child.wait_with_output().unwrap();
    let shown = format!("localhost:{served}");
    assert!(text(&out.stdout).contains(&shown), "{}{}", text(&out.stdout), text(&out.stderr));
    named(&["report", "trace", "--full"], &shown);
    let page = dir.path().join("page.html");
    let out =
        tier::wirelapse!(["report", "trace", "--resolve", "--html", "page.html"]).current_dir(&dir).output().unwrap();
    assert!(out.status.success() && std::fs::read_to_string(page).unwrap().contains(&shown));
}
