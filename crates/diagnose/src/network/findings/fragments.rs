//! Packets of which fragments never came: the receiver discards those that did.

use std::collections::BTreeMap;

use super::{Shown, View, by};

pub(super) fn draw(view: &View<'_>) -> BTreeMap<String, Vec<Shown>> {
    by(&view.incomplete, |row| {
        let whose = match (row.connection, row.conversation) {
            (Some(n), _) => format!(" (connection {n})"),
            (None, Some(n)) => format!(" (UDP conversation {n})"),
            (None, None) => String::new(),
        };
        let missing = match row.missing {
            Some(missing) => format!("{} bytes", quantity::count(missing)),
            None => "its end".to_owned(),
        };
        let shown = Shown {
            number: row.number,
            client: row.source,
            waited: row.start_ns.0..row.start_ns.0,
            packets: vec![row.first_packet],
            text: format!(
                "a packet from {} to {}{whose} is not whole: {} of it came to the capture, and {missing} did not",
                row.source,
                row.destination,
                quantity::counted(row.fragments, "fragment")
            ),
            next: "a lost fragment loses the whole packet, and firewalls drop fragments without ports: send datagrams that \
                   fit the path (1,232 bytes pass nearly everywhere)"
                .into(),
        };
        Some((format!("{} {}", row.source, row.destination), shown))
    })
}
