//! What each side of a connection did, in figures side by side: one line for each figure that its record shows.

use diagnose::Direction;
use record::Nanos;
use record::table::{Kind, Row, Value, rows};

use paper::document::Table;

/// The cell of a figure.
fn cell(row: &Row) -> String {
    match &row.value {
        Value::Number(n) if row.kind == Kind::Duration => Nanos(*n).to_string(),
        Value::Number(n) => quantity::count(*n),
        Value::Text(text) => text.clone().into_owned(),
        Value::Flag(true) => "yes".into(),
        Value::Null | Value::Flag(false) | Value::Real(_) | Value::Json(_) => "—".into(),
    }
}

/// Both directions beside each other: what either of them has.
pub(super) fn table(to_server: &Direction, to_client: &Direction) -> Table {
    let mut table = Table::new("", &["", "client to server", "server to client"]);
    for (a, b) in rows(to_server).into_iter().zip(rows(to_client)) {
        if a.value != Value::Null || b.value != Value::Null {
            let mark = if a.under { "· " } else { "" };
            table.rows.push(vec![format!("{mark}{}", a.label), cell(&a), cell(&b)]);
        }
    }
    table
}
