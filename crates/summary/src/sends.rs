//! The figures of a set of sends.

use record::{Leg, Nanos, Send, WaitReason};
use stats::{Distribution, Precision};

/// One leg of a set of sends.
#[derive(Clone, Debug)]
pub struct LegFigures {
    /// How long it took, nanoseconds.
    pub times: Distribution,
    /// Sends without this leg: a stage of it gave no stamp.
    pub missing: u64,
    /// Sends with the stages of this leg in an impossible order.
    pub disorder: u64,
    /// Of those in `times`, the ones with a `sched` or `driver` stamp that was found between two others.
    pub inferred: u64,
    /// Sends with an inferred stamp that says nothing about the leg: the bound on its error is larger than the leg, which is not in `times`.
    pub vague: u64,
    /// The largest bound on the error of a time in `times`, to either side: of inferred stamps and of the NIC's.
    pub error: Nanos,
}

impl LegFigures {
    /// No times yet.
    pub(crate) const fn new(precision: Precision) -> Self {
        Self { times: Distribution::new(precision), missing: 0, disorder: 0, inferred: 0, vague: 0, error: Nanos::ZERO }
    }
}

/// Whether a stamp at an end of the leg was found between two others.
fn inferred(send: &Send, leg: Leg) -> bool {
    let (sched, driver) = (send.stamps.sched_error > Nanos::ZERO, send.stamps.driver_error > Nanos::ZERO);
    match leg {
        Leg::Tcp => sched,
        Leg::Qdisc => sched || driver,
        Leg::Nic => driver,
        Leg::Network => driver && send.stamps.nic.is_none(),
        Leg::Total => false,
    }
}

/// How often, and for how long, sends waited in TCP for one reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitStats {
    /// Sends with this reason for the largest share of their wait.
    pub sends: u64,
    /// The time that it accounts for.
    pub time: Nanos,
}

/// The figures of a set of sends, in bounded memory.
#[derive(Clone, Debug)]
pub struct SendFigures {
    /// Finished sends.
    pub sends: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Earlier sends that were merged into their packets.
    pub merged_sends: u64,
    /// The bytes of those.
    pub merged_bytes: u64,
    /// Sends with a retransmitted last byte.
    pub retransmitted: u64,
    /// Sends that were given up without an ACK.
    pub unacknowledged: u64,
    legs: [LegFigures; Leg::ALL.len()],
    waits: [WaitStats; WaitReason::ALL.len()],
    /// Sends with a NIC stamp, and the largest error bound of those stamps.
    pub nic_error: Nanos,
}

impl SendFigures {
    /// Nothing yet.
    pub fn new(precision: Precision) -> Self {
        Self {
            sends: 0,
            bytes: 0,
            merged_sends: 0,
            merged_bytes: 0,
            retransmitted: 0,
            unacknowledged: 0,
            legs: Leg::ALL.map(|_| LegFigures::new(precision)),
            waits: Default::default(),
            nic_error: Nanos::ZERO,
        }
    }

    /// Adds a send.
    pub fn add(&mut self, send: &Send) {
        self.sends += 1;
        self.bytes += u64::from(send.bytes);
        self.merged_sends += u64::from(send.merged.sends);
        self.merged_bytes += u64::from(send.merged.bytes);
        self.retransmitted += u64::from(send.retransmissions > 0);
        self.unacknowledged += u64::from(send.stamps.ack.is_none());
        for (leg, stats) in Leg::ALL.into_iter().zip(&mut self.legs) {
            match send.leg(leg) {
                Ok(Some(time)) if inferred(send, leg) && send.leg_error(leg) > time => stats.vague += 1,
                Ok(Some(time)) => {
                    stats.times.record(time.0);
                    stats.inferred += u64::from(inferred(send, leg));
                    stats.error = stats.error.max(send.leg_error(leg));
                }
                Ok(None) => stats.missing += 1,
                Err(_) => stats.disorder += 1,
            }
        }
        if let Some(wait) = send.wait {
            let stats = &mut self.waits[wait.reason as usize];
            stats.sends += 1;
            stats.time += wait.by_reason;
        }
        if let Some(nic) = send.stamps.nic {
            self.nic_error = self.nic_error.max(nic.error);
        }
    }

    /// Adds the sends of another.
    pub fn merge(&mut self, other: &Self) {
        self.sends += other.sends;
        self.bytes += other.bytes;
        self.merged_sends += other.merged_sends;
        self.merged_bytes += other.merged_bytes;
        self.retransmitted += other.retransmitted;
        self.unacknowledged += other.unacknowledged;
        for (mine, theirs) in self.legs.iter_mut().zip(&other.legs) {
            mine.times.merge(&theirs.times);
            mine.missing += theirs.missing;
            mine.disorder += theirs.disorder;
            mine.inferred += theirs.inferred;
            mine.vague += theirs.vague;
            mine.error = mine.error.max(theirs.error);
        }
        for (mine, theirs) in self.waits.iter_mut().zip(&other.waits) {
            mine.sends += theirs.sends;
            mine.time += theirs.time;
        }
        self.nic_error = self.nic_error.max(other.nic_error);
    }

    /// The figures of a leg.
    pub fn leg(&self, leg: Leg) -> &LegFigures {
        let at = Leg::ALL.iter().position(|&l| l == leg).unwrap_or(0);
        &self.legs[at]
    }

    /// The figures of a reason.
    pub fn wait(&self, reason: WaitReason) -> WaitStats {
        self.waits[reason as usize]
    }

    /// All time of all legs that add up to totals, nanoseconds.
    pub fn time(&self) -> u128 {
        Leg::PARTS.into_iter().map(|leg| self.leg(leg).times.sum()).sum()
    }

    /// The reasons that sends really waited for, the longest first: not those sent at once.
    pub fn waits(&self) -> Vec<(WaitReason, WaitStats)> {
        let mut waits: Vec<_> = WaitReason::ALL
            .into_iter()
            .filter(|&reason| reason != WaitReason::SentAtOnce)
            .map(|reason| (reason, self.wait(reason)))
            .filter(|(_, stats)| stats.sends > 0)
            .collect();
        waits.sort_by_key(|(_, stats)| std::cmp::Reverse((stats.time, stats.sends)));
        waits
    }
}
