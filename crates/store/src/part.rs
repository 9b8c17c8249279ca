//! One table on its way to disk: rows are buffered and written in row groups to a file, which is
//! closed and gets its name when it is due.

use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use files::{OutputFile, Readers};
use parquet::column::writer::ColumnWriter;
use parquet::file::properties::WriterPropertiesPtr;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::TypePtr;
use record::Nanos;
use record::table::{Cell, Fields, Record};

use crate::Error;
use crate::column::{Buffer, Values, properties, schema};

/// Rows that are held in memory before they are written out as a row group. A row of the widest
/// table takes about 350 bytes of memory, so a table holds about 11 MB.
pub(crate) const ROWS_A_GROUP: usize = 32_768;
/// Rows after which a part is closed whatever its age.
pub(crate) const ROWS_A_PART: u64 = 1 << 19;

/// The parts of one table: rows are gathered, and written as one part after the other.
pub(crate) struct Parts<T> {
    dir: PathBuf,
    record: PhantomData<fn(&T)>,
    schema: TypePtr,
    properties: WriterPropertiesPtr,
    buffers: Vec<Buffer>,
    buffered: usize,
    open: Option<OpenPart>,
    parts: u32,
    /// Rows in finished parts.
    pub finished: u64,
}

struct OpenPart {
    writer: SerializedFileWriter<BufWriter<Arc<File>>>,
    file: OutputFile,
    rows: u64,
}

/// Takes the values of a row, each into the buffer of its column.
struct Row<'a>(std::slice::IterMut<'a, Buffer>);

impl Fields for Row<'_> {
    #[inline]
    fn field<C: Cell>(&mut self, _: &'static str, value: &C) {
        if let Some(buffer) = self.0.next() {
            buffer.push(value);
        }
    }
}

impl From<Failed> for Error {
    fn from(failed: Failed) -> Self {
        Self::Keep { path: failed.path, why: failed.source }
    }
}

/// A failure to write, with the file.
pub(crate) struct Failed {
    pub path: PathBuf,
    pub source: io::Error,
}

impl<T: Record> Parts<T> {
    pub fn create(run: &Path) -> Result<Self, Failed> {
        let dir = run.join(format!("{}.parquet", T::TABLE));
        files::directory(&dir).map_err(|source| Failed { path: dir.clone(), source })?;
        Self::open(run)
    }

    /// One that may be there already: it is written anew. Its later parts are removed and its first
    /// one gives way to the new one as a whole, so that no row is there twice at any moment.
    pub fn open(run: &Path) -> Result<Self, Failed> {
        let dir = run.join(format!("{}.parquet", T::TABLE));
        let failed = |source| Failed { path: dir.clone(), source };
        if !dir.is_dir() {
            files::directory(&dir).map_err(failed)?;
        }
        for entry in fs::read_dir(&dir).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
            let later = name.starts_with("part-") && name != "part-00000.parquet";
            if later || name.starts_with('.') && name.ends_with(files::UNFINISHED) {
                fs::remove_file(&path).map_err(failed)?;
            }
        }
        let schema = schema::<T>().map_err(|e| failed(io::Error::other(e)))?;
        Ok(Self {
            schema,
            properties: Arc::new(properties::<T>()),
            buffers: T::COLUMNS.iter().map(Buffer::new).collect(),
            buffered: 0,
            dir,
            record: PhantomData,
            open: None,
            parts: 0,
            finished: 0,
        })
    }

    /// The file of the part that is open, or comes next.
    fn path(&self) -> PathBuf {
        self.dir.join(format!("part-{:05}.parquet", self.parts))
    }

    pub fn push(&mut self, row: &T) -> Result<(), Failed> {
        row.each(&mut Row(self.buffers.iter_mut()));
        self.buffered += 1;
        if self.buffered >= ROWS_A_GROUP {
            self.write_group()?;
            if self.open.as_ref().is_some_and(|part| part.rows >= ROWS_A_PART) {
                self.close_part()?;
            }
        }
        Ok(())
    }

    fn write_group(&mut self) -> Result<(), Failed> {
        let path = self.path();
        let result = self.try_write_group(&path);
        self.buffers.iter_mut().for_each(Buffer::clear);
        self.buffered = 0;
        result.map_err(|source| {
            // It cannot be read, and on a full disk its room is worth more than it.
            self.open = None;
            Failed { path, source }
        })
    }

    fn try_write_group(&mut self, path: &Path) -> io::Result<()> {
        if self.open.is_none() {
            let file = OutputFile::create(path, true, Readers::Owner)?;
            let bytes = BufWriter::new(file.handle());
            let writer =
                SerializedFileWriter::new(bytes, self.schema.clone(), self.properties.clone()).map_err(plain)?;
            self.open = Some(OpenPart { writer, file, rows: 0 });
        }
        let Some(part) = &mut self.open else { return Ok(()) };
        let mut group = part.writer.next_row_group().map_err(plain)?;
        let mut buffers = self.buffers.iter().zip(T::COLUMNS);
        while let Some(mut column) = group.next_column().map_err(plain)? {
            let Some((buffer, declared)) = buffers.next() else { break };
            let levels = declared.null.is_some().then_some(buffer.levels.as_slice());
            match (column.untyped(), &buffer.values) {
                (ColumnWriter::Int64ColumnWriter(w), Values::Numbers(v)) => w.write_batch(v, levels, None),
                (ColumnWriter::ByteArrayColumnWriter(w), Values::Texts(v)) => w.write_batch(v, levels, None),
                (ColumnWriter::DoubleColumnWriter(w), Values::Reals(v)) => w.write_batch(v, levels, None),
                _ => return Err(io::Error::other(format!("column {} has another type", declared.name))),
            }
            .map_err(plain)?;
            column.close().map_err(plain)?;
        }
        group.close().map_err(plain)?;
        part.rows += self.buffered as u64;
        Ok(())
    }

    /// Closes what was pushed so far into a part under its final name.
    pub fn close_part(&mut self) -> Result<(), Failed> {
        if self.buffered > 0 {
            self.write_group()?;
        }
        let Some(OpenPart { mut writer, file, rows }) = self.open.take() else { return Ok(()) };
        let end = move || -> io::Result<()> {
            // This flushes as well. Where `into_inner` finds the disk full, it keeps no more of the
            // error than its words.
            writer.finish().map_err(plain)?;
            drop(writer);
            Ok(file.finish()?)
        };
        end().map_err(|source| Failed { path: self.path(), source })?;
        self.parts += 1;
        self.finished += rows;
        Ok(())
    }
}

/// Writes a table as a whole, in one part; a part of an earlier writing gives way to it.
pub(crate) fn write_whole<T: Record>(run: &Path, rows: &[T]) -> Result<(), Failed> {
    let mut table = Parts::open(run)?;
    rows.iter().try_for_each(|row| table.push(row))?;
    table.close_part()
}

/// When the parts of a run are closed, by age: every ten seconds, and in a long run whenever
/// another hundredth of its length has gone by, so that a day makes a few hundred parts and not
/// thousands.
pub(crate) fn due(start: Nanos, closed: Nanos, now: Nanos) -> bool {
    let age = now.saturating_sub(closed);
    age >= Nanos::from_secs(10) && age.0 >= closed.saturating_sub(start).0 / 100
}

/// The error of the disk itself where there is one inside, so that "no space left" is recognised as
/// that.
fn plain(error: parquet::errors::ParquetError) -> io::Error {
    match error {
        parquet::errors::ParquetError::External(inner) => match inner.downcast::<io::Error>() {
            Ok(io) => *io,
            Err(other) => io::Error::other(other),
        },
        other => io::Error::other(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_close_on_a_timer_that_slows_with_the_length_of_the_run() {
        let s = Nanos::from_secs;
        assert!(!due(s(100), s(100), s(109)));
        assert!(due(s(100), s(100), s(110)));
        let (mut closed, mut parts) = (s(0), 0);
        for now in 0..86_400 {
            if due(s(0), closed, s(now)) {
                (closed, parts) = (s(now), parts + 1);
            }
        }
        assert!((400..600).contains(&parts), "{parts} parts in a day");
    }
}
