//! What of a send is known too roughly to be shown, and where a NIC's stamp can lie.

use record::{Instant, Leg, Monotonic, Nanos, Send, Timestamp};

/// An inferred stamp (between those of neighbouring packets) stands where its error is at most this
/// part of the send's whole time. A wider one says too little of the legs that it would divide.
const WIDEST: u64 = 16;

/// What became of the inferred stamps of a send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Settled {
    /// One of them stands.
    pub inferred: bool,
    /// That of the packet scheduler was known too roughly, and is omitted.
    pub no_sched: bool,
    /// That of the driver, likewise.
    pub no_driver: bool,
}

/// Omits inferred stamps that are known too roughly. A send without an ACK is counted elsewhere.
pub(super) fn settle(send: &mut Send) -> Settled {
    let mut settled = Settled::default();
    let acknowledged = send.stamps.ack.is_some();
    let total = send.leg(Leg::Total).ok().flatten().or(send.unacknowledged_for()).unwrap_or_default();
    let too_wide = |error: Nanos| error > Nanos::ZERO && error.0 > total.0 / WIDEST;
    if too_wide(send.stamps.sched_error) {
        (send.stamps.sched, send.stamps.sched_error, send.wait) = (None, Nanos::ZERO, None);
        settled.no_sched = acknowledged;
    }
    if too_wide(send.stamps.driver_error) {
        (send.stamps.driver, send.stamps.driver_error) = (None, Nanos::ZERO);
        settled.no_driver = acknowledged;
    }
    let errors = [send.stamps.sched_error, send.stamps.driver_error, send.stamps.ack_error];
    settled.inferred = errors.into_iter().any(|error| error > Nanos::ZERO);
    settled
}

/// The packet was on the wire after it went to the driver and before its ACK. Where the
/// conversion's error reaches beyond one of them and puts the stamp itself there, the stamp becomes
/// the middle of what is left; where nothing is left, it stays, as the disorder it is.
pub(super) fn bounded(
    stamp: Timestamp<Monotonic>,
    driver: Option<Instant<Monotonic>>,
    ack: Option<Instant<Monotonic>>,
) -> Timestamp<Monotonic> {
    let at = stamp.at.as_nanos();
    let (least, most) = (at.saturating_sub(stamp.error.0), at.saturating_add(stamp.error.0));
    let from = driver.map_or(least, |d| least.max(d.as_nanos()));
    let to = ack.map_or(most, |a| most.min(a.as_nanos()));
    if (from..=to).contains(&at) || from > to {
        return stamp;
    }
    let half = (to - from).div_ceil(2);
    Timestamp { at: Instant::from_nanos(from + half), error: Nanos(half), ..stamp }
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::{ConnectionId, Owner, SenderState, SeqNumber, Source, Stamps, WaitReason, Waits};

    fn send(sched_error: u64, driver_error: u64) -> Send {
        let at = |ns| Some(Instant::from_nanos(ns));
        Send {
            connection: ConnectionId(1),
            owner: Owner::default(),
            thread: None,
            first_seq: SeqNumber(0),
            bytes: 1,
            stamps: Stamps {
                call: None,
                send: Instant::from_nanos(1_000),
                sched: at(5_000),
                driver: at(6_000),
                sched_error: Nanos(sched_error),
                driver_error: Nanos(driver_error),
                nic: None,
                ack: at(17_000),
                ack_error: Nanos::ZERO,
            },
            state: SenderState::default(),
            buffer: None,
            wait: Some(Waits::of(WaitReason::Cork, Nanos(1))),
            retransmissions: 0,
            unacknowledged: None,
            ack_alone: None,
        }
    }

    fn settled(sched_error: u64, driver_error: u64) -> (Settled, Send) {
        let mut send = send(sched_error, driver_error);
        (settle(&mut send), send)
    }

    #[test]
    fn a_stamp_known_to_a_sixteenth_of_the_whole_stands_and_a_rougher_one_is_counted() {
        let counted = |inferred, no_sched, no_driver| Settled { inferred, no_sched, no_driver };
        assert_eq!(settled(0, 0), (counted(false, false, false), send(0, 0)));
        assert_eq!(settled(1_000, 1_000), (counted(true, false, false), send(1_000, 1_000)));
        let (count, rough) = settled(1_001, 500);
        assert_eq!(count, counted(true, true, false));
        assert_eq!((rough.stamps.sched, rough.wait, rough.leg(Leg::Tcp)), (None, None, Ok(None)));
        let (count, rough) = settled(0, 1_001);
        assert_eq!((count, rough.stamps.driver), (counted(false, false, true), None));
    }

    #[test]
    fn a_nic_stamp_within_its_error_of_the_driver_lies_after_it() {
        let at = Instant::from_nanos;
        let stamp = |ns, error| Timestamp { at: at(ns), source: Source::Nic, error: Nanos(error) };
        let between = |s| bounded(s, Some(at(100)), Some(at(200)));
        assert_eq!(between(stamp(150, 80)), stamp(150, 80));
        assert_eq!(between(stamp(90, 30)), stamp(110, 10));
        assert_eq!(between(stamp(210, 20)), stamp(195, 5));
        // Impossible, whatever the error: kept, and counted as disorder.
        assert_eq!(between(stamp(50, 10)), stamp(50, 10));
    }
}
