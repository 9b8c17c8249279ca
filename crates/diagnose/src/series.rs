//! A transfer piece by piece in time, so that it can be compared with others over the same path.

use record::conversation::{Limit, Way};

/// The shortest piece is 2^26 ns, 67 ms: no round trip is much longer that a few packets fill.
const SHORTEST: u32 = 26;
/// Pieces at most; when there are more, neighbours are joined and the length doubles.
const MOST: usize = 64;

/// The limits that the others on the path say something of, and the application.
pub(crate) const LIMITS: [Limit; 7] = [
    Limit::SlowStart,
    Limit::CongestionWindow,
    Limit::ReceiveWindow,
    Limit::LossRecovery,
    Limit::Unknown,
    Limit::PathRate,
    Limit::Application,
];

/// The shortest piece that a time, ns, lies in. Numbers of two pieces that differ by 2^32 are 9
/// years apart.
#[inline(always)]
pub(crate) const fn piece(at: u64) -> u32 {
    (at >> SHORTEST) as u32
}

/// What a direction did in a piece, or up to some moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Part {
    /// Bytes that were delivered.
    pub(crate) bytes: i64,
    /// How long each of [`LIMITS`] was what limited it, ns. What a later packet shows may take some
    /// of it away again.
    pub(crate) times: [i64; LIMITS.len()],
}

impl Part {
    fn combine(&self, other: &Self, with: impl Fn(i64, i64) -> i64) -> Self {
        Self {
            bytes: with(self.bytes, other.bytes),
            times: std::array::from_fn(|i| with(self.times[i], other.times[i])),
        }
    }

    /// Both together.
    pub(crate) fn plus(&self, other: &Self) -> Self {
        self.combine(other, |a, b| a + b)
    }

    /// How long a limit was what limited it, ns.
    pub(crate) fn of(&self, limit: Limit) -> u64 {
        let place = LIMITS.into_iter().position(|l| l == limit);
        place.map_or(0, |i| self.times[i].max(0).cast_unsigned())
    }

    /// How long any of them was but the application, ns.
    pub(crate) fn busy(&self) -> u64 {
        LIMITS.into_iter().filter(|limit| *limit != Limit::Application).map(|limit| self.of(limit)).sum()
    }
}

/// A [`Part`] as it is kept, in half the room: a thousand connections at a time have 64 each.
#[derive(Clone, Copy, Debug, Default)]
struct Piece {
    bytes: f32,
    /// Of these, those that were spread over several pieces, and came at some moment.
    spread: f32,
    times: [f32; LIMITS.len()],
}

impl Piece {
    fn add(&mut self, part: &Part) {
        self.bytes += part.bytes as f32;
        self.times.iter_mut().zip(part.times).for_each(|(time, more)| *time += more as f32);
    }

    fn part(&self) -> Part {
        Part { bytes: self.bytes.round() as i64, times: self.times.map(|time| time.round() as i64) }
    }
}

/// The pieces of one direction.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    pub(crate) way: Way,
    /// What is not known of it is mostly one pace ([`Unclear::Pace`](crate::unclear::Unclear)).
    pub(crate) paced: bool,
    /// A piece is 2^shift ns long.
    shift: u32,
    /// The number of the first piece: its beginning divided by its length.
    first: u64,
    pieces: Vec<Piece>,
    /// What is in the pieces, up to which moment.
    told: Part,
    until: u64,
}

impl Series {
    /// One of direction `way`, which begins at `at`.
    pub(crate) fn new(way: Way, at: u64) -> Self {
        let (told, pieces) = (Part::default(), vec![Piece::default()]);
        Self { way, paced: false, shift: SHORTEST, first: at >> SHORTEST, pieces, told, until: at }
    }

    /// Takes what the direction has done up to `now`, since its beginning. What is new of it is
    /// spread evenly over the time since the last call.
    pub(crate) fn tell(&mut self, now: u64, all: &Part) {
        let (from, to) = (self.until, now.max(self.until));
        while (to >> self.shift) - self.first >= MOST as u64 {
            self.join();
        }
        let new = all.combine(&self.told, |all, told| all - told);
        (self.told, self.until) = (*all, to);
        let last = (to >> self.shift) - self.first;
        let needed = last as usize + 1;
        if needed > self.pieces.capacity() {
            // One, eight, all: each step leaves what was held before as a hole in memory.
            let room = if needed > MOST / 8 { MOST } else { MOST / 8 };
            self.pieces.reserve_exact(room.max(needed) - self.pieces.len());
        }
        self.pieces.resize(self.pieces.len().max(needed), Piece::default());
        let (shift, first) = (self.shift, self.first);
        let whole = (to - from).max(1) as f64;
        let mut given = Part::default();
        let begins = (from >> shift) - first;
        for place in begins..=last {
            // The last one gets what rounding has left.
            let end = if place == last { to } else { (first + place + 1) << shift };
            let share = if place == last { 1.0 } else { (end - from) as f64 / whole };
            let by_then = new.combine(&new, |new, _| (new as f64 * share) as i64);
            let more = by_then.combine(&given, |by_then, given| by_then - given);
            let piece = &mut self.pieces[place as usize];
            piece.add(&more);
            if last - begins > 1 {
                piece.spread += more.bytes as f32;
            }
            given = by_then;
        }
    }

    /// The moment up to which it goes.
    pub(crate) fn until(&self) -> u64 {
        self.until
    }

    /// How long a limit was what limited it, ns.
    pub(crate) fn time(&self, limit: Limit) -> u64 {
        self.told.of(limit)
    }

    /// Doubles the length of pieces.
    fn join(&mut self) {
        if self.first % 2 == 1 {
            self.pieces.insert(0, Piece::default());
        }
        for place in 0..self.pieces.len().div_ceil(2) {
            let second = self.pieces.get(2 * place + 1).copied().unwrap_or_default();
            self.pieces[place] = self.pieces[2 * place];
            self.pieces[place].add(&second.part());
            self.pieces[place].spread += second.spread;
        }
        self.pieces.truncate(self.pieces.len().div_ceil(2));
        (self.shift, self.first) = (self.shift + 1, self.first / 2);
    }

    /// The bytes of a piece that may have been delivered in another one: they came after a silence,
    /// or before anything was told.
    pub(crate) fn spread(&self, piece: usize) -> f64 {
        self.pieces[piece].spread.into()
    }

    /// Each piece with when it begins and ends, ns; the last ends where the series does.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = (u64, u64, Part)> {
        let begins = |place: u64| (self.first + place) << self.shift;
        (0..)
            .zip(&self.pieces)
            .map(move |(place, part)| (begins(place), begins(place + 1).min(self.until), part.part()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn part(bytes: i64) -> Part {
        Part { bytes, times: [bytes; LIMITS.len()] }
    }

    #[test]
    fn what_a_series_is_told_is_in_its_pieces_whatever_their_length() {
        let mut series = Series::new(Way::ToServer, 3_000 * MS);
        for n in 1..=2_000u64 {
            series.tell((3_000 + n * 50) * MS, &part(n.cast_signed() * 1_000 + n.cast_signed() % 7));
            let (all, told) = (series.pieces().map(|(.., p)| p.bytes).sum::<i64>(), n * 1_000 + n % 7);
            assert!(all.abs_diff(told.cast_signed()) <= 1 + told / 1_000_000, "{all} of {told}");
            let path: u64 = series.pieces().map(|(.., p)| p.of(Limit::PathRate)).sum();
            assert!(path.abs_diff(told) <= 1 + told / 1_000_000, "{path} of {told}");
            assert!(series.pieces.len() <= MOST);
        }
        // 20 kB a second all the time.
        let rates: Vec<f64> = series.pieces().map(|(from, to, p)| p.bytes as f64 * 1e9 / (to - from) as f64).collect();
        assert!(rates[1..].iter().all(|r| (19_000.0..21_000.0).contains(r)), "{rates:?}");
    }

    #[test]
    fn a_silence_is_spread_over_the_pieces_that_it_spans() {
        let mut series = Series::new(Way::ToServer, 0);
        series.tell(268_435_456, &part(400));
        let bytes: Vec<i64> = series.pieces().map(|(.., p)| p.bytes).collect();
        assert_eq!(bytes, [100, 100, 100, 100, 0]);
        series.tell(300_000_000, &part(450));
        series.tell(380_000_000, &part(500));
        let spread: Vec<f64> = (0..6).map(|piece| series.spread(piece)).collect();
        assert_eq!(spread, [100.0, 100.0, 100.0, 100.0, 0.0, 0.0]);
        series.tell(128 << SHORTEST, &part(502));
        assert!(series.pieces.len() <= MOST);
        assert!(((0..series.pieces.len()).map(|piece| series.spread(piece)).sum::<f64>() - 402.0).abs() < 0.1);
    }
}
