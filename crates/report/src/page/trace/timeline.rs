//! How long records took over time, as plots.

use record::Nanos;
use stats::{Distribution, Quantile};

use super::n_of;
use crate::view::capital;
use paper::plot::{Axis, Cell, Hue, Layer, Plot, Unit, tidy};
use summary::Timeline;

/// Rows of the heat map.
const HEAT_ROWS: u32 = 30;

/// How many records have a total.
fn n(of: &Timeline) -> u64 {
    of.intervals().iter().map(|i| i.totals.n()).sum()
}

/// What an interval is.
fn note(of: &Timeline) -> String {
    format!("intervals of {}", Nanos(of.width()))
}

/// The time that is shown, in words.
fn meaning(of: &Timeline) -> &'static str {
    of.kind().legs()[of.kind().total()].meaning
}

/// A time of the total.
fn axes(of: &Timeline) -> (Axis, Axis) {
    let name = of.kind().legs()[of.kind().total()].name;
    (
        Axis::linear("time since the trace began", Unit::Time).reaching(0.0),
        Axis::log(format!("{name} time (logarithmic)"), Unit::Time),
    )
}

fn at(of: &Timeline, i: usize) -> f64 {
    (i as u64 * of.width()) as f64
}

pub(super) fn quantiles(of: &Timeline) -> Option<Plot> {
    let thing = of.kind().thing();
    let line = |name: &str, hue: u8, value: &dyn Fn(&Distribution) -> Option<u64>| {
        let mut points = Vec::new();
        for (i, interval) in of.intervals().iter().enumerate() {
            let x = tidy(at(of, i) + of.width() as f64 / 2.0);
            match value(&interval.totals) {
                Some(value) => points.push([x, value.max(1) as f64]),
                // Nothing is known there, so no line goes over it.
                None if points.last().is_some_and(|p: &[f64; 2]| p[1].is_finite()) => points.push([x, f64::NAN]),
                None => {}
            }
        }
        Layer::line(name, Hue(hue), points)
    };
    let layers = vec![
        line("max", 1, &Distribution::max),
        line("p99", 3, &|d| d.quantile(Quantile::P99)),
        line("p50", 0, &|d| d.quantile(Quantile::P50)),
    ];
    Plot::new(
        &super::id(of.kind(), "over-time"),
        format!("{} over time", capital(meaning(of))),
        format!(
            "By when the {thing} began, {}; {}. Percentiles are within 7 %, and omitted where an interval has too few {thing}s for them.",
            note(of),
            n_of(n(of), of.kind())
        ),
        axes(of),
        layers,
    )
}

pub(super) fn heat(of: &Timeline) -> Option<Plot> {
    let counted = of.heat(HEAT_ROWS);
    let fullest = counted.iter().map(|heat| heat.n).max()? as f64;
    let cells = counted
        .into_iter()
        .map(|heat| {
            let y = heat.range.map(tidy);
            let x = [heat.interval, heat.interval + 1].map(|i| tidy(at(of, i)));
            let [low, high] = y.map(|v| Nanos(v as u64));
            let shade = tidy((heat.n as f64).ln_1p() / fullest.ln_1p());
            Cell { x, y, shade, label: format!("{low} to {high}: n = {}", quantity::count(heat.n)) }
        })
        .collect();
    Plot::new(
        &super::id(of.kind(), "heat"),
        format!("Where the {}s lie, over time", of.kind().thing()),
        format!(
            "Each cell is as dark as the logarithm of its number of {}s, {}; {}.",
            of.kind().thing(),
            note(of),
            n_of(n(of), of.kind())
        ),
        axes(of),
        vec![Layer::Heat { name: format!("{}s", of.kind().thing()), cells }],
    )
}

pub(super) fn rate(of: &Timeline) -> Option<Plot> {
    let thing = of.kind().thing();
    let per_second = 1e9 / of.width() as f64;
    let points =
        of.intervals().iter().enumerate().map(|(i, interval)| [tidy(at(of, i)), tidy(interval.n as f64 * per_second)]);
    let line = Layer::Line { name: String::new(), hue: Hue(0), points: points.collect(), step: true, dashed: false };
    Plot::new(
        &super::id(of.kind(), "rate"),
        format!("{} recorded over time", capital(&format!("{thing}s"))),
        format!(
            "As they were recorded, {}; {}. Where a trace samples, this is the sample's rate.",
            note(of),
            n_of(of.intervals().iter().map(|i| i.n).sum(), of.kind())
        ),
        (
            Axis::linear("time since the trace began", Unit::Time).reaching(0.0),
            Axis::linear(format!("{thing}s a second"), Unit::Plain).reaching(0.0),
        ),
        vec![line],
    )
    .filter(|_| of.intervals().len() > 1)
}
