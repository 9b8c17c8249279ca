//! A table of words and figures.

/// A table of words and figures.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// What it shows.
    pub title: String,
    /// Names of the columns.
    pub head: Vec<String>,
    /// The rows; as many cells as there are names.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// One of this head without rows.
    pub fn new(title: impl Into<String>, head: &[&str]) -> Self {
        Self { title: title.into(), head: head.iter().map(|h| (*h).to_owned()).collect(), rows: Vec::new() }
    }
}
