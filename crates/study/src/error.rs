//! What can go wrong, in words that say what, where and what to do.

use std::path::PathBuf;

/// Why a study could not be planned, run or kept.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A plan says something that it cannot. Wrong use.
    #[error(transparent)]
    Plan(#[from] settings::Wrong),
    /// A setting that nothing can have. Wrong use.
    #[error("{0}")]
    Setting(String),
    /// A directory or file of results. Wrong use where it exists and is another study's.
    #[error("{}: {problem}", path.display())]
    Run {
        /// The file or directory.
        path: PathBuf,
        /// What is wrong with it, and what to do.
        problem: String,
    },
    /// A file of results cannot be read or written.
    #[error("{}: {source}{}", path.display(), if files::is_full(source) { ": free some space, or name another disk" } else { "" })]
    File {
        /// The file.
        path: PathBuf,
        /// The kernel's answer.
        source: std::io::Error,
    },
    /// The tables of a run.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// A sysctl of this host cannot be read or set.
    #[error("cannot set {name} of this host: {source}; it takes root, and a name and value that this kernel knows")]
    Sysctl {
        /// Its name.
        name: String,
        /// The kernel's answer.
        source: std::io::Error,
    },
    /// The server went away in the middle of a trial.
    #[error("{0}: start it again there, and go on with --resume where the study was kept")]
    Gone(String),
    /// The lab.
    #[error(transparent)]
    Lab(#[from] lab::Error),
    /// The workload.
    #[error(transparent)]
    Traffic(#[from] traffic::Error),
    /// The machine refused a step.
    #[error("cannot {step}: {source}")]
    System {
        /// What was being done.
        step: &'static str,
        /// The kernel's answer.
        source: std::io::Error,
    },
}

impl Error {
    /// Whether the caller asked for something wrong (exit status 2), rather than the machine
    /// failing (1).
    pub fn is_wrong_use(&self) -> bool {
        match self {
            Self::Plan(_) | Self::Setting(_) | Self::Run { .. } => true,
            Self::Lab(e) => e.is_wrong_use(),
            Self::Traffic(e) => e.is_wrong_use(),
            Self::File { .. } | Self::Store(_) | Self::System { .. } | Self::Sysctl { .. } | Self::Gone(_) => false,
        }
    }
}
