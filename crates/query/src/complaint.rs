//! What is wrong with a query: where, and which name was perhaps meant.

use datafusion::common::{Diagnostic, SchemaError};
use datafusion::error::DataFusionError;

/// A place in a query: line and column, from 1.
type Position = (usize, usize);

/// How the error of an unknown table begins.
const NO_TABLE: &str = "there is no table";

/// The error in words, with the line that it is in and a mark below, and the nearest of the names
/// that there are.
pub fn of(sql: &str, error: &DataFusionError, names: &[String], tables: &[String]) -> String {
    let root = error.find_root();
    let (what, unknown) = words(root);
    let diagnostic = error.diagnostic();
    let position = diagnostic
        .and_then(|d: &Diagnostic| d.span)
        .map(|span| (usize::try_from(span.start.line).unwrap_or(1), usize::try_from(span.start.column).unwrap_or(1)))
        .or_else(|| said(&root.to_string()))
        .or_else(|| unknown.as_deref().and_then(|name| found(sql, name)));
    let mut text = what;
    let columns = columns(root);
    let names = if text.starts_with(NO_TABLE) { tables } else { columns.as_deref().unwrap_or(names) };
    match unknown.as_deref().and_then(|name| nearest(name, names)) {
        Some(near) => text.push_str(&format!("; is it {near}?")),
        None if columns.is_some() => text.push_str(" in what the query reads: --schema lists those of each table"),
        None => {}
    }
    match position {
        Some((line, column)) => {
            let shown = sql.lines().nth(line - 1).unwrap_or_default();
            format!("line {line}, column {column}: {text}\n  {shown}\n  {}^", " ".repeat(column.saturating_sub(1)))
        }
        None => text,
    }
}

/// Where the error is of an unknown column: the columns that there are at that place of the query.
fn columns(error: &DataFusionError) -> Option<Vec<String>> {
    let DataFusionError::SchemaError(schema, _) = error else { return None };
    let SchemaError::FieldNotFound { valid_fields, .. } = schema.as_ref() else { return None };
    Some(valid_fields.iter().map(|field| field.name.clone()).collect())
}

/// What is wrong, and the name that is not known.
fn words(error: &DataFusionError) -> (String, Option<String>) {
    match error {
        DataFusionError::SchemaError(schema, _) => match schema.as_ref() {
            SchemaError::FieldNotFound { field, .. } => {
                (format!("there is no column {}", field.name), Some(field.name.clone()))
            }
            SchemaError::AmbiguousReference { field } => {
                (format!("column {} is in more than one table: write table.{}", field.name, field.name), None)
            }
            other => (other.to_string(), None),
        },
        DataFusionError::Plan(text) => {
            if let Some(name) = quoted(text, "table '") {
                let name = name.rsplit('.').next().unwrap_or(name).to_owned();
                return (format!("{NO_TABLE} {name}"), Some(name));
            }
            if let Some(name) = quoted(text, "Invalid function '") {
                return (format!("there is no function {name}"), Some(name.to_owned()));
            }
            let refused = ["DDL not supported", "DML not supported", "Statement not supported"];
            if refused.iter().any(|word| text.contains(word)) {
                return ("a query only reads: write SELECT".into(), None);
            }
            (text.lines().next().unwrap_or_default().to_owned(), None)
        }
        DataFusionError::SQL(parser, _) => {
            let text = parser.to_string();
            let text = text.trim_start_matches("sql parser error: ");
            (text.split(" at Line:").next().unwrap_or(text).to_owned(), None)
        }
        other => (other.strip_backtrace().lines().next().unwrap_or_default().to_owned(), None),
    }
}

fn quoted<'a>(text: &'a str, before: &str) -> Option<&'a str> {
    text.split_once(before)?.1.split('\'').next()
}

/// "… at Line: 1, Column: 15".
fn said(text: &str) -> Option<Position> {
    let (_, after) = text.split_once("Line: ")?;
    let (line, after) = after.split_once(", Column: ")?;
    let digits: String = after.chars().take_while(char::is_ascii_digit).collect();
    Some((line.parse().ok().filter(|line| *line > 0)?, digits.parse().ok()?))
}

/// Where a name stands as a separate word.
fn found(sql: &str, name: &str) -> Option<Position> {
    let word = |c: char| c.is_alphanumeric() || c == '_';
    sql.lines().enumerate().find_map(|(at, line)| {
        let lower = line.to_lowercase();
        let name = name.to_lowercase();
        let start = lower.match_indices(&name).map(|(start, _)| start).find(|start| {
            let before = lower[..*start].chars().next_back();
            let after = lower[start + name.len()..].chars().next();
            !before.is_some_and(word) && !after.is_some_and(word)
        })?;
        Some((at + 1, lower[..start].chars().count() + 1))
    })
}

/// The nearest of the names, where one is near.
pub fn nearest<'a>(name: &str, names: &'a [String]) -> Option<&'a str> {
    let name = name.to_lowercase();
    let distance = |other: &str| strsim::damerau_levenshtein(&name, other);
    let near = names.iter().min_by_key(|other| (distance(other), (*other).clone()))?;
    let holds = near.contains(&name) || name.contains(near.as_str());
    (distance(near) <= (name.len() / 3).max(if name.len() > 3 { 2 } else { 1 }) || (holds && name.len() > 3))
        .then_some(near.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_near() {
        let names = ["total_ns", "tcp_ns", "sends"].map(str::to_owned);
        assert_eq!(nearest("totl_ns", &names), Some("total_ns"));
        assert_eq!(nearest("Send", &names), Some("sends"));
        assert_eq!(nearest("colour", &names), None);
    }

    #[test]
    fn a_name_is_found_as_a_word() {
        assert_eq!(found("SELECT xa,\n a FROM t", "a"), Some((2, 2)));
        assert_eq!(said("sql parser error: Expected: x, found: y at Line: 3, Column: 15"), Some((3, 15)));
    }
}
