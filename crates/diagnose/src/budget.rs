//! The time budget: every nanosecond of a connection belongs to exactly one limit.
//!
//! The application is separated first, as Siekkinen and others found necessary ("A root cause analysis toolkit for TCP",
//! Computer Networks 52, 2008); what is left is divided by the state that the sender was in, as T-RAT does (Zhang and
//! others, "On the characteristics and origins of Internet flow rates", SIGCOMM 2002). Where the two methods look at
//! whole flights, this one looks at the interval between two packets, so that shares add up exactly.

use record::Nanos;
use serde::Serialize;

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
    /// Data stood ready, but waited for an ACK (Nagle's algorithm, or a delayed ACK for the last full segment).
    AckWaiting,
    /// A queue stood at the path's bottleneck: a larger window would have made it longer, not the transfer faster.
    PathRate,
    /// This capture does not show it.
    Unknown,
}

impl Limit {
    /// All, in the order of the output.
    pub const ALL: [Self; 9] = [
        Self::Application,
        Self::Handshake,
        Self::SlowStart,
        Self::CongestionWindow,
        Self::ReceiveWindow,
        Self::LossRecovery,
        Self::AckWaiting,
        Self::PathRate,
        Self::Unknown,
    ];

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
pub struct Budget([u64; 9]);

impl Budget {
    /// Adds time to a limit.
    pub fn add(&mut self, limit: Limit, time: u64) {
        let share = &mut self.0[limit as usize];
        *share = share.saturating_add(time);
    }

    /// Gives time of one limit to another; no more than there is; says how much.
    pub(crate) fn shift(&mut self, from: Limit, to: Limit, time: u64) -> u64 {
        let time = time.min(self.0[from as usize]);
        self.0[from as usize] -= time;
        self.add(to, time);
        time
    }

    /// What limited it is not known: the time remains.
    pub(crate) fn forget(&mut self) {
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

    /// The limit with the largest share.
    pub fn largest(&self) -> Limit {
        Limit::ALL.into_iter().max_by_key(|l| (self.of(*l), std::cmp::Reverse(*l))).unwrap_or(Limit::Application)
    }
}

/// As keys `application_ns`, `handshake_ns`, ….
impl Serialize for Budget {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeMap as _;
        const KEYS: [&str; 9] = [
            "application_ns",
            "handshake_ns",
            "slow_start_ns",
            "congestion_window_ns",
            "receive_window_ns",
            "loss_recovery_ns",
            "ack_waiting_ns",
            "path_rate_ns",
            "unknown_ns",
        ];
        let mut map = serializer.serialize_map(Some(9))?;
        for (key, share) in KEYS.iter().zip(self.0) {
            map.serialize_entry(key, &share)?;
        }
        map.end()
    }
}
