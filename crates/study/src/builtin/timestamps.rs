//! What do TCP timestamps cost, and what does turning them off lose?
//!
//! Twelve bytes of every segment's header: 1448/1538 against 1460/1538 of a saturated Ethernet, 0.83 %. What they give is
//! a round-trip sample for each ACK, also of retransmitted data, and protection against wrapped sequence numbers, so a
//! lossy path is measured too.

use std::collections::BTreeMap;

use super::{ALL_FRAMES, Builtin, SECOND_NS};
use crate::analysis::{self, of, quantity};
use crate::conclusion::{self, Compared, Conclusion, Table, table_of};
use crate::engine::Study;
use crate::plan::{Factor, Plan};
use crate::predict;
use crate::trial::Trial;

pub(super) const BUILTIN: Builtin = Builtin {
    name: "timestamps",
    about: "what TCP timestamps cost at 1 Gbit/s and at full speed, and what turning them off loses under loss",
    plans,
    conclude,
};

const SYSCTL: &str = "net.ipv4.tcp_timestamps";

fn plans(quick: bool) -> Vec<Plan> {
    let plan = |name: &str, fixed: &[(&str, &str)], repetitions, seconds| Plan {
        name: name.into(),
        factors: vec![Factor::new(SYSCTL, [1, 0])],
        fixed: fixed.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect(),
        response: "goodput".into(),
        repetitions,
        duration_ns: seconds * SECOND_NS,
        warm_up_ns: SECOND_NS,
        frames: ALL_FRAMES,
    };
    let (repetitions, seconds) = if quick { (5, 1) } else { (10, 2) };
    vec![
        plan("at 1 Gbit/s", &[("rate", "1gbit"), ("congestion", "cubic")], repetitions, seconds),
        plan("at full speed", &[("congestion", "cubic")], repetitions, seconds),
        plan(
            "1 % loss, 20 ms round trip, 100 Mbit/s",
            &[("rate", "100mbit"), ("delay", "10ms"), ("loss", "1%/0%"), ("congestion", "cubic")],
            repetitions,
            seconds + 2,
        ),
    ]
}

/// The reference's ten runs each, Gbit/s on 10 Gbit/s Ethernet.
const REFERENCE_ON: [f64; 10] = [9.39, 9.4, 9.4, 9.4, 9.39, 9.4, 9.39, 9.39, 9.38, 9.39];
const REFERENCE_OFF: [f64; 10] = [9.46, 9.46, 9.45, 9.47, 9.49, 9.47, 9.46, 9.48, 9.46, 9.47];

fn conclude(study: &Study, trials: &[Trial], seed: u64) -> Conclusion {
    let mut c = Conclusion { study: study.name.clone(), ..Conclusion::default() };
    let framing = predict::framing(1.0, 1_500, false, 20) / predict::framing(1.0, 1_500, false, 32) - 1.0;
    for (part, plan) in study.plans.iter().enumerate() {
        let mut responses = vec!["goodput"];
        if part == 2 {
            responses.extend(["round_trip", "rtt_deviation", "retransmitted"]);
        }
        for response in responses {
            if let Some(comparison) = analysis::compare(trials, part, [&[0], &[1]], response, seed) {
                let what = format!("Timestamps off {}", plan.name.replace("1 % loss", "with 1 % loss"));
                // At full speed the processor decides, not the wire.
                let predicted = (part == 0 && response == "goodput").then_some(framing);
                let holm_p = comparison.student_p;
                c.compared.push(Compared { what, response: response.into(), comparison, holm_p, predicted });
            }
        }
    }
    conclusion::correct(&mut c.compared);
    c.verdict = c.compared.iter().map(Compared::sentence).collect();
    for (part, plan) in study.plans.iter().enumerate() {
        c.tables.push(table_of(part, plan, trials, "goodput", seed, |levels| conclusion::prediction(plan, levels)));
    }
    c.tables.push(headers(study, trials));
    if let Some(reference) = stats::Comparison::of(&REFERENCE_ON, &REFERENCE_OFF, seed) {
        let mut table = Table::new(
            "beside the reference (10 Gbit/s Ethernet, 2 s, ten runs each)",
            &["", "reference", "here, 1 Gbit/s", "predicted"],
        );
        let here = c.compared.iter().find(|x| x.predicted.is_some()).map(|x| x.comparison);
        table.rows.push(vec![
            "timestamps off against on".into(),
            analysis::percent_of(&reference.ratio),
            here.map_or_else(|| "-".into(), |h| analysis::percent_of(&h.ratio)),
            analysis::percent(framing),
        ]);
        for (name, values, level, header) in [("on", REFERENCE_ON, 0, 32), ("off", REFERENCE_OFF, 1, 20)] {
            let share = |rate: f64, line: f64| format!("{:.2} % of the line", rate / line * 100.0);
            let here = analysis::estimate(trials, 0, &[level], "goodput", seed);
            table.rows.push(vec![
                format!("timestamps {name}"),
                share(stats::median(&values).unwrap_or(f64::NAN), 10.0),
                here.map_or_else(|| "-".into(), |e| share(e.value, 1e9)),
                share(predict::framing(1.0, 1_500, false, header), 1.0),
            ]);
        }
        c.tables.push(table);
    }
    c.tables.push(lossy(trials, seed));
    c.notes.push(
        "without timestamps a connection has no protection against wrapped sequence numbers (PAWS, RFC 7323 section 5): \
         at 1 Gbit/s they wrap after 34 s"
            .into(),
    );
    conclusion::account(study, trials, &mut c);
    c
}

/// TCP header lengths of all frames with payload that were seen.
fn headers(study: &Study, trials: &[Trial]) -> Table {
    let mut table = Table::new("TCP header length, frames with payload", &["", "timestamps", "bytes", "frames"]);
    for (part, plan) in study.plans.iter().enumerate().take(2) {
        for (level, name) in [(0, "on"), (1, "off")] {
            let mut counts: BTreeMap<u8, u64> = BTreeMap::new();
            for trial in of(trials, part, &[level]) {
                trial.evidence.header_bytes.iter().for_each(|(length, n)| *counts.entry(*length).or_default() += n);
            }
            let all: u64 = counts.values().sum();
            for (length, n) in counts {
                table.rows.push(vec![plan.name.clone(), name.into(), length.to_string(), format!("{n} of {all}")]);
            }
        }
    }
    table
}

/// What turning them off loses where segments are lost.
fn lossy(trials: &[Trial], seed: u64) -> Table {
    let mut table = Table::new("under 1 % loss", &["response", "timestamps on", "off", "n"]);
    for response in ["goodput", "retransmitted", "round_trip", "rtt_deviation"] {
        let [on, off] = [0, 1].map(|level| analysis::estimate(trials, 2, &[level], response, seed));
        let text = |e: Option<stats::Estimate>| {
            e.map_or_else(
                || "-".into(),
                |e| format!("{} ± {}", quantity(response, e.value), quantity(response, e.half_width())),
            )
        };
        let n = on.map_or(0, |e| e.n);
        table.rows.push(vec![response.into(), text(on), text(off), n.to_string()]);
    }
    table
}
