//! What a run says of how it came about.

use machine::Names;
use record::{Monotonic, Provenance, Sampling};
use trace::Tracer;

/// Of what this tracer records of this target from now on, without limits; how its probes observe
/// is the caller's to add.
pub fn of_trace(target: String, sampling: Sampling, tracer: &Tracer) -> Provenance {
    let Names { host, kernel, hardware, cpus } = Names::here();
    Provenance {
        version: env!("CARGO_PKG_VERSION").into(),
        command_line: std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect(),
        host: Some(host).filter(|host| !host.is_empty()),
        kernel,
        machine: hardware,
        cpus,
        backend: tracer.backend().to_string(),
        target,
        sampling: sampling.into(),
        max_rate: None,
        cost_ppm: None,
        min_latency: None,
        kept_one_in: None,
        clock_stepped_ns: None,
        clock: tracer.clock().into(),
        start_ns: timestamping::now::<Monotonic>().as_nanos(),
        calls: None,
        connects: None,
        receiving: None,
        http: None,
        packets: None,
        fired: None,
        dns: None,
    }
}
