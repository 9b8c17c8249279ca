//! The table `hours`: the histograms of each run, added up by hour. From the roll-up
//! ([`crate::rollup`]) as far as that has the runs, else from the runs.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Column;
use datafusion::common::tree_node::TreeNode as _;
use datafusion::datasource::empty::EmptyTable;
use datafusion::datasource::provider_as_source;
use datafusion::error::Result;
use datafusion::functions::datetime::expr_fn::date_trunc;
use datafusion::functions_aggregate::expr_fn::sum;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{
    Expr, LogicalPlan, LogicalPlanBuilder, TableProviderFilterPushDown, TableType, col, lit,
};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::{cast, concat};
use futures::StreamExt as _;

use crate::catalog::Shape;
use crate::fleet::Runs;
use crate::rollup::Rollup;
use crate::scans::Scans;
use crate::table::RunsTable;
use crate::{Error, Fleet, Run, prune};

/// What a row is.
pub const DOC: &str = "sends by hour, leg and duration: `histograms`, added up over each hour of a run";
/// Columns of `histograms` that `hours` is without: they differ within an hour.
const WITHOUT: [&str; 1] = ["interval_ns"];
const SUMMED: [&str; 2] = ["count", "sum_ns"];
/// An hour begins before what is in it, in microseconds.
const HOUR_US: i64 = 3_600_000_000;
/// In this order the rows are kept: a leg lies together, and in it a peer.
const ORDER: [&str; 6] = ["stage", "peer", "host", "run", "time", "bucket"];
/// Runs of which the footers are read at the same time.
const AT_A_TIME: usize = 32;
/// Between host and run: no name has it.
const BETWEEN: &str = "\u{0}";

/// The table.
#[derive(Debug)]
pub struct Hours {
    shape: Arc<Shape>,
    text: DataType,
    fleet: Arc<Fleet>,
    scans: Arc<Scans>,
    schema: SchemaRef,
    rollup: Option<futures::lock::Mutex<Rollup>>,
}

impl Hours {
    /// The hours of these runs, with histograms of this shape.
    pub fn new(
        shape: Arc<Shape>,
        text: DataType,
        fleet: Arc<Fleet>,
        scans: Arc<Scans>,
        rollup: Option<Rollup>,
    ) -> Self {
        let of = shape.schema(&text);
        let fields = of.fields().iter().filter(|field| !WITHOUT.contains(&field.name().as_str())).cloned();
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        Self { shape, text, fleet, scans, schema, rollup: rollup.map(futures::lock::Mutex::new) }
    }

    fn histograms(&self, runs: Vec<Arc<Run>>) -> RunsTable {
        RunsTable::new(self.shape.clone(), self.text.clone(), self.fleet.clone(), self.scans.clone()).only(runs)
    }

    /// The columns by name, with the types of the table.
    fn columns(&self) -> impl Iterator<Item = Expr> + '_ {
        let column = |name: &str| Expr::Column(Column::new_unqualified(name));
        self.schema.fields().iter().map(move |f| cast(column(f.name()), f.data_type().clone()).alias(f.name()))
    }

    /// The hours of these runs, from their histograms.
    fn of_runs(&self, runs: Vec<Arc<Run>>) -> Result<LogicalPlanBuilder> {
        let table = provider_as_source(Arc::new(self.histograms(runs)));
        let groups = self.schema.fields().iter().map(|field| field.name().as_str());
        let groups = groups.filter(|name| !SUMMED.contains(name)).map(|name| match name {
            "time" => date_trunc(lit("hour"), col("time")).alias("time"),
            name => col(name),
        });
        LogicalPlanBuilder::scan("histograms", table, None)?
            .aggregate(groups.collect::<Vec<_>>(), SUMMED.map(|name| sum(col(name)).alias(name)))?
            .project(self.columns())
    }

    /// Rows that are kept, without those of these runs.
    fn kept(&self, table: Arc<dyn TableProvider>, without: &[(String, String)]) -> Result<LogicalPlanBuilder> {
        let kept = LogicalPlanBuilder::scan("kept", provider_as_source(table), None)?;
        if without.is_empty() {
            return kept.project(self.columns());
        }
        let names = without.iter().map(|(host, run)| lit(format!("{host}{BETWEEN}{run}"))).collect();
        let name = cast(concat(vec![col("host"), lit(BETWEEN), col("run")]), DataType::Utf8);
        kept.filter(name.in_list(names, true))?.project(self.columns())
    }

    fn either(&self, plans: [Option<LogicalPlanBuilder>; 2]) -> Result<LogicalPlan> {
        match plans {
            [Some(one), Some(other)] => one.union(other.build()?)?.build(),
            [Some(one), None] | [None, Some(one)] => one.build(),
            [None, None] => {
                let none = Arc::new(EmptyTable::new(self.schema.clone()));
                LogicalPlanBuilder::scan("hours", provider_as_source(none), None)?.build()
            }
        }
    }

    /// All rows of the runs that the filters leave, and perhaps of more.
    async fn rows(&self, state: &dyn Session, filters: &[Expr]) -> Result<LogicalPlan> {
        let Some(rollup) = &self.rollup else {
            let all = self.fleet.runs().await.map_err(Error::within)?;
            return self
                .either([None, Some(self.of_runs(prune::prune(state, &all.all, filters, &self.text, HOUR_US)?)?)]);
        };
        let mut rollup = rollup.lock().await;
        if self.fleet.known().is_none() && rollup.is_current() {
            self.scans.note(format!("hours: all {} runs are in the roll-up", rollup.runs()));
            let kept = rollup.table(self.schema.clone())?.map(|table| self.kept(table, &[])).transpose()?;
            return self.either([kept, None]);
        }
        let all = self.fleet.runs().await.map_err(Error::within)?;
        let mut wanted = prune::prune(state, &all.all, filters, &self.text, HOUR_US)?;
        wanted.retain(|run| run.parts.contains_key(self.shape.name));
        self.add(state, all, &mut rollup, &wanted).await?;
        let live: Vec<_> = wanted.into_iter().filter(|run| !rollup.has(run)).collect();
        self.scans.note(format!("hours: {} of {} runs are in the roll-up", rollup.runs(), all.all.len()));
        let kept = rollup.table(self.schema.clone())?.map(|table| self.kept(table, &[])).transpose()?;
        let live = (!live.is_empty()).then(|| self.of_runs(live)).transpose()?;
        self.either([kept, live])
    }

    /// Adds those of these runs to the roll-up that it does not have and that can be read, and
    /// drops what is gone.
    async fn add(&self, state: &dyn Session, all: &Runs, rollup: &mut Rollup, wanted: &[Arc<Run>]) -> Result<()> {
        let missing = rollup.missing(all, wanted);
        self.scans.progress().opens(self.histograms(Vec::new()).count(&missing));
        let added: Vec<(Arc<Run>, bool)> = futures::stream::iter(missing)
            .map(|run| async move {
                let rows = self.histograms(Vec::new()).rows(state, &run).await?;
                let said = run.about.pointer("/rows/histograms").and_then(serde_json::Value::as_u64);
                let finished = run.about.get("state").is_some_and(|state| state == "finished");
                Some((run, finished && said == u64::try_from(rows).ok()))
            })
            .buffered(AT_A_TIME)
            .filter_map(|added| async { added })
            .collect()
            .await;
        let skipped = !self.fleet.left_out().is_empty();
        let day = |before: Option<Arc<dyn TableProvider>>, without: Vec<(String, String)>, added: Vec<Arc<Run>>| async move {
            let kept = before.map(|table| self.kept(table, &without)).transpose()?;
            let new = (!added.is_empty()).then(|| self.of_runs(added)).transpose()?;
            let order = ORDER.map(|name| col(name).sort(true, true));
            let sorted = LogicalPlanBuilder::from(self.either([kept, new])?).sort(order)?.build()?;
            let plan = state.create_physical_plan(&sorted).await?;
            self.scans.progress().works(plan.clone());
            Ok(plan)
        };
        rollup.update(state, self.schema.clone(), all, &added, skipped, day).await
    }
}

/// Whether a filter can be applied here: one with a query within cannot.
fn is_plain(filter: &Expr) -> bool {
    let asks = |expr: &Expr| Ok(matches!(expr, Expr::ScalarSubquery(_) | Expr::InSubquery(_) | Expr::Exists(_)));
    !filter.exists(asks).unwrap_or(true)
}

#[async_trait]
impl TableProvider for Hours {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        let of = |filter: &&Expr| match is_plain(filter) {
            true => TableProviderFilterPushDown::Exact,
            false => TableProviderFilterPushDown::Unsupported,
        };
        Ok(filters.iter().map(of).collect())
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        _: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let mut plan = LogicalPlanBuilder::from(self.rows(state, filters).await?);
        if let Some(filter) = conjunction(filters.iter().cloned().map(prune::unqualified)) {
            plan = plan.filter(filter)?;
        }
        if let Some(projection) = projection {
            let columns: Vec<Expr> = self.columns().collect();
            plan = plan.project(projection.iter().filter_map(|at| columns.get(*at).cloned()))?;
        }
        state.create_physical_plan(&plan.build()?).await
    }
}
