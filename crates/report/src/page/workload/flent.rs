//! What a data file of flent says.

use quantity::count;
use record::Nanos;
use traffic::load::{Flent, Quantity};

use paper::document::{Cell, Column, Document, Section, Table, clauses};

/// Each series before the load, under it and after it.
pub fn document(flent: &Flent) -> Document {
    let text = |key: &str| flent.metadata.get(key).and_then(|v| v.as_str()).unwrap_or("—").to_owned();
    let mut verdict = Vec::new();
    let mut table = Table::new(
        "",
        ["series", "phase"]
            .map(Column::text)
            .into_iter()
            .chain(["median", "mean", "p99", "max", "n", "missing"].map(Column::figures)),
    );
    for s in flent.read_series() {
        for (phase, values) in [("before", s.before), ("loaded", Some(s.loaded)), ("after", s.after)] {
            let Some(v) = values.filter(|v| v.n + v.missing > 0) else { continue };
            let cells = [v.median, v.mean, v.p99, v.max].map(|value| match s.quantity {
                _ if v.n == 0 => Cell::absent("the series has no value in this phase"),
                Quantity::Time => Cell::time(Nanos(value.max(0.0) as u64)),
                Quantity::Rate => Cell::bit_rate(value),
                Quantity::Other => Cell::figure(format!("{value:.3}")),
            });
            let mut row = vec![Cell::from(&s.name), phase.into()];
            row.extend(cells);
            row.extend([v.n, v.missing].map(|n| Cell::count(n as u64)));
            table.push(row);
        }
        if let (Quantity::Time, Some(before)) = (s.quantity, s.before.filter(|v| v.n > 0 && s.loaded.n > 0)) {
            let added = (s.loaded.median - before.median).max(0.0) as u64;
            let a_minute = 60e9 / s.loaded.median.max(1.0);
            verdict.push(format!(
                "{}: the load added {} to the median: {} round trips a minute.",
                s.name,
                Nanos(added),
                count(a_minute as u64)
            ));
        }
    }
    let mut section = Section::new("Series");
    section.table(table);
    Document {
        title: format!("{}: {} to {}", text("NAME"), text("TITLE"), text("HOST")).into(),
        about: format!("A data file of flent, of {}.", text("TIME")),
        verdict: clauses(verdict),
        warnings: Vec::new(),
        sections: vec![section],
        ..Document::default()
    }
}
