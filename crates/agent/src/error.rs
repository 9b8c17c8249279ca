//! What can go wrong before an agent is at work.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Why an agent cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The endpoint's address cannot be listened at.
    #[error("cannot listen at {address}: {why}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The kernel's reason.
        why: io::Error,
    },
    /// A file that the configuration names cannot be used.
    #[error("{}: {why}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// No certificates, or no credentials.
    #[error("{0}")]
    Lacks(String),
    /// The directory of the store.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// A thread cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
}
