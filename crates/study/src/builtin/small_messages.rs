//! At which message size does a transaction stall, and which timer releases it?
//!
//! Swept over sizes dense around half the largest segment and the whole one, where kernels have had
//! their rules: Linux 2.2 delayed the ACK of segments below half the MSS, and held a FIN until it
//! came.

use super::Builtin;
use crate::account;
use crate::analysis::{self, of};
use crate::conclusion::{self, Conclusion};
use crate::engine::Study;
use crate::misses;
use crate::named::Known;
use crate::outcome::Trial;
use crate::plan::{Factor, Plan};
use crate::predict;
use crate::response::quantity;
use crate::sentence::Sentence;
use diagnose::FindingKind;
use paper::document::{Column, Row, Table, columns};
use record::Nanos;
use record::trial::Response;

pub(super) const BUILTIN: Builtin = Builtin {
    name: "small-messages",
    about: "transactions a second over message size, write pattern and socket option: where the curve breaks, and why",
    plans,
    conclude,
    between_hosts,
    concludes_between_hosts: true,
};

/// The MSS with timestamps over Ethernet is 1,448; half of it is 724.
const QUICK: [u32; 8] = [10, 723, 724, 1_024, 1_447, 1_448, 2_896, 16_384];
const ALL: [u32; 32] = [
    1, 10, 32, 64, 100, 200, 400, 600, 700, 720, 722, 723, 724, 725, 728, 800, 1_024, 1_200, 1_400, 1_440, 1_446,
    1_447, 1_448, 1_449, 1_500, 2_000, 2_894, 2_895, 2_896, 4_096, 16_384, 65_536,
];

/// Trials at a size, below which chance alone could set two sizes apart.
const FEWEST: usize = 3;

/// Exchanges of a fraction of a second vary on a busy machine; a stall is a matter of several
/// times.
const SMALLEST: f64 = 1.3;

/// The reference's exchanges a second, with Linux 2.2.1.
const REFERENCE: [(u32, f64); 4] = [(10, 46.51), (723, 47.68), (724, 279.62), (1_024, 300.92)];

/// Which plan makes a connection for each exchange, as the reference did.
const CRR: usize = 1;
/// Which plan sets loopback beside a path; the others sweep sizes.
const LOOPBACK: usize = 2;
/// What the plans that sweep sizes are called in a sentence.
const SWEPT: [Option<&str>; 4] = [Some("rr"), Some("crr"), None, Some("crr at fewer sizes")];

fn plans(quick: bool) -> Vec<Plan> {
    let sizes: &[u32] = if quick { &QUICK } else { &ALL };
    let plan = |name: &str, factors: Vec<Factor>, fixed: &[(Known, &str)]| Plan {
        name: name.into(),
        factors,
        fixed: fixed.iter().map(|(known, value)| ((*known).into(), (*value).to_owned())).collect(),
        response: Response::Transactions,
        repetitions: if quick { 3 } else { 4 },
        // Nine exchanges that each wait for a delayed ACK: a step of several times is seen in
        // fewer.
        duration: Nanos::from_millis(400),
        warm_up: Nanos::from_millis(100),
        frames: 1_500,
        until: None,
    };
    let options: &[&str] = if quick { &["default", "nodelay"] } else { &["default", "nodelay", "cork", "quickack"] };
    let few: &[u32] = if quick { &[100, 1_448] } else { &[10, 723, 724, 1_448, 16_384] };
    let some: &[u32] = if quick { &[10, 1_448] } else { &[10, 723, 724, 1_447, 1_448, 2_894, 2_895, 2_896, 16_384] };
    let path = [(Known::Rate, "100mbit"), (Known::Delay, "500us"), (Known::Request, "4")];
    vec![
        plan(
            "rr through a path (100 Mbit/s, 1 ms round trip)",
            vec![
                Factor::new(Known::ResponseWrites, [1, 2]),
                Factor::new(Known::Socket, options),
                Factor::new(Known::Response, sizes.iter().filter(|s| **s > 1)),
            ],
            &[&path[..], &[(Known::Workload, "rr")]].concat(),
        ),
        plan(
            "crr through a path (100 Mbit/s, 1 ms round trip)",
            vec![
                Factor::new(Known::ResponseWrites, [1]),
                Factor::new(Known::Socket, ["default"]),
                Factor::new(Known::Response, sizes),
            ],
            &[&path[..], &[(Known::Workload, "crr")]].concat(),
        ),
        plan(
            "loopback against the path, IPv4 against IPv6",
            vec![
                Factor::new(Known::Over, ["path", "loopback"]),
                Factor::new(Known::Family, ["ipv4", "ipv6"]),
                Factor::new(Known::Response, few),
            ],
            &[(Known::Workload, "rr"), (Known::Request, "4")],
        ),
        plan(
            "crr at fewer sizes through the same path, by write pattern and option",
            vec![
                Factor::new(Known::ResponseWrites, [1, 2]),
                Factor::new(Known::Socket, options),
                Factor::new(Known::Response, some),
            ],
            &[&path[..], &[(Known::Workload, "crr")]].concat(),
        ),
    ]
}

/// The same sweeps over a path that is as it is.
fn between_hosts(quick: bool) -> Vec<Plan> {
    let ours = [Known::Rate, Known::Delay, Known::Mtu, Known::Over, Known::Family];
    let mut plans = plans(quick);
    plans.truncate(2);
    for plan in &mut plans {
        plan.fixed.retain(|(setting, _)| !ours.iter().any(|known| setting == known));
        plan.name = plan.name.replace(" a path (100 Mbit/s, 1 ms round trip)", " the real path");
    }
    plans
}

fn conclude(study: &Study, trials: &[Trial], seed: u64) -> Conclusion {
    let mut c = Conclusion { study: study.name.clone(), ..Conclusion::default() };
    let mut said = Said::default();
    for (part, plan) in study.plans.iter().enumerate().filter(|(part, _)| *part != LOOPBACK) {
        curves(part, plan, trials, &mut c, &mut said);
    }
    said.breaks.sort_by(|a, b| b.0.total_cmp(&a.0));
    c.verdict.extend(said.breaks.iter().map(|b| b.1.clone()));
    if let Some(plan) = study.plans.get(LOOPBACK) {
        c.tables.push(conclusion::effects_table(LOOPBACK, plan, trials, &mut c.verdict));
        c.tables.push(conclusion::table_of(LOOPBACK, plan, trials, plan.response, seed, |_| None));
    }
    let breaks_as_then = said.breaks_as_then;
    c.verdict.extend(said.others());
    let mut beside = Table::new("beside the reference", columns([], ["response bytes", "1999", "here", "n"]))
        .with_basis("Linux 2.2.1, a connection each, exchanges a second");
    if let Some(plan) = study.plans.get(CRR) {
        for (size, then) in REFERENCE {
            let level = plan.factors[2].levels.iter().position(|l| *l == size.to_string());
            let here = level.and_then(|l| analysis::estimate(trials, CRR, &[0, 0, l], plan.response, seed));
            let (text, n) = here.map_or(("-".into(), 0), |e| (quantity(Response::Transactions, e.value), e.n));
            beside.push(vec![size.to_string(), quantity(Response::Transactions, then), text, n.to_string()]);
        }
        c.notes.push(if breaks_as_then {
            "the step of 1999 at 724 bytes, half the MSS, is there on this kernel too".into()
        } else {
            "the step of 1999 at 724 bytes, half the MSS, was not seen with a connection each: later kernels send a FIN \
             without waiting for the ACK of what went before it (Nagle's algorithm held it in 2.2), so no exchange waits for the \
             20 ms that the client delayed its ACK of a segment below half the MSS. A response in two writes still waits for \
             a delayed ACK, of 40 ms today (TCP_DELACK_MIN), unless TCP_NODELAY is set or its last segment is full"
                .into()
        });
    }
    c.tables.push(beside);
    c.notes.extend(held_up(study, trials));
    c.notes.push(
        "predicted: one exchange takes a round trip (with a connection each two) and the time of its frames on the wire; where \
         Nagle's algorithm holds the second write it waits for the ACK of the first, which the client delays by 40 ms, or sends at \
         once with TCP_QUICKACK. It excludes the hosts' own time, so it is an upper bound; timers of a kernel with 250 \
         ticks a second end up to 4 ms late"
            .into(),
    );
    account::account(study, trials, seed, &mut c);
    c
}

/// What is said of the curves.
#[derive(Default)]
struct Said {
    /// Those that break, or are slow all along: by which factor, and in words.
    breaks: Vec<(f64, Sentence)>,
    /// Those that do neither: over which sizes, of what, with which option, and the median rate.
    even: Vec<(String, String, String, f64)>,
    /// Those with too few trials for a verdict.
    short: Vec<Sentence>,
    /// Whether a rate breaks at half the MSS where each exchange has a connection, as in 1999.
    breaks_as_then: bool,
}

impl Said {
    /// Of the curves that do not break: a sentence for each range of sizes.
    fn others(self) -> Vec<Sentence> {
        let curves =
            self.even.into_iter().map(|(range, of, option, median)| (range, (of, format!("{option} {median:.1}"))));
        let even = grouped(curves).into_iter().map(|(range, curves)| {
            let none = Sentence::from(format!("No step of 30 % or more {range}, by median transactions a second"));
            grouped(curves)
                .into_iter()
                .fold(none, |sentence, (of, all)| sentence.and(format!("{of}: {}", all.join(", "))))
        });
        even.chain(self.short).collect()
    }
}

/// What has the same name together, in the order in which the names first come.
fn grouped<T>(items: impl IntoIterator<Item = (String, T)>) -> Vec<(String, Vec<T>)> {
    let mut groups: Vec<(String, Vec<T>)> = Vec::new();
    for (name, item) in items {
        match groups.iter_mut().find(|g| g.0 == name) {
            Some(group) => group.1.push(item),
            None => groups.push((name, vec![item])),
        }
    }
    groups
}

/// One curve for each combination of write pattern and option: its steps, and for each what the
/// packets say of the slow side.
fn curves(part: usize, plan: &Plan, trials: &[Trial], c: &mut Conclusion, said: &mut Said) {
    let sizes: Vec<f64> = plan.factors[2].levels.iter().filter_map(|l| l.parse().ok()).collect();
    let mut head: Vec<String> = vec!["response bytes".into()];
    let mut columns: Vec<Vec<String>> = vec![plan.factors[2].levels.clone()];
    let (mut fewest, mut most) = (usize::MAX, 0);
    for (w, writes) in plan.factors[0].levels.iter().enumerate() {
        for (o, option) in plan.factors[1].levels.iter().enumerate() {
            let written = format!("{writes} write{}", if writes == "1" { "" } else { "s" });
            let of = format!("{}, {written}", SWEPT.get(part).copied().flatten().unwrap_or(&plan.name));
            let curve = format!("{of}, {option}");
            let points: Vec<(f64, f64)> = sizes
                .iter()
                .enumerate()
                .flat_map(|(i, size)| {
                    let values = analysis::by_block(trials, part, &[w, o, i], plan.response).into_values();
                    values.map(move |v| (*size, v)).collect::<Vec<_>>()
                })
                .collect();
            let mut steps =
                stats::steps(&points, stats::Search { smallest_ratio: SMALLEST, ..stats::Search::default() });
            // The search fits slopes to either side, which few sizes leave to chance: what counts
            // is what was measured at the two sizes next to the break.
            let at = |size: f64| {
                let values: Vec<f64> = points.iter().filter(|p| p.0 == size).map(|p| p.1).collect();
                stats::median(&values).filter(|m| *m > 0.0)
            };
            steps.retain_mut(|step| {
                let Some((before, beyond)) = at(step.after).zip(at(step.at)) else { return false };
                let agrees = (step.ratio > 1.0) == (beyond > before);
                step.ratio = beyond / before;
                agrees && breaks(step.ratio, step.after, step.at) && apart(&points, step.after, step.at)
            });
            let least = sizes.iter().map(|s| points.iter().filter(|p| p.0 == *s).count()).min().unwrap_or(0);
            if least < FEWEST {
                let few = format!(
                    "{curve}: too few trials to look for steps (n = {least} at some size, {FEWEST} are needed)"
                );
                said.short.push(few.into());
                steps.clear();
            }
            if let (true, Some(median)) =
                (steps.is_empty() && least >= FEWEST, stats::median(&points.iter().map(|p| p.1).collect::<Vec<_>>()))
            {
                let stalled = stalled(plan, [w, o]);
                if (median / stalled - 1.0).abs() < 0.15 {
                    let unstalled = conclusion::prediction(plan, &[w, o, 0]).map_or(stalled, |p| p.value);
                    let cause = cause(part, trials, &[w, o, 0]);
                    let waits = format!(
                        "{curve}: every exchange waits for a delayed ACK ({median:.1} a second, predicted {stalled:.1})"
                    );
                    said.breaks.push((unstalled.max(stalled) / median, Sentence::from(waits).and(cause)));
                } else {
                    let range = format!("from {} to {} bytes", sizes[0], sizes[sizes.len() - 1]);
                    said.even.push((range, of.clone(), option.clone(), median));
                }
            }
            for step in steps {
                let (slow_at, direction) = if step.ratio > 1.0 { (step.after, "rises") } else { (step.at, "falls") };
                let level = sizes.iter().position(|s| *s == slow_at).unwrap_or(0);
                let factor = step.ratio.max(1.0 / step.ratio);
                let words = Sentence::from(format!(
                    "{curve}: the rate {direction} by a factor of {factor:.2} at {} bytes (the break lies above {} and at or below {})",
                    step.at, step.low, step.high
                ))
                .and(cause(part, trials, &[w, o, level]));
                said.breaks.push((factor, words));
                said.breaks_as_then |= part == CRR && step.low < 724.0 && step.high >= 724.0;
                c.steps.push((curve.clone(), step));
            }
            head.push(format!("{written}, {option}"));
            let column = (0..sizes.len()).map(|i| {
                let values: Vec<f64> =
                    analysis::by_block(trials, part, &[w, o, i], plan.response).into_values().collect();
                (fewest, most) = (fewest.min(values.len()), most.max(values.len()));
                let predicted =
                    conclusion::prediction(plan, &[w, o, i]).map_or_else(|| "-".into(), |p| format!("{:.1}", p.value));
                stats::median(&values).map_or_else(|| "-".into(), |m| format!("{m:.1} ({predicted})"))
            });
            columns.push(column.collect());
        }
    }
    let n = if fewest == most { most.to_string() } else { format!("{fewest} to {most}") };
    let title = format!("{}: transactions a second, median of n = {n}", plan.name);
    let mut table = Table::new(title, head.into_iter().map(Column::figures)).with_basis("predicted");
    table.extend((0..sizes.len()).map(|i| Row::of(columns.iter().map(|column| &column[i]))));
    c.tables.push(table);
}

/// Whether the rate changes by more than the bytes account for: where each byte costs the same, it
/// falls by the ratio of the sizes at most, as it nearly does from 8 to 16 KiB, and never rises.
fn breaks(ratio: f64, before: f64, beyond: f64) -> bool {
    ratio.max(before / beyond / ratio) >= SMALLEST
}

/// Whether every trial at one size is above every one at the other: a machine with other work makes
/// single trials slow at any size, and a step that some trials do not show is none.
fn apart(points: &[(f64, f64)], one: f64, other: f64) -> bool {
    let of = |size: f64| points.iter().filter(move |p| p.0 == size).map(|p| p.1);
    let least = |size: f64| of(size).fold(f64::INFINITY, f64::min);
    let most = |size: f64| of(size).fold(f64::NEG_INFINITY, f64::max);
    most(one) < least(other) || most(other) < least(one)
}

/// Whether something in the packets of a trial accounts for its being slow.
fn explained(trial: &Trial) -> bool {
    trial.evidence.findings.iter().any(|f| f.cost_ns > Nanos::ZERO && !misses::is_of_every_exchange(f))
}

/// How many trials stayed below half of what was predicted without a cause in their packets.
fn held_up(study: &Study, trials: &[Trial]) -> Option<String> {
    let slow = |t: &&Trial| {
        let predicted = study.plans.get(t.part).and_then(|p| conclusion::prediction(p, &t.levels));
        let rate = t.response(Response::Transactions);
        t.counts() && predicted.zip(rate).is_some_and(|(p, r)| r < p.value / 2.0) && !explained(t)
    };
    let n = trials.iter().filter(slow).count();
    (n > 0).then(|| {
        format!(
            "{n} of {} trials stayed below half of their prediction, and their packets show no cause: this machine was busy \
             with other work. Run the study on an idle one",
            trials.len()
        )
    })
}

/// The costliest finding in the packets of a combination's trials.
fn cause(part: usize, trials: &[Trial], levels: &[usize]) -> String {
    let found = misses::costliest(of(trials, part, levels));
    let frames = found.frames;
    match &found.finding {
        Some(f) => format!(
            "on the slow side the packets show {}, {} times for {} together in {frames} frames: {} (packets {})",
            FindingKind::words_of(&f.kind),
            f.count,
            quantity(Response::LatencyP50, f.cost_ns.0 as f64),
            f.text,
            f.packets.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")
        ),
        None => found.no_cause("the packets of the slow side"),
    }
}

/// Exchanges a second where each of them waits for a delayed ACK.
fn stalled(plan: &Plan, [w, o]: [usize; 2]) -> f64 {
    let round_trip_s = plan.setup(&[w, o, 0]).ok().and_then(|s| s.round_trip_s()).unwrap_or(0.0);
    predict::delayed_ack_exchanges(round_trip_s)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_bytes_themselves_take_is_no_step() {
        assert!(!breaks(1.0 / 1.86, 8192.0, 16384.0), "twice the bytes, 1.86 times the time");
        assert!(breaks(1.0 / 3.0, 8192.0, 16384.0));
        assert!(breaks(1.5, 8192.0, 16384.0), "a rate that rises with the size");
        assert!(breaks(0.7, 723.0, 724.0) && !breaks(0.8, 723.0, 724.0));
    }

    #[test]
    fn curves_that_do_not_break_share_a_sentence_for_each_range() {
        let mut said = Said::default();
        for (range, of, option, median) in [
            ("from 10 to 20 bytes", "rr, 1 write", "default", 863.84),
            ("from 10 to 20 bytes", "rr, 1 write", "cork", 866.2),
            ("from 1 to 20 bytes", "crr, 1 write", "default", 430.0),
            ("from 10 to 20 bytes", "rr, 2 writes", "cork", 867.5),
        ] {
            said.even.push((range.into(), of.into(), option.into(), median));
        }
        let sentences = said.others();
        assert_eq!(sentences.len(), 2);
        assert!(
            sentences[0].to_string().ends_with("rr, 1 write: default 863.8, cork 866.2; rr, 2 writes: cork 867.5"),
            "{sentences:?}"
        );
        let last = sentences[1].to_string();
        assert!(last.contains("from 1 to 20 bytes") && last.ends_with("crr, 1 write: default 430.0"));
    }

    #[test]
    fn a_step_is_there_in_every_trial_or_not_at_all() {
        let calm = [(723.0, 22.5), (723.0, 22.4), (723.0, 22.6), (724.0, 900.0), (724.0, 880.0), (724.0, 910.0)];
        assert!(apart(&calm, 723.0, 724.0) && apart(&calm, 724.0, 723.0));
        // The median says a factor of three; one trial that was held up at either size says nothing
        // of the size.
        let busy = [(723.0, 870.0), (723.0, 300.0), (723.0, 290.0), (724.0, 900.0), (724.0, 880.0), (724.0, 310.0)];
        assert!(!apart(&busy, 723.0, 724.0));
    }
}
