//! Words and figures of one record, beside its times.

use record::{Datagram, Leg, Nanos, Packet, Receive, Request, Send, WaitReason};
use summary::Timed;

use crate::view;

/// A record that can be described to people.
pub(crate) trait Described: Timed {
    /// What it is called, where it says so itself.
    fn name(&self) -> Option<String> {
        None
    }

    /// Why it took long, where the record says so.
    fn reason(&self) -> Option<String> {
        None
    }

    /// The same within a sentence on the record.
    fn held(&self) -> Option<String> {
        self.reason()
    }

    /// What it still waits for, where it was not over when it was last seen.
    fn state(&self) -> Option<String> {
        None
    }

    /// Its other figures, with the words of a table's head.
    fn figures(&self) -> Vec<(&'static str, String)>;

    /// Why a leg of [`summary::TimedKind::legs`] took long, or how surely it is known.
    fn note(&self, _leg: usize) -> String {
        String::new()
    }

    /// How far the time of a leg may be off.
    fn error(&self, _leg: usize) -> Nanos {
        Nanos::ZERO
    }

    /// The time of a leg in words: what it is at most, where its error is larger than itself.
    fn took(&self, leg: usize, took: Nanos) -> String {
        let error = self.error(leg);
        match self.time(leg) {
            // Not over when it was last seen.
            Ok(None) => format!("≥ {took}"),
            _ if error > took => format!("≤ {}", took + error),
            _ => took.to_string(),
        }
    }

    /// Why legs are not there.
    fn missing(&self) -> Option<&'static str> {
        None
    }

    /// What stands under its waterfall.
    fn lines(&self) -> Vec<String> {
        self.reason()
            .into_iter()
            .chain(self.figures().into_iter().map(|(what, figure)| format!("{what} {figure}")))
            .collect()
    }
}

impl Described for Send {
    fn reason(&self) -> Option<String> {
        self.wait.as_ref().map(view::held_by)
    }

    fn held(&self) -> Option<String> {
        let at_once = self.wait.is_some_and(|waits| waits.reason() == WaitReason::SentAtOnce);
        self.reason().map(|reason| if at_once { reason } else { format!("waited for {reason}") })
    }

    fn state(&self) -> Option<String> {
        let idle = self.unacknowledged?.idle;
        Some(match self.retransmissions {
            0 => format!("not acknowledged, no ACK for {idle}"),
            n => format!("not acknowledged, no ACK for {idle} and {}", quantity::counted(n.into(), "retransmission")),
        })
    }

    fn figures(&self) -> Vec<(&'static str, String)> {
        let s = &self.state;
        vec![("cwnd", s.cwnd.to_string()), ("in flight", s.in_flight.to_string()), ("srtt", s.srtt.to_string())]
    }

    fn note(&self, leg: usize) -> String {
        let Some(leg) = Leg::ALL.get(leg).copied() else { return String::new() };
        let why = self.reason().filter(|_| leg == Leg::Tcp).unwrap_or_default();
        let took = self.leg(leg).ok().flatten().unwrap_or(Nanos::ZERO);
        let surely = match self.leg_error(leg) {
            Nanos::ZERO => return why,
            error if error > took => "not resolved".to_owned(),
            error => format!("±{error}"),
        };
        if why.is_empty() { surely } else { format!("{surely}, {why}") }
    }

    fn error(&self, leg: usize) -> Nanos {
        Leg::ALL.get(leg).map_or(Nanos::ZERO, |leg| self.leg_error(*leg))
    }

    fn missing(&self) -> Option<&'static str> {
        match (self.stamps.sched, self.stamps.driver) {
            (None, None) if self.unacknowledged.is_some() => {
                self.wait.is_none().then_some("No legs: it has left TCP, and gave no stamp on its way.")
            }
            (None, _) => Some(
                "No legs: the packet with its last byte gave no stamp, because TCP had moved the byte from another packet, and no packet \
                 near it was stamped.",
            ),
            (_, None) => Some(
                "No qdisc and no network leg: the packet with its last byte gave no stamp at the driver (segmented on the way, its tag was \
                 in another segment), and no packet near it was stamped.",
            ),
            _ => None,
        }
    }

    fn lines(&self) -> Vec<String> {
        let s = &self.state;
        let mut lines = vec![
            format!("cwnd {}", quantity::count(s.cwnd.into())),
            format!("in flight {}", quantity::count(s.in_flight.into())),
            format!("peer window {}", quantity::bytes(s.peer_window.into())),
            format!("unsent {}", quantity::bytes(s.unsent.into())),
            format!("srtt {}", s.srtt),
        ];
        if let Some(call) = self.leg(Leg::Call).ok().flatten() {
            lines.push(format!("call {call}"));
        }
        if let Some(full) = self.buffer {
            lines.push(format!("waited {} for room in the send buffer: {}", full.sum(), view::held_by(&full)));
        }
        lines.extend(self.state());
        if self.retransmissions > 0 && self.unacknowledged.is_none() {
            lines.push(quantity::counted(self.retransmissions.into(), "retransmission"));
        }
        lines
    }
}

impl Described for Receive {
    fn reason(&self) -> Option<String> {
        self.out_of_order.then(|| "bytes before it were missing".into())
    }

    fn figures(&self) -> Vec<(&'static str, String)> {
        vec![
            ("segments", quantity::count(self.segments.into())),
            ("waiting before it", quantity::bytes(self.queued.into())),
            (
                "buffer in use",
                format!("{} of {}", quantity::bytes(self.buffer_used.into()), quantity::bytes(self.buffer.into())),
            ),
        ]
    }
}

impl Described for Request {
    fn name(&self) -> Option<String> {
        let label = self.http.label()?;
        Some(self.http.status.map_or_else(|| label.to_string(), |status| format!("{label} → {status}")))
    }

    fn figures(&self) -> Vec<(&'static str, String)> {
        vec![
            ("asked", quantity::bytes(self.request.bytes)),
            ("answered", quantity::bytes(self.answer.bytes)),
            ("network separated by", self.basis.name().replace('_', " ")),
        ]
    }

    fn lines(&self) -> Vec<String> {
        let trace = self.http.trace.map(|of| {
            let sampled = if of.sampled { "" } else { ", not sampled" };
            format!("trace {}, span {}{sampled}", of.trace, of.span)
        });
        self.figures().into_iter().map(|(what, figure)| format!("{what} {figure}")).chain(trace).collect()
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
