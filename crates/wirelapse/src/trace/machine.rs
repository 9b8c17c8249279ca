//! What has to be asked of the machine: its names and its clock.

use record::{Instant, Monotonic};
use store::Provenance;
use trace::{Observation, Tracer};

use super::request::Request;

/// `CLOCK_MONOTONIC`, the clock of the stages.
pub fn monotonic() -> Instant<Monotonic> {
    timestamping::now()
}

pub fn provenance(request: &Request, tracer: &Tracer) -> Provenance {
    let (kernel, machine) = names();
    Provenance {
        version: env!("CARGO_PKG_VERSION").into(),
        command_line: std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect(),
        kernel,
        machine,
        cpus: std::thread::available_parallelism().map_or(0, |n| u32::try_from(n.get()).unwrap_or(u32::MAX)),
        backend: tracer.backend().to_string(),
        target: request.words.clone(),
        sampling: request.config.sampling.into(),
        max_rate: request.config.max_rate.map(|rate| rate.get().into()),
        clock: tracer.clock().into(),
        start_ns: monotonic().as_nanos(),
        receiving: observed(tracer, trace::RECEIVES).map(|by| receiving(&by)),
        packets: observed(tracer, trace::PACKETS).map(|by| observing(&by)),
        path: None,
    }
}

/// Why no packet has a stamp of the NIC, where that is because one here is not set to give any.
pub fn no_nic() -> Option<String> {
    let interfaces = ::machine::interfaces().ok()?;
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

/// How received bytes are observed, for people: a remark each.
pub fn remarks(tracer: &Tracer) -> Vec<String> {
    observed(tracer, trace::RECEIVES).map(|by| report::view::receiving_remarks(&receiving(&by))).unwrap_or_default()
}

/// How packets and datagrams are observed, likewise.
pub fn packet_remarks(tracer: &Tracer) -> Vec<String> {
    observed(tracer, trace::PACKETS).map(|by| report::view::packet_remarks(&observing(&by))).unwrap_or_default()
}

/// Kernel release and hardware name.
fn names() -> (String, String) {
    let names = rustix::system::uname();
    (names.release().to_string_lossy().into_owned(), names.machine().to_string_lossy().into_owned())
}
