//! Requests and their answers, each with the key of its connection's series.

use std::collections::{HashMap, VecDeque};

use record::histogram::SeriesKey;
use record::{ConnectionId, Event, Instant, Monotonic, Nanos, Request};

use crate::config::Histograms;

/// Connections whose keys are kept at a time; that of the one that came first gives way.
const MOST: usize = 1 << 17;
/// How long the key of a connection is kept after its end: its last request ends later.
const AFTER_END: Nanos = Nanos::from_secs(5);

/// Joins events to requests.
#[derive(Debug)]
pub(crate) struct Asking {
    joining: summary::Requests,
    keys: HashMap<ConnectionId, SeriesKey>,
    /// In the order in which they came.
    came: VecDeque<ConnectionId>,
    /// Those that are over, and since when.
    over: VecDeque<(ConnectionId, Instant<Monotonic>)>,
}

/// What is done with each request, and the key of its series.
pub(crate) type Each<'a> = &'a mut dyn FnMut(&SeriesKey, &Request);

impl Asking {
    pub(crate) fn new(http: bool) -> Self {
        Self {
            joining: if http { summary::Requests::with_labels() } else { summary::Requests::default() },
            keys: HashMap::new(),
            came: VecDeque::new(),
            over: VecDeque::new(),
        }
    }

    /// Takes a record of the tracer, which came at about `at`.
    pub(crate) fn event(&mut self, event: &Event, histograms: &Histograms, at: Instant<Monotonic>, each: Each<'_>) {
        match event {
            // The cgroup is in the record of its set-up alone.
            Event::SetUp(connect) => {
                if let Some(id) = connect.connection {
                    self.know(id, histograms.key_of(connect));
                }
            }
            Event::Connection(connection) if !self.keys.contains_key(&connection.id) => {
                self.know(connection.id, histograms.key_of_connection(connection));
            }
            Event::Closed { connection, .. } => self.over.push_back((*connection, at)),
            _ => {}
        }
        let keys = &self.keys;
        self.joining.event(event, &mut |request| told(keys, &request, each));
    }

    /// To be called now and then: ends the requests of connections that are over.
    pub(crate) fn tick(&mut self, now: Instant<Monotonic>, each: Each<'_>) {
        let keys = &self.keys;
        self.joining.tick(now, &mut |request| told(keys, &request, each));
        while self.over.front().is_some_and(|(_, since)| now.since(*since).is_ok_and(|age| age >= AFTER_END)) {
            if let Some((id, _)) = self.over.pop_front() {
                self.keys.remove(&id);
            }
        }
    }

    /// Ends every request that is open.
    pub(crate) fn finish(&mut self, each: Each<'_>) {
        let keys = &self.keys;
        self.joining.finish(&mut |request| told(keys, &request, each));
    }

    /// What could not be joined.
    pub(crate) fn lost(&self) -> record::Lost {
        self.joining.lost()
    }

    fn know(&mut self, id: ConnectionId, key: SeriesKey) {
        if self.keys.insert(id, key).is_some() {
            return;
        }
        self.came.push_back(id);
        // Those that are over are still in the list.
        while self.came.len() > MOST {
            if let Some(id) = self.came.pop_front() {
                self.keys.remove(&id);
            }
        }
    }
}

fn told(keys: &HashMap<ConnectionId, SeriesKey>, request: &Request, each: Each<'_>) {
    each(keys.get(&request.connection).unwrap_or(&SeriesKey { overflow: true, ..SeriesKey::default() }), request);
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::table::Record as _;
    use record::{Arrival, Connection, Opening, Owner, Receive, Send, SeqNumber, Stamps};

    const MS: u64 = 1_000_000;

    fn at(ms: u64) -> Instant<Monotonic> {
        Instant::from_nanos(ms * MS)
    }

    /// A client's connection, a request and the answer 20 ms later.
    fn exchange(id: u64) -> [Event; 3] {
        let connection = ConnectionId(id);
        let stamps = Stamps { driver: Some(at(1)), ack: Some(at(2)), ..Stamps::sent_at(at(1)) };
        let arrival =
            Arrival { driver_rx: Some(at(20)), tcp_rx: Some(at(20)), ready: Some(at(20)), read: Some(at(21)) };
        [
            Event::Connection(Connection {
                id: connection,
                remote: "192.0.2.7:80".parse().unwrap(),
                opening: Opening::Connected,
                ..Connection::blank()
            }),
            Event::Send(Send { connection, first_seq: SeqNumber(1), bytes: 10, stamps, ..Send::blank() }),
            Event::Receive(Receive {
                connection,
                reader: Owner::default(),
                thread: None,
                first_seq: SeqNumber(1),
                bytes: 30,
                segments: 1,
                stamps: arrival,
                out_of_order: false,
                queued: 0,
                buffer: 0,
                buffer_used: 0,
            }),
        ]
    }

    #[test]
    fn a_request_has_the_key_of_its_connection_which_outlives_it() {
        let histograms = Histograms { port: crate::config::Port::Listening, ..Histograms::default() };
        let (mut asking, mut seen) = (Asking::new(false), Vec::new());
        let mut each = |key: &SeriesKey, request: &Request| seen.push((key.clone(), request.whole()));
        for event in exchange(3) {
            asking.event(&event, &histograms, at(30), &mut each);
        }
        let closed = Event::Closed { connection: ConnectionId(3), totals: record::ConnectionTotals::default() };
        asking.event(&closed, &histograms, at(40), &mut each);
        asking.tick(at(50), &mut each);
        asking.tick(at(2_000), &mut each);
        asking.tick(at(9_000), &mut each);
        assert_eq!(seen.len(), 1, "{seen:?}");
        let (key, whole) = &seen[0];
        assert_eq!((key.peer.unwrap().to_string(), key.peer_port), ("192.0.2.7".into(), Some(80)));
        assert_eq!(*whole, Some(Nanos::from_millis(20)));
        assert!(asking.keys.is_empty() && asking.over.is_empty());
    }
}
