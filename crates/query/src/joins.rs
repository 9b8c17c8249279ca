//! Joins that give way: a task is interrupted where it waits, and a join that makes many rows of
//! few, or none of very many pairs, would never wait.
//!
//! A join takes a batch of rows and looks at all pairs of them before it asks for the next. So it
//! gets few rows at first, and more while it is quick with them; where it is not, it waits once for
//! each batch.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode as _};
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{ExecutionPlan, SendableRecordBatchStream};
use futures::StreamExt as _;

use crate::through::Through;

/// Rows of the first batch.
const FEW: usize = 64;
/// A join that takes longer than this for a batch gives way.
const LONG: Duration = Duration::from_millis(20);

/// Lets every join give way now and then. Not where the plan is sent elsewhere: [`paced`] is for
/// where it arrives.
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

/// Whether a step is a join, of whatever kind.
pub fn is_join(node: &Arc<dyn ExecutionPlan>) -> bool {
    node.name().ends_with("JoinExec")
}

/// The plan with joins that get few rows at a time while they take long.
///
/// # Errors
/// Those of nodes that do not take other children.
pub fn paced(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let pace = |plan| Ok(Transformed::yes(Through::above(plan, "Paced", by_and_by)));
    let join = |node: Arc<dyn ExecutionPlan>| match is_join(&node) {
        true => node.map_children(pace),
        false => Ok(Transformed::no(node)),
    };
    Ok(plan.transform_up(join)?.data)
}

/// The same rows, by and by.
fn by_and_by(mut rows: SendableRecordBatchStream) -> SendableRecordBatchStream {
    let schema = rows.schema();
    let mut pace = Pace::default();
    let paced = futures::stream::poll_fn(move |waker| pace.next(&mut rows, waker));
    Box::pin(RecordBatchStreamAdapter::new(schema, paced))
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
