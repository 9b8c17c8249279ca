//! Columns of a table: their names, their types, and the values on the way to and from Parquet.

use std::borrow::Cow;
use std::sync::Arc;

use parquet::basic::{Compression, Encoding, LogicalType, Repetition, Type as Physical};
use parquet::data_type::ByteArray;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{WriterProperties, WriterVersion};
use parquet::schema::types::{ColumnPath, Type, TypePtr};

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A whole number, Parquet `INT64`. Values from 2^63 up are held at 2^63 − 1.
    Int,
    /// A moment or a duration in nanoseconds: an [`Kind::Int`], stored as differences.
    Time,
    /// A number that identifies, Parquet `INT64` unsigned: all 64 bits are kept.
    Id,
    /// UTF-8 text.
    Text,
    /// A real number, Parquet `DOUBLE`.
    Real,
}

/// One value on its way into a column.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell<'a> {
    /// None.
    Null,
    /// For [`Kind::Int`], [`Kind::Time`] and [`Kind::Id`].
    Number(u64),
    /// For [`Kind::Text`].
    Text(Cow<'a, str>),
    /// For [`Kind::Real`].
    Real(f64),
}

impl<'a> From<&'a str> for Cell<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(Cow::Borrowed(text))
    }
}

/// What is not a number is none.
impl From<Option<f64>> for Cell<'_> {
    fn from(value: Option<f64>) -> Self {
        value.filter(|v| v.is_finite()).map_or(Self::Null, Self::Real)
    }
}

impl From<Option<u64>> for Cell<'_> {
    fn from(value: Option<u64>) -> Self {
        value.map_or(Self::Null, Self::Number)
    }
}

/// A column of a table of `T`.
pub struct Column<T: 'static> {
    /// Its name; a unit is its suffix.
    pub name: &'static str,
    /// Its type.
    pub kind: Kind,
    /// Whether it may be null.
    pub nullable: bool,
    /// Takes its value from a row.
    pub(crate) of: for<'a> fn(&'a T) -> Cell<'a>,
}

impl<T> Column<T> {
    pub(crate) const fn new(name: &'static str, kind: Kind, of: for<'a> fn(&'a T) -> Cell<'a>) -> Self {
        Self { name, kind, nullable: false, of }
    }

    pub(crate) const fn or_null(name: &'static str, kind: Kind, of: for<'a> fn(&'a T) -> Cell<'a>) -> Self {
        Self { name, kind, nullable: true, of }
    }
}

/// The Parquet schema of a table.
pub(crate) fn schema<T>(table: &str, columns: &[Column<T>]) -> parquet::errors::Result<TypePtr> {
    let fields = columns
        .iter()
        .map(|column| {
            let (physical, logical) = match column.kind {
                Kind::Int | Kind::Time => (Physical::INT64, None),
                Kind::Id => (Physical::INT64, Some(LogicalType::integer(64, false))),
                Kind::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
                Kind::Real => (Physical::DOUBLE, None),
            };
            let repetition = if column.nullable { Repetition::OPTIONAL } else { Repetition::REQUIRED };
            Type::primitive_type_builder(column.name, physical)
                .with_repetition(repetition)
                .with_logical_type(logical)
                .build()
                .map(Arc::new)
        })
        .collect::<parquet::errors::Result<Vec<_>>>()?;
    Type::group_type_builder(table).with_fields(fields).build().map(Arc::new)
}

/// How the files are written: encodings that every reader of the last years knows.
pub(crate) fn properties<T>(table: &str, columns: &[Column<T>]) -> WriterProperties {
    let mut properties = WriterProperties::builder()
        .set_writer_version(WriterVersion::PARQUET_1_0)
        .set_compression(Compression::SNAPPY)
        .set_created_by(format!("wirelapse {}", env!("CARGO_PKG_VERSION")))
        .set_key_value_metadata(Some(vec![
            KeyValue::new("wirelapse.schema".to_owned(), crate::SCHEMA.to_string()),
            KeyValue::new("wirelapse.table".to_owned(), table.to_owned()),
        ]));
    for column in columns.iter().filter(|c| c.kind == Kind::Time) {
        let path = ColumnPath::from(column.name);
        properties = properties
            .set_column_dictionary_enabled(path.clone(), false)
            .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
    }
    properties.build()
}

/// The values of one column that wait to be written: those that are there, and for each row whether it is.
pub(crate) struct Buffer {
    pub values: Values,
    pub levels: Vec<i16>,
}

pub(crate) enum Values {
    Numbers(Vec<i64>),
    Texts(Vec<ByteArray>),
    Reals(Vec<f64>),
}

impl Buffer {
    pub fn new(kind: Kind) -> Self {
        let values = match kind {
            Kind::Int | Kind::Time | Kind::Id => Values::Numbers(Vec::new()),
            Kind::Text => Values::Texts(Vec::new()),
            Kind::Real => Values::Reals(Vec::new()),
        };
        Self { values, levels: Vec::new() }
    }

    /// A null in a column without nulls, or text in a column of numbers, is a fault of a column's declaration; it
    /// becomes zero or empty text, and the round-trip test shows it.
    pub fn push(&mut self, cell: Cell<'_>, kind: Kind, nullable: bool) {
        if nullable {
            self.levels.push(i16::from(cell != Cell::Null));
            if cell == Cell::Null {
                return;
            }
        }
        match &mut self.values {
            Values::Numbers(numbers) => numbers.push(match (cell, kind) {
                (Cell::Number(n), Kind::Id) => n.cast_signed(),
                (Cell::Number(n), _) => i64::try_from(n).unwrap_or(i64::MAX),
                _ => 0,
            }),
            Values::Texts(texts) => texts.push(match cell {
                Cell::Text(text) => ByteArray::from(text.into_owned().into_bytes()),
                _ => ByteArray::from(Vec::new()),
            }),
            Values::Reals(reals) => reals.push(match cell {
                Cell::Real(value) => value,
                _ => f64::NAN,
            }),
        }
    }

    pub fn clear(&mut self) {
        self.levels.clear();
        match &mut self.values {
            Values::Numbers(numbers) => numbers.clear(),
            Values::Texts(texts) => texts.clear(),
            Values::Reals(reals) => reals.clear(),
        }
    }
}
