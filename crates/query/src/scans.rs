//! The scans of the last query: what `--explain` shows, and which parts are read again where one
//! turns out to be damaged.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use datafusion::common::stats::Precision;
use object_store::ObjectMeta;

use crate::progress::Progress;

/// The scan of each table that the last query reads.
#[derive(Debug, Default)]
pub struct Scans(Mutex<BTreeMap<&'static str, Scan>>, Mutex<Vec<String>>, Progress);

/// The scan of one table.
#[derive(Clone, Debug, Default)]
pub struct Scan {
    /// Of how many runs.
    pub runs: usize,
    /// How many rows, as far as footers say.
    pub rows: usize,
    /// What it reads.
    pub parts: Vec<ObjectMeta>,
}

impl Scans {
    /// A scan of `table` is planned, which reads these parts with their rows, of so many runs.
    pub fn planned(&self, table: &'static str, runs: usize, parts: &[(ObjectMeta, Precision<usize>)]) {
        let rows = parts.iter().filter_map(|(_, rows)| rows.get_value()).sum();
        let parts = parts.iter().map(|(part, _)| part.clone()).collect();
        let mut scans = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        scans.insert(table, Scan { runs, rows, parts });
    }

    /// Those planned since the last [`Scans::forget`], by table.
    pub fn all(&self) -> BTreeMap<&'static str, Scan> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Something to say of the plan beside its scans.
    pub fn note(&self, text: String) {
        self.1.lock().unwrap_or_else(PoisonError::into_inner).push(text);
    }

    /// All notes since the last [`Scans::forget`].
    pub fn notes(&self) -> Vec<String> {
        self.1.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How far the query is.
    pub fn progress(&self) -> &Progress {
        &self.2
    }

    /// Starts again, for another query.
    pub fn forget(&self) {
        self.2.forget();
        self.1.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}
