//! How connections were set up, and how they ended.

use record::{EndedBy, Ending, Opening, Outcome};
use stats::Quantile;
use summary::{SetUps, TraceSummary};

use crate::page::TOO_FEW;
use crate::view::Facts;
use paper::document::{Cell, Column, Section, Table, Text};

/// Services in a table.
const SERVICES: usize = 100;
/// Those that a terminal shows.
const SHOWN: usize = 10;

/// What failed, by the outcome and the word for it.
const FAILURES: [(Outcome, &str); 6] = [
    (Outcome::Refused, "refused"),
    (Outcome::TimedOut, "timed out"),
    (Outcome::Unreachable, "unreachable"),
    (Outcome::NoPort, "without a free port"),
    (Outcome::Abandoned, "abandoned"),
    (Outcome::Unanswered, "without an ACK"),
];

/// The section; empty where no connection was set up, and none ended.
pub(super) fn section(summary: &TraceSummary, facts: &Facts) -> Section {
    let connects = summary.connects();
    let mut section = Section::new("Connections set up");
    let (connected, accepted) = (connects.of(Opening::Connected), connects.of(Opening::Accepted));
    if connected.n() + accepted.n() > 0 {
        section.say(
            [said(connected, "from here"), said(accepted, "to here")]
                .into_iter()
                .flatten()
                .collect::<Vec<_>>()
                .join(" "),
        );
        section.table(services(summary));
        if connects.others > 0 {
            section.say(format!(
                "{} to further services have no separate row.",
                quantity::counted(connects.others, "attempt")
            ));
        }
        facts.connects.iter().filter(|_| accepted.n() > 0).for_each(|note| section.say(note));
    }
    section.table(ends(summary));
    section
}

/// How many attempts there were, and what came of those that failed.
fn said(of: &SetUps, way: &str) -> Option<String> {
    if of.n() == 0 {
        return None;
    }
    let mut each: Vec<String> = FAILURES
        .into_iter()
        .map(|(outcome, word)| (of.outcome(outcome), word))
        .filter(|(n, _)| *n > 0)
        .map(|(n, word)| format!("{} {word}", quantity::count(n)))
        .collect();
    if of.outcome(Outcome::Pending) > 0 {
        each.push(format!("{} pending at the end", quantity::count(of.outcome(Outcome::Pending))));
    }
    if of.retried > 0 {
        let packet = if way == "from here" { "SYN" } else { "SYN-ACK" };
        each.push(format!("{} with a retransmitted {packet}", quantity::count(of.retried)));
    }
    if of.fast_open > 0 {
        each.push(format!("{} with Fast Open", quantity::count(of.fast_open)));
    }
    let established = quantity::count(of.outcome(Outcome::Established));
    let more = if each.is_empty() { String::new() } else { format!("; {}", each.join(", ")) };
    Some(format!("{} {way}: {established} established{more}.", quantity::counted(of.n(), "attempt")))
}

fn services(summary: &TraceSummary) -> Table {
    let columns = [
        Column::text("service"),
        Column::figures("n"),
        Column::figures("refused"),
        Column::figures("timed out"),
        Column::figures("failed otherwise").spare(0),
        Column::figures("retried").spare(1),
        Column::figures("handshake p50"),
        Column::figures("p99"),
        Column::figures("accept wait p50"),
        Column::figures("p99"),
    ];
    let mut table = Table::new("Connections set up, by service", columns);
    for ((opening, end), of) in summary.connects().services().into_iter().take(SERVICES) {
        let way = if opening == Opening::Accepted { "at" } else { "to" };
        let otherwise: u64 = FAILURES[2..].iter().map(|(outcome, _)| of.outcome(*outcome)).sum();
        let mut row = vec![Cell::from(Text::from(format!("{way} ")).and(end))];
        let counts = [of.n(), of.outcome(Outcome::Refused), of.outcome(Outcome::TimedOut), otherwise, of.retried];
        row.extend(counts.map(Cell::count));
        for times in [&of.handshake, &of.accept_wait] {
            row.extend([Quantile::P50, Quantile::P99].map(|q| Cell::ns_or(times.quantile(q), TOO_FEW)));
        }
        table.push(row);
    }
    table.shown = Some(SHOWN);
    table
}

fn ends(summary: &TraceSummary) -> Table {
    let mut table = Table::new(
        "How connections and attempts ended",
        [Column::figures("n"), Column::text("why"), Column::text("by")],
    );
    let mut all: Vec<_> = summary.connects().ends.iter().collect();
    all.sort_by_key(|((ending, by), n)| (std::cmp::Reverse(**n), *ending, *by));
    table.extend(all.into_iter().map(|((ending, by), n)| [Cell::count(*n), why(*ending).into(), who(*by).into()]));
    table
}

fn why(ending: Ending) -> &'static str {
    match ending {
        Ending::Fin => "closed (FIN)",
        Ending::Reset => "reset (RST)",
        Ending::TimedOut => "timed out",
        Ending::Unreachable => "unreachable (ICMP)",
        Ending::Aborted => "destroyed from outside",
        Ending::Closed => "closed before an answer came",
        Ending::NoPort => "no free port",
    }
}

fn who(by: EndedBy) -> &'static str {
    match by {
        EndedBy::Program => "a program of this host",
        EndedBy::Exit => "this host's kernel: the program ended",
        EndedBy::Killed => "this host's kernel: a signal killed the program",
        EndedBy::Peer => "the peer",
        EndedBy::Kernel => "this host's kernel",
        EndedBy::Network => "the network",
    }
}
