//! Datagrams that come unevenly, while nothing is lost.

use record::Nanos;

use super::{Shown, is_lossy, named};
use crate::udp::analysis::Case;

/// What players of sound buffer at least, and notice beyond.
const JITTER: Nanos = Nanos(20_000_000);

pub(super) fn draw(case: &Case<'_>) -> Option<Shown> {
    let is_jittery = |most: Option<Nanos>| most.is_some_and(|most| most >= JITTER);
    let found = case.streams.iter().find(|(stream, _)| is_jittery(stream.jitter_max_ns) && !is_lossy(stream));
    let (stream, numbers) = found?;
    let at = numbers.jittery?.at;
    Some(Shown {
        waited: at..at,
        text: format!(
            "{}: jitter of up to {}, and {} at the end, while {}",
            named(case, stream),
            stream.jitter_max_ns?,
            stream.jitter_ns?,
            match stream.lost {
                0 => "nothing was lost".to_owned(),
                n => format!("{} was lost", quantity::counted(n, "datagram")),
            }
        ),
        next: "a queue on the path fills and empties, or a radio link repeats: look for other traffic at that time, and for \
               a longer buffer of the player meanwhile"
            .into(),
    })
}
