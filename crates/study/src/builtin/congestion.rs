//! Which congestion control gives what, at which delay, loss and queue: goodput, retransmissions, queueing delay, and
//! fairness between two flows of a kind and against each other.

use super::{Builtin, SECOND_NS};
use crate::analysis::{self, quantity_of};
use crate::conclusion::{self, Conclusion, Table, table_of};
use crate::engine::Study;
use crate::plan::{Factor, Plan};
use crate::trial::Trial;

pub(super) const BUILTIN: Builtin = Builtin {
    name: "congestion",
    about: "every congestion control that the kernel has, over delay, loss and queue: goodput, queueing delay, fairness",
    plans,
    conclude,
    between_hosts,
    concludes_between_hosts: false,
};

/// The congestion controls that this kernel has loaded; the ones that are always built in where the list cannot be read.
fn available() -> Vec<String> {
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap_or_default();
    let mut names: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
    names.sort_by_key(|n| n != "cubic");
    if names.is_empty() { vec!["cubic".into(), "reno".into()] } else { names }
}

fn plans(quick: bool) -> Vec<Plan> {
    let names = available();
    let (repetitions, seconds) = if quick { (3, 1) } else { (6, 8) };
    let plan = |name: &str, factors: Vec<Factor>, fixed: &[(&str, &str)], response: &str| Plan {
        name: name.into(),
        factors,
        fixed: fixed.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect(),
        response: response.into(),
        repetitions,
        duration_ns: seconds * SECOND_NS,
        warm_up_ns: if quick { 1 } else { 2 } * SECOND_NS,
        frames: 2_000,
    };
    let (delays, losses, queues): (&[&str], &[&str], &[&str]) = if quick {
        (&["10ms"], &["0%", "1%/0%"], &["20ms"])
    } else {
        (&["5ms", "25ms", "100ms"], &["0%", "0.1%/0%", "1%/0%"], &["10ms", "100ms"])
    };
    let mut single = vec![Factor::new("congestion", &names)];
    single.extend([("delay", delays), ("loss", losses), ("queue", queues)].map(|(n, l)| Factor::new(n, l)));
    let path = [("rate", "100mbit"), ("delay", "10ms"), ("queue", "40ms")];
    vec![
        plan("one flow, 100 Mbit/s", single, &[("rate", "100mbit")], "goodput"),
        plan(
            "two flows of a kind, 100 Mbit/s, 20 ms round trip, 40 ms queue",
            vec![Factor::new("congestion", &names)],
            &[&path[..], &[("flows", "2")]].concat(),
            "fairness",
        ),
        plan(
            "one flow against one of another kind, same path",
            vec![Factor::new("congestion", &names), Factor::new("rival", &names)],
            &path,
            "rival_share",
        ),
    ]
}

/// The same questions of a path that is as it is.
fn between_hosts(quick: bool) -> Vec<Plan> {
    let mut plans = plans(quick);
    for plan in &mut plans {
        plan.factors.retain(|f| ["congestion", "rival"].contains(&f.name.as_str()));
        plan.fixed.retain(|(name, _)| name == "flows");
    }
    for (plan, name) in
        plans.iter_mut().zip(["one flow", "two flows of a kind", "one flow against one of another kind"])
    {
        plan.name = name.into();
    }
    plans
}

fn conclude(study: &Study, trials: &[Trial], seed: u64) -> Conclusion {
    let mut c = Conclusion { study: study.name.clone(), ..Conclusion::default() };
    for (part, plan) in study.plans.iter().enumerate() {
        match part {
            0 => {
                c.verdict.extend(best(part, plan, trials, seed));
                c.tables.push(conclusion::effects_table(part, plan, trials, seed, &mut c.verdict));
                for response in ["goodput", "queueing", "retransmitted"] {
                    let predicted = |levels: &[usize]| {
                        if response == "goodput" { conclusion::prediction(plan, levels) } else { None }
                    };
                    let mut table = table_of(part, plan, trials, response, seed, predicted);
                    table.title = format!("{}: {response}", plan.name);
                    c.tables.push(table);
                }
            }
            1 => c.tables.push(table_of(part, plan, trials, "fairness", seed, |_| None)),
            _ => c.tables.push(rivals(part, plan, trials, seed)),
        }
    }
    c.notes.push(
        "predicted goodput is the lesser of framing and loss: Mathis' formula for reno, RFC 9438's for cubic, both for \
         independent loss up to 1 % without time-outs; bbr does not take such loss for congestion and has no bound here"
            .into(),
    );
    c.notes.push("queueing is the smoothed round trip less the path's own, median over each trial".into());
    conclusion::account(study, trials, &mut c);
    c
}

/// For each path, which congestion control had the highest mean goodput, and with which queueing.
fn best(part: usize, plan: &Plan, trials: &[Trial], seed: u64) -> Vec<String> {
    let rest: Vec<Vec<usize>> =
        analysis::combinations(plan).into_iter().filter(|l| l[0] == 0).map(|l| l[1..].to_vec()).collect();
    let mut sentences = Vec::new();
    for path in rest {
        let at = |name: usize| -> Vec<usize> { std::iter::once(name).chain(path.iter().copied()).collect() };
        let mut found: Vec<(String, stats::Estimate, Option<stats::Estimate>)> = Vec::new();
        for (i, name) in plan.factors[0].levels.iter().enumerate() {
            if let Some(e) = analysis::estimate(trials, part, &at(i), "goodput", seed) {
                found.push((name.clone(), e, analysis::estimate(trials, part, &at(i), "queueing", seed)));
            }
        }
        found.sort_by(|a, b| b.1.value.total_cmp(&a.1.value));
        let words: Vec<String> = found
            .iter()
            .map(|(name, goodput, queueing)| {
                let queueing = queueing.map_or_else(String::new, |q| {
                    format!(" with {} queueing", analysis::quantity("queueing", q.value))
                });
                format!("{name} {}{queueing} (n = {})", analysis::quantity("goodput", goodput.value), goodput.n)
            })
            .collect();
        let label = plan.label(&at(0))[1..].join(", ");
        let names: Vec<&str> = plan.factors[1..].iter().map(|f| f.name.as_str()).collect();
        if !words.is_empty() {
            sentences.push(format!("{} {label}: {}", names.join("/"), words.join("; ")));
        }
    }
    sentences
}

fn rivals(part: usize, plan: &Plan, trials: &[Trial], seed: u64) -> Table {
    let mut table = Table::new(&plan.name, &["flow", "rival", "the rival's share of goodput", "95 % interval", "n"]);
    for levels in analysis::combinations(plan) {
        let mut row = plan.label(&levels);
        row.extend(quantity_of("rival_share", analysis::estimate(trials, part, &levels, "rival_share", seed).as_ref()));
        table.rows.push(row);
    }
    table
}
