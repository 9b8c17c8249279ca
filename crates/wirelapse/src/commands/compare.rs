//! `wirelapse compare`.

mod captures;
mod hosts;
mod runs;
mod several;
mod studies;
mod workloads;

use std::io::Write as _;
use std::path::{Path, PathBuf};

use ::paper::document::Document;

use crate::exit::BadInput;
use crate::files::{inputs, keep_for_runs, name, readers, write_images, write_page};
use crate::options::{FORCE, Json, heading};
use crate::output::{self, Shown, harmless};

/// Compare two captures, traces, studies or runs of a workload
///
/// Connections of captures are compared up to the first point where they diverge. Traces are
/// compared leg by leg: how much each leg changed and how surely, which leg explains the
/// difference, and for which peers.
///
/// Two runs cannot show how much runs of one setting differ by themselves. Trace each setting
/// several times, and give the runs of one before `--` and those of the other after it.
///
/// With --join, the two runs are of a client and its server, and their requests are matched.
///
/// Studies are compared combination by combination, for example between two kernels or machines.
/// Runs of one workload are compared figure by figure, with intervals.
///
/// `FILE#N` selects a connection of a capture; the default is the first. With one file, its first
/// connection is compared with its second.
#[derive(clap::Args)]
pub struct Args {
    /// A capture (`FILE#N` for its connection number N) or the run directory of a trace, a study or
    /// a workload; then the one to compare it with. Without a second one, two connections of the
    /// first file
    #[arg(required = true, value_name = "FILE|RUN", value_hint = clap::ValueHint::AnyPath)]
    runs: Vec<String>,
    /// Traces of the other side, at least two each: the report calls those in front of `--` BEFORE,
    /// and these AFTER
    #[arg(last = true, value_name = "RUN", value_hint = clap::ValueHint::AnyPath)]
    others: Vec<String>,
    /// Join the runs of two hosts, the client first: where the time of each request went, at both
    /// ends and in each direction between. The traffic itself relates their clocks. Both must be
    /// traced with --requests
    #[arg(long, conflicts_with = "others", help_heading = "What to compare")]
    join: bool,
    /// What the two sides are called in the report: `old,new`; by default by their files, and
    /// BEFORE and AFTER with several runs of each
    #[arg(long, value_name = "FIRST,SECOND", value_parser = two_names, help_heading = heading::OUTPUT)]
    names: Option<[String; 2]>,
    #[command(flatten)]
    json: Json,
    /// Also write one self-contained HTML file
    #[arg(long, value_name = "FILE", help_heading = heading::OUTPUT)]
    html: Option<PathBuf>,
    #[command(flatten)]
    shown: Shown,
    #[command(flatten)]
    images: crate::files::Images,
    #[arg(long, help = FORCE, help_heading = heading::OUTPUT)]
    force: bool,
}

/// `old,new`.
fn two_names(text: &str) -> Result<[String; 2], String> {
    let names: Vec<&str> = text.split(',').map(str::trim).collect();
    match names[..] {
        [first, second] if !first.is_empty() && !second.is_empty() && first != second => {
            Ok([first, second].map(str::to_owned))
        }
        _ => Err("write two different names with a comma between them, such as old,new".into()),
    }
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    if args.join {
        args.keep_for_runs()?;
        return hosts::run(args);
    }
    if !args.others.is_empty() {
        args.keep_for_runs()?;
        return several::run(args);
    }
    if let [_, _, third, ..] = &args.runs[..] {
        let problem =
            format!("{third} is a third: two are compared, or several traces of each side as `A1 A2 A3 -- B1 B2 B3`");
        return Err(BadInput(problem).into());
    }
    if args.runs.iter().any(|run| runs::is_run(run)) {
        args.keep_for_runs()?;
        return runs::run(args);
    }
    if args.images.any() {
        let problem = "--png and --svg are for two runs: the comparison of two captures has no plots";
        return Err(BadInput(problem.into()).into());
    }
    captures::run(args)
}

/// Shows a comparison of two runs, which `document` draws by their names, or writes its JSON line;
/// and the files that were asked for.
fn show(
    args: &Args,
    second: &str,
    document: impl Fn([&str; 2]) -> Document,
    json: impl Fn() -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let [first, second] = args.names(second);
    write(args, document([&first, &second]), json)
}

/// Shows a document, or writes its JSON line; and the files that were asked for.
fn write(args: &Args, document: Document, json: impl Fn() -> anyhow::Result<()>) -> anyhow::Result<()> {
    if args.json.json {
        json()?;
    } else {
        let text = output::drawn(std::slice::from_ref(&document), args.shown);
        output::stdout().lock().write_all(text.as_bytes())?;
    }
    let inputs = inputs(args.runs.iter().chain(&args.others).map(Path::new));
    let readers = readers(&inputs);
    let mut written = write_images(&args.images, &[(String::new(), &document)], args.force, readers)?;
    if let Some(html) = &args.html {
        write_page(html, &[document], args.force, readers)?;
        written.push(html.clone());
    }
    if !args.json.json && !args.shown.csv && !written.is_empty() {
        let mut out = output::stdout().lock();
        writeln!(out)?;
        written.iter().try_for_each(|path| writeln!(out, "{}", harmless(&path.to_string_lossy())))?;
    }
    Ok(())
}

impl Args {
    /// Keeps what it takes to decode the runs and to write what was asked for.
    fn keep_for_runs(&self) -> anyhow::Result<()> {
        let runs = self.runs.iter().chain(&self.others).map(Path::new);
        keep_for_runs(runs, (self.html.as_deref(), self.force), &self.images, false)
    }

    /// What the sides are called: as asked for, else by their files, and by the paths of these
    /// where both are called the same.
    fn names(&self, second: &str) -> [String; 2] {
        if let Some(names) = &self.names {
            return names.clone();
        }
        let names = [self.first(), second].map(|run| name(Path::new(run)));
        match names {
            [a, b] if a == b && self.first() == second => [format!("{a} (A)"), format!("{b} (B)")],
            [a, b] if a == b => [self.first().to_owned(), second.to_owned()],
            names => names,
        }
    }

    fn first(&self) -> &str {
        &self.runs[0]
    }

    fn second(&self) -> Option<&str> {
        self.runs.get(1).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_names_are_read_and_anything_else_is_refused() {
        assert_eq!(two_names("old, new"), Ok(["old".into(), "new".into()]));
        for text in ["", "old", "old,", ",new", "same,same", "a,b,c"] {
            assert!(two_names(text).unwrap_err().contains("old,new"), "{text}");
        }
    }
}
