//! The run of a capture: `conversations` and `findings`, of DNS `lookups`, `name_servers` and
//! `dns_findings`, of TLS `tls_handshakes` and `tls_findings`, of QUIC `quic_connections` and
//! `quic_findings`, of UDP `udp_conversations`, `udp_streams` and `udp_findings`, of the
//! network `icmp_errors`, `echoes`, `neighbours`, `incomplete_packets` and `network_findings`, and
//! `name_transactions`.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;

use record::columns;
use record::conversation::{ConversationRow, FindingRow};
use record::dns::{DnsFinding, Lookup, Server};
use record::network::{Echo, IcmpError, Incomplete, Neighbour, NetworkFinding};
use record::quic::{QuicConnection, QuicFinding};
use record::table::{Cell as _, Record};
use record::tls::{Handshake, TlsFinding};
use record::transaction::Transaction;
use record::udp::{UdpConversation, UdpFinding, UdpStream};
use serde::{Deserialize, Serialize};

use crate::part::write_whole;
use crate::provenance::State;
use crate::row;
use crate::{Error, RunKind, SCHEMA, run_file};

/// Where the run of a capture comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Provenance {
    /// The version of Wirelapse.
    pub version: String,
    /// The command line, word by word.
    pub command_line: Vec<String>,
    /// The capture that was read: a file's name, or an interface's.
    pub source: String,
    /// Packets read.
    pub packets: u64,
    /// What was lost, or could not be read, in words.
    pub unread: Vec<String>,
    /// TCP segments among the packets; `None` where the version that wrote the run did not count
    /// them, as the next two.
    pub segments: Option<u64>,
    /// Segments of connections beyond the number that is followed.
    pub beyond_limit: Option<u64>,
    /// Segments that the capture itself had copied.
    pub capture_copies: Option<u64>,
    /// Names of hosts in a text, by the addresses that stand for them.
    pub names: BTreeMap<IpAddr, String>,
}

columns! {
    Provenance: "capture_run", "", blank = Provenance::default();
    version = version, "version of Wirelapse";
    command_line = command_line, "its words, as a list";
    source = source, "the capture that was read: a file's name, or an interface's";
    packets = packets, "packets read";
    unread = unread, "what was lost, or could not be decoded, as a list of sentences";
    segments = segments, null "an earlier version wrote it", "TCP segments among the packets";
    beyond_limit = beyond_limit, null "as `segments`", "segments of connections beyond the number that is followed";
    capture_copies = capture_copies, null "as `segments`", "segments that the capture itself had duplicated";
    names = |p| Some(by_address(&p.names)), set |p, v| {
        if let Some(names) = Option::<serde_json::Value>::from_value(v)? {
            p.names = serde_json::from_value(names).map_err(|_| "is no object of names by address")?;
        }
        Ok(())
    }, null "as `segments`", "names of hosts in a text, by the addresses that stand for them";
}

fn by_address(names: &BTreeMap<IpAddr, String>) -> serde_json::Value {
    serde_json::Value::Object(names.iter().map(|(address, name)| (address.to_string(), name.clone().into())).collect())
}

#[derive(Serialize, Deserialize)]
struct File {
    schema: u32,
    kind: RunKind,
    state: State,
    #[serde(flatten, with = "record::table::object")]
    provenance: Provenance,
}

/// DNS of a capture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dns {
    /// The lookups.
    pub lookups: Vec<Lookup>,
    /// The servers that were asked.
    pub servers: Vec<Server>,
    /// What was found.
    pub findings: Vec<DnsFinding>,
}

/// TLS of a capture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tls {
    /// The handshakes.
    pub handshakes: Vec<Handshake>,
    /// What was found.
    pub findings: Vec<TlsFinding>,
}

/// QUIC of a capture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Quic {
    /// The connections.
    pub connections: Vec<QuicConnection>,
    /// What was found.
    pub findings: Vec<QuicFinding>,
}

/// UDP of a capture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Udp {
    /// The conversations.
    pub conversations: Vec<UdpConversation>,
    /// Their numbered streams.
    pub streams: Vec<UdpStream>,
    /// What was found.
    pub findings: Vec<UdpFinding>,
}

/// What the network itself said in a capture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Network {
    /// Errors of ICMP.
    pub errors: Vec<IcmpError>,
    /// Echoes.
    pub echoes: Vec<Echo>,
    /// Questions who has an address.
    pub neighbours: Vec<Neighbour>,
    /// Packets of which fragments never came.
    pub incomplete: Vec<Incomplete>,
    /// What was found.
    pub findings: Vec<NetworkFinding>,
}

/// The connections of a capture, with what was found on them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Where it comes from.
    pub provenance: Provenance,
    /// The connections.
    pub conversations: Vec<ConversationRow>,
    /// The findings, connection by connection.
    pub findings: Vec<FindingRow>,
    /// DNS, beside them; an earlier version did not write it.
    pub dns: Dns,
    /// TLS; as DNS.
    pub tls: Tls,
    /// QUIC; as DNS.
    pub quic: Quic,
    /// UDP; as DNS.
    pub udp: Udp,
    /// What the network said; as DNS.
    pub network: Network,
    /// What hosts did to reach a name; as DNS.
    pub transactions: Vec<Transaction>,
}

impl Run {
    /// Writes it into a new directory.
    ///
    /// # Errors
    /// [`Error::Exists`], [`Error::Create`], and [`Error::Keep`]: what was written until then
    /// stays, and its `run.json` says that it is unfinished.
    pub fn write(&self, path: &Path) -> Result<(), Error> {
        let provenance = self.provenance.clone();
        let mut file = File { schema: SCHEMA, kind: RunKind::Capture, state: State::Unfinished, provenance };
        run_file::begin(path, || run_file::put(path, &file).map_err(Error::from))?;
        write_whole(path, &self.conversations)?;
        write_whole(path, &self.findings)?;
        write_whole(path, &self.dns.lookups)?;
        write_whole(path, &self.dns.servers)?;
        write_whole(path, &self.dns.findings)?;
        write_whole(path, &self.tls.handshakes)?;
        write_whole(path, &self.tls.findings)?;
        write_whole(path, &self.quic.connections)?;
        write_whole(path, &self.quic.findings)?;
        write_whole(path, &self.udp.conversations)?;
        write_whole(path, &self.udp.streams)?;
        write_whole(path, &self.udp.findings)?;
        write_whole(path, &self.network.errors)?;
        write_whole(path, &self.network.echoes)?;
        write_whole(path, &self.network.neighbours)?;
        write_whole(path, &self.network.incomplete)?;
        write_whole(path, &self.network.findings)?;
        write_whole(path, &self.transactions)?;
        file.state = State::Finished;
        Ok(run_file::put(path, &file)?)
    }

    /// Reads it back; with it comes whether it was finished.
    ///
    /// # Errors
    /// Those of [`crate::kind`] and [`crate::Run::sends`].
    pub fn read(path: &Path) -> Result<(Self, State), Error> {
        let file: File = run_file::read(path, RunKind::Capture)?;
        let mut run = Self {
            provenance: file.provenance,
            conversations: Vec::new(),
            findings: Vec::new(),
            dns: Dns::default(),
            tls: Tls::default(),
            quic: Quic::default(),
            udp: Udp::default(),
            network: Network::default(),
            transactions: Vec::new(),
        };
        row::table(path, |c| run.conversations.push(c))?;
        row::table(path, |f| run.findings.push(f))?;
        run.dns.lookups = later(path)?;
        run.dns.servers = later(path)?;
        run.dns.findings = later(path)?;
        run.tls.handshakes = later(path)?;
        run.tls.findings = later(path)?;
        run.quic.connections = later(path)?;
        run.quic.findings = later(path)?;
        run.udp.conversations = later(path)?;
        run.udp.streams = later(path)?;
        run.udp.findings = later(path)?;
        run.network.errors = later(path)?;
        run.network.echoes = later(path)?;
        run.network.neighbours = later(path)?;
        run.network.incomplete = later(path)?;
        run.network.findings = later(path)?;
        run.transactions = later(path)?;
        Ok((run, file.state))
    }
}

/// The rows of a table that runs of earlier versions do not have.
fn later<R: Record>(path: &Path) -> Result<Vec<R>, Error> {
    let mut rows = Vec::new();
    match row::table(path, |r| rows.push(r)) {
        Err(Error::NoTable { .. }) => Ok(Vec::new()),
        other => other.map(|()| rows),
    }
}
