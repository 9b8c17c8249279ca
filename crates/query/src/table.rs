//! A table over the parts of all runs: opens what a query can need, and gives plain scans, which a
//! cluster can run too.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::stats::Precision;
use datafusion::common::{DFSchema, ScalarValue, Statistics};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::parquet::CachedParquetFileReaderFactory;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfigBuilder, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::error::Result;
use datafusion::logical_expr::expr::Case;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType, col, lit};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::union::UnionExec;
use datafusion::prelude::cast;
use futures::StreamExt as _;

use crate::catalog::{Moment, Shape, WEIGHT, timestamp};
use crate::footer::{self, Footer};
use crate::scans::Scans;
use crate::shape::first_schema;
use crate::{Error, Fleet, Run, flags, prune};

/// Footers that are read at the same time.
const AT_A_TIME: usize = 32;
/// The column of every part that holds what to add to its moments.
const CLOCK: &str = "_clock_ns";

/// A table over all runs.
#[derive(Debug)]
pub struct RunsTable {
    shape: Arc<Shape>,
    text: DataType,
    fleet: Arc<Fleet>,
    schema: SchemaRef,
    scans: Arc<Scans>,
    /// Of these runs alone; of all where there are none.
    only: Option<Vec<Arc<Run>>>,
}

/// A column of a scan's result.
struct Output {
    name: String,
    /// From what is stored; `None` where it is stored under its name.
    from: Option<Expr>,
}

struct Part {
    file: PartitionedFile,
    rows: Precision<usize>,
    bytes: u64,
    schema: u32,
}

impl RunsTable {
    /// The table of this shape over these runs.
    pub fn new(shape: Arc<Shape>, text: DataType, fleet: Arc<Fleet>, scans: Arc<Scans>) -> Self {
        let schema = shape.schema(&text);
        Self { shape, text, fleet, schema, scans, only: None }
    }

    /// The same, of these runs alone.
    pub fn only(self, runs: Vec<Arc<Run>>) -> Self {
        Self { only: Some(runs), ..self }
    }

    /// How many rows the parts of a run have; `None` where not all of them can be read.
    pub async fn rows(&self, state: &dyn Session, run: &Arc<Run>) -> Option<usize> {
        let parts = self.parts(state, std::slice::from_ref(run)).await;
        let of_run = run.parts.get(self.shape.name).map_or(0, Vec::len);
        (parts.len() == of_run).then(|| parts.iter().filter_map(|part| part.rows.get_value()).sum())
    }

    /// How many parts these runs have.
    pub fn count(&self, runs: &[Arc<Run>]) -> usize {
        runs.iter().filter_map(|run| run.parts.get(self.shape.name)).map(Vec::len).sum()
    }

    /// The parts of these runs that are whole. The others are named in the fleet.
    async fn parts(&self, state: &dyn Session, runs: &[Arc<Run>]) -> Vec<Part> {
        let wanted: Vec<_> = runs
            .iter()
            .flat_map(|run| {
                run.parts.get(self.shape.name).into_iter().flatten().map(move |part| (run.clone(), part.clone()))
            })
            .filter(|(_, part)| !self.fleet.is_left_out(part.location.as_ref()))
            .collect();
        let cache = state.runtime_env().cache_manager.get_file_metadata_cache();
        futures::stream::iter(wanted)
            .map(|(run, part)| {
                let cache = cache.clone();
                async move {
                    let footer = footer::read(&self.fleet.place, &part, cache, &self.shape).await;
                    self.scans.progress().opened();
                    match footer {
                        Ok(footer) => Some(self.part(&run, part, footer)),
                        Err(why) => {
                            self.fleet.leave_out(part.location.as_ref(), &why);
                            None
                        }
                    }
                }
            })
            .buffered(AT_A_TIME)
            .filter_map(|part| async { part })
            .collect()
            .await
    }

    fn part(&self, run: &Run, meta: object_store::ObjectMeta, footer: Footer) -> Part {
        let text = |value: Option<&str>| match self.text {
            DataType::Utf8View => ScalarValue::Utf8View(value.map(str::to_owned)),
            _ => ScalarValue::Utf8(value.map(str::to_owned)),
        };
        let clock = match self.shape.moment {
            Moment::Monotonic(_) => run.clock_ns,
            Moment::Epoch(_) | Moment::Stored => Some(0),
            Moment::Run => run.start_ns,
        };
        let values = vec![
            text(Some(&run.host)),
            text(Some(&run.name)),
            text(run.target.as_deref()),
            ScalarValue::Int64(Some(run.weight)),
            ScalarValue::Int64(clock),
        ];
        let bytes = meta.size;
        let rows = footer.statistics.num_rows;
        let file =
            PartitionedFile::new_from_meta(meta).with_partition_values(values).with_statistics(footer.statistics);
        Part { file, rows, bytes, schema: footer.schema }
    }

    /// A scan of these parts, which all have the same layout, with the columns of the projection.
    fn scan_of(
        &self,
        state: &dyn Session,
        parts: Vec<Part>,
        first: bool,
        projection: &[usize],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let stored = if first { Arc::new(first_schema(&self.shape)) } else { self.shape.stored.clone() };
        let partition: Vec<FieldRef> = vec![
            Arc::new(Field::new("host", self.text.clone(), false)),
            Arc::new(Field::new("run", self.text.clone(), false)),
            Arc::new(Field::new("target", self.text.clone(), true)),
            Arc::new(Field::new(WEIGHT.0, DataType::Int64, false)),
            Arc::new(Field::new(CLOCK, DataType::Int64, true)),
        ];
        let table = TableSchema::builder(stored).with_table_partition_cols(partition).build();
        let outputs = self.outputs(first, projection)?;
        let needed = needed(&outputs, table.table_schema())?;
        let scan = self.read(state, table, parts, needed, limit)?;
        if outputs.iter().all(|output| output.from.is_none()) {
            return Ok(scan);
        }
        let read = scan.schema();
        let of_read = DFSchema::try_from(read.clone())?;
        let exprs = outputs
            .into_iter()
            .map(|Output { name, from }| {
                let expr: Arc<dyn PhysicalExpr> = match from {
                    Some(expr) => state.create_physical_expr(expr, &of_read)?,
                    None => Arc::new(Column::new_with_schema(&name, &read)?),
                };
                Ok(ProjectionExpr { expr, alias: name })
            })
            .collect::<Result<Vec<_>>>()?;
        Ok(Arc::new(ProjectionExec::try_new(exprs, scan)?))
    }

    /// The columns of the projection, and how those are made that are not stored so.
    fn outputs(&self, first: bool, projection: &[usize]) -> Result<Vec<Output>> {
        let output = |at: &usize| {
            let name = self.schema.field(*at).name().clone();
            let from = match name.as_str() {
                "time" => self.time()?,
                "flags" if first && self.shape.name == "packets" => Some(flags::letters("flags", &self.text)?),
                _ => None,
            };
            Ok(Output { name, from })
        };
        projection.iter().map(output).collect()
    }

    /// Reads these columns of parts.
    fn read(
        &self,
        state: &dyn Session,
        table: TableSchema,
        parts: Vec<Part>,
        columns: Vec<usize>,
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let mut statistics = Statistics::new_unknown(table.table_schema());
        statistics.num_rows = parts.iter().fold(Precision::Exact(0), |sum, part| sum.add(&part.rows));
        statistics.total_byte_size =
            Precision::Inexact(usize::try_from(parts.iter().map(|p| p.bytes).sum::<u64>()).unwrap_or(usize::MAX));
        let has_pages = parts.iter().any(|part| footer::has_pages(&self.fleet.place, &part.file.object_meta));
        let groups = groups(parts, state.config().target_partitions());
        let store = self.fleet.place.store.clone();
        let cache = state.runtime_env().cache_manager.get_file_metadata_cache();
        let source = ParquetSource::new(table)
            .with_table_parquet_options(state.table_options().parquet.clone())
            .with_enable_page_index(has_pages)
            .with_parquet_file_reader_factory(Arc::new(CachedParquetFileReaderFactory::new(store, cache)));
        let config = FileScanConfigBuilder::new(self.fleet.place.url.clone(), Arc::new(source))
            .with_file_groups(groups)
            .with_statistics(statistics)
            .with_limit(limit)
            .with_projection_indices(Some(columns))?
            .build();
        Ok(DataSourceExec::from_data_source(config))
    }

    /// The time of a row, from what is stored; `None` where it is stored as such.
    fn time(&self) -> Result<Option<Expr>> {
        let moment = match self.shape.moment {
            Moment::Monotonic(columns) => first_of(columns) + col(CLOCK),
            Moment::Epoch(column) => col(column),
            Moment::Run => col(CLOCK),
            Moment::Stored => return Ok(None),
        };
        Ok(Some(cast(moment / lit(1000_i64), timestamp())))
    }
}

/// The first of these columns that is not null. As CASE: the engine's own `coalesce` becomes one in
/// its logical rules, and what a scan computes is made after them.
fn first_of(columns: &[&str]) -> Expr {
    let of = |name: &&str| (Box::new(col(*name).is_not_null()), Box::new(col(*name)));
    match columns {
        [only] => col(*only),
        _ => Expr::Case(Case::new(None, columns.iter().map(of).collect(), None)),
    }
}

/// The stored columns that outputs are made of, each once.
fn needed(outputs: &[Output], stored: &Schema) -> Result<Vec<usize>> {
    let mut needed = Vec::new();
    for output in outputs {
        let columns: Vec<&str> = match &output.from {
            Some(expr) => expr.column_refs().into_iter().map(|column| column.name.as_str()).collect(),
            None => vec![&output.name],
        };
        for column in columns {
            let at = stored.index_of(column)?;
            if !needed.contains(&at) {
                needed.push(at);
            }
        }
    }
    Ok(needed)
}

/// Parts in so many groups of about the same bytes, in order.
fn groups(parts: Vec<Part>, most: usize) -> Vec<FileGroup> {
    let total: u64 = parts.iter().map(|part| part.bytes).sum();
    let share = (total / most.max(1) as u64).max(1);
    let mut groups: Vec<Vec<PartitionedFile>> = Vec::new();
    let mut filled = 0_u64;
    for part in parts {
        let group = usize::try_from(filled / share).unwrap_or(usize::MAX).min(most.max(1) - 1);
        filled += part.bytes;
        while groups.len() <= group {
            groups.push(Vec::new());
        }
        groups[group].push(part.file);
    }
    groups.into_iter().filter(|group| !group.is_empty()).map(FileGroup::new).collect()
}

#[async_trait]
impl TableProvider for RunsTable {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        Ok(vec![TableProviderFilterPushDown::Inexact; filters.len()])
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let whole: Vec<usize> = (0..self.schema.fields().len()).collect();
        let projection = projection.unwrap_or(&whole);
        let runs = match &self.only {
            Some(only) => only,
            None => &self.fleet.runs().await.map_err(Error::within)?.all,
        };
        let runs = prune::prune(state, runs, filters, &self.text, 0)?;
        self.scans.progress().opens(self.count(&runs));
        let parts = self.parts(state, &runs).await;
        self.scans.planned(
            self.shape.name,
            runs.len(),
            &parts.iter().map(|p| (p.file.object_meta.clone(), p.rows)).collect::<Vec<_>>(),
        );
        let (first, second): (Vec<Part>, Vec<Part>) =
            parts.into_iter().partition(|part| part.schema == 1 && self.shape.name == "packets");
        let mut scans = Vec::new();
        for (parts, is_first) in [(first, true), (second, false)] {
            if !parts.is_empty() {
                scans.push(self.scan_of(state, parts, is_first, projection, limit)?);
            }
        }
        match scans.len() {
            0 => Ok(Arc::new(EmptyExec::new(Arc::new(self.schema.project(projection)?)))),
            1 => Ok(scans.remove(0)),
            _ => UnionExec::try_new(scans),
        }
    }
}
