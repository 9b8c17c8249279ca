//! `wirelapse compare`.

mod captures;
mod hosts;
mod runs;
mod several;
mod studies;
mod workloads;

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use ::paper::document::Document;

use crate::exit::BadInput;
use crate::files::{name, refuse, write_images, write_page};
use crate::options::{FORCE, Json};
use crate::output::{self, Shown, harmless};

/// Two captures' connections, traces, studies, or runs of a workload, side by side
///
/// Captures are compared to the first point where two connections diverge. Traces are compared leg by leg: by how much each moved and
/// how surely, which leg explains the difference, and in which peers it sits.
///
/// What two runs of one setting differ by is in no comparison of two runs. Trace each setting several times, and give the runs of one
/// before `--` and those of the other behind it.
///
/// With --join they are the runs of two hosts, a client's and its server's, and their requests are put together.
///
/// Studies are compared combination by combination: what changed in the response from the first to the second, as from one kernel
/// or machine to another.
///
/// Two runs of the same workload are compared figure by figure, with intervals for what varied within the runs.
///
/// A capture's connection is chosen with `FILE#N`; without it the first is taken. One file alone is compared within itself:
/// its first connection with its second.
#[derive(clap::Args)]
pub struct Args {
    /// A capture, or `FILE#N` for its connection number N; or the run directory of a trace, a study or a workload. Then another: without it, the
    /// second connection of the first file
    #[arg(required = true, value_name = "FILE|RUN")]
    runs: Vec<String>,
    /// Traces of the other side, at least two each: the report calls those in front of `--` BEFORE, and these AFTER
    #[arg(last = true, value_name = "RUN")]
    others: Vec<String>,
    /// Join the runs of the two hosts of the same connections, the client's first: where each request's time went at both ends and on each
    /// way between. Their clocks are compared by the traffic. Both are traced with --requests
    #[arg(long, conflicts_with = "others")]
    join: bool,
    #[command(flatten)]
    json: Json,
    /// Write one self-contained HTML file as well
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    #[command(flatten)]
    shown: Shown,
    #[command(flatten)]
    images: crate::files::Images,
    #[arg(long, help = FORCE)]
    force: bool,
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    if args.join {
        return hosts::run(args);
    }
    if !args.others.is_empty() {
        return several::run(args);
    }
    if let [_, _, third, ..] = &args.runs[..] {
        let problem =
            format!("{third} is a third: two are compared, or several traces of each side as `A1 A2 A3 -- B1 B2 B3`");
        return Err(BadInput(problem).into());
    }
    if args.runs.iter().any(|run| runs::is_run(run)) {
        return runs::run(args);
    }
    if args.images.any() {
        let problem = "--png and --svg are for two runs: the comparison of two captures has no plots";
        return Err(BadInput(problem.into()).into());
    }
    captures::run(args)
}

/// Shows a comparison of two runs, which `document` draws by their names, or writes its JSON line; and the files that were asked for.
fn show(
    args: &Args,
    second: &str,
    document: impl Fn([&str; 2]) -> Document,
    json: impl Fn() -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut names = [name(Path::new(args.first())), name(Path::new(second))];
    if names[0] == names[1] {
        names = [args.first().to_owned(), second.to_owned()];
    }
    write(args, document([&names[0], &names[1]]), json)
}

/// Shows a document, or writes its JSON line; and the files that were asked for.
fn write(args: &Args, document: Document, json: impl Fn() -> anyhow::Result<()>) -> anyhow::Result<()> {
    args.html.as_deref().map_or(Ok(()), |path| refuse(path, args.force))?;
    if args.json.json {
        json()?;
    } else {
        let text = output::drawn(std::slice::from_ref(&document), args.shown);
        io::stdout().lock().write_all(text.as_bytes())?;
    }
    let mut written = write_images(&args.images, &[(String::new(), &document)], args.force)?;
    if let Some(html) = &args.html {
        write_page(html, &[document], args.force)?;
        written.push(html.clone());
    }
    if !args.json.json && !args.shown.csv && !written.is_empty() {
        let mut out = io::stdout().lock();
        writeln!(out)?;
        written.iter().try_for_each(|path| writeln!(out, "{}", harmless(&path.to_string_lossy())))?;
    }
    Ok(())
}

impl Args {
    fn first(&self) -> &str {
        &self.runs[0]
    }

    fn second(&self) -> Option<&str> {
        self.runs.get(1).map(String::as_str)
    }
}
