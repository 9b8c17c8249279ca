//! Defaults of options from a file, so that what is wanted always need not be typed each time.
//!
//! ```toml
//! color = "never"
//!
//! [trace]
//! slowest = 10
//! resolve = true
//! ```
//!
//! A table is of the command of its name, what stands above all tables is of every command that has
//! the option. What the command line says wins.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::{Arg, ArgAction, Command};
use settings::{Key, Value, Wrong};

use crate::exit::BadInput;
use crate::options;

/// Names the file; empty for none.
const VARIABLE: &str = "WIRELAPSE_CONFIG";

/// Where the file is: as `WIRELAPSE_CONFIG` says, else the user's own, else that of the machine.
/// `None` where there is none.
fn file() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os(VARIABLE) {
        return (!named.is_empty()).then(|| named.into());
    }
    let own = own_folder().map(|folder| folder.join("config.toml"));
    own.into_iter().chain([PathBuf::from("/etc/wirelapse/config.toml")]).find(|path| path.exists())
}

/// The folder of the user's own settings.
fn own_folder() -> Option<PathBuf> {
    let home = || std::env::var_os("HOME").map(|home| Path::new(&home).join(".config"));
    let own = std::env::var_os("XDG_CONFIG_HOME").filter(|dir| !dir.is_empty()).map(PathBuf::from).or_else(home);
    own.map(|dir| dir.join("wirelapse"))
}

/// Where other settings are kept: the folder of the file of defaults, whether or not there is such
/// a file; `None` where `WIRELAPSE_CONFIG` says that nothing is to be read.
pub fn folder() -> Option<PathBuf> {
    match std::env::var_os(VARIABLE) {
        Some(named) => Path::new(&named).parent().map(Path::to_owned).filter(|_| !named.is_empty()),
        None => own_folder(),
    }
}

/// The words of the command line with the defaults of the file between the command and what was
/// typed after it.
///
/// # Errors
/// [`BadInput`] where the file cannot be read, [`Wrong`] where it names what there is not.
pub fn apply(command: &Command, words: Vec<OsString>) -> anyhow::Result<Vec<OsString>> {
    let Some(path) = file() else { return Ok(words) };
    let text =
        options::text_of(&path).map_err(|error| BadInput(format!("{}: cannot be read: {error}", path.display())))?;
    Ok(merge(command, (&path.display().to_string(), &text), words)?)
}

/// As [`apply`], with what the file says.
fn merge(command: &Command, (file, text): (&str, &str), words: Vec<OsString>) -> Result<Vec<OsString>, Wrong> {
    let named = |word: &OsString| command.find_subcommand(word.to_str()?);
    let Some((at, chosen)) = words.iter().enumerate().skip(1).find_map(|(at, word)| Some((at, named(word)?))) else {
        return Ok(words);
    };
    let typed: BTreeSet<&str> = words[at..]
        .iter()
        .take_while(|word| *word != "--")
        .filter_map(|word| word.to_str()?.strip_prefix("--"))
        .map(|word| word.split_once('=').map_or(word, |(name, _)| name))
        .collect();
    let mut defaults = Vec::new();
    settings::read(file, text, "the file", |file| {
        for (key, value) in file.rest() {
            if value.is_table() {
                let owner = command
                    .find_subcommand(key.name())
                    .ok_or_else(|| key.unknown("command", command.get_subcommands().map(Command::get_name)))?;
                let of = value.table(key.name(), |keys| Ok::<_, Wrong>(keys.rest()))?;
                for (key, value) in of {
                    let given = option(&[owner, command], &key, value)?;
                    if owner.get_name() == chosen.get_name() && !typed.contains(key.name()) {
                        defaults.extend(given);
                    }
                }
                continue;
            }
            let known: Vec<&Command> = command.get_subcommands().chain([command]).collect();
            let given = option(&known, &key, value)?;
            if named_option(&[chosen, command], key.name()).is_some() && !typed.contains(key.name()) {
                defaults.extend(given);
            }
        }
        Ok::<_, Wrong>(())
    })?;
    let (before, after) = words.split_at(at + 1);
    Ok(before.iter().cloned().chain(defaults).chain(after.iter().cloned()).collect())
}

/// The option of that name that one of the commands has.
fn named_option<'c>(commands: &[&'c Command], name: &str) -> Option<&'c Arg> {
    commands.iter().find_map(|command| command.get_arguments().find(|arg| arg.get_long() == Some(name)))
}

/// An option as words of a command line: none for a flag that is off, several for a list.
///
/// # Errors
/// [`Wrong`] where no command has it, or it takes no such value.
fn option(commands: &[&Command], key: &Key<'_>, value: Value<'_>) -> Result<Vec<OsString>, Wrong> {
    let Some(found) = named_option(commands, key.name()) else {
        let names = commands.iter().flat_map(|command| command.get_arguments()).filter_map(Arg::get_long);
        return Err(key.unknown("option", names.collect::<BTreeSet<_>>()));
    };
    let name = key.name();
    if matches!(found.get_action(), ArgAction::SetTrue) {
        return Ok(if value.flag()? { vec![format!("--{name}").into()] } else { Vec::new() });
    }
    let values = value.list_or_one();
    values.iter().map(|value| Ok(OsString::from(format!("--{name}={}", value.text()?)))).collect()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    fn merged(file: &str, line: &str) -> Result<String, String> {
        let words = line.split(' ').map(OsString::from).collect();
        let merged = merge(&crate::Cli::command(), ("c.toml", file), words).map_err(|wrong| wrong.to_string())?;
        Ok(merged.into_iter().map(|word| word.into_string().unwrap()).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn defaults_stand_before_what_is_typed_and_give_way_to_it() {
        let file = "color = 'never'\nfull = true\n[trace]\nslowest = 10\nresolve = true\nport = ['80', '443']\n[watch]\nfor = '5s'";
        let trace = merged(file, "wirelapse trace --slowest 3 --all").unwrap();
        assert_eq!(trace, "wirelapse trace --color=never --full --resolve --port=80 --port=443 --slowest 3 --all");
        assert_eq!(merged(file, "wirelapse watch srtt").unwrap(), "wirelapse watch --color=never --for=5s srtt");
        assert_eq!(merged(file, "wirelapse man").unwrap(), "wirelapse man --color=never");
        // What CMD is called with is CMD's.
        assert_eq!(
            merged("[trace]\nslowest = 2", "wirelapse trace -- x --slowest").unwrap(),
            "wirelapse trace --slowest=2 -- x --slowest"
        );
        assert_eq!(merged("[trace]\nresolve = false", "wirelapse trace --all").unwrap(), "wirelapse trace --all");
        assert_eq!(merged(file, "wirelapse --help").unwrap(), "wirelapse --help");
    }

    #[test]
    fn what_there_is_not_is_said() {
        let wrong = |file: &str| merged(file, "wirelapse trace --all").unwrap_err();
        assert_eq!(wrong("[trase]\nslowest = 2"), "c.toml:1:2: there is no command \"trase\": did you mean `trace`?");
        assert!(wrong("[watch]\nslowest = 2").starts_with("c.toml:2:1: there is no option \"slowest\""));
        assert_eq!(
            wrong("[trace]\nresolv = true"),
            "c.toml:2:1: there is no option \"resolv\": did you mean `resolve`?"
        );
        assert_eq!(wrong("colour = 'never'"), "c.toml:1:1: there is no option \"colour\": did you mean `color`?");
        assert_eq!(wrong("[trace]\nresolve = 'yes'"), "c.toml:2:11: true or false is needed here");
        assert_eq!(wrong("[trace\nresolve = 'yes'"), wrong("[trace\n"));
        assert!(wrong("[trace").starts_with("c.toml:1:"));
    }
}
