//! How a trace observes: for its run and its report.

use record::{Coverage, Instant, Monotonic, Nanos, ReceiveStage};
use report::view::{self, Facts};
use store::Provenance;
use trace::{Observation, Observed, Tracer, Unseen};

use super::request::Request;
use crate::provenance;

/// What a run says of its trace.
pub fn provenance(request: &Request, tracer: &Tracer) -> Provenance {
    Provenance {
        max_rate: request.config.max_rate.map(|rate| rate.get().into()),
        cost_ppm: request.config.cost.map(|share| (share * 1e6).round() as u64),
        min_latency: request.min_latency,
        calls: observing(tracer, Observed::Calls),
        connects: observing(tracer, Observed::Connects),
        receiving: receiving(tracer),
        http: observing(tracer, Observed::Http),
        packets: packets(tracer),
        dns: observing(tracer, Observed::Dns),
        ..provenance::of_trace(request.words.clone(), request.config.sampling, tracer)
    }
}

/// What a report says of a trace that began at `begun`, up to now; its coverage is known at its end
/// alone.
pub fn facts(request: &Request, tracer: &Tracer, begun: Instant<Monotonic>, no_nic: Option<String>) -> Facts {
    Facts {
        target: request.words.clone(),
        backend: tracer.backend().to_string(),
        sampling: request.config.sampling,
        coverage: Coverage::default(),
        lost: tracer.lost(),
        lasted: timestamping::now().since(begun).unwrap_or(Nanos::ZERO),
        no_nic,
        calls: remarks(observing(tracer, Observed::Calls), view::call_remarks),
        receiving: remarks(receiving(tracer), view::receiving_remarks),
        connects: remarks(observing(tracer, Observed::Connects), view::call_remarks),
        http: remarks(observing(tracer, Observed::Http), view::call_remarks),
        packets: remarks(observing(tracer, Observed::Packets), view::packet_remarks),
        copies: remarks(observing(tracer, Observed::Copies), view::call_remarks),
        dns: remarks(observing(tracer, Observed::Dns), view::call_remarks),
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
fn observed(tracer: &Tracer, what: Observed) -> Option<Observation> {
    tracer.observations().into_iter().find(|by| by.observed == what)
}

/// How received bytes are observed, and what that does to programs outside the target.
fn receiving(tracer: &Tracer) -> Option<store::Receiving> {
    let by = observed(tracer, Observed::Receives)?;
    Some(store::Receiving {
        missing: by.missing.into_iter().filter_map(|of| Some((stage(of.what)?, of.reason))).collect(),
        host_wide: by.host_wide.iter().map(ToString::to_string).collect(),
    })
}

/// The stage of received bytes that is not seen.
fn stage(unseen: Unseen) -> Option<ReceiveStage> {
    match unseen {
        Unseen::Received(stage) => Some(stage),
        _ => None,
    }
}

/// How another probe observes, likewise.
fn observing(tracer: &Tracer, what: Observed) -> Option<store::Observing> {
    let by = observed(tracer, what)?;
    Some(store::Observing {
        missing: by.missing.iter().map(ToString::to_string).collect(),
        host_wide: by.host_wide.iter().map(ToString::to_string).collect(),
    })
}

/// How packets are observed, one by one and as copies.
fn packets(tracer: &Tracer) -> Option<store::Observing> {
    let both = [Observed::Packets, Observed::Copies].into_iter().filter_map(|what| observing(tracer, what));
    both.reduce(|mut all, more| {
        all.missing.extend(more.missing);
        all.host_wide.extend(more.host_wide);
        all
    })
}

/// The same for people: a remark each.
fn remarks<T>(how: Option<T>, say: fn(&T) -> Vec<String>) -> Vec<String> {
    how.as_ref().map(say).unwrap_or_default()
}
