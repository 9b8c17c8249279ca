//! Which side took the time while nothing was ready to be sent: a side that had been asked and thought, a side that paused within what it
//! sent, or the path that question and answer crossed.

use record::Nanos;
use serde::Serialize;

/// The time without data, by who was waited for. Adds up to the application's share of the duration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
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
    /// Waited for, up to an ACK or a window: the next data show who was waited for.
    #[serde(skip)]
    open: u64,
    /// The longest pauses, the longest first.
    #[serde(serialize_with = "known")]
    pub longest: [Pause; 3],
}

/// One time without data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Pause {
    /// Who was waited for: `client`, `server`.
    pub who: &'static str,
    /// It had been asked, and did not merely send no more.
    pub thinking: bool,
    /// How long, the path not counted.
    pub ns: Nanos,
    /// The last packet with data before it.
    pub from_packet: u64,
    /// The packet that ended it.
    pub to_packet: u64,
}

fn known<S: serde::Serializer>(pauses: &[Pause; 3], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(pauses.iter().filter(|p| p.ns > Nanos::ZERO))
}

impl Idle {
    /// `time` went by until an ACK or a window came, and goes on.
    pub(crate) fn wait(&mut self, time: u64) {
        self.open = self.open.saturating_add(time);
    }

    /// Whether such a time is to be given to a side by the next data.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.open > 0
    }

    /// `time` went by until a packet of the client (`who` 0) or the server, of which up to `path` is the round trip.
    pub(crate) fn add(&mut self, who: usize, thinking: bool, time: u64, path: u64, packets: [u64; 2]) {
        let time = time.saturating_add(std::mem::take(&mut self.open));
        let trip = time.min(path);
        let rest = Nanos(time - trip);
        self.round_trips_ns += Nanos(trip);
        let sum = match (who, thinking) {
            (0, true) => &mut self.client_thinking_ns,
            (0, false) => &mut self.client_pausing_ns,
            (_, true) => &mut self.server_thinking_ns,
            (_, false) => &mut self.server_pausing_ns,
        };
        *sum += rest;
        // What no packet ended is in the sum alone.
        if rest > self.longest[2].ns && packets[1] > 0 {
            self.keep(who, thinking, rest, packets);
        }
    }

    #[cold]
    fn keep(&mut self, who: usize, thinking: bool, ns: Nanos, [from_packet, to_packet]: [u64; 2]) {
        let who = if who == 0 { "client" } else { "server" };
        self.longest[2] = Pause { who, thinking, ns, from_packet, to_packet };
        self.longest.sort_by_key(|p| std::cmp::Reverse(p.ns));
    }

    /// The time that the client (0) or the server thought, which is not known to be any: something nearer than it acknowledges, and the
    /// path beyond that is in it.
    pub(crate) fn take_thinking(&mut self, who: usize) -> u64 {
        let (thinking, name) = match who {
            0 => (&mut self.client_thinking_ns, "client"),
            _ => (&mut self.server_thinking_ns, "server"),
        };
        self.longest = self.longest.map(|p| if p.thinking && p.who == name { Pause::default() } else { p });
        self.longest.sort_by_key(|p| std::cmp::Reverse(p.ns));
        std::mem::take(&mut thinking.0)
    }

    /// So much of the pauses is not known to be any: those of the client (0) or the server first, the side that ended it.
    pub(crate) fn take_pauses(&mut self, mut time: u64, ended_by: usize) {
        let mut sides = [&mut self.client_pausing_ns, &mut self.server_pausing_ns];
        sides.rotate_left(ended_by);
        for pauses in sides {
            let taken = pauses.0.min(time);
            (pauses.0, time) = (pauses.0 - taken, time - taken);
        }
        self.longest = self.longest.map(|p| if p.thinking { p } else { Pause::default() });
        self.longest.sort_by_key(|p| std::cmp::Reverse(p.ns));
    }

    /// Makes the parts add up to the application's share: what its last packets left open are pauses of the sender `who`, and what was
    /// found to be an ACK's delay afterwards is none.
    pub(crate) fn add_up_to(&mut self, application: Nanos, who: usize) {
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
