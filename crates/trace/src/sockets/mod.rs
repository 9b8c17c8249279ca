//! Every TCP and UDP socket that is alive, of all network namespaces that processes are in, by the
//! kernel's socket diagnostics (sock_diag(7)): no BPF program, and nothing that a socket pays for.
//!
//! A reading gives what has changed since the one before, so that ten thousand idle connections
//! cost their look-up and nothing else.

mod message;
mod netlink;
mod owners;
mod wanted;

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use record::socket::{Socket, SocketChanges, SocketOwner};
use record::{Instant, Monotonic, Nanos};

use crate::namespace;
use crate::{Error, Target};
use message::Message;
use netlink::Diagnostics;
use owners::Owners;
use wanted::Wanted;

pub use owners::ancestors;

/// A reading is followed by a rest of this many times the CPU time that it took. The first one is
/// not: it finds the owners of all sockets, and what comes next is to be seen soon.
const REST: u64 = 100;
/// Sockets that are known at the same time.
const MOST: usize = 100_000;

/// Reads the sockets of a target.
pub struct Sockets {
    wanted: Wanted,
    networks: HashMap<u64, Diagnostics>,
    known: HashMap<u64, Known>,
    owners: Owners,
    reading: u64,
    not_before: Option<Nanos>,
}

/// What is known of a socket.
struct Known {
    /// Of everything that it was described by, but for time that passes.
    hash: u64,
    /// The reading that it was seen in.
    seen: u64,
    inode: u32,
    owner: Option<SocketOwner>,
    cgroup: Option<u64>,
}

impl std::fmt::Debug for Sockets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sockets").field("known", &self.known.len()).finish_non_exhaustive()
    }
}

impl Sockets {
    /// Of this target.
    ///
    /// # Errors
    /// [`Error`] where a cgroup that it names is in no hierarchy.
    pub fn new(target: Target) -> Result<Self, Error> {
        Ok(Self {
            wanted: Wanted::new(target)?,
            networks: HashMap::new(),
            known: HashMap::new(),
            owners: Owners::default(),
            reading: 0,
            not_before: None,
        })
    }

    /// What has become of its sockets since the last reading; nothing where that is too short ago
    /// for what a reading costs.
    ///
    /// # Errors
    /// [`Error`] where the network namespaces cannot be listed.
    pub fn read(&mut self) -> Result<SocketChanges, Error> {
        let mut changes = SocketChanges::default();
        let now = timestamping::now();
        if self.not_before.is_some_and(|then| now.as_nanos() < then.0) {
            return Ok(changes);
        }
        let before = cpu_time();
        changes.read = Some(now);
        self.reading += 1;
        self.wanted.refresh();
        self.find_networks(now, &mut changes)?;
        let networks = std::mem::take(&mut self.networks);
        for (network, diagnostics) in &networks {
            let each = &mut |message: Message<'_>| self.take(*network, &message, &mut changes);
            if let Err(error) = diagnostics.dump(each) {
                changes.missed = format!("the sockets of network namespace {network}: {error}");
            }
        }
        self.networks = networks;
        // Looking for owners has a limit of its own.
        let cost = cpu_time().saturating_sub(before);
        self.name_owners(&mut changes);
        self.choose(&mut changes);
        self.forget(&mut changes);
        self.not_before = (self.reading > 1).then(|| Nanos(now.as_nanos() + cost * REST));
        Ok(changes)
    }

    /// Opens the network namespaces that are new, takes what was closed in those that are there,
    /// and lets go of the others: an open socket would keep them.
    fn find_networks(&mut self, now: Instant<Monotonic>, changes: &mut SocketChanges) -> Result<(), Error> {
        let mut before = std::mem::take(&mut self.networks);
        for network in namespace::all_networks()? {
            let Some(inode) = network.inode() else { continue };
            let opened = match before.remove(&inode) {
                Some(diagnostics) => Ok(diagnostics),
                None => network.within(|| Diagnostics::open().map_err(Error::system("cannot list sockets"))),
            };
            match opened {
                Ok(diagnostics) => {
                    self.take_closed(inode, &diagnostics, now, changes);
                    self.networks.insert(inode, diagnostics);
                }
                Err(error) => changes.missed = format!("the sockets of network namespace {inode}: {error}"),
            }
        }
        Ok(())
    }

    fn take_closed(
        &self,
        network: u64,
        diagnostics: &Diagnostics,
        now: Instant<Monotonic>,
        changes: &mut SocketChanges,
    ) {
        let each = &mut |message: Message<'_>| {
            if let Some(socket) = message.socket(network)
                && changes.closed.len() < MOST
            {
                let known = self.known.get(&socket.cookie);
                let (owner, cgroup) = known.map(|known| (known.owner.clone(), known.cgroup)).unwrap_or_default();
                changes.closed.push(Socket { owner, cgroup: socket.cgroup.or(cgroup), ..socket });
            }
        };
        if !diagnostics.closed(now, each) {
            "some of the connections that were closed".clone_into(&mut changes.missed);
        }
    }

    fn take(&mut self, network: u64, message: &Message<'_>, changes: &mut SocketChanges) {
        let Some(cookie) = message.cookie() else { return };
        let mut hasher = DefaultHasher::new();
        message.timeless(|part| part.hash(&mut hasher));
        let hash = hasher.finish();
        let seen = self.reading;
        if let Some(known) = self.known.get_mut(&cookie)
            && known.hash == hash
        {
            known.seen = seen;
            return;
        }
        if self.known.len() >= MOST && !self.known.contains_key(&cookie) {
            changes.missed = format!("sockets beyond the first {MOST}");
            return;
        }
        let Some(mut socket) = message.socket(network) else { return };
        let owner = self.known.get(&cookie).filter(|known| known.inode == socket.inode).and_then(|k| k.owner.clone());
        socket.owner.clone_from(&owner);
        self.known.insert(cookie, Known { hash, seen, inode: socket.inode, owner, cgroup: socket.cgroup });
        changes.changed.push(socket);
    }

    /// Names the owners of sockets that are new. A socket whose owner is not found at once is
    /// given again with the next change of it.
    fn name_owners(&mut self, changes: &mut SocketChanges) {
        let unnamed = |socket: &Socket| socket.owner.is_none() && socket.inode != 0;
        if changes.changed.iter().any(unnamed) {
            self.owners.look();
        }
        for socket in changes.changed.iter_mut().filter(|socket| unnamed(socket)) {
            socket.owner = self.owners.of(socket.inode);
            if let Some(known) = self.known.get_mut(&socket.cookie) {
                known.owner.clone_from(&socket.owner);
                if socket.owner.is_none() {
                    // Whatever comes next of it counts as a change.
                    known.hash = 0;
                }
            }
        }
    }

    /// Leaves what is wanted.
    fn choose(&mut self, changes: &mut SocketChanges) {
        let Self { wanted, known, .. } = self;
        changes.changed.retain(|socket| {
            let is_wanted = wanted.contains(socket);
            if !is_wanted
                && wanted.comes_late(socket)
                && let Some(known) = known.get_mut(&socket.cookie)
            {
                known.hash = 0;
            }
            is_wanted
        });
        changes.closed.retain(|socket| wanted.contains(socket));
    }

    fn forget(&mut self, changes: &mut SocketChanges) {
        let gone = |known: &Known| known.seen != self.reading;
        changes.gone = self.known.iter().filter(|(_, known)| gone(known)).map(|(cookie, _)| *cookie).collect();
        for cookie in &changes.gone {
            self.known.remove(cookie);
        }
        self.owners.forget();
    }
}

/// CPU time of this thread, nanoseconds.
fn cpu_time() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}
