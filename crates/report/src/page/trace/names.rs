//! Names that were looked up, by server, and the slowest lookups.

use paper::document::{Cell, Column, Section, Table};
use stats::Quantile;
use summary::{NameFigures, TraceSummary};

use crate::page::TOO_FEW;
use crate::view::{self, Facts};

/// Servers that a terminal shows.
const SERVERS_SHOWN: usize = 10;

/// The section; empty where no name was looked up.
pub(super) fn section(summary: &TraceSummary, facts: &Facts, shown: usize) -> Section {
    let names = summary.names();
    let mut section = Section::new("Names looked up");
    if names.lookups == 0 {
        return section;
    }
    section.say(said(names));
    section.table(servers(names));
    if names.others > 0 {
        let others = quantity::counted(names.others, "question");
        section.say(format!("{others} to further servers have no separate row."));
    }
    section.table(slowest(names, shown));
    facts.dns.iter().for_each(|note| section.say(note));
    section
}

fn said(names: &NameFigures) -> String {
    let mut parts = Vec::new();
    let mut add = |n: u64, what: &str| {
        if n > 0 {
            parts.push(format!("{} {what}", quantity::count(n)));
        }
    };
    add(names.retried, "with more than one try");
    add(names.failed, "with an error");
    add(names.unanswered, "without an answer");
    let more = if parts.is_empty() { String::new() } else { format!("; {}", parts.join(", ")) };
    let lookups = quantity::counted(names.lookups, "lookup");
    format!("{lookups} in {}{more}.", quantity::counted(names.questions(), "question"))
}

fn servers(names: &NameFigures) -> Table {
    let columns = [
        Column::text("server"),
        Column::figures("questions"),
        Column::figures("no answer"),
        Column::figures("errors"),
        Column::figures("truncated").spare(0),
        Column::figures("p50"),
        Column::figures("p99"),
        Column::figures("max"),
    ];
    let mut table = Table::new("Questions by server", columns);
    for (at, of) in names.servers() {
        let mut row = vec![Cell::from(view::names::server(at)), Cell::count(of.questions)];
        row.extend([of.unanswered + of.open, of.failed, of.truncated].map(Cell::count));
        row.extend([Quantile::P50, Quantile::P99].map(|q| Cell::ns_or(of.took.quantile(q), TOO_FEW)));
        row.push(Cell::ns_or(of.took.max(), "—"));
        table.push(row);
    }
    table.shown = Some(SERVERS_SHOWN);
    table
}

fn slowest(names: &NameFigures, shown: usize) -> Table {
    let columns = [
        Column::figures("waited"),
        Column::text("name"),
        Column::text("type"),
        Column::figures("tries"),
        Column::text("answer"),
        Column::text("server"),
        Column::text("process"),
    ];
    let mut table = Table::new("The slowest lookups", columns);
    for of in names.slowest() {
        let (last, owner) = (&of.last, of.first.owner);
        let answer = match &last.code {
            Some(code) if of.is_answered() => format!("{} ({code})", last.answered.words()),
            _ => last.answered.words().to_owned(),
        };
        let process = if owner.pid == 0 { "—".to_owned() } else { format!("{} ({})", owner.comm, owner.pid) };
        table.push([
            Cell::ns_or(Some(of.waited.0), ""),
            of.first.name.clone().into(),
            of.first.kind.clone().into(),
            Cell::count(of.first.tries),
            answer.into(),
            view::names::server(last.server).into(),
            process.into(),
        ]);
    }
    table.shown = Some(shown);
    table
}
