//! The service map of a fleet: who connected to whom, and how long the sends between them took.
//!
//! As with [`crate::fleet`], `wirelapse-query` answers with these rows, and whoever asks reads them
//! back by the same tables.

use crate::{LegName, columns, words};

/// Whose sends a row of an edge is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SendsOf {
    /// Those of both ends together.
    Both,
    /// Those of the end that connected.
    Client,
    /// Those of the end that accepted.
    Server,
}

words! {
    SendsOf: Both = "both", Client = "client", Server = "server";
}

/// The runs that a map is made of.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MapRuns {
    /// Hosts with a run in the period.
    pub hosts: u64,
    /// Their runs.
    pub runs: u64,
    /// Of sends and attempts, the fewest kept have one row in so many.
    pub kept_one_in: u64,
    /// Bytes written on the connections of these runs.
    pub bytes_written: u64,
    /// Of these, bytes written while sends were observed.
    pub bytes_armed: u64,
}

columns! {
    MapRuns: "map_runs", "", blank = MapRuns::default();
    hosts = hosts, "hosts with a run in the period";
    runs = runs, "their runs";
    kept_one_in = kept_one_in, "one row is kept of at most so many sends or attempts to connect";
    bytes_written = bytes_written, "bytes written on their connections";
    bytes_armed = bytes_armed, "of these, bytes written while sends were observed";
}

/// What went between two services at one port, as the rows of both ends say.
///
/// An end without a host is outside the fleet: it has its address, or the network that its address
/// was folded into. An end without a name is on a known host, and which service it is is not known.
#[derive(Clone, Debug, PartialEq)]
pub struct MapEdge {
    /// The host that connected; empty where it is outside.
    pub from_host: String,
    /// The service that connected.
    pub from: String,
    /// The host that accepted; empty where it is outside.
    pub to_host: String,
    /// The service that accepted.
    pub to: String,
    /// The port that it accepted at.
    pub port: Option<u64>,
    /// Whether it is known who connected. Where it is not, [`Self::from`] is who was traced.
    pub directed: bool,
    /// Whose sends the figures are of.
    pub sends_of: SendsOf,
    /// Whether the end that connected has rows of it.
    pub at_client: bool,
    /// Whether the end that accepted has.
    pub at_server: bool,
    /// Addresses outside the fleet that are in it.
    pub addresses: u64,
    /// Connections that were established in the period.
    pub opened: Option<u64>,
    /// Attempts to connect that failed.
    pub failed: Option<u64>,
    /// Sends, by the weights of their rows.
    pub sends: u64,
    /// Rows, or counts of histograms, that this is from.
    pub seen: u64,
    /// Of these sends, those that only histograms have, which say nothing of bytes and
    /// retransmissions.
    pub counted: u64,
    /// Bytes of the others.
    pub bytes: Option<u64>,
    /// Of the others, sends whose last packet was retransmitted.
    pub retransmitted: Option<u64>,
    /// Of the others, sends without a time: mostly as no ACK was seen.
    pub untimed: u64,
    /// How long the sends took together up to their ACKs, nanoseconds.
    pub total_ns: u64,
    /// Half of the sends took at most this, nanoseconds.
    pub p50_ns: Option<u64>,
    /// 99 % of them did.
    pub p99_ns: Option<u64>,
    /// The leg that took most of this time.
    pub leg: Option<LegName>,
    /// Its share of it.
    pub leg_share: Option<f64>,
    /// Its place among the edges: the first is the one whose sends took most time.
    pub place: u64,
    /// Edges that the fleet has, listed or not.
    pub edges: u64,
}

columns! {
    MapEdge: "map_edges", "", blank = MapEdge {
        from_host: String::new(), from: String::new(), to_host: String::new(), to: String::new(), port: None, directed: true,
        sends_of: SendsOf::Both, at_client: false, at_server: false, addresses: 0, opened: None, failed: None, sends: 0, seen: 0,
        counted: 0, bytes: None, retransmitted: None, untimed: 0, total_ns: 0, p50_ns: None, p99_ns: None, leg: None,
        leg_share: None, place: 0, edges: 0,
    };
    from_host = from_host, "the host that connected; empty where it is outside the fleet";
    from = from, "the service that connected, or the address or network outside; empty where it is not known";
    to_host = to_host, "the host that accepted; empty where it is outside the fleet";
    to = to, "the service that accepted, or the address or network outside; empty where it is not known";
    port = port, null "it is not known", "the port that it accepted at";
    directed = directed, "whether it is known who connected";
    sends_of = sends_of, "whose sends the figures are of";
    at_client = at_client, "whether the end that connected has rows of it";
    at_server = at_server, "whether the end that accepted has";
    addresses = addresses, "addresses outside the fleet that are in it";
    opened = opened, null "attempts were not recorded", "connections that were established in the period";
    failed = failed, null "attempts were not recorded", "attempts to connect that failed";
    sends = sends, "sends, by the weights of their rows";
    seen = seen, "rows, or counts of histograms, that this is from";
    counted = counted, "of these sends, those that only histograms have";
    bytes = bytes, null "only histograms have these sends", "bytes of the others";
    retransmitted = retransmitted, null "only histograms have these sends", "of the others, sends whose last packet was retransmitted";
    untimed = untimed, "of the others, sends without a time: mostly as no ACK was seen";
    total_ns = total_ns, "how long the sends took together up to their ACKs";
    p50_ns = p50_ns, null "no send has a time", "half of the sends took at most this";
    p99_ns = p99_ns, null "fewer than 100 were seen", "99 % of the sends took at most this";
    leg = leg, null "no leg is known", "the leg that took most of this time";
    leg_share = leg_share, null "no leg is known", "its share of it";
    place = place, "its place among the edges: the first is the one whose sends took most time";
    edges = edges, "edges that the fleet has, listed or not";
}

impl MapEdge {
    /// The mean of the sends that have a time, nanoseconds.
    pub fn mean_ns(&self) -> Option<f64> {
        let timed = self.sends.saturating_sub(self.untimed);
        (timed > 0).then(|| self.total_ns as f64 / timed as f64)
    }
}
