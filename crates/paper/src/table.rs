//! A table of typed cells: what a cell holds is known, and never read from its words.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use record::Nanos;

use crate::hue::Hue;
use crate::text::Text;

/// What a cell holds.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Text, in which hosts may be named.
    Text(Text),
    /// A figure with its unit, as it is written: for what has no kind of its own here.
    Figure(String),
    /// A number of things.
    Count(u64),
    /// How long something took.
    Time(Nanos),
    /// Bytes.
    Bytes(u64),
    /// Bits a second.
    BitRate(f64),
    /// A share of 1, in per cent.
    Share(f64),
    /// A share of 1 as a bar of that length.
    Bar(f64),
    /// No figure, and why there is none.
    Absent(&'static str),
}

/// A cell.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// What it holds.
    pub value: Value,
    /// How deep it is below the cell above it, which it is a part of: 0 for none.
    pub indent: u8,
}

/// Characters of the longest [`Value::Bar`].
const BAR: usize = 20;

impl Cell {
    const fn of(value: Value) -> Self {
        Self { value, indent: 0 }
    }

    /// Text that stands below the row above, as a part of it.
    pub fn part(text: impl Into<Text>) -> Self {
        Self { value: Value::Text(text.into()), indent: 1 }
    }

    /// A figure with its unit, as it is written.
    pub fn figure(text: impl Into<String>) -> Self {
        Self::of(Value::Figure(text.into()))
    }

    /// A number of things.
    pub fn count(n: impl Into<u64>) -> Self {
        Self::of(Value::Count(n.into()))
    }

    /// A time.
    pub const fn time(time: Nanos) -> Self {
        Self::of(Value::Time(time))
    }

    /// Bytes.
    pub const fn bytes(n: u64) -> Self {
        Self::of(Value::Bytes(n))
    }

    /// A rate, bits a second.
    pub const fn bit_rate(bits_per_second: f64) -> Self {
        Self::of(Value::BitRate(bits_per_second))
    }

    /// A share of 1.
    pub const fn share(share: f64) -> Self {
        Self::of(Value::Share(share))
    }

    /// A share of 1 as a bar.
    pub const fn bar(share: f64) -> Self {
        Self::of(Value::Bar(share))
    }

    /// No figure, and why.
    pub const fn absent(why: &'static str) -> Self {
        Self::of(Value::Absent(why))
    }

    /// The cell of a value that may be missing, or why it is.
    pub fn or<T>(value: Option<T>, of: impl FnOnce(T) -> Self, why: &'static str) -> Self {
        value.map_or(Self::absent(why), of)
    }

    /// A time that may be missing, or why it is.
    pub fn time_or(time: Option<Nanos>, why: &'static str) -> Self {
        Self::or(time, Self::time, why)
    }

    /// A number of nanoseconds that may be missing, or why it is.
    pub fn ns_or(ns: Option<u64>, why: &'static str) -> Self {
        Self::time_or(ns.map(Nanos), why)
    }

    /// Whether nothing is written in it.
    pub fn is_empty(&self) -> bool {
        matches!(&self.value, Value::Text(text) if text.is_empty())
    }

    /// The text in it, in which hosts may be named.
    pub fn text_mut(&mut self) -> Option<&mut Text> {
        match &mut self.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => text.fmt(f),
            Self::Figure(text) => f.write_str(text),
            Self::Count(n) => f.write_str(&quantity::count(*n)),
            Self::Time(time) => time.fmt(f),
            Self::Bytes(n) => f.write_str(&quantity::bytes(*n)),
            Self::BitRate(rate) => f.write_str(&quantity::bit_rate(*rate)),
            Self::Share(share) => f.write_str(&quantity::percent(*share)),
            Self::Bar(share) => f.write_str(&"█".repeat((share.clamp(0.0, 1.0) * BAR as f64).round() as usize)),
            Self::Absent(_) => f.write_str("—"),
        }
    }
}

/// As text: what is a part begins with a dot.
impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (0..self.indent).try_for_each(|_| f.write_str("· "))?;
        self.value.fmt(f)
    }
}

impl Default for Cell {
    fn default() -> Self {
        Self::of(Value::Text(Text::default()))
    }
}

impl From<Text> for Cell {
    fn from(text: Text) -> Self {
        Self::of(Value::Text(text))
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Text::from(text).into()
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Text::from(text).into()
    }
}

impl From<&String> for Cell {
    fn from(text: &String) -> Self {
        Text::from(text).into()
    }
}

impl From<IpAddr> for Cell {
    fn from(at: IpAddr) -> Self {
        Text::from(at).into()
    }
}

impl From<SocketAddr> for Cell {
    fn from(at: SocketAddr) -> Self {
        Text::from(at).into()
    }
}

impl From<Nanos> for Cell {
    fn from(time: Nanos) -> Self {
        Self::time(time)
    }
}

/// A column: its name, what it holds and how it is set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Whether it holds figures, which are set to the right.
    pub figures: bool,
    /// Whether a terminal that is too narrow goes without it, and when: the lowest number first.
    pub spare: Option<u8>,
}

impl Column {
    /// A column of text.
    pub fn text(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    /// A column of figures.
    pub fn figures(name: impl Into<String>) -> Self {
        Self { name: name.into(), figures: true, spare: None }
    }

    /// One that a terminal which is too narrow goes without, the lowest number first.
    #[must_use]
    pub fn spare(self, order: u8) -> Self {
        Self { spare: Some(order), ..self }
    }
}

/// A column of text.
impl From<&str> for Column {
    fn from(name: &str) -> Self {
        Self::text(name)
    }
}

/// A column of text.
impl From<String> for Column {
    fn from(name: String) -> Self {
        Self::text(name)
    }
}

/// A row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// As many cells as there are columns.
    pub cells: Vec<Cell>,
    /// The colour of the first cell.
    pub hue: Option<Hue>,
    /// A shorter first cell, for a terminal that is too narrow.
    pub brief: Option<Text>,
    /// Paragraphs under the row, over the whole width.
    pub notes: Vec<Text>,
    /// Its name as a place of a page, which points of plots link to.
    pub anchor: Option<String>,
}

impl<C: Into<Cell>> From<Vec<C>> for Row {
    fn from(cells: Vec<C>) -> Self {
        Self::of(cells)
    }
}

impl<C: Into<Cell>, const N: usize> From<[C; N]> for Row {
    fn from(cells: [C; N]) -> Self {
        Self::of(cells)
    }
}

impl Row {
    /// One of these cells.
    pub fn of(cells: impl IntoIterator<Item = impl Into<Cell>>) -> Self {
        Self { cells: cells.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    /// Its first cell in this colour.
    #[must_use]
    pub fn in_hue(self, hue: Option<Hue>) -> Self {
        Self { hue, ..self }
    }

    /// With a shorter first cell for a terminal that is too narrow.
    #[must_use]
    pub fn or_brief(self, brief: impl Into<Text>) -> Self {
        Self { brief: Some(brief.into()), ..self }
    }

    /// With paragraphs under it.
    #[must_use]
    pub fn noted(self, notes: impl IntoIterator<Item = impl Into<Text>>) -> Self {
        Self { notes: notes.into_iter().map(Into::into).collect(), ..self }
    }
}

/// A table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// What it shows.
    pub title: String,
    /// What it is of, or how it is made, such as `n = 5 blocks`: shown in parentheses behind the
    /// title. It may differ from report to report, so no link has it.
    pub basis: String,
    /// Its columns.
    pub columns: Vec<Column>,
    /// The rows.
    pub rows: Vec<Row>,
    /// How many rows a terminal shows, where it is not to show all.
    pub shown: Option<usize>,
    /// What a terminal shows under those in place of the rest, as one row.
    pub rest: Option<Row>,
    /// Where the other rows are; a terminal says it under those that it shows. Empty: on a page of
    /// the run.
    pub elsewhere: String,
}

impl Table {
    /// One of these columns without rows.
    pub fn new(title: impl Into<String>, columns: impl IntoIterator<Item = impl Into<Column>>) -> Self {
        Self { title: title.into(), columns: columns.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    /// With what it is of, or how it is made.
    #[must_use]
    pub fn with_basis(self, basis: impl Into<String>) -> Self {
        Self { basis: basis.into(), ..self }
    }

    /// What stands above it.
    pub fn heading(&self) -> String {
        if self.basis.is_empty() { self.title.clone() } else { format!("{} ({})", self.title, self.basis) }
    }

    /// Adds a row.
    pub fn push(&mut self, row: impl Into<Row>) {
        self.rows.push(row.into());
    }

    /// Adds rows.
    pub fn extend(&mut self, rows: impl IntoIterator<Item = impl Into<Row>>) {
        self.rows.extend(rows.into_iter().map(Into::into));
    }

    /// The place of the column of this name.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }

    /// The columns that can be spared, in the order in which they go.
    pub fn in_order_of_sparing(&self) -> impl Iterator<Item = usize> {
        let mut spare: Vec<(u8, usize)> =
            self.columns.iter().enumerate().filter_map(|(i, column)| Some((column.spare?, i))).collect();
        spare.sort_unstable();
        spare.into_iter().map(|(_, i)| i)
    }

    /// The row as it is written, cell by cell.
    pub fn written(&self, row: usize) -> Vec<String> {
        self.rows.get(row).map_or_else(Vec::new, |row| row.cells.iter().map(Cell::to_string).collect())
    }

    /// Every text in which hosts may be named.
    pub(crate) fn texts_mut(&mut self) -> impl Iterator<Item = &mut Text> {
        self.rows
            .iter_mut()
            .chain(&mut self.rest)
            .flat_map(|row| row.cells.iter_mut().filter_map(Cell::text_mut).chain(&mut row.brief).chain(&mut row.notes))
    }
}
