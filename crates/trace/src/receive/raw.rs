//! From a record of `receive_record.h` to a [`Receive`].

use record::{Arrival, Comm, ConnectionId, Instant, Lost, Owner, Receive, SeqNumber};

use crate::layout::{ARRIVAL_OUT_OF_ORDER, Plain as _, RECORD_RECEIVE, RawArrival, RawReceive, RawReceiveLost};

/// Every bit pattern is a receive, so this cannot fail.
pub(crate) fn receive(raw: &RawReceive) -> Receive {
    let stamp = |at: u64| (at != 0).then(|| Instant::from_nanos(at));
    let arrival = &raw.arrival;
    Receive {
        connection: ConnectionId(raw.cookie),
        reader: Owner { pid: raw.pid, comm: Comm(raw.comm) },
        thread: (raw.thread != 0).then_some(raw.thread),
        first_seq: SeqNumber(arrival.first),
        bytes: arrival.end.wrapping_sub(arrival.first),
        segments: arrival.segments,
        stamps: Arrival {
            driver_rx: stamp(arrival.driver_rx),
            tcp_rx: stamp(arrival.tcp_rx),
            ready: stamp(arrival.ready),
            read: stamp(raw.read),
        },
        out_of_order: u32::from(arrival.flags) & ARRIVAL_OUT_OF_ORDER != 0,
        queued: arrival.queued,
        buffer: raw.buffer,
        buffer_used: raw.buffer_used,
    }
}

/// What waits in a row to be read when tracing ends.
pub(crate) fn unread(cookie: u64, arrival: RawArrival) -> Receive {
    receive(&RawReceive { kind: RECORD_RECEIVE, cookie, arrival, ..RawReceive::zeroed() })
}

/// What the kernel part has lost.
pub(super) fn lost(raw: &RawReceiveLost) -> Lost {
    Lost {
        receive_ring_buffer: raw.ring_buffer,
        receive_slots_full: raw.slots_full,
        receive_connections_full: raw.connections_full,
        receive_missed_bytes: raw.missed_bytes,
        receive_unsampled_bytes: raw.unsampled_bytes,
        receive_unseen_bytes: raw.unseen_bytes,
        receive_untold_bytes: raw.untold_bytes,
        receive_never_read: raw.never_read,
        receive_out_of_order: raw.out_of_order,
        receive_duplicate: raw.duplicate,
        ..Lost::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::{DecodeError, raw};
    use record::{Nanos, ReceiveLeg};

    fn a_receive() -> RawReceive {
        let mut raw = RawReceive::zeroed();
        raw.kind = RECORD_RECEIVE;
        raw.cookie = 7;
        raw.arrival.first = u32::MAX;
        raw.arrival.end = 9;
        raw.arrival.tcp_rx = 100;
        raw.arrival.ready = 130;
        raw.read = 500;
        raw
    }

    #[test]
    fn a_receive_keeps_its_figures() {
        let r = receive(&raw(a_receive().as_bytes()).unwrap());
        assert_eq!((r.bytes, r.last_seq(), r.connection), (10, SeqNumber(8), ConnectionId(7)));
        assert_eq!(r.leg(ReceiveLeg::Softirq), Ok(None));
        assert_eq!(r.leg(ReceiveLeg::Socket), Ok(Some(Nanos(30))));
        assert_eq!(r.leg(ReceiveLeg::Total), Ok(Some(Nanos(400))));
    }

    #[test]
    fn every_figure_is_read_from_its_own_field() {
        let mut of = a_receive();
        (of.pid, of.comm[0], of.buffer, of.buffer_used) = (3, b'x', 131_072, 65_536);
        (of.arrival.segments, of.arrival.queued, of.arrival.driver_rx, of.thread) = (4, 5, 90, 6);
        of.arrival.flags = ARRIVAL_OUT_OF_ORDER as _;
        let r = receive(&of);
        assert_eq!((r.reader.pid, r.reader.comm.to_string(), r.segments, r.queued), (3, "x".into(), 4, 5));
        assert_eq!(r.thread, Some(6));
        assert_eq!(
            (r.buffer, r.buffer_used, r.first_seq, r.out_of_order),
            (131_072, 65_536, SeqNumber(u32::MAX), true)
        );
        let stamps = [r.stamps.driver_rx, r.stamps.tcp_rx, r.stamps.ready, r.stamps.read];
        assert_eq!(stamps.map(|at| at.map(Instant::as_nanos)), [Some(90), Some(100), Some(130), Some(500)]);
    }

    #[test]
    fn every_counter_is_read_from_its_own_field() {
        let mut raw = RawReceiveLost::zeroed();
        (raw.ring_buffer, raw.slots_full, raw.connections_full, raw.missed_bytes) = (1, 2, 3, 4);
        (raw.unsampled_bytes, raw.unseen_bytes, raw.untold_bytes, raw.never_read) = (5, 6, 7, 8);
        (raw.out_of_order, raw.duplicate) = (9, 10);
        let l = lost(&raw);
        let room = [l.receive_ring_buffer, l.receive_slots_full, l.receive_connections_full, l.receive_missed_bytes];
        assert_eq!(room, [1, 2, 3, 4]);
        let bytes = [l.receive_unsampled_bytes, l.receive_unseen_bytes, l.receive_untold_bytes, l.receive_never_read];
        assert_eq!(bytes, [5, 6, 7, 8]);
        assert_eq!((l.receive_out_of_order, l.receive_duplicate), (9, 10));
    }

    #[test]
    fn a_cut_receive_is_truncated() {
        let cut = raw::<RawReceive>(&a_receive().as_bytes()[..95]);
        assert_eq!(cut, Err(DecodeError::Truncated { have: 95, need: 96 }));
    }
}
