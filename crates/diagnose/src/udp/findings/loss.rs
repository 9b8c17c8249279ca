//! Numbers that are missing in a stream, wherever.

use super::{Shown, is_lossy, is_of_bursts, lost, named, worst};
use crate::udp::analysis::Case;

pub(super) fn draw(case: &Case<'_>) -> Option<Shown> {
    let (stream, numbers) = worst(case, |stream| is_lossy(stream) && !is_of_bursts(stream))?;
    let first = numbers.after_loss()[0]?;
    let row = match stream.longest_loss {
        0 | 1 => "one at a time".to_owned(),
        n => format!("in {}, {} in a row at most", quantity::counted(stream.gaps, "gap"), quantity::count(n)),
    };
    Some(Shown {
        // What was lost is not waited for.
        waited: first.at..first.at,
        text: format!("{}: {} did not come to the capture, {row}", named(case, stream), lost(stream)),
        next:
            "they were lost between the sender and the capture, or the capture left them out: a capture at the sender \
               shows which; look for errors and drops of the links between"
                .into(),
    })
}
