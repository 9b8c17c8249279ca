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
    /// `time` went by until a packet of the client (`who` 0) or the server, of which `path` is the round trip.
    pub(crate) fn add(&mut self, who: usize, thinking: bool, time: u64, path: u64, packets: [u64; 2]) {
        let trip = if thinking { time.min(path) } else { 0 };
        let rest = Nanos(time - trip);
        self.round_trips_ns += Nanos(trip);
        let sum = match (who, thinking) {
            (0, true) => &mut self.client_thinking_ns,
            (0, false) => &mut self.client_pausing_ns,
            (_, true) => &mut self.server_thinking_ns,
            (_, false) => &mut self.server_pausing_ns,
        };
        *sum += rest;
        let pause = Pause {
            who: if who == 0 { "client" } else { "server" },
            thinking,
            ns: rest,
            from_packet: packets[0],
            to_packet: packets[1],
        };
        if rest > self.longest[2].ns {
            self.longest[2] = pause;
            self.longest.sort_by_key(|p| std::cmp::Reverse(p.ns));
        }
    }

    /// So much of the pauses is not known to be any.
    pub(crate) fn take_pauses(&mut self, mut time: u64) {
        for pauses in [&mut self.client_pausing_ns, &mut self.server_pausing_ns] {
            let taken = pauses.0.min(time);
            (pauses.0, time) = (pauses.0 - taken, time - taken);
        }
        self.longest = self.longest.map(|p| if p.thinking { p } else { Pause::default() });
        self.longest.sort_by_key(|p| std::cmp::Reverse(p.ns));
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
