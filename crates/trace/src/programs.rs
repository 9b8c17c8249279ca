//! The programs of a loaded object: which there are, what each is attached to, and whether it is.
//! Every probe, and every baseline that its cost is compared with, lives this way: loaded once,
//! attached and detached as often as asked for, gone with its descriptors.

use std::fs::File;
use std::os::fd::{AsFd as _, AsRawFd as _};

use libbpf_rs::{Link, Object, OpenObject};
use record::Nanos;

use crate::refusal::{self, Refusal};
use crate::{Error, object};

/// What a program is attached to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum At {
    /// What its section names.
    Section,
    /// The root of the cgroup hierarchy.
    Cgroup,
    /// Nothing: it is an iterator over sockets, opened for each pass ([`Programs::iterators`]).
    Passes,
    /// Nothing: it is an iterator over the files that processes hold open, read to learn the owners
    /// of sockets.
    Files,
}

/// A program by its name, and what it is attached to.
pub(crate) type Planned = (&'static str, At);

/// The programs of a loaded object.
#[derive(Debug)]
pub(crate) struct Programs {
    // Links go first: nothing runs any more when the maps go.
    links: Vec<Link>,
    plan: Vec<Planned>,
    cgroups: Vec<File>,
    object: Object,
}

impl Programs {
    /// Loads the planned programs of an object and no others. They are attached in the order of the
    /// plan.
    pub fn load(mut object: OpenObject, plan: Vec<Planned>, cgroups: &[File]) -> Result<Self, LoadError> {
        for mut program in object.progs_mut() {
            let planned = plan.iter().any(|&(name, _)| program.name() == name);
            program.set_autoload(planned);
        }
        let cgroups: Result<_, _> = cgroups.iter().map(File::try_clone).collect();
        let cgroups = cgroups.map_err(Error::system("cannot hold the cgroup"))?;
        Ok(Self { links: Vec::new(), plan, cgroups, object: refusal::load(object)? })
    }

    /// Attaches all of them, but for iterators.
    pub fn attach(&mut self) -> Result<(), Error> {
        for &(name, at) in &self.plan {
            let program = object::program(&self.object, name)?;
            let links = match at {
                At::Section => program.attach().map(|link| vec![link]),
                At::Cgroup => self.cgroups.iter().map(|cgroup| program.attach_cgroup(cgroup.as_raw_fd())).collect(),
                At::Passes | At::Files => continue,
            };
            self.links.extend(links.map_err(Error::bpf(name))?);
        }
        Ok(())
    }

    /// Detaches all of them; what the maps hold stays to be read.
    pub fn detach(&mut self) {
        self.links.clear();
    }

    /// Whether they are attached.
    pub fn attached(&self) -> bool {
        !self.links.is_empty()
    }

    /// The iterators among them that are for [`At::Passes`], or for [`At::Files`].
    pub fn iterators(&self, of: At) -> Result<Vec<Link>, Error> {
        let names = self.plan.iter().filter(|(_, at)| *at == of);
        names.map(|&(name, _)| object::program(&self.object, name)?.attach().map_err(Error::bpf(name))).collect()
    }

    /// Whether a program of this name is among them.
    pub fn has(&self, name: &str) -> bool {
        self.plan.iter().any(|(each, _)| *each == name)
    }

    /// Recursion misses of those that are attached to tracepoints and functions: the kernel does
    /// not start a program on a CPU where that program is running already, interrupted or
    /// preempted. By the process's own descriptors, which takes no right.
    pub fn recursion_misses(&self) -> u64 {
        let names = self.plan.iter().filter(|(_, at)| *at == At::Section);
        names.filter_map(|&(name, _)| self.counted(name, "recursion_misses:\t")).sum()
    }

    /// How long all of them have run while the kernel counted that, likewise.
    pub fn ran(&self) -> Nanos {
        Nanos(self.plan.iter().filter_map(|&(name, _)| self.counted(name, "run_time_ns:\t")).sum())
    }

    /// A figure that the kernel counts of a program.
    fn counted(&self, name: &'static str, figure: &str) -> Option<u64> {
        let fd = object::program(&self.object, name).ok()?.as_fd().as_raw_fd();
        let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{fd}")).ok()?;
        text.lines().find_map(|line| line.strip_prefix(figure)?.parse().ok())
    }

    /// The object that holds their maps.
    pub fn object(&self) -> &Object {
        &self.object
    }
}

/// Why programs did not load.
#[derive(Debug)]
pub(crate) enum LoadError {
    /// The kernel does not take them: there may be others that do the same.
    Refused(Refusal),
    /// Something else went wrong.
    Failed(Error),
}

impl From<Refusal> for LoadError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<Error> for LoadError {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl LoadError {
    /// As the error of the probe with this name.
    pub fn of(self, what: &'static str) -> Error {
        match self {
            Self::Refused(why) => Error::Refused { what, why },
            Self::Failed(error) => error,
        }
    }
}
