//! Joins that give way: a task is interrupted where it waits, and a join that makes many rows of few would never wait.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode as _};
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coop::CooperativeExec;

/// Lets every join give way now and then.
#[derive(Debug)]
pub struct JoinsGiveWay;

impl PhysicalOptimizerRule for JoinsGiveWay {
    fn name(&self) -> &'static str {
        "joins_give_way"
    }

    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let wrap = |node: Arc<dyn ExecutionPlan>| {
            Ok(match node.name().ends_with("JoinExec") {
                true => Transformed::yes(Arc::new(CooperativeExec::new(node)) as Arc<dyn ExecutionPlan>),
                false => Transformed::no(node),
            })
        };
        Ok(plan.transform_up(wrap)?.data)
    }

    fn schema_check(&self) -> bool {
        true
    }
}
