//! A study's trials and comparisons as the rows that `store` keeps.

use record::trial::{Comparison, Factor, Ping, Point, Response};
use store::study::Rows;

use crate::conclusion::Conclusion;
use crate::engine::Study;
use crate::outcome::Trial;
use crate::plan::Plan;

/// A trial of a study, the `number`th of its run, as rows.
pub(crate) fn rows(study: &Study, number: u64, t: &Trial) -> Rows {
    let plan = study.plans.get(t.part);
    let names = plan.map_or_else(Vec::new, Plan::factor_names);
    let both = t.responses.contains_key(&Response::GoodputDown);
    Rows {
        trial: record::trial::Trial {
            trial: number,
            plan: plan.map_or_else(String::new, |p| p.name.clone()),
            block: t.block.into(),
            position: t.position.into(),
            started_ns: t.started_ns,
            took_ns: t.took,
            broken: (!t.counts()).then(|| t.broken.join("; ")),
            frames: t.evidence.frames,
            frames_dropped: t.evidence.dropped,
            responses: t.responses.clone(),
        },
        factors: names
            .into_iter()
            .zip(&t.labels)
            .map(|(factor, level)| Factor { trial: number, factor, level: level.clone() })
            .collect(),
        series: t
            .series
            .iter()
            .map(|p| Point {
                trial: number,
                at_ns: p.at_ns,
                goodput_bits_per_second: p.bits_per_second,
                goodput_down_bits_per_second: both.then_some(p.down_bits_per_second),
                srtt_ns: p.srtt_ns,
                cwnd_bytes: p.cwnd_bytes,
                receive_window_bytes: p.receive_window_bytes,
                // No socket has a buffer of nothing: then its memory was not reported.
                receive_used_bytes: (p.receive_buffer_bytes > 0).then_some(p.receive_used_bytes),
                receive_buffer_bytes: (p.receive_buffer_bytes > 0).then_some(p.receive_buffer_bytes),
                warm_up: p.warm_up,
            })
            .collect(),
        pings: t
            .pings
            .iter()
            .map(|p| Ping { trial: number, probe: p.probe.clone(), at_ns: p.at_ns, round_trip_ns: p.round_trip_ns })
            .collect(),
    }
}

/// What a conclusion compares.
pub(crate) fn comparisons(conclusion: &Conclusion) -> Vec<Comparison> {
    conclusion
        .compared
        .iter()
        .map(|c| Comparison {
            what: c.what.clone(),
            response: c.response.name().to_owned(),
            ratio: c.comparison.ratio.value,
            ratio_low: c.comparison.ratio.low,
            ratio_high: c.comparison.ratio.high,
            blocks: c.comparison.ratio.n as u64,
            p: c.comparison.p,
            ratio_predicted: c.predicted,
            ratio_smallest_seen: c.comparison.smallest_seen,
        })
        .collect()
}
