//! Columns that are read late: where a filter leaves few rows, the other columns are read of these
//! alone.
//!
//! A join's own filter, which it learns while it runs, mostly leaves all rows of a part or none: to
//! ask it of each row costs more than it spares. So below a join filters exclude whole parts and
//! row groups, and no single rows.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode as _};
use datafusion::datasource::physical_plan::{FileScanConfigBuilder, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::sorts::sort::SortExec;

use crate::joins::is_join;

/// Lets the scans that no join is above filter rows. It comes before filters find their scans.
#[derive(Debug)]
pub struct ReadLate;

impl PhysicalOptimizerRule for ReadLate {
    fn name(&self) -> &'static str {
        "read_late"
    }

    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        late(plan, true)
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn late(plan: Arc<dyn ExecutionPlan>, filters_rows: bool) -> Result<Arc<dyn ExecutionPlan>> {
    let filters_rows = match plan.downcast_ref::<SortExec>() {
        // What is left of the first rows of an order cannot be asked for before they are known: a
        // join above it has no filter for what is below.
        Some(sort) if sort.fetch().is_some() => true,
        _ => filters_rows && !is_join(&plan),
    };
    if let Some(scan) = plan.downcast_ref::<DataSourceExec>() {
        let of_parquet = scan.downcast_to_file_source::<ParquetSource>().filter(|_| filters_rows);
        let Some((config, source)) = of_parquet else { return Ok(plan) };
        let source = source.clone().with_pushdown_filters(true);
        let config = FileScanConfigBuilder::from(config.clone()).with_source(Arc::new(source)).build();
        return Ok(DataSourceExec::from_data_source(config));
    }
    Ok(plan.map_children(|child| Ok(Transformed::yes(late(child, filters_rows)?)))?.data)
}
