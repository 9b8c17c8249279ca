//! `analyze` on captures whose cause is known, because the lab made it: each cause is named, and what is clean stays so.

use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use lab::{Config, Direction, Lab, Loss, Side};
use model::Nanos;
use serde_json::Value;

macro_rules! in_the_lab {
    () => {
        tier::needs!(tier::Need::Root, tier::Need::Path("/dev/net/tun"), tier::Need::Program("tcpdump"))
    };
}

/// A path with `ms` each way.
fn delayed(ms: u64) -> Direction {
    Direction { delay: Nanos::from_millis(ms), ..Direction::default() }
}

/// tcpdump in a host, until it is asked to end.
struct Dump {
    child: Child,
    file: tempfile::NamedTempFile,
}

impl Dump {
    fn start(lab: &Lab, side: Side) -> Self {
        let file = tempfile::Builder::new().suffix(".pcap").tempfile().unwrap();
        let mut command = lab.host(side).command("tcpdump").unwrap();
        command.args(["-Z", "root", "-U", "--immediate-mode", "-s", "128", "-i", lab::INTERFACE, "-w"]);
        let mut child = command.arg(file.path()).arg("tcp").stderr(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        while !line.contains("listening on") {
            line.clear();
            assert!(said.read_line(&mut line).unwrap() > 0, "tcpdump ended before it listened");
        }
        // What it says at its end must find a reader.
        thread::spawn(move || said.read_to_string(&mut String::new()));
        Self { child, file }
    }

    /// The connections in the capture, once the last of them is closed in it.
    fn analysed(mut self) -> Vec<Value> {
        let until = Instant::now() + Duration::from_secs(10);
        let mut lines = self.read();
        while !lines.iter().any(|l| l["ending"] == "closed") && Instant::now() < until {
            thread::sleep(Duration::from_millis(100));
            lines = self.read();
        }
        self.end();
        lines.into_iter().filter(|l| l["kind"] == "connection").collect()
    }

    fn read(&self) -> Vec<Value> {
        let out =
            Command::new(env!("CARGO_BIN_EXE_wirelapse")).args(["analyze", "--json"]).arg(self.file.path()).output();
        let out = out.expect("the binary runs");
        String::from_utf8_lossy(&out.stdout).lines().filter_map(|l| serde_json::from_str(l).ok()).collect()
    }

    fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Dump {
    fn drop(&mut self) {
        self.end();
    }
}

/// Runs `client` in host a against `server` in host b, and analyses what tcpdump saw in host a.
fn captured(
    lab: &Lab,
    client: impl FnOnce(TcpStream) + Send,
    server: impl FnOnce(TcpStream) + Send + 'static,
) -> Value {
    let dump = Dump::start(lab, Side::A);
    let to = SocketAddr::new(lab.host(Side::B).ipv4().into(), 0);
    let listener = lab.host(Side::B).run(|| TcpListener::bind(to).unwrap()).unwrap();
    let address = listener.local_addr().unwrap();
    let served = thread::spawn(move || server(listener.accept().unwrap().0));
    client(lab.host(Side::A).run(|| TcpStream::connect(address).unwrap()).unwrap());
    served.join().unwrap();
    dump.analysed().into_iter().next().expect("a connection")
}

fn send(mut stream: TcpStream, bytes: usize) {
    let chunk = vec![0; 64 << 10];
    let mut left = bytes;
    while left > 0 {
        let n = left.min(chunk.len());
        stream.write_all(&chunk[..n]).unwrap();
        left -= n;
    }
}

fn drain(mut stream: TcpStream) {
    let mut buffer = vec![0; 256 << 10];
    while stream.read(&mut buffer).unwrap_or(0) > 0 {}
}

fn kinds(connection: &Value) -> Vec<&str> {
    connection["findings"].as_array().unwrap().iter().map(|f| f["kind"].as_str().unwrap()).collect()
}

fn has(connection: &Value, kind: &str) -> bool {
    kinds(connection).contains(&kind)
}

/// What no clean connection may be told; what a busy machine can really cause (an application that is late) is not here.
const TROUBLE: [&str; 10] = [
    "window_scaling_missing",
    "loss",
    "zero_window",
    "receiver_application",
    "nagle_delayed_ack",
    "syn_retries",
    "mtu_black_hole",
    "path_delay_step",
    "reordering_taken_for_loss",
    "reset",
];

fn assert_clean(connection: &Value) {
    for kind in TROUBLE {
        assert!(!has(connection, kind), "{kind} in a clean connection: {:#}", connection["findings"]);
    }
}

#[test]
fn a_clean_transfer_and_a_clean_dialogue_have_no_trouble() {
    in_the_lab!();
    let lab = Lab::up(&Config::symmetric(delayed(5))).unwrap();
    let bulk = captured(&lab, |s| send(s, 2 << 20), drain);
    assert_clean(&bulk);
    assert_eq!(bulk["to_server"]["unique_bytes"], 2 << 20);
    assert!(bulk["to_server"]["handshake_rtt_ns"].as_u64().unwrap() >= 10_000_000);
    let dialogue = captured(
        &lab,
        |mut s| {
            s.set_nodelay(true).unwrap();
            for _ in 0..20 {
                s.write_all(&[1; 100]).unwrap();
                s.read_exact(&mut [0; 100]).unwrap();
            }
        },
        |mut s| {
            s.set_nodelay(true).unwrap();
            let mut request = [0; 100];
            while s.read_exact(&mut request).is_ok() {
                s.write_all(&request).unwrap();
            }
        },
    );
    assert_clean(&dialogue);
    let turns =
        dialogue["findings"].as_array().unwrap().iter().find(|f| f["kind"] == "round_trips").expect("a dialogue");
    assert_eq!(turns["count"], 20);
    assert!(turns["cost_ns"].as_u64().unwrap() >= 20 * 10_000_000, "{turns}");
}

#[test]
fn a_side_without_window_scaling_is_named() {
    in_the_lab!();
    for (side, name) in [(Side::A, "client"), (Side::B, "server")] {
        let lab = Lab::up(&Config::symmetric(delayed(10))).unwrap();
        lab.host(side).set_sysctl("net.ipv4.tcp_window_scaling", 0).unwrap();
        let c = captured(&lab, |s| send(s, 2 << 20), drain);
        assert_eq!(c["window_scaling"]["left_out_by"], name);
        let finding = c["findings"].as_array().unwrap().iter().find(|f| f["kind"] == "window_scaling_missing");
        let text = finding.unwrap_or_else(|| panic!("{:#}", c["findings"]))["text"].as_str().unwrap();
        assert!(text.contains(&format!("the {name} left it out")), "{text}");
    }
}

#[test]
fn a_slow_reader_is_named() {
    in_the_lab!();
    let lab = Lab::up(&Config::symmetric(delayed(2))).unwrap();
    let slow = |mut s: TcpStream| {
        let mut buffer = vec![0; 64 << 10];
        // Long enough for the buffers to fill, then at a rate below what the sender would give.
        thread::sleep(Duration::from_millis(1_000));
        while s.read(&mut buffer).unwrap_or(0) > 0 {
            thread::sleep(Duration::from_millis(5));
        }
    };
    lab.host(Side::B).set_sysctl("net.ipv4.tcp_rmem", "4096 65536 131072").unwrap();
    let c = captured(&lab, |s| send(s, 4 << 20), slow);
    assert!(has(&c, "receiver_application") && has(&c, "zero_window"), "{:#}", c["findings"]);
    assert!(!has(&c, "loss") && !has(&c, "window_scaling_missing"), "{:#}", c["findings"]);
}

#[test]
fn loss_is_named_and_counted_as_the_path_counts_it() {
    in_the_lab!();
    let lossy = Direction { loss: Loss::Independent(0.01), ..delayed(5) };
    let lab = Lab::up(&Config { a_to_b: lossy, ..Config::symmetric(delayed(5)) }).unwrap();
    let c = captured(&lab, |s| send(s, 3 << 20), drain);
    assert!(has(&c, "loss"), "{:#}", c["findings"]);
    assert!(c["to_server"]["resent_packets"].as_u64().unwrap() > 3, "{}", c["to_server"]);
    assert_eq!(c["to_server"]["unique_bytes"], 3 << 20);
    assert_eq!(c["to_server"]["out_of_order_packets"], 0, "the capture is at the sender");
}

#[test]
fn two_writes_and_a_read_meet_a_delayed_ack() {
    in_the_lab!();
    let lab = Lab::up(&Config::symmetric(delayed(1))).unwrap();
    let c = captured(
        &lab,
        |mut s| {
            for _ in 0..30 {
                s.write_all(&[1; 50]).unwrap();
                s.write_all(&[2; 50]).unwrap();
                s.read_exact(&mut [0; 10]).unwrap();
            }
        },
        |mut s| {
            let mut request = [0; 100];
            while s.read_exact(&mut request).is_ok() {
                s.write_all(&request[..10]).unwrap();
            }
        },
    );
    let stall = c["findings"].as_array().unwrap().iter().find(|f| f["kind"] == "nagle_delayed_ack");
    let stall = stall.unwrap_or_else(|| panic!("{:#}", c["findings"]));
    assert!(stall["count"].as_u64().unwrap() >= 5 && stall["direction"] == "to_server", "{stall}");
}

#[test]
fn a_lost_syn_is_named() {
    in_the_lab!();
    let dead = Direction { loss: Loss::Independent(1.0), ..delayed(1) };
    let lab = Lab::up(&Config { a_to_b: dead, ..Config::symmetric(delayed(1)) }).unwrap();
    let c = thread::scope(|scope| {
        // The first SYN is lost for certain, the retry a second later goes through.
        let mend = scope.spawn(|| {
            let until = Instant::now() + Duration::from_secs(20);
            while lab.path().report().a_to_b.achieved.is_none_or(|a| a.lost == 0) && Instant::now() < until {
                thread::sleep(Duration::from_millis(10));
            }
            lab.path().change(Side::A, &delayed(1)).unwrap();
        });
        let c = captured(&lab, |s| send(s, 10_000), drain);
        mend.join().unwrap();
        c
    });
    assert!(has(&c, "syn_retries"), "{:#}", c["findings"]);
    assert!(c["limits"]["handshake_ns"].as_u64().unwrap() >= 900_000_000, "{}", c["limits"]);
}
