//! Counters of what became of what the agent sent on, and what is to be said of it.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use record::words;

use crate::failure::Failure;

/// Where the agent sends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum To {
    /// An OpenTelemetry collector.
    Otlp,
    /// A Prometheus that scrapes.
    Prometheus,
    /// The directory or bucket of runs.
    Store,
    /// The API of Kubernetes, which is asked for names.
    Kubernetes,
}

words! { To: Otlp = "otlp", Prometheus = "prometheus", Store = "store", Kubernetes = "kubernetes"; }

/// What became of a request, a scrape, a run or a part of one, in the order in which they are
/// published.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// A client left before its scrape was whole.
    Abandoned,
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
    Outcome: Abandoned = "abandoned", Done = "done", Failed = "failed", PartsUploaded = "parts_uploaded", Refused = "refused",
        RejectedPoints = "rejected_points", Runs = "runs", RunsDropped = "runs_dropped",
        RunsGone = "runs_gone", RunsRemoved = "runs_removed", RunsUploaded = "runs_uploaded";
}

/// Of one work, so many lines are said in [`WINDOW`]; what more there is, is counted.
const LINES: u32 = 6;
const WINDOW: Duration = Duration::from_mins(10);

/// Counters by destination, outcome and type of error, shared by the agent's threads.
#[derive(Clone, Debug, Default)]
pub struct Counts(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    exports: BTreeMap<(To, Outcome, Cow<'static, str>), u64>,
    waiting_bytes: u64,
    works: BTreeMap<&'static str, Work>,
    news: Vec<String>,
}

/// What was said of some work.
#[derive(Debug)]
struct Work {
    /// The types of failures that were said since it succeeded last.
    failing: BTreeSet<Cow<'static, str>>,
    /// Since when lines are counted, and how many were said and left out since.
    since: Instant,
    said: u32,
    left_out: u64,
}

impl Work {
    fn new(now: Instant) -> Self {
        Self { failing: BTreeSet::new(), since: now, said: 0, left_out: 0 }
    }

    /// The line, unless too many were said of late.
    fn line(&mut self, line: String, now: Instant) -> Option<String> {
        if now.duration_since(self.since) >= WINDOW {
            (self.since, self.said) = (now, 0);
        }
        if self.said >= LINES {
            self.left_out += 1;
            return None;
        }
        self.said += 1;
        let left_out = std::mem::take(&mut self.left_out);
        Some(if left_out > 0 { format!("{line} ({left_out} more lines on this were left out)") } else { line })
    }
}

impl Inner {
    fn count(&mut self, to: To, outcome: Outcome, kind: Cow<'static, str>, n: u64) {
        *self.exports.entry((to, outcome, kind)).or_default() += n;
    }

    fn say(&mut self, work: &'static str, line: String) {
        let now = Instant::now();
        let line = self.works.entry(work).or_insert_with(|| Work::new(now)).line(line, now);
        self.news.extend(line);
    }
}

impl Counts {
    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts one more.
    pub fn add(&self, to: To, outcome: Outcome) {
        self.add_many(to, outcome, 1);
    }

    /// Counts several more.
    pub fn add_many(&self, to: To, outcome: Outcome, n: u64) {
        self.lock().count(to, outcome, Cow::Borrowed(""), n);
    }

    /// Counts a failure of some `work`. Each type of failure is said once until the work succeeds.
    pub fn failed(&self, to: To, outcome: Outcome, work: &'static str, failure: Failure) {
        let mut inner = self.lock();
        inner.count(to, outcome, failure.kind.clone(), 1);
        let of = inner.works.entry(work).or_insert_with(|| Work::new(Instant::now()));
        if of.failing.insert(failure.kind) {
            inner.say(work, format!("{work} fails, which is said once: {}", failure.why));
        }
    }

    /// Counts a success of some `work`, which is also said where the work had failed before.
    pub fn done(&self, to: To, outcome: Outcome, work: &'static str) {
        let mut inner = self.lock();
        inner.count(to, outcome, Cow::Borrowed(""), 1);
        if inner.works.get_mut(work).is_some_and(|of| !std::mem::take(&mut of.failing).is_empty()) {
            inner.say(work, format!("{work} succeeds again"));
        }
    }

    /// Has more said.
    pub(crate) fn say(&self, news: Vec<String>) {
        self.lock().news.extend(news);
    }

    /// What is to be said, once.
    pub fn news(&self) -> Vec<String> {
        std::mem::take(&mut self.lock().news)
    }

    /// The count of one outcome, of whatever type of error.
    pub fn of(&self, to: To, outcome: Outcome) -> u64 {
        self.lock().exports.iter().filter(|((of, was, _), _)| (*of, *was) == (to, outcome)).map(|(_, n)| n).sum()
    }

    /// Sets how much waits to be uploaded.
    pub(crate) fn set_waiting(&self, bytes: u64) {
        self.lock().waiting_bytes = bytes;
    }

    pub(crate) fn waiting(&self) -> u64 {
        self.lock().waiting_bytes
    }

    /// All counters, with their labels.
    pub(crate) fn labelled(&self) -> Vec<(Vec<(&'static str, String)>, u64)> {
        let labels = |to: To, outcome: Outcome, kind: &str| {
            let kind = (!kind.is_empty()).then(|| ("error.type", kind.to_owned()));
            [("to", to.name().to_owned()), ("outcome", outcome.name().to_owned())].into_iter().chain(kind).collect()
        };
        self.lock().exports.iter().map(|((to, outcome, kind), n)| (labels(*to, *outcome, kind), *n)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORK: &str = "the work";

    #[test]
    fn each_type_of_failure_is_said_once_with_its_text_and_counted_each_time() {
        let counts = Counts::default();
        for _ in 0..3 {
            counts.failed(To::Store, Outcome::Failed, WORK, Failure::new("storage_full", "no room"));
            counts.failed(To::Store, Outcome::Refused, WORK, Failure::new("permission_denied", "not you"));
        }
        let said = ["the work fails, which is said once: no room", "the work fails, which is said once: not you"];
        assert_eq!(counts.news(), said);
        assert_eq!((counts.of(To::Store, Outcome::Failed), counts.of(To::Store, Outcome::Refused)), (3, 3));
        let labels = |n: usize| counts.labelled()[n].0.clone();
        assert_eq!(labels(0)[2], ("error.type", "storage_full".to_owned()));
        counts.done(To::Store, Outcome::Runs, WORK);
        counts.done(To::Store, Outcome::Runs, WORK);
        assert_eq!(counts.news(), ["the work succeeds again"]);
        assert_eq!(labels(1).len(), 3);
        assert_eq!(counts.labelled().last().unwrap().0, labels(2));
    }

    #[test]
    fn what_comes_and_goes_all_the_time_does_not_fill_the_journal() {
        let counts = Counts::default();
        for _ in 0..1_000 {
            counts.failed(To::Store, Outcome::Failed, WORK, Failure::new("timeout", "late"));
            counts.done(To::Store, Outcome::Runs, WORK);
        }
        assert_eq!(counts.news().len(), LINES as usize);
        let (begun, later) = (Instant::now(), Instant::now() + WINDOW);
        let mut work = Work { said: LINES, ..Work::new(begun) };
        assert_eq!(work.line("a".into(), begun), None);
        assert_eq!(work.line("b".into(), later).as_deref(), Some("b (1 more lines on this were left out)"));
    }
}
