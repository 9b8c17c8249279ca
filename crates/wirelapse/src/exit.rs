//! Exit status: 0 done, 1 failed while running, 2 wrong use or bad input.

use std::process::ExitCode;

/// Wrong use or bad input, in words that say what, where and what to do. Ends in exit status 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct BadInput(pub String);

/// The exit status of a subcommand, after its error has been printed to standard error with its causes.
pub fn code(result: anyhow::Result<()>) -> ExitCode {
    let Err(error) = result else { return ExitCode::SUCCESS };
    // A reader that closed the pipe (`| head`) has what it wanted.
    if error
        .chain()
        .filter_map(|e| e.downcast_ref::<std::io::Error>())
        .any(|e| e.kind() == std::io::ErrorKind::BrokenPipe)
    {
        return ExitCode::SUCCESS;
    }
    eprintln!("wirelapse: {error:#}");
    if error.chain().any(|e| e.is::<BadInput>()) { ExitCode::from(2) } else { ExitCode::FAILURE }
}
