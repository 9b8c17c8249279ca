//! What a comparison needs of each run, in bounded memory.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, SocketAddr};

use record::{ConnectionId, Event, Leg, Role, Send, Wait, WaitReason};
use stats::{Distribution, Precision};
use store::{Error, Run};

use super::labels::{self, ByLabel};
use crate::page::trace::{self, Trace};
use crate::view;
use summary::{LEGS, Timed, TimedKind};

/// Stretches that a run is divided into, at most; half as many at least, once it has records enough.
const STRETCHES: usize = 64;
/// Records of a stretch to begin with: 40 records are stretches enough for an interval.
const RECORDS: u64 = 4;
/// Connections that are kept one by one; what comes on others is put together.
const CONNECTIONS: usize = 50_000;

/// Records that follow one another.
pub(super) trait Stretch {
    /// How many they are.
    fn records(&self) -> u64;

    /// Adds those of the next one.
    fn merge(&mut self, other: &Self);
}

/// A run's stretches of the same kind: so many records each that they are not too many.
#[derive(Debug)]
pub(super) struct Stretches<S> {
    all: Vec<S>,
    full: u64,
}

impl<S> Default for Stretches<S> {
    fn default() -> Self {
        Self { all: Vec::new(), full: RECORDS }
    }
}

impl<S: Stretch> Stretches<S> {
    pub(super) fn all(&self) -> &[S] {
        &self.all
    }

    /// The one that the next record belongs to; a further one begins as `begin` says.
    pub(super) fn next(&mut self, begin: impl FnOnce() -> S) -> &mut S {
        if self.all.last().is_none_or(|last| last.records() >= self.full) {
            if self.all.len() == STRETCHES {
                self.full *= 2;
                let mut halves = std::mem::take(&mut self.all).into_iter();
                while let Some(mut first) = halves.next() {
                    halves.next().iter().for_each(|second| first.merge(second));
                    self.all.push(first);
                }
            }
            self.all.push(begin());
        }
        let last = self.all.len() - 1;
        &mut self.all[last]
    }

    /// A last stretch that hardly began would vary more than the others.
    pub(super) fn finish(&mut self) {
        if self.all.len() > 2
            && let Some(last) = self.all.pop_if(|last| last.records() * 2 < self.full)
            && let Some(before) = self.all.last_mut()
        {
            before.merge(&last);
        }
    }
}

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

/// Number and total time, nanoseconds.
pub(super) type Times = (u64, u128);

/// A connection, or a socket and one of its peers; the ones that were too many have none.
pub(super) type Flow = Option<(ConnectionId, Option<SocketAddr>)>;

/// One kind of one run.
#[derive(Debug)]
pub(super) struct Gathered {
    kind: TimedKind,
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
    /// Sends with a `call` leg, and the time that they waited for room in the send buffer, by what held the queue.
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
    fn add(&mut self, wait: Option<Wait>) {
        self.n += 1;
        if let Some(wait) = wait {
            self.sums[wait.reason as usize] += u128::from(wait.by_reason.0);
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
            self.in_tcp.add(send.wait);
        }
        if let Ok(Some(_)) = send.leg(Leg::Call) {
            self.in_call.add(send.buffer);
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

    /// The mean minimum RTT of the connections, and the mean of what the network legs took beyond it, nanoseconds: each send counts
    /// once. `None` where no connection has a round trip that was measured.
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

/// One of the two runs.
#[derive(Debug)]
pub struct Side {
    /// What it is called.
    pub name: String,
    pub(super) trace: Trace,
    pub(super) kernel: String,
    gathered: Vec<Gathered>,
    /// Of the roles of requests, in their order.
    by_label: [ByLabel; 2],
    pub(super) sends: Sends,
    /// Ends of the connections that were announced, and their programs.
    pub(super) ends: HashMap<ConnectionId, (SocketAddr, SocketAddr, String)>,
}

/// Reads a run for comparison.
///
/// # Errors
/// Those of [`trace::read`].
pub fn read(name: &str, run: &Run) -> Result<Side, Error> {
    let mut gathered: Vec<Gathered> = TimedKind::ALL.map(Gathered::new).into();
    let mut ends: HashMap<ConnectionId, (SocketAddr, SocketAddr, String)> = HashMap::new();
    let mut sends = Sends::default();
    let trace = trace::read_with(run, &mut |event| match event {
        Event::Connection(c) => _ = ends.insert(c.id, (c.local, c.remote, c.owner.comm.to_string())),
        Event::Send(send) => {
            sends.add(send);
            add(&mut gathered, send, &ends);
        }
        Event::Receive(receive) => add(&mut gathered, receive, &ends),
        Event::Request(request) => add(&mut gathered, request.as_ref(), &ends),
        // As in the report: what never came to the packet scheduler has no times.
        Event::Packet(packet) if packet.sched.is_some() => add(&mut gathered, packet.as_ref(), &ends),
        Event::Datagram(datagram) => add(&mut gathered, datagram.as_ref(), &ends),
        Event::SetUp(_) | Event::Head(_) | Event::Connect(_) | Event::Packet(_) | Event::Closed { .. } => {}
    })?;
    gathered.iter_mut().for_each(|kind| kind.stretches.finish());
    let by_label = labels::gather(run, &trace)?;
    Ok(Side { name: name.to_owned(), kernel: run.provenance().kernel.clone(), gathered, by_label, sends, ends, trace })
}

fn add<T: Timed>(
    gathered: &mut [Gathered],
    record: &T,
    ends: &HashMap<ConnectionId, (SocketAddr, SocketAddr, String)>,
) {
    let peer = record.ends().map(|e| e.1).or_else(|| ends.get(&record.flow()).map(|e| e.1));
    let kind = record.kind();
    gathered.iter_mut().filter(|g| g.kind == kind).for_each(|g| g.add(record, peer));
}

impl Side {
    pub(super) fn of(&self, kind: TimedKind) -> &Gathered {
        &self.gathered[TimedKind::ALL.iter().position(|f| *f == kind).unwrap_or(0)]
    }

    /// Its requests by method and path, as one end saw them; `None` of other records.
    pub(super) fn labels(&self, kind: TimedKind) -> Option<&ByLabel> {
        match kind {
            TimedKind::AtClient => Some(&self.by_label[Role::Client as usize]),
            TimedKind::AtServer => Some(&self.by_label[Role::Server as usize]),
            _ => None,
        }
    }

    /// Whether any of them has a method and a path.
    fn is_labelled(&self, kind: TimedKind) -> bool {
        self.labels(kind).is_some_and(|of| of.labelled() > 0)
    }

    /// How many records of one kind have its total.
    pub(super) fn timed(&self, kind: TimedKind) -> u64 {
        self.of(kind).n(kind.total())
    }
}

/// What makes the two runs unlike each other beside what is compared.
pub(super) fn warnings(a: &Side, b: &Side) -> Vec<String> {
    let mut out = Vec::new();
    for side in [a, b] {
        out.extend(side.trace.warnings.iter().map(|w| format!("{}: {w}", side.name)));
    }
    let mut differ = |what: &str, x: String, y: String, so: &str| {
        if x != y {
            out.push(format!("They differ in {what}: {x} in {}, {y} in {}; {so}.", a.name, b.name));
        }
    };
    let (f, g) = (&a.trace.facts, &b.trace.facts);
    let unlike = "the sends that were seen may not be of the same kind";
    differ("sampling", view::sampling(f.sampling), view::sampling(g.sampling), unlike);
    differ("backend", f.backend.clone(), g.backend.clone(), "their stages are not taken at quite the same places");
    differ("kernel", a.kernel.clone(), b.kernel.clone(), "what a leg costs differs between kernels too");
    for kind in TimedKind::ALL {
        if [a, b].iter().any(|side| side.timed(kind) == 0) {
            continue;
        }
        for (i, leg) in kind.adding() {
            let Some(within) = leg.within else { continue };
            let stamped = |side: &Side| if side.of(kind).n(i) > 0 { "stamped" } else { "not stamped" }.to_owned();
            let so = format!("it is taken together with {} where parts are compared", kind.legs()[within].name);
            differ(&format!("the {} leg of {}s", leg.name, kind.thing()), stamped(a), stamped(b), &so);
        }
    }
    let one_alone: Vec<&str> = TimedKind::ALL
        .into_iter()
        .filter(|kind| (a.trace.figures.n(*kind) == 0) != (b.trace.figures.n(*kind) == 0))
        .map(|kind| kind.title())
        .collect();
    if !one_alone.is_empty() {
        out.push(format!("Only one of the two runs has these, so they are not compared: {}.", one_alone.join(", ")));
    }
    for kind in [TimedKind::AtClient, TimedKind::AtServer] {
        if [a, b].iter().all(|side| side.timed(kind) > 0) && a.is_labelled(kind) != b.is_labelled(kind) {
            let with = if a.is_labelled(kind) { a } else { b };
            out.push(format!(
                "Method and path are known of {} alone (`trace --http`): {} are not compared by them.",
                with.name,
                kind.title().to_lowercase()
            ));
        }
    }
    for side in [a, b] {
        let total = side.trace.figures.total();
        let lost = side.trace.facts.lost;
        let unseen = lost.unrecorded_sends().iter().map(|(n, _)| n).sum::<u64>();
        let share = quantity::share(unseen.into(), (total.sends + unseen).into());
        if share > 0.01 {
            out.push(format!(
                "{}: {} of the sends made while it watched were not recorded (n = {}); if they were the slow ones, it looks faster \
                 than it was.",
                side.name,
                quantity::percent(share),
                quantity::count(unseen)
            ));
        }
        let unacknowledged = quantity::share(total.unacknowledged.into(), total.sends.into());
        if unacknowledged > 0.01 {
            out.push(format!(
                "{}: {} of its sends ended without an ACK and are in no figure of the total.",
                side.name,
                quantity::percent(unacknowledged)
            ));
        }
    }
    let seen = |side: &Side| {
        let c = side.trace.facts.coverage;
        quantity::share(c.bytes_armed.into(), c.bytes_written.into())
    };
    let (x, y) = (seen(a), seen(b));
    if x.is_finite() && y.is_finite() && (x - y).abs() > 0.1 {
        out.push(format!(
            "They saw different shares of the traffic: {} of the bytes in {}, {} in {}.",
            quantity::percent(x),
            a.name,
            quantity::percent(y),
            b.name
        ));
    }
    out
}
