//! TLS of a capture: what its handshakes took, who was waited for, and what was found.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::IpAddr;

use diagnose::tls::Analysis;
use record::dns::names;
use record::tls::{Handshake, Outcome, TlsFinding};

use super::Names;
use super::columns::{ColumnOf, cost, count, findings, longest};
use paper::document::{Cell, Section};

/// What a document shows of TLS.
#[derive(Clone, Debug, Default)]
pub struct Tls {
    /// How many handshakes there are.
    pub handshakes: u64,
    /// Those that took longest.
    pub slowest: Vec<Handshake>,
    /// What was found, the costliest first.
    pub findings: Vec<TlsFinding>,
    /// The names that clients asked for, by the addresses of the servers, the latest first.
    pub names: BTreeMap<IpAddr, Vec<String>>,
}

impl Tls {
    /// Of what was read, with so many handshakes.
    pub fn new(analysis: &Analysis<'_>, rows: usize) -> Self {
        Self::gather(analysis.handshakes().collect(), analysis.findings(), rows)
    }

    /// Of a run, with so many handshakes.
    pub(super) fn of_run(run: &store::capture::Tls, rows: usize) -> Self {
        Self::gather(run.handshakes.iter().collect(), &run.findings, rows)
    }

    fn gather(mut all: Vec<&Handshake>, findings: &[TlsFinding], rows: usize) -> Self {
        let names = names(all.iter().filter_map(|h| h.named()));
        all.sort_by_key(|h| (Reverse(h.took_ns), h.start_ns, h.connection));
        Self {
            handshakes: all.len() as u64,
            slowest: all.into_iter().take(rows).cloned().collect(),
            findings: findings.to_vec(),
            names,
        }
    }
}

pub(super) fn section(tls: &Tls, shown: usize, names: &Names) -> Section {
    let mut section = Section::new("TLS");
    section.table(findings(FINDING, &tls.findings, names));
    let slowest = (&tls.slowest[..], tls.handshakes, "handshakes");
    section.table(longest(HANDSHAKE, slowest, shown, names, |one| one.withheld.as_ref()));
    section
}

const FINDING: &[ColumnOf<TlsFinding>] = &[
    ColumnOf::<TlsFinding>::text("finding", |f, _| f.kind.words().into()),
    ColumnOf::<TlsFinding>::figures("cost", cost),
    ColumnOf::<TlsFinding>::figures("handshakes", count),
];

/// Why there is no time of a part.
const NO_END: &str = "its end is not in the capture";

const HANDSHAKE: &[ColumnOf<Handshake>] = &[
    ColumnOf::<Handshake>::figures("conn.", |h, _| Cell::figure(h.connection.to_string())),
    ColumnOf::<Handshake>::text("server", |h, _| match &h.name {
        Some(name) => name.clone().into(),
        None => h.server.into(),
    }),
    ColumnOf::<Handshake>::text("version", |h, _| h.version.clone().unwrap_or_default().into()),
    ColumnOf::<Handshake>::figures("time", |h, _| Cell::time_or(h.took_ns, NO_END)),
    ColumnOf::<Handshake>::figures("server", |h, _| Cell::time_or(h.server_wait_ns, NO_END)),
    ColumnOf::<Handshake>::figures("client", |h, _| Cell::time_or(h.client_wait_ns, NO_END)).spare(),
    ColumnOf::<Handshake>::figures("path", |h, _| Cell::time_or(h.path_wait_ns, NO_END)),
    ColumnOf::<Handshake>::text("outcome", |h, _| match (&h.alert, h.outcome) {
        (Some(alert), _) => alert.clone().into(),
        (None, Outcome::Done) if h.resumed == Some(true) => "resumed".into(),
        (None, outcome) => outcome.words().into(),
    }),
    ColumnOf::<Handshake>::text("protocol", |h, _| h.protocol.clone().unwrap_or_default().into()).spare(),
];
