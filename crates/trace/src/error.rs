//! What can go wrong while tracing.

use std::io;
use std::path::PathBuf;

use crate::Backend;

/// Why tracing could not start, or could not go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// BPF needs root.
    #[error(
        "tracing needs root: run it with sudo, or as a user with CAP_BPF, CAP_NET_ADMIN, CAP_PERFMON and CAP_SYS_ADMIN"
    )]
    NeedsRoot,
    /// A value of [`crate::Config`] is out of range.
    #[error("{what} is {value}, but has to be between {least} and {most}")]
    OutOfRange {
        /// Which value.
        what: &'static str,
        /// What it is.
        value: u32,
        /// The least allowed.
        least: u32,
        /// The most allowed.
        most: u32,
    },
    /// The process does not exist, or ended.
    #[error("there is no process {pid}")]
    NoSuchProcess {
        /// Its number.
        pid: u32,
    },
    /// The cgroup is not there or not of version 2.
    #[error("{path} is not a folder of the cgroup v2 hierarchy: {source}", path = path.display())]
    Cgroup {
        /// As it was given.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// No cgroup v2 hierarchy is mounted.
    #[error(
        "no cgroup v2 hierarchy is mounted (none in /proc/mounts): mount one with `mount -t cgroup2 none /sys/fs/cgroup`"
    )]
    NoCgroupMount,
    /// A backend cannot be used on this kernel.
    #[error("the {backend} backend does not work on this kernel: {reason}")]
    Backend {
        /// Which.
        backend: Backend,
        /// What the kernel said.
        reason: String,
    },
    /// No backend can be used on this kernel.
    #[error(
        "no backend works on this kernel.\n  timestamping: {timestamping}\n  tracepoints: {tracepoints}\n`wirelapse doctor` tells more"
    )]
    NoBackend {
        /// Why not BPF timestamping.
        timestamping: String,
        /// Why not tracepoints.
        tracepoints: String,
    },
    /// This kernel does not run the programs of a probe.
    #[error("{what}: the programs do not load on this kernel: {reason}\n`wirelapse doctor` tells more")]
    Refused {
        /// Which probe.
        what: &'static str,
        /// What the kernel said.
        reason: String,
    },
    /// The receiving side cannot be observed on this kernel.
    #[error("received bytes cannot be followed on this kernel: {reason}; `wirelapse doctor` tells more")]
    Receive {
        /// What the kernel lacks, or what it said.
        reason: String,
    },
    /// Packets and datagrams cannot be observed on this kernel.
    #[error("packets cannot be followed on this kernel: {reason}; `wirelapse doctor` tells more")]
    Packets {
        /// What the kernel lacks, or what it said.
        reason: String,
    },
    /// The kernel refused a BPF operation.
    #[error("{what}: {source}")]
    Bpf {
        /// What was tried.
        what: &'static str,
        /// What came of it.
        source: libbpf_rs::Error,
    },
    /// A system call failed.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What came of it.
        source: io::Error,
    },
    /// A record of the kernel part could not be read.
    #[error("a record from the kernel cannot be read: {0}")]
    Decode(#[from] crate::DecodeError),
}

impl Error {
    pub(crate) fn bpf(what: &'static str) -> impl FnOnce(libbpf_rs::Error) -> Self {
        move |source| Self::Bpf { what, source }
    }

    pub(crate) fn system(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { what, source }
    }
}
