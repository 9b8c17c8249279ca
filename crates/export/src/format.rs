//! Formats of a trace in a separate file, beside its run.

use std::io::{self, Write};
use std::path::Path;

use record::{Provenance, Sink};

/// A format: `wirelapse trace` takes a file for each of them.
pub trait Format: Sync {
    /// The name of its option, without dashes.
    fn option(&self) -> &'static str;

    /// What the option does, for its help.
    fn help(&self) -> &'static str;

    /// Its name before "file" and "trace".
    fn name(&self) -> &'static str;

    /// Begins a trace of this format in `out`, which is `file`.
    ///
    /// # Errors
    /// What `out` says.
    fn begin(&self, out: Box<dyn Write>, run: &Provenance, file: &Path) -> io::Result<Box<dyn Sink>>;
}

/// All of them. A further one is its file in this crate and its line here.
pub static FORMATS: [&dyn Format; 1] = [&crate::perfetto::InFile];
