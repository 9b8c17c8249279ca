//! Studies in labs with a truth that is known: how many claim a difference that is not there, how
//! many intervals hold one that is.
//!
//! ```console
//! # cargo run --release -p wirelapse-study --example aa -- rr 40          # or stream, levels, until; 1, 5, 50 (per cent)
//! # cargo run --release -p wirelapse-study --example aa -- rr 20 21       # the next ones: seeds from 21 on
//! ```

#[path = "../tests/binomial/mod.rs"]
mod binomial;

use record::trial::Response;
use study::{Factor, Ground, Known, Limits, Plan, Study, builtin};

/// The plan of one of the studies, and the effect that is in it: a ratio less 1.
fn plan(kind: &str) -> Option<(Plan, f64)> {
    // What nothing in the lab looks at.
    let nothing = |n: u32| Factor::new(Known::Dscp, 0..n);
    let rate = |rate: &str| Factor::new(Known::Rate, ["40mbit", rate]);
    let (workload, factor, repetitions, effect) = match kind {
        "rr" => ("rr", nothing(2), 6, 0.0),
        "stream" => ("stream", nothing(2), 6, 0.0),
        "levels" => ("rr", nothing(4), 6, 0.0),
        "until" => ("rr", nothing(2), 5, 0.0),
        "1" => ("stream", rate("39600kbit"), 6, -0.01),
        "5" => ("stream", rate("38mbit"), 6, -0.05),
        "50" => ("stream", rate("20mbit"), 6, -0.5),
        _ => return None,
    };
    let stream = workload == "stream";
    let mut fixed = vec![(Known::Workload.into(), workload.to_owned()), (Known::Delay.into(), "1ms".to_owned())];
    if stream && effect == 0.0 {
        fixed.push((Known::Rate.into(), "40mbit".to_owned()));
    }
    let plan = Plan {
        name: kind.into(),
        factors: vec![factor],
        fixed,
        response: if stream { Response::Goodput } else { Response::Transactions },
        repetitions,
        duration: record::Nanos::from_millis(if stream { 300 } else { 150 }),
        warm_up: record::Nanos::ZERO,
        frames: 0,
        until: (kind == "until").then_some(0.1),
    };
    Some((plan, effect))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let kind = words.first().map_or("rr", String::as_str);
    let (plan, effect) = plan(kind).ok_or("a kind is rr, stream, levels, until, 1, 5 or 50")?;
    let number = |at: usize, otherwise: u64| words.get(at).map_or(Ok(otherwise), |word| word.parse::<u64>());
    let (studies, first) = (number(1, 40)?, number(2, 1)?);
    let study = Study { name: kind.into(), builtin: false, plans: vec![plan], host: None };
    let (mut claims, mut held, mut done) = (0, 0, 0);
    for seed in first..first + studies {
        let mut trials = Vec::new();
        let limits = Limits { seed, budget: None };
        study::run(&study, &Ground::Lab, limits, &mut trials, &mut |_| Ok(()), &mut |_| {}, &|| true)?;
        let said = builtin::conclude(&study, &trials, seed);
        let seen = said.compared.iter().any(|c| c.comparison.seen());
        let Some(ratio) = said.compared.first().map(|c| c.comparison.ratio) else {
            println!("{kind} {seed}: too few trials count");
            continue;
        };
        (claims, held, done) = (claims + u32::from(seen), held + u32::from(ratio.covers(effect)), done + 1);
        let left = trials.iter().filter(|t| !t.counts()).count();
        println!(
            "{kind} {seed}: {} [{:+.4} {:+.4} {:+.4}] n = {}, {left} trials excluded",
            if seen { "difference" } else { "no difference" },
            ratio.low,
            ratio.value,
            ratio.high,
            ratio.n
        );
        for level in 0..2 {
            let Some(predicted) = study::predict::goodput(&study.plans[0].setup(&[level])?) else { continue };
            let values: Vec<String> = study::analysis::by_block(&trials, 0, &[level], study.plans[0].response)
                .into_values()
                .map(|v| format!("{:.5}", v / predicted.value))
                .collect();
            println!("    level {level}, of what is predicted: {}", values.join(" "));
        }
    }
    let share = |hits: u32| {
        let (low, high) = binomial::interval(hits, done, 0.95);
        format!("{hits} of {done} ({:.1} to {:.1} %)", low * 100.0, high * 100.0)
    };
    println!("{kind}: a difference in {}, the truth in the interval of {}", share(claims), share(held));
    Ok(())
}
