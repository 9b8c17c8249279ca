//! Where the time of a request went, held against what is known: the lab's delay, a server that
//! computes for 20 ms, and a client that does not come to read for 30 ms.

use crate::scene;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::scene::command::{held_by, is_tracing, signal, tracing};
use crate::scene::path::{join, listen};
use crate::scene::{BTF, IP, TUN, median, monotonic, ms, turn};
use lab::Lab;
use record::{Basis, Component, Event, Request, Role};
use summary::Requests;
use tier::Need;
use trace::{Config, Target, Tracer};

const TIMES: usize = 15;
const COMPUTES: Duration = Duration::from_millis(20);
const SLEEPS: Duration = Duration::from_millis(30);

/// One request by the programs' own clocks, ns. A busy machine lets them sleep longer than they
/// asked for.
#[derive(Clone, Copy, Debug)]
struct Told {
    /// Before the client's write, with the answer in its socket, before its read and after it.
    client: [u64; 4],
    /// After the server's read, before its write and after it.
    server: [u64; 3],
}

/// Requests of 64 bytes; the server computes before each answer of 3,000, and the client sleeps
/// before it reads.
fn converse(client: &mut TcpStream, server: &mut TcpStream) -> Vec<Told> {
    client.set_nodelay(true).unwrap();
    server.set_nodelay(true).unwrap();
    let mut far = server.try_clone().unwrap();
    let answering = std::thread::spawn(move || {
        let answer = |_| {
            far.read_exact(&mut [0; 64]).unwrap();
            let read = monotonic();
            std::thread::sleep(COMPUTES);
            let writes = monotonic();
            far.write_all(&[0; 3_000]).unwrap();
            [read, writes, monotonic()]
        };
        (0..TIMES).map(answer).collect::<Vec<_>>()
    });
    let ask = |_| {
        let writes = monotonic();
        client.write_all(&[0; 64]).unwrap();
        // The answer is in the socket when it can be peeked at.
        while client.peek(&mut [0; 3_000]).unwrap() < 3_000 {}
        let there = monotonic();
        std::thread::sleep(SLEEPS);
        let reads = monotonic();
        client.read_exact(&mut [0; 3_000]).unwrap();
        [writes, there, reads, monotonic()]
    };
    let asked: Vec<_> = (0..TIMES).map(ask).collect();
    asked.into_iter().zip(answering.join().unwrap()).map(|(client, server)| Told { client, server }).collect()
}

/// The requests of a conversation over a path of 5 ms each way, seen from both ends, or from the
/// client's alone; and what the programs know of them.
fn requests(lab: &Lab, v6: bool, both: bool) -> (Vec<Request>, Vec<Told>) {
    let (mut client, mut server) = join(lab, &listen(lab, v6));
    let port = server.local_addr().unwrap().port();
    let peers = if both { Vec::new() } else { vec![client.peer_addr().unwrap().ip().into()] };
    let target = Target { ports: vec![port.into()], peers, ..Target::default() };
    let config = Config { target, receive: true, max_connections: 64, ..Config::default() };
    let mut tracer = Tracer::start(&config).unwrap();
    let mut events = Vec::new();
    let told = converse(&mut client, &mut server);
    let read = |events: &[Event]| -> u64 {
        events.iter().map(|e| if let Event::Receive(r) = e { r.bytes.into() } else { 0_u64 }).sum()
    };
    let all = TIMES as u64 * if both { 3_064 } else { 3_000 };
    let deadline = Instant::now() + Duration::from_secs(10);
    while read(&events) < all && Instant::now() < deadline {
        tracer.poll(Duration::from_millis(20), &mut |event| events.push(event)).unwrap();
    }
    tracer.finish(&mut |event| events.push(event)).1.unwrap();
    assert_eq!(read(&events), all, "as many bytes as were read");
    let mut requests = Requests::default();
    let mut found = Vec::new();
    events.iter().for_each(|event| requests.event(event, &mut |request| found.push(request)));
    requests.finish(&mut |request| found.push(request));
    (found, told)
}

fn component(of: &[&Request], component: Component) -> u64 {
    median(of.iter().map(|r| r.components.as_ref().and_then(|p| p.get(component)).unwrap_or_default().0))
}

/// Those of one end, in the order in which they were made.
fn of(requests: &[Request], role: Role) -> Vec<&Request> {
    let mut own: Vec<_> = requests.iter().filter(|r| r.role == role).collect();
    own.sort_by_key(|r| r.began());
    for r in &own {
        let components = r.components.unwrap_or_else(|| panic!("no components: {r:?}"));
        assert_eq!(Some(components.sum()), r.whole(), "the components add up to the whole: {r:?}");
        assert_eq!((r.request.bytes, r.answer.bytes), (64, 3_000));
    }
    own
}

const MILLI: u64 = 1_000_000;
/// The path's delay each way.
const DELAY: u64 = 5 * MILLI;
/// How early the path's timers may be.
const EARLY: u64 = MILLI / 5;

/// A component lies between what a program spent for certain and the time in which all of it
/// happened.
#[track_caller]
fn within(request: &Request, component: Component, least: u64, most: u64) {
    let found = request.components.as_ref().and_then(|p| p.get(component)).unwrap_or_default().0;
    assert!(
        (least..=most).contains(&found),
        "{component}: {} ms of {} to {}: {request:?}",
        ms(found),
        ms(least),
        ms(most)
    );
}

/// What holds of a client's requests however much of the peer was seen.
fn as_known(client: &[&Request], told: &[Told]) {
    assert_eq!((client.len(), told.len()), (TIMES, TIMES));
    for (request, told) in client.iter().zip(told) {
        let ([asks, there, reads, read], [got, answers, _]) = (told.client, told.server);
        // A reader that sleeps wakes up late, from when the answer can have come.
        within(request, Component::Wakeup, reads - there, read - answers - DELAY + EARLY);
        // A peer that computes is the peer's. Seen from the client alone, what the network took
        // longer than it did for the handshake is the peer's as well, and the other way round: also
        // where the path was early with this request.
        let network = request.components.as_ref().and_then(|p| p.get(Component::Network)).unwrap_or_default().0;
        let longer = network.saturating_sub(2 * DELAY);
        within(
            request,
            Component::PeerApplication,
            (answers - got).saturating_sub(longer + EARLY),
            there - asks - 2 * DELAY + EARLY,
        );
    }
    let of = |p| component(client, p);
    for p in Component::ALL {
        eprintln!("{p}: {} ms", ms(of(p)));
    }
    // Its delay begins as the frame leaves the host, just before the driver stamps it.
    assert!((2 * DELAY - EARLY..13 * MILLI).contains(&of(Component::Network)), "the path's delay is the network");
    assert!(of(Component::Kernel) < 2 * MILLI);
}

#[test]
fn both_ends_give_each_its_share() {
    tier::needs!(Need::Root, BTF, TUN, IP);
    let _turn = turn();
    let (found, told) = requests(&scene::path::lab(5), false, true);
    let client = of(&found, Role::Client);
    as_known(&client, &told);
    assert!(client.iter().all(|r| r.basis == Basis::BothEnds), "{client:?}");
    for p in [Component::PeerReceive, Component::PeerSend] {
        assert!(component(&client, p) < 2 * MILLI, "{p}");
    }
    let server = of(&found, Role::Server);
    assert_eq!(server.len(), TIMES);
    for (request, told) in server.iter().zip(&told) {
        let ([got, answers, answered], asks) = (told.server, told.client[0]);
        within(request, Component::Application, answers - got, answered - asks - DELAY + EARLY);
    }
    assert!(server.iter().all(|r| r.components.unwrap().network.is_none()));
}

#[test]
fn both_ends_give_each_its_share_over_ipv6() {
    tier::needs!(Need::Root, BTF, TUN, IP);
    let _turn = turn();
    let (found, told) = requests(&scene::path::lab(5), true, true);
    as_known(&of(&found, Role::Client), &told);
}

#[test]
fn the_clients_end_alone_distinguishes_the_network_from_the_peer() {
    tier::needs!(Need::Root, BTF, TUN, IP);
    let _turn = turn();
    let (found, told) = requests(&scene::path::lab(5), false, false);
    let client = of(&found, Role::Client);
    assert_eq!(client.len(), found.len());
    as_known(&client, &told);
    assert!(client.iter().all(|r| r.basis != Basis::BothEnds && r.components.unwrap().peer.is_none()));
}

/// A client that has four requests under way on a path of 5 ms each way, with a server that takes 2
/// ms for each: bytes come that cannot answer what was written last.
#[test]
fn a_client_knows_by_the_acks_that_answers_overlap_its_requests() {
    tier::needs!(Need::Root, BTF, TUN, IP);
    let _turn = turn();
    let lab = scene::path::lab(5);
    let (mut client, mut server) = join(&lab, &listen(&lab, false));
    client.set_nodelay(true).unwrap();
    server.set_nodelay(true).unwrap();
    let (all, under_way) = (60, 4);
    let ports = vec![server.local_addr().unwrap().port().into()];
    let peers = vec![client.peer_addr().unwrap().ip().into()];
    let target = Target { ports, peers, ..Target::default() };
    let config = Config { target, receive: true, max_connections: 64, ..Config::default() };
    let tracer = Tracer::start(&config).unwrap();
    let answering = std::thread::spawn(move || {
        for _ in 0..all {
            server.read_exact(&mut [0; 64]).unwrap();
            std::thread::sleep(Duration::from_millis(2));
            server.write_all(&[0; 500]).unwrap();
        }
    });
    for _ in 0..under_way {
        client.write_all(&[0; 64]).unwrap();
    }
    for i in 0..all {
        client.read_exact(&mut [0; 500]).unwrap();
        if i + under_way < all {
            client.write_all(&[0; 64]).unwrap();
        }
    }
    answering.join().unwrap();
    let mut found = Vec::new();
    let mut requests = Requests::default();
    tracer.finish(&mut |event| requests.event(&event, &mut |request| found.push(request))).1.unwrap();
    requests.finish(&mut |request| found.push(request));
    assert!(found.iter().any(|r| r.overlapping == Some(true)), "{found:?}");
    assert!(found.iter().all(|r| r.overlapping == Some(false) || r.components.is_none()), "{found:?}");
}

#[test]
fn a_killed_trace_of_requests_leaves_nothing_in_the_kernel() {
    tier::needs!(Need::Root, BTF);
    let mut trace = tracing(&["--requests", "--http", "--json", "--port", "9"]);
    let mut child = trace.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let pid = child.id();
    assert!(tier::wait_for(|| is_tracing(pid)), "it does not trace");
    let programs = || libbpf_programs(pid);
    assert!(tier::wait_for(|| programs().len() > 5), "{:?}", programs());
    let held = programs();
    signal(&child, libc::SIGKILL);
    child.wait().unwrap();
    assert!(tier::wait_for(|| held.iter().all(|id| !exists(*id))), "of {held:?} some are left");
}

/// The programs that a process holds by their own descriptors or by links.
fn libbpf_programs(pid: u32) -> Vec<u32> {
    held_by(pid, "prog_id")
}

/// Whether a program of this number is loaded.
fn exists(id: u32) -> bool {
    // BPF_PROG_GET_FD_BY_ID with the number as the attribute's first field
    // (include/uapi/linux/bpf.h).
    const GET_FD_BY_ID: libc::c_int = 13;
    let mut attributes = [0_u32; 32];
    attributes[0] = id;
    // SAFETY: the kernel reads the attributes, which are as long as is said, and gives a descriptor
    // or -1.
    let fd = unsafe { libc::syscall(libc::SYS_bpf, GET_FD_BY_ID, attributes.as_ptr(), size_of_val(&attributes)) };
    if fd >= 0 {
        // SAFETY: the descriptor was just made and nobody else has it.
        unsafe { libc::close(fd as libc::c_int) };
    }
    fd >= 0
}

#[test]
fn shares_are_shown_and_lines_are_written() {
    tier::needs!(Need::Root, BTF, Need::Program("python3"));
    let script = "import socket,threading\n\
                  s=socket.create_server(('127.0.0.1',0))\n\
                  def serve():\n c,_=s.accept()\n while c.recv(100): c.sendall(b'y'*10)\n\
                  threading.Thread(target=serve,daemon=True).start()\n\
                  c=socket.create_connection(s.getsockname())\n\
                  for _ in range(12):\n c.sendall(b'x'*5)\n c.recv(100)\n";
    let out = tracing(&["--requests", "--", "python3", "-c", script]).output().unwrap();
    let text = tier::text(&out.stdout);
    assert!(out.status.success(), "{}", tier::text(&out.stderr));
    let in_one_line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in
        ["12 requests seen from the client", "12 requests seen from the server", "peer_application", "Received:"]
    {
        assert!(in_one_line.contains(part), "no {part:?} in\n{text}");
    }
    assert!(in_one_line.contains("by stamps at both ends"), "{text}");
    let out = tracing(&["--requests", "--json", "--", "python3", "-c", script]).output().unwrap();
    let lines: Vec<serde_json::Value> =
        tier::text(&out.stdout).lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let of = |kind: &str| lines.iter().filter(|l| l["kind"] == kind).collect::<Vec<_>>();
    assert_eq!((of("request").len(), of("receive").len()), (24, 24));
    for line in of("request") {
        let sum: u64 = Component::ALL.iter().filter_map(|p| line[format!("{p}_ns")].as_u64()).sum();
        assert_eq!(Some(sum), line["whole_ns"].as_u64(), "{line}");
    }
    let bytes: u64 = of("receive").iter().filter_map(|l| l["bytes"].as_u64()).sum();
    assert_eq!(bytes, 12 * 15);
    assert!(lines[0]["receiving"]["host_wide"].as_array().is_some_and(|a| a.len() == 2), "{}", lines[0]);
}

/// A server answers each byte after 20 ms, in its order. A client that has two of them under way,
/// and writes the next as it gets an answer, has no requests that follow one another; one that
/// waits for each answer has.
const KEEPING: &str = "import socket,sys,threading,time\n\
    under_way=int(sys.argv[1])\n\
    s=socket.create_server(('127.0.0.1',0))\n\
    def serve():\n \
     c,_=s.accept()\n \
     c.setsockopt(6,1,1)\n \
     while c.recv(1):\n  time.sleep(.02)\n  c.sendall(b'y'*10)\n\
    threading.Thread(target=serve,daemon=True).start()\n\
    c=socket.create_connection(s.getsockname())\n\
    c.setsockopt(6,1,1)\n\
    for _ in range(under_way): c.sendall(b'x')\n\
    for _ in range(20-under_way):\n \
     assert c.recv(10,socket.MSG_WAITALL)==b'y'*10\n \
     c.sendall(b'x')\n\
    for _ in range(under_way): c.recv(10,socket.MSG_WAITALL)\n";

#[test]
fn requests_that_are_pipelined_are_called_exchanges() {
    tier::needs!(Need::Root, BTF, Need::Program("python3"));
    let traced = |under_way: &str, more: &[&str]| {
        let args = [&["--requests"][..], more, &["--", "python3", "-c", KEEPING, under_way]].concat();
        let out = tracing(&args).output().unwrap();
        assert!(out.status.success(), "{}", tier::text(&out.stderr));
        tier::text(&out.stdout)
    };
    let requests = |text: &str| -> Vec<serde_json::Value> {
        let lines = text.lines().map(|l| serde_json::from_str::<serde_json::Value>(l).unwrap());
        lines.filter(|l| l["kind"] == "request").collect()
    };
    let one_by_one = requests(&traced("1", &["--json"]));
    assert_eq!(one_by_one.len(), 40);
    assert!(one_by_one.iter().all(|r| r["overlapping"] == false), "{one_by_one:#?}");
    let kept = requests(&traced("2", &["--json"]));
    assert!(kept.iter().any(|r| r["role"] == "server" && r["overlapping"] == true), "{kept:#?}");
    for r in &kept {
        assert!(r["overlapping"] == false || r["application_ns"].is_null(), "{r}");
    }
    let text = traced("2", &["--full"]);
    let in_one_line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(in_one_line.contains("What is counted here are exchanges, not requests"), "{text}");
}
