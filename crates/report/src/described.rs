//! Words and figures of one record, beside its times.

use record::{Datagram, Packet, Receive, Request, Send};
use summary::Timed;

/// A record that can be described to people.
pub(crate) trait Described: Timed {
    /// Why it took long, where the record says so.
    fn reason(&self) -> Option<String> {
        None
    }

    /// Its other figures, with the words of a table's head.
    fn figures(&self) -> Vec<(&'static str, String)>;
}

impl Described for Send {
    fn reason(&self) -> Option<String> {
        self.wait.map(|w| format!("{} ({})", w.reason, w.by_reason))
    }

    fn figures(&self) -> Vec<(&'static str, String)> {
        let s = &self.state;
        vec![("cwnd", s.cwnd.to_string()), ("in flight", s.in_flight.to_string()), ("srtt", s.srtt.to_string())]
    }
}

impl Described for Receive {
    fn reason(&self) -> Option<String> {
        self.out_of_order.then(|| "bytes before it were missing".into())
    }

    fn figures(&self) -> Vec<(&'static str, String)> {
        vec![
            ("segments", quantity::count(self.segments.into())),
            ("unread before it", quantity::bytes(self.queued.into())),
            (
                "buffer in use",
                format!("{} of {}", quantity::bytes(self.buffer_used.into()), quantity::bytes(self.buffer.into())),
            ),
        ]
    }
}

impl Described for Request {
    fn figures(&self) -> Vec<(&'static str, String)> {
        vec![
            ("asked", quantity::bytes(self.request.bytes)),
            ("answered", quantity::bytes(self.answer.bytes)),
            ("network told by", self.basis.name().replace('_', " ")),
        ]
    }
}

impl Described for Packet {
    fn reason(&self) -> Option<String> {
        let again = self.retransmission.then(|| "retransmitted".to_owned());
        self.dropped.as_ref().map(|d| format!("dropped: {}", d.reason)).or(again)
    }

    fn figures(&self) -> Vec<(&'static str, String)> {
        vec![("segments", quantity::count(self.segments.into())), ("flags", self.flags.to_string())]
    }
}

impl Described for Datagram {
    fn reason(&self) -> Option<String> {
        self.dropped.as_ref().map(|d| format!("dropped: {}", d.reason))
    }

    fn figures(&self) -> Vec<(&'static str, String)> {
        vec![("datagrams on the wire", quantity::count(self.segments.into()))]
    }
}
