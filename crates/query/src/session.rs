//! A session: tables over the runs of a place, and queries on them.

use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::datasource::MemTable;
use datafusion::error::DataFusionError;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::memory_pool::{FairSpillPool, TrackConsumersPool};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::logical_expr::{LogicalPlan, Statement};
use datafusion::parquet::arrow::arrow_reader::ParquetRecordBatchReader;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::{ExecutionPlan, SendableRecordBatchStream, displayable, execute_stream};
use datafusion::prelude::{SQLOptions, SessionConfig, SessionContext};
use futures::StreamExt as _;
use object_store::{ObjectMeta, ObjectStoreExt as _};

use crate::hours::Hours;
use crate::joins::JoinsGiveWay;
use crate::late::ReadLate;
use crate::rollup::Rollup;
use crate::scans::Scans;
use crate::table::RunsTable;
use crate::{Catalog, Error, Fleet, Place, VIEWS, complaint, prune, runs, stores};

/// The footers of parts may take one in so many bytes of what a query may hold, beside that.
const FOOTERS: usize = 4;

/// How often a query starts again on a cluster of which an executor went away.
#[cfg(feature = "cluster")]
const ANEW: u32 = 3;

/// How queries are run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Memory that a query may use before it spills, in bytes.
    pub memory: u64,
    /// In how many partitions it is worked on; `None` for one a CPU.
    pub partitions: Option<usize>,
    /// The scheduler of a cluster; `None` to run here.
    pub scheduler: Option<String>,
    /// How long a scheduler and its executors are waited for.
    pub wait: Duration,
    /// Without the roll-up that is kept of runs.
    pub fresh: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { memory: 4 << 30, partitions: None, scheduler: None, wait: Duration::from_secs(30), fresh: false }
    }
}

/// Tables over the runs of a place.
pub struct Session {
    context: SessionContext,
    catalog: Catalog,
    fleet: Arc<Fleet>,
    scans: Arc<Scans>,
    options: Options,
}

/// What is done to plans, in order, which are worked on here or sent elsewhere.
fn rules(here: bool) -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    let first: Arc<dyn PhysicalOptimizerRule + Send + Sync> = Arc::new(ReadLate);
    std::iter::once(first).chain(PhysicalOptimizer::new().rules).chain([Arc::new(JoinsGiveWay { here }) as _]).collect()
}

/// The rows of an answer, as they come.
pub struct Answer {
    /// Their columns.
    pub schema: SchemaRef,
    /// The rows.
    pub rows: SendableRecordBatchStream,
    /// What runs elsewhere is cancelled when this is dropped.
    #[cfg(feature = "cluster")]
    _job: Option<crate::cluster::Job>,
}

impl Session {
    /// Finds the runs below a place and makes their tables.
    ///
    /// # Errors
    /// [`Error::Place`], [`Error::NoRuns`], or [`Error::Engine`].
    pub async fn open(place: Place, options: Options) -> Result<Self, Error> {
        let distributed = options.scheduler.is_some();
        // Executors do not see what is kept here.
        let rollup = if distributed || options.fresh { None } else { Rollup::of(&place) };
        let fleet = Arc::new(Fleet::of(place));
        if !rollup.as_ref().is_some_and(Rollup::is_current) {
            let _ = fleet.runs().await?;
        }
        let text = if distributed { DataType::Utf8 } else { DataType::Utf8View };
        let mut config = Self::config(distributed);
        if let Some(partitions) = options.partitions {
            config = config.with_target_partitions(partitions);
        }
        let most = usize::try_from(options.memory).unwrap_or(usize::MAX);
        let top = std::num::NonZeroUsize::MIN;
        let runtime = RuntimeEnvBuilder::new()
            .with_memory_pool(Arc::new(TrackConsumersPool::new(FairSpillPool::new(most), top)))
            .with_object_store_registry(Arc::new(stores::Stores::default()))
            // A part's footer is read when the scan is planned, and not again when its rows are
            // read.
            .with_metadata_cache_limit(most / FOOTERS)
            .build_arc()?;
        let state = SessionStateBuilder::new()
            .with_config(config)
            .with_runtime_env(runtime)
            .with_default_features()
            .with_physical_optimizer_rules(rules(!distributed))
            .build();
        let context = SessionContext::new_with_state(state);
        let catalog = Catalog::new(text.clone());
        let scans = Arc::new(Scans::default());
        context.runtime_env().register_object_store(fleet.place.url.as_ref(), fleet.place.store.clone());
        for shape in &catalog.shapes {
            let table = RunsTable::new(shape.clone(), text.clone(), fleet.clone(), scans.clone());
            context.register_table(shape.name, Arc::new(table))?;
        }
        if let Some(shape) = catalog.shapes.iter().find(|shape| shape.name == "histograms") {
            let hours = Hours::new(shape.clone(), text.clone(), fleet.clone(), scans.clone(), rollup);
            context.register_table("hours", Arc::new(hours))?;
        }
        context.register_table("runs", Arc::new(runs::About::new(fleet.clone(), text)?))?;
        for view in VIEWS {
            let table = context.sql(view.sql).await?.into_view();
            context.register_table(view.name, table)?;
        }
        scans.forget();
        Ok(Self { context, catalog, fleet, scans, options })
    }

    fn config(distributed: bool) -> SessionConfig {
        #[cfg(feature = "cluster")]
        let config = if distributed { crate::cluster::config() } else { SessionConfig::new() };
        #[cfg(not(feature = "cluster"))]
        let config = {
            let _ = distributed;
            SessionConfig::new()
        };
        config.with_information_schema(true).set_bool("datafusion.sql_parser.collect_spans", true)
    }

    /// The runs, and what was skipped of them so far.
    pub fn fleet(&self) -> &Fleet {
        &self.fleet
    }

    /// The tables.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// Every name that a query can say: tables, views, columns.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = VIEWS.iter().map(|view| view.name.to_owned()).collect();
        names.extend(["runs", "hours", "host", "run", "time", "target", "weight"].map(str::to_owned));
        names.extend(runs::meanings().map(|(name, _)| name.to_owned()));
        for shape in &self.catalog.shapes {
            names.push(shape.name.to_owned());
            names.extend(shape.stored.fields().iter().map(|field| field.name().clone()));
        }
        names.sort();
        names.dedup();
        names
    }

    /// The columns of a table or view.
    ///
    /// # Errors
    /// [`Error::Query`] where there is none of that name.
    pub async fn columns(&self, table: &str) -> Result<SchemaRef, Error> {
        let sql = format!("SELECT * FROM {table}");
        let frame = self.context.table(table).await.map_err(|e| self.wrong(&sql, &e))?;
        Ok(Arc::new(frame.schema().as_arrow().clone()))
    }

    fn wrong(&self, sql: &str, error: &DataFusionError) -> Error {
        let mut names = self.names();
        let state = self.context.state();
        names.extend(state.scalar_functions().keys().cloned());
        names.extend(state.aggregate_functions().keys().cloned());
        names.extend(state.window_functions().keys().cloned());
        let views = VIEWS.iter().map(|view| view.name.to_owned());
        let tables = self.catalog.shapes.iter().map(|shape| shape.name.to_owned()).chain(views);
        Error::Query(complaint::of(
            sql,
            error,
            &names,
            &tables.chain(["runs", "hours"].map(str::to_owned)).collect::<Vec<_>>(),
        ))
    }

    async fn plan(&self, sql: &str) -> Result<(LogicalPlan, Arc<dyn ExecutionPlan>), Error> {
        let only_reads = SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false);
        let logical = self.context.state().create_logical_plan(sql).await.map_err(|e| self.wrong(sql, &e))?;
        only_reads.verify_plan(&logical).map_err(|e| self.wrong(sql, &e))?;
        if let LogicalPlan::Statement(Statement::Prepare(_) | Statement::SetVariable(_)) = logical {
            return Err(Error::Query("a query only reads: write SELECT".into()));
        }
        self.scans.forget();
        let physical = self.context.state().create_physical_plan(&logical).await.map_err(|e| self.engine(sql, e))?;
        Ok((logical, physical))
    }

    /// An error of planning or running.
    fn engine(&self, sql: &str, error: DataFusionError) -> Error {
        match error.find_root() {
            DataFusionError::ResourcesExhausted(why) => Error::Memory(format!(
                "the query needs more memory than --memory allows ({}), in a step that cannot spill to disk: group by less, \
                 take fewer rows, or allow more ({})",
                quantity::bytes(self.options.memory),
                why.lines().next().unwrap_or_default()
            )),
            DataFusionError::Plan(_) | DataFusionError::SchemaError(..) | DataFusionError::SQL(..) => {
                self.wrong(sql, &error)
            }
            _ => Error::Engine(error),
        }
    }

    /// How a query would be answered: the engine's plan, and what it would read.
    ///
    /// # Errors
    /// As [`Session::ask`].
    pub async fn explain(&self, sql: &str) -> Result<String, Error> {
        let (_, physical) = self.plan(sql).await?;
        let mut text = displayable(physical.as_ref()).indent(false).to_string();
        for (table, scan) in self.scans.all() {
            text.push_str(&format!(
                "{table}: reads {} rows in {} parts, of {} of {} runs\n",
                scan.rows,
                scan.parts.len(),
                scan.runs,
                self.fleet.known().unwrap_or(scan.runs)
            ));
        }
        self.scans.notes().into_iter().for_each(|note| text.push_str(&format!("{note}\n")));
        Ok(text)
    }

    /// How far the query is that is being answered, in words; `None` where nothing is known of it.
    pub fn progress(&self) -> Option<String> {
        self.scans.progress().text()
    }

    /// Answers a query. The rows come while it runs.
    ///
    /// # Errors
    /// [`Error::Query`] where it says nothing that can be answered, [`Error::Memory`],
    /// [`Error::Cluster`], [`Error::ExecutorLost`], [`Error::Engine`].
    pub async fn ask(&self, sql: &str) -> Result<Answer, Error> {
        let (_, physical) = self.plan(sql).await?;
        let schema = physical.schema();
        #[cfg(feature = "cluster")]
        if let Some(scheduler) = &self.options.scheduler {
            self.scans.progress().forget();
            let job = crate::cluster::Job::submit(scheduler, physical, &self.context, self.options.wait).await?;
            let (job, rows) = job.rows().await?;
            return Ok(Answer { schema, rows, _job: Some(job) });
        }
        self.scans.progress().works(physical.clone());
        let rows = execute_stream(physical, self.context.task_ctx()).map_err(|e| self.engine(sql, e))?;
        #[cfg(feature = "cluster")]
        return Ok(Answer { schema, rows, _job: None });
        #[cfg(not(feature = "cluster"))]
        return Ok(Answer { schema, rows });
    }

    /// Answers a query and passes the rows to `each`. Where a part turns out to be damaged within
    /// before any row was passed, it is skipped and the query starts again. So it does where an
    /// executor of a cluster went away.
    ///
    /// # Errors
    /// As [`Session::ask`]; [`Error::Damaged`] where rows had been passed.
    pub async fn each(
        &self,
        sql: &str,
        mut each: impl FnMut(&RecordBatch) -> Result<(), Error>,
    ) -> Result<SchemaRef, Error> {
        #[cfg(feature = "cluster")]
        let mut anew = 0;
        loop {
            let mut passed = false;
            let failed = match self.ask(sql).await {
                Ok(mut answer) => loop {
                    match answer.rows.next().await {
                        None => return Ok(answer.schema),
                        Some(Ok(batch)) if batch.num_rows() == 0 => {}
                        Some(Ok(batch)) => {
                            passed = true;
                            each(&batch)?;
                        }
                        Some(Err(error)) => break self.engine(sql, error),
                    }
                },
                Err(error) => error,
            };
            #[cfg(feature = "cluster")]
            if !passed && anew < ANEW && crate::cluster::is_lost(&failed) {
                anew += 1;
                continue;
            }
            let may_be_damage = match &failed {
                Error::Engine(error) => {
                    !matches!(error.find_root(), DataFusionError::External(e) if e.is::<std::io::Error>())
                }
                Error::Cluster(_) => true,
                _ => false,
            };
            let damaged = if may_be_damage { self.damaged().await } else { Vec::new() };
            if damaged.is_empty() {
                return Err(failed);
            }
            for (part, why) in &damaged {
                self.fleet.leave_out(part, why);
            }
            if passed {
                let named: Vec<String> = damaged.into_iter().map(|(part, why)| format!("{part}: {why}")).collect();
                return Err(Error::Damaged(named.join("; ")));
            }
        }
    }

    /// Answers a query and keeps its rows in memory, as a table of this name for later ones.
    ///
    /// # Errors
    /// As [`Session::each`].
    pub async fn keep(&self, name: &str, sql: &str) -> Result<(), Error> {
        let mut rows = Vec::new();
        let schema = self
            .each(sql, |batch| {
                rows.push(batch.clone());
                Ok(())
            })
            .await?;
        self.context.register_table(name, Arc::new(MemTable::try_new(schema, vec![rows])?))?;
        Ok(())
    }

    /// Makes a table of this name, of those rows of another one whose run reaches into a period, in
    /// microseconds since 1970: where what a row tells of goes on after the row's own time, that
    /// time does not say which runs are needed.
    ///
    /// # Errors
    /// Those of finding the runs; [`Error::Query`] where there is no such table of parts.
    pub async fn of_runs(&self, name: &str, table: &str, (from_us, until_us): (u64, u64)) -> Result<(), Error> {
        let shape = self.catalog.shapes.iter().find(|shape| shape.name == table);
        let shape = shape.ok_or_else(|| Error::Query(format!("no run has parts of a table {table}")))?;
        let runs = self.fleet.runs().await?.all.iter();
        let runs = runs.filter(|run| prune::reaches(run, from_us, until_us)).cloned().collect();
        let text = self.catalog.text.clone();
        let all = RunsTable::new(shape.clone(), text, self.fleet.clone(), self.scans.clone());
        self.context.register_table(name, Arc::new(all.only(runs)))?;
        Ok(())
    }

    /// The parts of the last scans that cannot be read to their end.
    async fn damaged(&self) -> Vec<(String, String)> {
        let parts: Vec<ObjectMeta> = self.scans.all().into_values().flat_map(|scan| scan.parts).collect();
        let store = &self.fleet.place.store;
        futures::stream::iter(parts)
            .map(|part| async move {
                let whole = match store.get(&part.location).await {
                    Ok(got) => got.bytes().await,
                    Err(error) => Err(error),
                };
                let why = match whole {
                    Ok(bytes) => unreadable(bytes)?,
                    Err(error) => stores::reason(&error),
                };
                Some((part.location.to_string(), format!("damaged: {why}")))
            })
            .buffer_unordered(4)
            .filter_map(|damaged| async { damaged })
            .collect()
            .await
    }
}

/// Why the rows of a part cannot all be read; `None` where they can.
fn unreadable(bytes: bytes::Bytes) -> Option<String> {
    let read = || {
        for batch in ParquetRecordBatchReader::try_new(bytes, 8192).map_err(|e| e.to_string())? {
            batch.map_err(|e| e.to_string())?;
        }
        Ok(())
    };
    // The reader asserts some of what a page says.
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(read))
        .unwrap_or_else(|_| Err("a page says something impossible".into()))
        .err()
}
