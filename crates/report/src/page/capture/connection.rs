//! One connection of a capture: what was found on it, where its time went, and what both sides did.

use diagnose::{Limit, OptionState, Report};
use record::Nanos;

use super::columns::{FINDING, cells, finding_notes, table};
use super::{Names, clauses_of, direction, ends, over_time, sentence};
use paper::document::{Cell, Column, Document, Row, Section, Table, Text, texts};

/// What is said of one connection. Where its packets were kept, plots over time are among it.
pub fn document(r: &Report, names: &Names) -> Document {
    let mut over_time = Section::new("Over time");
    over_time::plots(r, names).into_iter().for_each(|plot| over_time.plot(Some(plot)));
    let mut directions = Section::new("What each side did");
    directions.table(direction::table(&r.to_server, &r.to_client));
    let mut sections = vec![found(r, names), time(r), over_time, options(r), directions, withheld(r)];
    sections.retain(|s| !s.blocks.is_empty());
    let mut warnings = Vec::new();
    if r.records_left_out > 0 {
        warnings.push(format!("{} found no room for the plots.", quantity::counted(r.records_left_out, "packet")));
    }
    Document {
        title: Text::from(format!("Connection {}: ", r.number)).and(ends(names, r.client, r.server)),
        about: format!("{}, {}. Captured {}.", r.duration_ns, r.ending.words(), r.vantage.evidence()),
        verdict: clauses_of(&r.verdict),
        warnings: texts(warnings),
        sections,
        ..Document::default()
    }
}

fn found(r: &Report, names: &Names) -> Section {
    let mut section = Section::new("Findings");
    // The connection's number is in the title.
    let columns = &FINDING[1..];
    let mut table = table("", columns);
    r.finding_rows().for_each(|f| table.push(Row::of(cells(columns, &f, names)).noted(finding_notes(&f))));
    section.table(table);
    section
}

fn share(time: Nanos, of: Nanos) -> Cell {
    Cell::share(quantity::share(time.0.into(), of.0.into()))
}

/// The connection's time by what limited it, and the applications' part of it by who was waited
/// for.
fn time(r: &Report) -> Section {
    let mut section = Section::new("Time, by what limited it");
    let columns = |last| [Column::figures("time"), Column::figures("share"), Column::text(last)];
    let mut table = Table::new("", columns("limited by"));
    let mut limits: Vec<(Nanos, Limit)> =
        Limit::ALL.into_iter().map(|l| (r.limits.of(l), l)).filter(|s| s.0 > Nanos::ZERO).collect();
    limits.sort_unstable_by_key(|s| std::cmp::Reverse(s.0));
    for (time, limit) in limits {
        table.push([time.into(), share(time, r.duration_ns), limit.words().into()]);
    }
    section.table(table);
    let mut table = Table::new("The application's time", columns("went into"));
    for (time, what) in r.idle.parts().into_iter().filter(|p| p.0 > Nanos::ZERO) {
        table.push([time.into(), share(time, r.duration_ns), what.into()]);
    }
    section.table(table);
    let mut table = Table::new(
        "The longest pauses",
        [Column::figures("time"), Column::text("who"), Column::figures("before packet")],
    );
    for p in r.idle.longest.iter() {
        let what = if p.thinking { "thought" } else { "paused" };
        let packet = Cell::figure(p.to_packet.to_string());
        table.push([p.ns.into(), format!("the {} {what}", p.who).into(), packet]);
    }
    section.table(table);
    section
}

fn option(name: &str, o: &OptionState) -> String {
    match (o.in_use, o.left_out_by) {
        (Some(true), _) => format!("{name}: in use."),
        (Some(false), Some(who)) => {
            format!("{name}: not in use. The {who} did not offer it, or it was removed on the way.")
        }
        (Some(false), None) => format!("{name}: not in use."),
        (None, _) => format!("{name}: not known, because the handshake is not in the capture or is cut short."),
    }
}

fn options(r: &Report) -> Section {
    let mut section = Section::new("TCP options");
    let options =
        [("Window scaling", &r.window_scaling), ("SACK", &r.sack), ("Timestamps", &r.timestamps), ("ECN", &r.ecn)];
    let mut lines: Vec<String> = options.into_iter().map(|(name, o)| option(name, o)).collect();
    if r.to_server.mptcp || r.to_client.mptcp {
        let who = if r.to_server.mptcp { "the client" } else { "the server" };
        lines.push(format!("MPTCP: offered by {who}."));
    }
    if let Some(cookie) = r.to_server.fast_open {
        let what = if cookie == 0 { "a cookie was asked for".into() } else { format!("a cookie of {cookie} bytes") };
        lines.push(format!("Fast Open: {what}."));
    }
    if r.accurate_ecn {
        lines.push("Accurate ECN (RFC 9768): in use.".into());
    }
    section.list(lines);
    section
}

/// What cannot be known from here, by reason.
fn withheld(r: &Report) -> Section {
    let mut section = Section::new("Not known from here");
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for w in &r.withheld {
        match reasons.iter_mut().find(|(reason, _)| *reason == w.reason) {
            Some((_, kinds)) if kinds.contains(&w.kind.words()) => {}
            Some((_, kinds)) => kinds.push(w.kind.words()),
            None => reasons.push((w.reason, vec![w.kind.words()])),
        }
    }
    let lines: Vec<String> =
        reasons.into_iter().map(|(reason, kinds)| sentence(&format!("{}: {reason}", kinds.join(", ")))).collect();
    section.list(lines);
    section
}
