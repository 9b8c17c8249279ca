//! Prometheus' protocol-buffer format, delimited, with native histograms and classic buckets beside
//! them.
//!
//! The messages are `io.prometheus.client` (client_model's `metrics.proto`), by hand and only as
//! far as they are used.

use std::io::{self, Write};

use prost::Message;
use record::histogram::{self, Exemplars, Histogram};

use crate::{Family, Kind, Snapshot, Value, exemplar_labels, name, text};

/// The media type.
pub const CONTENT_TYPE: &str =
    "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited";

/// Durations up to this many seconds are counted as zero: Prometheus' own default, 2^-128. It marks
/// a histogram without any value as native.
const ZERO_THRESHOLD: f64 = 2.938_735_877_055_719e-39;

/// One metric (`MetricFamily`).
#[derive(Clone, PartialEq, Message)]
pub struct MetricFamily {
    /// Its name.
    #[prost(string, optional, tag = "1")]
    pub name: Option<String>,
    /// What it is.
    #[prost(string, optional, tag = "2")]
    pub help: Option<String>,
    /// 0 counter, 1 gauge, 4 histogram.
    #[prost(int32, optional, tag = "3")]
    pub r#type: Option<i32>,
    /// Its points.
    #[prost(message, repeated, tag = "4")]
    pub metric: Vec<Metric>,
}

/// One point (`Metric`).
#[derive(Clone, PartialEq, Message)]
pub struct Metric {
    /// Its labels.
    #[prost(message, repeated, tag = "1")]
    pub label: Vec<LabelPair>,
    /// Of a gauge.
    #[prost(message, optional, tag = "2")]
    pub gauge: Option<Number>,
    /// Of a counter.
    #[prost(message, optional, tag = "3")]
    pub counter: Option<Number>,
    /// Of a histogram.
    #[prost(message, optional, tag = "7")]
    pub histogram: Option<NativeHistogram>,
}

/// A label (`LabelPair`).
#[derive(Clone, PartialEq, Message)]
pub struct LabelPair {
    /// Its name.
    #[prost(string, optional, tag = "1")]
    pub name: Option<String>,
    /// Its value.
    #[prost(string, optional, tag = "2")]
    pub value: Option<String>,
}

/// A number (`Gauge`, `Counter`).
#[derive(Clone, PartialEq, Message)]
pub struct Number {
    /// The number.
    #[prost(double, optional, tag = "1")]
    pub value: Option<f64>,
}

/// A distribution (`Histogram`).
#[derive(Clone, PartialEq, Message)]
pub struct NativeHistogram {
    /// How many values.
    #[prost(uint64, optional, tag = "1")]
    pub sample_count: Option<u64>,
    /// Their sum.
    #[prost(double, optional, tag = "2")]
    pub sample_sum: Option<f64>,
    /// Classic buckets.
    #[prost(message, repeated, tag = "3")]
    pub bucket: Vec<ClassicBucket>,
    /// Schema of the native buckets.
    #[prost(sint32, optional, tag = "5")]
    pub schema: Option<i32>,
    /// What counts as zero.
    #[prost(double, optional, tag = "6")]
    pub zero_threshold: Option<f64>,
    /// Values of zero.
    #[prost(uint64, optional, tag = "7")]
    pub zero_count: Option<u64>,
    /// Where native buckets are.
    #[prost(message, repeated, tag = "12")]
    pub positive_span: Vec<BucketSpan>,
    /// Count of each native bucket, as difference to the one before.
    #[prost(sint64, repeated, packed = "false", tag = "13")]
    pub positive_delta: Vec<i64>,
    /// What it names as examples of its values. Readers that do not know it take those of classic
    /// buckets.
    #[prost(message, repeated, tag = "16")]
    pub exemplars: Vec<Exemplar>,
}

/// A classic bucket (`Bucket`).
#[derive(Clone, PartialEq, Message)]
pub struct ClassicBucket {
    /// Values up to its bound.
    #[prost(uint64, optional, tag = "1")]
    pub cumulative_count: Option<u64>,
    /// Its bound.
    #[prost(double, optional, tag = "2")]
    pub upper_bound: Option<f64>,
    /// One of the values that are in none before it.
    #[prost(message, optional, tag = "3")]
    pub exemplar: Option<Exemplar>,
}

/// One value (`Exemplar`).
#[derive(Clone, PartialEq, Message)]
pub struct Exemplar {
    /// Its labels.
    #[prost(message, repeated, tag = "1")]
    pub label: Vec<LabelPair>,
    /// The value.
    #[prost(double, optional, tag = "2")]
    pub value: Option<f64>,
    /// When it was.
    #[prost(message, optional, tag = "3")]
    pub timestamp: Option<Timestamp>,
}

/// A moment (`google.protobuf.Timestamp`).
#[derive(Clone, PartialEq, Message)]
pub struct Timestamp {
    /// Seconds of Unix time.
    #[prost(int64, tag = "1")]
    pub seconds: i64,
    /// Nanoseconds beyond these.
    #[prost(int32, tag = "2")]
    pub nanos: i32,
}

/// A stretch of native buckets (`BucketSpan`).
#[derive(Clone, PartialEq, Message)]
pub struct BucketSpan {
    /// Buckets between the one before and the first of these; of the first stretch, the first
    /// bucket's index.
    #[prost(sint32, optional, tag = "1")]
    pub offset: Option<i32>,
    /// How many buckets.
    #[prost(uint32, optional, tag = "2")]
    pub length: Option<u32>,
}

/// Writes all metrics, each with its length before it.
///
/// # Errors
/// Those of `out`.
pub fn write(snapshot: &Snapshot, out: &mut impl Write) -> io::Result<()> {
    for family in snapshot.families().iter().filter(|family| !family.points.is_empty()) {
        out.write_all(&message(family, &snapshot.bounds).encode_length_delimited_to_vec())?;
    }
    Ok(())
}

fn message(family: &Family<'_>, bounds: &[i32]) -> MetricFamily {
    let kind = match family.kind {
        Kind::Counter => 0,
        Kind::Gauge => 1,
        Kind::Histogram => 4,
    };
    let metric = family.points.iter().map(|point| {
        let label = point
            .labels()
            .map(|(label, value)| LabelPair { name: Some(name::label(label)), value: Some(value.to_owned()) });
        let mut metric = Metric { label: label.collect(), ..Metric::default() };
        let number = match point.value {
            Value::Whole(n) => n as f64,
            Value::Real(x) => x,
            Value::Histogram(histogram, exemplars) => {
                metric.histogram = Some(native(histogram, exemplars, bounds));
                return metric;
            }
        };
        let number = Some(Number { value: Some(number) });
        if family.kind == Kind::Gauge {
            metric.gauge = number;
        } else {
            metric.counter = number;
        }
        metric
    });
    MetricFamily {
        name: Some(name::metric(family)),
        help: Some(family.help.to_owned()),
        r#type: Some(kind),
        metric: metric.collect(),
    }
}

fn exemplar(of: &histogram::Exemplar) -> Exemplar {
    let label = |(name, value): (&str, String)| LabelPair { name: Some(name.to_owned()), value: Some(value) };
    let (seconds, nanos) = (of.ended_ns / 1_000_000_000, of.ended_ns % 1_000_000_000);
    Exemplar {
        label: exemplar_labels(of).map(label).into(),
        value: Some(of.took.as_secs_f64()),
        timestamp: Some(Timestamp { seconds: seconds as i64, nanos: nanos as i32 }),
    }
}

fn native(histogram: &Histogram, exemplars: Option<&Exemplars>, bounds: &[i32]) -> NativeHistogram {
    // The last bucket is the count of all, unless it has something of its own to say.
    let is_told = |bucket: &text::Bucket<'_>| bucket.bound.is_finite() || bucket.exemplar.is_some();
    let mut native = NativeHistogram {
        sample_count: Some(histogram.count()),
        sample_sum: Some(histogram.sum.as_secs_f64()),
        bucket: text::classic(histogram, exemplars, bounds)
            .filter(is_told)
            .map(|bucket| ClassicBucket {
                cumulative_count: Some(bucket.count),
                upper_bound: Some(bucket.bound),
                exemplar: bucket.exemplar.map(exemplar),
            })
            .collect(),
        exemplars: exemplars.into_iter().flat_map(Exemplars::iter).map(exemplar).collect(),
        schema: Some(histogram::SCHEMA),
        zero_threshold: Some(ZERO_THRESHOLD),
        zero_count: Some(histogram.zero),
        ..NativeHistogram::default()
    };
    let (mut last, mut before) = (None, 0_i64);
    for (bucket, n) in histogram.buckets.iter().filter(|(_, n)| **n > 0) {
        // A short gap costs less as empty buckets than as another stretch.
        let gap = last.map_or(*bucket, |last: i32| bucket - last - 1);
        match native.positive_span.last_mut().filter(|_| gap <= 2) {
            Some(span) => {
                span.length = span.length.map(|length| length + gap.unsigned_abs() + 1);
                for _ in 0..gap {
                    native.positive_delta.push(-before);
                    before = 0;
                }
            }
            None => native.positive_span.push(BucketSpan { offset: Some(gap), length: Some(1) }),
        }
        let count = i64::try_from(*n).unwrap_or(i64::MAX);
        native.positive_delta.push(count - before);
        (last, before) = (Some(*bucket), count);
    }
    native
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::tests::{SPAN, TRACE, example};
    use proptest::prelude::*;
    use record::Nanos;
    use std::collections::BTreeMap;

    fn buckets(native: &NativeHistogram) -> BTreeMap<i32, u64> {
        let (mut at, mut count) = (0, 0_i64);
        let mut deltas = native.positive_delta.iter();
        let mut buckets = BTreeMap::new();
        for span in &native.positive_span {
            at += span.offset();
            for _ in 0..span.length() {
                count += deltas.next().unwrap();
                if count > 0 {
                    buckets.insert(at, count.unsigned_abs());
                }
                at += 1;
            }
        }
        assert!(deltas.next().is_none());
        buckets
    }

    #[test]
    fn what_is_written_reads_back() {
        let snapshot = example();
        let mut bytes = Vec::new();
        write(&snapshot, &mut bytes).unwrap();
        let mut rest = bytes.as_slice();
        let mut families = Vec::new();
        while !rest.is_empty() {
            families.push(MetricFamily::decode_length_delimited(&mut rest).unwrap());
        }
        assert_eq!(families.len(), snapshot.families().iter().filter(|f| !f.points.is_empty()).count());
        let durations = &families[0];
        assert_eq!(
            (durations.name(), durations.r#type(), durations.metric.len()),
            ("wirelapse_send_duration_seconds", 4, 6)
        );
        let total = durations.metric[1].histogram.as_ref().unwrap();
        assert_eq!(buckets(total), snapshot.series[0].figures.legs[&record::Leg::Total].buckets);
        assert_eq!((total.sample_count(), total.sample_sum(), total.schema()), (3, 1.001_000_001, 3));
        assert_eq!(durations.metric[1].label[1].value(), "/a \"b\"\\c\nd é");
        assert_eq!(durations.metric[0].histogram.as_ref().unwrap().zero_count(), 1);
        let sends = &families[1];
        assert_eq!((sends.name(), sends.metric[0].counter.as_ref().unwrap().value()), ("wirelapse_sends_total", 3.0));
    }

    #[test]
    fn a_request_is_named_by_its_histogram_and_by_its_classic_bucket() {
        let mut snapshot = example();
        let of_requests = |snapshot: &Snapshot| {
            let families = snapshot.families();
            let family = families.iter().find(|family| family.name == "wirelapse.request.duration").unwrap();
            message(family, &snapshot.bounds).metric.remove(0).histogram.unwrap()
        };
        let native = of_requests(&snapshot);
        let [named] = &native.exemplars[..] else { panic!("{:?}", native.exemplars) };
        let labels: Vec<_> = named.label.iter().map(|label| (label.name(), label.value())).collect();
        assert_eq!(labels, [("trace_id", TRACE), ("span_id", SPAN)]);
        let at = Timestamp { seconds: 1_700_000_050, nanos: 123_456_789 };
        assert_eq!((named.value(), named.timestamp.as_ref()), (0.5, Some(&at)));
        let with: Vec<_> = native.bucket.iter().filter(|bucket| bucket.exemplar.is_some()).collect();
        assert_eq!(with.len(), 1);
        assert_eq!((with[0].upper_bound(), with[0].exemplar.as_ref()), (0.5, Some(named)));
        // What is above all bounds is in the bucket without one.
        snapshot.bounds.retain(|bound| *bound < -8);
        let native = of_requests(&snapshot);
        let last = native.bucket.last().unwrap();
        assert_eq!((last.upper_bound(), last.cumulative_count()), (f64::INFINITY, 1));
        assert_eq!(last.exemplar.as_ref(), native.exemplars.first());
    }

    proptest! {
        #[test]
        fn buckets_read_back(values in proptest::collection::vec(prop_oneof![0..5_000_u64, 0..50_000_000_000_u64], 0..80)) {
            let histogram: Histogram = values.iter().map(|ns| Nanos(*ns)).collect();
            let native = native(&histogram, None, &text::usual_bounds());
            prop_assert_eq!(buckets(&native), histogram.buckets);
            // Only the first stretch may begin below another one's end.
            prop_assert!(native.positive_span.iter().skip(1).all(|span| span.offset() > 2));
        }
    }
}
