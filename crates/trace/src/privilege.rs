//! What a process has to be allowed before it can trace.

use rustix::thread::{CapabilitySet, capabilities};

use crate::Error;

/// What is needed: to load BPF programs that follow kernel pointers, to attach them to cgroups and sockets, and to see the programs of others
/// and enter the network namespaces of the target. (Processes of other users ask for `CAP_SYS_PTRACE` in addition.)
const NEEDED: [(CapabilitySet, &str); 4] = [
    (CapabilitySet::BPF, "CAP_BPF"),
    (CapabilitySet::PERFMON, "CAP_PERFMON"),
    (CapabilitySet::NET_ADMIN, "CAP_NET_ADMIN"),
    (CapabilitySet::SYS_ADMIN, "CAP_SYS_ADMIN"),
];

/// Whether this thread may trace.
///
/// # Errors
/// [`Error::NeedsRoot`] with the capabilities that it lacks.
pub(crate) fn check() -> Result<(), Error> {
    // Where the kernel does not say, loading will.
    let Ok(has) = capabilities(None) else { return Ok(()) };
    let lacks: Vec<_> = NEEDED
        .into_iter()
        .filter(|(capability, _)| !has.effective.contains(*capability))
        .map(|(_, name)| name)
        .collect();
    if lacks.is_empty() { Ok(()) } else { Err(Error::NeedsRoot { lacks }) }
}
