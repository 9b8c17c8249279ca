//! OpenTelemetry's protocol: one `ExportMetricsServiceRequest` with exponential histograms of scale
//! 3.
//!
//! The messages are those of opentelemetry-proto 1.x, by hand and only as far as they are used.

use prost::Message;
use record::histogram::{self, Exemplars, Histogram};

use crate::{Family, Kind, Snapshot, Value};

/// The media type.
pub const CONTENT_TYPE: &str = "application/x-protobuf";

/// Counts since the series began, rather than since the last request.
const CUMULATIVE: i32 = 2;

/// A request (`ExportMetricsServiceRequest`).
#[derive(Clone, PartialEq, Message)]
pub struct ExportRequest {
    /// One for each host.
    #[prost(message, repeated, tag = "1")]
    pub resource_metrics: Vec<ResourceMetrics>,
}

/// The metrics of one resource.
#[derive(Clone, PartialEq, Message)]
pub struct ResourceMetrics {
    /// Which host.
    #[prost(message, optional, tag = "1")]
    pub resource: Option<Resource>,
    /// One for each instrumentation scope.
    #[prost(message, repeated, tag = "2")]
    pub scope_metrics: Vec<ScopeMetrics>,
}

/// What is measured.
#[derive(Clone, PartialEq, Message)]
pub struct Resource {
    /// Its attributes.
    #[prost(message, repeated, tag = "1")]
    pub attributes: Vec<KeyValue>,
}

/// The metrics of one instrumentation scope.
#[derive(Clone, PartialEq, Message)]
pub struct ScopeMetrics {
    /// What measures.
    #[prost(message, optional, tag = "1")]
    pub scope: Option<Scope>,
    /// The metrics.
    #[prost(message, repeated, tag = "2")]
    pub metrics: Vec<Metric>,
}

/// What measures.
#[derive(Clone, PartialEq, Message)]
pub struct Scope {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Its version.
    #[prost(string, tag = "2")]
    pub version: String,
}

/// One metric.
#[derive(Clone, PartialEq, Message)]
pub struct Metric {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// What it is.
    #[prost(string, tag = "2")]
    pub description: String,
    /// Its unit, as UCUM writes it.
    #[prost(string, tag = "3")]
    pub unit: String,
    /// Its points.
    #[prost(oneof = "Data", tags = "5, 7, 10")]
    pub data: Option<Data>,
}

/// The points of a metric.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Data {
    /// Of a gauge.
    #[prost(message, tag = "5")]
    Gauge(Gauge),
    /// Of a counter.
    #[prost(message, tag = "7")]
    Sum(Sum),
    /// Of a histogram.
    #[prost(message, tag = "10")]
    Histogram(ExponentialHistogram),
}

/// Points of a gauge.
#[derive(Clone, PartialEq, Message)]
pub struct Gauge {
    /// The points.
    #[prost(message, repeated, tag = "1")]
    pub data_points: Vec<NumberPoint>,
}

/// Points of a counter.
#[derive(Clone, PartialEq, Message)]
pub struct Sum {
    /// The points.
    #[prost(message, repeated, tag = "1")]
    pub data_points: Vec<NumberPoint>,
    /// 2 is cumulative.
    #[prost(int32, tag = "2")]
    pub aggregation_temporality: i32,
    /// Whether it only grows.
    #[prost(bool, tag = "3")]
    pub is_monotonic: bool,
}

/// Points of a histogram.
#[derive(Clone, PartialEq, Message)]
pub struct ExponentialHistogram {
    /// The points.
    #[prost(message, repeated, tag = "1")]
    pub data_points: Vec<HistogramPoint>,
    /// 2 is cumulative.
    #[prost(int32, tag = "2")]
    pub aggregation_temporality: i32,
}

/// A number at a time.
#[derive(Clone, PartialEq, Message)]
pub struct NumberPoint {
    /// Since when it counts.
    #[prost(fixed64, tag = "2")]
    pub start_time_unix_nano: u64,
    /// When it was read.
    #[prost(fixed64, tag = "3")]
    pub time_unix_nano: u64,
    /// The number.
    #[prost(oneof = "Number", tags = "4, 6")]
    pub value: Option<Number>,
    /// Its labels.
    #[prost(message, repeated, tag = "7")]
    pub attributes: Vec<KeyValue>,
}

/// A number.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Number {
    /// A real one.
    #[prost(double, tag = "4")]
    Double(f64),
    /// A whole one.
    #[prost(sfixed64, tag = "6")]
    Int(i64),
}

/// A distribution at a time.
#[derive(Clone, PartialEq, Message)]
pub struct HistogramPoint {
    /// Its labels.
    #[prost(message, repeated, tag = "1")]
    pub attributes: Vec<KeyValue>,
    /// Since when it counts.
    #[prost(fixed64, tag = "2")]
    pub start_time_unix_nano: u64,
    /// When it was read.
    #[prost(fixed64, tag = "3")]
    pub time_unix_nano: u64,
    /// How many values.
    #[prost(fixed64, tag = "4")]
    pub count: u64,
    /// Their sum.
    #[prost(double, optional, tag = "5")]
    pub sum: Option<f64>,
    /// Bounds are powers of 2^(2^-scale).
    #[prost(sint32, tag = "6")]
    pub scale: i32,
    /// Values of zero.
    #[prost(fixed64, tag = "7")]
    pub zero_count: u64,
    /// The buckets.
    #[prost(message, optional, tag = "8")]
    pub positive: Option<Buckets>,
    /// What it names as examples of its values.
    #[prost(message, repeated, tag = "11")]
    pub exemplars: Vec<Exemplar>,
}

/// One value: the link from a metric to a trace.
#[derive(Clone, PartialEq, Message)]
pub struct Exemplar {
    /// When it was.
    #[prost(fixed64, tag = "2")]
    pub time_unix_nano: u64,
    /// The value.
    #[prost(double, optional, tag = "3")]
    pub as_double: Option<f64>,
    /// The span, 8 bytes.
    #[prost(bytes = "vec", tag = "4")]
    pub span_id: Vec<u8>,
    /// The trace, 16 bytes.
    #[prost(bytes = "vec", tag = "5")]
    pub trace_id: Vec<u8>,
}

/// Consecutive buckets.
#[derive(Clone, PartialEq, Message)]
pub struct Buckets {
    /// Index of the first one.
    #[prost(sint32, tag = "1")]
    pub offset: i32,
    /// Their counts.
    #[prost(uint64, repeated, tag = "2")]
    pub bucket_counts: Vec<u64>,
}

/// An attribute.
#[derive(Clone, PartialEq, Message)]
pub struct KeyValue {
    /// Its name.
    #[prost(string, tag = "1")]
    pub key: String,
    /// Its value.
    #[prost(message, optional, tag = "2")]
    pub value: Option<AnyValue>,
}

/// The value of an attribute.
#[derive(Clone, PartialEq, Message)]
pub struct AnyValue {
    /// Text; one of the three is used.
    #[prost(string, optional, tag = "1")]
    pub string_value: Option<String>,
    /// Yes or no.
    #[prost(bool, optional, tag = "2")]
    pub bool_value: Option<bool>,
    /// A whole number.
    #[prost(int64, optional, tag = "3")]
    pub int_value: Option<i64>,
}

/// What a collector answers (`ExportMetricsServiceResponse`).
#[derive(Clone, PartialEq, Message)]
pub struct ExportResponse {
    /// Where it did not take everything.
    #[prost(message, optional, tag = "1")]
    pub partial_success: Option<PartialSuccess>,
}

/// What a collector did not take.
#[derive(Clone, PartialEq, Message)]
pub struct PartialSuccess {
    /// How many points.
    #[prost(int64, tag = "1")]
    pub rejected_data_points: i64,
    /// Why.
    #[prost(string, tag = "2")]
    pub error_message: String,
}

/// The request that holds all metrics. `resource` are the attributes of the host, such as
/// `host.name`. Exemplars are those that became known after the snapshot that was sent last was
/// taken: a receiver keeps each of them.
pub fn request(snapshot: &Snapshot, resource: &[(&str, &str)], last_taken_ns: u64) -> Vec<u8> {
    let attributes = resource.iter().map(|(key, value)| attribute(key, value)).collect();
    let metrics = snapshot
        .families()
        .into_iter()
        .filter(|f| !f.points.is_empty())
        .map(|f| metric(&f, snapshot.time_ns, last_taken_ns));
    let scope = Scope { name: "wirelapse".into(), version: snapshot.agent.version.clone() };
    let scope_metrics = vec![ScopeMetrics { scope: Some(scope), metrics: metrics.collect() }];
    let resource_metrics = vec![ResourceMetrics { resource: Some(Resource { attributes }), scope_metrics }];
    ExportRequest { resource_metrics }.encode_to_vec()
}

/// How many points a collector did not take, and why, by its answer; `None` where it took all.
pub fn rejected(answer: &[u8]) -> Option<(u64, String)> {
    let partial = ExportResponse::decode(answer).ok()?.partial_success?;
    let points = u64::try_from(partial.rejected_data_points).ok().filter(|n| *n > 0)?;
    Some((points, partial.error_message))
}

fn attribute(key: &str, value: &str) -> KeyValue {
    // OpenTelemetry's conventions have ports as integers.
    let port = value.parse().ok().filter(|_| key.ends_with(".port"));
    let value = match port {
        _ if key == crate::OVERFLOW => AnyValue { bool_value: Some(true), ..AnyValue::default() },
        Some(port) => AnyValue { int_value: Some(port), ..AnyValue::default() },
        None => AnyValue { string_value: Some(value.to_owned()), ..AnyValue::default() },
    };
    KeyValue { key: key.to_owned(), value: Some(value) }
}

fn exemplars(all: &Exemplars, last_taken_ns: u64) -> Vec<Exemplar> {
    let exemplar = |of: &histogram::Exemplar| Exemplar {
        time_unix_nano: of.ended_ns,
        as_double: Some(of.took.as_secs_f64()),
        span_id: of.context.span.0.into(),
        trace_id: of.context.trace.0.into(),
    };
    all.iter().filter(|of| of.known_ns > last_taken_ns).map(exemplar).collect()
}

fn metric(family: &Family<'_>, time_ns: u64, last_taken_ns: u64) -> Metric {
    let (mut numbers, mut histograms) = (Vec::new(), Vec::new());
    for point in &family.points {
        let attributes = point.labels().map(|(key, value)| attribute(key, value)).collect();
        let number = match point.value {
            Value::Whole(n) => Number::Int(i64::try_from(n).unwrap_or(i64::MAX)),
            Value::Real(x) => Number::Double(x),
            Value::Histogram(histogram, named) => {
                histograms.push(HistogramPoint {
                    attributes,
                    start_time_unix_nano: point.since_ns,
                    time_unix_nano: time_ns,
                    count: histogram.count(),
                    sum: Some(histogram.sum.as_secs_f64()),
                    scale: histogram::SCHEMA,
                    zero_count: histogram.zero,
                    positive: buckets(histogram),
                    exemplars: named.map(|named| exemplars(named, last_taken_ns)).unwrap_or_default(),
                });
                continue;
            }
        };
        // A gauge has no beginning.
        let since = if family.kind == Kind::Gauge { 0 } else { point.since_ns };
        numbers.push(NumberPoint {
            start_time_unix_nano: since,
            time_unix_nano: time_ns,
            value: Some(number),
            attributes,
        });
    }
    let data = match family.kind {
        Kind::Counter => {
            Data::Sum(Sum { data_points: numbers, aggregation_temporality: CUMULATIVE, is_monotonic: true })
        }
        Kind::Gauge => Data::Gauge(Gauge { data_points: numbers }),
        Kind::Histogram => {
            Data::Histogram(ExponentialHistogram { data_points: histograms, aggregation_temporality: CUMULATIVE })
        }
    };
    Metric {
        name: family.name.to_owned(),
        description: family.help.to_owned(),
        unit: family.unit.to_owned(),
        data: Some(data),
    }
}

/// All buckets from the lowest to the highest. OpenTelemetry counts the same bounds from one lower.
fn buckets(histogram: &Histogram) -> Option<Buckets> {
    let (lowest, highest) = (*histogram.buckets.keys().next()?, *histogram.buckets.keys().next_back()?);
    let counts = (lowest..=highest).map(|bucket| histogram.buckets.get(&bucket).copied().unwrap_or(0));
    Some(Buckets { offset: lowest - 1, bucket_counts: counts.collect() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::tests::{SPAN, TRACE, example};

    #[test]
    fn what_is_written_reads_back() {
        let snapshot = example();
        let bytes = request(&snapshot, &[("host.name", "a")], 0);
        let request = ExportRequest::decode(bytes.as_slice()).unwrap();
        let of_host = &request.resource_metrics[0];
        assert_eq!(of_host.resource.as_ref().unwrap().attributes, [attribute("host.name", "a")]);
        let metrics = &of_host.scope_metrics[0].metrics;
        let find = |name: &str| metrics.iter().find(|metric| metric.name == name).unwrap();
        let Some(Data::Histogram(durations)) = &find("wirelapse.send.duration").data else { panic!("no histogram") };
        assert_eq!((durations.aggregation_temporality, durations.data_points.len()), (2, 6));
        let total = &durations.data_points[1];
        assert_eq!((total.count, total.scale, total.zero_count), (3, 3, 0));
        let positive = total.positive.as_ref().unwrap();
        // (2^((i-1)/8), 2^(i/8)] is index i - 1 there: 500 ms is the upper bound of bucket -8.
        let index = usize::try_from(-8 - 1 - positive.offset).unwrap();
        assert_eq!(positive.bucket_counts[index..], [1, 1]);
        assert_eq!(positive.bucket_counts.iter().sum::<u64>(), 3);
        assert_eq!(durations.data_points[0].zero_count, 1);
        let Some(Data::Sum(sends)) = &find("wirelapse.sends").data else { panic!("no counter") };
        assert!(sends.is_monotonic);
        assert_eq!(sends.data_points[0].value, Some(Number::Int(3)));
        assert_eq!(sends.data_points[2].attributes[0].value.as_ref().unwrap().bool_value, Some(true));
        let Some(Data::Gauge(series)) = &find("wirelapse.series").data else { panic!("no gauge") };
        assert_eq!(series.data_points[0].value, Some(Number::Int(3)));
    }

    /// The exemplars of all requests, after a snapshot of this time.
    fn named(last_taken_ns: u64) -> Vec<Exemplar> {
        let request = ExportRequest::decode(request(&example(), &[], last_taken_ns).as_slice()).unwrap();
        let metrics = &request.resource_metrics[0].scope_metrics[0].metrics;
        let of_histogram = |metric: &Metric| match &metric.data {
            Some(Data::Histogram(of)) => of.data_points.iter().flat_map(|point| point.exemplars.clone()).collect(),
            _ => Vec::new(),
        };
        assert!(metrics.iter().all(|of| of.name == "wirelapse.request.duration" || of_histogram(of).is_empty()));
        metrics.iter().flat_map(of_histogram).collect()
    }

    #[test]
    fn a_request_links_to_its_trace_once() {
        let all = named(0);
        assert_eq!(all.len(), 3);
        for exemplar in all {
            let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
            assert_eq!((hex(&exemplar.trace_id).as_str(), hex(&exemplar.span_id).as_str()), (TRACE, SPAN));
            assert_eq!((exemplar.time_unix_nano, exemplar.as_double), (1_700_000_050_123_456_789, Some(0.5)));
        }
        assert_eq!(named(50).len(), 3);
        assert_eq!(named(51), []);
    }

    #[test]
    fn ports_are_integers_and_addresses_text() {
        let of = |key, value| attribute(key, value).value.unwrap();
        for key in ["network.peer.port", "network.local.port"] {
            assert_eq!(of(key, "443"), AnyValue { int_value: Some(443), ..AnyValue::default() });
        }
        let text = AnyValue { string_value: Some("443".into()), ..AnyValue::default() };
        assert_eq!(of("program", "443"), text);
    }

    #[test]
    fn what_a_collector_refused_is_read() {
        let partial = PartialSuccess { rejected_data_points: 4, error_message: "too old".into() };
        let answer = ExportResponse { partial_success: Some(partial) }.encode_to_vec();
        assert_eq!(rejected(&answer), Some((4, "too old".into())));
        assert_eq!(rejected(&[]), None);
        assert_eq!(rejected(&[0xff; 9]), None);
    }
}
