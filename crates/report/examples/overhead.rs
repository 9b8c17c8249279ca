//! What tracing costs a stream of 1 KiB and of 16 KiB sends, and whether the bars hold:
//! `study overhead`, of the ways that have one.
//!
//! `overhead [SECONDS] [--check] [--size BYTES]… [--rr] [--way KEY]… [--all]`: how long to measure
//! each load (default 60); `--check` exits with status 1 where a bar is missed; other sizes,
//! request and response; other ways by their keys, or every way there is. Build with `--release`;
//! run alone on the machine, as root.

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use study::overhead::{ALL, Load, Plan, run};

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let seconds = args.iter().find_map(|arg| arg.parse().ok()).unwrap_or(60);
    let after = |option: &str| args.windows(2).filter(|w| w[0] == option).map(|w| w[1].clone()).collect::<Vec<_>>();
    let given = |option: &str| args.iter().any(|arg| arg == option);
    let mut loads = after("--size").iter().map(|size| size.parse().map(Load::Stream)).collect::<Result<Vec<_>, _>>()?;
    loads.extend(given("--rr").then_some(Load::Exchange));
    let ways = after("--way")
        .iter()
        .map(|key| ALL.iter().find(|way| way.key.name() == key).ok_or(format!("no way {key:?}")))
        .collect::<Result<Vec<_>, _>>()?;
    let (length, seed) = (Duration::from_secs(seconds), u64::from(std::process::id()));
    let mut plan = match given("--all") {
        true => Plan { length, ..Plan::whole(false, seed)? },
        false => Plan::of_bars(length, seed)?,
    };
    if !loads.is_empty() {
        plan.loads = loads;
    }
    if !ways.is_empty() {
        plan.ways = ways;
    }
    let outcome = run(&plan, &mut |_| {}, &|| true)?;
    let canvas = paper::Canvas { width: 160, colour: false, unicode: true };
    print!("{}", paper::terminal::text(&canvas, &[report::page::overhead::document(&outcome)]));
    let missed = outcome.tables.iter().flat_map(|t| &t.verdicts).any(|v| v.holds == Some(false));
    Ok(ExitCode::from(u8::from(given("--check") && missed)))
}
