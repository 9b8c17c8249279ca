//! Times of any kind of record while a trace goes on, as a table.

use record::Nanos;
use stats::{Distribution, Quantile};

use crate::canvas::{Canvas, Ink};
use crate::colour::ink_of;
use crate::described::Described;
use crate::table::{Align, Table};
use summary::TimedFigures;
use summary::{LegPlace, TimedKind, TimedLeg};

const DASH: &str = "—";

/// One row of a table of times.
pub(super) struct Line<'a> {
    pub name: &'static str,
    pub ink: Ink,
    pub times: &'a Distribution,
    /// Of what its share is taken, nanoseconds; `None` for the whole itself.
    pub whole: Option<u128>,
}

/// The legs of records as rows; those of requests that none can have, as where the peer was not traced, are left out.
pub(super) fn lines<T: Described>(records: &TimedFigures<T>) -> Vec<Line<'_>> {
    let whole = records.time();
    let line = |(leg, times): (&'static TimedLeg, _)| Line {
        name: leg.name,
        ink: ink_of(leg),
        times,
        whole: (leg.place == LegPlace::Adds).then_some(whole),
    };
    let optional = matches!(records.kind(), TimedKind::AtClient | TimedKind::AtServer);
    records.times().into_iter().map(line).filter(|l| !optional || l.times.n() > 0).collect()
}

/// A table with a row for each line.
pub(super) fn table(canvas: &Canvas, out: &mut String, first: &str, lines: &[Line<'_>]) {
    let quantiles = Quantile::SHOWN.map(|q| q.to_string());
    let mut head = vec![(first, Align::Left), ("n", Align::Right), ("min", Align::Right)];
    head.extend(quantiles.iter().map(|q| (q.as_str(), Align::Right)));
    head.extend([("max", Align::Right), ("share", Align::Right)]);
    let mut table = Table::new(&head);
    for line in lines {
        let times = line.times;
        let time = |ns: Option<u64>| (ns.map_or_else(|| DASH.into(), |ns| Nanos(ns).to_string()), None);
        let mut row = vec![(line.name.to_owned(), Some(line.ink))];
        row.push((if times.n() == 0 { DASH.into() } else { quantity::count(times.n()) }, None));
        row.push(time(times.min()));
        row.extend(Quantile::SHOWN.map(|q| time(times.quantile(q))));
        row.push(time(times.max()));
        let share = match line.whole {
            None => String::new(),
            Some(_) if times.n() == 0 => DASH.into(),
            Some(whole) => quantity::percent(quantity::share(times.sum(), whole)),
        };
        row.push((share, None));
        table.row(row);
    }
    table.draw(canvas, out);
}

/// Why percentiles are not shown, where some are not.
pub(crate) fn held(n: u64, things: &str) -> Option<String> {
    let held: Vec<String> = Quantile::SHOWN
        .into_iter()
        .filter(|q| n > 0 && n < q.needs())
        .map(|q| format!("{q} needs {} {things}", quantity::count(q.needs())))
        .collect();
    (!held.is_empty())
        .then(|| format!("{DASH} percentiles: {}, and there are {}.", held.join(", "), quantity::count(n)))
}
