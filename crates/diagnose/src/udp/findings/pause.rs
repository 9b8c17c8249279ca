//! A stream of which nothing came for a while, although nothing was lost.

use record::Nanos;

use super::{Shown, named};
use crate::udp::analysis::Case;

/// A pause that people notice, ns.
const LONG: u64 = 100_000_000;
/// So many times the usual gap.
const TIMES: u64 = 10;

pub(super) fn draw(case: &Case<'_>) -> Option<Shown> {
    let paused = case.streams.iter().filter_map(|(stream, numbers)| {
        let (pause, stamped) = numbers.pause()?;
        let usual = stream.gap_median_ns?;
        let is_long = pause.took >= LONG && pause.took >= usual.0.saturating_mul(TIMES);
        is_long.then_some((stream, pause, stamped, usual))
    });
    let (stream, pause, stamped, usual) = paused.max_by_key(|(_, pause, ..)| pause.took)?;
    let whose =
        if stamped { "; by its stamps, the sender did not pause" } else { "; whether the sender paused is not known" };
    Some(Shown {
        waited: pause.from.at..pause.to.at,
        text: format!(
            "{}: nothing came for {}, where {usual} is usual, and nothing was lost{whose}",
            named(case, stream),
            Nanos(pause.took)
        ),
        next: "the path stood still (a radio link that sleeps or roams, a full queue, a host that was paused), or the program \
               wrote late: a capture at the sender shows which"
            .into(),
    })
}
