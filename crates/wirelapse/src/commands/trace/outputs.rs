//! Where events go: the summary, and the files and lines that were asked for.

use std::collections::HashMap;
use std::io::{self, Write as _};
use std::net::IpAddr;

use anyhow::Context as _;
use export::ndjson::Ndjson;
use export::packets::{Packets, Traced};
use record::{End, Event, Instant, Lost, Monotonic, Nanos, Send, Sink, SinkError};
use report::page::trace::{self, Subject, describe};
use report::view::Facts;
use store::Provenance;
use summary::{Requests, TraceSummary};

use super::files::Opened;
use super::recorder::{Plan, Recorder};
use super::request::Request;
use super::slow::Slow;
use crate::exit::{is_closed_pipe, message};
use crate::output::{self, complain, note};

/// What is printed with `--min-latency`, in errors.
const SLOW_LINES: &str = "lines of what is slow";

/// An output beside the report.
struct Output {
    sink: Box<dyn Sink>,
    /// What it is called in the line that says what was written; empty for lines on standard
    /// output.
    name: String,
}

/// The outputs that were asked for.
fn asked(request: &Request, provenance: &Provenance, files: Vec<Opened>) -> anyhow::Result<Vec<Output>> {
    let mut outputs = Vec::new();
    let mut add = |sink: Box<dyn Sink>, name: String| outputs.push(Output { sink, name });
    if let Some(path) = &request.run {
        request.remove_old_run()?;
        let sink = store::Writer::create(path, provenance.clone())?;
        add(Box::new(sink), format!("Run {}", path.display()));
    }
    for file in files {
        let (sink, name) = file.begin(provenance)?;
        add(sink, name);
    }
    if let Some(packets) = &request.packets {
        let (sink, name) = packets.begin(provenance, request.force)?;
        add(sink, name);
    }
    if request.json {
        add(Box::new(Ndjson::begin(output::stdout(), provenance)?), String::new());
    }
    Ok(outputs)
}

pub struct Outputs {
    /// The first of the sinks: the report and the live table are drawn from it.
    summary: TraceSummary,
    provenance: Provenance,
    outputs: Vec<Output>,
    requests: Option<Requests>,
    /// Joins packets with what belongs to them, where they are copied.
    packets: Option<Packets>,
    /// Decides what the outputs get, with `--min-latency`; the summary gets everything.
    slow: Option<Slow>,
    /// Holds everything back, with `--until`.
    recorder: Option<Recorder>,
    /// Whether the outputs are open.
    writes: bool,
    /// The first thing that went wrong; who passes events on cannot take it.
    failed: Option<SinkError>,
}

impl Outputs {
    pub fn open(request: &Request, provenance: &Provenance, files: Vec<Opened>) -> anyhow::Result<Self> {
        let recorder = request.recorder.clone().map(|plan| {
            Recorder::begin(plan, provenance.clock, Instant::from_nanos(provenance.start_ns))
                .context("cannot listen for SIGUSR1")
        });
        let recorder = recorder.transpose()?;
        let writes = recorder.is_none();
        Ok(Self {
            summary: trace::figures(Instant::from_nanos(provenance.start_ns), request.slowest),
            provenance: provenance.clone(),
            outputs: if writes { asked(request, provenance, files)? } else { Vec::new() },
            requests: request.requests.then(|| {
                let requests = match request.config.http {
                    true => Requests::with_labels(),
                    false => Requests::default(),
                };
                if request.traces_whole_programs() { requests.joining_programs() } else { requests }
            }),
            packets: request.packets.as_ref().map(|_| {
                let (receives, datagrams) = (request.config.receive, request.config.udp);
                Packets::new(Traced { receives, datagrams })
            }),
            slow: request.min_latency.map(|least| Slow::new(least, provenance.clock, !request.json)),
            recorder,
            writes,
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

    /// Ends the requests that are still open; `lost` is what was missed.
    pub fn end_requests(&mut self, lost: &Lost) {
        let mut ended = Vec::new();
        if let Some(requests) = &mut self.requests {
            requests.missed(lost, timestamping::now());
            requests.finish(&mut |request| ended.push(request));
        }
        self.take_requests(ended);
    }

    /// Requests that are not whole.
    pub fn lost(&self) -> Lost {
        self.requests.as_ref().map(Requests::lost).unwrap_or_default()
    }

    fn take_requests(&mut self, requests: Vec<record::Request>) {
        requests.into_iter().for_each(|request| self.take(&request.into()));
    }

    fn take(&mut self, event: &Event) {
        match &mut self.recorder {
            Some(recorder) => recorder.event(event, timestamping::now()),
            None => self.pass_on(event),
        }
    }

    fn pass_on(&mut self, event: &Event) {
        let kept = self.slow.as_mut().map_or(Ok(true), |slow| slow.keeps(event));
        if let Err(error) = self.summary.event(event) {
            self.failed.get_or_insert(error);
        }
        self.packets(|packets, leave| packets.event(event, leave));
        match kept {
            Ok(true) if Packets::holds(event) => {}
            Ok(true) => self.each(|sink| sink.event(event)),
            Ok(false) => {}
            Err(error) => drop(self.failed.get_or_insert(SinkError::new(SLOW_LINES, error))),
        }
    }

    /// Passes on the packets that leave.
    fn packets(&mut self, act: impl FnOnce(&mut Packets, &mut dyn FnMut(Event))) {
        let Some(packets) = &mut self.packets else { return };
        let mut left = Vec::new();
        act(packets, &mut |event| left.push(event));
        left.iter().for_each(|event| self.each(|sink| sink.event(event)));
    }

    /// An output that failed is written no more; the others go on, and are ended as they should.
    fn each(&mut self, mut act: impl FnMut(&mut dyn Sink) -> Result<(), SinkError>) {
        let failed = &mut self.failed;
        let mut done = |sink: &mut dyn Sink| match act(sink) {
            Ok(()) => true,
            Err(error) => {
                failed.get_or_insert(error);
                false
            }
        };
        self.outputs.retain_mut(|output| done(&mut *output.sink));
    }

    /// The time from which on sends are told of while they wait for their ACK, where they are.
    pub fn tells_waiting(&self) -> Option<Nanos> {
        self.recorder.as_ref().map_or_else(|| self.slow.as_ref().map(Slow::least), Recorder::longest_send)
    }

    /// Tells of sends that wait for their ACK.
    pub fn waiting(&mut self, sends: Vec<Send>) {
        if let Some(recorder) = &mut self.recorder {
            return sends.first().map_or((), |send| recorder.waits(send, timestamping::now()));
        }
        match self.slow.as_mut().map_or(Ok(Vec::new()), |slow| slow.waiting(sends)) {
            Ok(fresh) => fresh.iter().for_each(|send| self.each(|sink| sink.waiting(send))),
            Err(error) => drop(self.failed.get_or_insert(SinkError::new(SLOW_LINES, error))),
        }
    }

    /// After each turn: passes on what has gathered, and says what went wrong. `lost` is what was
    /// missed up to now.
    pub fn turn(
        &mut self,
        request: &Request,
        now: Instant<Monotonic>,
        lost: impl FnOnce() -> Lost,
    ) -> anyhow::Result<()> {
        let mut ended = Vec::new();
        let is_asked = self.recorder.is_some() || self.requests.as_ref().is_some_and(Requests::joins_programs);
        let lost = if is_asked { lost() } else { Lost::default() };
        if let Some(requests) = &mut self.requests {
            requests.missed(&lost, now);
            requests.tick(now, &mut |request| ended.push(request));
        }
        self.take_requests(ended);
        match &mut self.recorder {
            Some(recorder) => {
                recorder.turn(now, lost);
                self.replay(request, false)?;
            }
            None => self.tick(now),
        }
        self.failed.take().map_or(Ok(()), |error| Err(error.into()))
    }

    fn tick(&mut self, now: Instant<Monotonic>) {
        if let Err(error) = self.summary.tick(now) {
            self.failed.get_or_insert(error);
        }
        self.packets(|packets, leave| packets.tick(now, leave));
        self.each(|sink| sink.tick(now));
    }

    /// Passes on what a recorder holds, once what it waits for has happened: some of it, or `all`.
    fn replay(&mut self, request: &Request, all: bool) -> anyhow::Result<()> {
        let Some(recorder) = &mut self.recorder else { return Ok(()) };
        let Some(fired) = recorder.fired().cloned() else { return Ok(()) };
        let began = recorder.began().0;
        let earlier = if self.writes { Vec::new() } else { recorder.take_earlier() };
        let turns = recorder.take(all);
        if !self.writes {
            self.writes = true;
            note(&format!("Recording: {}", fired.finding));
            self.provenance.start_ns = began.as_nanos();
            self.provenance.fired = Some(fired);
            self.summary = trace::figures(began, request.slowest);
            self.outputs = asked(request, &self.provenance, request.files.open(request.force)?)?;
        }
        earlier.iter().for_each(|event| self.pass_on(event));
        for (at, events) in turns {
            events.iter().for_each(|event| self.pass_on(event));
            self.tick(at);
        }
        Ok(())
    }

    /// Whether what was asked for is there: in a recorder, or in an output.
    pub fn are_over(&self, now: Instant<Monotonic>) -> bool {
        self.recorder.as_ref().is_some_and(|recorder| recorder.is_over(now))
            || self.outputs.iter().any(|output| output.sink.is_over())
    }

    /// Ends the outputs and shows the report: that is what was gathered, so it is shown even where
    /// an output failed. `names` are those of hosts, by their addresses.
    pub fn finish(
        mut self,
        request: &Request,
        facts: &mut Facts,
        path: Option<serde_json::Value>,
        names: &HashMap<IpAddr, String>,
    ) -> anyhow::Result<()> {
        let mut fired = 0;
        if let Some(recorder) = &mut self.recorder {
            recorder.turn(timestamping::now(), facts.lost);
            let Some(what) = recorder.fired() else {
                return Ok(request.tell(&recorder_waited(request, facts))?);
            };
            fired = what.times;
            facts.lost = facts.lost - recorder.began().1;
            self.replay(request, true)?;
            if let Some(of) = &mut self.provenance.fired {
                of.times = fired;
            }
        }
        self.packets(Packets::finish);
        let figures = self.summary.figures();
        // One end for the run and for what is said of it.
        let at = timestamping::now();
        facts.lasted = at.since(Instant::from_nanos(self.provenance.start_ns)).unwrap_or(Nanos::ZERO);
        let end =
            End { at, lost: &facts.lost, coverage: &facts.coverage, figures: &figures, path: path.as_ref(), fired };
        let (mut failed, mut written) = (Vec::from_iter(self.failed.map(anyhow::Error::from)), Vec::new());
        for output in self.outputs {
            match output.sink.finish(&end) {
                Ok(said) => written.extend(said.map(|said| format!("{}: {said}.", output.name))),
                Err(error) => failed.push(error.into()),
            }
        }
        if !request.json {
            let name = request.run.as_deref().map(crate::files::name);
            let mut document = describe(&Subject {
                name: name.as_deref(),
                provenance: &self.provenance,
                path: path.as_ref(),
                finished: true,
                facts,
                slowest: request.slowest,
                figures: &self.summary,
            });
            document.name_hosts(names);
            // Of one process that was there before, and may still be.
            if let ([pid], true) = (&request.config.target.pids[..], request.command.is_empty()) {
                document.then = report::page::advice::try_on_process(&self.summary, *pid);
            }
            let mut out: Box<dyn io::Write> = match request.stdout_is_of_packets() {
                true => Box::new(output::stderr()),
                false => Box::new(output::stdout().lock()),
            };
            let text = output::drawn(&[document], request.shown);
            failed.extend(out.write_all(text.as_bytes()).and_then(|()| out.flush()).err().map(anyhow::Error::from));
        }
        // Each is said: the last one by whoever calls.
        failed.retain(|error| !is_closed_pipe(error));
        if let Some(last) = failed.pop() {
            failed.iter().for_each(|error| complain!("{}", message(error)));
            return Err(last);
        }
        if !written.is_empty() && !request.json {
            request.tell("")?;
        }
        written.iter().try_for_each(|line| request.tell(line))?;
        if self.recorder.as_ref().is_some_and(Recorder::was_short) {
            request.tell(
                "The memory for what is kept was full: the run begins later than --keep says. Raise --keep-memory.",
            )?;
        }
        Ok(())
    }
}

/// That nothing happened.
fn recorder_waited(request: &Request, facts: &Facts) -> String {
    let waited = request.recorder.as_ref().map(Plan::in_words).unwrap_or_default();
    format!("`{waited}` did not happen in {}: nothing was written.", facts.lasted)
}
