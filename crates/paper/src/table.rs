//! A table of words and figures.

use crate::hue::Hue;

/// A table of words and figures.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// What it shows.
    pub title: String,
    /// Names of the columns.
    pub head: Vec<String>,
    /// The rows; as many cells as there are names.
    pub rows: Vec<Vec<String>>,
    /// Colours of the rows' first cells, where rows have one.
    pub hues: Vec<Option<Hue>>,
    /// Shorter first cells of the rows, for a terminal that is too narrow; none where there are none.
    pub brief: Vec<String>,
    /// Columns by name that go where it is still too narrow, the first one first.
    pub spare: Vec<&'static str>,
    /// Sentences under the rows, over the whole width: paragraphs of the first row, of the second, and so on.
    pub notes: Vec<Vec<String>>,
    /// Names of the rows as places of a page, which points of plots link to; none where there are none.
    pub anchors: Vec<String>,
    /// How many rows a terminal shows, where it is not to show all.
    pub shown: Option<usize>,
    /// What a terminal shows under those in place of the rest, as one row.
    pub rest: Option<Vec<String>>,
    /// Where the other rows are; a terminal says it under those that it shows. Empty: on a page of the run.
    pub elsewhere: String,
}

impl Table {
    /// One of this head without rows.
    pub fn new(title: impl Into<String>, head: &[&str]) -> Self {
        Self { title: title.into(), head: head.iter().map(|h| (*h).to_owned()).collect(), ..Self::default() }
    }

    /// Adds a row with sentences under it.
    pub fn noted(&mut self, row: Vec<String>, notes: Vec<String>) {
        self.notes.resize(self.rows.len(), Vec::new());
        self.rows.push(row);
        self.notes.push(notes);
    }

    /// Whether a column holds figures, which are set to the right.
    pub fn is_figures(&self, column: usize) -> bool {
        !self.rows.is_empty() && self.rows.iter().filter_map(|r| r.get(column)).all(|c| c.is_empty() || is_figure(c))
    }
}

/// Whether a cell is a figure.
fn is_figure(cell: &str) -> bool {
    // A sentence can begin with a number too, and so does an address.
    cell.chars().count() <= 28
        && !cell.contains(':')
        && cell.matches('.').count() < 2
        && cell.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '−' | '-' | '+' | '—' | '<' | '>' | '≤'))
}
