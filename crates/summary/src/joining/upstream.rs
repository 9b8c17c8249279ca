//! Which of a program's own requests were for one that it answers: what a proxy asks others.
//!
//! **Does:** a request of the program's own is for one that it answers where that is the only one
//! that the program had open when it asked: it had read some of it, and had not written the last of
//! its answer; or the only one in the thread that asked, of a program that works on each request in
//! one thread ([`WaysOfWork`]). What it then waited for, it waited for on behalf of that request.
//!
//! **Does not:** guess. Where several were open and threads do not tell, each of them may be the
//! one, and nothing is joined with any of them; likewise where something was missed.
//!
//! **Guarantees:** pure; bounded memory for each program, and a bounded number of programs.

use std::collections::{HashMap, HashSet, VecDeque};
use std::net::SocketAddr;

use record::{Component, Components, ConnectionId, Instant, Join, Monotonic, Nanos, Upstream};

use super::threads::{Threads, WaysOfWork};

type Moment = Instant<Monotonic>;

/// Requests of one program that are kept until those that were open at the same time are over, of
/// each kind.
const KEPT: usize = 2048;
/// Programs that are followed.
const PROGRAMS: usize = 128;

/// A request that a program answers. What is not known is `None`, and may have been at any time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Served {
    pub connection: ConnectionId,
    pub threads: Threads,
    /// It had read the first of it.
    pub began: Option<Moment>,
    /// It had read all of it.
    pub read: Option<Moment>,
    /// It wrote the last of the answer.
    pub ended: Option<Moment>,
}

/// A request of the program's own.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub remote: SocketAddr,
    pub threads: Threads,
    /// The first write, or the SYN before it.
    pub began: Option<Moment>,
    /// The last write.
    pub written: Option<Moment>,
    /// The answer could be read.
    pub ready: Option<Moment>,
    /// The answer was read; `None` where there was none, or not to its end.
    pub ended: Option<Moment>,
    /// It overlaps another one on its connection.
    pub overlapping: bool,
    /// The other end of its connection is traced too.
    pub both_ends: bool,
    /// Where its time went, if it is divided.
    pub division: Option<Division>,
}

/// Where the time of a program's own request went.
#[derive(Clone, Copy, Debug)]
pub(super) struct Division {
    /// In the program that was asked.
    program: Nanos,
    /// On the network, setting up the connection among it.
    network: Nanos,
}

/// What ends, and is kept for a while.
trait Ends {
    fn ended(&self) -> Option<Moment>;
}

impl Ends for Served {
    fn ended(&self) -> Option<Moment> {
        self.ended
    }
}

impl Ends for Asked {
    fn ended(&self) -> Option<Moment> {
        self.ended
    }
}

/// In the order of their ends; where that is not known, last.
#[derive(Debug)]
struct ByEnd<T>(VecDeque<T>);

impl<T> Default for ByEnd<T> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<T: Ends> ByEnd<T> {
    /// Gives the one that is kept no more.
    fn keep(&mut self, one: T) -> Option<T> {
        let key = |one: &T| (one.ended().is_none(), one.ended());
        let later = self.0.iter().rev().take_while(|other| key(other) > key(&one)).count();
        self.0.insert(self.0.len() - later, one);
        if self.0.len() > KEPT { self.0.pop_front() } else { None }
    }

    /// Those that had not ended before, from the last.
    fn since(&self, from: Moment) -> impl Iterator<Item = &T> {
        self.0.iter().rev().take_while(move |one| one.ended().is_none_or(|ended| ended >= from))
    }
}

impl Division {
    pub fn new(components: &Components) -> Self {
        let sum = |all: &[Component]| all.iter().filter_map(|component| components.get(*component)).sum();
        Self {
            program: sum(&[Component::PeerApplication]),
            network: sum(&[Component::Connect, Component::Network, Component::PeerReceive, Component::PeerSend]),
        }
    }
}

impl Served {
    /// Whether the program may have had it open at some time from `from` to `to`.
    fn may_be_open(&self, from: Moment, to: Moment) -> bool {
        self.began.is_none_or(|began| began <= to) && self.ended.is_none_or(|ended| ended >= from)
    }
}

/// Whether what a thread asked is for `served`, where `others` were open too: `None` where that is
/// not certain.
fn is_for(asked: Threads, served: &Served, mut others: impl Iterator<Item = Threads>) -> Option<bool> {
    let others_too = others.any(|other| asked.is_same(other));
    match (asked.is_same(served.threads), others_too) {
        (true, false) => Some(true),
        (false, true) => Some(false),
        _ => None,
    }
}

/// What the program asked for `served`: `None` where that is not certain. `others` are those that
/// it answered meanwhile, and may have `served` among them.
fn asked_for<'a>(
    served: &Served,
    others: &[Served],
    by_thread: bool,
    asked: impl Iterator<Item = &'a Asked>,
) -> Option<Vec<&'a Asked>> {
    let (began, ended) = served.began.zip(served.ended)?;
    let mut own = Vec::new();
    for one in asked {
        let from = one.began?;
        let to = one.written.unwrap_or(from).max(from);
        if !served.may_be_open(from, to) || one.ended.is_some_and(|read| read > ended) {
            // Asked before or after, or with an answer that this one did not wait for.
            continue;
        }
        let is_another = |other: &Served| {
            let is_same = other.connection == served.connection && other.began == served.began;
            !is_same && other.may_be_open(from, to)
        };
        let mut others = others.iter().filter(|other| is_another(other)).map(|other| other.threads).peekable();
        if others.peek().is_some() && !is_for(one.threads, served, others).filter(|_| by_thread)? {
            continue;
        }
        if from < began || one.ended.is_none() || one.overlapping {
            return None;
        }
        own.push(one);
    }
    Some(own)
}

/// How long the program waited for what it asked, with whom, and where that time went; at most
/// `within`, which is what it took itself.
fn waited(served: &Served, own: &[&Asked], within: Nanos) -> (Upstream, Nanos) {
    let mut spans: Vec<_> = own
        .iter()
        .filter_map(|one| {
            let from = one.began.max(served.read)?;
            let to = one.ready.or(one.ended).min(served.ended)?;
            Some((from, to.max(from)))
        })
        .collect();
    spans.sort_unstable();
    let (mut waited, mut until, mut at_once) = (Nanos::ZERO, None::<Moment>, false);
    for (from, to) in spans {
        at_once |= until.is_some_and(|until| from < until);
        let from = until.map_or(from, |until| until.max(from));
        waited += to.since(from).unwrap_or_default();
        until = until.max(Some(to));
    }
    let waited = waited.min(within);
    let sum = |part: fn(&Division) -> Nanos| -> Option<Nanos> {
        own.iter().map(|one| one.division.as_ref().filter(|_| !at_once).map(part)).sum()
    };
    let program = sum(|division| division.program).map(|time| time.min(waited));
    let network = sum(|division| division.network);
    let took = |one: &&&Asked| one.ended.zip(one.began).and_then(|(to, from)| to.since(from).ok());
    let upstream = Upstream {
        join: Join::Joined,
        requests: u32::try_from(own.len()).unwrap_or(u32::MAX),
        remote: own.iter().max_by_key(took).map(|one| one.remote),
        program,
        network: network.zip(program).map(|(time, program)| time.min(waited.saturating_sub(program))),
        both_ends: own.iter().all(|one| one.both_ends),
    };
    (upstream, waited)
}

/// The requests of one program, in both directions.
#[derive(Debug, Default)]
struct Program {
    /// Connections with a request that is not over.
    open: HashSet<ConnectionId>,
    served: ByEnd<Served>,
    asked: ByEnd<Asked>,
    /// Up to when it may have had requests open that are kept no more.
    forgotten: Option<Moment>,
    /// It has asked something.
    asks: bool,
    work: WaysOfWork,
    /// Not all that it does is known.
    blind: bool,
}

/// The requests of all programs.
#[derive(Debug, Default)]
pub(super) struct Programs {
    by_pid: HashMap<u32, Program>,
    /// Whose request is open on a connection.
    holders: HashMap<ConnectionId, u32>,
    /// Up to when something may have been missed.
    missed: Option<Moment>,
    /// There are requests whose program is not known.
    blind: bool,
}

impl Programs {
    /// A program has a request under way on this connection: it read, or it wrote.
    pub fn open(&mut self, pid: u32, connection: ConnectionId, asks: bool) {
        let Some(program) = self.program(pid) else { return };
        program.open.insert(connection);
        program.asks |= asks;
        // One that passes from program to program is anyone's as well.
        if let Some(former) = self.holders.insert(connection, pid).filter(|former| *former != pid) {
            [former, pid].into_iter().for_each(|pid| self.blind(pid));
        }
    }

    /// A program reads or writes what is in no request, or one whose role is not known.
    pub fn blind(&mut self, pid: u32) {
        if let Some(program) = self.program(pid) {
            program.blind = true;
        }
    }

    /// The program with this number, while there is room for it. What one does that is not known
    /// may be anyone's.
    fn program(&mut self, pid: u32) -> Option<&mut Program> {
        self.blind |= pid == 0;
        if self.by_pid.len() >= PROGRAMS && !self.by_pid.contains_key(&pid) {
            // Those that have nothing under way are mostly gone.
            self.by_pid.retain(|_, program| program.blind || !program.open.is_empty());
        }
        let has_room = pid != 0 && (self.by_pid.len() < PROGRAMS || self.by_pid.contains_key(&pid));
        has_room.then(|| self.by_pid.entry(pid).or_default())
    }

    /// Up to now, records may have been missed.
    pub fn missed(&mut self, now: Moment) {
        self.missed = self.missed.max(Some(now));
    }

    /// The connections on which this program has requests that are not over.
    pub fn open_of(&self, pid: u32) -> impl Iterator<Item = ConnectionId> {
        self.by_pid.get(&pid).into_iter().flat_map(|program| program.open.iter().copied())
    }

    /// An answer that this program wrote, of which the request was not seen.
    pub fn served_unseen(&mut self, pid: u32, served: Served) {
        if let Some(program) = self.program(pid) {
            program.keep_served(served);
        }
    }

    /// The request on this connection is over.
    pub fn asked(&mut self, connection: ConnectionId, asked: Asked) {
        let Some(program) = self.over(connection) else { return };
        program.work.asked(asked.threads);
        if let Some(oldest) = program.asked.keep(asked) {
            program.forget(oldest.ended);
        }
    }

    /// The same of one that was answered; `open` are the requests of the program that are not over.
    /// Gives what was asked for it, with how long the program waited for that; `application` is
    /// what it took itself, where the request is divided.
    pub fn served(
        &mut self,
        served: Served,
        application: Option<Nanos>,
        open: (&[Served], &[Asked]),
    ) -> Option<(Upstream, Nanos)> {
        let (missed, blind) = (self.missed, self.blind);
        let program = self.over(served.connection)?;
        let withheld = (Upstream { join: Join::Withheld, ..Upstream::default() }, Nanos::ZERO);
        let asks = program.asks;
        program.judge(&served);
        program.keep_served(served);
        let program = &*program;
        if !asks {
            return None;
        }
        let is_known = !blind && !program.blind && served.began > missed.max(program.forgotten);
        let Some(application) = application.filter(|_| is_known) else { return Some(withheld) };
        // Only those that were open meanwhile can be others.
        let (from, to) = served.began.zip(served.ended)?;
        let others = program.served.since(from).chain(open.0).filter(|other| other.may_be_open(from, to));
        let others: Vec<Served> = others.copied().collect();
        let by_thread = program.work.by_thread();
        Some(match asked_for(&served, &others, by_thread, program.asked.since(from).chain(open.1)) {
            None => withheld,
            Some(own) if own.is_empty() => (Upstream::default(), Nanos::ZERO),
            Some(own) => waited(&served, &own, application),
        })
    }

    /// The program of a connection, which has no request there any more.
    fn over(&mut self, connection: ConnectionId) -> Option<&mut Program> {
        let program = self.by_pid.get_mut(&self.holders.remove(&connection)?)?;
        program.open.remove(&connection);
        Some(program)
    }
}

impl Program {
    /// What this request shows of how the program works, beside those that ended before.
    fn judge(&mut self, served: &Served) {
        let Some((from, to)) = served.began.zip(served.ended) else { return };
        let was_open = |other: &&Served| other.began.is_some_and(|began| began <= to) && other.ended.is_some();
        self.work.answered(served.threads, self.served.since(from).filter(was_open).map(|other| other.threads));
    }

    fn keep_served(&mut self, served: Served) {
        if let Some(oldest) = self.served.keep(served) {
            self.forget(oldest.ended);
        }
    }

    /// One that ended then is kept no more.
    fn forget(&mut self, ended: Option<Moment>) {
        match ended {
            Some(ended) => self.forgotten = self.forgotten.max(Some(ended)),
            None => self.blind = true,
        }
    }
}

#[cfg(test)]
mod tests;
