//! The agent as a user runs it: what it says of its configuration, what it counts, and what rights
//! it keeps.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::Path;
use std::process::{ChildStderr, Stdio};
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
    assert_eq!(text(&right.stderr), "");
}

#[test]
fn a_check_reads_the_files_that_are_named_and_warns_of_an_open_endpoint() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("agent.toml");
    let token = dir.path().join("token");
    let check = |content: String| {
        fs::write(&file, content).unwrap();
        let out = wirelapse!(&["agent", "--check", "--config", file.to_str().unwrap()]).output().unwrap();
        (out.status.code(), text(&out.stderr))
    };
    let anywhere = "[prometheus]\nlisten = \"0.0.0.0:9956\"\n".to_owned();
    let (status, said) = check(anywhere.clone());
    assert!(status == Some(0) && said.contains("whoever reaches 0.0.0.0:9956 can read"), "{said}");
    let with_token = format!("{anywhere}token_file = \"{}\"\n", token.display());
    let (status, said) = check(with_token.clone());
    assert!(status != Some(0) && said.contains(&format!("{}: No such file", token.display())), "{said}");
    fs::write(&token, "secret\n").unwrap();
    fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(check(with_token), (Some(0), String::new()));
    let tls = format!("[prometheus]\ntls = {{ certificate = \"{0}\", key = \"{0}\" }}\n", token.display());
    let (status, said) = check(tls);
    assert!(status != Some(0) && said.contains(&token.display().to_string()), "{said}");
    // A store below a file, and one that is still to be made: nothing is made.
    let below = |path: &Path| format!("[store]\nurl = \"{}/runs/a\"\n", path.display());
    let (status, said) = check(below(&token));
    assert!(status != Some(0) && said.contains("no runs can be written there: Not a directory"), "{said}");
    assert_eq!(check(below(dir.path())), (Some(0), String::new()));
    assert!(!dir.path().join("runs").exists());
}

/// What the endpoint answers.
fn scrape(address: &str) -> String {
    scrape_as(address, "text/plain")
}

/// The same in a form that this media type names.
fn scrape_as(address: &str, accept: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    // By version 1.0, whose answers do not come in chunks that may divide a line.
    write!(stream, "GET /metrics HTTP/1.0\r\nHost: x\r\nAccept: {accept}\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

const SENDS: u64 = 200;
const NOBODY: u32 = 65_534;

/// An agent with this configuration, as a user with three capabilities; the address of its
/// endpoint, and what it says after it.
fn agent_of(dir: &Path, toml: &str) -> (Process, String, BufReader<ChildStderr>) {
    fs::set_permissions(dir, fs::Permissions::from_mode(0o755)).unwrap();
    let config = dir.join("agent.toml");
    fs::write(&config, toml).unwrap();
    // A copy that every user may run, wherever the build is.
    let own = dir.join("wirelapse");
    // By another process: what other threads start meanwhile would hold the file open to write.
    assert!(tier::command("cp").arg(env!("CARGO_BIN_EXE_wirelapse")).arg(&own).status().unwrap().success());
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
    (agent, address, said)
}

/// The sum of a metric over its series.
fn sum(figures: &str, metric: &str) -> u64 {
    let lines =
        figures.lines().filter(|line| line.strip_prefix(metric).is_some_and(|rest| rest.starts_with(['{', ' '])));
    lines.map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap()).sum()
}

#[test]
fn a_user_with_three_capabilities_counts_every_send_and_keeps_none() {
    needs!(Need::Root, Need::Program("setpriv"), Need::Path("/sys/kernel/btf/vmlinux"));
    let dir = tempfile::tempdir().unwrap();
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
    let (agent, address, mut said) = agent_of(dir.path(), &toml);

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
    assert_eq!(sum(&figures, "wirelapse_sends_total"), SENDS, "{figures}");

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

/// A shell in a cgroup that connects, sends once for each answer, and ends.
fn send_from(cgroup: &Path, listener: &TcpListener, sends: u64) {
    let port = listener.local_addr().unwrap().port();
    let script = format!(
        "echo $$ > {}/cgroup.procs; exec 3<>/dev/tcp/127.0.0.1/{port}; \
         for i in $(seq {sends}); do echo hello >&3; read -u 3 x; done",
        cgroup.display()
    );
    let mut client = tier::command("bash").args(["-c", &script]).spawn().unwrap();
    let (mut server, _) = listener.accept().unwrap();
    for _ in 0..sends {
        server.read_exact(&mut [0; 6]).unwrap();
        server.write_all(b"k\n").unwrap();
    }
    client.wait().unwrap();
}

#[test]
fn a_unit_that_restarts_is_counted_on_and_its_absence_is_said() {
    let test = "a_unit_that_restarts_is_counted_on_and_its_absence_is_said";
    needs!(Need::Root, Need::Program("setpriv"), Need::Program("bash"), Need::Path("/sys/kernel/btf/vmlinux"));
    let Some(mount) = machine::who::mount() else { return tier::skip(test, "no cgroup v2 is mounted") };
    let name = format!("wirelapse-restarted-{}", std::process::id());
    let folder = mount.join(format!("{name}-1.service"));
    let dir = tempfile::tempdir().unwrap();
    let toml = format!("[target]\nunit = [\"{name}-*\", \"{name}.scope\"]\n[prometheus]\nlisten = \"127.0.0.1:0\"\n");
    let (agent, address, mut said) = agent_of(dir.path(), &toml);
    let mut line = |expected: &str| {
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        assert_eq!(line, format!("wirelapse: {expected}\n"));
    };
    // Neither is there at its start.
    line(&format!("unit {name}-*.service is not there: nothing of it is followed until it comes"));
    line(&format!("unit {name}.scope is not there: nothing of it is followed until it comes"));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    // A scrape is of what the thread that follows cgroups has seen by then.
    let named = |figures: &str, metric: &str| -> u64 {
        let labels = format!("{metric}{{kind=\"unit\",name=\"{name}-*.service\"}} ");
        let value = figures.lines().find_map(|line| line.strip_prefix(&labels));
        value.unwrap_or_else(|| panic!("{figures}")).parse().unwrap()
    };
    let until = |seen: &dyn Fn(&str) -> bool| {
        let mut figures = scrape(&address);
        for _ in 0..200 {
            if seen(&figures) {
                break;
            }
            std::thread::sleep(Duration::from_millis(100));
            figures = scrape(&address);
        }
        assert!(seen(&figures), "{figures}");
        figures
    };
    for round in 1..=3 {
        fs::create_dir(&folder).unwrap();
        until(&|figures| named(figures, "wirelapse_target_started_total") == round);
        send_from(&folder, &listener, 20);
        while fs::remove_dir(&folder).is_err() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    let figures = until(&|figures| {
        sum(figures, "wirelapse_sends_total") == 60 && named(figures, "wirelapse_target_cgroups") == 0
    });
    let late =
        figures.lines().find_map(|line| line.strip_prefix("wirelapse_lost_total{counter=\"connections_late\"} "));
    assert_eq!(late, Some("0"), "{figures}");

    fs::create_dir(&folder).unwrap();
    line(&format!("unit {name}-*.service is there, with 1 cgroup"));
    fs::remove_dir(&folder).unwrap();
    line(&format!("unit {name}-*.service is not there: nothing of it is followed until it comes"));
    // SAFETY: signals a process that this test started and has not waited for.
    assert_eq!(unsafe { libc::kill(agent.id() as i32, libc::SIGTERM) }, 0);
    assert!(agent.output().status.success());
}

#[test]
fn attempts_to_connect_are_counted_by_what_came_of_them() {
    needs!(Need::Root, Need::Program("setpriv"), Need::Path("/sys/kernel/btf/vmlinux"));
    const ACCEPTED: u64 = 5;
    const REFUSED: u64 = 7;
    let dir = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    // Bound, so that no other program takes it, but nobody listens.
    let bound = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    bound.bind(&"127.0.0.1:0".parse::<std::net::SocketAddr>().unwrap().into()).unwrap();
    let closed = bound.local_addr().unwrap().as_socket().unwrap().port();
    let toml = format!(
        "[target]\nport = [{port}, {closed}]\n[histograms]\nport = \"listening\"\n[prometheus]\nlisten = \"127.0.0.1:0\"\n"
    );
    let (agent, address, _said) = agent_of(dir.path(), &toml);
    for _ in 0..ACCEPTED {
        let client = TcpStream::connect(("127.0.0.1", port)).unwrap();
        std::thread::sleep(Duration::from_millis(30));
        drop(listener.accept().unwrap());
        drop(client);
    }
    for _ in 0..REFUSED {
        assert!(TcpStream::connect(("127.0.0.1", closed)).is_err());
    }
    let of = |figures: &str, metric: &str, labels: &[&str]| -> f64 {
        let lines = figures.lines().filter(|line| line.starts_with(&format!("{metric}{{")));
        let lines = lines.filter(|line| labels.iter().all(|label| line.contains(label)));
        lines.map(|line| line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap()).sum()
    };
    let mut figures = scrape(&address);
    for _ in 0..100 {
        if of(&figures, "wirelapse_connection_ends_total", &[]) == 2.0 * ACCEPTED as f64 {
            break;
        }
        std::thread::sleep(Duration::from_millis(100));
        figures = scrape(&address);
    }
    let attempts = |labels: &[&str]| of(&figures, "wirelapse_connection_attempts_total", labels);
    let (port, closed) = (format!("=\"{port}\""), format!("=\"{closed}\""));
    for (labels, n) in [
        (vec!["opening=\"connected\"", "outcome=\"established\"", &format!("network_peer_port{port}")], ACCEPTED),
        (vec!["opening=\"accepted\"", "outcome=\"established\"", &format!("network_local_port{port}")], ACCEPTED),
        (vec!["opening=\"connected\"", "outcome=\"refused\"", &format!("network_peer_port{closed}")], REFUSED),
        (vec![], 2 * ACCEPTED + REFUSED),
    ] {
        assert_eq!(attempts(&labels), n as f64, "{labels:?}: {figures}");
    }
    // The cgroup is that of this test, which every socket here is of.
    assert_eq!(attempts(&["cgroup="]), attempts(&[]), "{figures}");
    let handshakes = of(&figures, "wirelapse_connection_handshake_duration_seconds_count", &[]);
    assert_eq!(handshakes, 2.0 * ACCEPTED as f64, "{figures}");
    assert_eq!(of(&figures, "wirelapse_connection_accept_duration_seconds_count", &[]), ACCEPTED as f64, "{figures}");
    let waited = of(&figures, "wirelapse_connection_accept_duration_seconds_sum", &[]) / ACCEPTED as f64;
    assert!(waited >= 0.03, "{waited} s: {figures}");
    assert_eq!(
        of(&figures, "wirelapse_connection_ends_total", &["ending=\"fin\""]),
        2.0 * ACCEPTED as f64,
        "{figures}"
    );
    // SAFETY: signals a process that this test started and has not waited for.
    assert_eq!(unsafe { libc::kill(agent.id() as i32, libc::SIGTERM) }, 0);
    assert!(agent.output().status.success());
}

/// Answers each request of HTTP/1 with a status; `None` closes the connection instead.
fn answers(listener: &TcpListener, statuses: &[Option<u16>]) {
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    for status in statuses {
        let (asked, answered) = (b"GET /a?secret=1 HTTP/1.1\r\nHost: x\r\n\r\n", |status| {
            format!("HTTP/1.1 {status} Said\r\nContent-Length: 0\r\n\r\n")
        });
        client.write_all(asked).unwrap();
        server.read_exact(&mut vec![0; asked.len()]).unwrap();
        let Some(status) = status else { return };
        let answer = answered(status);
        server.write_all(answer.as_bytes()).unwrap();
        client.read_exact(&mut vec![0; answer.len()]).unwrap();
    }
}

#[test]
fn requests_are_counted_by_what_was_answered() {
    needs!(Need::Root, Need::Program("setpriv"), Need::Path("/sys/kernel/btf/vmlinux"));
    let dir = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let toml = format!(
        "[target]\nport = {port}\n[histograms]\nport = \"listening\"\nrequests = \"http\"\n[prometheus]\nlisten = \"127.0.0.1:0\"\n"
    );
    let (mut agent, address, _said) = agent_of(dir.path(), &toml);
    for _ in 0..3 {
        answers(&listener, &[Some(200), Some(204), Some(200), Some(503), Some(404), None]);
    }
    let took = |figures: &str, role: &str, class: &str| {
        let metric = "wirelapse_request_duration_seconds_count{";
        let labels = [format!("role=\"{role}\""), format!("http_response_status_class=\"{class}\"")];
        let lines = figures.lines().filter(|line| line.starts_with(metric));
        let lines = lines.filter(|line| labels.iter().all(|label| line.contains(label)));
        lines.map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap()).sum::<u64>()
    };
    let mut figures = String::new();
    tier::until("all requests", || {
        figures = scrape(&address);
        sum(&figures, "wirelapse_request_unanswered_total") == 6
    });
    for role in ["client", "server"] {
        for (class, n) in [("2xx", 9), ("5xx", 3), ("4xx", 3)] {
            assert_eq!(took(&figures, role, class), n, "{role} {class}: {figures}");
        }
    }
    assert_eq!(sum(&figures, "wirelapse_request_untimed_total"), 0, "{figures}");
    assert_eq!(sum(&figures, "wirelapse_request_duration_seconds_count"), 30, "{figures}");
    // By the port that the server listens at, at either end, and nothing of what was asked.
    let of =
        |role: &str| figures.lines().find(|line| line.contains("request_unanswered_total{") && line.contains(role));
    assert!(of("client").unwrap().contains(&format!("network_peer_port=\"{port}\"")), "{figures}");
    assert!(of("server").unwrap().contains(&format!("network_local_port=\"{port}\"")), "{figures}");
    assert!(!figures.contains("secret"), "{figures}");
    // SAFETY: signals a process that this test started and has not waited for.
    assert_eq!(unsafe { libc::kill(agent.id() as i32, libc::SIGTERM) }, 0);
    assert!(agent.wait().unwrap().success());
}

/// Asks with each of these traces in one connection, and answers with 200.
fn asks_with(listener: &TcpListener, traceparents: &[String]) {
    const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    for traceparent in traceparents {
        let asked = format!("GET /a HTTP/1.1\r\nHost: x\r\nTraceparent: {traceparent}\r\n\r\n");
        client.write_all(asked.as_bytes()).unwrap();
        server.read_exact(&mut vec![0; asked.len()]).unwrap();
        server.write_all(ANSWER).unwrap();
        client.read_exact(&mut [0; ANSWER.len()]).unwrap();
    }
}

/// The body of the next request that a collector gets which has these bytes.
fn pushed_with(collector: &TcpListener, wanted: &[u8]) -> Vec<u8> {
    loop {
        let (stream, _) = collector.accept().unwrap();
        let mut reader = BufReader::new(stream);
        let (mut line, mut length) = (String::new(), 0);
        while reader.read_line(&mut line).unwrap() > 2 {
            if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            line.clear();
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        reader.into_inner().write_all(answer).unwrap();
        if body.windows(wanted.len()).any(|bytes| bytes == wanted) {
            return body;
        }
    }
}

#[test]
fn requests_link_to_their_traces_for_prometheus_and_for_a_collector() {
    needs!(Need::Root, Need::Program("setpriv"), Need::Path("/sys/kernel/btf/vmlinux"));
    const SPAN: [u8; 8] = [0xbe; 8];
    const OPEN: &str = "application/openmetrics-text; version=1.0.0";
    let dir = tempfile::tempdir().unwrap();
    let (listener, collector) = (TcpListener::bind("127.0.0.1:0").unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
    let port = listener.local_addr().unwrap().port();
    let toml = format!(
        "[target]\nport = {port}\n[histograms]\nrequests = \"http\"\n[prometheus]\nlisten = \"127.0.0.1:0\"\n\
         [otlp]\nendpoint = \"http://{}\"\ninterval = \"1s\"\n",
        collector.local_addr().unwrap()
    );
    let (mut agent, address, _said) = agent_of(dir.path(), &toml);
    let of = |trace: u32, flags: &str| format!("00-{trace:032x}-{}-{flags}", "be".repeat(8));
    let sampled: Vec<String> = (1..=20).map(|n| of(n, "01")).collect();
    // Those that are in no store of traces, and those that say no trace.
    let unsampled: Vec<String> = (100..120).map(|n| of(n, "00")).collect();
    let invalid = vec![of(0, "01"); 20];
    asks_with(&listener, &[sampled.clone(), unsampled.clone(), invalid.clone()].concat());
    let mut figures = String::new();
    tier::until("all requests", || {
        figures = scrape_as(&address, OPEN);
        let counts = figures.lines().filter(|line| line.starts_with("wirelapse_request_duration_seconds_count"));
        counts.map(|line| line.rsplit_once(' ').unwrap().1.parse::<usize>().unwrap()).sum::<usize>()
            == 2 * (sampled.len() + unsampled.len() + invalid.len())
    });
    assert!(figures.trim_end().ends_with("# EOF"), "{figures}");
    let mut named = Vec::new();
    for (bucket, exemplar) in figures.lines().filter_map(|line| line.split_once(" # {")) {
        assert!(bucket.starts_with("wirelapse_request_duration_seconds_bucket{"), "{bucket}");
        let bound = bucket.split(",le=\"").nth(1).unwrap().split('"').next().unwrap();
        let (labels, numbers) = exemplar.split_once("} ").unwrap();
        let took: f64 = numbers.split(' ').next().unwrap().parse().unwrap();
        assert!(bound == "+Inf" || took <= bound.parse().unwrap(), "{bucket} {exemplar}");
        named.push((bucket.contains("role=\"server\""), labels.to_owned()));
    }
    let is_of = |(_, labels): &(bool, String), all: &[String]| {
        all.iter().any(|one| *labels == format!("trace_id=\"{}\",span_id=\"{}\"", &one[3..35], &one[36..52]))
    };
    assert!(named.iter().all(|one| is_of(one, &sampled) || is_of(one, &unsampled)), "{named:?}");
    // Those that can be looked up came first, and stay.
    for at_server in [false, true] {
        assert!(named.iter().any(|one| one.0 == at_server && is_of(one, &sampled)), "{named:?}");
    }
    // Nothing of it is in the text that has no exemplars.
    assert!(!scrape(&address).contains("trace_id"));

    // The last that was asked, whose octave has no other by then.
    let last = of(0xabc, "01");
    asks_with(&listener, std::slice::from_ref(&last));
    let trace: Vec<u8> = 0xabc_u128.to_be_bytes().into();
    let body = pushed_with(&collector, &trace);
    assert!(body.windows(8).any(|bytes| bytes == SPAN), "no span beside the trace");
    // SAFETY: signals a process that this test started and has not waited for.
    assert_eq!(unsafe { libc::kill(agent.id() as i32, libc::SIGTERM) }, 0);
    assert!(agent.wait().unwrap().success());
}

/// A question for an address (RFC 1035, section 4), or its answer.
fn dns(id: u16, name: &str, answers: bool) -> Vec<u8> {
    let mut bytes = id.to_be_bytes().to_vec();
    bytes.extend([if answers { 0x81 } else { 1 }, 0, 0, 1, 0, 0, 0, 0, 0, 0, name.len() as u8]);
    bytes.extend(name.as_bytes());
    bytes.extend([0, 0, 1, 0, 1]);
    bytes
}

#[test]
fn questions_of_dns_are_counted_with_their_answers_and_retries() {
    needs!(Need::Root, Need::Program("setpriv"), Need::Path("/sys/kernel/btf/vmlinux"));
    const LOOKUPS: u16 = 10;
    const LOST: u16 = 3;
    let dir = tempfile::tempdir().unwrap();
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    let toml = format!("[prometheus]\nlisten = \"127.0.0.1:0\"\n[histograms]\ndns = [{port}]\ncgroup = false\n");
    let (mut agent, address, _said) = agent_of(dir.path(), &toml);

    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.connect(("127.0.0.1", port)).unwrap();
    let mut bytes = [0; 600];
    for id in 0..LOOKUPS {
        let name = format!("name-{id}");
        client.send(&dns(id, &name, false)).unwrap();
        let (mut n, mut from) = server.recv_from(&mut bytes).unwrap();
        if id < LOST {
            // As with a resolver that waited for its time-out.
            std::thread::sleep(Duration::from_millis(200));
            client.send(&bytes[..n]).unwrap();
            (n, from) = server.recv_from(&mut bytes).unwrap();
        }
        assert_eq!(&bytes[..n], dns(id, &name, false));
        server.send_to(&dns(id, &name, true), from).unwrap();
        client.recv(&mut bytes).unwrap();
    }
    let mut figures = String::new();
    tier::until("all questions", || {
        figures = scrape(&address);
        sum(&figures, "wirelapse_dns_questions_total") == u64::from(LOOKUPS + LOST)
    });
    for (metric, n) in [("retries", LOST), ("unanswered", LOST), ("answers", LOOKUPS)] {
        assert_eq!(sum(&figures, &format!("wirelapse_dns_{metric}_total")), u64::from(n), "{metric}: {figures}");
    }
    for metric in ["answer", "lookup"] {
        let metric = format!("wirelapse_dns_{metric}_duration_seconds_count");
        assert_eq!(sum(&figures, &metric), u64::from(LOOKUPS), "{figures}");
    }
    let one = "wirelapse_dns_answers_total{network_peer_address=\"127.0.0.1\",code=\"NOERROR\"}";
    assert!(figures.contains(one), "{figures}");
    // What took as long as the time-out is among the lookups, and not among the answers.
    let within = |metric: &str| {
        let bucket = format!("wirelapse_dns_{metric}_duration_seconds_bucket");
        let mut lines = figures.lines().filter(|line| line.starts_with(&bucket) && line.contains("le=\"0.125\""));
        lines.next().unwrap().rsplit_once(' ').unwrap().1.parse::<u16>().unwrap()
    };
    assert_eq!((within("answer"), within("lookup")), (LOOKUPS, LOOKUPS - LOST), "{figures}");
    // SAFETY: signals a process that this test started and has not waited for.
    assert_eq!(unsafe { libc::kill(agent.id() as i32, libc::SIGTERM) }, 0);
    assert!(agent.wait().unwrap().success());
}

/// A child of a process that is `wirelapse trace`, further down too.
fn recorder_of(agent: u32) -> Option<u32> {
    let text = |pid: u32, file: &str| fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
    let children = |pid: u32| -> Vec<u32> {
        text(pid, &format!("task/{pid}/children")).split_ascii_whitespace().map(|pid| pid.parse().unwrap()).collect()
    };
    let is_one = |pid: &u32| text(*pid, "cmdline").contains("\0trace\0");
    children(agent).into_iter().flat_map(children).find(is_one)
}

/// The runs that are recorded in a folder.
fn recorded(folder: &Path) -> Vec<std::path::PathBuf> {
    fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn a_storm_is_one_recorded_run_a_count_and_a_pause() {
    needs!(Need::Root, Need::Program("setpriv"), Need::Path("/sys/kernel/btf/vmlinux"));
    const TIMES: u64 = 300;
    let dir = tempfile::tempdir().unwrap();
    let runs = dir.path().join("recorded");
    fs::create_dir(&runs).unwrap();
    chown(&runs, Some(NOBODY), Some(NOBODY)).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let toml = format!(
        "[target]\nport = {port}\n[prometheus]\nlisten = \"127.0.0.1:0\"\n[recorder]\nuntil = [\"send > 1ns\"]\nkeep = \"1s\"\n\
         packets = true\ndirectory = \"{}\"\npause = \"1h\"\n",
        runs.display()
    );
    let (mut agent, address, mut said) = agent_of(dir.path(), &toml);
    tier::until("it waits", || sum(&scrape(&address), "wirelapse_recorder_at_work") == 1);
    let recorder = recorder_of(agent.id()).expect("a trace");
    let attached = || {
        let fds = fs::read_dir(format!("/proc/{recorder}/fdinfo")).into_iter().flatten().flatten();
        let text = |fd: fs::DirEntry| fs::read_to_string(fd.path()).unwrap_or_default();
        fds.map(text).any(|text| text.contains("link_type:\tcgroup"))
    };
    tier::until("it traces", attached);
    std::thread::sleep(Duration::from_millis(500));
    assert!(recorded(&runs).is_empty(), "written before anything happened");
    let mut client = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    for _ in 0..TIMES {
        client.write_all(&[7; 50]).unwrap();
        server.read_exact(&mut [0; 50]).unwrap();
    }
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    let all = recorded(&runs);
    assert_eq!(all.len(), 1, "{all:?}");
    let begins = format!("wirelapse: recorded {}: `send > 1ns` at ", all[0].display());
    assert!(line.starts_with(&begins) && line.ends_with(&format!(" It happened {TIMES} times.\n")), "{line}");
    let run = store::Run::open(&all[0]).unwrap();
    assert_eq!((run.rows().unwrap().sends, run.state()), (TIMES, store::State::Finished));
    assert!(all[0].join("packets.pcapng").exists());
    let figures = scrape(&address);
    for (metric, n) in [("runs_total", 1), ("triggers_total", TIMES), ("failures_total", 0), ("at_work", 0)] {
        assert_eq!(sum(&figures, &format!("wirelapse_recorder_{metric}")), n, "{metric}: {figures}");
    }
    // What happens in the pause is neither a run nor counted.
    client.write_all(&[7; 50]).unwrap();
    std::thread::sleep(Duration::from_millis(1_500));
    assert_eq!((recorded(&runs).len(), recorder_of(agent.id())), (1, None));
    assert_eq!(sum(&scrape(&address), "wirelapse_recorder_triggers_total"), TIMES);
    // SAFETY: signals a process that this test started and has not waited for.
    assert_eq!(unsafe { libc::kill(agent.id() as i32, libc::SIGTERM) }, 0);
    assert!(agent.wait().unwrap().success());
}

#[test]
fn a_recorder_ends_with_its_agent_however_that_ends() {
    needs!(Need::Root, Need::Program("setpriv"), Need::Path("/sys/kernel/btf/vmlinux"));
    let dir = tempfile::tempdir().unwrap();
    let runs = dir.path().join("recorded");
    fs::create_dir(&runs).unwrap();
    chown(&runs, Some(NOBODY), Some(NOBODY)).unwrap();
    let toml = format!(
        "[target]\nunit = \"none-such.service\"\n[prometheus]\nlisten = \"127.0.0.1:0\"\n[recorder]\nuntil = \"reset\"\ndirectory = \"{}\"\n",
        runs.display()
    );
    for signal in [libc::SIGTERM, libc::SIGKILL] {
        let (mut agent, address, _said) = agent_of(dir.path(), &toml);
        tier::until("it waits", || sum(&scrape(&address), "wirelapse_recorder_at_work") == 1);
        let recorder = recorder_of(agent.id()).expect("a trace");
        // SAFETY: signals a process that this test started and has not waited for.
        assert_eq!(unsafe { libc::kill(agent.id() as i32, signal) }, 0);
        agent.wait().unwrap();
        tier::until("it has ended", || !Path::new(&format!("/proc/{recorder}")).exists());
        assert!(recorded(&runs).is_empty());
    }
}
