//! What the cost of tracing is compared with: programs that observe nothing, each the least of its
//! kind.
//!
//! They are attached for a measurement of cost and for nothing else; `study overhead` is built on
//! them.

use crate::layout::{CHANGE_ARM, CHANGE_DISARM, CHANGE_NOTHING, RawTask};
use crate::object::{self, compiled_for_today};
use crate::programs::{At, Programs};
use crate::{Error, cgroup, refusal, walk};

/// A program that observes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Baseline {
    /// An armed socket; its callback returns immediately: what the kernel takes for itself before
    /// any tracer by timestamp callbacks has done anything.
    Floor,
    /// The same, and every send is tagged: what the kernel takes for itself where every send is to
    /// be timed, its callbacks for each stage of each packet included.
    Tagged,
    /// An empty program on the tracepoint that each send of the machine passes (Linux 6.16).
    Tracepoint,
    /// The same, reading the process, the addresses and the port, as a filter would.
    TracepointAddresses,
    /// An empty program at the entry of `tcp_sendmsg()`.
    Fentry,
    /// The same, reading the process, the addresses and the port.
    FentryAddresses,
}

impl Baseline {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Floor, Self::Tagged, Self::Tracepoint, Self::TracepointAddresses, Self::Fentry, Self::FentryAddresses];

    /// Whether it works by callbacks of armed sockets.
    const fn arms(self) -> bool {
        matches!(self, Self::Floor | Self::Tagged)
    }

    /// The program's name in `bpf/baselines.bpf.c`.
    const fn program(self) -> &'static str {
        match self {
            Self::Floor => "callback_floor",
            Self::Tagged => "callback_tagged",
            Self::Tracepoint => "tracepoint_empty",
            Self::TracepointAddresses => "tracepoint_addresses",
            Self::Fentry => "fentry_empty",
            Self::FentryAddresses => "fentry_addresses",
        }
    }
}

/// The callbacks that a socket is armed with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Callbacks {
    /// `bpf_sock_ops_cb_flags`: `BPF_SOCK_OPS_*_CB_FLAG`.
    pub operations: u8,
    /// `sk_bpf_cb_flags`: `SK_BPF_CB_*`; 1 is timestamps.
    pub socket: u8,
}

fn changed(programs: &Programs, port: u16, change: u32) -> Result<Vec<Callbacks>, Error> {
    let tasks = object::map(programs.object(), "tasks")?;
    object::write_only(&tasks, &RawTask { port: port.into(), change })?;
    let bytes = programs.iterators(At::Passes)?.first().map_or(Ok(Vec::new()), walk::through_own)?;
    Ok(bytes.chunks_exact(2).map(|pair| Callbacks { operations: pair[0], socket: pair[1] }).collect())
}

fn load(baseline: Option<Baseline>) -> Result<Programs, Error> {
    refusal::quiet();
    let mut plan = vec![("flags", At::Passes)];
    let cgroups = match baseline {
        Some(armed) if armed.arms() => {
            plan.push((armed.program(), At::Cgroup));
            vec![cgroup::root()?]
        }
        Some(other) => {
            plan.push((other.program(), At::Section));
            Vec::new()
        }
        None => Vec::new(),
    };
    let object = object::open(compiled_for_today!("baselines"), "wirelapse")?;
    let what = baseline.map_or("flags", Baseline::program);
    Programs::load(object, plan, &cgroups).map_err(|error| error.of(what))
}

/// The callbacks of each TCP connection of the caller's network namespace with this local or remote
/// port, in no order.
///
/// # Errors
/// [`Error::Refused`] where the kernel has no BPF timestamping; [`Error`] where it refuses
/// otherwise.
pub fn callbacks(port: u16) -> Result<Vec<Callbacks>, Error> {
    changed(&load(None)?, port, CHANGE_NOTHING)
}

/// A baseline, loaded; it costs nothing until it is attached.
pub struct Loaded {
    programs: Programs,
    baseline: Baseline,
    port: u16,
}

impl Loaded {
    /// Loads it. `port` is the local or remote port of the connections that [`Baseline::Floor`] and
    /// [`Baseline::Tagged`] arm, in the network namespace of whoever attaches it.
    ///
    /// # Errors
    /// [`Error::Refused`] where this kernel does not load it, with the reason.
    pub fn load(baseline: Baseline, port: u16) -> Result<Self, Error> {
        Ok(Self { programs: load(Some(baseline))?, baseline, port })
    }

    /// Attaches it, and arms the connections where it is the floor.
    ///
    /// # Errors
    /// [`Error`] where the kernel refuses.
    pub fn attach(&mut self) -> Result<(), Error> {
        self.programs.attach()?;
        if self.baseline.arms() {
            changed(&self.programs, self.port, CHANGE_ARM)?;
        }
        Ok(())
    }

    /// Takes both back.
    ///
    /// # Errors
    /// [`Error`] where the kernel refuses.
    pub fn detach(&mut self) -> Result<(), Error> {
        let attached = self.programs.attached();
        self.programs.detach();
        if attached && self.baseline.arms() {
            changed(&self.programs, self.port, CHANGE_DISARM)?;
        }
        Ok(())
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        // Where the kernel refuses, the sockets stay armed without a reader: nothing more can be
        // done about it here.
        let _ = self.detach();
    }
}

impl std::fmt::Debug for Loaded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Loaded")
            .field("baseline", &self.baseline)
            .field("attached", &self.programs.attached())
            .finish_non_exhaustive()
    }
}
