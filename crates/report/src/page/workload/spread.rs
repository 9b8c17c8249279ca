//! How the intervals of each flow of a stream differ: boxes, and those in which nothing came.

use paper::plot::{Axis, Boxed, Hue, Layer, Plot, Unit, tidy};
use quantity::{bit_rate, counted};
use traffic::stream::Sample;

/// Fewer intervals than this have no quartiles.
const LEAST: usize = 5;
/// Flows with a row, at most.
const ROWS: usize = 32;

/// A flow in one direction, with the goodput of its intervals after the warm-up.
struct Flow {
    flow: i64,
    sends: bool,
    goodput: Vec<f64>,
}

impl Flow {
    fn name(&self) -> String {
        format!("flow {} {}", self.flow, super::way(self.sends))
    }
}

fn flows(series: &[Sample]) -> Vec<Flow> {
    let mut flows: Vec<Flow> = Vec::new();
    for sample in series.iter().filter(|sample| !sample.warm_up) {
        let goodput = sample.goodput_bits_per_second();
        match flows.iter_mut().find(|f| (f.flow, f.sends) == (sample.flow, sample.sends)) {
            Some(flow) => flow.goodput.push(goodput),
            None => flows.push(Flow { flow: sample.flow, sends: sample.sends, goodput: vec![goodput] }),
        }
    }
    flows
}

/// A box for each flow; `None` for a single one, whose intervals a line shows, and where there are
/// too few of them.
pub(super) fn boxes(series: &[Sample]) -> Option<Plot> {
    let flows = flows(series);
    if flows.len() < 2 || flows.iter().any(|flow| flow.goodput.len() < LEAST) {
        return None;
    }
    let shown = &flows[..flows.len().min(ROWS)];
    let boxed = |(at, flow): (u32, &Flow)| {
        let quantile = |share| stats::quantile(&flow.goodput, share);
        let figures = [quantile(0.0)?, quantile(0.25)?, quantile(0.5)?, quantile(0.75)?, quantile(1.0)?];
        let words = figures.map(bit_rate);
        let (n, mean) = (flow.goodput.len(), stats::mean(&flow.goodput).map(bit_rate)?);
        let label = format!(
            "{}\nmin {}, quartiles {}, {}, {}, max {}, mean {mean}; n = {n} intervals",
            flow.name(),
            words[0],
            words[1],
            words[2],
            words[3],
            words[4]
        );
        Some(Boxed { at: f64::from(at), figures: figures.map(tidy), label })
    };
    let items = (0u32..).zip(shown).filter_map(boxed).collect();
    let left = flows.len() - shown.len();
    let more = if left > 0 { format!(" {left} more flows are not drawn.") } else { String::new() };
    Plot::new(
        "spread",
        "Goodput of each flow",
        format!(
            "Box: the middle half of a flow's intervals, its line their median; whiskers: smallest and largest. n = {} intervals each.{more}",
            shown[0].goodput.len()
        ),
        (Axis::sizes("goodput", Unit::Rate), Axis::names("", shown.iter().map(Flow::name))),
        vec![Layer::Boxes { name: String::new(), hue: Hue(0), items }],
    )
}

/// The intervals in which nothing came, of each flow that has some.
pub(super) fn gaps(series: &[Sample]) -> Option<String> {
    let with: Vec<String> = flows(series)
        .iter()
        .filter_map(|flow| {
            let empty = flow.goodput.iter().filter(|goodput| **goodput == 0.0).count();
            (empty > 0)
                .then(|| format!("{} in {empty} of {}", flow.name(), counted(flow.goodput.len() as u64, "interval")))
        })
        .collect();
    (!with.is_empty()).then(|| format!("Nothing arrived on {}.", with.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(flow: i64, second: u64, bytes: u64, warm_up: bool) -> Sample {
        let ns = 1_000_000_000;
        Sample {
            flow,
            sends: true,
            start: record::Nanos(second * ns),
            end: record::Nanos((second + 1) * ns),
            warm_up,
            bytes,
            bits_per_second: bytes as f64 * 8.0,
            acknowledged_bytes: Some(bytes),
            retransmitted_segments: 0,
            datagrams: 0,
            tcp: None,
            memory: None,
        }
    }

    #[test]
    fn each_flow_has_a_box_and_its_empty_intervals_are_said() {
        let mut series = vec![sample(1, 0, 9_000_000, true)];
        for second in 1..7 {
            series.push(sample(1, second, 1_000_000 * second, false));
            series.push(sample(3, second, if second < 3 { 0 } else { 500_000 }, false));
        }
        let plot = boxes(&series).unwrap();
        let Layer::Boxes { items, .. } = &plot.layers[0] else { panic!("{plot:?}") };
        assert_eq!(items.iter().map(|b| b.figures[4]).collect::<Vec<_>>(), [48e6, 4e6], "the warm-up is in none");
        assert!(items[0].label.contains("min 8.00 Mbit/s") && items[0].label.contains("n = 6 intervals"), "{items:?}");
        assert_eq!(gaps(&series).as_deref(), Some("Nothing arrived on flow 3 up in 2 of 6 intervals."));
        // One flow is a line, and few intervals have no quartiles.
        assert_eq!(boxes(&series.iter().filter(|s| s.flow == 1).cloned().collect::<Vec<_>>()), None);
        assert_eq!(boxes(&series[..9]), None);
        assert_eq!(gaps(&series[..2]), None);
    }
}
