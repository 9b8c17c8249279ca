//! The table `requests`: one row for each request with its answer.

use std::borrow::Cow;

use record::{
    Basis, Comm, ConnectionId, Instant, Message, Moments, Monotonic, Nanos, Owner, Part, Parts, Peer, Request, Role,
    SeqNumber,
};

use crate::column::{Cell, Column, Kind};
use crate::row::{Bad, Row};

fn moment(at: Option<Instant<Monotonic>>) -> Cell<'static> {
    at.map(Instant::as_nanos).into()
}

fn part(request: &Request, part: Part) -> Cell<'static> {
    request.parts.as_ref().and_then(|p| p.get(part)).map(|n| n.0).into()
}

pub(crate) const COLUMNS: &[Column<Request>] = &[
    Column::new("connection_id", Kind::Id, |r| Cell::Number(r.connection.0)),
    Column::new("role", Kind::Text, |r| Cell::Text(Cow::Borrowed(r.role.name()))),
    Column::new("pid", Kind::Int, |r| Cell::Number(r.owner.pid.into())),
    Column::new("comm", Kind::Text, |r| Cell::Text(Cow::Owned(r.owner.comm.to_string()))),
    Column::new("request_first_seq", Kind::Int, |r| Cell::Number(r.request.first_seq.0.into())),
    Column::new("request_bytes", Kind::Int, |r| Cell::Number(r.request.bytes)),
    Column::new("request_pieces", Kind::Int, |r| Cell::Number(r.request.pieces.into())),
    Column::new("answer_first_seq", Kind::Int, |r| Cell::Number(r.answer.first_seq.0.into())),
    Column::new("answer_bytes", Kind::Int, |r| Cell::Number(r.answer.bytes)),
    Column::new("answer_pieces", Kind::Int, |r| Cell::Number(r.answer.pieces.into())),
    Column::or_null("sent_at_ns", Kind::Time, |r| moment(r.moments.sent)),
    Column::or_null("first_left_at_ns", Kind::Time, |r| moment(r.moments.first_left)),
    Column::or_null("written_at_ns", Kind::Time, |r| moment(r.moments.written)),
    Column::or_null("left_at_ns", Kind::Time, |r| moment(r.moments.left)),
    Column::or_null("acked_at_ns", Kind::Time, |r| moment(r.moments.acked)),
    Column::or_null("arrived_at_ns", Kind::Time, |r| moment(r.moments.arrived)),
    Column::or_null("last_arrived_at_ns", Kind::Time, |r| moment(r.moments.last_arrived)),
    Column::or_null("ready_at_ns", Kind::Time, |r| moment(r.moments.ready)),
    Column::or_null("read_at_ns", Kind::Time, |r| moment(r.moments.read)),
    Column::or_null("whole_ns", Kind::Time, |r| r.whole().map(|n| n.0).into()),
    Column::or_null("application_ns", Kind::Time, |r| part(r, Part::Application)),
    Column::or_null("kernel_ns", Kind::Time, |r| part(r, Part::Kernel)),
    Column::or_null("network_ns", Kind::Time, |r| part(r, Part::Network)),
    Column::or_null("peer_receive_ns", Kind::Time, |r| part(r, Part::PeerReceive)),
    Column::or_null("peer_application_ns", Kind::Time, |r| part(r, Part::PeerApplication)),
    Column::or_null("peer_send_ns", Kind::Time, |r| part(r, Part::PeerSend)),
    Column::or_null("transfer_ns", Kind::Time, |r| part(r, Part::Transfer)),
    Column::new("basis", Kind::Text, |r| Cell::Text(Cow::Borrowed(r.basis.name()))),
];

const BASES: [Basis; 4] = [Basis::OwnAck, Basis::LeastRoundTrip, Basis::BothEnds, Basis::Server];

/// The request that a row holds.
pub(crate) fn read(row: Row<'_>) -> Result<Request, Bad> {
    let at = |name| Ok::<_, Bad>(row.number_or_null(name)?.map(Instant::from_nanos));
    let time = |name| Ok::<_, Bad>(row.number_or_null(name)?.map(Nanos));
    let message = |seq, bytes, pieces| {
        Ok::<_, Bad>(Message {
            first_seq: SeqNumber(row.small(seq)?),
            bytes: row.number(bytes)?,
            pieces: row.small(pieces)?,
        })
    };
    let (role, basis) = (row.text("role")?, row.text("basis")?);
    let parts = match (time("application_ns")?, time("kernel_ns")?, time("transfer_ns")?) {
        (Some(application), Some(kernel), Some(transfer)) => Some(Parts {
            application,
            kernel,
            network: time("network_ns")?,
            peer_application: time("peer_application_ns")?,
            peer: time("peer_receive_ns")?.zip(time("peer_send_ns")?).map(|(receive, send)| Peer { receive, send }),
            transfer,
        }),
        _ => None,
    };
    Ok(Request {
        connection: ConnectionId(row.number("connection_id")?),
        role: Role::ALL
            .into_iter()
            .find(|r| r.name() == role)
            .ok_or_else(|| row.bad("role", "is no role that is known"))?,
        owner: Owner { pid: row.small("pid")?, comm: Comm::from(row.text("comm")?) },
        request: message("request_first_seq", "request_bytes", "request_pieces")?,
        answer: message("answer_first_seq", "answer_bytes", "answer_pieces")?,
        moments: Moments {
            sent: at("sent_at_ns")?,
            first_left: at("first_left_at_ns")?,
            written: at("written_at_ns")?,
            left: at("left_at_ns")?,
            acked: at("acked_at_ns")?,
            arrived: at("arrived_at_ns")?,
            last_arrived: at("last_arrived_at_ns")?,
            ready: at("ready_at_ns")?,
            read: at("read_at_ns")?,
        },
        parts,
        basis: BASES
            .into_iter()
            .find(|b| b.name() == basis)
            .ok_or_else(|| row.bad("basis", "is no basis that is known"))?,
    })
}
