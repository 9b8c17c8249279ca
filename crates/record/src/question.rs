//! A question of DNS that a traced program asked, with its answer.

use std::net::SocketAddr;

use crate::dns::Answered;
use crate::table::{NO_END, set_address, set_port};
use crate::{Comm, Instant, Monotonic, Nanos, Owner, columns};

/// One question to one server, and what came of it: a try of a lookup. The tries of a lookup come
/// one after the other, the first one first, once the lookup is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The lookup that it is a try of, by its number.
    pub lookup: u64,
    /// Which try it is, from 1.
    pub number: u32,
    /// How many tries that lookup has.
    pub tries: u32,
    /// Who made the socket that it was sent from.
    pub owner: Owner,
    /// The kernel's id of the cgroup of that socket.
    pub cgroup: Option<u64>,
    /// The end that asked.
    pub local: SocketAddr,
    /// The server.
    pub server: SocketAddr,
    /// It went over TCP.
    pub over_tcp: bool,
    /// The name.
    pub name: String,
    /// The type of record.
    pub kind: String,
    /// When it was sent; over TCP, when its last byte was sent.
    pub asked: Instant<Monotonic>,
    /// From there to its answer.
    pub took: Option<Nanos>,
    /// What became of it.
    pub answered: Answered,
    /// The response code.
    pub code: Option<String>,
    /// The answer did not fit into a datagram.
    pub truncated: bool,
    /// Its answer is the one that the lookup ended with.
    pub ends_lookup: bool,
    /// From the lookup's first question to this one.
    pub since_first: Nanos,
    /// From this question to the next one of the lookup.
    pub until_retry: Option<Nanos>,
    /// The addresses found, separated by blanks.
    pub addresses: String,
}

impl Question {
    /// So many ports of servers can be watched.
    pub const MOST_PORTS: usize = 8;

    /// What the lookup waited up to the end of this try: to its answer or, where there is none, to
    /// the next try.
    pub fn waited(&self) -> Nanos {
        self.since_first + self.took.or(self.until_retry).unwrap_or(Nanos::ZERO)
    }

    /// Whether it is the last try of its lookup.
    pub fn is_last(&self) -> bool {
        self.number == self.tries
    }

    /// Of nothing yet.
    pub fn blank() -> Self {
        Self {
            lookup: 0,
            number: 1,
            tries: 1,
            owner: Owner { pid: 0, comm: Comm::default() },
            cgroup: None,
            local: NO_END,
            server: NO_END,
            over_tcp: false,
            name: String::new(),
            kind: String::new(),
            asked: Instant::from_nanos(0),
            took: None,
            answered: Answered::default(),
            code: None,
            truncated: false,
            ends_lookup: false,
            since_first: Nanos::ZERO,
            until_retry: None,
            addresses: String::new(),
        }
    }
}

columns! {
    Question: "dns", "dns", blank = Self::blank();
    lookup = lookup, "the lookup that this question is a try of: one program's search for one name and type; numbered from 1 within the trace";
    "try" = number, "which try of the lookup it is, from 1";
    tries = tries, "how many tries the lookup has";
    pid = owner.pid, "process that made the socket; 0 where that is not known", from "task_struct.tgid";
    comm = owner.comm, "name of its thread", from "task_struct.comm";
    cgroup_id = cgroup, null "it is not known", "the kernel's number of the cgroup of its socket", from "kernfs_node.id";
    local_address = |q| q.local.ip(), set |q, v| set_address(&mut q.local, v), "IP address that it was asked from";
    local_port = |q| q.local.port(), set |q, v| set_port(&mut q.local, v), "port that it was asked from";
    server_address = |q| q.server.ip(), set |q, v| set_address(&mut q.server, v), "IP address of the server; 127.0.0.53 is the stub of systemd-resolved";
    server_port = |q| q.server.port(), set |q, v| set_port(&mut q.server, v), "its port";
    over_tcp = over_tcp, "it went over TCP";
    name = name, "the name, in small letters";
    "type" = kind, "the type of record: A, AAAA, …";
    asked_at_ns = asked, "it was sent";
    took_ns = took, null "there is no answer", "from there to its answer";
    answered = answered, "what became of it";
    code = code, null "there is no answer", "the response code";
    truncated = truncated, "its answer did not fit into a datagram";
    ends_lookup = ends_lookup, "its answer is the one that the lookup ended with";
    since_first_ns = since_first, "from the first question of the lookup to this one";
    until_retry_ns = until_retry, null "it is the last try", "from this question to the next one of the lookup";
    addresses = addresses, "the addresses found, separated by blanks";
}
