//! Connections that clients made to servers of DNS over TCP, and how they were met: what follows an
//! answer that was cut short.

use std::net::SocketAddr;

use wire::Flags;
use wire::packet::dns::PORT;

/// Connections kept at most, of one that has the capture for itself: 1 MB.
const MOST: usize = 16_384;
/// The latest of them that an answer is looked for among.
const RECENT: usize = 64;
/// A connection that begins this long after an answer was not made because of it, ns.
const AT_ONCE: u64 = 1_000_000_000;

/// How a SYN was met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Met {
    /// The capture holds nothing in answer.
    Silence,
    /// By an RST, at this time.
    Refusal(u64),
    /// By a SYN of the server.
    Answer,
}

/// A connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attempt {
    pub(super) client: SocketAddr,
    pub(super) server: SocketAddr,
    /// Its first SYN, on the capture's clock.
    pub(super) at: u64,
    pub(super) met: Met,
}

/// All of them, in the order of their first SYNs.
#[derive(Debug)]
pub(super) struct Attempts {
    most: usize,
    all: Vec<Attempt>,
}

impl Attempts {
    /// For one of so many that share a capture.
    pub(super) fn new(shards: usize) -> Self {
        Self { most: MOST.div_ceil(shards), all: Vec::new() }
    }

    /// Takes a segment to or from a server.
    pub(super) fn take(&mut self, (source, destination): (SocketAddr, SocketAddr), flags: Flags, at: u64) {
        let met = match (flags.contains(Flags::SYN), flags.contains(Flags::ACK)) {
            _ if flags.contains(Flags::RST) => Met::Refusal(at),
            (true, true) => Met::Answer,
            (true, false) if destination.port() == PORT => {
                let is_same = |a: &Attempt| (a.client, a.server) == (source, destination) && a.met == Met::Silence;
                if self.all.len() < self.most && !self.all.iter().rev().take(RECENT).any(is_same) {
                    self.all.push(Attempt { client: source, server: destination, at, met: Met::Silence });
                }
                return;
            }
            _ => return,
        };
        let of = |a: &&mut Attempt| (a.server, a.client) == (source, destination) && a.met == Met::Silence;
        if let Some(attempt) = self.all.iter_mut().rev().take(RECENT).find(of) {
            attempt.met = met;
        }
    }

    /// The first connection of this client to this server that an answer at this time led to.
    pub(super) fn after(&self, client: SocketAddr, server: SocketAddr, at: u64) -> Option<&Attempt> {
        let from = self.all.partition_point(|a| a.at < at);
        let soon = self.all[from..].iter().take_while(|a| a.at - at <= AT_ONCE);
        soon.take(MOST).find(|a| a.client.ip() == client.ip() && a.server == server)
    }

    pub(super) fn join(&mut self, other: Self) {
        self.most += other.most;
        self.all.extend(other.all);
        self.all.sort_by_key(|a| a.at);
    }
}
