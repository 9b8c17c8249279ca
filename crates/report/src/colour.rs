//! The colours of legs: a leg has the same one wherever it is shown.

use summary::{LegPlace, TimedLeg};

use paper::Ink;
use paper::plot::Hue;

/// The hue of a leg in plots.
pub(crate) fn hue_of(leg: &TimedLeg) -> Hue {
    match leg.place {
        LegPlace::Total => Hue::NEUTRAL,
        _ => named(leg.name),
    }
}

/// The ink of a leg in text.
pub(crate) fn ink_of(leg: &TimedLeg) -> Ink {
    match leg.place {
        LegPlace::Total => Ink::Strong,
        _ => Ink::Hue(named(leg.name)),
    }
}

fn named(leg: &str) -> Hue {
    Hue(match leg {
        "tcp" | "udp" | "softirq" => 0,
        "network" => 1,
        "nic" | "peer_receive" => 2,
        "qdisc" | "socket" | "kernel" => 3,
        "peer_send" => 4,
        "peer_application" | "gap" | "call" => 5,
        "transfer" => 7,
        "application" => 8,
        "wakeup" => 9,
        "connect" => 10,
        _ => Hue::NEUTRAL.0,
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
