//! The table `runs`: a row for each run, from its `run.json`.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::{ArrayRef, Float64Array, Int64Array, StringArray, TimestampMicrosecondArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::catalog::{Session, TableProvider};
use datafusion::datasource::MemTable;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use record::Lost;
use serde_json::Value;

use crate::{Error, Fleet, Run};

/// A column of `runs` beside host, run and time: its name, what it means, and its value in a run.
struct Column {
    name: &'static str,
    doc: &'static str,
    of: Of,
}

enum Of {
    Time(fn(&Run) -> Option<i64>),
    Text(fn(&Run) -> Option<String>),
    Number(fn(&Run) -> Option<i64>),
    Real(fn(&Run) -> Option<f64>),
}

fn text(run: &Run, pointer: &str) -> Option<String> {
    match run.about.pointer(pointer)? {
        Value::String(text) => Some(text.clone()),
        Value::Array(words) => Some(words.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" ")),
        Value::Null => None,
        other => Some(other.to_string()),
    }
}

fn number(run: &Run, pointer: &str) -> Option<i64> {
    run.about.pointer(pointer)?.as_i64()
}

fn missed(run: &Run) -> Option<i64> {
    let lost: Lost = record::table::object::counters::deserialize(run.about.get("lost")?).ok()??;
    i64::try_from(lost.unrecorded()).ok()
}

fn covered(run: &Run) -> Option<f64> {
    let of = |key| number(run, key).map(|n| n as f64);
    let (armed, written) = (of("/coverage/bytes_armed")?, of("/coverage/bytes_written")?);
    (written > 0.0).then(|| armed / written)
}

const COLUMNS: [Column; 30] = [
    Column {
        name: "end",
        doc: "when it ended, UTC; null while it is written or where its writer was killed",
        of: Of::Time(|r| Some(r.end_ns? / 1000)),
    },
    Column { name: "duration_ns", doc: "how long it took", of: Of::Number(|r| r.end_ns?.checked_sub(r.start_ns?)) },
    Column {
        name: "directory",
        doc: "its directory below the place that was given",
        of: Of::Text(|r| Some(r.directory.clone())),
    },
    Column {
        name: "kind",
        doc: "what the run is of: `trace`, `study`, `capture`, `workload`",
        of: Of::Text(|r| text(r, "/kind").or_else(|| (!r.about.is_null()).then(|| "trace".into()))),
    },
    Column { name: "state", doc: "`finished`, or `unfinished`", of: Of::Text(|r| text(r, "/state")) },
    Column { name: "schema", doc: "version of the layout", of: Of::Number(|r| number(r, "/schema")) },
    Column { name: "version", doc: "version of Wirelapse", of: Of::Text(|r| text(r, "/version")) },
    Column { name: "command_line", doc: "its words, separated by blanks", of: Of::Text(|r| text(r, "/command_line")) },
    Column { name: "kernel", doc: "kernel release", of: Of::Text(|r| text(r, "/kernel")) },
    Column { name: "machine", doc: "machine hardware name", of: Of::Text(|r| text(r, "/machine")) },
    Column { name: "cpus", doc: "CPUs online", of: Of::Number(|r| number(r, "/cpus")) },
    Column { name: "backend", doc: "`timestamping` or `tracepoints`", of: Of::Text(|r| text(r, "/backend")) },
    Column {
        name: "target",
        doc: "what was traced, in words; of a capture, what was read",
        of: Of::Text(|r| r.target.clone()),
    },
    Column {
        name: "sampling_method",
        doc: "how sends were chosen: `every`, `windows`, `draws`",
        of: Of::Text(|r| text(r, "/sampling/method")),
    },
    Column { name: "sampling_one_in", doc: "one in so many", of: Of::Number(|r| number(r, "/sampling/one_in")) },
    Column {
        name: "kept_one_in",
        doc: "of sends, attempts to connect and totals, one in so many has a row (`weight`); null where all have",
        of: Of::Number(|r| number(r, "/kept_one_in")),
    },
    Column {
        name: "connections",
        doc: "rows in its tables, by run.json; null until it is finished",
        of: Of::Number(|r| number(r, "/rows/connections")),
    },
    Column { name: "sends", doc: "as `connections`", of: Of::Number(|r| number(r, "/rows/sends")) },
    Column { name: "receives", doc: "as `connections`", of: Of::Number(|r| number(r, "/rows/receives")) },
    Column { name: "requests", doc: "as `connections`", of: Of::Number(|r| number(r, "/rows/requests")) },
    Column { name: "packets", doc: "as `connections`", of: Of::Number(|r| number(r, "/rows/packets")) },
    Column { name: "datagrams", doc: "as `connections`", of: Of::Number(|r| number(r, "/rows/datagrams")) },
    Column { name: "dns", doc: "as `connections`", of: Of::Number(|r| number(r, "/rows/dns")) },
    Column { name: "copies", doc: "as `connections`", of: Of::Number(|r| number(r, "/rows/copies")) },
    Column {
        name: "missed",
        doc: "sends, receives, packets, datagrams and attempts to connect that were watched and have no record; null until it is finished",
        of: Of::Number(missed),
    },
    Column {
        name: "followed_ns",
        doc: "time for which connections were followed, summed over them",
        of: Of::Number(|r| number(r, "/coverage/followed_ns")),
    },
    Column {
        name: "armed_ns",
        doc: "of that, time for which sends were observed",
        of: Of::Number(|r| number(r, "/coverage/armed_ns")),
    },
    Column {
        name: "bytes_written",
        doc: "bytes written on these connections",
        of: Of::Number(|r| number(r, "/coverage/bytes_written")),
    },
    Column {
        name: "bytes_armed",
        doc: "of these, bytes written while sends were observed",
        of: Of::Number(|r| number(r, "/coverage/bytes_armed")),
    },
    Column { name: "covered", doc: "`bytes_armed` / `bytes_written`", of: Of::Real(covered) },
];

/// Name and meaning of the columns beside host, run and time.
pub fn meanings() -> impl Iterator<Item = (&'static str, &'static str)> {
    COLUMNS.iter().map(|column| (column.name, column.doc))
}

/// The table.
///
/// # Errors
/// None that a run could cause.
pub fn table(runs: &[Arc<Run>], kind: &DataType) -> Result<RecordBatch> {
    let texts = |values: Vec<Option<String>>| cast(&(Arc::new(StringArray::from(values)) as ArrayRef), kind);
    let times = |values: Vec<Option<i64>>| -> ArrayRef {
        Arc::new(TimestampMicrosecondArray::from(values).with_timezone("+00:00"))
    };
    let mut named: Vec<(&str, bool, ArrayRef)> = vec![
        ("host", false, texts(runs.iter().map(|r| Some(r.host.clone())).collect())?),
        ("run", false, texts(runs.iter().map(|r| Some(r.name.clone())).collect())?),
        ("time", true, times(runs.iter().map(|r| Some(r.start_ns? / 1000)).collect())),
    ];
    for column in &COLUMNS {
        let values: ArrayRef = match column.of {
            Of::Time(of) => times(runs.iter().map(|r| of(r)).collect()),
            Of::Text(of) => texts(runs.iter().map(|r| of(r)).collect())?,
            Of::Number(of) => Arc::new(runs.iter().map(|r| of(r)).collect::<Int64Array>()),
            Of::Real(of) => Arc::new(runs.iter().map(|r| of(r)).collect::<Float64Array>()),
        };
        named.push((column.name, true, values));
    }
    let fields: Vec<Field> =
        named.iter().map(|(name, null, array)| Field::new(*name, array.data_type().clone(), *null)).collect();
    Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), named.into_iter().map(|(_, _, array)| array).collect())?)
}

/// The table, which finds the runs when it is first read.
#[derive(Debug)]
pub struct About {
    fleet: Arc<Fleet>,
    text: DataType,
    schema: SchemaRef,
}

impl About {
    /// The table of these runs, with text of this type.
    ///
    /// # Errors
    /// None that a run could cause.
    pub fn new(fleet: Arc<Fleet>, text: DataType) -> Result<Self> {
        let schema = table(&[], &text)?.schema();
        Ok(Self { fleet, text, schema })
    }
}

#[async_trait]
impl TableProvider for About {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let runs = table(&self.fleet.runs().await.map_err(Error::within)?.all, &self.text)?;
        MemTable::try_new(self.schema.clone(), vec![vec![runs]])?.scan(state, projection, filters, limit).await
    }
}
