//! The table `datagrams`: one row for each datagram of UDP, when it is with the driver, read, dropped, or given up.

use std::borrow::Cow;

use record::{Comm, ConnectionId, Datagram, DatagramLeg, DatagramStamps, Direction, Instant, Monotonic, Owner};

use crate::column::{Cell, Column, Kind};
use crate::packets::{at, direction, dropped, end, moment, owned, reason};
use crate::row::{Bad, Row};

/// `send`, `sched`, `driver`; nothing of one that was received.
fn sent(datagram: &Datagram) -> [Option<Instant<Monotonic>>; 3] {
    match datagram.stamps {
        DatagramStamps::Sent { send, sched, driver } => [send, sched, driver],
        DatagramStamps::Received { .. } => [None; 3],
    }
}

/// `driver_rx`, `udp_rx`, `ready`, `read`; nothing of one that was sent.
fn received(datagram: &Datagram) -> [Option<Instant<Monotonic>>; 4] {
    match datagram.stamps {
        DatagramStamps::Sent { .. } => [None; 4],
        DatagramStamps::Received { driver_rx, udp_rx, ready, read } => [driver_rx, udp_rx, ready, read],
    }
}

/// Null also where the stages came in an impossible order.
fn leg(datagram: &Datagram, leg: DatagramLeg) -> Cell<'static> {
    datagram.leg(leg).ok().flatten().map(|n| n.0).into()
}

pub(crate) const COLUMNS: &[Column<Datagram>] = &[
    Column::new("socket_id", Kind::Id, |d| Cell::Number(d.socket.0)),
    Column::new("pid", Kind::Int, |d| Cell::Number(d.owner.pid.into())),
    Column::new("comm", Kind::Text, |d| owned(d.owner.comm.to_string())),
    Column::new("local_address", Kind::Text, |d| owned(d.local.ip().to_string())),
    Column::new("local_port", Kind::Int, |d| Cell::Number(d.local.port().into())),
    Column::new("remote_address", Kind::Text, |d| owned(d.remote.ip().to_string())),
    Column::new("remote_port", Kind::Int, |d| Cell::Number(d.remote.port().into())),
    Column::new("direction", Kind::Text, |d| Cell::Text(Cow::Borrowed(d.direction().name()))),
    Column::new("bytes", Kind::Int, |d| Cell::Number(d.bytes.into())),
    Column::new("segments", Kind::Int, |d| Cell::Number(d.segments.into())),
    Column::or_null("send_at_ns", Kind::Time, |d| moment(sent(d)[0])),
    Column::or_null("sched_at_ns", Kind::Time, |d| moment(sent(d)[1])),
    Column::or_null("driver_at_ns", Kind::Time, |d| moment(sent(d)[2])),
    Column::or_null("driver_rx_at_ns", Kind::Time, |d| moment(received(d)[0])),
    Column::or_null("udp_rx_at_ns", Kind::Time, |d| moment(received(d)[1])),
    Column::or_null("ready_at_ns", Kind::Time, |d| moment(received(d)[2])),
    Column::or_null("read_at_ns", Kind::Time, |d| moment(received(d)[3])),
    Column::or_null("udp_ns", Kind::Time, |d| leg(d, DatagramLeg::Udp)),
    Column::or_null("qdisc_ns", Kind::Time, |d| leg(d, DatagramLeg::Qdisc)),
    Column::or_null("softirq_ns", Kind::Time, |d| leg(d, DatagramLeg::Softirq)),
    Column::or_null("socket_ns", Kind::Time, |d| leg(d, DatagramLeg::Socket)),
    Column::or_null("dropped", Kind::Text, |d| reason(d.dropped.as_ref())),
    Column::or_null("dropped_at_ns", Kind::Time, |d| moment(d.dropped.as_ref().map(|d| d.at))),
];

/// The datagram that a row holds.
pub(crate) fn read(row: Row<'_>) -> Result<Datagram, Bad> {
    Ok(Datagram {
        socket: ConnectionId(row.number("socket_id")?),
        owner: Owner { pid: row.small("pid")?, comm: Comm::from(row.text("comm")?) },
        local: end(row, "local_address", "local_port")?,
        remote: end(row, "remote_address", "remote_port")?,
        bytes: row.small("bytes")?,
        segments: row.small("segments")?,
        stamps: match direction(row)? {
            Direction::Sent => DatagramStamps::Sent {
                send: at(row, "send_at_ns")?,
                sched: at(row, "sched_at_ns")?,
                driver: at(row, "driver_at_ns")?,
            },
            Direction::Received => DatagramStamps::Received {
                driver_rx: at(row, "driver_rx_at_ns")?,
                udp_rx: at(row, "udp_rx_at_ns")?,
                ready: at(row, "ready_at_ns")?,
                read: at(row, "read_at_ns")?,
            },
        },
        dropped: dropped(row)?,
    })
}
