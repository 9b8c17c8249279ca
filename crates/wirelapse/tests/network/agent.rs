//! The agent as a user runs it: what it says of its configuration, what it counts, and what rights
//! it keeps.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::process::Stdio;
use std::time::Duration;

use tier::{Need, Process, needs, text, wirelapse};

#[test]
fn a_wrong_key_is_shown_with_its_line_and_the_nearest_name() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("agent.toml");
    let check = |content: &str| {
        fs::write(&file, content).unwrap();
        wirelapse!(&["agent", "--check", "--config", file.to_str().unwrap()]).output().unwrap()
    };
    let wrong = check("[prometheus]\nlistn = \"127.0.0.1:1\"\n");
    assert_eq!(wrong.status.code(), Some(2));
    let said = text(&wrong.stderr);
    assert!(
        said.contains("agent.toml:2:1: there is no key \"listn\" in [prometheus]: did you mean `listen`?"),
        "{said}"
    );
    let right = check("[target]\nport = 443\n[prometheus]\n");
    assert_eq!(right.status.code(), Some(0));
    assert!(text(&right.stdout).contains("Prometheus: http://127.0.0.1:9956/metrics."), "{}", text(&right.stdout));
}

/// What the endpoint answers.
fn scrape(address: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

const SENDS: u64 = 200;
const NOBODY: u32 = 65_534;

#[test]
fn a_user_with_three_capabilities_counts_every_send_and_keeps_none() {
    needs!(Need::Root, Need::Program("setpriv"), Need::Path("/sys/kernel/btf/vmlinux"));
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let store = dir.path().join("store");
    fs::create_dir(&store).unwrap();
    chown(&store, Some(NOBODY), Some(NOBODY)).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let config = dir.path().join("agent.toml");
    let toml = format!(
        "[target]\nport = {port}\n[prometheus]\nlisten = \"127.0.0.1:0\"\n[store]\nurl = \"{}/runs\"\ninterval = \"1s\"\n",
        store.display()
    );
    fs::write(&config, toml).unwrap();
    // A copy that every user may run, wherever the build is.
    let own = dir.path().join("wirelapse");
    fs::copy(env!("CARGO_BIN_EXE_wirelapse"), &own).unwrap();
    fs::set_permissions(&own, fs::Permissions::from_mode(0o755)).unwrap();
    let three = "-all,+bpf,+perfmon,+net_admin";
    let mut command = tier::command("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "--no-new-privs"]);
    command.args([format!("--inh-caps={three}"), format!("--ambient-caps={three}"), format!("--bounding-set={three}")]);
    command.arg(&own).arg("agent").arg("--config").arg(&config);
    let mut agent = Process::start(command.stderr(Stdio::piped()));
    let mut said = BufReader::new(agent.stderr.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    let Some(address) = line.trim().strip_prefix("wirelapse: listening at ").map(str::to_owned) else {
        let mut rest = String::new();
        said.read_to_string(&mut rest).unwrap();
        panic!("{line}{rest}");
    };
    // It answers once its rights are dropped and its threads are started.
    scrape(&address);

    let mut sending = TcpStream::connect(("127.0.0.1", port)).unwrap();
    sending.set_nodelay(true).unwrap();
    let (mut received, _) = listener.accept().unwrap();
    let mut bytes = [0; 100];
    for _ in 0..SENDS {
        sending.write_all(&bytes).unwrap();
        received.read_exact(&mut bytes).unwrap();
    }
    std::thread::sleep(Duration::from_millis(500));
    let figures = scrape(&address);
    let sends: u64 = figures
        .lines()
        .filter(|line| line.starts_with("wirelapse_sends_total{"))
        .map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap())
        .sum();
    assert_eq!(sends, SENDS, "{figures}");

    let threads: Vec<_> =
        fs::read_dir(format!("/proc/{}/task", agent.id())).unwrap().map(|t| t.unwrap().path()).collect();
    assert!(threads.len() >= 2, "the endpoint has a thread");
    for thread in threads {
        let status = fs::read_to_string(thread.join("status")).unwrap();
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().to_owned();
        assert_eq!(field("Uid:").split_ascii_whitespace().next(), Some("65534"));
        for set in ["CapEff:", "CapPrm:", "CapAmb:"] {
            assert_eq!(field(set), "0000000000000000", "{set} of {}", thread.display());
        }
        assert_eq!((field("NoNewPrivs:").as_str(), field("Seccomp:").as_str()), ("1", "2"));
    }

    // Files outside the folders of its configuration are closed to it, whoever may read them.
    if machine::landlock_level().is_some() {
        let elsewhere = tempfile::tempdir().unwrap();
        fs::set_permissions(elsewhere.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let moved = elsewhere.path().join("agent.toml");
        fs::copy(&config, &moved).unwrap();
        fs::remove_file(&config).unwrap();
        std::os::unix::fs::symlink(&moved, &config).unwrap();
        // SAFETY: signals a process that this test started and has not waited for.
        assert_eq!(unsafe { libc::kill(agent.id() as i32, libc::SIGHUP) }, 0);
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        assert!(line.contains("not taken over") && line.contains("Permission denied"), "{line}");
    }

    // SAFETY: signals a process that this test started and has not waited for.
    assert_eq!(unsafe { libc::kill(agent.id() as i32, libc::SIGTERM) }, 0);
    assert!(agent.output().status.success());
    let host = fs::read_dir(store.join("runs")).unwrap().next().unwrap().unwrap().path();
    let date = fs::read_dir(host).unwrap().next().unwrap().unwrap().path();
    let run = fs::read_dir(date).unwrap().next().unwrap().unwrap().path();
    let run: serde_json::Value = serde_json::from_slice(&fs::read(run.join("run.json")).unwrap()).unwrap();
    assert_eq!(run["state"], "finished");
    assert!(run["rows"]["histograms"].as_u64().unwrap() > 0, "{run}");
    assert_eq!(run["coverage"]["bytes_written"], 100 * SENDS, "{run}");
}
