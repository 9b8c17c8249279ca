//! Under load nothing is lost silently: what is delivered and what the counters
//! say is lost make up exactly what the sending program counted for itself; and memory stays within
//! its bounds.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::scene::command::{fdinfo, is_tracing, signal, tracing};
use crate::scene::{BTF, turn};
use tier::Need;

/// Two loopback addresses that no other program uses as a pair: the server's is the traced peer, so
/// that the client's ends alone are followed.
struct Addresses {
    client: Ipv4Addr,
    server: Ipv4Addr,
}

impl Addresses {
    fn own() -> Self {
        let [high, low] = (std::process::id() as u16).to_be_bytes();
        Self { client: Ipv4Addr::new(127, 1, high, low), server: Ipv4Addr::new(127, 2, high, low) }
    }

    fn connect(&self, to: SocketAddr) -> TcpStream {
        let from = socket2::SockAddr::from(SocketAddr::new(IpAddr::V4(self.client), 0));
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        socket.bind(&from).unwrap();
        socket.connect(&to.into()).unwrap();
        let stream = TcpStream::from(socket);
        stream.set_nodelay(true).unwrap();
        stream.set_write_timeout(Some(Duration::from_secs(60))).unwrap();
        stream
    }
}

/// So many descriptors are needed by a thousand connections.
fn many_descriptors() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: both calls take one rlimit.
    unsafe {
        libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit);
        limit.rlim_cur = limit.rlim_max.min(8192);
        libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
    }
}

/// A server that accepts, reads and throws away; one thread for each so many connections.
fn sink(listener: TcpListener, connections: usize) -> JoinHandle<u64> {
    std::thread::spawn(move || {
        let accepted: Vec<TcpStream> = (0..connections).map(|_| listener.accept().unwrap().0).collect();
        let readers: Vec<_> = accepted
            .into_iter()
            .map(|mut socket| {
                let read = move || {
                    let (mut buffer, mut total) = ([0; 1 << 14], 0);
                    while let Ok(n @ 1..) = socket.read(&mut buffer) {
                        total += n as u64;
                    }
                    total
                };
                std::thread::Builder::new().stack_size(64 << 10).spawn(read).unwrap()
            })
            .collect();
        readers.into_iter().map(|reader| reader.join().unwrap()).sum()
    })
}

/// What `wirelapse trace --json` said in the end, and how many sends it told of.
struct Told {
    sends: u64,
    /// Of these, without a `tcp` leg.
    bare: u64,
    bytes: u64,
    connections: u64,
    datagrams: u64,
    lost: serde_json::Value,
    summary: serde_json::Value,
}

impl Told {
    fn lost(&self, key: &str) -> u64 {
        self.lost[key].as_u64().unwrap_or_else(|| panic!("no {key} in {}", self.lost))
    }

    /// Every send of the program is in one of these.
    fn accounted(&self) -> u64 {
        let counters = ["ring_buffer", "slots_full", "over_rate", "unstamped", "left_out"];
        self.sends + counters.map(|key| self.lost(key)).iter().sum::<u64>()
    }
}

/// How many connections are followed at most: what memory the machine has left decides otherwise,
/// and the bound with it.
const FOLLOWED: u32 = 2_048;

/// A tracer of these addresses as a user starts it, and a reader of its lines.
struct Trace {
    child: Child,
    reader: JoinHandle<Told>,
}

impl Trace {
    fn start(addresses: &Addresses) -> Self {
        Self::start_with(addresses, &[])
    }

    fn start_with(addresses: &Addresses, more: &[&str]) -> Self {
        let peer = addresses.server.to_string();
        let connections = FOLLOWED.to_string();
        let ours = ["--json", "--peer", &peer, "--max-connections", &connections];
        let mut child = tracing(&ours).args(more).stderr(Stdio::inherit()).spawn().unwrap();
        let lines = BufReader::with_capacity(1 << 20, child.stdout.take().unwrap()).lines();
        let reader = std::thread::spawn(move || {
            let none = serde_json::Value::Null;
            let mut told =
                Told { sends: 0, bare: 0, bytes: 0, connections: 0, datagrams: 0, lost: none.clone(), summary: none };
            for line in lines.map_while(Result::ok) {
                let is = |kind: &str| line.starts_with(&format!("{{\"kind\":\"{kind}\""));
                if is("send") {
                    told.sends += 1;
                    told.bare += u64::from(line.contains("\"tcp_ns\":null"));
                    let number = |key: &str| -> u64 {
                        let at = line.find(key).unwrap() + key.len();
                        line[at..].split([',', '}']).next().unwrap().parse().unwrap()
                    };
                    told.bytes += number("\"bytes\":");
                } else if is("connection") {
                    told.connections += 1;
                } else if is("datagram") {
                    told.datagrams += 1;
                } else if is("lost") {
                    told.lost = serde_json::from_str(&line).unwrap();
                } else if is("summary") {
                    told.summary = serde_json::from_str(&line).unwrap();
                }
            }
            told
        });
        let pid = child.id();
        assert!(tier::wait_for(|| is_tracing(pid)), "the tracer does not begin");
        Self { child, reader }
    }

    /// Largest resident memory so far, and the kernel's for maps and ring buffer, bytes.
    fn memory(&self) -> (u64, u64) {
        let pid = self.child.id();
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let field = |text: &str, key: &str| -> Option<u64> {
            text.lines().find_map(|line| line.strip_prefix(key)?.split_whitespace().next()?.parse().ok())
        };
        let mut maps: Vec<(u64, u64)> =
            fdinfo(pid).iter().filter_map(|text| Some((field(text, "map_id:")?, field(text, "memlock:")?))).collect();
        maps.sort_unstable();
        maps.dedup();
        assert!(maps.len() >= 10, "{maps:?}");
        (field(&status, "VmHWM:").unwrap() * 1024, maps.iter().map(|(_, bytes)| bytes).sum())
    }

    fn finish(mut self) -> Told {
        signal(&self.child, libc::SIGINT);
        let told = self.reader.join().unwrap();
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}");
        told
    }
}

/// What the library says its maps can take at most.
fn kernel_bound() -> u64 {
    let target = trace::Target { ports: vec![1.into()], ..trace::Target::default() };
    let config = trace::Config { target, max_connections: FOLLOWED, ..trace::Config::default() };
    config.memory().unwrap().most()
}

/// What `wirelapse trace` may take of memory itself: 500 connections with figures of their own at
/// 290 KiB (summary::Limits), and as much again for the events on their way and the program.
const USER_BOUND: u64 = 2 * 500 * (290 << 10);

fn within_memory(trace: &Trace) {
    let (resident, kernel) = trace.memory();
    let bound = kernel_bound();
    eprintln!("resident at most {} KiB, maps {} KiB of {} KiB", resident >> 10, kernel >> 10, bound >> 10);
    assert!(kernel <= bound, "{kernel} bytes of maps, {bound} stated");
    // The ring buffer is mapped, so it counts as resident as well.
    assert!(resident <= USER_BOUND + (16 << 20), "{resident} bytes");
}

#[test]
fn a_thousand_connections_at_the_same_time_are_all_accounted_for() {
    tier::needs!(Need::Root, BTF);
    let _turn = turn();
    many_descriptors();
    const CONNECTIONS: usize = 1_000;
    let addresses = Addresses::own();
    let listener = TcpListener::bind((addresses.server, 0)).unwrap();
    let to = listener.local_addr().unwrap();
    let reader = sink(listener, CONNECTIONS);
    let trace = Trace::start(&addresses);
    let mut clients: Vec<TcpStream> = (0..CONNECTIONS).map(|_| addresses.connect(to)).collect();
    let mut sent = 0;
    for round in 0..20usize {
        for client in &mut clients {
            client.write_all(&vec![0; 10 + round]).unwrap();
            sent += 1;
        }
    }
    let bytes: u64 = (0..20).map(|round| 1_000 * (10 + round)).sum();
    within_memory(&trace);
    drop(clients);
    assert_eq!(reader.join().unwrap(), bytes);
    let told = trace.finish();
    eprintln!("{sent} sends: {} told, {}", told.sends, told.lost);
    assert_eq!(told.connections, CONNECTIONS as u64);
    assert_eq!(told.lost("connections_full"), 0, "{}", told.lost);
    assert_eq!(told.accounted(), sent, "{}", told.lost);
    assert_eq!(told.summary["connections"].as_u64(), Some(CONNECTIONS as u64));
    assert_eq!(told.summary["sends"].as_u64(), Some(told.sends));
}

/// So many sends over eight connections, at no more than `rate` a second where there is one; all of
/// them are in the account.
fn flood(sends: u64, rate: Option<u64>) {
    const CONNECTIONS: u64 = 8;
    const SIZE: usize = 256;
    let addresses = Addresses::own();
    let listener = TcpListener::bind((addresses.server, 0)).unwrap();
    let to = listener.local_addr().unwrap();
    let reader = sink(listener, CONNECTIONS as usize);
    let trace = Trace::start(&addresses);
    let mut clients: Vec<TcpStream> = (0..CONNECTIONS).map(|_| addresses.connect(to)).collect();
    let (start, mut sent) = (Instant::now(), 0);
    while sent < sends {
        for client in &mut clients {
            client.write_all(&[0; SIZE]).unwrap();
            sent += 1;
        }
        if let Some(rate) = rate {
            let due = Duration::from_secs_f64(sent as f64 / rate as f64);
            if let Some(ahead) = due.checked_sub(start.elapsed()).filter(|ahead| ahead.as_millis() > 0) {
                std::thread::sleep(ahead);
            }
        }
    }
    let took = start.elapsed();
    within_memory(&trace);
    drop(clients);
    assert_eq!(reader.join().unwrap(), sent * SIZE as u64);
    let told = trace.finish();
    let each_second = sent as f64 / took.as_secs_f64();
    eprintln!("{sent} sends in {took:?}, {each_second:.0} a second: {} told, {}", told.sends, told.lost);
    assert_eq!(told.accounted(), sent, "{}", told.lost);
    assert_eq!(told.lost("disorder"), 0, "{}", told.lost);
    // Where no record found the ring buffer full, every byte is told of too.
    if told.lost("ring_buffer") + told.lost("slots_full") == 0 {
        assert_eq!(told.bytes, sent * SIZE as u64, "{}", told.lost);
    }
}

#[test]
fn a_million_sends_are_accounted_for_exactly() {
    tier::needs!(Need::Root, BTF);
    let _turn = turn();
    flood(1_000_000, None);
}

#[test]
#[ignore = "twenty seconds of full load; the same as the million above, longer"]
fn twenty_seconds_at_two_hundred_thousand_sends_a_second_are_accounted_for_exactly() {
    tier::needs!(Need::Root, BTF);
    let _turn = turn();
    flood(4_000_000, Some(200_000));
}

#[test]
fn sends_cut_short_by_a_full_buffer_are_accounted_for() {
    tier::needs!(Need::Root, BTF);
    let _turn = turn();
    let addresses = Addresses::own();
    let listener = TcpListener::bind((addresses.server, 0)).unwrap();
    let to = listener.local_addr().unwrap();
    let reader = sink(listener, 1);
    let trace = Trace::start(&addresses);
    let mut client = addresses.connect(to);
    client.set_nonblocking(true).unwrap();
    let (mut sent, mut bytes, mut short) = (0u64, 0u64, 0u64);
    while sent < 5_000 {
        match client.write(&[0; 100_000]) {
            Ok(n) => {
                sent += 1;
                bytes += n as u64;
                short += u64::from(n < 100_000);
            }
            Err(error) => {
                assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
                std::thread::sleep(Duration::from_micros(50));
            }
        }
    }
    drop(client);
    assert_eq!(reader.join().unwrap(), bytes);
    let told = trace.finish();
    eprintln!(
        "{sent} sends, {short} cut short: {} told with {} of {bytes} bytes, {}",
        told.sends, told.bytes, told.lost
    );
    assert!(short > 0);
    assert_eq!(told.accounted(), sent, "{}", told.lost);
    assert_eq!(told.bytes, bytes, "{}", told.lost);
    // The kernel joins packets of the queue as it sends them, and keeps the later one's key alone:
    // whose byte had left before in an unstamped packet is told without stages, and counted. Of a
    // send without an ACK stamp no stage can be inferred either.
    let counted = ["no_sched", "unfinished", "closed_unacked", "disorder"].map(|key| told.lost(key));
    assert!(told.bare >= counted[0] && told.bare <= counted.iter().sum(), "{} of {}", told.bare, told.lost);
}

/// A tracer that is stopped for three seconds under load, as by a shell or a machine without
/// memory; `kinds` says what it follows.
fn stopped(backend: &str, kinds: &[&str]) {
    let addresses = Addresses::own();
    let listener = TcpListener::bind((addresses.server, 0)).unwrap();
    let to = listener.local_addr().unwrap();
    let reader = sink(listener, 4);
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run");
    let more: Vec<&str> =
        ["--backend", backend, "-o", run.to_str().unwrap()].into_iter().chain(kinds.iter().copied()).collect();
    let trace = Trace::start_with(&addresses, &more);
    // The run begins when all probes are attached.
    assert!(tier::wait_for(|| run.join("run.json").exists()), "the run does not begin");
    let mut clients: Vec<TcpStream> = (0..4).map(|_| addresses.connect(to)).collect();
    let datagrams = std::net::UdpSocket::bind((addresses.client, 0)).unwrap();
    let sunk = std::net::UdpSocket::bind((addresses.server, 0)).unwrap();
    let (begun, mut sent, mut datagrams_sent) = (Instant::now(), 0, 0);
    let second = |seconds: u64| begun.elapsed() >= Duration::from_millis(seconds * 1_000);
    let mut is_stopped = None;
    while !second(5) {
        for client in &mut clients {
            client.write_all(&[0; 200]).unwrap();
            sent += 1;
        }
        datagrams.send_to(&[0; 20], sunk.local_addr().unwrap()).unwrap();
        datagrams_sent += 1;
        if is_stopped.is_none() && second(1) {
            signal(&trace.child, libc::SIGSTOP);
            is_stopped = Some(true);
        } else if is_stopped == Some(true) && second(4) {
            signal(&trace.child, libc::SIGCONT);
            is_stopped = Some(false);
        }
    }
    drop(clients);
    reader.join().unwrap();
    let told = trace.finish();
    eprintln!("{backend} {kinds:?}: {sent} sends: {} told, {}", told.sends, told.lost);
    assert_eq!(told.accounted(), sent, "{}", told.lost);
    assert!(told.lost("ring_buffer") > 0, "the ring buffer held all: {}", told.lost);
    if kinds.contains(&"--udp") {
        assert_eq!(told.datagrams + told.lost("datagram_ring_buffer"), datagrams_sent, "{}", told.lost);
    }
    // Whoever reads the run later is told first of all.
    let said = tier::wirelapse!(["report"]).arg(&run).output().unwrap();
    let said = tier::text(&said.stdout).replace(['\n', '\u{a0}'], " ");
    assert!(said.contains("Not recorded: ") && said.contains("because the ring buffer was full"), "{said}");
}

#[test]
fn a_stopped_tracer_counts_what_it_missed() {
    tier::needs!(Need::Root, BTF);
    let _turn = turn();
    stopped("timestamping", &[]);
    stopped("timestamping", &["--receive", "--every-packet", "--udp"]);
}

#[test]
fn a_stopped_tracer_counts_what_it_missed_by_tracepoints() {
    tier::needs!(Need::Root, BTF);
    let _turn = turn();
    stopped("tracepoints", &[]);
    stopped("tracepoints", &["--receive", "--every-packet", "--udp"]);
}
