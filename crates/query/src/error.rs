//! What goes wrong in a query.

use datafusion::error::DataFusionError;

/// An error, in words for the person who asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A place that cannot be used.
    #[error("{place}: {why}")]
    Place {
        /// As it was given.
        place: String,
        /// What is wrong with it, and what to do.
        why: String,
    },
    /// Nothing to ask.
    #[error(
        "no runs in {place}: a run is a directory with run.json, as `wirelapse trace -o`, `wirelapse agent` and others make it{}",
        problems(.left_out)
    )]
    NoRuns {
        /// As it was given.
        place: String,
        /// What was there and could not be read, each with its reason.
        left_out: Vec<(String, String)>,
    },
    /// SQL that means nothing here: what is wrong and where.
    #[error("{0}")]
    Query(String),
    /// A query that does not fit into the memory that it may use.
    #[error("{0}")]
    Memory(String),
    /// A wrong option.
    #[error("{0}")]
    Wrong(String),
    /// The file of the answer cannot be written.
    #[error(transparent)]
    Write(#[from] files::Error),
    /// Parts turned out to be damaged after rows of the answer had been written.
    #[error("the answer is not whole: {0}; ask again, and they are skipped from the beginning")]
    Damaged(String),
    /// The cluster failed.
    #[error("{0}")]
    Cluster(String),
    /// An executor of the cluster went away with something that it had worked out: the query can
    /// start again on the others.
    #[error("{0}")]
    ExecutorLost(String),
    /// It was interrupted.
    #[error("cancelled")]
    Cancelled,
    /// The engine failed.
    #[error(transparent)]
    Engine(#[from] DataFusionError),
    /// Standard output, or the file in its place.
    #[error("cannot write the answer: {0}")]
    Output(std::io::Error),
    /// The terminal.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

impl Error {
    /// As an error of the engine, within which it happened.
    pub fn within(self) -> DataFusionError {
        DataFusionError::External(Box::new(self))
    }

    /// Whether the reader of the answer closed the pipe (`| head`): it has what it wanted. A pipe
    /// to another process that breaks is an error.
    pub fn is_reader_gone(&self) -> bool {
        matches!(self, Self::Output(why) if why.kind() == std::io::ErrorKind::BrokenPipe)
    }

    /// Whether the caller can correct it: exit status 2.
    pub fn is_wrong_use(&self) -> bool {
        match self {
            Self::Place { .. } | Self::NoRuns { .. } | Self::Query(_) | Self::Wrong(_) => true,
            Self::Write(error) => error.is_wrong_use(),
            _ => false,
        }
    }
}

fn problems(left_out: &[(String, String)]) -> String {
    left_out.iter().take(3).map(|(what, why)| format!("; {what}: {why}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_reader_of_the_answer_ends_a_query_quietly() {
        let broken = || std::io::Error::from(std::io::ErrorKind::BrokenPipe);
        assert!(Error::Output(broken()).is_reader_gone());
        assert!(!Error::from(broken()).is_reader_gone());
        assert!(!Error::Output(std::io::ErrorKind::StorageFull.into()).is_reader_gone());
    }
}
