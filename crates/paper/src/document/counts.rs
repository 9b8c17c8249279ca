//! How often values occur, as bars.

use quantity::count;

use super::Table;

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
        let rows = self.rows.iter().map(|(value, n)| vec![value.clone(), count(*n)]).collect();
        Table { rows, ..Table::new(self.title.clone(), &[self.value, "count"]) }
    }
}
