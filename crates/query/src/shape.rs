//! What a part on disk must look like to be read as rows of a table.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema};

use crate::catalog::Shape;

/// What kind of value a type holds, as far as one can stand for the other.
#[derive(Debug, PartialEq, Eq)]
enum Sort {
    Number,
    Text,
    Time,
    Other,
}

fn sort(kind: &DataType) -> Sort {
    match kind {
        kind if kind.is_numeric() => Sort::Number,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Binary | DataType::BinaryView => {
            Sort::Text
        }
        DataType::Dictionary(_, value) => sort(value),
        DataType::Timestamp(..) => Sort::Time,
        _ => Sort::Other,
    }
}

/// What keeps a part with these columns from being read as this table; `None` where nothing does. A
/// column that can be null may be missing, and one that the table does not have is skipped.
pub fn obstacle(shape: &Shape, part: &Schema) -> Option<String> {
    if let Some(missing) = shape.required.iter().find(|name| part.field_with_name(name).is_err()) {
        return Some(format!("it has no column {missing}, as {} have", shape.name));
    }
    for field in part.fields() {
        let Ok(wanted) = shape.stored.field_with_name(field.name()) else { continue };
        let (found, expected) = (sort(field.data_type()), sort(wanted.data_type()));
        // In schema 1 the flags of a packet are a number; [`crate::flags`] reads them.
        let flags = shape.name == "packets" && field.name() == "flags" && found == Sort::Number;
        if found != expected && !flags {
            return Some(format!("its column {} is {}, not {}", field.name(), field.data_type(), wanted.data_type()));
        }
    }
    None
}

/// What is stored of this table in runs of schema 1.
pub fn first_schema(shape: &Shape) -> Schema {
    let number = |field: &FieldRef| match (shape.name, field.name().as_str()) {
        ("packets", "flags") => Arc::new(Field::new("flags", DataType::Int64, true)),
        _ => field.clone(),
    };
    Schema::new(shape.stored.fields().iter().map(number).collect::<Vec<_>>())
}
