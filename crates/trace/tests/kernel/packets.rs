//! Every packet of a connection, checked against what was sent.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use model::{Direction, Event, Packet, SeqNumber};
use trace::{Config, Target};

use crate::traffic::{Trace, in_namespace, pair_at, port};

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
