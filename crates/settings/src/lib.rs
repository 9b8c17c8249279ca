//! Settings from TOML files: a key is known by being taken.
//!
//! [`read`] gives the whole file as a [`Table`] to a function that takes the keys it knows. A key
//! that is left over when it returns is an error, so no list of known keys exists that could differ
//! from what is read. Every error names file, line and column, and says what to write instead.
//!
//! It opens no file: the caller gives the text. What a setting means is the caller's too.

#![forbid(unsafe_code)]

#[cfg(any(test, fuzzing))]
pub mod fuzzed;
mod place;
mod table;
mod value;

pub use place::{At, Wrong};
pub use table::{Key, Table};
pub use value::Value;

use toml::de::DeTable;

/// Reads the text of a file called `file`. `what` names it in messages, such as `the
/// configuration`.
///
/// # Errors
/// A [`Wrong`] where the text is not TOML or has a key that `take` did not take; whatever `take`
/// gives.
pub fn read<T, E: From<Wrong>>(
    file: &str,
    text: &str,
    what: &str,
    take: impl FnOnce(&mut Table<'_>) -> Result<T, E>,
) -> Result<T, E> {
    let start = At::new(file, text, 0);
    let table = DeTable::parse(text).map_err(|error| {
        let byte = error.span().map_or(0, |span| span.start);
        let rest = text.get(byte..).and_then(|rest| rest.lines().next()).unwrap_or_default();
        start.moved(byte).wrong(in_toml(error.message(), rest))
    })?;
    Table::new(start, what, table.into_inner()).read(take)
}

/// What is no TOML, and what people who write other formats would write here; `rest` is what is
/// left of the line.
fn in_toml(message: &str, rest: &str) -> String {
    let value = rest.split('#').next().unwrap_or_default().trim();
    if message.starts_with("string values must be quoted") && !value.is_empty() {
        return format!("text is in quotation marks in TOML: \"{value}\"");
    }
    if message.starts_with("key with no value") {
        return format!("{message}: a line of TOML is `name = value`, with text in quotation marks");
    }
    if message.starts_with("unexpected key or value") && value.starts_with(',') {
        return "a line of TOML ends without a comma".to_owned();
    }
    message.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> String {
        let read = read("s.toml", text, "the file", |file| {
            let wait = file.take("wait").map(|wait| wait.duration(clock::Nanos::from_secs(1))).transpose()?;
            let ports = file.take("port").map(Value::list_or_one).unwrap_or_default();
            let ports = ports.iter().map(|port| port.whole(1..=9)).collect::<Result<Vec<_>, _>>()?;
            let inner = file
                .take("inner")
                .map(|inner| inner.table("[inner]", |inner| inner.take("on").map(|on| on.flag()).transpose()));
            Ok::<_, Wrong>(format!(
                "{wait:?} {ports:?} {:?} {}",
                inner.transpose()?,
                file.need("name", "a name is needed")?.name()?
            ))
        });
        read.unwrap_or_else(|wrong| wrong.to_string())
    }

    #[test]
    fn what_is_taken_is_read() {
        assert_eq!(said("name = 'x'"), "None [] None x");
        assert_eq!(said("name = 7\nport = [1, '2']\n[inner]\non = true"), "None [1, 2] Some(Some(true)) 7");
    }

    #[test]
    fn what_is_left_over_is_refused_with_the_nearest_key_that_was_asked_for() {
        for (text, wrong) in [
            ("name = 'x'\nwiat = 1", "s.toml:2:1: there is no key \"wiat\" in the file: did you mean `wait`?"),
            ("name = 'x'\n[inner]\n  off = true", "s.toml:3:3: there is no key \"off\" in [inner]: write `on`"),
            (
                "name = 'x'\nzzzzzzzz = 1",
                "s.toml:2:1: there is no key \"zzzzzzzz\" in the file: write one of wait, port, inner, name",
            ),
            // The misspelled one, and not that it is missing.
            ("nmae = 'x'", "s.toml:1:1: there is no key \"nmae\" in the file: did you mean `name`?"),
            ("# none\n", "s.toml:1:1: a name is needed"),
            ("name = ''", "s.toml:1:8: this is empty"),
            ("wait = '1ms'", "s.toml:1:8: \"1ms\" is too short: at least 1s"),
            ("wait = '1 horse'", "s.toml:1:8: \"1 horse\": "),
            ("port = [1, 99]", "s.toml:1:12: a whole number from 1 to 9 is needed here"),
            ("inner = 5", "s.toml:1:9: [inner] is a table: write [inner] once, and its keys in lines below it"),
            ("wait = true", "s.toml:1:8: text or a number is needed here, not boolean"),
            ("wait = 1\n= 2", "s.toml:2:1: "),
            ("wait = 1ms # short", "s.toml:1:8: text is in quotation marks in TOML: \"1ms\""),
            ("name: x", "s.toml:1:7: key with no value, expected `=`: a line of TOML is `name = value`"),
            ("name = 'x',", "s.toml:1:11: a line of TOML ends without a comma"),
            (
                "name = [1, 22]",
                "s.toml:1:8: text or a number is needed here, not array: several numbers are one text, \"1 22\"",
            ),
        ] {
            assert!(said(text).starts_with(wrong), "{text:?}: {}", said(text));
        }
    }
}
