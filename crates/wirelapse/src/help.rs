//! The command line as a whole, with what ends the help of each command: examples, and its manual
//! page.

use clap::{Command, CommandFactory as _};

use crate::commands::man::EXAMPLES;

/// The most examples that a help shows; the manual page has all.
const SHOWN: usize = 4;

/// The command with its subcommands.
pub fn command() -> Command {
    ended(crate::Cli::command(), "wirelapse")
}

/// A command, and those below it, each with the end of its help. `page` is the name of its manual
/// page.
fn ended(command: Command, page: &str) -> Command {
    let end = end(page);
    // Where something stands below the options already, the end comes after it.
    let command = match command.get_after_long_help().map(|there| format!("{there}\n\n{end}")) {
        Some(long) => command.after_long_help(long),
        None => command,
    };
    command.after_help(end).mut_subcommands(|sub| {
        let page = format!("{page}-{}", sub.get_name());
        ended(sub, &page)
    })
}

/// Examples, and where to read on.
fn end(page: &str) -> String {
    let examples = EXAMPLES.iter().filter(|(of, ..)| *of == page).take(SHOWN);
    let mut text = String::from("Examples:\n");
    for (_, line, what) in examples {
        text += &format!("  {line}\n      {what}\n");
    }
    text + &format!("\nManual page: man {page}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each command with the name of its page.
    fn all(command: &Command, page: String, see: &mut dyn FnMut(&Command, &str)) {
        see(command, &page);
        for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help") {
            all(sub, format!("{page}-{}", sub.get_name()), see);
        }
    }

    #[test]
    fn every_help_ends_in_examples_and_names_its_page() {
        all(&command(), "wirelapse".into(), &mut |command, page| {
            let help = command.clone().render_long_help().to_string();
            let (_, end) = help.split_once("\nExamples:\n").unwrap_or_else(|| panic!("{page}: no examples"));
            let count = end.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   ")).count();
            assert!((2..=SHOWN).contains(&count), "{page}: {count} examples\n{end}");
            assert!(help.trim_end().ends_with(&format!("Manual page: man {page}")), "{help}");
        });
    }

    #[test]
    fn every_option_stands_under_a_heading() {
        let mut bare = Vec::new();
        all(&command(), "wirelapse".into(), &mut |command, page| {
            // With so few there is nothing to group.
            let options: Vec<_> = command.get_opts().filter(|option| !option.is_hide_set()).collect();
            if options.len() > 3 {
                let without = options.iter().filter(|option| option.get_help_heading().is_none());
                bare.extend(without.map(|option| format!("{page} --{}", option.get_id())));
            }
        });
        assert!(bare.is_empty(), "{bare:#?}");
    }
}
