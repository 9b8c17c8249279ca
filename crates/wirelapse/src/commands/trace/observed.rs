//! How a trace observes: for its run and its report.

use record::{Coverage, Instant, Monotonic, Nanos};
use report::view::{self, Facts};
use store::Provenance;
use trace::{Observation, Tracer};

use super::request::Request;
use crate::provenance;

/// What a run says of its trace.
pub fn provenance(request: &Request, tracer: &Tracer) -> Provenance {
    Provenance {
        max_rate: request.config.max_rate.map(|rate| rate.get().into()),
        min_latency: request.min_latency,
        calls: observing(tracer, trace::CALLS),
        connects: observing(tracer, trace::CONNECTS),
        receiving: receiving(tracer),
        http: observing(tracer, trace::HTTP),
        packets: observing(tracer, trace::PACKETS),
        ..provenance::of_trace(request.words.clone(), request.config.sampling, tracer)
    }
}

/// What a report says of a trace that began at `begun`, up to now; its coverage is known at its end alone.
pub fn facts(request: &Request, tracer: &Tracer, begun: Instant<Monotonic>, no_nic: Option<String>) -> Facts {
    Facts {
        target: request.words.clone(),
        backend: tracer.backend().to_string(),
        sampling: request.config.sampling,
        coverage: Coverage::default(),
        lost: tracer.lost(),
        lasted: timestamping::now().since(begun).unwrap_or(Nanos::ZERO),
        no_nic,
        calls: remarks(observing(tracer, trace::CALLS), view::call_remarks),
        receiving: remarks(receiving(tracer), view::receiving_remarks),
        connects: remarks(observing(tracer, trace::CONNECTS), view::call_remarks),
        http: remarks(observing(tracer, trace::HTTP), view::call_remarks),
        packets: remarks(observing(tracer, trace::PACKETS), view::packet_remarks),
    }
}

/// Why no packet has a stamp of the NIC, where that is because one here is not set to give any.
pub fn no_nic() -> Option<String> {
    let interfaces = machine::interfaces().ok()?;
    let off: Vec<&str> = interfaces.iter().filter(|i| i.transmit_is_off()).map(|i| i.name.as_str()).collect();
    (!off.is_empty()).then(|| {
        format!(
            "hardware stamps of what is sent are switched off on {} (`wirelapse doctor` says how to switch them on)",
            off.join(", ")
        )
    })
}

/// How a probe observes; `None` where it is not at work.
fn observed(tracer: &Tracer, probe: &str) -> Option<Observation> {
    tracer.observations().into_iter().find(|by| by.probe == probe)
}

/// How received bytes are observed, and what that does to programs outside the target.
fn receiving(tracer: &Tracer) -> Option<store::Receiving> {
    let by = observed(tracer, trace::RECEIVES)?;
    let lacks = |stage| by.missing.iter().find(|missing| missing.what == stage).map(|missing| missing.reason.clone());
    Some(store::Receiving {
        no_driver_rx: lacks(trace::DRIVER_RX),
        no_ready: lacks(trace::READY),
        host_wide: by.host_wide.iter().map(ToString::to_string).collect(),
    })
}

/// How another probe observes, likewise.
fn observing(tracer: &Tracer, probe: &str) -> Option<store::Observing> {
    let by = observed(tracer, probe)?;
    Some(store::Observing {
        missing: by.missing.iter().map(ToString::to_string).collect(),
        host_wide: by.host_wide.iter().map(ToString::to_string).collect(),
    })
}

/// The same for people: a remark each.
fn remarks<T>(how: Option<T>, say: fn(&T) -> Vec<String>) -> Vec<String> {
    how.as_ref().map(say).unwrap_or_default()
}
