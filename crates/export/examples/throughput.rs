//! How many events a second each output takes on one core, and what it writes for each: of made-up
//! sends, or of the events of a run.
//!
//! `cargo run --release -p wirelapse-export --example throughput [DIR [OUTPUT [RUN]]]`: what is
//! written stays in DIR, to compare its bytes; with OUTPUT (`none`, `summary`, `ndjson`,
//! `perfetto`, `parquet`) that one alone runs, to count its instructions.

use std::fs::{self, File};
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::time::Instant;

use export::ndjson::Ndjson;
use export::perfetto::Perfetto;
use record::Event;
use store::{Run, Writer};
use summary::{Limits, TraceSummary};

type Failed = Box<dyn std::error::Error>;

/// Sends and what belongs to them, in the order of their tables.
fn events_of(run: &Path) -> Result<Vec<Event>, Failed> {
    let (run, mut events) = (Run::open(run)?, Vec::new());
    run.records(&mut |event| events.push(event), &mut |read| read)?;
    Ok(events)
}

/// Bytes of a file, or of the files in a directory.
fn written(path: &Path) -> u64 {
    let Ok(metadata) = fs::metadata(path) else { return 0 };
    if metadata.is_file() {
        return metadata.len();
    }
    fs::read_dir(path).into_iter().flatten().flatten().map(|entry| written(&entry.path())).sum()
}

fn timed(
    name: &str,
    events: &[Event],
    to: &Path,
    output: impl FnOnce(&mut std::slice::Iter<'_, Event>) -> Result<(), Failed>,
) -> Result<(), Failed> {
    if std::env::args().nth(2).is_some_and(|only| only != name) {
        return Ok(());
    }
    let start = Instant::now();
    output(&mut events.iter())?;
    let (n, seconds) = (events.len() as f64, start.elapsed().as_secs_f64());
    println!("{name}: {:.0} events a second, {:.1} bytes each", n / seconds, written(to) as f64 / n);
    Ok(())
}

fn main() -> Result<(), Failed> {
    let mut arguments = std::env::args_os().skip(1);
    let scratch = std::env::temp_dir().join(format!("wirelapse-throughput-{}", std::process::id()));
    let (dir, kept) = arguments.next().map_or((scratch, false), |dir| (PathBuf::from(dir), true));
    let run = arguments.nth(1).map(PathBuf::from);
    let events = run.map_or_else(|| Ok(synthetic::trace(100, 1_000)), |run| events_of(&run))?;
    fs::create_dir_all(&dir)?;
    let provenance = synthetic::provenance();
    timed("summary", &events, Path::new(""), |events| {
        let mut summary = TraceSummary::new(Limits::default(), record::Instant::from_nanos(0));
        events.for_each(|event| summary.add(event));
        Ok(())
    })?;
    let to = dir.join("lines");
    timed("ndjson", &events, &to, |events| {
        let mut lines = Ndjson::begin(File::create(&to)?, &provenance)?;
        events.try_for_each(|event| lines.event(event))?;
        Ok(lines.flush()?)
    })?;
    let to = dir.join("perfetto");
    timed("perfetto", &events, &to, |events| {
        let mut trace = Perfetto::begin(BufWriter::new(File::create(&to)?), 0, &provenance.clock)?;
        Ok(events.try_for_each(|event| trace.event(event))?)
    })?;
    let to = dir.join("run");
    timed("parquet", &events, &to, |events| {
        let mut writer = Writer::create(&to, provenance.clone())?;
        events.try_for_each(|event| writer.event(event))?;
        writer.finish(record::Instant::from_nanos(0), record::Lost::default(), record::Coverage::default())?;
        Ok(())
    })?;
    if !kept {
        fs::remove_dir_all(&dir)?;
    }
    Ok(())
}
