//! The end of every conclusion: predictions that were missed, what was checked, what was lost; and
//! the conclusion of a plan from a file.

use std::collections::BTreeMap;

use paper::document::{Table, columns};
use quantity::p_value;

use crate::analysis;
use crate::conclusion::{
    Compared, Conclusion, effects_table, goodput_chart, judge, not_predicted, ping_charts, ping_distributions,
    predicted_change, predicted_in, table_of,
};
use crate::engine::Study;
use crate::misses;
use crate::named::Setting;
use crate::outcome::Trial;
use crate::plan::Plan;
use crate::response::{percent_of, quantity, visible};
use crate::sentence::Sentence;

/// The conclusion of a plan from a file: each level against the first, main effects and
/// interactions where there are several factors.
pub fn of_plan(study: &Study, trials: &[Trial], seed: u64) -> Conclusion {
    let mut conclusion = Conclusion { study: study.name.clone(), ..Conclusion::default() };
    for (part, plan) in study.plans.iter().enumerate() {
        if let [factor] = plan.factors.as_slice() {
            for level in 1..factor.levels.len() {
                let what = format!("{} {} against {}", factor.name, factor.levels[level], factor.levels[0]);
                let pair: [&[usize]; 2] = [&[0], &[level]];
                match analysis::compare(part, plan, trials, pair, plan.response, seed) {
                    Some(comparison) => {
                        let response = plan.response;
                        let predicted = predicted_change(study, part, trials, pair);
                        conclusion.compared.push(Compared { what, response, comparison, predicted });
                    }
                    None => conclusion.verdict.extend(without_ratio(part, plan, trials, pair, &what)),
                }
            }
        } else if !plan.factors.is_empty() {
            conclusion.tables.push(effects_table(part, plan, trials, &mut conclusion.verdict));
        }
        let predict = |levels: &[usize]| predicted_in(study, part, trials, levels);
        conclusion.tables.push(table_of(part, plan, trials, plan.response, seed, predict));
        conclusion.charts.extend(goodput_chart(part, plan, trials));
        conclusion.tables.extend(ping_distributions(part, plan, trials));
        conclusion.charts.extend(ping_charts(part, plan, trials));
        conclusion.notes.extend(not_predicted(study, part, trials));
    }
    if study.host.is_some() {
        conclusion.notes.push(
            "between real hosts the path is not known: a prediction takes the shortest round trip that was measured, and \
             queueing is the round trip above that"
                .into(),
        );
    }
    judge(study, &mut conclusion);
    let sentences: Vec<Sentence> = conclusion.compared.iter().map(Compared::sentence).collect();
    conclusion.verdict.splice(0..0, sentences);
    account(study, trials, seed, &mut conclusion);
    conclusion
}

/// Why two levels are not compared where a response can be zero, as the share of datagrams that
/// were lost; `None` where there are too few trials, or it is not.
fn without_ratio(part: usize, plan: &Plan, trials: &[Trial], pair: [&[usize]; 2], what: &str) -> Option<Sentence> {
    let values = pair.map(|levels| analysis::by_block(trials, part, levels, plan.response));
    let zero = values.iter().flat_map(|v| v.values()).filter(|v| **v == 0.0).count();
    let means = values.map(|v| stats::mean(&v.into_values().collect::<Vec<f64>>()));
    let [first, second] = [means[0]?, means[1]?].map(|mean| quantity(plan.response, mean));
    (zero > 0).then(|| {
        Sentence::from(format!("{what}: means of {} are {second} and {first}", plan.response))
            .and(format!("no ratio is given, as {zero} trials have none at all"))
    })
}

/// What every study checks and loses, from its trials, and which predictions were missed. The
/// verdict must be there already.
pub fn account(study: &Study, trials: &[Trial], seed: u64, conclusion: &mut Conclusion) {
    misses::report(study, trials, seed, conclusion);
    let mut held: BTreeMap<&str, u32> = BTreeMap::new();
    for (part, plan) in study.plans.iter().enumerate() {
        for trial in trials.iter().filter(|t| t.part == part) {
            // Figures differ from trial to trial, what was checked does not.
            for check in &trial.held {
                *held.entry(&check.what).or_default() += 1;
            }
            for text in &trial.broken {
                let place = trial.labels.join(", ");
                conclusion
                    .lost
                    .push(format!("{}, block {}, {place}: {text}; that trial is excluded", plan.name, trial.block));
            }
            if let Some(why) = &trial.evidence.refused {
                let text = format!("no packet could be read, so nothing is proved by packets ({why})");
                if !conclusion.lost.contains(&text) {
                    conclusion.lost.push(text);
                }
            }
            if trial.evidence.dropped > 0 {
                let (n, frames) = (trial.evidence.dropped, trial.evidence.frames);
                let place = format!("{}, block {}, {}", plan.name, trial.block, trial.labels.join(", "));
                conclusion.lost.push(format!("{place}: {n} frames not seen beside {frames} seen"));
            }
        }
        conclusion.verdict.extend(ignored(part, plan, trials));
        conclusion.notes.extend(analysis::full_machine(part, plan, trials));
        conclusion.notes.extend(analysis::order_notes(part, plan, trials));
    }
    let unanswered: Vec<Sentence> =
        study.plans.iter().enumerate().filter_map(|(p, plan)| lost(p, plan, trials)).collect();
    conclusion.verdict.splice(0..0, unanswered);
    conclusion.tables.extend(measures_table(&conclusion.compared));
    if trials.iter().any(|t| !t.pings.is_empty()) {
        conclusion.notes.push(
            "probes of one trial follow each other through the same queue, so they are not independent: the distance of their \
             distributions is shown without a p; the comparisons of trials have one"
                .into(),
        );
    }
    conclusion.checked.extend(held.into_iter().map(|(text, n)| format!("{text} (in {n} checks)")));
    let counted = trials.iter().filter(|t| t.counts()).count();
    conclusion.checked.push(format!("{counted} of {} trials count", trials.len()));
}

/// Sysctls that a congestion control which controls its rate itself does not look at:
/// `tcp_slow_start_after_idle_check()` and `tcp_cong_control()` of net/ipv4 leave one with
/// `cong_control` alone.
const OF_WINDOWS: [&str; 3] =
    ["net.ipv4.tcp_slow_start_after_idle", "net.ipv4.tcp_pacing_ss_ratio", "net.ipv4.tcp_pacing_ca_ratio"];

/// That the congestion control which ran ignores a sysctl that the plan sets.
fn ignored(part: usize, plan: &Plan, trials: &[Trial]) -> Option<Sentence> {
    let sysctl = plan.settings().filter_map(Setting::sysctl).find(|sysctl| OF_WINDOWS.contains(&sysctl.name()))?;
    let ran = trials.iter().filter(|t| t.part == part).filter_map(|t| t.congestion_control.as_deref());
    let bbr = ran.into_iter().find(|name| record::congestion::sets_its_rate(name))?;
    Some(format!("{}: {sysctl} changes nothing of {bbr}, which ran here and does not look at it", plan.name).into())
}

/// That a plan has combinations with too few trials for any figure, because others were excluded,
/// and why those were.
fn lost(part: usize, plan: &Plan, trials: &[Trial]) -> Option<Sentence> {
    let excluded: Vec<&Trial> = trials.iter().filter(|t| t.part == part && !t.counts()).collect();
    let without = |levels: &Vec<usize>| {
        analysis::of(trials, part, levels).count() < 2 && excluded.iter().any(|t| t.levels == *levels)
    };
    let combinations = analysis::combinations(plan);
    let empty = combinations.iter().filter(|levels| without(levels)).count();
    let reasons = excluded.iter().filter_map(|t| t.broken.first());
    let (first, of) = (reasons.clone().next()?, trials.iter().filter(|t| t.part == part).count());
    (empty > 0).then(|| {
        let n = excluded.len();
        let which = if empty == combinations.len() {
            "is not answered".into()
        } else {
            format!("is not answered for {empty} of {} combinations", combinations.len())
        };
        Sentence::from(format!("{}: what {} depends on {which}", plan.name, plan.response))
            .and(format!("{n} of {of} trials do not count, the first because of this: {first}"))
    })
}

/// How large and how sure each comparison is, by several measures; `None` where nothing is
/// compared.
pub fn measures_table(compared: &[Compared]) -> Option<Table> {
    let mut table = Table::new(
        "the comparisons by several measures",
        columns(
            ["what", "response"],
            [
                "change",
                "difference",
                "Hedges' g",
                "Cliff's delta",
                "p",
                "p permutation",
                "p Wilcoxon",
                "smallest seen",
                "n",
            ],
        ),
    )
    .with_basis("differences and tests are of pairs within blocks");
    for c in compared {
        let x = &c.comparison;
        table.push(vec![
            c.what.clone(),
            c.response.to_string(),
            percent_of(&x.ratio),
            quantity(c.response, x.difference.value),
            // A difference of many deviations says only that there was hardly any spread.
            if x.hedges_g.abs() < 100.0 { format!("{:.2}", x.hedges_g) } else { "—".into() },
            format!("{:.2}", x.cliffs_delta),
            p_value(x.p),
            p_value(x.permutation_p),
            x.wilcoxon_p.map_or_else(|| "-".into(), p_value),
            visible(x.smallest_seen).unwrap_or_else(|| "—".into()),
            x.ratio.n.to_string(),
        ]);
    }
    (!table.rows.is_empty()).then_some(table)
}

#[cfg(test)]
mod tests {
    use stats::Comparison;

    use super::*;
    use record::trial::Response;

    fn compared(a: &[f64], b: &[f64]) -> Compared {
        let comparison = Comparison::of(a, b, 1).unwrap();
        Compared { what: "x".into(), response: Response::Goodput, comparison, predicted: None }
    }

    #[test]
    fn why_nothing_is_predicted_is_noted_with_how_many_combinations_have_it() {
        let noted = |plan: &str| {
            let plan = crate::plan_file::parse("p.toml", plan).unwrap();
            let study = Study { name: "p".into(), builtin: false, plans: vec![plan], host: None };
            of_plan(&study, &[], 1).notes.into_iter().find(|note| note.contains("no prediction"))
        };
        let loopback = noted("[factors]\nover = [\"path\", \"loopback\"]\n[fixed]\nrate = \"1gbit\"\n");
        assert_eq!(
            loopback.as_deref(),
            Some("plan: no prediction of 1 of 2 combinations: loopback has no rate and no delay: hosts decide")
        );
        let all = noted("[fixed]\ndelay = \"1ms\"\n").unwrap();
        assert!(all.starts_with("plan: no prediction: the path has no rate"), "{all}");
        assert_eq!(noted("[fixed]\nrate = \"1gbit\"\ndelay = \"1ms\"\n"), None);
    }

    #[test]
    fn a_question_without_trials_is_in_the_verdict_with_the_reason() {
        let plan = "measure = \"goodput\"\nrepetitions = 2\n[fixed]\nrate = \"1gbit\"\n[factors]\nflows = [1, 4]\n";
        let plan = crate::plan_file::parse("p.toml", plan).unwrap();
        let study = Study { name: "p".into(), builtin: false, plans: vec![plan], host: None };
        let trial = |block, level, why: &[&str]| Trial {
            broken: why.iter().map(|&text| text.into()).collect(),
            ..Trial::of_goodput((0, block), level, 1e8)
        };
        let late = ["the path a to b: delay asked 0 ns, median 1.42 ms of n = 14"];
        let trials = [trial(0, 0, &[]), trial(0, 1, &late), trial(1, 0, &[]), trial(1, 1, &late)];
        let said = of_plan(&study, &trials, 1).verdict[0].to_string();
        assert!(said.contains("not answered for 1 of 2 combinations; 2 of 4 trials do not count"), "{said}");
        assert!(said.ends_with(late[0]), "{said}");
        let all = [trial(0, 0, &late), trial(0, 1, &late)];
        let said = of_plan(&study, &all, 1).verdict[0].to_string();
        assert!(said.contains("is not answered; 2 of 2 trials do not count"), "{said}");
        let none = [trial(0, 0, &[]), trial(0, 1, &[]), trial(1, 0, &[]), trial(1, 1, &[])];
        assert!(!of_plan(&study, &none, 1).verdict[0].to_string().contains("answered"));
    }

    #[test]
    fn a_sysctl_that_the_congestion_control_ignores_is_said_to_be() {
        let plan = "repetitions = 2\n[factors]\n\"net.ipv4.tcp_slow_start_after_idle\" = [1, 0]\n";
        let plan = crate::plan_file::parse("p.toml", plan).unwrap();
        let study = Study { name: "p".into(), builtin: false, plans: vec![plan], host: None };
        let said = |ran: &str| {
            let one = |level| Trial { congestion_control: Some(ran.into()), ..Trial::of_goodput((0, 0), level, 1e8) };
            of_plan(&study, &[one(0), one(1)], 1).verdict.iter().any(|s| s.to_string().contains("changes nothing of"))
        };
        assert!(said("bbr") && !said("cubic"));
    }

    #[test]
    fn a_plan_of_ones_own_says_what_was_predicted_of_its_change() {
        let plan = "workload = \"rr\"\nmeasure = \"latency_p50\"\nrepetitions = 3\n[fixed]\nrate = \"1gbit\"\n\
                    [factors]\ndelay = [\"5ms\", \"10ms\"]\n";
        let plan = crate::plan_file::parse("p.toml", plan).unwrap();
        let study = Study { name: "p".into(), builtin: false, plans: vec![plan], host: None };
        let mut trials = Vec::new();
        for block in 0..3u32 {
            for (level, took) in [(0, 10.1e6), (1, 20.1e6)] {
                let mut trial = Trial::of_goodput((0, block), level, 0.0);
                trial.responses.insert(Response::LatencyP50, took + f64::from(block) * 1e3);
                trials.push(trial);
            }
        }
        let said = of_plan(&study, &trials, 1);
        assert!((said.compared[0].predicted.unwrap() - 1.0).abs() < 0.01, "{:?}", said.compared);
        assert!(said.verdict[0].to_string().contains("predicted +100.0 %"), "{:?}", said.verdict);
        assert!(!said.notes.iter().any(|note| note.contains("no prediction")), "{:?}", said.notes);
    }

    #[test]
    fn an_effect_of_many_times_that_is_not_known_is_not_said_to_be_none() {
        let plan = "repetitions = 3\n[factors]\nflows = [1, 2]\nwrite = [1000, 2000]\n";
        let plan = crate::plan_file::parse("p.toml", plan).unwrap();
        let study = Study { name: "p".into(), builtin: false, plans: vec![plan], host: None };
        let mut trials = Vec::new();
        for (block, times) in [2.0, 5.0, 12.5].into_iter().enumerate() {
            for (levels, factor) in [([0, 0], 1.0), ([0, 1], 1.0), ([1, 0], times), ([1, 1], times)] {
                let goodput = 1e8 * factor;
                trials.push(Trial { levels: levels.into(), ..Trial::of_goodput((0, block as u32), 0, goodput) });
            }
        }
        let verdict: Vec<String> = of_plan(&study, &trials, 1).verdict.iter().map(ToString::to_string).collect();
        assert!(verdict[0].contains("flows 2 against 1") && verdict[0].contains("cannot be judged"), "{verdict:?}");
        assert!(!verdict.iter().any(|said| said.contains("no effect on")), "{verdict:?}");
    }

    #[test]
    fn figures_that_say_nothing_are_withheld() {
        let wild = compared(&[1.0, 1.0], &[1e3, 1e-3]);
        let text = wild.sentence().to_string();
        assert!(
            text.contains("goodput cannot be judged by 2 blocks")
                && text.contains("more blocks")
                && !text.contains('%'),
            "{text}"
        );
        let exact = compared(&[1.0, 1.0, 1.000_001], &[2.0, 2.0, 2.000_001]);
        let table = measures_table(&[wild, exact]).unwrap();
        let column = |row: usize, name: &str| table.written(row)[table.column(name).unwrap()].clone();
        assert!(column(0, "change").starts_with("not known: ") && column(0, "smallest seen") == "—");
        assert_eq!(column(1, "Hedges' g"), "—");
        assert!(column(1, "change").starts_with("+100.0 %"));
    }
}
