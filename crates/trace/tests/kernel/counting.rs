//! Nothing is lost silently: what is delivered and what is counted as lost make up what was sent.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::num::NonZeroU32;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use record::{Event, Ratio, Sampling};
use tier::Need;
use trace::baselines::{Callbacks, callbacks};
use trace::{Backend, Config, Summary, Target};

use crate::histograms::{kernel_bytes, kernel_bytes_where};
use crate::traffic::{self, Trace, accept_one, accounted, pair, sends};

const BTF: Need<'static> = Need::Path("/sys/kernel/btf/vmlinux");

/// Nothing leaves while a socket is corked: all of them leave in one packet, with one tag.
#[test]
fn each_write_of_a_packet_has_its_own_record() {
    tier::needs!(Need::Root, BTF);
    for backend in traffic::BACKENDS {
        let (mut client, server) = pair();
        let mut trace = Trace::start(&traffic::on(traffic::port(server.local_addr().unwrap().port()), backend));
        traffic::set(&client, libc::IPPROTO_TCP, libc::TCP_CORK, 1);
        for _ in 0..40 {
            client.write_all(&[0; 10]).unwrap();
        }
        std::thread::sleep(Duration::from_millis(5));
        traffic::set(&client, libc::IPPROTO_TCP, libc::TCP_CORK, 0);
        trace.until(40);
        let (events, summary) = trace.finish();
        let sends = sends(&events);
        assert_eq!((sends.len(), summary.lost.inferred), (40, 0), "{backend}: {:?}", summary.lost);
        for (first, next) in sends.iter().zip(&sends[1..]) {
            let (of, and) = (first.stamps, next.stamps);
            assert!(of.send < and.send && first.last_seq().add(1) == next.first_seq, "{backend}: {first:?} {next:?}");
            assert_eq!([of.sched, of.driver, of.ack], [and.sched, and.driver, and.ack], "{backend}");
        }
        let cork = |send: &record::Send| send.wait.is_some_and(|wait| wait.reason() == record::WaitReason::Cork);
        let other = sends.iter().find(|send| send.stamps.sched.is_none() || !cork(send));
        assert_eq!(other, None, "{backend}");
    }
}

/// Writes `count` times 1 KiB on each of the sockets, as fast as they take it.
fn stream(sockets: Vec<std::net::TcpStream>, count: usize) -> std::thread::JoinHandle<u64> {
    std::thread::spawn(move || {
        let mut sent = 0;
        for _ in 0..count {
            for mut socket in &sockets {
                socket.write_all(&[0; 1024]).unwrap();
                sent += 1;
            }
        }
        sent
    })
}

#[test]
fn a_full_ring_buffer_and_full_rows_are_counted_exactly() {
    tier::needs!(Need::Root, BTF);
    let (client, server) = pair();
    let config = Config {
        slots_per_connection: 16,
        ring_bytes: Some(4096),
        ..traffic::port(server.local_addr().unwrap().port())
    };
    let trace = Trace::start(&config);
    let reader = traffic::drain(server);
    let sent = stream(vec![client], 50_000).join().unwrap();
    reader.join().unwrap();
    let (events, summary) = trace.finish();
    let sends = sends(&events);
    assert!(summary.lost.ring_buffer > 0, "{:?}", summary.lost);
    assert_eq!(accounted(&sends, &summary.lost), sent, "{:?}", summary.lost);
}

fn many_descriptors(most: u64) {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: each call takes one rlimit.
    unsafe {
        libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit);
        // Root may raise the hard limit too.
        let raised = libc::rlimit { rlim_cur: most, rlim_max: limit.rlim_max.max(most) };
        if libc::setrlimit(libc::RLIMIT_NOFILE, &raw const raised) != 0 {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
        }
    }
}

#[test]
fn a_thousand_connections_are_all_accounted_for() {
    tier::needs!(Need::Root, BTF);
    many_descriptors(20_000);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let config = Config { max_connections: 2048, slots_per_connection: 64, ..traffic::port(port) };
    let mut trace = Trace::start(&config);
    let mut pairs: Vec<_> = (0..1000).map(|_| accept_one(&listener)).collect();
    for _ in 0..5 {
        for (client, server) in &mut pairs {
            client.write_all(&[1; 64]).unwrap();
            server.read_exact(&mut [0; 64]).unwrap();
        }
        trace.poll();
    }
    trace.until(5_000);
    drop(pairs);
    let (events, summary) = trace.finish();
    assert_eq!(accounted(&sends(&events), &summary.lost), 5_000, "{:?}", summary.lost);
    assert_eq!(traffic::connections(&events).len(), 2000);
    assert_eq!(summary.lost.connections_full, 0);
}

#[test]
fn connections_without_room_are_counted() {
    tier::needs!(Need::Root, BTF);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let config = Config { max_connections: 2, ..traffic::port(listener.local_addr().unwrap().port()) };
    let trace = Trace::start(&config);
    let pairs = [accept_one(&listener), accept_one(&listener)];
    let (events, summary) = trace.finish();
    assert_eq!(traffic::connections(&events).len(), 2);
    assert_eq!(summary.lost.connections_full, 2);
    drop(pairs);
}

/// What a pass says of a thousand connections, where it picks them up and where it lets them go, is
/// many times what the ring buffer has room for.
fn a_small_ring_buffer(backend: Backend) {
    many_descriptors(20_000);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let pairs: Vec<_> = (0..500).map(|_| accept_one(&listener)).collect();
    let config = Config {
        max_connections: 1024,
        ring_bytes: Some(1 << 14),
        ..traffic::on(traffic::port(listener.local_addr().unwrap().port()), backend)
    };
    let trace = Trace::start(&config);
    for (client, _) in &pairs {
        let mut client = client;
        client.write_all(&[1; 64]).unwrap();
    }
    let (events, Summary { lost, .. }) = trace.finish();
    let count = |of: fn(&Event) -> bool| events.iter().filter(|event| of(event)).count();
    assert_eq!((lost.connection_records, lost.connect_ring_buffer), (0, 0), "{lost:?}");
    assert_eq!(traffic::connections(&events).len(), 1_000);
    assert_eq!(count(|event| matches!(event, Event::Closed { .. })), 1_000);
    assert_eq!(count(|event| matches!(event, Event::Connect(_))), 1_000);
    assert_eq!(accounted(&sends(&events), &lost), 500, "{lost:?}");
}

#[test]
fn a_pass_over_many_connections_waits_for_the_ring_buffer_to_be_read() {
    tier::needs!(Need::Root, BTF);
    a_small_ring_buffer(Backend::Timestamping);
}

#[test]
fn by_tracepoints_too_a_pass_waits_for_the_ring_buffer_to_be_read() {
    tier::needs!(Need::Root, BTF);
    a_small_ring_buffer(Backend::Tracepoints);
}

/// Streams as fast as may be for `length`; gives what was sent, what came, and the summary.
fn flood(config: Config, listener: &TcpListener, connections: usize, length: Duration) -> (u64, Trace) {
    let mut trace = Trace::start(&config);
    let (clients, servers): (Vec<_>, Vec<_>) = (0..connections).map(|_| accept_one(listener)).unzip();
    let readers: Vec<_> = servers.into_iter().map(traffic::drain).collect();
    let writer = std::thread::spawn(move || {
        let (end, mut sent) = (Instant::now() + length, 0);
        while Instant::now() < end {
            for mut client in &clients {
                client.write_all(&[0; 1024]).unwrap();
                sent += 1;
            }
        }
        sent
    });
    while !writer.is_finished() {
        trace.tracer.poll(Duration::from_millis(5), &mut |event| trace.events.push(event)).unwrap();
    }
    let sent = writer.join().unwrap();
    for reader in readers {
        reader.join().unwrap();
    }
    (sent, trace)
}

/// Each request waits for its answer, so that records come one after the other without end.
#[test]
fn while_records_keep_coming_many_are_read_together() {
    tier::needs!(Need::Root, BTF);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut trace = Trace::start(&traffic::port(listener.local_addr().unwrap().port()));
    let (client, server) = accept_one(&listener);
    let answers = std::thread::spawn(move || {
        let mut byte = [0];
        while (&server).read_exact(&mut byte).is_ok() {
            (&server).write_all(&byte).unwrap();
        }
    });
    let asks = std::thread::spawn(move || {
        let end = Instant::now() + Duration::from_millis(500);
        while Instant::now() < end {
            (&client).write_all(&[1]).unwrap();
            (&client).read_exact(&mut [0]).unwrap();
        }
    });
    let (begun, mut reads) = (Instant::now(), 0);
    while !asks.is_finished() {
        let before = trace.events.len();
        trace.tracer.poll(Duration::from_millis(100), &mut |event| trace.events.push(event)).unwrap();
        reads += u128::from(trace.events.len() > before);
        // As long as outputs may take: the next records are there by then.
        std::thread::sleep(Duration::from_micros(500));
    }
    // The shortest pause is 5 ms, and none comes before the first.
    let most = begun.elapsed().as_millis() / 5 + 1;
    assert!((1..=most).contains(&reads), "{reads} reads for {} events, {most} at most", trace.events.len());
    asks.join().unwrap();
    answers.join().unwrap();
}

#[test]
fn a_flood_is_accounted_for_exactly() {
    tier::needs!(Need::Root, BTF);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let config = traffic::port(listener.local_addr().unwrap().port());
    let (sent, trace) = flood(config, &listener, 8, Duration::from_secs(2));
    let (events, summary) = trace.finish();
    let lost = summary.lost;
    assert_eq!(accounted(&sends(&events), &lost) + lost.unstamped, sent, "{lost:?}");
    assert_eq!(lost.disorder, 0, "{lost:?}");
}

#[test]
#[ignore = "twenty seconds of full load"]
fn twenty_seconds_of_flood_are_accounted_for_exactly() {
    tier::needs!(Need::Root, BTF);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let config = traffic::port(listener.local_addr().unwrap().port());
    let memory = config.memory().unwrap();
    let (sent, trace) = flood(config, &listener, 8, Duration::from_secs(20));
    let bound = memory.most();
    let (events, summary) = trace.finish();
    let lost = summary.lost;
    eprintln!("{sent} sends, {} a second, kernel memory at most {bound} bytes, {lost:?}", sent / 20);
    assert_eq!(accounted(&sends(&events), &lost) + lost.unstamped, sent, "{lost:?}");
}

#[test]
fn a_rate_limit_holds_and_what_it_passes_over_is_counted() {
    tier::needs!(Need::Root, BTF);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let config = Config { max_rate: NonZeroU32::new(500), ..traffic::port(listener.local_addr().unwrap().port()) };
    let (_, trace) = flood(config, &listener, 1, Duration::from_secs(3));
    let (events, summary) = trace.finish();
    let mut at: Vec<_> = sends(&events).iter().map(|s| s.stamps.send.as_nanos()).collect();
    at.sort_unstable();
    // The kernel counts by its own seconds, so any second of ours meets two of them.
    let most = at.iter().map(|&t| at.iter().filter(|&&u| u >= t && u < t + 1_000_000_000).count()).max().unwrap();
    assert!(most <= 1_000, "{most} in a second");
    assert!(summary.lost.over_rate > 0);
    assert!(summary.coverage.armed < summary.coverage.followed);
}

/// Sends 1,000 bytes on each of these sockets every so often for `length`, as far as the machine
/// keeps up.
fn pace(mut clients: Vec<std::net::TcpStream>, every: Duration, length: Duration) -> std::thread::JoinHandle<u64> {
    std::thread::spawn(move || {
        let (start, mut next, mut sent) = (Instant::now(), Duration::ZERO, 0);
        while next < length {
            std::thread::sleep(next.saturating_sub(start.elapsed()));
            for client in &mut clients {
                client.write_all(&[0; 1_000]).unwrap();
                sent += 1;
            }
            next += every;
        }
        sent
    })
}

fn windows(every: u32, port: u16) -> Config {
    Config { sampling: Sampling::Windows(Ratio(NonZeroU32::new(every).unwrap())), ..traffic::port(port) }
}

#[test]
fn windows_cover_the_share_that_was_asked_for_on_each_connection() {
    tier::needs!(Need::Root, BTF);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let trace = Trace::start(&windows(5, listener.local_addr().unwrap().port()));
    let (clients, servers): (Vec<_>, Vec<_>) = (0..8).map(|_| accept_one(&listener)).unzip();
    let readers: Vec<_> = servers.into_iter().map(traffic::drain).collect();
    // Nothing polls meanwhile: the stretches do not depend on it.
    pace(clients, Duration::from_millis(1), Duration::from_secs(4)).join().unwrap();
    for reader in readers {
        reader.join().unwrap();
    }
    let (events, summary) = trace.finish();
    // Some 400 stretches of each connection in 4 s, and one in each block of five is looked at. The
    // stretches of an end that sends nothing do not end, so only those that send show the share.
    let totals = events.iter().filter_map(|event| match event {
        Event::Closed { totals, .. } if totals.bytes_written > 0 => Some(*totals),
        _ => None,
    });
    let totals: Vec<_> = totals.collect();
    assert_eq!(totals.len(), 8);
    let share = |totals: &[record::ConnectionTotals]| {
        let sum = |of: fn(&record::ConnectionTotals) -> u64| totals.iter().map(of).sum::<u64>() as f64;
        (sum(|t| t.armed.0) / sum(|t| t.followed.0), sum(|t| t.bytes_armed) / sum(|t| t.bytes_written))
    };
    let (by_time, by_bytes) = share(&totals);
    // A machine that stalls makes the stretches longer in which it does.
    assert!((0.15..0.25).contains(&by_time), "{by_time} of the time, {by_bytes} of the bytes: {totals:?}");
    assert!((0.15..0.25).contains(&by_bytes), "{by_bytes} of the bytes");
    for one in totals.chunks(1) {
        assert!((0.12..0.28).contains(&share(one).1), "{one:?}");
    }
    // What is recorded is what was written while armed, to the byte.
    let bytes: u64 = sends(&events).iter().map(|s| u64::from(s.bytes)).sum();
    assert_eq!(bytes, summary.coverage.bytes_armed, "{:?}", summary.lost);
}

#[test]
fn sends_in_step_with_the_windows_are_seen_as_often_as_others() {
    tier::needs!(Need::Root, BTF);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let trace = Trace::start(&windows(4, listener.local_addr().unwrap().port()));
    let (client, server) = accept_one(&listener);
    let reader = traffic::drain(server);
    // One send in each period of 40 ms, always at the same place in it.
    let sent = pace(vec![client], Duration::from_millis(40), Duration::from_secs(8)).join().unwrap();
    reader.join().unwrap();
    let (events, summary) = trace.finish();
    let seen = sends(&events).len() as f64;
    // Each send ends a stretch with its ACK, and one in each block of four stretches is looked at.
    assert!((seen - sent as f64 / 4.0).abs() < 5.0, "{seen} of {sent}: {:?}", summary.lost);
}

#[test]
fn of_short_connections_the_share_that_was_asked_for_is_seen() {
    tier::needs!(Need::Root, BTF);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let config =
        Config { max_connections: 4096, slots_per_connection: 16, ..windows(4, listener.local_addr().unwrap().port()) };
    let mut trace = Trace::start(&config);
    for _ in 0..1200 {
        let (mut client, mut server) = accept_one(&listener);
        client.write_all(b"short").unwrap();
        server.read_exact(&mut [0; 5]).unwrap();
        trace.poll();
    }
    let seen = sends(&trace.finish().0).len();
    // A quarter of 1,200 with a standard deviation of 15 by the draws, and more by windows that
    // last over several.
    assert!((210..390).contains(&seen), "{seen}");
}

#[test]
fn draws_keep_the_share_that_was_asked_for() {
    tier::needs!(Need::Root, BTF);
    let (mut client, mut server) = pair();
    let config = Config {
        sampling: Sampling::Draws(Ratio(NonZeroU32::new(4).unwrap())),
        ..traffic::port(server.local_addr().unwrap().port())
    };
    let mut trace = Trace::start(&config);
    for _ in 0..4000 {
        client.write_all(b"draw").unwrap();
        server.read_exact(&mut [0; 4]).unwrap();
    }
    trace.poll();
    let kept = sends(&trace.finish().0).len();
    // A quarter of 4,000 with a standard deviation of 27: ten of them to either side.
    assert!((730..1270).contains(&kept), "{kept}");
}

/// Bytes that a connection writes while its trace ends: those of the sends that are handed on, and
/// those that the totals count. On a busy machine the ring buffer may fill before it is read, and
/// lost sends have no bytes: then it is tried again.
fn bytes_while_it_ends(backend: Backend) -> (u64, u64) {
    (0..10).find_map(|_| bytes_while_one_ends(backend)).expect("a trace without lost sends")
}

/// The same of one trace; `None` where it lost sends.
fn bytes_while_one_ends(backend: Backend) -> Option<(u64, u64)> {
    let (mut client, server) = pair();
    let config = traffic::on(traffic::port(server.local_addr().unwrap().port()), backend);
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let reader = traffic::drain(server);
    let mut trace = Trace::start(&Config { slots_per_connection: 65_536, max_connections: 2, ..config });
    let writer = std::thread::spawn(move || {
        while stopped.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
            client.write_all(&[0; 100]).unwrap();
        }
    });
    trace.until(1_000);
    let (events, summary) = trace.finish();
    drop(stop);
    writer.join().unwrap();
    reader.join().unwrap();
    let lost = &summary.lost;
    let bytes = sends(&events).iter().map(|send| u64::from(send.bytes)).sum();
    (lost.ring_buffer + lost.slots_full + lost.unstamped == 0).then_some((bytes, summary.coverage.bytes_armed))
}

#[test]
fn what_is_written_while_a_trace_ends_is_in_its_sends_or_not_in_its_totals() {
    tier::needs!(Need::Root, BTF);
    for _ in 0..3 {
        let (bytes, totals) = bytes_while_it_ends(Backend::Timestamping);
        assert_eq!(bytes, totals);
    }
}

#[test]
fn by_tracepoints_too_what_is_written_while_a_trace_ends_is_in_its_sends_or_not_in_its_totals() {
    tier::needs!(Need::Root, BTF);
    let (bytes, totals) = bytes_while_it_ends(Backend::Tracepoints);
    assert_eq!(bytes, totals);
}

#[test]
fn two_tracers_at_once_both_see_everything_and_one_survives_the_other() {
    tier::needs!(Need::Root, BTF);
    let (mut client, mut server) = pair();
    let port = server.local_addr().unwrap().port();
    let mut exchange = |n: usize| {
        for _ in 0..n {
            client.write_all(b"both").unwrap();
            server.read_exact(&mut [0; 4]).unwrap();
        }
    };
    let mut first = Trace::start(&traffic::config(Target { ports: vec![port.into()], ..Target::default() }));
    let mut second = Trace::start(&traffic::port(port));
    exchange(50);
    first.until(50);
    second.until(50);
    for trace in [&first, &second] {
        let sends = trace.sends();
        assert_eq!(sends.len(), 50);
        assert!(sends.iter().all(|s| s.stamps.ack.is_some() && s.stamps.sched.is_some()));
    }
    first.finish();
    exchange(50);
    second.until(100);
    assert_eq!(second.sends().len(), 100);
}

#[test]
fn a_rate_limit_that_is_not_reached_changes_nothing() {
    tier::needs!(Need::Root, BTF);
    let (mut client, mut server) = pair();
    let config = Config { max_rate: NonZeroU32::new(1_000_000), ..traffic::port(server.local_addr().unwrap().port()) };
    let mut trace = Trace::start(&config);
    for _ in 0..100 {
        client.write_all(b"few").unwrap();
        server.read_exact(&mut [0; 3]).unwrap();
    }
    trace.until(100);
    let (events, summary) = trace.finish();
    assert_eq!((sends(&events).len(), summary.lost.over_rate), (100, 0));
    assert_eq!(summary.coverage.bytes_armed, summary.coverage.bytes_written);
}

#[test]
fn a_suspended_tracer_leaves_the_sockets_as_they_were_and_takes_up_again() {
    tier::needs!(Need::Root, BTF);
    let (mut client, mut server) = pair();
    let port = server.local_addr().unwrap().port();
    let mut exchange = |n: usize| {
        for _ in 0..n {
            client.write_all(b"more").unwrap();
            server.read_exact(&mut [0; 4]).unwrap();
        }
    };
    let mut trace = Trace::start(&traffic::port(port));
    for round in 0..3 {
        exchange(20);
        assert!(callbacks(port).unwrap().iter().any(|c| c.socket != 0 && c.operations != 0));
        trace.tracer.suspend(&mut |event| trace.events.push(event)).unwrap();
        assert_eq!(trace.sends().len(), 20 * (round + 1));
        exchange(20);
        trace.tracer.resume().unwrap();
    }
    let (events, summary) = trace.finish();
    assert_eq!(sends(&events).len(), 60);
    assert_eq!((summary.coverage.bytes_armed, summary.coverage.bytes_written), (240, 240));
}

#[test]
fn a_suspended_tracer_of_everything_takes_up_again_with_the_same_programs() {
    tier::needs!(Need::Root, BTF);
    let ((mut client, mut server), (from, to)) = (pair(), {
        let to = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let from = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        from.connect(to.local_addr().unwrap()).unwrap();
        (from, to)
    });
    let ports = vec![server.local_addr().unwrap().port().into(), to.local_addr().unwrap().port().into()];
    let target = Target { ports, ..Target::default() };
    let config = Config { receive: true, packets: true, udp: true, ..traffic::config(target) };
    let mut exchange = |n: usize| {
        for _ in 0..n {
            client.write_all(b"more").unwrap();
            server.read_exact(&mut [0; 4]).unwrap();
            from.send(b"one").unwrap();
            to.recv(&mut [0; 3]).unwrap();
        }
    };
    let mut trace = Trace::start(&config);
    let told = |events: &[Event]| {
        let mut told = [0; 4];
        for event in events {
            match event {
                Event::Receive(r) if r.stamps.read.is_some() => told[0] += r.bytes,
                Event::Packet(p) if p.direction == record::Direction::Sent => told[1] += p.bytes,
                Event::Datagram(d) if d.direction() == record::Direction::Sent => told[2] += d.bytes,
                Event::Datagram(d) if d.leg(record::DatagramLeg::Socket) != Ok(None) => told[3] += d.bytes,
                _ => {}
            }
        }
        told
    };
    for round in 1..=3 {
        exchange(20);
        trace.tracer.suspend(&mut |event| trace.events.push(event)).unwrap();
        assert_eq!(told(&trace.events), [80, 80, 60, 60].map(|n| n * round), "{:?}", trace.tracer.lost());
        exchange(20);
        trace.tracer.resume().unwrap();
    }
    let (events, summary) = trace.finish();
    assert_eq!(told(&events), [240, 240, 180, 180]);
    assert_eq!((summary.lost.receive_unseen_bytes, summary.lost.packet_disorder), (0, 0));
}

#[test]
fn what_a_tracer_that_was_killed_left_on_a_socket_is_taken_away_by_the_next() {
    tier::needs!(Need::Root, BTF);
    let (_client, server) = pair();
    let port = server.local_addr().unwrap().port();
    // A tracer that is dropped rather than finished leaves its sockets armed, as a killed one does.
    drop(Trace::start(&traffic::port(port)));
    assert!(callbacks(port).unwrap().iter().all(|c| c.socket != 0 && c.operations != 0));
    // Tracers of other tests may be at work at the same time: then the sockets stay armed.
    for _ in 0..200 {
        Trace::start(&traffic::port(port)).finish();
        if callbacks(port).unwrap() == [Callbacks::default(); 2] {
            return;
        }
    }
    panic!("{:?}", callbacks(port));
}

/// Each of these calls fills several packets, and by tracepoints each packet is a round of its own.
fn sends_without_room(backend: Backend) {
    let (mut client, mut server) = pair();
    let config = traffic::on(traffic::port(server.local_addr().unwrap().port()), backend);
    let mut trace = Trace::start(&Config { slots_per_connection: 16, ..config });
    let written = 300;
    let writer = std::thread::spawn(move || {
        for _ in 0..written {
            client.write_all(&[0; 150_000]).unwrap();
        }
    });
    // The peer reads nothing for a while, so that more sends are on their way than there is room
    // for.
    std::thread::sleep(Duration::from_millis(300));
    let (mut buffer, mut got) = (vec![0; 1 << 16], 0);
    while got < written * 150_000 {
        got += server.read(&mut buffer).unwrap();
        trace.poll();
    }
    writer.join().unwrap();
    let (events, summary) = trace.finish();
    let lost = &summary.lost;
    assert!(lost.slots_full > 0, "there was room for all: {lost:?}");
    assert_eq!(accounted(&sends(&events), lost), written as u64, "{lost:?}");
    // What has no record is not covered, with all of its bytes.
    let all = written as u64 * 150_000;
    let recorded: u64 = sends(&events).iter().map(|send| u64::from(send.bytes)).sum();
    assert_eq!(recorded + (lost.slots_full + lost.ring_buffer) * 150_000, all, "{lost:?}");
    assert_eq!((summary.coverage.bytes_written, summary.coverage.bytes_armed), (all, recorded), "{lost:?}");
}

/// Small sends that pile up while the peer reads nothing: far more than a connection mostly has on
/// its way. All of them have a place, and give it back.
#[test]
fn places_grow_with_what_is_on_its_way() {
    tier::needs!(Need::Root, BTF);
    for backend in traffic::BACKENDS {
        let (mut client, mut server) = pair();
        let config = traffic::on(traffic::port(server.local_addr().unwrap().port()), backend);
        let mut trace = Trace::start(&config);
        let written = 6_000;
        let writer = std::thread::spawn(move || {
            for _ in 0..written {
                client.write_all(&[0; 200]).unwrap();
            }
            client
        });
        std::thread::sleep(Duration::from_millis(300));
        let (mut buffer, mut got, mut most) = (vec![0; 1 << 12], 0, 0);
        while got < written * 200 {
            most = trace.tracer.slots_taken().max(most);
            got += server.read(&mut buffer).unwrap();
            trace.poll();
        }
        let client = writer.join().unwrap();
        trace.until_bytes(written * 200);
        // The last place, and one that is kept for the next.
        let left = trace.tracer.slots_taken();
        assert!(left <= 8, "{backend}: {left} places are still taken");
        drop(client);
        let (events, summary) = trace.finish();
        let lost = &summary.lost;
        assert_eq!((lost.slots_full, lost.ring_buffer), (0, 0), "{backend}: {lost:?}");
        assert_eq!(accounted(&sends(&events), lost), written as u64, "{backend}: {lost:?}");
        assert_eq!(summary.coverage.bytes_written, summary.coverage.bytes_armed, "{backend}");
        eprintln!("{backend}: at most {most} places taken");
    }
}

#[test]
fn a_send_without_room_is_counted_once() {
    tier::needs!(Need::Root, BTF);
    sends_without_room(Backend::Timestamping);
}

#[test]
fn a_send_without_room_is_counted_once_by_tracepoints() {
    tier::needs!(Need::Root, BTF);
    sends_without_room(Backend::Tracepoints);
}

/// Opens and closes connections that send, one after another; gives how many sends there were.
fn come_and_go(listener: &TcpListener, connections: usize, trace: &mut Trace) -> u64 {
    for number in 0..connections {
        let (mut client, mut server) = accept_one(listener);
        client.write_all(&[1; 64]).unwrap();
        server.read_exact(&mut [0; 64]).unwrap();
        if number % 64 == 0 {
            trace.poll();
        }
    }
    connections as u64
}

/// The pool is smaller than what comes and goes: slots that are not given back would be missed.
fn slots_come_back(backend: Backend, connections: usize) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let config = traffic::on(traffic::port(listener.local_addr().unwrap().port()), backend);
    let mut trace = Trace::start(&Config { slots_in_all: Some(256), max_connections: 256, ..config });
    let sent = come_and_go(&listener, connections, &mut trace);
    let open: Vec<_> = (0..8).map(|_| accept_one(&listener)).collect();
    for (client, _) in &open {
        let mut client = client;
        client.write_all(&[1; 64]).unwrap();
    }
    trace.until(sent as usize + open.len());
    // What is open may keep some; of all others they are back.
    assert!(trace.tracer.slots_taken() <= 8 * 4, "{}", trace.tracer.slots_taken());
    trace.tracer.suspend(&mut |event| trace.events.push(event)).unwrap();
    assert_eq!(trace.tracer.slots_taken(), 0);
    let (events, summary) = trace.finish();
    assert_eq!(summary.lost.slots_full, 0, "{:?}", summary.lost);
    assert_eq!(accounted(&sends(&events), &summary.lost), sent + open.len() as u64, "{:?}", summary.lost);
}

#[test]
fn slots_of_connections_that_end_come_back() {
    tier::needs!(Need::Root, BTF);
    slots_come_back(Backend::Timestamping, 2_000);
}

#[test]
fn by_tracepoints_too_slots_of_connections_that_end_come_back() {
    tier::needs!(Need::Root, BTF);
    slots_come_back(Backend::Tracepoints, 2_000);
}

/// More connections than the pool has chunks, each with a send now and then, and one with many on
/// their way at a time.
fn a_short_pool(backend: Backend) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let config = traffic::on(traffic::port(listener.local_addr().unwrap().port()), backend);
    let mut trace = Trace::start(&Config { slots_in_all: Some(512), max_connections: 1024, ..config });
    let mut pairs: Vec<_> = (0..200).map(|_| accept_one(&listener)).collect();
    let (client, server) = accept_one(&listener);
    let reader = traffic::drain(server);
    let streamed = stream(vec![client], 5_000).join().unwrap();
    for _ in 0..5 {
        for (client, server) in &mut pairs {
            client.write_all(&[1; 64]).unwrap();
            server.read_exact(&mut [0; 64]).unwrap();
            trace.poll();
        }
    }
    drop(pairs);
    reader.join().unwrap();
    let (events, summary) = trace.finish();
    assert_eq!(
        accounted(&sends(&events), &summary.lost) + summary.lost.unstamped,
        streamed + 1_000,
        "{:?}",
        summary.lost
    );
}

#[test]
fn connections_share_a_pool_that_is_short() {
    tier::needs!(Need::Root, BTF);
    a_short_pool(Backend::Timestamping);
}

#[test]
fn by_tracepoints_too_connections_share_a_pool_that_is_short() {
    tier::needs!(Need::Root, BTF);
    a_short_pool(Backend::Tracepoints);
}

/// Many connections at the same time, by IPv4 and IPv6, more than the program has descriptors for
/// by default. `rows` is a number that no other test has: maps are known by their sizes, and tests
/// run beside one another.
fn many_connections(backend: Backend, sampling: Sampling, rows: u32, bar: u64) {
    const PAIRS: usize = 6_000;
    // Descriptors are few.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    many_descriptors(20_000);
    let listeners = ["127.0.0.1:0", "[::1]:0"].map(|address| TcpListener::bind(address).unwrap());
    let ports = listeners.iter().map(|listener| listener.local_addr().unwrap().port().into()).collect();
    let target = Target { ports, ..Target::default() };
    let config =
        traffic::on(Config { sampling, max_connections: rows, connects: false, ..traffic::config(target) }, backend);
    let mut trace = Trace::start(&config);
    // As many queues as chunks of slots.
    let (chunks, ring) = match sampling {
        Sampling::Every => (rows, 16 << 20),
        _ => (rows / 32, 4 << 20),
    };
    let directories = chunks / 8 + 16;
    let memory = kernel_bytes(&[rows, chunks, 4 * chunks, directories, directories * 32]);
    // Twice 192 bytes that the kernel keeps with each socket, and what the ring buffer takes.
    let of_hundred_thousand = (memory / u64::from(rows) + 2 * 192) * 100_000 + ring;
    assert!(memory / u64::from(rows) > 150 && of_hundred_thousand <= bar << 20, "{memory} {of_hundred_thousand}");
    assert!(config.memory().unwrap().at_once >= memory, "{:?} {memory}", config.memory());
    let mut pairs = Vec::new();
    for number in 0..PAIRS {
        let (mut client, server) = accept_one(&listeners[number % 2]);
        client.write_all(&[1; 64]).unwrap();
        pairs.push((client, server));
        if number % 256 == 0 {
            trace.poll();
        }
    }
    for (client, server) in &mut pairs {
        server.read_exact(&mut [0; 64]).unwrap();
        client.write_all(&[1; 64]).unwrap();
    }
    trace.poll();
    drop(pairs);
    let (events, summary) = trace.finish();
    assert_eq!(traffic::connections(&events).len(), 2 * PAIRS);
    assert_eq!((summary.lost.connections_full, summary.lost.slots_full), (0, 0), "{:?}", summary.lost);
    if sampling == Sampling::Every {
        assert_eq!(accounted(&sends(&events), &summary.lost), 2 * PAIRS as u64, "{:?}", summary.lost);
    }
}

#[test]
fn twelve_thousand_connections_are_followed_within_their_memory() {
    tier::needs!(Need::Root, BTF);
    many_connections(Backend::Timestamping, Sampling::Every, 20_011, 218);
}

#[test]
fn by_tracepoints_too_twelve_thousand_connections_are_followed_within_their_memory() {
    tier::needs!(Need::Root, BTF);
    many_connections(Backend::Tracepoints, Sampling::Every, 20_021, 218);
}

#[test]
fn of_twelve_thousand_sampled_connections_none_finds_no_slot() {
    tier::needs!(Need::Root, BTF);
    let sampling = Sampling::Windows("1/100".parse().unwrap());
    many_connections(Backend::Timestamping, sampling, 200_003, 57);
}

/// How many blocks of each size of kmalloc() are in use on this machine, of those that control
/// groups account for: BPF's are.
fn blocks() -> std::collections::BTreeMap<String, (i64, i64)> {
    let text = std::fs::read_to_string("/proc/slabinfo").unwrap();
    let lines = text.lines().filter(|line| line.starts_with("kmalloc-cg-"));
    lines
        .map(|line| {
            let words: Vec<_> = line.split_whitespace().collect();
            (words[0].to_owned(), (words[1].parse().unwrap(), words[3].parse().unwrap()))
        })
        .collect()
}

/// The same once what an earlier trace held is free: the kernel frees it after the trace has ended.
fn settled_blocks() -> std::collections::BTreeMap<String, (i64, i64)> {
    let mut last = blocks();
    for _ in 0..100 {
        std::thread::sleep(Duration::from_millis(300));
        let now = blocks();
        let fell: i64 = last.iter().map(|(name, (before, size))| (before - now[name].0) * size).sum();
        last = now;
        if fell < 64 << 10 {
            break;
        }
    }
    last
}

/// A process that holds all sockets of this one open until it is killed, as one may have fewer than
/// 100,000 descriptors.
struct Holder(i32);

impl Holder {
    fn new() -> Self {
        // SAFETY: the child calls nothing but what may be called after a fork, and never returns.
        let pid = unsafe {
            let pid = libc::fork();
            if pid == 0 {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                loop {
                    libc::pause();
                }
            }
            pid
        };
        assert!(pid > 0);
        Self(pid)
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        // SAFETY: the child is this one's own and has not been waited for.
        unsafe {
            libc::kill(self.0, libc::SIGKILL);
            libc::waitpid(self.0, std::ptr::null_mut(), 0);
        }
    }
}

/// Both ends of 50,000 connections. What lies with the sockets is in no figure of a map: it is seen
/// in the kernel's blocks.
#[test]
#[ignore = "100,000 sockets, and a machine on which nothing else begins or ends"]
fn a_hundred_thousand_connections_are_followed_within_what_is_said() {
    tier::needs!(Need::Root, BTF);
    many_descriptors(20_000);
    let listener = TcpListener::bind("0.0.0.0:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut holders = Vec::new();
    for batch in 0..10u8 {
        let connect = || std::net::TcpStream::connect((std::net::Ipv4Addr::new(127, 0, 0, 1 + batch), port)).unwrap();
        let pairs: Vec<_> = (0..5_000).map(|_| (connect(), listener.accept().unwrap())).collect();
        holders.push(Holder::new());
        drop(pairs);
    }
    for (sampling, most) in [(Sampling::Windows("1/100".parse().unwrap()), 64), (Sampling::Every, 256)] {
        let before = settled_blocks();
        let config = Config { sampling, max_connections: 100_000, ..traffic::port(port) };
        let trace = Trace::start(&config);
        let (maps, told) = (kernel_bytes_where(|_| true), config.memory().unwrap());
        let grown = blocks().into_iter().map(|(name, (now, size))| (now - before[&name].0) * size);
        let with_sockets: i64 = grown.sum();
        let (events, Summary { lost, .. }) = trace.finish();
        let mebibytes = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        let (in_maps, in_sockets) = (mebibytes(maps), mebibytes(with_sockets as u64));
        eprintln!(
            "{sampling:?}: maps {in_maps:.1} MiB, told {:.1}; with sockets {in_sockets:.1}, told {:.1}; at most {:.1}: {lost:?}",
            mebibytes(told.at_once),
            mebibytes(told.connections),
            mebibytes(told.most())
        );
        assert!(in_sockets > 32.0 && in_maps + in_sockets <= mebibytes(told.most()).min(f64::from(most)));
        assert!((in_maps / mebibytes(told.at_once) - 1.0).abs() < 0.01);
        assert_eq!((lost.connections_full, lost.connection_records, lost.connect_ring_buffer), (0, 0, 0), "{lost:?}");
        assert_eq!((lost.slots_full, lost.stretches_full), (0, 0), "{lost:?}");
        assert_eq!(traffic::connections(&events).len(), 100_000);
    }
}
