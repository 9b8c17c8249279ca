//! The columns of the tables of connections and of findings: one line each, for every page and terminal.

use record::Nanos;
use store::capture::{Conversation, Finding};

use super::{Names, ends};
use paper::document::Table;

/// A column: its head, whether a narrow terminal goes without it, and the cell of a row.
pub(super) struct Column<T> {
    head: &'static str,
    spare: bool,
    cell: fn(&T, &Names) -> String,
}

impl<T> Column<T> {
    const fn new(head: &'static str, cell: fn(&T, &Names) -> String) -> Self {
        Self { head, spare: false, cell }
    }

    const fn spare(head: &'static str, cell: fn(&T, &Names) -> String) -> Self {
        Self { head, spare: true, cell }
    }
}

/// A table of these columns without rows.
pub(super) fn table<T>(title: impl Into<String>, columns: &[Column<T>]) -> Table {
    // The rightmost goes first.
    let order = |i: usize| u8::try_from(columns.len() - i).unwrap_or(u8::MAX);
    let columns = columns.iter().enumerate().map(|(i, c)| paper::document::Column {
        spare: c.spare.then(|| order(i)),
        ..paper::document::Column::text(c.head)
    });
    Table::new(title, columns)
}

/// The cells of a row.
pub(super) fn cells<T>(columns: &[Column<T>], row: &T, names: &Names) -> Vec<String> {
    columns.iter().map(|c| (c.cell)(row, names)).collect()
}

/// Of a connection; its verdict stands under the row.
pub(super) const CONNECTION: &[Column<Conversation>] = &[
    Column::new("no.", |c, _| c.number.to_string()),
    Column::new("client → server", |c, names| ends(names, c.client, c.server)),
    Column::new("sent", |c, _| quantity::bytes(c.to_server.bytes)),
    Column::new("back", |c, _| quantity::bytes(c.to_client.bytes)),
    Column::new("time", |c, _| c.duration_ns.to_string()),
    Column::spare("rate", |c, _| {
        let bytes = c.to_server.bytes.max(c.to_client.bytes);
        quantity::bit_rate(bytes as f64 * 8e9 / c.duration_ns.0.max(1) as f64)
    }),
    Column::spare("retransmitted", |c, _| {
        quantity::count(c.to_server.retransmitted_packets + c.to_client.retransmitted_packets)
    }),
    Column::spare("median RTT", |c, _| {
        let rtt = c.to_server.rtt_p50_ns.max(c.to_client.rtt_p50_ns);
        rtt.map_or_else(|| "—".into(), |rtt| rtt.to_string())
    }),
    Column::spare("ended", |c, _| c.ending.replace('_', " ")),
];

/// Of a finding; what was found, what a remedy is worth, and the packets stand under the row.
pub(super) const FINDING: &[Column<Finding>] = &[
    Column::new("no.", |f, _| f.number.to_string()),
    Column::new("finding", |f, _| words(&f.kind)),
    Column::new("cost", |f, _| if f.cost_ns == Nanos::ZERO { "—".into() } else { f.cost_ns.to_string() }),
    Column::new("times", |f, _| quantity::count(f.count)),
    Column::spare("data", |f, _| match f.direction.as_deref() {
        Some("to_server") => "to the server".into(),
        Some("to_client") => "to the client".into(),
        Some(other) => other.replace('_', " "),
        None => String::new(),
    }),
];

/// What stands under a finding.
pub(super) fn finding_notes(f: &Finding) -> Vec<String> {
    let mut notes = vec![super::sentence(&f.text)];
    if !f.worth.is_empty() {
        notes.push(format!("Worth: {}.", f.worth.trim_end_matches('.')));
    }
    if !f.packets.is_empty() {
        notes.push(format!("Packets: {}.", f.packets.replace(' ', ", ")));
    }
    notes
}

/// A kind of finding in words; its name, where another version wrote it.
pub(super) fn words(kind: &str) -> String {
    diagnose::kinds().find(|k| k.name == kind).map_or_else(|| kind.replace('_', " "), |k| k.words.to_owned())
}
