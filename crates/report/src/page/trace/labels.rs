//! Requests by method and path.

use stats::Quantile;
use summary::{LabelFigures, RoleFigures};

use super::figures::time;
use paper::document::Table;

/// Labels that are listed, and of those the ones that a terminal shows.
const LISTED: usize = 50;
const SHOWN: usize = 15;

/// One row each, those with the most requests first; none where no request has a label.
pub(super) fn table(of: &RoleFigures) -> Table {
    let all = of.labels.sorted();
    let mut table = Table::new("By method and path", &["request", "n", "p50", "p99", "max", "answers"]);
    table.rows.extend(all.iter().take(LISTED).map(|(label, figures)| row(label.to_string(), figures)));
    let together = |listed: usize| {
        let rest =
            all.iter().skip(listed).map(|(_, figures)| *figures).chain(of.labels.others().map(|(others, _)| others));
        let mut rest = rest.cloned();
        let mut together = rest.next()?;
        rest.for_each(|figures| together.merge(&figures));
        Some(row("all others together".into(), &together))
    };
    table.rows.extend(together(LISTED));
    table.rest = together(SHOWN);
    table.shown = Some(SHOWN);
    table.spare = vec!["max", "answers"];
    table
}

fn row(name: String, figures: &LabelFigures) -> Vec<String> {
    let mut row = vec![name, quantity::count(figures.n)];
    row.extend([Quantile::P50, Quantile::P99].map(|q| time(figures.total.quantile(q))));
    row.push(time(figures.total.max()));
    row.push(answers(figures));
    row
}

/// `2xx 38, 5xx 2`.
fn answers(figures: &LabelFigures) -> String {
    const CLASSES: [&str; 6] = ["1xx", "2xx", "3xx", "4xx", "5xx", "not seen"];
    let seen = CLASSES.iter().zip(figures.answers).filter(|(_, n)| *n > 0);
    seen.map(|(class, n)| format!("{class} {}", quantity::count(n))).collect::<Vec<_>>().join(", ")
}
