//! OpenMetrics' text format, version 1.0.0: as Prometheus' own text ([`text`]), with exemplars, and
//! with an end.

use std::io::{self, Write};

use record::histogram::Exemplar;

use crate::text::{self, Format};
use crate::{Snapshot, exemplar_labels};

/// The media type.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Writes all metrics.
///
/// # Errors
/// Those of `out`.
pub fn write(snapshot: &Snapshot, out: &mut impl Write) -> io::Result<()> {
    text::write_as(Format::OpenMetrics, snapshot, out)?;
    writeln!(out, "# EOF")
}

/// The name that a metric is described by: that of a counter without its end.
pub(crate) fn family_name(name: &str) -> &str {
    name.strip_suffix("_total").unwrap_or(name)
}

/// A bound, which says by itself that it is a real number.
pub(crate) fn number(bound: f64) -> String {
    let text = bound.to_string();
    if text.contains('.') { text } else { format!("{text}.0") }
}

/// What follows the count of a bucket: labels, of 128 characters at most, the duration, and when it
/// ended.
pub(crate) fn write_exemplar(exemplar: &Exemplar, out: &mut impl Write) -> io::Result<()> {
    let [(trace, trace_id), (span, span_id)] = exemplar_labels(exemplar);
    let (seconds, ns) = (exemplar.ended_ns / 1_000_000_000, exemplar.ended_ns % 1_000_000_000);
    let took = exemplar.took.as_secs_f64();
    write!(out, " # {{{trace}=\"{trace_id}\",{span}=\"{span_id}\"}} {took} {seconds}.{ns:09}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::tests::{SPAN, TRACE, example};
    use crate::text::tests::read;

    fn written() -> String {
        let mut out = Vec::new();
        write(&example(), &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_bucket_of_a_duration_names_its_request() {
        let text = written();
        let named: Vec<_> =
            text.lines().filter_map(|line| line.split_once(" # ")).filter(|(of, _)| !of.is_empty()).collect();
        // One of each series.
        assert_eq!(named.len(), 3, "{text}");
        for (of, exemplar) in named {
            let (name, labels, count) = read(of);
            assert_eq!((name.as_str(), count), ("wirelapse_request_duration_seconds_bucket", 1.0));
            assert_eq!(labels.last().unwrap(), &("le".to_owned(), "0.5".to_owned()));
            let of_example = format!("{{trace_id=\"{TRACE}\",span_id=\"{SPAN}\"}} 0.5 1700000050.123456789");
            assert_eq!(exemplar, of_example);
            let (_, labels, _) = read(&format!("x{}", exemplar.rsplit_once(' ').unwrap().0));
            let characters: usize = labels.iter().map(|(name, value)| name.len() + value.len()).sum();
            assert!(labels.len() == 2 && characters <= 128, "{characters}");
        }
    }

    #[test]
    fn it_says_the_same_as_the_text_of_prometheus() {
        let mut plain = Vec::new();
        text::write(&example(), &mut plain).unwrap();
        let plain = String::from_utf8(plain).unwrap();
        let lines =
            |text: &str| -> Vec<_> { text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect() };
        let whole = |line: &str| {
            let (value, _) = line.split_once(" # ").unwrap_or((line, ""));
            let (name, mut labels, value) = read(value);
            labels
                .iter_mut()
                .filter(|(name, _)| name == "le")
                .for_each(|(_, le)| *le = le.trim_end_matches(".0").to_owned());
            (name, labels, value)
        };
        let all = |text: &str| lines(text).iter().map(|line| whole(line)).collect::<Vec<_>>();
        assert_eq!(all(&written()), all(&plain));
    }

    #[test]
    fn metrics_are_described_without_the_ends_of_samples_and_the_end_is_marked() {
        let text = written();
        assert!(text.ends_with("\n# EOF\n") && text.matches("# EOF").count() == 1);
        assert!(text.contains("# TYPE wirelapse_sends counter\n") && text.contains("\nwirelapse_sends_total{"));
        let described = text.lines().filter(|line| line.starts_with("# TYPE") || line.starts_with("# HELP"));
        assert!(described.clone().count() > 50 && !described.clone().any(|line| line.contains("_total ")));
        assert!(!text.contains('\\') || !text.lines().any(|line| line.starts_with("# HELP") && line.contains('\\')));
        assert!(text.contains("le=\"1.0\"") && !text.contains("le=\"1\""));
    }
}
