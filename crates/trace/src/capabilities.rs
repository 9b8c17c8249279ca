//! What this kernel lets the tracer do, found out by trying: each program type by loading an empty
//! one, and each backend by loading the very programs it uses.

use std::ffi::OsStr;
use std::sync::OnceLock;

use crate::object::{self, compiled_for_today};
use crate::probe::Ground;
use crate::programs::LoadError;
use crate::refusal::Refusal;
use crate::sizes::Sizes;
use crate::{Config, aim, cgroup, privilege, refusal, sends};

/// Whether the machine has something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It works: it was tried.
    Available,
    /// It does not.
    Missing {
        /// What the kernel said.
        reason: String,
    },
    /// It takes root to find out.
    NeedsRoot,
}

/// One thing that tracing can make use of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capability<S = State> {
    /// A stable name: `bpf_timestamping`, `fentry`, ….
    pub name: &'static str,
    /// What it is for.
    pub purpose: &'static str,
    /// What is done where it is missing.
    pub instead: &'static str,
    /// Whether it is there.
    pub state: S,
}

/// The name of the timestamping backend as a whole.
pub const BPF_TIMESTAMPING: &str = "bpf_timestamping";
/// The name of the tracepoints backend as a whole.
pub const TRACEPOINTS_BACKEND: &str = "tracepoints_backend";

/// What all programs for kernels of today need.
const TODAY: &str = "try_today";

/// Whether this kernel takes the programs for older kernels alone. Tried once.
pub(crate) fn older() -> bool {
    static OLDER: OnceLock<bool> = OnceLock::new();
    *OLDER.get_or_init(|| matches!(try_one(TODAY), Err(LoadError::Refused(Refusal::Refused { .. }))))
}

/// Name, program of `bpf/capabilities.bpf.c`, purpose, and what is done without.
const PROGRAMS: [(&str, &str, &str, &str); 11] = [
    ("ring_buffer", "try_ring_buffer", "hands finished sends to user space", "nothing: tracing needs it (Linux 5.8)"),
    ("sockops", "try_sockops", "sees connections begin and end, per cgroup", "nothing: tracing needs it"),
    ("iter_tcp", "try_iter_tcp", "picks up connections that exist already", "only new connections are followed"),
    ("tp_btf", "try_tp_btf", "follows child processes; stages of the tracepoints backend", "nothing: tracing needs it"),
    (
        "bpf_loop",
        TODAY,
        "loops of any length in the kernel, storage of sockets in tracepoints (Linux 5.17)",
        "the same programs as older kernels take them: at most 2,048 sends for one ACK, 24 for one packet",
    ),
    ("raw_tp", "try_raw_tp", "tracepoints without types", "not used where tp_btf works"),
    ("tp_sendmsg_locked", "try_tp_sendmsg", "the send stage of the tracepoints backend (Linux 6.16)", "fentry"),
    (
        "fentry",
        "try_fentry",
        "the send stage of the tracepoints backend before Linux 6.16",
        "the tcp_sendmsg_locked tracepoint",
    ),
    ("cgroup_skb", "try_cgroup_skb", "packets of one cgroup", "tracepoints, filtered by socket"),
    ("xdp", "try_xdp", "reception and generation of packets in the driver", "AF_PACKET"),
    ("tc", "try_tc", "packets at the qdisc", "AF_PACKET"),
];

/// Tries everything but the kernel's types, which all of it needs. Takes some tens of milliseconds,
/// attaches nothing and leaves nothing.
pub fn all() -> Vec<Capability> {
    refusal::quiet();
    let root = privilege::check().is_ok();
    let tried = |result: Result<(), String>| match result {
        Ok(()) => State::Available,
        Err(_) if !root => State::NeedsRoot,
        Err(reason) => State::Missing { reason },
    };
    let mut list = PROGRAMS
        .map(|(name, program, purpose, instead)| Capability { name, purpose, instead, state: tried(load_one(program)) })
        .to_vec();
    let config = Config { max_connections: 1, slots_per_connection: 16, ..Config::default() };
    let sizes = Sizes { rows: 1, queues: 1, slots: config.slots_per_connection, chunks: 4, directories: 1, ring: 4096 };
    let (raw, root) = (aim::configure(&config, sizes), cgroup::root());
    let ground = root.as_ref().map(std::slice::from_ref);
    let ground = ground.map(|cgroups| Ground { config: &config, raw, sizes, cgroups, sends: None });
    let probes = crate::PROBES.iter().flat_map(|probe| probe.capabilities(ground.as_ref().map_err(|error| *error)));
    let found = sends::capabilities(ground.as_ref().map_err(|error| *error)).into_iter().chain(probes);
    list.extend(found.map(|Capability { name, purpose, instead, state }| {
        let state = tried(state);
        Capability { name, purpose, instead, state }
    }));
    list
}

/// Loads one program of the object, and lets it go again.
fn load_one(name: &str) -> Result<(), String> {
    try_one(name).map_err(|error| match error {
        LoadError::Refused(refusal) => refusal.to_string(),
        LoadError::Failed(error) => error.to_string(),
    })
}

fn try_one(name: &str) -> Result<(), LoadError> {
    let mut object = object::open(compiled_for_today!("capabilities"), "wirelapse")?;
    for mut program in object.progs_mut() {
        let wanted = program.name() == OsStr::new(name);
        program.set_autoload(wanted);
    }
    object::set_maps(&mut object, |map, of| match map {
        "ring" => of.set_autocreate(name == "try_ring_buffer"),
        "storage" => of.set_autocreate(name == TODAY),
        _ => Ok(()),
    })?;
    Ok(refusal::load(object).map(drop)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_root_is_advised_agrees_with_the_kernel() {
        tier::needs!(tier::Need::Root, tier::Need::Path("/sys/kernel/btf/vmlinux"));
        let list = all();
        let state = |name| &list.iter().find(|c| c.name == name).unwrap().state;
        for needed in ["ring_buffer", "sockops", "tp_btf"] {
            assert_eq!(state(needed), &State::Available, "{needed}");
        }
        assert!(list.iter().all(|c| c.state != State::NeedsRoot));
        for capability in &list {
            if let State::Missing { reason } = &capability.state {
                assert!(!reason.is_empty(), "{}", capability.name);
            }
        }
    }
}
