//! `wirelapse report`.

mod fleet;
mod service_map;

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use ::paper::document::Document;
use ::report::page;
use ::study::reception::kept;
use machine::{keeper::Keeper, programs};
use record::Nanos;
use store::RunKind;

use crate::exit::BadInput;
use crate::files::{Images, inputs, keep_for_runs, name, readers, write_images, write_page};
use crate::hosts;
use crate::options::{FORCE, RESOLVE, heading};
use crate::output::{self, Shown};

/// Show runs: on the terminal, as one HTML file, or as images
///
/// A run is a directory made by `trace -o`, `study -o`, `analyze -o` or a workload such as
/// `stream -o`. The HTML file needs no network and no other file. Without --html, --png and --svg
/// the report goes to the terminal.
#[derive(clap::Args)]
pub struct Args {
    /// Run directories
    #[arg(required_unless_present = "fleet", conflicts_with = "fleet", value_name = "RUN")]
    runs: Vec<PathBuf>,
    /// Instead of single runs: over all runs below this directory or s3://BUCKET/PREFIX, what
    /// became slower than the week before, by the histograms of `wirelapse agent`, and what would
    /// help, by the runs of `wirelapse advise`. Needs the program wirelapse-query
    #[arg(long = "runs", id = "fleet", value_name = "DIR|URL", help_heading = "Fleet")]
    fleet: Option<String>,
    /// With --runs: who talks to whom instead, in the hours that --last, --since or --between name:
    /// a table of edges and, with --html, --png or --svg, a graph
    #[arg(long, requires = "fleet", conflicts_with = "runs", help_heading = "Fleet")]
    map: bool,
    /// With --runs: how much of the newest data to compare, in whole hours
    #[arg(long, value_name = "TIME", value_parser = quantity::parse::duration_above_zero, default_value = "24h", requires = "fleet", help_heading = "Fleet")]
    last: Nanos,
    /// With --runs: what changed at this hour (UTC) and lasts: `14:00`, `2026-11-28T14:00`
    #[arg(long, value_name = "HOUR", value_parser = fleet::Moment::parse, requires = "fleet", conflicts_with_all = ["last", "between"], help_heading = "Fleet")]
    since: Option<fleet::Moment>,
    /// With --runs: what was slower from the first to the second hour (UTC)
    #[arg(long, value_names = ["HOUR", "HOUR"], num_args = 2, value_parser = fleet::Moment::parse, requires = "fleet", conflicts_with = "last", help_heading = "Fleet")]
    between: Vec<fleet::Moment>,
    /// Write one self-contained HTML file
    #[arg(long, value_name = "FILE", help_heading = heading::OUTPUT)]
    html: Option<PathBuf>,
    #[command(flatten)]
    images: Images,
    /// Open the HTML file in a browser
    #[arg(long, requires = "html", help_heading = heading::OUTPUT)]
    open: bool,
    #[arg(long, help = FORCE, help_heading = heading::OUTPUT)]
    force: bool,
    #[arg(long, help = RESOLVE, conflicts_with = "json", help_heading = heading::OUTPUT)]
    resolve: bool,
    #[command(flatten)]
    shown: Shown,
    /// For the run of a workload: the objects that its command writes with --json. With --map: the
    /// edges, a line for the sends of both ends and of each
    #[arg(long, conflicts_with_all = ["html", "png", "svg"], help_heading = heading::OUTPUT)]
    json: bool,
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    // The program that opens the page is started where none can be any more.
    let opener = match &args.html {
        Some(page) if args.open => Some(Keeper::fork(c"opener", &[], || Ok(()), |()| open(page))?),
        _ => None,
    };
    let page = (args.html.as_deref(), args.force);
    let mut documents = match &args.fleet {
        // `wirelapse-query` decodes the runs, and gives up its own rights.
        Some(place) => {
            let when = match (&args.since, &args.between[..]) {
                (Some(since), _) => fleet::When::Since(*since),
                (None, [from, to]) => fleet::When::Between(*from, *to),
                (None, _) => fleet::When::Last(args.last),
            };
            if args.json && !args.map {
                return Err(BadInput(
                    "--json with --runs is for --map: `wirelapse query --format json` has the rows of the other tables"
                        .into(),
                )
                .into());
            }
            let document = match args.map {
                true => {
                    let map = service_map::Map::of(place, when)?;
                    if args.json {
                        return map.json();
                    }
                    map.document(place)
                }
                false => fleet::document(place, when)?,
            };
            keep_for_runs([], page, &args.images, args.resolve)?;
            vec![document]
        }
        None => {
            keep_for_runs(args.runs.iter().map(PathBuf::as_path), page, &args.images, args.resolve)?;
            if args.json {
                return args.runs.iter().try_for_each(|run| json(run));
            }
            args.runs.iter().map(|run| document(run)).collect::<anyhow::Result<Vec<_>>>()?
        }
    };
    if args.resolve {
        hosts::name(&mut documents);
    }
    let mut written = Vec::new();
    let inputs = inputs(args.runs.iter().map(PathBuf::as_path).chain(args.fleet.as_deref().map(Path::new)));
    let readers = readers(&inputs);
    if let Some(path) = &args.html {
        write_page(path, &documents, args.force, readers)?;
        written.push(path.clone());
    }
    let prefix = |at: usize| args.runs.get(at).filter(|_| args.runs.len() > 1).map(|run| format!("{}-", name(run)));
    let named: Vec<(String, &Document)> =
        documents.iter().enumerate().map(|(at, document)| (prefix(at).unwrap_or_default(), document)).collect();
    written.extend(write_images(&args.images, &named, args.force, readers)?);
    let mut out = output::stdout().lock();
    if written.is_empty() && !args.images.any() {
        out.write_all(output::drawn(&documents, args.shown).as_bytes())?;
    }
    for path in &written {
        let bytes = path.metadata().map_or(0, |m| m.len());
        let line = format!("{}: {}", path.display(), quantity::bytes(bytes));
        writeln!(out, "{}", output::harmless(&line))?;
    }
    out.flush()?;
    if let Some(opener) = opener {
        opener.ask(&())?;
    }
    Ok(())
}

fn json(run: &Path) -> anyhow::Result<()> {
    match store::kind(run)? {
        RunKind::Workload => match advise::kept::read(run)? {
            Some((_, advice)) => output::json_event("advice", &advice),
            None => crate::workload::lines(&traffic::kept::Run::read(run)?.0, true),
        },
        kind => Err(BadInput(format!(
            "{} is the run of {kind}: --json is for the run of a workload; any SQL engine reads the tables of this one",
            run.display()
        ))
        .into()),
    }
}

fn document(run: &Path) -> anyhow::Result<Document> {
    if kept::is_kept(run) {
        let outcome = kept::read(run).map_err(|e| BadInput(e.to_string()))?;
        return Ok(page::reception::document(&outcome));
    }
    let name = name(run);
    match store::kind(run)? {
        RunKind::Trace => {
            let run = store::Run::open(run)?;
            Ok(page::trace::document(&name, &run)?)
        }
        RunKind::Study => {
            let (provenance, trials, _) = ::study::ledger::load(run).map_err(|e| BadInput(e.to_string()))?;
            Ok(page::study::document(Some(&name), &provenance, &trials))
        }
        RunKind::Capture => {
            let (run, state) = store::capture::Run::read(run)?;
            Ok(page::capture::document(&name, &run, state))
        }
        RunKind::Workload => match advise::kept::read(run)? {
            Some((file, advice)) => Ok(page::advice::document(&file, &advice)),
            None => Ok(page::workload::document(&traffic::kept::Run::read(run)?.0)),
        },
    }
}

/// Hands the file to the desktop's own opener.
fn open(path: &Path) -> io::Result<()> {
    let cannot = |why: &str| io::Error::other(format!("cannot start xdg-open{why}: open {} yourself", path.display()));
    let opener = programs::find("xdg-open").ok_or_else(|| cannot(", which is not there"))?;
    let started = programs::command(&opener).arg(path).stdout(Stdio::null()).spawn();
    started.map(drop).map_err(|error| cannot(&format!(" ({error})")))
}
