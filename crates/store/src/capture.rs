//! The run of a capture: `conversations` and `findings`.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::column::{Cell, Column, Kind};
use crate::part::write_whole;
use crate::provenance::State;
use crate::row::{self, Bad, Row};
use crate::{Error, RunKind, SCHEMA, run_file};

/// Where the run of a capture comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
}

/// One TCP connection of a capture, in figures. Moments are on the capture's clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conversation {
    /// Its number, from 1.
    pub number: u64,
    /// Who opened it.
    pub client: SocketAddr,
    /// Who was called.
    pub server: SocketAddr,
    /// Its first packet.
    pub start_ns: u64,
    /// From its first packet to its last.
    pub duration_ns: u64,
    /// What is said of it in one line.
    pub verdict: String,
    /// How it ended.
    pub ending: String,
    /// From the client to the server.
    pub to_server: Way,
    /// From the server to the client.
    pub to_client: Way,
    /// Its duration by what limited it, in the order of [`LIMITS`].
    pub limits_ns: [u64; LIMITS.len()],
}

/// One direction of a conversation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Way {
    /// Packets.
    pub packets: u64,
    /// Payload bytes, each counted once.
    pub bytes: u64,
    /// Packets that brought data again.
    pub resent_packets: u64,
    /// Median round trip from its data to the ACK, as the capture saw it.
    pub rtt_p50_ns: Option<u64>,
}

/// What a conversation can be limited by: the columns that divide its duration.
pub const LIMITS: [&str; 8] = [
    "application_ns",
    "handshake_ns",
    "slow_start_ns",
    "congestion_window_ns",
    "receive_window_ns",
    "loss_recovery_ns",
    "ack_waiting_ns",
    "path_rate_ns",
];

/// A finding on a conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Finding {
    /// The conversation's number.
    pub number: u64,
    /// Its kind's word.
    pub kind: String,
    /// The direction of the data concerned, where it is one.
    pub direction: Option<String>,
    /// When it first showed.
    pub at_ns: u64,
    /// How often.
    pub count: u64,
    /// What it cost.
    pub cost_ns: u64,
    /// In words.
    pub text: String,
    /// What mending it would be worth, in words.
    pub worth: String,
    /// The packets that show it, by number, apart by blanks.
    pub packets: String,
}

fn number(value: u64) -> Cell<'static> {
    Cell::Number(value)
}

fn address(at: SocketAddr) -> Cell<'static> {
    Cell::Text(at.ip().to_string().into())
}

pub(crate) const CONVERSATIONS: &[Column<Conversation>] = &[
    Column::new("conversation", Kind::Int, |c| number(c.number)),
    Column::new("client_address", Kind::Text, |c| address(c.client)),
    Column::new("client_port", Kind::Int, |c| number(c.client.port().into())),
    Column::new("server_address", Kind::Text, |c| address(c.server)),
    Column::new("server_port", Kind::Int, |c| number(c.server.port().into())),
    Column::new("start_ns", Kind::Time, |c| number(c.start_ns)),
    Column::new("duration_ns", Kind::Time, |c| number(c.duration_ns)),
    Column::new("verdict", Kind::Text, |c| c.verdict.as_str().into()),
    Column::new("ending", Kind::Text, |c| c.ending.as_str().into()),
    Column::new("to_server_packets", Kind::Int, |c| number(c.to_server.packets)),
    Column::new("to_server_bytes", Kind::Int, |c| number(c.to_server.bytes)),
    Column::new("to_server_resent_packets", Kind::Int, |c| number(c.to_server.resent_packets)),
    Column::or_null("to_server_rtt_p50_ns", Kind::Time, |c| c.to_server.rtt_p50_ns.into()),
    Column::new("to_client_packets", Kind::Int, |c| number(c.to_client.packets)),
    Column::new("to_client_bytes", Kind::Int, |c| number(c.to_client.bytes)),
    Column::new("to_client_resent_packets", Kind::Int, |c| number(c.to_client.resent_packets)),
    Column::or_null("to_client_rtt_p50_ns", Kind::Time, |c| c.to_client.rtt_p50_ns.into()),
    Column::new(LIMITS[0], Kind::Time, |c| number(c.limits_ns[0])),
    Column::new(LIMITS[1], Kind::Time, |c| number(c.limits_ns[1])),
    Column::new(LIMITS[2], Kind::Time, |c| number(c.limits_ns[2])),
    Column::new(LIMITS[3], Kind::Time, |c| number(c.limits_ns[3])),
    Column::new(LIMITS[4], Kind::Time, |c| number(c.limits_ns[4])),
    Column::new(LIMITS[5], Kind::Time, |c| number(c.limits_ns[5])),
    Column::new(LIMITS[6], Kind::Time, |c| number(c.limits_ns[6])),
    Column::new(LIMITS[7], Kind::Time, |c| number(c.limits_ns[7])),
];

pub(crate) const FINDINGS: &[Column<Finding>] = &[
    Column::new("conversation", Kind::Int, |f| number(f.number)),
    Column::new("kind", Kind::Text, |f| f.kind.as_str().into()),
    Column::or_null("direction", Kind::Text, |f| f.direction.as_deref().map_or(Cell::Null, Cell::from)),
    Column::new("at_ns", Kind::Time, |f| number(f.at_ns)),
    Column::new("count", Kind::Int, |f| number(f.count)),
    Column::new("cost_ns", Kind::Time, |f| number(f.cost_ns)),
    Column::new("text", Kind::Text, |f| f.text.as_str().into()),
    Column::new("worth", Kind::Text, |f| f.worth.as_str().into()),
    Column::new("packets", Kind::Text, |f| f.packets.as_str().into()),
];

fn read_conversation(row: Row<'_>) -> Result<Conversation, Bad> {
    let end = |address: &str, port: &str| {
        let ip: IpAddr = row.text(address)?.parse().map_err(|_| row.bad(address, "is no IP address"))?;
        let port = u16::try_from(row.number(port)?).map_err(|_| row.bad(port, "does not fit 16 bits"))?;
        Ok::<_, Bad>(SocketAddr::new(ip, port))
    };
    let way = |name: &str| {
        Ok::<_, Bad>(Way {
            packets: row.number(&format!("{name}_packets"))?,
            bytes: row.number(&format!("{name}_bytes"))?,
            resent_packets: row.number(&format!("{name}_resent_packets"))?,
            rtt_p50_ns: row.number_or_null(&format!("{name}_rtt_p50_ns"))?,
        })
    };
    let mut limits_ns = [0; LIMITS.len()];
    for (limit, name) in limits_ns.iter_mut().zip(LIMITS) {
        *limit = row.number(name)?;
    }
    Ok(Conversation {
        number: row.number("conversation")?,
        client: end("client_address", "client_port")?,
        server: end("server_address", "server_port")?,
        start_ns: row.number("start_ns")?,
        duration_ns: row.number("duration_ns")?,
        verdict: row.owned("verdict")?,
        ending: row.owned("ending")?,
        to_server: way("to_server")?,
        to_client: way("to_client")?,
        limits_ns,
    })
}

fn read_finding(row: Row<'_>) -> Result<Finding, Bad> {
    Ok(Finding {
        number: row.number("conversation")?,
        kind: row.owned("kind")?,
        direction: row.text_or_null("direction")?.map(str::to_owned),
        at_ns: row.number("at_ns")?,
        count: row.number("count")?,
        cost_ns: row.number("cost_ns")?,
        text: row.owned("text")?,
        worth: row.owned("worth")?,
        packets: row.owned("packets")?,
    })
}

#[derive(Serialize, Deserialize)]
struct File {
    schema: u32,
    kind: RunKind,
    state: State,
    #[serde(flatten)]
    provenance: Provenance,
}

/// The connections of a capture, with what was found on them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Where it comes from.
    pub provenance: Provenance,
    /// The connections.
    pub conversations: Vec<Conversation>,
    /// The findings, connection by connection.
    pub findings: Vec<Finding>,
}

impl Run {
    /// Writes it into a new directory.
    ///
    /// # Errors
    /// [`Error::Exists`], [`Error::Create`], and [`Error::Keep`]: what was written until then stays, and its `run.json` says
    /// that it is unfinished.
    pub fn write(&self, path: &Path) -> Result<(), Error> {
        std::fs::create_dir(path).map_err(|source| match source.kind() {
            io::ErrorKind::AlreadyExists => Error::Exists(path.to_owned()),
            _ => Error::Create { path: path.to_owned(), why: source },
        })?;
        let provenance = self.provenance.clone();
        let mut file = File { schema: SCHEMA, kind: RunKind::Capture, state: State::Unfinished, provenance };
        run_file::put(path, &file)?;
        write_whole(path, "conversations", CONVERSATIONS, &self.conversations)?;
        write_whole(path, "findings", FINDINGS, &self.findings)?;
        file.state = State::Finished;
        Ok(run_file::put(path, &file)?)
    }

    /// Reads it back; whether it was finished is told beside it.
    ///
    /// # Errors
    /// Those of [`crate::kind`] and [`crate::Run::sends`].
    pub fn read(path: &Path) -> Result<(Self, State), Error> {
        let file: File = run_file::read(path, RunKind::Capture)?;
        let mut run = Self { provenance: file.provenance, conversations: Vec::new(), findings: Vec::new() };
        row::table(path, "conversations", CONVERSATIONS, read_conversation, |c| run.conversations.push(c))?;
        row::table(path, "findings", FINDINGS, read_finding, |f| run.findings.push(f))?;
        Ok((run, file.state))
    }
}
