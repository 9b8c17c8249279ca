//! Which side took the time while nothing was ready to be sent: a side that had been asked and
//! thought, a side that paused within what it sent, or the path that question and answer crossed.

use record::conversation::{Side, Way};
use record::table::{Cell, Kind, Value};
use record::{Nanos, columns, inside, json};

use crate::claims::Times;

/// The time without data, by who was waited for. Adds up to the application's share of the
/// duration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Idle {
    /// The client had the server's data and had not sent yet.
    pub client_thinking_ns: Nanos,
    /// The server had the client's data and had not answered yet.
    pub server_thinking_ns: Nanos,
    /// The client paused between two pieces of what it sent.
    pub client_pausing_ns: Nanos,
    /// The server did.
    pub server_pausing_ns: Nanos,
    /// Question and answer crossed the path.
    pub round_trips_ns: Nanos,
    /// How many times each kind of time went by, and the longest: of the client and of the server,
    /// thinking and pausing.
    paces: [(u64, Nanos); 4],
    /// Waited for, up to an ACK or a window: the next data show who was waited for.
    open: u64,
    /// Waits for an ACK that may have been waits for a retransmission.
    unanswered: Option<Unanswered>,
    /// The first times that the direction of the data turned.
    pub(crate) turns: FirstTurns,
    /// The longest pauses.
    pub longest: Longest,
}

/// Waits of more than a round trip while data were out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Unanswered {
    /// The direction of the data, and up to where all of it was acknowledged.
    of: (Way, u64),
    /// How long they were in all, ns.
    time: u64,
    /// The packet with data before the first.
    since: u64,
}

/// The first times that one side sent data after the other had, on the capture's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FirstTurns {
    /// The side that answered first, when it was asked, and when it answered.
    first: Option<(Way, u64, u64)>,
    /// The client's: the server's last data before, and when.
    again: [(u64, u64); Self::KEPT],
    count: u32,
    /// The server's last data before its latest silence, and its bytes until then.
    silence: Option<(u64, u64)>,
}

impl FirstTurns {
    /// A request, what TLS says before and after it, and the next request.
    const KEPT: usize = 4;
    /// A server that sends so little after a silence says that it closes the connection: an alert
    /// of TLS with all that encryption adds.
    const GOODBYE: u64 = 100;
    /// A silence after which a server that goes on may only say goodbye, ns.
    pub(crate) const SILENCE: u64 = 1_000_000_000;

    /// The server goes on after a silence, with so many bytes before it.
    #[cold]
    pub(crate) fn went_on(&mut self, before: u64, bytes: u64) {
        self.silence = Some((before, bytes));
    }

    /// Data of direction `way` came after the other direction's.
    pub(crate) fn turned(&mut self, way: Way, before: u64, now: u64) {
        self.first.get_or_insert((way, before, now));
        if way == Way::ToServer {
            if let Some(place) = self.again.get_mut(self.count as usize) {
                *place = (before, now);
            }
            self.count = self.count.saturating_add(1);
        }
    }

    /// When the client had sent its first request, and when the answer began; `None` where it was
    /// the server that spoke first.
    pub(crate) fn first_answer(&self) -> Option<(u64, u64)> {
        self.first.filter(|(way, ..)| *way == Way::ToClient).map(|(_, asked, answered)| (asked, answered))
    }

    /// When the answer that began at `answer` ended: before the client sent more, or with the
    /// server's last data, up to so many bytes, but for a goodbye. `None` where that is too long
    /// after the first turns.
    pub(crate) fn end_of_answer(&self, answer: u64, (last, bytes): (u64, u64)) -> Option<u64> {
        let goodbye = self.silence.filter(|(_, before)| bytes.saturating_sub(*before) <= Self::GOODBYE);
        let last = goodbye.map_or(last, |(before, _)| before.max(answer));
        let kept = &self.again[..self.again.len().min(self.count as usize)];
        match kept.iter().find(|(_, at)| *at > answer) {
            Some((before, _)) => Some((*before).max(answer)),
            None => (self.count as usize <= Self::KEPT).then_some(last),
        }
    }
}

/// The longest pauses, the longest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Longest([Option<Pause>; 3]);

columns! {
    Idle: "idle", "", blank = Self::default();
    client_thinking_ns = client_thinking_ns, "the client had the server's data and had not sent yet";
    server_thinking_ns = server_thinking_ns, "the server had the client's data and had not answered yet";
    client_pausing_ns = client_pausing_ns, "the client paused between two pieces of what it sent";
    server_pausing_ns = server_pausing_ns, "the server did";
    round_trips_ns = round_trips_ns, "question and answer crossed the path";
    longest = longest, "the longest pauses, the longest first";
}
inside!(Idle);

/// One time without data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    /// Who was waited for.
    pub who: Side,
    /// It had been asked, and did not merely send no more.
    pub thinking: bool,
    /// How long, the path not counted.
    pub ns: Nanos,
    /// The last packet with data before it.
    pub from_packet: u64,
    /// The packet that ended it.
    pub to_packet: u64,
}

columns! {
    Pause: "pause", "", blank = Self { who: Side::Client, thinking: false, ns: Nanos::ZERO, from_packet: 0, to_packet: 0 };
    who = who, "who was waited for";
    thinking = thinking, "it had been asked, and did not merely send no more";
    ns = ns, "how long, the path not counted";
    from_packet = from_packet, "the last packet with data before it";
    to_packet = to_packet, "the packet that ended it";
}
inside!(Pause);

impl Longest {
    /// Those that there are.
    pub fn iter(&self) -> impl Iterator<Item = &Pause> {
        self.0.iter().flatten()
    }

    /// The longest.
    pub fn first(&self) -> Option<Pause> {
        self.0[0]
    }

    /// Takes the pauses out that are none after all.
    fn remove(&mut self, no_pause: impl Fn(&Pause) -> bool) {
        self.0 = self.0.map(|p| p.filter(|p| !no_pause(p)));
        self.sort();
    }

    fn sort(&mut self) {
        self.0.sort_by_key(|p| std::cmp::Reverse(p.map(|p| p.ns)));
    }
}

impl Cell for Longest {
    const KIND: Kind = Kind::Json;
    const INSIDE: Option<&'static str> = Vec::<Pause>::INSIDE;
    fn value(&self) -> Value<'_> {
        let list: Vec<Pause> = self.iter().copied().collect();
        match list.value() {
            Value::Json(list) => Value::Json(std::borrow::Cow::Owned(list.into_owned())),
            _ => Value::Null,
        }
    }
    fn from_value(value: Value<'_>) -> Result<Self, &'static str> {
        let mut longest = Self::default();
        longest.0.iter_mut().zip(Vec::from_value(value)?).for_each(|(place, pause)| *place = Some(pause));
        Ok(longest)
    }
    fn write_json(&self, out: &mut Vec<u8>) {
        json::array(out, self.iter(), json::object);
    }
}

impl Idle {
    /// `time` went by until an ACK or a window came, and goes on.
    pub(crate) fn wait(&mut self, time: u64) {
        self.open = self.open.saturating_add(time);
    }

    /// So much of it at most was none after all; says how much.
    pub(crate) fn take_back(&mut self, time: u64) -> u64 {
        let time = time.min(self.open);
        self.open -= time;
        time
    }

    /// `time` went by since packet `since` while data of a direction were out: `of` says which, and
    /// what is acknowledged of it.
    #[cold]
    pub(crate) fn unanswered(&mut self, of: (Way, u64), time: u64, since: u64) {
        match &mut self.unanswered {
            Some(so_far) if so_far.of == of => so_far.time = so_far.time.saturating_add(time),
            other => *other = Some(Unanswered { of, time, since }),
        }
    }

    /// Those data were retransmitted: what was waited for was no application. Says for how long.
    #[cold]
    pub(crate) fn retransmitted(&mut self, of: (Way, u64)) -> u64 {
        let Some(waited) = self.unanswered.take_if(|waited| waited.of == of) else { return 0 };
        self.was_no_pause(waited.since);
        waited.time
    }

    /// What went by from packet `since` on was no application's time.
    #[cold]
    pub(crate) fn was_no_pause(&mut self, since: u64) {
        self.longest.remove(|p| p.from_packet >= since);
    }

    /// Whether such a time is to be given to a side by the next data.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.open > 0
    }

    /// `time` went by until a packet of side `who`, of which up to `path` is the round trip.
    pub(crate) fn add(&mut self, who: Side, thinking: bool, time: u64, path: u64, packets: [u64; 2]) {
        let time = time.saturating_add(std::mem::take(&mut self.open));
        let trip = time.min(path);
        let rest = Nanos(time - trip);
        self.round_trips_ns += Nanos(trip);
        let sum = match (who, thinking) {
            (Side::Client, true) => &mut self.client_thinking_ns,
            (Side::Client, false) => &mut self.client_pausing_ns,
            (_, true) => &mut self.server_thinking_ns,
            (_, false) => &mut self.server_pausing_ns,
        };
        *sum += rest;
        let (count, longest) = &mut self.paces[2 * usize::from(!thinking) + who as usize];
        *count += u64::from(rest.0 > 0);
        *longest = rest.max(*longest);
        // What no packet ended is in the sum alone.
        if rest > self.longest.0[2].map_or(Nanos::ZERO, |p| p.ns) && packets[1] > 0 {
            self.keep(who, thinking, rest, packets);
        }
    }

    #[cold]
    fn keep(&mut self, who: Side, thinking: bool, ns: Nanos, [from_packet, to_packet]: [u64; 2]) {
        self.longest.0[2] = Some(Pause { who, thinking, ns, from_packet, to_packet });
        self.longest.sort();
    }

    /// The time that side `who` thought, which is not known to be any: something
    /// nearer than it acknowledges, and the path beyond that is in it.
    pub(crate) fn take_thinking(&mut self, who: Side) -> u64 {
        let thinking = match who {
            Side::Client => &mut self.client_thinking_ns,
            Side::Server => &mut self.server_thinking_ns,
        };
        self.longest.remove(|p| p.thinking && p.who == who);
        std::mem::take(&mut thinking.0)
    }

    /// So much of the pauses is not known to be any: first those of the side that
    /// ended it.
    pub(crate) fn take_pauses(&mut self, mut time: u64, ended_by: Side) {
        let mut sides = [&mut self.client_pausing_ns, &mut self.server_pausing_ns];
        sides.rotate_left(ended_by as usize);
        for pauses in sides {
            let taken = pauses.0.min(time);
            (pauses.0, time) = (pauses.0 - taken, time - taken);
        }
        self.longest.remove(|p| !p.thinking);
    }

    /// Makes the parts add up to the application's share: what its last packets left open are
    /// pauses of the sender `who`, and what was found to be an ACK's delay afterwards is none.
    pub(crate) fn add_up_to(&mut self, application: Nanos, who: Side) {
        self.open = 0;
        let all: Nanos = self.parts().into_iter().map(|p| p.0).sum();
        self.add(who, false, application.saturating_sub(all).0, 0, [0, 0]);
        let mut over = all.saturating_sub(application).0;
        for part in [
            &mut self.client_pausing_ns,
            &mut self.server_pausing_ns,
            &mut self.client_thinking_ns,
            &mut self.server_thinking_ns,
            &mut self.round_trips_ns,
        ] {
            let taken = part.0.min(over);
            (part.0, over) = (part.0 - taken, over - taken);
        }
    }

    /// The kind of time that is the longest in all, and how often and how long it went by; `None`
    /// of round trips.
    pub(crate) fn pace(&self) -> Option<(&'static str, Times)> {
        let (total, words) = self.parts()[0];
        let kinds = [
            "the client's application thinking",
            "the server's application thinking",
            "pauses of the client's application",
            "pauses of the server's application",
        ];
        let (count, longest) = self.paces[kinds.iter().position(|kind| *kind == words)?];
        Some((words, Times { count, total, longest: longest.min(total) }))
    }

    /// Nothing of it is known.
    pub(crate) fn forget(&mut self) {
        *self = Self::default();
    }

    /// The parts with their words, the longest first.
    pub fn parts(&self) -> [(Nanos, &'static str); 5] {
        let mut parts = [
            (self.client_thinking_ns, "the client's application thinking"),
            (self.server_thinking_ns, "the server's application thinking"),
            (self.client_pausing_ns, "pauses of the client's application"),
            (self.server_pausing_ns, "pauses of the server's application"),
            (self.round_trips_ns, "round trips of a dialogue"),
        ];
        parts.sort_by_key(|p| std::cmp::Reverse(p.0));
        parts
    }
}
