//! Everything that was reported, in bounded memory.

use std::collections::HashMap;

use record::{
    Connection, ConnectionId, ConnectionTotals, End, Event, Instant, Leg, Monotonic, Nanos, Opening, Owner, Role, Send,
    Sink, SinkError, TimedLeg,
};
use stats::{Distribution, Precision};

use crate::attribution::Attribution;
use crate::flows::FlowTable;
use crate::kind::TimedKind;
use crate::pacing::{PacingFigures, RateSetBy};
use crate::rate_by_window::RateByWindow;
use crate::sends::LegReading;
use crate::timed::Timed;
use crate::transfers::Flowing;
use crate::window::{SmallWindow, WindowFigures, WindowHistory};
use crate::{
    ConnectFigures, DatagramFigures, Limits, NameFigures, PacketFigures, ReceiveFigures, RequestFigures, SendFigures,
    Slowest, Timeline,
};

/// A connection is stuck once it has waited for an ACK for so long: no peer delays one as long,
/// and TCP has retransmitted by then.
pub const STUCK: Nanos = Nanos::from_millis(1_000);
/// And for at least so many round trips.
const SLOW_ACKS: u64 = 4;

/// Whether the connection of this send is stuck: nothing more was acknowledged, for as long as it
/// waited for it.
pub fn is_stuck(send: &Send) -> bool {
    let idle = send.unacknowledged.map_or(Nanos::ZERO, |u| u.idle);
    idle >= STUCK.max(Nanos(send.state.srtt.0.saturating_mul(SLOW_ACKS)))
}

/// A connection with the figures of its sends.
#[derive(Clone, Debug)]
pub struct ConnectionSummary {
    /// The connection.
    pub connection: Connection,
    /// The figures of its sends.
    pub sends: SendFigures,
    /// What the kernel counted, when it was followed no more.
    pub totals: Option<ConnectionTotals>,
    /// The oldest of its sends that no ACK was seen for.
    pub unacknowledged: Option<Send>,
    pub(crate) flowing: Flowing,
    window: WindowHistory,
    rate_by_window: RateByWindow,
    last: u64,
    /// What TCP's own clock showed at its latest send: the time with anything to send, and of that
    /// the time with the peer's window full, and that with the send buffer as the limit.
    clock: Option<[Nanos; 3]>,
}

impl ConnectionSummary {
    /// Whether its rate was the same with any congestion window: the path sets it.
    pub fn has_one_rate(&self) -> bool {
        self.rate_by_window.stays()
    }

    /// How much of each has passed since the send before this one, or since the connection was
    /// made.
    fn passed(&mut self, send: &Send) -> [Nanos; 3] {
        let now = [send.state.busy, send.state.receive_window_limited, send.state.send_buffer_limited];
        let made = (self.connection.opening != Opening::Found).then_some([Nanos::ZERO; 3]);
        let passed = self
            .clock
            .or(made)
            .map_or([Nanos::ZERO; 3], |before| std::array::from_fn(|i| Nanos(now[i].0.saturating_sub(before[i].0))));
        // Sends are acknowledged in the order in which they were made, and reported in about that
        // order.
        self.clock = Some(self.clock.map_or(now, |before| std::array::from_fn(|i| before[i].max(now[i]))));
        passed
    }
}

/// Connections beyond the limit, together.
#[derive(Clone, Debug)]
pub struct Others {
    /// How many.
    pub connections: u64,
    /// The figures of their sends.
    pub sends: SendFigures,
}

/// What a trace has reported so far.
#[derive(Clone, Debug)]
pub struct TraceSummary {
    limits: Limits,
    total: SendFigures,
    connections: HashMap<ConnectionId, ConnectionSummary>,
    others: Others,
    slowest: Slowest,
    connects: ConnectFigures,
    receives: ReceiveFigures,
    requests: RequestFigures,
    events: u64,
    first: Option<Instant<Monotonic>>,
    clock: [Nanos; 3],
    window: WindowFigures,
    packets: PacketFigures,
    datagrams: DatagramFigures,
    names: NameFigures,
    timelines: [Timeline; TimedKind::ALL.len()],
}

impl TraceSummary {
    /// Nothing yet of a trace that began at `start`.
    pub fn new(limits: Limits, start: Instant<Monotonic>) -> Self {
        Self {
            limits,
            total: SendFigures::new(Precision::Fine),
            connections: HashMap::new(),
            others: Others { connections: 0, sends: SendFigures::new(Precision::Coarse) },
            slowest: Slowest::new(limits.slowest),
            connects: ConnectFigures::new(limits.connections),
            receives: ReceiveFigures::new(&limits),
            requests: RequestFigures::new(&limits),
            events: 0,
            first: None,
            clock: [Nanos::ZERO; 3],
            window: WindowFigures::default(),
            packets: PacketFigures::new(&limits),
            datagrams: DatagramFigures::new(&limits),
            names: NameFigures::new(limits.slowest),
            timelines: TimedKind::ALL.map(|kind| Timeline::new(kind, start.as_nanos())),
        }
    }

    /// Adds what a tracer reported.
    pub fn add(&mut self, event: &Event) {
        self.events += 1;
        match event {
            Event::Connection(connection) => self.open(connection),
            Event::SetUp(_) | Event::Head(_) | Event::Exchange(_) | Event::Copy(_) | Event::CopyDropped(_) => {}
            Event::Connect(connect) => self.connects.add(connect),
            Event::Send(send) => {
                self.timed(send);
                self.send(send);
            }
            Event::Receive(receive) => {
                self.timed(receive);
                let known = self.known(receive.connection);
                self.receives.add(receive, known);
                self.own_up(receive.connection, receive.reader);
            }
            Event::Request(request) => {
                self.timed(request.as_ref());
                let known = self.known(request.connection);
                self.requests.add(request, known);
            }
            Event::Packet(packet) => {
                // A packet that never came to the packet scheduler has no times.
                if packet.sched.is_some() {
                    self.timed(packet.as_ref());
                }
                let known = self.known(packet.connection);
                self.packets.add(packet, known);
            }
            Event::Datagram(datagram) => {
                self.timed(datagram.as_ref());
                self.datagrams.add(datagram);
            }
            Event::Question(question) => self.names.add(question),
            Event::Closed { connection, totals } => {
                if let Some(c) = self.connections.get_mut(connection) {
                    c.totals = Some(*totals);
                }
            }
        }
    }

    fn timed<T: Timed>(&mut self, record: &T) {
        let kind = record.kind();
        if let Some(timeline) = self.timelines.iter_mut().find(|timeline| timeline.kind() == kind) {
            timeline.add(record);
        }
    }

    fn known(&self, id: ConnectionId) -> Attribution {
        self.connections.get(&id).map_or_else(Attribution::default, |c| Attribution {
            ends: Some((c.connection.local, c.connection.remote)),
            owner: Some(c.connection.owner).filter(|owner| owner.pid != 0),
        })
    }

    /// A connection picked up in softirq has no owner until somebody writes to it or reads from it.
    fn own_up(&mut self, id: ConnectionId, owner: Owner) {
        if let Some(c) = self.connections.get_mut(&id)
            && c.connection.owner.pid == 0
        {
            c.connection.owner = owner;
        }
    }

    fn open(&mut self, connection: &Connection) {
        if self.connections.len() >= self.limits.connections.max(1) && !self.connections.contains_key(&connection.id) {
            // Closed ones go first, then those with the fewest sends, then those that have been
            // silent longest.
            let least = self.connections.values().min_by_key(|c| (c.totals.is_none(), c.sends.sends, c.last));
            if let Some(id) = least.map(|c| c.connection.id)
                && let Some(folded) = self.connections.remove(&id)
            {
                self.others.connections += 1;
                self.others.sends.merge(&folded.sends);
            }
        }
        let last = self.events;
        self.connections.entry(connection.id).and_modify(|c| c.connection = connection.clone()).or_insert_with(|| {
            ConnectionSummary {
                connection: connection.clone(),
                sends: SendFigures::new(Precision::Coarse),
                totals: None,
                unacknowledged: None,
                flowing: Flowing::default(),
                window: WindowHistory::default(),
                rate_by_window: RateByWindow::default(),
                last,
                clock: None,
            }
        });
    }

    fn send(&mut self, send: &Send) {
        let legs = LegReading::all(send);
        self.total.add(send, &legs);
        self.first = Some(self.first.map_or(send.stamps.send, |first| first.min(send.stamps.send)));
        match self.connections.get_mut(&send.connection) {
            Some(c) => {
                c.sends.add(send, &legs);
                c.last = self.events;
                if send.unacknowledged.is_some()
                    && c.unacknowledged.is_none_or(|old| send.stamps.send < old.stamps.send)
                {
                    c.unacknowledged = Some(*send);
                }
                let passed = c.passed(send);
                for (sum, passed) in self.clock.iter_mut().zip(passed) {
                    *sum += passed;
                }
                c.flowing.add(send, passed[0]);
                let is_found = c.connection.opening == Opening::Found;
                self.window.add(&mut c.window, send, is_found);
                c.rate_by_window.add(send);
                // As in `own_up`.
                if c.connection.owner.pid == 0 {
                    c.connection.owner = send.owner;
                }
                let ends = (c.connection.local, c.connection.remote);
                self.slowest.offer(send, || Some(ends));
            }
            None => {
                self.others.sends.add(send, &legs);
                self.slowest.offer(send, || None);
            }
        }
    }

    /// Attempts to set up connections, and how those ended.
    pub fn connects(&self) -> &ConnectFigures {
        &self.connects
    }

    /// Names that were looked up.
    pub fn names(&self) -> &NameFigures {
        &self.names
    }

    /// The packets of TCP.
    pub fn packets(&self) -> &PacketFigures {
        &self.packets
    }

    /// The datagrams of UDP.
    pub fn datagrams(&self) -> &DatagramFigures {
        &self.datagrams
    }

    /// Every leg of one kind with its times.
    pub fn times(&self, kind: TimedKind) -> Vec<(&'static TimedLeg, &Distribution)> {
        match kind {
            TimedKind::Sends => {
                Leg::ALL.into_iter().zip(kind.legs()).map(|(leg, of)| (of, &self.total.leg(leg).times)).collect()
            }
            TimedKind::Receives => self.receives.records.times(),
            TimedKind::AtClient => self.requests.of(Role::Client).records.times(),
            TimedKind::AtServer => self.requests.of(Role::Server).records.times(),
            TimedKind::Packets => self.packets.records.times(),
            TimedKind::DatagramsSent => self.datagrams.sent.times(),
            TimedKind::DatagramsReceived => self.datagrams.received.times(),
        }
    }

    /// How many records of one kind there are.
    pub fn n(&self, kind: TimedKind) -> u64 {
        match kind {
            TimedKind::Sends => self.total.sends,
            TimedKind::Receives => self.receives.records.n,
            TimedKind::AtClient => self.requests.of(Role::Client).records.n,
            TimedKind::AtServer => self.requests.of(Role::Server).records.n,
            TimedKind::Packets => self.packets.records.n,
            TimedKind::DatagramsSent => self.datagrams.sent.n,
            TimedKind::DatagramsReceived => self.datagrams.received.n,
        }
    }

    /// A kind's records by connection; those of sends are [`TraceSummary::connections`].
    pub fn tallies(&self, kind: TimedKind) -> Option<&FlowTable> {
        Some(match kind {
            TimedKind::Sends => return None,
            TimedKind::Receives => &self.receives.records.tallies,
            TimedKind::AtClient => &self.requests.of(Role::Client).records.tallies,
            TimedKind::AtServer => &self.requests.of(Role::Server).records.tallies,
            TimedKind::Packets => &self.packets.records.tallies,
            TimedKind::DatagramsSent => &self.datagrams.sent.tallies,
            TimedKind::DatagramsReceived => &self.datagrams.received.tallies,
        })
    }

    /// All sends together.
    pub fn total(&self) -> &SendFigures {
        &self.total
    }

    /// The connections with separate figures, those with the most sends first.
    pub fn connections(&self) -> Vec<&ConnectionSummary> {
        let mut all: Vec<_> = self.connections.values().collect();
        all.sort_by_key(|c| (std::cmp::Reverse((c.sends.sends, c.sends.bytes)), c.connection.id));
        all
    }

    /// Connections on which nothing more was acknowledged, for as long as something waited for it:
    /// each with the oldest of that, the longest first.
    pub fn stuck(&self) -> Vec<(&ConnectionSummary, &Send)> {
        let mut all: Vec<_> = self
            .connections
            .values()
            .filter_map(|c| Some((c, c.unacknowledged.as_ref()?)))
            .filter(|(_, send)| is_stuck(send))
            .collect();
        let idle = |send: &Send| send.unacknowledged.map(|u| u.idle);
        all.sort_by_key(|(c, send)| (std::cmp::Reverse(idle(send)), c.connection.id));
        all
    }

    /// The share of the time with anything to send in which the peer's window was full, by TCP's
    /// own clock; `None` where no such time was seen.
    pub fn window_full(&self) -> Option<f64> {
        let [busy, full, _] = self.clock;
        (busy > Nanos::ZERO).then(|| full.0 as f64 / busy.0 as f64)
    }

    /// The same share in which the send buffer was the limit.
    pub fn buffer_limited(&self) -> Option<f64> {
        let [busy, _, limited] = self.clock;
        (busy > Nanos::ZERO).then(|| limited.0 as f64 / busy.0 as f64)
    }

    /// Why the congestion window was small for most of the time in which it held sends, where its
    /// history tells.
    pub fn small_window(&self) -> Option<SmallWindow> {
        self.window.why()
    }

    /// The smallest and the largest congestion window, in segments, on the connections whose rate
    /// was the same with any of them: the path sets it. `None` where that is not so for most of the
    /// time in which the window held sends.
    pub fn rate_with_any_window(&self) -> Option<(u32, u32)> {
        RateByWindow::steady(self.connections.values().map(|c| c.rate_by_window))
    }

    /// Who sets the rate of sends that TCP paced, as far as this end can know.
    pub fn paced_rate_set_by(&self) -> RateSetBy {
        let each = self.connections.values().map(|c| &c.sends.pacing);
        let steady = PacingFigures::are_steady(each.chain([&self.others.sends.pacing]));
        match self.total.pacing.set_by(self.window_full(), self.buffer_limited(), steady) {
            // Where so much is lost, a rate by which nothing queues may be below the path's (BBR
            // takes a fifth for a policer: `bbr_lt_loss_thresh` in `net/ipv4/tcp_bbr.c`).
            RateSetBy::NotKnown if self.loses_much() => RateSetBy::Changing,
            set_by => set_by,
        }
    }

    /// Whether a tenth of what was written was retransmitted, or more, by the kernel's own counts.
    fn loses_much(&self) -> bool {
        const MUCH: u64 = 10;
        let written: u64 = self.totals().map(|totals| totals.bytes_written).sum();
        let again = self.counted_retransmissions();
        again > 0 && again.saturating_mul(self.total.pacing.segment().into()) >= written / MUCH
    }

    /// Segments that were retransmitted: by the kernel's own count where it was read, else those
    /// of sends.
    pub fn retransmissions(&self) -> u64 {
        self.counted_retransmissions().max(self.total.retransmitted)
    }

    fn counted_retransmissions(&self) -> u64 {
        self.totals().map(|totals| u64::from(totals.segments_retransmitted)).sum()
    }

    /// What the kernel counted of connections, where it was read.
    fn totals(&self) -> impl Iterator<Item = ConnectionTotals> {
        self.connections.values().filter_map(|c| c.totals)
    }

    /// Connections that were folded together because there were too many.
    pub fn others(&self) -> &Others {
        &self.others
    }

    /// How many connections were followed.
    pub fn connection_count(&self) -> u64 {
        self.connections.len() as u64 + self.others.connections
    }

    /// The slowest sends.
    pub fn slowest(&self) -> &Slowest {
        &self.slowest
    }

    /// What was received.
    pub fn receives(&self) -> &ReceiveFigures {
        &self.receives
    }

    /// Requests and answers.
    pub fn requests(&self) -> &RequestFigures {
        &self.requests
    }

    /// How long records took over time, by kind in the order of [`TimedKind::ALL`].
    pub fn timelines(&self) -> &[Timeline] {
        &self.timelines
    }

    /// When the last record ended that has a total.
    pub fn last(&self) -> Instant<Monotonic> {
        Instant::from_nanos(self.timelines.iter().map(Timeline::last).max().unwrap_or(0))
    }

    /// When the first send was made.
    pub fn first_send(&self) -> Option<Instant<Monotonic>> {
        self.first
    }
}

impl Sink for TraceSummary {
    fn event(&mut self, event: &Event) -> Result<(), SinkError> {
        self.add(event);
        Ok(())
    }

    /// The figures are read while they grow and at the end; there is nothing to write.
    fn finish(self: Box<Self>, _end: &End<'_>) -> Result<Option<String>, SinkError> {
        Ok(None)
    }
}
