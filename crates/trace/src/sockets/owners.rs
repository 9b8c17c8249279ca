//! Which process has a socket: by the descriptors of every process in `/proc`.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs;
use std::io::Read as _;
use std::time::{Duration, Instant};

use record::Comm;
use record::socket::{OwnerSource, SocketOwner};

use crate::process;

/// A look through all descriptors is followed by a rest of this many times what it took.
const REST: u32 = 50;

/// The owners of sockets by inode, as far as the latest look through `/proc` found them.
#[derive(Debug, Default)]
pub(super) struct Owners {
    found: HashMap<u32, (u32, u32)>,
    /// The names of processes that have some: one may have ten thousand.
    names: HashMap<u32, String>,
    not_before: Option<Instant>,
}

impl Owners {
    /// Looks through the descriptors of all processes, unless that is too short ago for what it
    /// costs.
    pub(super) fn look(&mut self) {
        let began = Instant::now();
        if self.not_before.is_some_and(|then| began < then) {
            return;
        }
        self.found.clear();
        for pid in process::all() {
            let Ok(open) = fs::read_dir(format!("/proc/{pid}/fd")) else { continue };
            for inode in open.flatten().filter_map(|entry| inode(&fs::read_link(entry.path()).ok()?)) {
                // A process may have a socket twice.
                let owner = self.found.entry(inode).or_insert((pid, 0));
                owner.1 += u32::from(owner.0 != pid);
            }
        }
        self.not_before = Some(Instant::now() + began.elapsed().max(Duration::from_millis(1)) * REST);
    }

    /// A process that has this socket: the one with the least number.
    pub(super) fn of(&mut self, inode: u32) -> Option<SocketOwner> {
        let &(pid, others) = self.found.get(&inode)?;
        let name = match self.names.entry(pid) {
            Entry::Occupied(known) => known.get().clone(),
            Entry::Vacant(new) => new.insert(name(pid)?).clone(),
        };
        Some(SocketOwner { pid, name, others, source: OwnerSource::Descriptor })
    }

    /// Lets go of what was found: it is of one moment.
    pub(super) fn forget(&mut self) {
        (self.found, self.names) = (HashMap::new(), HashMap::new());
    }
}

/// The name of a process that is there.
fn name(pid: u32) -> Option<String> {
    let mut name = Vec::new();
    fs::File::open(format!("/proc/{pid}/comm")).ok()?.take(16).read_to_end(&mut name).ok()?;
    let mut comm = [0; 16];
    let end = name.iter().position(|byte| *byte == b'\n').unwrap_or(name.len()).min(15);
    comm[..end].copy_from_slice(&name[..end]);
    Some(Comm(comm).to_string())
}

/// The processes that a process descends from, its parent first, each with its name; at most eight.
/// Empty where it is gone.
pub fn ancestors(pid: u32) -> Vec<(u32, String)> {
    let mut all: Vec<(u32, String)> = Vec::new();
    let mut at = pid;
    while let Some(parent) = process::parent(at).filter(|parent| *parent != 0 && all.len() < MOST_ANCESTORS) {
        all.push((parent, Comm(process::comm(parent)).to_string()));
        at = parent;
    }
    all
}

/// Ancestors of a process that are named.
const MOST_ANCESTORS: usize = 8;

/// The inode of a descriptor's `socket:[123]`.
fn inode(target: &std::path::Path) -> Option<u32> {
    target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd as _;

    #[test]
    fn a_socket_of_this_process_is_found_by_its_inode() {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let inode = inode(&fs::read_link(format!("/proc/self/fd/{}", socket.as_raw_fd())).unwrap()).unwrap();
        let mut owners = Owners::default();
        owners.look();
        let owner = owners.of(inode).unwrap();
        assert_eq!((owner.pid, owner.others), (std::process::id(), 0));
        assert!(owner.name.starts_with("trace"), "{owner:?}");
        owners.forget();
        owners.look();
        assert_eq!(owners.of(inode), None, "it rests");
    }

    #[test]
    fn the_ancestors_of_a_process_begin_with_its_parent() {
        let mut child = std::process::Command::new("sleep").arg("10").spawn().unwrap();
        let found = ancestors(child.id());
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(found[0].0, std::process::id());
        assert_eq!(found[1..], ancestors(std::process::id())[..found.len() - 1]);
        assert!(found.len() <= MOST_ANCESTORS && ancestors(u32::MAX).is_empty());
    }
}
