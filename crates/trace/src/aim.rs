//! Aiming the BPF programs at a [`Target`]: what of it is fixed before they are loaded, and the maps they look it up in.

use std::fs::File;
use std::num::NonZeroU32;
use std::os::unix::fs::MetadataExt as _;

use libbpf_rs::{MapCore as _, MapFlags, MapHandle, Object};
use record::Sampling;

use crate::layout::{
    CONFIG_CGROUP, CONFIG_PEERS, CONFIG_PIDS, CONFIG_PORTS, CONFIG_WINDOWS, PEER_IPV4, PEER_IPV6, Plain as _,
    RawConfig, RawOwner, RawPrefix,
};
use crate::object::{self, Sizes};
use crate::{Config, Error, Target, cgroup, namespace, process};

/// The part of the configuration that says what the target is, and its cgroup, held open: where none is named, the root of
/// the hierarchy.
pub(crate) fn aim(target: &Target) -> Result<(File, RawConfig), Error> {
    let cgroup = match &target.cgroup {
        Some(path) => cgroup::open(path)?,
        None => cgroup::root()?,
    };
    let mut flags = 0;
    let mut set = |flag: u32, on: bool| flags |= if on { flag } else { 0 };
    set(CONFIG_PIDS, target.by_process());
    set(CONFIG_PORTS, !target.ports.is_empty());
    set(CONFIG_PEERS, !target.peers.is_empty());
    set(CONFIG_CGROUP, target.cgroup.is_some());
    let inode = cgroup.metadata().map_err(Error::system("cannot read the cgroup"))?.ino();
    let level = match &target.cgroup {
        Some(path) => {
            let mount = cgroup::mount()?;
            let canonical = path.canonicalize().map_err(|source| Error::Cgroup { path: path.clone(), source })?;
            canonical.strip_prefix(&mount).map_or(0, |below| below.components().count() as i32)
        }
        None => 0,
    };
    let raw = RawConfig {
        cgroup_id: inode,
        flags,
        slots: 0,
        draw_below: 0,
        max_rate: 0,
        pid_namespace: namespace::own_pid_namespace(),
        cgroup_level: level,
    };
    Ok((cgroup, raw))
}

/// The target's cgroup, and all that is fixed in the programs of a trace before they are loaded.
pub(crate) fn configure(config: &Config, sizes: Sizes) -> Result<(File, RawConfig), Error> {
    let (cgroup, mut raw) = aim(&config.target)?;
    raw.flags |= if config.windows_every().is_some() { CONFIG_WINDOWS } else { 0 };
    raw.slots = sizes.slots;
    raw.draw_below = match config.sampling {
        Sampling::Draws(ratio) if ratio.0.get() > 1 => u32::MAX / ratio.0.get(),
        _ => 0,
    };
    raw.max_rate = config.max_rate.map_or(0, NonZeroU32::get);
    Ok((cgroup, raw))
}

/// Fills the maps of target ports and peers.
pub(crate) fn set_addresses(object: &Object, target: &Target) -> Result<(), Error> {
    let one = [1u8];
    let ports = object::map(object, "ports")?;
    for port in &target.ports {
        ports.update(&port.to_ne_bytes(), &one, MapFlags::ANY).map_err(Error::bpf("cannot set a target port"))?;
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

/// The target's processes and the sockets they hold, as the programs look them up.
#[derive(Debug)]
pub(crate) struct Processes {
    pids: MapHandle,
    inodes: MapHandle,
    by_process: bool,
}

impl Processes {
    /// The maps of a loaded object. `by_process`: whether processes are a criterion ([`Target::by_process`]).
    pub(crate) fn new(object: &Object, by_process: bool) -> Result<Self, Error> {
        Ok(Self { pids: object::map(object, "pids")?, inodes: object::map(object, "inodes")?, by_process })
    }

    /// Adds the processes that the target names; where it names none, the owners of all sockets that are there.
    pub(crate) fn begin(&self, pids: &[u32]) -> Result<(), Error> {
        for &pid in pids {
            self.add(pid)?;
        }
        if !self.by_process {
            for pid in process::all() {
                self.add_inodes(pid)?;
            }
        }
        Ok(())
    }

    /// Adds a process, its descendants and their sockets.
    pub(crate) fn add(&self, pid: u32) -> Result<(), Error> {
        for member in process::with_descendants(pid) {
            self.pids
                .update(&member.to_ne_bytes(), &[1], MapFlags::ANY)
                .map_err(Error::bpf("cannot set a target process"))?;
            match self.add_inodes(member) {
                Err(Error::NoSuchProcess { .. }) if member != pid => {}
                done => done?,
            }
        }
        Ok(())
    }

    fn add_inodes(&self, pid: u32) -> Result<(), Error> {
        let inodes = match process::socket_inodes(pid) {
            Err(Error::NoSuchProcess { .. }) if !self.by_process => return Ok(()),
            inodes => inodes?,
        };
        if inodes.is_empty() {
            return Ok(());
        }
        let owner = RawOwner { pid, comm: process::comm(pid) };
        for inode in inodes {
            // A full map leaves a socket without its owner's name, or unfound: there is room for 131,072.
            let _ = self.inodes.update(&inode.to_ne_bytes(), owner.as_bytes(), MapFlags::ANY);
        }
        Ok(())
    }
}
