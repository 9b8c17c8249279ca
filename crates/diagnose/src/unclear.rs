//! Why it is not known what limited a transfer, where several causes look the same in a capture.

use record::Nanos;

/// What the data in flight looked like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unclear {
    /// Rounds were filled evenly at one rate, and no queue has stood at this rate.
    Pace,
    /// Data left though no ACK had just let them go, or in pieces of which each was sent to its
    /// end.
    ByItself,
    /// Round trips are longer than at rest, by no more than ACKs that come in bunches make them.
    Bunches,
    /// Round trips were those of a queue, and the path carried much more at another time.
    Exceeded,
    /// Round trips became those of a queue, and applications sent as much as before.
    Longer,
    /// The receive window was full, and nothing was seen to get through faster than it lets it.
    Fits,
}

impl Unclear {
    pub(crate) const ALL: [Self; 6] =
        [Self::Pace, Self::ByItself, Self::Bunches, Self::Exceeded, Self::Longer, Self::Fits];

    /// For people: what was seen, and what looks the same.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Pace => {
                "data left evenly at one rate, and no queue showed that this is the path's: pacing by the sender (SO_MAX_PACING_RATE, fq), an application that writes at a rate, a full link or a shaper before the capture and a policer look the same"
            }
            Self::ByItself => {
                "data left that need not have waited for ACKs: an application that writes at a rate, pacing, a full link before the capture, and one that collects packets before it sends them look the same"
            }
            Self::Bunches => {
                "ACKs came in bunches, which makes round trips longer as a queue does: the path's rate and the congestion window or the send buffer look the same"
            }
            Self::Exceeded => {
                "round trips were as long as a queue makes them, and yet the path carried much more at another time: a path whose rate changes, traffic of others on it, and a window on a path that has become longer look the same"
            }
            Self::Longer => {
                "round trips became as long as a queue makes them, and yet just as much was sent as the applications had given without one: a path that has become longer, and traffic of others on it, look the same"
            }
            Self::Fits => {
                "the receive window was full, and nothing was seen to get through much faster than it lets it: a window that is too small, and a path that carries no more, look the same"
            }
        }
    }

    /// What would show it.
    pub const fn step(self) -> &'static str {
        match self {
            Self::Pace | Self::ByItself => {
                "trace the sending host (wirelapse trace): it shows whether the application, pacing or the qdisc held the data"
            }
            Self::Bunches | Self::Exceeded | Self::Longer => {
                "capture next to the receiver: data that arrive without a pause show a path that is in use"
            }
            Self::Fits => {
                "raise the receive buffer (tcp_rmem) and capture again: if that is no faster, the path was the limit"
            }
        }
    }
}

/// How long it was unclear, by why, ns.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Times(pub(crate) [u64; 6]);

impl Times {
    pub(crate) const NONE: Self = Self([0; 6]);

    pub(crate) fn add(&mut self, why: Unclear, time: u64) {
        let of = &mut self.0[why as usize];
        *of = of.saturating_add(time);
    }

    pub(crate) fn plus(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i].saturating_add(other.0[i])))
    }

    pub(crate) fn total(&self) -> Nanos {
        Nanos(self.0.iter().fold(0, |all, time| all.saturating_add(*time)))
    }

    /// What most of it was, where that was the reason for more than half of `time`.
    pub(crate) fn most(&self, time: Nanos) -> Option<Unclear> {
        let all = self.total();
        Unclear::ALL.into_iter().filter(|_| all.0 > time.0 / 2).max_by_key(|why| self.0[*why as usize])
    }
}
