//! An address that nobody on the link has.

use std::collections::BTreeMap;

use super::{Shown, View, by};

pub(super) fn draw(view: &View<'_>) -> BTreeMap<String, Vec<Shown>> {
    by(&view.neighbours, |case| {
        let (row, of) = (&case.row, case.of);
        if row.answered != Some(false) || row.tries < 2 {
            return None;
        }
        let shown = Shown {
            number: row.number,
            client: row.client,
            waited: of.first.at..of.last.at,
            packets: of.packets.clone(),
            text: format!(
                "nobody on the link has {}: {} asked {} by {}, and what it had to send there never left",
                row.address,
                row.client,
                quantity::counted(row.tries, "time"),
                row.protocol.words()
            ),
            next: format!(
                "see whether {} is up and on this link (VLAN, cable), and whether {} has the right network mask and gateway",
                row.address, row.client
            ),
        };
        Some((row.address.to_string(), shown))
    })
}
