//! Connections: a 4-tuple with its owner.

use std::fmt;
use std::net::SocketAddr;

use crate::table::{Cell as _, NO_END, Value, set_address, set_port};
use crate::{Instant, Monotonic, Nanos, Owner, columns, words};

/// The kernel's socket cookie: unique for as long as the machine runs, so a reused port pair is
/// another connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(transparent)]
pub struct ConnectionId(pub u64);

impl fmt::Display for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// How a connection came to be followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Opening {
    /// It existed before tracing began.
    Found,
    /// A traced process connected.
    Connected,
    /// A traced listener accepted it.
    Accepted,
}

words! { Opening: Found = "found", Connected = "connected", Accepted = "accepted"; }

/// A TCP connection that is being followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection {
    /// The socket's cookie.
    pub id: ConnectionId,
    /// This host's end. IPv4-mapped addresses are given as IPv4.
    pub local: SocketAddr,
    /// The peer.
    pub remote: SocketAddr,
    /// Who owns the socket, as far as known when it was picked up.
    pub owner: Owner,
    /// How it was picked up.
    pub opening: Opening,
    /// Of one that existed: whether this end was accepted, and not the one that connected.
    pub accepted: Option<bool>,
    /// When it was picked up.
    pub since: Instant<Monotonic>,
    /// The congestion control in use (`cubic`, `bbr`, …).
    pub congestion_control: String,
}

/// What the kernel's own counters say of a connection while it was followed; independent of the
/// stamps, so it shows what share of the traffic the stamps cover.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionTotals {
    /// How long it was followed.
    pub followed: Nanos,
    /// Bytes the application wrote meanwhile (`write_seq`).
    pub bytes_written: u64,
    /// Of these, bytes written while the connection was armed.
    pub bytes_armed: u64,
    /// Bytes acknowledged meanwhile.
    pub bytes_acked: u64,
    /// Segments retransmitted meanwhile.
    pub segments_retransmitted: u32,
    /// Zero windows of the peer that were seen meanwhile; `None` where they were not counted:
    /// nothing was counted in histograms, or the run is of an earlier version.
    pub zero_windows: Option<u32>,
    /// How long it was armed.
    pub armed: Nanos,
    /// The reasons for waiting beside the kernel's own clocks; `None` where there is nothing to
    /// compare: no send was observed at its end, or the run is of an earlier version.
    pub judged: Option<Judged>,
}

/// What the kernel's own clocks of a connection say, and what the reasons for waiting do, over the
/// same time: until its end, from when its sends were last begun to be observed.
///
/// The kernel counts in jiffies, and starts and stops its clocks where it sends
/// (`tcp_chrono_start()`, `net/ipv4/tcp_output.c`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Judged {
    /// The kernel: time with anything to send.
    pub busy: Nanos,
    /// The kernel: of that, limited by the peer's receive window.
    pub receive_window_limited: Nanos,
    /// The kernel: of that, limited by the send buffer.
    pub send_buffer_limited: Nanos,
    /// The reasons: the receive window held the queue.
    pub receive_window: Nanos,
    /// The reasons: there was no room in the send buffer, and nothing held the queue.
    pub send_buffer: Nanos,
    /// The reasons: the congestion window held the queue, without the kernel's mark that it was
    /// full (`is_cwnd_limited`).
    pub not_marked: Nanos,
}

impl Judged {
    /// Of the time with anything to send, the part by which the two may differ.
    const PART: u64 = 10;

    /// They may differ by this in any case: two jiffies of the longest kind.
    const LEAST: Nanos = Nanos::from_millis(20);

    /// Whether the reasons agree with the kernel, to within a tenth of the time with anything to
    /// send.
    pub fn agrees(&self) -> bool {
        let most = Self::LEAST.max(Nanos(self.busy.0 / Self::PART));
        let apart = |a: Nanos, b: Nanos| Nanos(a.0.abs_diff(b.0));
        [
            apart(self.receive_window, self.receive_window_limited),
            apart(self.send_buffer, self.send_buffer_limited),
            self.not_marked,
        ]
        .into_iter()
        .all(|difference| difference <= most)
    }
}

/// Puts back one time of them.
fn judge(
    closed: &mut ClosedConnection,
    value: Value<'_>,
    place: fn(&mut Judged) -> &mut Nanos,
) -> Result<(), &'static str> {
    if let Some(time) = Option::from_value(value)? {
        *place(closed.totals.judged.get_or_insert_default()) = time;
    }
    Ok(())
}

columns! {
    Connection: "connections", "connection", blank = Connection {
        id: ConnectionId::default(),
        local: NO_END,
        remote: NO_END,
        owner: Owner::default(),
        opening: Opening::Found,
        accepted: None,
        since: Instant::from_nanos(0),
        congestion_control: String::new(),
    };
    connection_id = id, "the kernel's socket cookie: the name of the connection in all records", from "sk_cookie";
    pid = owner.pid, "process that owns it; 0 where that is not known", from "task_struct.tgid";
    comm = owner.comm, "name of its thread; what is not UTF-8 or is a control character is U+FFFD", from "task_struct.comm";
    local_address = |c| c.local.ip(), set |c, v| set_address(&mut c.local, v), "this host's IP address";
    local_port = |c| c.local.port(), set |c, v| set_port(&mut c.local, v), "this host's port", from "skc_num";
    remote_address = |c| c.remote.ip(), set |c, v| set_address(&mut c.remote, v), "the peer's IP address";
    remote_port = |c| c.remote.port(), set |c, v| set_port(&mut c.remote, v), "the peer's port", from "skc_dport";
    opening = opening, "`found`: it existed before tracing; otherwise who opened it";
    was_accepted = accepted, null "it began while tracing, it is not known, or the run is of an earlier version", "whether this end was accepted, of a connection that existed before tracing: the SYN of one that connected is among what the peer acknowledged", from "tcp_sock.bytes_acked, bytes_sent";
    since_ns = since, "when it was picked up";
    congestion_control = congestion_control, "`cubic`, `bbr`, …", from "icsk_ca_ops.name";
}

/// A connection that is followed no more, with what the kernel counted on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClosedConnection {
    /// Which.
    pub connection: ConnectionId,
    /// What the kernel counted.
    pub totals: ConnectionTotals,
}

columns! {
    ClosedConnection: "totals", "closed",
        blank = ClosedConnection { connection: ConnectionId::default(), totals: ConnectionTotals::default() };
    connection_id = connection, "its connection";
    followed_ns = totals.followed, "how long it was followed";
    armed_ns = totals.armed, "of that, how long sends were observed";
    bytes_written = totals.bytes_written, "bytes that the application wrote meanwhile", from "write_seq";
    bytes_armed = totals.bytes_armed, "of these, bytes written while sends were observed", from "write_seq";
    bytes_acked = totals.bytes_acked, "bytes acknowledged meanwhile", from "bytes_acked";
    segments_retransmitted = totals.segments_retransmitted, "segments retransmitted meanwhile", from "total_retrans";
    zero_windows = totals.zero_windows, null "the run is not of an agent, or of an earlier version",
        "zero windows of the peer that were seen meanwhile, mostly while sends were observed: each time that its window closed is one", from "snd_wnd";
    busy_ns = |c| c.totals.judged.map(|j| j.busy), set |c, v| judge(c, v, |j| &mut j.busy),
        null "no send was observed at its end, or the run is of an earlier version",
        "time with anything to send, by the kernel's own clock, as the next two; all since its sends were last begun to be observed", from "chrono_stat";
    receive_window_limited_ns = |c| c.totals.judged.map(|j| j.receive_window_limited), set |c, v| judge(c, v, |j| &mut j.receive_window_limited),
        null "as `busy_ns`", "of that, time limited by the peer's receive window", from "chrono_stat";
    send_buffer_limited_ns = |c| c.totals.judged.map(|j| j.send_buffer_limited), set |c, v| judge(c, v, |j| &mut j.send_buffer_limited),
        null "as `busy_ns`", "of that, time limited by the send buffer", from "chrono_stat";
    held_receive_window_ns = |c| c.totals.judged.map(|j| j.receive_window), set |c, v| judge(c, v, |j| &mut j.receive_window),
        null "as `busy_ns`", "time for which the receive window held the queue, as `waited_receive_window_ns` of sends is found";
    held_send_buffer_ns = |c| c.totals.judged.map(|j| j.send_buffer), set |c, v| judge(c, v, |j| &mut j.send_buffer),
        null "as `busy_ns`", "time without room in the send buffer while nothing held the queue, as `buffer_full_send_buffer_ns` of sends is found";
    held_not_marked_ns = |c| c.totals.judged.map(|j| j.not_marked), set |c, v| judge(c, v, |j| &mut j.not_marked),
        null "as `busy_ns`", "time for which the congestion window held the queue and the kernel had not marked it as full", from "is_cwnd_limited";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_agree_with_the_kernel_to_within_a_tenth_of_the_busy_time() {
        let ms = Nanos::from_millis;
        let busy = Judged { busy: ms(1_000), receive_window_limited: ms(400), ..Judged::default() };
        assert!(Judged { receive_window: ms(310), ..busy }.agrees());
        assert!(!Judged { receive_window: ms(290), ..busy }.agrees());
        let window = Judged { receive_window: ms(400), ..busy };
        assert!(!Judged { send_buffer: ms(101), ..window }.agrees());
        assert!(!Judged { not_marked: ms(101), ..window }.agrees());
        // Jiffies are no finer than that.
        assert!(Judged { busy: ms(20), receive_window: ms(20), ..Judged::default() }.agrees());
    }
}
