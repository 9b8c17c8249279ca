//! What has come from the kernel and has not been handed on yet, and the sums over it.

use std::collections::VecDeque;

use model::{Coverage, Event, Leg, ReceiveLeg};

use crate::decode::Record;

/// Filled by the ring buffer's callback, emptied by [`crate::Tracer::poll`].
#[derive(Default)]
pub(crate) struct Inbox {
    pub events: VecDeque<Event>,
    pub failed: Option<crate::DecodeError>,
    pub disorder: u64,
    pub receive_disorder: u64,
    pub sends: u64,
    /// Sends that were given up here, as no iterator showed their socket.
    pub unfinished: u64,
    pub closed: Coverage,
}

impl Inbox {
    pub(crate) fn give_up(&mut self, send: model::Send) {
        self.unfinished += 1;
        self.take(Record::Send(send));
    }

    pub(crate) fn take(&mut self, record: Record) {
        match record {
            Record::Connection(connection) => self.events.push_back(Event::Connection(connection)),
            Record::Send(send) => {
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
}

/// Adds a connection's totals.
pub(crate) fn add(coverage: &mut Coverage, totals: &model::ConnectionTotals) {
    coverage.followed += totals.followed;
    coverage.armed += totals.armed;
    coverage.bytes_written += totals.bytes_written;
    coverage.bytes_armed += totals.bytes_armed;
}
