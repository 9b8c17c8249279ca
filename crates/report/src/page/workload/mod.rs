//! What the workloads show: each outcome as a document, and the lines of their progress.

pub mod between;
mod flent;
mod load;
mod responsiveness;
mod rr;
mod serve;
mod spread;
mod stream;
mod udp;

use quantity::count;
use record::Nanos;
use stats::{Distribution, DurationSummary, Precision, Quantile};

use traffic::kept::Run;

use super::{TOO_FEW, curve};
use paper::document::{Cell, Column, Document, Table};
use paper::plot::{Axis, Hue, Layer, Plot, Unit};

pub use flent::document as flent;
pub use load::document as ping_under_load;
pub use rr::{document as transactions, progress as transactions_progress, silence as transactions_silence};
pub use serve::{document as served, line as server_event};
pub use stream::{document as stream, interval as stream_interval};
pub use udp::document as udp;

/// Which way a flow of a stream carries data.
const fn way(client_sends: bool) -> &'static str {
    if client_sends { "up" } else { "down" }
}

/// What a workload showed, as it ended and from its run alike.
pub fn document(run: &Run) -> Document {
    match run {
        Run::Stream(config, outcome) => stream(config, outcome),
        Run::Transactions(config, outcome) => transactions(config, outcome),
        Run::Udp(config, outcome) => udp(config, outcome),
        Run::Load(config, outcome) => ping_under_load(config, outcome),
        Run::Responsiveness(config, outcome) => responsiveness::document(config, outcome),
    }
}

/// Rows for distributions of durations: a percentile that too few values carry is not shown.
fn distributions(title: &str, rows: &[(&str, &DurationSummary)]) -> Table {
    let columns = [
        Column::text(""),
        Column::figures("n"),
        Column::figures("min").spare(0),
        Column::figures("median"),
        Column::figures("p90").spare(2),
        Column::figures("p99"),
        Column::figures("p99.9").spare(1),
        Column::figures("max"),
    ];
    let mut table = Table::new(title, columns);
    for (name, s) in rows {
        let carried = |q: Quantile, at: Nanos| carried(s, q, at);
        table.push([
            Cell::from(*name),
            Cell::count(s.n),
            s.min.into(),
            carried(Quantile::P50, s.p50),
            carried(Quantile::P90, s.p90),
            carried(Quantile::P99, s.p99),
            carried(Quantile::P999, s.p999),
            s.max.into(),
        ]);
    }
    table
}

/// A percentile, where enough values carry it: the same number in every command.
fn carried(s: &DurationSummary, quantile: Quantile, at: Nanos) -> Cell {
    Cell::time_or((s.n >= quantile.needs()).then_some(at), TOO_FEW)
}

/// Why percentiles of these distributions are withheld, where any is that a table shows.
fn withheld<'a>(all: impl IntoIterator<Item = &'a DurationSummary>, shown: &[Quantile]) -> Option<String> {
    let fewest = all.into_iter().map(|s| s.n).filter(|n| *n > 0).min()?;
    let needs: Vec<String> =
        shown.iter().filter(|q| fewest < q.needs()).map(|q| format!("{q} needs {}", count(q.needs()))).collect();
    (!needs.is_empty())
        .then(|| format!("A dash stands for a percentile that too few values carry: {}.", needs.join(", ")))
}

/// The percentiles of [`distributions`].
const DISTRIBUTED: [Quantile; 4] = [Quantile::P50, Quantile::P90, Quantile::P99, Quantile::P999];

/// The cumulative curve of a distribution that was kept in buckets: upper bound and number of
/// values of each.
fn buckets_curve(id: &str, title: &str, what: &str, buckets: &[(Nanos, u64)]) -> Option<Plot> {
    let mut times = Distribution::new(Precision::Fine);
    buckets.iter().for_each(|(bound, n)| times.record_many(bound.0, *n));
    let caption = format!("Share of {what} that took at most so long; n = {}.", count(times.n()));
    let axes = (Axis::log("time", Unit::Time), Axis::linear("share", Unit::Share).reaching(0.0));
    Plot::new(id, title, caption, axes, vec![Layer::line(what, Hue(0), curve(&times))])
}

/// `3 flows`.
fn flows(n: usize) -> String {
    quantity::counted(n as u64, "flow")
}

/// A sentence for why a measurement ended early.
fn ended_early(interrupted: Option<&String>) -> Vec<String> {
    interrupted
        .iter()
        .map(|why| format!("It ended before its time: {why}. What was measured until then is below."))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_that_too_few_values_carry_is_not_shown() {
        let mut times = Distribution::new(Precision::Fine);
        (1..=50).for_each(|ms| times.record(ms * 1_000_000));
        let summary = DurationSummary::of(&times).unwrap_or_default();
        let table = distributions("", &[("latency", &summary)]);
        let cell = |name: &str| table.rows[0].cells[table.column(name).unwrap()].to_string();
        assert_eq!(["n", "median", "p90", "p99"].map(cell), ["50", "25.0 ms", "45.0 ms", "—"]);
        assert_eq!(["p99.9", "max"].map(cell), ["—", "50.0 ms"]);
    }
}
