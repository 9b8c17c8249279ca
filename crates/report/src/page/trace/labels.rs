//! Requests by method and path.

use stats::Quantile;
use summary::{LabelFigures, RoleFigures};

use crate::page::{NONE, TOO_FEW};
use paper::document::{Cell, Column, Row, Table};

/// Labels that are listed, and of those the ones that a terminal shows.
const LISTED: usize = 50;
const SHOWN: usize = 15;

/// One row each, those with the most requests first; none where no request has a label.
pub(super) fn table(of: &RoleFigures) -> Table {
    let all = of.labels.sorted();
    let mut table = Table::new(
        "By method and path",
        [
            Column::text("request"),
            Column::figures("n"),
            Column::figures("p50"),
            Column::figures("p99"),
            Column::figures("max").spare(0),
            Column::text("answers").spare(1),
        ],
    );
    table.extend(all.iter().take(LISTED).map(|(label, figures)| row(label.to_string(), figures)));
    let together = |listed: usize| {
        let rest =
            all.iter().skip(listed).map(|(_, figures)| *figures).chain(of.labels.others().map(|(others, _)| others));
        let mut rest = rest.cloned();
        let mut together = rest.next()?;
        rest.for_each(|figures| together.merge(&figures));
        Some(row("all others together".into(), &together))
    };
    table.extend(together(LISTED));
    table.rest = together(SHOWN);
    table.shown = Some(SHOWN);
    table
}

fn row(name: String, figures: &LabelFigures) -> Row {
    let [p50, p99] = [Quantile::P50, Quantile::P99].map(|q| Cell::ns_or(figures.total.quantile(q), TOO_FEW));
    let max = Cell::ns_or(figures.total.max(), NONE);
    Row::of([name.into(), Cell::count(figures.n), p50, p99, max, answers(figures).into()])
}

/// `2xx 38, 5xx 2`.
fn answers(figures: &LabelFigures) -> String {
    const CLASSES: [&str; 6] = ["1xx", "2xx", "3xx", "4xx", "5xx", "not seen"];
    let seen = CLASSES.iter().zip(figures.answers).filter(|(_, n)| *n > 0);
    seen.map(|(class, n)| format!("{class} {}", quantity::count(n))).collect::<Vec<_>>().join(", ")
}
