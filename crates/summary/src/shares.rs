//! How the time of one type of record is divided among its legs, in all and on the busiest
//! connections.

use std::net::SocketAddr;

use record::{ConnectionId, Leg};

use crate::{LEGS, SendFigures, TimedKind, TraceSummary};

/// The time of all records, or of one connection, by leg.
#[derive(Clone, Debug)]
pub struct Divided {
    /// The connection, with its ends where they are known; `None` for all together.
    pub of: Option<(ConnectionId, Option<(SocketAddr, SocketAddr)>)>,
    /// How many records.
    pub n: u64,
    /// All time: that of the legs, and of sends what is in none of them; above zero.
    whole: u128,
    sums: [u128; LEGS],
}

impl Divided {
    fn new(
        kind: TimedKind,
        of: Option<(ConnectionId, Option<(SocketAddr, SocketAddr)>)>,
        n: u64,
        (sums, all): ([u128; LEGS], u128),
    ) -> Self {
        Self { of, n, whole: all.max(kind.adding().map(|(leg, _)| sums[leg]).sum()), sums }
    }

    /// A leg's share of the time; 0 where it took none.
    pub fn share(&self, leg: usize) -> f64 {
        self.sums[leg] as f64 / self.whole as f64
    }

    /// From where to where a leg reaches, if the legs lie one behind the other: shares of the time.
    pub fn reach(&self, kind: TimedKind, leg: usize) -> [f64; 2] {
        let before: u128 = kind.adding().take_while(|(other, _)| *other < leg).map(|(other, _)| self.sums[other]).sum();
        [before, before + self.sums[leg]].map(|time| time as f64 / self.whole as f64)
    }
}

/// How the time of all records of one type is divided, and that of so many of the busiest
/// connections where there are several; those that took no time are left out.
pub fn divided(summary: &TraceSummary, kind: TimedKind, connections: usize) -> Vec<Divided> {
    let of_sends = |sends: &SendFigures| {
        let mut sums = [0; LEGS];
        sums.iter_mut().zip(Leg::ALL).for_each(|(sum, leg)| *sum = sends.leg(leg).sum());
        (sums, sends.time())
    };
    let all = match kind {
        TimedKind::Sends => of_sends(summary.total()),
        _ => {
            let mut sums = [0; LEGS];
            sums.iter_mut().zip(summary.times(kind)).for_each(|(sum, (_, times))| *sum = times.sum());
            (sums, 0)
        }
    };
    let mut rows = vec![Divided::new(kind, None, summary.n(kind), all)];
    match summary.tallies(kind) {
        Some(tallies) => rows.extend(
            tallies
                .sorted()
                .into_iter()
                .take(connections)
                .map(|tally| Divided::new(kind, Some((tally.flow, tally.ends)), tally.n, (tally.sums, 0))),
        ),
        None => rows.extend(summary.connections().into_iter().take(connections).map(|c| {
            let of = (c.connection.id, Some((c.connection.local, c.connection.remote)));
            Divided::new(kind, Some(of), c.sends.sends, of_sends(&c.sends))
        })),
    }
    // One connection alone is all there is.
    if rows.len() == 2 {
        rows.truncate(1);
    }
    rows.retain(|row| row.whole > 0);
    rows
}
