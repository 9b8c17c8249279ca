//! A capture as a whole: its connections, what limited them, and what was found.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::SocketAddr;

use diagnose::{Limit, Report};
use record::Nanos;
use record::conversation::{FindingKind, FindingRow, Verdict};
use record::transaction::Transaction;
use store::State;
use store::capture::{Provenance, Run};

use super::columns::{CONNECTION, FINDING, cells, finding_notes, table};
use super::{Dns, Names, Network, Quic, Tls, Udp};
use super::{clauses_of, dns, ends, headline, host_names, network, quic, sentence, tls, transactions, udp};
use crate::page::{command, facts};
use paper::document::{Clause, Document, Row, Section, Text, texts};
use paper::plot::{Axis, Hue, Layer, Plot, Span, Unit};
use summary::{Hurt, Overview};

/// Connections that a terminal shows, where nothing else is asked for.
pub const SHOWN: usize = 50;
/// Lookups that a page shows.
const ROWS: usize = 500;
/// Connections that are drawn.
const DRAWN: usize = 30;
/// Findings that a terminal shows.
const FINDINGS_SHOWN: usize = 10;

/// Adds a connection that was followed.
pub fn add(overview: &mut Overview, report: &Report) {
    let findings: Vec<FindingRow> = report.finding_rows().collect();
    overview.conversation(report.row(), &findings);
}

/// What a document of a capture is made from.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// What the run is called; `None` where none is written.
    pub name: Option<&'a str>,
    /// Where it comes from.
    pub provenance: &'a Provenance,
    /// Whether it was read, or written, to its end.
    pub finished: bool,
    /// How many connections a terminal shows.
    pub shown: usize,
    /// What was gathered.
    pub overview: &'a Overview,
    /// DNS, beside it.
    pub dns: &'a Dns,
    /// TLS.
    pub tls: &'a Tls,
    /// QUIC.
    pub quic: &'a Quic,
    /// UDP.
    pub udp: &'a Udp,
    /// What the network itself said.
    pub network: &'a Network,
    /// What hosts did to reach a name.
    pub transactions: &'a [Transaction],
    /// Processes by their ends, as far as the capture has them; a run keeps none.
    pub processes: &'a BTreeMap<SocketAddr, String>,
}

impl Subject<'_> {
    /// What the capture itself calls its ends.
    fn names(&self) -> Names {
        Names { hosts: self.provenance.names.clone(), processes: self.processes.clone() }
    }
}

/// The document of the run of a capture; `name` is what the run is called.
pub fn document(name: &str, run: &Run, state: State) -> Document {
    let mut overview = Overview::new(SHOWN);
    // Both tables are in the order of the connections' numbers.
    let mut findings = run.findings.as_slice();
    for c in &run.conversations {
        let own = findings.iter().position(|f| f.number != c.number).unwrap_or(findings.len());
        overview.conversation(c.clone(), &findings[..own]);
        findings = &findings[own..];
    }
    let finished = state == State::Finished;
    let (dns, tls) = (&Dns::of_run(&run.dns, ROWS), &Tls::of_run(&run.tls, ROWS));
    let (quic, udp) = (&Quic::of_run(&run.quic, ROWS), &Udp::of_run(&run.udp, ROWS));
    let network = &Network::of_run(&run.network, ROWS);
    let (name, provenance, overview) = (Some(name), &run.provenance, &overview);
    let transactions = &run.transactions;
    let processes = &BTreeMap::new();
    describe(&Subject {
        name,
        provenance,
        finished,
        shown: SHOWN,
        overview,
        dns,
        tls,
        quic,
        udp,
        network,
        transactions,
        processes,
    })
}

/// What is said of a capture.
pub fn describe(of: &Subject) -> Document {
    let overview = of.overview.clone().sorted();
    let p = of.provenance;
    let called = &of.names();
    let mut warnings = Vec::new();
    if !of.finished {
        warnings.push("This run was never finished: its tables may not be whole.".to_owned());
    }
    if let Some(beyond) = p.beyond_limit.filter(|n| *n > 0) {
        let beyond = quantity::counted(beyond, "segment");
        warnings.push(format!("{beyond} of further connections, beyond --max-connections, are only counted."));
    }
    let mut limits = Section::new("What limited the connections");
    limits.plot(budgets(&overview, of.shown, called));
    let mut lost = Section::new("What was not seen");
    let mut unread: Vec<String> = p.unread.clone();
    if let Some(copies) = p.capture_copies.filter(|n| *n > 0) {
        unread.push(format!("{} made by the capture itself omitted", quantity::counted(copies, "duplicate")));
    }
    if unread.is_empty() {
        lost.say("Every packet of the capture was read.");
    } else {
        lost.list(unread);
    }
    let names = host_names(&[&of.tls.names, &of.quic.names, &of.dns.names]);
    let hellos = match (of.tls.names.is_empty(), of.quic.names.is_empty()) {
        (true, true) => "",
        (false, true) => "TLS hellos (SNI)",
        (true, false) => "QUIC hellos (SNI)",
        (false, false) => "TLS and QUIC hellos (SNI)",
    };
    let sources = match (of.dns.names.is_empty(), hellos) {
        (true, "") => None,
        (false, "") => Some("of DNS answers in the capture".to_owned()),
        (true, hellos) => Some(format!("of {hellos} in the capture")),
        (false, hellos) => Some(format!("of DNS answers and {hellos} in the capture")),
    };
    let mut environment = Section::new("Environment");
    environment.table(facts(
        "",
        [
            ("command", command(&p.command_line)),
            ("version", p.version.clone()),
            ("capture", p.source.clone()),
            ("packets", quantity::count(p.packets)),
        ]
        .into_iter()
        .chain(sources.map(|sources| ("names of hosts", sources))),
    ));
    let mut sections = vec![
        transactions::section(of.transactions, of.shown, called),
        connections(&overview, of),
        limits,
        found(&overview, called),
        dns::section(of.dns, of.shown, called),
        tls::section(of.tls, of.shown, called),
        quic::section(of.quic, of.shown, called),
        udp::section(of.udp, of.shown, called),
        network::section(of.network, of.shown, called),
        lost,
        environment,
    ];
    sections.retain(|s| !s.blocks.is_empty());
    let segments = p.segments.filter(|n| *n > 0).map(|n| format!(", {}", quantity::counted(n, "TCP segment")));
    let lookups = Some(of.dns.lookups).filter(|n| *n > 0).map(|n| format!(", {}", quantity::counted(n, "name lookup")));
    let quic = Some(of.quic.connections).filter(|n| *n > 0);
    let quic = quic.map(|n| format!(", {}", quantity::counted(n, "QUIC connection")));
    let udp = Some(of.udp.own()).filter(|n| *n > 0);
    let udp = udp.map(|n| format!(", {}", quantity::counted(n, "other UDP conversation")));
    let about = format!(
        "{}: {}{}, {}{}{}{}.",
        p.source,
        quantity::counted(p.packets, "packet"),
        segments.unwrap_or_default(),
        quantity::counted(overview.connections, "connection"),
        quic.unwrap_or_default(),
        lookups.unwrap_or_default(),
        udp.unwrap_or_default()
    );
    let title = of.name.map_or_else(|| "Capture".to_owned(), |name| format!("Capture {name}"));
    let verdict = headline::clauses(of, verdict(&overview));
    let mut document =
        Document { title: title.into(), about, verdict, warnings: texts(warnings), sections, ..Document::default() };
    document.name_hosts(&dns::named_hosts(&names));
    document
}

/// What took the time first, and what the worst finding cost; `None` without a connection.
fn verdict(overview: &Overview) -> Option<(Vec<Clause>, Nanos)> {
    let worth = |f: &FindingRow| (!f.worth.is_empty()).then(|| sentence(&format!("worth: {}", f.worth)));
    let clauses = match overview.hurt.as_slice() {
        [] => return None,
        [only] if overview.connections == 1 => {
            // A finding that the verdict does not have, such as a reset.
            let verdict = &only.conversation.verdict;
            let is_said = |f: &FindingRow| {
                verdict.finding.is_some() || verdict.limited == f.text || verdict.step.as_ref() == Some(&f.worth)
            };
            let other = only.by.as_ref().filter(|f| !is_said(f)).map(|f| Clause::detail(sentence(&f.text)));
            clauses_of(verdict).into_iter().chain(other).collect()
        }
        [Hurt { by: Some(f), .. }, ..] if f.cost_ns > Nanos::ZERO => {
            let headline =
                format!("Connection {} lost most: {} to {}.", f.number, f.cost_ns, FindingKind::words_of(&f.kind));
            let details = [sentence(&f.text)].into_iter().chain(worth(f)).map(Clause::detail);
            [Clause::finding(headline)].into_iter().chain(details).collect()
        }
        all => {
            let rest =
                format!("{}: no finding has a cost in time.", quantity::counted(overview.connections, "connection"));
            let longest = all.iter().max_by_key(|h| h.conversation.duration_ns);
            let said = longest.map_or_else(Vec::new, |h| {
                let verdict = &h.conversation.verdict;
                let limited = format!("connection {} took longest: {}", h.conversation.number, verdict.limited);
                clauses_of(&Verdict { limited, ..verdict.clone() })
            });
            said.into_iter().chain([Clause::finding(rest)]).collect()
        }
    };
    Some((clauses, overview.hurt[0].by.as_ref().map_or(Nanos::ZERO, |f| f.cost_ns)))
}

fn connections(overview: &Overview, of: &Subject) -> Section {
    let mut section = Section::new("Connections");
    let title = match overview.connections {
        n if n > overview.hurt.len() as u64 => format!(
            "The {} of {} connections that findings cost most",
            quantity::count(overview.hurt.len() as u64),
            quantity::count(n)
        ),
        1 => String::new(),
        _ => "Those that findings cost most first".into(),
    };
    let mut table = table(title, CONNECTION);
    let names = &of.names();
    for Hurt { conversation: c, .. } in &overview.hurt {
        table.push(Row::of(cells(CONNECTION, c, names)).noted([c.verdict.to_string()]));
    }
    table.shown = Some(of.shown);
    table.elsewhere = format!("`analyze --rows {}` or a page shows them", overview.connections);
    section.table(table);
    section
}

fn budgets(overview: &Overview, shown: usize, names: &Names) -> Option<Plot> {
    let shown = &overview.hurt[..overview.hurt.len().min(shown).min(DRAWN)];
    let mut spans: [Vec<Span>; Limit::ALL.len()] = std::array::from_fn(|_| Vec::new());
    let mut rows = Vec::new();
    for (i, Hurt { conversation: c, .. }) in (0u32..).zip(shown) {
        rows.push(Text::from(format!("{}. ", c.number)).and(ends(names, c.client, c.server)));
        let mut from = 0u64;
        for limit in Limit::ALL {
            let took = c.limits.of(limit);
            if took == Nanos::ZERO {
                continue;
            }
            let share = quantity::percent(quantity::share(took.0.into(), c.duration_ns.0.into()));
            let label = format!("{}: {} ({share})\n{}", limit.words(), took, c.verdict);
            let to = from.saturating_add(took.0);
            spans[limit as usize].push(Span { at: f64::from(i), from: from as f64, to: to as f64, label });
            from = to;
        }
    }
    let layers = spans
        .into_iter()
        .zip(Limit::ALL)
        .map(|(items, limit)| Layer::Spans { name: limit.words().into(), hue: hue(limit), items })
        .collect();
    let drawn = match shown.len() as u64 {
        n if n < overview.connections => format!("The first {n} of n = {}", quantity::count(overview.connections)),
        n => format!("n = {}", quantity::counted(n, "connection")),
    };
    Plot::new(
        "limits",
        "Each connection's time by what limited it",
        format!("{drawn}. The times add up to the connection's duration, and are not in the order in which they came."),
        (Axis::linear("time", Unit::Time).reaching(0.0), Axis::names("", rows)),
        layers,
    )
}

/// The colour of a limit: one for each, and the neutral one for what is not known.
fn hue(limit: Limit) -> Hue {
    match limit {
        Limit::Unknown => Hue::NEUTRAL,
        Limit::Application => Hue(10),
        Limit::Handshake => Hue(7),
        Limit::SlowStart => Hue(0),
        Limit::CongestionWindow => Hue(1),
        Limit::ReceiveWindow => Hue(2),
        Limit::LossRecovery => Hue(3),
        Limit::AckWaiting => Hue(4),
        Limit::PathRate => Hue(5),
    }
}

fn found(overview: &Overview, names: &Names) -> Section {
    let mut section = Section::new("Findings");
    section.plot(costs(overview));
    let title = match overview.findings {
        n if n > overview.costliest.len() as u64 => {
            format!("The {} costliest of {} findings", overview.costliest.len(), quantity::count(n))
        }
        1 => String::new(),
        _ => "The costliest first".into(),
    };
    let mut table = table(title, FINDING);
    overview.costliest.iter().for_each(|f| table.push(Row::of(cells(FINDING, f, names)).noted(finding_notes(f))));
    table.shown = Some(FINDINGS_SHOWN);
    table.elsewhere = "`analyze --story`, `--json` or a page shows them".into();
    section.table(table);
    section
}

fn costs(overview: &Overview) -> Option<Plot> {
    let mut kinds: Vec<_> = overview.kinds.iter().filter(|k| k.1 > Nanos::ZERO).collect();
    kinds.sort_by_key(|k| Reverse((k.1, k.2)));
    let items: Vec<Span> = (0u32..)
        .zip(&kinds)
        .map(|(i, (kind, cost, n))| Span {
            at: f64::from(i),
            from: 0.0,
            to: cost.0 as f64,
            label: format!("{}: {cost}, n = {}", FindingKind::words_of(kind), quantity::counted(*n, "finding")),
        })
        .collect();
    let names = kinds.iter().map(|(kind, _, n)| format!("{} (n = {n})", FindingKind::words_of(kind)));
    Plot::new(
        "findings",
        "What the findings cost",
        "Time, summed over connections; n is the number of findings. Findings on one connection can overlap.",
        (Axis::linear("time", Unit::Time).reaching(0.0), Axis::names("", names)),
        vec![Layer::Spans { name: String::new(), hue: Hue(1), items }],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_limits_have_one_colour() {
        let hues: std::collections::BTreeSet<Hue> = Limit::ALL.into_iter().map(hue).collect();
        assert_eq!(hues.len(), Limit::ALL.len());
    }
}
