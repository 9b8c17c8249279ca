//! What this program says on standard output and standard error. Nothing else of it writes there
//! but the rows of an answer ([`crate::output`]) and the prompt (`check/terminal`).

use std::borrow::Cow;
use std::io::{self, IsTerminal as _, Write as _};
use std::time::Duration;

use indicatif::ProgressBar;
use paper::harmless;

/// Columns where standard output is no terminal.
const WIDTH: usize = 100;

/// Text on standard output.
///
/// # Errors
/// Where it cannot be written.
pub fn say(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(harmless::text(text).as_bytes())?;
    out.flush()
}

/// A line on standard error for the person.
pub fn note(text: &str) {
    eprintln!("{}", harmless::text(text));
}

/// A line on standard error about what went wrong.
pub fn complain(text: &str) {
    note(&format!("wirelapse-query: {text}"));
}

/// Whether a text steers a terminal.
pub fn steers(text: &str) -> bool {
    matches!(harmless::text(text), Cow::Owned(_))
}

/// Whether a person reads standard output.
pub fn is_read() -> bool {
    io::stdout().is_terminal()
}

/// Columns of the terminal that standard output is.
pub fn width() -> usize {
    let columns = rustix::termios::tcgetwinsize(io::stdout()).ok().map(|size| usize::from(size.ws_col));
    columns.filter(|columns| *columns > 0).unwrap_or(WIDTH)
}

/// A sign of life on a terminal.
pub struct Busy(ProgressBar);

impl Busy {
    /// Moves, with these words, where a person reads standard error and it is `shown`.
    pub fn new(what: &'static str, shown: bool) -> Self {
        if !shown || !io::stderr().is_terminal() {
            return Self(ProgressBar::hidden());
        }
        let bar = ProgressBar::new_spinner();
        bar.set_message(what);
        bar.enable_steady_tick(Duration::from_millis(120));
        Self(bar)
    }

    /// Says how far it is.
    pub fn say(&self, text: &str) {
        self.0.set_message(harmless::text(text).into_owned());
    }

    /// Whether it is on the terminal.
    pub fn is_shown(&self) -> bool {
        !self.0.is_finished() && !self.0.is_hidden()
    }

    /// Takes it off.
    pub fn finish(&self) {
        self.0.finish_and_clear();
    }
}
