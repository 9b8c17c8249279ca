//! Streams that end with their task. The shuffle writers of Ballista 55 work on a plan in tasks of
//! the runtime that are held by no one: where a task is given up, those would work on to the end of
//! the plan.

use std::sync::Arc;
use std::task::Poll;

use datafusion::common::tree_node::{Transformed, TreeNode as _};
use datafusion::error::{DataFusionError, Result};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{ExecutionPlan, SendableRecordBatchStream};
use futures::future::{BoxFuture, Shared};
use futures::{FutureExt as _, StreamExt as _};
use tokio::sync::oneshot;

use crate::joins::paced;
use crate::through::Through;

/// Completes when the task is over.
pub type Over = Shared<BoxFuture<'static, ()>>;

/// Held while a task goes on: it is over when this is dropped.
#[derive(Debug)]
pub struct GoesOn {
    _until_dropped: oneshot::Sender<()>,
}

impl GoesOn {
    /// Of a task that is to be.
    pub fn new() -> (Self, Over) {
        let (until_dropped, over) = oneshot::channel();
        (Self { _until_dropped: until_dropped }, over.map(|_| ()).boxed().shared())
    }
}

/// The plan of a task with streams that end when it is over: at the top, where all rows pass, and
/// at the bottom, since a join with a condition that few rows meet gives no rows for a long time.
/// Its joins give way even then.
///
/// # Errors
/// Those of nodes that do not take other children.
pub fn bind(writer: Arc<dyn ExecutionPlan>, over: &Over) -> Result<Arc<dyn ExecutionPlan>> {
    let bound = |plan| {
        let over = over.clone();
        Ok(Transformed::yes(Through::above(plan, "Bound", move |rows| until(&over, rows))))
    };
    let leaf =
        |plan: Arc<dyn ExecutionPlan>| if plan.children().is_empty() { bound(plan) } else { Ok(Transformed::no(plan)) };
    Ok(paced(writer)?.transform_up(leaf)?.data.map_children(bound)?.data)
}

/// The same rows, and an error when the task is over.
fn until(over: &Over, rows: SendableRecordBatchStream) -> SendableRecordBatchStream {
    let schema = rows.schema();
    let (mut rows, mut over) = (Some(rows), over.clone());
    let bound = futures::stream::poll_fn(move |waker| {
        let Some(stream) = &mut rows else { return Poll::Ready(None) };
        if over.poll_unpin(waker).is_pending() {
            return stream.poll_next_unpin(waker);
        }
        // What works for the stream elsewhere ends with it.
        rows = None;
        Poll::Ready(Some(Err(DataFusionError::Execution("the task is over".into()))))
    });
    Box::pin(RecordBatchStreamAdapter::new(schema, bound))
}
