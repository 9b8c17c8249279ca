//! TLS: each part of a handshake and who was waited for, on small captures, and what a capture
//! cannot show.

pub mod made;
mod recorded;

use std::net::{Ipv4Addr, SocketAddrV4};

use diagnose::{Follower, Options};
use made::{Call, Read, TLS12, TLS13, change, client_hello, data, message, of, read, record, server_hello};
use record::Nanos;
use record::conversation::Side;
use record::tls::{Outcome, TlsFindingKind as Kind};
use wire::{Flags, PacketReader, Shard};

use crate::dns::made::{MS, Made, follow};

const SERVER: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(198, 51, 100, 7), 443);
const NAME: &str = "www.example.com";
const BOTH: &[u16] = &[TLS13, TLS12];
const HTTP: &[u8] = b"\x08http/1.1";

/// The client's answer of TLS 1.3: its `Finished`, and a request.
fn finishes() -> [Vec<u8>; 3] {
    [change(), data(53), data(100)]
}

/// A handshake of TLS 1.3 whose server thinks for so long, over a round trip of 10 ms.
fn handshake(made: &mut Made, port: u16, thinks: u64) {
    let mut call = Call::new(made, 0, port, SERVER, 10 * MS);
    call.client(11 * MS, &[client_hello(NAME, &[], BOTH, HTTP)]);
    call.server(21 * MS + thinks, &[server_hello(TLS13, false), change(), data(40), data(900)]);
    call.client(23 * MS + thinks, &finishes());
    call.server(33 * MS + thinks, &[data(250), data(250)]);
    call.server(63 * MS + thinks, &[data(2_000)]);
}

#[test]
fn each_part_of_a_handshake_has_its_time_and_who_was_waited_for() {
    let mut made = Made::default();
    handshake(&mut made, 50_000, 100 * MS);
    let read = read(&made.file(65_535));
    let h = read.only();
    assert_eq!((h.name.as_deref(), h.version.as_deref(), h.connection), (Some(NAME), Some("TLS 1.3"), 1));
    assert_eq!((h.offered_versions.as_str(), h.offered_protocols.as_str()), ("TLS 1.3, TLS 1.2", "http/1.1"));
    assert_eq!((h.outcome, h.resumed, h.retried, h.cipher), (Outcome::Done, Some(false), false, Some(0x1301)));
    let parts = [h.took_ns, h.hello_ns, h.flight_ns, h.client_ns, h.finish_ns];
    assert_eq!(parts, [112, 110, 0, 2, 0].map(|ms| Some(Nanos(ms * MS))));
    // The client is beside the capture, 1 µs away.
    let waits = [h.server_wait_ns, h.client_wait_ns, h.path_wait_ns];
    assert_eq!(waits, [100_000, 1_999, 10_001].map(|us| Some(Nanos(us * 1_000))));
    assert_eq!((h.packets.as_str(), h.withheld.as_deref()), ("4 5 6", None));
    assert_eq!(read.kinds(), [Kind::Server]);
    let f = &read.findings[0];
    assert_eq!((f.cost_ns, f.count, f.shown_by), (Nanos(100 * MS), 1, 1));
    assert_eq!(
        f.text,
        "the TLS handshake with `www.example.com` took 112 ms: 100 ms waiting for the server, 10.0 ms for the path"
    );
    assert_eq!(read.names, ["198.51.100.7 www.example.com"]);
}

#[test]
fn tickets_are_no_answer() {
    let answers = |records: &[(u64, u16)]| {
        let mut made = Made::default();
        let mut call = Call::new(&mut made, 0, 50_000, SERVER, 10 * MS);
        call.client(10 * MS, &[client_hello(NAME, &[], BOTH, HTTP)]);
        call.server(20 * MS, &[server_hello(TLS13, false), data(900)]);
        call.client(20 * MS, &finishes());
        for (at, bytes) in records {
            call.server(at * MS, &[data(*bytes)]);
        }
        let read = read(&made.file(65_535));
        read.only().answer_ns.map(|answer| (answer.0 - read.only().request_ns.unwrap().0) / MS)
    };
    assert_eq!(answers(&[(30, 250), (30, 250), (60, 2_000)]), Some(40));
    // The second one is late: Nagle's algorithm.
    assert_eq!(answers(&[(30, 250), (70, 250), (420, 900)]), Some(400));
    assert_eq!(answers(&[(30, 250), (30, 250), (31, 2_000)]), Some(10), "the answer is there with them");
    assert_eq!(answers(&[(30, 300)]), Some(10), "nothing else comes");
    assert_eq!(answers(&[(5_000, 19)]), None, "the server says that it closes the connection");
}

#[test]
fn a_retry_costs_a_round_trip_and_names_the_group() {
    let mut made = Made::default();
    let mut call = Call::new(&mut made, 0, 50_000, SERVER, 10 * MS);
    let hello = client_hello(NAME, &[], BOTH, HTTP);
    call.client(11 * MS, std::slice::from_ref(&hello));
    call.server(21 * MS, &[server_hello(TLS13, true), change()]);
    call.client(22 * MS, &[change(), hello]);
    call.server(32 * MS, &[server_hello(TLS13, false), data(900)]);
    call.client(32 * MS, &finishes());
    let read = read(&made.file(65_535));
    let h = read.only();
    assert!(h.retried);
    assert_eq!((h.retry_ns, h.hello_ns, h.took_ns), (Nanos(11 * MS), Some(Nanos(10 * MS)), Some(Nanos(21 * MS))));
    assert_eq!(read.kinds(), [Kind::Retry]);
    assert_eq!(
        read.findings[0].text,
        "`www.example.com` answered with a HelloRetryRequest, which cost 11.0 ms: it wants a key of the group secp384r1; \
         the client had sent a key of x25519"
    );
}

/// A handshake of TLS 1.2; the client offers to go on with a session, and the server does or not.
fn old(session: &[u8], versions: &[u16], resumes: bool) -> Read {
    let mut made = Made::default();
    let mut call = Call::new(&mut made, 0, 50_000, SERVER, 10 * MS);
    let finished = record(22, &[9; 40]);
    call.client(10 * MS, &[client_hello(NAME, session, versions, HTTP)]);
    if resumes {
        call.server(20 * MS, &[server_hello(TLS12, false), change(), finished.clone()]);
        call.client(20 * MS, &[change(), finished, data(80)]);
    } else {
        let certificate = record(22, &[message(11, &[3; 900]), message(14, &[])].concat());
        call.server(20 * MS, &[server_hello(TLS12, false), certificate]);
        call.client(20 * MS, &[record(22, &message(16, &[1; 32])), change(), finished.clone()]);
        call.server(30 * MS, &[record(22, &message(4, &[5; 100])), change(), finished]);
        call.client(30 * MS, &[data(80)]);
    }
    read(&made.file(65_535))
}

#[test]
fn an_old_version_takes_a_round_trip_more_unless_a_session_goes_on() {
    let read = old(&[], &[TLS12], false);
    let h = read.only();
    assert_eq!((h.version.as_deref(), h.resumed, h.resumption_offered), (Some("TLS 1.2"), Some(false), false));
    assert_eq!((h.took_ns, h.finish_ns, h.outcome), (Some(Nanos(20 * MS)), Some(Nanos(10 * MS)), Outcome::Done));
    assert_eq!((read.kinds(), h.server_wait_ns), (vec![], Some(Nanos::ZERO)));
    let read = old(&[], BOTH, false);
    assert_eq!(read.kinds(), [Kind::Version]);
    assert!(read.findings[0].text.ends_with("takes a round trip less: 10.0 ms"), "{}", read.findings[0].text);
    let read = old(&[4; 32], &[TLS12], true);
    let h = read.only();
    assert_eq!((h.resumed, h.resumption_offered, h.took_ns), (Some(true), true, Some(Nanos(10 * MS))));
    assert_eq!(read.findings, []);
    assert_eq!(old(&[4; 32], &[TLS12], false).kinds(), [Kind::NotResumed]);
}

/// A flight of so many bytes in full segments, of which so many come a round trip after the others.
fn flight(bytes: usize, late: usize, repeats: bool) -> Read {
    let mut made = Made::default();
    let mut call = Call::new(&mut made, 0, 50_000, SERVER, 40 * MS);
    call.client(41 * MS, &[client_hello(NAME, &[], BOTH, HTTP)]);
    let mut flight = [server_hello(TLS13, false), change()].concat();
    while flight.len() < bytes {
        flight.extend(data((bytes - flight.len() - 5).min(1_000) as u16));
    }
    assert_eq!(flight.len(), bytes);
    let mut at = 81 * MS;
    for (i, segment) in flight.chunks(1_460).enumerate() {
        if i * 1_460 == bytes - late {
            at += 40 * MS;
        }
        if repeats && i == 3 {
            // The capture has it twice: something was lost on the way.
            let next = call.next;
            call.send(at, 1, Flags::ACK, segment);
            call.next = next;
        }
        call.send(at, 1, Flags::ACK, segment);
    }
    call.client(at + MS, &finishes());
    read(&made.file(65_535))
}

#[test]
fn a_flight_larger_than_the_first_window_takes_a_round_trip_more() {
    let read = flight(18_980, 4_380, false);
    let h = read.only();
    assert!(h.flight_cut, "{h:#?}");
    assert_eq!((h.flight_ns, h.flight_bytes), (Some(Nanos(40 * MS)), 18_980));
    assert_eq!(read.kinds(), [Kind::Flight]);
    assert_eq!(read.findings[0].cost_ns, Nanos(40 * MS));
    assert_eq!((h.server_wait_ns, h.path_wait_ns), (Some(Nanos::ZERO), Some(Nanos(80 * MS + 1_000))));
    for (what, other) in [
        ("it fits", flight(14_600, 0, false)),
        ("something was lost", flight(18_980, 4_380, true)),
        // Nagle's algorithm holds back what is less than a segment.
        ("the last part", flight(5_000, 620, false)),
        ("no first window has six segments", flight(11_680, 2_920, false)),
    ] {
        assert!(!other.only().flight_cut, "{what}: {other:#?}");
    }
}

#[test]
fn a_window_is_full_too_where_the_flight_began_sooner() {
    let mut made = Made::default();
    let mut call = Call::new(&mut made, 0, 50_000, SERVER, 40 * MS);
    call.client(41 * MS, &[client_hello(NAME, &[], BOTH, HTTP)]);
    let flight = [server_hello(TLS13, false), change(), data(16_000), data(2_700)].concat();
    // The server signs for 15 ms after the first three segments, whose ACKs let the rest go.
    for (i, segment) in flight.chunks(1_460).enumerate() {
        let after = [0, 15, 40][usize::from(i > 2) + usize::from(i > 9)];
        call.send((81 + after) * MS, 1, Flags::ACK, segment);
    }
    call.client(122 * MS, &finishes());
    let read = read(&made.file(65_535));
    assert!(read.only().flight_cut, "{:#?}", read.only());
    assert_eq!((read.kinds(), read.findings[0].cost_ns), (vec![Kind::Flight], Nanos(25 * MS)));
}

#[test]
fn a_client_that_waits_is_named() {
    let mut made = Made::default();
    let mut call = Call::new(&mut made, 0, 50_000, SERVER, 10 * MS);
    call.client(10 * MS, &[client_hello(NAME, &[], BOTH, HTTP)]);
    call.server(20 * MS, &[server_hello(TLS13, false), data(900)]);
    call.client(320 * MS, &finishes());
    let read = read(&made.file(65_535));
    assert_eq!(read.kinds(), [Kind::Client]);
    assert_eq!(read.only().client_wait_ns, Some(Nanos(300 * MS - 1_000)));
}

#[test]
fn a_handshake_that_fails_says_who_ended_it_and_why() {
    let fails = |end: fn(&mut Call<'_>)| {
        let mut made = Made::default();
        let mut call = Call::new(&mut made, 0, 50_000, SERVER, 10 * MS);
        call.client(10 * MS, &[client_hello(NAME, &[], BOTH, HTTP)]);
        end(&mut call);
        let read = read(&made.file(65_535));
        assert_eq!((read.kinds(), read.only().outcome), (vec![Kind::Failed], Outcome::Failed));
        let h = read.only();
        (h.ended_by, h.alert.clone(), read.findings[0].text.clone())
    };
    let (by, alert, text) = fails(|call| call.server(20 * MS, &[record(21, &[2, 40])]));
    assert_eq!((by, alert.as_deref()), (Some(Side::Server), Some("handshake_failure")));
    let wanted = "the TLS handshake with `www.example.com` failed after 10.0 ms: the server ended it with the alert \
                  handshake_failure";
    assert_eq!(text, wanted);
    let (by, alert, text) = fails(|call| {
        call.server(20 * MS, &[server_hello(TLS13, false), data(900)]);
        call.client(21 * MS, &[change(), data(19)]);
    });
    assert_eq!((by, alert), (Some(Side::Client), None));
    assert!(text.ends_with("with an alert, which is encrypted"), "{text}");
    let (by, _, text) = fails(|call| call.send(20 * MS, 1, Flags::ACK | Flags::FIN, &[]));
    assert_eq!(by, Some(Side::Server));
    assert!(text.ends_with("the server closed the connection in the middle of it"), "{text}");
}

#[test]
fn a_client_whose_certificate_is_refused_has_failed() {
    let ends = |last: fn(&mut Call<'_>)| {
        let mut made = Made::default();
        let mut call = Call::new(&mut made, 0, 50_000, SERVER, 10 * MS);
        call.client(10 * MS, &[client_hello(NAME, &[], BOTH, HTTP)]);
        call.server(20 * MS, &[server_hello(TLS13, false), change(), data(40), data(900)]);
        // No certificate, its `Finished`, and the request.
        call.client(21 * MS, &[change(), data(25), data(53), data(100)]);
        last(&mut call);
        read(&made.file(65_535))
    };
    let refused = ends(|call| call.server(31 * MS, &[data(19)]));
    let h = refused.only();
    assert_eq!((h.outcome, h.ended_by, h.took_ns), (Outcome::Failed, Some(Side::Server), None));
    assert_eq!(refused.kinds(), [Kind::Failed]);
    assert!(refused.findings[0].text.ends_with("after the client's answer to its wish for a certificate"), "{h:#?}");
    for (what, other) in [
        ("tickets, an answer and a goodbye", ends(|call| call.server(31 * MS, &[data(250), data(900), data(19)]))),
        (
            "the client closes first",
            ends(|call| {
                call.client(22 * MS, &[data(19)]);
                call.server(32 * MS, &[data(19)]);
            }),
        ),
    ] {
        assert_eq!((other.only().outcome, other.kinds()), (Outcome::Done, vec![]), "{what}");
    }
}

#[test]
fn a_warning_ends_no_handshake() {
    let mut made = Made::default();
    let mut call = Call::new(&mut made, 0, 50_000, SERVER, 10 * MS);
    call.client(10 * MS, &[client_hello(NAME, &[], BOTH, HTTP)]);
    call.server(20 * MS, &[record(21, &[1, 112]), server_hello(TLS13, false), data(900)]);
    call.client(20 * MS, &finishes());
    assert_eq!(read(&made.file(65_535)).only().outcome, Outcome::Done);
}

#[test]
fn what_is_not_in_the_capture_is_withheld() {
    let mut made = Made::default();
    handshake(&mut made, 50_000, 0);
    let whole = read(&made.file(65_535));
    let without = |skip: &dyn Fn(usize) -> bool| {
        let packets = made.packets.iter().enumerate().filter(|(i, _)| !skip(*i)).map(|(_, p)| p.clone()).collect();
        read(&Made { packets }.file(65_535))
    };
    let h = &without(&|i| i == 4).handshakes[0];
    assert_eq!(
        (h.outcome, h.withheld.as_deref()),
        (Outcome::NotKnown, Some("no answer of the server is in the capture"))
    );
    let h = &without(&|i| i > 4).handshakes[0];
    assert_eq!((h.took_ns, h.withheld.as_deref()), (None, Some("its end is not in the capture")));
    assert_eq!(h.hello_ns, whole.handshakes[0].hello_ns);
    let h = &without(&|i| i <= 3).handshakes[0];
    assert_eq!((h.name.as_deref(), h.version.as_deref()), (None, Some("TLS 1.3")));
    assert_eq!((h.took_ns, h.withheld.as_deref()), (None, Some("the client's hello is not in the capture")));
    // The handshake of TCP is not in the capture: whom the time went to is not known.
    let h = &without(&|i| i <= 2).handshakes[0];
    assert_eq!((h.took_ns, h.direct), (whole.handshakes[0].took_ns, false));
    // 20 bytes of TLS of each packet.
    let cut = read(&made.file(74));
    let h = cut.only();
    assert_eq!((h.name.as_deref(), h.outcome), (None, Outcome::NotKnown));
    assert_eq!(h.withheld.as_deref(), Some("the capture kept too little of its packets"));
}

#[test]
fn segments_in_another_order_say_the_same() {
    let mut made = Made::default();
    let mut call = Call::new(&mut made, 0, 50_000, SERVER, 10 * MS);
    call.client(11 * MS, &[client_hello(NAME, &[], BOTH, HTTP)]);
    let flight = [server_hello(TLS13, false), data(900)].concat();
    call.server(21 * MS, &[flight[..50].to_vec()]);
    call.server(21 * MS, &[flight[50..].to_vec()]);
    call.client(23 * MS, &finishes());
    let in_order = read(&made.file(65_535));
    made.packets.swap(4, 5);
    let swapped = read(&made.file(65_535));
    let said = |read: &Read| (read.only().version.clone(), read.only().took_ns, read.only().flight_bytes);
    assert_eq!(said(&in_order), (Some("TLS 1.3".into()), Some(Nanos(12 * MS)), flight.len() as u64));
    assert_eq!(said(&swapped), said(&in_order));
}

#[test]
fn a_name_that_is_asked_for_through_a_proxy_is_not_the_proxys() {
    let mut made = Made::default();
    let mut call = Call::new(&mut made, 0, 50_000, SERVER, 10 * MS);
    call.client(10 * MS, &[b"CONNECT www.example.com:443 HTTP/1.1\r\n\r\n".to_vec()]);
    call.server(20 * MS, &[b"HTTP/1.1 200 OK\r\n\r\n".to_vec()]);
    call.client(21 * MS, &[client_hello(NAME, &[], BOTH, HTTP)]);
    call.server(41 * MS, &[server_hello(TLS13, false), data(900)]);
    call.client(42 * MS, &finishes());
    let read = read(&made.file(65_535));
    let h = read.only();
    assert_eq!((h.name.as_deref(), h.direct, h.outcome), (Some(NAME), false, Outcome::Done));
    assert_eq!(read.names, [] as [String; 0]);
}

#[test]
fn shards_together_find_what_one_reader_does() {
    let mut made = Made::default();
    for n in 0..40 {
        handshake(&mut made, 50_000 + n, u64::from(n) * 10 * MS);
    }
    made.packets.sort_by_key(|(at, _)| *at);
    let file = made.file(65_535);
    let whole = read(&file);
    assert_eq!((whole.handshakes.len(), whole.findings[0].count), (40, 35));
    let parts = Shard::all(3, 99).map(|shard| {
        follow(PacketReader::from_bytes(&file).unwrap().only(shard), Options { shards: 3, ..Options::default() })
    });
    assert_eq!(of(&parts.reduce(Follower::join).unwrap()), whole);
}

#[test]
fn a_server_that_takes_no_protocol_of_the_client_is_named_with_what_was_offered() {
    let refused = |by_server: bool, alert: u8, protocols: &[u8]| {
        let mut made = Made::default();
        let mut call = Call::new(&mut made, 0, 50_000, SERVER, 10 * MS);
        call.client(11 * MS, &[client_hello(NAME, &[], BOTH, protocols)]);
        let alert = record(21, &[2, alert]);
        match by_server {
            true => call.server(21 * MS, &[alert]),
            false => call.client(21 * MS, &[alert]),
        }
        read(&made.file(65_535))
    };
    let both = refused(true, 120, b"\x02h2\x08http/1.1");
    assert_eq!(both.kinds(), [Kind::Protocol], "{both:#?}");
    assert_eq!(
        both.findings[0].text,
        "the TLS handshake with `www.example.com` failed after 10.0 ms: the server takes none of the application \
         protocols that the client offers: h2, http/1.1 (no_application_protocol)"
    );
    assert_eq!(both.findings[0].cost_ns, Nanos(10 * MS));
    // Another alert, and one that is not the server's to send.
    for (by_server, alert) in [(true, 112), (false, 120)] {
        assert_eq!(refused(by_server, alert, HTTP).kinds(), [Kind::Failed]);
    }
    let many = refused(true, 120, &[&b"\x02h2"[..], &b"\x03foo".repeat(9)].concat());
    assert!(many.findings[0].text.contains(": h2, foo, foo, foo, foo, foo, foo, foo and 2 more ("), "{many:#?}");
}

#[test]
fn a_syn_that_comes_again_does_not_end_the_handshake_of_its_connection() {
    let with = |again: bool| {
        let mut made = Made::default();
        let mut call = Call::new(&mut made, 0, 50_000, SERVER, 10 * MS);
        let hello = client_hello(NAME, &[], BOTH, HTTP);
        let (a, b) = hello.split_at(60);
        call.client(11 * MS, &[a.to_vec()]);
        let next = call.next;
        if again {
            call.next = [99, 499];
            call.send(12 * MS, 0, Flags::SYN, &[]);
            call.send(13 * MS, 1, Flags::SYN | Flags::ACK, &[]);
        }
        call.next = next;
        call.client(14 * MS, &[b.to_vec()]);
        call.server(24 * MS, &[server_hello(TLS13, false), data(900)]);
        call.client(26 * MS, &finishes());
        read(&made.file(65_535))
    };
    let (again, plain) = (with(true), with(false));
    let of = |read: &Read| {
        let h = read.only();
        (h.name.clone(), h.hello_ns, h.outcome, h.withheld.clone())
    };
    assert_eq!(of(&again), of(&plain));
    assert_eq!(of(&plain), (Some(NAME.into()), Some(Nanos(13 * MS)), Outcome::Done, None));
}
