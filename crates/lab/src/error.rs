//! What can go wrong, in words that say what, where and what to do.

use std::io;

/// Why a lab could not be made, used or changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A value that no path can have. Wrong use.
    #[error("{what} {value:?}: {problem}")]
    Value {
        /// Which setting: `delay`, `mtu`, ….
        what: &'static str,
        /// What was given.
        value: String,
        /// What is wrong with it, and what would be right.
        problem: String,
    },
    /// The caller may not make namespaces. Wrong use.
    #[error(
        "a lab needs CAP_SYS_ADMIN and CAP_NET_ADMIN, or a user namespace in which it has them: run it as root, or with sudo"
    )]
    Privilege,
    /// The caller is not root and may not make a user namespace either. Wrong use.
    #[error(
        "a lab of a user who is not root needs a user namespace, which this machine refuses ({source}): run it with sudo, or have user namespaces \
         allowed (sysctl kernel.unprivileged_userns_clone=1, kernel.apparmor_restrict_unprivileged_userns=0, user.max_user_namespaces)"
    )]
    NoUserNamespace {
        /// What the kernel said.
        source: io::Error,
    },
    /// The asked-for backend cannot be used here. Wrong use where it was forced.
    #[error("the {backend} backend cannot make this path: {reason}")]
    Backend {
        /// `built-in` or `netem`.
        backend: &'static str,
        /// Why, and what to do instead.
        reason: String,
    },
    /// A name that is no lab's, or already another's. Wrong use.
    #[error("lab {name:?}: {problem}")]
    Name {
        /// The name.
        name: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A schedule or a recorded link that cannot be followed. Wrong use.
    #[error("{file}:{line}: {problem}")]
    File {
        /// Its name.
        file: String,
        /// Where, from 1.
        line: usize,
        /// What is wrong there, and what would be right.
        problem: String,
    },
    /// A topology that cannot be. Wrong use.
    #[error(transparent)]
    Topology(#[from] settings::Wrong),
    /// A running lab refuses a change. Wrong use.
    #[error("lab {name:?} stays as it is: {reason}")]
    Refused {
        /// Its name.
        name: String,
        /// Why.
        reason: String,
    },
    /// The machine refused a step.
    #[error("cannot {step}: {source}")]
    System {
        /// What was being done.
        step: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// The lab is no more: a process that holds its namespaces was killed from outside.
    #[error("the lab is gone: a process that holds its namespaces was killed from outside")]
    Gone,
}

impl Error {
    pub(crate) fn system(step: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let step = step.into();
        move |source| Self::System { step, source }
    }

    /// Whether the caller asked for something wrong (exit status 2), rather than the machine
    /// failing (1).
    pub fn is_wrong_use(&self) -> bool {
        use Error::{Backend, File, Name, NoUserNamespace, Privilege, Refused, Topology, Value};
        matches!(
            self,
            Value { .. }
                | Privilege
                | Backend { .. }
                | Name { .. }
                | Refused { .. }
                | File { .. }
                | Topology(_)
                | NoUserNamespace { .. }
        )
    }
}
