//! A run cut into stretches of records that follow one another: what is alike for a while is drawn
//! together.

/// Stretches that a run is divided into, at most; half as many at least, once it has records
/// enough.
const STRETCHES: usize = 64;
/// Records of a stretch to begin with: 40 records are stretches enough for an interval.
const RECORDS: u64 = 4;

/// Records that follow one another.
pub(super) trait Stretch {
    /// How many they are.
    fn records(&self) -> u64;

    /// Adds those of the next one.
    fn merge(&mut self, other: &Self);
}

/// A run's stretches of the same kind: so many records each that they are not too many.
#[derive(Debug)]
pub(super) struct Stretches<S> {
    all: Vec<S>,
    full: u64,
}

impl<S> Default for Stretches<S> {
    fn default() -> Self {
        Self { all: Vec::new(), full: RECORDS }
    }
}

impl<S: Stretch> Stretches<S> {
    pub(super) fn all(&self) -> &[S] {
        &self.all
    }

    /// The one that the next record belongs to; a further one begins as `begin` says.
    pub(super) fn next(&mut self, begin: impl FnOnce() -> S) -> &mut S {
        if self.all.last().is_none_or(|last| last.records() >= self.full) {
            if self.all.len() == STRETCHES {
                self.full *= 2;
                let mut halves = std::mem::take(&mut self.all).into_iter();
                while let Some(mut first) = halves.next() {
                    halves.next().iter().for_each(|second| first.merge(second));
                    self.all.push(first);
                }
            }
            self.all.push(begin());
        }
        let last = self.all.len() - 1;
        &mut self.all[last]
    }

    /// A last stretch that hardly began would vary more than the others.
    pub(super) fn finish(&mut self) {
        if self.all.len() > 2
            && let Some(last) = self.all.pop_if(|last| last.records() * 2 < self.full)
            && let Some(before) = self.all.last_mut()
        {
            before.merge(&last);
        }
    }
}
