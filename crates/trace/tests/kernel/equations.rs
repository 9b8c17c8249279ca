//! Under every kind of loss at once, on a loopback of its own: what is delivered and what is
//! counted as lost make up what the programs wrote and read, and what the kernel itself counted.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, UdpSocket};
use std::time::{Duration, Instant};

use record::{Direction, Event};
use tier::Need;
use trace::{Backend, Config, Summary, Target};

use crate::traffic::{self, Trace, accept_one, accounted, counter, in_namespace, sends};

const BTF: Need<'static> = Need::Path("/sys/kernel/btf/vmlinux");
const CONNECTIONS: usize = 8;
/// How long the tracer reads, stands still, and reads again, under load.
const READING: Duration = Duration::from_millis(400);
const STILL: Duration = Duration::from_secs(2);
/// Longer than an ACK is delayed (`TCP_DELACK_MAX`, 200 ms).
const QUIET: Duration = Duration::from_millis(400);

/// What the programs and the kernel counted themselves.
#[derive(Default)]
struct Truth {
    written: u64,
    written_bytes: u64,
    read_bytes: u64,
    datagrams: u64,
    datagrams_read: u64,
    /// Packets and datagrams that went through the loopback device.
    transmitted: u64,
    /// Segments that TCP sent, as it counts them, since the trace began: retransmissions too.
    segments: u64,
    /// Received segments that TCP dropped.
    dropped: u64,
}

fn transmitted() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap();
    let line = text.lines().find_map(|line| line.trim_start().strip_prefix("lo:")).unwrap();
    line.split_ascii_whitespace().nth(9).unwrap().parse().unwrap()
}

fn dropped() -> u64 {
    let drops = ["DelayedACKLost", "TCPRcvQDrop", "TCPZeroWindowDrop", "TCPOFODrop", "TCPBacklogDrop", "TCPOFOMerge"];
    drops.map(|name| counter("netstat", "TcpExt", name)).iter().sum()
}

/// Load on all that a trace follows while its tracer stands still for a while, as one that was
/// stopped does.
fn under_load(backend: Backend, slots: u32, ring_bytes: u32, most: u64) -> (Truth, Vec<Event>, Summary) {
    in_namespace(None, move || {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = UdpSocket::bind("127.0.0.1:0").unwrap();
        let ports = vec![listener.local_addr().unwrap().port().into(), to.local_addr().unwrap().port().into()];
        let config = Config {
            slots_per_connection: slots,
            arrivals_per_connection: slots,
            ring_bytes: Some(ring_bytes),
            receive: true,
            packets: true,
            udp: true,
            ..traffic::on(traffic::config(Target { ports, ..Target::default() }), backend)
        };
        let before = transmitted();
        let segments = || counter("snmp", "Tcp", "OutSegs") + counter("snmp", "Tcp", "RetransSegs");
        let segments_before = segments();
        let mut trace = Trace::start(&config);
        let (clients, servers): (Vec<_>, Vec<_>) = (0..CONNECTIONS).map(|_| accept_one(&listener)).unzip();
        let readers: Vec<_> = servers
            .into_iter()
            .map(|mut server| {
                std::thread::spawn(move || {
                    let (mut buffer, mut total) = (vec![0; 1 << 14], 0);
                    while let Ok(n @ 1..) = server.read(&mut buffer) {
                        // Now and then so slowly that the slots fill.
                        if total >> 24 != (total + n as u64) >> 24 {
                            std::thread::sleep(Duration::from_millis(30));
                        }
                        total += n as u64;
                    }
                    total
                })
            })
            .collect();
        let end = Instant::now() + READING + STILL + READING;
        let writer = std::thread::spawn(move || {
            let (mut sent, mut bytes) = (0, 0);
            while Instant::now() < end {
                for mut client in &clients {
                    let size = 100 + sent * 7_919 % most;
                    client.write_all(&vec![0; size as usize]).unwrap();
                    bytes += size;
                    sent += 1;
                }
            }
            // Not closed: the last ACK of a closed socket is sent by what the kernel leaves in its
            // place, which is no one's.
            clients.iter().for_each(|client| client.shutdown(std::net::Shutdown::Write).unwrap());
            (sent, bytes, clients)
        });
        let at = to.local_addr().unwrap();
        let sender = std::thread::spawn(move || {
            let (from, mut sent) = (UdpSocket::bind("127.0.0.1:0").unwrap(), 0);
            while Instant::now() < end {
                sent += from.send_to(&[1; 64], at).map_or(0, |_| 1);
                if sent % 20 == 0 {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
            sent
        });
        to.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        let receiver = std::thread::spawn(move || {
            let mut n = 0;
            while to.recv(&mut [0; 100]).is_ok() {
                n += 1;
            }
            n
        });
        let polled = |trace: &mut Trace, until: Instant| {
            while Instant::now() < until {
                trace.poll();
                std::thread::sleep(Duration::from_millis(5));
            }
        };
        polled(&mut trace, Instant::now() + READING);
        std::thread::sleep(STILL);
        polled(&mut trace, end);
        let mut truth = Truth::default();
        let _open;
        (truth.written, truth.written_bytes, _open) = writer.join().unwrap();
        truth.datagrams = sender.join().unwrap();
        truth.datagrams_read = receiver.join().unwrap();
        truth.read_bytes = readers.into_iter().map(|reader| reader.join().unwrap()).sum();
        // Delayed ACKs, and those of the sockets that were closed just now, leave later than their
        // data: what leaves once the programs are detached has no record.
        let mut left = 0;
        while left != transmitted() {
            left = transmitted();
            polled(&mut trace, Instant::now() + QUIET);
        }
        (truth.transmitted, truth.dropped) = (left - before, dropped());
        truth.segments = segments() - segments_before;
        let (events, summary) = trace.finish();
        (truth, events, summary)
    })
}

fn whole(truth: &Truth, events: &[Event], summary: &Summary) {
    let lost = &summary.lost;
    let sends = sends(events);
    assert_eq!(accounted(&sends, lost) + lost.unstamped + lost.left_out, truth.written, "{lost:?}");
    // What has a record and no ACK has its reason.
    let unacked = sends.iter().filter(|send| send.stamps.ack.is_none()).count() as u64;
    assert!(unacked <= lost.unfinished + lost.closed_unacked, "{unacked} without an ACK, {lost:?}");
    assert_eq!(summary.coverage.bytes_written, truth.written_bytes, "{lost:?}");
    assert!(summary.coverage.bytes_armed <= truth.written_bytes, "{lost:?}");
    // What is covered is what has a record.
    if lost.unstamped + lost.left_out == 0 {
        let recorded: u64 = sends.iter().map(|send| u64::from(send.bytes)).sum();
        assert_eq!(summary.coverage.bytes_armed, recorded, "{lost:?}");
    }

    let read: u64 = events
        .iter()
        .filter_map(|event| match event {
            Event::Receive(receive) if receive.stamps.read.is_some() => Some(u64::from(receive.bytes)),
            _ => None,
        })
        .sum();
    assert_eq!(truth.read_bytes, truth.written_bytes);
    assert_eq!(
        read + lost.receive_missed_bytes + lost.receive_unseen_bytes + lost.receive_unsampled_bytes,
        truth.read_bytes,
        "{lost:?}"
    );

    let sent = || events.iter().filter_map(|e| if let Event::Packet(p) = e { Some(p) } else { None });
    let sent = || sent().filter(|p| p.direction == Direction::Sent);
    let packets = sent().count();
    let of =
        |direction| events.iter().filter(|e| matches!(e, Event::Datagram(d) if d.direction() == direction)).count();
    let (out, come) = (of(Direction::Sent) as u64, of(Direction::Received) as u64);
    let datagrams = out + come + lost.datagram_ring_buffer;
    let least = 2 * truth.datagrams - lost.packet_left_out;
    assert!((least..=2 * truth.datagrams).contains(&datagrams), "{datagrams}, not {least} or more: {lost:?}");
    // A received segment that TCP drops has a record beside that of its sending.
    let left = packets as u64 + lost.packet_ring_buffer + truth.datagrams;
    let most = truth.transmitted + truth.dropped;
    // A kernel may run no program at all while a thread of the machine's supervisor is interrupted:
    // of the segments that leave then there is the kernel's own count. It is of segments, and a
    // packet has at least one.
    let least = truth.transmitted - lost.packet_unseen;
    assert!((least..=most).contains(&left), "{left}, not {least} to {most}: {lost:?}");
    if lost.packet_ring_buffer == 0 {
        let segments: u64 = sent().map(|p| u64::from(p.segments)).sum();
        assert_eq!(segments + lost.packet_unseen, truth.segments, "{lost:?}");
    }
    let received = |read: fn(&record::Datagram) -> bool| {
        events
            .iter()
            .filter(|e| matches!(e, Event::Datagram(d) if d.direction() == Direction::Received && read(d)))
            .count() as u64
    };
    let timed = received(|d| matches!(d.stamps, record::DatagramStamps::Received { read: Some(_), .. }));
    let dropped = received(|d| d.dropped.is_some());
    assert_eq!(timed + dropped + lost.datagram_no_read, come, "{lost:?}");
    assert!(timed <= truth.datagrams_read && dropped <= truth.datagrams - truth.datagrams_read, "{lost:?}");
    eprintln!(
        "{} sends of {}, {read} bytes of {} received, {packets} packets ({left} of {} on the device), {timed} datagrams of {} read: {lost:?}",
        sends.len(),
        truth.written,
        truth.read_bytes,
        truth.transmitted,
        truth.datagrams
    );
}

fn slots_full(backend: Backend) {
    let (truth, events, summary) = under_load(backend, 16, 64 << 20, 150_000);
    assert!(summary.lost.slots_full > 0 && summary.lost.receive_slots_full > 0, "{:?}", summary.lost);
    whole(&truth, &events, &summary);
}

fn ring_full(backend: Backend) {
    let (truth, events, summary) = under_load(backend, 256, 64 << 10, 5_000);
    let lost = &summary.lost;
    assert!(lost.ring_buffer > 0 && lost.receive_ring_buffer > 0, "{lost:?}");
    assert!(lost.packet_ring_buffer > 0 && lost.datagram_ring_buffer > 0, "{lost:?}");
    whole(&truth, &events, &summary);
}

#[test]
fn with_the_slots_full_all_is_accounted_for() {
    tier::needs!(Need::Root, BTF);
    slots_full(Backend::Timestamping);
}

#[test]
fn with_the_slots_full_all_is_accounted_for_by_tracepoints() {
    tier::needs!(Need::Root, BTF);
    slots_full(Backend::Tracepoints);
}

#[test]
fn with_the_ring_buffer_full_all_is_accounted_for() {
    tier::needs!(Need::Root, BTF);
    ring_full(Backend::Timestamping);
}

#[test]
fn with_the_ring_buffer_full_all_is_accounted_for_by_tracepoints() {
    tier::needs!(Need::Root, BTF);
    ring_full(Backend::Tracepoints);
}

/// What MPTCP writes goes to TCP by no call that is seen: it is in the totals, and not in the
/// coverage.
fn written_by_mptcp(backend: Backend) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = listener.local_addr().unwrap();
    let target = Target { pids: vec![std::process::id()], ports: vec![to.port().into()], ..Target::default() };
    let trace = Trace::start(&traffic::on(traffic::config(target), backend));
    // SAFETY: takes three numbers.
    let socket = unsafe { libc::socket(libc::AF_INET, libc::SOCK_STREAM, libc::IPPROTO_MPTCP) };
    assert!(socket >= 0);
    // SAFETY: the descriptor was just made and is owned by nothing else.
    let mut client = unsafe { <std::net::TcpStream as std::os::fd::FromRawFd>::from_raw_fd(socket) };
    let address = libc::sockaddr_in {
        sin_family: libc::AF_INET as u16,
        sin_port: to.port().to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from(std::net::Ipv4Addr::LOCALHOST).to_be() },
        sin_zero: [0; 8],
    };
    // SAFETY: an address of the given length.
    let connected =
        unsafe { libc::connect(socket, (&raw const address).cast(), size_of::<libc::sockaddr_in>() as u32) };
    assert_eq!(connected, 0);
    let reader = traffic::drain(listener.accept().unwrap().0);
    for _ in 0..20 {
        client.write_all(&[1; 500]).unwrap();
        std::thread::sleep(Duration::from_millis(2));
    }
    drop(client);
    assert_eq!(reader.join().unwrap(), 10_000);
    let (events, summary) = trace.finish();
    assert!(sends(&events).is_empty());
    assert!(summary.lost.unstamped + summary.lost.left_out > 0, "{:?}", summary.lost);
    assert_eq!((summary.coverage.bytes_written, summary.coverage.bytes_armed), (10_000, 0));
}

#[test]
fn what_is_written_past_the_calls_lowers_the_coverage() {
    tier::needs!(Need::Root, BTF, Need::Path("/proc/sys/net/mptcp/enabled"));
    written_by_mptcp(Backend::Timestamping);
    written_by_mptcp(Backend::Tracepoints);
}
