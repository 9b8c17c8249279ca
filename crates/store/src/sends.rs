//! The table `sends`: one row for each finished send.

use std::borrow::Cow;

use record::{
    Comm, Congestion, ConnectionId, Instant, Leg, Merged, Monotonic, Nanos, Owner, Send, SenderState, SeqNumber,
    Source, Stamps, Timestamp, Wait, WaitReason,
};

use crate::column::{Cell, Column, Kind};
use crate::row::{Bad, Row};

fn moment(at: Option<Instant<Monotonic>>) -> Cell<'static> {
    at.map(Instant::as_nanos).into()
}

/// Null also where the stages came in an impossible order: the stamps show them, and `lost.disorder` counts them.
fn leg(send: &Send, leg: Leg) -> Cell<'static> {
    send.leg(leg).ok().flatten().map(|n| n.0).into()
}

pub(crate) const COLUMNS: &[Column<Send>] = &[
    Column::new("connection_id", Kind::Id, |s| Cell::Number(s.connection.0)),
    Column::new("pid", Kind::Int, |s| Cell::Number(s.owner.pid.into())),
    Column::new("comm", Kind::Text, |s| Cell::Text(Cow::Owned(s.owner.comm.to_string()))),
    Column::new("first_seq", Kind::Int, |s| Cell::Number(s.first_seq.0.into())),
    Column::new("bytes", Kind::Int, |s| Cell::Number(s.bytes.into())),
    Column::new("at_ns", Kind::Time, |s| Cell::Number(s.stamps.send.as_nanos())),
    Column::or_null("sched_at_ns", Kind::Time, |s| moment(s.stamps.sched)),
    Column::or_null("driver_at_ns", Kind::Time, |s| moment(s.stamps.driver)),
    Column::or_null("sched_error_ns", Kind::Time, |s| s.stamps.sched.map(|_| s.stamps.sched_error.0).into()),
    Column::or_null("driver_error_ns", Kind::Time, |s| s.stamps.driver.map(|_| s.stamps.driver_error.0).into()),
    Column::or_null("nic_at_ns", Kind::Time, |s| moment(s.stamps.nic.map(|t| t.at))),
    Column::or_null("nic_error_ns", Kind::Time, |s| s.stamps.nic.map(|t| t.error.0).into()),
    Column::or_null("ack_at_ns", Kind::Time, |s| moment(s.stamps.ack)),
    Column::or_null("tcp_ns", Kind::Time, |s| leg(s, Leg::Tcp)),
    Column::or_null("qdisc_ns", Kind::Time, |s| leg(s, Leg::Qdisc)),
    Column::or_null("nic_ns", Kind::Time, |s| leg(s, Leg::Nic)),
    Column::or_null("network_ns", Kind::Time, |s| leg(s, Leg::Network)),
    Column::or_null("total_ns", Kind::Time, |s| leg(s, Leg::Total)),
    Column::or_null("waited_for", Kind::Text, |s| {
        s.wait.map_or(Cell::Null, |w| Cell::Text(Cow::Borrowed(w.reason.name())))
    }),
    Column::or_null("waited_ns", Kind::Time, |s| s.wait.map(|w| w.by_reason.0).into()),
    Column::new("merged_sends", Kind::Int, |s| Cell::Number(s.merged.sends.into())),
    Column::new("merged_bytes", Kind::Int, |s| Cell::Number(s.merged.bytes.into())),
    Column::or_null("merged_oldest_at_ns", Kind::Time, |s| moment(s.merged.oldest)),
    Column::or_null("oldest_tcp_ns", Kind::Time, |s| s.oldest_tcp_wait().map(|n| n.0).into()),
    Column::new("retransmissions", Kind::Int, |s| Cell::Number(s.retransmissions.into())),
    Column::new("cwnd_segments", Kind::Int, |s| Cell::Number(s.state.cwnd.into())),
    Column::new("ssthresh_segments", Kind::Int, |s| Cell::Number(s.state.ssthresh.into())),
    Column::new("in_flight_segments", Kind::Int, |s| Cell::Number(s.state.in_flight.into())),
    Column::new("unacked_bytes", Kind::Int, |s| Cell::Number(s.state.unacked.into())),
    Column::new("unsent_bytes", Kind::Int, |s| Cell::Number(s.state.unsent.into())),
    Column::new("peer_window_bytes", Kind::Int, |s| Cell::Number(s.state.peer_window.into())),
    Column::new("mss_bytes", Kind::Int, |s| Cell::Number(s.state.mss.into())),
    Column::new("srtt_ns", Kind::Time, |s| Cell::Number(s.state.srtt.0)),
    Column::or_null("pacing_rate_bytes_per_second", Kind::Int, |s| {
        Some(s.state.pacing_rate).filter(|&r| r != u64::MAX).into()
    }),
    Column::new("send_buffer_bytes", Kind::Int, |s| Cell::Number(s.state.send_buffer.into())),
    Column::new("send_buffer_used_bytes", Kind::Int, |s| Cell::Number(s.state.send_buffer_used.into())),
    Column::new("congestion", Kind::Text, |s| Cell::Text(Cow::Borrowed(congestion_name(s.state.congestion)))),
    Column::new("busy_ns", Kind::Time, |s| Cell::Number(s.state.busy.0)),
    Column::new("receive_window_limited_ns", Kind::Time, |s| Cell::Number(s.state.receive_window_limited.0)),
    Column::new("send_buffer_limited_ns", Kind::Time, |s| Cell::Number(s.state.send_buffer_limited.0)),
];

const CONGESTION: [(Congestion, &str); 5] = [
    (Congestion::Open, "open"),
    (Congestion::Disorder, "disorder"),
    (Congestion::Cwr, "cwr"),
    (Congestion::Recovery, "recovery"),
    (Congestion::Loss, "loss"),
];

fn congestion_name(state: Congestion) -> &'static str {
    CONGESTION.iter().find(|c| c.0 == state).map_or("open", |c| c.1)
}

/// The send that a row holds.
pub(crate) fn read(row: Row<'_>) -> Result<Send, Bad> {
    let reason = |name: &str| WaitReason::ALL.into_iter().find(|r| r.name() == name);
    let wait = match row.text_or_null("waited_for")? {
        None => None,
        Some(name) => Some(Wait {
            reason: reason(name).ok_or_else(|| row.bad("waited_for", "is no reason that is known"))?,
            by_reason: Nanos(row.number("waited_ns")?),
        }),
    };
    let congestion = row.text("congestion")?;
    let at = |name| Ok::<_, Bad>(row.number_or_null(name)?.map(Instant::from_nanos));
    Ok(Send {
        connection: ConnectionId(row.number("connection_id")?),
        owner: Owner { pid: row.small("pid")?, comm: Comm::from(row.text("comm")?) },
        first_seq: SeqNumber(row.small("first_seq")?),
        bytes: row.small("bytes")?,
        stamps: Stamps {
            send: Instant::from_nanos(row.number("at_ns")?),
            sched: at("sched_at_ns")?,
            driver: at("driver_at_ns")?,
            sched_error: Nanos(row.number_or_null("sched_error_ns")?.unwrap_or(0)),
            driver_error: Nanos(row.number_or_null("driver_error_ns")?.unwrap_or(0)),
            nic: match row.number_or_null("nic_at_ns")? {
                None => None,
                Some(at) => Some(Timestamp {
                    at: Instant::from_nanos(at),
                    source: Source::Nic,
                    error: Nanos(row.number("nic_error_ns")?),
                }),
            },
            ack: at("ack_at_ns")?,
        },
        merged: Merged {
            sends: row.small("merged_sends")?,
            bytes: row.small("merged_bytes")?,
            oldest: at("merged_oldest_at_ns")?,
        },
        state: SenderState {
            cwnd: row.small("cwnd_segments")?,
            ssthresh: row.small("ssthresh_segments")?,
            in_flight: row.small("in_flight_segments")?,
            unacked: row.small("unacked_bytes")?,
            unsent: row.small("unsent_bytes")?,
            peer_window: row.small("peer_window_bytes")?,
            mss: row.small("mss_bytes")?,
            srtt: Nanos(row.number("srtt_ns")?),
            pacing_rate: row.number_or_null("pacing_rate_bytes_per_second")?.unwrap_or(u64::MAX),
            send_buffer: row.small("send_buffer_bytes")?,
            send_buffer_used: row.small("send_buffer_used_bytes")?,
            congestion: CONGESTION
                .iter()
                .find(|c| c.1 == congestion)
                .map(|c| c.0)
                .ok_or_else(|| row.bad("congestion", "is no congestion state that is known"))?,
            busy: Nanos(row.number("busy_ns")?),
            receive_window_limited: Nanos(row.number("receive_window_limited_ns")?),
            send_buffer_limited: Nanos(row.number("send_buffer_limited_ns")?),
        },
        wait,
        retransmissions: u16::try_from(row.number("retransmissions")?)
            .map_err(|_| row.bad("retransmissions", "does not fit 16 bits"))?,
    })
}
