//! The colours of legs: a leg has the same one wherever it is shown.

use record::LegName;
use summary::{LegPlace, TimedLeg};

use paper::Ink;
use paper::plot::Hue;

/// The hue of a leg in plots.
pub(crate) fn hue_of(leg: &TimedLeg) -> Hue {
    named(leg.name)
}

/// The ink of a leg in text.
pub(crate) fn ink_of(leg: &TimedLeg) -> Ink {
    match leg.place {
        LegPlace::Total => Ink::Strong,
        _ => Ink::Hue(named(leg.name)),
    }
}

/// The hue of a leg by its name.
pub(crate) fn named(leg: LegName) -> Hue {
    Hue(match leg {
        LegName::Tcp | LegName::Udp | LegName::Softirq => 0,
        LegName::Network => 1,
        LegName::Nic | LegName::PeerReceive => 2,
        LegName::Qdisc | LegName::Socket | LegName::Kernel => 3,
        LegName::PeerSend => 4,
        LegName::PeerApplication | LegName::Gap | LegName::Call => 5,
        LegName::Transfer => 7,
        LegName::Application => 8,
        LegName::Wakeup => 9,
        LegName::Connect => 10,
        LegName::Upstream => 11,
        LegName::Total | LegName::Whole => return Hue::NEUTRAL,
    })
}

#[cfg(test)]
mod tests {
    use summary::TimedKind;

    use super::*;

    #[test]
    fn legs_of_one_kind_have_distinct_colours() {
        for kind in TimedKind::ALL {
            let mut hues: Vec<_> = kind.legs().iter().map(hue_of).collect();
            hues.sort_unstable();
            hues.dedup();
            assert_eq!(hues.len(), kind.legs().len(), "{kind:?}");
        }
    }
}
