//! Counters of what became of what the agent sent on.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::sync::{Arc, Mutex, PoisonError};

use record::words;

/// Where the agent sends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum To {
    /// An OpenTelemetry collector.
    Otlp,
    /// A Prometheus that scrapes.
    Prometheus,
    /// The directory or bucket of runs.
    Store,
}

words! { To: Otlp = "otlp", Prometheus = "prometheus", Store = "store"; }

/// What became of a request, a scrape, a run or a part of one, in the order in which they are
/// published.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// A request or a scrape was answered.
    Done,
    /// It was not, and what there was to do is tried again.
    Failed,
    /// A part of a run is in the bucket.
    PartsUploaded,
    /// The other side does not want it.
    Refused,
    /// Points of a request that the collector rejected.
    RejectedPoints,
    /// A run was written.
    Runs,
    /// A run had to make room before it was uploaded.
    RunsDropped,
    /// A run was removed by others before it was uploaded.
    RunsGone,
    /// A run made room for others.
    RunsRemoved,
    /// A run is in the bucket.
    RunsUploaded,
}

words! {
    Outcome: Done = "done", Failed = "failed", PartsUploaded = "parts_uploaded", Refused = "refused",
        RejectedPoints = "rejected_points", Runs = "runs", RunsDropped = "runs_dropped",
        RunsGone = "runs_gone", RunsRemoved = "runs_removed", RunsUploaded = "runs_uploaded";
}

/// Counters by destination and outcome, shared by the agent's threads.
#[derive(Clone, Debug, Default)]
pub struct Counts(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    exports: BTreeMap<(To, Outcome), u64>,
    waiting_bytes: u64,
    /// What fails at present.
    failing: BTreeSet<&'static str>,
    news: Vec<String>,
}

impl Counts {
    /// Counts one more.
    pub fn add(&self, to: To, outcome: Outcome) {
        self.add_many(to, outcome, 1);
    }

    /// Counts several more.
    pub fn add_many(&self, to: To, outcome: Outcome, n: u64) {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *inner.exports.entry((to, outcome)).or_default() += n;
    }

    /// Counts a failure of some `work`, which is also said where the work had not failed before.
    pub fn failed(&self, to: To, outcome: Outcome, work: &'static str, why: &dyn Display) {
        self.add(to, outcome);
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if inner.failing.insert(work) {
            inner.news.push(format!("{work} fails, which is said once: {why}"));
        }
    }

    /// Counts a success of some `work`, which is also said where the work had failed before.
    pub fn done(&self, to: To, outcome: Outcome, work: &'static str) {
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
    pub fn of(&self, to: To, outcome: Outcome) -> u64 {
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
        let labels =
            |to: To, outcome: Outcome| vec![("to", to.name().to_owned()), ("outcome", outcome.name().to_owned())];
        inner.exports.iter().map(|((to, outcome), n)| (labels(*to, *outcome), *n)).collect()
    }
}
