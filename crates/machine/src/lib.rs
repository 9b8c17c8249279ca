//! What this machine can do for measuring its network: each capability tried, not guessed from a
//! version number.
//!
//! **Does:** tries what can be tried and gives, for each capability, whether it is there, what it
//! is for, and where it is missing the reason and what Wirelapse does instead. Reads the settings
//! that shape TCP.
//!
//! **Does not:** load BPF programs (the `trace` crate tries its own), change a setting, or need
//! root: what only root may try is said to need root.
//!
//! **Guarantees:** nothing stays behind. Devices and queues are tried in a network namespace that
//! belongs to one thread and ends with it. Trying a kind of queue or device can make the kernel
//! load the module that serves it, as using it would.

mod btf;
mod caller;
pub mod device;
pub mod forked;
#[cfg(any(test, fuzzing))]
pub mod fuzzed;
mod interfaces;
pub mod keeper;
mod kernel;
pub mod locked;
pub mod mapping;
mod names;
pub mod netlink;
pub mod option;
mod pressure;
mod privileges;
pub mod programs;
mod proposed;
mod scratch;
mod settings;
mod sockets;
pub mod who;

use std::fmt;
use std::io;

use rustix::thread::UnshareFlags;

pub use caller::Caller;
pub use interfaces::{Interface, Stamps, interfaces};
pub use kernel::BTF;
pub use names::Names;
pub use pressure::CpuPressure;
pub use privileges::{ROOT, landlock_level};
pub use scratch::{NAMESPACES, NETEM, TUN, capabilities as lab};
pub use settings::{Setting, settings};

/// Whether a capability can be used by this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It was tried and works; the text says what more is known of it, or is empty.
    Available(String),
    /// It is not to be had, and why.
    Missing(String),
    /// Only root may use or try it.
    NeedsRoot,
}

impl State {
    /// The word used in machine-readable output.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Available(_) => "available",
            Self::Missing(_) => "missing",
            Self::NeedsRoot => "needs_root",
        }
    }

    /// From the outcome of trying: a refusal for lack of privilege is [`State::NeedsRoot`], unless
    /// root was refused.
    fn tried(outcome: io::Result<String>, privileged: bool) -> Self {
        match outcome {
            Ok(detail) => Self::Available(detail),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied && !privileged => Self::NeedsRoot,
            Err(error) => Self::Missing(error.to_string()),
        }
    }
}

/// What a capability belongs to; output is grouped by it, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// What this process may do.
    Privileges,
    /// What the kernel reports and allows to be attached.
    Kernel,
    /// BPF program types and features.
    Bpf,
    /// Tracepoints that stages come from where BPF timestamping cannot give them.
    Tracepoints,
    /// Callbacks of BPF timestamping: those that kernels have, and those that are proposed.
    Callbacks,
    /// Sockets and their timestamps.
    Sockets,
    /// What labs are made of.
    Lab,
    /// Timestamping of each network interface, and its clocks.
    Interfaces,
}

impl Group {
    /// All groups, in order.
    pub const ALL: [Self; 8] = [
        Self::Privileges,
        Self::Kernel,
        Self::Bpf,
        Self::Tracepoints,
        Self::Callbacks,
        Self::Sockets,
        Self::Lab,
        Self::Interfaces,
    ];

    /// The word used in machine-readable output.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Privileges => "privileges",
            Self::Kernel => "kernel",
            Self::Bpf => "bpf",
            Self::Tracepoints => "tracepoints",
            Self::Callbacks => "callbacks",
            Self::Sockets => "sockets",
            Self::Lab => "lab",
            Self::Interfaces => "interfaces",
        }
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Privileges => "Privileges",
            Self::Kernel => "Kernel",
            Self::Bpf => "BPF programs",
            Self::Tracepoints => "Tracepoints",
            Self::Callbacks => "Callbacks of the kernel, and what is proposed",
            Self::Sockets => "Sockets and their timestamps",
            Self::Lab => "Lab",
            Self::Interfaces => "Interfaces and clocks",
        })
    }
}

/// One thing that Wirelapse can use where the machine has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capability {
    /// What it belongs to.
    pub group: Group,
    /// Its name: unique within a report, stable between versions.
    pub name: String,
    /// Where it is one of many interfaces alike: which, and which of its timestamps.
    pub of: Option<(String, Stamps)>,
    /// Whether it is there.
    pub state: State,
    /// What Wirelapse uses it for.
    pub purpose: String,
    /// What Wirelapse does without it.
    pub instead: String,
}

impl Capability {
    /// A capability with its texts.
    pub fn new(group: Group, name: impl Into<String>, state: State, purpose: &str, instead: &str) -> Self {
        Self { group, name: name.into(), of: None, state, purpose: purpose.into(), instead: instead.into() }
    }
}

/// Whether this process has the effective user id 0.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Puts the calling thread, and those that it starts from then on, into a new network namespace. It
/// ends with the last of them.
///
/// # Errors
/// The kernel's: it takes `CAP_SYS_ADMIN`.
pub fn enter_new_network() -> io::Result<()> {
    // SAFETY: the table of descriptors stays shared: only the network namespace changes.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) }?;
    Ok(())
}

/// Tries everything but BPF programs. Takes a fraction of a second; what cannot be tried is a
/// state, never an error.
pub fn capabilities() -> Vec<Capability> {
    let mut all = privileges::capabilities();
    let btf = btf::Btf::of_this_kernel();
    all.extend(kernel::capabilities(&btf));
    all.extend(proposed::capabilities(btf.as_ref().ok()));
    all.extend(sockets::capabilities());
    all.extend(scratch::capabilities());
    all.extend(interfaces::capabilities());
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_distinguished_from_absence() {
        let refused = || Err(io::Error::from_raw_os_error(libc::EPERM));
        assert_eq!(State::tried(refused(), false), State::NeedsRoot);
        assert!(matches!(State::tried(refused(), true), State::Missing(_)));
        let absent = Err(io::Error::from_raw_os_error(libc::EAFNOSUPPORT));
        assert!(matches!(State::tried(absent, false), State::Missing(_)));
    }

    #[test]
    fn names_are_unique_and_every_capability_says_what_it_is_for() {
        let all = capabilities();
        let mut names: Vec<_> = all.iter().map(|c| c.name.as_str()).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        for capability in &all {
            assert!(!capability.purpose.is_empty() && !capability.instead.is_empty(), "{capability:?}");
        }
    }
}
