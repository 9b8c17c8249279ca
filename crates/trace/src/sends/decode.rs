//! From the bytes of a record of sends to the words of `record`: pure functions.

use record::{
    Comm, Congestion, Connection, ConnectionId, ConnectionTotals, Instant, Judged, Lost, Monotonic, Nanos, Opening,
    Owner, Send, SenderState, SeqNumber, Stamps, Unacknowledged, WaitReason, Waits,
};

use super::waits;
use crate::decode::{DecodeError, address, kind, raw};
use crate::layout::{
    ACCEPTED, ACCEPTED_NOT, ACCEPTED_NOT_KNOWN, CLOCK_SHIFT, NOT_COUNTED, OPENING_ACCEPTED, OPENING_CONNECTED,
    OPENING_FOUND, RECORD_CLOSED, RECORD_CONNECTION, RECORD_SEND, RawClosed, RawConnection, RawJudged, RawLost,
    RawSend, RawState, RawTotals, WAIT_CLOCKS, WAIT_NONE, WAIT_NOT_KNOWN,
};
use crate::nic::NicStamp;

/// A record of the kernel part.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "nearly all records are sends: a box would be an allocation for each")]
pub(crate) enum Record {
    /// A connection is followed from here on.
    Connection(Connection),
    /// A send is finished. A NIC's stamp of it is still by the NIC's clock.
    Send(Send, Option<NicStamp>),
    /// A connection is followed no more.
    Closed(ConnectionId, ConnectionTotals),
}

/// Reads one record. `tick` is the length of a jiffy, in which the kernel's own busy clocks count.
///
/// # Errors
/// [`DecodeError`]; nothing panics on any input.
pub(crate) fn decode(bytes: &[u8], tick: Nanos) -> Result<Record, DecodeError> {
    match kind(bytes)? {
        RECORD_CONNECTION => connection(&raw::<RawConnection>(bytes)?).map(Record::Connection),
        RECORD_SEND => {
            let raw: RawSend = raw(bytes)?;
            Ok(Record::Send(send(&raw, tick)?, nic(&raw)))
        }
        RECORD_CLOSED => {
            let closed: RawClosed = raw(bytes)?;
            let judged = judged(&closed.judged, tick);
            Ok(Record::Closed(ConnectionId(closed.cookie), ConnectionTotals { judged, ..totals(&closed.totals) }))
        }
        other => Err(DecodeError::Unsupported(other)),
    }
}

fn connection(raw: &RawConnection) -> Result<Connection, DecodeError> {
    Ok(Connection {
        id: ConnectionId(raw.cookie),
        local: address(raw.local, raw.local_port),
        remote: address(raw.remote, raw.remote_port),
        owner: Owner { pid: raw.pid, comm: Comm(raw.comm) },
        opening: match raw.opening.into() {
            OPENING_FOUND => Opening::Found,
            OPENING_CONNECTED => Opening::Connected,
            OPENING_ACCEPTED => Opening::Accepted,
            other => return Err(DecodeError::Malformed { field: "opening", value: other }),
        },
        accepted: match raw.accepted.into() {
            ACCEPTED_NOT_KNOWN => None,
            ACCEPTED => Some(true),
            ACCEPTED_NOT => Some(false),
            other => return Err(DecodeError::Malformed { field: "accepted", value: other }),
        },
        since: Instant::from_nanos(raw.at),
        congestion_control: Comm(raw.congestion_control).to_string(),
    })
}

fn nic(raw: &RawSend) -> Option<NicStamp> {
    (raw.nic != 0).then(|| NicStamp {
        at: Instant::from_nanos(raw.nic),
        interface: raw.nic_interface,
        network: raw.nic_network,
    })
}

/// A stamp (zero where there is none); or the earliest moment at which the stage was passed, with
/// the time within which it was as the bound on its error. The earliest is usually nearest: the
/// packet left in the call that is known to have begun then.
fn between(from: u64, span: u32) -> (Option<Instant<Monotonic>>, Nanos) {
    match from {
        0 => (None, Nanos::ZERO),
        from => (Some(Instant::from_nanos(from)), Nanos(span.into())),
    }
}

pub(crate) fn send(raw: &RawSend, tick: Nanos) -> Result<Send, DecodeError> {
    let stamp = |at: u64| (at != 0).then(|| Instant::from_nanos(at));
    let (sched, sched_error) = between(raw.sched, raw.sched_span);
    let (driver, driver_error) = between(raw.driver, raw.driver_span);
    let seen = stamp(raw.ack);
    let (ack, unacknowledged) = match raw.idle {
        0 => (seen, None),
        idle => (None, seen.map(|at| Unacknowledged { at, idle: Nanos(u64::from(idle) * 1_000) })),
    };
    let in_tcp = |until: Instant<Monotonic>| until.since(Instant::from_nanos(raw.send)).ok();
    let wait = match u32::from(raw.wait) {
        WAIT_NONE => sched.and_then(in_tcp).map(|leg| Waits::of(WaitReason::SentAtOnce, leg)),
        WAIT_CLOCKS => sched.or(seen).and_then(in_tcp).map(|leg| waits::divided(leg, &raw.waits, WaitReason::Unknown)),
        WAIT_NOT_KNOWN => sched.and_then(in_tcp).map(|leg| Waits::of(WaitReason::Unknown, leg)),
        other => return Err(DecodeError::Malformed { field: "wait", value: other }),
    };
    let buffer = (raw.full != 0).then(|| waits::divided(Nanos(raw.full), &raw.full_waits, WaitReason::SendBuffer));
    Ok(Send {
        connection: ConnectionId(raw.cookie),
        owner: Owner { pid: raw.pid, comm: Comm(raw.comm) },
        thread: (raw.thread != 0).then_some(raw.thread),
        first_seq: SeqNumber(raw.first_seq),
        bytes: raw.bytes,
        stamps: Stamps {
            call: stamp(raw.call),
            send: Instant::from_nanos(raw.send),
            sched,
            driver,
            sched_error,
            driver_error,
            nic: None,
            ack,
            ack_error: if ack.is_some() { Nanos(raw.ack_span.into()) } else { Nanos::ZERO },
        },
        state: state(&raw.state, tick)?,
        buffer,
        wait,
        retransmissions: raw.retransmissions,
        unacknowledged,
        ack_alone: ack.map(|_| raw.alone != 0),
    })
}

macro_rules! decode_state {
    ($($field:ident: $type:ty, $name:ident = $how:ident($raw:ident), $(null $null:literal,)? $doc:literal, from $source:literal;)*) => {
        fn state(raw: &RawState, tick: Nanos) -> Result<SenderState, DecodeError> {
            Ok(SenderState { $($field: $how(raw.$raw, tick)?),* })
        }
    };
}

// The fields and the names of these conversions are in the table of `record`.
record::sender_state!(decode_state!);

fn same(value: u32, _: Nanos) -> Result<u32, DecodeError> {
    Ok(value)
}

fn eighths_of_microseconds(eighths: u32, _: Nanos) -> Result<Nanos, DecodeError> {
    Ok(Nanos(u64::from(eighths) * 1_000 / 8))
}

/// A field that runs of an earlier version do not have.
fn later(value: u32, _: Nanos) -> Result<Option<u32>, DecodeError> {
    Ok(Some(value))
}

/// The same of one that the kernel counts in jiffies.
fn later_jiffies(value: u32, tick: Nanos) -> Result<Option<Nanos>, DecodeError> {
    jiffies(value, tick).map(Some)
}

/// All ones where there is none.
fn microseconds(microseconds: u32, _: Nanos) -> Result<Option<Nanos>, DecodeError> {
    Ok((microseconds != u32::MAX).then(|| Nanos(u64::from(microseconds) * 1_000)))
}

/// Bytes a second; 0 where none was measured.
fn measured(rate: u64, _: Nanos) -> Result<Option<u64>, DecodeError> {
    Ok(Some(rate).filter(|&rate| rate > 0))
}

/// Bytes a second; all ones where there is no limit.
fn limit(rate: u64, _: Nanos) -> Result<Option<u64>, DecodeError> {
    Ok(Some(rate).filter(|&rate| rate != u64::MAX))
}

/// Zero or not, of a field that runs of an earlier version do not have.
fn flag(flag: u8, _: Nanos) -> Result<Option<bool>, DecodeError> {
    Ok(Some(flag != 0))
}

fn jiffies(jiffies: u32, tick: Nanos) -> Result<Nanos, DecodeError> {
    Ok(Nanos(tick.0.saturating_mul(jiffies.into())))
}

fn congestion(number: u8, _: Nanos) -> Result<Congestion, DecodeError> {
    Congestion::from_number(number).ok_or(DecodeError::Malformed { field: "congestion", value: number.into() })
}

pub(crate) fn totals(raw: &RawTotals) -> ConnectionTotals {
    ConnectionTotals {
        followed: Nanos(raw.followed),
        bytes_written: raw.bytes_written,
        bytes_armed: raw.bytes_armed,
        bytes_acked: raw.bytes_acked,
        segments_retransmitted: raw.retransmitted,
        zero_windows: (raw.zero_windows != NOT_COUNTED).then_some(raw.zero_windows),
        armed: Nanos(raw.armed),
        judged: None,
    }
}

/// The reasons beside the kernel's own clocks, where there was anything to send.
fn judged(raw: &RawJudged, tick: Nanos) -> Option<Judged> {
    let of_kernel = |jiffies: u32| Nanos(tick.0.saturating_mul(jiffies.into()));
    let of_reason = |clock: u32| Nanos(u64::from(clock) << CLOCK_SHIFT);
    (raw.busy > 0).then(|| Judged {
        busy: of_kernel(raw.busy),
        receive_window_limited: of_kernel(raw.receive_window_limited),
        send_buffer_limited: of_kernel(raw.send_buffer_limited),
        receive_window: of_reason(raw.receive_window),
        send_buffer: of_reason(raw.send_buffer),
        not_marked: of_reason(raw.not_marked),
    })
}

/// What the kernel part has lost: each of its counters by its name, so that no two can change
/// places.
pub(super) fn lost(raw: RawLost) -> Lost {
    let RawLost {
        ring_buffer,
        slots_full,
        connections_full,
        connections_late,
        unfinished,
        closed_unacked,
        no_sched,
        no_driver,
        after_ack,
        repeated,
        unstamped,
        over_rate,
        left_out,
        stretches_full,
        connection_records,
        nic_late,
        inferred,
        disorder,
        // Of the coverage.
        followed: _,
        armed: _,
        bytes_written: _,
        bytes_armed: _,
    } = raw;
    Lost {
        ring_buffer,
        slots_full,
        connections_full,
        connections_late,
        unfinished,
        closed_unacked,
        no_sched,
        no_driver,
        after_ack,
        repeated,
        unstamped,
        over_rate,
        left_out,
        stretches_full,
        connection_records,
        nic_late,
        inferred,
        disorder,
        ..Lost::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Plain as _;
    use proptest::prelude::*;

    const TICK: Nanos = Nanos::from_millis(4);

    fn a_send() -> RawSend {
        RawSend { kind: RECORD_SEND, ..RawSend::zeroed() }
    }

    #[test]
    fn a_send_keeps_its_figures() {
        let mut raw = a_send();
        raw.send = 100;
        raw.sched = 150;
        raw.ack = 900;
        raw.first_seq = u32::MAX;
        raw.bytes = 3;
        raw.wait = WAIT_CLOCKS as u8;
        raw.waits[WaitReason::Cork as usize] = 1;
        raw.state.srtt_us_8 = 80;
        raw.state.busy = 2;
        let Record::Send(send, nic) = decode(raw.as_bytes(), TICK).unwrap() else { panic!("not a send") };
        assert_eq!(nic, None);
        assert_eq!(send.last_seq(), SeqNumber(1));
        assert_eq!(send.stamps.driver, None);
        assert_eq!(send.leg(record::Leg::Total), Ok(Some(Nanos(800))));
        assert_eq!(send.wait, Some(Waits::of(WaitReason::Cork, Nanos(50))));
        assert_eq!((send.state.srtt, send.state.busy), (Nanos(10_000), Nanos::from_millis(8)));
    }

    #[test]
    fn each_figure_of_a_send_is_read_from_its_own_field() {
        let mut raw = a_send();
        (raw.pid, raw.cookie, raw.call, raw.send, raw.sched, raw.driver, raw.ack) = (1, 2, 30, 40, 50, 60, 70);
        (raw.full, raw.first_seq, raw.bytes, raw.retransmissions) = (9, 10, 11, 14);
        raw.wait = WAIT_NONE as u8;
        raw.full_waits[WaitReason::Cork as usize] = 1;
        (raw.sched_span, raw.driver_span, raw.ack_span, raw.alone) = (15, 16, 17, 1);
        raw.comm[..4].copy_from_slice(b"curl");
        raw.thread = 18;
        let s = send(&raw, TICK).unwrap();
        assert_eq!((s.connection, s.owner), (ConnectionId(2), Owner { pid: 1, comm: Comm::from("curl") }));
        assert_eq!((s.first_seq, s.bytes, s.retransmissions), (SeqNumber(10), 11, 14));
        assert_eq!((s.ack_alone, s.thread), (Some(true), Some(18)));
        let stamps = [s.stamps.call, Some(s.stamps.send), s.stamps.sched, s.stamps.driver, s.stamps.ack];
        assert_eq!(stamps.map(|at| at.map(Instant::as_nanos)), [30, 40, 50, 60, 70].map(Some));
        let errors = [s.stamps.sched_error, s.stamps.driver_error, s.stamps.ack_error];
        assert_eq!(errors, [15, 16, 17].map(Nanos));
        assert_eq!(s.wait, Some(Waits::of(WaitReason::SentAtOnce, Nanos(10))));
        assert_eq!(s.buffer, Some(Waits::of(WaitReason::Cork, Nanos(9))));
        raw.wait = WAIT_NOT_KNOWN as u8;
        assert_eq!(send(&raw, TICK).unwrap().wait, Some(Waits::of(WaitReason::Unknown, Nanos(10))));
    }

    #[test]
    fn what_no_ack_was_seen_for_has_the_time_until_it_was_last_seen() {
        let mut raw = a_send();
        (raw.send, raw.ack, raw.idle) = (100, 7_100, 4);
        (raw.wait, raw.waits[WaitReason::ReceiveWindow as usize]) = (WAIT_CLOCKS as u8, 24);
        let s = send(&raw, TICK).unwrap();
        assert_eq!((s.stamps.ack, s.unacknowledged_for()), (None, Some(Nanos(7_000))));
        assert_eq!(s.unacknowledged.unwrap().idle, Nanos(4_000));
        let wait = s.wait.unwrap();
        assert_eq!((wait.time(WaitReason::ReceiveWindow), wait.sum()), (Nanos(6_144), Nanos(7_000)));
    }

    #[test]
    fn each_figure_of_the_state_is_read_from_its_own_field() {
        let mut raw = RawState::zeroed();
        (raw.cwnd, raw.ssthresh, raw.in_flight, raw.unacked, raw.unsent) = (1, 2, 3, 4, 5);
        (raw.peer_window, raw.mss, raw.srtt_us_8, raw.min_rtt_us, raw.rto) = (6, 7, 8, 9, 10);
        (raw.reordering, raw.delivery_rate, raw.pacing_rate) = (11, 12, 13);
        (raw.send_buffer, raw.send_buffer_used, raw.congestion) = (14, 15, Congestion::Recovery as u8);
        (raw.busy, raw.receive_window_limited, raw.send_buffer_limited) = (16, 17, 18);
        (raw.max_pacing_rate, raw.app_limited) = (19, 1);
        let expected = SenderState {
            cwnd: 1,
            ssthresh: 2,
            in_flight: 3,
            unacked: 4,
            unsent: 5,
            peer_window: 6,
            mss: 7,
            srtt: Nanos(1_000),
            min_rtt: Some(Nanos(9_000)),
            rto: Some(Nanos::from_millis(40)),
            reordering: Some(11),
            delivery_rate: Some(12),
            pacing_rate: Some(13),
            max_pacing_rate: Some(19),
            app_limited: Some(true),
            send_buffer: 14,
            send_buffer_used: 15,
            congestion: Congestion::Recovery,
            busy: Nanos::from_millis(64),
            receive_window_limited: Nanos::from_millis(68),
            send_buffer_limited: Nanos::from_millis(72),
        };
        assert_eq!(state(&raw, TICK), Ok(expected));
    }

    #[test]
    fn a_stage_between_two_stamps_has_its_bound_and_reasons_no_longer_than_its_leg() {
        let mut raw = a_send();
        (raw.send, raw.sched, raw.sched_span, raw.driver, raw.driver_span) = (100, 150, 21, 190, 0);
        (raw.wait, raw.waits[WaitReason::Cork as usize]) = (WAIT_CLOCKS as u8, 3);
        (raw.nic, raw.nic_interface, raw.nic_network) = (9, 2, 4_026_531_840);
        let Record::Send(send, nic) = decode(raw.as_bytes(), TICK).unwrap() else { panic!("not a send") };
        assert_eq!((send.stamps.sched, send.stamps.sched_error), (Some(Instant::from_nanos(150)), Nanos(21)));
        assert_eq!((send.stamps.driver, send.stamps.driver_error), (Some(Instant::from_nanos(190)), Nanos::ZERO));
        assert_eq!(send.wait, Some(Waits::of(WaitReason::Cork, Nanos(50))));
        assert_eq!(nic, Some(NicStamp { at: Instant::from_nanos(9), interface: 2, network: 4_026_531_840 }));
    }

    #[test]
    fn each_figure_of_a_connection_is_read_from_its_own_field() {
        let mut raw = RawConnection { kind: RECORD_CONNECTION, ..RawConnection::zeroed() };
        (raw.pid, raw.cookie, raw.at) = (1, 2, 3);
        (raw.local, raw.remote, raw.local_port, raw.remote_port) = ([4; 16], [5; 16], 6, 7);
        raw.comm[..4].copy_from_slice(b"curl");
        raw.congestion_control[..4].copy_from_slice(b"reno");
        for (number, opening) in [
            (OPENING_FOUND, Opening::Found),
            (OPENING_CONNECTED, Opening::Connected),
            (OPENING_ACCEPTED, Opening::Accepted),
        ] {
            raw.opening = number as _;
            let Ok(Record::Connection(c)) = decode(raw.as_bytes(), TICK) else { panic!("not a connection") };
            assert_eq!((c.id, c.owner.pid, c.owner.comm.to_string()), (ConnectionId(2), 1, "curl".into()));
            assert_eq!((c.local, c.remote), (address([4; 16], 6), address([5; 16], 7)));
            assert_eq!((c.opening, c.since.as_nanos(), c.congestion_control.as_str()), (opening, 3, "reno"));
        }
        for (number, accepted) in [(ACCEPTED_NOT_KNOWN, None), (ACCEPTED, Some(true)), (ACCEPTED_NOT, Some(false))] {
            raw.accepted = number as _;
            let Ok(Record::Connection(c)) = decode(raw.as_bytes(), TICK) else { panic!("not a connection") };
            assert_eq!(c.accepted, accepted);
        }
        raw.opening = 9;
        assert_eq!(decode(raw.as_bytes(), TICK), Err(DecodeError::Malformed { field: "opening", value: 9 }));
    }

    #[test]
    fn each_total_of_a_connection_is_read_from_its_own_field() {
        let mut raw = RawClosed { kind: RECORD_CLOSED, cookie: 1, ..RawClosed::zeroed() };
        (raw.totals.followed, raw.totals.bytes_written, raw.totals.bytes_armed) = (2, 3, 4);
        (raw.totals.bytes_acked, raw.totals.retransmitted, raw.totals.armed) = (5, 6, 7);
        raw.totals.zero_windows = 8;
        (raw.judged.busy, raw.judged.receive_window_limited, raw.judged.send_buffer_limited) = (3, 2, 1);
        (raw.judged.receive_window, raw.judged.send_buffer, raw.judged.not_marked) = (4, 5, 6);
        let Ok(Record::Closed(id, totals)) = decode(raw.as_bytes(), TICK) else { panic!("not a closing") };
        let expected = ConnectionTotals {
            followed: Nanos(2),
            bytes_written: 3,
            bytes_armed: 4,
            bytes_acked: 5,
            segments_retransmitted: 6,
            zero_windows: Some(8),
            armed: Nanos(7),
            judged: Some(Judged {
                busy: Nanos::from_millis(12),
                receive_window_limited: Nanos::from_millis(8),
                send_buffer_limited: Nanos::from_millis(4),
                receive_window: Nanos(4 * 256),
                send_buffer: Nanos(5 * 256),
                not_marked: Nanos(6 * 256),
            }),
        };
        assert_eq!((id, totals), (ConnectionId(1), expected));
        raw.totals.zero_windows = NOT_COUNTED;
        let Ok(Record::Closed(_, totals)) = decode(raw.as_bytes(), TICK) else { panic!("not a closing") };
        assert_eq!(totals, ConnectionTotals { zero_windows: None, ..expected });
    }

    #[test]
    fn ipv4_mapped_addresses_are_shown_as_ipv4() {
        let mut bytes = [0u8; 16];
        bytes[10..].copy_from_slice(&[0xff, 0xff, 192, 0, 2, 7]);
        assert_eq!(address(bytes, 80).to_string(), "192.0.2.7:80");
        bytes[0] = 0x20;
        assert!(address(bytes, 80).is_ipv6());
    }

    #[test]
    fn truncated_malformed_and_unsupported_are_distinguished() {
        assert_eq!(decode(&[2, 0], TICK), Err(DecodeError::Truncated { have: 2, need: 4 }));
        let mut raw = a_send();
        let need = size_of_val(&raw);
        let cut = decode(&raw.as_bytes()[..need - 1], TICK);
        assert_eq!(cut, Err(DecodeError::Truncated { have: need - 1, need }));
        raw.wait = 11;
        assert_eq!(decode(raw.as_bytes(), TICK), Err(DecodeError::Malformed { field: "wait", value: 11 }));
        raw.kind = 9;
        assert_eq!(decode(raw.as_bytes(), TICK), Err(DecodeError::Unsupported(9)));
    }

    proptest! {
        #[test]
        fn no_input_panics(kind in 0u32..5, mut bytes in prop::collection::vec(any::<u8>(), 0..2 * size_of::<RawSend>())) {
            if let Some(start) = bytes.first_chunk_mut() {
                *start = kind.to_ne_bytes();
            }
            let _ = decode(&bytes, TICK);
        }
    }
}
