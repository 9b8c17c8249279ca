//! Prometheus' text format, version 0.0.4, with classic buckets.
//!
//! The bounds of classic buckets are bounds of exponential ones, so their counts are exact.

use std::io::{self, Write};

use record::histogram::{Exemplar, Exemplars, Histogram};

use crate::{Family, Kind, Point, Snapshot, Value, name, openmetrics};

/// The media type.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The exponential buckets with bounds that classic ones have where nothing else is chosen: powers
/// of two from 2^-16 (15 µs) to 2^3 seconds.
pub fn usual_bounds() -> Vec<i32> {
    (-16..=3).map(|power| power * 8).collect()
}

/// A classic bucket.
pub(crate) struct Bucket<'a> {
    /// Its upper bound, seconds; infinite in the last one.
    pub bound: f64,
    /// How many durations are at most as long.
    pub count: u64,
    /// One of those that are in none before it.
    pub exemplar: Option<&'a Exemplar>,
}

/// The classic buckets that end with these exponential ones, and the last one, which has all.
pub(crate) fn classic<'a>(
    histogram: &'a Histogram,
    exemplars: Option<&'a Exemplars>,
    bounds: &'a [i32],
) -> impl Iterator<Item = Bucket<'a>> + 'a {
    let (mut count, mut before) = (histogram.zero, None);
    let mut buckets = histogram.buckets.iter().peekable();
    bounds.iter().copied().map(Some).chain([None]).map(move |up_to| {
        while let Some((_, n)) = buckets.next_if(|(bucket, _)| up_to.is_none_or(|up_to| **bucket <= up_to)) {
            count = count.saturating_add(*n);
        }
        let above = std::mem::replace(&mut before, up_to);
        Bucket {
            bound: up_to.map_or(f64::INFINITY, |up_to| 2_f64.powf(f64::from(up_to) / 8.0)),
            count,
            exemplar: exemplars.and_then(|all| all.last_within(above, up_to)),
        }
    })
}

/// Which of two formats that differ in little.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Prometheus,
    OpenMetrics,
}

/// Writes all metrics.
///
/// # Errors
/// Those of `out`.
pub fn write(snapshot: &Snapshot, out: &mut impl Write) -> io::Result<()> {
    write_as(Format::Prometheus, snapshot, out)
}

pub(crate) fn write_as(format: Format, snapshot: &Snapshot, out: &mut impl Write) -> io::Result<()> {
    for family in snapshot.families().iter().filter(|family| !family.points.is_empty()) {
        write_family(format, family, &snapshot.bounds, out)?;
    }
    Ok(())
}

fn write_family(format: Format, family: &Family<'_>, bounds: &[i32], out: &mut impl Write) -> io::Result<()> {
    let name = name::metric(family);
    let kind = match family.kind {
        Kind::Counter => "counter",
        Kind::Gauge => "gauge",
        Kind::Histogram => "histogram",
    };
    let described = if format == Format::OpenMetrics { openmetrics::family_name(&name) } else { &name };
    // The help is ours and holds no line break, no backslash and no quotation mark.
    writeln!(out, "# HELP {described} {}\n# TYPE {described} {kind}", family.help)?;
    let mut labels = String::new();
    for point in &family.points {
        labels.clear();
        write_labels(point, &mut labels);
        let braces = |labels: &str| if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
        match point.value {
            Value::Whole(n) => writeln!(out, "{name}{} {n}", braces(&labels))?,
            Value::Real(x) => writeln!(out, "{name}{} {x}", braces(&labels))?,
            Value::Histogram(histogram, exemplars) => {
                let comma = if labels.is_empty() { "" } else { "," };
                for Bucket { bound, count, exemplar } in classic(histogram, exemplars, bounds) {
                    let bound = written_bound(format, bound);
                    write!(out, "{name}_bucket{{{labels}{comma}le=\"{bound}\"}} {count}")?;
                    if let Some(exemplar) = exemplar.filter(|_| format == Format::OpenMetrics) {
                        openmetrics::write_exemplar(exemplar, out)?;
                    }
                    writeln!(out)?;
                }
                let count = histogram.count();
                writeln!(out, "{name}_sum{} {}", braces(&labels), histogram.sum.as_secs_f64())?;
                writeln!(out, "{name}_count{} {count}", braces(&labels))?;
            }
        }
    }
    Ok(())
}

fn written_bound(format: Format, bound: f64) -> String {
    match format {
        _ if bound.is_infinite() => "+Inf".to_owned(),
        Format::Prometheus => bound.to_string(),
        Format::OpenMetrics => openmetrics::number(bound),
    }
}

/// `a="1",b="2"`.
fn write_labels(point: &Point<'_>, labels: &mut String) {
    for (label, value) in point.labels() {
        if !labels.is_empty() {
            labels.push(',');
        }
        labels.push_str(&name::label(label));
        labels.push_str("=\"");
        for c in value.chars() {
            match c {
                '\\' => labels.push_str("\\\\"),
                '"' => labels.push_str("\\\""),
                '\n' => labels.push_str("\\n"),
                c => labels.push(c),
            }
        }
        labels.push('"');
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::snapshot::tests::{TRACE, example};
    use proptest::prelude::*;
    use record::Nanos;

    /// Name, labels and value of a line, read by the format's own rules.
    pub(crate) fn read(line: &str) -> (String, Vec<(String, String)>, f64) {
        let name: String = line.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
        let mut rest = line[name.len()..].chars().peekable();
        let mut labels = Vec::new();
        if rest.next_if_eq(&'{').is_some() {
            loop {
                let label: String = std::iter::from_fn(|| rest.next_if(|c| *c != '=')).collect();
                assert_eq!((rest.next(), rest.next()), (Some('='), Some('"')), "{line}");
                let mut value = String::new();
                loop {
                    match rest.next().unwrap() {
                        '"' => break,
                        '\\' => value.push(match rest.next().unwrap() {
                            'n' => '\n',
                            c => c,
                        }),
                        c => value.push(c),
                    }
                }
                labels.push((label, value));
                if rest.next() == Some('}') {
                    break;
                }
            }
        }
        let value: String = rest.collect();
        (name, labels, value.trim().replace("+Inf", "inf").parse().unwrap())
    }

    fn written(snapshot: &Snapshot) -> String {
        let mut out = Vec::new();
        write(snapshot, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn there_are_no_exemplars_in_it() {
        let text = written(&example());
        assert!(!text.lines().any(|line| line.contains(" # ") || line.contains(TRACE)), "{text}");
    }

    #[test]
    fn what_is_written_reads_back() {
        let text = written(&example());
        let lines: Vec<_> = text.lines().filter(|line| !line.starts_with('#')).map(read).collect();
        let value = |name: &str, labels: &[(&str, &str)]| {
            let mut found = lines.iter().filter(|(of, has, _)| {
                of == name && labels.iter().all(|(l, v)| has.iter().any(|(label, value)| label == l && value == v))
            });
            let one = found.next().unwrap_or_else(|| panic!("no {name} {labels:?} in {text}"));
            assert!(found.next().is_none(), "{name} {labels:?} twice");
            one.2
        };
        let cgroup = ("cgroup", "/a \"b\"\\c\nd é");
        let duration = "wirelapse_send_duration_seconds";
        let of_total = |le| [cgroup, ("stage", "total"), ("le", le)];
        assert_eq!(value(&format!("{duration}_bucket"), &of_total("0.0009765625")), 0.0);
        assert_eq!(value(&format!("{duration}_bucket"), &of_total("0.001953125")), 1.0);
        // 500 ms is at most its bound; a nanosecond more is not.
        assert_eq!(value(&format!("{duration}_bucket"), &of_total("0.5")), 2.0);
        assert_eq!(value(&format!("{duration}_bucket"), &of_total("1")), 3.0);
        assert_eq!(value(&format!("{duration}_bucket"), &of_total("+Inf")), 3.0);
        assert_eq!(value(&format!("{duration}_sum"), &[cgroup, ("stage", "total")]), 1.001_000_001);
        assert_eq!(
            value(&format!("{duration}_bucket"), &[cgroup, ("stage", "tcp"), ("le", "0.0000152587890625")]),
            2.0
        );
        let wide = ("network_peer_address", "2001:db8::/48");
        assert_eq!(value(&format!("{duration}_bucket"), &[wide, ("stage", "total"), ("le", "8")]), 1.0);
        assert_eq!(value(&format!("{duration}_count"), &[wide, ("stage", "total")]), 2.0);
        assert_eq!(value("wirelapse_sends_total", &[("otel_metric_overflow", "true")]), 1.0);
        assert_eq!(value("wirelapse_waited_seconds_total", &[cgroup, ("reason", "nagle")]), 0.04);
        for (cause, n) in [("timeout", 5.0), ("fast", 2.0), ("tail_probe", 1.0), ("unknown", 1.0)] {
            assert_eq!(value("wirelapse_retransmitted_segments_total", &[cgroup, ("cause", cause)]), n, "{cause}");
        }
        assert_eq!(value("wirelapse_spurious_segments_total", &[cgroup]), 2.0);
        assert_eq!(value("wirelapse_connection_round_trip_duration_seconds_count", &[cgroup]), 1.0);
        assert_eq!(value("wirelapse_connection_receive_window_limited_seconds_total", &[cgroup]), 0.25);
        assert_eq!(value("wirelapse_connection_zero_windows_total", &[cgroup]), 3.0);
        assert_eq!(value("wirelapse_connection_listen_drops_total", &[cgroup]), 6.0);
        let (opening, handshake) = (("opening", "accepted"), "wirelapse_connection_handshake_duration_seconds");
        let refused = [wide, ("opening", "connected"), ("outcome", "refused")];
        assert_eq!(value("wirelapse_connection_attempts_total", &refused), 5.0);
        assert_eq!(value("wirelapse_connection_retries_total", &[wide, opening]), 2.0);
        assert_eq!(value(&format!("{handshake}_bucket"), &[wide, opening, ("le", "0.5")]), 1.0);
        assert_eq!(value("wirelapse_connection_ends_total", &[wide, ("ending", "reset"), ("ended_by", "peer")]), 4.0);
        let of_server = [wide, ("role", "server"), ("http_response_status_class", "5xx")];
        assert_eq!(value("wirelapse_request_duration_seconds_count", &of_server), 1.0);
        assert_eq!(value("wirelapse_request_unanswered_total", &[wide, ("role", "client")]), 7.0);
        assert_eq!(value("wirelapse_request_untimed_total", &[wide, ("role", "client")]), 8.0);
        let spent = [wide, ("role", "server"), ("component", "application")];
        assert_eq!(value("wirelapse_request_spent_seconds_total", &spent), 0.125);
        assert_eq!(value("wirelapse_lost_total", &[("counter", "slots_full")]), 7.0);
        assert_eq!(value("wirelapse_series", &[]), 3.0);
        assert_eq!(value("wirelapse_agent_info", &[("version", "0.1.0")]), 1.0);
    }

    #[test]
    fn a_metric_is_described_once() {
        let text = written(&example());
        let mut described: Vec<_> = text.lines().filter(|line| line.starts_with("# TYPE")).collect();
        let n = described.len();
        described.sort_unstable();
        described.dedup();
        assert_eq!(described.len(), n);
    }

    proptest! {
        #[test]
        fn classic_buckets_are_exact(
            values in proptest::collection::vec(0..100_000_000_000_u64, 0..50),
            bounds in proptest::collection::btree_set(-160..50_i32, 0..20),
        ) {
            let histogram: Histogram = values.iter().map(|ns| Nanos(*ns)).collect();
            let bounds: Vec<i32> = bounds.into_iter().collect();
            let all: Vec<_> = classic(&histogram, None, &bounds).collect();
            prop_assert_eq!(all.len(), bounds.len() + 1);
            let last = all.last().unwrap();
            prop_assert_eq!((last.bound, last.count), (f64::INFINITY, histogram.count()));
            for (Bucket { bound: seconds, count, .. }, bound) in all.iter().zip(&bounds) {
                let upper = record::histogram::upper_bound_ns(*bound);
                prop_assert_eq!(*count, values.iter().filter(|ns| **ns <= upper).count() as u64, "{}", bound);
                prop_assert!((seconds * 1e9 - upper as f64).abs() <= 1.0, "{} {}", seconds, upper);
            }
        }

        #[test]
        fn any_value_of_a_label_reads_back(value: String) {
            let labels = [("a", value.clone())];
            let point = Point { labels: &labels, more: [Some(("b", "c")), None], since_ns: 0, value: Value::Whole(1) };
            let mut text = String::new();
            write_labels(&point, &mut text);
            let (_, read, _) = read(&format!("name{{{text}}} 1"));
            prop_assert_eq!(&read[0].1, &value);
            prop_assert!(!text.contains('\n'));
        }
    }
}
