//! What can go wrong while tracing.

use std::io;
use std::path::PathBuf;

use machine::who::RuleKind;

use crate::Refusal;

/// Why tracing could not start, or could not go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The caller lacks privileges.
    #[error(
        "tracing needs root: run it with sudo, or as a user with CAP_BPF, CAP_NET_ADMIN, CAP_PERFMON and CAP_SYS_ADMIN (missing: {})",
        lacks.join(", ")
    )]
    NeedsRoot {
        /// The capabilities that it lacks.
        lacks: Vec<&'static str>,
    },
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
    /// A rule of the target names no cgroup that is there.
    #[error("{}", nothing_named(*kind, name))]
    NothingNamed {
        /// Which kind of rule it is.
        kind: RuleKind,
        /// What it names.
        name: String,
    },
    /// No cgroup v2 hierarchy is mounted.
    #[error(
        "no cgroup v2 hierarchy is mounted (none in /proc/mounts): mount one with `mount -t cgroup2 none /sys/fs/cgroup`"
    )]
    NoCgroupMount,
    /// This kernel does not take the programs of a probe.
    #[error("{what}: the programs do not load on this kernel: {why}\n`wirelapse doctor` says more")]
    Refused {
        /// Which probe: its name.
        what: &'static str,
        /// Why.
        why: Refusal,
    },
    /// No backend can be used on this kernel.
    #[error(
        "no backend works on this kernel.\n  timestamping: {timestamping}\n  tracepoints: {tracepoints}\n`wirelapse doctor` says more"
    )]
    NoBackend {
        /// Why not BPF timestamping.
        timestamping: Refusal,
        /// Why not tracepoints.
        tracepoints: Refusal,
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
    /// The process that keeps the rights of the trace gave no reply.
    #[error("{what}: {source}")]
    Keeper {
        /// What was tried.
        what: &'static str,
        /// What came of it.
        source: machine::keeper::Error,
    },
    /// A record of the kernel part could not be read.
    #[error("a record from the kernel cannot be read: {0}")]
    Decode(#[from] crate::DecodeError),
}

/// That nothing is named so, and where names are listed.
fn nothing_named(kind: RuleKind, name: &str) -> String {
    match kind {
        RuleKind::Unit => format!("no unit {name} runs here: `systemctl list-units` lists those that do"),
        RuleKind::Container => format!(
            "no container or pod {name} runs here: name one as `docker ps`, `podman ps` or `crictl ps` lists it, or by the \
             first 8 digits of its id or more"
        ),
        RuleKind::Cgroup => format!("there is no cgroup {name} in the cgroup v2 hierarchy: `systemd-cgls` shows it"),
    }
}

impl Error {
    /// Why, without the sentence that names what does not work.
    pub(crate) fn reason(self) -> String {
        match self {
            Self::Refused { why, .. } => why.to_string(),
            other => other.to_string(),
        }
    }

    pub(crate) fn bpf(what: &'static str) -> impl FnOnce(libbpf_rs::Error) -> Self {
        move |source| Self::Bpf { what, source }
    }

    pub(crate) fn keeper(what: &'static str) -> impl FnOnce(machine::keeper::Error) -> Self {
        move |source| Self::Keeper { what, source }
    }

    pub(crate) fn system(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { what, source }
    }
}

/// `value`, where it lies between `least` and `most`.
pub(crate) fn within(what: &'static str, value: u32, least: u32, most: u32) -> Result<u32, Error> {
    if (least..=most).contains(&value) { Ok(value) } else { Err(Error::OutOfRange { what, value, least, most }) }
}
