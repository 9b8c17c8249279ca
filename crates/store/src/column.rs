//! Columns of a table in Parquet: their types, and the values on the way there.

use std::borrow::Cow;
use std::sync::Arc;

use parquet::basic::{Compression, Encoding, LogicalType, Repetition, TimeUnit, Type as Physical};
use parquet::data_type::ByteArray;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{WriterProperties, WriterVersion};
use parquet::schema::types::{ColumnPath, Type, TypePtr};
use record::table::{Cell, Column, Kind, Record, Value};

/// The Parquet schema of a table.
pub(crate) fn schema<T: Record>() -> parquet::errors::Result<TypePtr> {
    let fields = T::COLUMNS
        .iter()
        .map(|column| {
            let (physical, logical) = match column.kind {
                Kind::Number | Kind::Moment | Kind::Duration | Kind::Signed | Kind::Flag => (Physical::INT64, None),
                Kind::Time => (Physical::INT64, Some(LogicalType::timestamp(true, TimeUnit::MICROS))),
                Kind::Id => (Physical::INT64, Some(LogicalType::integer(64, false))),
                Kind::Text | Kind::Word | Kind::Json => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
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
    // Of times and sizes the differences are written: a dictionary of them costs more than it
    // saves.
    for column in T::COLUMNS.iter().filter(|c| is_measured(c)) {
        let path = ColumnPath::from(column.name);
        properties = properties
            .set_column_dictionary_enabled(path.clone(), false)
            .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
    }
    properties.build()
}

/// Whether it is a time or a size, and no identity: its name ends in a unit.
fn is_measured<T>(column: &Column<T>) -> bool {
    let units = ["_ns", "bytes", "_segments", "_per_second", "_seq"];
    matches!(column.kind, Kind::Number | Kind::Signed | Kind::Moment | Kind::Duration)
        && units.iter().any(|u| column.name.ends_with(u))
}

/// The values of one column that wait to be written: those that are there, and for each row whether
/// it is.
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
            Kind::Text | Kind::Word | Kind::Json => Values::Texts(Vec::new()),
            Kind::Real => Values::Reals(Vec::new()),
            Kind::Id | Kind::Number | Kind::Moment | Kind::Duration | Kind::Time | Kind::Signed | Kind::Flag => {
                Values::Numbers(Vec::new())
            }
        };
        Self { values, levels: Vec::new() }
    }

    /// A null in a column without nulls, or a value of another type, is a fault of the field's line
    /// in its table; it becomes zero or empty text, and the round-trip test shows it.
    #[inline]
    pub fn push<C: Cell>(&mut self, value: &C) {
        let value = value.value();
        if C::NULLABLE {
            self.levels.push(i16::from(value != Value::Null));
            if value == Value::Null {
                return;
            }
        }
        match &mut self.values {
            Values::Numbers(numbers) => numbers.push(match value {
                Value::Number(n) if matches!(C::KIND, Kind::Id | Kind::Signed) => n.cast_signed(),
                Value::Number(n) => i64::try_from(n).unwrap_or(i64::MAX),
                Value::Flag(flag) => flag.into(),
                _ => 0,
            }),
            Values::Texts(texts) => {
                let text = match value {
                    Value::Text(text) => text,
                    Value::Json(json) => json.to_string().into(),
                    _ => Cow::default(),
                };
                // One row's text is mostly that of the row before: the two share it.
                let same = texts.last().filter(|last| last.data() == text.as_bytes()).cloned();
                texts.push(same.unwrap_or_else(|| ByteArray::from(text.into_owned().into_bytes())));
            }
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
