//! Where events go: the summary, and the files and lines that were asked for.

use std::fs::File;
use std::io::{self, BufWriter, Stdout, Write as _};

use anyhow::Context as _;
use export::ndjson::Ndjson;
use export::perfetto::Perfetto;
use record::{Event, Instant, Lost, Monotonic};
use report::view::Facts;
use report::{Canvas, view};
use store::{Provenance, Writer};
use summary::Limits;
use summary::TraceSummary;
use trace::Requests;

use super::lab_path::Networks;
use super::request::Request;
use super::{machine, screen};
use crate::exit::BadInput;

pub struct Outputs {
    summary: TraceSummary,
    lines: Option<Ndjson<Stdout>>,
    perfetto: Option<Perfetto<BufWriter<File>>>,
    run: Option<Writer>,
    requests: Option<Requests>,
    /// The first thing that went wrong; an event sink cannot return it.
    failed: Option<anyhow::Error>,
}

impl Outputs {
    pub fn open(request: &Request, provenance: Provenance, perfetto: Option<File>) -> anyhow::Result<Self> {
        let lines = request.json.then(|| Ndjson::begin(io::stdout(), &provenance)).transpose()?;
        let perfetto = perfetto
            .map(|file| {
                Perfetto::begin(BufWriter::with_capacity(1 << 18, file), provenance.start_ns, &provenance.clock)
            })
            .transpose()
            .with_context(|| unwritable(request))?;
        let run =
            request.run.as_ref().map(|path| Writer::create(path, provenance)).transpose().map_err(
                |error| match error {
                    store::Error::Exists(_) | store::Error::Create { .. } => BadInput(error.to_string()).into(),
                    other => anyhow::Error::new(other),
                },
            )?;
        let limits = Limits { slowest: request.slowest, ..Limits::default() };
        Ok(Self {
            summary: TraceSummary::new(limits),
            lines,
            perfetto,
            run,
            requests: request.requests.then(Requests::default),
            failed: None,
        })
    }

    pub fn summary(&self) -> &TraceSummary {
        &self.summary
    }

    pub fn event(&mut self, event: &Event) {
        self.take(event);
        let mut ended = Vec::new();
        if let Some(requests) = &mut self.requests {
            requests.event(event, &mut |request| ended.push(request));
        }
        self.take_requests(ended);
    }

    /// Ends the requests that are still open.
    pub fn end_requests(&mut self) {
        let mut ended = Vec::new();
        if let Some(requests) = &mut self.requests {
            requests.finish(&mut |request| ended.push(request));
        }
        self.take_requests(ended);
    }

    /// Requests that could not be told whole.
    pub fn lost(&self) -> Lost {
        self.requests.as_ref().map(Requests::lost).unwrap_or_default()
    }

    fn take_requests(&mut self, requests: Vec<record::Request>) {
        requests.into_iter().for_each(|request| self.take(&Event::Request(Box::new(request))));
    }

    fn take(&mut self, event: &Event) {
        self.summary.event(event);
        if self.failed.is_none()
            && let Err(error) = self.write(event)
        {
            self.failed = Some(error);
        }
    }

    fn write(&mut self, event: &Event) -> anyhow::Result<()> {
        if let Some(lines) = &mut self.lines {
            lines.event(event)?;
        }
        // A file that failed is written no more; the others are ended as they should.
        if let Some(perfetto) = &mut self.perfetto
            && let Err(error) = perfetto.event(event)
        {
            self.perfetto = None;
            return Err(anyhow::Error::new(error).context("cannot write the Perfetto file"));
        }
        if let Some(run) = &mut self.run
            && let Err(error) = run.event(event)
        {
            self.run = None;
            return Err(error.into());
        }
        Ok(())
    }

    /// After each turn: passes lines on, closes parts that are due, and says what went wrong.
    pub fn turn(&mut self, now: Instant<Monotonic>) -> anyhow::Result<()> {
        let mut ended = Vec::new();
        if let Some(requests) = &mut self.requests {
            requests.tick(now, &mut |request| ended.push(request));
        }
        self.take_requests(ended);
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        if let Some(lines) = &mut self.lines {
            lines.flush()?;
        }
        if let Some(run) = &mut self.run
            && let Err(error) = run.tick(now)
        {
            self.run = None;
            return Err(error.into());
        }
        Ok(())
    }

    /// Ends the files and shows the report.
    pub fn finish(mut self, request: &Request, facts: &Facts, networks: &Networks) -> anyhow::Result<()> {
        if let Some(run) = &mut self.run {
            run.set_path(networks.path());
        }
        // The report is what was gathered, so it is shown even where a file could not be ended.
        let files = self.finish_files(request, facts);
        if let Some(lines) = self.lines.take() {
            lines.finish(&self.summary.figures(), &facts.lost, &facts.coverage)?;
        } else {
            let mut out = io::stdout().lock();
            out.write_all(view::report(&canvas(), &self.summary, facts).as_bytes())?;
            out.flush()?;
        }
        let written = files?;
        if !written.is_empty() && !request.json {
            request.tell("")?;
        }
        written.iter().try_for_each(|line| request.tell(line))?;
        Ok(())
    }

    fn finish_files(&mut self, request: &Request, facts: &Facts) -> anyhow::Result<Vec<String>> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        let mut written = Vec::new();
        if let (Some(run), Some(path)) = (self.run.take(), &request.run) {
            let rows = run.finish(machine::monotonic(), facts.lost, facts.coverage)?;
            let connections = rows.connections;
            let of = |n: u64, things: &str| if n > 0 { format!("{n} {things}, ") } else { String::new() };
            let more = of(rows.receives, "receives")
                + &of(rows.requests, "requests")
                + &of(rows.packets, "packets")
                + &of(rows.datagrams, "datagrams");
            written.push(format!("Run {}: {} sends, {more}{connections} connections.", path.display(), rows.sends));
        }
        if let (Some(perfetto), Some(path)) = (self.perfetto.take(), &request.perfetto) {
            perfetto.finish().with_context(|| unwritable(request))?;
            written.push(format!("Perfetto trace {}: open it in https://ui.perfetto.dev.", path.display()));
        }
        Ok(written)
    }
}

fn unwritable(request: &Request) -> String {
    let path = request.perfetto.as_deref().unwrap_or(std::path::Path::new("-"));
    format!("cannot write the Perfetto file {}", path.display())
}

/// The paper that the report is drawn on: the terminal's width, or 80 columns in a pipe.
fn canvas() -> Canvas {
    let terminal = io::IsTerminal::is_terminal(&io::stdout());
    let width = if terminal { screen::width() } else { None };
    Canvas { width: width.unwrap_or(80), colour: terminal && machine::colour_wanted(), unicode: machine::unicode() }
}
