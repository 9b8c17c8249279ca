//! Both backends on the same traffic.

use std::net::TcpStream;
use std::time::{Duration, Instant};

use record::{ConnectionId, Conversion, Event, Leg, Monotonic, Nanos, Realtime, Send, WaitReason};
use trace::{Backend, BackendChoice, Config, Summary, Target, Tracer};

/// One tracer and what it told.
pub struct One {
    pub tracer: Tracer,
    pub events: Vec<Event>,
}

impl One {
    pub fn start(config: &Config) -> Self {
        Self { tracer: Tracer::start(config).unwrap(), events: Vec::new() }
    }

    pub fn poll(&mut self, timeout: Duration) {
        self.tracer.poll(timeout, &mut |event| self.events.push(event)).unwrap();
    }
}

/// Tracers of both backends, on one port.
pub struct Watch(Vec<One>);

/// What one of them saw of one end of a connection.
pub struct Seen {
    pub backend: Backend,
    pub id: ConnectionId,
    /// The sends of that end, in the order in which they were made.
    pub sends: Vec<Send>,
    pub events: Vec<Event>,
    pub summary: Summary,
    pub clock: Conversion<Monotonic, Realtime>,
}

pub fn on_port(port: u16, backend: BackendChoice) -> Config {
    let target = Target { ports: vec![port.into()], ..Target::default() };
    Config { target, backend, max_connections: 64, ..Config::default() }
}

impl Watch {
    /// Follows the connections of this end's port.
    pub fn start(end: &TcpStream) -> Self {
        let port = end.local_addr().unwrap().port();
        let backends = [BackendChoice::Timestamping, BackendChoice::Tracepoints];
        Self(backends.map(|backend| One::start(&on_port(port, backend))).into())
    }

    /// The same, with the calls that write timed.
    pub fn start_with_calls(end: &TcpStream) -> Self {
        let port = end.local_addr().unwrap().port();
        let backends = [BackendChoice::Timestamping, BackendChoice::Tracepoints];
        let start = |backend| One::start(&Config { calls: true, ..on_port(port, backend) });
        Self(backends.map(start).into())
    }

    /// Waits until both have told of so many bytes written on this end, or for ten seconds.
    pub fn until(&mut self, end: &TcpStream, bytes: u64) {
        let deadline = Instant::now() + Duration::from_secs(10);
        for one in &mut self.0 {
            let told = |events: &[Event]| -> u64 {
                sends_of(events, end).iter().flat_map(|(_, sends)| sends).map(|s| u64::from(s.bytes)).sum()
            };
            while told(&one.events) < bytes && Instant::now() < deadline {
                one.poll(Duration::from_millis(20));
            }
        }
    }

    /// Ends both and gives what they saw of this end's sends.
    pub fn finish(self, end: &TcpStream) -> Vec<Seen> {
        self.0
            .into_iter()
            .map(|One { tracer, mut events }| {
                let (backend, clock) = (tracer.backend(), tracer.clock());
                let (summary, asked) = tracer.finish(&mut |event| events.push(event));
                asked.unwrap();
                let seen = sends_of(&events, end);
                let (id, sends) = seen.unwrap_or_else(|| panic!("{end:?} is not in the {} events", events.len()));
                Seen { backend, id, sends, events, summary, clock }
            })
            .collect()
    }
}

/// The connection whose local end this is, and its sends; `None` before it was told of. Two labs
/// have the same addresses, so the peer's port counts too.
pub fn sends_of(events: &[Event], end: &TcpStream) -> Option<(ConnectionId, Vec<Send>)> {
    let ends = (end.local_addr().unwrap(), end.peer_addr().ok());
    let id = events.iter().find_map(|event| match event {
        Event::Connection(c) if c.local == ends.0 && ends.1.is_none_or(|peer| peer == c.remote) => Some(c.id),
        _ => None,
    })?;
    let of_it = |event: &Event| if let Event::Send(s) = event { (s.connection == id).then_some(*s) } else { None };
    let mut sends: Vec<Send> = events.iter().filter_map(of_it).collect();
    sends.sort_by_key(|s| s.stamps.send);
    Some((id, sends))
}

/// A leg of a send, ns; 0 where it is not there. An impossible order fails the test.
pub fn leg(send: &Send, leg: Leg) -> u64 {
    send.leg(leg).unwrap_or_else(|e| panic!("{leg}: {e} in {send:?}")).unwrap_or_default().0
}

/// Whether this reason held the send, for at least `least`, and explains nine tenths of its `tcp`
/// leg.
pub fn held(send: &Send, reason: WaitReason, least: Nanos) -> bool {
    send.wait.is_some_and(|w| w.time(reason) >= least && w.time(reason).0 * 10 >= leg(send, Leg::Tcp) * 9)
}

/// How often each reason was told, and the longest time told with it.
pub fn reasons(sends: &[Send]) -> Vec<String> {
    WaitReason::ALL
        .into_iter()
        .filter_map(|reason| {
            let waits: Vec<Nanos> =
                sends.iter().filter_map(|s| s.wait).filter(|w| w.reason() == reason).map(|w| w.by_reason()).collect();
            let most = waits.iter().max()?;
            Some(format!("{reason}: {} sends, {most} at most", waits.len()))
        })
        .collect()
}

impl Seen {
    /// How many sends were held by this reason for at least `least`.
    pub fn held(&self, reason: WaitReason, least: Nanos) -> usize {
        self.sends.iter().filter(|s| held(s, reason, least)).count()
    }

    /// Those to which this reason was given, however long it was.
    pub fn given(&self, reason: WaitReason) -> usize {
        self.sends.iter().filter(|s| s.wait.is_some_and(|w| w.reason() == reason)).count()
    }

    /// For messages.
    pub fn account(&self) -> String {
        format!("{}: {:?}, lost {:?}", self.backend, reasons(&self.sends), self.summary.lost)
    }
}
