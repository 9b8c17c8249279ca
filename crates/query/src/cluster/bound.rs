//! Streams that end with their task. The shuffle writers of Ballista 55 work on a plan in tasks of the runtime that are held by no one: where a task is given up, those
//! would work on to the end of the plan.

use std::fmt;
use std::sync::Arc;
use std::task::Poll;

use datafusion::common::tree_node::{Transformed, TreeNode as _, TreeNodeRecursion};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, SendableRecordBatchStream,
};
use futures::future::{BoxFuture, Shared};
use futures::{FutureExt as _, StreamExt as _};
use tokio::sync::oneshot;

use crate::joins::paced;

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

/// The plan of a task with streams that end when it is over: at the top, where all rows pass, and at the bottom, since a join with a condition that few rows
/// meet gives no rows for a long time. Its joins give way even then.
///
/// # Errors
/// Those of nodes that do not take other children.
pub fn bind(writer: Arc<dyn ExecutionPlan>, over: &Over) -> Result<Arc<dyn ExecutionPlan>> {
    let bound = |plan| Ok(Transformed::yes(Arc::new(Bound { plan, over: over.clone() }) as Arc<dyn ExecutionPlan>));
    let leaf =
        |plan: Arc<dyn ExecutionPlan>| if plan.children().is_empty() { bound(plan) } else { Ok(Transformed::no(plan)) };
    Ok(paced(writer)?.transform_up(leaf)?.data.map_children(bound)?.data)
}

/// A plan with streams that fail when the task is over.
#[derive(Debug)]
struct Bound {
    plan: Arc<dyn ExecutionPlan>,
    over: Over,
}

impl DisplayAs for Bound {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl ExecutionPlan for Bound {
    fn name(&self) -> &str {
        "Bound"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.plan.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.plan]
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Self { plan: children.swap_remove(0), over: self.over.clone() }))
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let mut rows = Some(self.plan.execute(partition, context)?);
        let mut over = self.over.clone();
        let bound = futures::stream::poll_fn(move |waker| {
            let Some(stream) = &mut rows else { return Poll::Ready(None) };
            if over.poll_unpin(waker).is_pending() {
                return stream.poll_next_unpin(waker);
            }
            // What works for the stream elsewhere ends with it.
            rows = None;
            Poll::Ready(Some(Err(DataFusionError::Execution("the task is over".into()))))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), bound)))
    }
}
