//! The structures of `receive_record.h`, and from a record to a [`Receive`].

use record::{Arrival, Comm, ConnectionId, Instant, Owner, Receive, SeqNumber};

use crate::layout::shared;

pub(crate) const RECORD_RECEIVE: u32 = 32;
const OUT_OF_ORDER: u8 = 1;

shared! {
    struct RawArrival: 40 {
        driver_rx: u64,
        tcp_rx: u64,
        ready: u64,
        first: u32,
        end: u32,
        queued: u32,
        segments: u16,
        flags: u8,
        pad: u8,
    }

    struct RawReceiveRow: 40 {
        cookie: u64,
        head: u32,
        tail: u32,
        ready_next: u32,
        arrived: u32,
        accounted: u32,
        passed_over: u32,
        followed: u32,
        before: u32,
    }

    struct RawReceive: 88 {
        kind: u32,
        pid: u32,
        cookie: u64,
        read: u64,
        arrival: RawArrival,
        buffer: u32,
        buffer_used: u32,
        comm: [u8; 16],
    }

    struct RawReceiveLost: 96 {
        ring_buffer: u64,
        slots_full: u64,
        connections_full: u64,
        unsampled_bytes: u64,
        unseen_bytes: u64,
        untold_bytes: u64,
        never_read: u64,
        out_of_order: u64,
        duplicate: u64,
        no_driver_rx: u64,
        no_tcp_rx: u64,
        no_ready: u64,
    }

    struct RawReceiveConfig: 16 {
        tai_offset: i64,
        slots: u32,
        pad: u32,
    }
}

/// Every bit pattern is a receive, so this cannot fail.
pub(crate) fn receive(raw: &RawReceive) -> Receive {
    let stamp = |at: u64| (at != 0).then(|| Instant::from_nanos(at));
    let arrival = &raw.arrival;
    Receive {
        connection: ConnectionId(raw.cookie),
        reader: Owner { pid: raw.pid, comm: Comm(raw.comm) },
        first_seq: SeqNumber(arrival.first),
        bytes: arrival.end.wrapping_sub(arrival.first),
        segments: arrival.segments,
        stamps: Arrival {
            driver_rx: stamp(arrival.driver_rx),
            tcp_rx: stamp(arrival.tcp_rx),
            ready: stamp(arrival.ready),
            read: stamp(raw.read),
        },
        out_of_order: arrival.flags & OUT_OF_ORDER != 0,
        queued: arrival.queued,
        buffer: raw.buffer,
        buffer_used: raw.buffer_used,
    }
}

/// What waits unread in a row when tracing ends.
pub(crate) fn unread(cookie: u64, arrival: RawArrival) -> Receive {
    receive(&RawReceive {
        kind: RECORD_RECEIVE,
        pid: 0,
        cookie,
        read: 0,
        arrival,
        buffer: 0,
        buffer_used: 0,
        comm: [0; 16],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Plain as _;
    use crate::{Record, decode};
    use record::{Nanos, ReceiveLeg};

    fn a_receive() -> RawReceive {
        let mut raw = RawReceive::from_bytes(&[0; 88]).unwrap();
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
        let Record::Receive(r) = decode(a_receive().as_bytes(), Nanos(1)).unwrap() else { panic!("not a receive") };
        assert_eq!((r.bytes, r.last_seq(), r.connection), (10, SeqNumber(8), ConnectionId(7)));
        assert_eq!(r.leg(ReceiveLeg::Softirq), Ok(None));
        assert_eq!(r.leg(ReceiveLeg::Socket), Ok(Some(Nanos(30))));
        assert_eq!(r.leg(ReceiveLeg::Total), Ok(Some(Nanos(400))));
    }

    #[test]
    fn a_cut_receive_is_truncated() {
        let raw = a_receive();
        let cut = decode(&raw.as_bytes()[..87], Nanos(1));
        assert_eq!(cut, Err(crate::DecodeError::Truncated { have: 87, need: 88 }));
    }
}
