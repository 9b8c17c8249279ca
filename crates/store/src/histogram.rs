//! What an agent keeps: histograms by interval, and a row for the run.

use record::histogram::{self, LOWEST, Series};
use record::table::{Cell, Kind, Record, Value, number};
use record::{IpPrefix, Leg, Nanos, Provenance, Utc, columns};

/// Who a series is of, beyond its key.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Named {
    /// The path of the cgroup.
    pub cgroup_path: Option<String>,
    /// The systemd unit.
    pub unit: Option<String>,
    /// The container's name, or its id where the name is not known.
    pub container: Option<String>,
    /// The pod's name, or its uid where the name is not known.
    pub pod: Option<String>,
    /// The pod's namespace.
    pub namespace: Option<String>,
    /// Of what kind the owner of the pod is: `deployment`, `statefulset`, …
    pub owner_kind: Option<String>,
    /// The name of the owner, which is in the pod's namespace.
    pub owner: Option<String>,
}

/// The index of a bucket; that of durations of zero is one below [`LOWEST`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bucket(pub i32);

impl Cell for Bucket {
    const KIND: Kind = Kind::Signed;
    fn value(&self) -> Value<'_> {
        Value::Number(i64::from(self.0).cast_unsigned())
    }
    fn from_value(value: Value<'_>) -> Result<Self, &'static str> {
        i32::try_from(number(value)?.cast_signed()).map(Self).map_err(|_| "does not fit 32 bits")
    }
}

/// The id of a cgroup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct CgroupId(pub u64);

impl Cell for CgroupId {
    const KIND: Kind = Kind::Id;
    fn value(&self) -> Value<'_> {
        Value::Number(self.0)
    }
    fn from_value(value: Value<'_>) -> Result<Self, &'static str> {
        number(value).map(Self)
    }
}

/// One bucket of one histogram of one interval.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct HistogramRow {
    /// Start of the interval.
    pub time: Utc,
    /// Its length.
    pub interval: Nanos,
    /// The peer's address, or its network.
    pub peer: Option<String>,
    /// The peer's port.
    pub peer_port: Option<u16>,
    /// Port of the host.
    pub local_port: Option<u16>,
    /// The cgroup.
    pub cgroup: Option<CgroupId>,
    /// Who it is.
    pub named: Named,
    /// Name of the program.
    pub program: Option<String>,
    /// Whether it is the series of what found no room.
    pub overflow: bool,
    /// The leg.
    pub stage: String,
    /// The schema of the buckets.
    pub schema: u64,
    /// The bucket.
    pub bucket: Bucket,
    /// How many sends.
    pub count: u64,
    /// The sum of all durations of the interval, on the row of its lowest bucket.
    pub sum: Nanos,
}

columns! {
    HistogramRow: "histograms", "", blank = HistogramRow::default();
    time = time, "start of the interval, UTC";
    interval_ns = interval, "its length";
    peer = peer, null "series are not kept apart by peer", "the peer's address, or its network";
    peer_port = peer_port, null "series are not kept apart by it", "the peer's port, where the connection was made from this host";
    local_port = local_port, null "series are not kept apart by it", "this host's port, where the connection was accepted here";
    cgroup = cgroup, null "series are not kept apart by cgroup", "the kernel's id of the socket's cgroup";
    cgroup_path = named.cgroup_path, null "as `cgroup`, or it is gone", "path of the cgroup; short-lived ones are folded into their parent";
    unit = named.unit, null "there is none", "systemd unit of the cgroup";
    container = named.container, null "there is none", "name of the container, or its id where the runtime's files do not say";
    pod = named.pod, null "there is none", "name of the Kubernetes pod, or its uid";
    namespace = named.namespace, null "there is none, or it is not known", "namespace of the pod";
    owner_kind = named.owner_kind, null "as `owner`", "what owns the pod: `deployment`, `replicaset`, `statefulset`, `daemonset`, `job`";
    owner = named.owner, null "there is none, no API of Kubernetes told of it by then, or the run is of an earlier version", "name of what owns the pod";
    program = program, null "series are not kept apart by program", "name of the process";
    overflow = overflow, "whether this is the series of all sends that found no room for another series";
    stage = stage, "the leg: `call`, `tcp`, `qdisc`, `nic`, `network`, `total`";
    schema = schema, "schema of the buckets' bounds, 3";
    bucket = bucket, "index *i* of the bucket, which holds durations in (2^((*i*−1)/8), 2^(*i*/8)] s; −240 holds durations of 0";
    count = count, "sends in the bucket";
    sum_ns = sum, "sum of all durations of the interval and stage, on the row of the lowest bucket; 0 on the others";
}

impl HistogramRow {
    /// The rows of what was added to a series in an interval.
    pub fn of<'a>(time: Utc, interval: Nanos, series: &'a Series, named: &'a Named) -> impl Iterator<Item = Self> + 'a {
        series.legs.iter().flat_map(move |(leg, histogram)| {
            let zero = (histogram.zero > 0).then_some((LOWEST - 1, histogram.zero));
            let buckets = zero.into_iter().chain(histogram.buckets.iter().map(|(bucket, n)| (*bucket, *n)));
            let mut sum = histogram.sum;
            buckets.map(move |(bucket, count)| Self {
                time,
                interval,
                peer: series.key.peer.as_ref().map(IpPrefix::to_string),
                peer_port: series.key.peer_port,
                local_port: series.key.local_port,
                cgroup: series.key.cgroup.map(CgroupId),
                named: named.clone(),
                program: series.key.program.clone(),
                overflow: series.key.overflow,
                stage: Leg::name(*leg).to_owned(),
                schema: u64::from(histogram::SCHEMA.unsigned_abs()),
                bucket: Bucket(bucket),
                count,
                sum: std::mem::take(&mut sum),
            })
        })
    }
}

/// What `run.json` says, for engines that read no JSON: one row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunRow {
    /// Name of the host.
    pub host: String,
    /// Start of the run.
    pub time: Utc,
    /// End of the run.
    pub end_time: Utc,
    /// Where the run comes from.
    pub provenance: Provenance,
    /// The run's end.
    pub end_ns: u64,
    /// Rows of `histograms`.
    pub histograms: u64,
    /// Rows of `sends`.
    pub sends: u64,
    /// What was missed, each counter.
    pub lost: record::Lost,
    /// How much was observed.
    pub coverage: record::Coverage,
}

impl RunRow {
    fn blank() -> Self {
        Self {
            host: String::new(),
            time: Utc::default(),
            end_time: Utc::default(),
            provenance: <Provenance as Record>::blank(),
            end_ns: 0,
            histograms: 0,
            sends: 0,
            lost: record::Lost::default(),
            coverage: record::Coverage::default(),
        }
    }
}

columns! {
    RunRow: "runs", "", blank = RunRow::blank();
    host = host, "name of the host";
    time = time, "start of the run, UTC";
    end_time = end_time, "its end, UTC";
    version = provenance.version, "version of Wirelapse";
    kernel = provenance.kernel, "kernel release";
    machine = provenance.machine, "machine hardware name";
    cpus = provenance.cpus, "CPUs online";
    backend = provenance.backend, "`timestamping` or `tracepoints`";
    target = provenance.target, "what is traced, in words";
    sampling_method = provenance.sampling.method, "how sends are chosen";
    sampling_one_in = provenance.sampling.one_in, "one in so many";
    kept_one_in = provenance.kept_one_in, null "all are kept", "of sends, attempts to connect and totals, one in so many has a row";
    start_ns = provenance.start_ns, "when the run began";
    end_ns = end_ns, "when it ended";
    histograms = histograms, "rows of `histograms`";
    sends = sends, "rows of `sends`";
    missed = |r| r.lost.unrecorded(), "sends, receives, packets, datagrams and attempts to connect that were watched and have no record";
    lost = |r| serde_json::Value::from(r.lost.entries().map(|(key, _, n)| (key.to_owned(), n.into())).collect::<serde_json::Map<_, _>>()),
        "every counter of `lost`, as the text of a JSON object";
    followed_ns = coverage.followed, "time for which connections were followed, summed over them";
    armed_ns = coverage.armed, "of that, time for which sends were observed";
    bytes_written = coverage.bytes_written, "bytes written on these connections, by TCP's own counters";
    bytes_armed = coverage.bytes_armed, "of these, bytes written while sends were observed";
}
