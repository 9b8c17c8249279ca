use super::*;
use record::{Arrival, Merged, Owner, Part, Receive, Send, SenderState, Stamps};

const MS: u64 = 1_000_000;
const CLIENT: ConnectionId = ConnectionId(1);
const SERVER: ConnectionId = ConnectionId(2);

fn at(ms: u64) -> Instant<Monotonic> {
    Instant::from_nanos(ms * MS)
}

fn connection(id: ConnectionId, opening: Opening) -> Event {
    let (client, server) = ("192.0.2.1:40000".parse().unwrap(), "192.0.2.2:80".parse().unwrap());
    let (local, remote) = if id == CLIENT { (client, server) } else { (server, client) };
    Event::Connection(Connection {
        id,
        local,
        remote,
        owner: Owner::default(),
        opening,
        since: at(0),
        congestion_control: "reno".into(),
    })
}

/// `send`, `driver` and `ack`, in milliseconds.
fn send(id: ConnectionId, first: u32, bytes: u32, times: [u64; 3]) -> Event {
    Event::Send(Send {
        connection: id,
        owner: Owner::default(),
        first_seq: SeqNumber(first),
        bytes,
        stamps: Stamps {
            sched: Some(at(times[0])),
            driver: Some(at(times[1])),
            ack: Some(at(times[2])),
            ..Stamps::sent_at(at(times[0]))
        },
        merged: Merged::default(),
        state: SenderState { srtt: Nanos::from_millis(12), ..SenderState::default() },
        wait: None,
        retransmissions: 0,
    })
}

/// `driver_rx`, `ready` and `read`, in milliseconds.
fn receive(id: ConnectionId, first: u32, bytes: u32, times: [u64; 3]) -> Event {
    Event::Receive(Receive {
        connection: id,
        reader: Owner::default(),
        first_seq: SeqNumber(first),
        bytes,
        segments: 1,
        stamps: Arrival {
            driver_rx: Some(at(times[0])),
            tcp_rx: Some(at(times[0])),
            ready: Some(at(times[1])),
            read: Some(at(times[2])),
        },
        out_of_order: false,
        queued: 0,
        buffer: 0,
        buffer_used: 0,
    })
}

fn run(events: &[Event]) -> (Vec<Request>, Lost) {
    let mut requests = Requests::default();
    let mut out = Vec::new();
    for event in events {
        requests.event(event, &mut |r| out.push(r));
    }
    requests.finish(&mut |r| out.push(r));
    (out, requests.lost())
}

fn parts(request: &Request) -> Vec<(Part, u64)> {
    let parts = request.parts.unwrap();
    assert_eq!(Some(parts.sum()), request.whole(), "the parts add up to the whole");
    Part::ALL.into_iter().filter_map(|p| Some((p, parts.get(p)?.0 / MS))).filter(|p| p.1 > 0).collect()
}

/// A request of 10 bytes, on the wire at 1, at the server at 6 and answered from 30 on; the answer of 100 bytes is with the
/// client at 36 and read at 40.
fn client_end(ack: u64) -> [Event; 2] {
    [send(CLIENT, 100, 10, [0, 1, ack]), receive(CLIENT, 900, 100, [36, 37, 40])]
}

fn server_end() -> [Event; 2] {
    [receive(SERVER, 100, 10, [6, 8, 9]), send(SERVER, 900, 100, [30, 31, 45])]
}

#[test]
fn an_ack_of_its_own_tells_the_network_from_the_peer() {
    let [sent, received] = client_end(11);
    let (requests, lost) = run(&[connection(CLIENT, Opening::Connected), sent, received]);
    assert_eq!(requests.len(), 1);
    assert_eq!(requests[0].basis, Basis::OwnAck);
    let expected = [(Part::Application, 3), (Part::Kernel, 2), (Part::Network, 10), (Part::PeerApplication, 25)];
    assert_eq!(parts(&requests[0]), expected);
    assert_eq!(lost, Lost::default());
}

#[test]
fn an_ack_with_the_answer_leaves_the_least_round_trip() {
    let [sent, received] = client_end(36);
    let (requests, _) = run(&[connection(CLIENT, Opening::Connected), sent, received]);
    assert_eq!(requests[0].basis, Basis::LeastRoundTrip);
    let expected = [(Part::Application, 3), (Part::Kernel, 2), (Part::Network, 12), (Part::PeerApplication, 23)];
    assert_eq!(parts(&requests[0]), expected);
}

#[test]
fn a_delayed_ack_is_not_taken_for_the_network() {
    let events = [
        connection(CLIENT, Opening::Connected),
        send(CLIENT, 100, 10, [0, 0, 52]),
        receive(CLIENT, 900, 100, [80, 80, 80]),
    ];
    let (requests, _) = run(&events);
    assert_eq!(requests[0].basis, Basis::LeastRoundTrip);
    assert_eq!(parts(&requests[0]), [(Part::Network, 12), (Part::PeerApplication, 68)]);
}

#[test]
fn both_ends_split_the_peers_part() {
    let ([sent, received], [at_server, answered]) = (client_end(11), server_end());
    let events = [
        connection(CLIENT, Opening::Connected),
        connection(SERVER, Opening::Accepted),
        sent,
        at_server,
        answered,
        received,
    ];
    let (requests, lost) = run(&events);
    let of = |role| requests.iter().find(|r| r.role == role).unwrap();
    assert_eq!(of(Role::Client).basis, Basis::BothEnds);
    let expected = [
        (Part::Application, 3),
        (Part::Kernel, 2),
        (Part::Network, 10),
        (Part::PeerReceive, 2),
        (Part::PeerApplication, 22),
        (Part::PeerSend, 1),
    ];
    assert_eq!(parts(of(Role::Client)), expected);
    assert_eq!(parts(of(Role::Server)), [(Part::Application, 22), (Part::Kernel, 3)]);
    assert_eq!(lost, Lost::default());
}

#[test]
fn another_exchange_on_the_same_addresses_is_not_joined() {
    let ([sent, received], [_, answered]) = (client_end(11), server_end());
    let events = [
        connection(CLIENT, Opening::Connected),
        connection(SERVER, Opening::Accepted),
        sent,
        receive(SERVER, 5_000, 10, [6, 8, 9]),
        answered,
        received,
    ];
    let (requests, _) = run(&events);
    assert_eq!(requests.iter().find(|r| r.role == Role::Client).unwrap().basis, Basis::OwnAck);
}

#[test]
fn writes_and_frames_of_one_message_are_put_together() {
    let events = [
        connection(CLIENT, Opening::Connected),
        send(CLIENT, u32::MAX - 4, 10, [0, 1, 11]),
        send(CLIENT, 5, 10, [4, 6, 16]),
        receive(CLIENT, 900, 100, [36, 37, 40]),
        receive(CLIENT, 1_000, 50, [50, 51, 52]),
        // The next request ends the answer.
        send(CLIENT, 15, 10, [60, 60, 70]),
        receive(CLIENT, 1_050, 100, [90, 90, 90]),
    ];
    let (requests, lost) = run(&events);
    assert_eq!(requests.len(), 2);
    let first = &requests[0];
    assert_eq!((first.request.bytes, first.request.pieces, first.request.first_seq.0), (20, 2, u32::MAX - 4));
    assert_eq!((first.answer.bytes, first.answer.pieces, first.answer.end_seq().0), (150, 2, 1_050));
    let expected = [
        (Part::Application, 5),
        (Part::Kernel, 3),
        (Part::Network, 10),
        (Part::PeerApplication, 20),
        (Part::Transfer, 14),
    ];
    assert_eq!(parts(first), expected);
    assert_eq!(requests[1].whole(), Some(Nanos::from_millis(30)));
    assert_eq!(lost, Lost::default());
}

#[test]
fn what_belongs_to_no_request_is_counted_and_what_lacks_stamps_has_no_parts() {
    let events = [
        connection(CLIENT, Opening::Connected),
        receive(CLIENT, 800, 100, [1, 1, 2]),
        send(CLIENT, 100, 10, [3, 4, 5]),
        // No one answers.
        connection(SERVER, Opening::Accepted),
        send(SERVER, 900, 10, [3, 4, 5]),
    ];
    let (requests, lost) = run(&events);
    assert_eq!((lost.request_unsolicited, lost.request_incomplete), (2, 1));
    assert_eq!((requests.len(), requests[0].parts, requests[0].whole()), (1, None, None));
}

#[test]
fn found_connections_have_their_server_at_the_port_that_is_no_clients() {
    let [at_server, answered] = server_end();
    let (requests, _) = run(&[connection(SERVER, Opening::Found), at_server, answered]);
    assert_eq!(requests[0].role, Role::Server);
}

#[test]
fn a_connection_that_is_over_gives_its_last_request_a_second_later() {
    let [sent, received] = client_end(11);
    let mut requests = Requests::default();
    let mut out = Vec::new();
    let totals = record::ConnectionTotals::default();
    for event in [connection(CLIENT, Opening::Connected), sent, Event::Closed { connection: CLIENT, totals }, received]
    {
        requests.event(&event, &mut |r| out.push(r));
    }
    requests.tick(at(100), &mut |r| out.push(r));
    assert!(out.is_empty());
    requests.tick(at(1_200), &mut |r| out.push(r));
    assert_eq!((out.len(), out[0].answer.bytes), (1, 100));
}

#[test]
fn where_ports_do_not_tell_whoever_sends_first_asks() {
    let [sent, received] = client_end(11);
    let Event::Connection(found) = connection(CLIENT, Opening::Found) else { panic!() };
    let ambiguous = Connection { remote: "192.0.2.2:50000".parse().unwrap(), ..found };
    let (requests, lost) = run(&[Event::Connection(ambiguous.clone()), sent, received]);
    assert_eq!((requests[0].role, requests[0].request.bytes, lost), (Role::Client, 10, Lost::default()));
    let events =
        [Event::Connection(ambiguous), receive(CLIENT, 900, 10, [6, 8, 9]), send(CLIENT, 100, 100, [30, 31, 45])];
    let (requests, _) = run(&events);
    assert_eq!((requests[0].role, requests[0].answer.bytes), (Role::Server, 100));
}
