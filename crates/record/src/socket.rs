//! Sockets that are alive, as the kernel's socket diagnostics describe them.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::{Instant, Monotonic, Nanos, words};

/// What a socket speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Transport {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

words! { Transport: Tcp = "tcp", Udp = "udp"; }

/// The state of a socket. Those of TCP are by what they mean for its user: closing is every state
/// between the first FIN and the last ACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum SocketState {
    /// Both ends may send. UDP: it has one peer.
    Established,
    /// A SYN was sent that nothing has answered yet.
    Connecting,
    /// A SYN was answered, and the handshake is not over.
    Accepting,
    /// It accepts connections.
    Listening,
    /// One end has closed, or both.
    Closing,
    /// UDP without a peer.
    Open,
}

words! {
    SocketState: Established = "established", Connecting = "connecting", Accepting = "accepting",
    Listening = "listening", Closing = "closing", Open = "open";
}

/// A socket that is alive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Socket {
    /// The kernel's cookie: unique for as long as the machine runs.
    pub cookie: u64,
    /// What it speaks.
    pub transport: Transport,
    /// Its state.
    pub state: SocketState,
    /// This host's end. IPv4-mapped addresses are given as IPv4.
    pub local: SocketAddr,
    /// The peer; port 0 where it has none.
    pub remote: SocketAddr,
    /// The inode number of its network namespace.
    pub network: u64,
    /// Its own inode number; 0 where no process has it (any more, or yet).
    pub inode: u32,
    /// The kernel's id of its cgroup, where the kernel says it.
    pub cgroup: Option<u64>,
    /// The user who made it.
    pub uid: u32,
    /// A process that has it.
    pub owner: Option<SocketOwner>,
    /// Bytes that came and were not read. A listener: connections that wait to be accepted.
    pub receive_queue: u32,
    /// Bytes that were written and are not acknowledged. A listener: the longest queue of those.
    pub send_queue: u32,
    /// What was dropped at this socket. A listener: connections, for a full queue.
    pub drops: u32,
    /// Room for what comes and for what is sent (`SO_RCVBUF`, `SO_SNDBUF`), bytes.
    pub buffers: [u32; 2],
    /// What TCP knows of it.
    pub tcp: Option<Box<TcpState>>,
    /// When it was read: of thousands, the last is read long after the first.
    pub read: Instant<Monotonic>,
}

/// A process that has a socket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SocketOwner {
    /// Its number.
    pub pid: u32,
    /// Its name (`comm`).
    pub name: String,
    /// How many other processes have the socket too.
    pub others: u32,
    /// How that is known.
    pub source: OwnerSource,
}

/// How it is known which process has a socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum OwnerSource {
    /// It has a descriptor of the socket.
    #[default]
    Descriptor,
    /// The tracer saw it connect, accept or send.
    Tracer,
}

words! { OwnerSource: Descriptor = "descriptor", Tracer = "tracer"; }

/// Figures of some sockets together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SocketFigures {
    /// Sockets that are alive, by their state, in the order of [`SocketState::ALL`].
    pub states: [u64; SocketState::ALL.len()],
    /// Sockets that were closed a moment ago.
    pub closed: u64,
    /// Bytes sent.
    pub sent: u64,
    /// Bytes received.
    pub received: u64,
    /// Segments retransmitted.
    pub retransmitted: u64,
    /// What was dropped at the sockets.
    pub drops: u64,
    /// The least smoothed round-trip time and the largest.
    pub rtt: Option<[Nanos; 2]>,
    /// How long the latest byte of any of them is ago.
    pub quiet: Option<Nanos>,
    /// The longest accept queue, and how long it may become.
    pub queue: Option<[u32; 2]>,
    /// A process that has one of them: its number and its name.
    pub owner: Option<(u32, String)>,
    /// Whether all sockets are of that process.
    pub one_owner: bool,
    /// Whether they speak UDP, all of them.
    pub udp: bool,
    /// The cookies of those that count most: of sockets in trouble, then of the busiest.
    pub cookies: Vec<u64>,
}

impl SocketFigures {
    /// Sockets that are alive.
    pub fn alive(&self) -> u64 {
        self.states.iter().sum()
    }

    /// The state that most of them are in.
    pub fn state(&self) -> Option<SocketState> {
        let (n, state) = self.states.iter().zip(SocketState::ALL).max_by_key(|(n, _)| **n)?;
        (*n > 0).then_some(state)
    }
}

/// The kernel's `struct tcp_info` of a socket, as far as something here shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TcpState {
    /// Bytes sent, without retransmissions.
    pub sent: u64,
    /// Bytes acknowledged.
    pub acknowledged: u64,
    /// Bytes received.
    pub received: u64,
    /// Segments with data that were sent, retransmissions among them.
    pub segments: u32,
    /// Segments retransmitted.
    pub retransmitted: u32,
    /// Segments that are on their way.
    pub unacknowledged: u32,
    /// Timeouts in a row without any answer.
    pub timeouts: u8,
    /// Probes of the peer's closed window in a row without any answer.
    pub probes: u8,
    /// Bytes that were written and not sent.
    pub unsent: u32,
    /// Smoothed round-trip time and its deviation.
    pub rtt: [Nanos; 2],
    /// The minimum RTT.
    pub least_rtt: Option<Nanos>,
    /// Retransmission timeout.
    pub timeout: Nanos,
    /// Congestion window and slow-start threshold, segments.
    pub window: [u32; 2],
    /// The peer's receive window, bytes, where the kernel says it (since Linux 5.4).
    pub receive_window: Option<u32>,
    /// Largest segment, bytes.
    pub segment: u32,
    /// Pacing rate and rate of delivery, bytes a second.
    pub rates: [u64; 2],
    /// Time with anything to send.
    pub busy: Nanos,
    /// Of it, time with the peer's receive window full.
    pub receive_window_limited: Nanos,
    /// Of it, time with the send buffer full.
    pub send_buffer_limited: Nanos,
    /// Options that were negotiated: the kernel's `TCPI_OPT_…`.
    pub options: u8,
    /// The congestion control.
    pub congestion_control: String,
    /// Since the latest byte was sent.
    pub since_sent: Nanos,
    /// Since the latest byte came.
    pub since_received: Nanos,
    /// Since the latest ACK came.
    pub since_ack: Nanos,
}

impl TcpState {
    /// The options that were negotiated, in words.
    pub fn options(&self) -> Vec<&'static str> {
        const NAMES: [&str; 6] = ["timestamps", "SACK", "window scaling", "ECN", "ECN seen", "SYN data"];
        NAMES.into_iter().enumerate().filter(|(bit, _)| self.options & 1 << bit != 0).map(|(_, name)| name).collect()
    }
}

/// What has become of all sockets since they were read last.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SocketChanges {
    /// When their reading began; `None` where it is too early to read them again.
    pub read: Option<Instant<Monotonic>>,
    /// Sockets that are new or have changed.
    pub changed: Vec<Socket>,
    /// The last state of those that were closed, as far as the kernel reported it.
    pub closed: Vec<Socket>,
    /// The cookies of all that are gone.
    pub gone: Vec<u64>,
    /// What could not be read, in words; empty where all was.
    pub missed: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn socket() -> Socket {
        Socket {
            cookie: 7,
            transport: Transport::Tcp,
            state: SocketState::Established,
            local: "10.0.0.1:443".parse().unwrap(),
            remote: "10.0.0.2:40000".parse().unwrap(),
            network: 1,
            inode: 2,
            cgroup: None,
            uid: 0,
            owner: None,
            receive_queue: 0,
            send_queue: 0,
            drops: 0,
            buffers: [0; 2],
            tcp: Some(Box::new(TcpState { options: 0b101, ..TcpState::default() })),
            read: Instant::from_nanos(3),
        }
    }

    #[test]
    fn options_have_names_and_a_socket_survives_its_transport() {
        assert_eq!(socket().tcp.unwrap().options(), ["timestamps", "window scaling"]);
        let json = serde_json::to_string(&socket()).unwrap();
        assert_eq!(serde_json::from_str::<Socket>(&json).unwrap(), socket());
    }
}
