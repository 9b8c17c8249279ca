//! Loading the programs that follow sends: by the kernel's timestamp callbacks, or by tracepoints.

use crate::aim;
use crate::object::{self, Compiled, compiled, compiled_for_today};
use crate::probe::Ground;
use crate::programs::{At, LoadError, Planned, Programs};
use crate::refusal::Refusal;
use crate::{Backend, Error, capabilities, histograms};

/// The object of the BPF timestamping backend.
pub(crate) const TIMESTAMPING: Compiled = compiled_for_today!("timestamping");

/// The object of the tracepoints backend.
const TRACEPOINTS: Compiled = compiled!("tracepoints");

/// What both have: programs that follow processes, the end of sockets, and the iterator over them.
const BOTH: [Planned; 5] = [
    ("forked", At::Section),
    ("exited", At::Section),
    ("destroyed", At::Section),
    ("held", At::Files),
    (super::PASS, At::Passes),
];

/// The programs of the tracepoints backend that every kernel runs.
const STAGES: [&str; 5] = ["queued", "started", "received", "state_set", "retransmitted"];

/// What gives the `send` stage, the best first, with what goes along with it: fentry where the
/// kernel has no tracepoint (before 6.16), and then the ACKs of closing sockets too, for which some
/// of those kernels give no callback.
const WRITES: [&[&str]; 2] = [&["written_round"], &["written_call", "received_late", "wait_begun", "wait_over"]];

/// What gives the beginning of a call beside the timestamp callbacks (6.16).
pub(crate) const CALL: &str = "called";

/// What gives the dropped segments of histograms.
const DROPS: Planned = ("dropped", At::Section);

/// The program of socket operations of a backend.
pub(super) const fn sockops(backend: Backend) -> &'static str {
    match backend {
        Backend::Timestamping => "timestamping",
        Backend::Tracepoints => "following",
    }
}

/// The programs of a backend, loaded.
///
/// # Errors
/// [`Error::Refused`] where the kernel does not take them.
pub(crate) fn load(ground: &Ground<'_>, backend: Backend) -> Result<Programs, Error> {
    let (compiled, ways): (_, &[&[&'static str]]) = match backend {
        Backend::Timestamping if ground.config.calls => (TIMESTAMPING, &[&[CALL], &[]]),
        Backend::Timestamping => (TIMESTAMPING, &[&[]]),
        Backend::Tracepoints => (TRACEPOINTS, &WRITES),
    };
    let stages: &[&'static str] = if backend == Backend::Tracepoints { &STAGES } else { &[] };
    let names = (!ground.config.target.comms.is_empty()).then_some(aim::RENAMED);
    let drops = ground.config.histograms.as_ref().map(|_| DROPS);
    let mut refusals = Vec::new();
    for way in ways {
        let on_tracepoints = stages.iter().chain(*way).map(|&name| (name, At::Section));
        let inherited = capabilities::older().then_some(object::INHERITED);
        let plan = BOTH
            .into_iter()
            .chain(names)
            .chain(drops)
            .chain(inherited)
            .chain(on_tracepoints)
            .chain([(sockops(backend), At::Cgroup)])
            .collect();
        let load = || {
            let mut object = object::open_aimed(compiled, "wirelapse", &ground.raw, ground.sizes)?;
            histograms::set_up(&mut object, ground.config.histograms.as_ref(), ground.sizes)?;
            Programs::load(object, plan, ground.cgroups)
        };
        match load() {
            Ok(programs) => return Ok(programs),
            Err(LoadError::Refused(refusal)) => refusals.push(refusal),
            Err(LoadError::Failed(error)) => return Err(error),
        }
    }
    let why = if refusals.len() == 1 { refusals.remove(0) } else { Refusal::All(refusals) };
    Err(Error::Refused { what: backend.what(), why })
}
