//! Rows of a table on their way from disk: each of them by the names of its columns.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use parquet::column::reader::ColumnReader;
use parquet::data_type::ByteArray;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::reader::{FileReader as _, RowGroupReader, SerializedFileReader};

use crate::column::{Column, Kind};
use crate::{Error, SCHEMA};

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

/// Passes every row of a table to `each`, in the order they were written. Holds one row group in memory.
pub(crate) fn table<T>(
    run: &Path,
    name: &str,
    columns: &'static [Column<T>],
    read: fn(Row<'_>) -> Result<T, Bad>,
    mut each: impl FnMut(T),
) -> Result<(), Error> {
    for path in parts(run, name)? {
        let file = File::open(&path).map_err(|source| Error::Read { path: path.clone(), why: source })?;
        let reader = SerializedFileReader::new(file).map_err(|e| damaged(&path, e))?;
        let metadata = reader.metadata().file_metadata();
        let schema = metadata
            .key_value_metadata()
            .and_then(|pairs| pairs.iter().find(|p| p.key == "wirelapse.schema")?.value.as_ref()?.parse().ok())
            .ok_or_else(|| Error::Malformed {
                path: path.clone(),
                detail: "its metadata has no wirelapse.schema".into(),
            })?;
        if schema != SCHEMA {
            return Err(Error::Unsupported { path, found: schema });
        }
        for group in 0..reader.num_row_groups() {
            let group = reader.get_row_group(group).map_err(|e| damaged(&path, e))?;
            let loaded = loaded(&path, group.as_ref(), columns)?;
            for row in 0..usize::try_from(group.metadata().num_rows()).unwrap_or(0) {
                let value = read(Row { columns: &loaded, row });
                each(value.map_err(|bad| Error::Malformed {
                    path: path.clone(),
                    detail: format!("row {row} of a row group: column {} {}", bad.column, bad.what),
                })?);
            }
        }
    }
    Ok(())
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
/// The Parquet reader asserts some of what a file says (checked against version 60), and no file may end this program: so
/// offsets are looked at before, and what it asserts within the pages is caught.
fn loaded<T>(
    path: &Path,
    group: &dyn RowGroupReader,
    columns: &'static [Column<T>],
) -> Result<HashMap<&'static str, Loaded>, Error> {
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
    catch_unwind(AssertUnwindSafe(|| load(group, columns)))
        .unwrap_or_else(|_| Err(parquet::errors::ParquetError::General("a page says something impossible".into())))
        .map_err(|e| damaged(path, e))
}

enum Loaded {
    Numbers(Vec<Option<u64>>),
    Texts(Vec<Option<ByteArray>>),
    Reals(Vec<Option<f64>>),
    /// The file is of an earlier version, which had no such column; it may be null, so it is.
    Absent,
}

/// The known columns of a row group by name. Columns that a later version added are passed over.
fn load<T>(
    group: &dyn RowGroupReader,
    declared: &'static [Column<T>],
) -> parquet::errors::Result<HashMap<&'static str, Loaded>> {
    let rows = usize::try_from(group.metadata().num_rows()).unwrap_or(0);
    let mut loaded = HashMap::new();
    for (i, chunk) in group.metadata().columns().iter().enumerate() {
        let Some(column) = declared.iter().find(|c| c.name == chunk.column_descr().name()) else { continue };
        let nullable = chunk.column_descr().max_def_level() > 0;
        let mut levels = Vec::new();
        let values = match group.get_column_reader(i)? {
            ColumnReader::Int64ColumnReader(mut reader) => {
                let mut values = Vec::new();
                reader.read_records(rows, nullable.then_some(&mut levels), None, &mut values)?;
                let number = |n: i64| match column.kind {
                    Kind::Id => Some(n.cast_unsigned()),
                    // A negative number cannot be: it shows as missing, which the row's reading then says.
                    _ => u64::try_from(n).ok(),
                };
                let mut values = values.into_iter();
                Loaded::Numbers(match nullable {
                    true => levels.iter().map(|&l| if l > 0 { values.next().and_then(number) } else { None }).collect(),
                    false => values.map(number).collect(),
                })
            }
            ColumnReader::ByteArrayColumnReader(mut reader) => {
                let mut values = Vec::new();
                reader.read_records(rows, nullable.then_some(&mut levels), None, &mut values)?;
                let mut values = values.into_iter();
                Loaded::Texts(match nullable {
                    true => levels.iter().map(|&l| if l > 0 { values.next() } else { None }).collect(),
                    false => values.map(Some).collect(),
                })
            }
            ColumnReader::DoubleColumnReader(mut reader) => {
                let mut values = Vec::new();
                reader.read_records(rows, nullable.then_some(&mut levels), None, &mut values)?;
                let mut values = values.into_iter();
                Loaded::Reals(match nullable {
                    true => levels.iter().map(|&l| if l > 0 { values.next() } else { None }).collect(),
                    false => values.map(Some).collect(),
                })
            }
            _ => continue,
        };
        loaded.insert(column.name, values);
    }
    for column in declared.iter().filter(|c| c.nullable) {
        loaded.entry(column.name).or_insert(Loaded::Absent);
    }
    Ok(loaded)
}

/// A value of a row that is missing or cannot be.
pub(crate) struct Bad {
    pub column: String,
    pub what: &'static str,
}

/// One row of a row group that was read.
#[derive(Clone, Copy)]
pub(crate) struct Row<'a> {
    columns: &'a HashMap<&'static str, Loaded>,
    row: usize,
}

impl<'a> Row<'a> {
    pub fn bad(self, column: &str, what: &'static str) -> Bad {
        Bad { column: column.to_owned(), what }
    }

    pub fn number_or_null(self, column: &str) -> Result<Option<u64>, Bad> {
        match self.columns.get(column) {
            Some(Loaded::Numbers(values)) => {
                values.get(self.row).copied().ok_or_else(|| self.bad(column, "ends too early"))
            }
            Some(Loaded::Absent) => Ok(None),
            _ => Err(self.bad(column, "is not there, or is not a number")),
        }
    }

    pub fn number(self, column: &str) -> Result<u64, Bad> {
        self.number_or_null(column)?.ok_or_else(|| self.bad(column, "is null or negative"))
    }

    pub fn small(self, column: &str) -> Result<u32, Bad> {
        u32::try_from(self.number(column)?).map_err(|_| self.bad(column, "does not fit 32 bits"))
    }

    pub fn text_or_null(self, column: &str) -> Result<Option<&'a str>, Bad> {
        match self.columns.get(column) {
            Some(Loaded::Texts(values)) => match values.get(self.row) {
                None => Err(self.bad(column, "ends too early")),
                Some(None) => Ok(None),
                Some(Some(text)) => text.as_utf8().map(Some).map_err(|_| self.bad(column, "is not UTF-8")),
            },
            Some(Loaded::Absent) => Ok(None),
            _ => Err(self.bad(column, "is not there, or is not text")),
        }
    }

    pub fn text(self, column: &str) -> Result<&'a str, Bad> {
        self.text_or_null(column)?.ok_or_else(|| self.bad(column, "is null"))
    }

    pub fn real_or_null(self, column: &str) -> Result<Option<f64>, Bad> {
        match self.columns.get(column) {
            Some(Loaded::Reals(values)) => {
                values.get(self.row).copied().ok_or_else(|| self.bad(column, "ends too early"))
            }
            Some(Loaded::Absent) => Ok(None),
            _ => Err(self.bad(column, "is not there, or is not a real number")),
        }
    }

    pub fn owned(self, column: &str) -> Result<String, Bad> {
        self.text(column).map(str::to_owned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::column::Cell;
    use crate::part::write_whole;

    const EARLIER: &[Column<u64>] = &[Column::new("n", Kind::Int, |n| Cell::Number(*n))];
    const LATER: &[Column<u64>] = &[
        Column::new("n", Kind::Int, |n| Cell::Number(*n)),
        Column::or_null("text", Kind::Text, |_| Cell::Null),
        Column::or_null("time_ns", Kind::Time, |_| Cell::Null),
        Column::or_null("real", Kind::Real, |_| Cell::Null),
    ];
    const NEEDED: &[Column<u64>] = &[Column::new("other", Kind::Int, |n| Cell::Number(*n))];

    #[test]
    fn columns_that_came_later_are_null_where_they_may_be() {
        let dir = tempfile::tempdir().unwrap();
        assert!(write_whole(dir.path(), "t", EARLIER, &[7, 8]).is_ok());
        let mut found = Vec::new();
        let read = |row: Row<'_>| {
            assert_eq!((row.text_or_null("text")?, row.number_or_null("time_ns")?), (None, None));
            assert_eq!(row.real_or_null("real")?, None);
            row.number("n")
        };
        table(dir.path(), "t", LATER, read, |n| found.push(n)).unwrap();
        assert_eq!(found, [7, 8]);
        let error = table(dir.path(), "t", NEEDED, |row| row.number("other"), |_: u64| ()).unwrap_err();
        assert!(error.to_string().contains("column other is not there"), "{error}");
    }
}
