//! Requests that a distribution of durations names, so that their traces can be looked up.

use std::collections::BTreeMap;

use super::bucket_of;
use crate::{Nanos, TraceContext};

/// Buckets of an octave: a factor of two.
const OCTAVE: i32 = 8;
/// The octaves that have one, by the powers of two that they end with, in seconds: what is shorter
/// counts to the first (15 µs), what is longer to the last.
const FIRST: i32 = -16;
const LAST: i32 = 4;

/// One request that can be looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exemplar {
    /// Its trace, and the span that sent it.
    pub context: TraceContext,
    /// How long it took.
    pub took: Nanos,
    /// When it ended, nanoseconds of Unix time.
    pub ended_ns: u64,
    /// When it became known, nanoseconds of the monotonic clock: it may have ended long before the
    /// next one of its connection shows that.
    pub known_ns: u64,
}

/// The requests that one distribution names: for each octave of durations the one that ended last,
/// where one whose trace is sampled gives way to another such one alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exemplars {
    by_octave: BTreeMap<i32, Exemplar>,
}

impl Exemplars {
    /// Takes one that may take the place of an earlier one.
    pub fn offer(&mut self, new: Exemplar) {
        // Divided and rounded up.
        let octave = bucket_of(new.took).map_or(FIRST, |bucket| -(-bucket).div_euclid(OCTAVE));
        let place = self.by_octave.entry(octave.clamp(FIRST, LAST)).or_insert(new);
        if new.ended_ns > place.ended_ns && (new.context.sampled || !place.context.sampled) {
            *place = new;
        }
    }

    /// Forgets those that became known before this time.
    pub fn forget_before(&mut self, known_ns: u64) {
        self.by_octave.retain(|_, exemplar| exemplar.known_ns >= known_ns);
    }

    /// All, the shortest octave first.
    pub fn iter(&self) -> impl Iterator<Item = &Exemplar> {
        self.by_octave.values()
    }

    /// That which ended last of those whose bucket is above one and at most another.
    pub fn last_within(&self, above: Option<i32>, up_to: Option<i32>) -> Option<&Exemplar> {
        let is_within = |exemplar: &&Exemplar| {
            let bucket = bucket_of(exemplar.took);
            above.is_none_or(|above| bucket > Some(above)) && up_to.is_none_or(|up_to| bucket <= Some(up_to))
        };
        self.iter().filter(is_within).max_by_key(|exemplar| exemplar.ended_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SpanId, TraceId};

    fn exemplar(n: u8, took: u64, ended_ns: u64, sampled: bool) -> Exemplar {
        let context = TraceContext { trace: TraceId([n; 16]), span: SpanId([n; 8]), sampled };
        Exemplar { context, took: Nanos(took), ended_ns, known_ns: ended_ns + 10 }
    }

    fn offered(all: &[Exemplar]) -> Exemplars {
        let mut exemplars = Exemplars::default();
        all.iter().for_each(|one| exemplars.offer(*one));
        exemplars
    }

    /// The first bytes of the traces that are kept.
    fn kept(exemplars: &Exemplars) -> Vec<u8> {
        exemplars.iter().map(|one| one.context.trace.0[0]).collect()
    }

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn the_last_of_each_octave_is_kept() {
        // Half a second is the longest of its octave.
        let all = [(1, SECOND / 2), (2, SECOND / 2 + 1), (3, SECOND), (4, SECOND + 1), (5, SECOND / 4 + 1)];
        let all = all.map(|(n, took)| exemplar(n, took, n.into(), true));
        assert_eq!(kept(&offered(&all)), [5, 3, 4]);
        // One that ended earlier comes to be known later.
        let late = exemplar(6, SECOND, 2, true);
        assert_eq!(kept(&offered(&[all[2], late])), [3]);
    }

    #[test]
    fn one_that_can_be_looked_up_gives_way_to_its_like_alone() {
        let [sampled, not, next] = [(1, true), (2, false), (3, true)].map(|(n, is)| exemplar(n, 1_000, n.into(), is));
        assert_eq!(kept(&offered(&[sampled, not])), [1]);
        assert_eq!(kept(&offered(&[sampled, not, next])), [3]);
        assert_eq!(kept(&offered(&[not, next])), [3]);
        assert_eq!(kept(&offered(&[not, exemplar(4, 1_000, 4, false)])), [4]);
    }

    #[test]
    fn their_number_is_bounded_whatever_they_took() {
        let all: Vec<_> = (0..64).map(|power| exemplar(power, 1 << power, 1, true)).collect();
        let mut exemplars = offered(&all);
        exemplars.offer(exemplar(9, 0, 2, true));
        assert_eq!(exemplars.iter().count() as i32, LAST - FIRST + 1);
    }

    #[test]
    fn what_became_known_too_long_ago_is_forgotten() {
        let mut exemplars = offered(&[exemplar(1, 1_000_000, 5, true), exemplar(2, SECOND, 6, true)]);
        exemplars.forget_before(16);
        assert_eq!(kept(&exemplars), [2]);
    }

    #[test]
    fn a_bucket_has_the_last_within_its_bounds() {
        let exemplars = offered(&[
            exemplar(0, 0, 9, true),
            exemplar(1, SECOND / 4, 3, true),
            exemplar(2, SECOND / 2, 2, true),
            exemplar(3, SECOND * 3, 1, true),
        ]);
        let of = |above, up_to| exemplars.last_within(above, up_to).map(|one| one.context.trace.0[0]);
        assert_eq!((of(None, Some(-16)), of(Some(-16), Some(0)), of(Some(-8), Some(0))), (Some(0), Some(2), None));
        assert_eq!((of(Some(-24), Some(0)), of(Some(0), Some(8)), of(Some(8), None)), (Some(1), None, Some(3)));
    }
}
