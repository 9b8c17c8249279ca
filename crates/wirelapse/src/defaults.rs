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
//! A table is of the command of its name, what stands above all tables is of every command that has the option. What the command line says wins.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::{ArgAction, Command};
use toml::{Table, Value};

use crate::exit::BadInput;
use crate::options;

/// Names the file; empty for none.
const VARIABLE: &str = "WIRELAPSE_CONFIG";

/// Where the file is: as `WIRELAPSE_CONFIG` says, else the user's own, else that of the machine. `None` where there is none.
fn file() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os(VARIABLE) {
        return (!named.is_empty()).then(|| named.into());
    }
    let home = || std::env::var_os("HOME").map(|home| Path::new(&home).join(".config"));
    let own = std::env::var_os("XDG_CONFIG_HOME").filter(|dir| !dir.is_empty()).map(PathBuf::from).or_else(home);
    let own = own.map(|dir| dir.join("wirelapse/config.toml"));
    own.into_iter().chain([PathBuf::from("/etc/wirelapse/config.toml")]).find(|path| path.exists())
}

/// The words of the command line with the defaults of the file between the command and what was typed after it.
///
/// # Errors
/// [`BadInput`] where the file cannot be read or names what there is not.
pub fn apply(command: &Command, words: Vec<OsString>) -> Result<Vec<OsString>, BadInput> {
    let Some(path) = file() else { return Ok(words) };
    let wrong = |what: String| BadInput(format!("{}: {what}", path.display()));
    let text = options::text_of(&path).map_err(|error| wrong(format!("cannot be read: {error}")))?;
    let table: Table = text.parse().map_err(|error: toml::de::Error| wrong(error.to_string()))?;
    merge(command, &table, words).map_err(wrong)
}

/// As [`apply`], with what the file says.
fn merge(command: &Command, table: &Table, words: Vec<OsString>) -> Result<Vec<OsString>, String> {
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
    for (key, value) in table {
        match value {
            Value::Table(of) => {
                let owner = command.find_subcommand(key).ok_or_else(|| {
                    let meant = meant(key, command.get_subcommands().map(Command::get_name));
                    format!("[{key}]: there is no such command{meant}")
                })?;
                for (key, value) in of {
                    let given = option(&[owner, command], key, value)
                        .ok_or_else(|| refused(&format!("[{}]", owner.get_name()), &[owner, command], key, value))?;
                    if owner.get_name() == chosen.get_name() && !typed.contains(key.as_str()) {
                        defaults.extend(given);
                    }
                }
            }
            value => {
                let known: Vec<&Command> = command.get_subcommands().chain([command]).collect();
                option(&known, key, value).ok_or_else(|| refused("outside of a table", &known, key, value))?;
                if !typed.contains(key.as_str()) {
                    defaults.extend(option(&[chosen, command], key, value).into_iter().flatten());
                }
            }
        }
    }
    let (before, after) = words.split_at(at + 1);
    Ok(before.iter().cloned().chain(defaults).chain(after.iter().cloned()).collect())
}

/// Why a default is none: there is no option of its name, or it takes no such value.
fn refused(place: &str, commands: &[&Command], key: &str, value: &Value) -> String {
    let names = || commands.iter().flat_map(|c| c.get_arguments()).filter_map(clap::Arg::get_long);
    match names().any(|name| name == key) {
        true => format!("{place}: the option {key} takes no {}", value.type_str()),
        false => format!("{place}: there is no option {key}{}", meant(key, names())),
    }
}

/// The question whether the nearest of the names there are was meant; nothing where none is near.
fn meant<'k>(name: &str, known: impl Iterator<Item = &'k str>) -> String {
    quantity::near(name, known).map_or_else(String::new, |near| format!(": did you mean `{near}`?"))
}

/// An option as words of a command line: none for a flag that is off, several for a list. `None` where no command has it, or it takes no such value.
fn option(commands: &[&Command], key: &str, value: &Value) -> Option<Vec<OsString>> {
    let found = commands.iter().find_map(|c| c.get_arguments().find(|arg| arg.get_long() == Some(key)))?;
    let flag = matches!(found.get_action(), ArgAction::SetTrue);
    let text = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Integer(number) => Some(number.to_string()),
        Value::Float(number) => Some(number.to_string()),
        _ => None,
    };
    let word = |value: &Value| Some(OsString::from(format!("--{key}={}", text(value)?)));
    match value {
        Value::Boolean(on) if flag => Some(if *on { vec![format!("--{key}").into()] } else { Vec::new() }),
        _ if flag => None,
        Value::Array(values) => values.iter().map(word).collect(),
        value => Some(vec![word(value)?]),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    fn merged(file: &str, line: &str) -> Result<String, String> {
        let words = line.split(' ').map(OsString::from).collect();
        let merged = merge(&crate::Cli::command(), &file.parse().unwrap(), words)?;
        Ok(merged.into_iter().map(|word| word.into_string().unwrap()).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn defaults_stand_before_what_is_typed_and_give_way_to_it() {
        let file = "color = 'never'\nfull = true\n[trace]\nslowest = 10\nresolve = true\nport = ['80', '443']\n[watch]\nfor = '5s'";
        let trace = merged(file, "wirelapse trace --slowest 3 --all").unwrap();
        assert_eq!(trace, "wirelapse trace --color=never --full --port=80 --port=443 --resolve --slowest 3 --all");
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
        assert_eq!(wrong("[trase]\nslowest = 2"), "[trase]: there is no such command: did you mean `trace`?");
        assert!(wrong("[watch]\nslowest = 2").starts_with("[watch]: there is no option slowest"));
        assert_eq!(wrong("[trace]\nresolv = true"), "[trace]: there is no option resolv: did you mean `resolve`?");
        assert_eq!(wrong("colour = 'never'"), "outside of a table: there is no option colour: did you mean `color`?");
        assert_eq!(wrong("[trace]\nresolve = 'yes'"), "[trace]: the option resolve takes no string");
    }
}
