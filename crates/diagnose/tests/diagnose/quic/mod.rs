//! QUIC: what each connection took, and what was found.

mod changed;
mod recorded;

use diagnose::quic::Totals;
use diagnose::{Follower, Options};
use record::quic::{QuicConnection, QuicFinding, QuicFindingKind};
use record::transaction::Transaction;
use wire::PacketReader;

use crate::dns::made::follow;

/// What was found in a capture.
#[derive(Debug, PartialEq)]
pub struct Read {
    pub connections: Vec<QuicConnection>,
    pub findings: Vec<QuicFinding>,
    pub transactions: Vec<Transaction>,
    pub totals: Totals,
}

impl Read {
    pub fn only(&self) -> &QuicConnection {
        assert_eq!(self.connections.len(), 1, "{self:#?}");
        &self.connections[0]
    }

    pub fn kinds(&self) -> Vec<QuicFindingKind> {
        self.findings.iter().map(|f| f.kind).collect()
    }
}

pub fn of(follower: &Follower) -> Read {
    let (dns, tls, quic) = (follower.dns.analysis(), follower.tls_analysis(), follower.quic_analysis());
    Read {
        connections: quic.connections().cloned().collect(),
        findings: quic.findings().to_vec(),
        transactions: follower.transactions(&dns, &tls, &quic),
        totals: quic.totals(),
    }
}

pub fn read(file: &[u8]) -> Read {
    of(&follow(PacketReader::from_bytes(file).unwrap(), Options::default()))
}

/// The capture of all the causes: see [`recorded`].
pub fn file() -> Vec<u8> {
    std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/captures/quic.pcap.zst")).unwrap()
}
