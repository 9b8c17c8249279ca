//! What a way of the path can carry, and what it did.

use std::collections::BTreeMap;

use lab::{Direction, ETHERNET_OVERHEAD, SMALLEST_ON_WIRE};

use crate::packet::Packet;

/// One way of the path over time.
pub(crate) struct Capacity {
    /// Bytes a second on the wire from then on; `None`: nothing waits.
    rates: Vec<(u64, Option<f64>)>,
    /// What left the bottleneck, of everybody.
    all: Used,
    /// The same of each connection, by the port of its client.
    own: BTreeMap<u16, Used>,
}

/// When something left the bottleneck, and the bytes on the wire until then.
#[derive(Default)]
struct Used(Vec<(u64, f64)>);

impl Used {
    fn add(&mut self, at: u64, bytes: f64) {
        let before = self.0.last().map_or(0.0, |u| u.1);
        self.0.push((at, before + bytes));
    }

    fn within(&self, from: u64, to: u64) -> f64 {
        let until = |time: u64| match self.0.partition_point(|u| u.0 <= time) {
            0 => 0.0,
            n => self.0[n - 1].1,
        };
        until(to) - until(from)
    }
}

/// The way is in use where so much of what it can carry is: little is left to gain, and BBR stays
/// below the whole.
const FULL: f64 = 0.85;
/// Looks at the way over less than this, ns, see only chance.
const SHORTEST: u64 = 10_000_000;
const LONGEST: u64 = 1_000_000_000;
/// Packets on the wire that a look is to hold.
const FEWEST: f64 = 4.0;

impl Capacity {
    /// From what the path was, and the capture at the end to which it goes. Packets from `source`
    /// went this way.
    pub(crate) fn of(path: &[(u64, [Direction; 2])], way: usize, mtu: u32, behind: &[Packet], source: [u8; 4]) -> Self {
        let rates = path.iter().map(|(at, ways)| (*at, ways[way].rate.map(|r| r.bits() as f64 / 8.0)));
        let at_time = |time: u64| &path.iter().rev().find(|(at, _)| *at <= time).unwrap_or(&path[0]).1[way];
        let (mut all, mut own) = (Used::default(), BTreeMap::<u16, Used>::new());
        for p in behind.iter().filter(|p| p.data.get(26..30) == Some(&source)) {
            let direction = at_time(p.truly_at);
            // What was lost behind the queue took its time there as well.
            let bytes = f64::from(on_wire(p.original, mtu)) / (1.0 - direction.loss.share()).max(0.05);
            let left = p.truly_at.saturating_sub(direction.delay.0);
            all.add(left, bytes);
            own.entry(p.client_port().unwrap_or_default()).or_default().add(left, bytes);
        }
        Self { rates: rates.collect(), all, own }
    }

    /// Whether it was in use around `at`, for as long as a round trip takes.
    pub(crate) fn is_full(&self, at: u64, round_trip: u64) -> bool {
        let Some((from, to)) = self.around(at, round_trip) else { return false };
        self.all.within(from, to) >= FULL * self.carries(from, to)
    }

    /// Whether the connection of this client's port had at least half of its fair share then.
    pub(crate) fn has_its_share(&self, port: u16, at: u64, round_trip: u64) -> bool {
        let Some((from, to)) = self.around(at, round_trip) else { return false };
        let own = self.own.get(&port).map_or(0.0, |own| own.within(from, to));
        let active = self.own.values().filter(|used| used.within(from, to) > 0.0).count();
        own > 0.0 && own >= self.all.within(from, to) / active as f64 / 2.0
    }

    /// How much of its fair share of what the way can carry the connection of this client's port
    /// had then, 0 to 1.
    pub(crate) fn used_share(&self, port: u16, at: u64, round_trip: u64) -> f64 {
        let Some((from, to)) = self.around(at, round_trip) else { return 0.0 };
        let own = self.own.get(&port).map_or(0.0, |own| own.within(from, to));
        let active = self.own.values().filter(|used| used.within(from, to) > 0.0).count();
        (own * active as f64 / self.carries(from, to).max(1.0)).min(1.0)
    }

    /// The time around a moment that is looked at; `None` where nothing ever waits.
    fn around(&self, at: u64, round_trip: u64) -> Option<(u64, u64)> {
        let packets = FEWEST * 1_538.0 / self.rate(at)? * 1e9;
        let window = round_trip.max(packets as u64).clamp(SHORTEST, LONGEST);
        Some((at.saturating_sub(window / 2), at + window / 2))
    }

    fn rate(&self, at: u64) -> Option<f64> {
        self.rates.iter().rev().find(|(from, _)| *from <= at).or(self.rates.first())?.1
    }

    /// The bytes that it can carry from one moment to another.
    fn carries(&self, from: u64, to: u64) -> f64 {
        let mut bytes = 0.0;
        for (place, (since, rate)) in self.rates.iter().enumerate() {
            let since = if place == 0 { 0 } else { *since };
            let until = self.rates.get(place + 1).map_or(u64::MAX, |next| next.0);
            let time = until.min(to).saturating_sub(since.max(from));
            if time > 0 {
                bytes += rate.unwrap_or(f64::INFINITY) * time as f64 / 1e9;
            }
        }
        bytes
    }
}

/// The bytes on the wire of a frame, which may hold several segments.
fn on_wire(frame: u32, mtu: u32) -> u32 {
    /// Ethernet's header, which a capture shows.
    const HEADER: u32 = 14;
    /// IP's and TCP's, with timestamps.
    const HEADERS: u32 = 52;
    let packet = frame.saturating_sub(HEADER);
    let segments = packet.saturating_sub(HEADERS).div_ceil(mtu - HEADERS).max(1);
    packet + (segments - 1) * HEADERS + (segments * ETHERNET_OVERHEAD).max(SMALLEST_ON_WIRE.saturating_sub(packet))
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab::BitRate;

    #[test]
    fn a_way_is_full_while_it_carries_what_it_can() {
        let way = Direction { rate: Some(BitRate::mbit(8)), ..Direction::default() };
        let ways = [way, Direction::default()];
        // A full packet each 2 ms for 0.1 s, which is three quarters of a megabyte a second; then
        // each 1.538 ms, which is all.
        let mut at = 1_000_000_000;
        let mut packets = Vec::new();
        for n in 0..150 {
            at += if n < 50 { 2_000_000 } else { 1_538_000 };
            let mut data = vec![0; 64];
            data[26..30].copy_from_slice(&[10, 77, 0, 1]);
            packets.push(Packet { at, truly_at: at, original: 1_514, data });
        }
        let there = Capacity::of(&[(0, ways.clone())], 0, 1_500, &packets, [10, 77, 0, 1]);
        assert!(!there.is_full(1_050_000_000, 40_000_000));
        assert!(there.is_full(1_200_000_000, 40_000_000));
        let back = Capacity::of(&[(0, ways)], 1, 1_500, &packets, [10, 77, 0, 2]);
        assert!(!back.is_full(1_200_000_000, 40_000_000));
    }
}
