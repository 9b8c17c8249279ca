//! What `--list` and `--schema` show.

use std::fmt::Write as _;

use datafusion::arrow::datatypes::{DataType, Schema};

use crate::catalog::{LEADING, TRAILING, WEIGHT};
use crate::{Error, NAMED, Session, VIEWS, hours, runs};

/// The tables, views and named queries.
pub fn list(session: &Session) -> String {
    let mut text = String::from("tables\n");
    let mut line = |name: &str, doc: &str| {
        let _ = writeln!(text, "  {name:<16}{doc}");
    };
    line("runs", "a run, by its run.json");
    for shape in &session.catalog().shapes {
        line(shape.name, shape.doc);
        if shape.name == "histograms" {
            line("hours", hours::DOC);
        }
    }
    text.push_str("views\n");
    for view in VIEWS {
        let _ = writeln!(text, "  {:<16}{}", view.name, view.doc);
    }
    text.push_str("named queries, for --named\n");
    for named in NAMED {
        let _ = writeln!(text, "  {:<16}{}", named.name, named.doc);
    }
    text
}

/// The columns of one table or view, or of all.
///
/// # Errors
/// [`Error::Query`] where there is none of that name.
pub async fn schema(session: &Session, table: Option<&str>) -> Result<String, Error> {
    let names: Vec<&str> = match table {
        Some(name) => vec![name],
        None => std::iter::once("runs")
            .chain(session.catalog().shapes.iter().map(|shape| shape.name))
            .chain(std::iter::once("hours"))
            .chain(VIEWS.iter().map(|view| view.name))
            .collect(),
    };
    let mut text = String::new();
    for name in names {
        let columns = session.columns(name).await?;
        let _ = writeln!(text, "{name}");
        columns_of(&mut text, session, name, &columns);
    }
    Ok(text)
}

fn columns_of(text: &mut String, session: &Session, table: &str, columns: &Schema) {
    let meaning = |column: &str| -> &'static str {
        let ours = LEADING.iter().chain([&TRAILING, &WEIGHT]).find(|(name, _)| *name == column).map(|(_, doc)| *doc);
        let of_runs = || runs::meanings().find(|(name, _)| table == "runs" && *name == column).map(|(_, doc)| doc);
        let stored = || {
            let of = match (table, column) {
                ("hours", "time") => return Some("the hour, UTC"),
                ("hours", _) => "histograms",
                _ => table,
            };
            let shape = session.catalog().shapes.iter().find(|shape| shape.name == of)?;
            shape.meanings.get(shape.stored.index_of(column).ok()?).copied()
        };
        stored().or_else(of_runs).or(ours).unwrap_or("")
    };
    for field in columns.fields() {
        let _ = writeln!(text, "  {:<32}{:<10}{}", field.name(), kind(field.data_type()), meaning(field.name()));
    }
}

/// A type, by its name in SQL.
fn kind(of: &DataType) -> &'static str {
    match of {
        DataType::Utf8 | DataType::Utf8View | DataType::LargeUtf8 => "text",
        DataType::UInt64 => "unsigned",
        DataType::Float64 => "double",
        DataType::Timestamp(..) => "timestamp",
        DataType::Boolean => "boolean",
        _ => "bigint",
    }
}
