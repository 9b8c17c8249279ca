//! `wirelapse trace` as a person or a script meets it.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Output, Stdio};

use tier::{Need, text};

const BTF: Need<'_> = Need::Path("/sys/kernel/btf/vmlinux");

fn wirelapse(args: &[&str]) -> Command {
    let mut command = tier::wirelapse!(["trace"]);
    command.args(args).stdin(Stdio::null());
    command
}

fn refused(args: &[&str], says: &str) {
    let out = wirelapse(args).output().unwrap();
    assert_eq!(out.status.code(), Some(2), "{args:?}: {}", text(&out.stderr));
    assert!(text(&out.stderr).contains(says), "{args:?}: no {says:?} in {}", text(&out.stderr));
    assert!(out.stdout.is_empty(), "{args:?}");
}

#[test]
fn wrong_use_is_reported_before_anything_is_attached() {
    let dir = tempfile::tempdir().unwrap();
    let exists = dir.path().to_str().unwrap();
    refused(&[], "nothing to trace");
    refused(&["-p", "4194304"], "there is no process 4194304");
    refused(&["--peer", "10.0.0.0/99"], "10.0.0.0/99");
    refused(&["--port", "80", "--sample", "2/3"], "write 1/N");
    refused(&["--port", "80", "--draw"], "--sample 1/N");
    refused(&["--port", "80", "--for", "10x"], "500ms, 10s");
    refused(&["--port", "80", "-o", exists], "name another one");
    refused(&["--port", "80", "-o", "/no/such/folder/run"], "/no/such/folder");
    refused(&["--port", "80", "--perfetto", "/no/such/folder/file"], "cannot write /no/such/folder/file");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn a_program_that_is_not_there_leaves_nothing_behind() {
    tier::needs!(Need::Root, BTF);
    let dir = tempfile::tempdir().unwrap();
    let (run, file) = (dir.path().join("run"), dir.path().join("file"));
    refused(
        &["-o", run.to_str().unwrap(), "--perfetto", file.to_str().unwrap(), "--", "/no/such/program"],
        "check its name",
    );
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn the_report_of_a_run_that_begins_is_shown_or_says_that_it_is_not_there_yet() {
    tier::needs!(Need::Root, BTF);
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run");
    let run = run.to_str().unwrap();
    let mut trace =
        tier::Process::start(wirelapse(&["--port", "1", "-o", run]).stdout(Stdio::null()).stderr(Stdio::null()));
    // From before the directory is there until there is something to read.
    let shown = loop {
        let report = tier::wirelapse!(["report", run]).output().unwrap();
        let said = text(&report.stderr);
        if report.status.success() {
            break text(&report.stdout);
        }
        assert!(report.status.code() == Some(2) && said.contains("(yet)"), "{:?}: {said}", report.status);
        assert!(trace.try_wait().unwrap().is_none(), "the trace has ended: {said}");
    };
    let words: Vec<&str> = shown.split_whitespace().collect();
    assert!(words.join(" ").contains("it is still being written"), "{shown}");
}

#[test]
fn without_root_it_says_so() {
    tier::needs!(Need::Root, Need::Program("setpriv"));
    // The test's own binary may lie where another user cannot go.
    let dir =
        tempfile::Builder::new().permissions(std::os::unix::fs::PermissionsExt::from_mode(0o755)).tempdir().unwrap();
    let copy = dir.path().join("wirelapse");
    std::fs::copy(env!("CARGO_BIN_EXE_wirelapse"), &copy).unwrap();
    let out = Command::new("setpriv")
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "--"])
        .arg(copy)
        .args(["trace", "--port", "80"])
        .output()
        .unwrap();
    assert_eq!(out.status.code(), Some(2), "{}", text(&out.stderr));
    assert!(text(&out.stderr).contains("needs root"), "{}", text(&out.stderr));
}

/// Echoes on loopback and traces itself from outside, by port, until `--for` is over.
fn traced_exchange(args: &[&str]) -> (u32, Output) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut client = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    client.set_nodelay(true).unwrap();
    let port = port.to_string();
    let mut all = vec!["--port", &port, "--for", "3s"];
    all.extend(args);
    let mut tracing = wirelapse(&all).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut rounds = 0;
    // For as long as it runs, so that however late it starts there is something to see.
    while tracing.try_wait().unwrap().is_none() {
        client.write_all(&[7; 40]).unwrap();
        server.read_exact(&mut [0; 40]).unwrap();
        rounds += 1;
        std::thread::sleep(std::time::Duration::from_millis(5));
        if rounds > 20_000 {
            let _ = tracing.kill();
        }
    }
    (rounds, tracing.wait_with_output().unwrap())
}

#[test]
fn a_trace_of_an_exchange_reports_exports_and_stores_the_same_sends() {
    tier::needs!(Need::Root, BTF);
    let dir = tempfile::tempdir().unwrap();
    let (run, file) = (dir.path().join("run"), dir.path().join("file"));
    let (rounds, out) = traced_exchange(&["-o", run.to_str().unwrap(), "--perfetto", file.to_str().unwrap()]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let report = text(&out.stdout);
    let run = store::Run::open(&run).unwrap();
    let (mut sends, mut acknowledged) = (0, 0);
    run.sends(|send| {
        assert_eq!(send.bytes, 40);
        sends += 1;
        if send.stamps.ack.is_some() {
            acknowledged += 1;
            assert_eq!(sends, acknowledged, "an earlier send was acknowledged with this one");
        }
    })
    .unwrap();
    // The server never answers, so the last ones wait for its delayed ACK when the trace ends.
    assert!(sends - acknowledged <= 40, "{acknowledged} of {sends} acknowledged");
    assert!(acknowledged > 0 && sends <= u64::from(rounds), "{sends} sends of {rounds}\n{report}");
    assert_eq!(run.state(), store::State::Finished);
    assert!(report.contains("What was not seen"), "{report}");
    assert!(!report.contains('\u{1b}'), "no colours in a pipe: {report}");
    assert!(std::fs::metadata(file).unwrap().len() > 1_000);
}

#[test]
fn json_lines_are_all_that_standard_output_has() {
    tier::needs!(Need::Root, BTF, Need::Program("sh"));
    let out = wirelapse(&["--json", "--", "sh", "-c", "echo from the program; exit 3"]).output().unwrap();
    assert_eq!(out.status.code(), Some(3), "{}", text(&out.stderr));
    let kinds: Vec<String> = text(&out.stdout)
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).expect(line)["kind"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!((kinds.first().unwrap().as_str(), kinds.last().unwrap().as_str()), ("run", "summary"), "{kinds:?}");
    let errors = text(&out.stderr);
    assert!(errors.contains("from the program") && errors.contains("sh ended with exit status 3."), "{errors}");
}

#[test]
fn the_end_of_cmd_is_passed_on_where_the_reader_closes_the_pipe() {
    tier::needs!(Need::Root, BTF, Need::Program("sh"));
    for options in [&["--json"][..], &[], &["--csv"]] {
        let mut command = wirelapse(&[options, &["--", "sh", "-c", "sleep 0.5; exit 7"]].concat());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stdout = child.stdout.take().unwrap();
        // The first line of --json says that the trace runs; CMD is started then.
        stdout.read_exact(&mut [0; 1]).unwrap();
        drop(stdout);
        let out = child.wait_with_output().unwrap();
        assert_eq!(out.status.code(), Some(7), "{options:?}: {}", text(&out.stderr));
        assert!(!text(&out.stderr).contains("pipe"), "{}", text(&out.stderr));
    }
}

#[test]
fn cmd_belongs_to_who_called_sudo_and_its_end_is_passed_on() {
    tier::needs!(Need::Root, BTF, Need::Program("sh"), Need::Program("id"));
    let nobody = text(&Command::new("id").args(["-u", "nobody"]).output().unwrap().stdout).trim().to_owned();
    let run = |extra: &[&str], script: &str| {
        let args = [&["--json"][..], extra, &["--", "sh", "-c", script]].concat();
        wirelapse(&args)
            .env("SUDO_UID", &nobody)
            .env("WIRELAPSE_TOKEN", "of root")
            .env("HOME", "/root")
            .output()
            .unwrap()
    };
    let who = "id -u; id -g; echo $USER; echo at $HOME with ${WIRELAPSE_TOKEN-no} token; cat /etc/shadow >/dev/null && echo readable";
    let out = run(&[], who);
    let said = text(&out.stderr);
    assert!(said.starts_with(&format!("{nobody}\n")) && said.contains("nobody\n"), "{said}");
    assert!(!said.contains("at /root") && said.contains("with no token"), "{said}");
    assert!(!said.contains("readable") && out.status.code() == Some(1), "{said}");
    let said = text(&run(&["--as-root"], who).stderr);
    assert!(said.starts_with("0\n0\n") && said.contains("readable"), "{said}");
    assert!(said.contains("at /root with of root token"), "{said}");
    assert_eq!(run(&[], "kill -TERM $$").status.code(), Some(128 + 15));
    let unknown = wirelapse(&["--", "true"]).env("SUDO_UID", "4123456789").output().unwrap();
    assert!(!unknown.status.success() && text(&unknown.stderr).contains("SUDO_UID"), "{}", text(&unknown.stderr));
}

#[test]
fn a_user_with_the_capabilities_that_are_named_traces_and_one_without_learns_which() {
    tier::needs!(Need::Root, BTF, Need::Program("setpriv"));
    // A file that such a user may run, wherever this one lies.
    let dir =
        tempfile::Builder::new().permissions(std::os::unix::fs::PermissionsExt::from_mode(0o755)).tempdir().unwrap();
    let program = dir.path().join("wirelapse");
    std::fs::copy(env!("CARGO_BIN_EXE_wirelapse"), &program).unwrap();
    // This process is root's: nobody else may look into it.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let there_before = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let port = there_before.peer_addr().unwrap().port().to_string();
    let as_user = |capabilities: &str| {
        let held = [format!("--inh-caps={capabilities}"), format!("--ambient-caps={capabilities}")];
        Command::new("setpriv")
            .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
            .args(held)
            .arg(&program)
            .args(["trace", "--port", &port, "--for", "300ms", "--json"])
            .current_dir("/")
            .output()
            .unwrap()
    };
    let refused = as_user("+bpf,+perfmon");
    let error = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{error}");
    let (_, missing) = error.split_once("missing: ").unwrap();
    assert_eq!(missing.trim_end().trim_end_matches(')'), "CAP_NET_ADMIN, CAP_SYS_ADMIN");
    let out = as_user("+bpf,+perfmon,+net_admin,+sys_admin");
    assert!(out.status.success(), "{}", text(&out.stderr));
    let said = text(&out.stdout);
    assert!(said.lines().last().unwrap().contains("summary"), "{said}");
    let own = format!("\"pid\":{},", std::process::id());
    assert!(said.lines().any(|line| line.contains("\"connection\"") && line.contains(&own)), "{said}");
}
