//! Several traces of each side.

use std::path::Path;

use ::report::page::comparison::{self, several};
use store::RunKind;
use summary::between::{self, Side};

use super::{Args, write};
use crate::exit::BadInput;
use crate::files::name;
use crate::output;

/// What the sides are called: the runs in front of `--`, and those behind it.
const NAMES: [&str; 2] = ["BEFORE", "AFTER"];

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    for side in [&args.runs, &args.others] {
        if let [one] = &side[..] {
            let problem =
                format!("{one} is alone on its side: how runs of one setting vary takes at least two of each");
            return Err(BadInput(problem).into());
        }
    }
    let sides = [read(&args.runs)?, read(&args.others)?];
    let names = args.names.as_ref().map_or(NAMES, |names| names.each_ref().map(String::as_str));
    let compared = between::several(names, [&sides[0], &sides[1]]);
    let document = several::document(&compared);
    write(args, document, || output::json_event("runs_comparison", &comparison::json_of_several(&compared)?))
}

fn read(runs: &[String]) -> anyhow::Result<Vec<Side>> {
    let short: Vec<String> = runs.iter().map(|run| name(Path::new(run))).collect();
    let one = |(at, path): (usize, &String)| {
        let kind = store::kind(Path::new(path))?;
        if kind != RunKind::Trace {
            return Err(BadInput(format!("{path} is the run of {kind}: several runs of a side are traces")).into());
        }
        // Two of one name are distinguished by their paths.
        let alike = short.iter().filter(|other| **other == short[at]).count() > 1;
        let name = if alike { path.clone() } else { short[at].clone() };
        Ok(comparison::read(&name, &store::Run::open(Path::new(path))?)?)
    };
    runs.iter().enumerate().map(one).collect()
}
