//! A target of fuzzing: any bytes as a file of settings.

use crate::{Table, Value, Wrong, read};

/// A file of settings: some keys are taken as each kind of value, the rest is left over or walked
/// through.
pub fn settings(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    for all in [false, true] {
        let read: Result<(), Wrong> = read("s.toml", text, "the settings", |table| taken(table, all));
        if let Err(wrong) = read {
            assert!(wrong.line <= text.matches('\n').count() + 1, "{wrong}");
            let line = text.split('\n').nth(wrong.line - 1).unwrap_or_default();
            assert!(wrong.column <= line.chars().count() + 1, "{wrong}");
        }
    }
}

fn taken(table: &mut Table<'_>, all: bool) -> Result<(), Wrong> {
    for key in ["name", "fixed", "host"] {
        if let Some(value) = table.take(key) {
            any(value, all)?;
        }
    }
    if all {
        table.rest().into_iter().try_for_each(|(_, value)| any(value, all))?;
    }
    Ok(())
}

fn any(value: Value<'_>, all: bool) -> Result<(), Wrong> {
    let _ = (value.duration(clock::Nanos::from_secs(1)), value.whole(1..=9), value.flag(), value.name());
    if value.is_table() {
        return value.table("[table]", |table| taken(table, all));
    }
    match value.kind() {
        "array" => value.list_or_one().into_iter().try_for_each(|one| any(one, all)),
        _ => value.text_or_switch().map(drop),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn corpora() {
        tier::corpus::replay("settings", super::settings);
    }
}
