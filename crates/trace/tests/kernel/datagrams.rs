//! Datagrams of UDP, checked against what was sent and read, and against the kernel's own counters.

use std::net::UdpSocket;
use std::os::fd::AsRawFd as _;

use record::{Datagram, DatagramLeg, DatagramStamps, Direction, Event};
use trace::Config;

use crate::traffic::{Trace, counter, in_namespace, port};

fn datagrams(events: &[Event], direction: Direction) -> Vec<Datagram> {
    events
        .iter()
        .filter_map(|e| match e {
            Event::Datagram(d) if d.direction() == direction => Some((**d).clone()),
            _ => None,
        })
        .collect()
}

/// Whether a probe of the trace cannot see this here.
fn lacks(tracer: &trace::Tracer, what: &str) -> bool {
    tracer.observations().iter().any(|by| by.missing.iter().any(|missing| missing.what.name() == what))
}

fn udp(config: Config) -> Config {
    Config { udp: true, ..config }
}

/// Datagrams that the socket itself dropped, from `/proc/net/udp`.
fn socket_drops(port: u16) -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/net/udp").unwrap();
    let wanted = format!(":{port:04X}");
    let line = text.lines().find(|l| l.split_ascii_whitespace().nth(1).is_some_and(|a| a.ends_with(&wanted))).unwrap();
    line.split_ascii_whitespace().last().unwrap().parse().unwrap()
}

fn buffer(socket: &UdpSocket, bytes: i32) {
    // SAFETY: the option is an int, and its size is given.
    let done = unsafe {
        libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, (&raw const bytes).cast(), 4)
    };
    assert_eq!(done, 0);
}

fn each_datagram_has_its_stages(address: &'static str) {
    in_namespace(None, move || {
        let existing = UdpSocket::bind(address).unwrap();
        let at = existing.local_addr().unwrap();
        let mut trace = Trace::start(&udp(port(at.port())));
        let clients: Vec<_> = (0..5).map(|_| UdpSocket::bind(address).unwrap()).collect();
        clients[4].connect(at).unwrap();
        let mut answer = [0; 2000];
        for round in 0..20usize {
            for (index, client) in clients.iter().enumerate() {
                let bytes = vec![1; 1 + round * 7 + index];
                match index {
                    4 => client.send(&bytes).unwrap(),
                    _ => client.send_to(&bytes, at).unwrap(),
                };
                let (n, from) = existing.recv_from(&mut answer).unwrap();
                assert_eq!(n, bytes.len());
                existing.send_to(&answer[..n], from).unwrap();
                assert_eq!(client.recv(&mut answer).unwrap(), n);
            }
        }
        trace.poll();
        let without_send = lacks(&trace.tracer, "stage send of datagrams of connected sockets");
        let (events, summary) = trace.finish();
        let (sent, received) = (datagrams(&events, Direction::Sent), datagrams(&events, Direction::Received));
        assert_eq!((sent.len(), received.len()), (200, 200));
        assert_eq!(summary.lost.datagram_ring_buffer + summary.lost.datagram_no_read + summary.lost.packet_disorder, 0);
        for (index, client) in clients.iter().enumerate() {
            let port = client.local_addr().unwrap().port();
            let mut bytes: Vec<_> = sent.iter().filter(|d| d.local.port() == port).map(|d| d.bytes as usize).collect();
            bytes.sort_unstable();
            assert_eq!(bytes, (0..20).map(|round| 1 + round * 7 + index).collect::<Vec<_>>());
            assert_eq!(received.iter().filter(|d| d.local.port() == port && d.remote == at).count(), 20);
            assert_eq!(received.iter().filter(|d| d.remote.port() == port && d.local == at).count(), 20);
        }
        for datagram in &sent {
            assert!(datagram.leg(DatagramLeg::Qdisc).unwrap().is_some());
            let connected = clients[4].local_addr().unwrap() == datagram.local;
            assert!(connected && without_send || datagram.leg(DatagramLeg::Udp).unwrap().is_some(), "{datagram:?}");
            assert_eq!((datagram.segments, &datagram.dropped), (1, &None));
        }
        for datagram in &received {
            let DatagramStamps::Received { driver_rx, udp_rx, ready, read } = datagram.stamps else { unreachable!() };
            let stamps = [udp_rx.unwrap(), ready.unwrap(), read.unwrap()];
            assert!(stamps.is_sorted(), "{datagram:?}");
            // On another clock, and read with an error of some hundred nanoseconds.
            assert!(driver_rx.unwrap().as_nanos() < stamps[0].as_nanos() + 100_000);
            assert_eq!(datagram.owner.pid, std::process::id());
        }
    });
}

#[test]
fn each_datagram_of_an_unconnected_server_and_its_clients_has_its_stages() {
    tier::needs!(tier::Need::Root);
    each_datagram_has_its_stages("127.0.0.1:0");
}

#[test]
fn each_datagram_has_its_stages_over_ipv6() {
    tier::needs!(tier::Need::Root);
    each_datagram_has_its_stages("[::1]:0");
}

#[test]
fn drops_at_a_full_socket_are_those_that_the_kernel_counts() {
    tier::needs!(tier::Need::Root);
    in_namespace(None, || {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        buffer(&server, 20_000);
        let at = server.local_addr().unwrap();
        let trace = Trace::start(&udp(port(at.port())));
        let (errors, in_datagrams) = (counter("snmp", "Udp", "RcvbufErrors"), counter("snmp", "Udp", "InDatagrams"));
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        for _ in 0..500 {
            client.send_to(&[1; 1000], at).unwrap();
        }
        server.set_nonblocking(true).unwrap();
        let mut reads = 0;
        while server.recv(&mut [0; 2000]).is_ok() {
            reads += 1;
        }
        let (events, summary) = trace.finish();
        let received = datagrams(&events, Direction::Received);
        let dropped: Vec<_> = received.iter().filter_map(|d| d.dropped.as_ref()).collect();
        assert!(dropped.iter().all(|d| d.reason.to_string() == "SOCKET_RCVBUFF"), "{dropped:?}");
        assert!(!dropped.is_empty() && reads > 0);
        assert_eq!(dropped.len() as u64, counter("snmp", "Udp", "RcvbufErrors") - errors);
        assert_eq!(dropped.len() as u64, socket_drops(at.port()));
        assert_eq!((received.len() - dropped.len()) as u64, counter("snmp", "Udp", "InDatagrams") - in_datagrams);
        assert_eq!((received.len(), received.len() - dropped.len()), (500, reads));
        assert!(
            received
                .iter()
                .filter(|d| d.dropped.is_none())
                .all(|d| matches!(d.stamps, DatagramStamps::Received { read: Some(_), .. }))
        );
        assert_eq!(datagrams(&events, Direction::Sent).len(), 500);
        assert_eq!(summary.lost.datagram_no_read, 0);
    });
}

#[test]
fn a_reader_that_sleeps_shows_it_in_the_socket_leg_alone() {
    tier::needs!(tier::Need::Root);
    in_namespace(None, || {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let at = server.local_addr().unwrap();
        let trace = Trace::start(&udp(port(at.port())));
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        for _ in 0..5 {
            client.send_to(&[1; 100], at).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(30));
            server.recv(&mut [0; 100]).unwrap();
        }
        let (events, _) = trace.finish();
        for datagram in datagrams(&events, Direction::Received) {
            let (softirq, socket) = (datagram.leg(DatagramLeg::Softirq), datagram.leg(DatagramLeg::Socket));
            let (softirq, socket) = (softirq.unwrap().unwrap(), socket.unwrap().unwrap());
            assert!(socket.0 >= 30_000_000 && softirq < socket, "{datagram:?}");
        }
    });
}

#[test]
fn what_was_waiting_before_the_trace_does_not_shift_the_reads() {
    tier::needs!(tier::Need::Root);
    in_namespace(None, || {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let at = server.local_addr().unwrap();
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        for _ in 0..3 {
            client.send_to(&[1; 100], at).unwrap();
        }
        let trace = Trace::start(&udp(port(at.port())));
        client.send_to(&[1; 200], at).unwrap();
        for _ in 0..4 {
            server.recv(&mut [0; 200]).unwrap();
        }
        client.send_to(&[1; 300], at).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(20));
        server.recv(&mut [0; 300]).unwrap();
        let (events, summary) = trace.finish();
        let received = datagrams(&events, Direction::Received);
        let told: Vec<_> = received.iter().map(|d| (d.bytes, d.leg(DatagramLeg::Socket).unwrap())).collect();
        assert_eq!(told[0], (200, None));
        assert!(told[1].0 == 300 && told[1].1.unwrap().0 >= 20_000_000, "{told:?}");
        assert_eq!(summary.lost.datagram_no_read, 1);
    });
}

fn option(socket: &UdpSocket, option: i32, value: i32) {
    // SAFETY: the option is an int, and its size is given.
    let done = unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_UDP, option, (&raw const value).cast(), 4) };
    assert_eq!(done, 0);
}

#[test]
fn segments_of_gso_and_gro_are_counted() {
    tier::needs!(tier::Need::Root);
    in_namespace(None, || {
        let (plain, coalescing) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        option(&coalescing, libc::UDP_GRO, 1);
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        option(&client, libc::UDP_SEGMENT, 500);
        let trace = Trace::start(&udp(port(client.local_addr().unwrap().port())));
        for to in [&plain, &coalescing] {
            client.send_to(&[1; 4_700], to.local_addr().unwrap()).unwrap();
        }
        for _ in 0..10 {
            plain.recv(&mut [0; 5000]).unwrap();
        }
        assert_eq!(coalescing.recv(&mut [0; 5000]).unwrap(), 4_700);
        let (events, _) = trace.finish();
        let told = |direction, at: &UdpSocket| -> Vec<(u32, u32)> {
            let port = at.local_addr().unwrap().port();
            let all = datagrams(&events, direction).into_iter();
            all.filter(|d| d.local.port() == port).map(|d| (d.bytes, d.segments)).collect()
        };
        assert_eq!(told(Direction::Sent, &client), [(4_700, 10), (4_700, 10)]);
        let mut cut = vec![(500, 1); 9];
        cut.push((200, 1));
        assert_eq!(told(Direction::Received, &plain), cut);
        assert_eq!(told(Direction::Received, &coalescing), [(4_700, 10)]);
    });
}

#[test]
fn a_datagram_that_software_cuts_up_keeps_its_stages() {
    tier::needs!(tier::Need::Root, tier::Need::Program("tc"));
    // tbf cuts up what is larger than its burst.
    in_namespace(Some("rate 100mbit burst 3kb limit 1mb"), || {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        buffer(&server, 1 << 20);
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        client.connect(server.local_addr().unwrap()).unwrap();
        option(&client, libc::UDP_SEGMENT, 1_200);
        let trace = Trace::start(&udp(port(client.local_addr().unwrap().port())));
        for round in 0..10 {
            client.send(&vec![1; 20_000 + round]).unwrap();
        }
        for _ in 0..170 {
            server.recv(&mut [0; 5_000]).unwrap();
        }
        let (events, summary) = trace.finish();
        let mut sent: Vec<_> = datagrams(&events, Direction::Sent).into_iter().filter(|d| d.bytes >= 20_000).collect();
        // They are reported in the order in which they end, which need not be that of their sends.
        sent.sort_by_key(|d| d.bytes);
        assert_eq!(sent.iter().map(|d| d.bytes).collect::<Vec<_>>(), (20_000..20_010).collect::<Vec<_>>());
        for datagram in &sent {
            assert_eq!((datagram.segments, &datagram.dropped), (17, &None));
            assert!(datagram.leg(DatagramLeg::Qdisc).unwrap().is_some(), "{datagram:?}");
        }
        // 20 kB at 100 Mbit/s are 1.6 ms, and a datagram's stamp is that of its first piece.
        let driver = |d: &Datagram| match d.stamps {
            DatagramStamps::Sent { driver, .. } => driver.unwrap(),
            DatagramStamps::Received { .. } => unreachable!(),
        };
        assert!(driver(&sent[9]).since(driver(&sent[0])).unwrap().0 >= 9 * 1_600_000, "{sent:?}");
        assert_eq!(summary.lost.packet_unfinished, 0);
    });
}

#[test]
fn several_datagrams_of_one_call_share_its_send() {
    tier::needs!(tier::Need::Root);
    in_namespace(None, || {
        let server = UdpSocket::bind("[::1]:0").unwrap();
        let client = UdpSocket::bind("[::1]:0").unwrap();
        client.connect(server.local_addr().unwrap()).unwrap();
        let trace = Trace::start(&udp(port(client.local_addr().unwrap().port())));
        let whole = !lacks(&trace.tracer, "stage send of datagrams of connected sockets");
        let mut bytes = [1_u8; 100];
        let mut vector = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
        // SAFETY: all zeros is a valid message header: no name, no control data.
        let mut messages: [libc::mmsghdr; 5] = unsafe { std::mem::zeroed() };
        for message in &mut messages {
            message.msg_hdr.msg_iov = &raw mut vector;
            message.msg_hdr.msg_iovlen = 1;
        }
        // SAFETY: five headers are given, each with a vector of one buffer that outlives the call.
        let done = unsafe { libc::sendmmsg(client.as_raw_fd(), messages.as_mut_ptr(), 5, 0) };
        assert_eq!(done, 5);
        for _ in 0..5 {
            server.recv(&mut [0; 200]).unwrap();
        }
        let (events, _) = trace.finish();
        let sent = datagrams(&events, Direction::Sent);
        assert_eq!(sent.len(), 5);
        for datagram in &sent {
            let DatagramStamps::Sent { send, sched, .. } = datagram.stamps else { unreachable!() };
            assert!(!whole || send.is_some() && send < sched, "{datagram:?}");
        }
    });
}

#[test]
fn under_load_every_datagram_is_reported_or_counted_as_lost() {
    tier::needs!(tier::Need::Root);
    const SENT: usize = 100_000;
    in_namespace(None, || {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        buffer(&server, 4 << 20);
        let at = server.local_addr().unwrap();
        // A ring buffer that is too small: losses have to occur, and to be counted.
        let mut trace = Trace::start(&Config { ring_bytes: Some(1 << 20), ..udp(port(at.port())) });
        server.set_read_timeout(Some(std::time::Duration::from_millis(500))).unwrap();
        let reader = std::thread::spawn(move || {
            let mut n = 0;
            while server.recv(&mut [0; 100]).is_ok() {
                n += 1;
            }
            n
        });
        let senders: Vec<_> = (0..2)
            .map(|_| {
                std::thread::spawn(move || {
                    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
                    for _ in 0..SENT / 2 {
                        client.send_to(&[1; 64], at).unwrap();
                    }
                })
            })
            .collect();
        while senders.iter().any(|s| !s.is_finished()) {
            trace.poll();
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        let read: usize = reader.join().unwrap();
        let (events, summary) = trace.finish();
        let (sent, received) = (datagrams(&events, Direction::Sent), datagrams(&events, Direction::Received));
        let lost = summary.lost;
        assert_eq!(lost.packet_no_room, 0);
        assert_eq!((sent.len() + received.len()) as u64 + lost.datagram_ring_buffer, 2 * SENT as u64);
        let dropped = received.iter().filter(|d| d.dropped.is_some()).count();
        let timed =
            received.iter().filter(|d| matches!(d.stamps, DatagramStamps::Received { read: Some(_), .. })).count();
        // Each arrival without a reading is in its counter, too.
        assert_eq!((received.len() - dropped - timed) as u64, lost.datagram_no_read);
        assert!(read >= timed && timed > 0);
    });
}
