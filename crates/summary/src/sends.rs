//! The figures of a set of sends.

use record::{Leg, Nanos, Send, WaitReason, Waits};
use stats::{Distribution, Precision, Quantile, censored_quantile};

use crate::pacing::PacingFigures;
use crate::retransmitted::Retransmitted;

/// One leg of a set of sends.
#[derive(Clone, Debug)]
pub struct LegFigures {
    /// How long it took, nanoseconds.
    pub times: Distribution,
    /// Sends without this leg: a stage of it gave no stamp.
    pub missing: u64,
    /// Sends with the stages of this leg in an impossible order.
    pub disorder: u64,
    /// Of those in `times`, the ones with a `sched` or `driver` stamp that was found between two
    /// others.
    pub inferred: u64,
    /// Sends with an inferred stamp that says nothing about the leg: the bound on its error is
    /// larger than the leg, which is not in `times`.
    pub vague: u64,
    /// The largest bound on the error of a time in `times`, to either side: of inferred stamps and
    /// of the NIC's.
    pub error: Nanos,
    /// How long sends without an ACK had been in this leg when they were last seen, nanoseconds:
    /// those that were in it.
    pub so_far: Distribution,
}

impl LegFigures {
    /// No times yet.
    pub(crate) const fn new(precision: Precision) -> Self {
        Self {
            times: Distribution::new(precision),
            missing: 0,
            disorder: 0,
            inferred: 0,
            vague: 0,
            error: Nanos::ZERO,
            so_far: Distribution::new(precision),
        }
    }

    /// Adds what a send says of this leg.
    fn add(&mut self, reading: LegReading) {
        match reading {
            LegReading::Time { time, inferred, error } => {
                self.times.record(time.0);
                self.inferred += u64::from(inferred);
                self.error = self.error.max(error);
            }
            LegReading::SoFar(time) => self.so_far.record(time.0),
            LegReading::Vague => self.vague += 1,
            LegReading::Missing => self.missing += 1,
            LegReading::Disorder => self.disorder += 1,
        }
    }

    fn merge(&mut self, other: &Self) {
        self.times.merge(&other.times);
        self.missing += other.missing;
        self.disorder += other.disorder;
        self.inferred += other.inferred;
        self.vague += other.vague;
        self.error = self.error.max(other.error);
        self.so_far.merge(&other.so_far);
    }

    /// Sends with a time in this leg, whether it is over or not.
    pub const fn n(&self) -> u64 {
        self.times.n() + self.so_far.n()
    }

    /// All of that time, nanoseconds.
    pub const fn sum(&self) -> u128 {
        self.times.sum() + self.so_far.sum()
    }

    /// The longest time that a send has spent in it, nanoseconds.
    pub fn max(&self) -> Option<u64> {
        self.times.max().max(self.so_far.max())
    }

    /// A quantile of how long sends take, as far as those that are not over leave it open
    /// ([`censored_quantile`]), nanoseconds.
    pub fn quantile(&self, quantile: Quantile) -> Option<u64> {
        censored_quantile(&self.times, &self.so_far, quantile)
    }
}

/// What a send says of one leg.
#[derive(Clone, Copy)]
pub(crate) enum LegReading {
    /// It took so long, give or take the error; `inferred` where a stamp at an end of it was found
    /// between two others.
    Time { time: Nanos, inferred: bool, error: Nanos },
    /// It had taken so long when the send was last seen, and no ACK had come.
    SoFar(Nanos),
    /// Such a stamp has a bound on its error that is larger than the leg.
    Vague,
    /// A stage of it gave no stamp.
    Missing,
    /// Its stages came in an impossible order.
    Disorder,
}

impl LegReading {
    /// Of each leg, in the order of [`Leg::ALL`]: worked out once for all the figures that a send
    /// is added to.
    #[inline]
    pub(crate) fn all(send: &Send) -> [Self; Leg::ALL.len()] {
        let inferred = |error: Nanos| error > Nanos::ZERO;
        let (sched, driver) = (inferred(send.stamps.sched_error), inferred(send.stamps.driver_error));
        let ack = inferred(send.stamps.ack_error);
        // One by one, since the compiler then knows the stages of each.
        [
            Self::of(send, Leg::Call, false),
            Self::of(send, Leg::Tcp, sched),
            Self::of(send, Leg::Qdisc, sched || driver),
            Self::of(send, Leg::Nic, driver),
            Self::of(send, Leg::Network, ack || (driver && send.stamps.nic.is_none())),
            Self::of(send, Leg::Total, ack),
        ]
    }

    #[inline(always)]
    fn of(send: &Send, leg: Leg, inferred: bool) -> Self {
        match send.awaited(leg) {
            Ok(Some(time)) => {
                let error = send.leg_error(leg);
                if inferred && error > time { Self::Vague } else { Self::Time { time, inferred, error } }
            }
            Ok(None) => send.so_far(leg).map_or(Self::Missing, Self::SoFar),
            Err(_) => Self::Disorder,
        }
    }
}

/// How often, and for how long, sends or requests waited for one reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitStats {
    /// Those that it held for any time.
    pub sends: u64,
    /// That time together.
    pub time: Nanos,
}

/// Reasons that held sends, or the programs that made them.
#[derive(Clone, Debug, Default)]
struct Reasons {
    /// Sends that were held by any of them.
    held: u64,
    stats: [WaitStats; WaitReason::ALL.len()],
    /// Of each time, that of sends that were made while round trips took longer than at rest.
    slower: [Nanos; WaitReason::ALL.len()],
}

impl Reasons {
    fn add(&mut self, waits: &Waits, slower: bool) {
        self.held += u64::from(waits.reason() != WaitReason::SentAtOnce);
        count(&mut self.stats, waits);
        if slower {
            for (sum, reason) in self.slower.iter_mut().zip(WaitReason::ALL) {
                *sum += waits.time(reason);
            }
        }
    }

    fn merge(&mut self, other: &Self) {
        self.held += other.held;
        for (mine, theirs) in self.stats.iter_mut().zip(&other.stats) {
            mine.sends += theirs.sends;
            mine.time += theirs.time;
        }
        for (mine, theirs) in self.slower.iter_mut().zip(other.slower) {
            *mine += theirs;
        }
    }

    /// Most of the time that this reason accounts for was while round trips took longer than at
    /// rest.
    fn mostly_slower(&self, reason: WaitReason) -> bool {
        let (slower, all) = (self.slower[reason as usize], self.stats[reason as usize].time);
        slower > Nanos::ZERO && slower.0 >= all.0 / 2
    }
}

/// The figures of a set of sends, in bounded memory.
#[derive(Clone, Debug)]
pub struct SendFigures {
    /// Finished sends.
    pub sends: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Sends with a retransmitted last byte.
    pub retransmitted: u64,
    /// What those have taken on the path.
    late: Retransmitted,
    /// Sends whose ACK was delayed by the peer while nothing waited for it: the time beyond the
    /// minimum RTT is in no leg.
    pub delayed_acks: u64,
    /// Sends that were given up without an ACK.
    pub unacknowledged: u64,
    legs: [LegFigures; Leg::ALL.len()],
    /// [`Send::below_tcp`] of those that have it.
    pub below_tcp: LegFigures,
    waits: Reasons,
    buffer: Reasons,
    /// What they say of the rate while TCP paced them.
    pub pacing: PacingFigures,
    /// Sends with a NIC stamp, and the largest error bound of those stamps.
    pub nic_error: Nanos,
    /// The minimum RTT that TCP knew of on any of their connections; `None` where it knew of none.
    pub least_round_trip: Option<Nanos>,
}

impl SendFigures {
    /// Nothing yet.
    pub fn new(precision: Precision) -> Self {
        Self {
            sends: 0,
            bytes: 0,
            retransmitted: 0,
            late: Retransmitted::default(),
            delayed_acks: 0,
            unacknowledged: 0,
            legs: Leg::ALL.map(|_| LegFigures::new(precision)),
            below_tcp: LegFigures::new(precision),
            waits: Reasons::default(),
            buffer: Reasons::default(),
            pacing: PacingFigures::default(),
            nic_error: Nanos::ZERO,
            least_round_trip: None,
        }
    }

    /// Adds a send with what it says of its legs.
    pub(crate) fn add(&mut self, send: &Send, legs: &[LegReading; Leg::ALL.len()]) {
        self.sends += 1;
        self.bytes += u64::from(send.bytes);
        self.retransmitted += u64::from(send.retransmissions > 0);
        self.late.add(send);
        self.delayed_acks += u64::from(send.delayed_ack() > Nanos::ZERO);
        self.unacknowledged += u64::from(send.stamps.ack.is_none());
        for (leg, stats) in legs.iter().zip(&mut self.legs) {
            stats.add(*leg);
        }
        if let Some(time) = send.below_tcp() {
            let error = send.stamps.sched_error + send.stamps.ack_error;
            self.below_tcp.add(LegReading::Time { time, inferred: error > Nanos::ZERO, error });
        }
        let slower = send.state.is_slower_than_at_rest() == Some(true);
        if let Some(wait) = send.wait {
            self.waits.add(&wait, slower);
        }
        if let Some(full) = send.buffer {
            self.buffer.add(&full, slower);
        }
        self.pacing.add(send);
        if let Some(nic) = send.stamps.nic {
            self.nic_error = self.nic_error.max(nic.error);
        }
        self.least_round_trip = self.least_round_trip.into_iter().chain(send.state.min_rtt).min();
    }

    /// Adds the sends of another.
    pub fn merge(&mut self, other: &Self) {
        self.sends += other.sends;
        self.bytes += other.bytes;
        self.retransmitted += other.retransmitted;
        self.late.merge(&other.late);
        self.delayed_acks += other.delayed_acks;
        self.unacknowledged += other.unacknowledged;
        for (mine, theirs) in self.legs.iter_mut().zip(&other.legs) {
            mine.merge(theirs);
        }
        self.below_tcp.merge(&other.below_tcp);
        self.waits.merge(&other.waits);
        self.buffer.merge(&other.buffer);
        self.pacing.merge(&other.pacing);
        self.nic_error = self.nic_error.max(other.nic_error);
        self.least_round_trip = self.least_round_trip.into_iter().chain(other.least_round_trip).min();
    }

    /// The figures of a leg.
    pub fn leg(&self, leg: Leg) -> &LegFigures {
        let at = Leg::ALL.iter().position(|&l| l == leg).unwrap_or(0);
        &self.legs[at]
    }

    /// Sends that waited in TCP for anything.
    pub fn waited(&self) -> u64 {
        self.waits.held
    }

    /// Sends before which the program waited for room in the send buffer.
    pub fn buffer_waited(&self) -> u64 {
        self.buffer.held
    }

    /// The figures of a reason.
    pub fn wait(&self, reason: WaitReason) -> WaitStats {
        self.waits.stats[reason as usize]
    }

    /// Whether sends that waited for `reason` were made, most of their time, while round trips took
    /// longer than at rest: data waited on the path, or ACKs came late.
    pub fn waited_while_slower(&self, reason: WaitReason) -> bool {
        self.waits.mostly_slower(reason)
    }

    /// The same of programs that waited for room in the send buffer.
    pub fn buffer_full_while_slower(&self, reason: WaitReason) -> bool {
        self.buffer.mostly_slower(reason)
    }

    /// Whether the network leg is never much shorter than the minimum RTT that TCP knew of, which
    /// is then the distance; longer by a quarter and 1 ms, and each send waits for something else
    /// as well. `false` where that is not known.
    pub fn is_at_distance(&self) -> bool {
        let least = self.leg(Leg::Network).times.min();
        least
            .zip(self.least_round_trip)
            .is_some_and(|(least, rtt)| least <= rtt.0.saturating_add(rtt.0 / 4 + 1_000_000))
    }

    /// How many retransmitted sends have a time on the path, and the share that they have of the
    /// time beyond the least there; `None` where none took longer.
    pub fn late_by_retransmission(&self) -> Option<(u64, f64)> {
        let network = self.leg(Leg::Network);
        self.late.share(network.n(), network.sum(), network.times.min()?)
    }

    /// All time of all sends, nanoseconds: that of the legs that add up to totals, and that which
    /// is in none of them, because a stage gave no stamp.
    pub fn time(&self) -> u128 {
        self.divided().max(self.leg(Leg::Total).sum())
    }

    /// That of the legs alone, and of those two that cannot be distinguished.
    pub fn divided(&self) -> u128 {
        self.below_tcp.sum() + Leg::ADDITIVE.into_iter().map(|leg| self.leg(leg).sum()).sum::<u128>()
    }

    /// The reasons that sends really waited for, the longest first: without what was sent at once.
    pub fn waits(&self) -> Vec<(WaitReason, WaitStats)> {
        by_time(&self.waits.stats)
    }

    /// What held the queue while programs waited for room in the send buffer, the longest first.
    pub fn buffer_waits(&self) -> Vec<(WaitReason, WaitStats)> {
        by_time(&self.buffer.stats)
    }
}

/// How long a reason held a send, in TCP and before it was written together.
pub(crate) fn held(send: &Send, reason: WaitReason) -> Nanos {
    [send.wait, send.buffer].into_iter().flatten().map(|waits| waits.time(reason)).sum()
}

/// Counts a wait with each of its reasons; one without any time was sent at once.
pub(crate) fn count(stats: &mut [WaitStats; WaitReason::ALL.len()], waits: &Waits) {
    let chief = waits.reason();
    for reason in WaitReason::ALL {
        let (time, stats) = (waits.time(reason), &mut stats[reason as usize]);
        stats.sends += u64::from(time > Nanos::ZERO || reason == chief);
        stats.time += time;
    }
}

/// The reasons that there are, the longest first.
pub(crate) fn by_time(stats: &[WaitStats; WaitReason::ALL.len()]) -> Vec<(WaitReason, WaitStats)> {
    let mut waits: Vec<_> = WaitReason::ALL
        .into_iter()
        .zip(stats.iter().copied())
        .filter(|(reason, stats)| *reason != WaitReason::SentAtOnce && stats.sends > 0)
        .collect();
    waits.sort_by_key(|(_, stats)| std::cmp::Reverse((stats.time, stats.sends)));
    waits
}
