//! Attempts to set up a connection: how each went, and how the connection ended.

use crate::table::{self, NO_END, set_address, set_port};
use crate::{ConnectionId, Instant, Monotonic, Nanos, Opening, Owner, columns, words};

/// What came of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The connection was established.
    Established,
    /// A RST came for the SYN, or an ICMP message that the port cannot be reached.
    Refused,
    /// An ICMP message, or this host's routes, said that the peer cannot be reached.
    Unreachable,
    /// No port of this host was free for it (`EADDRNOTAVAIL`): no SYN was sent.
    NoPort,
    /// No answer came to the SYN and its retransmissions.
    TimedOut,
    /// The program closed the socket, or ended, before an answer came.
    Abandoned,
    /// The SYN-ACK was not acknowledged.
    Unanswered,
    /// No answer had come when tracing ended.
    Pending,
    /// It was established before tracing began.
    Found,
}

words! {
    Outcome: Established = "established", Refused = "refused", Unreachable = "unreachable", NoPort = "no_port", TimedOut = "timed_out",
    Abandoned = "abandoned", Unanswered = "unanswered", Pending = "pending", Found = "found";
}

/// Why a connection, or an attempt, is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// It was closed: a FIN.
    Fin,
    /// A RST.
    Reset,
    /// The kernel gave up: no ACK came, or no answer to keepalive probes or to a SYN.
    TimedOut,
    /// ICMP: the peer, or its port, cannot be reached.
    Unreachable,
    /// It was destroyed from outside, as `ss --kill` does.
    Aborted,
    /// The program closed the socket before an answer came: nothing was sent.
    Closed,
    /// No port of this host was free.
    NoPort,
}

words! {
    Ending: Fin = "fin", Reset = "reset", TimedOut = "timed_out", Unreachable = "unreachable", Aborted = "aborted", Closed = "closed",
    NoPort = "no_port";
}

/// Who ended a connection, or an attempt: the first to send a FIN, or the sender of the RST.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EndedBy {
    /// A program of this host closed the socket.
    Program,
    /// The kernel of this host closed it, as the program ended by itself.
    Exit,
    /// The same, as a signal killed the program.
    Killed,
    /// The other end.
    Peer,
    /// The kernel of this host, by itself.
    Kernel,
    /// Something between: an ICMP message came.
    Network,
}

words! {
    EndedBy: Program = "program", Exit = "exit", Killed = "killed", Peer = "peer", Kernel = "kernel", Network = "network";
}

/// What became of Fast Open (RFC 7413).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FastOpen {
    /// The data in the SYN was taken.
    Taken,
    /// There was no data in the SYN, only a request for a cookie; or the peer did not take it.
    NotTaken,
}

words! { FastOpen: Taken = "taken", NotTaken = "not_taken"; }

/// When an attempt, and the connection, came to each step; `None` where it was not seen, or did not
/// come to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectStamps {
    /// The SYN was sent, or received.
    pub syn: Option<Instant<Monotonic>>,
    /// The SYN-ACK was sent; only at the end that accepts.
    pub syn_ack: Option<Instant<Monotonic>>,
    /// The SYN-ACK came, or the ACK for it, which puts the connection into the listener's queue.
    pub established: Option<Instant<Monotonic>>,
    /// A program accepted it.
    pub accepted: Option<Instant<Monotonic>>,
    /// The first bytes were written.
    pub first_sent: Option<Instant<Monotonic>>,
    /// The first bytes came.
    pub first_received: Option<Instant<Monotonic>>,
    /// The first FIN was sent or received, or the RST; or the kernel gave up.
    pub ended: Option<Instant<Monotonic>>,
    /// TCP was done with it.
    pub closed: Option<Instant<Monotonic>>,
}

/// An attempt to set up a connection, with its connection's end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connect {
    /// The connection; `None` for a SYN that no connection came of.
    pub connection: Option<ConnectionId>,
    /// This host's end.
    pub local: std::net::SocketAddr,
    /// The peer.
    pub remote: std::net::SocketAddr,
    /// Who connected or accepted; before a program accepts it, the owner of the listener.
    pub owner: Owner,
    /// The kernel's id of the cgroup of its socket, where it has one.
    pub cgroup: Option<u64>,
    /// Which end this is.
    pub opening: Opening,
    /// What came of the attempt.
    pub outcome: Outcome,
    /// When it came to each step.
    pub stamps: ConnectStamps,
    /// Retransmissions of the SYN, or of the SYN-ACK.
    pub retries: u32,
    /// When the first of them were sent.
    pub retried: Vec<u64>,
    /// What became of Fast Open; `None` where it was not tried.
    pub fast_open: Option<FastOpen>,
    /// Data in the SYN that was sent.
    pub syn_bytes: u32,
    /// Why it is over; `None` where it was not when tracing ended.
    pub ending: Option<Ending>,
    /// By whom.
    pub ended_by: Option<EndedBy>,
    /// The process that closed it, where one of this host did.
    pub closer: Option<u32>,
    /// The signal that killed it.
    pub signal: Option<u32>,
}

impl Connect {
    /// From the SYN to the moment when the connection was established here.
    pub fn handshake(&self) -> Option<Nanos> {
        self.stamps.syn.zip(self.stamps.established).and_then(|(syn, end)| end.since(syn).ok())
    }

    /// In the accept queue.
    pub fn accept_wait(&self) -> Option<Nanos> {
        self.stamps.established.zip(self.stamps.accepted).and_then(|(from, to)| to.since(from).ok())
    }

    /// A record to set fields of.
    pub const fn blank() -> Self {
        Self {
            connection: None,
            local: NO_END,
            remote: NO_END,
            owner: Owner { pid: 0, comm: crate::Comm([0; 16]) },
            cgroup: None,
            opening: Opening::Found,
            outcome: Outcome::Found,
            stamps: ConnectStamps {
                syn: None,
                syn_ack: None,
                established: None,
                accepted: None,
                first_sent: None,
                first_received: None,
                ended: None,
                closed: None,
            },
            retries: 0,
            retried: Vec::new(),
            fast_open: None,
            syn_bytes: 0,
            ending: None,
            ended_by: None,
            closer: None,
            signal: None,
        }
    }
}

columns! {
    Connect: "connects", "connect", blank = Connect::blank();
    connection_id = connection, null "no connection came of the received SYN", "its connection", from "sk_cookie";
    pid = owner.pid, "process that connected or accepted; before one accepts, the owner of the listener; 0 where that is not known",
        from "task_struct.tgid";
    comm = owner.comm, "name of its thread", from "task_struct.comm";
    cgroup_id = cgroup, null "no socket came of the received SYN, or an earlier version wrote the run",
        "the kernel's number of the cgroup of its socket", from "kernfs_node.id";
    local_address = |c| c.local.ip(), set |c, v| set_address(&mut c.local, v), "this host's IP address";
    local_port = |c| c.local.port(), set |c, v| set_port(&mut c.local, v), "this host's port", from "skc_num";
    remote_address = |c| c.remote.ip(), set |c, v| set_address(&mut c.remote, v), "the peer's IP address";
    remote_port = |c| c.remote.port(), set |c, v| set_port(&mut c.remote, v), "the peer's port", from "skc_dport";
    opening = opening, "`connected`: from here; `accepted`: here; `found`: it was there before tracing";
    outcome = outcome, "what came of the attempt";
    syn_at_ns = stamps.syn, null "it was before tracing, or not seen (SYN cookies, Fast Open)", "the SYN was sent, or received",
        from "BPF_SOCK_OPS_TCP_CONNECT_CB, BPF_SOCK_OPS_RWND_INIT";
    syn_ack_at_ns = stamps.syn_ack, null "as `syn_at_ns`; and at the end that connects", "the SYN-ACK was sent",
        from "BPF_SOCK_OPS_TIMEOUT_INIT";
    established_at_ns = stamps.established, null "it was not established, or before tracing",
        "the SYN-ACK came; at the end that accepts the ACK for it, which puts the connection into the accept queue",
        from "BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB, BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB";
    accepted_at_ns = stamps.accepted, null "it was not accepted, that was not seen, or this end connected", "a program accepted it",
        from "inet_csk_accept";
    first_sent_at_ns = stamps.first_sent, null "nothing was, or sampling skipped it", "the program wrote the first bytes";
    first_received_at_ns = stamps.first_received, null "nothing was, or receives were not followed",
        "TCP accepted the first bytes of the peer", from "tcp_probe";
    handshake_ns = |c| c.handshake(), null "a moment is missing", "`syn` to `established`";
    accept_wait_ns = |c| c.accept_wait(), null "a moment is missing", "`established` to `accepted`: in the accept queue";
    retries = retries, "retransmissions of the SYN; at the end that accepts, of the SYN-ACK", from "tcp_retransmit_skb, tcp_retransmit_synack";
    retry_moments = |c| c.retried.iter().map(u64::to_string).collect::<Vec<_>>().join(" "), set |c, v| {
            c.retried = table::text(v)?.split_ascii_whitespace().map(str::parse).collect::<Result<_, _>>().map_err(|_| "is no list of moments")?;
            Ok(())
        }, "when the first eight of them were sent: moments in nanoseconds, separated by blanks";
    fast_open = fast_open, null "it was not tried", "what became of Fast Open", from "syn_data_acked";
    syn_bytes = syn_bytes, "bytes in the SYN that was sent: they are in no send", from "write_seq";
    ending = ending, null "it was not over when tracing ended", "why it is over", from "sk_err";
    ended_by = ended_by, null "as `ending`",
        "who sent the first FIN or the RST: a `program` here, the kernel for one that ended by itself (`exit`) or was `killed`, the `peer`; \
         or the `kernel` gave up, or the `network` refused by ICMP";
    closer_pid = closer, null "no process here closed it, or it is not known", "the process that closed it first", from "task_struct.tgid";
    signal = signal, null "none did", "the signal that killed that process", from "task_struct.exit_code";
    ended_at_ns = stamps.ended, null "as `ending`", "the first FIN was sent or received, or the RST, or the kernel gave up";
    closed_at_ns = stamps.closed, null "as `ending`; and no connection came of a received SYN", "TCP was done with it", from "TCP_CLOSE";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_need_both_moments_in_order() {
        let at = |ns| Some(Instant::from_nanos(ns));
        let mut connect = Connect::blank();
        connect.stamps.established = at(30);
        assert_eq!((connect.handshake(), connect.accept_wait()), (None, None));
        connect.stamps.syn = at(10);
        connect.stamps.accepted = at(70);
        assert_eq!((connect.handshake(), connect.accept_wait()), (Some(Nanos(20)), Some(Nanos(40))));
        connect.stamps.syn = at(31);
        assert_eq!(connect.handshake(), None);
    }
}
