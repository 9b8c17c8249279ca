//! What tracing costs a stream of 1 KiB and of 16 KiB sends, and whether the bars hold: `study overhead`, of the ways that have one.
//!
//! `overhead [SECONDS] [--check] [--size BYTES]… [--way KEY]…`: how long to measure each size (default 60); `--check` exits with
//! status 1 where a bar is missed; other sizes, and other ways by their keys.
//! Build with `--release`; run alone on the machine, as root.

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use study::overhead::{Load, Plan, find, run};

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let seconds = args.iter().find_map(|arg| arg.parse().ok()).unwrap_or(60);
    let after = |option: &str| args.windows(2).filter(|w| w[0] == option).map(|w| w[1].clone()).collect::<Vec<_>>();
    let sizes = after("--size").iter().map(|size| size.parse().map(Load::Stream)).collect::<Result<Vec<_>, _>>()?;
    let ways =
        after("--way").iter().map(|key| find(key).ok_or(format!("no way {key:?}"))).collect::<Result<Vec<_>, _>>()?;
    let mut plan = Plan::of_bars(Duration::from_secs(seconds), u64::from(std::process::id()));
    if !sizes.is_empty() {
        plan.loads = sizes;
    }
    if !ways.is_empty() {
        plan.ways = ways;
    }
    let outcome = run(&plan, &mut |_| {}, &|| true)?;
    print!("{}", outcome.text());
    let missed = outcome.tables.iter().flat_map(|t| &t.verdicts).any(|v| v.holds == Some(false));
    let check = args.iter().any(|arg| arg == "--check");
    Ok(ExitCode::from(u8::from(check && missed)))
}
