use super::*;
use record::{
    Arrival, Component, Connect, ConnectStamps, Owner, Receive, Send, SenderState, Stamps, WaitReason, Waits,
};

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
        accepted: None,
    })
}

/// `send`, `driver` and `ack`, in milliseconds.
fn send(id: ConnectionId, first: u32, bytes: u32, times: [u64; 3]) -> Event {
    Event::Send(Send {
        connection: id,
        first_seq: SeqNumber(first),
        bytes,
        stamps: Stamps {
            sched: Some(at(times[0])),
            driver: Some(at(times[1])),
            ack: Some(at(times[2])),
            ..Stamps::sent_at(at(times[0]))
        },
        state: SenderState { srtt: Nanos::from_millis(12), ..SenderState::default() },
        ..Send::blank()
    })
}

/// `driver_rx`, `ready` and `read`, in milliseconds.
fn receive(id: ConnectionId, first: u32, bytes: u32, times: [u64; 3]) -> Event {
    Event::Receive(Receive {
        connection: id,
        reader: Owner::default(),
        thread: None,
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

/// The connection was established, 12 ms after its SYN, in milliseconds.
fn set_up(id: ConnectionId, syn: u64) -> Event {
    let stamps = ConnectStamps { syn: Some(at(syn)), established: Some(at(syn + 12)), ..ConnectStamps::default() };
    Event::SetUp(Box::new(Connect { connection: Some(id), opening: Opening::Connected, stamps, ..Connect::blank() }))
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

fn components(request: &Request) -> Vec<(Component, u64)> {
    let components = request.components.unwrap();
    assert_eq!(Some(components.sum()), request.whole(), "the components add up to the whole");
    Component::ALL.into_iter().filter_map(|p| Some((p, components.get(p)?.0 / MS))).filter(|p| p.1 > 0).collect()
}

/// A request of 10 bytes, on the wire at 1, at the server at 6 and answered from 30 on; the answer
/// of 100 bytes is with the client at 36 and read at 40.
fn client_end(ack: u64) -> [Event; 2] {
    [send(CLIENT, 100, 10, [0, 1, ack]), receive(CLIENT, 900, 100, [36, 37, 40])]
}

fn server_end() -> [Event; 2] {
    [receive(SERVER, 100, 10, [6, 8, 9]), send(SERVER, 900, 100, [30, 31, 45])]
}

#[test]
fn the_first_request_has_the_connection_that_was_made_for_it() {
    let client = CLIENT;
    let events = |established: u64| {
        [
            connection(client, Opening::Connected),
            set_up(client, established - 12),
            send(client, 1, 100, [20, 21, 31]),
            receive(client, 1, 300, [51, 52, 53]),
            send(client, 101, 100, [60, 61, 71]),
            receive(client, 301, 300, [91, 92, 93]),
        ]
    };
    let (requests, lost) = run(&events(16));
    assert_eq!(lost, Lost::default());
    let first = requests[0].components.unwrap();
    assert_eq!((first.connect, first.application), (Some(Nanos::from_millis(12)), Nanos::from_millis(4)));
    assert_eq!(requests[0].whole(), Some(Nanos::from_millis(53 - 4)));
    assert_eq!(requests[0].whole(), Some(first.sum()));
    assert_eq!(requests[1].components.unwrap().connect, None);
    assert_eq!(requests[1].moments.connecting, None);
    // Written before it was established, as with Fast Open: the time is not divided so.
    let (requests, _) = run(&events(21));
    assert_eq!(requests[0].components.unwrap().connect, None);
}

#[test]
fn a_separate_ack_distinguishes_the_network_from_the_peer() {
    let [sent, received] = client_end(11);
    let (requests, lost) = run(&[connection(CLIENT, Opening::Connected), sent, received]);
    assert_eq!(requests.len(), 1);
    assert_eq!(requests[0].basis, Basis::OwnAck);
    let expected =
        [(Component::Kernel, 2), (Component::Network, 10), (Component::PeerApplication, 25), (Component::Wakeup, 3)];
    assert_eq!(components(&requests[0]), expected);
    assert_eq!(lost, Lost::default());
}

#[test]
fn an_ack_with_the_answer_leaves_the_minimum_rtt() {
    let [sent, received] = client_end(36);
    let (requests, _) = run(&[connection(CLIENT, Opening::Connected), sent, received]);
    assert_eq!(requests[0].basis, Basis::LeastRoundTrip);
    let expected =
        [(Component::Kernel, 2), (Component::Network, 12), (Component::PeerApplication, 23), (Component::Wakeup, 3)];
    assert_eq!(components(&requests[0]), expected);
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
    assert_eq!(components(&requests[0]), [(Component::Network, 12), (Component::PeerApplication, 68)]);
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
        (Component::Kernel, 2),
        (Component::Network, 10),
        (Component::PeerReceive, 2),
        (Component::PeerApplication, 22),
        (Component::PeerSend, 1),
        (Component::Wakeup, 3),
    ];
    assert_eq!(components(of(Role::Client)), expected);
    assert_eq!(
        components(of(Role::Server)),
        [(Component::Application, 21), (Component::Kernel, 3), (Component::Wakeup, 1)]
    );
    assert_eq!(lost, Lost::default());
}

/// A server writes its answer in two calls: the second waits 20 ms for room in the send buffer, and
/// its bytes 5 ms more for Nagle's algorithm.
#[test]
fn waiting_for_tcp_is_neither_the_programs_time_nor_the_kernels() {
    let waiting = |buffer: Option<u64>, sched: u64| {
        let Event::Send(first) = send(SERVER, 900, 10, [10, 11, 12]) else { panic!() };
        let room = |ms| Waits::of(WaitReason::ReceiveWindow, Nanos::from_millis(ms));
        let stamps = Stamps { sched: Some(at(sched)), driver: Some(at(sched + 1)), ..Stamps::sent_at(at(32)) };
        let second = Send {
            first_seq: SeqNumber(910),
            stamps,
            buffer: buffer.map(room),
            wait: Some(Waits::of(WaitReason::Nagle, Nanos::from_millis(5))),
            ..first
        };
        let events = [
            connection(SERVER, Opening::Accepted),
            receive(SERVER, 100, 10, [6, 8, 9]),
            Event::Send(first),
            Event::Send(second),
        ];
        run(&events).0.remove(0)
    };
    let divided = waiting(Some(20), 37);
    assert_eq!(
        components(&divided),
        [(Component::Application, 3), (Component::Tcp, 25), (Component::Kernel, 3), (Component::Wakeup, 1)]
    );
    let mut both = Waits::of(WaitReason::ReceiveWindow, Nanos::from_millis(20));
    both.add(WaitReason::Nagle, Nanos::from_millis(5));
    assert_eq!(divided.components.unwrap().tcp, Some(both));
    // A wait that began before the write before is not of this request alone.
    assert_eq!(waiting(Some(2_000), 37).components.unwrap().tcp.unwrap().sum(), Nanos::from_millis(27));
    assert_eq!(waiting(None, 37).components.unwrap().tcp.unwrap().reason(), WaitReason::Nagle);
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
        (Component::Application, 4),
        (Component::Kernel, 3),
        (Component::Network, 10),
        (Component::PeerApplication, 20),
        (Component::Transfer, 14),
        (Component::Wakeup, 1),
    ];
    assert_eq!(components(first), expected);
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
    assert_eq!((requests.len(), requests[0].components, requests[0].whole()), (1, None, None));
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
fn where_ports_do_not_show_it_the_kernel_does_or_nobody_asks() {
    let Event::Connection(found) = connection(CLIENT, Opening::Found) else { panic!() };
    let ambiguous = Connection { remote: "192.0.2.2:50000".parse().unwrap(), ..found };
    let found = |accepted| Event::Connection(Connection { accepted, ..ambiguous.clone() });
    // The trace begins while a slow server thinks: it is the first that is seen to send.
    let [sent, received] = client_end(11);
    let (requests, lost) = run(&[found(Some(false)), received.clone(), sent.clone(), received.clone()]);
    assert_eq!((requests[0].role, requests[0].request.bytes, lost.request_unsolicited), (Role::Client, 10, 1));
    let events = [found(Some(true)), receive(CLIENT, 900, 10, [6, 8, 9]), send(CLIENT, 100, 100, [30, 31, 45])];
    let (requests, _) = run(&events);
    assert_eq!((requests[0].role, requests[0].answer.bytes), (Role::Server, 100));
    let (requests, lost) = run(&[found(None), sent, received]);
    assert_eq!((requests.len(), lost.request_unsolicited), (0, 2));
    // A server may connect from its own port.
    let low = |accepted| Connection { local: "192.0.2.2:80".parse().unwrap(), accepted, ..ambiguous.clone() };
    assert_eq!([None, Some(false)].map(|a| role(&low(a))), [Some(Role::Server), Some(Role::Client)]);
}

/// The second request is written at 20; bytes that arrive at 24, without its ACK, answer the first.
#[test]
fn an_answer_that_does_not_acknowledge_the_write_before_it_makes_exchanges_of_requests() {
    let second = |ack| send(CLIENT, 110, 10, [20, 21, ack]);
    let first = [send(CLIENT, 100, 10, [0, 1, 11]), receive(CLIENT, 900, 100, [16, 17, 18])];
    let after = |late: Event, ack: u64, read_first: bool| {
        let mut events = vec![connection(CLIENT, Opening::Connected)];
        events.extend(first.clone());
        let pair = if read_first { [late, second(ack)] } else { [second(ack), late] };
        events.extend(pair);
        events.push(receive(CLIENT, 2_000, 100, [40, 41, 42]));
        let (requests, lost) = run(&events);
        assert_eq!(requests.len(), 2);
        let overlapping: Vec<_> = requests.iter().map(|r| r.overlapping.unwrap()).collect();
        let undivided = requests.iter().filter(|r| r.components.is_none()).count() as u64;
        assert_eq!(lost.request_incomplete, undivided);
        assert!(requests.iter().all(|r| r.overlapping == Some(r.components.is_none())));
        overlapping
    };
    let crossing = || receive(CLIENT, 1_000, 100, [24, 25, 26]);
    // It was read before the ACK came, so its event comes first, and it is of the first exchange;
    // the ACK shows that both overlap.
    assert_eq!(after(crossing(), 32, true), [true, true]);
    // It was read after the ACK, so its event comes after that of the write.
    assert_eq!(after(receive(CLIENT, 1_000, 100, [24, 25, 36]), 32, false), [false, true]);
    // It acknowledged the write: the ACK is taken up before the bytes are readable. That is the
    // second's answer.
    assert_eq!(after(receive(CLIENT, 1_000, 100, [24, 26, 36]), 25, false), [false, false]);
    // It arrived before the write, though it was read after it: of the first exchange alone.
    let early = receive(CLIENT, 1_000, 100, [19, 19, 20]);
    assert_eq!(after(early, 32, true), [false, false]);
}

#[test]
fn a_server_that_answers_before_it_has_read_the_whole_has_exchanges_and_no_requests() {
    let answered = |read| {
        let (requests, _) = run(&[
            connection(SERVER, Opening::Accepted),
            receive(SERVER, 100, 10, [6, 8, 9]),
            receive(SERVER, 110, 10, [7, 8, read]),
            send(SERVER, 900, 100, [30, 31, 45]),
        ]);
        (requests.len(), requests[0].overlapping, requests[0].components.is_some())
    };
    assert_eq!(answered(29), (1, Some(false), true));
    assert_eq!(answered(31), (1, Some(true), false));
}

#[test]
fn requests_without_the_label_that_they_were_to_have_are_counted() {
    let head = |id, direction, first, path: &str| {
        let label = record::Label { method: record::Method::Get, path: path.into() };
        let says = record::Says::Request(label);
        Event::Head(Box::new(Head { connection: id, direction, first_seq: SeqNumber(first), says }))
    };
    let [asked, answered] = server_end();
    // The beginning of an accepted connection's request comes before the connection is announced:
    // that is when it is read.
    let events = [
        head(SERVER, record::Direction::Received, 100, "/a"),
        connection(SERVER, Opening::Accepted),
        asked,
        answered,
        receive(SERVER, 110, 10, [60, 61, 62]),
        send(SERVER, 1_000, 100, [63, 64, 70]),
    ];
    let joined = |mut requests: Requests| {
        let mut paths = Vec::new();
        events.iter().for_each(|event| requests.event(event, &mut |r| paths.push(r.http.path)));
        requests.finish(&mut |r| paths.push(r.http.path));
        (paths, requests.lost())
    };
    let paths = vec![Some("/a".to_owned()), None];
    assert_eq!(joined(Requests::with_labels()), (paths.clone(), Lost { request_unlabelled: 1, ..Lost::default() }));
    assert_eq!(joined(Requests::default()), (paths, Lost::default()));
}

#[test]
fn beginnings_of_connections_that_are_never_announced_are_bounded() {
    let mut requests = Requests::default();
    for id in 0..3 * UNANNOUNCED as u64 {
        let head = Head {
            connection: ConnectionId(id),
            direction: record::Direction::Received,
            first_seq: SeqNumber(1),
            says: record::Says::Http2,
        };
        requests.event(&Event::Head(Box::new(head)), &mut |_| panic!("nothing is over"));
    }
    assert_eq!((requests.unannounced.len(), requests.order.len()), (UNANNOUNCED, UNANNOUNCED));
}
