//! The table `totals`: what the kernel's own counters said of a connection, written when it is followed no more.
//!
//! A table of its own, so that `connections` can be written at once: a run that is cut off still knows the addresses of
//! every send in it.

use record::{ConnectionId, ConnectionTotals, Nanos};

use crate::column::{Cell, Column, Kind};
use crate::row::{Bad, Row};

/// A connection with what the kernel counted on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClosedConnection {
    /// Which.
    pub connection: ConnectionId,
    /// What the kernel counted.
    pub totals: ConnectionTotals,
}

pub(crate) const COLUMNS: &[Column<ClosedConnection>] = &[
    Column::new("connection_id", Kind::Id, |c| Cell::Number(c.connection.0)),
    Column::new("followed_ns", Kind::Time, |c| Cell::Number(c.totals.followed.0)),
    Column::new("armed_ns", Kind::Time, |c| Cell::Number(c.totals.armed.0)),
    Column::new("bytes_written", Kind::Int, |c| Cell::Number(c.totals.bytes_written)),
    Column::new("bytes_armed", Kind::Int, |c| Cell::Number(c.totals.bytes_armed)),
    Column::new("bytes_acked", Kind::Int, |c| Cell::Number(c.totals.bytes_acked)),
    Column::new("segments_retransmitted", Kind::Int, |c| Cell::Number(c.totals.segments_retransmitted.into())),
];

/// The totals that a row holds.
pub(crate) fn read(row: Row<'_>) -> Result<ClosedConnection, Bad> {
    Ok(ClosedConnection {
        connection: ConnectionId(row.number("connection_id")?),
        totals: ConnectionTotals {
            followed: Nanos(row.number("followed_ns")?),
            bytes_written: row.number("bytes_written")?,
            bytes_armed: row.number("bytes_armed")?,
            bytes_acked: row.number("bytes_acked")?,
            segments_retransmitted: row.small("segments_retransmitted")?,
            armed: Nanos(row.number("armed_ns")?),
        },
    })
}
