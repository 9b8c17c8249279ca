//! What is said of a trace: while its tracer ends, and later of its run.

mod connects;
mod figures;
mod glance;
mod labels;
mod names;
mod sends;
mod timeline;

use record::{Event, Instant, Lost, Monotonic, Nanos, Ratio, Role, Sampling};
use store::{Error, Provenance, Run, SamplingMethod, State};

use super::{command, facts};
use crate::view::{self, Facts};
use paper::document::{Block, Cell, Clause, ClauseKind, Column, Document, Section, Table, Waterfalls, texts};
use summary::{Limits, TimedKind, Timeline, TraceSummary};

/// Connections in a table.
const CONNECTIONS: usize = 100;
/// Connections that a terminal shows.
const CONNECTIONS_SHOWN: usize = 20;
/// Slow records that a terminal shows, where nothing else is asked for.
pub const SLOWEST_SHOWN: usize = 5;
/// Slow records that a page draws.
const WATERFALLS: usize = 20;

/// The figures of a trace that begins at `start`, with at least `slowest` slow records of each
/// kind: what [`describe`] draws.
pub fn figures(start: Instant<Monotonic>, slowest: usize) -> TraceSummary {
    TraceSummary::new(Limits { slowest: slowest.max(WATERFALLS), ..Limits::default() }, start)
}

/// What a document of a trace is made from.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// What the run is called; `None` where none is written.
    pub name: Option<&'a str>,
    /// How it was made.
    pub provenance: &'a Provenance,
    /// What the path of the lab reports that the traced program is in.
    pub path: Option<&'a serde_json::Value>,
    /// Whether it was ended as it should: what was lost is not known otherwise.
    pub finished: bool,
    /// What stands beside the figures.
    pub facts: &'a Facts,
    /// How many of the slowest records a terminal shows.
    pub slowest: usize,
    /// The figures.
    pub figures: &'a TraceSummary,
}

/// A trace that was read.
#[derive(Debug)]
pub struct Trace {
    /// The figures.
    pub figures: TraceSummary,
    /// What stands beside them.
    pub facts: Facts,
    /// What has to be known before they are believed.
    pub warnings: Vec<String>,
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

/// Makes a warning of a missing table, and of one that ends too early in a run that is not
/// finished: the rest of the run is read all the same.
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

/// Reads a trace: once over its tables, in bounded memory.
///
/// # Errors
/// Those of [`Run::sends`], but missing tables become a warning.
pub fn read(run: &Run) -> Result<Trace, Error> {
    read_with(run, &mut |_| {})
}

/// As [`read`], and passes every event on: connections before what happened on them.
pub(crate) fn read_with(run: &Run, each: &mut dyn FnMut(&Event)) -> Result<Trace, Error> {
    let p = run.provenance();
    let mut warnings = Vec::new();
    if run.state() == State::Unfinished {
        warnings.push(
            "This run was never finished: it is still being written, or its writer was killed. What was lost, and what share \
             was seen, is not known."
                .into(),
        );
    }
    if let Some(least) = p.min_latency {
        warnings.push(format!(
            "Only what took {least} or longer was kept (--min-latency): these figures are of that, and not of everything that was traced."
        ));
    }
    let mut all = figures(Instant::from_nanos(p.start_ns), WATERFALLS);
    let mut put = |event: Event| {
        all.add(&event);
        each(&event);
    };
    let found = run.records(&mut put, &mut |result| incomplete(run, result, &mut warnings))?;
    warnings.extend(run.rows().and_then(|stated| copied_in_part(stated, found)));
    let facts = Facts {
        target: p.target.clone(),
        backend: p.backend.clone(),
        sampling: sampling(run),
        coverage: run.coverage().unwrap_or_default(),
        lost: run.lost().unwrap_or_default(),
        lasted: Nanos(run.end_ns().unwrap_or_else(|| all.last().as_nanos()).saturating_sub(p.start_ns)),
        no_nic: None,
        calls: p.calls.as_ref().map(view::call_remarks).unwrap_or_default(),
        connects: p.connects.as_ref().map(view::call_remarks).unwrap_or_default(),
        receiving: p.receiving.as_ref().map(view::receiving_remarks).unwrap_or_default(),
        http: p.http.as_ref().map(view::call_remarks).unwrap_or_default(),
        packets: p.packets.as_ref().map(view::packet_remarks).unwrap_or_default(),
        copies: Vec::new(),
        dns: p.dns.as_ref().map(view::call_remarks).unwrap_or_default(),
    };
    Ok(Trace { figures: all, facts, warnings })
}

/// Where the tables hold other numbers of rows than `run.json` says.
fn copied_in_part(stated: store::Rows, found: store::Rows) -> Option<String> {
    let differ: Vec<String> = stated
        .of_kinds()
        .zip(found.of_kinds())
        .filter(|((_, stated), (_, found))| stated != found)
        .map(|((table, stated), (_, found))| {
            format!("{} {table}, and its tables hold {}", quantity::count(stated), quantity::count(found))
        })
        .collect();
    (!differ.is_empty()).then(|| format!("run.json speaks of {}: they were not copied whole.", differ.join("; of ")))
}

/// What is said of a run; `name` is what the run is called.
///
/// # Errors
/// As [`read`].
pub fn document(name: &str, run: &Run) -> Result<Document, Error> {
    let trace = read(run)?;
    let subject = Subject {
        name: Some(name),
        provenance: run.provenance(),
        path: run.lab_path(),
        finished: run.state() == State::Finished,
        facts: &trace.facts,
        slowest: SLOWEST_SHOWN,
        figures: &trace.figures,
    };
    Ok(Document { warnings: texts(&trace.warnings), ..describe(&subject) })
}

/// What is said of a trace.
pub fn describe(of: &Subject) -> Document {
    let (summary, facts) = (of.figures, of.facts);
    let what: Vec<String> = TimedKind::ALL
        .into_iter()
        .filter(|&kind| kind == TimedKind::Sends || summary.n(kind) > 0)
        .map(|kind| view::counted(kind, summary.n(kind)))
        .collect();
    let clock = of.provenance.clock;
    let host = of.provenance.host.as_ref().map_or_else(String::new, |host| format!(" on {host}"));
    let about = format!(
        "A trace of {}{host}, {}, over {}: {} on {}, {}, by {}.",
        facts.target,
        clock.date_and_time(of.provenance.start_ns),
        facts.lasted,
        what.join(", "),
        quantity::counted(summary.connection_count(), "connection"),
        of.provenance.cost_ppm.map_or_else(|| view::sampling(facts.sampling), |_| "as much as --cost allows".into()),
        facts.backend
    );
    // Requests are what is asked where there are any.
    let mut kinds: Vec<_> = TimedKind::ALL.into_iter().zip(of.figures.timelines()).collect();
    kinds.sort_by_key(|(kind, _)| !matches!(kind, TimedKind::AtClient | TimedKind::AtServer));
    let mut sections: Vec<Section> = kinds.into_iter().map(|(kind, timeline)| section(of, kind, timeline)).collect();
    sections.retain(|section| !section.blocks.is_empty());
    if sections.is_empty() {
        sections.push(Section::new(TimedKind::Sends.title()));
    }
    sections[0].blocks.extend(glance::glance(summary, facts).map(Block::Glance));
    sections.insert(1, connects::section(summary, facts));
    sections.insert(2, names::section(summary, facts, of.slowest));
    sections.push(drops(summary));
    let mut lost = Section::new("What was not seen");
    losses(&mut lost, of.finished.then_some(facts.lost), facts);
    facts.copies.iter().for_each(|note| lost.say(note));
    lost.blocks.extend(of.provenance.cost_ppm.map(|ppm| {
        let share = quantity::percent_exact(ppm as f64 / 1e6);
        let how = format!(
            "Less of each connection's time was traced where all of it would have cost more than {share} of the CPU time that the traced programs use (--cost)."
        );
        Block::Words(how.into())
    }));
    sections.extend([lost, environment(of)]);
    sections.retain(|s| !s.blocks.is_empty());
    let mut verdict = view::sentences(summary, facts);
    if of.finished {
        let missing = [view::partial(&facts.coverage), view::unrecorded(&facts.lost)];
        let at = verdict.len().min(1);
        verdict.splice(at..at, missing.into_iter().flatten().map(Clause::caveat));
    }
    if let Some(fired) = &of.provenance.fired {
        verdict.insert(0, Clause::finding(view::fired(fired)));
    }
    let title = of.name.map_or_else(|| "Trace".to_owned(), |name| format!("Trace {name}"));
    Document { title: title.into(), about, verdict, warnings: Vec::new(), sections, ..Document::default() }
}

/// All that is said of one kind.
fn section(of: &Subject, kind: TimedKind, timeline: &Timeline) -> Section {
    let (summary, facts) = (of.figures, of.facts);
    let mut section = Section { title: kind.title().into(), plots_last: true, ..Section::default() };
    if summary.n(kind) == 0 {
        return section;
    }
    if TimedKind::ALL.into_iter().any(|other| other != kind && summary.n(other) > 0) {
        // What the verdict begins with is not said twice.
        let mut clauses = view::words_of_any(summary, facts, kind);
        if view::requests_of(summary, kind).is_some() {
            clauses.retain(|clause| clause.kind != ClauseKind::Finding);
        }
        if !clauses.is_empty() {
            section.say(view::in_one(&clauses));
        }
    }
    section.table(figures::leg_table(summary, kind));
    if let Some(requests) = view::requests_of(summary, kind) {
        section.table(labels::table(requests));
    }
    section.plot(figures::cdf(summary, kind));
    section.plot(figures::boxes(summary, kind));
    section.say(figures::meanings(summary, kind));
    notes(&mut section, summary, facts, kind);
    section.blocks.extend(figures::histograms(summary, kind).map(Block::Histograms));
    section.plot(figures::shares(summary, kind));
    if kind == TimedKind::Sends {
        section.plot(sends::waits(summary));
    }
    section.plot(timeline::quantiles(timeline));
    section.plot(timeline::heat(timeline));
    section.plot(timeline::rate(timeline));
    let clock = of.provenance.clock;
    let slowest = match kind {
        TimedKind::Sends => sends::waterfalls(summary, clock),
        TimedKind::Receives => figures::slowest(&summary.receives().records, clock),
        TimedKind::AtClient => figures::slowest(&summary.requests().of(Role::Client).records, clock),
        TimedKind::AtServer => figures::slowest(&summary.requests().of(Role::Server).records, clock),
        TimedKind::Packets => figures::slowest(&summary.packets().records, clock),
        TimedKind::DatagramsSent => figures::slowest(&summary.datagrams().sent, clock),
        TimedKind::DatagramsReceived => figures::slowest(&summary.datagrams().received, clock),
    };
    section.blocks.extend(slowest.map(|all| Block::Waterfalls(Waterfalls { shown: of.slowest, ..all })));
    section.table(match kind {
        TimedKind::Sends => sends::connection_table(summary),
        _ => figures::connection_table(summary, kind),
    });
    if kind == TimedKind::Sends && summary.others().connections > 0 {
        section.say(format!(
            "{} with the fewest sends have no separate figures: {} are kept one by one.",
            quantity::counted(summary.others().connections, "connection"),
            quantity::count(summary.connections().len() as u64)
        ));
    }
    section
}

/// What has to be known to read the table of legs.
fn notes(section: &mut Section, summary: &TraceSummary, facts: &Facts, kind: TimedKind) {
    match kind {
        TimedKind::Sends => view::leg_notes(summary.total(), facts).into_iter().for_each(|note| section.say(note)),
        kind => {
            let (things, n) = (format!("{}s", kind.thing()), summary.times(kind)[kind.total()].1.n());
            view::held(n, &things).into_iter().for_each(|why| section.say(why));
        }
    }
    match kind {
        TimedKind::Receives => {
            let receives = summary.receives();
            section.say(format!(
                "Received: {} in {} of {}. At most {} waited in a socket to be read.",
                quantity::bytes(receives.records.bytes),
                quantity::counted(receives.records.n, "frame"),
                quantity::counted(receives.segments, "segment"),
                quantity::bytes(receives.most_queued.into())
            ));
            facts.receiving.iter().for_each(|note| section.say(note));
        }
        TimedKind::AtClient | TimedKind::AtServer => {
            let requests = summary.requests().of(if kind == TimedKind::AtClient { Role::Client } else { Role::Server });
            section.say(format!(
                "{} asked, {} answered.",
                quantity::bytes(requests.request_bytes),
                quantity::bytes(requests.answer_bytes)
            ));
            view::labelled(requests).into_iter().for_each(|how| section.say(how));
            facts.http.iter().for_each(|note| section.say(note));
        }
        TimedKind::Packets => {
            let packets = summary.packets();
            section.say(format!(
                "{} of {}, {}.",
                quantity::counted(packets.records.n, "packet"),
                quantity::counted(packets.segments, "segment"),
                quantity::bytes(packets.records.bytes)
            ));
            facts.packets.iter().for_each(|note| section.say(note));
        }
        TimedKind::DatagramsSent | TimedKind::DatagramsReceived => {
            let datagrams = summary.datagrams();
            let records = if kind == TimedKind::DatagramsSent { &datagrams.sent } else { &datagrams.received };
            section.say(format!("{}, {}.", quantity::counted(records.n, "datagram"), quantity::bytes(records.bytes)));
            facts.packets.iter().for_each(|note| section.say(note));
        }
        TimedKind::Sends => {}
    }
}

/// What the kernel dropped on this host, by its reason.
fn drops(summary: &TraceSummary) -> Section {
    let mut section = Section::new("Dropped on this host");
    let mut table = Table::new(
        "Drops by the kernel's reason",
        [Column::figures("n"), Column::text("what"), Column::text("reason")],
    );
    let (packets, datagrams) = (&summary.packets().drops, &summary.datagrams().drops);
    let all = packets.iter().map(|d| ("packets", d)).chain(datagrams.iter().map(|d| ("datagrams", d)));
    let mut rows: Vec<_> =
        all.map(|(what, ((direction, reason), n))| (*n, format!("{what} {}", direction.name()), reason)).collect();
    rows.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| (&a.1, a.2).cmp(&(&b.1, b.2))));
    section.plot(figures::drops(&rows));
    table.extend(rows.into_iter().map(|(n, what, reason)| [Cell::count(n), what.into(), reason.to_string().into()]));
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

fn n_of(n: u64, kind: TimedKind) -> String {
    format!("n = {}", quantity::counted(n, kind.thing()))
}

fn losses(section: &mut Section, lost: Option<Lost>, facts: &Facts) {
    let Some(lost) = lost else {
        section.say("What was lost is not known, because the run was never finished.");
        return;
    };
    let mut table = Table::new(
        "Counters of losses that are not zero",
        [Column::figures("n"), Column::text("what"), Column::text("key")],
    );
    for (key, words, n) in lost.entries().filter(|e| e.2 > 0) {
        table.push([Cell::count(n), words.into(), key.into()]);
    }
    if table.rows.is_empty() {
        section.say("Nothing was lost: every counter of losses is zero.");
    }
    section.table(table);
    section.say(view::seen(&facts.coverage, facts.sampling));
}

fn environment(of: &Subject) -> Section {
    let p = of.provenance;
    let mut section = Section::new("Environment");
    section.table(facts(
        "",
        [
            ("command", command(&p.command_line)),
            ("version", p.version.clone()),
            ("kernel", p.kernel.clone()),
            ("machine", format!("{}, {}", p.machine, quantity::counted(u64::from(p.cpus), "CPU"))),
            ("backend", p.backend.clone()),
            ("sampling", view::sampling(of.facts.sampling)),
            (
                "clock",
                format!("CLOCK_MONOTONIC; to the time of day within {}", Nanos(p.clock.realtime_offset_error_ns)),
            ),
            ("state", if of.finished { "finished" } else { "unfinished" }.into()),
        ],
    ));
    if let Some(path) = of.path {
        let text = format!("{path:#}");
        section.blocks.push(Block::Code { title: "What the lab's path reports".into(), text });
    }
    section
}
