//! DNS of a capture: what took long to resolve, who was asked, and what was found.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use diagnose::dns::Analysis;
use record::dns::{Answered, DnsFinding, Lookup, Protocol, Server, names};

use super::Names;
use super::columns::{ColumnOf, cells, cost, count, findings, longest, table};
use paper::document::{Cell, Row, Section, Text};

/// What a document shows of DNS.
#[derive(Clone, Debug, Default)]
pub struct Dns {
    /// How many lookups there are.
    pub lookups: u64,
    /// Those that took longest.
    pub slowest: Vec<Lookup>,
    /// The servers.
    pub servers: Vec<Server>,
    /// What was found, the costliest first.
    pub findings: Vec<DnsFinding>,
    /// The names that were asked for, by the addresses in the answers, the latest first.
    pub names: BTreeMap<IpAddr, Vec<String>>,
}

impl Dns {
    /// Of what was read, with so many lookups.
    pub fn new(analysis: &Analysis<'_>, rows: usize) -> Self {
        Self {
            lookups: analysis.len() as u64,
            slowest: analysis.slowest(rows),
            servers: analysis.servers().to_vec(),
            findings: analysis.findings().to_vec(),
            names: analysis.names(),
        }
    }

    /// Of a run, with so many lookups.
    pub(super) fn of_run(run: &store::capture::Dns, rows: usize) -> Self {
        let mut slowest = run.lookups.clone();
        slowest.sort_by_key(|l| (std::cmp::Reverse(l.waited()), l.number));
        slowest.truncate(rows);
        Self {
            lookups: run.lookups.len() as u64,
            slowest,
            servers: run.servers.clone(),
            findings: run.findings.clone(),
            names: names(run.lookups.iter().map(Lookup::found)),
        }
    }
}

/// What hosts are shown by: the name that was asked for, and the address.
pub fn named_hosts(names: &BTreeMap<IpAddr, Vec<String>>) -> HashMap<IpAddr, String> {
    let shown = |(address, names): (&IpAddr, &Vec<String>)| {
        let name = names.first()?;
        let more = match names.len() as u64 - 1 {
            0 => String::new(),
            n => format!(" and {}", quantity::counted(n, "more name")),
        };
        Some((*address, format!("{name}{more} ({address})")))
    };
    names.iter().filter_map(shown).collect()
}

/// Where nothing was found: how long it took, and what is not known.
pub(super) fn calm(dns: &Dns) -> String {
    let lookups = quantity::counted(dns.lookups, "name lookup");
    let known = dns.slowest.iter().filter_map(|l| l.took_ns).max();
    let open = dns.slowest.iter().find_map(|l| l.withheld.as_ref());
    let them = if dns.lookups == 1 { "it" } else { "them" };
    match (known, open) {
        (Some(most), None) => format!("{lookups}, answered within {most}."),
        (Some(most), Some(why)) => format!("{lookups}, answered within {most}, as far as the capture shows: {why}."),
        (None, Some(why)) => format!("{lookups}: what became of {them} is not known, because {why}."),
        (None, None) => format!("{lookups}: nobody answered."),
    }
}

pub(super) fn section(dns: &Dns, shown: usize, names: &Names) -> Section {
    let mut section = Section::new("DNS");
    section.table(findings(FINDING, &dns.findings, names));
    let slowest = (&dns.slowest[..], dns.lookups, "lookups");
    section.table(longest(LOOKUP, slowest, shown, names, |one| one.withheld.as_ref()));
    let mut servers = table("Who was asked", SERVER);
    servers.extend(dns.servers.iter().map(|s| Row::of(cells(SERVER, s, names))));
    section.table(servers);
    section
}

const FINDING: &[ColumnOf<DnsFinding>] = &[
    ColumnOf::<DnsFinding>::text("finding", |f, _| f.kind.words().into()),
    ColumnOf::<DnsFinding>::figures("cost", cost),
    ColumnOf::<DnsFinding>::figures("lookups", count),
];

const LOOKUP: &[ColumnOf<Lookup>] = &[
    ColumnOf::<Lookup>::figures("no.", |l, _| Cell::figure(l.number.to_string())),
    ColumnOf::<Lookup>::text("name", |l, _| l.name.clone().into()),
    ColumnOf::<Lookup>::text("type", |l, _| l.kind.clone().into()),
    ColumnOf::<Lookup>::figures("time", |l, _| Cell::time_or(l.took_ns, "no answer is in the capture")),
    ColumnOf::<Lookup>::figures("tries", |l, _| Cell::count(l.tries)),
    ColumnOf::<Lookup>::text("outcome", |l, _| match (&l.code, l.answered) {
        (Some(code), Answered::Failed) => code.clone().into(),
        _ => l.answered.words().into(),
    }),
    ColumnOf::<Lookup>::text("client", |l, _| l.client.into()).spare(),
    ColumnOf::<Lookup>::text("answered by", |l, _| match (l.server, l.over_tcp) {
        (Some(server), true) => Text::from(server).and(", TCP").into(),
        (Some(server), false) => server.into(),
        (None, _) => "".into(),
    })
    .spare(),
];

const SERVER: &[ColumnOf<Server>] = &[
    ColumnOf::<Server>::text("server", |s, _| match s.protocol {
        Protocol::Dns if s.server.port() == wire::packet::dns::PORT => s.server.ip().into(),
        _ => s.server.into(),
    }),
    ColumnOf::<Server>::figures("questions", |s, _| Cell::count(s.questions)),
    ColumnOf::<Server>::figures("unanswered", |s, _| Cell::count(s.unanswered + s.unreachable)),
    ColumnOf::<Server>::figures("errors", |s, _| Cell::count(s.failed)).spare(),
    ColumnOf::<Server>::figures("median", |s, _| Cell::time_or(s.median_ns, "it answered none")),
    ColumnOf::<Server>::figures("slowest", |s, _| Cell::time_or(s.max_ns, "it answered none")),
    ColumnOf::<Server>::text("protocol", |s, _| match s.protocol {
        Protocol::Dns => "DNS".into(),
        Protocol::Mdns => "multicast DNS".into(),
        Protocol::Llmnr => "LLMNR".into(),
    })
    .spare(),
];
