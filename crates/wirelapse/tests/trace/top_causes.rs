//! `wirelapse top`: a cause that is planted is named in the rows that it is of.

use std::collections::HashSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::process::Stdio;
use std::time::Duration;

use lab::{Direction, Lab, Loss, Side};
use serde_json::Value;
use tier::{Need, Process};

use super::top::{answer_once, lines_until};
use super::top_scenes::{Place, Program, Top};
use crate::scene::{BTF, TC, TUN, path, turn};

/// A program that keeps a connection, and asks one question of DNS for each line that it reads.
const ASKS: &str = r#"
import socket, sys
kept = socket.create_connection(("127.6.7.8", int(sys.argv[1])))
question = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x04slow\x07example\0\0\x01\0\x01"
for line in sys.stdin:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as resolver:
        resolver.sendto(question, ("127.6.7.53", 53))
        resolver.recv(512)
    print("answered", flush=True)
"#;

#[test]
fn a_slow_answer_of_dns_is_named_in_the_row_of_the_program_and_of_the_server() {
    tier::needs!(Need::Root, BTF, Need::Program("python3"));
    let server = UdpSocket::bind("127.6.7.53:53").unwrap();
    let listener = TcpListener::bind("127.6.7.8:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    // Of its own, as other tests of this program connect to where nobody answers.
    let mut program = tier::command("python3")
        .args(["-c", ASKS, &port])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let accepted = listener.accept().unwrap();
    let (mut ask, mut answered) =
        (program.stdin.take().unwrap(), BufReader::new(program.stdout.take().unwrap()).lines());
    let pid = program.id().to_string();
    for (by, label) in [("process", format!("[{pid}]")), ("peer", "127.6.7.53".to_owned())] {
        let mut asked = false;
        let row = lines_until(&["--pid", &pid, "--by", by], |row| {
            if !asked {
                asked = true;
                writeln!(ask).unwrap();
                std::thread::sleep(Duration::from_millis(300));
                answer_once(&server, Ipv4Addr::new(127, 6, 7, 9));
                answered.next().unwrap().unwrap();
            }
            row["lookups"] == 1 && row["label"].as_str().unwrap().ends_with(&label)
        });
        assert_eq!((&row["trouble"], &row["lookups_unanswered"]), (&"slow_dns".into(), &0.into()), "{row}");
        let took = row["lookup_p99_ns"].as_u64().unwrap() as f64 / 3e8;
        // The program asks a moment after it was told to, and the figure is at most 4.4 % off.
        assert!(took > 0.9, "{row}");
    }
    drop((ask, accepted));
    assert!(program.wait().unwrap().success());
}

/// A cause that is planted.
struct Planted {
    what: &'static str,
    /// The port of its service.
    port: String,
    /// The words for it.
    named: &'static [&'static str],
    /// Both ends.
    _ends: [Program; 2],
}

impl Planted {
    /// A server in host `b`, and a client in `a` that goes on at once.
    fn new(what: &'static str, lab: &Lab, [serves, asks]: [&[&str]; 2], named: &'static [&'static str]) -> Self {
        let [a, b] = [Side::A, Side::B].map(|side| lab.host(side));
        let address = b.ipv4().to_string();
        let server = Program::start(Place::Host(b), &[&[serves[0], &address], &serves[1..]].concat());
        let port = if server.begun["port"].is_null() { "53".to_owned() } else { server.port() };
        let to: &[&str] = if port == "53" { &[] } else { &[&port] };
        let mut client = Program::start(Place::Host(a), &[&[asks[0], &address], to, &asks[1..]].concat());
        client.go();
        Self { what, port, named, _ends: [server, client] }
    }

    /// Whether a row of the end that asks names it.
    fn is_named(&self, row: &Value) -> bool {
        let label = row["label"].as_str().unwrap();
        let of = label.split_once(" → ").and_then(|(_, to)| to.trim_end_matches(" UDP").rsplit(':').next());
        of == Some(&self.port) && row["trouble"].as_str().is_some_and(|trouble| self.named.contains(&trouble))
    }
}

#[test]
fn six_causes_at_once_are_named_in_ten_intervals() {
    tier::needs!(Need::Root, BTF, TUN, TC, Need::Program("python3"));
    let _turn = turn();
    let clear = path::lab(5);
    let lossy = path::lab(5);
    path::change(&lossy, &Direction { loss: Loss::Independent(0.05), ..path::delay(5) });
    let full = path::lab(5);
    // A queue of two packets, which a burst overflows.
    path::in_a(&full, "tc", "qdisc replace dev eth0 root tbf rate 4mbit burst 4k limit 6k");
    let planted = [
        Planted::new(
            "a slow program of the peer",
            &clear,
            [&["serve", "0", "100", "100", "0.08"], &["turns", "1", "8", "60", "100", "100"]],
            &["peer_application"],
        ),
        Planted::new("Nagle's algorithm", &clear, [&["serve", "0", "200", "50", "0"], &["halves", "60"]], &["nagle"]),
        Planted::new("a small buffer", &clear, [&["tight", "4096"], &["bulk", "60"]], &["receive_window"]),
        Planted::new(
            "loss",
            &lossy,
            [&["serve", "0", "0", "0", "0"], &["lines", "100", "60", "1000"]],
            &["retransmission", "retransmissions"],
        ),
        Planted::new(
            "a full queue of this host",
            &full,
            [&["serve", "0", "0", "0", "0"], &["bulk", "60"]],
            // Where TCP itself holds back what would be dropped, it says so.
            &["host_drops", "small_queue"],
        ),
        Planted::new("slow DNS", &clear, [&["dns", "0.3"], &["asks", "60"]], &["slow_dns"]),
    ];
    let ports = planted.iter().flat_map(|one| ["--port", &one.port]);
    let command = ["top", "--json", "-i", "1s", "--by", "connection"].into_iter().chain(ports);
    let mut top = Process::start(tier::wirelapse!(command).stdout(Stdio::piped()));
    let mut lines = BufReader::new(top.stdout.take().unwrap()).lines();
    let mut open: Vec<&Planted> = planted.iter().collect();
    let (mut intervals, mut seen, mut rows) = (0, HashSet::new(), Vec::new());
    while !open.is_empty() {
        let line = lines.next().unwrap().unwrap();
        let row: Value = serde_json::from_str(&line).unwrap();
        if row["kind"] != "row" {
            continue;
        }
        // Each row comes once an interval.
        if !seen.insert(row["label"].to_string()) {
            (intervals, seen) = (intervals + 1, HashSet::from([row["label"].to_string()]));
            let left: Vec<&str> = open.iter().map(|one| one.what).collect();
            assert!(intervals < 10, "not named: {left:?}\n{}", rows.join("\n"));
            rows.clear();
        }
        open.retain(|one| {
            let named = one.is_named(&row);
            if named {
                println!("{} in interval {}: {}", one.what, intervals + 1, row["trouble_text"]);
            }
            !named
        });
        let times = ["p99_ns", "request_p99_ns", "dropped_segments"].map(|key| &row[key]);
        rows.push(format!("{} {} {times:?}", row["label"], row["trouble_text"]));
    }
}

#[test]
fn answers_over_udp_are_timed_and_quic_is_named() {
    tier::needs!(Need::Root, BTF, Need::Program("python3"));
    // Of a server that was there before, the port says that it is one.
    let port = 10_000 + std::process::id() % 20_000;
    let server = Program::start(Place::Here, &["pongs", "127.6.7.9", "0.05", &port.to_string()]);
    let port = server.port();
    let mut top = Top::start(&["--by", "connection", "--port", &port]);
    let mut pings = Program::start(Place::Here, &["pings", "127.6.7.9", &port, "10", "4"]);
    let done = pings.counts();
    let mut times: Vec<f64> = done["times"].as_array().unwrap().iter().map(|time| time.as_f64().unwrap()).collect();
    times.sort_by(f64::total_cmp);
    let middle = times[times.len() / 2];
    let asks = format!(":{} → 127.6.7.9:{port} UDP", pings.begun["port"]);
    for (label, trouble) in [(asks, Value::Null), (format!(":{port} UDP"), "application".into())] {
        let row = top.until(&format!("{label} with {} requests", times.len()), |row| {
            row["label"] == *label && row["requests"] == times.len()
        });
        let shown = row["request_p50_ns"].as_f64().unwrap() / 1e9;
        assert!((0.9..1.1).contains(&(shown / middle)), "{middle}: {row}");
        assert_eq!(row["trouble"], trouble, "{row}");
    }
    let mut quic = Program::start(Place::Here, &["quic", "127.6.7.9", &port]);
    quic.counts();
    let label = format!(":{} → 127.6.7.9:{port} QUIC", quic.begun["port"]);
    let row = top.until(&label, |row| row["label"] == *label && row["quic_handshakes"] == 1);
    let took = row["quic_handshake_p50_ns"].as_f64().unwrap() / 1e9;
    assert!(took > 0.048 && row["requests"] == 0, "{row}");
}
