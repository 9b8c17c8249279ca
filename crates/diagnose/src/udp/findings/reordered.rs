//! Datagrams that came after a later one.

use super::{Shown, named};
use crate::udp::analysis::Case;

/// Fewer say nothing.
const LEAST: u64 = 3;

pub(super) fn draw(case: &Case<'_>) -> Option<Shown> {
    let is_one = |reordered: u64, received: u64| reordered >= LEAST && reordered * 100 >= received;
    let (stream, _) = case.streams.iter().find(|(stream, _)| is_one(stream.reordered, stream.received))?;
    let began = stream.start_ns.0;
    Some(Shown {
        waited: began..began,
        text: format!(
            "{}: {} of {} came after a later one ({})",
            named(case, stream),
            quantity::count(stream.reordered),
            quantity::counted(stream.received, "datagram"),
            quantity::percent(quantity::share(stream.reordered.into(), stream.received.into()))
        ),
        next: "packets of one stream take several ways: look for links whose balancing is by packet, and for a queue that \
               several CPUs serve"
            .into(),
    })
}
