//! The connections, the DNS, the TLS, the QUIC and the UDP of a capture, and what the network
//! said in it, as a run directory.

use std::path::Path;

use anyhow::Context as _;
use diagnose::Follower;
use store::capture::{Dns, Network, Provenance, Quic, Run, Tls, Udp};

use super::{Beside, Reading};
use crate::exit::BadInput;

/// Where a capture's connections come from; `name` is the capture's.
pub fn provenance(name: &str, follower: &Follower, reading: &Reading) -> Provenance {
    let totals = follower.totals();
    Provenance {
        version: env!("CARGO_PKG_VERSION").into(),
        command_line: std::env::args().collect(),
        source: name.to_owned(),
        packets: reading.packets,
        unread: [
            reading.unread(),
            follower.dns.totals().not_read(),
            follower.tls.totals().not_read(),
            follower.quic.totals().not_read(),
            follower.udp.totals().not_read(),
            follower.network.totals().not_read(),
        ]
        .concat(),
        segments: Some(totals.segments),
        beyond_limit: Some(totals.beyond_limit),
        capture_copies: Some(totals.capture_copies),
        names: reading.names.hosts.clone(),
    }
}

/// Writes the run of a capture into the new directory `path`.
pub fn write(path: &Path, provenance: Provenance, (follower, beside): (&Follower, &Beside<'_>)) -> anyhow::Result<()> {
    let (mut conversations, mut findings) = (Vec::new(), Vec::new());
    for report in follower.reports() {
        conversations.push(report.row());
        findings.extend(report.finding_rows());
    }
    let Beside { dns, tls, quic, udp, network, transactions } = beside;
    let dns =
        Dns { lookups: dns.lookups().collect(), servers: dns.servers().to_vec(), findings: dns.findings().to_vec() };
    let tls = Tls { handshakes: tls.handshakes().cloned().collect(), findings: tls.findings().to_vec() };
    let quic = Quic { connections: quic.connections().cloned().collect(), findings: quic.findings().to_vec() };
    let udp = Udp {
        conversations: udp.conversations().cloned().collect(),
        streams: udp.streams().cloned().collect(),
        findings: udp.findings().to_vec(),
    };
    let network = Network {
        errors: network.errors().to_vec(),
        echoes: network.echoes().to_vec(),
        neighbours: network.neighbours().to_vec(),
        incomplete: network.incomplete().to_vec(),
        findings: network.findings().to_vec(),
    };
    let transactions = transactions.clone();
    match (Run { provenance, conversations, findings, dns, tls, quic, udp, network, transactions }).write(path) {
        Err(error @ (store::Error::Exists(_) | store::Error::Create { .. })) => Err(BadInput(error.to_string()).into()),
        other => other.context("the run of the capture is incomplete"),
    }
}
