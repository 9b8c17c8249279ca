//! Requests and answers: how long they took, and what became of those that nobody answered.

use std::net::{Ipv4Addr, SocketAddrV4};

use record::Nanos;
use record::udp::{KnownBy, Shape, UdpFindingKind as Kind};

use super::read;
use crate::dns::made::{CLIENT, MS, Made, S};

const PORT: u16 = 40_000;

fn client() -> SocketAddrV4 {
    SocketAddrV4::new(CLIENT, PORT)
}

fn server(port: u16) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::new(198, 51, 100, 9), port)
}

/// A request of NTP with this stamp.
fn ntp(stamp: u8) -> [u8; 48] {
    let mut request = [0; 48];
    (request[0], request[39]) = (0x23, stamp);
    request
}

#[test]
fn turns_are_timed_from_the_request_to_the_answer() {
    let mut made = Made::default();
    for n in 0..9u64 {
        made.datagram(n * S, client(), server(7_000), &[n as u8; 20]);
        made.datagram(n * S + (10 + n) * MS, server(7_000), client(), &[n as u8; 30]);
    }
    let read = read(&made);
    let c = read.only();
    assert_eq!((c.shape, c.requests, c.answered, c.repeated), (Shape::RequestResponse, 9, 9, 0));
    assert_eq!((c.by_client.datagrams, c.by_client.bytes, c.by_server.bytes), (9, 180, 270));
    let times = (c.answer_min_ns, c.answer_median_ns, c.answer_max_ns);
    assert_eq!(times, (Some(Nanos(10 * MS)), Some(Nanos(14 * MS)), Some(Nanos(18 * MS))));
    assert_eq!((c.protocol.as_deref(), c.withheld.as_deref()), (None, None));
    assert_eq!(c.verdict, "9 requests, 9 answered: median 14.0 ms, longest 18.0 ms");
    assert_eq!(read.kinds(), []);
}

#[test]
fn a_request_that_is_repeated_in_vain_has_a_finding_where_the_capture_goes_on() {
    let mut made = Made::default();
    // Others have answers, so that the capture holds both directions.
    made.datagram(0, client(), server(7_000), b"who is there");
    made.datagram(MS, server(7_000), client(), b"it is me");
    for n in 0..4 {
        made.datagram((1 + n) * S, client(), server(123), &ntp(1));
    }
    let mut long = made.clone();
    // Nothing answers, and nothing is sent any more.
    long.datagram(10 * S, client(), server(7_000), b"the end");
    let read = [made, long].map(|made| read(&made));
    let c = &read[0].conversations[1];
    assert_eq!((c.protocol.as_deref(), c.known_by), (Some("NTP"), Some(KnownBy::Payload)));
    assert_eq!((c.repeated, read[0].kinds().len()), (3, 0));
    assert_eq!(c.withheld.as_deref(), Some("the capture ends 0 ns after the last request"));
    assert_eq!(read[1].kinds(), [Kind::Unanswered]);
    let finding = &read[1].findings[0];
    assert_eq!((finding.shown_by, finding.cost_ns, finding.packets.as_str()), (2, Nanos(3 * S), "3 4 5 6"));
    assert!(finding.text.contains("198.51.100.9:123 did not answer a request by NTP"), "{}", finding.text);
}

#[test]
fn one_direction_alone_shows_no_silence() {
    let mut made = Made::default();
    for n in 0..4 {
        made.datagram((1 + n) * S, client(), server(123), &ntp(1));
    }
    made.datagram(20 * S, client(), server(7_000), b"the end");
    let read = read(&made);
    assert_eq!(read.kinds(), []);
    let why = read.conversations[0].withheld.as_deref().unwrap();
    assert!(why.contains("one direction only"), "{why}");
}

#[test]
fn beats_that_nobody_answers_are_no_requests() {
    let mut made = Made::default();
    made.datagram(0, client(), server(7_000), b"who is there");
    made.datagram(MS, server(7_000), client(), b"it is me");
    for n in 0..30 {
        made.datagram((1 + n) * S, client(), server(9_999), b"I am alive");
        // To a group, whose members answer from their own addresses.
        made.datagram(
            (1 + n) * S + MS,
            client(),
            SocketAddrV4::new(Ipv4Addr::new(239, 255, 255, 250), 1_900),
            b"M-SEARCH",
        );
    }
    let read = read(&made);
    assert_eq!(read.kinds(), []);
    assert_eq!(read.conversations.iter().map(|c| c.withheld.clone()).collect::<Vec<_>>(), [None, None, None]);
    assert_eq!(read.conversations[1].shape, Shape::OneWay);
}

#[test]
fn an_answer_that_came_on_a_later_try_costs_the_time_from_the_first() {
    let mut made = Made::default();
    made.datagram(0, client(), server(161), &[0x30; 40]);
    made.datagram(S, client(), server(161), &[0x30; 40]);
    made.datagram(S + 5 * MS, server(161), client(), &[0x31; 80]);
    let read = read(&made);
    assert_eq!(read.kinds(), [Kind::Retries]);
    let finding = &read.findings[0];
    assert_eq!((finding.cost_ns, finding.packets.as_str()), (Nanos(S + 5 * MS), "1 3"));
    let c = read.only();
    assert_eq!((c.protocol.as_deref(), c.known_by, c.repeated), (Some("SNMP"), Some(KnownBy::Port), 1));
    // Which of the two was answered is not known.
    assert_eq!((c.answered, c.answer_median_ns), (1, None));
}

#[test]
fn a_slow_server_is_named_and_one_slow_answer_too() {
    let asked = |times: &[u64]| {
        let mut made = Made::default();
        for (n, took) in (0..).zip(times) {
            made.datagram(n * 2 * S, client(), server(7_000), &[n as u8; 20]);
            made.datagram(n * 2 * S + took * MS, server(7_000), client(), &[n as u8; 30]);
        }
        read(&made)
    };
    assert_eq!(asked(&[30, 40, 50]).kinds(), []);
    let slow = asked(&[110, 120, 130]);
    assert_eq!(slow.kinds(), [Kind::Slow]);
    assert!(slow.findings[0].text.contains("median of 3 answers: 120 ms"), "{}", slow.findings[0].text);
    let once = asked(&[3, 4, 700, 5]);
    assert_eq!((once.kinds(), once.findings[0].cost_ns), (vec![Kind::Slow], Nanos(700 * MS)));
}

#[test]
fn the_port_of_a_service_shows_the_server_where_the_request_is_missing() {
    let mut made = Made::default();
    made.datagram(0, server(123), client(), &ntp(9));
    let c = read(&made).only().clone();
    assert_eq!((c.client, c.server), (client().into(), server(123).into()));
    assert_eq!((c.by_client.datagrams, c.by_server.datagrams), (0, 1));
    assert_eq!(c.verdict, "1 datagram of 48 bytes");
}

#[test]
fn dns_is_left_to_its_lookups() {
    let mut made = Made::default();
    made.asks(0, crate::dns::made::ASK);
    made.answers(MS, crate::dns::made::ASK);
    let read = read(&made);
    assert_eq!((read.conversations.len(), read.totals.datagrams, read.totals.of_dns), (0, 2, 2));
}

#[test]
fn answers_that_all_take_as_long_may_come_from_far_away() {
    let asked = |took: fn(u64) -> u64| {
        let mut made = Made::default();
        for n in 0..10u64 {
            made.datagram(n * S, client(), server(7_000), &[n as u8; 20]);
            made.datagram(n * S + took(n), server(7_000), client(), &[n as u8; 30]);
        }
        let read = read(&made);
        assert_eq!(read.kinds(), [Kind::Slow]);
        read.findings[0].text.clone()
    };
    let far = asked(|n| (200 + n) * MS);
    assert!(far.contains("from 200 ms to 209 ms): it is far away, or takes as long for each"), "{far}");
    // What one answer can do, the way allows for all.
    let busy = asked(|n| if n == 0 { 20 * MS } else { 300 * MS });
    assert!(busy.contains("is slow to answer (median of 10 answers: 300 ms, from 20.0 ms to 300 ms)"), "{busy}");
}

#[test]
fn requests_that_the_client_gave_up_are_counted() {
    // Each is another one than the one before; every fifth has no answer for 300 ms.
    let mut made = Made::default();
    let mut at = 0;
    for n in 0..40u64 {
        made.datagram(at, client(), server(7_000), &[n as u8; 20]);
        if n % 5 == 4 && n > 8 {
            at += 300 * MS;
        } else {
            made.datagram(at + 20 * MS, server(7_000), client(), &[n as u8; 30]);
            at += 40 * MS;
        }
    }
    let lossy = read(&made);
    let c = lossy.only();
    // The last one is open when the capture ends.
    assert_eq!((c.shape, c.requests, c.answered), (Shape::RequestResponse, 40, 33), "{c:#?}");
    assert_eq!(lossy.kinds(), [Kind::Unanswered]);
    let text = &lossy.findings[0].text;
    assert!(text.contains("left 6 of 40 requests without an answer (15 %)"), "{text}");
    // Requests of two datagrams, with pauses between them, are none that were given up.
    let mut two = Made::default();
    for n in 0..40u64 {
        two.datagram(n * S, client(), server(7_000), &[n as u8; 20]);
        two.datagram(n * S + 300 * MS, client(), server(7_000), &[n as u8 + 100; 20]);
        two.datagram(n * S + 320 * MS, server(7_000), client(), &[n as u8; 30]);
    }
    let two = read(&two);
    assert_eq!((two.only().requests, two.kinds()), (40, vec![]));
}
