//! `wirelapse man`.

mod examples;
mod sections;

use std::io::Write as _;
use std::path::PathBuf;

use clap::{Command, CommandFactory as _};

pub use examples::EXAMPLES;

/// Print the manual page, or write the pages of all commands into a directory
#[derive(clap::Args)]
pub struct Args {
    /// Write wirelapse.1 and a page for each command into this directory, instead of printing the
    /// first
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    into: Option<PathBuf>,
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    let mut command = crate::Cli::command().disable_help_subcommand(true);
    command.build();
    match &args.into {
        Some(dir) => {
            std::fs::create_dir_all(dir)?;
            let readers = ::files::Readers::AsUmask;
            pages(&command, &mut |name, page| Ok(::files::write(&dir.join(name), page, true, readers)?))?;
        }
        None => crate::output::stdout().write_all(&page(&command)?)?,
    }
    Ok(())
}

/// The page of a command and those of its subcommands, each with the name of its file.
fn pages(command: &Command, put: &mut dyn FnMut(&str, &[u8]) -> anyhow::Result<()>) -> anyhow::Result<()> {
    put(&format!("{}.1", name(command)), &page(command)?)?;
    command.get_subcommands().filter(|sub| !sub.is_hide_set()).try_for_each(|sub| pages(sub, put))
}

fn name(command: &Command) -> &str {
    command.get_display_name().unwrap_or_else(|| command.get_name())
}

/// What clap knows of a command, and under it what it does not.
fn page(command: &Command) -> std::io::Result<Vec<u8>> {
    let mut page = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut page)?;
    let name = name(command);
    let examples: Vec<_> = EXAMPLES.iter().filter(|(of, ..)| *of == name).collect();
    if !examples.is_empty() {
        writeln!(page, ".SH EXAMPLES")?;
        for (_, line, what) in examples {
            writeln!(page, ".TP\n\\fB{}\\fR\n{}", roff(line), roff(what))?;
        }
    }
    writeln!(page, ".SH EXIT STATUS")?;
    entries(&mut page, sections::exit_status(name))?;
    writeln!(page, ".SH FILES")?;
    let defaults = [
        (
            "$XDG_CONFIG_HOME/wirelapse/config.toml, ~/.config/wirelapse/config.toml",
            "defaults of options: a table for each command",
        ),
        (
            "/etc/wirelapse/config.toml",
            "the same for this machine, where a user has none; WIRELAPSE_CONFIG names another file, or none",
        ),
    ];
    entries(&mut page, sections::files(name).iter().copied().chain(defaults))?;
    let others: Vec<String> = sections::see_also(name).iter().map(|other| roff(other)).collect();
    writeln!(
        page,
        ".SH SEE ALSO\n{}\n.P\nThe Debian package has the documentation in /usr/share/doc/wirelapse.",
        others.join(", ")
    )?;
    Ok(page)
}

/// Names, and below each what it is.
fn entries<'e>(page: &mut Vec<u8>, all: impl IntoIterator<Item = (&'e str, &'e str)>) -> std::io::Result<()> {
    all.into_iter().try_for_each(|(name, what)| writeln!(page, ".TP\n{}\n{}", roff(name), roff(what)))
}

/// Text as roff takes it: what would be a request or an escape is none.
fn roff(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    if text.starts_with(['.', '\'']) { format!("\\&{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[test]
    fn every_example_is_a_command_line_of_its_command() {
        for (of, line, _) in EXAMPLES {
            // What stands between quotes is one word.
            let parts = line.split('\'').enumerate();
            let words: Vec<&str> = parts
                .flat_map(|(at, part)| if at % 2 == 1 { vec![part] } else { part.split_whitespace().collect() })
                .collect();
            let words = words.strip_prefix(&["sudo"]).unwrap_or(&words);
            if let Err(error) = crate::Cli::try_parse_from(words) {
                panic!("{line}: {error}");
            }
            assert!(line.replace(' ', "-").contains(of), "{line} is no example of {of}");
        }
    }

    #[test]
    fn every_command_has_a_page_with_all_its_sections() {
        let mut command = crate::Cli::command().disable_help_subcommand(true);
        command.build();
        let (mut names, mut seen) = (Vec::new(), Vec::new());
        pages(&command, &mut |name, page| {
            let page = String::from_utf8_lossy(page);
            for section in ["NAME", "SYNOPSIS", "EXAMPLES", "EXIT STATUS", "FILES", "SEE ALSO"] {
                assert!(
                    page.contains(&format!(".SH {section}")) || page.contains(&format!(".SH \"{section}\"")),
                    "{name}: no {section}"
                );
            }
            let others = page.rsplit(".SH SEE ALSO").next().unwrap().replace('\\', "");
            let named = others.split([' ', ',', '\n']).filter_map(|word| word.strip_suffix("(1)"));
            seen.extend(named.filter(|page| page.starts_with("wirelapse")).map(|page| format!("{page}.1")));
            names.push(name.to_owned());
            Ok(())
        })
        .unwrap();
        for page in seen {
            assert!(names.contains(&page), "{page} is named under SEE ALSO, and there is none");
        }
        assert!(
            names.contains(&"wirelapse.1".to_owned()) && names.contains(&"wirelapse-lab-up.1".to_owned()),
            "{names:?}"
        );
    }

    #[test]
    fn text_is_no_request() {
        assert_eq!(roff(".so /etc/passwd"), "\\&.so /etc/passwd");
        assert_eq!(roff("a-b\\c"), "a\\-b\\ec");
    }
}
