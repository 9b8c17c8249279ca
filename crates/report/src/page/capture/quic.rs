//! QUIC of a capture: what its handshakes took, who was waited for, what can be seen of the rest,
//! and what was found.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::IpAddr;

use diagnose::quic::Analysis;
use record::Nanos;
use record::dns::names;
use record::quic::{Outcome, QuicConnection, QuicFinding, Spin};

use super::columns::{ColumnOf, cost, count, findings, longest};
use super::{Names, ends};
use paper::document::{Cell, Section};

/// What a document shows of QUIC.
#[derive(Clone, Debug, Default)]
pub struct Quic {
    /// How many connections there are.
    pub connections: u64,
    /// Those whose handshake took longest, or that were waited for in vain.
    pub slowest: Vec<QuicConnection>,
    /// What was found, the costliest first.
    pub findings: Vec<QuicFinding>,
    /// The names that clients asked for, by the addresses of the servers, the latest first.
    pub names: BTreeMap<IpAddr, Vec<String>>,
}

impl Quic {
    /// Of what was read, with so many connections.
    pub fn new(analysis: &Analysis<'_>, rows: usize) -> Self {
        Self::gather(analysis.connections().collect(), analysis.findings(), rows)
    }

    /// Of a run, with so many connections.
    pub(super) fn of_run(run: &store::capture::Quic, rows: usize) -> Self {
        Self::gather(run.connections.iter().collect(), &run.findings, rows)
    }

    fn gather(mut all: Vec<&QuicConnection>, findings: &[QuicFinding], rows: usize) -> Self {
        let names = names(all.iter().filter_map(|c| c.named()));
        all.sort_by_key(|c| (Reverse(c.took_ns.unwrap_or(c.probes_ns)), c.number));
        Self {
            connections: all.len() as u64,
            slowest: all.into_iter().take(rows).cloned().collect(),
            findings: findings.to_vec(),
            names,
        }
    }
}

/// What is said where nothing was found.
pub(super) fn calm(quic: &Quic) -> String {
    let done: Vec<Nanos> = quic.slowest.iter().filter_map(|c| c.took_ns).collect();
    let all = quantity::counted(quic.connections, "QUIC connection");
    match done.iter().max() {
        Some(longest) => format!("{all}: the longest handshake took {longest}."),
        None => format!("{all}: no handshake is whole in the capture."),
    }
}

pub(super) fn section(quic: &Quic, shown: usize, names: &Names) -> Section {
    let mut section = Section::new("QUIC");
    section.table(findings(FINDING, &quic.findings, names));
    let slowest = (&quic.slowest[..], quic.connections, "QUIC connections");
    section.table(longest(CONNECTION, slowest, shown, names, |one| one.withheld.as_ref()));
    if quic.connections > 0 {
        section.say(
            "What comes after the handshake is encrypted, with the numbers of packets and their ACKs: losses, windows and \
             streams do not show.",
        );
    }
    section
}

const FINDING: &[ColumnOf<QuicFinding>] = &[
    ColumnOf::<QuicFinding>::text("finding", |f, _| f.kind.words().into()),
    ColumnOf::<QuicFinding>::figures("cost", cost),
    ColumnOf::<QuicFinding>::figures("connections", count),
];

/// Why there is no time of a part.
const NO_END: &str = "its end is not in the capture";

const CONNECTION: &[ColumnOf<QuicConnection>] = &[
    ColumnOf::<QuicConnection>::figures("no.", |c, _| Cell::figure(c.number.to_string())),
    ColumnOf::<QuicConnection>::text("server", |c, names| match &c.name {
        Some(name) => name.clone().into(),
        None => ends(names, c.client, c.server).into(),
    }),
    ColumnOf::<QuicConnection>::text("version", |c, _| c.version.clone().into()),
    ColumnOf::<QuicConnection>::text("outcome", |c, _| match (&c.error, c.outcome) {
        (Some(error), Outcome::Failed) => error.clone().into(),
        (_, outcome) => outcome.words().into(),
    }),
    ColumnOf::<QuicConnection>::figures("handshake", |c, _| Cell::time_or(c.took_ns, NO_END)),
    ColumnOf::<QuicConnection>::figures("server's part", |c, _| {
        Cell::time_or(c.server_wait_ns, "nothing shows a round trip apart from the server's hello")
    })
    .spare(),
    ColumnOf::<QuicConnection>::figures("sent", |c, _| Cell::bytes(c.client_bytes)),
    ColumnOf::<QuicConnection>::figures("back", |c, _| Cell::bytes(c.server_bytes)),
    ColumnOf::<QuicConnection>::figures("time", |c, _| c.duration_ns.into()),
    ColumnOf::<QuicConnection>::figures("median RTT", |c, _| Cell::time_or(c.spin_median_ns, no_spin(c.spin))).spare(),
];

/// Why the spin bit shows no round trip.
const fn no_spin(spin: Spin) -> &'static str {
    match spin {
        Spin::Spins => "the spin bit shows it",
        Spin::Still => "the spin bit does not turn",
        Spin::Random => "the spin bit is random",
        Spin::NotKnown => "there are too few packets of both sides",
    }
}
