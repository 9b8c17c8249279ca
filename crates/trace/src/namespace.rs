//! Network namespaces: a socket iterator sees those sockets alone that are in its opener's.

use std::collections::HashSet;
use std::fs::{self, File};
use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::Error;
use crate::process;

/// A network namespace, held open.
#[derive(Debug)]
pub(crate) struct Network {
    file: File,
    own: bool,
}

/// The inode number that the kernel gives the initial pid namespace (`PROC_PID_INIT_INO`,
/// include/linux/proc_ns.h).
const INITIAL_PID_NAMESPACE: u64 = 0xefff_fffc;

/// The inode number of this process's pid namespace; 0 where that is the initial one.
pub(crate) fn own_pid_namespace() -> u32 {
    match fs::metadata("/proc/self/ns/pid").map(|m| m.ino()) {
        Ok(INITIAL_PID_NAMESPACE) | Err(_) => 0,
        Ok(inode) => inode as u32,
    }
}

/// The distinct network namespaces of these processes, and the caller's own. Processes that have
/// ended are skipped.
pub(crate) fn networks_of(pids: impl IntoIterator<Item = u32>) -> Result<Vec<Network>, Error> {
    let own = File::open("/proc/thread-self/ns/net").map_err(Error::system("cannot open the own network namespace"))?;
    let own_inode = own.metadata().map_err(Error::system("cannot read the own network namespace"))?.ino();
    let mut seen = HashSet::from([own_inode]);
    let mut networks = vec![Network { file: own, own: true }];
    for pid in pids {
        let path = format!("/proc/{pid}/ns/net");
        // The inode first: opening every file would cost more than looking.
        let Ok(inode) = fs::metadata(&path).map(|m| m.ino()) else { continue };
        if seen.contains(&inode) {
            continue;
        }
        if let Ok(file) = File::open(&path) {
            seen.insert(inode);
            networks.push(Network { file, own: false });
        }
    }
    Ok(networks)
}

/// The distinct network namespaces of all processes in `/proc`.
pub(crate) fn all_networks() -> Result<Vec<Network>, Error> {
    networks_of(process::all())
}

/// The network namespace with this inode number: of a process, or with a name below `/run/netns`,
/// where no process may be in it any more.
pub(crate) fn network(inode: u32) -> Option<Network> {
    let is_it = |network: &Network| network.inode() == Some(inode.into());
    all_networks().ok()?.into_iter().find(is_it).or_else(|| {
        let named = fs::read_dir("/run/netns").ok()?.flatten();
        let open = named.filter_map(|entry| Some(Network { file: File::open(entry.path()).ok()?, own: false }));
        open.into_iter().find(is_it)
    })
}

impl Network {
    /// Whether it is the caller's.
    pub(crate) fn is_own(&self) -> bool {
        self.own
    }

    /// Its inode number: how the kernel part names it.
    pub(crate) fn inode(&self) -> Option<u64> {
        self.file.metadata().ok().map(|m| m.ino())
    }

    /// Runs `work` in this network namespace: in a separate thread, unless it is the caller's.
    pub(crate) fn within<T: Send>(&self, work: impl FnOnce() -> Result<T, Error> + Send) -> Result<T, Error> {
        if self.own {
            return work();
        }
        let file = &self.file;
        std::thread::scope(|scope| {
            let inside = move || {
                let entered = move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network));
                entered.map_err(|error| Error::System {
                    what: "cannot enter a network namespace of the target",
                    source: error.into(),
                })?;
                work()
            };
            let thread = std::thread::Builder::new().spawn_scoped(scope, inside).map_err(|source| Error::System {
                what: "cannot start a thread for a network namespace of the target",
                source,
            })?;
            thread.join().unwrap_or(Err(Error::System {
                what: "the thread in a network namespace of the target failed",
                source: std::io::ErrorKind::Other.into(),
            }))
        })
    }
}
