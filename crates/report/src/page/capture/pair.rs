//! Two connections side by side, to the first point where they diverge.

use diagnose::{Difference, Divergence, Record, Report, Way};

use super::{Names, ends, sentence};
use paper::document::{Cell, Clause, Column, Document, Section, Table};

/// Rows shown before the point where they diverge.
const CONTEXT: usize = 12;
/// Rows shown from that point on.
const AFTER: usize = 6;

/// One of the two.
#[derive(Clone, Copy, Debug)]
pub struct Side<'a> {
    /// What it is called: `a.pcap#1`.
    pub name: &'a str,
    /// The connection, with its packets.
    pub report: &'a Report,
    /// Names of hosts.
    pub names: &'a Names,
}

/// What is said of two connections that diverge like this.
pub fn document(a: &Side, b: &Side, divergence: &Divergence) -> Document {
    let mut differences = Section::new("What differs");
    differences.list(divergence.text.iter().map(|t| sentence(t)));
    let mut packets = Section::new("Packets");
    packets.table(table(a, b, divergence));
    let verdict = match (divergence.at, divergence.difference) {
        (Some(at), Some(Difference::Time)) => format!("They diverge at packet {}: it comes later in one.", at + 1),
        (Some(at), Some(Difference::End)) => format!("They diverge at packet {}: one has ended.", at + 1),
        (Some(at), _) => format!("They diverge at packet {}: it is another kind of packet.", at + 1),
        (None, _) if divergence.between.is_some() => "They are one connection, captured at two places.".into(),
        (None, _) => "They do not diverge.".into(),
    };
    Document {
        title: format!("{} and {}", file(a.name), file(b.name)).into(),
        about: format!("{} and {}, packet by packet, to the first point where they diverge.", a.name, b.name),
        verdict: vec![Clause::finding(verdict)],
        warnings: Vec::new(),
        sections: vec![differences, packets],
        ..Document::default()
    }
}

/// The last piece of a path: a title has no room for more.
fn file(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

fn table(a: &Side, b: &Side, divergence: &Divergence) -> Table {
    let rows = a.report.records.len().max(b.report.records.len());
    let from = divergence.at.map_or(0, |at| at.saturating_sub(CONTEXT));
    let to = divergence.at.map_or(rows.min(CONTEXT), |at| rows.min(at + AFTER));
    let head = |side: &Side| ends(side.names, side.report.client, side.report.server).to_string();
    let (time, head) = (|| Column::figures("time"), |side| Column::text(head(side)));
    let mut table = Table::new("", [Column::figures("packet"), time(), head(a), time(), head(b), "".into()]);
    for i in from..to {
        let [(t, p), (u, q)] = [a, b].map(|side| cells(side.report, i));
        let mark = if divergence.at == Some(i) { "← here they diverge" } else { "" };
        table.push([Cell::count(i as u64 + 1), t, p, u, q, mark.into()]);
    }
    table
}

/// When a packet came, and which it is.
fn cells(report: &Report, i: usize) -> (Cell, Cell) {
    let Some(r) = report.records.get(i) else { return Default::default() };
    let at = r.segment.at.as_nanos().saturating_sub(report.start_ns);
    (Cell::figure(format!("{} µs", quantity::count(at / 1_000))), packet(r).into())
}

fn packet(r: &Record) -> String {
    let arrow = if r.way == Way::ToServer { "→" } else { "←" };
    let flags: Vec<&str> = r.segment.flags.iter_names().map(|(name, _)| name).collect();
    let size = if r.segment.payload > 0 { format!(" {} bytes", r.segment.payload) } else { String::new() };
    format!("{arrow} {}{size}", flags.join(" "))
}
