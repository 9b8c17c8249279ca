//! A step of a plan that leaves rows, order and partitions as they are, and only has a say in how
//! they stream.

use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, SendableRecordBatchStream,
};

/// What becomes of the stream of each partition.
type Stream = dyn Fn(SendableRecordBatchStream) -> SendableRecordBatchStream + Send + Sync;

/// The step.
pub struct Through {
    name: &'static str,
    plan: Arc<dyn ExecutionPlan>,
    stream: Arc<Stream>,
}

impl Through {
    /// Above this plan, with streams made of its streams.
    pub fn above(
        plan: Arc<dyn ExecutionPlan>,
        name: &'static str,
        stream: impl Fn(SendableRecordBatchStream) -> SendableRecordBatchStream + Send + Sync + 'static,
    ) -> Arc<dyn ExecutionPlan> {
        Arc::new(Self { name, plan, stream: Arc::new(stream) })
    }
}

impl fmt::Debug for Through {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(self.name).field("plan", &self.plan).finish_non_exhaustive()
    }
}

impl DisplayAs for Through {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl ExecutionPlan for Through {
    fn name(&self) -> &str {
        self.name
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
        Ok(Arc::new(Self { name: self.name, plan: children.swap_remove(0), stream: self.stream.clone() }))
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        Ok((self.stream)(self.plan.execute(partition, context)?))
    }
}
