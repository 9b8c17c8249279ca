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
    #[error("a lab needs root (CAP_SYS_ADMIN and CAP_NET_ADMIN): run it as root, or with sudo")]
    Privilege,
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
    /// The machine refused a step.
    #[error("cannot {step}: {source}")]
    System {
        /// What was being done.
        step: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// The lab is no more: its anchor process was killed from outside.
    #[error("the lab is gone: its anchor process was killed from outside")]
    Gone,
}

impl Error {
    pub(crate) fn system(step: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let step = step.into();
        move |source| Self::System { step, source }
    }

    pub(crate) fn last(step: impl Into<String>) -> Self {
        Self::System { step: step.into(), source: io::Error::last_os_error() }
    }

    /// Whether the caller asked for something wrong (exit status 2), rather than the machine failing (1).
    pub fn is_wrong_use(&self) -> bool {
        matches!(self, Self::Value { .. } | Self::Privilege | Self::Backend { .. } | Self::Name { .. })
    }
}
