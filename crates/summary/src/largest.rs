//! The figures of the groups with the most records, in bounded memory.

use std::collections::HashMap;
use std::hash::Hash;

/// The figures of a group of records.
pub(crate) trait Figures {
    /// Those of no group: what others are put together in.
    fn of_others() -> Self;

    /// Records.
    fn n(&self) -> u64;

    /// Adds the records of another group.
    fn add_all(&mut self, other: &Self);
}

/// The largest groups, each with figures, and all others together.
#[derive(Clone, Debug)]
pub(crate) struct Largest<K, F> {
    keep: usize,
    each: HashMap<K, F>,
    others: Option<F>,
    folded: u64,
}

impl<K: Clone + Ord + Hash, F: Figures> Largest<K, F> {
    /// None yet; keeps at most this many, and at least half as many.
    pub fn new(keep: usize) -> Self {
        Self { keep: keep.max(2), each: HashMap::new(), others: None, folded: 0 }
    }

    /// The figures of a group, which begin as these.
    pub fn of(&mut self, key: K, begin: impl FnOnce() -> F) -> &mut F {
        if self.each.len() >= self.keep && !self.each.contains_key(&key) {
            self.fold();
        }
        self.each.entry(key).or_insert_with(begin)
    }

    /// Puts the smaller half together: half at once, so that many groups of one record each cost
    /// little.
    fn fold(&mut self) {
        let mut sizes: Vec<_> = self.each.iter().map(|(key, figures)| (figures.n(), key.clone())).collect();
        sizes.sort_unstable();
        sizes.truncate(self.keep - self.keep / 2);
        for (_, key) in sizes {
            let Some(figures) = self.each.remove(&key) else { continue };
            self.folded += 1;
            self.others.get_or_insert_with(F::of_others).add_all(&figures);
        }
    }

    /// Those with separate figures, in no order.
    pub fn each(&self) -> impl Iterator<Item = (&K, &F)> {
        self.each.iter()
    }

    /// Those that were put together because there were too many, and how many they were.
    pub fn others(&self) -> Option<(&F, u64)> {
        self.others.as_ref().map(|others| (others, self.folded))
    }
}
