//! A distribution of durations in bounded memory: exact while small, then in logarithmic buckets.
//!
//! `stats::Distribution` takes kilobytes from the first value on and a walk through them for each
//! value. A capture may have a million connections, most with a few values each, and this is on the
//! way of every packet.

use record::Nanos;
use record::conversation::Quantiles;

use crate::fetch::{self, Fetch};

/// How many values are kept one by one before buckets take over.
const EXACT: usize = 32;
/// Buckets within each power of two; a value is off by at most half of 1/32, that is 1.6 %.
const SUB_BITS: u32 = 5;

/// Durations, counted. Minimum, maximum and count are always exact; quantiles are exact up to 32
/// values and within 1.6 % beyond.
#[derive(Clone, Debug, Default)]
pub struct Distribution {
    count: u64,
    min: u64,
    max: u64,
    kept: Kept,
}

#[derive(Clone, Debug)]
enum Kept {
    Exact(Vec<u64>),
    Buckets(Box<Buckets>),
}

/// Values waiting to be put into buckets. Each bucket is likely to be far away in memory: going for
/// many together takes little longer than going for one.
const PENDING: usize = 16;

#[derive(Clone, Debug, Default)]
struct Buckets {
    pending: [u32; PENDING],
    waiting: u8,
    /// The power of two that the first of the buckets stands for.
    first: u8,
    counts: Counts,
}

/// The buckets within a power of two.
type Octave<T> = [T; 1 << SUB_BITS];

/// By power of two, from the lowest to the highest that occurs. Short as long as they suffice: a
/// thousand connections have more of them than the caches beside a core hold.
#[derive(Clone, Debug)]
enum Counts {
    Short(Vec<Octave<u16>>),
    Long(Vec<Octave<u32>>),
}

impl Default for Counts {
    fn default() -> Self {
        Self::Short(Vec::new())
    }
}

impl Counts {
    /// How many powers of two there are.
    fn len(&self) -> usize {
        match self {
            Self::Short(counts) => counts.len(),
            Self::Long(counts) => counts.len(),
        }
    }

    /// Those of one of them; nothing beyond the last.
    fn octave(&self, i: usize) -> Octave<u32> {
        let counts = match self {
            Self::Short(counts) => counts.get(i).map(|counts| counts.map(u32::from)),
            Self::Long(counts) => counts.get(i).copied(),
        };
        counts.unwrap_or_default()
    }
}

impl Default for Kept {
    fn default() -> Self {
        Self::Exact(Vec::new())
    }
}

impl Distribution {
    /// Counts a value.
    #[inline(never)]
    pub fn add(&mut self, value: Nanos) {
        let v = value.0;
        if self.count == 0 {
            self.min = v;
        }
        self.count += 1;
        self.min = self.min.min(v);
        self.max = self.max.max(v);
        // Most values of long connections only wait for the others.
        if let Kept::Buckets(buckets) = &mut self.kept
            && buckets.has_put_off(v)
        {
            return;
        }
        self.keep(v);
    }

    #[inline(never)]
    fn keep(&mut self, v: u64) {
        match &mut self.kept {
            Kept::Exact(values) if values.len() < EXACT => {
                if values.len() == values.capacity() {
                    // Four, sixteen, all: a step more costs more than all that it saves.
                    values.reserve_exact((values.len() * 3).clamp(4, EXACT - values.len()));
                }
                values.push(v);
            }
            Kept::Exact(values) => {
                let mut buckets = Buckets::default();
                values.iter().for_each(|old| buckets.put(*old));
                buckets.put(v);
                self.kept = Kept::Buckets(Box::new(buckets));
            }
            Kept::Buckets(buckets) => buckets.add(v),
        }
    }

    /// See [`Connection::fetch_boxes`](crate::connection::Connection::fetch_boxes).
    #[inline(always)]
    pub(crate) fn fetch_boxes(&self, with: impl Fetch) {
        match &self.kept {
            Kept::Exact(values) => fetch::each(values.last(), with),
            Kept::Buckets(buckets) => fetch::all(&**buckets, with),
        }
    }

    /// See [`Connection::fetch_further`](crate::connection::Connection::fetch_further).
    #[inline(always)]
    pub(crate) fn fetch_further(&self, with: impl Fetch) {
        // Those that wait are likely to be put into buckets next.
        if let Kept::Buckets(buckets) = &self.kept
            && usize::from(buckets.waiting) >= PENDING / 2
            && let Counts::Short(counts) = &buckets.counts
        {
            fetch::each(counts, with);
        }
    }

    /// How many values were counted.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The smallest value.
    pub fn min(&self) -> Option<Nanos> {
        (self.count > 0).then_some(Nanos(self.min))
    }

    /// The largest value.
    pub fn max(&self) -> Option<Nanos> {
        (self.count > 0).then_some(Nanos(self.max))
    }

    /// The value below or at which `share` (0 to 1) of all lie (nearest rank).
    pub fn quantile(&self, share: f64) -> Option<Nanos> {
        if self.count == 0 {
            return None;
        }
        let rank = self.rank(share);
        let value = match &self.kept {
            Kept::Exact(values) => {
                let mut sorted = values.clone();
                sorted.sort_unstable();
                sorted[rank as usize - 1]
            }
            Kept::Buckets(buckets) => buckets.at_rank(rank).unwrap_or(self.max),
        };
        Some(Nanos(value.clamp(self.min, self.max)))
    }

    /// The rank, from 1, of the quantile `share`, where there are values.
    fn rank(&self, share: f64) -> u64 {
        ((share.clamp(0.0, 1.0) * self.count as f64).ceil() as u64).clamp(1, self.count)
    }

    /// The five figures.
    pub fn summary(&self) -> Quantiles {
        if let (1.., Kept::Exact(values)) = (self.count, &self.kept) {
            // One sorting for both quantiles, in place of memory itself for each.
            let mut sorted = [u64::MAX; EXACT];
            let sorted = &mut sorted[..values.len().min(EXACT)];
            sorted.iter_mut().zip(values).for_each(|(into, v)| *into = *v);
            sorted.sort_unstable();
            let at = |share: f64| sorted.get(self.rank(share) as usize - 1).map(|v| Nanos(*v));
            let (median_ns, p99_ns) = (at(0.5), at(0.99));
            return Quantiles { samples: self.count, min_ns: self.min(), median_ns, p99_ns, max_ns: self.max() };
        }
        Quantiles {
            samples: self.count,
            min_ns: self.min(),
            median_ns: self.quantile(0.5),
            p99_ns: self.quantile(0.99),
            max_ns: self.max(),
        }
    }
}

/// The octave is the number of bits less the sub-bucket's; everything below 32 ns shares octave 0,
/// exactly.
fn place(v: u64) -> (u8, usize) {
    let octave = (63 - (v | 1).leading_zeros()).saturating_sub(SUB_BITS);
    let sub = v >> octave;
    if octave == 0 && sub < 32 { (0, sub as usize) } else { (octave as u8 + 1, (sub & 31) as usize) }
}

fn middle(octave: u8, sub: usize) -> u64 {
    match octave {
        0 => sub as u64,
        o => {
            let shift = u32::from(o - 1);
            ((32 + sub as u64) << shift) + ((1u64 << shift) >> 1)
        }
    }
}

impl Buckets {
    /// Lets a value wait for others, unless it is the last that there is room for, or one of 4.3 s
    /// and more.
    #[inline(always)]
    fn has_put_off(&mut self, v: u64) -> bool {
        let (Ok(short), at) = (u32::try_from(v), usize::from(self.waiting)) else { return false };
        if at >= PENDING - 1 {
            return false;
        }
        self.pending[at] = short;
        self.waiting += 1;
        true
    }

    /// Takes a value that was not put off.
    fn add(&mut self, v: u64) {
        // 4.3 s and more is rare enough to be put where it belongs at once.
        let Ok(short) = u32::try_from(v) else { return self.put(v) };
        self.pending[usize::from(self.waiting) % PENDING] = short;
        self.waiting += 1;
        self.settle();
    }

    #[inline(never)]
    fn settle(&mut self) {
        let pending = self.pending;
        let waiting = usize::from(std::mem::take(&mut self.waiting));
        pending[..waiting.min(PENDING)].iter().for_each(|v| self.put(u64::from(*v)));
    }

    /// The middle of the bucket that the value of this rank, from 1, lies in.
    fn at_rank(&self, rank: u64) -> Option<u64> {
        let pending = self.pending[..usize::from(self.waiting).min(PENDING)].iter().map(|v| place(u64::from(*v)));
        let (mut low, mut high) = (self.first, self.first + (self.counts.len() as u8).saturating_sub(1));
        for (octave, _) in pending.clone() {
            (low, high) = (low.min(octave), high.max(octave));
        }
        let mut left = rank;
        for octave in low..=high {
            let mut counts = octave.checked_sub(self.first).map(|i| self.counts.octave(i.into())).unwrap_or_default();
            pending.clone().filter(|p| p.0 == octave).for_each(|p| counts[p.1] = counts[p.1].saturating_add(1));
            let all = counts.iter().map(|n| u64::from(*n)).sum::<u64>();
            if left > all {
                left -= all;
                continue;
            }
            for (sub, n) in counts.into_iter().enumerate() {
                match left.checked_sub(u64::from(n)) {
                    Some(rest) if rest > 0 => left = rest,
                    _ if n == 0 => {}
                    _ => return Some(middle(octave, sub)),
                }
            }
        }
        None
    }

    #[inline]
    fn put(&mut self, v: u64) {
        let (octave, sub) = place(v);
        let i = usize::from(octave.wrapping_sub(self.first));
        if let Counts::Short(counts) = &mut self.counts
            && let Some(slot) = counts.get_mut(i).map(|counts| &mut counts[sub])
            && *slot < u16::MAX
        {
            *slot += 1;
        } else {
            self.put_elsewhere(octave, sub);
        }
    }

    /// Counts a value of an octave for which there is no room yet, or where counts are long.
    #[cold]
    fn put_elsewhere(&mut self, octave: u8, sub: usize) {
        if let Counts::Short(counts) = &mut self.counts {
            let slot = &mut widened(counts, &mut self.first, octave)[sub];
            if *slot < u16::MAX {
                *slot += 1;
                return;
            }
            self.counts = Counts::Long(counts.iter().map(|counts| counts.map(u32::from)).collect());
        }
        if let Counts::Long(counts) = &mut self.counts {
            let slot = &mut widened(counts, &mut self.first, octave)[sub];
            *slot = slot.saturating_add(1);
        }
    }
}

/// The buckets of an octave, with room made for it where it is beyond those there are, of which
/// `first` is the lowest. There are at most 60.
fn widened<'c, T: Copy + Default>(counts: &'c mut Vec<Octave<T>>, first: &mut u8, octave: u8) -> &'c mut Octave<T> {
    if counts.is_empty() {
        *first = octave;
    }
    let below = first.saturating_sub(octave);
    if below > 0 {
        counts.splice(0..0, std::iter::repeat_n(Octave::default(), usize::from(below)));
        *first = octave;
    }
    let i = usize::from(octave - *first);
    if i >= counts.len() {
        counts.resize(i + 1, Octave::default());
    }
    &mut counts[i]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn quantiles_lie_within_a_bucket_of_the_truth(mut values in prop::collection::vec(0u64..1 << 40, 1..300), q in 0.0f64..=1.0) {
            let mut d = Distribution::default();
            for &v in &values {
                d.add(Nanos(v));
            }
            values.sort_unstable();
            let rank = ((q * values.len() as f64).ceil() as usize).clamp(1, values.len());
            let (truth, got) = (values[rank - 1] as f64, d.quantile(q).unwrap().0 as f64);
            prop_assert!((got - truth).abs() <= truth / 32.0 + 1.0, "{} for {}", got, truth);
            prop_assert_eq!(d.count(), values.len() as u64);
            prop_assert_eq!((d.summary().median_ns, d.summary().p99_ns), (d.quantile(0.5), d.quantile(0.99)));
        }
    }

    #[test]
    fn counts_that_outgrow_16_bits_go_on() {
        let mut d = Distribution::default();
        let each = u64::from(u16::MAX) + 10;
        for _ in 0..each {
            [100, 5_000, 1_000_000].into_iter().for_each(|v| d.add(Nanos(v)));
        }
        // Beyond those there were, on both sides, once counts are long.
        [3, 1 << 40].into_iter().for_each(|v| d.add(Nanos(v)));
        assert_eq!(d.count(), 3 * each + 2);
        let at = |rank: u64| d.quantile(rank as f64 / d.count() as f64).unwrap().0;
        for (rank, value) in [(1, 3), (2, 100), (each + 1, 100), (each + 2, 5_000), (2 * each + 1, 5_000)] {
            assert!(at(rank).abs_diff(value) <= value / 32, "{rank}: {} for {value}", at(rank));
        }
        assert!(at(3 * each + 1).abs_diff(1_000_000) <= 1_000_000 / 32 && at(3 * each + 2) == 1 << 40);
    }
}
