use super::*;
use record::{ConnectionId, Method, SeqNumber, SpanId, TraceContext, TraceId};

use Direction::{Received, Sent};

fn head(direction: Direction, first: u32, says: Says) -> Head {
    Head { connection: ConnectionId(1), direction, first_seq: SeqNumber(first), says }
}

fn ask(path: &str) -> Says {
    Says::Request(Label { method: Method::Get, path: path.into() })
}

fn message(first: u32, bytes: u64) -> Message {
    Message { first_seq: SeqNumber(first), bytes, pieces: 1 }
}

fn heads(all: &[Head]) -> Heads {
    let mut heads = Heads::default();
    all.iter().for_each(|head| heads.add(head));
    heads
}

/// Label, status and protocol of the exchange of a client that asked with `asked` and was answered
/// with `answered`.
fn take(heads: &mut Heads, asked: (u32, u64), answered: (u32, u64)) -> (Option<String>, Option<u16>, Option<Protocol>) {
    let http = heads.take(Role::Client, &message(asked.0, asked.1), &message(answered.0, answered.1));
    (http.label().map(|label| label.to_string()), http.status, http.protocol)
}

#[test]
fn each_exchange_has_the_label_of_the_byte_that_it_begins_with() {
    let first = u32::MAX - 5;
    let mut of = heads(&[
        head(Sent, first, ask("/a")),
        head(Received, 900, Says::Answer(200)),
        head(Sent, first.wrapping_add(50), ask("/b")),
        head(Received, 1_000, Says::Answer(404)),
    ]);
    let http1 = Some(Protocol::Http1);
    assert_eq!(take(&mut of, (first, 50), (900, 100)), (Some("GET /a".into()), Some(200), http1));
    assert_eq!(take(&mut of, (first.wrapping_add(50), 50), (1_000, 100)), (Some("GET /b".into()), Some(404), http1));
    assert_eq!(take(&mut of, (first.wrapping_add(100), 50), (1_100, 100)), (None, None, None));
}

#[test]
fn the_same_from_the_server_is_read_the_other_way_round() {
    let mut of = heads(&[head(Received, 1, ask("/a")), head(Sent, 900, Says::Answer(204))]);
    let http = of.take(Role::Server, &message(1, 50), &message(900, 10));
    assert_eq!((http.path.as_deref(), http.status), (Some("/a"), Some(204)));
    // What the server asks for itself is no label of what it is asked.
    let mut of = heads(&[head(Sent, 1, ask("/a")), head(Sent, 900, ask("/b"))]);
    assert_eq!(of.take(Role::Server, &message(1, 50), &message(900, 10)), Http::default());
}

#[test]
fn what_begins_elsewhere_in_an_exchange_is_no_label_of_it() {
    let mut of = heads(&[head(Sent, 30, ask("/within")), head(Sent, 100, ask("/next"))]);
    assert_eq!(take(&mut of, (1, 99), (900, 10)), (None, None, None));
    assert_eq!(take(&mut of, (100, 50), (910, 10)).0, Some("GET /next".into()));
}

#[test]
fn a_request_line_that_is_cut_is_said_to_be_one() {
    let mut of = heads(&[head(Sent, 1, Says::Cut), head(Received, 900, Says::Answer(200))]);
    assert_eq!(take(&mut of, (1, 50), (900, 10)), (None, Some(200), Some(Protocol::Http1Cut)));
}

/// A trace of which each byte is this one.
fn trace(n: u8) -> Says {
    Says::Trace(TraceContext { trace: TraceId([n; 16]), span: SpanId([n; 8]), sampled: true })
}

#[test]
fn a_trace_is_that_of_the_request_that_begins_with_the_same_byte() {
    let mut of = heads(&[
        head(Sent, 1, ask("/a")),
        head(Sent, 1, trace(1)),
        // A packet that was retransmitted.
        head(Sent, 1, trace(1)),
        head(Received, 900, Says::Answer(200)),
        head(Sent, 50, Says::Cut),
        head(Sent, 50, trace(2)),
        head(Sent, 100, ask("/c")),
        // Beside something that is no request, within a request, and of an answer.
        head(Sent, 150, trace(3)),
        head(Sent, 205, trace(4)),
        head(Received, 940, trace(5)),
    ]);
    let asked = [(1, 49), (50, 50), (100, 50), (150, 50), (200, 50)];
    let traces = asked.iter().zip(0..).map(|((first, bytes), n)| {
        let http = of.take(Role::Client, &message(*first, *bytes), &message(900 + n * 10, 10));
        http.trace.map(|trace| trace.trace.0[0])
    });
    assert_eq!(traces.collect::<Vec<_>>(), [Some(1), Some(2), None, None, None]);
    let mut of =
        heads(&[head(Received, 1, ask("/a")), head(Received, 1, trace(1)), head(Sent, 900, Says::Answer(204))]);
    let http = of.take(Role::Server, &message(1, 50), &message(900, 10));
    assert_eq!(http.trace.map(|trace| trace.span), Some(SpanId([1; 8])));
}

#[test]
fn the_preface_makes_exchanges_of_what_comes_from_it_on() {
    let mut of =
        heads(&[head(Sent, 1, ask("/upgrade")), head(Received, 900, Says::Answer(101)), head(Sent, 100, Says::Http2)]);
    // By an upgrade: the preface is there before the exchange that asked for it is over.
    assert_eq!(take(&mut of, (1, 99), (900, 100)), (Some("GET /upgrade".into()), Some(101), Some(Protocol::Http1)));
    for n in 0..3 {
        let seen = take(&mut of, (100 + n * 50, 50), (1_000 + n * 50, 50));
        assert_eq!(seen, (None, None, Some(Protocol::Http2)), "{n}");
    }
}

#[test]
fn after_an_answer_101_it_is_another_protocol() {
    let mut of = heads(&[head(Sent, 1, ask("/chat")), head(Received, 900, Says::Answer(101))]);
    assert_eq!(take(&mut of, (1, 99), (900, 100)).2, Some(Protocol::Http1));
    assert_eq!(take(&mut of, (100, 9), (1_000, 9)), (None, None, Some(Protocol::Upgraded)));
}

#[test]
fn tls_says_what_it_offers_on_every_exchange_of_its_connection() {
    for (offered, protocol) in
        [(Some(true), Protocol::TlsH2Offered), (Some(false), Protocol::Tls), (None, Protocol::Tls)]
    {
        let mut of = heads(&[head(Sent, 1, Says::Tls { h2: offered, server: None })]);
        assert_eq!(take(&mut of, (1, 500), (900, 100)).2, Some(protocol));
        assert_eq!(take(&mut of, (501, 50), (1_000, 100)).2, Some(protocol));
    }
}

#[test]
fn statements_of_one_exchange_add_up_and_a_retransmitted_packet_counts_once() {
    let one = head(Sent, 1, Says::Statements(1));
    let protocol = |all: &[Head]| take(&mut heads(all), (1, 99), (900, 10)).2;
    assert_eq!(protocol(std::slice::from_ref(&one)), Some(Protocol::Postgresql));
    assert_eq!(protocol(&[one.clone(), one.clone()]), Some(Protocol::Postgresql));
    assert_eq!(protocol(&[one.clone(), head(Sent, 60, Says::Statements(1))]), Some(Protocol::PostgresqlPipeline));
    assert_eq!(protocol(&[one, head(Sent, 100, Says::Statements(1))]), Some(Protocol::Postgresql));
    assert_eq!(protocol(&[head(Sent, 1, Says::Statements(3))]), Some(Protocol::PostgresqlPipeline));
}

#[test]
fn what_waits_is_bounded_and_a_preface_is_not_forgotten() {
    let mut of = heads(&[head(Sent, 1, Says::Http2)]);
    (0..1_000).for_each(|n| of.add(&head(Received, n * 10, Says::Answer(200))));
    assert_eq!(of.waiting.len(), WAITING);
    assert_eq!(take(&mut of, (1, 50), (0, 10)).2, Some(Protocol::Http2));
}
