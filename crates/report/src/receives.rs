//! The figures of received bytes, in bounded memory.

use std::net::SocketAddr;

use model::{Instant, Monotonic, Receive, ReceiveLeg};
use stats::Precision;

use crate::{LegStats, Longest};

/// A receive with the ends of its connection, where that was announced.
#[derive(Clone, Copy, Debug)]
pub struct SlowReceive {
    /// The receive.
    pub receive: Receive,
    /// Local and remote end.
    pub ends: Option<(SocketAddr, SocketAddr)>,
}

/// The figures of a set of receives.
#[derive(Clone, Debug)]
pub struct Receives {
    /// Received segments, or frames of them.
    pub receives: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Segments on the wire.
    pub segments: u64,
    /// Those that came before bytes that precede them.
    pub out_of_order: u64,
    /// Those that were not read.
    pub unread: u64,
    /// The most bytes that lay unread in a socket when others came.
    pub most_queued: u32,
    legs: [LegStats; ReceiveLeg::ALL.len()],
    /// The slowest, from arrival to read.
    pub slowest: Longest<SlowReceive>,
    /// When the first of them arrived.
    pub first: Option<Instant<Monotonic>>,
}

impl Receives {
    /// Nothing yet; keeps this many of the slowest.
    pub fn new(slowest: usize) -> Self {
        let leg = |_| LegStats::new(Precision::Fine);
        Self {
            receives: 0,
            bytes: 0,
            segments: 0,
            out_of_order: 0,
            unread: 0,
            most_queued: 0,
            legs: ReceiveLeg::ALL.map(leg),
            slowest: Longest::new(slowest),
            first: None,
        }
    }

    /// Adds a receive on a connection with these ends.
    pub fn add(&mut self, receive: &Receive, ends: Option<(SocketAddr, SocketAddr)>) {
        self.receives += 1;
        self.bytes += u64::from(receive.bytes);
        self.segments += u64::from(receive.segments);
        self.out_of_order += u64::from(receive.out_of_order);
        self.unread += u64::from(receive.stamps.read.is_none());
        self.most_queued = self.most_queued.max(receive.queued);
        if let Some(arrived) = receive.stamps.arrived() {
            self.first = Some(self.first.map_or(arrived, |first| first.min(arrived)));
        }
        for (leg, stats) in ReceiveLeg::ALL.into_iter().zip(&mut self.legs) {
            match receive.leg(leg) {
                Ok(Some(time)) => stats.times.record(time.0),
                Ok(None) => stats.missing += 1,
                Err(_) => stats.disorder += 1,
            }
        }
        if let Ok(Some(total)) = receive.leg(ReceiveLeg::Total) {
            self.slowest.offer(total, || SlowReceive { receive: *receive, ends });
        }
    }

    /// The figures of a leg.
    pub fn leg(&self, leg: ReceiveLeg) -> &LegStats {
        let at = ReceiveLeg::ALL.iter().position(|&l| l == leg).unwrap_or(0);
        &self.legs[at]
    }

    /// All time of all legs that add up to totals, nanoseconds.
    pub fn time(&self) -> u128 {
        ReceiveLeg::PARTS.into_iter().map(|leg| self.leg(leg).times.sum()).sum()
    }
}
