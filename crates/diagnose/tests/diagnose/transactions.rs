//! What hosts did to reach a name: the parts of a transaction, and how certain it is that they
//! belong together.

use std::net::{Ipv4Addr, SocketAddrV4};

use record::Nanos;
use record::transaction::{Certainty, Transaction};
use wire::Flags;
use wire::packet::Arp;

use crate::dns::made::{AAAA, ASK, Ask, CLIENT, FIRST, MS, Made, NAME, NO_SUCH_NAME, S};
use crate::network::arp;
use crate::tls::made::{Call, TLS12, TLS13, change, client_hello, data, read, server_hello};

/// What the answers of DNS say.
const SERVER: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(198, 51, 100, 7), 443);
const HTTP: &[u8] = b"\x08http/1.1";

/// A page over TLS: 10 ms to connect, 12 ms for TLS, 200 ms for the answer, and 30 ms of answer.
fn page(made: &mut Made, at: u64, port: u16, name: &str, protocols: &[u8]) {
    let mut call = Call::new(made, at, port, SERVER, 10 * MS);
    call.client(at + 11 * MS, &[client_hello(name, &[], &[TLS13, TLS12], protocols)]);
    call.server(at + 21 * MS, &[server_hello(TLS13, false), data(900)]);
    call.client(at + 23 * MS, &[change(), data(53), data(100)]);
    call.server(at + 223 * MS, &[data(1_400)]);
    call.server(at + 253 * MS, &[data(1_400)]);
}

fn parts(t: &Transaction) -> Vec<(&'static str, u64)> {
    t.parts().into_iter().filter(|(_, took)| *took > Nanos::ZERO).map(|(what, took)| (what, took.0 / MS)).collect()
}

fn only(made: &Made) -> Transaction {
    let read = read(&made.file(65_535));
    assert_eq!(read.transactions.len(), 1, "{read:#?}");
    read.transactions[0].clone()
}

#[test]
fn a_name_that_came_on_the_second_try_is_part_of_what_took_long() {
    let mut made = Made::default();
    made.asks(0, ASK);
    made.asks(5 * S, ASK);
    made.answers(5 * S + 12 * MS, ASK);
    page(&mut made, 5 * S + 13 * MS, 50_000, NAME, HTTP);
    let t = only(&made);
    assert_eq!((t.name.as_str(), t.certainty, t.lookup, t.tries), (NAME, Certainty::Named, Some(1), 2));
    let wanted = [
        ("DNS", 5_012),
        ("pause before connecting", 1),
        ("connect", 11),
        ("TLS", 12),
        ("wait for the answer", 200),
        ("answer", 30),
    ];
    assert_eq!(parts(&t), wanted);
    assert_eq!((t.took_ns, t.withheld.as_deref()), (Nanos(5_266 * MS), None));
    assert_eq!((t.connection, t.server), (1, SERVER.into()));
}

#[test]
fn what_a_first_packet_waited_for_on_its_link_is_part_of_it() {
    let router = Ipv4Addr::new(192, 0, 2, 1);
    let late = |router: Ipv4Addr| {
        let mut made = Made::default();
        // For the resolver, which is on the link, on the second try.
        arp(&mut made, 0, Arp::QUESTION, CLIENT, FIRST);
        arp(&mut made, 1_000 * MS, Arp::QUESTION, CLIENT, FIRST);
        arp(&mut made, 1_030 * MS, Arp::ANSWER, FIRST, CLIENT);
        made.asks(1_030 * MS + 20_000, ASK);
        made.answers(1_042 * MS, ASK);
        arp(&mut made, 1_043 * MS, Arp::QUESTION, CLIENT, router);
        arp(&mut made, 1_103 * MS, Arp::ANSWER, router, CLIENT);
        page(&mut made, 1_103 * MS + 20_000, 50_000, NAME, HTTP);
        made
    };
    let t = only(&late(router));
    let wanted = [
        ("ARP or ND before DNS", 1_030),
        ("DNS", 11),
        ("pause before connecting", 1),
        ("ARP or ND before connecting", 60),
        ("connect", 11),
        ("TLS", 12),
        ("wait for the answer", 200),
        ("answer", 30),
    ];
    assert_eq!(parts(&t), wanted);
    assert_eq!((t.name_neighbour, t.neighbour, t.start_ns), (Some(1), Some(2), Nanos(S)));
    assert_eq!(t.took_ns, Nanos(1_356 * MS + 20_000));
    // Another host that the client sends something to: the connection may not have waited for it.
    let mut made = late(router);
    made.datagram(1_300 * MS, SocketAddrV4::new(CLIENT, 123), SocketAddrV4::new(router, 123), &[0; 48]);
    let t = only(&made);
    assert_eq!((t.name_neighbour, t.neighbour, t.neighbour_ns, t.pause_ns), (Some(1), None, None, Nanos(61_020_000)));
    // Asked for before the answer of DNS came.
    let mut made = Made::default();
    made.asks(0, ASK);
    arp(&mut made, 5 * MS, Arp::QUESTION, CLIENT, router);
    made.answers(12 * MS, ASK);
    arp(&mut made, 60 * MS, Arp::ANSWER, router, CLIENT);
    page(&mut made, 60 * MS + 20_000, 50_000, NAME, HTTP);
    assert_eq!(only(&made).neighbour, None);
    // Longer than a client waits between a lookup and its connection.
    let mut made = Made::default();
    made.asks(0, ASK);
    made.answers(12 * MS, ASK);
    arp(&mut made, 13 * MS, Arp::QUESTION, CLIENT, router);
    arp(&mut made, 1_037 * MS, Arp::QUESTION, CLIENT, router);
    arp(&mut made, 1_513 * MS, Arp::ANSWER, router, CLIENT);
    page(&mut made, 1_513 * MS + 20_000, 50_000, NAME, HTTP);
    let t = only(&made);
    let wanted = [("DNS", 12), ("pause before connecting", 1), ("ARP or ND before connecting", 1_500)];
    assert_eq!((t.lookup, &parts(&t)[..3]), (Some(1), &wanted[..]));
    // Without a lookup it begins with that question.
    let mut made = Made::default();
    arp(&mut made, 0, Arp::QUESTION, CLIENT, router);
    arp(&mut made, 60 * MS, Arp::ANSWER, router, CLIENT);
    page(&mut made, 60 * MS + 20_000, 50_000, NAME, HTTP);
    let t = only(&made);
    assert_eq!((t.neighbour, t.start_ns, parts(&t)[0]), (Some(1), Nanos(S), ("ARP or ND before connecting", 60)));
}

#[test]
fn a_search_through_suffixes_is_part_of_the_lookup() {
    let mut made = Made::default();
    let suffixed = format!("{NAME}.corp.example");
    let search = Ask { id: 7, name: &suffixed, ..ASK };
    let vain = |made: &mut Made, at, ask: Ask<'_>| {
        made.asks(at, ask);
        made.says(at + 10 * MS, ask, &ask.error(NO_SUCH_NAME));
    };
    // Of another name, and long before.
    vain(&mut made, 0, Ask { id: 8, name: "other.corp.example", ..ASK });
    vain(&mut made, 100 * MS, search);
    vain(&mut made, 200 * MS, Ask { id: 9, ..search });
    made.asks(211 * MS, ASK);
    made.answers(221 * MS, ASK);
    page(&mut made, 222 * MS, 50_000, NAME, HTTP);
    let t = only(&made);
    assert_eq!((t.start_ns, parts(&t)[0]), (Nanos(S + 200 * MS), ("DNS", 21)), "{t:#?}");
}

#[test]
fn a_name_that_was_known_before_was_not_waited_for() {
    let mut made = Made::default();
    made.asks(0, ASK);
    made.answers(12 * MS, ASK);
    page(&mut made, 30 * S, 50_000, NAME, HTTP);
    let t = only(&made);
    assert_eq!((t.lookup, t.start_ns, t.name_ns), (None, Nanos(S + 30 * S), Nanos::ZERO));
    // Named by its hello alone.
    let mut made = Made::default();
    page(&mut made, 0, 50_000, "other.example", HTTP);
    let t = only(&made);
    assert_eq!((t.name.as_str(), t.certainty, t.took_ns), ("other.example", Certainty::Named, Nanos(253 * MS)));
}

#[test]
fn without_a_hello_a_connection_is_joined_by_its_address_and_says_so() {
    let plain = |made: &mut Made, at: u64| {
        let mut call = Call::new(made, at, 50_000, SERVER, 10 * MS);
        call.client(at + 11 * MS, &[b"GET / HTTP/1.1\r\n\r\n".to_vec()]);
        call.server(at + 31 * MS, &[vec![b'x'; 1_000]]);
        call.server(at + 41 * MS, &[vec![b'x'; 1_000]]);
        call.client(at + 500 * MS, &[b"GET /next HTTP/1.1\r\n\r\n".to_vec()]);
        call.server(at + 600 * MS, &[vec![b'x'; 1_000]]);
    };
    let mut made = Made::default();
    made.asks(0, ASK);
    made.answers(12 * MS, ASK);
    plain(&mut made, 13 * MS);
    let t = only(&made);
    assert_eq!(t.certainty, Certainty::OnlyName);
    // Up to the next request.
    let wanted =
        [("DNS", 12), ("pause before connecting", 1), ("connect", 11), ("wait for the answer", 20), ("answer", 10)];
    assert_eq!(parts(&t), wanted);
    let mut made = Made::default();
    let other = Ask { id: 2, name: "other.example", ..ASK };
    made.asks(0, other);
    made.answers(12 * MS, other);
    made.asks(S, ASK);
    made.answers(S + 12 * MS, ASK);
    plain(&mut made, S + 13 * MS);
    let t = only(&made);
    assert_eq!((t.name.as_str(), t.certainty), (NAME, Certainty::LatestName));
    // An address that no answer gave has no name.
    let mut made = Made::default();
    made.asks(0, ASK);
    made.says(MS, ASK, &ASK.answer(&[&[198, 51, 100, 8]]));
    plain(&mut made, 2 * MS);
    assert_eq!(read(&made.file(65_535)).transactions, []);
}

#[test]
fn attempts_that_were_given_up_count_before_the_one_that_was_used() {
    let mut made = Made::default();
    made.asks(0, ASK);
    made.says(10 * MS, ASK, &ASK.answer(&[&[198, 51, 100, 9], &[198, 51, 100, 7]]));
    let dead = SocketAddrV4::new([198, 51, 100, 9].into(), 443);
    let client = SocketAddrV4::new(CLIENT, 49_999);
    made.tcp(11 * MS, (client, dead), (7, 0), Flags::SYN, &[]);
    page(&mut made, 261 * MS, 50_000, NAME, HTTP);
    let t = only(&made);
    assert_eq!((t.earlier_attempts, t.attempts_ns, t.name_ns), (1, Nanos(250 * MS), Nanos(10 * MS)));
    assert_eq!(t.server, SERVER.into());
    // Where none was answered, that is what is said.
    made.packets.truncate(3);
    let t = only(&made);
    assert_eq!(t.withheld.as_deref(), Some("the client sent no data on this connection"));
}

#[test]
fn a_client_that_waits_for_aaaa_waited_for_the_name() {
    let mut made = Made::default();
    let six = Ask { id: 2, kind: AAAA, ..ASK };
    made.asks(0, ASK);
    made.asks(MS, six);
    made.answers(10 * MS, ASK);
    made.asks(5 * S, six);
    page(&mut made, 10 * S, 50_000, NAME, HTTP);
    let t = only(&made);
    assert_eq!((t.lookup, t.tries, t.name_ns), (Some(2), 2, Nanos(10 * S)));
    assert_eq!(t.pause_ns, Nanos::ZERO);
}

#[test]
fn the_end_of_an_answer_that_http_2_hides_is_withheld() {
    let mut made = Made::default();
    page(&mut made, 0, 50_000, NAME, b"\x02h2\x08http/1.1");
    assert_eq!(only(&made).answer_ns, Nanos(30 * MS), "the client sent nothing meanwhile");
    let mut call = Call {
        ends: [SocketAddrV4::new(CLIENT, 50_000), SERVER],
        next: [100 + bytes_of(&made, 50_000), 99_999],
        made: &mut made,
    };
    call.client(240 * MS, &[data(30)]);
    made.packets.sort_by_key(|(at, _)| *at);
    let t = only(&made);
    assert!(t.withheld.as_deref().is_some_and(|why| why.contains("HTTP/2")), "{t:#?}");
    assert_eq!((t.answer_ns, t.took_ns), (Nanos::ZERO, Nanos(223 * MS)));
}

/// Bytes that were sent from this port.
fn bytes_of(made: &Made, port: u16) -> u32 {
    let is_from = |(_, frame): &&(u64, Vec<u8>)| frame[34..36] == port.to_be_bytes();
    let header = |frame: &[u8]| 34 + usize::from(frame[46] >> 4) * 4;
    made.packets.iter().filter(is_from).map(|(_, frame)| (frame.len() - header(frame)) as u32).sum()
}

#[test]
fn a_goodbye_is_no_part_of_the_answer() {
    let took = |last: u16| {
        let mut made = Made::default();
        page(&mut made, 0, 50_000, NAME, HTTP);
        let next = 500 + bytes_of(&made, 443);
        let mut call =
            Call { ends: [SocketAddrV4::new(CLIENT, 50_000), SERVER], next: [99_999, next], made: &mut made };
        call.server(60 * S, &[data(last)]);
        only(&made).answer_ns
    };
    assert_eq!(took(19), Nanos(30 * MS));
    assert_eq!(took(900), Nanos(60 * S - 223 * MS), "an answer that goes on");
}

#[test]
fn a_host_asks_with_one_address_and_connects_from_another() {
    let resolver = SocketAddrV4::new(FIRST, 53);
    let asks = |made: &mut Made, from: [u8; 4]| {
        let asker = SocketAddrV4::new(from.into(), 40_000);
        made.datagram(0, asker, resolver, &ASK.question(1_232));
        made.datagram(MS, resolver, asker, &ASK.answer(&[&[198, 51, 100, 7]]));
    };
    let mut made = Made::default();
    asks(&mut made, [127, 0, 0, 1]);
    page(&mut made, 2 * MS, 50_000, NAME, HTTP);
    let t = only(&made);
    assert_eq!((t.lookup, t.name_ns, t.client), (Some(1), Nanos(MS), CLIENT.into()));
    // Where several asked, none of them need have been this host.
    asks(&mut made, [192, 0, 2, 99]);
    made.packets.sort_by_key(|(at, _)| *at);
    let t = only(&made);
    assert_eq!((t.lookup, t.certainty, t.name_ns), (None, Certainty::Named, Nanos::ZERO));
}
