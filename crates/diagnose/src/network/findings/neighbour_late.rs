//! An address that was resolved late: the first packet to it waited.

use std::collections::BTreeMap;

use record::Nanos;

use super::{Shown, View, by};

/// A wait that people notice.
const LATE: Nanos = Nanos(50_000_000);

pub(super) fn draw(view: &View<'_>) -> BTreeMap<String, Vec<Shown>> {
    by(&view.neighbours, |case| {
        let (row, of) = (&case.row, case.of);
        let took = row.took_ns.filter(|took| *took >= LATE)?;
        let tries = match row.tries {
            1 => String::new(),
            n => format!(", after {}", quantity::counted(n, "question")),
        };
        let shown = Shown {
            number: row.number,
            client: row.client,
            waited: of.first.at..of.first.at.saturating_add(took.0),
            packets: of.packets.clone(),
            text: format!(
                "{} knew the hardware address of {} only {took} after it had asked{tries} ({}): the first packets to it waited",
                row.client,
                row.address,
                row.protocol.words()
            ),
            next: format!(
                "look at {}: a host that sleeps or is busy answers late; on a lossy radio link, questions to all hosts are \
                 not repeated",
                row.address
            ),
        };
        Some((row.address.to_string(), shown))
    })
}
