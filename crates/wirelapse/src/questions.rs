//! What `wirelapse` without a command says: what people ask, and the command that answers it.

use std::io::Write as _;

/// Questions, and the command line that answers each.
const QUESTIONS: [(&str, &str); 7] = [
    ("Why is this service slow?", "sudo wirelapse trace --unit nginx.service --for 30s"),
    ("Who talks to whom on this host, and what do they wait for?", "sudo wirelapse top"),
    ("Why is the transfer in this capture slow?", "wirelapse analyze slow.pcapng"),
    ("What did a change bring?", "wirelapse compare before after"),
    ("Would another setting help, and how sure is that?", "sudo wirelapse study small-messages --quick"),
    ("How fast is this path, and what does load do to it?", "wirelapse ping-under-load 192.0.2.1"),
    ("What of this works on this machine?", "wirelapse doctor"),
];

/// Writes them to standard output.
///
/// # Errors
/// Those of standard output.
pub fn show() -> anyhow::Result<()> {
    let mut out = crate::output::stdout().lock();
    writeln!(out, "What do you want to know?\n")?;
    for (question, line) in QUESTIONS {
        writeln!(out, "  {question}\n      {line}\n")?;
    }
    writeln!(out, "All commands: wirelapse --help")?;
    Ok(out.flush()?)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[test]
    fn every_question_is_answered_by_a_command_line_that_there_is() {
        for (question, line) in QUESTIONS {
            let words = line.split_whitespace().skip_while(|word| *word == "sudo");
            if let Err(error) = crate::Cli::try_parse_from(words) {
                panic!("{question} {line}: {error}");
            }
        }
    }
}
