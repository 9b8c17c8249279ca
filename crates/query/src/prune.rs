//! Which runs a query can need, by what it says of host, run, time and target.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, BooleanArray, StringArray, TimestampMicrosecondArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::catalog::Session;
use datafusion::common::pruning::PruningStatistics;
use datafusion::common::{Column, DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, utils::conjunction};
use datafusion::physical_optimizer::pruning::PruningPredicateBuilder;

use crate::Run;
use crate::catalog::timestamp;

/// A run's clock was read once: rows can lie so much beyond its ends by its reading.
const SLACK_US: i64 = 60_000_000;

/// The runs that may have rows for which all of these filters hold. A row's time can lie
/// `before_us` microseconds before its run.
///
/// # Errors
/// Filters that cannot be planned.
pub fn prune(
    state: &dyn Session,
    runs: &[Arc<Run>],
    filters: &[Expr],
    text: &DataType,
    before_us: i64,
) -> Result<Vec<Arc<Run>>> {
    let ours = ["host", "run", "time", "target"];
    let known = filters.iter().filter(|f| f.column_refs().iter().all(|c| ours.contains(&c.name.as_str())));
    let Some(filter) = conjunction(known.cloned().map(unqualified)) else { return Ok(runs.to_vec()) };
    let schema = Arc::new(Schema::new(vec![
        Field::new("host", text.clone(), false),
        Field::new("run", text.clone(), false),
        Field::new("time", timestamp(), true),
        Field::new("target", text.clone(), true),
    ]));
    let physical = state.create_physical_expr(filter, &DFSchema::try_from(schema.clone())?)?;
    let predicate = PruningPredicateBuilder::new().with_file_schema(schema).try_build(physical)?;
    let keep = predicate.prune(&Known { runs, text, before_us })?;
    Ok(runs.iter().zip(keep).filter(|(_, keep)| *keep).map(|(run, _)| run.clone()).collect())
}

/// Whether a run may have been at work in a period, in microseconds since 1970.
pub fn reaches(run: &Run, from_us: u64, until_us: u64) -> bool {
    let begins = |start: i64| i128::from(start / 1000 - SLACK_US) < i128::from(until_us);
    let ends = |end: i64| i128::from(end / 1000 + SLACK_US) >= i128::from(from_us);
    run.start_ns.is_none_or(begins) && run.end_ns.is_none_or(ends)
}

/// The expression with columns of no table: `sends.host` is `host`.
pub fn unqualified(expr: Expr) -> Expr {
    use datafusion::common::tree_node::{Transformed, TreeNode as _};
    let plain = |e: Expr| {
        Ok(match e {
            Expr::Column(column) => Transformed::yes(Expr::Column(Column::new_unqualified(column.name))),
            other => Transformed::no(other),
        })
    };
    expr.clone().transform(plain).map_or(expr, |done| done.data)
}

struct Known<'a> {
    runs: &'a [Arc<Run>],
    text: &'a DataType,
    before_us: i64,
}

impl Known<'_> {
    fn texts<'b>(&'b self, of: impl Fn(&'b Run) -> Option<&'b str>) -> Option<ArrayRef> {
        let plain: StringArray = self.runs.iter().map(|run| of(run)).collect();
        datafusion::arrow::compute::cast(&plain, self.text).ok()
    }

    fn times(&self, of: impl Fn(&Run) -> Option<i64>) -> ArrayRef {
        let times: TimestampMicrosecondArray = self.runs.iter().map(|run| of(run)).collect();
        Arc::new(times.with_timezone("+00:00"))
    }
}

impl PruningStatistics for Known<'_> {
    fn min_values(&self, column: &Column) -> Option<ArrayRef> {
        match column.name.as_str() {
            "host" => self.texts(|run| Some(run.host.as_str())),
            "run" => self.texts(|run| Some(run.name.as_str())),
            "target" => self.texts(|run| run.target.as_deref()),
            "time" => Some(self.times(|run| Some(run.start_ns? / 1000 - SLACK_US - self.before_us))),
            _ => None,
        }
    }

    fn max_values(&self, column: &Column) -> Option<ArrayRef> {
        match column.name.as_str() {
            "time" => Some(self.times(|run| Some(run.end_ns? / 1000 + SLACK_US))),
            _ => self.min_values(column),
        }
    }

    fn num_containers(&self) -> usize {
        self.runs.len()
    }

    fn null_counts(&self, _: &Column) -> Option<ArrayRef> {
        None
    }

    fn row_counts(&self) -> Option<ArrayRef> {
        None
    }

    fn contained(&self, column: &Column, values: &HashSet<ScalarValue>) -> Option<BooleanArray> {
        let of = |of: &dyn Fn(&Run) -> Option<String>| {
            let wanted: HashSet<String> =
                values.iter().filter_map(|value| value.try_as_str().flatten().map(str::to_owned)).collect();
            Some(self.runs.iter().map(|run| of(run).map(|name| wanted.contains(&name))).collect())
        };
        match column.name.as_str() {
            "host" => of(&|run| Some(run.host.clone())),
            "run" => of(&|run| Some(run.name.clone())),
            "target" => of(&|run| run.target.clone()),
            _ => None,
        }
    }
}
