//! A server that takes long to answer, always or once.

use super::Shown;
use crate::udp::analysis::Case;

/// A median that people notice, ns.
const LONG: u64 = 100_000_000;
/// A single answer that people notice, ns.
const SINGLE: u64 = 500_000_000;

pub(super) fn draw(case: &Case<'_>) -> Option<Shown> {
    let row = &case.row;
    let slowest = case.of.filter(|_| row.answered > 0 && case.streams.is_empty())?.turns.slowest?;
    let (median, max) = (row.answer_median_ns?, row.answer_max_ns?);
    let is_slow = median.0 >= LONG;
    if !is_slow && max.0 < SINGLE.max(median.0.saturating_mul(10)) {
        return None;
    }
    let server = row.server;
    // Where no answer comes much sooner than half of them do, the way there may be as long.
    let min = row.answer_min_ns.unwrap_or(median);
    let text = match row.answered {
        1 => format!("{server} took {max} to answer"),
        n if is_slow => {
            let times = format!("median of {}: {median}, from {min} to {max}", quantity::counted(n, "answer"));
            match min.0 >= median.0 / 4 * 3 {
                true => format!("answers of {server} take long ({times}): it is far away, or takes as long for each"),
                false => format!("{server} is slow to answer ({times})"),
            }
        }
        n => format!("{server} took {max} to answer once (median of {}: {median})", quantity::counted(n, "answer")),
    };
    Some(Shown {
        waited: slowest.asked.at..slowest.answered.at,
        text,
        next: format!("ping {} to see how much of it is the path: the rest is the program there", server.ip()),
    })
}
