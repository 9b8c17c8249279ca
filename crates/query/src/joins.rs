//! Joins that give way: a task is interrupted where it waits, and a join that makes many rows of few, or none of very many pairs, would never wait.
//!
//! A join takes a batch of rows and looks at all pairs of them before it asks for the next. So it gets few rows at first, and more while it is quick with them; where
//! it is not, it waits once for each batch.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode as _, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, SendableRecordBatchStream,
};
use futures::StreamExt as _;

/// Rows of the first batch.
const FEW: usize = 64;
/// A join that takes longer than this for a batch gives way.
const LONG: Duration = Duration::from_millis(20);

/// Lets every join give way now and then. Not where the plan is sent elsewhere: [`paced`] is for where it arrives.
#[derive(Debug)]
pub struct JoinsGiveWay {
    /// The plan is worked on here.
    pub here: bool,
}

impl PhysicalOptimizerRule for JoinsGiveWay {
    fn name(&self) -> &'static str {
        "joins_give_way"
    }

    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let wrap = |node: Arc<dyn ExecutionPlan>| {
            Ok(match is_join(&node) {
                true => Transformed::yes(Arc::new(CooperativeExec::new(node)) as Arc<dyn ExecutionPlan>),
                false => Transformed::no(node),
            })
        };
        let plan = if self.here { paced(plan)? } else { plan };
        Ok(plan.transform_up(wrap)?.data)
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn is_join(node: &Arc<dyn ExecutionPlan>) -> bool {
    node.name().ends_with("JoinExec")
}

/// The plan with joins that get few rows at a time while they take long.
///
/// # Errors
/// Those of nodes that do not take other children.
pub fn paced(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let pace = |plan| Ok(Transformed::yes(Arc::new(Paced { plan }) as Arc<dyn ExecutionPlan>));
    let join = |node: Arc<dyn ExecutionPlan>| match is_join(&node) {
        true => node.map_children(pace),
        false => Ok(Transformed::no(node)),
    };
    Ok(plan.transform_up(join)?.data)
}

/// What a join reads from, by and by.
#[derive(Debug)]
struct Paced {
    plan: Arc<dyn ExecutionPlan>,
}

impl DisplayAs for Paced {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl ExecutionPlan for Paced {
    fn name(&self) -> &str {
        "Paced"
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
        Ok(Arc::new(Self { plan: children.swap_remove(0) }))
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let mut rows = self.plan.execute(partition, context)?;
        let mut pace = Pace::default();
        let paced = futures::stream::poll_fn(move |waker| pace.next(&mut rows, waker));
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), paced)))
    }
}

/// How many rows are handed on at a time.
struct Pace {
    at_a_time: usize,
    /// Of the last batch.
    left: Option<RecordBatch>,
    /// When rows were handed on, until it is known how long they took.
    gave: Option<Instant>,
}

impl Default for Pace {
    fn default() -> Self {
        Self { at_a_time: FEW, left: None, gave: None }
    }
}

impl Pace {
    fn next(
        &mut self,
        rows: &mut SendableRecordBatchStream,
        waker: &mut Context<'_>,
    ) -> Poll<Option<Result<RecordBatch>>> {
        if let Some(gave) = self.gave.take() {
            let long = gave.elapsed() > LONG;
            self.at_a_time = if long { (self.at_a_time / 2).max(1) } else { self.at_a_time.saturating_mul(2) };
            if long {
                waker.waker().wake_by_ref();
                return Poll::Pending;
            }
        }
        let batch = match self.left.take() {
            Some(left) => left,
            None => match rows.poll_next_unpin(waker) {
                Poll::Ready(Some(Ok(batch))) => batch,
                other => return other,
            },
        };
        let n = batch.num_rows().min(self.at_a_time);
        self.left = (n < batch.num_rows()).then(|| batch.slice(n, batch.num_rows() - n));
        self.gave = Some(Instant::now());
        Poll::Ready(Some(Ok(batch.slice(0, n))))
    }
}
