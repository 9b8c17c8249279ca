//! Figures as Prometheus and OpenTelemetry take them.
//!
//! **Does:** lists the figures of an agent as metrics with names, units and labels
//! ([`Snapshot::families`]), and encodes them: as Prometheus' text with classic buckets ([`text`]),
//! as that of OpenMetrics with exemplars too ([`openmetrics`]), as the protocol-buffer form with
//! native histograms ([`native`]), and as an OTLP request with exponential histograms ([`otlp`]).
//!
//! **Does not:** listen, send, or read a clock. The caller passes the time.
//!
//! **Guarantees:** all forms hold the same counts. Whatever a label's value holds, the output
//! stays well-formed.

#![forbid(unsafe_code)]

mod family;
mod name;
pub mod native;
pub mod openmetrics;
pub mod otlp;
mod snapshot;
pub mod text;

pub use family::{Family, Kind, Point, Value};
pub use record::histogram::{Histogram, Series};
pub use snapshot::{Agent, Labelled, Recorder, Rule, Snapshot};

/// The labels of an exemplar, by the names that stores of traces are asked with.
pub(crate) fn exemplar_labels(exemplar: &record::histogram::Exemplar) -> [(&'static str, String); 2] {
    let context = exemplar.context;
    [("trace_id", context.trace.to_string()), ("span_id", context.span.to_string())]
}

/// The label that marks the series of all sends that found no room for another series; its value is
/// `true`. OpenTelemetry's SDKs use the same.
pub const OVERFLOW: &str = "otel.metric.overflow";
