//! The table `packets`: one row for each packet of TCP, when it is acknowledged, dropped, or given up.

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use record::{ConnectionId, Direction, DropReason, Dropped, Instant, Monotonic, Nanos, Packet, SeqNumber, TcpFlags};

use crate::column::{Cell, Column, Kind};
use crate::row::{Bad, Row};

pub(crate) fn moment(at: Option<Instant<Monotonic>>) -> Cell<'static> {
    at.map(Instant::as_nanos).into()
}

pub(crate) fn owned(text: String) -> Cell<'static> {
    Cell::Text(Cow::Owned(text))
}

pub(crate) fn reason(dropped: Option<&Dropped>) -> Cell<'_> {
    dropped.map_or(Cell::Null, |d| Cell::Text(Cow::Borrowed(&d.reason.0)))
}

pub(crate) const COLUMNS: &[Column<Packet>] = &[
    Column::new("connection_id", Kind::Id, |p| Cell::Number(p.connection.0)),
    Column::new("local_address", Kind::Text, |p| owned(p.local.ip().to_string())),
    Column::new("local_port", Kind::Int, |p| Cell::Number(p.local.port().into())),
    Column::new("remote_address", Kind::Text, |p| owned(p.remote.ip().to_string())),
    Column::new("remote_port", Kind::Int, |p| Cell::Number(p.remote.port().into())),
    Column::new("direction", Kind::Text, |p| Cell::Text(Cow::Borrowed(p.direction.name()))),
    Column::new("first_seq", Kind::Int, |p| Cell::Number(p.first_seq.0.into())),
    Column::new("bytes", Kind::Int, |p| Cell::Number(p.bytes.into())),
    Column::new("frame_bytes", Kind::Int, |p| Cell::Number(p.frame_bytes.into())),
    Column::new("segments", Kind::Int, |p| Cell::Number(p.segments.into())),
    Column::new("flags", Kind::Int, |p| Cell::Number(p.flags.0.into())),
    Column::new("retransmission", Kind::Int, |p| Cell::Number(p.retransmission.into())),
    Column::or_null("sched_at_ns", Kind::Time, |p| moment(p.sched)),
    Column::or_null("driver_at_ns", Kind::Time, |p| moment(p.driver)),
    Column::or_null("ack_at_ns", Kind::Time, |p| moment(p.ack)),
    Column::or_null("qdisc_ns", Kind::Time, |p| p.qdisc().ok().flatten().map(|n| n.0).into()),
    Column::or_null("network_ns", Kind::Time, |p| p.network().ok().flatten().map(|n| n.0).into()),
    Column::or_null("gap_ns", Kind::Time, |p| p.gap.map(|n| n.0).into()),
    Column::or_null("dropped", Kind::Text, |p| reason(p.dropped.as_ref())),
    Column::or_null("dropped_at_ns", Kind::Time, |p| moment(p.dropped.as_ref().map(|d| d.at))),
];

pub(crate) fn end(row: Row<'_>, address: &str, port: &str) -> Result<SocketAddr, Bad> {
    let ip: IpAddr = row.text(address)?.parse().map_err(|_| row.bad(address, "is no IP address"))?;
    let port = u16::try_from(row.number(port)?).map_err(|_| row.bad(port, "does not fit 16 bits"))?;
    Ok(SocketAddr::new(ip, port))
}

pub(crate) fn direction(row: Row<'_>) -> Result<Direction, Bad> {
    let word = row.text("direction")?;
    [Direction::Sent, Direction::Received]
        .into_iter()
        .find(|d| d.name() == word)
        .ok_or_else(|| row.bad("direction", "is neither sent nor received"))
}

pub(crate) fn at(row: Row<'_>, column: &str) -> Result<Option<Instant<Monotonic>>, Bad> {
    Ok(row.number_or_null(column)?.map(Instant::from_nanos))
}

pub(crate) fn dropped(row: Row<'_>) -> Result<Option<Dropped>, Bad> {
    let Some(reason) = row.text_or_null("dropped")? else { return Ok(None) };
    let at = Instant::from_nanos(row.number("dropped_at_ns")?);
    Ok(Some(Dropped { at, reason: DropReason(Arc::from(reason)) }))
}

/// The packet that a row holds.
pub(crate) fn read(row: Row<'_>) -> Result<Packet, Bad> {
    Ok(Packet {
        connection: ConnectionId(row.number("connection_id")?),
        local: end(row, "local_address", "local_port")?,
        remote: end(row, "remote_address", "remote_port")?,
        direction: direction(row)?,
        first_seq: SeqNumber(row.small("first_seq")?),
        bytes: row.small("bytes")?,
        frame_bytes: row.small("frame_bytes")?,
        segments: row.small("segments")?,
        flags: TcpFlags(u8::try_from(row.number("flags")?).map_err(|_| row.bad("flags", "does not fit 8 bits"))?),
        retransmission: match row.number("retransmission")? {
            0 => false,
            1 => true,
            _ => return Err(row.bad("retransmission", "is neither 0 nor 1")),
        },
        sched: at(row, "sched_at_ns")?,
        driver: at(row, "driver_at_ns")?,
        ack: at(row, "ack_at_ns")?,
        gap: row.number_or_null("gap_ns")?.map(Nanos),
        dropped: dropped(row)?,
    })
}
