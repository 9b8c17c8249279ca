//! What was measured over time.

use record::trial::Response;
use std::collections::BTreeMap;

use crate::analysis;
use crate::outcome::{Point, Trial};
use record::Nanos;

use super::{LINES, View};
use paper::plot::{Axis, Hue, Layer, Plot, Unit, thinned, tidy};

/// Points of a line, about.
const POINTS: usize = 800;

impl View<'_> {
    /// What was measured over time, averaged over the trials of each combination.
    pub(super) fn series(&self, what: Response) -> Option<Plot> {
        let (id, title, axis, of): (_, _, _, fn(&Point) -> f64) = match what {
            Response::Goodput => {
                ("goodput", "Goodput over time", Axis::linear("goodput", Unit::Rate).reaching(0.0), |p| {
                    p.bits_per_second
                })
            }
            Response::RoundTrip => (
                "round-trip",
                "Round trip over time",
                Axis::linear("TCP's smoothed round trip", Unit::Time).reaching(0.0),
                |p| p.srtt_ns.0 as f64,
            ),
            _ => (
                "window",
                "Receive window over time, by the packets",
                Axis::linear("window offered", Unit::Bytes).reaching(0.0),
                |p| p.receive_window_bytes.unwrap_or(0) as f64,
            ),
        };
        let mut layers = Vec::new();
        let (mut drawn, mut left, mut counts, mut warm_up) = (0, 0, (usize::MAX, 0), 0u64);
        for levels in self.side_by_side() {
            // Slots of a tenth of a second, as they are measured; the mean is over the trials that
            // have the slot.
            let mut slots: BTreeMap<u64, (f64, f64)> = BTreeMap::new();
            let trials: Vec<&Trial> =
                analysis::of(self.trials, self.part, levels).filter(|t| !t.series.is_empty()).collect();
            for point in trials.iter().flat_map(|t| &t.series) {
                let value = of(point);
                // Zero says that the kernel did not report it.
                if value > 0.0 || what == Response::Goodput {
                    let slot = slots.entry(point.at_ns.0 / 100_000_000).or_default();
                    *slot = (slot.0 + value, slot.1 + 1.0);
                }
                if point.warm_up {
                    warm_up = warm_up.max(point.at_ns.0);
                }
            }
            // A single moment is no course over time.
            if slots.len() < 2 {
                continue;
            }
            if drawn == LINES {
                left += 1;
                continue;
            }
            counts = (counts.0.min(trials.len()), counts.1.max(trials.len()));
            // A slot that only some trials reached would make a jump that is none.
            let full = slots.values().map(|s| s.1).fold(0.0, f64::max);
            let points: Vec<[f64; 2]> = slots
                .into_iter()
                .filter(|(_, s)| s.1 >= full / 2.0)
                .map(|(slot, s)| [slot as f64 * 1e8, tidy(s.0 / s.1)])
                .collect();
            layers.push(Layer::line(self.name(levels), Hue::nth(drawn), thinned(points, POINTS)));
            drawn += 1;
        }
        if layers.is_empty() {
            return None;
        }
        if warm_up > 0 {
            layers.push(Layer::Rule { name: "end of the warm-up".into(), upright: true, value: warm_up as f64 });
        }
        let note = if left > 0 { format!(" {left} more combinations are not drawn.") } else { String::new() };
        let uncounted =
            if warm_up > 0 { format!("; the first {} do not count", Nanos(warm_up)) } else { String::new() };
        let n = if counts.0 == counts.1 { counts.0.to_string() } else { format!("{} to {}", counts.0, counts.1) };
        Plot::new(
            &self.id(id),
            title,
            format!(
                "Mean over the trials of a combination, n = {n} trials each, in tenths of a second{uncounted}.{note}",
            ),
            (Axis::linear("time since the transfer began", Unit::Time).reaching(0.0), axis),
            layers,
        )
    }
}
