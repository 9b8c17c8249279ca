//! The table `connections`: one row for each connection, written when it is picked up.

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};

use record::{Comm, Connection, ConnectionId, Instant, Opening, Owner};

use crate::column::{Cell, Column, Kind};
use crate::row::{Bad, Row};

fn owned(text: String) -> Cell<'static> {
    Cell::Text(Cow::Owned(text))
}

pub(crate) const COLUMNS: &[Column<Connection>] = &[
    Column::new("connection_id", Kind::Id, |c| Cell::Number(c.id.0)),
    Column::new("pid", Kind::Int, |c| Cell::Number(c.owner.pid.into())),
    Column::new("comm", Kind::Text, |c| owned(c.owner.comm.to_string())),
    Column::new("local_address", Kind::Text, |c| owned(c.local.ip().to_string())),
    Column::new("local_port", Kind::Int, |c| Cell::Number(c.local.port().into())),
    Column::new("remote_address", Kind::Text, |c| owned(c.remote.ip().to_string())),
    Column::new("remote_port", Kind::Int, |c| Cell::Number(c.remote.port().into())),
    Column::new("opening", Kind::Text, |c| Cell::Text(Cow::Borrowed(opening_name(c.opening)))),
    Column::new("since_ns", Kind::Time, |c| Cell::Number(c.since.as_nanos())),
    Column::new("congestion_control", Kind::Text, |c| Cell::Text(Cow::Borrowed(&c.congestion_control))),
];

const OPENINGS: [(Opening, &str); 3] =
    [(Opening::Found, "found"), (Opening::Connected, "connected"), (Opening::Accepted, "accepted")];

fn opening_name(opening: Opening) -> &'static str {
    OPENINGS.iter().find(|o| o.0 == opening).map_or("found", |o| o.1)
}

/// The connection that a row holds.
pub(crate) fn read(row: Row<'_>) -> Result<Connection, Bad> {
    let end = |address: &str, port: &str| {
        let ip: IpAddr = row.text(address)?.parse().map_err(|_| row.bad(address, "is no IP address"))?;
        let port = u16::try_from(row.number(port)?).map_err(|_| row.bad(port, "does not fit 16 bits"))?;
        Ok::<_, Bad>(SocketAddr::new(ip, port))
    };
    let opening = row.text("opening")?;
    Ok(Connection {
        id: ConnectionId(row.number("connection_id")?),
        local: end("local_address", "local_port")?,
        remote: end("remote_address", "remote_port")?,
        owner: Owner { pid: row.small("pid")?, comm: Comm::from(row.text("comm")?) },
        opening: OPENINGS
            .iter()
            .find(|o| o.1 == opening)
            .map(|o| o.0)
            .ok_or_else(|| row.bad("opening", "is no opening that is known"))?,
        since: Instant::from_nanos(row.number("since_ns")?),
        congestion_control: row.text("congestion_control")?.to_owned(),
    })
}
