//! Two captures' connections side by side, to the first point where they diverge.

use std::io::{self, Write};
use std::path::PathBuf;

use diagnose::{Keep, Options, Report};
use report::page::capture::pair::{self, Side};

use super::Args;
use crate::commands::analyze::{Reading, Source, follow, seed};
use crate::exit::BadInput;
use crate::files::{inputs, readers, write_page};
use crate::output::{self, harmless};
use ::files::refuse;

/// Packets kept of each connection; they diverge long before that or not at all.
const PACKETS_KEPT: usize = 500_000;

fn load(source: &Source, number: usize) -> anyhow::Result<(Report, Reading)> {
    let options = Options { seed: seed(), keep: Keep::Connection(number, PACKETS_KEPT), ..Options::default() };
    let (follower, reading) = follow(source, options, 1)?;
    reading.warn();
    match follower.report(number) {
        Some(report) => Ok((report, reading)),
        None => {
            let (file, n) = (source.name(), follower.len());
            Err(BadInput(format!("{file} has {n} connections, there is no number {number}")).into())
        }
    }
}

/// `FILE#N`, where N is digits; a file name may still contain a `#`.
fn choose(argument: &str) -> anyhow::Result<(PathBuf, Option<usize>)> {
    match argument.rsplit_once('#').and_then(|(file, n)| Some((file, n.parse::<usize>().ok()?))) {
        Some((_, 0)) => Err(BadInput(format!("{argument}: connections are numbered from 1")).into()),
        Some((file, n)) => Ok((file.into(), Some(n))),
        None => Ok((argument.into(), None)),
    }
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let (file_a, a) = choose(args.first())?;
    let (file_b, b) = match args.second() {
        Some(second) => choose(second)?,
        None if a.is_some() => {
            return Err(BadInput(format!(
                "{} is compared with what? give a second capture or connection",
                args.first()
            ))
            .into());
        }
        None => (file_a.clone(), Some(2)),
    };
    args.html.as_deref().map_or(Ok(()), |path| refuse(path, args.force))?;
    let (source_a, source_b) = (Source::open(&file_a)?, Source::open(&file_b)?);
    rights::keep_for_decoding(args.html.as_deref(), false)?;
    let ((a, read_a), (b, read_b)) = (load(&source_a, a.unwrap_or(1))?, load(&source_b, b.unwrap_or(1))?);
    let divergence = diagnose::compare(&a, &b);
    let mut out = io::BufWriter::new(output::stdout().lock());
    if args.json.json {
        let value = serde_json::json!({
            "kind": "comparison",
            "first": format!("{}#{}", file_a.display(), a.number),
            "second": format!("{}#{}", file_b.display(), b.number),
            "parting": divergence,
        });
        writeln!(out, "{value}")?;
    }
    let names = [(&file_a, a.number), (&file_b, b.number)].map(|(file, n)| format!("{}#{n}", file.display()));
    let [name_a, name_b] = args.names.as_ref().unwrap_or(&names);
    let document = pair::document(
        &Side { name: name_a, report: &a, names: &read_a.names },
        &Side { name: name_b, report: &b, names: &read_b.names },
        &divergence,
    );
    let documents = [document];
    if !args.json.json {
        out.write_all(output::drawn(&documents, args.shown).as_bytes())?;
    }
    if let Some(html) = &args.html {
        write_page(html, &documents, args.force, readers(&inputs([file_a.as_path(), file_b.as_path()])))?;
        if !args.json.json && !args.shown.csv {
            writeln!(out, "\n{}", harmless(&html.to_string_lossy()))?;
        }
    }
    out.flush()?;
    Ok(())
}
