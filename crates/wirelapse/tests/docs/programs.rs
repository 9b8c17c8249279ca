//! Programs of this repository and of others, run.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Where something of the repository is.
pub fn at(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// What a program writes, which has to succeed.
pub fn done(command: &mut Command) -> String {
    let done = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let (said, errors) = (tier::text(&done.stdout), tier::text(&done.stderr));
    assert!(done.status.success(), "{command:?}: {said}{errors}");
    said
}
