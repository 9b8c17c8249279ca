//! What a process has to be allowed before it can trace.

use rustix::thread::{CapabilitySet, capabilities};

use crate::Error;

/// What is needed: to load BPF programs that follow kernel pointers, to attach them to cgroups and
/// sockets, and to see the programs of others and enter the network namespaces of the target. (To
/// find the namespaces of other users' processes asks for `CAP_SYS_PTRACE` in addition.)
const NEEDED: [(CapabilitySet, &str); 4] = [
    (CapabilitySet::BPF, "CAP_BPF"),
    (CapabilitySet::PERFMON, "CAP_PERFMON"),
    (CapabilitySet::NET_ADMIN, "CAP_NET_ADMIN"),
    (CapabilitySet::SYS_ADMIN, "CAP_SYS_ADMIN"),
];

/// So many of them load and attach; the others reach into other programs.
const LEAST: usize = 3;

/// Whether this thread may trace.
///
/// # Errors
/// [`Error::NeedsRoot`] with the capabilities that it lacks.
pub(crate) fn check() -> Result<(), Error> {
    holds(&NEEDED)
}

/// The same, for [`crate::Config::least_rights`].
///
/// # Errors
/// As [`check`].
pub(crate) fn check_least() -> Result<(), Error> {
    holds(&NEEDED[..LEAST])
}

fn holds(needed: &[(CapabilitySet, &'static str)]) -> Result<(), Error> {
    // Where the kernel does not say, loading will.
    let Ok(has) = capabilities(None) else { return Ok(()) };
    let lacks: Vec<_> =
        needed.iter().filter(|(capability, _)| !has.effective.contains(*capability)).map(|(_, name)| *name).collect();
    if lacks.is_empty() { Ok(()) } else { Err(Error::NeedsRoot { lacks }) }
}
