//! Two studies side by side: what the same combinations gave in each, as of two kernels or two
//! machines.

use record::trial::Response;
use std::collections::{BTreeMap, BTreeSet};

use compare::{Blocks, Change, Unjudged};
use serde::Serialize;
use serde::ser::SerializeStruct as _;
use stats::{Estimate, Judgement};

use crate::analysis;
use crate::ledger::Provenance;
use crate::outcome::Trial;
use crate::plan::Plan;

/// A study with its trials.
#[derive(Clone, Copy, Debug)]
pub struct Side<'a> {
    /// What made it.
    pub provenance: &'a Provenance,
    /// Its trials.
    pub trials: &'a [Trial],
}

/// One combination that both studies have.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The plan.
    pub plan: String,
    /// The level of each factor, in words.
    pub labels: Vec<String>,
    /// What was measured.
    pub response: Response,
    /// Trials in each.
    pub trials: [usize; 2],
    /// The geometric means, and the second over the first. All intervals hold at the same time in
    /// 95 % of comparisons where the trials of a run are independent of each other: what lasts
    /// through a run and not through the other is in the change, and not in its interval.
    pub change: Change,
    /// How its ratio to the plan's first row changed, taken within blocks: what changes all
    /// combinations of a block by the same factor is not in it. `None` for that row itself, and
    /// where fewer than two blocks of a study have both.
    pub within_blocks: Option<Change>,
}

/// How a combination is compared between the studies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Its ratio to the first combination of its plan, taken within blocks.
    WithinBlocks,
    /// By itself.
    Itself,
}

impl Kind {
    /// The change that is compared so, with its interval.
    pub fn change(self, row: &Row) -> Option<&Estimate> {
        let change = match self {
            Self::WithinBlocks => row.within_blocks.as_ref(),
            Self::Itself => Some(&row.change),
        };
        change?.by.as_ref()
    }

    /// Whether a difference is seen so, and how large it is is known.
    pub fn seen(self, row: &Row) -> bool {
        let seen = if self == Self::Itself { row.seen() } else { row.seen_within_blocks() };
        seen && self.change(row).is_some_and(compare::is_known)
    }

    /// The rows in which a difference is seen so, the largest first.
    pub fn largest(self, rows: &[Row]) -> Vec<&Row> {
        let size = |row: &Row| self.change(row).map_or(0.0, |change| change.value.ln_1p().abs());
        let mut seen: Vec<&Row> = rows.iter().filter(|row| self.seen(row)).collect();
        seen.sort_by(|a, b| size(b).total_cmp(&size(a)));
        seen
    }

    /// The row with the widest interval that says anything: what may have been missed.
    pub fn widest(self, rows: &[Row]) -> Option<(&Row, &Estimate)> {
        let width = |e: &Estimate| e.high.ln_1p() - e.low.ln_1p();
        let known = rows.iter().filter_map(|row| Some((row, self.change(row).filter(|e| compare::is_known(e))?)));
        known.max_by(|a, b| width(a.1).total_cmp(&width(b.1)))
    }
}

impl Row {
    /// Whether a difference was seen in the combination by itself.
    pub fn seen(&self) -> bool {
        self.change.is_seen()
    }

    /// Whether a difference was seen within blocks.
    pub fn seen_within_blocks(&self) -> bool {
        self.within_blocks.is_some_and(|change| change.is_seen())
    }
}

impl Serialize for Row {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut fields = to.serialize_struct("Row", 8)?;
        let [first, second] = self.change.values;
        fields.serialize_field("plan", &self.plan)?;
        fields.serialize_field("labels", &self.labels)?;
        fields.serialize_field("response", &self.response)?;
        fields.serialize_field("first", &first)?;
        fields.serialize_field("second", &second)?;
        fields.serialize_field("trials", &self.trials)?;
        fields.serialize_field("ratio", &self.change.by)?;
        fields.serialize_field("within_blocks", &self.within_blocks.and_then(|change| change.by))?;
        fields.end()
    }
}

/// Something that is not the same of both studies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Differing {
    /// What it is.
    pub what: String,
    /// What it is of the first study.
    pub first: String,
    /// Of the second one.
    pub second: String,
}

/// Two studies side by side.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Between {
    /// The combinations of both, with enough trials in each.
    pub rows: Vec<Row>,
    /// Combinations that only one has, or that have too few trials in one.
    pub unmatched: usize,
    /// What of the machine is different: kernel, host, hardware, CPUs.
    pub factors: Vec<Differing>,
    /// Whether both are of hosts of the same name; `None` where a run does not say.
    pub same_host: Option<bool>,
    /// What else is different, so that a change cannot be put down to the machine: what was
    /// measured, over which path, by which version.
    pub conditions: Vec<Differing>,
    /// What to know of each study's trials, in words.
    pub notes: [Vec<String>; 2],
}

impl Between {
    /// The first combination of a row's plan: what ratios within blocks are to.
    pub fn base(&self, row: &Row) -> Option<&Row> {
        self.rows.iter().find(|first| first.plan == row.plan && first.response == row.response)
    }
}

/// The values of a combination by block. `None` below two trials, and where a value has no
/// logarithm.
fn measured(side: Side<'_>, part: usize, plan: &Plan, levels: &[usize]) -> Option<Blocks> {
    let values = analysis::by_block(side.trials, part, levels, plan.response);
    let mean = stats::mean(&values.values().copied().collect::<Vec<_>>())?;
    let unit = analysis::unit_share(plan, levels, plan.response, mean).unwrap_or(0.0);
    let late = analysis::start_share(plan, levels).unwrap_or(0.0);
    Blocks::new(&values, unit, late)
}

/// The part of a study with the same plan: of the same name, response and factors.
fn counterpart(plan: &Plan, of: Side<'_>) -> Option<usize> {
    let same_factors = |p: &Plan| p.factors.iter().map(|f| &f.name).eq(plan.factors.iter().map(|f| &f.name));
    let same = |p: &Plan| p.name == plan.name && p.response == plan.response && same_factors(p);
    of.provenance.study.plans.iter().position(same)
}

/// A row that is not judged yet.
struct Found {
    plan: String,
    labels: Vec<String>,
    response: Response,
    trials: [usize; 2],
    change: Unjudged,
    within_blocks: Option<Unjudged>,
}

impl Found {
    fn judged(self, judgement: Judgement) -> Row {
        let Self { plan, labels, response, trials, change, within_blocks } = self;
        let within_blocks = within_blocks.map(|change| change.judged(judgement));
        Row { plan, labels, response, trials, change: change.judged(judgement), within_blocks }
    }
}

/// Compares what both have. Trials of two studies are no pairs: what drifted between the studies is
/// in the differences, and what two runs of one setting differ by is in no interval.
pub fn compare(first: Side<'_>, second: Side<'_>) -> Between {
    let mut found: Vec<Found> = Vec::new();
    let mut too_few = 0;
    let all: usize =
        [first, second].map(|s| s.provenance.study.plans.iter().map(Plan::combinations).sum::<usize>()).iter().sum();
    for (part, plan) in first.provenance.study.plans.iter().enumerate() {
        let Some(other) = counterpart(plan, second) else { continue };
        let theirs = &second.provenance.study.plans[other];
        let others = analysis::combinations(theirs);
        let mut base: Option<[Blocks; 2]> = None;
        for levels in analysis::combinations(plan) {
            let labels = plan.label(&levels);
            let Some(same) = others.iter().find(|l| theirs.label(l) == labels) else { continue };
            let sides = [measured(first, part, plan, &levels), measured(second, other, theirs, same)];
            let [Some(a), Some(b)] = sides else {
                too_few += 1;
                continue;
            };
            found.extend(row(plan, labels, [&a, &b], base.as_ref()));
            base.get_or_insert([a, b]);
        }
    }
    let sequential = [first, second].iter().any(|s| s.provenance.study.is_sequential());
    let within = found.iter().filter(|f| f.within_blocks.is_some()).count();
    let judgement = Judgement { comparisons: found.len() + within, sequential };
    let [ours, theirs] = [first.provenance, second.provenance];
    Between {
        unmatched: all.saturating_sub(2 * found.len() + too_few),
        factors: machines(ours, theirs),
        same_host: ours.hostname.as_ref().zip(theirs.hostname.as_ref()).map(|(a, b)| a == b),
        conditions: conditions(first, second),
        notes: [first, second].map(notes),
        rows: found.into_iter().map(|row| row.judged(judgement)).collect(),
    }
}

/// The row of a combination; `base` is the plan's first one that both studies have.
fn row(plan: &Plan, labels: Vec<String>, [a, b]: [&Blocks; 2], base: Option<&[Blocks; 2]>) -> Option<Found> {
    let within = |[base_a, base_b]: &[Blocks; 2]| a.against(base_a)?.change_to(&b.against(base_b)?);
    Some(Found {
        plan: plan.name.clone(),
        labels,
        response: plan.response,
        trials: [a.n(), b.n()],
        change: a.change_to(b)?,
        within_blocks: base.and_then(within),
    })
}

/// Adds what differs.
fn differ(into: &mut Vec<Differing>, what: &str, first: &str, second: &str) {
    if first != second {
        into.push(Differing { what: what.into(), first: first.into(), second: second.into() });
    }
}

/// What of the machine differs.
fn machines(a: &Provenance, b: &Provenance) -> Vec<Differing> {
    let mut all = Vec::new();
    differ(&mut all, "kernel", &a.kernel, &b.kernel);
    if let (Some(first), Some(second)) = (&a.hostname, &b.hostname) {
        differ(&mut all, "host", first, second);
    }
    differ(&mut all, "hardware", &a.machine, &b.machine);
    differ(&mut all, "CPUs", &a.cpus.to_string(), &b.cpus.to_string());
    all
}

/// What was measured and how, where it differs.
fn conditions(first: Side<'_>, second: Side<'_>) -> Vec<Differing> {
    const NOT_SET: &str = "not set";
    let (a, b) = (first.provenance, second.provenance);
    let mut all = Vec::new();
    differ(&mut all, "study", &a.study.name, &b.study.name);
    differ(&mut all, "version of Wirelapse", &a.version, &b.version);
    let place =
        |p: &Provenance| p.study.host.as_ref().map_or_else(|| "in a lab".to_owned(), |(host, _)| format!("to {host}"));
    differ(&mut all, "where", &place(a), &place(b));
    for (part, plan) in a.study.plans.iter().enumerate() {
        let Some(other) = counterpart(plan, second) else { continue };
        let theirs = &b.study.plans[other];
        let held = |p: &Plan| {
            let held = p.fixed.iter();
            held.map(|(setting, value)| (setting.to_string(), value.clone())).collect::<BTreeMap<_, _>>()
        };
        let (ours_held, theirs_held) = (held(plan), held(theirs));
        for name in ours_held.keys().chain(theirs_held.keys()).collect::<BTreeSet<_>>() {
            let value = |of: &BTreeMap<String, String>| of.get(name).map_or(NOT_SET, String::as_str).to_owned();
            differ(&mut all, &format!("{}, {name}", plan.name), &value(&ours_held), &value(&theirs_held));
        }
        for (factor, other) in plan.factors.iter().zip(&theirs.factors) {
            // What is not in both is not compared, but trials of other levels come between those
            // that are.
            if factor.levels.iter().collect::<BTreeSet<_>>() != other.levels.iter().collect() {
                let what = format!("{}, levels of {}", plan.name, factor.name);
                differ(&mut all, &what, &factor.levels.join(" or "), &other.levels.join(" or "));
            }
        }
        let time = |p: &Plan| format!("{} after {}", p.duration, p.warm_up);
        differ(&mut all, &format!("{}, measured for", plan.name), &time(plan), &time(theirs));
        differ(&mut all, &format!("{}, path made by", plan.name), &backends(first, part), &backends(second, other));
    }
    all
}

/// What made the path of a plan's trials.
fn backends(side: Side<'_>, part: usize) -> String {
    let trials = side.trials.iter().filter(|t| t.part == part && t.counts());
    let all: BTreeSet<&str> = trials.filter_map(|t| Some(t.path.as_ref()?.backend.as_str())).collect();
    if all.is_empty() { "nothing".into() } else { all.into_iter().collect::<Vec<_>>().join(" and ") }
}

/// What to know of a study's trials.
fn notes(side: Side<'_>) -> Vec<String> {
    let mut notes = Vec::new();
    let counted = side.trials.iter().filter(|t| t.counts()).count();
    if counted < side.trials.len() {
        notes.push(format!("{} of {} trials do not count", side.trials.len() - counted, side.trials.len()));
    }
    if side.provenance.state == store::State::Unfinished {
        notes.push("the study did not come to its end".into());
    }
    let plans = side.provenance.study.plans.iter().enumerate();
    notes.extend(plans.filter_map(|(part, plan)| analysis::full_machine(part, plan, side.trials)));
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Study;
    use crate::plan_file;

    fn provenance(plan: &str) -> Provenance {
        let plan = plan_file::parse("p.toml", plan).unwrap();
        let study = Study { name: "p".into(), builtin: false, plans: vec![plan], host: None };
        let state = store::State::Finished;
        Provenance { state, ..Provenance::here(&study, 1, Vec::new()) }
    }

    fn of_delays(levels: &str) -> Provenance {
        provenance(&format!("repetitions = 5\n[factors]\ndelay = {levels}\n"))
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

    fn between(a: &Provenance, b: &Provenance) -> Between {
        let trials = trials(0.8);
        compare(Side { provenance: a, trials: &trials }, Side { provenance: b, trials: &trials })
    }

    fn whats(all: &[Differing]) -> Vec<&str> {
        all.iter().map(|d| d.what.as_str()).collect()
    }

    #[test]
    fn what_changed_between_two_studies_is_seen_and_nothing_else() {
        let a = of_delays("[\"1ms\", \"5ms\"]");
        // The other study has its levels in another order, and one that the first has not.
        let b = Provenance { kernel: "7.2".into(), ..of_delays("[\"5ms\", \"1ms\", \"9ms\"]") };
        let first = trials(0.8);
        let mut second = trials(0.8);
        second.iter_mut().for_each(|t| {
            t.levels = vec![1 - t.levels[0]];
            // 10 % less at 5 ms alone.
            if t.levels == [0] {
                t.responses.insert(Response::Goodput, t.response(Response::Goodput).unwrap() * 0.9);
            }
        });
        let between = compare(Side { provenance: &a, trials: &first }, Side { provenance: &b, trials: &second });
        assert_eq!((between.rows.len(), between.unmatched), (2, 1));
        let row = |label: &str| between.rows.iter().find(|r| r.labels == [label]).unwrap();
        assert!(!row("1ms").seen() && row("5ms").seen(), "{between:?}");
        assert!(row("5ms").change.by.unwrap().covers(-0.1) && row("5ms").trials == [5, 5]);
        assert!(
            row("5ms").seen_within_blocks() && row("5ms").within_blocks.unwrap().by.unwrap().covers(-0.1),
            "{between:?}"
        );
        assert_eq!(row("1ms").within_blocks, None);
        assert_eq!(whats(&between.conditions), ["plan, levels of delay"]);
    }

    #[test]
    fn kernel_and_machine_are_factors_and_all_else_is_a_condition() {
        let a = of_delays("[\"1ms\", \"5ms\"]");
        // Nothing differs, not even the order of the levels.
        let same = between(&a, &of_delays("[\"5ms\", \"1ms\"]"));
        assert_eq!((same.factors.len(), same.conditions.len(), same.same_host), (0, 0, Some(true)));

        let kernel = between(&a, &Provenance { kernel: "7.2".into(), ..a.clone() });
        let expected = Differing { what: "kernel".into(), first: a.kernel.clone(), second: "7.2".into() };
        assert_eq!((kernel.factors, kernel.conditions.len()), (vec![expected], 0));

        let other = Provenance { hostname: Some("other".into()), cpus: 4_097, ..a.clone() };
        let machine = between(&a, &other);
        assert_eq!((whats(&machine.factors), machine.same_host), (vec!["host", "CPUs"], Some(false)));
        // A run of an earlier version may be of the same machine or not.
        let unknown = between(&a, &Provenance { hostname: None, ..a.clone() });
        assert_eq!((unknown.factors.len(), unknown.same_host), (0, None));

        let held = |fixed: &str| {
            provenance(&format!("repetitions = 5\n[fixed]\n{fixed}\n[factors]\ndelay = [\"1ms\", \"5ms\"]\n"))
        };
        let (a, mut b) = (held("rate = \"1gbit\"\nmtu = 1500"), held("rate = \"100mbit\"\nwrite = 1448"));
        b.version = "99.0.0".into();
        b.study.plans[0].duration = record::Nanos::from_secs(77);
        let conditions = between(&a, &b).conditions;
        assert_eq!(
            whats(&conditions),
            ["version of Wirelapse", "plan, mtu", "plan, rate", "plan, write", "plan, measured for"]
        );
        assert_eq!((conditions[1].first.as_str(), conditions[1].second.as_str()), ("1500", "not set"));
    }

    #[test]
    fn figures_of_two_studies_are_no_finer_than_what_trials_count() {
        let plan = "repetitions = 3\nworkload = \"rr\"\nresponse = \"transactions\"\nduration = \"500ms\"\n[factors]\ndelay = [\"1ms\", \"2ms\"]\n";
        let a = provenance(plan);
        // Eight transactions in each trial of the one, nine in each of the other.
        let trial = |block: u32, rate: f64| Trial {
            responses: [(Response::Transactions, rate)].into(),
            ..Trial::of_goodput((0, block), 0, 1.0)
        };
        let of = |rate: f64| (0..3).map(|block| trial(block, rate)).collect::<Vec<_>>();
        let (first, second) = (of(16.0), of(18.0));
        let between = compare(Side { provenance: &a, trials: &first }, Side { provenance: &a, trials: &second });
        // The other level has no trials: one combination of both, with too few.
        assert_eq!((between.rows.len(), between.unmatched), (1, 1));
        assert!(!between.rows[0].seen(), "{between:?}");
    }

    #[test]
    fn trials_that_do_not_count_and_a_full_machine_are_said_of_their_side() {
        let a = of_delays("[\"1ms\", \"5ms\"]");
        let quiet = trials(0.8);
        let mut busy = trials(0.8);
        busy.iter_mut().for_each(|t| t.cpu_busy = Some(0.97));
        busy[3].broken.push("the path broke its promise".into());
        let unfinished = Provenance { state: store::State::Unfinished, ..a.clone() };
        let between = compare(Side { provenance: &a, trials: &quiet }, Side { provenance: &unfinished, trials: &busy });
        assert_eq!(between.notes[0], Vec::<String>::new());
        let [excluded, end, full] = &between.notes[1][..] else { panic!("{:?}", between.notes) };
        assert!(excluded == "1 of 10 trials do not count" && end.contains("end") && full.contains("97 % in use"));
    }
}
