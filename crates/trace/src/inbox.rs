//! What came out of the ring buffer, until it is handed on.

use std::collections::VecDeque;

use record::{Coverage, Event, Instant, Leg, Monotonic, Nanos, ReceiveLeg, Send, Timestamp};

use crate::DecodeError;
use crate::decode::Record;
use crate::nic::{NicClocks, NicStamp};
use crate::packets::Assembly;

/// A stamp that was found between two others stands where its error is at most this part of the send's whole time. A wider one says
/// too little of the legs that it would divide.
const WIDEST: u64 = 16;

#[derive(Debug, Default)]
pub(crate) struct Inbox {
    pub events: VecDeque<Event>,
    pub failed: Option<DecodeError>,
    pub disorder: u64,
    pub receive_disorder: u64,
    pub sends: u64,
    /// Sends that were given up here, as no iterator showed their socket.
    pub unfinished: u64,
    /// Sends with a stamp that was found between two others.
    pub inferred: u64,
    /// Sends whose stamp could be found only within so much time that it was left out.
    pub no_sched: u64,
    pub no_driver: u64,
    /// Stamps of NICs whose clock could not be read.
    pub nic_unread: u64,
    pub closed: Coverage,
    nics: NicClocks,
    /// Where packets and datagrams are followed.
    pub assembly: Option<Assembly>,
}

impl Inbox {
    /// Takes a record of the probe of packets.
    pub fn part(&mut self, bytes: &[u8]) -> Result<(), DecodeError> {
        self.assembly.as_mut().map_or(Ok(()), |assembly| assembly.take(bytes, &mut self.events))
    }

    pub fn give_up(&mut self, send: Send) {
        self.unfinished += 1;
        self.take(Record::Send(send, None));
    }

    pub fn take(&mut self, record: Record) {
        match record {
            Record::Connection(connection) => self.events.push_back(Event::Connection(connection)),
            Record::Send(mut send, nic) => {
                self.settle(&mut send);
                if let Some(nic) = nic {
                    self.convert(&mut send, &nic);
                }
                self.disorder += Leg::PARTS.into_iter().filter(|&leg| send.leg(leg).is_err()).count() as u64;
                self.sends += 1;
                self.events.push_back(Event::Send(send));
            }
            Record::Receive(receive) => {
                self.receive_disorder +=
                    ReceiveLeg::PARTS.into_iter().filter(|&leg| receive.leg(leg).is_err()).count() as u64;
                self.events.push_back(Event::Receive(receive));
            }
            Record::Closed(connection, totals) => {
                add(&mut self.closed, &totals);
                self.events.push_back(Event::Closed { connection, totals });
            }
        }
    }

    /// Leaves out what is known too roughly.
    fn settle(&mut self, send: &mut Send) {
        let acknowledged = send.stamps.ack.is_some();
        let total = send.leg(Leg::Total).ok().flatten().unwrap_or_default();
        let too_wide = |error: Nanos| error > Nanos::ZERO && error.0 > total.0 / WIDEST;
        if too_wide(send.stamps.sched_error) {
            (send.stamps.sched, send.stamps.sched_error, send.wait) = (None, Nanos::ZERO, None);
            self.no_sched += u64::from(acknowledged);
        }
        if too_wide(send.stamps.driver_error) {
            (send.stamps.driver, send.stamps.driver_error) = (None, Nanos::ZERO);
            self.no_driver += u64::from(acknowledged);
        }
        self.inferred += u64::from(send.stamps.sched_error.max(send.stamps.driver_error) > Nanos::ZERO);
    }

    fn convert(&mut self, send: &mut Send, nic: &NicStamp) {
        send.stamps.nic = self.nics.convert(nic).map(|at| bounded(at, send.stamps.driver, send.stamps.ack));
        self.nic_unread += u64::from(send.stamps.nic.is_none());
    }
}

/// The packet was on the wire after it went to the driver and before its ACK. Where the conversion's error reaches beyond one of them and
/// puts the stamp itself there, the stamp becomes the middle of what is left; where nothing is left, it stays, as the disorder it is.
fn bounded(
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

pub(crate) fn add(coverage: &mut Coverage, totals: &record::ConnectionTotals) {
    coverage.followed += totals.followed;
    coverage.armed += totals.armed;
    coverage.bytes_written += totals.bytes_written;
    coverage.bytes_armed += totals.bytes_armed;
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::{ConnectionId, Merged, Owner, SenderState, SeqNumber, Source, Stamps, Wait, WaitReason};

    fn send(sched_error: u64, driver_error: u64) -> Send {
        let at = |ns| Some(Instant::from_nanos(ns));
        Send {
            connection: ConnectionId(1),
            owner: Owner::default(),
            first_seq: SeqNumber(0),
            bytes: 1,
            stamps: Stamps {
                send: Instant::from_nanos(1_000),
                sched: at(5_000),
                driver: at(6_000),
                sched_error: Nanos(sched_error),
                driver_error: Nanos(driver_error),
                nic: None,
                ack: at(17_000),
            },
            merged: Merged::default(),
            state: SenderState::default(),
            wait: Some(Wait { reason: WaitReason::Cork, by_reason: Nanos(1) }),
            retransmissions: 0,
        }
    }

    fn settled(sched_error: u64, driver_error: u64) -> (Inbox, Send) {
        let mut inbox = Inbox::default();
        inbox.take(Record::Send(send(sched_error, driver_error), None));
        let Some(Event::Send(send)) = inbox.events.pop_front() else { panic!("no send") };
        (inbox, send)
    }

    #[test]
    fn a_stamp_known_to_a_sixteenth_of_the_whole_stands_and_a_rougher_one_is_counted() {
        let (inbox, exact) = settled(0, 0);
        assert_eq!((inbox.inferred, exact), (0, send(0, 0)));
        let (inbox, near) = settled(1_000, 1_000);
        assert_eq!((inbox.inferred, inbox.no_sched, inbox.no_driver, near), (1, 0, 0, send(1_000, 1_000)));
        let (inbox, rough) = settled(1_001, 500);
        assert_eq!((inbox.inferred, inbox.no_sched, inbox.no_driver), (1, 1, 0));
        assert_eq!((rough.stamps.sched, rough.wait, rough.leg(Leg::Tcp)), (None, None, Ok(None)));
        let (inbox, rough) = settled(0, 1_001);
        assert_eq!((inbox.inferred, inbox.no_sched, inbox.no_driver, rough.stamps.driver), (0, 0, 1, None));
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
