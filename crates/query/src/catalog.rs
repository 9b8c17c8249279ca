//! The tables: what each is called, its columns, and how a row gets its time.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef, TimeUnit};
use record::table::{Kind, Record};
use record::{ClosedConnection, Connect, Connection, Datagram, Packet, PacketCopy, Receive, Request, Send};

/// How a row gets its time of day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// The first of these columns that is not null: nanoseconds of `CLOCK_MONOTONIC`, to which the
    /// run's offset is added.
    Monotonic(&'static [&'static str]),
    /// This column: nanoseconds since 1970, UTC.
    Epoch(&'static str),
    /// The part has a column `time`.
    Stored,
    /// The beginning of the run: the rows have no moment.
    Run,
}

/// A table as queries see it.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Its name in SQL, and of its directory in a run without `.parquet`.
    pub name: &'static str,
    /// What a row is.
    pub doc: &'static str,
    /// How a row gets its time.
    pub moment: Moment,
    /// The columns in its parts, all of which may be missing from a part of an earlier version.
    pub stored: SchemaRef,
    /// What each of them means, by the same index.
    pub meanings: Vec<&'static str>,
    /// Those that no part is without.
    pub required: Vec<&'static str>,
}

/// What stands before the stored columns on every row, and what it means.
pub const LEADING: [(&str, &str); 3] = [
    ("host", "the host that the run is of; `unknown` where neither its directory `host=…` nor run.json says"),
    ("run", "the run: its `run=…`, or its directory below the place that was given"),
    ("time", "when it was, UTC, to the microsecond"),
];

/// What stands behind them.
pub const TRAILING: (&str, &str) = ("target", "what the run traced, in words");

/// Of tables of which an agent keeps one row in so many: what each row stands for.
pub const WEIGHT: (&str, &str) =
    ("weight", "how many such rows it stands for: one in so many was kept (`sample` in `[store]` of the agent)");

/// The tables that have it.
const THINNED: [&str; 3] = [Connect::TABLE, Send::TABLE, ClosedConnection::TABLE];

/// The type of `time`.
pub fn timestamp() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into()))
}

impl Shape {
    fn of<T: Record>(text: &DataType, doc: &'static str, moment: Moment) -> Self {
        let fields = T::COLUMNS
            .iter()
            .map(|column| {
                let kind = match column.kind {
                    Kind::Id => DataType::UInt64,
                    Kind::Number | Kind::Moment | Kind::Duration | Kind::Signed | Kind::Flag => DataType::Int64,
                    Kind::Time => timestamp(),
                    Kind::Text | Kind::Word | Kind::Json => text.clone(),
                    Kind::Real => DataType::Float64,
                };
                // A part of an earlier version may not have it.
                Field::new(column.name, kind, true)
            })
            .collect::<Vec<_>>();
        let meanings = T::COLUMNS.iter().map(|column| column.doc).collect();
        // What is derived from other columns was not always stored.
        let required = T::COLUMNS.iter().filter(|c| c.null.is_none() && c.set.is_some()).map(|c| c.name).collect();
        Self { name: T::TABLE, doc, moment, stored: Arc::new(Schema::new(fields)), meanings, required }
    }

    /// The table as queries see it: host, run, time, what is stored, target, weight.
    pub fn schema(&self, text: &DataType) -> SchemaRef {
        let mut fields: Vec<FieldRef> = vec![
            Arc::new(Field::new("host", text.clone(), false)),
            Arc::new(Field::new("run", text.clone(), false)),
            Arc::new(Field::new("time", timestamp(), true)),
        ];
        fields.extend(self.stored.fields().iter().filter(|field| field.name() != "time").cloned());
        fields.push(Arc::new(Field::new(TRAILING.0, text.clone(), true)));
        if THINNED.contains(&self.name) {
            fields.push(Arc::new(Field::new(WEIGHT.0, DataType::Int64, false)));
        }
        Arc::new(Schema::new(fields))
    }
}

/// All tables over the parts of runs. `runs` is another: it comes from `run.json` (`runs.rs`).
#[derive(Clone, Debug)]
pub struct Catalog {
    /// The tables.
    pub shapes: Vec<Arc<Shape>>,
    /// How text is held.
    pub text: DataType,
}

impl Catalog {
    /// The tables, with text of this type: `Utf8View` here, `Utf8` for a cluster, on which views of
    /// text do not travel.
    pub fn new(text: DataType) -> Self {
        let t = &text;
        let shapes = vec![
            Shape::of::<Connection>(t, "a connection, when it was picked up", Moment::Monotonic(&["since_ns"])),
            Shape::of::<Connect>(
                t,
                "an attempt to set up a connection, and how it ended",
                Moment::Monotonic(&["syn_at_ns", "established_at_ns", "accepted_at_ns", "ended_at_ns"]),
            ),
            Shape::of::<Send>(t, "an application write, timed at each stage", Moment::Monotonic(&["at_ns"])),
            Shape::of::<Receive>(
                t,
                "received bytes, timed until they were read",
                Moment::Monotonic(&["driver_rx_at_ns", "tcp_rx_at_ns", "ready_at_ns", "read_at_ns"]),
            ),
            Shape::of::<Request>(
                t,
                "a request with its answer",
                Moment::Monotonic(&["sent_at_ns", "arrived_at_ns", "written_at_ns", "read_at_ns"]),
            ),
            Shape::of::<Packet>(
                t,
                "a packet of TCP, or one that was dropped",
                Moment::Monotonic(&["sched_at_ns", "driver_at_ns", "dropped_at_ns", "ack_at_ns"]),
            ),
            Shape::of::<Datagram>(
                t,
                "a datagram of UDP",
                Moment::Monotonic(&[
                    "send_at_ns",
                    "sched_at_ns",
                    "driver_rx_at_ns",
                    "udp_rx_at_ns",
                    "ready_at_ns",
                    "read_at_ns",
                    "dropped_at_ns",
                ]),
            ),
            Shape::of::<PacketCopy>(t, "a packet that was copied, sent or received", Moment::Monotonic(&["at_ns"])),
            Shape::of::<ClosedConnection>(t, "the totals of a connection, by the kernel's counters", Moment::Run),
            Shape::of::<store::HistogramRow>(
                t,
                "sends by leg and duration, as `wirelapse agent` keeps them",
                Moment::Stored,
            ),
            Shape::of::<record::trial::Trial>(t, "a trial of a study", Moment::Epoch("started_ns")),
            Shape::of::<record::conversation::FindingRow>(
                t,
                "a finding on a conversation of a capture",
                Moment::Epoch("at_ns"),
            ),
            Shape::of::<record::remedy::RemedyRow>(
                t,
                "a remedy and what it was worth, by `wirelapse advise`",
                Moment::Epoch("at_ns"),
            ),
        ];
        Self { shapes: shapes.into_iter().map(Arc::new).collect(), text }
    }
}
