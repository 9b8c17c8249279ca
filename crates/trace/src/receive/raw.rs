//! From a record of `receive_record.h` to a [`Receive`].

use record::{Arrival, Comm, ConnectionId, Instant, Owner, Receive, SeqNumber};

use crate::layout::{ARRIVAL_OUT_OF_ORDER, Plain as _, RECORD_RECEIVE, RawArrival, RawReceive};

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
    fn a_cut_receive_is_truncated() {
        let cut = raw::<RawReceive>(&a_receive().as_bytes()[..87]);
        assert_eq!(cut, Err(DecodeError::Truncated { have: 87, need: 88 }));
    }
}
