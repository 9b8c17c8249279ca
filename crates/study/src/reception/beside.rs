//! The source's findings beside what was measured here: whether they agree, and why not where they
//! do not.

use capture::Stamps;
use serde::Serialize;
use stats::{Comparison, Estimate};

use super::outcome::{Outcome, Response};
use super::plan::Levels;
use crate::analysis::CONFIDENCE;

/// A response of one combination over the blocks.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// Its mean with the interval; absent below two values.
    pub estimate: Option<Estimate>,
    /// The values, block by block.
    pub values: Vec<f64>,
}

/// A response over the trials with levels that `keep` accepts, one value for each block: their
/// mean.
pub fn figure(outcome: &Outcome, response: Response, keep: impl Fn(&Levels) -> bool) -> Figure {
    let of = |block: u32| {
        let trials = outcome.trials.iter().filter(|t| t.block == block && keep(&t.levels));
        stats::mean(&trials.filter_map(|t| response.of(&t.measured)).collect::<Vec<_>>())
    };
    let values: Vec<f64> = (0..outcome.blocks).filter_map(of).collect();
    let most = if response == Response::Matched { 1.0 } else { f64::INFINITY };
    let least = if response == Response::Mean { f64::NEG_INFINITY } else { 0.0 };
    let estimate = stats::mean_interval(&values, CONFIDENCE, outcome.seed);
    Figure { estimate: estimate.map(|e| Estimate { low: e.low.max(least), high: e.high.min(most), ..e }), values }
}

/// A finding of the source beside ours.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Beside {
    /// What is compared.
    pub what: &'static str,
    /// What the source says.
    pub source: &'static str,
    /// What was found here.
    pub here: String,
    /// Whether they agree; absent where that cannot be known here.
    pub agrees: Option<bool>,
    /// A possible reason, which this study does not measure.
    pub why: &'static str,
}

/// A factor that two figures of different machines may differ by and still agree: half to double.
const SAME_SIZE: f64 = 2.0;
/// The source's half width of software timestamps, ns.
const SOFTWARE_NS: f64 = 40_000.0;
/// The same of hardware timestamps.
const HARDWARE_NS: f64 = 16.0;
/// The source's highest rate, frames a second.
const SOURCE_LIMIT: f64 = 2.2e6;

/// The technique that the source calls by another name: its place among those with figures.
fn place(outcome: &Outcome, name: &str) -> Option<usize> {
    outcome.techniques.iter().position(|t| t == name)
}

/// Every finding of the source that this study can be set beside.
pub fn compare(outcome: &Outcome) -> Vec<Beside> {
    // The others are of software timestamps.
    if outcome.timestamps == Stamps::Hardware {
        return vec![hardware_fluctuation(outcome)];
    }
    vec![
        hardware(outcome),
        fluctuation(outcome),
        step(outcome),
        highest(outcome),
        lowest(outcome),
        load(outcome, "rx-ring", true),
        load(outcome, "recvmmsg", true),
        load(outcome, "xdp", false),
        load(outcome, "libpcap", false),
        compromise(outcome),
        limit(outcome),
    ]
}

fn hardware(outcome: &Outcome) -> Beside {
    let reason = outcome.missing.iter().find(|m| m.timestamps == Stamps::Hardware).map(|m| m.reason.clone());
    Beside {
        what: "hardware timestamps",
        source: "within ±16 ns, whatever the technique, frame size and CPU load; no cost in throughput",
        here: reason.map_or_else(|| "not measured".into(), |r| format!("not measured: {r}")),
        agrees: None,
        why: "the testbed's interfaces are veth pairs, which have no clock; software timestamps do not stand in for them",
    }
}

/// Half of what the series lie within, but for 1 % at either end: their median, and in words.
fn half_width(outcome: &Outcome) -> (Option<f64>, String) {
    let halves: Vec<f64> = outcome.series.iter().filter_map(|s| s.quantiles_ns).map(|q| (q[5] - q[1]) / 2.0).collect();
    let half = stats::median(&halves);
    let words = half.map_or_else(
        || "not measured".into(),
        |h| {
            format!(
                "±{} from the 1 % to the 99 % quantile (median of {} series)",
                quantity::time_to(h, 3),
                halves.len()
            )
        },
    );
    (half, words)
}

fn hardware_fluctuation(outcome: &Outcome) -> Beside {
    let (half, here) = half_width(outcome);
    Beside {
        what: "hardware timestamps",
        source: "within ±16 ns, whatever the technique, frame size and CPU load; no cost in throughput",
        here,
        // A NIC may be better.
        agrees: half.map(|half| half <= HARDWARE_NS * SAME_SIZE),
        why: "clocks of NICs count in steps of their own, of 8 ns and more, and two ports may have two clocks",
    }
}

fn fluctuation(outcome: &Outcome) -> Beside {
    let (half, here) = half_width(outcome);
    Beside {
        what: "fluctuation of software timestamps (rx-ring, 256 bytes, 1 Gbit/s, idle)",
        source: "±40 µs, and the interval changes after arbitrary times",
        here,
        agrees: half.map(|h| (SOFTWARE_NS / SAME_SIZE..=SOFTWARE_NS * SAME_SIZE).contains(&h)),
        why: "the source's frames come by two NICs, each with its interrupts and batches; here one CPU forwards and stamps a frame at \
              both taps in turn, so what is left is what interrupts that CPU",
    }
}

fn step(outcome: &Outcome) -> Beside {
    let time = |ns: f64| quantity::time_to(ns, 3);
    let here = match (&outcome.step, &outcome.step_missing) {
        (Some(step), _) if step.series.changes.is_empty() => {
            format!("a step of {} was not found", time(step.put_in.0 as f64))
        }
        (Some(step), _) => {
            let found: Vec<String> = step
                .series
                .changes
                .iter()
                .map(|[frame, size, low, high]| {
                    format!("{} at frame {frame:.0} ({} to {})", time(*size), time(*low), time(*high))
                })
                .collect();
            let delivered =
                step.delivered.map(|[up, down]| format!(", {} and {} as the path delivered", time(up), time(down)));
            format!(
                "{} put in and taken out{}; found {}",
                time(step.put_in.0 as f64),
                delivered.unwrap_or_default(),
                found.join(", ")
            )
        }
        (None, reason) => format!("not measured: {}", reason.as_deref().unwrap_or("the study ended early")),
    };
    Beside {
        what: "a step in the delay, by software timestamps",
        source: "88 ns of a longer cable cannot be seen below fluctuations of 40 µs; hardware timestamps show it",
        here,
        agrees: None,
        why: "the step here is 50 µs, as large as the source's fluctuations: the lab's path changes its delay by software, and \
              88 ns is below what it can hold",
    }
}

/// The combinations in which the techniques differ most: the smallest frames at the highest rate.
fn hardest(outcome: &Outcome) -> impl Fn(&Levels, usize) -> bool {
    let rate = outcome.line_rates.len().saturating_sub(1);
    move |levels, technique| levels[0] == technique && levels[1] == 0 && levels[2] == rate
}

/// The mean share matched of each technique in its hardest combinations, the highest first.
fn ranked(outcome: &Outcome) -> Vec<(usize, Figure, f64)> {
    let keep = hardest(outcome);
    let mut all: Vec<(usize, Figure, f64)> = (0..outcome.techniques.len())
        .filter_map(|t| {
            let figure = figure(outcome, Response::Matched, |levels| keep(levels, t));
            let mean = stats::mean(&figure.values)?;
            Some((t, figure, mean))
        })
        .collect();
    all.sort_by(|a, b| b.2.total_cmp(&a.2));
    all
}

fn said(outcome: &Outcome, ranked: &[(usize, Figure, f64)]) -> String {
    let all: Vec<String> =
        ranked.iter().map(|(t, _, mean)| format!("{} {}", outcome.techniques[*t], quantity::percent(*mean))).collect();
    if all.is_empty() { "not measured".into() } else { all.join(", ") }
}

/// Whether the first is seen to differ from the second: the interval of the ratio of their pairs
/// excludes 1.
fn differs(one: &Figure, other: &Figure, seed: u64) -> Option<bool> {
    Comparison::of(&one.values, &other.values, seed).map(|c| c.seen())
}

fn highest(outcome: &Outcome) -> Beside {
    let ranked = ranked(outcome);
    let ring = place(outcome, "rx-ring").and_then(|ring| ranked.iter().find(|r| r.0 == ring));
    // Where no technique is seen to lose more frames than another, no ranking can be read off.
    let agrees = ring.filter(|_| separated(outcome, &ranked)).zip(ranked.first()).and_then(|(ring, best)| {
        match ring.0 == best.0 {
            true => Some(true),
            false => differs(&ring.1, &best.1, outcome.seed).map(|differs| !differs),
        }
    });
    Beside {
        what: "the highest share matched (smallest frames, highest rate)",
        source: "mmap (rx-ring), though not significantly above libpcap and XDP",
        here: said(outcome, &ranked),
        agrees,
        why: "on one machine source, kernel and receivers share the CPUs: a technique that saves CPU leaves more of it to the source, \
              which then sends more",
    }
}

/// Whether the technique with the lowest share is seen to differ from the one with the highest.
fn separated(outcome: &Outcome, ranked: &[(usize, Figure, f64)]) -> bool {
    let ends = ranked.first().zip(ranked.last());
    ends.and_then(|(first, last)| differs(&last.1, &first.1, outcome.seed)) == Some(true)
}

fn lowest(outcome: &Outcome) -> Beside {
    let ranked = ranked(outcome);
    let calls = ["recvmsg", "recvmmsg"].map(|name| place(outcome, name));
    let lowest = ranked.last().filter(|_| separated(outcome, &ranked));
    let agrees = lowest.and_then(|last| match calls.contains(&Some(last.0)) {
        true => Some(true),
        // Another one is lowest: that contradicts the source only where it is seen to be below the
        // system calls.
        false => {
            let best_call = ranked.iter().find(|r| calls.contains(&Some(r.0)))?;
            differs(&last.1, &best_call.1, outcome.seed).and_then(|differs| differs.then_some(false))
        }
    });
    Beside {
        what: "the lowest share matched (smallest frames, highest rate)",
        source: "system calls (recvmmsg), in all tests",
        here: ranked.last().map_or_else(
            || "not measured".into(),
            |(t, _, mean)| format!("{} {}", outcome.techniques[*t], quantity::percent(*mean)),
        ),
        agrees,
        why: "a system call and a copy a frame cost most; 32 MiB of socket buffer take a short trial's frames whole, so that a slow \
              reader loses nothing yet",
    }
}

/// An effect below this is none: a quarter.
const SMALL_EFFECT: f64 = 0.25;

/// Whether CPU load raises a deviation; `None` where the interval holds both an effect that counts
/// and none.
fn raised(comparison: &Comparison) -> Option<bool> {
    match comparison.seen() {
        true => Some(comparison.ratio.value > 0.0),
        false => (comparison.ratio.high < SMALL_EFFECT).then_some(false),
    }
}

/// Whether CPU load leaves a deviation about as it is: not much higher, and not much lower; `None`
/// where the interval holds both.
fn unmoved(comparison: &Comparison) -> Option<bool> {
    let small = 1.0 / (1.0 + SMALL_EFFECT) - 1.0..SMALL_EFFECT;
    let ratio = &comparison.ratio;
    match small.contains(&ratio.low) && small.contains(&ratio.high) {
        true => Some(true),
        false => (comparison.seen() && !small.contains(&ratio.value)).then_some(false),
    }
}

/// The deviation of a technique's delays with the CPU stressed against idle.
fn stressed(outcome: &Outcome, technique: usize) -> Option<Comparison> {
    let of = |cpu| figure(outcome, Response::Deviation, |l| l[0] == technique && l[3] == cpu);
    Comparison::of(&of(0).values, &of(1).values, outcome.seed)
}

/// What CPU load does to the deviation of a technique's delays.
fn load(outcome: &Outcome, name: &'static str, affected: bool) -> Beside {
    let (what, source) = match (name, affected) {
        ("rx-ring", _) => ("CPU load and the deviation of rx-ring", "a stressed CPU raises it"),
        ("recvmmsg", _) => ("CPU load and the deviation of recvmmsg", "a stressed CPU raises it"),
        ("xdp", _) => ("CPU load and the deviation of xdp", "no significant effect"),
        _ => ("CPU load and the deviation of libpcap", "little effect on both Intel NICs"),
    };
    let comparison = place(outcome, name).and_then(|technique| stressed(outcome, technique));
    let agrees = comparison.as_ref().and_then(if affected { raised } else { unmoved });
    Beside {
        what,
        source,
        here: comparison.map_or_else(
            || "too few blocks".into(),
            |c| {
                if !crate::response::is_known(&c.ratio) {
                    let too_wide = crate::response::too_wide(&c.ratio);
                    return format!("not known from {} blocks: {too_wide}; {}", c.ratio.n, crate::response::WHAT_HELPS);
                }
                let seen = if c.seen() { "" } else { ", no difference seen" };
                format!(
                    "stressed against idle {} ({} to {}{seen}, n = {} blocks)",
                    quantity::change(c.ratio.value),
                    quantity::change(c.ratio.low),
                    quantity::change(c.ratio.high),
                    c.ratio.n
                )
            },
        ),
        agrees,
        why: "programs that spin on every CPU also take it from the thread that sends and forwards, whatever receives: a frame that \
              is between the taps then waits",
    }
}

/// A share that is smaller by less than this is as good: a twentieth.
const SMALL_LOSS: f64 = 0.05;

/// Whether CPU load leaves a technique's deviation as it is, and its share matched is about the
/// highest; `None` where that cannot be known.
fn is_compromise(outcome: &Outcome, technique: usize, ranked: &[(usize, Figure, f64)]) -> Option<bool> {
    let steady = stressed(outcome, technique).as_ref().and_then(unmoved);
    let (own, best) = (ranked.iter().find(|r| r.0 == technique)?, ranked.first()?);
    let against_best = Comparison::of(&best.1.values, &own.1.values, outcome.seed)?.ratio;
    match (steady, against_best.high < -SMALL_LOSS, against_best.low > -SMALL_LOSS || own.0 == best.0) {
        (Some(false), ..) | (_, true, _) => Some(false),
        (Some(true), _, true) => Some(true),
        _ => None,
    }
}

fn compromise(outcome: &Outcome) -> Beside {
    let ranked = ranked(outcome);
    let names = ["xdp", "libpcap"];
    let each = names.map(|name| place(outcome, name).and_then(|t| is_compromise(outcome, t, &ranked)));
    let words = |holds: Option<bool>| match holds {
        Some(true) => "holds",
        Some(false) => "does not hold",
        None => "cannot be judged",
    };
    Beside {
        what: "XDP and libpcap with software timestamps",
        source: "a good compromise: load hardly moves their timestamps, and their share matched is not significantly below that of mmap",
        here: names
            .iter()
            .zip(each)
            .map(|(name, holds)| format!("{name}: {}", words(holds)))
            .collect::<Vec<_>>()
            .join(", "),
        agrees: match each {
            [Some(one), Some(other)] => Some(one && other),
            [Some(false), _] | [_, Some(false)] => Some(false),
            _ => None,
        },
        why: "libpcap reads the same ring as rx-ring here, and no NIC's interrupts come in between",
    }
}

fn limit(outcome: &Outcome) -> Beside {
    let best = outcome.lossless.iter().filter_map(|l| Some((l, l.per_second?))).max_by(|a, b| a.1.total_cmp(&b.1));
    Beside {
        what: "the most frames a second at both taps",
        source: "about 2.2 million, likely the ixgbe driver's limit",
        here: best.map_or_else(
            || "no rate without loss".into(),
            |(l, rate)| {
                let bound = if l.of_the_source { "; the source sends no faster" } else { "" };
                format!("{rate:.0} a second without loss by {}{bound}", l.technique)
            },
        ),
        agrees: best.and_then(|(l, rate)| {
            // A source that is slower than the limit says nothing about it.
            (!l.of_the_source || rate >= SOURCE_LIMIT)
                .then(|| (SOURCE_LIMIT / SAME_SIZE..=SOURCE_LIMIT * SAME_SIZE).contains(&rate))
        }),
        why: "no NIC and no driver is here: the limit is the CPU time of forwarding each frame twice, which source and receivers share",
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::reception::{Lossless, Measured, Series, Trial};

    /// Five blocks of rx-ring, recvmmsg and xdp, idle and stressed: shares and deviations as given,
    /// with a wobble of 1 %.
    pub fn outcome(shares: [f64; 3], stressed: [f64; 3]) -> Outcome {
        let mut trials = Vec::new();
        for block in 0..5u32 {
            for technique in 0..3 {
                for cpu in 0..2 {
                    let wobble = 1.0 + f64::from((block * 3 + technique as u32 + cpu as u32) % 5) / 500.0;
                    let factor = if cpu == 1 { stressed[technique] } else { 1.0 };
                    let measured = Measured {
                        sent: 1_000_000,
                        matched: (shares[technique] * 1e6 / wobble) as u64,
                        mean_ns: Some(900.0),
                        deviation_ns: Some(5_000.0 * factor * wobble),
                        cpu_ns: Some(300.0),
                        ..Measured::default()
                    };
                    trials.push(Trial { block, levels: [technique, 0, 0, cpu, 0], measured });
                }
            }
        }
        let series = Series {
            n: 10,
            sent: 10,
            mean_ns: Some(900.0),
            deviation_ns: Some(5_000.0),
            quantiles_ns: Some([0.0, 100.0, 200.0, 900.0, 2_000.0, 80_100.0, 90_000.0, 1e6]),
            stretches: vec![[0.0, 1.0, 2.0, 3.0]],
            medians_ns: Vec::new(),
            changes: Vec::new(),
        };
        Outcome {
            seed: 1,
            quick: true,
            timestamps: Stamps::Software,
            trial: record::Nanos(1),
            blocks: 5,
            finished: true,
            techniques: ["rx-ring", "recvmmsg", "xdp"].map(String::from).to_vec(),
            frame_sizes: vec![64],
            interfaces: vec!["veth".into()],
            line_rates: vec![1_000_000_000],
            trials,
            missing: Vec::new(),
            effects: Vec::new(),
            source_per_second: 4e5,
            lossless: vec![Lossless {
                technique: "rx-ring".into(),
                per_second: Some(4e5),
                of_the_source: true,
                trials: 1,
            }],
            series: vec![series],
            step: None,
            step_missing: Some("no lab".into()),
        }
    }

    fn verdicts(outcome: &Outcome) -> Vec<Option<bool>> {
        compare(outcome).iter().map(|b| b.agrees).collect()
    }

    #[test]
    fn the_source_s_own_result_agrees_with_it() {
        let same = outcome([0.98, 0.5, 0.97], [4.0, 4.0, 1.0]);
        let expected =
            [None, Some(true), None, Some(true), Some(true), Some(true), Some(true), Some(true), None, None, None];
        assert_eq!(verdicts(&same), expected, "{:#?}", compare(&same));
    }

    #[test]
    fn the_opposite_does_not() {
        let mut other = outcome([0.5, 0.98, 0.9], [1.0, 1.0, 4.0]);
        other.series[0].quantiles_ns = Some([0.0, 100.0, 200.0, 900.0, 2_000.0, 2_100.0, 2_500.0, 3_000.0]);
        other.lossless[0].of_the_source = false;
        let no = Some(false);
        assert_eq!(verdicts(&other), [None, no, None, no, no, no, no, no, None, no, no], "{:#?}", compare(&other));
    }

    #[test]
    fn a_load_that_lowers_a_deviation_much_is_no_small_effect_on_it() {
        let of = |factor| {
            let said = compare(&outcome([0.98, 0.5, 0.97], [4.0, 4.0, factor]));
            said.iter().find(|b| b.what.ends_with("deviation of xdp")).unwrap().agrees
        };
        assert_eq!([0.2, 0.9, 1.1, 2.0].map(of), [Some(false), Some(true), Some(true), Some(false)]);
    }

    #[test]
    fn where_no_technique_loses_frames_and_intervals_are_wide_nothing_is_claimed() {
        let mut quick = outcome([1.0; 3], [1.0; 3]);
        quick.blocks = 3;
        for trial in &mut quick.trials {
            trial.measured.matched = trial.measured.sent;
            // Deviations that vary tenfold from block to block.
            trial.measured.deviation_ns =
                Some(5_000.0 * [1.0, 10.0, 0.5, 3.0, 7.0][(trial.block as usize + trial.levels[3]) % 5]);
        }
        let said = verdicts(&quick);
        assert_eq!(said[3..10], [None; 7], "{:#?}", compare(&quick));
    }

    #[test]
    fn nothing_measured_agrees_with_nothing() {
        let mut none = outcome([0.5; 3], [1.0; 3]);
        (none.trials, none.series, none.lossless, none.blocks) = (Vec::new(), Vec::new(), Vec::new(), 0);
        assert!(verdicts(&none).iter().all(Option::is_none));
    }
}
