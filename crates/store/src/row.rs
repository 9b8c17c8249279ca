//! Rows of a table on their way from disk, by the names of its columns.

use std::fs;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use parquet::column::reader::ColumnReader;
use parquet::data_type::ByteArray;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::reader::{FileReader as _, RowGroupReader, SerializedFileReader};

use record::table::{Kind, Record, Value};

use crate::{EARLIEST_SCHEMA, Error, SCHEMA, regular};

/// The finished parts of a table, in order.
fn parts(run: &Path, table: &str) -> Result<Vec<PathBuf>, Error> {
    let dir = run.join(format!("{table}.parquet"));
    let list = || -> io::Result<Vec<PathBuf>> {
        let mut parts = fs::read_dir(&dir)?.map(|e| Ok(e?.path())).collect::<io::Result<Vec<_>>>()?;
        parts.retain(|p| p.extension().is_some_and(|e| e == "parquet"));
        parts.sort();
        Ok(parts)
    };
    list().map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => Error::NoTable { run: run.to_owned(), table: table.to_owned() },
        _ => Error::Read { path: dir.clone(), why: source },
    })
}

/// Passes every row of a table to `each`, in the order they were written. Holds one row group in
/// memory.
pub(crate) fn table<T: Record>(run: &Path, mut each: impl FnMut(T)) -> Result<(), Error> {
    for path in parts(run, T::TABLE)? {
        let file = regular::open(&path).map_err(|source| Error::Read { path: path.clone(), why: source })?;
        let reader = SerializedFileReader::new(file).map_err(|e| damaged(&path, e))?;
        let metadata = reader.metadata().file_metadata();
        let schema = metadata
            .key_value_metadata()
            .and_then(|pairs| pairs.iter().find(|p| p.key == "wirelapse.schema")?.value.as_ref()?.parse().ok())
            .ok_or_else(|| Error::Malformed {
                path: path.clone(),
                detail: "its metadata has no wirelapse.schema".into(),
            })?;
        if !(EARLIEST_SCHEMA..=SCHEMA).contains(&schema) {
            return Err(Error::Unsupported { path, found: schema });
        }
        for group in 0..reader.num_row_groups() {
            let group = reader.get_row_group(group).map_err(|e| damaged(&path, e))?;
            let loaded = loaded::<T>(&path, group.as_ref())?;
            for row in 0..usize::try_from(group.metadata().num_rows()).unwrap_or(0) {
                each(read(&loaded, row).map_err(|(column, what)| Error::Malformed {
                    path: path.clone(),
                    detail: format!("row {row} of a row group: column {column} {what}"),
                })?);
            }
        }
    }
    Ok(())
}

/// One row; or the name of a column, and what is wrong with its value.
fn read<T: Record>(loaded: &[Loaded], row: usize) -> Result<T, (&'static str, &'static str)> {
    let mut record = T::blank();
    for (column, loaded) in T::COLUMNS.iter().zip(loaded) {
        let Some(set) = column.set else { continue };
        let value = loaded.value(row).and_then(|value| match value {
            Value::Null if column.null.is_none() => Err("is null or negative"),
            value => set(&mut record, value),
        });
        value.map_err(|what| (column.name, what))?;
    }
    Ok(record)
}

fn damaged(path: &Path, error: parquet::errors::ParquetError) -> Error {
    let (path, detail) = (path.to_owned(), error.to_string());
    match error {
        parquet::errors::ParquetError::EOF(_) => Error::Truncated { path, detail },
        parquet::errors::ParquetError::External(inner) => match inner.downcast::<io::Error>() {
            Ok(source) if source.kind() != io::ErrorKind::UnexpectedEof => Error::Read { path, why: *source },
            _ => Error::Truncated { path, detail },
        },
        _ => Error::Malformed { path, detail },
    }
}

/// The columns of a row group, where the file says nothing impossible of them.
///
/// The Parquet reader asserts some of what a file says (checked against version 60), and no file
/// may end this program: so offsets are checked before, and what it asserts within the pages is
/// caught.
fn loaded<T: Record>(path: &Path, group: &dyn RowGroupReader) -> Result<Vec<Loaded>, Error> {
    let malformed = |detail: &str| Error::Malformed { path: path.to_owned(), detail: detail.into() };
    let metadata = group.metadata();
    let impossible = |chunk: &ColumnChunkMetaData| {
        chunk.data_page_offset() < 0
            || chunk.dictionary_page_offset().is_some_and(|offset| offset < 0)
            || chunk.compressed_size() < 0
            || chunk.num_values() != metadata.num_rows()
    };
    if metadata.num_rows() < 0 || metadata.columns().iter().any(impossible) {
        return Err(malformed("a column of a row group has an impossible place or length"));
    }
    catch_unwind(AssertUnwindSafe(|| load::<T>(group)))
        .unwrap_or_else(|_| Err(parquet::errors::ParquetError::General("a page says something impossible".into())))
        .map_err(|e| damaged(path, e))
}

enum Loaded {
    Numbers(Vec<Option<u64>>),
    Texts(Vec<Option<ByteArray>>),
    Reals(Vec<Option<f64>>),
    /// The file has no such column, as one of an earlier version; it may be null, so it is.
    Absent,
    /// The file has no such column, or one of another type, and it may not be null.
    Missing,
}

impl Loaded {
    fn value(&self, row: usize) -> Result<Value<'_>, &'static str> {
        const SHORT: &str = "ends too early";
        Ok(match self {
            Self::Numbers(values) => values.get(row).ok_or(SHORT)?.map_or(Value::Null, Value::Number),
            Self::Texts(values) => match values.get(row).ok_or(SHORT)? {
                Some(text) => Value::Text(text.as_utf8().map_err(|_| "is not UTF-8")?.into()),
                None => Value::Null,
            },
            Self::Reals(values) => values.get(row).ok_or(SHORT)?.map_or(Value::Null, Value::Real),
            Self::Absent => Value::Null,
            Self::Missing => return Err("is not there, or is of another type"),
        })
    }
}

/// The columns of a row group in the order of the field table. Columns that a later version added
/// are skipped.
fn load<T: Record>(group: &dyn RowGroupReader) -> parquet::errors::Result<Vec<Loaded>> {
    let rows = usize::try_from(group.metadata().num_rows()).unwrap_or(0);
    let missing = |null: Option<_>| if null.is_some() { Loaded::Absent } else { Loaded::Missing };
    let mut loaded: Vec<Loaded> = T::COLUMNS.iter().map(|column| missing(column.null)).collect();
    for (i, chunk) in group.metadata().columns().iter().enumerate() {
        let name = chunk.column_descr().name();
        // What is derived from other fields is derived again.
        let Some(at) = T::COLUMNS.iter().position(|c| (c.name == name || c.former == Some(name)) && c.set.is_some())
        else {
            continue;
        };
        let nullable = chunk.column_descr().max_def_level() > 0;
        let mut levels = Vec::new();
        loaded[at] = match group.get_column_reader(i)? {
            ColumnReader::Int64ColumnReader(mut reader) => {
                let mut values = Vec::new();
                reader.read_records(rows, nullable.then_some(&mut levels), None, &mut values)?;
                let number = |n: i64| match T::COLUMNS[at].kind {
                    Kind::Id | Kind::Signed => Some(n.cast_unsigned()),
                    // A negative number cannot be: it shows as missing, which the row's reading
                    // then says.
                    _ => u64::try_from(n).ok(),
                };
                Loaded::Numbers(with_nulls(values, nullable.then_some(&levels)).map(|n| n.and_then(number)).collect())
            }
            ColumnReader::ByteArrayColumnReader(mut reader) => {
                let mut values = Vec::new();
                reader.read_records(rows, nullable.then_some(&mut levels), None, &mut values)?;
                Loaded::Texts(with_nulls(values, nullable.then_some(&levels)).collect())
            }
            ColumnReader::DoubleColumnReader(mut reader) => {
                let mut values = Vec::new();
                reader.read_records(rows, nullable.then_some(&mut levels), None, &mut values)?;
                Loaded::Reals(with_nulls(values, nullable.then_some(&levels)).collect())
            }
            _ => continue,
        };
    }
    Ok(loaded)
}

/// The values of a column with `None` where its levels say that there is none.
fn with_nulls<V>(values: Vec<V>, levels: Option<&Vec<i16>>) -> impl Iterator<Item = Option<V>> {
    let n = levels.map_or(values.len(), Vec::len);
    let mut values = values.into_iter();
    (0..n).map(move |i| if levels.is_none_or(|levels| levels[i] > 0) { values.next() } else { None })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::part::write_whole;

    /// The same table as three versions have it.
    struct Earlier(u64);
    #[derive(Debug, PartialEq)]
    struct Later {
        n: u64,
        text: Option<String>,
        time: Option<u64>,
        real: Option<f64>,
    }
    #[derive(Debug)]
    struct Needed(u64);
    struct Renamed {
        count: u64,
    }

    record::columns! {
        Earlier: "t", "", blank = Earlier(0);
        n = |r| r.0, set |r, v| { r.0 = record::table::number(v)?; Ok(()) }, "a number";
    }
    record::columns! {
        Later: "t", "", blank = Later { n: 0, text: Some("x".into()), time: Some(1), real: Some(1.0) };
        n = n, "a number";
        text = text, null "it came later", "text";
        time_ns = time, null "it came later", "a time";
        real = real, null "it came later", "a real number";
    }
    record::columns! {
        Needed: "t", "", blank = Needed(0);
        other = |r| r.0, set |r, v| { r.0 = record::table::number(v)?; Ok(()) }, "another number";
    }

    record::columns! {
        Renamed: "t", "", blank = Renamed { count: 0 };
        count = count, formerly "n", "the number by its later name";
    }

    #[test]
    fn a_column_is_read_by_its_former_name_too() {
        let dir = tempfile::tempdir().unwrap();
        assert!(write_whole(dir.path(), &[Earlier(7), Earlier(8)]).is_ok());
        let mut found = Vec::new();
        table(dir.path(), |renamed: Renamed| found.push(renamed.count)).unwrap();
        assert_eq!(found, [7, 8]);
    }

    #[test]
    fn columns_that_came_later_are_null_where_they_may_be() {
        let dir = tempfile::tempdir().unwrap();
        assert!(write_whole(dir.path(), &[Earlier(7), Earlier(8)]).is_ok());
        let mut found = Vec::new();
        table(dir.path(), |later: Later| found.push(later)).unwrap();
        assert_eq!(found, [7, 8].map(|n| Later { n, text: None, time: None, real: None }));
        let error = table(dir.path(), |_: Needed| ()).unwrap_err();
        assert!(error.to_string().contains("column other is not there"), "{error}");
    }
}
