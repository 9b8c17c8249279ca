//! What commands write to standard output: lines for people, and JSON lines for programs.

use std::io::Write as _;

use crate::terminal;

/// One JSON object on a line.
pub fn json_line(value: &impl serde::Serialize) -> anyhow::Result<()> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    std::io::stdout().write_all(&line)?;
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

/// Whether progress is shown: to a person, not to a pipe.
pub fn shows_progress(json: bool) -> bool {
    !json && terminal::is_terminal()
}

/// Prints a line for people, as `println!` does, but ends quietly where the reader has closed the pipe (`| head`): it has what
/// it wanted, and the sockets and threads of a workload end with the process.
macro_rules! say {
    ($($text:tt)*) => {
        $crate::output::print_line(format_args!($($text)*))
    };
}
pub(crate) use say;

/// What [`say!`] does with the finished text.
pub fn print_line(text: std::fmt::Arguments<'_>) {
    if let Err(error) = writeln!(std::io::stdout(), "{text}") {
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            std::process::exit(0);
        }
        eprintln!("wirelapse: cannot write to standard output: {error}");
        std::process::exit(1);
    }
}
