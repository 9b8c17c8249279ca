//! Two captures' connections side by side, to the first point where they diverge.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use diagnose::{Keep, Options, Record, Report};

use super::Args;
use crate::analyze::{Reading, Source, follow, seed};
use crate::exit::BadInput;

/// Packets kept of each connection; they diverge long before that or not at all.
const PACKETS_KEPT: usize = 500_000;

/// Rows shown before the parting.
const CONTEXT: usize = 12;

fn load(file: &Path, number: usize) -> anyhow::Result<(Report, Reading)> {
    let options = Options { seed: seed(), keep: Keep::Connection(number, PACKETS_KEPT), ..Options::default() };
    let (follower, reading) = follow(&Source::from_argument(file), options, 1)?;
    reading.warn();
    match follower.report(number) {
        Some(report) => Ok((report, reading)),
        None => {
            let (file, n) = (file.display(), follower.len());
            Err(BadInput(format!("{file} has {n} connections, there is no number {number}")).into())
        }
    }
}

/// `FILE#N`, where N is digits; a file may have a `#` in its name all the same.
fn choose(argument: &str) -> anyhow::Result<(PathBuf, Option<usize>)> {
    match argument.rsplit_once('#').and_then(|(file, n)| Some((file, n.parse::<usize>().ok()?))) {
        Some((_, 0)) => Err(BadInput(format!("{argument}: connections are numbered from 1")).into()),
        Some((file, n)) => Ok((file.into(), Some(n))),
        None => Ok((argument.into(), None)),
    }
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let (file_a, a) = choose(&args.first)?;
    let (file_b, b) = match &args.second {
        Some(second) => choose(second)?,
        None if a.is_some() => {
            return Err(
                BadInput(format!("{} is compared with what? give a second capture or connection", args.first)).into()
            );
        }
        None => (file_a.clone(), Some(2)),
    };
    let ((a, read_a), (b, read_b)) = (load(&file_a, a.unwrap_or(1))?, load(&file_b, b.unwrap_or(1))?);
    let parting = diagnose::compare(&a, &b);
    let mut out = io::BufWriter::new(io::stdout().lock());
    if args.json.json {
        let value = serde_json::json!({
            "kind": "comparison",
            "first": format!("{}#{}", file_a.display(), a.number),
            "second": format!("{}#{}", file_b.display(), b.number),
            "parting": parting,
        });
        writeln!(out, "{value}")?;
        out.flush()?;
        return Ok(());
    }
    let rows = a.records.len().max(b.records.len());
    let from = parting.at.map_or(0, |at| at.saturating_sub(CONTEXT));
    let to = parting.at.map_or(rows.min(CONTEXT), |at| rows.min(at + 6));
    let ends =
        |reading: &Reading, r: &Report| format!("{} > {}", reading.endpoint(r.client), reading.endpoint(r.server));
    writeln!(out, "{:>4}  {:<44}  {:<44}", "", ends(&read_a, &a), ends(&read_b, &b))?;
    for i in from..to {
        let mark = if parting.at == Some(i) { "  <- here they diverge" } else { "" };
        writeln!(out, "{:>4}  {:<44}  {:<44}{mark}", i + 1, row(&a, i), row(&b, i))?;
    }
    for sentence in &parting.text {
        writeln!(out, "- {sentence}")?;
    }
    out.flush()?;
    Ok(())
}

fn row(report: &Report, i: usize) -> String {
    let Some(r) = report.records.get(i) else { return String::new() };
    let at = r.segment.at.as_nanos().saturating_sub(report.start_ns);
    format!("{:>9} µs {}", at / 1_000, packet(r))
}

fn packet(r: &Record) -> String {
    let arrow = if r.to_server { "-->" } else { "<--" };
    let flags: Vec<&str> = r.segment.flags.iter_names().map(|(name, _)| name).collect();
    let size = if r.segment.payload > 0 { format!(" {} bytes", r.segment.payload) } else { String::new() };
    format!("{arrow} {}{size}", flags.join(" "))
}
