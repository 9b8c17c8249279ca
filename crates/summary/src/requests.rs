//! The figures of requests, in bounded memory.

use crate::kind::TimedKind;
use record::{Basis, Component, Protocol, Request, Role, WaitReason};
use stats::Distribution;

use crate::Limits;
use crate::attribution::Attribution;
use crate::figures::TimedFigures;
use crate::labels::LabelTable;
use crate::profile::Profile;
use crate::proxied::ProxiedFigures;
use crate::sends::{WaitStats, by_time, count};

/// The figures of the requests that were seen from one kind of end.
#[derive(Clone, Debug)]
pub struct RoleFigures {
    /// Requests, with the times of those that are divided into components; the others are counted
    /// as incomplete.
    pub records: TimedFigures<Request>,
    /// Bytes asked.
    pub request_bytes: u64,
    /// Bytes answered.
    pub answer_bytes: u64,
    /// Of those divided: by the request's own ACK, by the minimum RTT, by both ends.
    pub bases: [u64; 3],
    /// Those that overlap another ([`Request::overlapping`]).
    pub overlapping: u64,
    /// The same by method and path.
    pub labels: LabelTable,
    /// Where the time of typical ones goes, and that of the slowest.
    pub profile: Profile,
    protocols: [u64; Protocol::ALL.len()],
    waits: [WaitStats; WaitReason::ALL.len()],
}

/// What separates the network from the peer, in the order of [`RoleFigures::bases`].
pub const BASES: [Basis; 3] = [Basis::OwnAck, Basis::LeastRoundTrip, Basis::BothEnds];

impl RoleFigures {
    pub(crate) fn new(role: Role, limits: &Limits) -> Self {
        let kind = match role {
            Role::Client => TimedKind::AtClient,
            Role::Server => TimedKind::AtServer,
        };
        let records = TimedFigures::new(kind, limits.slowest, limits.connections);
        Self {
            records,
            request_bytes: 0,
            answer_bytes: 0,
            bases: [0; 3],
            overlapping: 0,
            labels: LabelTable::new(limits.labels),
            profile: Profile::default(),
            protocols: Default::default(),
            waits: Default::default(),
        }
    }

    pub(crate) fn add(&mut self, request: &Request, known: Attribution) {
        self.request_bytes = self.request_bytes.saturating_add(request.request.bytes);
        self.answer_bytes = self.answer_bytes.saturating_add(request.answer.bytes);
        if let Some(waits) = request.components.as_ref().and_then(|c| c.tcp) {
            count(&mut self.waits, &waits);
        }
        self.overlapping += u64::from(request.overlapping == Some(true));
        self.labels.add(request);
        self.profile.add(request);
        if let Some(protocol) = request.http.protocol {
            self.protocols[protocol as usize] += 1;
        }
        let divided = self.divided();
        self.records.add(request, known);
        if self.divided() > divided
            && let Some(at) = BASES.iter().position(|&b| b == request.basis)
        {
            self.bases[at] += 1;
        }
    }

    /// Requests with a time that is divided into components.
    pub fn divided(&self) -> u64 {
        self.records.total().n()
    }

    /// How many were seen to be of this protocol.
    pub fn of_protocol(&self, protocol: Protocol) -> u64 {
        self.protocols[protocol as usize]
    }

    /// What requests waited for TCP for, the longest first.
    pub fn waits(&self) -> Vec<(WaitReason, WaitStats)> {
        by_time(&self.waits)
    }

    /// How long a component took, nanoseconds.
    pub fn component(&self, component: Component) -> &Distribution {
        &self.records.leg(Component::ALL.iter().position(|&c| c == component).unwrap_or(0)).times
    }
}

/// The figures of all requests.
#[derive(Clone, Debug)]
pub struct RequestFigures {
    roles: [RoleFigures; 2],
    proxied: ProxiedFigures,
}

impl RequestFigures {
    /// Nothing yet.
    pub fn new(limits: &Limits) -> Self {
        Self { roles: Role::ALL.map(|role| RoleFigures::new(role, limits)), proxied: ProxiedFigures::new(limits) }
    }

    /// Adds a request on a connection of which this is known.
    pub fn add(&mut self, request: &Request, known: Attribution) {
        self.roles[request.role as usize].add(request, known);
        self.proxied.add(request, known);
    }

    /// Those that a program answered with what it asked others; they are among those at the server.
    pub fn proxied(&self) -> &ProxiedFigures {
        &self.proxied
    }

    /// Those that were seen from this end.
    pub fn of(&self, role: Role) -> &RoleFigures {
        &self.roles[role as usize]
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.roles.iter().all(|r| r.records.n == 0)
    }
}
