//! The run of a capture: `conversations` and `findings`.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;

use record::table::{Cell as _, set_address, set_port};
use record::{Nanos, columns};
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
    /// TCP segments among the packets; `None` where the version that wrote the run did not count them, as the next two.
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
    names = |p| serde_json::to_value(&p.names).ok(), set |p, v| {
        if let Some(names) = Option::<serde_json::Value>::from_value(v)? {
            p.names = serde_json::from_value(names).map_err(|_| "is no object of names by address")?;
        }
        Ok(())
    }, null "as `segments`", "names of hosts in a text, by the addresses that stand for them";
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
    pub start_ns: Nanos,
    /// From its first packet to its last.
    pub duration_ns: Nanos,
    /// What is said of it in one line.
    pub verdict: String,
    /// How it ended.
    pub ending: String,
    /// From the client to the server.
    pub to_server: Way,
    /// From the server to the client.
    pub to_client: Way,
    /// Its duration by what limited it, in the order of [`LIMITS`].
    pub limits_ns: [Nanos; LIMITS.len()],
}

/// One direction of a conversation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Way {
    /// Packets.
    pub packets: u64,
    /// Payload bytes, each counted once.
    pub bytes: u64,
    /// Packets that brought data again.
    pub retransmitted_packets: u64,
    /// Median round trip from its data to the ACK, as the capture saw it.
    pub rtt_p50_ns: Option<Nanos>,
}

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
    pub at_ns: Nanos,
    /// How often.
    pub count: u64,
    /// What it cost.
    pub cost_ns: Nanos,
    /// In words.
    pub text: String,
    /// What a remedy would be worth, in words.
    pub worth: String,
    /// The packets that show it, by number, apart by blanks.
    pub packets: String,
}

macro_rules! conversations {
    ($($at:literal $limit:ident: $doc:literal;)*) => {
        /// What a conversation can be limited by: the columns that divide its duration.
        pub const LIMITS: [&str; [$($at),*].len()] = [$(stringify!($limit)),*];

        columns! {
            Conversation: "conversations", "", blank = Conversation::blank();
            conversation = number, "its number, from 1";
            client_address = |c| c.client.ip(), set |c, v| set_address(&mut c.client, v), "who opened it: IP address";
            client_port = |c| c.client.port(), set |c, v| set_port(&mut c.client, v), "port of the client";
            server_address = |c| c.server.ip(), set |c, v| set_address(&mut c.server, v), "who accepted it: IP address";
            server_port = |c| c.server.port(), set |c, v| set_port(&mut c.server, v), "port of the server";
            start_ns = start_ns, "its first packet";
            duration_ns = duration_ns, "from its first packet to its last";
            verdict = verdict, "what is said of it, in one line";
            ending = ending, "`closed`, `reset`, `half_closed` or `open`";
            to_server_packets = to_server.packets, "packets from the client to the server";
            to_server_bytes = to_server.bytes, "payload in that direction, each byte counted once";
            to_server_retransmitted_packets = to_server.retransmitted_packets, formerly "to_server_resent_packets", "packets that brought data again";
            to_server_rtt_p50_ns = to_server.rtt_p50_ns, null "no data was acknowledged", "median RTT: from data passing the capture to its ACK";
            to_client_packets = to_client.packets, "packets from the server to the client";
            to_client_bytes = to_client.bytes, "payload in that direction, each byte counted once";
            to_client_retransmitted_packets = to_client.retransmitted_packets, formerly "to_client_resent_packets", "packets that brought data again";
            to_client_rtt_p50_ns = to_client.rtt_p50_ns, null "no data was acknowledged", "median RTT: from data passing the capture to its ACK";
            $($limit = |c| c.limits_ns[$at], set |c, v| { c.limits_ns[$at] = Nanos::from_value(v)?; Ok(()) }, $doc;)*
        }
    };
}

conversations! {
    0 application_ns: "time limited by the application; these nine add up to `duration_ns`";
    1 handshake_ns: "time limited by the handshake";
    2 slow_start_ns: "time limited by slow start";
    3 congestion_window_ns: "time limited by the congestion window";
    4 receive_window_ns: "time limited by the receive window";
    5 loss_recovery_ns: "time limited by loss recovery";
    6 ack_waiting_ns: "time limited by waiting for ACKs";
    7 path_rate_ns: "time limited by the path's rate";
    8 unknown_ns: "time of which the capture does not show what limited it";
}

impl Conversation {
    fn blank() -> Self {
        let nowhere = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0);
        Self {
            number: 0,
            client: nowhere,
            server: nowhere,
            start_ns: Nanos::ZERO,
            duration_ns: Nanos::ZERO,
            verdict: String::new(),
            ending: String::new(),
            to_server: Way::default(),
            to_client: Way::default(),
            limits_ns: [Nanos::ZERO; LIMITS.len()],
        }
    }
}

columns! {
    Finding: "findings", "", blank = Finding::default();
    conversation = number, "number of the conversation that it is on";
    kind = kind, "its kind, as in [analyze.md](analyze.md)";
    direction = direction, null "it is on both", "direction of the data concerned: `to_server` or `to_client`";
    at_ns = at_ns, "when it first showed";
    count = count, "how often";
    cost_ns = cost_ns, "what it cost";
    text = text, "in words";
    worth = worth, "what repairing it would be worth";
    packets = packets, "numbers of the packets that show it, separated by blanks";
}

#[derive(Serialize, Deserialize)]
struct File {
    schema: u32,
    kind: RunKind,
    state: State,
    #[serde(flatten, with = "record::table::object")]
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
        let provenance = self.provenance.clone();
        let mut file = File { schema: SCHEMA, kind: RunKind::Capture, state: State::Unfinished, provenance };
        run_file::begin(path, || Ok(run_file::put(path, &file)?))?;
        write_whole(path, &self.conversations)?;
        write_whole(path, &self.findings)?;
        file.state = State::Finished;
        Ok(run_file::put(path, &file)?)
    }

    /// Reads it back; with it comes whether it was finished.
    ///
    /// # Errors
    /// Those of [`crate::kind`] and [`crate::Run::sends`].
    pub fn read(path: &Path) -> Result<(Self, State), Error> {
        let file: File = run_file::read(path, RunKind::Capture)?;
        let mut run = Self { provenance: file.provenance, conversations: Vec::new(), findings: Vec::new() };
        row::table(path, |c| run.conversations.push(c))?;
        row::table(path, |f| run.findings.push(f))?;
        Ok((run, file.state))
    }
}
