//! The page of a trace.

mod figures;
mod sends;
mod timeline;

use record::{Event, Lost, Nanos, Ratio, Role, Sampling};
use store::{Error, Run, SamplingMethod, State};

use super::{command, facts};
use crate::document::{Block, Document, Section, Table};
use crate::view::{self, Facts};
use summary::{Limits, TraceSummary};
use summary::{Timed, TimedKind};
use timeline::Timeline;

/// Connections in a table.
const CONNECTIONS: usize = 100;
/// Records that are drawn as waterfalls.
const WATERFALLS: usize = 20;

/// A trace that was read.
#[derive(Debug)]
pub struct Trace {
    /// The figures.
    pub summary: TraceSummary,
    /// What stands beside them.
    pub facts: Facts,
    /// What has to be known before they are believed.
    pub warnings: Vec<String>,
    timelines: Vec<Timeline>,
}

/// How the sends of a run were chosen.
pub fn sampling(run: &Run) -> Sampling {
    let asked = run.provenance().sampling;
    let ratio = std::num::NonZeroU32::new(asked.one_in).map_or(Ratio::ALL, Ratio);
    match asked.method {
        SamplingMethod::Every => Sampling::Every,
        SamplingMethod::Windows => Sampling::Windows(ratio),
        SamplingMethod::Draws => Sampling::Draws(ratio),
    }
}

/// What of a run is not whole: said, and then gone on without.
pub(crate) fn incomplete(run: &Run, result: Result<(), Error>, warnings: &mut Vec<String>) -> Result<(), Error> {
    match result {
        // A run that was killed may lack what it had not begun.
        Err(error @ Error::NoTable { .. }) => warnings.push(format!("{error}. What follows goes on without it.")),
        Err(error @ (Error::Truncated { .. } | Error::Malformed { .. })) if run.state() == State::Unfinished => {
            warnings.push(format!("{error}. What was read before it is below."));
        }
        other => return other,
    }
    Ok(())
}

/// What is gathered while a run is read.
struct Gathering<'a> {
    summary: TraceSummary,
    timelines: Vec<Timeline>,
    last: u64,
    each: &'a mut dyn FnMut(&Event),
}

impl Gathering<'_> {
    fn event(&mut self, event: &Event) {
        match event {
            Event::Send(send) => self.timed(send),
            Event::Receive(receive) => self.timed(receive),
            Event::Request(request) => self.timed(request.as_ref()),
            // What never came to the packet scheduler has no times.
            Event::Packet(packet) if packet.sched.is_some() => self.timed(packet.as_ref()),
            Event::Datagram(datagram) => self.timed(datagram.as_ref()),
            _ => {}
        }
        self.summary.event(event);
        (self.each)(event);
    }

    fn timed<T: Timed>(&mut self, record: &T) {
        let at = TimedKind::ALL.iter().position(|f| *f == record.kind()).unwrap_or(0);
        self.timelines[at].add(record);
        if let (Some(began), Ok(Some(took))) = (record.began(), record.time(record.kind().total())) {
            self.last = self.last.max(began.after(took).as_nanos());
        }
    }
}

/// Reads a trace: once over its tables, in bounded memory.
///
/// # Errors
/// Those of [`Run::sends`], save that tables which are missing become a warning.
pub fn read(run: &Run) -> Result<Trace, Error> {
    read_with(run, &mut |_| {})
}

/// As [`read`], and passes every event on: connections before what happened on them.
pub(crate) fn read_with(run: &Run, each: &mut dyn FnMut(&Event)) -> Result<Trace, Error> {
    let limits = Limits { connections: 2_000, slowest: WATERFALLS };
    let p = run.provenance();
    let mut warnings = Vec::new();
    let timelines = TimedKind::ALL.map(|kind| Timeline::new(kind, p.start_ns)).into();
    let mut all = Gathering { summary: TraceSummary::new(limits), timelines, last: p.start_ns, each };
    if run.state() == State::Unfinished {
        warnings.push(
            "This run was never finished: it is still being written, or its writer was killed. What was lost, and what share \
             was seen, is not known."
                .into(),
        );
    }
    let mut found = store::Rows::default();
    let mut put = |event: Event, n: &mut u64| {
        *n += 1;
        all.event(&event);
    };
    let result = run.connections(|c| put(Event::Connection(c), &mut found.connections));
    incomplete(run, result, &mut warnings)?;
    let result = run.sends(|s| put(Event::Send(s), &mut found.sends));
    incomplete(run, result, &mut warnings)?;
    let result = run.receives(|r| put(Event::Receive(r), &mut found.receives));
    incomplete(run, result, &mut warnings)?;
    let result = run.requests(|r| put(Event::Request(Box::new(r)), &mut found.requests));
    incomplete(run, result, &mut warnings)?;
    let result = run.packets(|p| put(Event::Packet(Box::new(p)), &mut found.packets));
    incomplete(run, result, &mut warnings)?;
    let result = run.datagrams(|d| put(Event::Datagram(Box::new(d)), &mut found.datagrams));
    incomplete(run, result, &mut warnings)?;
    let result = run.totals(|t| put(Event::Closed { connection: t.connection, totals: t.totals }, &mut found.totals));
    incomplete(run, result, &mut warnings)?;
    warnings.extend(run.rows().and_then(|told| copied_in_part(told, found)));
    let facts = Facts {
        target: p.target.clone(),
        backend: p.backend.clone(),
        sampling: sampling(run),
        coverage: run.coverage().unwrap_or_default(),
        lost: run.lost().unwrap_or_default(),
        lasted: Nanos(run.end_ns().unwrap_or(all.last).saturating_sub(p.start_ns)),
        no_nic: None,
        receiving: p.receiving.as_ref().map(view::receiving_remarks).unwrap_or_default(),
        packets: p.packets.as_ref().map(view::packet_remarks).unwrap_or_default(),
    };
    Ok(Trace { summary: all.summary, facts, warnings, timelines: all.timelines })
}

/// Where the tables hold other numbers of rows than `run.json` tells.
fn copied_in_part(told: store::Rows, found: store::Rows) -> Option<String> {
    let tables = |r: store::Rows| {
        [
            ("connections", r.connections),
            ("sends", r.sends),
            ("receives", r.receives),
            ("requests", r.requests),
            ("packets", r.packets),
            ("datagrams", r.datagrams),
        ]
    };
    let differ: Vec<String> = tables(told)
        .into_iter()
        .zip(tables(found))
        .filter(|(told, found)| told.1 != found.1)
        .map(|(told, found)| {
            format!("{} {}, and its tables hold {}", quantity::count(told.1), told.0, quantity::count(found.1))
        })
        .collect();
    (!differ.is_empty()).then(|| format!("run.json speaks of {}: they were not copied whole.", differ.join("; of ")))
}

/// The page of a trace; `name` is what the run is called.
///
/// # Errors
/// As [`read`].
pub fn document(name: &str, run: &Run) -> Result<Document, Error> {
    let trace = read(run)?;
    let Trace { summary, facts, warnings, timelines } = &trace;
    let what: Vec<String> = TimedKind::ALL
        .into_iter()
        .filter(|&kind| kind == TimedKind::Sends || summary.n(kind) > 0)
        .map(|kind| view::counted(kind, summary.n(kind)))
        .collect();
    let about = format!(
        "A trace of {} over {}: {} on {}, {}, by {}.",
        facts.target,
        facts.lasted,
        what.join(", "),
        quantity::counted(summary.connection_count(), "connection"),
        view::sampling(facts.sampling),
        facts.backend
    );
    let mut sections: Vec<Section> =
        TimedKind::ALL.iter().zip(timelines).map(|(kind, timeline)| section(&trace, *kind, timeline)).collect();
    sections.push(drops(summary));
    let mut lost = Section::new("What was not seen");
    losses(&mut lost, run.lost(), facts);
    sections.extend([lost, environment(run)]);
    sections.retain(|s| !s.blocks.is_empty());
    let verdict = view::sentences(summary, facts);
    Ok(Document { title: format!("Trace {name}"), about, verdict, warnings: warnings.clone(), sections })
}

/// All that is said of one kind.
fn section(trace: &Trace, kind: TimedKind, timeline: &Timeline) -> Section {
    let (summary, facts) = (&trace.summary, &trace.facts);
    let mut section = Section::new(kind.title());
    if summary.n(kind) == 0 {
        return section;
    }
    if TimedKind::ALL.into_iter().any(|other| other != kind && summary.n(other) > 0) {
        // The verdict says only what each of several families comes to.
        section.say(view::words_of_any(summary, facts, kind).join(" "));
    }
    section.plot(figures::cdf(summary, kind));
    section.plot(figures::boxes(summary, kind));
    section.table(figures::leg_table(summary, kind));
    section.say(figures::meanings(summary, kind));
    section.plot(figures::shares(summary, kind));
    if kind == TimedKind::Sends {
        section.plot(sends::waits(summary));
    }
    section.plot(timeline.quantiles());
    section.plot(timeline.heat());
    section.plot(timeline.rate());
    section.plot(match kind {
        TimedKind::Sends => sends::waterfalls(summary),
        TimedKind::Receives => figures::slowest(&summary.receives().records),
        TimedKind::AtClient => figures::slowest(&summary.requests().of(Role::Client).records),
        TimedKind::AtServer => figures::slowest(&summary.requests().of(Role::Server).records),
        TimedKind::Packets => figures::slowest(&summary.packets().records),
        TimedKind::DatagramsSent => figures::slowest(&summary.datagrams().sent),
        TimedKind::DatagramsReceived => figures::slowest(&summary.datagrams().received),
    });
    section.table(match kind {
        TimedKind::Sends => sends::connection_table(summary),
        _ => figures::connection_table(summary, kind),
    });
    let notes = match kind {
        TimedKind::Receives => &facts.receiving,
        TimedKind::Packets | TimedKind::DatagramsSent | TimedKind::DatagramsReceived => &facts.packets,
        _ => &Vec::new(),
    };
    notes.iter().for_each(|note| section.say(note));
    section
}

/// What the kernel threw away on this host, by its reason.
fn drops(summary: &TraceSummary) -> Section {
    let mut section = Section::new("Dropped on this host");
    let mut table = Table::new("Drops by the kernel's reason", &["n", "what", "reason"]);
    let (packets, datagrams) = (&summary.packets().drops, &summary.datagrams().drops);
    let all = packets.iter().map(|d| ("packets", d)).chain(datagrams.iter().map(|d| ("datagrams", d)));
    let mut rows: Vec<_> =
        all.map(|(what, ((direction, reason), n))| (*n, format!("{what} {direction}"), reason)).collect();
    rows.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| (&a.1, a.2).cmp(&(&b.1, b.2))));
    section.plot(figures::drops(&rows));
    table.rows.extend(rows.into_iter().map(|(n, what, reason)| vec![quantity::count(n), what, reason.to_string()]));
    section.table(table);
    section
}

/// The name of a plot: that of the sends is the shortest.
fn id(kind: TimedKind, name: &str) -> String {
    match kind {
        TimedKind::Sends => name.to_owned(),
        _ => format!("{}-{name}", kind.key()),
    }
}

/// With a capital at its beginning.
pub(crate) fn capital(words: &str) -> String {
    let mut letters = words.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn n_of(n: u64, kind: TimedKind) -> String {
    format!("n = {}", quantity::counted(n, kind.thing()))
}

fn losses(section: &mut Section, lost: Option<Lost>, facts: &Facts) {
    let Some(lost) = lost else {
        section.say("What was lost is not known, because the run was never finished.");
        return;
    };
    let mut table = Table::new("Counters of losses that are not zero", &["n", "what", "key"]);
    for (key, words, n) in lost.entries().filter(|e| e.2 > 0) {
        table.rows.push(vec![quantity::count(n), words.into(), key.into()]);
    }
    if table.rows.is_empty() {
        section.say("Nothing was lost: every counter of losses is zero.");
    }
    section.table(table);
    section.say(view::seen(&facts.coverage, facts.sampling));
}

fn environment(run: &Run) -> Section {
    let p = run.provenance();
    let mut section = Section::new("Environment");
    section.table(facts(
        "",
        [
            ("command", command(&p.command_line)),
            ("version", p.version.clone()),
            ("kernel", p.kernel.clone()),
            ("machine", format!("{}, {} processors", p.machine, p.cpus)),
            ("backend", p.backend.clone()),
            ("sampling", view::sampling(sampling(run))),
            (
                "clock",
                format!("CLOCK_MONOTONIC; to the time of day within {}", Nanos(p.clock.realtime_offset_error_ns)),
            ),
            ("state", if run.state() == State::Finished { "finished" } else { "unfinished" }.into()),
        ],
    ));
    if let Some(path) = &p.path {
        let text = serde_json::to_string_pretty(path).unwrap_or_default();
        section.blocks.push(Block::Code { title: "What the lab's path says of itself".into(), text });
    }
    section
}
