//! `seeds A..B`: runs the plans of these seeds, some at a time, and prints how right `analyze` is.
//!
//! - `seeds plan N` prints the plan of a seed, and runs nothing.
//! - `seeds worth A..B` runs the plans again in which a finding promises to save a tenth or more,
//!   with the remedy, and prints what it saved.
//! - `seeds trace A..B` runs the plans with a tracer beside each, one at a time unless `--jobs`
//!   says otherwise, and prints how right `trace` is.
//! - `--jobs N`: how many plans run at the same time; most of them wait most of the time.
//! - `--cases FILE`: writes each verdict with its truth, one JSON object a line.
//! - `--keep FOLDER`: shrinks what is wrong of whole captures and writes it there.
//! - `--record FOLDER`: writes every capture there with its truth, and `seeds again FOLDER` judges
//!   what `analyze` of today says of them: two versions of it by the same packets.
//! - `--write`: puts the tables into `docs/truth.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;
use truth::known::Known;
use truth::traced::{self, Verdict};
use truth::{Case, Cause, Kept, Outcome, Plan, Remedy, Worth, cause_name, each, mistakes, tables, worth};

const USAGE: &str = "usage: seeds A..B [--jobs N] [--cases FILE] [--keep FOLDER] [--record FOLDER] [--write] | seeds again FOLDER [--cases FILE] | seeds worth A..B [--jobs N] | seeds trace A..B [--jobs N] [--cases FILE] | seeds plan N";
const DOCUMENT: &str = "docs/truth.md";
const BEGIN: &str = "<!-- by seeds --write -->";
const END: &str = "<!-- end -->";

struct Wanted {
    seeds: Range<u64>,
    jobs: Option<usize>,
    cases: Option<PathBuf>,
    keep: Option<PathBuf>,
    record: Option<PathBuf>,
    write: bool,
}

fn wanted(words: &[String]) -> Option<Wanted> {
    let (first, mut rest) = words.split_first()?;
    let (from, to) = first.split_once("..")?;
    let mut wanted = Wanted {
        seeds: from.parse().ok()?..to.parse().ok()?,
        jobs: None,
        cases: None,
        keep: None,
        record: None,
        write: false,
    };
    while let Some((word, more)) = rest.split_first() {
        rest = more;
        if word == "--write" {
            wanted.write = true;
            continue;
        }
        let (value, more) = rest.split_first()?;
        rest = more;
        match word.as_str() {
            "--jobs" => wanted.jobs = Some(value.parse().ok()?),
            "--cases" => wanted.cases = Some(value.into()),
            "--keep" => wanted.keep = Some(value.into()),
            "--record" => wanted.record = Some(value.into()),
            _ => return None,
        }
    }
    Some(wanted)
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [plan, seed] = &words[..]
        && plan == "plan"
        && let Ok(seed) = seed.parse()
    {
        println!("{:#?}", Plan::draw(seed));
        return ExitCode::SUCCESS;
    }
    if let Some(("again", rest)) = words.split_first().map(|(first, rest)| (first.as_str(), rest)) {
        let (folder, cases) = match rest {
            [folder] => (folder, None),
            [folder, option, file] if option == "--cases" => (folder, Some(file)),
            _ => {
                eprintln!("{USAGE}");
                return ExitCode::from(2);
            }
        };
        return status(again(Path::new(folder), cases.map(Path::new)));
    }
    let (run, rest): (fn(&Wanted) -> std::io::Result<()>, _) = match words.split_first() {
        Some((first, rest)) if first == "worth" => (promises, rest),
        Some((first, rest)) if first == "trace" => (trace, rest),
        _ => (run, &words[..]),
    };
    let Some(wanted) = wanted(rest) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    status(run(&wanted))
}

fn status(result: std::io::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("seeds: {e}");
            ExitCode::FAILURE
        }
    }
}

/// How many plans run at the same time where nothing else is asked for.
const JOBS: usize = 6;

fn promises(wanted: &Wanted) -> std::io::Result<()> {
    let all: Mutex<BTreeMap<Remedy, Vec<Worth>>> = Mutex::default();
    each(wanted.seeds.clone(), wanted.jobs.unwrap_or(JOBS), |seed| {
        for promise in worth(seed) {
            println!("{promise}");
            all.lock().expect("no thread died").entry(promise.remedy).or_default().push(promise);
        }
        Ok(())
    })?;
    println!("\n| remedy | kept | less came | more came | of all time: promised | true | saved |");
    println!("|---|---|---|---|---|---|---|");
    for (remedy, promises) in all.into_inner().expect("no thread died") {
        let count = |kept: Kept| promises.iter().filter(|p| p.kept() == kept).count();
        let took = promises.iter().map(|p| p.took as f64).sum::<f64>();
        let share = |of: &dyn Fn(&Worth) -> f64| promises.iter().map(of).sum::<f64>() / took * 100.0;
        println!(
            "| {remedy:?} | {} | {} | {} | {:.0} % | {:.0} % | {:.0} % |",
            count(Kept::Kept),
            count(Kept::TooMuch),
            count(Kept::TooLittle),
            share(&|p| p.promised as f64),
            share(&|p| p.due as f64),
            share(&|p| p.saved as f64)
        );
    }
    Ok(())
}

/// Judges the captures of a folder anew.
fn again(folder: &Path, file: Option<&Path>) -> std::io::Result<()> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)?.map(|f| f.map(|f| f.path())).collect::<Result<_, _>>()?;
    files.retain(|f| f.extension().is_some_and(|e| e == "json"));
    files.sort();
    let cases: Vec<Case> = files.iter().map(|f| Known::read(f).again(f)).collect();
    cases.iter().filter(|c| c.transforms.is_empty()).for_each(|case| println!("{}", line(case)));
    if let Some(file) = file {
        write_cases(file, &cases)?;
    }
    println!("{}\nWrong verdicts:\n{}", tables(&cases), mistakes(&cases));
    Ok(())
}

fn write_cases(file: &Path, cases: &[impl Serialize]) -> std::io::Result<()> {
    let mut out = std::io::BufWriter::new(std::fs::File::create(file)?);
    for case in cases {
        serde_json::to_writer(&mut out, case)?;
        out.write_all(b"\n")?;
    }
    out.flush()
}

fn run(wanted: &Wanted) -> std::io::Result<()> {
    let all: Mutex<Vec<Case>> = Mutex::new(Vec::new());
    let spoiled = AtomicU64::new(0);
    each(wanted.seeds.clone(), wanted.jobs.unwrap_or(JOBS), |seed| {
        let seen = Plan::draw(seed).run();
        if let Some(why) = &seen.spoiled {
            spoiled.fetch_add(1, Ordering::Relaxed);
            println!("{seed}: not judged: {why}");
            return Ok(());
        }
        let cases = seen.cases();
        for case in cases.iter().filter(|c| c.transforms.is_empty()) {
            println!("{}", line(case));
        }
        if let Some(folder) = &wanted.keep {
            seen.keep_wrong(folder, true)?;
        }
        if let Some(folder) = &wanted.record {
            seen.record(folder)?;
        }
        all.lock().expect("no thread died").extend(cases);
        Ok(())
    })?;
    let cases = all.into_inner().expect("no thread died");
    if let Some(file) = &wanted.cases {
        write_cases(file, &cases)?;
    }
    let Range { start, end } = wanted.seeds;
    let spoiled = spoiled.into_inner();
    let summary = format!(
        "\nSeeds {start} to {}: {} plans ran, and {spoiled} more were spoiled by the machine.\n{}\nWrong verdicts:\n{}",
        end.saturating_sub(1),
        end - start - spoiled,
        tables(&cases),
        mistakes(&cases)
    );
    println!("{summary}");
    if wanted.write {
        let document = std::fs::read_to_string(DOCUMENT)?;
        let parts = document.split_once(BEGIN).and_then(|(before, rest)| Some((before, rest.split_once(END)?.1)));
        let (before, after) = parts.ok_or_else(|| std::io::Error::other(format!("{DOCUMENT} has no place for it")))?;
        std::fs::write(DOCUMENT, format!("{before}{BEGIN}\n{summary}\n{END}{after}"))?;
    }
    Ok(())
}

/// Judges what traces say. Every tracer sees the plans of this process that run beside its own, so
/// one runs at a time.
fn trace(wanted: &Wanted) -> std::io::Result<()> {
    let all: Mutex<Vec<Verdict>> = Mutex::new(Vec::new());
    let backends: Mutex<BTreeSet<String>> = Mutex::default();
    let spoiled = AtomicU64::new(0);
    each(wanted.seeds.clone(), wanted.jobs.unwrap_or(1), |seed| {
        let (seen, traced) = Plan::draw(seed).run_traced();
        if let Some(why) = &seen.spoiled {
            spoiled.fetch_add(1, Ordering::Relaxed);
            println!("{seed}: not judged: {why}");
            return Ok(());
        }
        let verdicts = traced.verdicts(&seen);
        backends.lock().expect("no thread died").insert(traced.backend);
        verdicts.iter().for_each(|verdict| println!("{}", verdict_line(verdict)));
        all.lock().expect("no thread died").extend(verdicts);
        Ok(())
    })?;
    let verdicts = all.into_inner().expect("no thread died");
    if let Some(file) = &wanted.cases {
        write_cases(file, &verdicts)?;
    }
    let Range { start, end } = wanted.seeds;
    let spoiled = spoiled.into_inner();
    println!(
        "\nSeeds {start} to {}, by {}: {} plans ran, and {spoiled} more were spoiled by the machine.\n{}",
        end.saturating_sub(1),
        Vec::from_iter(backends.into_inner().expect("no thread died")).join(" and "),
        end - start - spoiled,
        traced::tables(&verdicts)
    );
    Ok(())
}

/// The largest parts of a truth, and what a verdict is worth.
fn beside(truth: &BTreeMap<Cause, u64>, outcome: &Outcome) -> (String, String) {
    let whole = truth.values().sum::<u64>().max(1) as f64;
    let mut truth: Vec<_> = truth.iter().collect();
    truth.sort_by_key(|t| std::cmp::Reverse(t.1));
    let truth = truth.iter().take(3).map(|(c, t)| format!("{} {:.0} %", cause_name(**c), **t as f64 / whole * 100.0));
    let outcome = match outcome {
        Outcome::Withheld(_) => "withheld".to_owned(),
        other => format!("{other:?}").to_lowercase(),
    };
    (truth.collect::<Vec<_>>().join(", "), outcome)
}

/// One statement of a trace.
fn verdict_line(of: &Verdict) -> String {
    let (truth, outcome) = beside(&of.truth, &of.outcome);
    format!(
        "{}/{} {} {:?}, {} {}: {outcome}; true: {truth}; said: {}",
        of.seed,
        of.talk,
        of.program,
        of.end,
        of.reading.name(),
        of.part.name(),
        of.said
    )
}

/// One verdict on a whole capture.
fn line(case: &Case) -> String {
    let (truth, outcome) = beside(&case.truth, &case.outcome);
    format!(
        "{}/{} {} {:?}: {outcome}; true: {truth}; said: {}",
        case.seed, case.talk, case.program, case.place, case.verdict
    )
}
