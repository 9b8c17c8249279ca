//! Numbers that are missing where datagrams left close together: a queue had no room for the burst.

use record::conversation::Way;

use super::{Shown, is_of_bursts, lost, named, worst};
use crate::udp::analysis::Case;

pub(super) fn draw(case: &Case<'_>) -> Option<Shown> {
    let (stream, numbers) = worst(case, is_of_bursts)?;
    let first = numbers.after_loss()[0]?;
    let by = match stream.way {
        Way::ToServer => &case.row.by_client,
        Way::ToClient => &case.row.by_server,
    };
    let average = stream.bytes as f64 * 8e9 / stream.duration_ns.0.max(1) as f64;
    let rate = by.burst_bits_per_second.map(|rate| {
        format!(" at {}, where the average is {}", quantity::bit_rate(rate as f64), quantity::bit_rate(average))
    });
    Some(Shown {
        waited: first.at..first.at,
        text: format!(
            "{}: {} did not come to the capture, {} of them in bursts (up to {} that came{})",
            named(case, stream),
            lost(stream),
            quantity::count(stream.lost_in_bursts),
            quantity::counted(by.burst_datagrams, "datagram"),
            rate.unwrap_or_default()
        ),
        next:
            "a queue on the path has no room for the bursts: send evenly (pacing, SO_MAX_PACING_RATE with fq), or make \
               the queue longer"
                .into(),
    })
}
