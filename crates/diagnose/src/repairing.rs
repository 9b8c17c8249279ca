//! What the path does while losses are repaired: whether it carries as much as it can.
//!
//! A full path that drops what its queue has no room for goes on carrying data at its rate while
//! they are repaired: fewer losses would not make the transfer faster, so the time is the path's.
//! That shows in round trips, which are those of a queue then, or in the rate, which is that of
//! rounds in which one stood, or in deliveries that come as evenly as a bottleneck gives them out
//! which never rests.

use crate::link;
use crate::rtt::least_queue;

/// Deliveries in a piece at least, so that one silence among them stands out.
const FEWEST: usize = 4;
/// And at most.
const MOST: usize = 64;
/// Pieces that wait for the path's rate to be known; when there are more, neighbours are joined.
const WAITING: usize = 64;

/// A delivery that came so many times later than others came after a silence, in which a timer was
/// waited for: that time is the loss's.
const SILENCE: u64 = 4;

/// A path that is full shows so much of its rate: repairs that were not needed cross it too.
const FULL: f64 = 0.75;

/// A link is in use that carries so much of its rate.
const IN_USE: f64 = 0.85;

/// Deliveries as even as this, from the quickest to the slowest byte, follow one another through a
/// bottleneck that never rests.
const EVEN: f64 = 1.25;

/// The time up to one delivery.
#[derive(Clone, Copy, Debug)]
struct Interval {
    took: u64,
    /// How much of it was given to loss recovery.
    lost: u64,
    bytes: u64,
    /// See [`Path::reported`].
    reported: bool,
}

/// A piece that waits for the path's rate to be known.
#[derive(Clone, Copy, Debug)]
struct Piece {
    /// Its rate without silences, kB/s, and how much of that time was given to loss recovery, ns.
    rate: f64,
    lost: u64,
    /// All of it: bytes, how long it took, and how much of that was given to loss recovery.
    bytes: u64,
    took: u64,
    all_lost: u64,
    /// It was below the path's rate, as far as that had been seen.
    below: bool,
    /// Over in less than a round trip, while more was out: a window lets no more through in one
    /// round trip than in another, but not evenly in the course of it.
    within: bool,
}

impl Piece {
    /// It and the next one.
    fn and(self, next: Self) -> Self {
        let took = self.took + next.took;
        Self {
            rate: (self.rate * self.took as f64 + next.rate * next.took as f64) / took.max(1) as f64,
            lost: self.lost + next.lost,
            bytes: self.bytes + next.bytes,
            took,
            all_lost: self.all_lost + next.all_lost,
            below: self.below && next.below,
            within: self.within && next.within,
        }
    }

    /// How much of its time of loss recovery was the path's, whose slowest link has this rate,
    /// bytes a nanosecond: without losses, what the link had still room for would have been gained.
    fn divided(&self, link: f64) -> u64 {
        let used = self.bytes as f64 / (link * self.took.max(1) as f64);
        if used >= IN_USE { self.all_lost } else { (self.all_lost as f64 * used) as u64 }
    }
}

/// How fast deliveries followed one another, kB/s: the three highest such rates.
///
/// Nothing follows another packet sooner than the slowest link lets it, so the path's rate is not
/// above the highest of them if any two were sent together. What comes in a bunch raises it, so the
/// highest is left out.
#[derive(Clone, Copy, Debug, Default)]
struct Spaced {
    highest: [f64; 3],
    /// A rate that the path's is not below.
    reached: f64,
}

impl Spaced {
    /// So many bytes were delivered `took` after those before, on a path whose handshake took
    /// `round`. They may have been sent when the ones before were acknowledged, and then the round
    /// trip is no time of the link's; where it is as long as theirs, that cannot be told.
    fn take(&mut self, bytes: u64, took: u64, round: u64) {
        const SHORT: u64 = 4;
        self.reached = self.reached.max(bytes as f64 * 1e6 / took.max(1) as f64);
        let link = if took <= round {
            took
        } else if round <= took / SHORT {
            took - round
        } else {
            return;
        };
        let mut rate = bytes as f64 * 1e6 / link.max(1) as f64;
        for place in &mut self.highest {
            if rate > *place {
                std::mem::swap(place, &mut rate);
            }
        }
    }

    /// A rate that the path's is not above, kB/s; 0 where that is not known.
    fn bound(&self) -> f64 {
        let [first, second, third] = self.highest;
        let known = third > 0.0 && self.reached <= first;
        if known { second } else { 0.0 }
    }
}

/// One direction's repairs, in pieces of a round trip.
#[derive(Clone, Debug, Default)]
pub(crate) struct Repairing {
    /// The last delivery, or the beginning; 0 where nothing is being repaired.
    last_at: u64,
    /// What was delivered by then, as a position in the stream.
    delivered: u64,
    /// What all time of loss recovery was then.
    lost: u64,
    intervals: Vec<Interval>,
    /// How long they took in all.
    length: u64,
    /// The end of the data that were reported to have come out of order.
    highest: u64,
    /// The least time by which the way was longer than at rest, beyond the capture and before it.
    excess: [Option<u64>; 2],
    /// What a delivery took in the piece before, ns.
    usual: u64,
    spaced: Spaced,
    waiting: Vec<Piece>,
}

/// How far data have come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress {
    pub(crate) now: u64,
    /// How much was delivered, as a position in the stream.
    pub(crate) delivered: u64,
    /// All time of loss recovery so far.
    pub(crate) lost: u64,
}

/// What is known of the path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Path {
    /// Its round trip at rest.
    pub(crate) rest: u64,
    /// What it carried while a queue stood, kB/s; 0 where that was not seen.
    pub(crate) rate: u32,
    /// More than one segment is out: no delivery waits for the one before to be acknowledged.
    pub(crate) several: bool,
    /// An ACK reports data beyond what is missing. Where none does, a sender without SACK repairs
    /// one segment a round trip (RFC 6582), which looks as even as a full path.
    pub(crate) reported: bool,
    /// The round trip at rest of packets without payload, as the handshake shows; 0 where it was
    /// not seen.
    pub(crate) handshake: u64,
}

impl Repairing {
    /// Whether a piece is under way.
    pub(crate) fn is_open(&self) -> bool {
        self.last_at > 0
    }

    /// A piece begins.
    pub(crate) fn open(&mut self, at: Progress, highest: u64) {
        (self.last_at, self.delivered, self.lost) = (at.now.max(1), at.delivered, at.lost);
        self.highest = self.highest.max(highest);
        self.excess = [None; 2];
        self.intervals.clear();
        self.length = 0;
    }

    /// What looked like repairs was none.
    pub(crate) fn forget(&mut self) {
        self.last_at = 0;
    }

    /// So much time, in which nothing came, is found to be loss recovery: no path was in use then.
    pub(crate) fn found_lost(&mut self, time: u64) {
        self.lost = self.lost.saturating_add(time);
    }

    /// Whether none of the data that were reported to have come out of order lie beyond this.
    pub(crate) fn is_raised_by(&self, highest: u64) -> bool {
        highest > self.highest
    }

    /// Whether nothing has changed with so much delivered, and reported up to there, and the piece
    /// is too short to be judged.
    pub(crate) fn is_unmoved(&self, delivered: u64, highest: u64) -> bool {
        delivered <= self.delivered && !self.is_raised_by(highest) && self.intervals.len() < FEWEST
    }

    /// Data up to a position came out of order.
    pub(crate) fn raise(&mut self, highest: u64) {
        self.highest = self.highest.max(highest);
    }

    /// The part of a round trip beyond the capture was so much longer than at rest.
    pub(crate) fn longer_beyond(&mut self, excess: u64) {
        self.excess[0] = Some(self.excess[0].map_or(excess, |e| e.min(excess)));
    }

    /// The part before it was, where the sender is.
    pub(crate) fn longer_before(&mut self, excess: u64) {
        self.excess[1] = Some(self.excess[1].map_or(excess, |e| e.min(excess)));
    }

    /// Data may have been delivered.
    pub(crate) fn take(&mut self, at: Progress, path: Path) {
        if at.delivered > self.delivered {
            let took = at.now.saturating_sub(self.last_at);
            self.length += took;
            if path.handshake > 0 {
                self.spaced.take(at.delivered - self.delivered, took, path.handshake);
            }
            self.intervals.push(Interval {
                took,
                lost: at.lost.saturating_sub(self.lost),
                bytes: at.delivered - self.delivered,
                reported: path.reported,
            });
            (self.last_at, self.delivered, self.lost) = (at.now.max(1), at.delivered, at.lost);
        }
    }

    /// Whether the piece is long enough to be judged, of a path with this round trip.
    pub(crate) fn is_whole(&self, round: u64) -> bool {
        self.intervals.len() >= MOST || self.intervals.len() >= FEWEST && self.length >= round
    }

    /// The piece under way ends: how much of the time of loss recovery in it, and in those before,
    /// was the path's.
    pub(crate) fn close(&mut self, path: Path) -> u64 {
        self.last_at = 0;
        let mut took: Vec<u64> = self.intervals.iter().map(|i| i.took).collect();
        took.sort_unstable();
        // A silence shows beside others only.
        let usual = if took.len() > 1 { took[took.len() / 4] } else { self.usual };
        self.usual = usual;
        let all = |of: fn(&Interval) -> u64| self.intervals.iter().map(of).sum::<u64>();
        let (all_bytes, all_took, all_lost) = (all(|i| i.bytes), all(|i| i.took), all(|i| i.lost));
        let reported = 2 * self.intervals.iter().filter(|i| i.reported).count() >= self.intervals.len();
        let (mut time, mut bytes, mut lost) = (0, 0, 0);
        let mut each: Vec<f64> = Vec::new();
        for i in self.intervals.drain(..).filter(|i| i.took <= usual.saturating_mul(SILENCE)) {
            (time, bytes, lost) = (time + i.took, bytes + i.bytes, lost + i.lost);
            each.push(i.took as f64 / i.bytes as f64);
        }
        if path.several && reported && each.len() >= FEWEST && never_rests(&each) {
            return lost;
        }
        if self.excess.iter().flatten().sum::<u64>() > least_queue(path.rest) {
            return lost;
        }
        if self.waiting.len() >= WAITING {
            self.waiting =
                self.waiting.chunks(2).map(|two| two.iter().copied().reduce(Piece::and).unwrap_or(two[0])).collect();
        }
        if all_lost > 0 {
            let within = path.several && reported && all_took < path.rest;
            let rate = bytes as f64 * 1e6 / time.max(1) as f64;
            self.waiting.push(Piece { rate, lost, bytes: all_bytes, took: all_took, all_lost, below: false, within });
        }
        if path.rate == 0 {
            return 0;
        }
        let full = self.at_paths_rate(path.rate, 0.0);
        self.waiting.retain(|p| p.rate < f64::from(path.rate) * FULL);
        self.waiting.iter_mut().for_each(|p| p.below = true);
        full
    }

    /// How much of the time of the pieces that wait was the path's, which carried so much while a
    /// queue stood, kB/s, and whose slowest link has this rate, bytes a nanosecond; 0 where one of
    /// them was not seen.
    pub(crate) fn at_paths_rate(&self, path: u32, link: f64) -> u64 {
        let link = if link > 0.0 { link } else { self.link() };
        if link > 0.0 {
            return self.waiting.iter().map(|p| p.divided(link)).sum();
        }
        if path > 0 {
            let full = |p: &&Piece| !p.below && p.rate >= f64::from(path) * FULL;
            return self.waiting.iter().filter(full).map(|p| p.lost).sum();
        }
        let bound = self.spaced.bound();
        let used = |p: &Piece| (p.bytes as f64 * 1e6 / (bound * p.took.max(1) as f64)).min(1.0);
        let divided = |p: &Piece| if bound > 0.0 { (p.all_lost as f64 * used(p)) as u64 } else { 0 };
        self.waiting.iter().map(divided).sum()
    }

    /// The rate of the slowest link on the way, as pieces show it that were as fast time and again,
    /// and none faster: bytes a nanosecond, 0 where they do not.
    fn link(&self) -> f64 {
        let within = self.waiting.iter().filter(|p| p.within);
        let mut rates: Vec<f32> = within.map(|p| p.bytes as f32 * 1e3 / p.took.max(1) as f32).collect();
        link::highest(&mut rates).map_or(0.0, |rate| f64::from(rate) / 1e3)
    }
}

/// Whether deliveries, of which each byte took so long, come through a bottleneck that never rests:
/// one after the other, or with whole packets of other connections between them.
fn never_rests(each: &[f64]) -> bool {
    /// So many others at most, and how near they are to a whole number.
    const OTHERS: f64 = 4.0;
    const NEAR: f64 = 0.06;
    let quickest = each.iter().copied().fold(f64::MAX, f64::min);
    each.iter().map(|e| e / quickest).all(|times| {
        let whole = times.round();
        times <= EVEN || whole <= OTHERS && (times - whole).abs() <= NEAR
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// A repair in which a segment is delivered after each of these times, ms; how much of it is
    /// the path's, ms.
    fn of_path(gaps: &[u64], path: Path, excess: Option<u64>) -> u64 {
        let mut repairing = Repairing::default();
        let mut at = Progress { now: 1_000 * MS, delivered: 10_000, lost: 0 };
        repairing.open(at, 0);
        for gap in gaps {
            at = Progress { now: at.now + gap * MS, delivered: at.delivered + 1_000, lost: at.lost + gap * MS };
            if let Some(excess) = excess {
                repairing.longer_beyond(excess * MS);
            }
            repairing.take(at, path);
        }
        assert!(repairing.is_whole(40 * MS));
        let full = repairing.close(path);
        (full + repairing.at_paths_rate(path.rate, 0.0)) / MS
    }

    #[test]
    fn a_repair_at_the_paths_rate_is_the_paths_time() {
        let path = Path { rest: 20 * MS, rate: 100, several: false, reported: true, handshake: 0 };
        assert_eq!(of_path(&[10, 10, 10, 10], path, None), 40);
        assert_eq!(of_path(&[20, 20, 20, 20], path, None), 0);
        assert_eq!(of_path(&[10, 10, 10, 300, 10], path, None), 40, "the timer's time is the loss's");
    }

    #[test]
    fn even_deliveries_show_a_path_that_never_rests() {
        let path = Path { rest: 20 * MS, rate: 0, several: true, reported: true, handshake: 0 };
        assert_eq!(of_path(&[30, 31, 30, 33], path, None), 124);
        assert_eq!(of_path(&[30, 45, 30, 33], path, None), 0);
        assert_eq!(of_path(&[30, 31, 30, 33], Path { several: false, ..path }, None), 0, "each waited for an ACK");
    }

    #[test]
    fn packets_of_others_between_them_show_it_too() {
        let path = Path { rest: 20 * MS, rate: 0, several: true, reported: true, handshake: 0 };
        assert_eq!(of_path(&[27, 55, 27, 82], path, None), 191);
        assert_eq!(of_path(&[27, 41, 27, 82], path, None), 0, "half a packet");
    }

    #[test]
    fn a_path_of_unknown_rate_has_the_time_in_which_its_slowest_link_was_in_use() {
        // A handshake of 1 ms and a segment each 10 ms: it takes 9 ms at least.
        let path = Path { rest: 20 * MS, rate: 0, several: false, reported: true, handshake: MS };
        assert_eq!(of_path(&[10, 10, 10, 300, 10], path, None), 45);
        // Of rates near the handshake's round trip it cannot be told whose time it is.
        assert_eq!(of_path(&[10, 10, 10, 300, 10], Path { handshake: 8 * MS, ..path }, None), 0);
    }

    #[test]
    fn beside_the_links_rate_the_time_is_divided_by_its_use() {
        let path = Path { rest: 20 * MS, rate: 0, several: false, reported: true, handshake: 0 };
        let mut repairing = Repairing::default();
        let mut at = Progress { now: 1_000 * MS, delivered: 10_000, lost: 0 };
        // A hundred pieces of 40 ms, with a segment of 1,000 bytes each 10 ms.
        for _ in 0..100 {
            repairing.open(at, 0);
            for _ in 0..4 {
                let (now, lost) = (at.now + 10 * MS, at.lost + 10 * MS);
                at = Progress { now, delivered: at.delivered + 1_000, lost };
                repairing.take(at, path);
            }
            assert_eq!(repairing.close(path), 0);
        }
        assert!(repairing.waiting.len() <= WAITING);
        assert_eq!(repairing.at_paths_rate(0, 1.1e-4) / MS, 4_000, "in use");
        assert_eq!(repairing.at_paths_rate(0, 2e-4) / MS, 2_000);
    }

    #[test]
    fn a_rate_that_was_reached_bounds_what_silences_show() {
        // Deliveries as far apart as the handshake's round trip, and each 100 ms a timer.
        let path = Path { rest: 20 * MS, rate: 0, several: false, reported: true, handshake: 8 * MS };
        assert_eq!(of_path(&[10, 10, 100, 10, 100, 10, 100], path, None), 0);
    }

    #[test]
    fn a_queue_shows_in_round_trips_where_no_rate_is_known() {
        let path = Path { rest: 20 * MS, rate: 0, several: false, reported: true, handshake: 0 };
        assert_eq!(of_path(&[30, 30, 30, 30], path, Some(7)), 120);
        assert_eq!(of_path(&[30, 30, 30, 30], path, Some(5)), 0);
        assert_eq!(of_path(&[30, 30, 30, 30], path, None), 0);
    }
}
