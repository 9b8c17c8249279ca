//! What is said of probes: a line for each, and the document at the end.

mod figures;

use std::fmt::Write as _;
use std::io;
use std::net::IpAddr;

use ping::{Exchange, Outcome, Probe, Prober};
use stats::Quantile;

use crate::page::{NONE, TOO_FEW};
pub use figures::{Figures, MostOfTheTime, SHARES, Share};
use paper::document::{Cell, Column, Document, Section, Table, clauses};

/// What is probed.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// `tcp`, `udp` or `icmp`.
    pub protocol: &'a str,
    /// The target as it was given.
    pub target: &'a str,
    /// Its address.
    pub to: IpAddr,
}

/// What is about to happen, in one line, and what this machine cannot time.
pub fn opening(of: &Subject, prober: &dyn Prober) -> Document {
    Document {
        about: format!("{} {} ({}): {}", of.protocol, of.target, of.to, prober.method()),
        warnings: prober.limits().iter().map(|limit| format!("note: {limit}").into()).collect(),
        ..Document::default()
    }
}

/// One probe: its outcome, and where its time went.
pub fn one(probe: &Probe) -> Document {
    Document::lines(line(probe))
}

fn line(probe: &Probe) -> String {
    let mut text = format!("{:>4}  {}", probe.number, outcome(probe));
    if probe.clock_set {
        return text + ", and the system's clock was set meanwhile: no times";
    }
    if !probe.is_sound() {
        return text + ", with stages in an impossible order: no times";
    }
    text.push_str(&times(&probe.exchange));
    if let Some(request) = &probe.request {
        let _ = write!(text, "\n      request{}", times(request));
    }
    text
}

fn outcome(probe: &Probe) -> String {
    let mut text = match &probe.outcome {
        Outcome::Answer => "answer".to_owned(),
        Outcome::Refused => "refused (port closed)".to_owned(),
        Outcome::Closed => "connected, and closed without an answer".to_owned(),
        Outcome::Icmp { name, from: Some(from) } => format!("{name}, says {from}"),
        Outcome::Icmp { name, from: None } => (*name).to_owned(),
        Outcome::NoAnswer => "no answer".to_owned(),
        Outcome::NotSent { errno } => format!("not sent: {}", io::Error::from_raw_os_error(*errno)),
        Outcome::Interrupted => "interrupted".to_owned(),
    };
    if probe.bytes > 0 {
        let _ = write!(text, ", {} B", probe.bytes);
    }
    if let Some(ttl) = probe.ttl {
        let _ = write!(text, ", ttl {ttl}");
    }
    text
}

/// The total with its shares, then each step between stages.
fn times(exchange: &Exchange) -> String {
    let mut text = String::new();
    if let Ok(Some(total)) = exchange.total() {
        let _ = write!(text, ": {total}");
        let shares = shares(exchange);
        if !shares.is_empty() {
            let _ = write!(text, " = {}", shares.join(" + "));
        }
    }
    let mut stages: Vec<_> = exchange.stages().into_iter().filter_map(|(name, at)| Some((name, at?))).collect();
    // Whether a request's ACK or its answer comes first is the peer's choice; every other order is
    // fixed.
    stages.sort_by_key(|(_, at)| *at);
    if let [(first, _), _, ..] = stages[..] {
        let _ = write!(text, "  [{first}");
        for pair in stages.windows(2) {
            if let Ok(step) = pair[1].1.since(pair[0].1) {
                let _ = write!(text, " +{step} {}", pair[1].0);
            }
        }
        text.push(']');
    }
    if let (Some(_), Some(_), Ok(Some(wire))) = (exchange.nic, exchange.nic_rx, exchange.network_and_peer()) {
        let _ = write!(text, "  [nic +{wire} nic_rx, the NIC's clock]");
    }
    text
}

/// The addends of the total that are known.
fn shares(exchange: &Exchange) -> Vec<String> {
    let beyond = match (exchange.network(), exchange.peer()) {
        (Ok(None), _) => [("network and peer", exchange.network_and_peer()), ("peer", Ok(None))],
        (network, peer) => [("network", network), ("peer", peer)],
    };
    let [first, second] = beyond;
    [("kernel", exchange.kernel_out()), first, second, ("kernel", exchange.kernel_in())]
        .into_iter()
        .filter_map(|(name, share)| Some(format!("{name} {}", share.ok().flatten()?)))
        .collect()
}

/// The end: how many, where the time went, and the distribution of each share.
pub fn document(of: &Subject, figures: &Figures) -> Document {
    let mut about = format!("{} sent", figures.sent);
    for (name, count) in &figures.outcomes {
        let name = if *name == "answer" { "answered" } else { name };
        let _ = write!(about, ", {count} {}", name.replace('_', " "));
    }
    let warnings = [
        (figures.stray, "answers that belong to no probe in flight"),
        (figures.clock_set, "probes without times, since the system's clock was set meanwhile"),
        (figures.disorder, "probes without times, since their stages are in an impossible order"),
    ];
    let mut times = Section::new("Times");
    times.table(table(figures));
    Document {
        title: format!("probe {} {}", of.protocol, of.target).into(),
        about,
        verdict: clauses(verdict(figures)),
        warnings: warnings.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}.").into()).collect(),
        sections: [times].into_iter().filter(|s| !s.blocks.is_empty()).collect(),
        ..Document::default()
    }
}

/// One sentence, where nearly every probe says the same.
fn verdict(figures: &Figures) -> Option<String> {
    let MostOfTheTime { place, count, n, what } = figures.most_of_the_time()?;
    let many = match (count == n, n) {
        (true, 1) => format!("the one {what}"),
        (true, _) => format!("each of {n} {what}s"),
        (false, _) => format!("{count} of {n} {what}s"),
    };
    Some(format!("{} takes more than half of the time of {many}.", place.name()))
}

fn table(figures: &Figures) -> Table {
    let mut columns = vec![Column::text(""), Column::figures("n"), Column::figures("min")];
    columns.extend(Quantile::SHOWN.map(|q| Column::figures(q.to_string())));
    columns.push(Column::figures("max"));
    let mut table = Table::new("", columns);
    table.extend(figures.shares().map(|(share, d)| {
        let mut row = vec![Cell::from(share.name), Cell::figure(d.n().to_string()), Cell::ns_or(d.min(), NONE)];
        row.extend(Quantile::SHOWN.map(|q| Cell::ns_or(d.quantile(q), TOO_FEW)));
        row.push(Cell::ns_or(d.max(), NONE));
        row
    }));
    table
}
