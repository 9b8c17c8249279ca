//! Every packet of a connection, checked against what was sent.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::fd::AsRawFd as _;

use record::{Direction, Event, Packet, SeqNumber};
use trace::{Config, Target};

use crate::traffic::{Trace, counter, in_namespace, pair_at, port};

pub fn packets(events: &[Event]) -> Vec<Packet> {
    events.iter().filter_map(|e| if let Event::Packet(p) = e { Some((**p).clone()) } else { None }).collect()
}

fn every(config: Config) -> Config {
    Config { packets: true, ..config }
}

/// One connection from SYN to the last ACK: (events, bytes sent, port).
fn exchange(address: &str, bytes: usize) -> (Vec<Event>, trace::Summary, u16) {
    let listener = TcpListener::bind(address).unwrap();
    let at = listener.local_addr().unwrap();
    let mut trace = Trace::start(&every(port(at.port())));
    let server = std::thread::spawn(move || {
        let (mut server, _) = listener.accept().unwrap();
        let mut all = Vec::new();
        server.read_to_end(&mut all).unwrap();
        server.write_all(b"done").unwrap();
        all.len()
    });
    let mut client = std::net::TcpStream::connect(at).unwrap();
    client.write_all(&vec![7; bytes]).unwrap();
    client.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).unwrap();
    assert_eq!((server.join().unwrap(), answer.as_slice()), (bytes, b"done".as_slice()));
    drop(client);
    std::thread::sleep(std::time::Duration::from_millis(50));
    trace.poll();
    let (events, summary) = trace.finish();
    (events, summary, at.port())
}

/// Held against the stream itself: no byte without a packet, none twice but retransmissions.
fn check(events: &[Event], server_port: u16, bytes: usize) {
    let all = packets(events);
    let client: Vec<_> =
        all.iter().filter(|p| p.remote.port() == server_port && p.direction == Direction::Sent).collect();
    let server: Vec<_> =
        all.iter().filter(|p| p.local.port() == server_port && p.direction == Direction::Sent).collect();
    let syn = client.iter().find(|p| p.flags.syn()).expect("the SYN");
    let syn_ack = server.iter().find(|p| p.flags.syn()).expect("the SYN-ACK");
    assert_eq!(syn_ack.flags.to_string(), "SA");
    let ids: std::collections::HashSet<_> = all.iter().map(|p| p.connection).collect();
    assert_eq!(ids.len(), 2, "one connection for each end, the SYN-ACK's being that of the socket that comes of it");
    let mut data: Vec<_> = client.iter().filter(|p| p.bytes > 0 && !p.retransmission).collect();
    data.sort_by_key(|p| p.first_seq.distance_from(syn.first_seq));
    let mut next: SeqNumber = syn.end_seq();
    for packet in &data {
        assert_eq!(packet.first_seq, next);
        next = packet.first_seq.add(packet.bytes);
    }
    assert_eq!(data.iter().map(|p| u64::from(p.bytes)).sum::<u64>(), bytes as u64);
    assert_eq!(next, syn.end_seq().add(bytes as u32));
    assert!(client.iter().any(|p| p.flags.fin()) && server.iter().any(|p| p.flags.fin()));
    for packet in client.iter().chain(&server) {
        assert!(packet.dropped.is_none());
        assert!(packet.qdisc().unwrap().is_some(), "{packet:?}");
        assert!(packet.frame_bytes > packet.bytes + 40);
        if packet.end_seq() == packet.first_seq {
            assert_eq!(packet.ack, None);
        } else if !packet.flags.syn() || packet.remote.port() == server_port {
            assert!(packet.network().unwrap().is_some(), "{packet:?}");
        }
    }
}

#[test]
fn each_byte_is_in_a_packet_from_syn_to_fin() {
    tier::needs!(tier::Need::Root);
    let (events, summary, server) = in_namespace(None, || exchange("127.0.0.1:0", 300_000));
    check(&events, server, 300_000);
    assert_eq!(summary.lost.packet_ring_buffer + summary.lost.packet_disorder + summary.lost.packet_no_room, 0);
}

#[test]
fn each_byte_is_in_a_packet_over_ipv6() {
    tier::needs!(tier::Need::Root);
    let (events, _, server) = in_namespace(None, || exchange("[::1]:0", 100_000));
    check(&events, server, 100_000);
}

#[test]
fn segments_of_gso_packets_follow_from_their_length() {
    tier::needs!(tier::Need::Root);
    let (events, ..) = in_namespace(None, || exchange("127.0.0.1:0", 200_000));
    let all = packets(&events);
    let segment = all.iter().filter(|p| p.segments == 1).map(|p| p.bytes).max().unwrap();
    assert!(all.iter().any(|p| p.segments > 1), "nothing was sent as a GSO packet");
    // 1500 less 40 of headers and 12 of the timestamps option.
    for packet in all.iter().filter(|p| p.bytes > 0) {
        assert_eq!(packet.segments, packet.bytes.div_ceil(1448), "{packet:?}");
    }
    assert!(segment <= 1448);
}

#[test]
fn existing_connections_are_followed_and_foreign_ones_are_not() {
    tier::needs!(tier::Need::Root);
    in_namespace(None, || {
        let (mut mine, mut peer) = pair_at("127.0.0.1:0");
        let (mut other, mut other_peer) = pair_at("127.0.0.1:0");
        let server = peer.local_addr().unwrap().port();
        let mut trace = Trace::start(&every(port(server)));
        for (from, to) in [(&mut mine, &mut peer), (&mut other, &mut other_peer)] {
            from.write_all(&[1; 5000]).unwrap();
            to.read_exact(&mut [0; 5000]).unwrap();
        }
        trace.poll();
        let (events, _) = trace.finish();
        let all = packets(&events);
        assert_eq!(all.iter().filter(|p| p.remote.port() == server).map(|p| p.bytes).sum::<u32>(), 5000);
        assert!(all.iter().all(|p| !p.retransmission));
        assert!(all.iter().all(|p| p.local.port() == server || p.remote.port() == server));
    });
}

#[test]
fn a_process_that_is_not_the_target_leaves_no_packet() {
    tier::needs!(tier::Need::Root);
    let mut idle = std::process::Command::new("sleep").arg("30").spawn().unwrap();
    let pid = idle.id();
    let events = in_namespace(None, move || {
        let config =
            Config { udp: true, ..every(crate::traffic::config(Target { pids: vec![pid], ..Target::default() })) };
        let trace = Trace::start(&config);
        let (mut client, mut server) = pair_at("127.0.0.1:0");
        client.write_all(&[1; 5000]).unwrap();
        server.read_exact(&mut [0; 5000]).unwrap();
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.send_to(b"x", socket.local_addr().unwrap()).unwrap();
        socket.recv(&mut [0; 1]).unwrap();
        trace.finish().0
    });
    idle.kill().unwrap();
    idle.wait().unwrap();
    assert!(events.is_empty(), "{events:?}");
}

/// Has a TCP socket throw away one in sixteen of the packets that come to it: ld [random]; and #15;
/// jeq #0, drop.
fn lossy(socket: &TcpListener) {
    let op = |code: u32, jt: u8, jf: u8, k: u32| libc::sock_filter { code: code as u16, jt, jf, k };
    let random = (libc::SKF_AD_OFF + 56) as u32;
    let mut filter = [
        op(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, random),
        op(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, 0, 0, 15),
        op(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, 0),
        op(libc::BPF_RET | libc::BPF_K, 0, 0, 0),
        op(libc::BPF_RET | libc::BPF_K, 0, 0, u32::MAX),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: the option takes a program, which lives until the call comes back.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const program).cast(),
            size_of_val(&program) as u32,
        )
    };
    assert_eq!(done, 0);
}

#[test]
fn retransmissions_are_those_that_the_kernel_counts_and_drops_have_its_reason() {
    tier::needs!(tier::Need::Root);
    in_namespace(None, || {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let mut trace = Trace::start(&every(port(at.port())));
        let mut client = std::net::TcpStream::connect(at).unwrap();
        lossy(&listener);
        let before = counter("snmp", "Tcp", "RetransSegs");
        let mut accepted: Vec<_> = vec![listener.accept().unwrap().0];
        // Children have the filter of their listener: only those that are made from here on.
        let mut clients: Vec<_> = (0..4)
            .map(|_| {
                let client = std::net::TcpStream::connect(at).unwrap();
                accepted.push(listener.accept().unwrap().0);
                client
            })
            .collect();
        let readers: Vec<_> = accepted.into_iter().map(crate::traffic::drain).collect();
        // Packets may be large and few, so that by chance none is lost: until one was.
        let mut written = 0;
        while written < 1_600_000 || counter("snmp", "Tcp", "RetransSegs") == before && written < 100_000_000 {
            for client in &mut clients {
                client.write_all(&vec![1; 100_000]).unwrap();
                written += 100_000;
            }
        }
        client.write_all(b"x").unwrap();
        drop((client, clients));
        let read: u64 = readers.into_iter().map(|r| r.join().unwrap()).sum();
        assert_eq!(read, written + 1);
        std::thread::sleep(std::time::Duration::from_millis(300));
        trace.poll();
        // The last ACK can be dropped, too, and the FIN before it leaves again while the trace
        // ends.
        let counted = counter("snmp", "Tcp", "RetransSegs") - before;
        let (events, summary) = trace.finish();
        let at_end = counter("snmp", "Tcp", "RetransSegs") - before;
        let all = packets(&events);
        let again: u64 = all.iter().filter(|p| p.retransmission).map(|p| u64::from(p.segments)).sum();
        assert!(counted > 0, "nothing was lost");
        // Where the kernel ran no program, segments are counted and have no record.
        assert!(
            again <= at_end && counted <= again + summary.lost.packet_unseen,
            "{again} of {counted} to {at_end}: {:?}",
            summary.lost
        );
        let dropped: Vec<_> = all.iter().filter_map(|p| Some((p.direction, p.dropped.as_ref()?))).collect();
        assert!(dropped.iter().all(|d| d.0 == Direction::Received));
        let filtered = dropped.iter().filter(|d| d.1.reason.to_string() == "SOCKET_FILTER").count() as u64;
        assert!(filtered > 0 && filtered <= counted + 100, "{filtered} by the filter, {counted} sent again");
    });
}

#[test]
fn what_the_packet_scheduler_drops_has_the_kernels_reason() {
    tier::needs!(tier::Need::Root);
    let (events, _, server) =
        in_namespace(Some("rate 20mbit burst 3kb limit 6kb"), || exchange("127.0.0.1:0", 300_000));
    let all = packets(&events);
    let dropped: Vec<_> = all.iter().filter(|p| p.dropped.is_some() && p.direction == Direction::Sent).collect();
    assert!(!dropped.is_empty());
    for packet in dropped {
        assert!(packet.driver.is_none(), "{packet:?}");
        assert!(packet.dropped.as_ref().unwrap().reason.to_string().starts_with("QDISC"), "{packet:?}");
    }
    let out: Vec<_> = all.iter().filter(|p| p.remote.port() == server && p.driver.is_some()).collect();
    assert!(out.iter().map(|p| u64::from(p.bytes)).sum::<u64>() >= 300_000);
    // At 20 Mbit/s a full segment takes 600 µs: the gaps between neighbours show it.
    let mut gaps: Vec<_> = out.iter().filter(|p| p.bytes == 1448).filter_map(|p| p.gap).map(|g| g.0).collect();
    gaps.sort_unstable();
    assert!(gaps[gaps.len() / 2] > 300_000, "median gap {} ns", gaps[gaps.len() / 2]);
}

#[test]
fn a_gso_packet_that_is_cut_up_before_the_driver_keeps_its_stages() {
    tier::needs!(tier::Need::Root, tier::Need::Path("/usr/sbin/ethtool"));
    let (events, summary, server) = in_namespace(None, || {
        let off = std::process::Command::new("/usr/sbin/ethtool").args(["-K", "lo", "tso", "off"]).status().unwrap();
        assert!(off.success());
        exchange("127.0.0.1:0", 200_000)
    });
    check(&events, server, 200_000);
    let all = packets(&events);
    assert!(all.iter().any(|p| p.segments > 1));
    assert_eq!(summary.lost.packet_unfinished, 0);
}

/// A frame of a capture: length, and time on CLOCK_REALTIME.
struct Frame {
    bytes: u32,
    at: u64,
}

/// What leaves over loopback from or to this TCP port, until nothing comes for half a second.
fn capture() -> std::os::fd::OwnedFd {
    // SAFETY: socket() takes three numbers.
    let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW, i32::from((libc::ETH_P_ALL as u16).to_be())) };
    assert!(fd >= 0);
    let (wait, room) = (libc::timeval { tv_sec: 0, tv_usec: 500_000 }, 64 << 20);
    let mut at = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a timeval and an int, with their sizes, and a timespec to write; the descriptor was
    // just made and is nobody else's.
    unsafe {
        let of = |option, value: *const libc::c_void, size: usize| {
            assert_eq!(libc::setsockopt(fd, libc::SOL_SOCKET, option, value, size as u32), 0);
        };
        of(libc::SO_RCVTIMEO, (&raw const wait).cast(), size_of_val(&wait));
        of(libc::SO_RCVBUFFORCE, (&raw const room).cast::<libc::c_void>(), size_of::<i32>());
        // Asking for a stamp, though there is none yet, has the kernel take them from here on.
        libc::ioctl(fd, 0x8907, &raw mut at);
        std::os::fd::FromRawFd::from_raw_fd(fd)
    }
}

fn frames(socket: &std::os::fd::OwnedFd, port: u16) -> Vec<Frame> {
    let mut frames = Vec::new();
    let mut bytes = vec![0u8; 70_000];
    loop {
        // SAFETY: a socket address of zeros is one; recvfrom writes at most as many bytes as it is
        // told there are.
        let mut from: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        let mut length = size_of_val(&from) as u32;
        // SAFETY: as above.
        let got = unsafe {
            libc::recvfrom(
                socket.as_raw_fd(),
                bytes.as_mut_ptr().cast(),
                bytes.len(),
                0,
                (&raw mut from).cast(),
                &raw mut length,
            )
        };
        if got < 0 {
            return frames;
        }
        let ports = [&bytes[34..36], &bytes[36..38]].map(|p| u16::from_be_bytes([p[0], p[1]]));
        let tcp = bytes[12..14] == [8, 0] && bytes[23] == 6;
        // Of the two copies that loopback gives, the one that leaves.
        if from.sll_pkttype != 4 || !tcp || !ports.contains(&port) {
            continue;
        }
        let mut at = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: SIOCGSTAMPNS (0x8907) writes one timespec: the stamp of the packet read last.
        assert_eq!(unsafe { libc::ioctl(socket.as_raw_fd(), 0x8907, &raw mut at) }, 0);
        frames.push(Frame { bytes: got as u32, at: at.tv_sec as u64 * 1_000_000_000 + at.tv_nsec as u64 });
    }
}

#[test]
fn every_packet_is_in_a_capture_of_the_same_time_and_no_other() {
    tier::needs!(tier::Need::Root);
    in_namespace(None, || {
        let socket = capture();
        let offset = {
            let read = |clock| {
                let mut at = libc::timespec { tv_sec: 0, tv_nsec: 0 };
                // SAFETY: writes one timespec.
                unsafe { libc::clock_gettime(clock, &raw mut at) };
                at.tv_sec as u64 * 1_000_000_000 + at.tv_nsec as u64
            };
            read(libc::CLOCK_REALTIME) - read(libc::CLOCK_MONOTONIC)
        };
        let (events, _, port) = exchange("127.0.0.1:0", 500_000);
        let captured = frames(&socket, port);
        let mut told: Vec<_> = packets(&events).into_iter().filter(|p| p.driver.is_some()).collect();
        told.sort_by_key(|p| p.driver);
        let lengths: Vec<_> = told.iter().map(|p| p.frame_bytes).collect();
        let mut on_tap: Vec<_> = captured.iter().map(|f| f.bytes).collect();
        let mut sorted = lengths.clone();
        sorted.sort_unstable();
        on_tap.sort_unstable();
        assert_eq!(sorted, on_tap);
        // The tap is just before the driver. Half of them within 50 µs, whatever else the machine
        // does.
        let mut apart: Vec<_> =
            told.iter().zip(&captured).map(|(p, f)| (p.driver.unwrap().as_nanos() + offset).abs_diff(f.at)).collect();
        apart.sort_unstable();
        assert!(apart[apart.len() / 2] < 50_000, "median {} ns", apart[apart.len() / 2]);
    });
}
