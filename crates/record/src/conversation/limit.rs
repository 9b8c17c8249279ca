//! The time budget: every nanosecond of a connection belongs to exactly one limit.
//!
//! The application is separated first, as Siekkinen and others found necessary ("A root cause
//! analysis toolkit for TCP", Computer Networks 52, 2008); what is left is divided by the state
//! that the sender was in, as T-RAT does (Zhang and others, "On the characteristics and origins of
//! Internet flow rates", SIGCOMM 2002). Where the two methods look at whole flights, this one looks
//! at the interval between two packets, so that shares add up exactly.

use serde::Serialize;

use crate::{Nanos, columns, inside, words};

/// What a connection waited for at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Limit {
    /// An application had nothing to send, or did not answer yet.
    Application,
    /// The connection was being opened.
    Handshake,
    /// The congestion window was still growing towards what the path can take.
    SlowStart,
    /// The congestion window or the send buffer was full.
    CongestionWindow,
    /// The receiver's window was full.
    ReceiveWindow,
    /// A loss was being noticed and repaired.
    LossRecovery,
    /// Data stood ready, but waited for an ACK (Nagle's algorithm, or a delayed ACK for the last
    /// full segment).
    AckWaiting,
    /// A queue stood at the path's bottleneck: a larger window would have made it longer, not the
    /// transfer faster.
    PathRate,
    /// This capture does not show it.
    Unknown,
}

words! {
    Limit:
        Application = "application",
        Handshake = "handshake",
        SlowStart = "slow_start",
        CongestionWindow = "congestion_window",
        ReceiveWindow = "receive_window",
        LossRecovery = "loss_recovery",
        AckWaiting = "ack_waiting",
        PathRate = "path_rate",
        Unknown = "unknown";
}

impl Limit {
    /// The words for people.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Application => "the application",
            Self::Handshake => "the handshake",
            Self::SlowStart => "slow start",
            Self::CongestionWindow => "the congestion window",
            Self::ReceiveWindow => "the receive window",
            Self::LossRecovery => "loss recovery",
            Self::AckWaiting => "waiting for ACKs",
            Self::PathRate => "the path's rate",
            Self::Unknown => "not known from here",
        }
    }
}

/// Time by limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Budget([u64; Limit::ALL.len()]);

impl Budget {
    /// Adds time to a limit.
    pub fn add(&mut self, limit: Limit, time: u64) {
        let share = &mut self.0[limit as usize];
        *share = share.saturating_add(time);
    }

    /// Sets a limit's time.
    pub fn set(&mut self, limit: Limit, time: Nanos) {
        self.0[limit as usize] = time.0;
    }

    /// Gives time of one limit to another; no more than there is; says how much.
    pub fn shift(&mut self, from: Limit, to: Limit, time: u64) -> u64 {
        let time = self.take(from, time);
        self.add(to, time);
        time
    }

    /// Takes time of a limit away; no more than there is; says how much.
    pub fn take(&mut self, from: Limit, time: u64) -> u64 {
        let time = time.min(self.0[from as usize]);
        self.0[from as usize] -= time;
        time
    }

    /// What limited it is not known: the time remains.
    pub fn forget(&mut self) {
        let all = self.total().0;
        *self = Self::default();
        self.add(Limit::Unknown, all);
    }

    /// A limit's time.
    pub fn of(&self, limit: Limit) -> Nanos {
        Nanos(self.0[limit as usize])
    }

    /// Everything.
    pub fn total(&self) -> Nanos {
        Nanos(self.0.iter().fold(0, |a, b| a.saturating_add(*b)))
    }

    /// Both together.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i].saturating_add(other.0[i])))
    }

    /// The limit with the largest share. It is unknown, too, where two thirds of the time that is
    /// not known would make another limit as large as that, and where another is as large as far as
    /// shares [are good](Budget::is_near).
    pub fn largest(&self) -> Limit {
        let [first, second] = self.leading();
        let lead = self.of(first).0.saturating_sub(self.of(second).0);
        let hidden = self.of(Limit::Unknown);
        let unknown = lead < hidden.0 / 3 * 2 || self.is_near(second) || hidden.0 > 0 && self.is_near(Limit::Unknown);
        if unknown { Limit::Unknown } else { first }
    }

    /// Whether a limit has as large a share as the largest known one, as far as shares are good: to
    /// a tenth of the time.
    pub fn is_near(&self, limit: Limit) -> bool {
        let [first, _] = self.leading();
        self.of(first).0.saturating_sub(self.of(limit).0) < self.total().0 / 10
    }

    /// The two known limits with the largest shares, the largest first.
    pub fn leading(&self) -> [Limit; 2] {
        let mut known = Limit::ALL.map(|l| (std::cmp::Reverse(self.of(l)), l));
        known[Limit::Unknown as usize].0 = std::cmp::Reverse(Nanos::ZERO);
        known.sort_unstable();
        [known[0].1, known[1].1]
    }
}

macro_rules! budget {
    ($($key:ident: $limit:ident, $doc:literal;)*) => {
        columns! {
            Budget: "limits", "", blank = Self::default();
            $($key = |b| b.of(Limit::$limit), set |b, v| crate::conversation::limit::put(b, Limit::$limit, v), $doc;)*
        }
    };
}

budget! {
    application_ns: Application, "the applications had nothing to send, or did not read";
    handshake_ns: Handshake, "until the connection was established";
    slow_start_ns: SlowStart, "the congestion window was growing from its start";
    congestion_window_ns: CongestionWindow, "the congestion window was full";
    receive_window_ns: ReceiveWindow, "the receive window was full";
    loss_recovery_ns: LossRecovery, "lost segments were being recovered";
    ack_waiting_ns: AckWaiting, "the sender waited for an ACK before a small segment";
    path_rate_ns: PathRate, "the path carried no more";
    unknown_ns: Unknown, "the capture does not show it";
}
inside!(Budget);

/// Sets a limit's time to a stored value.
pub(super) fn put(budget: &mut Budget, limit: Limit, value: crate::table::Value<'_>) -> Result<(), &'static str> {
    budget.set(limit, crate::table::Cell::from_value(value)?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Record;

    #[test]
    fn each_limit_has_its_column() {
        let keys: Vec<String> = Limit::ALL.iter().map(|l| format!("{}_ns", l.name())).collect();
        assert_eq!(Budget::COLUMNS.iter().map(|c| c.name).collect::<Vec<_>>(), keys);
        let mut budget = Budget::default();
        Limit::ALL.into_iter().zip(1..).for_each(|(limit, n)| budget.add(limit, n));
        let json = serde_json::to_value(crate::table::object::of(&budget)).unwrap();
        assert!(
            Limit::ALL.into_iter().zip(1u64..).all(|(limit, n)| json[format!("{}_ns", limit.name())] == n),
            "{json}"
        );
    }

    #[test]
    fn a_lead_that_most_of_the_unknown_time_would_close_is_none() {
        let largest = |first: u64, second: u64, unknown: u64| {
            let mut budget = Budget::default();
            budget.add(Limit::LossRecovery, first);
            budget.add(Limit::SlowStart, second);
            budget.add(Limit::Unknown, unknown);
            budget.largest()
        };
        assert_eq!(largest(35, 16, 27), Limit::LossRecovery);
        assert_eq!(largest(35, 18, 27), Limit::Unknown);
        assert_eq!(largest(26, 0, 27), Limit::Unknown, "more is not known");
        assert_eq!(largest(35, 27, 0), Limit::LossRecovery);
        assert_eq!(largest(35, 30, 0), Limit::Unknown, "shares are not as good as that");
        assert_eq!(largest(35, 2, 27), Limit::LossRecovery);
        assert_eq!(largest(35, 2, 30), Limit::Unknown, "nor as that");
    }
}
