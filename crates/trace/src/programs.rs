//! Loading the programs of either backend, with the configuration that is fixed for them.

use std::fs::File;

use libbpf_rs::Object;
use record::Sampling;

use crate::aim::aim;
use crate::layout::{CONFIG_WINDOWS, RawConfig};
use crate::object::{self, Sizes};
use crate::packets::Wanted;
use crate::{Backend, Config, Error, packets, receive};

/// The programs of BPF timestamping, loaded.
pub(crate) fn load_timestamping(raw: &RawConfig, sizes: Sizes) -> Result<Object, Error> {
    object::load(object::open(object::TIMESTAMPING, "wirelapse", raw, sizes)?)
        .map_err(|reason| Error::Backend { backend: Backend::Timestamping, reason })
}

/// The programs of the tracepoints backend that every kernel runs.
const STAGES: [&str; 5] = ["queued", "started", "received", "state_set", "retransmitted"];

/// What gives the `send` stage, the best first, with what goes along with it: fentry where the kernel has no tracepoint (before
/// 6.16), and then the ACKs of closing sockets too, for which some of those kernels give no callback.
const WRITES: [&[&str]; 2] = [&["written_round"], &["written_call", "received_late"]];

/// The loaded object, and all its programs that are to be attached.
pub(crate) fn load_tracepoints(raw: &RawConfig, sizes: Sizes) -> Result<(Object, Vec<&'static str>), Error> {
    let mut reasons = Vec::new();
    for write in WRITES {
        let mut object = object::open(object::TRACEPOINTS, "wirelapse", raw, sizes)?;
        for mut program in object.progs_mut() {
            let name = program.name().to_string_lossy().into_owned();
            let others = WRITES.iter().filter(|other| **other != write).any(|other| other.contains(&name.as_str()));
            program.set_autoload(!others);
        }
        match object::load(object) {
            Ok(object) => return Ok((object, STAGES.iter().chain(write).copied().collect())),
            Err(reason) => reasons.push(reason),
        }
    }
    Err(Error::Backend { backend: Backend::Tracepoints, reason: reasons.join("; ") })
}

/// The reason alone, without the sentence that names the backend.
pub(crate) fn reason(error: Error) -> String {
    match error {
        Error::Backend { reason, .. } => reason,
        other => other.to_string(),
    }
}

fn try_sizes(config: &Config) -> Sizes {
    Sizes { rows: config.max_connections, slots: config.slots_per_connection, ring: config.ring_bytes }
}

/// Whether the programs of the BPF timestamping backend load here.
pub(crate) fn try_timestamping(config: &Config) -> Result<(), String> {
    let sizes = try_sizes(config);
    let (_, raw) = raw_config(config, sizes).map_err(|error| error.to_string())?;
    load_timestamping(&raw, sizes).map(drop).map_err(reason)
}

/// Whether the programs of the tracepoints backend load here.
pub(crate) fn try_tracepoints(config: &Config) -> Result<(), String> {
    let sizes = try_sizes(config);
    let (_, raw) = raw_config(config, sizes).map_err(|error| error.to_string())?;
    load_tracepoints(&raw, sizes).map(drop).map_err(reason)
}

/// Whether the receiving side's programs load here; gives why there is no `ready` stage, where there is none.
pub(crate) fn try_receive(config: &Config) -> Result<Option<String>, String> {
    let sizes = try_sizes(config);
    let (_, raw) = raw_config(config, sizes).map_err(|error| error.to_string())?;
    receive::try_load(&raw, sizes)
}

/// Whether the programs for packets or datagrams load here; gives what they do without.
pub(crate) fn try_packets(config: &Config, wanted: Wanted) -> Result<Vec<String>, String> {
    let sizes = try_sizes(config);
    let (_, raw) = raw_config(config, sizes).map_err(|error| error.to_string())?;
    packets::try_load(&raw, sizes, wanted)
}

/// The target's cgroup, and what the programs are told.
pub(crate) fn raw_config(config: &Config, sizes: Sizes) -> Result<(File, RawConfig), Error> {
    let (cgroup, mut raw) = aim(&config.target)?;
    let windows = matches!(config.sampling, Sampling::Windows(_))
        || (config.sampling == Sampling::Every && config.max_rate.is_some());
    raw.flags |= if windows { CONFIG_WINDOWS } else { 0 };
    raw.slots = sizes.slots;
    raw.draw_below = match config.sampling {
        Sampling::Draws(ratio) if ratio.0.get() > 1 => u32::MAX / ratio.0.get(),
        _ => 0,
    };
    raw.max_rate = config.max_rate.map_or(0, std::num::NonZeroU32::get);
    Ok((cgroup, raw))
}
