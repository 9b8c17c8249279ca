//! `top HOST`: the same command on another host, over SSH. What is drawn is measured there, with
//! that host's clock; nothing is measured here, and no right is needed here.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;

use anyhow::Context as _;
use machine::programs;

use crate::exit::BadInput;

/// Hands over to the program that reaches the host: `ssh`, or the one that was named with its
/// options. Comes back only with an error.
///
/// # Errors
/// [`BadInput`] where it cannot be started.
pub fn run(host: &str, ssh: Option<&str>, on_screen: bool, arguments: &[OsString]) -> anyhow::Result<()> {
    if host.starts_with('-') || host.is_empty() {
        return Err(BadInput(format!("{host:?} is no run, no capture and no host")).into());
    }
    let mut words = ssh.unwrap_or("ssh").split_whitespace();
    let name = words.next().unwrap_or("ssh");
    let found = if name.contains('/') { Some(name.into()) } else { programs::find(name) };
    let program =
        found.ok_or_else(|| BadInput(format!("there is no {host} here, and no {name} to reach a host with")))?;
    let mut command = programs::command(&program);
    command.args(words);
    if on_screen && ssh.is_none() {
        // Keys and the size of the terminal reach the other end.
        command.arg("-t");
    }
    let error = command.arg(host).arg(remote(arguments)).exec();
    Err(error).with_context(|| format!("{} cannot be started", program.display()))
}

/// What a shell there runs: with the rights that measuring takes.
fn remote(arguments: &[OsString]) -> String {
    let words: Vec<String> = arguments.iter().map(|word| quoted(&word.to_string_lossy())).collect();
    let top = format!("wirelapse top {}", words.join(" "));
    format!("if [ \"$(id -u)\" = 0 ]; then exec {top}; else exec sudo {top}; fi")
}

/// A word as a shell takes it for itself.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_gets_each_word_as_it_was_written() {
        let words = ["--filter", "it's $(reboot) p99:>50ms"].map(OsString::from);
        let line = remote(&words);
        assert!(line.contains("exec wirelapse top '--filter' 'it'\\''s $(reboot) p99:>50ms'; else"), "{line}");
    }

    #[test]
    fn an_option_is_no_host() {
        assert!(run("-oProxyCommand=x", None, false, &[]).is_err_and(|error| error.is::<BadInput>()));
    }
}
