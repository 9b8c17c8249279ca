//! The columns of the tables of connections and of findings: one line each, for every page and
//! terminal.

use record::conversation::{ConversationRow, FindingKind, FindingRow, Way};
use record::{Conclusion, Nanos};

use super::{Names, ends, sentence};
use crate::view::capital;
use paper::document::{Cell, Clause, Column, Row, Table, Text};

/// Makes the cell of a row.
type CellOf<T> = fn(&T, &Names) -> Cell;

/// A column of one type of row: its head, what it holds, whether a narrow terminal goes without it,
/// and the cell of a row.
pub(super) struct ColumnOf<T> {
    head: &'static str,
    figures: bool,
    spare: bool,
    cell: CellOf<T>,
}

impl<T> ColumnOf<T> {
    pub(super) const fn text(head: &'static str, cell: CellOf<T>) -> Self {
        Self { head, figures: false, spare: false, cell }
    }

    pub(super) const fn figures(head: &'static str, cell: CellOf<T>) -> Self {
        Self { head, figures: true, spare: false, cell }
    }

    pub(super) const fn spare(self) -> Self {
        Self { spare: true, ..self }
    }
}

/// A table of these columns without rows.
pub(super) fn table<T>(title: impl Into<String>, columns: &[ColumnOf<T>]) -> Table {
    // The rightmost goes first.
    let columns = (0..u8::MAX).rev().zip(columns).map(|(order, c)| Column {
        name: c.head.to_owned(),
        figures: c.figures,
        spare: c.spare.then_some(order),
    });
    Table::new(title, columns)
}

/// The cells of a row.
pub(super) fn cells<T>(columns: &[ColumnOf<T>], row: &T, names: &Names) -> Vec<Cell> {
    columns.iter().map(|c| (c.cell)(row, names)).collect()
}

/// Findings of the protocols beside TCP that a terminal shows.
const FINDINGS_SHOWN: usize = 5;

/// What clients waited for a finding on a protocol beside TCP.
pub(super) fn cost<K>(f: &Conclusion<K>, _: &Names) -> Cell {
    Cell::time_or(Some(f.cost_ns).filter(|cost| *cost > Nanos::ZERO), "nobody waited for it, as far as is known")
}

/// How many show it.
pub(super) fn count<K>(f: &Conclusion<K>, _: &Names) -> Cell {
    Cell::count(f.count)
}

/// What is said of such a finding before all else.
pub(super) fn clause<K>(f: &Conclusion<K>) -> Clause {
    Clause::finding(sentence(&f.text)).with_next(Some(Text::from(format!("{}.", f.next))))
}

/// The findings of a protocol beside TCP: under each row what was found, what to do next, and the
/// packets.
pub(super) fn findings<K>(columns: &[ColumnOf<Conclusion<K>>], all: &[Conclusion<K>], names: &Names) -> Table {
    let mut found = table(if all.len() > 1 { "The costliest findings first" } else { "" }, columns);
    for f in all {
        let packets = f.packets.replace(' ', ", ");
        let notes = [sentence(&f.text), format!("Next: {}.", f.next), format!("Packets: {packets}.")];
        found.push(Row::of(cells(columns, f, names)).noted(notes));
    }
    found.shown = Some(FINDINGS_SHOWN);
    found.elsewhere = "`--json` or a page shows them".into();
    found
}

/// Those of `all` things, so called with a small letter, that took longest, of which a terminal
/// shows so many; under a row why something of it is not known.
pub(super) fn longest<T>(
    columns: &[ColumnOf<T>],
    (slowest, all, things): (&[T], u64, &str),
    shown: usize,
    names: &Names,
    withheld: impl Fn(&T) -> Option<&String>,
) -> Table {
    let title = match all {
        0 | 1 => String::new(),
        n if n > slowest.len() as u64 => {
            format!("The {} of {} {things} that took longest", slowest.len(), quantity::count(n))
        }
        _ => format!("{}, the longest first", capital(things)),
    };
    let mut rows = table(title, columns);
    rows.extend(slowest.iter().map(|one| {
        let row = Row::of(cells(columns, one, names));
        match withheld(one) {
            Some(why) => row.noted([sentence(&format!("not known: {why}"))]),
            None => row,
        }
    }));
    rows.shown = Some(shown);
    rows.elsewhere = format!("`analyze --rows {all}` or a page shows them");
    rows
}

/// Of a connection; its verdict stands under the row.
pub(super) const CONNECTION: &[ColumnOf<ConversationRow>] = &[
    ColumnOf::<ConversationRow>::figures("no.", |c, _| Cell::figure(c.number.to_string())),
    ColumnOf::<ConversationRow>::text("client → server", |c, names| ends(names, c.client, c.server).into()),
    ColumnOf::<ConversationRow>::figures("sent", |c, _| Cell::bytes(c.to_server.bytes)),
    ColumnOf::<ConversationRow>::figures("back", |c, _| Cell::bytes(c.to_client.bytes)),
    ColumnOf::<ConversationRow>::figures("time", |c, _| c.duration_ns.into()),
    ColumnOf::<ConversationRow>::figures("rate", |c, _| {
        let bytes = c.to_server.bytes.max(c.to_client.bytes);
        Cell::bit_rate(bytes as f64 * 8e9 / c.duration_ns.0.max(1) as f64)
    })
    .spare(),
    ColumnOf::<ConversationRow>::figures("retransmitted", |c, _| {
        Cell::count(c.to_server.retransmitted_packets + c.to_client.retransmitted_packets)
    })
    .spare(),
    ColumnOf::<ConversationRow>::figures("median RTT", |c, _| {
        Cell::time_or(c.to_server.rtt_p50_ns.max(c.to_client.rtt_p50_ns), "no packet shows a round trip")
    })
    .spare(),
    ColumnOf::<ConversationRow>::text("ended", |c, _| c.ending.words().into()).spare(),
];

/// Of a finding; what was found, what a remedy is worth, and the packets stand under the row.
pub(super) const FINDING: &[ColumnOf<FindingRow>] = &[
    ColumnOf::<FindingRow>::figures("no.", |f, _| Cell::figure(f.number.to_string())),
    ColumnOf::<FindingRow>::text("finding", |f, _| FindingKind::words_of(&f.kind).into_owned().into()),
    ColumnOf::<FindingRow>::figures("cost", |f, _| {
        Cell::time_or(Some(f.cost_ns).filter(|cost| *cost > Nanos::ZERO), "it has no cost in time that is known")
    }),
    ColumnOf::<FindingRow>::figures("times", |f, _| Cell::count(f.count)),
    ColumnOf::<FindingRow>::text("data", |f, _| f.direction.map_or("", Way::words).into()).spare(),
];

/// What stands under a finding.
pub(super) fn finding_notes(f: &FindingRow) -> Vec<String> {
    let mut notes = vec![sentence(&f.text)];
    if !f.worth.is_empty() {
        notes.push(format!("Worth: {}.", f.worth));
    }
    if !f.packets.is_empty() {
        notes.push(format!("Packets: {}.", f.packets.replace(' ', ", ")));
    }
    notes
}
