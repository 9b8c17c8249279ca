//! How far a query is: which of its parts have been opened, and read.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use datafusion::datasource::physical_plan::ParquetSource;
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_plan::ExecutionPlan;

/// How far the last query is.
#[derive(Debug, Default)]
pub struct Progress {
    /// Parts that are opened to make the plan.
    wanted: AtomicUsize,
    opened: AtomicUsize,
    /// What is worked on here.
    plan: Mutex<Option<Arc<dyn ExecutionPlan>>>,
}

/// What scans have read of all that they read.
#[derive(Clone, Copy, Default)]
struct Read {
    parts: usize,
    of: usize,
    rows: usize,
}

impl Progress {
    /// So many more parts are opened to make the plan.
    pub fn opens(&self, parts: usize) {
        self.wanted.fetch_add(parts, Ordering::Relaxed);
    }

    /// One of them is open.
    pub fn opened(&self) {
        self.opened.fetch_add(1, Ordering::Relaxed);
    }

    /// The plan is made, and worked on here.
    pub fn works(&self, plan: Arc<dyn ExecutionPlan>) {
        *self.plan.lock().unwrap_or_else(PoisonError::into_inner) = Some(plan);
    }

    /// Starts again, for another query.
    pub fn forget(&self) {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.wanted.store(0, Ordering::Relaxed);
        self.opened.store(0, Ordering::Relaxed);
    }

    /// In words; `None` where nothing is known of it.
    pub fn text(&self) -> Option<String> {
        if let Some(plan) = &*self.plan.lock().unwrap_or_else(PoisonError::into_inner) {
            let mut read = Read::default();
            add(plan.as_ref(), &mut read);
            return (read.of > 0).then(|| format!("read {} of {} parts, {} rows", read.parts, read.of, read.rows));
        }
        let wanted = self.wanted.load(Ordering::Relaxed);
        let opened = self.opened.load(Ordering::Relaxed).min(wanted);
        (wanted > 0).then(|| format!("opened {opened} of {wanted} parts"))
    }
}

/// Adds the scans of a plan. The engine may divide a large part: then each piece counts.
fn add(plan: &dyn ExecutionPlan, read: &mut Read) {
    let scan = plan.downcast_ref::<DataSourceExec>().and_then(|scan| scan.downcast_to_file_source::<ParquetSource>());
    if let Some((scan, _)) = scan {
        let of = scan.file_groups.iter().map(|group| group.len()).sum();
        let metrics = plan.metrics();
        let done = metrics.as_ref().and_then(|m| m.sum_by_name("files_processed")).map_or(0, |done| done.as_usize());
        read.of += of;
        read.parts += done.min(of);
        read.rows += metrics.and_then(|m| m.output_rows()).unwrap_or(0);
    }
    plan.children().into_iter().for_each(|child| add(child.as_ref(), read));
}
