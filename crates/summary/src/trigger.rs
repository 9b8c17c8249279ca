//! What a flight recorder waits for: a small expression, such as `send > 40ms` or `reset`.

use std::fmt;

use record::{Again, Ending, Event, LegName, Nanos, Outcome};

use crate::{Timed, TimedKind};

/// Something that may happen, as a person wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trigger {
    text: String,
    cause: Cause,
}

/// What has to be traced for a trigger to be seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// What always is.
    Nothing,
    /// Received bytes.
    Receives,
    /// Requests.
    Requests,
    /// Each packet of TCP on its way out.
    Packets,
    /// Datagrams of UDP.
    Datagrams,
    /// Packets, or datagrams.
    PacketsOrDatagrams,
    /// Copies of packets.
    Copies,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// A record of one of these kinds took longer, or a leg of it did.
    Longer { kinds: &'static [TimedKind], leg: Option<LegName>, than: Nanos },
    /// Setting up a connection took longer.
    SlowConnect(Nanos),
    /// An attempt to set up a connection failed.
    ConnectFailed,
    /// A connection was reset.
    Reset,
    /// Bytes were retransmitted.
    Retransmission,
    /// The same, because the retransmission timer had run out.
    RetransmissionTimeout,
    /// A packet or datagram was dropped on this host.
    Drop,
    /// A signal came.
    Signal,
}

/// What can be written that has no time.
const NAMED: [(&str, Cause); 6] = [
    ("connect failed", Cause::ConnectFailed),
    ("reset", Cause::Reset),
    ("retransmission", Cause::Retransmission),
    ("retransmission timeout", Cause::RetransmissionTimeout),
    ("drop", Cause::Drop),
    ("signal", Cause::Signal),
];

/// What takes time, and what has to be traced to see it.
const THINGS: [(&str, &[TimedKind], Needs); 5] = [
    ("send", &[TimedKind::Sends], Needs::Nothing),
    ("receive", &[TimedKind::Receives], Needs::Receives),
    ("request", &[TimedKind::AtClient, TimedKind::AtServer], Needs::Requests),
    ("packet", &[TimedKind::Packets], Needs::Packets),
    ("datagram", &[TimedKind::DatagramsSent, TimedKind::DatagramsReceived], Needs::Datagrams),
];

/// A text that is no trigger: what is wrong with it, and what can be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotATrigger(String);

impl fmt::Display for NotATrigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NotATrigger {}

impl Trigger {
    /// Reads `THING > TIME`, `THING.LEG > TIME`, or what has a name: `reset`, `connect failed`.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn parse(text: &str) -> Result<Self, NotATrigger> {
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let Some((thing, time)) = text.split_once('>') else {
            let named = NAMED.into_iter().find(|(name, _)| *name == text);
            let cause = named.map(|(_, cause)| cause).ok_or_else(|| unknown(&text))?;
            return Ok(Self { text, cause });
        };
        let (thing, time) = (thing.trim(), time.trim());
        let than = quantity::parse::duration(time).map_err(|error| {
            NotATrigger(format!("after > comes a time, such as `{thing} > 40ms`, and {time:?} is none: {error}"))
        })?;
        Ok(Self { cause: longer(thing, than)?, text: format!("{thing} > {time}") })
    }

    /// What has to be traced.
    pub fn needs(&self) -> Needs {
        match self.cause {
            Cause::Longer { kinds, .. } => {
                THINGS.into_iter().find(|of| of.1 == kinds).map_or(Needs::Nothing, |(_, _, needs)| needs)
            }
            Cause::RetransmissionTimeout => Needs::Copies,
            Cause::Drop => Needs::PacketsOrDatagrams,
            Cause::SlowConnect(_) | Cause::ConnectFailed | Cause::Reset | Cause::Retransmission | Cause::Signal => {
                Needs::Nothing
            }
        }
    }

    /// What it is about, without a time: `drop`, `receive.socket`.
    pub fn subject(&self) -> &str {
        self.text.split_once(" >").map_or(&self.text, |(subject, _)| subject)
    }

    /// Whether it has happened, by this event.
    pub fn fires(&self, event: &Event) -> bool {
        match self.cause {
            Cause::Longer { kinds, leg, than } => {
                let took = record::of_each_kind_with_legs!(event, record => time_of(record, kinds, leg)).flatten();
                took.is_some_and(|took| took > than)
            }
            Cause::SlowConnect(than) => {
                matches!(event, Event::SetUp(of) if of.handshake().is_some_and(|took| took > than))
            }
            Cause::ConnectFailed => matches!(event, Event::Connect(of) if has_failed(of.outcome)),
            Cause::Reset => {
                matches!(event, Event::Connect(of) if of.ending == Some(Ending::Reset) && !has_failed(of.outcome))
            }
            Cause::Retransmission => match event {
                Event::Send(send) => send.retransmissions > 0,
                Event::Packet(packet) => packet.retransmission,
                Event::Copy(copy) => copy.again.is_some(),
                _ => false,
            },
            Cause::RetransmissionTimeout => matches!(event, Event::Copy(copy) if copy.again == Some(Again::Loss)),
            Cause::Drop => match event {
                Event::Packet(packet) => packet.dropped.is_some(),
                Event::Datagram(datagram) => datagram.dropped.is_some(),
                _ => false,
            },
            Cause::Signal => false,
        }
    }

    /// How long a send may wait for its ACK before it has happened: a send that hangs has no
    /// record.
    pub fn longest_send(&self) -> Option<Nanos> {
        match self.cause {
            Cause::Longer { kinds: [TimedKind::Sends], leg: None, than } => Some(than),
            _ => None,
        }
    }
}

impl fmt::Display for Trigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

/// Whether nothing came of an attempt to connect, though the program wanted it.
fn has_failed(outcome: Outcome) -> bool {
    matches!(
        outcome,
        Outcome::Refused | Outcome::Unreachable | Outcome::NoPort | Outcome::TimedOut | Outcome::Unanswered
    )
}

/// How long a record of these kinds took, or a leg of it.
fn time_of(record: &impl Timed, kinds: &[TimedKind], leg: Option<LegName>) -> Option<Nanos> {
    let kind = record.kind();
    if !kinds.contains(&kind) {
        return None;
    }
    let at = match leg {
        None => kind.total(),
        Some(leg) => kind.legs().iter().position(|of| of.name == leg)?,
    };
    record.times_so_far()[at].map(Nanos)
}

fn longer(thing: &str, than: Nanos) -> Result<Cause, NotATrigger> {
    if thing == "connect" {
        return Ok(Cause::SlowConnect(than));
    }
    let (thing, leg) = thing.split_once('.').map_or((thing, None), |(thing, leg)| (thing, Some(leg)));
    let found = THINGS.into_iter().find(|(name, ..)| *name == thing);
    let (_, kinds, _) = found.ok_or_else(|| unknown(thing))?;
    let Some(leg) = leg else { return Ok(Cause::Longer { kinds, leg: None, than }) };
    let mut legs: Vec<LegName> = kinds.iter().flat_map(|kind| kind.legs()).map(|leg| leg.name).collect();
    legs.dedup();
    match legs.iter().find(|name| name.name() == leg) {
        Some(&leg) => Ok(Cause::Longer { kinds, leg: Some(leg), than }),
        None => {
            let legs: Vec<_> = legs.iter().map(|leg| leg.name()).collect();
            Err(NotATrigger(format!("a {thing} has no leg {leg:?}; it has {}", legs.join(", "))))
        }
    }
}

fn unknown(text: &str) -> NotATrigger {
    let things: Vec<_> = THINGS.into_iter().map(|(name, ..)| name).collect();
    let names: Vec<_> = NAMED.into_iter().map(|(name, _)| name).collect();
    NotATrigger(format!(
        "there is no trigger {text:?}: write THING > TIME, such as `send > 40ms` ({}, connect; or a leg, such as send.tcp), or one of: {}",
        things.join(", "),
        names.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_what_is_shown_and_seen() {
        for (text, shown, needs) in [
            ("send>40ms", "send > 40ms", Needs::Nothing),
            (" send.tcp  >  1s ", "send.tcp > 1s", Needs::Nothing),
            ("request.peer_application > 2s", "request.peer_application > 2s", Needs::Requests),
            ("receive > 5ms", "receive > 5ms", Needs::Receives),
            ("packet.qdisc > 5ms", "packet.qdisc > 5ms", Needs::Packets),
            ("datagram.udp > 5ms", "datagram.udp > 5ms", Needs::Datagrams),
            ("datagram.softirq > 5ms", "datagram.softirq > 5ms", Needs::Datagrams),
            ("connect > 1s", "connect > 1s", Needs::Nothing),
            ("connect  failed", "connect failed", Needs::Nothing),
            ("retransmission timeout", "retransmission timeout", Needs::Copies),
            ("drop", "drop", Needs::PacketsOrDatagrams),
        ] {
            let trigger = Trigger::parse(text).unwrap();
            assert_eq!((trigger.to_string().as_str(), trigger.needs()), (shown, needs));
        }
        assert_eq!(Trigger::parse("receive.socket>5ms").unwrap().subject(), "receive.socket");
        assert_eq!(Trigger::parse("drop").unwrap().subject(), "drop");
        assert_eq!(Trigger::parse("send > 40ms").unwrap().longest_send(), Some(Nanos::from_millis(40)));
        assert_eq!(Trigger::parse("send.tcp > 40ms").unwrap().longest_send(), None);
    }

    #[test]
    fn what_is_wrong_is_said_with_what_can_be_written() {
        for (text, says) in [
            ("sned > 40ms", "no trigger \"sned\""),
            ("send < 40ms", "write THING > TIME"),
            ("send > 40", "is none: "),
            ("send > fast", "is none: "),
            ("send.softirq > 1s", "it has call, tcp, qdisc"),
            ("", "no trigger \"\""),
            ("retransmissions", "retransmission timeout"),
        ] {
            let error = Trigger::parse(text).unwrap_err().to_string();
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}
