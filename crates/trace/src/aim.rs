//! Aiming the BPF programs at a [`Target`]: what of it is fixed before they are loaded, and the
//! maps they look it up in.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use libbpf_rs::{Link, MapCore as _, MapFlags, MapHandle, Object};
use record::Sampling;

use crate::layout::{
    CONFIG_CGROUP, CONFIG_CONNECTS, CONFIG_PEERS, CONFIG_PIDS, CONFIG_PORTS, CONFIG_WINDOWS, PEER_IPV4, PEER_IPV6,
    Plain as _, RawConfig, RawPrefix,
};
use crate::object;
use crate::programs::{At, Planned};
use crate::sizes::Sizes;
use crate::{Config, Error, Target, histograms, namespace, process, walk};

/// The part of the configuration that says what the target is.
pub(crate) fn aim(target: &Target) -> RawConfig {
    let mut flags = 0;
    let mut set = |flag: u32, on: bool| flags |= if on { flag } else { 0 };
    set(CONFIG_PIDS, target.by_process());
    set(CONFIG_PORTS, !target.ports.is_empty());
    set(CONFIG_PEERS, !target.peers.is_empty());
    set(CONFIG_CGROUP, target.by_cgroup());
    RawConfig { flags, pid_namespace: namespace::own_pid_namespace(), ..RawConfig::zeroed() }
}

/// All that is fixed in the programs of a trace before they are loaded.
pub(crate) fn configure(config: &Config, sizes: Sizes) -> RawConfig {
    let mut raw = aim(&config.target);
    raw.flags |= if config.windows_every().is_some() { CONFIG_WINDOWS } else { 0 };
    raw.flags |= histograms::flags(config.histograms.as_ref());
    raw.flags |= if config.wants_connects() { CONFIG_CONNECTS } else { 0 };
    raw.slots = sizes.slots;
    raw.rows = sizes.rows;
    raw.queues = sizes.queues;
    raw.chunks = sizes.chunks;
    raw.directories = sizes.directories;
    raw.draw_below = match config.sampling {
        Sampling::Draws(ratio) if ratio.0.get() > 1 => u32::MAX / ratio.0.get(),
        _ => 0,
    };
    raw.max_rate = config.max_rate.map_or(0, NonZeroU32::get);
    raw
}

/// Fills the maps of what is looked up: names of processes, ports and peers.
pub(crate) fn set_lookups(object: &Object, target: &Target) -> Result<(), Error> {
    let names = object::map(object, "names")?;
    for name in target.names() {
        names.update(&name, &[1], MapFlags::ANY).map_err(Error::bpf("cannot set the name of a target process"))?;
    }
    let mut words: BTreeMap<u32, u64> = BTreeMap::new();
    for port in target.ports.iter().flat_map(|ports| ports.each()) {
        *words.entry(u32::from(port / 64)).or_default() |= 1 << (port % 64);
    }
    let ports = object::map(object, "ports")?;
    for (word, bits) in words {
        ports
            .update(&word.to_ne_bytes(), &bits.to_ne_bytes(), MapFlags::ANY)
            .map_err(Error::bpf("cannot set the target ports"))?;
    }
    let peers = object::map(object, "peers")?;
    for peer in &target.peers {
        let (bits, address) = peer.mapped();
        let of = if peer.is_ipv4() { PEER_IPV4 } else { PEER_IPV6 };
        peers
            .update(RawPrefix { bits, address }.as_bytes(), &[of as u8], MapFlags::ANY)
            .map_err(Error::bpf("cannot set a target peer"))?;
    }
    Ok(())
}

/// Puts processes that take a name of the target into it.
pub(crate) const RENAMED: Planned = ("renamed", At::Section);

/// The target's processes and the sockets they hold, as the programs look them up.
#[derive(Debug)]
pub(crate) struct Processes {
    pids: MapHandle,
    /// Iterators over the files that processes hold open.
    pub(crate) holders: Vec<Link>,
}

impl Processes {
    /// The map of a loaded object, and its iterators over files.
    pub(crate) fn new(object: &Object, holders: Vec<Link>) -> Result<Self, Error> {
        Ok(Self { pids: object::map(object, "pids")?, holders })
    }

    /// Adds the processes that the target names; where it names none, all are its own.
    pub(crate) fn begin(&self, target: &Target) -> Result<(), Error> {
        for &pid in &target.pids {
            self.include(pid)?;
        }
        let names: Vec<_> = target.names().collect();
        if !names.is_empty() {
            for pid in process::all().into_iter().filter(|&pid| names.contains(&process::comm(pid))) {
                match self.include(pid) {
                    Err(Error::NoSuchProcess { .. }) => {}
                    done => done?,
                }
            }
        }
        Ok(())
    }

    /// Whether any process of the target is still there. Those that end take themselves out while
    /// the programs are attached.
    pub(crate) fn any_left(&self) -> bool {
        self.pids.keys().next().is_some()
    }

    /// Adds a process and its descendants.
    pub(crate) fn include(&self, pid: u32) -> Result<(), Error> {
        if !process::is_there(pid) {
            return Err(Error::NoSuchProcess { pid });
        }
        for member in process::with_descendants(pid) {
            self.pids
                .update(&member.to_ne_bytes(), &[1], MapFlags::ANY)
                .map_err(Error::bpf("cannot set a target process"))?;
        }
        Ok(())
    }

    /// Learns which sockets they hold.
    pub(crate) fn learn_sockets(&self) -> Result<(), Error> {
        self.holders.iter().try_for_each(|iterator| walk::through_own(iterator).map(drop))
    }
}
