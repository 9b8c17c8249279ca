//! A study's trials and comparisons as the rows that `store` keeps.

use store::study::{Comparison, Factor, Point, Tables};

use crate::conclusion::Conclusion;
use crate::engine::Study;
use crate::trial::Trial;

/// The tables of a study.
pub(crate) fn of(study: &Study, trials: &[Trial], conclusion: &Conclusion) -> Tables {
    let mut tables = Tables::default();
    for (number, t) in (0u64..).zip(trials) {
        let plan = study.plans.get(t.part);
        tables.trials.push(store::study::Trial {
            trial: number,
            plan: plan.map_or_else(String::new, |p| p.name.clone()),
            block: t.block.into(),
            position: t.position.into(),
            started_ns: t.started_ns,
            took_ns: t.took_ns,
            broken: (!t.counts()).then(|| t.broken.join("; ")),
            frames: t.evidence.frames,
            frames_dropped: t.evidence.dropped,
            responses: t.responses.clone(),
        });
        let names = plan.map_or_else(Vec::new, |p| p.factors.iter().map(|f| f.name.clone()).collect());
        tables.factors.extend(names.into_iter().zip(&t.labels).map(|(factor, level)| Factor {
            trial: number,
            factor,
            level: level.clone(),
        }));
        tables.series.extend(t.series.iter().map(|p| Point {
            trial: number,
            at_ns: p.at_ns,
            goodput_bits_per_second: p.bits_per_second,
            srtt_ns: p.srtt_ns,
            cwnd_bytes: p.cwnd_bytes,
            receive_window_bytes: p.receive_window_bytes,
            warm_up: p.warm_up,
        }));
    }
    tables.comparisons = conclusion
        .compared
        .iter()
        .map(|c| Comparison {
            what: c.what.clone(),
            response: c.response.clone(),
            ratio: c.comparison.ratio.value,
            ratio_low: c.comparison.ratio.low,
            ratio_high: c.comparison.ratio.high,
            blocks: c.comparison.ratio.n as u64,
            p: c.holm_p,
            ratio_predicted: c.predicted,
            ratio_smallest_seen: c.comparison.smallest_seen,
        })
        .collect();
    tables
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_response_has_its_column() {
        let kept = store::study::RESPONSES.map(|r| r.0);
        for (name, _) in crate::trial::RESPONSES {
            assert!(kept.contains(&name), "{name} has no column in store::study::RESPONSES");
        }
    }
}
