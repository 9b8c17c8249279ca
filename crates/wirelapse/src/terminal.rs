//! What standard output can show: its width, colour, and characters.

use std::io::{IsTerminal as _, stdout};
use std::sync::OnceLock;

use paper::Canvas;

/// `--color`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum When {
    /// On a terminal that has colours, unless NO_COLOR is set
    #[default]
    Auto,
    /// Into pipes and files too
    Always,
    /// Not at all
    Never,
}

/// What the options say of all output: set once, before a command begins.
static WANTED: OnceLock<(When, bool)> = OnceLock::new();

/// Takes `--color` and `--quiet`.
pub fn want(colour: When, quiet: bool) {
    let _ = WANTED.set((colour, quiet));
}

/// Whether only results and errors are shown.
pub fn quiet() -> bool {
    WANTED.get().is_some_and(|wanted| wanted.1)
}

/// Columns where standard output is no terminal, or does not say.
const WIDTH: usize = 100;

/// Whether a person reads standard output, rather than a pipe or a file.
pub fn is_terminal() -> bool {
    stdout().is_terminal()
}

/// What a report on standard output is drawn on.
pub fn canvas() -> Canvas {
    let width = size().map(|size| size.ws_col.into()).filter(|&columns| columns > 0);
    Canvas { width: width.unwrap_or(WIDTH), colour: colour(), unicode: unicode() }
}

/// The size of the terminal that standard output is, as the kernel has it. No program such as
/// `tput` is asked: PATH says which that would be, and a user's may be read as root.
fn size() -> Option<rustix::termios::Winsize> {
    rustix::termios::tcgetwinsize(stdout()).ok()
}

/// Rows of the terminal that standard output is; `None` where it is none.
pub fn rows() -> Option<usize> {
    size().map(|size| size.ws_row.into()).filter(|&rows| rows > 0)
}

/// Whether to colour: as `--color` says, else on a terminal that has colours, unless `NO_COLOR` is
/// set (<https://no-color.org>).
pub fn colour() -> bool {
    match WANTED.get().map_or(When::Auto, |wanted| wanted.0) {
        When::Always => return true,
        When::Never => return false,
        When::Auto => {}
    }
    let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    is_terminal() && !set("NO_COLOR") && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Whether the locale's characters are Unicode: the first of these variables that is set decides
/// (POSIX).
pub fn unicode() -> bool {
    let variables = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().filter_map(std::env::var_os);
    variables.into_iter().find(|value| !value.is_empty()).is_some_and(|value| {
        let value = value.to_string_lossy().to_lowercase();
        value.contains("utf-8") || value.contains("utf8")
    })
}
