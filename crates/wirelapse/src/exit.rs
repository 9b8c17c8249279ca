//! Exit status: 0 done, 1 failed while running, 2 wrong use or bad input.

use std::error::Error;
use std::io;
use std::process::{ExitCode, Termination};

use crate::output::{ReaderGone, complain};

/// Wrong use or bad input that a command found itself, in words that say what, where and what to
/// do.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct BadInput(pub String);

/// The exit status of a subcommand, after its error has been printed to standard error with its
/// causes.
pub fn code(result: anyhow::Result<impl Termination>) -> ExitCode {
    let error = match result {
        Ok(done) => return done.report(),
        Err(error) => error,
    };
    if is_closed_pipe(&error) {
        return ExitCode::SUCCESS;
    }
    complain!("{}", message(&error));
    if error.chain().any(is_wrong_use) { ExitCode::from(2) } else { ExitCode::FAILURE }
}

/// Whether the reader of standard output closed the pipe (`| head`): it has what it wanted. A pipe
/// to another process that breaks is an error.
pub fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let mut causes = error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>());
    causes.any(|cause| cause.get_ref().is_some_and(|inner| inner.is::<ReaderGone>()))
}

/// An error and its causes on one line. Many errors already say their cause, as a whole clause: it
/// is not repeated.
pub fn message(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !says(&text, &cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

/// Whether a text has these words between its own colons, or to its end.
fn says(text: &str, words: &str) -> bool {
    text.match_indices(words).any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + words.len()..]);
        let begins = before.is_empty() || before.ends_with(": ");
        begins && (after.is_empty() || [":", ";", ",", " (", "."].iter().any(|end| after.starts_with(end)))
    })
}

/// Whether an error is the caller's: the one place that says so of the errors of all libraries.
fn is_wrong_use(cause: &(dyn Error + 'static)) -> bool {
    if cause.is::<BadInput>() || cause.is::<quantity::Wrong>() {
        return true;
    }
    if cause.is::<settings::Wrong>() || cause.is::<::agent::Error>() {
        return true;
    }
    if let Some(error) = cause.downcast_ref::<lab::Error>() {
        return error.is_wrong_use();
    }
    if let Some(error) = cause.downcast_ref::<traffic::Error>() {
        return error.is_wrong_use();
    }
    if let Some(error) = cause.downcast_ref::<::capture::Error>() {
        return error.is_wrong_use();
    }
    if let Some(error) = cause.downcast_ref::<::files::Error>() {
        return error.is_wrong_use();
    }
    if let Some(error) = cause.downcast_ref::<::capture::output::OutputError>() {
        return matches!(error, ::capture::output::OutputError::Open(error) if error.is_wrong_use());
    }
    if let Some(error) = cause.downcast_ref::<::capture::generate::GenerateError>() {
        use ::capture::generate::GenerateError::{Interface, Shape};
        return match error {
            Shape(_) => true,
            Interface(error) => error.is_wrong_use(),
        };
    }
    if let Some(error) = cause.downcast_ref::<study::Error>() {
        return error.is_wrong_use();
    }
    if let Some(error) = cause.downcast_ref::<timestamping::Error>() {
        use timestamping::Error::{NoInterface, NotByInterface};
        return matches!(error, NoInterface { .. } | NotByInterface { .. });
    }
    if let Some(error) = cause.downcast_ref::<trace::Error>() {
        use trace::Error::{Cgroup, NeedsRoot, NoSuchProcess, NothingNamed, OutOfRange};
        return matches!(
            error,
            NeedsRoot { .. } | NoSuchProcess { .. } | NothingNamed { .. } | Cgroup { .. } | OutOfRange { .. }
        );
    }
    if let Some(error) = cause.downcast_ref::<store::Error>() {
        // What cannot be read is the input; what cannot be written while a run goes on is not, and
        // a disk that is full neither.
        return match error {
            store::Error::Write { .. } | store::Error::Keep { .. } => false,
            store::Error::Create { why, .. } => !::files::is_full(why),
            _ => true,
        };
    }
    false
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;

    use super::*;

    fn wrong(error: impl Into<anyhow::Error>) -> bool {
        error.into().chain().any(is_wrong_use)
    }

    #[test]
    fn errors_of_every_library_have_their_status() {
        let refused = || io::Error::from(io::ErrorKind::PermissionDenied);
        assert!(wrong(BadInput("x".into())));
        assert!(wrong(quantity::parse::bytes("x").unwrap_err()));
        assert!(wrong(store::Error::NotARun("x".into())));
        assert!(!wrong(store::Error::Keep { path: "x".into(), why: refused() }));
        let full = || io::Error::from(io::ErrorKind::StorageFull);
        assert!(wrong(store::Error::Create { path: "x".into(), why: refused() }));
        assert!(!wrong(store::Error::Create { path: "x".into(), why: full() }));
        assert!(!wrong(::files::Error::Open { path: "x".into(), why: full() }));
        assert!(wrong(trace::Error::NoSuchProcess { pid: 1 }));
        assert!(!wrong(trace::Error::NoCgroupMount));
        assert!(wrong(study::Error::Setting("x".into())));
        assert!(!wrong(study::Error::Gone("x".into())));
        assert!(!wrong(refused()));
        let deep = Err::<(), _>(BadInput("x".into())).context("while reading").unwrap_err();
        assert!(wrong(deep));
    }

    #[test]
    fn a_cause_that_is_already_said_is_not_repeated() {
        let inner = io::Error::from(io::ErrorKind::NotFound);
        let error = anyhow::Error::new(inner).context("cannot open x: entity not found").context("no run");
        assert_eq!(message(&error), "no run: cannot open x: entity not found");
        let tail = anyhow::anyhow!("disk full").context("cannot write x: disk full; 3 rows are there");
        assert_eq!(message(&tail), "cannot write x: disk full; 3 rows are there");
        // A cause whose words stand elsewhere by chance is a cause all the same.
        let chance = anyhow::anyhow!("line 1").context("cannot read line 17 of x");
        assert_eq!(message(&chance), "cannot read line 17 of x: line 1");
    }

    #[test]
    fn only_the_reader_of_standard_output_ends_a_command_quietly() {
        let broken = || io::Error::from(io::ErrorKind::BrokenPipe);
        let gone = io::Error::new(io::ErrorKind::BrokenPipe, ReaderGone);
        assert!(is_closed_pipe(&anyhow::Error::new(gone).context("while writing")));
        assert!(!is_closed_pipe(&anyhow::Error::new(broken()).context("the keeper cannot be asked")));
    }
}
