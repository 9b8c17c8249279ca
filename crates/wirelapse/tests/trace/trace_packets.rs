//! Packets as `wirelapse trace --packets` copies them, held against tcpdump at the same place and
//! time, and read by tshark.

use std::collections::HashMap;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::scene::command::{is_tracing, signal, tracing};
use crate::scene::path::{join, lab, listen};
use crate::scene::tcpdump::Tcpdump;
use crate::scene::{BTF, TUN, median, turn};
use lab::{Host, Lab, Side};
use record::{Again, KnownBy};
use tier::{Need, text};
use wire::capture::context::Context;
use wire::capture::flag;
use wire::{Capture, LinkType};

pub const TCPDUMP: Need<'static> = Need::Program("tcpdump");
pub const TSHARK: Need<'static> = Need::Program("tshark");

/// A packet of a file.
pub struct Seen {
    pub at: u64,
    pub bytes: Vec<u8>,
    pub length: u32,
    pub flags: u32,
    pub process: Option<u32>,
    pub context: Option<Context>,
    pub interface: String,
}

pub fn read(path: &Path) -> Vec<Seen> {
    let bytes = std::fs::read(path).unwrap();
    let mut capture = Capture::from_bytes(&bytes).unwrap();
    let mut all = Vec::new();
    while let Some(frame) = capture.next_frame().unwrap() {
        // From the IP header on.
        let skipped = if frame.link_type == LinkType::RAW { 0 } else { 14 };
        all.push(Seen {
            at: frame.at.unwrap().as_nanos(),
            bytes: frame.data[skipped..].to_vec(),
            length: frame.original_length - skipped as u32,
            flags: frame.flags(),
            process: frame.process().map(|process| process.0),
            context: frame.context(),
            interface: frame.interface.to_string(),
        });
    }
    assert_eq!(capture.problems().total(), 0);
    for seen in &mut all {
        let index: usize = seen.interface.parse().unwrap();
        seen.interface = capture.interfaces()[index].name.clone().unwrap_or_default();
    }
    all
}

/// A trace that copies packets of a port into a file.
pub fn copying(port: u16, file: &Path, more: &[&str]) -> Child {
    let file = file.to_str().unwrap();
    let port = port.to_string();
    let mut args = vec!["--packets", "--force", "-w", file, "--port", &port];
    args.extend(more);
    let trace = tracing(&args).spawn().unwrap();
    assert!(tier::wait_for(|| is_tracing(trace.id())), "no trace");
    // The last link is attached a moment before it works.
    std::thread::sleep(std::time::Duration::from_millis(300));
    trace
}

/// Ends a trace; gives what it said.
pub fn end(trace: Child) -> (bool, String) {
    std::thread::sleep(std::time::Duration::from_millis(300));
    signal(&trace, libc::SIGINT);
    let out = trace.wait_with_output().unwrap();
    (out.status.success(), text(&out.stdout) + &text(&out.stderr))
}

/// The same of a trace that ends well, with what is in its file: tshark reads as many packets.
pub fn copied(trace: Child, file: &Path) -> (Vec<Seen>, String) {
    let (done, said) = end(trace);
    assert!(done, "{said}");
    let all = read(file);
    assert_eq!(tshark(file), all.len());
    (all, said)
}

/// Reads a file with tshark, which has to say nothing of it; gives how many packets it reads.
pub fn tshark(path: &Path) -> usize {
    let out = tier::limit(Command::new("tshark"))
        // Blocks that describe processes are lines too, in versions that do not know them.
        .args(["-n", "-Y", "ip or ipv6", "-T", "fields", "-e", "frame.number", "-e", "frame.comment", "-r"])
        .arg(path)
        .output()
        .unwrap();
    let said = text(&out.stderr);
    let said: Vec<&str> = said.lines().filter(|line| !line.starts_with("Running as user")).collect();
    assert!(out.status.success() && said.is_empty(), "{said:?}");
    text(&out.stdout).lines().count()
}

/// tcpdump in host `a`, into a file.
pub fn dump(lab: &Lab, file: &Path, filter: &str) -> Tcpdump {
    let mut command = tier::limit(lab.host(Side::A).command("tcpdump").unwrap());
    command.args(["-i", lab::INTERFACE, "-n", "-U", "-s", "512", "-B", "8192", "--immediate-mode", "-Z", "root"]);
    command.args(["--time-stamp-precision=nano", "-w"]).arg(file).arg(filter);
    Tcpdump::start(command)
}

/// Short and long connections and datagrams, in both directions.
fn traffic(lab: &Lab, v6: bool, listener: &TcpListener) {
    for bytes in [1, 100_000, 20] {
        let (mut client, mut server) = join(lab, listener);
        client.write_all(&vec![7; bytes]).unwrap();
        server.read_exact(&mut vec![0; bytes]).unwrap();
        server.write_all(&vec![8; bytes]).unwrap();
        client.read_exact(&mut vec![0; bytes]).unwrap();
        // One end closes and the other follows when it sees that, so that it is in TIME_WAIT.
        drop(client);
        assert_eq!(server.read(&mut [0]).unwrap(), 0);
        std::thread::sleep(std::time::Duration::from_millis(30));
    }
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let address = |host: &Host| if v6 { IpAddr::V6(host.ipv6()) } else { IpAddr::V4(host.ipv4()) };
    let port = listener.local_addr().unwrap().port();
    let server = b.run(|| UdpSocket::bind(SocketAddr::new(address(&b), port)).unwrap()).unwrap();
    let client = a.run(|| UdpSocket::bind(SocketAddr::new(address(&a), 0)).unwrap()).unwrap();
    for bytes in [0, 900] {
        client.send_to(&vec![1; bytes], server.local_addr().unwrap()).unwrap();
        let (_, from) = server.recv_from(&mut [0; 1_000]).unwrap();
        server.send_to(b"back", from).unwrap();
        client.recv_from(&mut [0; 1_000]).unwrap();
    }
}

fn beside_tcpdump(v6: bool) {
    let lab = lab(3);
    let listener = listen(&lab, v6);
    let port = listener.local_addr().unwrap().port();
    let (ours, theirs) = (tempfile::NamedTempFile::new().unwrap(), tempfile::NamedTempFile::new().unwrap());
    let trace = copying(port, ours.path(), &[]);
    let tcpdump = dump(&lab, theirs.path(), &format!("port {port}"));
    traffic(&lab, v6, &listener);
    tcpdump.finish();
    let (all, _) = copied(trace, ours.path());

    // Host a has one interface; the packets of host b are on its own.
    let client = lab.host(Side::A);
    let own = if v6 { client.ipv6().octets().to_vec() } else { client.ipv4().octets().to_vec() };
    let (source, destination) = if v6 { (8..24, 24..40) } else { (12..16, 16..20) };
    let at_a = |seen: &Seen| match seen.flags & 3 {
        flag::OUTBOUND => seen.bytes[source.clone()] == own,
        _ => seen.bytes[destination.clone()] == own,
    };
    let copied: Vec<Seen> = all.into_iter().filter(at_a).collect();
    let dumped = read(theirs.path());
    let mut left: HashMap<&[u8], Vec<&Seen>> = HashMap::new();
    // The last are taken off first.
    copied.iter().rev().for_each(|seen| left.entry(&seen.bytes).or_default().push(seen));
    let mut apart = Vec::new();
    for packet in &dumped {
        let headers = copied.iter().map(|seen| seen.bytes.len()).filter(|&n| n <= packet.bytes.len());
        let lengths: std::collections::BTreeSet<usize> = headers.collect();
        let found = lengths.into_iter().find_map(|n| left.get_mut(&packet.bytes[..n])?.pop());
        let seen = found.unwrap_or_else(|| panic!("not copied: {:02x?}", &packet.bytes[..packet.bytes.len().min(80)]));
        assert_eq!(seen.length, packet.length);
        apart.push(seen.at.abs_diff(packet.at));
    }
    assert_eq!(copied.len(), dumped.len(), "tcpdump has not seen all that was copied");
    let (outbound, inbound): (Vec<_>, Vec<_>) = copied.iter().partition(|seen| seen.flags & 3 == flag::OUTBOUND);
    assert!(outbound.len() > 20 && inbound.len() > 20, "{} out, {} in", outbound.len(), inbound.len());
    let apart = median(apart);
    assert!(apart < 20_000, "{apart} ns from tcpdump at the median");
    // Every end of it is this process, and nobody else is named.
    let own = std::process::id();
    assert!(copied.iter().all(|seen| seen.process.is_none_or(|pid| pid == own)));
    let unknown = copied.iter().filter(|seen| seen.process.is_none()).count();
    assert_eq!(unknown, 0, "{} packets without a process", unknown);
    let with_send = copied.iter().filter_map(|seen| seen.context.as_ref()?.send.as_ref()).count();
    assert!(with_send > 3, "{with_send} packets have their send");
    for send in copied.iter().filter_map(|seen| seen.context.as_ref()?.send.as_ref()) {
        let [sent, sched, driver, _, ack] = send.stages;
        assert!(sent > 0 && sched >= sent && driver >= sched && ack >= driver + 6_000_000, "{send:?}");
    }
}

#[test]
fn packets_are_those_of_tcpdump() {
    tier::needs!(Need::Root, BTF, TUN, TCPDUMP, TSHARK);
    let _turn = turn();
    beside_tcpdump(false);
}

#[test]
fn packets_are_those_of_tcpdump_over_ipv6() {
    tier::needs!(Need::Root, BTF, TUN, TCPDUMP, TSHARK);
    let _turn = turn();
    beside_tcpdump(true);
}

/// A connection over the loopback interface that sends a byte there and back.
fn exchange(listener: &TcpListener) {
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    client.write_all(b"x").unwrap();
    server.read_exact(&mut [0]).unwrap();
    server.write_all(b"y").unwrap();
    client.read_exact(&mut [0]).unwrap();
}

#[test]
fn a_thousand_short_connections_and_one_that_was_there_have_their_owner() {
    tier::needs!(Need::Root, BTF, TSHARK);
    let _turn = turn();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut old = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut peer, _) = listener.accept().unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    let trace = copying(port, file.path(), &[]);
    old.write_all(b"held").unwrap();
    peer.read_exact(&mut [0; 4]).unwrap();
    for _ in 0..1_000 {
        exchange(&listener);
    }
    let (all, said) = copied(trace, file.path());
    let own = Some(std::process::id());
    assert!(all.iter().all(|seen| seen.process == own), "{said}");
    assert!(all.iter().all(|seen| seen.interface == "lo"));
    // Each is there once, though both its ends are traced.
    let syns = |with: u8| all.iter().filter(|seen| seen.bytes[33] & 0x12 == with).count();
    assert_eq!((syns(0x02), syns(0x12)), (1_000, 1_000));
    let received = all.iter().filter(|seen| seen.context.as_ref().is_some_and(|of| of.receiver.is_some())).count();
    assert!(received * 100 > all.len() * 99, "{received} of {} have a receiver", all.len());
    let carried = |seen: &&Seen| seen.bytes.len() < seen.length as usize;
    let with_send = all.iter().filter(carried).filter(|seen| seen.context.as_ref().is_some_and(|of| of.send.is_some()));
    assert_eq!((with_send.count(), all.iter().filter(carried).count()), (2_001, 2_001));
    let by = |by| all.iter().filter(|seen| seen.context.as_ref().unwrap().socket.unwrap().1 == by).count();
    assert_eq!(by(KnownBy::Sent), 2_001);
    assert_eq!(by(KnownBy::Unknown), 0);
}

/// Arguments can hold passwords, so they are there only where they are asked for.
#[test]
fn processes_are_described_by_their_command_line_where_that_is_asked_for() {
    tier::needs!(Need::Root, BTF, TSHARK);
    let _turn = turn();
    for more in [&[][..], &["--command-lines"]] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        let trace = copying(listener.local_addr().unwrap().port(), file.path(), more);
        exchange(&listener);
        copied(trace, file.path());
        let bytes = std::fs::read(file.path()).unwrap();
        let own = std::fs::read("/proc/self/cmdline").unwrap();
        let own = own.strip_suffix(&[0]).unwrap();
        assert_eq!(bytes.windows(own.len()).any(|part| part == own), !more.is_empty(), "{more:?}");
    }
}

/// Segments that a socket has sent: `tcpi_segs_out` of `struct tcp_info`, at byte 136.
fn segments_sent(socket: &TcpStream) -> u64 {
    let (mut info, mut length) = ([0u8; 256], 256);
    // SAFETY: the buffer is as long as is said.
    let done = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    assert!(done == 0 && length >= 140);
    u32::from_ne_bytes(*info[136..].first_chunk().unwrap()).into()
}

#[test]
fn what_is_missed_while_the_reader_stalls_is_counted_to_the_packet() {
    tier::needs!(Need::Root, BTF);
    let _turn = turn();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    let trace = copying(listener.local_addr().unwrap().port(), file.path(), &[]);
    let sent = |client: &TcpStream, server: &TcpStream| segments_sent(client) + segments_sent(server);
    let before = sent(&client, &server);
    let mut exchanges = |n: u32| {
        for _ in 0..n {
            client.write_all(b"x").unwrap();
            server.read_exact(&mut [0]).unwrap();
            server.write_all(b"y").unwrap();
            client.read_exact(&mut [0]).unwrap();
        }
    };
    exchanges(10);
    signal(&trace, libc::SIGSTOP);
    exchanges(30_000);
    signal(&trace, libc::SIGCONT);
    std::thread::sleep(std::time::Duration::from_millis(500));
    exchanges(10);
    // Till the last delayed ACK.
    std::thread::sleep(std::time::Duration::from_millis(200));
    let (done, said) = end(trace);
    assert!(done, "{said}");
    let packets = sent(&client, &server) - before;
    let all = read(file.path());
    let received = all.iter().filter(|seen| seen.context.as_ref().unwrap().receiver.is_some()).count();
    let bytes = std::fs::read(file.path()).unwrap();
    let mut capture = Capture::from_bytes(&bytes).unwrap();
    let mut told = 0;
    while let Some(frame) = capture.next_frame().unwrap() {
        told += frame.dropped_before();
    }
    let missed = capture.interfaces()[0].dropped_by_system.unwrap();
    assert!(missed > 1_000 && told == missed, "{told} of {missed} missed before a packet");
    // Each is copied as it leaves and as it arrives.
    assert_eq!((all.len() + received) as u64 + missed, 2 * packets, "{} packets in the file", all.len());
}

#[test]
fn a_retransmission_says_why() {
    tier::needs!(Need::Root, BTF, TUN);
    let _turn = turn();
    let lab = lab(3);
    let listener = listen(&lab, false);
    let file = tempfile::NamedTempFile::new().unwrap();
    let trace = copying(listener.local_addr().unwrap().port(), file.path(), &["--snap", "3"]);
    let (mut client, mut server) = join(&lab, &listener);
    client.write_all(b"one").unwrap();
    server.read_exact(&mut [0; 3]).unwrap();
    let lossy = lab::Direction { loss: lab::Loss::Independent(1.0), ..crate::scene::path::delay(3) };
    crate::scene::path::change(&lab, &lossy);
    client.write_all(b"two").unwrap();
    std::thread::sleep(std::time::Duration::from_millis(900));
    crate::scene::path::change(&lab, &crate::scene::path::delay(3));
    server.read_exact(&mut [0; 3]).unwrap();
    let (done, said) = end(trace);
    assert!(done, "{said}");
    let all = read(file.path());
    let two: Vec<_> =
        all.iter().filter(|seen| seen.flags & 3 == flag::OUTBOUND && seen.bytes.ends_with(b"two")).collect();
    let again: Vec<_> = two.iter().map(|seen| seen.context.as_ref().unwrap().again).collect();
    assert_eq!(again[..2], [None, Some(Again::Probe)], "{again:?}");
    assert!(again[2..].iter().all(|again| *again == Some(Again::Loss)) && again.len() > 2, "{again:?}");
}

/// In the run: each packet in both directions, once as it leaves and once as it arrives.
#[test]
fn packets_are_rows_of_the_run_and_lines_of_json() {
    tier::needs!(Need::Root, BTF);
    let _turn = turn();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let port_word = port.to_string();
    let args = ["--packets", "--receive", "--json", "--port", &port_word, "-o", run.to_str().unwrap()];
    let mut command = tracing(&args);
    let trace = command.spawn().unwrap();
    assert!(tier::wait_for(|| is_tracing(trace.id())), "no trace");
    std::thread::sleep(std::time::Duration::from_millis(300));
    exchange(&listener);
    let (done, said) = end(trace);
    assert!(done, "{said}");
    // Without -w the packets are in the run too.
    let all = read(&run.join("packets.pcapng"));
    let mut rows = Vec::new();
    store::Run::open(&run).unwrap().copies(|copy| rows.push(copy)).unwrap();
    let received = all.iter().filter(|seen| seen.context.as_ref().unwrap().receiver.is_some()).count();
    assert_eq!(rows.len(), all.len() + received);
    let (sent, arrived): (Vec<_>, Vec<_>) = rows.iter().partition(|row| row.direction == record::Direction::Sent);
    assert_eq!((sent.len(), arrived.len()), (all.len(), received));
    let own = std::process::id();
    for row in &rows {
        assert!(row.local.port() == port || row.remote.port() == port, "{row:?}");
        assert!(row.local.ip().is_loopback() && row.interface.name == "lo" && row.cgroup.is_some(), "{row:?}");
        assert!(row.owner.pid == own && row.known_by != KnownBy::Unknown && row.id > 0, "{row:?}");
    }
    let carriers: Vec<_> = sent.iter().filter(|row| row.payload > 0).collect();
    for row in &carriers {
        let send = row.carried.expect("a send");
        assert_eq!((send.number, send.bytes, row.known_by), (1, 1, KnownBy::Sent), "{row:?}");
        assert!(row.thread.is_some() && row.stages.sched > row.stages.send && row.stages.ack > row.stages.driver);
    }
    // What arrives is read, and is the packet that left.
    for row in arrived.iter().filter(|row| row.payload > 0) {
        let stages = &row.stages;
        assert!(stages.tcp_rx.is_some() && stages.ready >= stages.tcp_rx && stages.read >= stages.ready, "{row:?}");
        assert!(row.thread.is_some() && carriers.iter().any(|left| left.id == row.id), "{row:?}");
    }
    let data: Vec<u32> = sent.iter().map(|row| row.payload).filter(|payload| *payload > 0).collect();
    assert_eq!(data, [1, 1]);
    let lines: Vec<serde_json::Value> = said
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .filter(|of: &serde_json::Value| of["kind"] == "copy")
        .collect();
    assert_eq!(lines.len(), rows.len());
    for (line, row) in lines.iter().zip(&rows) {
        assert_eq!(line["at_ns"], row.at.as_nanos());
        assert_eq!(line["flags"], row.flags.to_string());
        assert_eq!((&line["pid"], &line["known_by"]), (&own.into(), &row.known_by.name().into()));
    }
}

#[test]
fn datagrams_have_their_stages_in_the_file_and_in_the_run() {
    tier::needs!(Need::Root, BTF);
    let _turn = turn();
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (run, file) = (folder.path().join("run"), folder.path().join("p.pcapng"));
    let more = ["--udp", "-o", run.to_str().unwrap()];
    let trace = copying(server.local_addr().unwrap().port(), &file, &more);
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.connect(server.local_addr().unwrap()).unwrap();
    for bytes in 1..=50 {
        client.send(&vec![7; bytes]).unwrap();
        server.recv(&mut [0; 100]).unwrap();
    }
    let (done, said) = end(trace);
    assert!(done, "{said}");
    let mut rows = Vec::new();
    store::Run::open(&run).unwrap().copies(|copy| rows.push(copy)).unwrap();
    let (sent, arrived): (Vec<_>, Vec<_>) = rows.iter().partition(|row| row.direction == record::Direction::Sent);
    assert_eq!((sent.len(), arrived.len()), (50, 50), "{said}");
    for (number, row) in sent.iter().enumerate() {
        let stages = &row.stages;
        assert!(stages.sched.is_some() && stages.sched >= stages.send && stages.driver >= stages.sched, "{row:?}");
        assert!(stages.sched >= Some(row.at), "{row:?}");
        let send = row.carried.expect("the datagram");
        assert_eq!((send.number, send.bytes), (number as u64 + 1, row.payload));
    }
    for row in arrived {
        let stages = &row.stages;
        assert!(stages.tcp_rx.is_some() && stages.read >= stages.tcp_rx && stages.read.is_some(), "{row:?}");
    }
    let all = read(&file);
    for seen in &all {
        let [_, sched, driver, ..] = seen.context.as_ref().unwrap().send.as_ref().expect("a send").stages;
        assert!(sched > 0 && driver >= sched, "{sched} {driver}");
    }
}

#[test]
fn a_packet_that_the_host_drops_says_why() {
    tier::needs!(Need::Root, BTF);
    let _turn = turn();
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    let file = tempfile::NamedTempFile::new().unwrap();
    let trace = copying(port, file.path(), &[]);
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.send_to(b"read", server.local_addr().unwrap()).unwrap();
    server.recv(&mut [0; 10]).unwrap();
    // Far more than the receive buffer holds, and nobody reads.
    for _ in 0..2_000 {
        client.send_to(&[7; 1_000], server.local_addr().unwrap()).unwrap();
    }
    let (done, said) = end(trace);
    assert!(done, "{said}");
    let mut kept = 0;
    server.set_nonblocking(true).unwrap();
    while server.recv(&mut [0; 1_000]).is_ok() {
        kept += 1;
    }
    let all = read(file.path());
    let reason = |seen: &Seen| seen.context.as_ref()?.dropped.as_ref().map(|(_, reason)| reason.to_string());
    let dropped: Vec<String> = all.iter().filter_map(reason).collect();
    assert!(all.len() == 2_001 && kept > 0 && kept < 2_000, "{} packets, {kept} kept", all.len());
    assert_eq!(dropped.len(), 2_000 - kept, "{said}");
    let full = |reason: &String| reason == "SOCKET_RCVBUFF" || reason == "PROTO_MEM";
    assert!(dropped.iter().all(full), "{:?}", dropped.first());
    assert!(reason(&all[0]).is_none());
}

#[test]
fn a_trace_that_is_killed_leaves_a_file_that_is_whole() {
    tier::needs!(Need::Root, BTF, TSHARK);
    let _turn = turn();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut trace = copying(listener.local_addr().unwrap().port(), file.path(), &[]);
    for _ in 0..100 {
        exchange(&listener);
    }
    assert!(tier::wait_for(|| std::fs::metadata(file.path()).unwrap().len() > 10_000), "nothing is written");
    signal(&trace, libc::SIGKILL);
    assert_eq!(trace.wait().unwrap().signal(), Some(libc::SIGKILL));
    let all = read(file.path());
    assert!(!all.is_empty());
    assert_eq!(tshark(file.path()), all.len());
}

#[test]
fn a_full_disk_is_one_error() {
    tier::needs!(Need::Root, BTF);
    let _turn = turn();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let trace = copying(listener.local_addr().unwrap().port(), Path::new("/dev/full"), &[]);
    exchange(&listener);
    let out = trace.wait_with_output().unwrap();
    assert_eq!(out.status.code(), Some(1));
    let said = text(&out.stderr);
    assert_eq!(said.matches("No space left on device").count(), 1, "{said}");
    assert!(said.contains("packet file /dev/full"), "{said}");
}

#[test]
fn packets_in_a_pipe_are_alone_there() {
    tier::needs!(Need::Root, BTF, TSHARK);
    let _turn = turn();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut command = tracing(&["--packets", "-w", "-", "--port", &port]);
    let trace = command.stdout(Stdio::from(file.reopen().unwrap())).spawn().unwrap();
    assert!(tier::wait_for(|| is_tracing(trace.id())), "no trace");
    std::thread::sleep(std::time::Duration::from_millis(300));
    exchange(&listener);
    let (done, said) = end(trace);
    assert!(done && said.contains("Packets: ") && said.contains("Tracing started"), "{said}");
    let all = read(file.path());
    assert_eq!(tshark(file.path()), all.len());
    assert!(all.len() >= 8, "{}", all.len());
}

#[test]
fn the_trace_ends_after_so_many_packets_of_a_filter_in_files_that_follow_one_another() {
    tier::needs!(Need::Root, BTF, TSHARK);
    let _turn = turn();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let folder = tempfile::tempdir().unwrap();
    let (file, filter) = (folder.path().join("p.pcapng"), format!("tcp dst port {port}"));
    let more = ["--rotate-count", "50", "-W", "2", "-c", "130", "--filter", &filter];
    let mut trace = copying(port, &file, &more);
    // Four packets of each go to that port at least.
    while trace.try_wait().unwrap().is_none() {
        exchange(&listener);
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let out = trace.wait_with_output().unwrap();
    let said = text(&out.stdout);
    assert!(out.status.success() && said.contains(": 130 packets in 3 files"), "{said} {}", text(&out.stderr));
    let mut files: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    assert_eq!(files, ["p_00002.pcapng", "p_00003.pcapng"].map(|name| folder.path().join(name)));
    for (file, packets) in files.iter().zip([50, 30]) {
        let all = read(file);
        assert_eq!((all.len(), tshark(file)), (packets, packets));
        assert!(all.iter().all(|seen| seen.bytes[22..24] == port.to_be_bytes()));
        assert!(all.iter().all(|seen| seen.process == Some(std::process::id()) && seen.interface == "lo"));
    }

    // Lines of a file, with what is known of each packet.
    let printed = |more: &[&str]| {
        let out = tracing(&["-r", files[0].to_str().unwrap()]).args(more).output().unwrap();
        assert!(out.status.success() && out.stderr.is_empty(), "{out:?}");
        text(&out.stdout).lines().map(ToOwned::to_owned).collect::<Vec<_>>()
    };
    let lines = printed(&[]);
    assert_eq!(lines.len(), 50);
    let to = " lo Out IP 127.0.0.1.";
    let process = format!("[{}] (", std::process::id());
    assert!(lines.iter().all(|line| line.contains(to) && line.contains(&process)), "{lines:?}");
    let syns = printed(&["--filter", "tcp[tcpflags] & tcp-syn != 0"]);
    assert!(syns.len() > 5 && syns.iter().all(|line| line.contains("Flags [S], seq ")), "{syns:?}");
    assert_eq!(printed(&["-c", "3"]), lines[..3]);
    // The first may be of a connection whose SYN is in the file before.
    let data = printed(&["--filter", "ip[2:2] = 53"]);
    let first_bytes = data.iter().filter(|line| line.contains("seq 1:2, ack ")).count();
    assert!(data.len() > 5 && first_bytes + 1 >= data.len(), "{data:?}");
    assert!(data.iter().all(|line| line.contains("length 1  ") && line.contains("send 1, 1 byte: tcp ")), "{data:?}");
}

#[test]
fn what_cannot_be_is_wrong_use() {
    for (args, says) in [
        (&["--packets", "--all"][..], "--write"),
        (&["--packets", "--all", "--json"], "--write"),
        (&["-w", "x", "--all"], "--packets"),
        (&["--packets", "-w", "x", "--all", "--sample", "1/2"], "--packets reports everything and cannot be sampled"),
        (&["--packets", "-w", "-", "--all", "--json"], "standard output"),
        (&["--packets", "-w", "-", "--all", "-C", "1M"], "standard output is one file"),
        (&["--packets", "-w", "x", "--all", "-W", "3"], "--rotate-size"),
        (&["--packets", "-w", "x", "--all", "--filter", "prot 80"], "refused by libpcap"),
        (&["-c", "3", "--all"], "--packets"),
        (&["-r", "/nowhere/x.pcapng"], "/nowhere/x.pcapng"),
        (&["-r", "x", "--all"], "--all"),
    ] {
        let out = tracing(args).output().unwrap();
        assert_eq!(out.status.code(), Some(2), "{args:?}");
        assert!(text(&out.stderr).contains(says), "{args:?}: {}", text(&out.stderr));
    }
}
