//! How often values occur, as bars.

use super::{Cell, Column, Table};

/// A row for each value, or range of values, with how often it occurs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// What is counted; may be empty.
    pub title: String,
    /// Name of the values.
    pub value: &'static str,
    /// The rows.
    pub rows: Vec<(String, u64)>,
}

impl Counts {
    /// The same as a table.
    pub fn table(&self) -> Table {
        let mut table = Table::new(self.title.clone(), [Column::text(self.value), Column::figures("count")]);
        table.extend(self.rows.iter().map(|(value, n)| [Cell::from(value), Cell::count(*n)]));
        table
    }
}
