//! The spin bit (RFC 9000, section 17.4): the client turns it over when the server's packets have
//! it as the client last sent it, the server sends it as it came, so that it changes once in a
//! round trip. A side that does not take part sends anything.

use record::Nanos;
use record::conversation::Way;
use record::quic::Spin as Seen;

use crate::distribution::Distribution;

/// Packets of a side, and turns of the client's, without which nothing is said.
const PACKETS: u32 = 8;
const TURNS: u32 = 4;
/// What a client takes to answer varies by this much, ns.
const AT_ONCE: u64 = 100_000;

/// What has been seen of it.
#[derive(Clone, Debug)]
pub(super) struct Spin {
    /// By direction: its latest value, and packets.
    values: [Option<bool>; 2],
    packets: [u32; 2],
    /// Its turns by direction, and when the latest was, ns.
    turns: [u32; 2],
    turned: [u64; 2],
    /// Turns that a bit which spins would not make, and those that it would have made.
    odd: u32,
    /// The client has not turned though it must have had the server's turn.
    lags: bool,
    trips: Distribution,
    /// From the capture to the server and back, and to the client: the shortest, ns.
    pub(super) shortest: [u64; 2],
}

impl Default for Spin {
    fn default() -> Self {
        Self {
            values: [None; 2],
            packets: [0; 2],
            turns: [0; 2],
            turned: [0; 2],
            odd: 0,
            lags: false,
            trips: Distribution::default(),
            shortest: [u64::MAX; 2],
        }
    }
}

impl Spin {
    pub(super) fn take(&mut self, way: Way, value: bool, at: u64) {
        let (own, other) = (way as usize, !way as usize);
        self.packets[own] = self.packets[own].saturating_add(1);
        match self.values[own].replace(value) {
            None => return,
            Some(before) if before == value => return self.stays(way, value, at),
            Some(_) => {}
        }
        self.lags &= way != Way::ToServer;
        self.turns[own] = self.turns[own].saturating_add(1);
        // The client turns away from what the server sends, the server to what the client sends.
        let is_due = self.values[other] == Some(value ^ (way == Way::ToServer));
        if is_due && self.turned[other] > 0 && self.turned[other] >= self.turned[own] {
            let took = at.saturating_sub(self.turned[other]);
            // A turn of the server's answers one of the client's: what lies between is the server's
            // side of the path.
            let side = &mut self.shortest[other];
            *side = (*side).min(took);
            if way == Way::ToServer && self.turned[own] > 0 {
                self.trips.add(Nanos(at.saturating_sub(self.turned[own])));
            }
        } else if self.turned[own] > 0 {
            self.odd += 1;
        }
        self.turned[own] = at;
    }

    /// A packet of the client has the value of the one before: it would not, had it come after the
    /// server's turn. A client that sends at random and one packet in a round trip shows only so.
    fn stays(&mut self, way: Way, value: bool, at: u64) {
        let [there, back] = [Way::ToServer, Way::ToClient].map(|way| way as usize);
        let is_due = way == Way::ToServer && self.values[back] == Some(value) && self.turned[back] > self.turned[there];
        let trip = self.shortest[back];
        if is_due && trip != u64::MAX && !self.lags {
            self.lags = at.saturating_sub(self.turned[back]) > trip + (trip / 4).max(AT_ONCE);
            self.odd += u32::from(self.lags);
        }
    }

    /// Whether it spins.
    pub(super) fn seen(&self) -> Seen {
        if self.packets.iter().any(|packets| *packets < PACKETS) {
            return Seen::NotKnown;
        }
        let turns = self.turns[0] + self.turns[1];
        match turns {
            0 => Seen::Still,
            // A side that sends one value, and one that spins alone.
            _ if self.turns[0] == 0 || self.turns[1] == 0 => Seen::Still,
            // Packets that overtake others make turns of their own.
            _ if self.odd * 16 > turns => Seen::Random,
            _ if self.turns[Way::ToServer as usize] < TURNS => Seen::NotKnown,
            _ => Seen::Spins,
        }
    }

    /// The round trips that it showed.
    pub(super) fn trips(&self) -> Option<&Distribution> {
        Some(&self.trips).filter(|_| self.seen() == Seen::Spins)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Packets every millisecond between two that are 10 ms and 20 ms, there and back, from the
    /// capture.
    fn spun(client: impl Fn(u64, bool) -> bool, server: impl Fn(u64, bool) -> bool) -> Spin {
        let mut spin = Spin::default();
        let (mut there, mut back) = (vec![false; 1_000], vec![false; 1_000]);
        for t in 40..1_000usize {
            there[t] = client(t as u64, back[t - 15]);
            back[t] = server(t as u64, there[t - 15]);
            spin.take(Way::ToServer, there[t - 5], t as u64 * MS);
            spin.take(Way::ToClient, back[t - 10], t as u64 * MS);
        }
        spin
    }

    #[test]
    fn a_bit_that_spins_shows_round_trips_and_both_parts_of_them() {
        let spin = spun(|_, back| !back, |_, there| there);
        assert_eq!(spin.seen(), Seen::Spins);
        let trips = spin.trips().unwrap();
        assert_eq!((trips.min(), trips.quantile(0.5)), (Some(Nanos(30 * MS)), Some(Nanos(30 * MS))));
        assert_eq!(spin.shortest, [20 * MS, 10 * MS]);
    }

    #[test]
    fn a_bit_that_does_not_spin_shows_nothing() {
        // SplitMix64.
        let mixed = |n: u64| {
            let n = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let n = (n ^ n >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            (n ^ n >> 27).wrapping_mul(0x94d0_49bb_1331_11eb)
        };
        let random = |salt: u64| move |t: u64, _| mixed(t + salt * 1_000_000) >> 63 == 1;
        for salt in 0..50 {
            assert_eq!(spun(random(salt), random(salt + 100)).seen(), Seen::Random, "{salt}");
            assert_eq!(spun(random(salt), |_, there| there).seen(), Seen::Random, "{salt}");
            assert_eq!(spun(|_, back| !back, random(salt)).seen(), Seen::Random, "{salt}");
        }
        assert_eq!(spun(|_, _| true, |_, _| false).seen(), Seen::Still);
        assert_eq!(spun(|_, back| !back, |_, _| false).seen(), Seen::Still);
        assert_eq!(Spin::default().seen(), Seen::NotKnown);
        // Question and answer by turns, 1 to 2 ms and 40 ms apart.
        for salt in 0..50 {
            let (mut honest, mut at_random, mut value, mut at) = (Spin::default(), Spin::default(), false, 0);
            for n in 0..60 {
                at += MS + mixed(n + salt * 1_000) % MS;
                value = !value;
                honest.take(Way::ToServer, value, at);
                at_random.take(Way::ToServer, random(salt)(n, false), at);
                at += 40 * MS;
                honest.take(Way::ToClient, value, at);
                at_random.take(Way::ToClient, random(salt)(n, false), at);
            }
            assert_eq!((honest.seen(), at_random.seen()), (Seen::Spins, Seen::Random), "{salt}");
        }
    }
}
