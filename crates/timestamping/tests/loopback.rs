//! The library against the running kernel, over loopback.

use std::io::{IoSlice, Read, Write};
use std::net::{Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::time::{Duration, Instant as Deadline};

use clock::Realtime;
use socket2::{Domain, Protocol, SockAddr, SockAddrStorage, Socket, Type};
use timestamping::{
    BatchSize, Counting, Enabled, Error, ErrorQueue, Flags, Matched, Matcher, Ready, Receiver, Report, Request,
    SendOptions, SocketKind, Stages, TransmitStage, now, wait,
};

/// Long enough for any machine; reached only where something is lost.
const PATIENCE: Duration = Duration::from_secs(20);

/// Reads stamps until the matcher has all, and gives the sends in order.
fn gather<T>(socket: impl AsFd, matcher: &mut Matcher<T>, mut other: impl FnMut(String)) -> Vec<Matched<T>> {
    let (mut queue, start) = (ErrorQueue::default(), Deadline::now());
    while matcher.pending() > 0 && start.elapsed() < PATIENCE {
        wait(socket.as_fd(), Ready::default(), Duration::from_millis(100)).unwrap();
        queue
            .drain(socket.as_fd(), |report| match report.unwrap() {
                Report::Stamp(stamp) => {
                    matcher.stamp(&stamp);
                }
                unexpected => other(format!("{unexpected:?}")),
            })
            .unwrap();
    }
    matcher.give_up();
    std::iter::from_fn(|| matcher.finished()).collect()
}

fn udp_pair(address: &str) -> (UdpSocket, UdpSocket) {
    let server = UdpSocket::bind(address).unwrap();
    let client = UdpSocket::bind(address).unwrap();
    client.connect(server.local_addr().unwrap()).unwrap();
    (client, server)
}

fn tcp_pair(address: &str) -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind(address).unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    client.set_nodelay(true).unwrap();
    (client, listener.accept().unwrap().0)
}

/// The kernel turns receive stamps on in the background, so the first packets may be without. The
/// sockets keep them on.
fn receive_stamps_on() -> (UdpSocket, UdpSocket) {
    let (client, server) = udp_pair("127.0.0.1:0");
    Request::new().receive_software().enable(&server).unwrap();
    let (mut receiver, mut stamped, start) = (Receiver::new(BatchSize::default()), false, Deadline::now());
    while !stamped {
        assert!(start.elapsed() < PATIENCE, "no receive stamps");
        client.send(&[0; 10]).unwrap();
        receiver.receive(&server, |d| stamped |= d.unwrap().times.software.is_some()).unwrap();
    }
    (client, server)
}

fn assert_order<T>(sends: &[Matched<T>], stages: &[TransmitStage]) {
    for send in sends {
        assert!(send.since_sent(stages[0]).unwrap().is_some());
        for pair in stages.windows(2) {
            assert!(send.between(pair[0], pair[1]).unwrap().is_some(), "{:?} of send {}", pair, send.id);
        }
    }
}

#[test]
fn udp_gives_every_stage_of_every_datagram_in_order_over_both_families() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let (client, _server) = udp_pair(address);
        let enabled = Request::new().transmit(Stages::SCHED | Stages::DRIVER).packet_info().enable(&client).unwrap();
        assert_eq!((enabled.kind(), enabled.counting()), (SocketKind::Udp, Counting::Datagrams));
        let mut matcher = Matcher::new(enabled.counting(), enabled.stages(), 1000);
        for i in 0..100 {
            let before = now::<Realtime>();
            let bytes = client.send(&[0; 50]).unwrap();
            assert_eq!(matcher.sent(bytes, before, ()), Some(i));
        }
        let sends = gather(&client, &mut matcher, |s| panic!("{s}"));
        assert_eq!((matcher.counts().complete, matcher.counts().repeated, matcher.counts().unknown), (100, 0, 0));
        assert_order(&sends, &[TransmitStage::Sched, TransmitStage::Driver]);
    }
}

#[test]
fn tcp_gives_sched_driver_and_ack_with_figures_and_byte_ids() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let (mut client, mut server) = tcp_pair(address);
        // Bytes written before the request do not count.
        client.write_all(b"before").unwrap();
        let mut buffer = [0; 4096];
        server.read_exact(&mut buffer[..6]).unwrap();
        let request = Request::new().transmit(Stages::SCHED | Stages::DRIVER | Stages::ACK).stats();
        let enabled = match request.enable(&client) {
            Err(error @ Error::Unsupported { .. }) => {
                return tier::skip("tcp_gives_sched_driver_and_ack_with_figures_and_byte_ids", &error.to_string());
            }
            enabled => enabled.unwrap(),
        };
        let mut matcher = Matcher::new(enabled.counting(), enabled.stages(), 1000);
        let mut ids = Vec::new();
        for size in [1, 1000, 7, 1448, 3] {
            let before = now::<Realtime>();
            client.write_all(&buffer[..size]).unwrap();
            ids.extend(matcher.sent(size, before, size));
            server.read_exact(&mut buffer[..size]).unwrap();
        }
        assert_eq!(ids, [0, 1000, 1007, 2455, 2458]);
        let (mut queue, mut with_stats, start) = (ErrorQueue::default(), 0, Deadline::now());
        while matcher.pending() > 0 && start.elapsed() < PATIENCE {
            wait(&client, Ready::default(), Duration::from_millis(100)).unwrap();
            queue
                .drain(&client, |report| {
                    let Report::Stamp(stamp) = report.unwrap() else { panic!("no stamp") };
                    let stats = stamp.stats().unwrap().expect("figures were asked for");
                    assert!(stats.congestion_window.unwrap() > 0 && stats.bytes_sent.unwrap() > 0, "{stats:?}");
                    with_stats += 1;
                    assert!(matcher.stamp(&stamp).is_some());
                })
                .unwrap();
        }
        assert_eq!((matcher.counts().complete, with_stats), (5, 15));
        let sends: Vec<_> = std::iter::from_fn(|| matcher.finished()).collect();
        assert_order(&sends, &[TransmitStage::Sched, TransmitStage::Driver, TransmitStage::Ack]);
    }
}

#[test]
fn one_send_in_ten_is_stamped_when_only_that_asks() {
    let (client, mut server) = tcp_pair("127.0.0.1:0");
    let enabled = Request::new().transmit_per_send(Stages::SCHED | Stages::ACK).lenient().enable(&client).unwrap();
    let mut matcher = Matcher::new(enabled.counting(), enabled.stages(), 100);
    let mut buffer = [0; 20];
    for i in 0..100 {
        let sampled = i % 10 == 3;
        let options = SendOptions { stages: sampled.then_some(enabled.stages()), ..SendOptions::default() };
        let before = now::<Realtime>();
        let bytes = enabled.send(&client, &[IoSlice::new(&[7; 20])], &options).unwrap();
        assert_eq!(bytes, 20);
        if sampled {
            matcher.sent(bytes, before, i);
        } else {
            matcher.sent_unstamped(bytes);
        }
        server.read_exact(&mut buffer).unwrap();
    }
    let sends = gather(&client, &mut matcher, |s| panic!("{s}"));
    assert_eq!(sends.iter().map(|s| s.tag).collect::<Vec<_>>(), [3, 13, 23, 33, 43, 53, 63, 73, 83, 93]);
    assert_eq!((matcher.counts().complete, matcher.counts().unknown), (10, 0));
    assert_order(&sends, &[TransmitStage::Sched, TransmitStage::Ack]);
}

#[test]
fn ids_of_ones_own_go_over_the_wrap_of_32_bits() {
    let (client, _server) = udp_pair("127.0.0.1:0");
    let enabled = Request::new().transmit_per_send(Stages::SCHED | Stages::DRIVER).enable(&client).unwrap();
    let mut matcher = Matcher::new(enabled.counting(), enabled.stages(), 100);
    let first = (5u64 << 32) - 10;
    for id in first..first + 20 {
        let options = SendOptions { stages: Some(enabled.stages()), id: Some(id as u32), to: None };
        let before = now::<Realtime>();
        match enabled.send(&client, &[IoSlice::new(b"x")], &options) {
            Err(Error::Unsupported { .. }) => return tier::skip("ids_of_ones_own", "needs SCM_TS_OPT_ID (Linux 6.13)"),
            sent => assert_eq!(sent.unwrap(), 1),
        };
        assert!(matcher.sent_with_id(id, before, ()));
    }
    let sends = gather(&client, &mut matcher, |s| panic!("{s}"));
    assert_eq!(sends.iter().map(|s| s.id).collect::<Vec<_>>(), (first..first + 20).collect::<Vec<_>>());
    assert!(sends.iter().all(Matched::is_complete));
    assert_eq!(matcher.counts().unknown, 0);
    assert_order(&sends, &[TransmitStage::Sched, TransmitStage::Driver]);
}

#[test]
fn icmp_errors_among_stamps_are_distinguished() {
    let _on = receive_stamps_on();
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let (client, server) = udp_pair(address);
        let enabled = Request::new().transmit(Stages::SCHED | Stages::DRIVER).receive_software().icmp_errors();
        let enabled = enabled.enable(&client).unwrap();
        let mut matcher = Matcher::new(enabled.counting(), enabled.stages(), 1000);
        let closed: SocketAddr = server.local_addr().unwrap();
        drop(server);
        let mut refused = 0;
        for i in 0..40u8 {
            let before = now::<Realtime>();
            match client.send(&[i; 9]) {
                Ok(bytes) => drop(matcher.sent(bytes, before, i)),
                // The error of an earlier datagram: this one was not sent.
                Err(e) if e.kind() == std::io::ErrorKind::ConnectionRefused => refused += 1,
                Err(e) => panic!("{e}"),
            }
        }
        let sent = matcher.counts().sent;
        assert!(refused > 0 && sent > 0);
        let (mut queue, mut icmp, start) = (ErrorQueue::default(), Vec::new(), Deadline::now());
        while (matcher.pending() > 0 || (icmp.len() as u64) < sent) && start.elapsed() < PATIENCE {
            wait(&client, Ready::default(), Duration::from_millis(100)).unwrap();
            queue
                .drain(&client, |report| match report.unwrap() {
                    Report::Stamp(stamp) => assert!(matcher.stamp(&stamp).is_some()),
                    Report::Icmp(error) => {
                        assert_eq!((error.name(), error.offender), ("port unreachable", Some(closed.ip())));
                        assert_eq!(error.payload.len(), 9);
                        assert!(error.times.software.is_some(), "an error has a receive stamp");
                        icmp.push(error.payload[0]);
                    }
                    unexpected => panic!("{unexpected:?}"),
                })
                .unwrap();
        }
        let sends: Vec<_> = std::iter::from_fn(|| matcher.finished()).collect();
        assert_eq!(icmp, sends.iter().map(|s| s.tag).collect::<Vec<_>>(), "one error a datagram, in order");
        assert_eq!((matcher.counts().complete, matcher.counts().unknown), (sent, 0));
        assert_order(&sends, &[TransmitStage::Sched, TransmitStage::Driver]);
    }
}

#[test]
fn received_datagrams_have_the_time_they_entered_the_stack() {
    let (client, server) = udp_pair("127.0.0.1:0");
    Request::new().receive_software().only_own_receive_stamps().count_drops().lenient().enable(&server).unwrap();
    let mut receiver = Receiver::new(BatchSize { messages: 8, payload: 100, control: 256 });
    let _on = receive_stamps_on();
    let start = Deadline::now();
    let before = now::<Realtime>();
    for size in [10, 100, 101] {
        client.send(&vec![9; size]).unwrap();
    }
    let mut seen = Vec::new();
    while seen.len() < 3 && start.elapsed() < PATIENCE {
        receiver
            .receive(&server, |d| {
                let d = d.unwrap();
                if d.payload[0] == 9 {
                    assert_eq!(d.from, Some(client.local_addr().unwrap()));
                    let at = d.times.software.expect("a stamp");
                    at.since(before).unwrap();
                    now::<Realtime>().since(at).unwrap();
                    seen.push((d.payload.len(), d.cut));
                }
            })
            .unwrap();
    }
    assert_eq!(seen, [(10, false), (100, false), (100, true)]);
}

#[test]
fn what_the_socket_dropped_is_reported() {
    let (client, server) = udp_pair("127.0.0.1:0");
    Request::new().receive_software().count_drops().enable(&server).unwrap();
    for _ in 0..2000 {
        client.send(&[0; 1000]).unwrap();
    }
    let drops = timestamping::socket_memory(&server).unwrap().drops;
    assert!(drops > 0);
    // The counter rides on datagrams that came after a drop.
    let (mut receiver, mut told, mut got) = (Receiver::new(BatchSize::default()), None, 0);
    while receiver.receive(&server, |d| told = d.unwrap().dropped.or(told)).unwrap() > 0 {
        got += 1;
    }
    assert!(got > 0);
    client.send(&[1]).unwrap();
    wait(&server, Ready { readable: true, ..Ready::default() }, PATIENCE).unwrap();
    receiver.receive(&server, |d| told = d.unwrap().dropped.or(told)).unwrap();
    assert_eq!(told, Some(drops));
}

#[test]
fn stamps_beyond_the_receive_buffer_are_counted_by_their_missing_ids() {
    let (client, _server) = udp_pair("127.0.0.1:0");
    let enabled = Request::new().transmit(Stages::SCHED | Stages::DRIVER).enable(&client).unwrap();
    let mut matcher = Matcher::new(enabled.counting(), enabled.stages(), 10_000);
    for _ in 0..2000 {
        let before = now::<Realtime>();
        matcher.sent(client.send(&[0; 10]).unwrap(), before, ());
    }
    let mut queue = ErrorQueue::default();
    let came = queue.drain(&client, |r| {
        let Ok(Report::Stamp(stamp)) = r else { panic!() };
        matcher.stamp(&stamp);
    });
    matcher.give_up();
    let c = matcher.counts();
    assert!(c.incomplete > 0, "the queue should have overflowed");
    assert_eq!(c.never_came.iter().sum::<u64>() + c.matched, 4000, "every stamp is accounted for");
    assert_eq!((c.matched, c.unknown, c.repeated), (came.unwrap() as u64, 0, 0));
}

#[test]
fn reserved_room_holds_what_it_says() {
    let (client, _server) = udp_pair("127.0.0.1:0");
    // More than a default socket holds, less than `net.core.rmem_max` allows anybody.
    let wanted = 400;
    if timestamping::reserve_stamps(&client, wanted).unwrap() < wanted {
        return tier::skip("reserved_room", "net.core.rmem_max is small here");
    }
    let enabled = Request::new().transmit(Stages::SCHED | Stages::DRIVER).enable(&client).unwrap();
    let mut matcher = Matcher::new(enabled.counting(), enabled.stages(), 1000);
    for _ in 0..wanted / 2 {
        let before = now::<Realtime>();
        matcher.sent(client.send(&[0; 10]).unwrap(), before, ());
    }
    gather(&client, &mut matcher, |s| panic!("{s}"));
    assert_eq!((matcher.counts().complete, matcher.counts().incomplete), (u64::from(wanted / 2), 0));
}

#[test]
fn what_cannot_be_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let ack = Request::new().transmit(Stages::ACK);
    assert!(matches!(ack.enable(&listener), Err(Error::NotConnected)));
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    assert!(matches!(ack.enable(&udp), Err(Error::WrongSocket { kind: SocketKind::Udp, .. })));
    assert!(matches!(Request::new().transmit(Stages::SCHED).stats().enable(&udp), Err(Error::WrongSocket { .. })));
    let (client, _server) = tcp_pair("127.0.0.1:0");
    assert!(matches!(ack.clone().stats().with_payload().enable(&client), Err(Error::Contradiction(_))));
    let enabled = ack.lenient().enable(&client).unwrap();
    let own_id = SendOptions { id: Some(1), ..SendOptions::default() };
    assert!(matches!(enabled.send(&client, &[], &own_id), Err(Error::WrongSocket { .. })));
    // A clock that is not there is the clock's fault, not the kernel's age.
    let no_clock = Request::new().receive_hardware().bind_phc(9999).enable(&udp);
    assert!(matches!(no_clock, Err(Error::System { .. })), "{no_clock:?}");
    let file = std::fs::File::open("/dev/null").unwrap();
    assert!(matches!(Request::new().receive_software().enable(&file), Err(Error::System { .. })));
}

/// A bit that no kernel has stands for one that is too new: it is found by trying, alone, and named
/// with a version.
#[test]
fn an_option_the_kernel_lacks_is_found_by_trying() {
    let (client, _server) = udp_pair("127.0.0.1:0");
    let future = Flags::from_bits_retain(1 << 30);
    let request = Request::new().transmit(Stages::SCHED).flags(future);
    let refused = request.enable(&client);
    assert!(matches!(&refused, Err(Error::Unsupported { .. })), "{refused:?}");
    let enabled: Enabled = request.lenient().enable(&client).unwrap();
    assert_eq!(enabled.left_out(), future);
    assert_eq!(enabled.stages(), Stages::SCHED);
    client.send(b"x").unwrap();
    let mut matcher = Matcher::new(enabled.counting(), enabled.stages(), 1);
    matcher.sent(1, now(), ());
    assert_eq!(gather(&client, &mut matcher, |s| panic!("{s}")).len(), 1);
    assert_eq!(matcher.counts().complete, 1);
}

#[test]
fn a_packet_socket_and_a_raw_socket_give_stamps() {
    tier::needs!(tier::Need::Root);
    for (domain, protocol, to) in [
        (Domain::IPV4, Protocol::ICMPV4, SocketAddr::from(([127, 0, 0, 1], 0))),
        (Domain::IPV6, Protocol::ICMPV6, SocketAddr::from((Ipv6Addr::LOCALHOST, 0))),
    ] {
        let raw = Socket::new(domain, Type::RAW, Some(protocol)).unwrap();
        let enabled = Request::new().transmit(Stages::SCHED | Stages::DRIVER).enable(&raw).unwrap();
        assert_eq!(enabled.kind(), SocketKind::Raw);
        let mut matcher = Matcher::new(enabled.counting(), enabled.stages(), 10);
        let echo = if domain == Domain::IPV4 { [8, 0, 0xf7, 0xff, 0, 0, 0, 0] } else { [128, 0, 0, 0, 0, 0, 0, 0] };
        for _ in 0..5 {
            let before = now::<Realtime>();
            let options = SendOptions { to: Some(to), ..SendOptions::default() };
            let bytes = enabled.send(&raw, &[IoSlice::new(&echo)], &options).unwrap();
            matcher.sent(bytes, before, ());
        }
        let sends = gather(&raw, &mut matcher, |s| panic!("{s}"));
        assert_eq!(matcher.counts().complete, 5);
        assert_order(&sends, &[TransmitStage::Sched, TransmitStage::Driver]);
    }
    let packet = Socket::new(Domain::PACKET, Type::DGRAM, None).unwrap();
    let enabled = Request::new().transmit(Stages::SCHED | Stages::DRIVER).enable(&packet).unwrap();
    assert_eq!(enabled.kind(), SocketKind::Packet);
    let lo = timestamping::Interface::by_name("lo").unwrap();
    let to = on_link(lo.index());
    let mut matcher = Matcher::new(enabled.counting(), enabled.stages(), 10);
    for _ in 0..5 {
        let before = now::<Realtime>();
        assert_eq!(packet.send_to(b"stamps", &to).unwrap(), 6);
        matcher.sent(6, before, ());
    }
    let sends = gather(&packet, &mut matcher, |s| panic!("{s}"));
    assert_eq!(matcher.counts().complete, 5);
    assert_order(&sends, &[TransmitStage::Sched, TransmitStage::Driver]);
}

/// A packet socket's address: the hardware address of zeroes on this interface.
fn on_link(interface: u32) -> SockAddr {
    let mut storage = SockAddrStorage::zeroed();
    // SAFETY: the view is of zeroes, which are a valid sockaddr_ll.
    let to = unsafe { storage.view_as::<libc::sockaddr_ll>() };
    to.sll_family = libc::AF_PACKET as u16;
    to.sll_protocol = 0x88b5u16.to_be(); // an EtherType kept for experiments
    to.sll_ifindex = i32::try_from(interface).unwrap();
    to.sll_halen = 6;
    // SAFETY: the storage holds a whole sockaddr_ll, and the length is that of one.
    unsafe { SockAddr::new(storage, size_of::<libc::sockaddr_ll>() as libc::socklen_t) }
}
