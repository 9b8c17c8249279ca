//! Stages: there, in order, and of the right send.

use std::io::{Read as _, Write as _};
use std::time::Duration;

use record::{Leg, Stage};
use tier::Need;
use trace::Backend;

use crate::traffic::{self, Trace, on, pair, pair_at};

const BTF: Need<'static> = Need::Path("/sys/kernel/btf/vmlinux");

fn stages_of_an_exchange(backend: Backend) {
    let (mut client, mut server) = pair();
    let mut trace = Trace::start(&on(traffic::port(server.local_addr().unwrap().port()), backend));
    for round in 0..100u32 {
        client.write_all(&round.to_ne_bytes()).unwrap();
        server.read_exact(&mut [0; 4]).unwrap();
        server.write_all(&[0; 100]).unwrap();
        client.read_exact(&mut [0; 100]).unwrap();
    }
    trace.until(200);
    let (events, summary) = trace.finish();
    let sends = traffic::sends(&events);
    assert_eq!(sends.len(), 200, "{:?}", summary.lost);
    for send in &sends {
        for stage in [Stage::Sched, Stage::Driver, Stage::Ack] {
            assert!(send.stamps.at(stage).is_some(), "no {stage} in {send:?}");
        }
        for leg in Leg::ALL {
            assert!(send.leg(leg).is_ok(), "{leg} of {send:?}");
        }
        assert_eq!(send.owner.pid, std::process::id());
    }
    assert_eq!(sends.iter().filter(|s| s.bytes == 4).count(), 100);
    assert_eq!(sends.iter().filter(|s| s.bytes == 100).count(), 100);
    // Each direction's sends follow one another without a gap.
    for bytes in [4, 100] {
        let mut own: Vec<_> = sends.iter().filter(|s| s.bytes == bytes).collect();
        own.sort_by_key(|s| s.stamps.send);
        assert!(own.windows(2).all(|w| w[0].last_seq().add(1) == w[1].first_seq));
    }
}

#[test]
fn every_send_of_an_exchange_has_all_stages_in_order() {
    tier::needs!(Need::Root, BTF);
    stages_of_an_exchange(Backend::Timestamping);
}

#[test]
fn every_send_of_an_exchange_has_all_stages_in_order_by_tracepoints() {
    tier::needs!(Need::Root, BTF);
    stages_of_an_exchange(Backend::Tracepoints);
}

#[test]
fn hundreds_outstanding_on_one_socket_are_distinguished() {
    tier::needs!(Need::Root, BTF, Need::Program("tc"));
    // 200 packets of 100 bytes wait in a queue that lets 1 Mbit/s through; the first bytes pass at
    // once.
    let (sends, lost) = traffic::in_namespace(Some("rate 1mbit burst 2kb limit 1mb"), || {
        let (mut client, server) = pair();
        // With one segment of 100 bytes a packet, the initial window is 10 of them: a peer's large
        // window is needed.
        let mut trace = Trace::start(&traffic::port(server.local_addr().unwrap().port()));
        let reader = traffic::drain(server);
        for round in 0..200u32 {
            client.write_all(&vec![0; 100 + round as usize]).unwrap();
        }
        trace.until(200);
        drop(client);
        reader.join().unwrap();
        let (events, summary) = trace.finish();
        (traffic::sends(&events), summary.lost)
    });
    assert_eq!(traffic::accounted(&sends, &lost), 200, "{lost:?}");
    // Also those that left in one packet when the window opened.
    let bytes: u32 = sends.iter().map(|s| s.bytes).sum();
    assert_eq!(bytes, (100..300).sum::<u32>());
    for send in &sends {
        for leg in Leg::ALL {
            assert!(send.leg(leg).is_ok(), "{leg} of {send:?}");
        }
    }
}

#[test]
fn ipv6_and_mapped_ipv4_are_followed_and_mapped_is_shown_as_ipv4() {
    tier::needs!(Need::Root, BTF);
    let (mut client, server) = pair_at("[::1]:0");
    let listener = std::net::TcpListener::bind("[::ffff:127.0.0.1]:0").unwrap();
    let mut config = traffic::port(server.local_addr().unwrap().port());
    config.target.ports.push(listener.local_addr().unwrap().port().into());
    let mut trace = Trace::start(&config);
    let (mut mapped_client, mapped_server) = traffic::accept_one(&listener);
    client.write_all(b"six").unwrap();
    mapped_client.write_all(b"four").unwrap();
    trace.until(2);
    // The accepted end is announced when it is used, and where it is not, at the end.
    let (events, _) = trace.finish();
    let connections = traffic::connections(&events);
    assert_eq!(connections.iter().filter(|c| c.0.is_ipv6()).count(), 2, "{connections:?}");
    assert_eq!(connections.iter().filter(|c| c.0.is_ipv4()).count(), 2, "{connections:?}");
    assert!(connections.contains(&(client.local_addr().unwrap(), client.peer_addr().unwrap())));
    assert_eq!(traffic::sends(&events).len(), 2);
    drop((server, mapped_server));
}

#[test]
fn a_connection_closed_before_its_ack_is_delivered_without_one() {
    tier::needs!(Need::Root, BTF, Need::Program("tc"));
    let (sends, lost) = traffic::in_namespace(Some("rate 8kbit burst 2kb limit 1mb"), || {
        let (mut client, server) = pair();
        let mut trace = Trace::start(&traffic::port(server.local_addr().unwrap().port()));
        for _ in 0..5 {
            client.write_all(&[0; 1400]).unwrap();
        }
        // A reset throws away what is unacknowledged.
        socket2::SockRef::from(&client).set_linger(Some(Duration::ZERO)).unwrap();
        drop(client);
        std::thread::sleep(Duration::from_millis(20));
        trace.poll();
        let (events, summary) = trace.finish();
        (traffic::sends(&events), summary.lost)
    });
    assert_eq!(traffic::accounted(&sends, &lost), 5, "{lost:?}");
    let unacked = sends.iter().filter(|s| s.stamps.ack.is_none()).count() as u64;
    assert!(unacked >= 1);
    assert_eq!(lost.closed_unacked, unacked, "{lost:?}");
}

#[test]
fn what_is_on_its_way_at_the_end_is_delivered_as_unfinished() {
    tier::needs!(Need::Root, BTF, Need::Program("tc"));
    let (sends, lost) = traffic::in_namespace(Some("rate 8kbit burst 2kb limit 1mb"), || {
        let (mut client, server) = pair();
        let trace = Trace::start(&traffic::port(server.local_addr().unwrap().port()));
        for _ in 0..5 {
            client.write_all(&[0; 1400]).unwrap();
        }
        let (events, summary) = trace.finish();
        (traffic::sends(&events), summary.lost)
    });
    assert_eq!(traffic::accounted(&sends, &lost), 5, "{lost:?}");
    let unacked = sends.iter().filter(|s| s.stamps.ack.is_none()).count() as u64;
    assert!(unacked >= 1);
    assert_eq!(lost.unfinished, unacked, "{lost:?}");
}
