//! What is window scaling worth at which delay, and what memory does it cost?
//!
//! Without it a window is at most 65,535 bytes, so a round trip carries no more. Turning it off at one side is enough: both
//! SYNs must carry the option (RFC 7323, section 2.2).

use super::{Builtin, SECOND_NS};
use crate::analysis::{self, of, quantity};
use crate::conclusion::{self, Compared, Conclusion, Table, table_of};
use crate::engine::Study;
use crate::plan::{Factor, Plan};
use crate::predict;
use crate::trial::Trial;

pub(super) const BUILTIN: Builtin = Builtin {
    name: "window-scaling",
    about: "what window scaling is worth at round trips from 0.38 ms to 1 s on a 1 Gbit/s path, and the memory it takes",
    plans,
    conclude,
};

const SYSCTL: &str = "a.net.ipv4.tcp_window_scaling";

fn plans(quick: bool) -> Vec<Plan> {
    // One way; the reference's 0.38 and 25.4 ms are round trips.
    let groups: &[(&[&str], u64, u64)] = if quick {
        &[(&["190us", "12.7ms"], 2, 2), (&["100ms"], 3, 3)]
    } else {
        &[(&["190us", "1ms", "5ms", "12.7ms", "25ms"], 4, 2), (&["50ms", "100ms", "250ms"], 8, 4), (&["500ms"], 20, 10)]
    };
    groups
        .iter()
        .map(|(delays, seconds, warm_up)| Plan {
            name: format!("1 Gbit/s, {} each way", delays.join(", ")),
            factors: vec![Factor::new("delay", *delays), Factor::new(SYSCTL, [1, 0])],
            // A queue that holds a round trip, and buffers that hold the path: what limits is to be the window's field.
            fixed: [
                ("rate", "1gbit"),
                ("queue", "200ms"),
                ("congestion", "cubic"),
                ("net.ipv4.tcp_rmem", "4096 131072 67108864"),
                ("net.ipv4.tcp_wmem", "4096 16384 67108864"),
            ]
            .map(|(n, v)| (n.to_owned(), v.to_owned()))
            .into(),
            response: "goodput".into(),
            repetitions: if quick { 3 } else { 6 },
            duration_ns: seconds * SECOND_NS,
            warm_up_ns: warm_up * SECOND_NS,
            frames: 100_000,
        })
        .collect()
}

/// The reference's results: delay each way that stands for its round trip, Mbit/s with scaling and without.
const REFERENCE: [(&str, f64, f64); 2] = [("190us", 912.0, 784.0), ("12.7ms", 734.0, 19.8)];

fn conclude(study: &Study, trials: &[Trial], seed: u64) -> Conclusion {
    let mut c = Conclusion { study: study.name.clone(), ..Conclusion::default() };
    let mut beside = Table::new(
        "beside the reference (goodput; 1 Gbit/s Ethernet, ten seconds)",
        &["round trip", "scaling", "reference", "here", "predicted"],
    );
    let mut memory = Table::new(
        "receive window and memory (largest of each trial, mean over trials)",
        &[
            "delay each way",
            "scaling",
            "window offered (packets)",
            "buffer tuned to (TCP_INFO)",
            "window 1 s after the start",
            "n",
        ],
    );
    let mut series = Table::new(
        "goodput over time, one trial each (Mbit/s, tenths of a second averaged to halves)",
        &["delay each way", "scaling", "series"],
    );
    for (part, plan) in study.plans.iter().enumerate() {
        for (d, delay) in plan.factors[0].levels.iter().enumerate() {
            let predict = |level: usize| conclusion::prediction(plan, &[d, level]);
            if let Some(comparison) = analysis::compare(trials, part, [&[d, 0], &[d, 1]], "goodput", seed) {
                let predicted = predict(0).zip(predict(1)).map(|(on, off)| off / on - 1.0);
                let what = format!("Window scaling off at one side, {delay} each way,");
                let holm_p = comparison.student_p;
                c.compared.push(Compared { what, response: "goodput".into(), comparison, holm_p, predicted });
            }
            for (level, name) in [(0, "on"), (1, "off")] {
                let mean = |response: &str| {
                    analysis::estimate(trials, part, &[d, level], response, seed)
                        .map_or_else(|| "-".into(), |e| quantity(response, e.value))
                };
                let offered: Vec<f64> = of(trials, part, &[d, level])
                    .filter_map(|t| t.evidence.windows.iter().map(|w| w.1).max())
                    .map(|w| w as f64)
                    .collect();
                let offered = stats::mean(&offered).map_or_else(|| "-".into(), |v| quantity("receive_window", v));
                let after: Vec<f64> = of(trials, part, &[d, level])
                    .filter_map(|t| t.evidence.windows.iter().rfind(|w| w.0 <= SECOND_NS).map(|w| w.1 as f64))
                    .collect();
                let after = stats::mean(&after).map_or_else(|| "-".into(), |v| quantity("receive_window", v));
                let n = of(trials, part, &[d, level]).count();
                memory.rows.push(vec![
                    delay.clone(),
                    name.into(),
                    offered,
                    mean("receive_buffer"),
                    after,
                    n.to_string(),
                ]);
                if let Some(trial) = of(trials, part, &[d, level]).next() {
                    let halves: Vec<String> = trial
                        .series
                        .chunks(5)
                        .take(16)
                        .map(|h| h.iter().map(|p| p.bits_per_second).sum::<f64>() / h.len() as f64 / 1e6)
                        .map(|v| format!("{v:.0}"))
                        .collect();
                    series.rows.push(vec![delay.clone(), name.into(), halves.join(" ")]);
                }
                if let Some((_, on, off)) = REFERENCE.iter().find(|r| r.0 == delay) {
                    let round_trip = plan.setup(&[d, level]).map_or(0.0, |s| s.round_trip_s());
                    beside.rows.push(vec![
                        quantity("round_trip", round_trip * 1e9),
                        name.into(),
                        quantity("goodput", [on, off][level] * 1e6),
                        mean("goodput"),
                        predict(level).map_or_else(|| "-".into(), |p| quantity("goodput", p)),
                    ]);
                }
            }
        }
        c.tables.push(table_of(part, plan, trials, "goodput", seed, |levels| conclusion::prediction(plan, levels)));
    }
    conclusion::correct(&mut c.compared);
    c.verdict = c.compared.iter().map(Compared::sentence).collect();
    c.tables.extend([beside, memory, series]);
    c.notes.push(format!(
        "prediction: the lesser of {} (framing) and 65,535 bytes a round trip; the round trip is the path's own, without \
         queues and hosts, so below 1 ms the prediction is an upper bound",
        quantity("goodput", predict::framing(1e9, 1_500, false, 32))
    ));
    c.notes.push(
        "the window offered is read from the packets, scaled as the SYNs agreed: TCP_INFO's tcpi_rcv_wnd is the window \
         before the kernel cuts it to what the field can hold"
            .into(),
    );
    c.notes.push(
        "with scaling on a long path slow start and the growth of buffers take many round trips (net.ipv4.tcp_rmem and \
         tcp_wmem bound them): what is left of them after the warm-up is in the figures"
            .into(),
    );
    conclusion::account(study, trials, &mut c);
    c
}
