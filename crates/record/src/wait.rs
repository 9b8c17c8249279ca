//! Why bytes waited in TCP's write queue.

use std::fmt;
use std::ops::AddAssign;

use crate::table::{Cell as _, Value};
use crate::{Nanos, words};

/// What kept the head of TCP's write queue from leaving: the first test in the kernel's
/// `tcp_write_xmit()` that fails.
///
/// `docs/waiting.md` says how each is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum WaitReason {
    /// Nothing: the bytes left within the call that wrote them.
    SentAtOnce = 0,
    /// The congestion window was full.
    CongestionWindow = 1,
    /// The peer's receive window was full.
    ReceiveWindow = 2,
    /// The send buffer was full, so the application itself had to wait within `send()`.
    SendBuffer = 3,
    /// TCP's own pacing timer had not run out.
    Pacing = 4,
    /// Nagle's algorithm: a part-filled segment waits for the ACK of what is in flight.
    Nagle = 5,
    /// `TCP_CORK` or `MSG_MORE`: the application asked to wait for more.
    Cork = 6,
    /// Autocorking: an earlier packet of this socket is still in the qdisc or the NIC.
    Autocork = 7,
    /// TCP small queues: too many bytes of this socket are already in the qdisc or the NIC.
    SmallQueue = 8,
    /// A lost segment was repaired first, or this one had to be retransmitted.
    Retransmission = 9,
    /// None of the tests explains it. Counted rather than guessed.
    Unknown = 10,
}

words! {
    WaitReason: SentAtOnce = "sent_at_once", CongestionWindow = "congestion_window", ReceiveWindow = "receive_window",
    SendBuffer = "send_buffer", Pacing = "pacing", Nagle = "nagle", Cork = "cork", Autocork = "autocork",
    SmallQueue = "small_queue", Retransmission = "retransmission", Unknown = "unknown";
}

impl WaitReason {
    /// The reason with this number, as a BPF record has it.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }
}

/// The words used for people: `congestion window`, `Nagle's rule`, ….
impl fmt::Display for WaitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::SentAtOnce => "sent at once",
            Self::CongestionWindow => "congestion window",
            Self::ReceiveWindow => "receive window",
            Self::SendBuffer => "send buffer",
            Self::Pacing => "pacing",
            Self::Nagle => "Nagle's algorithm",
            Self::Cork => "cork",
            Self::Autocork => "autocork",
            Self::SmallQueue => "small-queue limit",
            Self::Retransmission => "retransmission",
            Self::Unknown => "unknown",
        })
    }
}

/// How long something waited, by what held it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waits([Nanos; WaitReason::ALL.len()]);

impl Waits {
    /// A wait for one reason.
    pub fn of(reason: WaitReason, time: Nanos) -> Self {
        let mut waits = Self::default();
        waits.set(reason, time);
        waits
    }

    /// How long this reason held it.
    pub fn time(&self, reason: WaitReason) -> Nanos {
        self.0[reason as usize]
    }

    /// The same, to be set.
    pub fn set(&mut self, reason: WaitReason, time: Nanos) {
        self.0[reason as usize] = time;
    }

    /// Adds time for which this reason held it.
    pub fn add(&mut self, reason: WaitReason, time: Nanos) {
        self.0[reason as usize] += time;
    }

    /// The whole wait: all reasons together.
    pub fn sum(&self) -> Nanos {
        self.0.iter().copied().sum()
    }

    /// The reason with the largest share; [`WaitReason::SentAtOnce`] where there was no wait.
    pub fn reason(&self) -> WaitReason {
        let before = |a: WaitReason, b| if self.time(b) > self.time(a) { b } else { a };
        WaitReason::ALL.into_iter().fold(WaitReason::SentAtOnce, before)
    }

    /// How much of the wait that reason accounts for.
    pub fn by_reason(&self) -> Nanos {
        self.time(self.reason())
    }

    /// The reasons that held it for any time, the longest first.
    pub fn each(&self) -> Vec<(WaitReason, Nanos)> {
        let all = WaitReason::ALL.into_iter().map(|reason| (reason, self.time(reason)));
        let mut each: Vec<_> = all.filter(|(_, time)| *time > Nanos::ZERO).collect();
        each.sort_by_key(|(_, time)| std::cmp::Reverse(*time));
        each
    }

    /// The same wait cut to its last `most`, each reason in proportion.
    pub fn at_most(&self, most: Nanos) -> Self {
        let whole = self.sum();
        if whole <= most {
            return *self;
        }
        let part = |time: Nanos| (u128::from(time.0) * u128::from(most.0) / u128::from(whole.0)) as u64;
        let mut cut = Self(self.0.map(|time| Nanos(part(time))));
        cut.add(self.reason(), most.saturating_sub(cut.sum()));
        cut
    }
}

impl AddAssign for Waits {
    fn add_assign(&mut self, other: Self) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine += theirs;
        }
    }
}

/// Puts the reason of the largest share back. Its time follows, so that until then it has the least
/// there is.
pub(crate) fn set_reason(waits: &mut Option<Waits>, value: Value<'_>) -> Result<(), &'static str> {
    *waits = Option::from_value(value)?.map(|reason| Waits::of(reason, Nanos(1)));
    Ok(())
}

/// Puts back how long all reasons held it. Runs of earlier versions give the largest the whole.
pub(crate) fn set_whole(waits: &mut Option<Waits>, value: Value<'_>) -> Result<(), &'static str> {
    if let (Some(waits), Some(time)) = (waits, Option::from_value(value)?) {
        waits.set(waits.reason(), time);
    }
    Ok(())
}

/// Puts the time of one reason back, where the run has it.
pub(crate) fn set_time(waits: &mut Option<Waits>, reason: WaitReason, value: Value<'_>) -> Result<(), &'static str> {
    if let (Some(waits), Some(time)) = (waits, Option::from_value(value)?) {
        waits.set(reason, time);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_reasons_agree() {
        for (i, reason) in WaitReason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, i);
            assert_eq!(WaitReason::from_number(i as u8), Some(reason));
        }
        assert_eq!(WaitReason::from_number(11), None);
    }

    #[test]
    fn a_wait_is_the_sum_of_its_reasons_and_named_by_the_largest() {
        let mut waits = Waits::of(WaitReason::Nagle, Nanos(40));
        waits.add(WaitReason::Pacing, Nanos(25));
        waits += Waits::of(WaitReason::Pacing, Nanos(20));
        assert_eq!((waits.reason(), waits.by_reason(), waits.sum()), (WaitReason::Pacing, Nanos(45), Nanos(85)));
        assert_eq!(waits.each(), [(WaitReason::Pacing, Nanos(45)), (WaitReason::Nagle, Nanos(40))]);
        let cut = waits.at_most(Nanos(16));
        assert_eq!((cut.sum(), cut.time(WaitReason::Nagle)), (Nanos(16), Nanos(7)));
        assert_eq!((waits.at_most(Nanos(85)), Waits::default().at_most(Nanos(0))), (waits, Waits::default()));
        assert_eq!((Waits::default().reason(), Waits::default().each()), (WaitReason::SentAtOnce, vec![]));
    }
}
