//! The figures of requests that a program answered with what it asked others, as a proxy does.

use std::collections::HashMap;
use std::net::SocketAddr;

use record::{Join, Nanos, Request, Role};
use stats::{Distribution, Precision};

use crate::Limits;
use crate::attribution::Attribution;
use crate::requests::RoleFigures;

/// Peers with separate times.
const REMOTES: usize = 64;
/// Programs with separate times.
const PROGRAMS: usize = 128;

/// The figures of the requests of programs that ask others themselves.
#[derive(Clone, Debug)]
pub struct ProxiedFigures {
    /// Those that are joined with what was asked for them.
    pub of: RoleFigures,
    /// Those that are not, because that is not certain ([`Join::Withheld`]).
    pub withheld: u64,
    /// Those for which nothing was seen to be asked.
    pub nothing: u64,
    /// Of those joined, how many where the program that was asked was traced too.
    pub both_ends: u64,
    /// Time in the program that was asked, nanoseconds, of those where it is known.
    pub program: Distribution,
    /// Time on the network to it and back, likewise.
    pub network: Distribution,
    remotes: HashMap<SocketAddr, u128>,
    /// Requests of each program by role, and how long they took together, nanoseconds.
    programs: HashMap<u32, [(u64, u128); 2]>,
}

impl ProxiedFigures {
    pub(crate) fn new(limits: &Limits) -> Self {
        let times = || Distribution::new(Precision::Fine);
        Self {
            of: RoleFigures::new(Role::Server, limits),
            withheld: 0,
            nothing: 0,
            both_ends: 0,
            program: times(),
            network: times(),
            remotes: HashMap::new(),
            programs: HashMap::new(),
        }
    }

    pub(crate) fn add(&mut self, request: &Request, known: Attribution) {
        let pid = request.owner.pid;
        if let Some(whole) = request.whole()
            && (self.programs.len() < PROGRAMS || self.programs.contains_key(&pid))
        {
            let (n, sum) = &mut self.programs.entry(pid).or_default()[request.role as usize];
            (*n, *sum) = (*n + 1, *sum + u128::from(whole.0));
        }
        let Some(upstream) = &request.upstream else { return };
        match upstream.join {
            Join::Joined => {}
            Join::Withheld => return self.withheld += 1,
            Join::Nothing => return self.nothing += 1,
        }
        self.of.add(request, known);
        self.both_ends += u64::from(upstream.both_ends);
        let add =
            |times: &mut Distribution, time: Option<Nanos>| time.into_iter().for_each(|time| times.record(time.0));
        add(&mut self.program, upstream.program);
        add(&mut self.network, upstream.network);
        let waited = request.components.and_then(|components| components.upstream).unwrap_or_default();
        if let Some(remote) = upstream.remote
            && (self.remotes.len() < REMOTES || self.remotes.contains_key(&remote))
        {
            *self.remotes.entry(remote).or_default() += u128::from(waited.0);
        }
    }

    /// How many are joined.
    pub fn joined(&self) -> u64 {
        self.of.records.n
    }

    /// All requests of programs that ask others.
    pub fn all(&self) -> u64 {
        self.joined() + self.withheld + self.nothing
    }

    /// Of programs that both answer and ask: the requests that they answered, and those that they
    /// made, with how long they took together, nanoseconds.
    pub fn in_all(&self) -> [(u64, u128); 2] {
        let both = self.programs.iter().filter(|(pid, roles)| **pid != 0 && roles.iter().all(|(n, _)| *n > 0));
        let sum = |role: Role| {
            both.clone().fold((0, 0), |(n, sum), (_, roles)| (n + roles[role as usize].0, sum + roles[role as usize].1))
        };
        [sum(Role::Server), sum(Role::Client)]
    }

    /// Whom programs waited for longest, and whether they waited for nobody else.
    pub fn remote(&self) -> Option<(SocketAddr, bool)> {
        let longest = self.remotes.iter().max_by_key(|(remote, time)| (**time, std::cmp::Reverse(**remote)))?;
        Some((*longest.0, self.remotes.len() == 1))
    }
}
