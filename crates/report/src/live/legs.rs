//! The table of legs of any kind of record.

use stats::{Distribution, Quantile};
use summary::{LegPlace, TimedKind, TimedLeg, TraceSummary};

use crate::colour::hue_of;
use crate::page::{NONE, TOO_FEW};
use paper::document::{Cell, Column, Row, Table};

/// A row for each leg; those of requests that none can have, as where the peer was not traced, and
/// those that were not asked for are skipped. `first` names the column of their names.
pub(super) fn table(summary: &TraceSummary, kind: TimedKind, first: &str) -> Table {
    let mut columns = vec![Column::text(first), Column::figures("n"), Column::figures("min").spare(0)];
    columns.extend(Quantile::SHOWN.map(|quantile| {
        let column = Column::figures(quantile.to_string());
        match quantile {
            Quantile::P999 => column.spare(1),
            Quantile::P90 => column.spare(2),
            _ => column,
        }
    }));
    columns.extend(["max", "share"].map(Column::figures));
    let mut table = Table::new("", columns);
    let optional = matches!(kind, TimedKind::AtClient | TimedKind::AtServer);
    let legs = summary.times(kind);
    let whole = legs.iter().filter(|(leg, _)| leg.place == LegPlace::Adds).map(|(_, times)| times.sum()).sum();
    let there = |leg: &TimedLeg, times: &Distribution| times.n() > 0 || !(optional || leg.place == LegPlace::Beside);
    for (leg, times) in legs.into_iter().filter(|(leg, times)| there(leg, times)) {
        let time = |ns: Option<u64>| Cell::ns_or(ns, NONE);
        let n = Some(times.n()).filter(|n| *n > 0);
        let mut row = vec![Cell::from(leg.name.name()), Cell::or(n, Cell::count, NONE), time(times.min())];
        row.extend(Quantile::SHOWN.map(|q| Cell::ns_or(times.quantile(q), TOO_FEW)));
        row.extend([time(times.max()), share(leg, times, whole)]);
        table.push(Row::of(row).in_hue(Some(hue_of(leg))));
    }
    table
}

fn share(leg: &TimedLeg, times: &Distribution, whole: u128) -> Cell {
    match leg.place {
        LegPlace::Adds if times.n() == 0 => Cell::absent(NONE),
        LegPlace::Adds => Cell::share(quantity::share(times.sum(), whole)),
        _ => Cell::default(),
    }
}
