//! Where events go: the summary, and the files and lines that were asked for.

use std::fs::File;
use std::io::{self, BufWriter, Write as _};

use anyhow::Context as _;
use export::ndjson::Ndjson;
use export::perfetto::Perfetto;
use record::{End, Event, Instant, Lost, Monotonic, Nanos, Sink, SinkError};
use report::page::trace::{Figures, Subject, describe};
use report::terminal as renderer;
use report::view::Facts;
use store::{Provenance, Writer};
use summary::TraceSummary;
use trace::Requests;

use super::lab_path::Networks;
use super::machine;
use super::request::Request;
use crate::terminal;

/// An output beside the report.
struct Output {
    sink: Box<dyn Sink>,
    /// What it is called in the line that says what was written; empty for lines on standard output.
    name: String,
}

/// The outputs that were asked for. A new one is a sink of its own, and its entry here.
fn asked(request: &Request, provenance: &Provenance, perfetto: Option<File>) -> anyhow::Result<Vec<Output>> {
    let mut outputs = Vec::new();
    let mut add = |sink: Box<dyn Sink>, name: String| outputs.push(Output { sink, name });
    if let Some(path) = &request.run {
        let sink = Writer::create(path, provenance.clone())?;
        add(Box::new(sink), format!("Run {}", path.display()));
    }
    if let (Some(file), Some(path)) = (perfetto, &request.perfetto) {
        let file = BufWriter::with_capacity(1 << 18, file);
        let sink = Perfetto::begin(file, provenance.start_ns, &provenance.clock)
            .with_context(|| format!("cannot write the Perfetto file {}", path.display()))?;
        add(Box::new(sink), format!("Perfetto trace {}", path.display()));
    }
    if request.json {
        add(Box::new(Ndjson::begin(io::stdout(), provenance)?), String::new());
    }
    Ok(outputs)
}

pub struct Outputs {
    figures: Figures,
    provenance: Provenance,
    sinks: Vec<Output>,
    requests: Option<Requests>,
    /// The first thing that went wrong; who passes events on cannot take it.
    failed: Option<SinkError>,
}

impl Outputs {
    pub fn open(request: &Request, provenance: &Provenance, perfetto: Option<File>) -> anyhow::Result<Self> {
        Ok(Self {
            figures: Figures::new(provenance.start_ns, request.slowest),
            provenance: provenance.clone(),
            sinks: asked(request, provenance, perfetto)?,
            requests: request.requests.then(Requests::default),
            failed: None,
        })
    }

    pub fn summary(&self) -> &TraceSummary {
        &self.figures.summary
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
        self.figures.event(event);
        self.each(|sink| sink.event(event));
    }

    /// An output that failed is written no more; the others go on, and are ended as they should.
    fn each(&mut self, mut act: impl FnMut(&mut dyn Sink) -> Result<(), SinkError>) {
        let failed = &mut self.failed;
        self.sinks.retain_mut(|output| match act(&mut *output.sink) {
            Ok(()) => true,
            Err(error) => {
                failed.get_or_insert(error);
                false
            }
        });
    }

    /// After each turn: passes on what has gathered, and says what went wrong.
    pub fn turn(&mut self, now: Instant<Monotonic>) -> anyhow::Result<()> {
        let mut ended = Vec::new();
        if let Some(requests) = &mut self.requests {
            requests.tick(now, &mut |request| ended.push(request));
        }
        self.take_requests(ended);
        self.each(|sink| sink.tick(now));
        self.failed.take().map_or(Ok(()), |error| Err(error.into()))
    }

    /// Ends the outputs and shows the report: that is what was gathered, so it is shown even where an output failed.
    pub fn finish(mut self, request: &Request, facts: &mut Facts, networks: &Networks) -> anyhow::Result<()> {
        let (figures, path) = (self.figures.summary.figures(), networks.path());
        // One end for the run and for what is said of it.
        let at = machine::monotonic();
        facts.lasted = at.since(Instant::from_nanos(self.provenance.start_ns)).unwrap_or(Nanos::ZERO);
        let end = End { at, lost: &facts.lost, coverage: &facts.coverage, figures: &figures, path: path.as_ref() };
        let (mut failed, mut written) = (self.failed, Vec::new());
        for output in self.sinks {
            match output.sink.finish(&end) {
                Ok(said) => written.extend(said.map(|said| format!("{}: {said}.", output.name))),
                Err(error) => drop(failed.get_or_insert(error)),
            }
        }
        if !request.json {
            self.provenance.path = path;
            let name = request.run.as_deref().map(crate::report::name);
            let document = describe(&Subject {
                name: name.as_deref(),
                provenance: &self.provenance,
                finished: true,
                facts,
                slowest: request.slowest,
                figures: &self.figures,
            });
            let mut out = io::stdout().lock();
            out.write_all(renderer::text(&terminal::canvas(), &[document]).as_bytes())?;
            out.flush()?;
        }
        if let Some(error) = failed {
            return Err(error.into());
        }
        if !written.is_empty() && !request.json {
            request.tell("")?;
        }
        written.iter().try_for_each(|line| request.tell(line))?;
        Ok(())
    }
}
