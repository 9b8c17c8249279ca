//! Columns of a table in Parquet: their types, and the values on the way there.

use std::sync::Arc;

use parquet::basic::{Compression, Encoding, LogicalType, Repetition, Type as Physical};
use parquet::data_type::ByteArray;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{WriterProperties, WriterVersion};
use parquet::schema::types::{ColumnPath, Type, TypePtr};
use record::table::{Column, Kind, Record, Value};

/// The Parquet schema of a table.
pub(crate) fn schema<T: Record>() -> parquet::errors::Result<TypePtr> {
    let fields = T::COLUMNS
        .iter()
        .map(|column| {
            let (physical, logical) = match column.kind {
                Kind::Number | Kind::Moment | Kind::Duration | Kind::Flag => (Physical::INT64, None),
                Kind::Id => (Physical::INT64, Some(LogicalType::integer(64, false))),
                Kind::Text | Kind::Word => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
                Kind::Real => (Physical::DOUBLE, None),
            };
            let repetition = if column.null.is_some() { Repetition::OPTIONAL } else { Repetition::REQUIRED };
            Type::primitive_type_builder(column.name, physical)
                .with_repetition(repetition)
                .with_logical_type(logical)
                .build()
                .map(Arc::new)
        })
        .collect::<parquet::errors::Result<Vec<_>>>()?;
    Type::group_type_builder(T::TABLE).with_fields(fields).build().map(Arc::new)
}

/// How the files are written: encodings that every reader of the last years knows.
pub(crate) fn properties<T: Record>() -> WriterProperties {
    let mut properties = WriterProperties::builder()
        .set_writer_version(WriterVersion::PARQUET_1_0)
        .set_compression(Compression::SNAPPY)
        .set_created_by(format!("wirelapse {}", env!("CARGO_PKG_VERSION")))
        .set_key_value_metadata(Some(vec![
            KeyValue::new("wirelapse.schema".to_owned(), crate::SCHEMA.to_string()),
            KeyValue::new("wirelapse.table".to_owned(), T::TABLE.to_owned()),
        ]));
    // Times follow each other: their differences are small.
    for column in T::COLUMNS.iter().filter(|c| c.name.ends_with("_ns") && c.kind != Kind::Real) {
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
    pub fn new<T>(column: &Column<T>) -> Self {
        let values = match column.kind {
            Kind::Text | Kind::Word => Values::Texts(Vec::new()),
            Kind::Real => Values::Reals(Vec::new()),
            Kind::Id | Kind::Number | Kind::Moment | Kind::Duration | Kind::Flag => Values::Numbers(Vec::new()),
        };
        Self { values, levels: Vec::new() }
    }

    /// A null in a column without nulls, or a value of another type, is a fault of the field's line in its table; it becomes zero or
    /// empty text, and the round-trip test shows it.
    pub fn push<T>(&mut self, value: Value<'_>, column: &Column<T>) {
        if column.null.is_some() {
            self.levels.push(i16::from(value != Value::Null));
            if value == Value::Null {
                return;
            }
        }
        match &mut self.values {
            Values::Numbers(numbers) => numbers.push(match (value, column.kind) {
                (Value::Number(n), Kind::Id) => n.cast_signed(),
                (Value::Number(n), _) => i64::try_from(n).unwrap_or(i64::MAX),
                (Value::Flag(flag), _) => flag.into(),
                _ => 0,
            }),
            Values::Texts(texts) => texts.push(match value {
                Value::Text(text) => ByteArray::from(text.into_owned().into_bytes()),
                _ => ByteArray::from(Vec::new()),
            }),
            Values::Reals(reals) => reals.push(match value {
                Value::Real(value) => value,
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
