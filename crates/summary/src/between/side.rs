//! What a comparison needs of each run, in bounded memory.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, SocketAddr};

use compare::Times;
use record::{ConnectionId, Coverage, Event, Leg, Lost, Nanos, Role, Sampling, Send, WaitReason, Waits};
use stats::{Distribution, Precision};

use super::labels::{ByLabel, ByLabels};
use super::stretches::{Stretch, Stretches};
use crate::{LEGS, Timed, TimedKind, TraceSummary};

/// Connections that are kept one by one; what comes on others is put together.
const CONNECTIONS: usize = 50_000;

/// The legs of records that follow one another.
#[derive(Debug)]
struct OfLegs {
    records: u64,
    legs: Vec<Distribution>,
    /// Of the records with legs that add up to their total: their number, and the time of each leg.
    whole: u64,
    sums: [u128; LEGS],
}

impl OfLegs {
    fn new(kind: TimedKind) -> Self {
        let legs = kind.legs().iter().map(|_| Distribution::new(Precision::Fine)).collect();
        Self { records: 0, legs, whole: 0, sums: [0; LEGS] }
    }

    fn add<T: Timed>(&mut self, record: &T) {
        self.records += 1;
        let times = record.times();
        for (into, time) in self.legs.iter_mut().zip(times) {
            time.into_iter().for_each(|time| into.record(time));
        }
        if record.is_whole() {
            self.whole += 1;
            self.sums.iter_mut().zip(times).for_each(|(sum, time)| *sum += u128::from(time.unwrap_or(0)));
        }
    }
}

impl Stretch for OfLegs {
    fn records(&self) -> u64 {
        self.records
    }

    fn merge(&mut self, other: &Self) {
        self.records += other.records;
        self.whole += other.whole;
        self.legs.iter_mut().zip(&other.legs).for_each(|(mine, theirs)| mine.merge(theirs));
        self.sums.iter_mut().zip(other.sums).for_each(|(mine, theirs)| *mine += theirs);
    }
}

/// A connection, or a socket and one of its peers; the ones that were too many have none.
pub(super) type Flow = Option<(ConnectionId, Option<SocketAddr>)>;

/// One kind of one run.
#[derive(Debug)]
pub(super) struct Gathered {
    pub kind: TimedKind,
    stretches: Stretches<OfLegs>,
    /// By peer; `None` for records of an unknown connection.
    pub peers: BTreeMap<Option<IpAddr>, Times>,
    /// By connection.
    pub flows: HashMap<Flow, Times>,
}

/// What the sends of a run say beyond their legs.
#[derive(Debug, Default)]
pub(super) struct Sends {
    /// Sends with a `tcp` leg, and the time that each reason accounts for in it.
    pub in_tcp: ByReason,
    /// Sends with a `call` leg, and the time that they waited for room in the send buffer, by what
    /// held the queue.
    pub in_call: ByReason,
    /// By connection: the network legs, and the minimum RTT that TCP measured.
    paths: HashMap<ConnectionId, Path>,
}

/// Records, and the time of each reason, in the order of [`WaitReason::ALL`].
#[derive(Debug, Default)]
pub(super) struct ByReason {
    n: u64,
    sums: [u128; WaitReason::ALL.len()],
}

impl ByReason {
    fn add(&mut self, waits: Option<&Waits>) {
        self.n += 1;
        if let Some(waits) = waits {
            for (sum, reason) in self.sums.iter_mut().zip(WaitReason::ALL) {
                *sum += u128::from(waits.time(reason).0);
            }
        }
    }

    /// The mean time that a record waited for it, nanoseconds; `None` where there is no record.
    pub(super) fn mean(&self, reason: WaitReason) -> Option<f64> {
        (self.n > 0).then(|| self.sums[reason as usize] as f64 / self.n as f64)
    }
}

#[derive(Clone, Copy, Debug)]
struct Path {
    n: u64,
    network: u128,
    least: u64,
}

impl Sends {
    fn add(&mut self, send: &Send) {
        if let Ok(Some(_)) = send.leg(Leg::Tcp) {
            self.in_tcp.add(send.wait.as_ref());
        }
        if let Ok(Some(_)) = send.leg(Leg::Call) {
            self.in_call.add(send.buffer.as_ref());
        }
        let (Ok(Some(network)), Some(least)) = (send.leg(Leg::Network), send.state.min_rtt) else { return };
        if self.paths.len() >= CONNECTIONS && !self.paths.contains_key(&send.connection) {
            return;
        }
        let path = self.paths.entry(send.connection).or_insert(Path { n: 0, network: 0, least: u64::MAX });
        path.n += 1;
        path.network += u128::from(network.0);
        path.least = path.least.min(least.0);
    }

    /// The mean minimum RTT of the connections, and the mean of what the network legs took beyond
    /// it, nanoseconds: each send counts once. `None` where no connection has a round trip that was
    /// measured.
    pub(super) fn path(&self) -> Option<[f64; 2]> {
        let n: u64 = self.paths.values().map(|p| p.n).sum();
        let least: f64 = self.paths.values().map(|p| p.least as f64 * p.n as f64).sum();
        let network: f64 = self.paths.values().map(|p| p.network as f64).sum();
        (n > 0).then(|| [least / n as f64, (network - least).max(0.0) / n as f64])
    }
}

impl Gathered {
    fn new(kind: TimedKind) -> Self {
        Self { kind, stretches: Stretches::default(), peers: BTreeMap::new(), flows: HashMap::new() }
    }

    fn add<T: Timed>(&mut self, record: &T, peer: Option<SocketAddr>) {
        self.stretches.next(|| OfLegs::new(self.kind)).add(record);
        let Ok(Some(total)) = record.time(self.kind.total()) else { return };
        let flow = Some((record.flow(), record.ends().map(|e| e.1)));
        let flow = if self.flows.len() < CONNECTIONS || self.flows.contains_key(&flow) { flow } else { None };
        for times in [self.peers.entry(peer.map(|p| p.ip())).or_default(), self.flows.entry(flow).or_default()] {
            *times = (times.0 + 1, times.1 + u128::from(total.0));
        }
    }

    pub(super) fn stretches_of(&self, leg: usize) -> Vec<&Distribution> {
        self.stretches.all().iter().map(|s| &s.legs[leg]).filter(|d| d.n() > 0).collect()
    }

    /// Time of these legs together and number of records, stretch by stretch.
    pub(super) fn sums_of(&self, legs: &[usize]) -> Vec<(f64, u64)> {
        let of = |s: &OfLegs| (legs.iter().map(|leg| s.sums[*leg]).sum::<u128>() as f64, s.whole);
        self.stretches.all().iter().map(of).filter(|s| s.1 > 0).collect()
    }

    /// The mean time of these legs together, nanoseconds; `None` where no record has every leg.
    pub(super) fn mean_of(&self, legs: &[usize]) -> Option<f64> {
        let sums = self.sums_of(legs);
        let n: u64 = sums.iter().map(|s| s.1).sum();
        (n > 0).then(|| sums.iter().map(|s| s.0).sum::<f64>() / n as f64)
    }

    /// All times of a leg.
    pub(super) fn times(&self, leg: usize) -> Distribution {
        let mut all = Distribution::new(Precision::Fine);
        self.stretches.all().iter().for_each(|s| all.merge(&s.legs[leg]));
        all
    }

    pub(super) fn n(&self, leg: usize) -> u64 {
        self.stretches.all().iter().map(|s| s.legs[leg].n()).sum()
    }
}

/// How a run was made, as far as it decides what can be compared.
#[derive(Clone, Debug)]
pub struct About {
    /// What was traced, in words.
    pub target: String,
    /// How long.
    pub lasted: Nanos,
    /// How its sends were chosen.
    pub sampling: Sampling,
    /// What took its stamps.
    pub backend: String,
    /// The release of its kernel.
    pub kernel: String,
    /// What it missed.
    pub lost: Lost,
    /// What share of the traffic it observed.
    pub coverage: Coverage,
    /// What was said when it was read.
    pub warnings: Vec<String>,
}

/// The ends of a connection, and its program.
pub(super) type Ends = (SocketAddr, SocketAddr, String);

/// A run that is being read: connections come before what happened on them.
#[derive(Debug)]
pub struct Reading {
    gathered: Vec<Gathered>,
    sends: Sends,
    ends: HashMap<ConnectionId, Ends>,
}

impl Default for Reading {
    fn default() -> Self {
        Self { gathered: TimedKind::ALL.map(Gathered::new).into(), sends: Sends::default(), ends: HashMap::new() }
    }
}

impl Reading {
    /// Adds an event.
    pub fn add(&mut self, event: &Event) {
        match event {
            Event::Connection(c) => _ = self.ends.insert(c.id, (c.local, c.remote, c.owner.comm.to_string())),
            Event::Send(send) => {
                self.sends.add(send);
                self.record(send);
            }
            Event::Receive(receive) => self.record(receive),
            Event::Request(request) => self.record(request.as_ref()),
            // As in the report: what never came to the packet scheduler has no times.
            Event::Packet(packet) if packet.sched.is_some() => self.record(packet.as_ref()),
            Event::Datagram(datagram) => self.record(datagram.as_ref()),
            Event::SetUp(_)
            | Event::Head(_)
            | Event::Exchange(_)
            | Event::Copy(_)
            | Event::CopyDropped(_)
            | Event::Connect(_)
            | Event::Question(_)
            | Event::Packet(_)
            | Event::Closed { .. } => {}
        }
    }

    fn record<T: Timed>(&mut self, record: &T) {
        let peer = record.ends().map(|e| e.1).or_else(|| self.ends.get(&record.flow()).map(|e| e.1));
        let kind = record.kind();
        self.gathered.iter_mut().filter(|g| g.kind == kind).for_each(|g| g.add(record, peer));
    }

    /// The run as one side of a comparison.
    pub fn finish(mut self, name: &str, about: About, figures: TraceSummary, labels: ByLabels) -> Side {
        self.gathered.iter_mut().for_each(|kind| kind.stretches.finish());
        let Self { gathered, sends, ends } = self;
        Side { name: name.to_owned(), about, figures, gathered, labels: labels.finish(), sends, ends }
    }
}

/// One run.
#[derive(Debug)]
pub struct Side {
    /// What it is called.
    pub name: String,
    /// How it was made.
    pub about: About,
    /// Its figures.
    pub figures: TraceSummary,
    gathered: Vec<Gathered>,
    /// Of the roles of requests, in their order.
    labels: [ByLabel; 2],
    pub(super) sends: Sends,
    /// Of the connections that were announced.
    pub(super) ends: HashMap<ConnectionId, Ends>,
}

impl Side {
    /// All times of a leg of [`TimedKind::legs`], by its number.
    pub fn times(&self, kind: TimedKind, leg: usize) -> Distribution {
        self.of(kind).times(leg)
    }

    pub(super) fn of(&self, kind: TimedKind) -> &Gathered {
        &self.gathered[TimedKind::ALL.iter().position(|f| *f == kind).unwrap_or(0)]
    }

    /// Its requests by method and path, as one end saw them; `None` of other records.
    pub(super) fn labels(&self, kind: TimedKind) -> Option<&ByLabel> {
        match kind {
            TimedKind::AtClient => Some(&self.labels[Role::Client as usize]),
            TimedKind::AtServer => Some(&self.labels[Role::Server as usize]),
            _ => None,
        }
    }

    /// Whether any of them has a method and a path.
    pub(super) fn is_labelled(&self, kind: TimedKind) -> bool {
        self.labels(kind).is_some_and(|of| of.labelled() > 0)
    }

    /// How many records of one kind have its total.
    pub fn timed(&self, kind: TimedKind) -> u64 {
        self.of(kind).n(kind.total())
    }
}
