//! Where the capture was taken, and what can be known from there.
//!
//! Every conclusion is a claim about a place. A rule says which [`View`]s it needs; where one is
//! missing, the finding is withheld with the reason that stands here.

use std::fmt;

use record::conversation::{Side, Way};
use record::{Nanos, columns, inside, words};

use crate::connection::Connection;
use crate::distance::Distance;
use crate::event::Event;
use crate::half::Half;

/// A place on the path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Place {
    /// At the client or close to it.
    NearClient,
    /// At the server or close to it.
    NearServer,
    /// Between the two.
    Middle,
    /// The path is so short that it makes no difference.
    Anywhere,
    /// Too few answers to know.
    #[default]
    Unknown,
}

words! {
    Place: NearClient = "near_client", NearServer = "near_server", Middle = "middle", Anywhere = "anywhere", Unknown = "unknown";
}

/// The place with what it was inferred from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Vantage {
    /// Where.
    pub place: Place,
    /// What the server's answers take at least, from the capture there and back.
    pub to_server_ns: Option<Nanos>,
    /// The same for the client's.
    pub to_client_ns: Option<Nanos>,
    /// The only direction that the capture holds, although the peer's packets were answered.
    pub only_direction: Option<Way>,
    /// The capture begins in the middle of the connection: there is no SYN.
    pub from_the_middle: bool,
    /// Acknowledged bytes that the capture does not hold, of the directions that are in it.
    pub missed_bytes: u64,
    /// Bytes that were acknowledged, of the same directions.
    pub whole_bytes: u64,
    /// Thousandths of the duration of which it is not known what limited it.
    pub(crate) unknown_permille: u64,
    /// It holds no ACK without data although there must have been some: it was saved through a
    /// filter.
    pub(crate) without_acks: bool,
    /// ACKs stand before the data that they acknowledge.
    pub(crate) out_of_step: bool,
    /// It is a subflow of MPTCP, perhaps the only one.
    pub(crate) is_subflow: bool,
    /// How the distance to the sender of each direction's data is known, to the server and to the
    /// client.
    pub(crate) distance: [Distance; 2],
}

columns! {
    Vantage: "vantage", "", blank = Self::default();
    place = place, "where";
    to_server_ns = to_server_ns, null "the capture does not show it", "what the server's answers take at least, from the capture there and back";
    to_client_ns = to_client_ns, null "the capture does not show it", "the same for the client's";
    only_direction = only_direction, null "it holds both", "the only direction that the capture holds, although the peer's packets were answered";
    from_the_middle = from_the_middle, "the capture begins in the middle of the connection: there is no SYN";
    missed_bytes = missed_bytes, "acknowledged bytes that the capture does not hold, of the directions that are in it";
    whole_bytes = whole_bytes, "bytes that were acknowledged, of the same directions";
}
inside!(Vantage);

/// What a rule needs to see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum View {
    /// Both directions.
    BothDirections,
    /// The direction of the data.
    Data,
    /// The direction of the ACKs.
    Acks,
    /// The receiver's own ACKs and windows, and not those of something nearer that acknowledges for
    /// it.
    Receiver,
    /// The SYN and the SYN-ACK with their options.
    Handshake,
    /// What the sender had in flight, and the whole round trip even where a queue stands on the
    /// path.
    SenderAndQueue,
    /// What the sender had in flight, where no queue stands.
    Sender,
    /// The place before the packets are lost: what is lost earlier never comes by.
    BeforeLoss,
    /// What most of the time went into.
    Time,
    /// Nearly all bytes: what is missing would look like losses or pauses.
    AllBytes,
    /// A path that does not stand still: otherwise the longest round trips are not the queue's.
    SteadyPath,
    /// A clock that does not step: what it steps by looks like delays.
    Clock,
    /// That the receiver held an ACK back, and not the way to it or back.
    HeldBack,
    /// The place behind which nothing is damaged any more, with checksums that can be verified:
    /// what is damaged later looks lost.
    Damage,
    /// All data of the two applications: a subflow of MPTCP (RFC 8684) carries what its sender
    /// gives it, and the others the rest.
    AllSubflows,
}

impl View {
    /// All, in order of their numbers.
    pub(crate) const ALL: [Self; 15] = [
        Self::BothDirections,
        Self::Data,
        Self::Acks,
        Self::Receiver,
        Self::Handshake,
        Self::SenderAndQueue,
        Self::Sender,
        Self::BeforeLoss,
        Self::Time,
        Self::AllBytes,
        Self::SteadyPath,
        Self::Clock,
        Self::HeldBack,
        Self::Damage,
        Self::AllSubflows,
    ];
}

/// A way to the receiver and back that takes less than this, ns, is a wire: no radio link or queue
/// on it holds a single ACK up for longer than [`crate::acks::LATE`].
const STEADY: u64 = 1_000_000;
/// Above this share of missing bytes, times between the packets that are there say little.
const MISSED_MOST: f64 = 0.1;
/// Where more of the time than this is not known, a rule that goes by shares finds too little.
const UNKNOWN_MOST: u64 = 200;

/// Why nothing that goes by ACKs is known.
const FILTERED: &str =
    "the capture holds no ACK without data, although there must have been some: it was saved through a filter";

/// Why nothing that goes by the order of packets is known.
const OUT_OF_STEP: &str =
    "ACKs stand before the data that they acknowledge: the times of the two directions are of clocks that differ";

/// Whether most data of a direction stand behind their ACKs, and were never seen before.
fn is_out_of_step(h: &Half) -> bool {
    const FEWEST: u64 = 8;
    let packets = h.count.payload_packets;
    packets >= FEWEST && u64::from(h.anomalies.behind_ack) > packets / 2
}

/// Whether no ACK without data is in the capture although there must have been some. A side that
/// sends little has nothing to put its ACKs on: one is due for every second segment (RFC 5681,
/// section 4.2). And a client acknowledges the SYN-ACK before it has something to send, mostly.
fn lacks_acks(c: &Connection) -> bool {
    let [client, server] = &c.halves;
    let both = client.count.packets > 0 && server.count.packets > 0;
    if !both || !c.established || client.count.pure_acks + server.count.pure_acks > 0 {
        return false;
    }
    let (to_server, to_client) = (client.count.payload_packets, server.count.payload_packets);
    let due = to_server.max(to_client) >= 2 * to_server.min(to_client) + 4;
    let opened = client.offered.seen && server.offered.seen && to_server + to_client >= 4;
    due || opened
}

impl Vantage {
    pub(crate) fn of(c: &Connection) -> Self {
        let to = |way: Way| c.halves[way].rtt.base().map(Nanos);
        let (server, client) = (to(Way::ToServer), to(Way::ToClient));
        // Where one side's answers are not in the capture, its timestamp echoes say how far away it
        // is.
        let or_echoed = |known: Option<Nanos>, data: Way| {
            known.or_else(|| c.halves[data].sender.as_ref().and_then(|s| s.base()).map(Nanos))
        };
        let (server, client) = (or_echoed(server, Way::ToClient), or_echoed(client, Way::ToServer));
        let place = match (server, client) {
            (Some(s), Some(k)) => {
                let whole = s + k;
                // Under 1 ms the ends' own delays are of the same size as the path's.
                if whole.0 < 1_000_000 {
                    Place::Anywhere
                } else if k.0 <= whole.0 / 10 {
                    Place::NearClient
                } else if s.0 <= whole.0 / 10 {
                    Place::NearServer
                } else {
                    Place::Middle
                }
            }
            _ => Place::Unknown,
        };
        let only_direction = Way::ALL.into_iter().find(|way| c.is_one_sided(*way));
        let (mut missed, mut whole) = (0, 0);
        for h in c.halves.iter().filter(|h| h.count.packets > 0) {
            let bytes = h.unseen_bytes();
            missed += bytes;
            whole += h.count.unique_bytes + bytes;
        }
        Self {
            place,
            to_server_ns: server,
            to_client_ns: client,
            only_direction,
            from_the_middle: c.halves.iter().all(|h| !h.offered.seen),
            missed_bytes: missed,
            whole_bytes: whole,
            unknown_permille: 0,
            without_acks: lacks_acks(c),
            out_of_step: c.halves.iter().any(is_out_of_step),
            is_subflow: c.halves.iter().any(|h| h.anomalies.multipath > 0),
            distance: Way::ALL.map(|way| c.distance(way)),
        }
    }

    /// What the answers of a side take at least, from the capture there and back; `None` where the
    /// capture does not show it.
    pub fn to(&self, side: Side) -> Option<Nanos> {
        match side {
            Side::Server => self.to_server_ns,
            Side::Client => self.to_client_ns,
        }
    }

    /// The path's round trip where both parts are known.
    pub fn whole(&self) -> Option<Nanos> {
        Some(self.to_server_ns? + self.to_client_ns?)
    }

    /// The share of the bytes that the capture misses, 0 to 1.
    pub fn missed_share(&self) -> f64 {
        self.missed_bytes as f64 / self.whole_bytes.max(1) as f64
    }

    /// Whether times between packets say anything of what limited the connection.
    pub(crate) fn shows_time(&self) -> bool {
        self.only_direction.is_none() && !self.without_acks && !self.out_of_step && self.missed_share() <= MISSED_MOST
    }

    /// Why `view` is not to be had on the data of direction `way`; `None` where it is.
    pub(crate) fn lacks(&self, c: &Connection, way: Way, view: View) -> Option<&'static str> {
        let held = |way: Way| self.only_direction.is_none_or(|only| only == way);
        if self.out_of_step {
            return Some(OUT_OF_STEP);
        }
        let lacks = match view {
            View::BothDirections => {
                let one = self.only_direction.map(|_| "the capture holds one direction only");
                one.or(self.without_acks.then_some(FILTERED))
            }
            View::Data => (!held(way)).then_some("the capture does not hold the direction of the data"),
            View::Acks => {
                let none = (!held(!way)).then_some("the capture does not hold the direction of the ACKs");
                none.or(self.without_acks.then_some(FILTERED))
            }
            View::Receiver => c.halves[way].rtt.acknowledged_nearer().map(
                |_| "something on the way acknowledges for the receiver, so windows and ACKs are not the receiver's",
            ),
            View::Handshake => (!c.halves.iter().all(|h| h.offered.seen && !h.offered.cut))
                .then_some("the handshake is not in the capture, or its options are cut off"),
            View::SenderAndQueue | View::Sender => match self.distance[way] {
                Distance::Near | Distance::Echoes => None,
                Distance::AtRest if view == View::Sender => None,
                Distance::AtRest => Some(
                    "away from the sender and without TCP timestamps, a capture does not show how long the round trip is while a queue stands",
                ),
                Distance::Unknown => Some(
                    "neither a handshake nor TCP timestamps show how far away the sender is, so what it had in flight is not known",
                ),
            },
            View::BeforeLoss => (self.distance[way] != Distance::Near)
                .then_some("away from the sender, a packet that is lost before the capture is never seen"),
            View::Time => (self.unknown_permille > UNKNOWN_MOST)
                .then_some("from here it is not known where much of the time went"),
            View::AllBytes => {
                (self.missed_share() > MISSED_MOST).then_some("the capture misses too many of the connection's bytes")
            }
            View::SteadyPath => {
                let of = |what: Event| c.events.of(what, way).map_or(0, |e| e.total.0);
                let stalls = of(Event::PathStall).saturating_add(of(Event::PossibleStall));
                let duration = c.last_at - c.first_at;
                (stalls > 0 && stalls >= duration / 20)
                    .then_some("the path stands still at times, so the longest round trips are not those of a queue")
            }
            View::Clock if c.steps.as_ref().is_some_and(|s| s.back >= 1_000) => {
                Some("the capture's clock went back by a millisecond or more, so times between packets are not known")
            }
            View::Clock => c.steps.as_ref().is_some_and(|s| s.forward).then_some(
                "the capture's clock was set forward, as the timestamps of both hosts show, so times between packets are not known",
            ),
            View::HeldBack => {
                let stalls = [Event::NagleStall, Event::DelayedAckStall].iter().any(|e| c.events.of(*e, way).is_some());
                let receiver = c.halves[way].rtt.base();
                (stalls && receiver.is_none_or(|r| r >= STEADY) && !c.halves[!way].habits.shows_timer()).then_some(
                    "away from the receiver, ACKs that came late only now and then, or not by the same time, may have been held up on the way",
                )
            }
            View::Damage => self.lacks_damage(c, way),
            View::AllSubflows => self.is_subflow.then_some(
                "this is a subflow of MPTCP: other subflows may carry data of the same applications, and they share one receive window",
            ),
        };
        lacks.or_else(|| self.lacks_both(view, held))
    }

    /// Why segments of direction `way` that were retransmitted may have been damaged without a sign
    /// of it in the capture.
    fn lacks_damage(&self, c: &Connection, way: Way) -> Option<&'static str> {
        let h = &c.halves[way];
        let near_receiver = [Place::NearServer, Place::NearClient][way];
        if h.anomalies.retransmitted_packets == 0 {
            None
        } else if !h.checksums.verified_data() {
            Some("the capture holds no data with a checksum that can be verified, so damage on the way looks like loss")
        } else if self.place != near_receiver && self.place != Place::Anywhere {
            Some("away from the receiver, a packet that is damaged behind the capture looks lost")
        } else {
            None
        }
    }

    /// What the sender has in flight takes both directions to know.
    fn lacks_both(&self, view: View, held: impl Fn(Way) -> bool) -> Option<&'static str> {
        let needs_both = matches!(view, View::SenderAndQueue | View::Sender);
        (needs_both && !Way::ALL.into_iter().all(held)).then_some("the capture holds one direction only")
    }

    /// What speaks for this place, and what is missing, in one sentence.
    pub fn evidence(&self) -> String {
        let mut text = self.to_string();
        if let Some(only) = self.only_direction {
            text = format!("in one direction only: there are packets of the {}, and none of its peer's", only.sender());
        }
        if self.from_the_middle {
            text.push_str("; begins in the middle of the connection, so window scales and options are not known");
        }
        if self.is_subflow {
            text.push_str("; it is a subflow of MPTCP, so what its applications waited for is not known");
        }
        if self.without_acks {
            text.push_str("; it holds no ACK without data, as after a display filter");
        }
        if self.out_of_step {
            text.push_str("; its ACKs stand before the data that they acknowledge, so the times of its two directions do not agree");
        }
        if self.missed_bytes > 0 {
            text.push_str(&format!(
                "; {} of the acknowledged bytes are not in it",
                quantity::percent(self.missed_share())
            ));
        }
        text
    }
}

impl fmt::Display for Vantage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.place, self.to_server_ns, self.to_client_ns) {
            (Place::Unknown, _, _) | (_, None, _) | (_, _, None) => {
                f.write_str("at an unknown place: the answers of one side are missing")
            }
            (place, Some(server), Some(client)) => {
                let words = match place {
                    Place::NearClient => "near the client",
                    Place::NearServer => "near the server",
                    Place::Middle => "between the two",
                    _ => "anywhere: the path is too short to know",
                };
                write!(f, "{words} (round trip to the server {server}, to the client {client})")
            }
        }
    }
}
