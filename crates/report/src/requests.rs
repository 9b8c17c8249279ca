//! The figures of requests, in bounded memory.

use std::net::SocketAddr;

use model::{Basis, Instant, Monotonic, Part, Request, Role};
use stats::{Distribution, Precision};

use crate::Longest;

/// A request with the ends of its connection, where that was announced.
#[derive(Clone, Debug)]
pub struct SlowRequest {
    /// The request.
    pub request: Request,
    /// Local and remote end.
    pub ends: Option<(SocketAddr, SocketAddr)>,
}

/// The figures of the requests that were seen from one kind of end.
#[derive(Clone, Debug)]
pub struct RoleRequests {
    /// Requests.
    pub requests: u64,
    /// Those whose time is divided into parts; the others are counted as incomplete.
    pub divided: u64,
    /// Bytes asked.
    pub request_bytes: u64,
    /// Bytes answered.
    pub answer_bytes: u64,
    /// Of those divided: by the request's own ACK, by the least round trip, by both ends.
    pub bases: [u64; 3],
    /// How long they took as a whole, nanoseconds.
    pub whole: Distribution,
    parts: [Distribution; Part::ALL.len()],
    /// The slowest.
    pub slowest: Longest<SlowRequest>,
}

/// What tells the network from the peer, in the order of [`RoleRequests::bases`].
pub const BASES: [Basis; 3] = [Basis::OwnAck, Basis::LeastRoundTrip, Basis::BothEnds];

impl RoleRequests {
    fn new(slowest: usize) -> Self {
        Self {
            requests: 0,
            divided: 0,
            request_bytes: 0,
            answer_bytes: 0,
            bases: [0; 3],
            whole: Distribution::new(Precision::Fine),
            parts: Part::ALL.map(|_| Distribution::new(Precision::Fine)),
            slowest: Longest::new(slowest),
        }
    }

    fn add(&mut self, request: &Request, ends: Option<(SocketAddr, SocketAddr)>) {
        self.requests += 1;
        self.request_bytes += request.request.bytes;
        self.answer_bytes += request.answer.bytes;
        let (Some(parts), Some(whole)) = (&request.parts, request.whole()) else { return };
        self.divided += 1;
        self.whole.record(whole.0);
        for (part, times) in Part::ALL.into_iter().zip(&mut self.parts) {
            if let Some(time) = parts.get(part) {
                times.record(time.0);
            }
        }
        if let Some(at) = BASES.iter().position(|&b| b == request.basis) {
            self.bases[at] += 1;
        }
        self.slowest.offer(whole, || SlowRequest { request: request.clone(), ends });
    }

    /// How long a part took, nanoseconds.
    pub fn part(&self, part: Part) -> &Distribution {
        let at = Part::ALL.iter().position(|&p| p == part).unwrap_or(0);
        &self.parts[at]
    }
}

/// The figures of all requests.
#[derive(Clone, Debug)]
pub struct Requests {
    roles: [RoleRequests; 2],
    /// When the first of them began.
    pub first: Option<Instant<Monotonic>>,
}

impl Requests {
    /// Nothing yet; keeps this many of the slowest for each role.
    pub fn new(slowest: usize) -> Self {
        Self { roles: Role::ALL.map(|_| RoleRequests::new(slowest)), first: None }
    }

    /// Adds a request on a connection with these ends.
    pub fn add(&mut self, request: &Request, ends: Option<(SocketAddr, SocketAddr)>) {
        if let Some(began) = request.began() {
            self.first = Some(self.first.map_or(began, |first| first.min(began)));
        }
        self.roles[request.role as usize].add(request, ends);
    }

    /// Those that were seen from this end.
    pub fn of(&self, role: Role) -> &RoleRequests {
        &self.roles[role as usize]
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.roles.iter().all(|r| r.requests == 0)
    }
}
