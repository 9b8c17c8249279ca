//! Two traces side by side.

use std::io::Write as _;
use std::path::Path;

use ::report::page::comparison;
use store::RunKind;
use summary::between::{self, Side};

use super::Args;
use crate::exit::BadInput;
use crate::files::{inputs, readers, write_images, write_page};
use crate::output::{self, harmless};

/// Whether an argument names a run rather than a capture.
pub(super) fn is_run(argument: &str) -> bool {
    Path::new(argument).is_dir()
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let Some(second) = args.second() else {
        return Err(BadInput(format!("{} is compared with what? give a second run", args.first())).into());
    };
    for argument in [args.first(), second] {
        if !is_run(argument) {
            let problem =
                format!("{argument} is no run, and a run compares only with another: give two runs, or two captures");
            return Err(BadInput(problem).into());
        }
    }
    let kinds = [store::kind(Path::new(args.first()))?, store::kind(Path::new(second))?];
    if kinds == [RunKind::Study; 2] {
        return super::studies::run(args, second);
    }
    if kinds == [RunKind::Workload; 2] {
        return super::workloads::run(args, second);
    }
    for (argument, kind) in [args.first(), second].into_iter().zip(kinds) {
        if kind != RunKind::Trace {
            let problem = format!(
                "{argument} is the run of {kind}, and a comparison is of two traces, two studies or two workloads: `wirelapse report {} {second}` puts both on one page",
                args.first()
            );
            return Err(BadInput(problem).into());
        }
    }
    let names = args.names(second);
    let (a, b) = (read(args.first(), &names[0])?, read(second, &names[1])?);
    let compared = between::two(&a, &b);
    let document = comparison::document(&compared, &a, &b);
    let mut out = output::stdout().lock();
    if args.json.json {
        let mut value = comparison::json(&compared)?;
        value["kind"] = "run_comparison".into();
        writeln!(out, "{value}")?;
    } else {
        out.write_all(output::drawn(std::slice::from_ref(&document), args.shown).as_bytes())?;
    }
    let mut written = Vec::new();
    if args.html.is_some() || args.images.any() {
        let inputs = inputs([args.first(), second].map(Path::new));
        let readers = readers(&inputs);
        written = write_images(&args.images, &[(String::new(), &document)], args.force, readers)?;
        if let Some(html) = &args.html {
            write_page(html, &[document], args.force, readers)?;
            written.push(html.clone());
        }
    }
    if !args.json.json && !args.shown.csv && !written.is_empty() {
        writeln!(out)?;
        written.iter().try_for_each(|path| writeln!(out, "{}", harmless(&path.to_string_lossy())))?;
    }
    out.flush()?;
    Ok(())
}

fn read(path: &str, name: &str) -> anyhow::Result<Side> {
    let run = store::Run::open(Path::new(path))?;
    Ok(comparison::read(name, &run)?)
}
