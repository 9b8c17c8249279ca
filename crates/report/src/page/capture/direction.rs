//! What each side of a connection did, in figures side by side: one line for each figure that its
//! record shows.

use diagnose::Direction;
use record::Nanos;
use record::table::{Kind, Row, Value, rows};

use paper::document::{Cell, Column, Table};

/// The cell of a figure.
fn cell(row: &Row) -> Cell {
    match &row.value {
        Value::Number(n) if row.kind == Kind::Duration => Cell::time(Nanos(*n)),
        Value::Number(n) => Cell::count(*n),
        Value::Text(text) => Cell::figure(text.clone()),
        Value::Flag(true) => Cell::figure("yes"),
        Value::Null | Value::Flag(false) | Value::Real(_) | Value::Json(_) => Cell::absent("none of this side"),
    }
}

/// Both directions beside each other: what either of them has.
pub(super) fn table(to_server: &Direction, to_client: &Direction) -> Table {
    let columns = [Column::text(""), Column::figures("client to server"), Column::figures("server to client")];
    let mut table = Table::new("", columns);
    for (a, b) in rows(to_server).into_iter().zip(rows(to_client)) {
        if a.value != Value::Null || b.value != Value::Null {
            let name = if a.under { Cell::part(&*a.label) } else { Cell::from(&*a.label) };
            table.push([name, cell(&a), cell(&b)]);
        }
    }
    table
}
