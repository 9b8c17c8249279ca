//! Two hosts joined by a path of known delay, rate, loss and order, on one Linux machine.
//!
//! **Does:** makes two hosts, `a` and `b`, each a set of namespaces with an IPv4 and an IPv6
//! address, and a path between them: delay, jitter, rate as Ethernet charges it, loss independent
//! or in bursts, reordering, duplication, a queue that drops at its tail or marks ECN, an MTU; each
//! direction for itself, and changeable while it runs. Programs and closures run inside the hosts.
//! The path measures itself ([`PathReport`]).
//!
//! **Does not:** route to the outside (with [`Config::uplink`] its maker carries TCP connections
//! and DNS there), emulate a medium that is shared, or change anything outside its own namespaces.
//!
//! **Guarantees:** the same seed and the same frames in the same order meet the same fates. What
//! was asked for and what was achieved are both in the report, and every segment that came in is
//! delivered, under way, or counted in one of the drops. Labs have no names and share nothing, so
//! many run side by side in one process. Whatever is killed, and however, nothing stays:
//! namespaces, devices and sysctls are held by processes alone, and those die with their maker.
//!
//! ```no_run
//! use lab::{Config, Lab, Side};
//! use clock::Nanos;
//!
//! let lab = Lab::up(&Config::with_delay(Nanos::from_millis(25)))?;
//! let b = lab.host(Side::B).ipv4().to_string();
//! let ping = lab.host(Side::A).command("ping")?.args(["-c", "3", &b]).output();
//! println!("{:?}\n{:#?}", ping, lab.path().report());
//! # Ok::<(), lab::Error>(())
//! ```

mod anchor;
mod capacity;
mod config;
mod departures;
mod direction;
mod end;
mod enter;
mod error;
mod ethernet;
mod forward;
pub mod frame;
#[cfg(any(test, fuzzing))]
pub mod fuzzed;
mod host;
mod idle;
mod jitter;
pub mod line;
mod links;
pub mod mirror;
mod netem;
pub mod network;
mod overhead;
pub mod parse;
mod path;
pub mod queue;
mod random;
pub mod recorded;
pub mod registry;
mod report;
mod rights;
pub mod rootless;
pub mod schedule;
pub mod settings;
mod shaper;
mod shared;
mod sweeper;
mod tap;
mod testbed;
pub mod topology;
mod uplink;
pub mod user;

pub use capacity::Capacity;
pub use config::{Choice, Config};
pub use direction::{
    CodelSettings, DEFAULT_QUEUE_SEGMENTS, Depth, Direction, Discipline, FqCodelSettings, JitterShape, LONGEST, Loss,
    PieSettings, Reorder,
};
pub use end::Side;
pub use error::Error;
pub use ethernet::{BitRate, ETHERNET_OVERHEAD, SMALLEST_ON_WIRE};
pub use forward::{GATHER, MEMORY_BOUND};
pub use host::{Host, INTERFACE, program_pid};
pub use network::{HostReport, LinkReport, Network};
pub use recorded::{Recorded, Recording};
pub use report::{Achieved, BUSY_SEGMENTS, BUSY_TIME, DirectionReport, PathReport, Probes, StepReport};
pub use schedule::Schedule;
pub use settings::Change;
pub use testbed::{Device, Place};
pub use topology::Topology;

use std::sync::{Mutex, MutexGuard, PoisonError};

use anchor::Anchor;
use netem::Netem;
use path::{Backend, BuiltIn, Since};
use uplink::Uplink;

/// A running lab. Dropping it takes everything down, the programs in its hosts included, and waits
/// until it is gone.
#[derive(Debug)]
pub struct Lab {
    // Declared first, dropped first: the path's threads end before the namespaces do.
    path: Path,
    _uplink: Option<Uplink>,
    anchor: Anchor,
}

/// The path of a running lab.
#[derive(Debug)]
pub struct Path {
    backend: Mutex<Box<dyn Backend>>,
    reason: String,
    mtu: u32,
    seed: u64,
    since: Since,
}

impl Lab {
    /// Whether the processes that hold its namespaces are all alive.
    ///
    /// # Errors
    /// [`Error::Gone`] where one of them was killed.
    pub fn check(&self) -> Result<(), Error> {
        self.anchor.check()
    }

    /// Makes a lab and brings it up.
    ///
    /// # Errors
    /// [`Error::Value`] for a path that cannot be, [`Error::Privilege`] without root,
    /// [`Error::Backend`] where the asked-for backend cannot make it here, [`Error::System`] where
    /// the machine refuses a step.
    pub fn up(config: &Config) -> Result<Self, Error> {
        config.check()?;
        Self::with_chosen_path(config, || Anchor::start(&host::files(&Side::ALL.map(Side::name), config.uplink)))
    }

    /// With the backend that is asked for, or suits the path best, between the hosts that `start`
    /// gives.
    fn with_chosen_path(config: &Config, start: impl Fn() -> Result<Anchor, Error>) -> Result<Self, Error> {
        let (built_in, reason) = choose(config)?;
        match Self::with_path(config, built_in, reason, start()?) {
            // A kernel without tbf.
            Err(Error::Backend { reason, .. }) if chooses_kernel(config) => {
                Self::with_path(config, true, format!("the kernel's own path cannot be used: {reason}"), start()?)
            }
            made => made,
        }
    }

    fn with_path(config: &Config, built_in: bool, reason: String, anchor: Anchor) -> Result<Self, Error> {
        let hosts = Side::ALL.map(|side| Host { side, holder: &anchor.hosts[side as usize] });
        let backend: Box<dyn Backend> = if built_in {
            Box::new(BuiltIn::up(config, [hosts[0].end(), hosts[1].end()])?)
        } else {
            Box::new(Netem::up(config, hosts)?)
        };
        let path = Path::new(config, backend, reason);
        let uplink = uplink(&anchor, config.uplink)?;
        Ok(Self { path, _uplink: uplink, anchor })
    }

    /// One of the hosts.
    pub fn host(&self, side: Side) -> Host<'_> {
        Host { side, holder: &self.anchor.hosts[side as usize] }
    }

    /// The path between them.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// The uplinks of all hosts, where they are wanted.
fn uplink(anchor: &Anchor, wanted: bool) -> Result<Option<Uplink>, Error> {
    wanted.then(|| Uplink::start(&anchor.hosts)).transpose()
}

/// Whether the built-in backend makes the path, and why.
fn choose(config: &Config) -> Result<(bool, String), Error> {
    match (config.backend, tap::missing()) {
        (Choice::Netem, _) => Ok((false, "asked for".into())),
        (Choice::BuiltIn, None) => Ok((true, "asked for".into())),
        (Choice::BuiltIn, Some(reason)) => Err(Error::Backend { backend: "built-in", reason }),
        (Choice::Auto, None) if chooses_kernel(config) => {
            Ok((false, "the kernel's tbf carries such a rate with less CPU time".into()))
        }
        (Choice::Auto, None) => Ok((true, "it charges every segment, is seeded and measures itself".into())),
        (Choice::Auto, Some(reason)) => Ok((false, format!("the built-in backend cannot be used: {reason}"))),
    }
}

/// Whether the choice is the kernel's path although there could be a built-in one: of such a rate
/// that frames stay whole in both directions, and with nothing else to do.
fn chooses_kernel(config: &Config) -> bool {
    config.backend == Choice::Auto
        && tap::missing().is_none()
        && config.schedule.steps().is_empty()
        && config.recorded.iter().all(Option::is_none)
        && [&config.a_to_b, &config.b_to_a].into_iter().all(netem::passes_whole)
}

impl Path {
    fn new(config: &Config, backend: Box<dyn Backend>, reason: String) -> Self {
        let Config { mtu, seed, .. } = *config;
        Self { backend: Mutex::new(backend), reason, mtu, seed, since: Since::now() }
    }

    fn backend(&self) -> MutexGuard<'_, Box<dyn Backend>> {
        self.backend.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was asked for and what was achieved so far.
    pub fn report(&self) -> PathReport {
        let backend = self.backend();
        PathReport {
            backend: backend.name().into(),
            reason: self.reason.clone(),
            mtu: self.mtu,
            seed: self.seed,
            up: self.since.elapsed(),
            a_to_b: backend.report(Side::A),
            b_to_a: backend.report(Side::B),
        }
    }

    /// Makes the direction from host `from` another while it runs, from the next frame on: what is
    /// under way arrives as it would have.
    ///
    /// # Errors
    /// [`Error::Value`] for a direction that cannot be.
    pub fn change(&self, from: Side, to: &Direction) -> Result<(), Error> {
        to.check(self.mtu)?;
        self.backend().change(from, to)
    }

    /// Changes what `changes` name of each direction, from the next frame on. Either both
    /// directions change or none.
    ///
    /// # Errors
    /// [`Error::Value`] for a direction that cannot be, [`Error::Backend`] where this backend
    /// cannot make it.
    pub fn apply(&self, changes: &[Change; 2]) -> Result<(), Error> {
        let mut backend = self.backend();
        let before = Side::ALL.map(|side| backend.report(side).asked);
        let mut to = Vec::with_capacity(2);
        for (change, before) in changes.iter().zip(&before) {
            let direction = change.applied(before)?;
            direction.check(self.mtu)?;
            to.push(direction);
        }
        let to_a_differs = to[0] != before[0];
        for (side, to) in Side::ALL.into_iter().zip(&to) {
            // One that stays as it is begins no step.
            if *to == before[side as usize] {
                continue;
            }
            if let Err(refused) = backend.change(side, to) {
                if side == Side::B && to_a_differs {
                    backend.change(Side::A, &before[0])?;
                }
                return Err(refused);
            }
        }
        Ok(())
    }
}
