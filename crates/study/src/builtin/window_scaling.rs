//! What is window scaling worth at which delay, and what memory does it cost?
//!
//! Without it a window is at most 65,535 bytes, so a round trip carries no more. Turning it off at
//! one side is enough: both SYNs must carry the option (RFC 7323, section 2.2).

use super::Builtin;
use crate::account;
use crate::analysis::{self, of};
use crate::chart::{Chart, Line};
use crate::conclusion::{self, Compared, Conclusion, table_of};
use crate::engine::Study;
use crate::named::{Known, Setting, Sysctl};
use crate::outcome::Trial;
use crate::plan::{Factor, Plan};
use crate::predict;
use crate::response::quantity;
use crate::sentence::Sentence;
use lab::Side;
use paper::document::{Table, columns};
use record::Nanos;
use record::trial::Response;

pub(super) const BUILTIN: Builtin = Builtin {
    name: "window-scaling",
    about: "what window scaling is worth at round trips from 0.38 ms to 1 s on a 1 Gbit/s path, and the memory it takes",
    plans,
    conclude,
    between_hosts,
    concludes_between_hosts: false,
};

/// What is varied: window scaling of the client.
fn changed() -> Setting {
    Setting::Sysctl(Some(Side::A), Sysctl::WINDOW_SCALING)
}

fn plans(quick: bool) -> Vec<Plan> {
    // One way; the reference's 0.38 and 25.4 ms are round trips.
    let groups: &[(&[&str], u64, u64)] = if quick {
        &[(&["190us", "12.7ms"], 2, 2), (&["100ms"], 3, 3)]
    } else {
        &[(&["190us", "1ms", "5ms", "12.7ms", "25ms"], 3, 2), (&["50ms", "100ms", "250ms"], 6, 4), (&["500ms"], 15, 10)]
    };
    groups
        .iter()
        .map(|(delays, seconds, warm_up)| Plan {
            name: format!("1 Gbit/s, {} each way", delays.join(", ")),
            factors: vec![Factor::new(Known::Delay, *delays), Factor::new(changed(), [1, 0])],
            // A queue that holds a round trip, and buffers that hold the path: what limits is to be
            // the window's field.
            fixed: [
                (Known::Rate.into(), "1gbit"),
                (Known::Queue.into(), "200ms"),
                (Known::Congestion.into(), "cubic"),
                (Setting::Sysctl(None, Sysctl::RECEIVE_BUFFERS), "4096 131072 67108864"),
                (Setting::Sysctl(None, Sysctl::SEND_BUFFERS), "4096 16384 67108864"),
            ]
            .map(|(setting, value)| (setting, value.to_owned()))
            .into(),
            response: Response::Goodput,
            repetitions: if quick { 3 } else { 5 },
            duration: Nanos::from_secs(*seconds),
            warm_up: Nanos::from_secs(*warm_up),
            frames: 100_000,
            until: None,
        })
        .collect()
}

/// Off at this side, over the path that there is.
fn between_hosts(quick: bool) -> Vec<Plan> {
    let (repetitions, seconds) = if quick { (3, 2) } else { (10, 5) };
    vec![Plan {
        name: "window scaling over the real path".into(),
        factors: vec![Factor::new(changed(), [1, 0])],
        fixed: Vec::new(),
        response: Response::Goodput,
        repetitions,
        duration: Nanos::from_secs(seconds),
        warm_up: Nanos::from_secs(1),
        frames: 100_000,
        until: None,
    }]
}

/// The reference's results: delay each way that stands for its round trip, Mbit/s with scaling and
/// without.
const REFERENCE: [(&str, f64, f64); 2] = [("190us", 912.0, 784.0), ("12.7ms", 734.0, 19.8)];

/// For each delay, goodput and receive window over time, with scaling and without.
fn charts(part: usize, plan: &Plan, trials: &[Trial]) -> Vec<Chart> {
    let mut charts = Vec::new();
    for (d, delay) in plan.factors[0].levels.iter().enumerate() {
        let line = |name: &str, level: usize, points: &dyn Fn(&Trial) -> Vec<(Nanos, f64)>| {
            Line::mean(name, Nanos::from_millis(100), of(trials, part, &[d, level]).map(points))
        };
        let goodput = |t: &Trial| t.series.iter().map(|p| (p.at_ns, p.bits_per_second)).collect();
        let window =
            |t: &Trial| t.series.iter().filter_map(|p| Some((p.at_ns, p.receive_window_bytes? as f64))).collect();
        let buffer = |t: &Trial| t.series.iter().map(|p| (p.at_ns, p.receive_buffer_bytes as f64)).collect();
        let both =
            |points: &dyn Fn(&Trial) -> Vec<(Nanos, f64)>| [line("on", 0, points), line("off", 1, points)].into();
        for (name, response, lines) in [
            ("goodput", Response::Goodput, both(&goodput)),
            ("receive window (packets)", Response::ReceiveWindow, both(&window)),
            ("receive buffer (skmem rb)", Response::ReceiveBuffer, both(&buffer)),
        ] {
            let lines: Vec<Line> = lines;
            if lines.iter().any(|l| l.n > 0) {
                charts.push(Chart {
                    plan: part,
                    title: format!("{name} over time, {delay} each way, scaling on and off"),
                    response,
                    lines,
                });
            }
        }
    }
    charts
}

/// The delay in the middle of them, which the reference has too.
const MIDDLE: &str = "12.7ms";

/// All of it in a sentence: how many times the goodput, from the shortest delay to the longest.
fn worth(compared: &[(&str, &Compared)]) -> Option<Sentence> {
    let times = |(delay, c): &(&str, &Compared)| {
        let times = 1.0 / (1.0 + c.comparison.ratio.value);
        if !c.comparison.seen() {
            return format!("no different, as far as was seen, at {delay} each way");
        }
        format!("{times:.*} times at {delay} each way", if times < 10.0 { 2 } else { 0 })
    };
    let (first, last) = (compared.first()?, compared.last()?);
    let middle = compared.iter().find(|(delay, _)| *delay == MIDDLE);
    let words: Vec<String> = [Some(first), middle, Some(last)].into_iter().flatten().map(times).collect();
    let (first, rest) = words.split_first()?;
    let first = Sentence::from(format!("With window scaling goodput on 1 Gbit/s is {first}"));
    Some(rest.iter().fold(first, |sentence, place| sentence.and(place)))
}

/// What scaling takes of memory at the longest delay that was measured.
fn cost(study: &Study, trials: &[Trial], seed: u64) -> Option<Sentence> {
    let (part, plan) = study.plans.iter().enumerate().next_back()?;
    let d = plan.factors[0].levels.len() - 1;
    let estimate = |response: Response, level: usize| analysis::estimate(trials, part, &[d, level], response, seed);
    let (on, off) = (estimate(Response::ReceiveBuffer, 0)?, estimate(Response::ReceiveBuffer, 1)?);
    let said = format!(
        "At {} each way scaling lets the receive buffer grow to {}, against {} without ({:.0} times; n = {})",
        plan.factors[0].levels[d],
        quantity(Response::ReceiveBuffer, on.value),
        quantity(Response::ReceiveBuffer, off.value),
        on.value / off.value,
        on.n
    );
    Some(said.into())
}

/// The window that was offered a second after the transfer began. Its series begins with it; the
/// first frame is that of the connection on which the transfer is agreed.
fn after_a_second(trial: &Trial) -> Option<f64> {
    let first = trial.series.iter().filter(|p| p.at_ns <= Nanos::from_secs(1));
    first.filter_map(|p| p.receive_window_bytes).next_back().map(|bytes| bytes as f64)
}

fn conclude(study: &Study, trials: &[Trial], seed: u64) -> Conclusion {
    let mut c = Conclusion { study: study.name.clone(), ..Conclusion::default() };
    let mut beside =
        Table::new("beside the reference", columns(["round trip", "scaling"], ["reference", "here", "predicted"]))
            .with_basis("goodput; 1 Gbit/s Ethernet, ten seconds");
    let mut memory = Table::new(
        "receive window and memory",
        columns(
            ["delay each way", "scaling"],
            [
                "window offered (packets)",
                "1 s after the start",
                "receive buffer (skmem rb)",
                "not yet read in it (skmem r)",
                "TCP_INFO rcv_space",
                "send buffer (skmem tb)",
                "n",
            ],
        ),
    )
    .with_basis("the largest of each trial, mean over trials");
    let mut ceiling = Table::new(
        "scaling off: 65,535 bytes a round trip, by the round trip that TCP measured under this load",
        columns(["delay each way"], ["round trip (srtt)", "65,535 B a round trip", "goodput", "of that", "n"]),
    );
    // Of each comparison.
    let mut delays = Vec::new();
    for (part, plan) in study.plans.iter().enumerate() {
        for (d, delay) in plan.factors[0].levels.iter().enumerate() {
            let predict = |level: usize| conclusion::prediction(plan, &[d, level]);
            if let Some(comparison) = analysis::compare(part, plan, trials, [&[d, 0], &[d, 1]], Response::Goodput, seed)
            {
                let predicted = predict(0).zip(predict(1)).map(|(on, off)| off.value / on.value - 1.0);
                let what = format!("{delay} each way: window scaling off at one side");
                c.compared.push(Compared { what, response: Response::Goodput, comparison, predicted });
                delays.push(delay.as_str());
            }
            let off = |response: Response| analysis::estimate(trials, part, &[d, 1], response, seed);
            if let (Some(round_trip), Some(goodput)) = (off(Response::RoundTrip), off(Response::Goodput)) {
                let most = predict::window(predict::UNSCALED_WINDOW_BYTES, round_trip.value / 1e9);
                ceiling.push(vec![
                    delay.clone(),
                    quantity(Response::RoundTrip, round_trip.value),
                    quantity(Response::Goodput, most),
                    quantity(Response::Goodput, goodput.value),
                    quantity::percent(goodput.value / most),
                    goodput.n.to_string(),
                ]);
            }
            for (level, name) in [(0, "on"), (1, "off")] {
                let mean = |response: Response| {
                    analysis::estimate(trials, part, &[d, level], response, seed)
                        .map_or_else(|| "-".into(), |e| quantity(response, e.value))
                };
                let after: Vec<f64> = of(trials, part, &[d, level]).filter_map(after_a_second).collect();
                let after = stats::mean(&after).map_or_else(|| "-".into(), |v| quantity(Response::ReceiveWindow, v));
                let n = of(trials, part, &[d, level]).count();
                memory.push(vec![
                    delay.clone(),
                    name.into(),
                    mean(Response::ReceiveWindow),
                    after,
                    mean(Response::ReceiveBuffer),
                    mean(Response::ReceiveUsed),
                    mean(Response::ReceiveSpace),
                    mean(Response::SendBuffer),
                    n.to_string(),
                ]);
                if let Some((_, on, off)) = REFERENCE.iter().find(|r| r.0 == delay) {
                    let round_trip = plan.setup(&[d, level]).ok().and_then(|s| s.round_trip_s()).unwrap_or(0.0);
                    beside.push(vec![
                        quantity(Response::RoundTrip, round_trip * 1e9),
                        name.into(),
                        quantity(Response::Goodput, [on, off][level] * 1e6),
                        mean(Response::Goodput),
                        predict(level).map_or_else(|| "-".into(), |p| conclusion::predicted_text(Response::Goodput, p)),
                    ]);
                }
            }
        }
        c.tables
            .push(table_of(part, plan, trials, Response::Goodput, seed, |levels| conclusion::prediction(plan, levels)));
        c.charts.extend(charts(part, plan, trials));
    }
    conclusion::judge(study, &mut c);
    c.verdict = c.compared.iter().map(Compared::sentence).collect();
    let by_delay: Vec<(&str, &Compared)> = delays.iter().copied().zip(&c.compared).collect();
    let worth = worth(&by_delay);
    c.verdict.splice(0..0, worth);
    c.tables.extend([beside, ceiling, memory]);
    c.verdict.extend(cost(study, trials, seed));
    c.notes.push(format!(
        "prediction: the least of {} (framing), the receive buffer's bound and, with scaling off, 65,535 bytes a round \
         trip; it excludes slow start; the round trip is the path's own, without queues. The least that agrees with it is a window that leaves as one burst and is \
         waited for, which below 1 ms is far less",
        quantity(Response::Goodput, predict::framing(1e9, 1_500, false, 32))
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
    c.notes.push(
        "the reference's figures are means over ten seconds from the first byte on, on Raspberry Pis with the kernel's own \
         bounds on buffers (6 MiB to receive, 4 MiB to send); here the warm-up is excluded and the bounds are 64 MiB, so 25.4 ms with \
         scaling carries the full rate. skmem counts whole packets, so the buffer is larger than the window it allows; where it \
         reads 64.00 MiB the bound ended its growth, not the need"
            .into(),
    );
    account::account(study, trials, seed, &mut c);
    c
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_after_the_start_is_counted_from_the_transfer() {
        let mut trial = Trial::of_goodput((0, 0), 0, 1e8);
        let points = [(900, Some(700_000)), (1_000, Some(800_000)), (1_100, Some(900_000))];
        trial.series = points
            .map(|(ms, receive_window_bytes)| crate::outcome::Point {
                at_ns: Nanos::from_millis(ms),
                receive_window_bytes,
                ..crate::outcome::Point::default()
            })
            .into();
        // A second after the first frame, the transfer has hardly begun.
        trial.evidence.windows = vec![(Nanos::from_millis(900), 65_536), (Nanos::from_millis(1_300), 800_000)];
        assert_eq!(after_a_second(&trial), Some(800_000.0));
    }

    #[test]
    fn the_sentence_before_all_others_claims_no_more_than_they_do() {
        let compared = |off: [f64; 3]| Compared {
            what: "window scaling off at one side".into(),
            response: Response::Goodput,
            comparison: stats::Comparison::of(&[9e8, 9.1e8, 8.9e8], &off, 1).unwrap(),
            predicted: None,
        };
        let said = worth(&[("190us", &compared([5e8, 9e8, 7e8])), (MIDDLE, &compared([2e7, 2.02e7, 1.98e7]))])
            .unwrap()
            .to_string();
        assert!(said.contains("is no different, as far as was seen, at 190us each way; 45 times at 12.7ms"), "{said}");
    }
}
