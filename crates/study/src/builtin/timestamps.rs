//! What do TCP timestamps cost, and what does turning them off lose?
//!
//! Twelve bytes of every segment's header: 1448/1538 against 1460/1538 of a saturated Ethernet,
//! 0.83 %. What they give is a round-trip sample for each ACK, also of retransmitted data, and
//! protection against wrapped sequence numbers, so a lossy path is measured too.

use record::trial::Response;
use std::collections::BTreeMap;

use super::{ALL_FRAMES, Builtin};
use crate::account;
use crate::analysis::{self, of};
use crate::conclusion::{self, Compared, Conclusion, table_of};
use crate::engine::Study;
use crate::named::{Known, Setting, Sysctl};
use crate::outcome::{Point, Trial};
use crate::plan::{Factor, Plan};
use crate::predict;
use crate::response::{self, quantity};
use crate::sentence::Sentence;
use lab::Side;
use paper::document::{Row, Table, columns};
use record::Nanos;

pub(super) const BUILTIN: Builtin = Builtin {
    name: "timestamps",
    about: "what TCP timestamps cost at 1 and 10 Gbit/s and at full speed, and what turning them off loses under loss",
    plans,
    conclude,
    between_hosts,
    concludes_between_hosts: false,
};

/// What is varied: the sysctl of this host, or of both.
fn changed(side: Option<Side>) -> Setting {
    Setting::Sysctl(side, Sysctl::TIMESTAMPS)
}

fn plans(quick: bool) -> Vec<Plan> {
    let plan = |name: &str, fixed: &[(Known, &str)], repetitions, seconds| Plan {
        name: name.into(),
        factors: vec![Factor::new(changed(None), [1, 0])],
        fixed: fixed.iter().map(|(known, value)| ((*known).into(), (*value).to_owned())).collect(),
        response: Response::Goodput,
        repetitions,
        duration: Nanos::from_secs(seconds),
        warm_up: Nanos::from_secs(1),
        frames: ALL_FRAMES,
        until: None,
    };
    let (repetitions, seconds) = if quick { (5, 1) } else { (10, 2) };
    vec![
        plan("at 1 Gbit/s", &[(Known::Rate, "1gbit"), (Known::Congestion, "cubic")], repetitions, seconds),
        plan("at full speed", &[(Known::Congestion, "cubic")], repetitions, seconds),
        plan(
            "1 % loss, 20 ms round trip, 100 Mbit/s",
            &[(Known::Rate, "100mbit"), (Known::Delay, "10ms"), (Known::Loss, "1%/0%"), (Known::Congestion, "cubic")],
            repetitions,
            seconds + 2,
        ),
        under_load("download, upload and ping at once, 1 Gbit/s", quick, changed(None)),
        // The reference's own rate, which the kernel's path carries. Reading every frame beside it
        // would take a CPU.
        Plan {
            frames: 256,
            ..plan("at 10 Gbit/s", &[(Known::Rate, "10gbit"), (Known::Congestion, "cubic")], repetitions, seconds)
        },
    ]
}

/// Bytes both ways and probes beside them: what the reference draws with flent. Two CPUs carry this
/// rate both ways through the lab's path; where a machine does not, the path says so and the trial
/// counts nowhere.
fn under_load(name: &str, quick: bool, sysctl: Setting) -> Plan {
    let fixed = [
        (Known::Workload, "ping-under-load"),
        (Known::Rate, "1gbit"),
        (Known::Delay, "1ms"),
        (Known::Congestion, "cubic"),
    ];
    Plan {
        name: name.into(),
        factors: vec![Factor::new(sysctl, [1, 0])],
        fixed: fixed.map(|(known, value)| (known.into(), value.to_owned())).into(),
        response: Response::GoodputDown,
        repetitions: if quick { 3 } else { 10 },
        duration: Nanos::from_secs(if quick { 3 } else { 5 }),
        warm_up: Nanos::from_secs(1),
        frames: 256,
        until: None,
    }
}

/// The same question of a path that is as it is: bulk, and download, upload and ping at once.
fn between_hosts(quick: bool) -> Vec<Plan> {
    let own = || changed(Some(Side::A));
    let mut bulk = plans(quick).swap_remove(1);
    bulk.name = "over the real path".into();
    let mut load = under_load("download, upload and ping at once", quick, own());
    load.fixed.retain(|(setting, _)| *setting != Known::Rate && *setting != Known::Delay);
    for plan in [&mut bulk, &mut load] {
        plan.factors = vec![Factor::new(own(), [1, 0])];
    }
    vec![bulk, load]
}

/// Plans by their place: at 1 Gbit/s, with losses, with probes under load, and at 10 Gbit/s. Runs
/// are kept with these numbers.
const ONE_GIGABIT: usize = 0;
const LOSSY: usize = 2;
const LOADED: usize = 3;
const TEN_GIGABIT: usize = 4;

/// The reference's ten runs each, Gbit/s on 10 Gbit/s Ethernet.
const REFERENCE_ON: [f64; 10] = [9.39, 9.4, 9.4, 9.4, 9.39, 9.4, 9.39, 9.39, 9.38, 9.39];
const REFERENCE_OFF: [f64; 10] = [9.46, 9.46, 9.45, 9.47, 9.49, 9.47, 9.46, 9.48, 9.46, 9.47];

/// The upload beside the download, and what its receive window lets through in a round trip. The
/// buffer behind that window grows with the round trips that the receiver times, and timestamps
/// that come back are what it times them by (`tcp_rcv_rtt_measure_ts()`).
fn ceilings(plan: &Plan, trials: &[Trial], c: &mut Conclusion) {
    let figures = ["goodput", "receive window", "round trip", "window/RTT", "receive buffer", "n"];
    let title = format!("{}: upload and its receive window", plan.name);
    let mut table = Table::new(title, columns([Sysctl::TIMESTAMPS.name()], figures)).with_basis("medians");
    for (level, name) in plan.factors[0].levels.iter().enumerate() {
        let figures: Vec<[f64; 5]> = of(trials, LOADED, &[level])
            .filter_map(|t| {
                let grown = t.series.get(t.series.len() / 3..)?;
                let middle = |value: fn(&Point) -> u64| {
                    let known: Vec<f64> = grown.iter().map(value).filter(|v| *v > 0).map(|v| v as f64).collect();
                    stats::median(&known)
                };
                let (window, rtt_ns) = (middle(|p| p.receive_window_bytes.unwrap_or(0))?, middle(|p| p.srtt_ns.0)?);
                let buffer = middle(|p| p.receive_buffer_bytes)?;
                Some([t.response(Response::Goodput)?, window, rtt_ns, window * 8e9 / rtt_ns, buffer])
            })
            .collect();
        let median = |i: usize| stats::median(&figures.iter().map(|f| f[i]).collect::<Vec<_>>());
        let Some(medians) = (0..5).map(median).collect::<Option<Vec<f64>>>() else { continue };
        let names = [
            Response::Goodput,
            Response::ReceiveWindow,
            Response::RoundTrip,
            Response::Goodput,
            Response::ReceiveBuffer,
        ];
        let words: Vec<String> =
            names.iter().zip(&medians).map(|(response, value)| quantity(*response, *value)).collect();
        if (medians[0] / medians[3] - 1.0).abs() < 0.1 {
            c.verdict.push(
                Sentence::from(format!(
                    "Upload with {}={name} ({}) is limited by its receive window",
                    Sysctl::TIMESTAMPS,
                    plan.name
                ))
                .and(format!(
                    "{} in a round trip of {} let {} through, and {} came",
                    words[1], words[2], words[3], words[0]
                ))
                .and(format!("the receive buffer behind it grew to {}", words[4])),
            );
        }
        table.push(Row::of([name.clone()].into_iter().chain(words).chain([figures.len().to_string()])));
    }
    c.tables.push(table);
}

fn conclude(study: &Study, trials: &[Trial], seed: u64) -> Conclusion {
    let mut c = Conclusion { study: study.name.clone(), ..Conclusion::default() };
    let framing = predict::framing(1.0, 1_500, false, 20) / predict::framing(1.0, 1_500, false, 32) - 1.0;
    let mut beside = BTreeMap::new();
    for (part, plan) in study.plans.iter().enumerate() {
        let responses: &[Response] = match part {
            LOSSY => &[Response::Goodput, Response::RoundTrip, Response::RttDeviation, Response::Retransmitted],
            LOADED => &[Response::GoodputDown, Response::Goodput, Response::LatencyP50],
            _ => &[Response::Goodput],
        };
        for &response in responses {
            if let Some(comparison) = analysis::compare(part, plan, trials, [&[0], &[1]], response, seed) {
                let what = format!("Timestamps off ({})", plan.name);
                // At full speed the CPU decides, not the wire.
                let wire = matches!(part, ONE_GIGABIT | TEN_GIGABIT) && response == Response::Goodput;
                let predicted = wire.then_some(framing);
                beside.extend(wire.then_some((part, comparison)));
                c.compared.push(Compared { what, response, comparison, predicted });
            }
        }
    }
    conclusion::judge(study, &mut c);
    c.verdict = c.compared.iter().map(Compared::sentence).collect();
    c.verdict.extend(lost_with_them(trials));
    for (part, plan) in study.plans.iter().enumerate().filter(|(part, _)| *part != LOADED) {
        c.tables
            .push(table_of(part, plan, trials, Response::Goodput, seed, |levels| conclusion::prediction(plan, levels)));
        c.charts.extend(conclusion::goodput_chart(part, plan, trials));
    }
    if let Some(plan) = study.plans.get(LOADED) {
        for (response, name) in
            [(Response::GoodputDown, "download"), (Response::Goodput, "upload"), (Response::LatencyP50, "ping")]
        {
            let mut table = table_of(LOADED, plan, trials, response, seed, |_| None);
            table.title = format!("{}: {name}", plan.name);
            c.tables.push(table);
        }
        ceilings(plan, trials, &mut c);
        c.tables.extend(conclusion::ping_distributions(LOADED, plan, trials));
        c.charts.extend(conclusion::ping_charts(LOADED, plan, trials));
    }
    c.tables.extend(headers(study, trials));
    if let Some(reference) = stats::Comparison::of(&REFERENCE_ON, &REFERENCE_OFF, seed) {
        let here = [(TEN_GIGABIT, 10e9), (ONE_GIGABIT, 1e9)];
        let figures = ["reference", "here, 10 Gbit/s", "here, 1 Gbit/s", "predicted"];
        let mut table = Table::new("beside the reference", columns([""], figures))
            .with_basis("10 Gbit/s Ethernet, 2 s, ten runs each");
        let [ten, one] =
            here.map(|(part, _)| beside.get(&part).map_or_else(|| "-".into(), |c| response::percent_of(&c.ratio)));
        let (theirs, predicted) = (response::percent_of(&reference.ratio), quantity::change(framing));
        table.push(vec!["timestamps off against on".into(), theirs, ten, one, predicted]);
        for (name, values, level, header) in [("on", REFERENCE_ON, 0, 32), ("off", REFERENCE_OFF, 1, 20)] {
            let share = |rate: f64, line: f64| format!("{} of the line", quantity::percent_to(rate / line, 4));
            let [ten, one] = here.map(|(part, line)| {
                let seen = analysis::estimate(trials, part, &[level], Response::Goodput, seed);
                seen.map_or_else(|| "-".into(), |e| share(e.value, line))
            });
            let theirs = share(stats::median(&values).unwrap_or(f64::NAN), 10.0);
            let predicted = share(predict::framing(1.0, 1_500, false, header), 1.0);
            table.push(vec![format!("timestamps {name}"), theirs, ten, one, predicted]);
        }
        c.tables.push(table);
    }
    c.tables.push(lossy(trials, seed));
    if let Some(plan) = study.plans.get(LOSSY) {
        c.tables.push(given_up(plan, trials));
    }
    c.notes.push(
        "an ACK gives no round-trip sample without timestamps where it covers retransmitted data, since it is not known which \
         transmission it answers (Karn's rule, RFC 6298 section 3), and then a needless retransmission is known by a DSACK of \
         the peer alone, not by the timestamp that comes back (RFC 3522)"
            .into(),
    );
    c.notes.push(
        "without timestamps nothing distinguishes a segment that was delayed by a whole turn of the sequence numbers from a new one \
         (PAWS, RFC 7323 section 5): they turn in 34 s at 1 Gbit/s and in 3.4 s at 10 Gbit/s, and a segment may live for two \
         minutes (RFC 9293, section 3.4.2)"
            .into(),
    );
    c.notes.push(
        "header lengths are of the frames that the sender's TCP hands to its device; the reference took 256 connections, \
         with the `tcp_header_len` that each of their data segments has"
            .into(),
    );
    account::account(study, trials, seed, &mut c);
    c
}

/// TCP header lengths of frames with payload: the first 256 of each setting as the reference has
/// them, and all.
fn headers(study: &Study, trials: &[Trial]) -> Vec<Table> {
    let mut tables = Vec::new();
    for (part, plan) in study.plans.iter().enumerate().filter(|(part, _)| *part < LOSSY || *part == TEN_GIGABIT) {
        for (level, name) in [(1, "off"), (0, "on")] {
            let mut counts: BTreeMap<u8, u64> = BTreeMap::new();
            let mut first: BTreeMap<u8, u64> = BTreeMap::new();
            for trial in of(trials, part, &[level]) {
                let e = &trial.evidence;
                e.header_bytes.iter().for_each(|(length, n)| *counts.entry(*length).or_default() += n);
                if first.is_empty() {
                    first.clone_from(&e.first_header_bytes);
                }
            }
            if counts.is_empty() {
                continue;
            }
            let title = format!("TCP header length, timestamps {name}, {}", plan.name);
            let mut table = Table::new(title, columns(["bytes", ""], ["first 256 frames", "all frames"]));
            let (all, largest) = (counts.values().sum::<u64>(), counts.values().copied().max().unwrap_or(1));
            for bytes in (20..=36).step_by(4) {
                let n = counts.get(&bytes).copied().unwrap_or(0);
                let bar = "█".repeat((n * 40 / largest) as usize);
                let early = first.get(&bytes).copied().unwrap_or(0);
                let share = if n == 0 { "0".to_owned() } else { format!("{n} of {all}") };
                table.push(vec![bytes.to_string(), bar, early.to_string(), share]);
            }
            // Options that neither setting explains, such as SACK blocks.
            let other: u64 = counts.iter().filter(|(b, _)| !(20..=36).contains(*b)).map(|(_, n)| n).sum();
            if other > 0 {
                table.push(vec!["more".into(), String::new(), "-".into(), format!("{other} of {all}")]);
            }
            tables.push(table);
        }
    }
    tables
}

/// What their absence lost on the lossy path, in a sentence.
fn lost_with_them(trials: &[Trial]) -> Option<Sentence> {
    let sum = |f: &dyn Fn(&Trial) -> u64| of(trials, LOSSY, &[1]).map(f).sum::<u64>();
    let (unsampled, all) = (sum(&|t| t.evidence.unsampled_acks), sum(&|t| t.evidence.advancing_acks));
    (all > 0).then(|| {
        Sentence::from(format!(
            "Without them {unsampled} of {all} ACKs under 1 % loss gave no sample of the round trip, since they covered \
             retransmitted data"
        ))
        .and("no segment was protected against wrapped sequence numbers")
    })
}

/// What the ACKs of the lossy path could and could not be used for, and what the kernel counted.
fn given_up(plan: &Plan, trials: &[Trial]) -> Table {
    let title = format!("what timestamps give, {}", plan.name);
    let mut table = Table::new(title, columns([""], ["timestamps on", "off"])).with_basis("sums over trials");
    let sums = |f: &dyn Fn(&Trial) -> u64| -> [u64; 2] { [0, 1].map(|level| of(trials, LOSSY, &[level]).map(f).sum()) };
    let [all, ambiguous] = [sums(&|t| t.evidence.advancing_acks), sums(&|t| t.evidence.ambiguous_acks)];
    let stamped = sums(&|t| t.evidence.stamped_acks);
    let share = |n: u64, of: u64| {
        if of == 0 {
            "-".to_owned()
        } else {
            format!("{n} of {of} ({})", quantity::percent_to(n as f64 / of as f64, 3))
        }
    };
    let mut row = |name: &str, cells: [String; 2]| {
        let [on, off] = cells;
        table.push(vec![name.into(), on, off]);
    };
    row("ACKs of new data that echo a timestamp (an RTT sample each)", [0, 1].map(|i| share(stamped[i], all[i])));
    row("ACKs that cover retransmitted data (ambiguous without)", [0, 1].map(|i| share(ambiguous[i], all[i])));
    let unsampled = sums(&|t| t.evidence.unsampled_acks);
    row("of these, without a sample of the round trip", [0, 1].map(|i| share(unsampled[i], ambiguous[i])));
    let segments = sums(&|t| t.evidence.header_bytes.values().sum());
    let protected = sums(&|t| t.evidence.stamped_segments);
    row("frames with data that PAWS protects", [0, 1].map(|i| share(protected[i], segments[i])));
    let mut names: Vec<&String> = trials.iter().filter(|t| t.part == LOSSY).flat_map(|t| t.counters.keys()).collect();
    names.sort();
    names.dedup();
    for name in names {
        let n = sums(&|t| t.counters.get(name).copied().unwrap_or(0));
        if n != [0, 0] {
            row(&format!("kernel: {name}"), n.map(|n| n.to_string()));
        }
    }
    table
}

/// What turning them off loses where segments are lost.
fn lossy(trials: &[Trial], seed: u64) -> Table {
    let mut table = Table::new("under 1 % loss", columns(["response"], ["timestamps on", "off", "n"]));
    for response in [Response::Goodput, Response::Retransmitted, Response::RoundTrip, Response::RttDeviation] {
        let [on, off] = [0, 1].map(|level| analysis::estimate(trials, LOSSY, &[level], response, seed));
        let text = |e: Option<stats::Estimate>| {
            e.map_or_else(
                || "-".into(),
                |e| format!("{} ± {}", quantity(response, e.value), quantity(response, e.half_width())),
            )
        };
        let n = on.map_or(0, |e| e.n);
        table.push(vec![response.to_string(), text(on), text(off), n.to_string()]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trial(level: usize, goodput: f64, window: u64) -> Trial {
        let point = Point {
            at_ns: Nanos::ZERO,
            bits_per_second: goodput,
            down_bits_per_second: 0.0,
            srtt_ns: Nanos::from_millis(13),
            cwnd_bytes: 0,
            receive_window_bytes: Some(window),
            receive_used_bytes: 0,
            receive_buffer_bytes: window + 1,
            warm_up: false,
        };
        Trial { series: vec![point; 9], ..Trial::of_goodput((LOADED, 0), level, goodput) }
    }

    #[test]
    fn an_upload_at_its_windows_ceiling_is_reported() {
        let plan = under_load("both", false, changed(None));
        let mut c = Conclusion::default();
        // 1,300,000 bytes in 13 ms are 800 Mbit/s; of 9 MB the path lets no more through than it
        // carries.
        ceilings(&plan, &[trial(0, 930e6, 9_000_000), trial(1, 790e6, 1_300_000)], &mut c);
        assert_eq!(c.verdict.len(), 1, "{:?}", c.verdict);
        let words = "tcp_timestamps=0 (both) is limited by its receive window; 1.240 MiB in a round trip of 13.00 ms let 800.0 Mbit/s through";
        assert!(c.verdict[0].to_string().contains(words), "{:?}", c.verdict);
        assert_eq!(c.tables[0].rows.len(), 2);
    }
}
