//! Counters of what became of what the agent sent on.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::sync::{Arc, Mutex, PoisonError};

/// Counters by destination and outcome, shared by the agent's threads.
#[derive(Clone, Debug, Default)]
pub struct Counts(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    exports: BTreeMap<(&'static str, &'static str), u64>,
    waiting_bytes: u64,
    /// What fails at present.
    failing: BTreeSet<&'static str>,
    news: Vec<String>,
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

    /// Counts a failure of some `work`, which is also said where the work had not failed before.
    pub fn failed(&self, to: &'static str, outcome: &'static str, work: &'static str, why: &dyn Display) {
        self.add(to, outcome);
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if inner.failing.insert(work) {
            inner.news.push(format!("{work} fails, which is said once: {why}"));
        }
    }

    /// Counts a success of some `work`, which is also said where the work had failed before.
    pub fn done(&self, to: &'static str, outcome: &'static str, work: &'static str) {
        self.add(to, outcome);
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if inner.failing.remove(work) {
            inner.news.push(format!("{work} succeeds again"));
        }
    }

    /// Has more said.
    pub(crate) fn say(&self, news: Vec<String>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).news.extend(news);
    }

    /// What is to be said, once.
    pub fn news(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner).news)
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
