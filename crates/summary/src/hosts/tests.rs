use std::net::SocketAddr;

use proptest::prelude::*;
use record::{Component, Moments, Opening, Owner, SeqNumber};

use super::*;

/// A request by the true time: when it was written, its way there, the server's three legs, and the
/// way back.
type Times = (u32, u32, [u32; 3], u32);

fn connection(id: u64, local: &str, remote: &str) -> Connection {
    Connection {
        id: ConnectionId(id),
        local: local.parse().unwrap(),
        remote: remote.parse::<SocketAddr>().unwrap(),
        owner: Owner::default(),
        opening: Opening::Found,
        since: Instant::from_nanos(0),
        congestion_control: String::new(),
        accepted: None,
    }
}

fn request(connection: u64, role: Role, at: u32, moments: Moments) -> Request {
    let message = |first_seq, bytes| Message { first_seq: SeqNumber(first_seq), bytes, pieces: 1 };
    Request {
        connection: ConnectionId(connection),
        role,
        owner: Owner::default(),
        request: message(1_000 * at, 100),
        answer: message(9_000 * at, 2_000),
        moments,
        components: None,
        basis: Basis::Server,
        overlapping: None,
        http: record::Http::default(),
        upstream: None,
    }
}

/// What both hosts have of these requests, one after another on one connection; the server's clock
/// is `server` of the true time.
fn hosts(times: &[Times], client_at: &str, server: impl Fn(u64) -> u64) -> (Host, Host) {
    let ends = ["192.0.2.1:40000", "198.51.100.7:443"];
    let mut client = Host { connections: vec![connection(3, ends[0], ends[1])], ..Host::default() };
    let mut far = Host { connections: vec![connection(8, ends[1], client_at)], ..Host::default() };
    let mut now = 1_000_000_000_u64;
    for (i, &(pause, there, legs, back)) in times.iter().enumerate() {
        now += 1_000_000 + u64::from(pause);
        let left = now + 5_000;
        let come = left + u64::from(there);
        let [ready, wrote, gone] = [0, 1, 2].map(|n| come + legs[..=n].iter().map(|&leg| u64::from(leg)).sum::<u64>());
        let arrived = gone + u64::from(back);
        let (here, at) = (|t| Some(Instant::from_nanos(t)), |t| Some(Instant::from_nanos(server(t))));
        let moments = Moments {
            sent: here(now),
            written: here(now + 2_000),
            first_left: here(left),
            left: here(left),
            arrived: here(arrived),
            last_arrived: here(arrived),
            ready: here(arrived + 1_000),
            read: here(arrived + 3_000),
            ..Moments::default()
        };
        let own = Components {
            application: Nanos(2_000),
            kernel: Nanos(3_000 + 1_000),
            network: Some(Nanos(arrived - left)),
            wakeup: Some(Nanos(2_000)),
            upstream: None,
            ..Components::default()
        };
        let number = i as u32 + 1;
        client.requests.push(Request { components: Some(own), ..request(3, Role::Client, number, moments) });
        let moments = Moments {
            arrived: at(come),
            last_arrived: at(come),
            ready: at(ready),
            sent: at(wrote),
            written: at(wrote),
            first_left: at(gone),
            left: at(gone),
            ..Moments::default()
        };
        far.requests.push(request(8, Role::Server, number, moments));
        now = arrived + 3_000;
    }
    (client, far)
}

proptest! {
    #[test]
    fn two_clocks_give_the_answer_of_one_within_the_stated_error(
        times in proptest::collection::vec(
            (0_u32..100_000_000, 0_u32..40_000_000, proptest::array::uniform3(0_u32..30_000_000), 0_u32..40_000_000),
            1..60,
        ),
        ahead in -900_000_000_i64..900_000_000_000_000,
        ppm in -200.0..200.0_f64,
    ) {
        let clock = |t: u64| (i128::from(t) + i128::from(ahead) + (t as f64 * ppm / 1e6) as i128) as u64;
        let (client, server) = hosts(&times, "192.0.2.1:40000", clock);
        let join = join(&client, &server);
        prop_assert_eq!(join.joined.len(), times.len());
        prop_assert_eq!(join.connections, vec![(ConnectionId(3), ConnectionId(8), FoundBy::Addresses)]);
        for (joined, (_, there, legs, back)) in join.joined.iter().zip(&times) {
            let parts = joined.request.components.unwrap();
            prop_assert_eq!(Some(parts.sum()), joined.request.whole());
            // What the peer's clock drifts in the time of the request.
            let drift = i128::from(joined.request.whole().unwrap().0 / 4_000) + 5;
            for (known, truth, error) in [
                (joined.there, *there, joined.error.0),
                (joined.back, *back, joined.error.0),
                (parts.network.unwrap(), there + back, 0),
                (parts.get(Component::PeerReceive).unwrap(), legs[0], 0),
                (parts.peer_application.unwrap(), legs[1], 0),
                (parts.get(Component::PeerSend).unwrap(), legs[2], 0),
            ] {
                let off = (i128::from(known.0) - i128::from(truth)).abs();
                prop_assert!(off <= i128::from(error) + drift, "{} for {}, error {}", known, truth, error);
            }
        }
    }
}

const SOME: [Times; 3] = [(0, 4_000_000, [1_000, 2_000_000, 3_000], 6_000_000); 3];

#[test]
fn behind_nat_sequence_numbers_and_sizes_find_the_connection() {
    let (client, server) = hosts(&SOME, "203.0.113.9:1027", |t| t + 7_000_000);
    let found = join(&client, &server);
    assert_eq!(found.connections, [(ConnectionId(3), ConnectionId(8), FoundBy::SequenceNumbers)]);
    assert_eq!((found.joined.len(), found.asked, found.shared, found.undivided), (3, 3, 3, 0));
    let first = &found.joined[0];
    assert_eq!(first.there + first.back, Nanos(10_000_000));
    assert_eq!(first.request.basis, Basis::BothEnds);
}

#[test]
fn other_sequence_numbers_are_another_connection_and_two_that_fit_alike_are_none() {
    let (client, mut server) = hosts(&SOME, "192.0.2.1:40000", |t| t);
    let mut twice = server.clone();
    server.requests.iter_mut().for_each(|r| r.request.first_seq = r.request.first_seq.add(1));
    assert!(join(&client, &server).connections.is_empty());
    assert!(join(&client, &server).clocks.is_none());
    twice.connections =
        vec![connection(8, "198.51.100.7:443", "203.0.113.9:5"), connection(9, "198.51.100.7:443", "203.0.113.9:6")];
    let more: Vec<_> = twice.requests.iter().map(|r| Request { connection: ConnectionId(9), ..r.clone() }).collect();
    twice.requests.extend(more);
    assert!(join(&client, &twice).connections.is_empty());
}

#[test]
fn a_missing_stamp_is_counted() {
    let (client, mut server) = hosts(&SOME, "192.0.2.1:40000", |t| t);
    server.requests[1].moments.ready = None;
    let found = join(&client, &server);
    assert_eq!((found.joined.len(), found.undivided), (2, 1));
}
