//! What commands write to standard output: lines for people, and JSON lines for programs.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd as _;

use paper::document::Document;
/// Names of files, refusals of servers and words of other programs without what steers a terminal.
pub use paper::harmless::text as harmless;
use paper::harmless::{As, Harmless};

use crate::options::heading;
use crate::terminal;

/// How a report is drawn.
#[derive(Clone, Copy, Debug, clap::Args)]
#[command(next_help_heading = heading::OUTPUT)]
pub struct Shown {
    /// Show the whole report on a terminal, not only what fits on the screen
    #[arg(long)]
    pub full: bool,
    /// Write only the tables of the report, as comma-separated values
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
}

/// The reader of standard output has closed the pipe (`| head`): it has what it wanted.
#[derive(Debug, thiserror::Error)]
#[error("nobody reads standard output any more")]
pub struct ReaderGone;

/// Standard output, through which nothing passes that steers a terminal but the colours of reports.
/// A broken pipe of it is told from every other one: its error is [`ReaderGone`]. Every other error
/// of it says that it is its own.
pub struct Stdout<W>(Harmless<W>);

/// Standard output. Nothing else of this program writes to it, nor to standard error but the
/// functions below (`check/terminal`).
pub fn stdout() -> Stdout<io::Stdout> {
    Stdout(Harmless::new(io::stdout(), drawn_in()))
}

fn drawn_in() -> As {
    if terminal::colour() { As::Drawn } else { As::Text }
}

/// Standard output for bytes that are for a program, where no line for people is written to it.
///
/// # Errors
/// Where the descriptor cannot be duplicated.
pub fn stdout_of_bytes() -> io::Result<File> {
    Ok(io::stdout().as_fd().try_clone_to_owned()?.into())
}

/// Standard error.
pub fn stderr() -> Harmless<io::Stderr> {
    Harmless::new(io::stderr(), As::Text)
}

/// Standard error, for a program that is started.
pub fn stderr_of_a_program() -> std::process::Stdio {
    io::stderr().into()
}

impl Stdout<io::Stdout> {
    /// For many lines.
    pub fn lock(&self) -> Stdout<io::StdoutLock<'static>> {
        Stdout(Harmless::new(io::stdout().lock(), drawn_in()))
    }
}

impl<W: Write> Write for Stdout<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).map_err(told_apart)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().map_err(told_apart)
    }
}

fn told_apart(error: io::Error) -> io::Error {
    match error.kind() {
        kind @ io::ErrorKind::BrokenPipe => io::Error::new(kind, ReaderGone),
        kind => io::Error::new(kind, format!("cannot write to standard output: {error}")),
    }
}

/// One JSON object on a line.
pub fn json_line(value: &impl serde::Serialize) -> anyhow::Result<()> {
    let mut line = serde_json::to_string(value)?;
    line.push('\n');
    stdout().write_all(record::harmless_json(&line).as_bytes())?;
    Ok(())
}

/// An object of `kind`, with the keys of `value` after it.
pub fn json_event(kind: &str, value: &impl serde::Serialize) -> anyhow::Result<()> {
    let mut object = serde_json::Map::new();
    object.insert("kind".into(), kind.into());
    if let serde_json::Value::Object(rest) = serde_json::to_value(value)? {
        object.extend(rest);
    }
    json_line(&object)
}

/// A document on standard output.
pub fn document(document: &Document) -> anyhow::Result<()> {
    documents(std::slice::from_ref(document))
}

/// Documents on standard output, one after the other.
pub fn documents(documents: &[Document]) -> anyhow::Result<()> {
    let text = paper::terminal::text(&terminal::canvas(), documents);
    stdout().lock().write_all(text.as_bytes())?;
    Ok(())
}

/// Documents as they are written to standard output: tables alone with `--csv`; on a terminal that
/// is too small for the whole of it one screen, unless `--full`; else everything.
pub fn drawn(documents: &[Document], shown: Shown) -> String {
    if shown.csv {
        return paper::csv::text(documents);
    }
    match terminal::rows().filter(|_| !shown.full) {
        Some(rows) => paper::terminal::screen(&terminal::canvas(), documents, rows),
        None => paper::terminal::text(&terminal::canvas(), documents),
    }
}

/// Whether progress is shown: to a person, not to a pipe.
pub fn shows_progress(json: bool) -> bool {
    !json && terminal::is_terminal() && !terminal::quiet()
}

/// Prints a line for people, as `println!` does, in the characters that the terminal has, but ends
/// quietly where the reader has closed the pipe (`| head`): it has what it wanted, and the sockets
/// and threads of a workload end with the process.
macro_rules! say {
    ($($text:tt)*) => {
        $crate::output::print_line(format_args!($($text)*))
    };
}
pub(crate) use say;

/// What [`say!`] does with the finished text.
pub fn print_line(text: std::fmt::Arguments<'_>) {
    let text = paper::terminal::text(&terminal::canvas(), &[Document::lines(text.to_string())]);
    if let Err(error) = stdout().write_all(text.as_bytes()) {
        if error.kind() == io::ErrorKind::BrokenPipe {
            std::process::exit(0);
        }
        complain!("{error}");
        std::process::exit(1);
    }
}

/// Prints a line on what goes on to standard error, unless --quiet.
pub fn note(line: &str) {
    if !terminal::quiet() {
        eprintln!("{}", message(line));
    }
}

/// Asks the person at the terminal for an answer.
pub fn ask(question: &str) {
    eprint!("{}", message(question));
}

/// Prints a line about what went wrong to standard error.
macro_rules! complain {
    ($($text:tt)*) => {
        eprintln!("wirelapse: {}", $crate::output::message(&format!($($text)*)))
    };
}
pub(crate) use complain;

/// Panics in words of others steer no terminal either. Where there are none, the message is that of
/// the standard library.
pub fn tame_panics() {
    let plain = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let message = info.to_string();
        match harmless(&message) {
            Cow::Borrowed(_) => plain(info),
            Cow::Owned(message) => eprintln!("{message}"),
        }
    }));
}

/// The cells of a screen, in which what steers a terminal is replaced: what draws a screen has
/// written to no writer of this module.
pub fn harmless_cells(cells: &mut ratatui::buffer::Buffer) {
    for cell in &mut cells.content {
        if cell.symbol().contains(paper::steers) {
            cell.set_symbol("\u{fffd}");
        }
    }
}

/// A line of a log, in which line feeds are escaped: foreign words in it begin no line of their
/// own.
pub fn one_line(text: &str) -> String {
    harmless(text).replace('\n', "\\n")
}

/// A message of one line or more. Those after the first are indented, so that none that came with
/// foreign words can be taken for one of this program.
pub fn message(text: &str) -> String {
    harmless(text).replace('\n', "\n  ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_steers_no_terminal() {
        const PANICS: &str = "WIRELAPSE_TEST_PANICS";
        if std::env::var_os(PANICS).is_some() {
            tame_panics();
            panic!("of a peer: \u{1b}[2J\u{9b}31m");
        }
        let own = std::env::current_exe().unwrap();
        let this = ["--exact", "output::tests::a_panic_steers_no_terminal", "--nocapture"];
        let ended = tier::command(own).args(this).env(PANICS, "1").output().unwrap();
        let said = tier::text(&ended.stderr);
        assert!(!ended.status.success() && said.contains("of a peer: \u{fffd}[2J\u{fffd}31m"), "{said:?}");
        assert!(!said.contains(['\u{1b}', '\u{9b}']), "{said:?}");
    }

    #[test]
    fn nothing_that_steers_a_terminal_is_left() {
        assert_eq!(harmless("a\tb\nc"), "a\tb\nc");
        assert_eq!(harmless("a\u{202e}b\u{2066}c\u{200f}\u{2028}"), "a\u{fffd}b\u{fffd}c\u{fffd}\u{fffd}");
        assert_eq!(one_line("a\nforged"), "a\\nforged");
        assert_eq!(message("a\nwirelapse: forged"), "a\n  wirelapse: forged");
        assert_eq!(harmless("\u{1b}[2J\u{9b}31m\r\u{7}x"), "\u{fffd}[2J\u{fffd}31m\u{fffd}\u{fffd}x");
    }
}
