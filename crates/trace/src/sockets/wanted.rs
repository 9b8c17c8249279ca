//! Which sockets are of a target: what its criteria mean for a socket that is only read.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use machine::who::{Hierarchy, Rules, mount};
use record::socket::Socket;

use crate::{Error, Target, process};

/// A target as sockets are compared with it.
#[derive(Debug)]
pub(super) struct Wanted {
    target: Target,
    /// The processes of the target and those that they started.
    family: HashSet<u32>,
    /// The rules by which cgroups are wanted, where there are any.
    cgroups: Option<(Hierarchy, Rules)>,
    /// Whether the cgroup with this id is wanted.
    fitting: HashMap<u64, bool>,
}

impl Wanted {
    /// # Errors
    /// [`Error`] where a cgroup that is named is in no hierarchy.
    pub(super) fn new(target: Target) -> Result<Self, Error> {
        let mut cgroups = None;
        if target.by_cgroup()
            && let Some(mount) = mount()
        {
            let root = target.root.clone();
            let rules = Rules::new(target.rules()?, root.as_deref().unwrap_or(Path::new("/")));
            cgroups = Some((Hierarchy::new(&mount), rules));
        }
        Ok(Self { target, family: HashSet::new(), cgroups, fitting: HashMap::new() })
    }

    /// Finds the processes that are of the target at this moment.
    pub(super) fn refresh(&mut self) {
        let names: Vec<[u8; 16]> = self.target.names().collect();
        let mut roots = self.target.pids.clone();
        if !names.is_empty() {
            roots.extend(process::all().into_iter().filter(|pid| names.contains(&process::comm(*pid))));
        }
        self.fitting.clear();
        self.family = roots.into_iter().flat_map(process::with_descendants).collect();
    }

    /// Whether it takes a socket's owner to say that it is wanted.
    pub(super) fn by_owner(&self) -> bool {
        self.target.by_process()
    }

    /// Whether a socket that is not wanted can come to be without any change of its own.
    pub(super) fn comes_late(&self, socket: &Socket) -> bool {
        self.by_owner() && socket.owner.is_none()
            || self.cgroups.as_ref().is_some_and(|(_, rules)| rules.names_come_late())
    }

    /// Whether a socket is of the target.
    pub(super) fn contains(&mut self, socket: &Socket) -> bool {
        self.target.matches_addresses(socket.local, socket.remote)
            && (!self.by_owner() || socket.owner.as_ref().is_some_and(|owner| self.family.contains(&owner.pid)))
            && (!self.target.by_cgroup() || socket.cgroup.is_some_and(|id| self.is_in_cgroup(id)))
    }

    fn is_in_cgroup(&mut self, id: u64) -> bool {
        let Some((hierarchy, rules)) = &mut self.cgroups else { return false };
        *self.fitting.entry(id).or_insert_with(|| {
            if hierarchy.path(id).is_none() {
                hierarchy.refresh();
            }
            let Some(path) = hierarchy.path(id) else { return false };
            let above = path.char_indices().filter(|(_, c)| *c == '/').map(|(at, _)| &path[..at]);
            above.chain([path]).any(|path| !rules.fitted_by(if path.is_empty() { "/" } else { path }).is_empty())
        })
    }
}
