//! `wirelapse probe` as a person runs it: what it prints, what it writes as JSON, and how it ends.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use lab::{Config, Lab, Side};
use record::Nanos;
use serde_json::Value;
use tier::{Need, Process, text};

const WIRELAPSE: &str = env!("CARGO_BIN_EXE_wirelapse");

/// What every exchange has; times from the call that sends, except the first, which is the time of
/// day, and the NIC's, by its clock.
const EXCHANGE: [&str; 16] = [
    "sent_at_ns",
    "sched_ns",
    "driver_ns",
    "ack_ns",
    "driver_rx_ns",
    "read_ns",
    "nic_clock_ns",
    "nic_rx_clock_ns",
    "total_ns",
    "kernel_out_ns",
    "network_ns",
    "peer_ns",
    "network_and_peer_ns",
    "kernel_in_ns",
    "kind",
    "protocol",
];
/// What a probe has beyond.
const PROBE: [&str; 9] = ["to", "number", "outcome", "from", "bytes", "ttl", "stray", "clock_set", "in_order"];
const SUMMARY: [&str; 12] = [
    "kind",
    "protocol",
    "target",
    "to",
    "method",
    "limits",
    "sent",
    "outcomes",
    "stray",
    "clock_set",
    "disorder",
    "shares",
];

fn probe(args: &[&str]) -> Command {
    let mut command = tier::wirelapse!(["probe"]);
    command.args(args).stdin(Stdio::null());
    command
}

fn run(args: &[&str]) -> Output {
    probe(args).output().unwrap()
}

/// The lines of a run that ended well: the probes, and the summary.
fn lines(output: &Output) -> (Vec<Value>, Value) {
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let mut lines: Vec<Value> =
        text(&output.stdout).lines().map(|l| serde_json::from_str(l).expect("one JSON object a line")).collect();
    let summary = lines.pop().expect("a summary");
    assert_eq!(summary["kind"], "summary");
    assert!(lines.iter().all(|l| l["kind"] == "probe"), "{lines:?}");
    (lines, summary)
}

fn keys(value: &Value) -> BTreeSet<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

fn ns(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or_else(|| panic!("{key} in {value}"))
}

/// A loopback address of each family that this machine has.
fn loopback() -> Vec<IpAddr> {
    let both: [IpAddr; 2] = ["127.0.0.1".parse().unwrap(), "::1".parse().unwrap()];
    both.into_iter().filter(|&ip| TcpListener::bind((ip, 0)).is_ok()).collect()
}

/// Answers each request that ends in a blank line with so many bytes.
fn answering(listener: TcpListener, times: usize) -> std::thread::JoinHandle<Vec<String>> {
    std::thread::spawn(move || {
        (0..times)
            .map(|_| {
                let (stream, _) = listener.accept().unwrap();
                stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
                let (mut request, mut reader) = (String::new(), BufReader::new(&stream));
                while !request.ends_with("\r\n\r\n") {
                    assert!(reader.read_line(&mut request).unwrap() > 0, "{request:?}");
                }
                (&stream).write_all(b"HTTP/1.0 204 No Content\r\n\r\n").unwrap();
                request
            })
            .collect()
    })
}

#[test]
fn tcp_times_the_handshake_and_the_request_apart() {
    for ip in loopback() {
        let listener = TcpListener::bind((ip, 0)).unwrap();
        let to = listener.local_addr().unwrap().to_string();
        let server = answering(listener, 6);
        let request = r"GET / HTTP/1.0\r\n\r\n";
        let asked = ["tcp", &to, "--request", request, "-c", "3", "-i", "10ms"];
        let output = run(&[&asked[..], &["--json"]].concat());
        let (probes, summary) = lines(&output);
        assert_eq!(probes.len(), 3);
        for (i, probe) in probes.iter().enumerate() {
            let request = &probe["request"];
            assert_eq!((&probe["outcome"], ns(probe, "number")), (&Value::from("answer"), i as u64 + 1), "{probe}");
            assert_eq!(ns(probe, "bytes"), 27);
            assert!(probe["in_order"] == true && ns(probe, "total_ns") > 0 && ns(request, "total_ns") > 0, "{probe}");
            assert!(ns(request, "sent_at_ns") > ns(probe, "sent_at_ns"), "{probe}");
            // The stages of the request, in their order.
            let stages = ["sched_ns", "driver_ns", "driver_rx_ns", "read_ns"].map(|stage| ns(request, stage));
            assert!(stages.is_sorted() && ns(request, "ack_ns") >= stages[1], "{request}");
        }
        assert_eq!((ns(&summary, "sent"), &summary["outcomes"]["answer"]), (3, &Value::from(3)));
        assert_eq!(ns(&summary["shares"]["request"], "n"), 3);

        let shown = run(&asked);
        let said = text(&shown.stdout);
        assert!(shown.status.success() && said.starts_with(&format!("tcp {to} ({ip}): ")), "{said}");
        assert!(said.contains("\n      request: ") && said.contains("3 sent, 3 answered"), "{said}");
        let requests = server.join().unwrap();
        assert!(requests.iter().all(|r| r == "GET / HTTP/1.0\r\n\r\n"), "{requests:?}");
    }
}

/// The peer's kernel acknowledges at once, its program takes long: that is not the network's time.
#[test]
fn the_time_of_the_program_at_the_peer_is_not_the_networks() {
    const THINKS: Duration = Duration::from_millis(200);
    for ip in loopback() {
        let listener = TcpListener::bind((ip, 0)).unwrap();
        let to = listener.local_addr().unwrap().to_string();
        let server = std::thread::spawn(move || {
            for _ in 0..6 {
                let (mut stream, _) = listener.accept().unwrap();
                let mut request = [0; 5];
                stream.read_exact(&mut request).unwrap();
                std::thread::sleep(THINKS);
                stream.write_all(b"answer").unwrap();
            }
        });
        let asked = ["tcp", &to, "--request", "hello", "-c", "3", "-i", "1ms"];
        let (probes, summary) = lines(&run(&[&asked[..], &["--json"]].concat()));
        for probe in &probes {
            let request = &probe["request"];
            let [network, peer] = ["network_ns", "peer_ns"].map(|key| ns(request, key));
            // The peer may hold its ACK back, by 40 ms at most where its timers are the default.
            assert!(peer >= 150_000_000 && network < peer, "{request}");
            assert_eq!(network + peer, ns(request, "network_and_peer_ns"));
            assert!(ns(probe, "network_ns") < peer && probe["peer_ns"].is_null(), "{probe}");
        }
        assert_eq!(ns(&summary["shares"]["request_peer"], "n"), 3);
        assert!(
            summary["shares"]["request_network"]["max_ns"].as_u64()
                < summary["shares"]["request_peer"]["min_ns"].as_u64()
        );

        let text = text(&run(&asked).stdout);
        server.join().unwrap();
        assert!(
            text.contains("The program at the peer takes more than half of the time of each of 3 requests."),
            "{text}"
        );
        assert!(text.contains(" + network ") && text.contains(" + peer 2"), "{text}");
    }
}

#[test]
fn udp_is_answered_by_serve_and_by_an_echo() {
    for ip in loopback() {
        let at = SocketAddr::new(ip, 0).to_string();
        let mut serve = tier::wirelapse!(["serve", "--listen", &at, "--json"]);
        let serve = serve.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut serve = Process::from(serve.spawn().unwrap());
        let (line, _output) = serve.first_line();
        let listening: Value = serde_json::from_str(&line).unwrap();
        let to = listening["address"].as_str().unwrap();
        for size in [24, 56, 1400] {
            let (probes, _) = lines(&run(&["udp", to, "-c", "4", "-i", "5ms", "-s", &size.to_string(), "--json"]));
            assert!(probes.iter().all(|p| p["outcome"] == "answer" && p["bytes"] == size), "{probes:?}");
        }
        // Without a cookie there is no answer of that size: a forged address gets fewer bytes than
        // were sent in its name.
        let stranger = UdpSocket::bind((ip, 0)).unwrap();
        stranger.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stranger.send_to(&[&b"WLUP"[..], &[0; 1396]].concat(), to).unwrap();
        let mut challenge = [0; 2000];
        assert_eq!(stranger.recv(&mut challenge).unwrap(), 20);
        // Fewer bytes do not have the mark that `serve` answers.
        let short = run(&["udp", to, "-c", "1", "-s", "23", "-W", "50ms", "--json"]);
        assert_eq!(short.status.code(), Some(1), "{}", text(&short.stdout));

        let echo = UdpSocket::bind((ip, 0)).unwrap();
        echo.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let to = echo.local_addr().unwrap().to_string();
        let server = std::thread::spawn(move || {
            let mut buffer = [0; 2000];
            for _ in 0..3 {
                let (length, from) = echo.recv_from(&mut buffer).unwrap();
                echo.send_to(&buffer[..length], from).unwrap();
            }
        });
        let (probes, summary) = lines(&run(&["udp", &to, "-c", "3", "-i", "5ms", "--json"]));
        server.join().unwrap();
        assert!(probes.iter().all(|p| p["outcome"] == "answer" && p["from"] == ip.to_string()), "{probes:?}");
        assert_eq!(ns(&summary["shares"]["total"], "n"), 3);
    }
}

#[test]
fn icmp_agrees_with_ping_over_the_same_path() {
    tier::needs!(Need::Root, Need::Path("/dev/net/tun"), Need::Program("ping"));
    let lab = Lab::up(&Config::with_delay(Nanos::from_millis(10))).unwrap();
    let b = lab.host(Side::B);
    for to in [IpAddr::from(b.ipv4()), b.ipv6().into()] {
        let in_a = |program: &str, args: &[&str]| {
            tier::limit(lab.host(Side::A).command(program).unwrap()).args(args).stdin(Stdio::null()).output().unwrap()
        };
        let name = to.to_string();
        let ours = in_a(WIRELAPSE, &["probe", "icmp", &name, "-c", "20", "-i", "20ms", "--json"]);
        let (probes, summary) = lines(&ours);
        assert!(probes.iter().all(|p| p["outcome"] == "answer" && p["bytes"] == 56 && p["ttl"] == 64), "{probes:?}");
        let least = ns(&summary["shares"]["total"], "min_ns") as f64 / 1e6;
        // The delay is the network's, in every probe. It begins when the packet tap has the packet,
        // which is after sched and can be a while before driver.
        for probe in &probes {
            let to_driver = ns(probe, "driver_ns") - ns(probe, "sched_ns");
            assert!(
                ns(probe, "network_ns") + to_driver >= 20_000_000 && ns(probe, "kernel_out_ns") < 10_000_000,
                "{probe}"
            );
        }
        let ping = text(&in_a("ping", &["-q", "-n", "-c", "20", "-i", "0.02", &name]).stdout);
        // rtt min/avg/max/mdev = 20.1/…
        let theirs: f64 = ping.split(" = ").nth(1).and_then(|t| t.split('/').next()).unwrap().parse().unwrap();
        // The least of twenty, one tool after the other, of 20 ms: within a twentieth.
        assert!((least - theirs).abs() < 1.0, "ping {theirs} ms, probe {least} ms");
    }
}

#[test]
fn json_has_these_keys_and_no_others() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = listener.local_addr().unwrap().to_string();
    let server = answering(listener, 1);
    let output = run(&["tcp", &to, "--request", r"HEAD / HTTP/1.0\r\n\r\n", "-c", "1", "--json"]);
    server.join().unwrap();
    let (probes, summary) = lines(&output);
    let expected: BTreeSet<&str> = EXCHANGE.into_iter().chain(PROBE).chain(["request"]).collect();
    assert_eq!(keys(&probes[0]), expected);
    assert_eq!(keys(&probes[0]["request"]), EXCHANGE[..14].iter().copied().collect());
    assert_eq!(keys(&summary), SUMMARY.into_iter().collect());
    for (share, figures) in summary["shares"].as_object().unwrap() {
        let known = [
            "total",
            "kernel_out",
            "network",
            "network_and_peer",
            "kernel_in",
            "request",
            "request_network",
            "request_peer",
            "request_network_and_peer",
        ];
        assert!(known.contains(&share.as_str()), "{share}");
        let expected = ["n", "min_ns", "p50_ns", "p90_ns", "p99_ns", "p99_9_ns", "max_ns"];
        assert_eq!(keys(figures), expected.into_iter().collect(), "{share}");
    }
    assert!(summary["limits"].is_array() && summary["method"].is_string());
}

#[test]
fn a_closed_port_is_an_answer_and_silence_is_a_failure() {
    for ip in loopback() {
        // No other program gets a port that is bound.
        let silent = UdpSocket::bind((ip, 0)).unwrap();
        let to = silent.local_addr().unwrap().to_string();
        let output = run(&["udp", &to, "-c", "2", "-i", "1ms", "-W", "50ms"]);
        assert_eq!(output.status.code(), Some(1));
        assert!(text(&output.stdout).contains("2 sent, 2 no answer"), "{}", text(&output.stdout));
        assert_eq!(text(&output.stderr), format!("wirelapse: {to}: nothing came back\n"));

        // A TCP port that is bound but does not listen refuses.
        let bound = socket2::Socket::new(socket2::Domain::for_address((ip, 0).into()), socket2::Type::STREAM, None);
        let bound = bound.unwrap();
        bound.bind(&SocketAddr::new(ip, 0).into()).unwrap();
        let to = bound.local_addr().unwrap().as_socket().unwrap().to_string();
        let (probes, summary) = lines(&run(&["tcp", &to, "-c", "2", "-i", "1ms", "--json"]));
        assert!(probes.iter().all(|p| p["outcome"] == "refused" && ns(p, "total_ns") > 0), "{probes:?}");
        assert_eq!(summary["outcomes"]["refused"], 2);
        // Where no connection was made, no sentence is about requests.
        let said = text(&run(&["tcp", &to, "--request", "x", "-c", "2", "-i", "1ms"]).stdout);
        assert!(said.contains("2 sent, 2 refused") && !said.contains("requests"), "{said}");

        let closed = UdpSocket::bind((ip, 0)).unwrap().local_addr().unwrap().to_string();
        let (probes, _) = lines(&run(&["udp", &closed, "-c", "2", "-i", "1ms", "--json"]));
        let unreachable = |p: &Value| p["outcome"] == "icmp_error" && p["icmp"] == "port unreachable";
        assert!(probes.iter().all(unreachable), "{probes:?}");
    }
}

#[test]
fn wrong_use_ends_in_two_and_says_what_and_where() {
    let wrong: [(&[&str], &str); 11] = [
        (&["icmp", "no-such-host.invalid", "-c", "1"], "host no-such-host.invalid: "),
        (&["icmp", "127.0.0.1", "-c", "1", "-6"], "host 127.0.0.1 has no IPv6 address"),
        (&["icmp", "127.0.0.1:80", "-c", "1"], "icmp takes a host without a port"),
        (&["tcp", "127.0.0.1", "-c", "1"], "tcp takes HOST:PORT"),
        (&["udp", "127.0.0.1:0", "-c", "1"], "the port must be a number from 1 to 65535"),
        (&["udp", "127.0.0.1:9", "--request", "x"], "--request is for tcp"),
        (&["udp", "127.0.0.1:9", "-c", "1", "-I", "no-such-if"], "no network interface named \"no-such-if\""),
        (&["udp", "127.0.0.1:9", "-c", "1", "-I", "lo", "--hardware"], "interface lo has no hardware timestamps"),
        (&["udp", "127.0.0.1:9", "-c", "1", "--hardware"], "--interface"),
        (&["udp", "127.0.0.1:9", "-i", "1x"], "1x"),
        (&["udp", "127.0.0.1:9", "--dscp", "64"], "64"),
    ];
    for (args, what) in wrong {
        let output = run(args);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains(what), "{args:?}: {said}");
        assert!(output.stdout.is_empty(), "{args:?}: {}", text(&output.stdout));
    }
}

#[test]
fn without_root_tcp_and_udp_work_and_icmp_says_what_it_would_need() {
    tier::needs!(Need::Root, Need::Path("/dev/net/tun"), Need::Program("setpriv"));
    // In a host of the lab, where ping sockets have their own setting.
    let lab = Lab::up(&Config::with_delay(Nanos::from_millis(1))).unwrap();
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    // The user `nobody` may not enter the folder that the tests were built in.
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("wirelapse");
    std::fs::copy(WIRELAPSE, &program).unwrap();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(folder.path(), open).unwrap();
    let as_nobody = |args: &[&str]| {
        let mut command = tier::limit(a.command("setpriv").unwrap());
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).arg(&program).arg("probe");
        command.args(args).stdin(Stdio::null()).output().unwrap()
    };
    let closed = format!("{}:9", b.ipv4());
    for protocol in ["tcp", "udp"] {
        let (probes, _) = lines(&as_nobody(&[protocol, &closed, "-c", "2", "-i", "1ms", "--json"]));
        for probe in &probes {
            assert!(probe["outcome"] == "refused" || probe["outcome"] == "icmp_error", "{probe}");
            assert!(ns(probe, "total_ns") >= 2_000_000, "{probe}");
        }
    }
    a.set_sysctl("net.ipv4.ping_group_range", "1 0").unwrap();
    let to = b.ipv4().to_string();
    let refused = as_nobody(&["icmp", &to, "-c", "1"]);
    let said = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains("not permitted; run as root, or allow ping sockets"), "{said}");
    a.set_sysctl("net.ipv4.ping_group_range", "0 2147483647").unwrap();
    let (probes, summary) = lines(&as_nobody(&["icmp", &to, "-c", "2", "-i", "1ms", "--json"]));
    assert!(
        probes.iter().all(|p| p["outcome"] == "answer") && summary["method"] == "ICMP echo by a ping socket",
        "{summary}"
    );
}

#[test]
fn an_interrupt_ends_it_with_the_summary() {
    let mut child = probe(&["udp", "127.0.0.1:9", "-i", "10ms", "--json"]);
    let mut child = child.stdout(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut first = String::new();
    out.read_line(&mut first).unwrap();
    // SAFETY: a signal to a child that has not been waited for.
    assert_eq!(unsafe { libc::kill(child.id().cast_signed(), libc::SIGINT) }, 0);
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    assert!(child.wait().unwrap().success());
    let probes = 1 + rest.lines().filter(|l| l.contains("\"kind\":\"probe\"")).count() as u64;
    let summary: Value = serde_json::from_str(rest.lines().last().unwrap()).unwrap();
    let interrupted = rest.matches("\"outcome\":\"interrupted\"").count() as u64;
    assert_eq!((&summary["kind"], ns(&summary, "sent")), (&Value::from("summary"), probes - interrupted));
}
