//! How a trace observes: for its run and its report.

use record::{Coverage, Instant, Monotonic, Nanos};
use report::view::Facts;
use store::Provenance;
use trace::{Observation, Tracer};

use super::request::Request;
use crate::provenance;

/// What a run says of its trace.
pub fn provenance(request: &Request, tracer: &Tracer) -> Provenance {
    Provenance {
        max_rate: request.config.max_rate.map(|rate| rate.get().into()),
        min_latency: request.min_latency,
        calls: observed(tracer, trace::CALLS).map(|by| observing(&by)),
        connects: observed(tracer, trace::CONNECTS).map(|by| observing(&by)),
        receiving: observed(tracer, trace::RECEIVES).map(|by| receiving(&by)),
        http: observed(tracer, trace::HTTP).map(|by| observing(&by)),
        packets: observed(tracer, trace::PACKETS).map(|by| observing(&by)),
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
        calls: call_remarks(tracer),
        receiving: remarks(tracer),
        connects: connect_remarks(tracer),
        http: http_remarks(tracer),
        packets: packet_remarks(tracer),
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
fn receiving(by: &Observation) -> store::Receiving {
    let lacks = |stage| by.missing.iter().find(|missing| missing.what == stage).map(|missing| missing.reason.clone());
    store::Receiving {
        no_driver_rx: lacks(trace::DRIVER_RX),
        no_ready: lacks(trace::READY),
        host_wide: by.host_wide.iter().map(ToString::to_string).collect(),
    }
}

/// How packets and datagrams are observed, likewise.
fn observing(by: &Observation) -> store::Observing {
    store::Observing {
        missing: by.missing.iter().map(ToString::to_string).collect(),
        host_wide: by.host_wide.iter().map(ToString::to_string).collect(),
    }
}

/// How the calls that write are observed, for people: a remark each.
fn call_remarks(tracer: &Tracer) -> Vec<String> {
    observed(tracer, trace::CALLS).map(|by| report::view::call_remarks(&observing(&by))).unwrap_or_default()
}

/// How the setup of connections is observed, likewise.
fn connect_remarks(tracer: &Tracer) -> Vec<String> {
    observed(tracer, trace::CONNECTS).map(|by| report::view::call_remarks(&observing(&by))).unwrap_or_default()
}

/// How the beginnings of packets are read, likewise.
fn http_remarks(tracer: &Tracer) -> Vec<String> {
    observed(tracer, trace::HTTP).map(|by| report::view::call_remarks(&observing(&by))).unwrap_or_default()
}

/// How received bytes are observed, for people: a remark each.
fn remarks(tracer: &Tracer) -> Vec<String> {
    observed(tracer, trace::RECEIVES).map(|by| report::view::receiving_remarks(&receiving(&by))).unwrap_or_default()
}

/// How packets and datagrams are observed, likewise.
fn packet_remarks(tracer: &Tracer) -> Vec<String> {
    observed(tracer, trace::PACKETS).map(|by| report::view::packet_remarks(&observing(&by))).unwrap_or_default()
}
