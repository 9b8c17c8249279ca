//! What keeps a twin from being built or run.

/// Why.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The lab.
    #[error(transparent)]
    Lab(#[from] lab::Error),
    /// The workload.
    #[error("the twin's connection: {0}")]
    Traffic(#[from] traffic::Error),
    /// The packets of a twin.
    #[error("the twin's packets cannot be captured: {0}")]
    Capture(String),
    /// What has to be set in a host of the twin.
    #[error("the twin's host {host} does not take {setting}: {why}")]
    Setting {
        /// Which host.
        host: &'static str,
        /// What is set.
        setting: String,
        /// What was answered.
        why: String,
    },
    /// Ctrl-C.
    #[error("interrupted before there was something to compare")]
    Interrupted,
}
