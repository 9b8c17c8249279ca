//! Two studies side by side: what the same combinations gave in each, as of two kernels or two machines.

use serde::Serialize;
use stats::{Estimate, Judgement};

use crate::analysis;
use crate::ledger::Provenance;
use crate::outcome::Trial;
use crate::plan::{Factor, Plan};

/// A study with its trials.
#[derive(Clone, Copy, Debug)]
pub struct Side<'a> {
    /// What made it.
    pub provenance: &'a Provenance,
    /// Its trials.
    pub trials: &'a [Trial],
}

/// One combination that both studies have.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The plan.
    pub plan: String,
    /// The level of each factor, in words.
    pub labels: Vec<String>,
    /// What was measured.
    pub response: String,
    /// The geometric mean in the first study.
    pub first: f64,
    /// In the second one.
    pub second: f64,
    /// Trials in each.
    pub trials: [usize; 2],
    /// The second over the first, less 1. All intervals hold at the same time in 95 % of comparisons.
    pub ratio: Estimate,
}

impl Row {
    /// Whether a difference was seen.
    pub fn seen(&self) -> bool {
        !self.ratio.covers(0.0)
    }
}

/// Two studies side by side.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Between {
    /// The combinations of both, with enough trials in each.
    pub rows: Vec<Row>,
    /// Combinations that only one has, or that have too few trials in one.
    pub unmatched: usize,
    /// What else is different between the studies, in words.
    pub differences: Vec<String>,
}

/// The logarithms of what a combination gave; empty where a value has none.
fn logarithms(side: Side<'_>, part: usize, levels: &[usize], response: &str) -> Vec<f64> {
    let values: Vec<f64> = analysis::by_block(side.trials, part, levels, response).into_values().collect();
    if values.iter().all(|v| *v > 0.0) { values.into_iter().map(f64::ln).collect() } else { Vec::new() }
}

/// The part of a study with the same plan: of the same name, response and factors.
fn counterpart(plan: &Plan, of: Side<'_>) -> Option<usize> {
    let names = |p: &Plan| p.factors.iter().map(|f| f.name.clone()).collect::<Vec<_>>();
    let same = |p: &Plan| p.name == plan.name && p.response == plan.response && names(p) == names(plan);
    of.provenance.study.plans.iter().position(same)
}

/// Compares what both have. Trials of two studies are no pairs: what drifted between the studies is in the differences.
pub fn compare(first: Side<'_>, second: Side<'_>) -> Between {
    let mut found: Vec<(Row, f64)> = Vec::new();
    let mut between = Between { differences: differences(first.provenance, second.provenance), ..Between::default() };
    let all: usize =
        [first, second].map(|s| s.provenance.study.plans.iter().map(Plan::combinations).sum::<usize>()).iter().sum();
    for (part, plan) in first.provenance.study.plans.iter().enumerate() {
        let Some(other) = counterpart(plan, second) else { continue };
        let theirs = &second.provenance.study.plans[other];
        for levels in analysis::combinations(plan) {
            let labels = plan.label(&levels);
            let Some(same) = analysis::combinations(theirs).into_iter().find(|l| theirs.label(l) == labels) else {
                continue;
            };
            let a = logarithms(first, part, &levels, &plan.response);
            let b = logarithms(second, other, &same, &plan.response);
            let spread = |v: &[f64]| Some(stats::deviation(v)?.powi(2) / v.len() as f64);
            let (Some(low), Some(high), Some(va), Some(vb)) =
                (stats::mean(&a), stats::mean(&b), spread(&a), spread(&b))
            else {
                continue;
            };
            // Degrees of freedom of the smaller one: never more than Welch's.
            let ratio = Judgement::ALONE.around(high - low, (va + vb).sqrt(), a.len().min(b.len()));
            let row = Row {
                plan: plan.name.clone(),
                labels,
                response: plan.response.clone(),
                first: low.exp(),
                second: high.exp(),
                trials: [a.len(), b.len()],
                ratio,
            };
            found.push((row, (va + vb).sqrt()));
        }
    }
    let sequential = [first, second].iter().any(|s| s.provenance.study.is_sequential());
    let judgement = Judgement { comparisons: found.len(), sequential };
    between.unmatched = all.saturating_sub(2 * found.len());
    between.rows = found
        .into_iter()
        .map(|(row, error)| Row {
            ratio: judgement.around(row.ratio.value, error, row.ratio.n).map(f64::exp_m1),
            ..row
        })
        .collect();
    between
}

/// What made the studies, where it differs.
fn differences(a: &Provenance, b: &Provenance) -> Vec<String> {
    let mut differences = Vec::new();
    let mut differ = |what: &str, a: String, b: String| {
        if a != b {
            differences.push(format!("{what}: {a} against {b}"));
        }
    };
    differ("study", a.study.name.clone(), b.study.name.clone());
    differ("kernel", a.kernel.clone(), b.kernel.clone());
    differ("machine", format!("{}, {} CPUs", a.machine, a.cpus), format!("{}, {} CPUs", b.machine, b.cpus));
    differ("version of Wirelapse", a.version.clone(), b.version.clone());
    let place =
        |p: &Provenance| p.study.host.as_ref().map_or_else(|| "in a lab".to_owned(), |(host, _)| format!("to {host}"));
    differ("where", place(a), place(b));
    for plan in &a.study.plans {
        let Some(other) = b.study.plans.iter().find(|p| p.name == plan.name) else { continue };
        let held =
            |p: &Plan| p.fixed.iter().map(|(name, value)| format!("{name} = {value}")).collect::<Vec<_>>().join(", ");
        let time = |p: &Plan| format!("{} after {}", p.duration, p.warm_up);
        let varied = |p: &Plan| {
            let levels = |f: &Factor| format!("{} = {}", f.name, f.levels.join(" or "));
            p.factors.iter().map(levels).collect::<Vec<_>>().join(", ")
        };
        differ(&format!("{}, varied", plan.name), varied(plan), varied(other));
        differ(&format!("{}, held", plan.name), held(plan), held(other));
        differ(&format!("{}, measured", plan.name), time(plan), time(other));
    }
    differences
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Study;
    use crate::plan_file;

    fn provenance(levels: &str) -> Provenance {
        let plan = plan_file::parse("p.toml", &format!("repetitions = 5\n[factors]\ndelay = {levels}\n")).unwrap();
        Provenance::here(&Study { name: "p".into(), builtin: false, plans: vec![plan], host: None }, 1, Vec::new())
    }

    fn trials(factor: f64) -> Vec<Trial> {
        (0..5)
            .flat_map(|block| {
                [0, 1].map(|level| {
                    let slow = if level == 1 { factor } else { 1.0 };
                    Trial::of_goodput((0, block), level, 1e8 * slow * (1.0 + f64::from(block) * 1e-3))
                })
            })
            .collect()
    }

    #[test]
    fn what_changed_between_two_studies_is_seen_and_nothing_else() {
        let a = provenance("[\"1ms\", \"5ms\"]");
        // The other study has its levels in another order, and one that the first has not.
        let b = Provenance { kernel: "7.2".into(), ..provenance("[\"5ms\", \"1ms\", \"9ms\"]") };
        let first = trials(0.8);
        let mut second = trials(0.8);
        second.iter_mut().for_each(|t| {
            t.levels = vec![1 - t.levels[0]];
            // 10 % less at 5 ms alone.
            if t.levels == [0] {
                t.responses.insert("goodput".into(), t.response("goodput").unwrap() * 0.9);
            }
        });
        let between = compare(Side { provenance: &a, trials: &first }, Side { provenance: &b, trials: &second });
        assert_eq!((between.rows.len(), between.unmatched), (2, 1));
        let row = |label: &str| between.rows.iter().find(|r| r.labels == [label]).unwrap();
        assert!(!row("1ms").seen() && row("5ms").seen(), "{between:?}");
        assert!(row("5ms").ratio.covers(-0.1) && row("5ms").trials == [5, 5]);
        assert!(
            between.differences.iter().any(|d| d.starts_with("kernel: ") && d.ends_with("against 7.2")),
            "{between:?}"
        );
        let varied = "plan, varied: delay = 1ms or 5ms against delay = 5ms or 1ms or 9ms";
        assert!(between.differences.iter().any(|d| d == varied), "{between:?}");
    }
}
