//! Predictions that were missed by more than their reach: said in the verdict, with the reason
//! looked for in the packets.

use record::trial::Response;
use std::collections::BTreeMap;

use diagnose::FindingKind;
use paper::document::{Table, columns};
use record::Nanos;
use stats::Estimate;

use crate::analysis;
use crate::conclusion::{self, Conclusion};
use crate::engine::Study;
use crate::evidence::Found;
use crate::outcome::Trial;
use crate::predict::Predicted;
use crate::response::quantity;
use crate::sentence::Sentence;

/// Whether any exchange shows it where one side waits for the other: that is no cause of a miss.
pub(crate) fn is_of_every_exchange(found: &Found) -> bool {
    use FindingKind::{ReceiverApplication, RoundTrips, SenderApplication};
    [SenderApplication, ReceiverApplication, RoundTrips].iter().any(|kind| kind.name() == found.kind)
}

/// The costliest kind of finding of some trials, its counts and costs summed over them.
pub(crate) struct Costliest {
    pub finding: Option<Found>,
    /// Frames that were analysed.
    pub frames: u64,
    /// Why none was, where a trial says so.
    pub refused: Option<String>,
}

impl Costliest {
    /// Why no cause is named; `packets` are what they are called.
    pub(crate) fn no_cause(&self, packets: &str) -> String {
        match (self.frames, &self.refused) {
            (0, Some(why)) => format!("no packet was read ({why}), so the cause is not known"),
            (0, None) => "no packet was read, so the cause is not known".into(),
            (frames, _) => format!("{packets} ({} frames) show no cause", quantity::count(frames)),
        }
    }
}

/// Looks for what cost the most.
pub(crate) fn costliest<'t>(trials: impl Iterator<Item = &'t Trial>) -> Costliest {
    let mut kinds: BTreeMap<&str, Found> = BTreeMap::new();
    let (mut frames, mut refused) = (0, None);
    for trial in trials {
        frames += trial.evidence.frames;
        refused = refused.or_else(|| trial.evidence.refused.clone());
        for f in trial.evidence.findings.iter().filter(|f| !is_of_every_exchange(f)) {
            let sum = kinds.entry(&f.kind).or_insert_with(|| Found { count: 0, cost_ns: Nanos::ZERO, ..f.clone() });
            sum.count += f.count;
            sum.cost_ns += f.cost_ns;
        }
    }
    let finding = kinds.into_values().filter(|f| f.cost_ns > Nanos::ZERO).max_by_key(|f| f.cost_ns);
    Costliest { finding, frames, refused }
}

struct Miss {
    place: String,
    response: Response,
    predicted: Predicted,
    measured: Estimate,
    /// The ratio of what was measured to the nearest end of the reach, as a logarithm.
    by: f64,
    reason: String,
}

/// Rows of the table of misses.
const SHOWN: usize = 20;

/// Adds to the verdict how many combinations missed their prediction and the one that is farthest
/// from it, and a table of them.
pub(crate) fn report(study: &Study, trials: &[Trial], seed: u64, conclusion: &mut Conclusion) {
    let (mut misses, mut of) = (Vec::new(), 0);
    for (part, plan) in study.plans.iter().enumerate() {
        for levels in analysis::combinations(plan) {
            let Some(predicted) = conclusion::predicted_in(study, part, trials, &levels) else { continue };
            let Some(measured) = analysis::mean(part, plan, trials, &levels, plan.response, seed) else { continue };
            of += 1;
            if !predicted.missed_by(&measured) {
                continue;
            }
            let end = if measured.value < predicted.low { predicted.low } else { predicted.high };
            misses.push(Miss {
                place: format!("{}, {}", plan.name, plan.label(&levels).join(", ")),
                response: plan.response,
                predicted,
                measured,
                by: (measured.value.max(f64::MIN_POSITIVE) / end).ln().abs(),
                reason: reason(analysis::of(trials, part, &levels).collect()),
            });
        }
    }
    misses.sort_by(|a, b| b.by.total_cmp(&a.by));
    let Some(first) = misses.first() else { return };
    let (n, response) = (misses.len(), first.response);
    let [which, were] = if n == 1 { ["it is", "prediction is"] } else { ["the farthest is", "predictions are"] };
    conclusion.verdict.push(
        Sentence::from(format!("{n} of {of} {were} missed by more than their reach"))
            .and(format!(
                "{which} {}: {} predicted, {} measured",
                first.place,
                conclusion::predicted_text(response, first.predicted),
                quantity(response, first.measured.value)
            ))
            .and(first.reason.clone()),
    );
    let mut columns = columns(["where"], ["predicted", "measured", "n"]);
    columns.push("reason".into());
    let mut table = Table::new("predictions that were missed", columns);
    for miss in misses.iter().take(SHOWN) {
        table.push(vec![
            miss.place.clone(),
            conclusion::predicted_text(miss.response, miss.predicted),
            quantity(miss.response, miss.measured.value),
            miss.measured.n.to_string(),
            miss.reason.clone(),
        ]);
    }
    if misses.len() > SHOWN {
        table.title = format!("{}: the first {SHOWN} of {}", table.title, misses.len());
    }
    conclusion.tables.push(table);
}

/// From which share of CPU time in use the machine is a reason.
const FULL: f64 = 0.9;

fn reason(trials: Vec<&Trial>) -> String {
    let busy: Vec<f64> = trials.iter().filter_map(|t| t.cpu_busy).collect();
    let found = costliest(trials.into_iter());
    match (&found.finding, stats::median(&busy).filter(|busy| *busy >= FULL)) {
        (Some(f), _) => format!("its packets show {}: {}", FindingKind::words_of(&f.kind), f.text),
        (None, Some(busy)) => format!("this machine's CPUs were {} in use", quantity::percent(busy)),
        (None, None) => found.no_cause("its packets"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan_file;

    #[test]
    fn a_prediction_that_is_missed_is_in_the_verdict_with_what_the_packets_show() {
        let plan = plan_file::parse(
            "p.toml",
            "repetitions = 4\n[fixed]\nrate = \"100mbit\"\n[factors]\ndelay = [\"1ms\", \"5ms\"]\n",
        )
        .unwrap();
        let study = Study { name: "p".into(), builtin: false, plans: vec![plan], host: None };
        let finding = Found {
            kind: "receive_window".into(),
            text: "the window was full.".into(),
            count: 3,
            cost_ns: Nanos(5),
            packets: vec![7],
        };
        let trials = |rate: f64| -> Vec<Trial> {
            (0..4)
                .flat_map(|block| {
                    [0, 1].map(|level| Trial::of_goodput((0, block), level, rate + f64::from(block) * 1e3))
                })
                .map(|mut trial| {
                    trial.evidence.findings.push(finding.clone());
                    trial
                })
                .collect()
        };
        let said = crate::account::of_plan(&study, &trials(40e6), 1);
        let verdict = said
            .verdict
            .iter()
            .map(ToString::to_string)
            .find(|v| v.contains("predictions are missed"))
            .expect("a miss is said");
        assert!(
            verdict.starts_with("2 of 2 predictions") && verdict.contains("receive window: the window was full"),
            "{verdict}"
        );
        assert!(said.tables.iter().any(|t| t.title == "predictions that were missed" && t.rows.len() == 2));
        let missed = |change: fn(&mut Trial)| {
            let mut trials = trials(40e6);
            trials.iter_mut().for_each(|trial| {
                trial.evidence.findings.clear();
                change(trial);
            });
            let said = crate::account::of_plan(&study, &trials, 1);
            said.verdict
                .iter()
                .map(ToString::to_string)
                .find(|v| v.contains("predictions are missed"))
                .expect("a miss is said")
        };
        let seen = missed(|t| t.evidence.frames = 300);
        assert!(seen.ends_with("its packets (1,200 frames) show no cause"), "{seen}");
        let refused = missed(|t| t.evidence.refused = Some("packets of eth0: not permitted".into()));
        assert!(
            refused.ends_with("; no packet was read (packets of eth0: not permitted), so the cause is not known"),
            "{refused}"
        );
        assert!(missed(|_| ()).ends_with("; no packet was read, so the cause is not known"));
        let said = crate::account::of_plan(&study, &trials(94e6), 1);
        assert!(!said.verdict.iter().any(|v| v.to_string().contains("missed")), "{:?}", said.verdict);
    }
}
