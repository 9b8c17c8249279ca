//! Names that a real resolver asks for, as `wirelapse trace` tells of them, held against what the
//! server was asked: one of the test's own, in a network namespace.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::path::Path;
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::scene::command::tracing;
use crate::scene::{BTF, IP, turn};
use serde_json::Value;
use tier::Need;

const GETENT: Need<'static> = Need::Program("getent");
const UNSHARE: Need<'static> = Need::Program("unshare");
/// How long the server takes for names that begin with `slow`.
const SLOW: Duration = Duration::from_millis(300);

/// A name, its type, and whether it was asked for over TCP.
type Asked = (String, u16, bool);

/// A server that does as the first label of a name says, and remembers what it was asked.
#[derive(Clone, Default)]
struct Server {
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Server {
    /// On port 53 of this address, in the network namespace of the calling thread.
    fn start(at: IpAddr) -> Self {
        let server = Self::default();
        let udp = UdpSocket::bind(SocketAddr::new(at, 53)).unwrap();
        let tcp = TcpListener::bind(SocketAddr::new(at, 53)).unwrap();
        let over_udp = server.clone();
        std::thread::spawn(move || {
            let mut bytes = [0; 600];
            while let Ok((n, from)) = udp.recv_from(&mut bytes) {
                if let Some(answer) = over_udp.answer(&bytes[..n], false) {
                    udp.send_to(&answer, from).unwrap();
                }
            }
        });
        let over_tcp = server.clone();
        std::thread::spawn(move || {
            for mut stream in tcp.incoming().flatten() {
                let mut length = [0; 2];
                stream.read_exact(&mut length).unwrap();
                let mut question = vec![0; u16::from_be_bytes(length).into()];
                stream.read_exact(&mut question).unwrap();
                let answer = over_tcp.answer(&question, true).unwrap();
                stream.write_all(&(answer.len() as u16).to_be_bytes()).unwrap();
                stream.write_all(&answer).unwrap();
            }
        });
        server
    }

    /// RFC 1035, section 4.
    fn answer(&self, question: &[u8], tcp: bool) -> Option<Vec<u8>> {
        let (mut name, mut at) = (String::new(), 12);
        while question[at] != 0 {
            let label = &question[at + 1..at + 1 + usize::from(question[at])];
            name += std::str::from_utf8(label).unwrap();
            name.push('.');
            at += label.len() + 1;
        }
        let end = at + 5;
        let kind = u16::from_be_bytes([question[at + 1], question[at + 2]]);
        let asked = (name.trim_end_matches('.').to_owned(), kind, tcp);
        let is_first = {
            let mut all = self.asked.lock().unwrap();
            all.push(asked.clone());
            all.iter().filter(|of| **of == asked).count() == 1
        };
        let (mut truncated, mut code, mut found) = (0, 0, kind == 1);
        match name.split('.').next().unwrap() {
            "silent" => return None,
            "lost" if is_first => return None,
            "slow" => std::thread::sleep(SLOW),
            "gone" => (code, found) = (3, false),
            "large" if !tcp => (truncated, found) = (2, false),
            _ => {}
        }
        let mut answer = question[..2].to_vec();
        answer.extend([0x81 | truncated, 0x80 | code, 0, 1, 0, found.into(), 0, 0, 0, 0]);
        answer.extend(&question[12..end]);
        if found {
            answer.extend(b"\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x3c\x00\x04\x0a\x09\x08\x07");
        }
        Some(answer)
    }

    fn asked(&self) -> BTreeMap<Asked, u64> {
        let mut counts = BTreeMap::new();
        self.asked.lock().unwrap().iter().for_each(|of| *counts.entry(of.clone()).or_default() += 1);
        counts
    }
}

/// Does something in a network namespace of its own.
fn apart<T: Send>(act: impl FnOnce() -> T + Send) -> T {
    let apart = || {
        // SAFETY: no other thread shares what this one leaves.
        unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNET) }.unwrap();
        // Without another address than that of loopback, the C library asks for none.
        for words in ["link set lo up", "addr add 192.0.2.7/32 dev lo"] {
            assert!(Command::new("ip").args(words.split(' ')).status().unwrap().success(), "{words}");
        }
        act()
    };
    std::thread::scope(|scope| scope.spawn(apart).join().unwrap())
}

/// A trace of look-ups, one after the other, by the resolver of the C library.
fn traced(args: &[&str], server: IpAddr, database: &str, names: &[&str]) -> Output {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let file = dir.path().join(name);
        std::fs::write(&file, text).unwrap();
        file
    };
    let resolv = write("resolv.conf", &format!("nameserver {server}\noptions timeout:1 attempts:2\n"));
    let switch = write("nsswitch.conf", "hosts: dns\n");
    let bind = |file: &Path, over: &str| format!("mount --bind {} {over}; ", file.display());
    let mut script = bind(&resolv, "/etc/resolv.conf") + &bind(&switch, "/etc/nsswitch.conf");
    names.iter().for_each(|name| script += &format!("getent {database} {name}.; "));
    script += "true";
    let mut command = tracing(args);
    command.args(["--", "unshare", "-m", "--propagation", "private", "sh", "-c", &script]);
    command.output().unwrap()
}

fn lines(out: &Output) -> Vec<Value> {
    assert!(out.status.success(), "{}", tier::text(&out.stderr));
    tier::text(&out.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// How often each thing was asked, by the trace.
fn told(questions: &[&Value]) -> BTreeMap<Asked, u64> {
    let mut counts = BTreeMap::new();
    for of in questions {
        let kind = if of["type"] == "A" { 1 } else { 28 };
        let asked = (of["name"].as_str().unwrap().to_owned(), kind, of["over_tcp"].as_bool().unwrap());
        *counts.entry(asked).or_default() += 1;
    }
    counts
}

fn everything_is_told(address: &str) {
    let at: IpAddr = address.parse().unwrap();
    let names = ["quick.example", "lost.example", "slow.example", "gone.example", "large.example", "silent.example"];
    let (out, server) = apart(|| {
        let server = Server::start(at);
        (traced(&["--json"], at, "ahostsv4", &names), server)
    });
    let lines = lines(&out);
    let all: Vec<&Value> = lines.iter().filter(|line| line["kind"] == "dns").collect();
    assert_eq!(told(&all), server.asked(), "{all:#?}");
    let of = |name: &str| -> Vec<&Value> {
        all.iter().copied().filter(|q| q["name"] == format!("{name}.example")).collect()
    };
    for question in &all {
        assert_eq!((&question["comm"], &question["server_address"]), (&"getent".into(), &address.into()), "{question}");
        assert!(question["pid"].as_u64().unwrap() > 0 && question["cgroup_id"].as_u64().unwrap() > 0, "{question}");
    }

    let quick = of("quick");
    assert_eq!((quick.len(), &quick[0]["answered"], &quick[0]["code"]), (1, &"found".into(), &"NOERROR".into()));
    assert_eq!((&quick[0]["addresses"], &quick[0]["ends_lookup"]), (&"10.9.8.7".into(), &true.into()));
    assert!(of("slow")[0]["took_ns"].as_u64().unwrap() >= SLOW.as_nanos() as u64);
    let gone = of("gone");
    assert_eq!((&gone[0]["answered"], &gone[0]["code"]), (&"no_such_name".into(), &"NXDOMAIN".into()));

    let lost = of("lost");
    let tries: Vec<_> = lost.iter().map(|q| (q["try"].as_u64(), q["tries"].as_u64(), q["answered"].as_str())).collect();
    assert_eq!(tries, [(Some(1), Some(2), Some("unanswered")), (Some(2), Some(2), Some("found"))]);
    assert_eq!(lost[0]["lookup"], lost[1]["lookup"]);
    assert!(lost[0]["took_ns"].is_null() && lost[0]["until_retry_ns"].as_u64().unwrap() >= 900_000_000, "{}", lost[0]);
    assert_eq!(lost[1]["since_first_ns"], lost[0]["until_retry_ns"]);

    let large = of("large");
    let tries: Vec<_> =
        large.iter().map(|q| [&q["truncated"], &q["over_tcp"], &q["ends_lookup"]].map(Value::as_bool)).collect();
    assert_eq!(tries, [[true, false, false], [false, true, true]].map(|of| of.map(Some)));
    assert_eq!(large[0]["lookup"], large[1]["lookup"]);

    let silent = of("silent");
    assert!(silent.len() == 2 && silent.iter().all(|q| q["took_ns"].is_null() && q["code"].is_null()), "{silent:?}");
    let losses = lines.iter().find(|line| line["kind"] == "lost").unwrap();
    for counter in ["dns_ring_buffer", "dns_full", "dns_unread", "dns_without_question"] {
        assert_eq!(losses[counter], 0, "{counter}");
    }
    assert_eq!(lines[0]["dns"]["host_wide"].as_array().map(Vec::len), Some(1), "{}", lines[0]);
}

#[test]
fn each_question_that_a_server_got_is_told_with_its_answer() {
    tier::needs!(Need::Root, BTF, IP, GETENT, UNSHARE);
    let _turn = turn();
    everything_is_told("127.0.0.1");
}

#[test]
fn each_question_that_a_server_got_is_told_with_its_answer_over_ipv6() {
    tier::needs!(Need::Root, BTF, IP, GETENT, UNSHARE);
    let _turn = turn();
    everything_is_told("::1");
}

#[test]
fn a_lookup_that_waits_for_its_second_try_is_the_first_sentence() {
    tier::needs!(Need::Root, BTF, IP, GETENT, UNSHARE);
    let _turn = turn();
    let at: IpAddr = "127.0.0.1".parse().unwrap();
    let out = apart(|| {
        Server::start(at);
        traced(&[], at, "ahostsv4", &["quick.example", "lost.example"])
    });
    let text = tier::text(&out.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    let first = "1 of 2 name lookups took long: `lost.example` (A) took 1.0";
    assert!(text.contains(first) && text.contains("because 127.0.0.1 answered only the second try"), "{text}");
    assert!(text.contains("Names looked up") && text.contains("The slowest lookups"), "{text}");
}

#[test]
fn another_port_is_watched_on_request_and_none_where_it_is_not_wanted() {
    tier::needs!(Need::Root, BTF, IP, Need::Program("python3"));
    let _turn = turn();
    let at: IpAddr = "127.0.0.1".parse().unwrap();
    let asks = "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.connect(('127.0.0.1', 5300)); \
                s.send(b'\\x00\\x07\\x01\\x00\\x00\\x01' + bytes(6) + b'\\x05quick\\x00\\x00\\x01\\x00\\x01'); s.recv(600)";
    let run = |args: &[&str]| {
        apart(|| {
            let server = Server::default();
            let socket = UdpSocket::bind(SocketAddr::new(at, 5300)).unwrap();
            std::thread::spawn(move || {
                let mut bytes = [0; 600];
                let (n, from) = socket.recv_from(&mut bytes).unwrap();
                socket.send_to(&server.answer(&bytes[..n], false).unwrap(), from).unwrap();
            });
            lines(&tracing(args).args(["--", "python3", "-c", asks]).output().unwrap())
        })
    };
    let questions = |lines: &[Value]| lines.iter().filter(|line| line["kind"] == "dns").count();
    let seen = run(&["--json", "--dns-port", "5300"]);
    assert_eq!(questions(&seen), 1);
    let none = run(&["--json"]);
    assert_eq!(questions(&none), 0);
    let off = run(&["--json", "--no-dns"]);
    assert!(questions(&off) == 0 && off[0]["dns"].is_null(), "{}", off[0]);
}
