//! Received bytes: every one in exactly one record or counter, with its stages in order.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener};
use std::time::{Duration, Instant};

use record::{Connection, Event, Lost, Nanos, Opening, Receive, ReceiveLeg, ReceiveStage, SeqNumber};
use tier::Need;
use trace::{Backend, Config, Summary};

use crate::traffic::{self, Trace, on, pair, pair_at};

const BTF: Need<'static> = Need::Path("/sys/kernel/btf/vmlinux");

fn receiving(port: u16) -> Config {
    Config { receive: true, ..traffic::port(port) }
}

fn receives(events: &[Event]) -> Vec<Receive> {
    events.iter().filter_map(|e| if let Event::Receive(receive) = e { Some(*receive) } else { None }).collect()
}

fn connection(events: &[Event], local: std::net::SocketAddr) -> Connection {
    let found = events.iter().find_map(|e| match e {
        Event::Connection(c) if c.local == local => Some(c.clone()),
        _ => None,
    });
    found.unwrap_or_else(|| panic!("no connection from {local} in {events:?}"))
}

/// Polls until so many bytes were told of as read, or for ten seconds.
fn until_read(trace: &mut Trace, bytes: u64) {
    let end = Instant::now() + Duration::from_secs(10);
    let told = |trace: &Trace| total(&receives(&trace.events)) + trace.tracer.lost().receive_unseen_bytes;
    while told(trace) < bytes && Instant::now() < end {
        trace.tracer.poll(Duration::from_millis(10), &mut |event| trace.events.push(event)).unwrap();
    }
}

fn total(receives: &[Receive]) -> u64 {
    receives.iter().map(|r| u64::from(r.bytes)).sum()
}

/// Each direction's byte ranges follow one another without a gap or an overlap.
fn seamless(receives: &[Receive]) {
    let mut ids: Vec<_> = receives.iter().map(|r| r.connection).collect();
    ids.sort();
    ids.dedup();
    for id in ids {
        let mut own: Vec<_> = receives.iter().filter(|r| r.connection == id).collect();
        let base = own[0].first_seq;
        own.sort_by_key(|r| r.first_seq.distance_from(base));
        for w in own.windows(2) {
            assert_eq!(w[0].last_seq().add(1), w[1].first_seq, "{w:?}");
        }
    }
}

/// Every byte is in one record; those of whose arrival the kernel did not tell are in records that
/// say when they were read.
fn whole(receives: &[Receive], lost: &Lost, bytes: u64) {
    assert_eq!((total(receives), lost.receive_unseen_bytes), (bytes, 0), "{lost:?}");
    seamless(receives);
    let untold: Vec<_> = receives.iter().filter(|r| r.stamps.arrived().is_none()).copied().collect();
    assert_eq!(total(&untold), lost.receive_untold_bytes, "{lost:?}");
    assert!(receives.iter().all(|r| r.stamps.read.is_some()), "{lost:?}");
}

/// No byte is missing. A run that the kernel left out, or a stage that is missing because of that,
/// is no loss of bytes.
fn nothing_lost(lost: &Lost) {
    const STAGES: [&str; 5] =
        ["receive_left_out", "receive_untold_bytes", "receive_no_driver_rx", "receive_no_tcp_rx", "receive_no_ready"];
    let losses = lost.entries().filter(|e| e.0.starts_with("receive_") && !STAGES.contains(&e.0) && e.2 > 0);
    let entries: Vec<_> = losses.collect();
    assert!(entries.is_empty(), "{entries:?}");
}

/// What a run gives in which the kernel left out no program: it does where one meets itself on a
/// processor, which other traffic of the machine brings about, too.
fn undisturbed<T>(mut run: impl FnMut() -> (T, Summary)) -> (T, Summary) {
    for _ in 0..9 {
        let (seen, summary) = run();
        if summary.lost.receive_left_out == 0 {
            return (seen, summary);
        }
    }
    run()
}

fn exchange(backend: Backend) {
    let (events, summary) = undisturbed(|| {
        let (mut client, mut server) = pair();
        let mut trace = Trace::start(&on(receiving(server.local_addr().unwrap().port()), backend));
        for round in 0..100u32 {
            client.write_all(&round.to_ne_bytes()).unwrap();
            server.read_exact(&mut [0; 4]).unwrap();
            server.write_all(&[0; 100]).unwrap();
            client.read_exact(&mut [0; 100]).unwrap();
        }
        until_read(&mut trace, 100 * 104);
        trace.finish()
    });
    let receives = receives(&events);
    let lost = summary.lost;
    assert_eq!(receives.len(), 200);
    whole(&receives, &lost, 100 * 104);
    // Nothing but a run that the kernel left out takes a stage away, and that is counted.
    let counted = [lost.receive_no_driver_rx, lost.receive_no_tcp_rx, lost.receive_no_ready, 0];
    for (stage, counted) in ReceiveStage::ALL.into_iter().zip(counted) {
        let without = receives.iter().filter(|r| r.stamps.at(stage).is_none()).count();
        assert_eq!(without as u64, counted, "{stage}");
        assert!(without < 10, "{without} of 200 without {stage}");
    }
    for receive in &receives {
        for leg in ReceiveLeg::ALL {
            assert!(receive.leg(leg).is_ok(), "{leg} of {receive:?}");
        }
        assert_eq!(receive.reader.pid, std::process::id());
        assert!(!receive.out_of_order);
        assert_eq!((receive.segments, receive.queued), (1, 0));
    }
    assert_eq!(receives.iter().filter(|r| r.bytes == 4).count(), 100);
}

#[test]
fn every_received_byte_has_all_stages_in_order() {
    tier::needs!(Need::Root, BTF);
    exchange(Backend::Timestamping);
}

#[test]
fn every_received_byte_has_all_stages_in_order_beside_tracepoints() {
    tier::needs!(Need::Root, BTF);
    exchange(Backend::Tracepoints);
}

#[test]
fn a_bulk_reader_gets_as_many_bytes_as_are_reported_and_as_the_sender_wrote() {
    tier::needs!(Need::Root, BTF);
    let (events, lost) = traffic::in_namespace(None, || {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        // A segment of loopback's own size would hold a whole write: smaller ones, so that a frame
        // has several.
        traffic::set(&listener, libc::IPPROTO_TCP, libc::TCP_MAXSEG, 16_000);
        let port = listener.local_addr().unwrap().port();
        let mut trace = Trace::start(&receiving(port));
        let (mut client, server) = traffic::accept_one(&listener);
        let reader = traffic::drain(server);
        let chunk = vec![0; 50_000];
        for _ in 0..400 {
            client.write_all(&chunk).unwrap();
            trace.poll();
        }
        client.shutdown(Shutdown::Write).unwrap();
        assert_eq!(reader.join().unwrap(), 20_000_000);
        until_read(&mut trace, 20_000_000);
        let (events, summary) = trace.finish();
        (events, summary.lost)
    });
    let receives = receives(&events);
    whole(&receives, &lost, 20_000_000);
    assert_eq!((lost.receive_slots_full, lost.receive_disorder), (0, 0), "{lost:?}");
    // Large frames are several segments; the count is the kernel's own.
    assert!(receives.iter().any(|r| r.segments > 1), "{:?}", receives.first());
}

#[test]
fn a_reader_that_sleeps_shows_it_in_wakeup() {
    tier::needs!(Need::Root, BTF);
    let (mut client, mut server) = pair();
    let mut trace = Trace::start(&receiving(server.local_addr().unwrap().port()));
    for _ in 0..5 {
        client.write_all(b"wait").unwrap();
        std::thread::sleep(Duration::from_millis(30));
        server.read_exact(&mut [0; 4]).unwrap();
    }
    until_read(&mut trace, 20);
    let (events, _) = trace.finish();
    let receives = receives(&events);
    assert_eq!(receives.len(), 5);
    for receive in &receives {
        let leg = |leg| receive.leg(leg).unwrap().unwrap();
        assert!(leg(ReceiveLeg::Wakeup) >= Nanos::from_millis(30), "{receive:?}");
        let before = leg(ReceiveLeg::Softirq) + leg(ReceiveLeg::Socket);
        assert!(before < leg(ReceiveLeg::Wakeup), "{receive:?}");
        assert_eq!(leg(ReceiveLeg::Total), before + leg(ReceiveLeg::Wakeup));
    }
}

#[test]
fn bytes_that_were_there_before_are_counted_as_unseen_and_later_ones_are_reported() {
    tier::needs!(Need::Root, BTF);
    let (mut client, mut server) = pair_at("[::1]:0");
    client.write_all(&[0; 700]).unwrap();
    // The bytes are in the server's socket when they can be peeked at.
    while server.peek(&mut [0; 700]).unwrap() < 700 {}
    let mut trace = Trace::start(&receiving(server.local_addr().unwrap().port()));
    server.read_exact(&mut [0; 700]).unwrap();
    client.write_all(&[0; 300]).unwrap();
    server.read_exact(&mut [0; 300]).unwrap();
    until_read(&mut trace, 1_000);
    let (events, summary) = trace.finish();
    let receives = receives(&events);
    assert_eq!((receives.len(), total(&receives)), (1, 300));
    assert_eq!(summary.lost.receive_unseen_bytes, 700);
    let found = connection(&events, server.local_addr().unwrap());
    assert_eq!((found.opening, found.id), (Opening::Found, receives[0].connection));
}

#[test]
fn what_is_never_read_is_reported_and_counted() {
    tier::needs!(Need::Root, BTF);
    let (mut client, server) = pair();
    let mut trace = Trace::start(&receiving(server.local_addr().unwrap().port()));
    client.write_all(&[0; 10]).unwrap();
    while server.peek(&mut [0; 10]).unwrap() < 10 {}
    drop(server);
    until_read(&mut trace, 10);
    let (events, summary) = trace.finish();
    let receives = receives(&events);
    assert_eq!((receives.len(), total(&receives)), (1, 10));
    assert_eq!((receives[0].stamps.read, receives[0].reader.pid), (None, 0));
    assert_eq!((summary.lost.receive_never_read, summary.lost.receive_unfinished), (1, 0));
}

#[test]
fn what_is_not_yet_read_at_the_end_is_reported_and_counted() {
    tier::needs!(Need::Root, BTF);
    let (mut client, server) = pair();
    let mut trace = Trace::start(&receiving(server.local_addr().unwrap().port()));
    client.write_all(&[0; 10]).unwrap();
    while server.peek(&mut [0; 10]).unwrap() < 10 {}
    trace.poll();
    let (events, summary) = trace.finish();
    assert_eq!(total(&receives(&events)), 10);
    assert_eq!((summary.lost.receive_never_read, summary.lost.receive_unfinished), (0, 1));
}

#[test]
fn a_program_that_reads_after_the_end_of_the_connection_is_seen() {
    tier::needs!(Need::Root, BTF);
    let (mut client, mut server) = pair();
    let mut trace = Trace::start(&receiving(server.local_addr().unwrap().port()));
    client.write_all(b"first").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    server.read_exact(&mut [0; 5]).unwrap();
    assert_eq!(server.read(&mut [0; 1]).unwrap(), 0);
    // The answer and the FIN both lie in the client's socket, whose connection is over, when it
    // reads.
    server.write_all(&[0; 5_000]).unwrap();
    drop(server);
    std::thread::sleep(Duration::from_millis(50));
    client.read_to_end(&mut Vec::new()).unwrap();
    drop(client);
    until_read(&mut trace, 5_005);
    let (events, summary) = trace.finish();
    let receives = receives(&events);
    assert_eq!(total(&receives), 5_005, "{:?}", summary.lost);
    assert!(receives.iter().all(|r| r.stamps.read.is_some() && r.stamps.ready.is_some()));
    assert_eq!((summary.lost.receive_unseen_bytes, summary.lost.receive_never_read), (0, 0));
    // In FIN_WAIT the kernel's tcp_probe is silent: such bytes have no tcp_rx, and that is counted.
    let without = receives.iter().filter(|r| r.stamps.tcp_rx.is_none()).count() as u64;
    assert_eq!(summary.lost.receive_no_tcp_rx, without);
    assert!(without > 0);
}

#[test]
fn segments_out_of_order_wait_for_the_missing_one_in_socket() {
    tier::needs!(Need::Root, BTF, Need::Program("tc"));
    // A shallow queue drops some of a burst; what comes behind the hole waits for the
    // retransmission.
    let (events, lost, sent) = traffic::in_namespace(Some("rate 20mbit burst 3kb limit 9kb"), || {
        let (mut client, server) = pair();
        let mut trace = Trace::start(&receiving(server.local_addr().unwrap().port()));
        let reader = traffic::drain(server);
        client.write_all(&vec![0; 400_000]).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        let sent = reader.join().unwrap();
        until_read(&mut trace, sent);
        let (events, summary) = trace.finish();
        (events, summary.lost, sent)
    });
    let receives = receives(&events);
    assert_eq!(sent, 400_000);
    whole(&receives, &lost, sent);
    assert_eq!(lost.receive_disorder, 0, "{lost:?}");
    let late: Vec<_> = receives.iter().filter(|r| r.out_of_order).collect();
    assert_eq!(late.len() as u64, lost.receive_out_of_order);
    assert!(!late.is_empty(), "nothing was lost on the way: {lost:?}");
    let longest = |out: bool| {
        receives
            .iter()
            .filter(|r| r.out_of_order == out)
            .filter_map(|r| r.leg(ReceiveLeg::Socket).unwrap())
            .max()
            .unwrap()
    };
    assert!(longest(true) > longest(false), "{:?} against {:?}", longest(true), longest(false));
}

#[test]
fn foreign_connections_and_processes_give_no_record() {
    tier::needs!(Need::Root, BTF);
    let (mut client, mut server) = pair();
    let (mut other, mut foreign) = pair();
    let (events, summary) = undisturbed(|| {
        let mut trace = Trace::start(&receiving(server.local_addr().unwrap().port()));
        for _ in 0..50 {
            other.write_all(&[0; 10]).unwrap();
            foreign.read_exact(&mut [0; 10]).unwrap();
        }
        client.write_all(&[0; 10]).unwrap();
        server.read_exact(&mut [0; 10]).unwrap();
        until_read(&mut trace, 10);
        trace.finish()
    });
    assert_eq!(total(&receives(&events)), 10);
    nothing_lost(&summary.lost);
    // No process that has a socket.
    let mut idle = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let target = trace::Target { pids: vec![idle.id()], ..trace::Target::default() };
    let mut trace = Trace::start(&Config { receive: true, ..traffic::config(target) });
    client.write_all(&[0; 10]).unwrap();
    server.read_exact(&mut [0; 10]).unwrap();
    trace.poll();
    let (events, _) = trace.finish();
    idle.kill().unwrap();
    idle.wait().unwrap();
    assert!(events.is_empty(), "{events:?}");
}

#[test]
fn five_hundred_connections_are_distinguished() {
    tier::needs!(Need::Root, BTF);
    let all: u64 = (1..4u64).map(|round| (0..500).map(|n| n + round).sum::<u64>()).sum();
    let ((events, pairs), summary) = undisturbed(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let config = Config { max_connections: 1_024, ..receiving(listener.local_addr().unwrap().port()) };
        let mut trace = Trace::start(&config);
        let mut pairs: Vec<_> = (0..500).map(|_| traffic::accept_one(&listener)).collect();
        for round in 1..4u32 {
            for (number, (client, server)) in pairs.iter_mut().enumerate() {
                let bytes = vec![0; number + round as usize];
                client.write_all(&bytes).unwrap();
                server.read_exact(&mut vec![0; bytes.len()]).unwrap();
            }
            trace.poll();
        }
        until_read(&mut trace, all);
        let (events, summary) = trace.finish();
        ((events, pairs), summary)
    });
    let receives = receives(&events);
    assert_eq!(total(&receives), all, "{:?}", summary.lost);
    seamless(&receives);
    nothing_lost(&summary.lost);
    for (number, (_, server)) in pairs.iter().enumerate() {
        let remote = server.peer_addr().unwrap();
        let id = events.iter().find_map(|e| match e {
            Event::Connection(c) if c.remote == remote => Some(c.id),
            _ => None,
        });
        let own: u64 = receives.iter().filter(|r| Some(r.connection) == id).map(|r| u64::from(r.bytes)).sum();
        assert_eq!(own, 3 * number as u64 + 6);
    }
}

#[test]
fn more_than_the_slots_hold_is_counted_and_not_called_unseen() {
    tier::needs!(Need::Root, BTF);
    let (mut client, mut server) = pair();
    let config = Config { arrivals_per_connection: 16, ..receiving(server.local_addr().unwrap().port()) };
    let mut trace = Trace::start(&config);
    for sent in 1..=40 {
        client.write_all(&[0; 10]).unwrap();
        while server.peek(&mut [0; 400]).unwrap() < sent * 10 {}
    }
    server.read_exact(&mut [0; 400]).unwrap();
    until_read(&mut trace, 160);
    let (events, summary) = trace.finish();
    assert_eq!(total(&receives(&events)), 160);
    assert_eq!((summary.lost.receive_slots_full, summary.lost.receive_unseen_bytes), (24, 0));
}

#[test]
fn peeking_is_not_reading() {
    tier::needs!(Need::Root, BTF);
    let (mut client, mut server) = pair();
    let mut trace = Trace::start(&receiving(server.local_addr().unwrap().port()));
    client.write_all(&[0; 10]).unwrap();
    while server.peek(&mut [0; 10]).unwrap() < 10 {}
    trace.poll();
    assert_eq!(receives(&trace.events).len(), 0);
    // In two parts: the record is of the moment when the last byte was copied.
    server.read_exact(&mut [0; 4]).unwrap();
    trace.poll();
    assert_eq!(receives(&trace.events).len(), 0);
    server.read_exact(&mut [0; 6]).unwrap();
    until_read(&mut trace, 10);
    let (events, _) = trace.finish();
    let receives = receives(&events);
    assert_eq!((receives.len(), receives[0].bytes), (1, 10));
    assert_ne!(receives[0].first_seq, SeqNumber(0));
}
