//! The table `receives`: one row for each received segment, or frame of segments, when it has been read or never will be.

use std::borrow::Cow;

use record::{Arrival, Comm, ConnectionId, Instant, Monotonic, Owner, Receive, ReceiveLeg, SeqNumber};

use crate::column::{Cell, Column, Kind};
use crate::row::{Bad, Row};

fn moment(at: Option<Instant<Monotonic>>) -> Cell<'static> {
    at.map(Instant::as_nanos).into()
}

/// Null also where the stages came in an impossible order.
fn leg(receive: &Receive, leg: ReceiveLeg) -> Cell<'static> {
    receive.leg(leg).ok().flatten().map(|n| n.0).into()
}

pub(crate) const COLUMNS: &[Column<Receive>] = &[
    Column::new("connection_id", Kind::Id, |r| Cell::Number(r.connection.0)),
    Column::new("pid", Kind::Int, |r| Cell::Number(r.reader.pid.into())),
    Column::new("comm", Kind::Text, |r| Cell::Text(Cow::Owned(r.reader.comm.to_string()))),
    Column::new("first_seq", Kind::Int, |r| Cell::Number(r.first_seq.0.into())),
    Column::new("bytes", Kind::Int, |r| Cell::Number(r.bytes.into())),
    Column::new("segments", Kind::Int, |r| Cell::Number(r.segments.into())),
    Column::or_null("driver_rx_at_ns", Kind::Time, |r| moment(r.stamps.driver_rx)),
    Column::or_null("tcp_rx_at_ns", Kind::Time, |r| moment(r.stamps.tcp_rx)),
    Column::or_null("ready_at_ns", Kind::Time, |r| moment(r.stamps.ready)),
    Column::or_null("read_at_ns", Kind::Time, |r| moment(r.stamps.read)),
    Column::or_null("softirq_ns", Kind::Time, |r| leg(r, ReceiveLeg::Softirq)),
    Column::or_null("socket_ns", Kind::Time, |r| leg(r, ReceiveLeg::Socket)),
    Column::or_null("wakeup_ns", Kind::Time, |r| leg(r, ReceiveLeg::Wakeup)),
    Column::or_null("total_ns", Kind::Time, |r| leg(r, ReceiveLeg::Total)),
    Column::new("out_of_order", Kind::Int, |r| Cell::Number(r.out_of_order.into())),
    Column::new("queued_bytes", Kind::Int, |r| Cell::Number(r.queued.into())),
    Column::new("receive_buffer_bytes", Kind::Int, |r| Cell::Number(r.buffer.into())),
    Column::new("receive_buffer_used_bytes", Kind::Int, |r| Cell::Number(r.buffer_used.into())),
];

/// The receive that a row holds.
pub(crate) fn read(row: Row<'_>) -> Result<Receive, Bad> {
    let at = |name| Ok::<_, Bad>(row.number_or_null(name)?.map(Instant::from_nanos));
    Ok(Receive {
        connection: ConnectionId(row.number("connection_id")?),
        reader: Owner { pid: row.small("pid")?, comm: Comm::from(row.text("comm")?) },
        first_seq: SeqNumber(row.small("first_seq")?),
        bytes: row.small("bytes")?,
        segments: u16::try_from(row.number("segments")?).map_err(|_| row.bad("segments", "does not fit 16 bits"))?,
        stamps: Arrival {
            driver_rx: at("driver_rx_at_ns")?,
            tcp_rx: at("tcp_rx_at_ns")?,
            ready: at("ready_at_ns")?,
            read: at("read_at_ns")?,
        },
        out_of_order: match row.number("out_of_order")? {
            0 => false,
            1 => true,
            _ => return Err(row.bad("out_of_order", "is neither 0 nor 1")),
        },
        queued: row.small("queued_bytes")?,
        buffer: row.small("receive_buffer_bytes")?,
        buffer_used: row.small("receive_buffer_used_bytes")?,
    })
}
