//! Probes, one after another, until there are enough of them or Ctrl-C comes.

use std::io::Write as _;
use std::time::{Duration, Instant};

use paper::document::Document;
use report::page::probe::{self as page, Figures, Subject};

use super::arguments::Args;
use super::json;
use crate::interrupt::Interrupt;
use crate::terminal;

/// How long a sleep may last before an interrupt is looked for again.
const SLICE: Duration = Duration::from_millis(50);

pub fn run(args: &Args) -> anyhow::Result<()> {
    let request = args.request()?;
    let mut prober = request.protocol.prober(request.to, &request.settings)?;
    let interrupt = Interrupt::listen()?;
    let mut out = crate::output::stdout().lock();
    let subject = Subject { protocol: request.protocol.name(), target: &request.target, to: request.to.ip() };
    if !request.json {
        write!(out, "{}", text(page::opening(&subject, prober.as_ref())))?;
    }
    let mut figures = Figures::new(prober.method(), prober.limits());
    let mut due = Instant::now();
    for number in 1..=request.count {
        if !sleep_until(due, interrupt) {
            break;
        }
        // A probe that waited longer than the interval is not made up for by a burst.
        due = (due + request.interval).max(Instant::now());
        let probe = prober.probe(number, interrupt.flag())?;
        figures.add(&probe);
        if request.json {
            writeln!(out, "{}", json::probe(&request, &probe))?;
        } else {
            write!(out, "{}", text(page::one(&probe)))?;
        }
        out.flush()?;
    }
    if request.json {
        writeln!(out, "{}", json::summary(&request, &figures))?;
    } else {
        write!(out, "\n{}", text(page::document(&subject, &figures)))?;
    }
    out.flush()?;
    anyhow::ensure!(figures.came_back > 0 || figures.sent == 0, "{}: nothing came back", request.target);
    Ok(())
}

fn text(document: Document) -> String {
    paper::terminal::text(&terminal::canvas(), &[document])
}

/// Sleeps until `due`; `false` where an interrupt came.
fn sleep_until(due: Instant, interrupt: Interrupt) -> bool {
    loop {
        if interrupt.came() {
            return false;
        }
        let left = due.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        std::thread::sleep(left.min(SLICE));
    }
}
