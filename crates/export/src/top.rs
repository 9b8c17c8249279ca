//! The lines of `wirelapse top --json`.

use record::histogram::GroupBy;
use record::{Leg, Nanos, WaitReason};

use crate::json::Object;

/// The figures of one row of `wirelapse top`.
#[derive(Clone, Debug)]
pub struct Row<'a> {
    /// What rows are.
    pub by: GroupBy,
    /// Which one this is.
    pub label: &'a str,
    /// Time that the figures are of.
    pub length: Nanos,
    /// The figures of that time.
    pub figures: &'a record::histogram::Series,
    /// Median and 99th percentile of the total.
    pub quantiles: [Option<Nanos>; 2],
    /// What sends waited for longest.
    pub reason: Option<WaitReason>,
}

/// Adds the line of a row: `{"kind":"row", …}`.
pub fn row(out: &mut Vec<u8>, row: &Row<'_>) {
    let figures = row.figures;
    let mut object = Object::begin(out);
    object.word("kind", "row");
    object.word("by", row.by.name());
    object.text("label", row.label);
    object.number("length_ns", row.length.0);
    object.number("sends", figures.sends);
    object.number("bytes", figures.bytes);
    object.number("unacknowledged", figures.unacked);
    object.number("vague", figures.vague);
    object.number("retransmitted_segments", figures.retransmitted_segments);
    object.number("dropped_segments", figures.dropped_segments);
    object.number_or_null("p50_ns", row.quantiles[0].map(|time| time.0));
    object.number_or_null("p99_ns", row.quantiles[1].map(|time| time.0));
    for leg in [Leg::Tcp, Leg::Qdisc, Leg::Network, Leg::Total] {
        let histogram = figures.legs.get(&leg);
        object.number(&format!("{leg}_n"), histogram.map_or(0, record::histogram::Histogram::count));
        object.number(&format!("{leg}_sum_ns"), histogram.map_or(0, |histogram| histogram.sum.0));
    }
    match row.reason {
        Some(reason) => object.word("waited_for", reason.name()),
        None => object.number_or_null("waited_for", None::<u64>),
    }
    object.object("waited_ns", |waited| {
        for (reason, time) in WaitReason::ALL.into_iter().zip(figures.waited) {
            waited.number(reason.name(), time.0);
        }
    });
    object.end();
    out.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::histogram::Series;

    #[test]
    fn a_row_has_its_figures_by_the_words_of_legs_and_reasons() {
        let mut figures = Series { sends: 2, bytes: 10, ..Series::default() };
        figures.legs.insert(Leg::Total, [Nanos(5), Nanos(7)].into_iter().collect());
        figures.waited[WaitReason::Cork as usize] = Nanos(3);
        let mut out = Vec::new();
        let quantiles = [Some(Nanos(5)), None];
        let length = Nanos(9);
        row(&mut out, &Row { by: GroupBy::Peer, label: "a\"b", length, figures: &figures, quantiles, reason: None });
        let line: serde_json::Value = serde_json::from_slice(&out).unwrap();
        assert_eq!((&line["label"], &line["total_n"], &line["total_sum_ns"]), (&"a\"b".into(), &2.into(), &12.into()));
        assert_eq!((&line["p50_ns"], &line["p99_ns"], &line["tcp_n"]), (&5.into(), &().into(), &0.into()));
        assert_eq!((&line["waited_ns"]["cork"], &line["waited_for"]), (&3.into(), &().into()));
    }
}
