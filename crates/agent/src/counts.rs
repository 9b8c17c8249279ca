//! Counters of what became of what the agent sent on.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Counters by destination and outcome, shared by the agent's threads.
#[derive(Clone, Debug, Default)]
pub struct Counts(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    exports: BTreeMap<(&'static str, &'static str), u64>,
    waiting_bytes: u64,
}

impl Counts {
    /// Counts one more.
    pub fn add(&self, to: &'static str, outcome: &'static str) {
        self.add_many(to, outcome, 1);
    }

    /// Counts several more.
    pub fn add_many(&self, to: &'static str, outcome: &'static str, n: u64) {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *inner.exports.entry((to, outcome)).or_default() += n;
    }

    /// The count of one outcome.
    pub fn of(&self, to: &'static str, outcome: &'static str) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).exports.get(&(to, outcome)).copied().unwrap_or(0)
    }

    /// Sets how much waits to be uploaded.
    pub(crate) fn set_waiting(&self, bytes: u64) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).waiting_bytes = bytes;
    }

    pub(crate) fn waiting(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).waiting_bytes
    }

    /// All counters, with their labels.
    pub(crate) fn labelled(&self) -> Vec<(Vec<(&'static str, String)>, u64)> {
        let inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let labels = |to: &str, outcome: &str| vec![("to", to.to_owned()), ("outcome", outcome.to_owned())];
        inner.exports.iter().map(|((to, outcome), n)| (labels(to, outcome), *n)).collect()
    }
}
