//! The table of legs of any kind of record.

use record::Nanos;
use stats::{Distribution, Quantile};
use summary::{LegPlace, TimedKind, TimedLeg, TraceSummary};

use super::table::{Align, Table};
use crate::colour::ink_of;

const DASH: &str = "—";

/// A row for each leg; those of requests that none can have, as where the peer was not traced, and
/// those that were not asked for are skipped. `first` names the column of their names.
pub(super) fn table(summary: &TraceSummary, kind: TimedKind, first: &str) -> Table {
    let quantiles = Quantile::SHOWN.map(|q| q.to_string());
    let mut head = vec![(first, Align::Left), ("n", Align::Right), ("min", Align::Right)];
    head.extend(quantiles.iter().map(|q| (q.as_str(), Align::Right)));
    head.extend([("max", Align::Right), ("share", Align::Right)]);
    let mut table = Table::new(&head).spare(&["min", "p99.9", "p90"]);
    let optional = matches!(kind, TimedKind::AtClient | TimedKind::AtServer);
    let legs = summary.times(kind);
    let whole = legs.iter().filter(|(leg, _)| leg.place == LegPlace::Adds).map(|(_, times)| times.sum()).sum();
    let there = |leg: &TimedLeg, times: &Distribution| times.n() > 0 || !(optional || leg.place == LegPlace::Beside);
    for (leg, times) in legs.into_iter().filter(|(leg, times)| there(leg, times)) {
        let time = |ns: Option<u64>| (ns.map_or_else(|| DASH.into(), |ns| Nanos(ns).to_string()), None);
        let mut row = vec![(leg.name.to_owned(), Some(ink_of(leg)))];
        row.push((if times.n() == 0 { DASH.into() } else { quantity::count(times.n()) }, None));
        row.push(time(times.min()));
        row.extend(Quantile::SHOWN.map(|q| time(times.quantile(q))));
        row.push(time(times.max()));
        row.push((share(leg, times, whole), None));
        table.row(row);
    }
    table
}

fn share(leg: &TimedLeg, times: &Distribution, whole: u128) -> String {
    match leg.place {
        LegPlace::Adds if times.n() == 0 => DASH.into(),
        LegPlace::Adds => quantity::percent(quantity::share(times.sum(), whole)),
        _ => String::new(),
    }
}
