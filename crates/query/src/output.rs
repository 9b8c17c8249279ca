//! Answers on their way out: a table or a page for people, JSON lines, CSV, Parquet.

use std::io::Write;
use std::sync::{Arc, OnceLock};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::csv::{Writer as Csv, WriterBuilder};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::json::LineDelimitedWriter;
use datafusion::arrow::json::writer::{LineDelimited, WriterBuilder as JsonBuilder};
use datafusion::error::DataFusionError;
use datafusion::parquet::arrow::ArrowWriter;

use crate::Error;
use crate::drawn::{Answered, Asked, Look, MOST_ROWS};
use paper::harmless::{As, Harmless};

/// In which form rows are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// A table, at most 1,000 rows
    #[default]
    Table,
    /// A JSON object a line
    Json,
    /// Comma-separated values with a heading
    Csv,
    /// One Parquet file
    Parquet,
}

/// How an answer is written.
#[derive(Clone, Debug)]
pub enum Wanted {
    /// The first rows as text for a terminal of so many columns.
    Text(Look, usize),
    /// The first rows as a page.
    Page(Look, Asked),
    /// All rows as JSON lines.
    Json,
    /// All rows as comma-separated values.
    Csv,
    /// All rows as one Parquet file.
    Parquet,
}

/// Writes rows as they come.
pub struct Output<W: Write + Send> {
    form: Form<Harmless<Outlet<W>>>,
    rows: usize,
    failed: Failed,
}

/// Why the writer below failed: some of the engine's writers keep no more than the words of it.
type Failed = Arc<OnceLock<std::io::Error>>;

/// The writer below, which remembers why it failed.
struct Outlet<W> {
    out: W,
    failed: Failed,
}

impl<W> Outlet<W> {
    fn note<T>(&self, done: std::io::Result<T>) -> std::io::Result<T> {
        if let Err(error) = &done
            && error.kind() != std::io::ErrorKind::Interrupted
        {
            let _ = self.failed.set(alike(error));
        }
        done
    }
}

impl<W: Write> Write for Outlet<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let done = self.out.write(bytes);
        self.note(done)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        let done = self.out.flush();
        self.note(done)
    }
}

/// The same error once more, as far as the kernel made it.
fn alike(error: &std::io::Error) -> std::io::Error {
    error.raw_os_error().map_or_else(|| error.kind().into(), std::io::Error::from_raw_os_error)
}

enum Form<W: Write + Send> {
    Drawn { out: W, held: Vec<RecordBatch>, wanted: Drawn },
    Json(Box<datafusion::arrow::json::Writer<W, LineDelimited>>),
    Csv(Box<Csv<W>>),
    Parquet { out: Option<W>, writer: Option<Box<ArrowWriter<W>>> },
}

/// What is drawn of the rows at the end.
enum Drawn {
    Text(Look, usize),
    Page(Look, Asked),
}

fn engine(error: impl Into<DataFusionError>) -> Error {
    Error::Engine(error.into())
}

impl Output<std::io::Stdout> {
    /// Writes to standard output.
    pub fn on_stdout(wanted: Wanted) -> Self {
        Self::new(std::io::stdout(), wanted)
    }
}

impl<W: Write + Send> Output<W> {
    /// Writes to `out`.
    pub fn new(out: W, wanted: Wanted) -> Self {
        let failed = Failed::default();
        let characters = match wanted {
            Wanted::Text(..) | Wanted::Csv => As::Text,
            Wanted::Json => As::Json,
            // A page is harmless as it is drawn.
            Wanted::Page(..) | Wanted::Parquet => As::Bytes,
        };
        let out = Harmless::new(Outlet { out, failed: failed.clone() }, characters);
        let drawn = |out, wanted| Form::Drawn { out, held: Vec::new(), wanted };
        let form = match wanted {
            Wanted::Text(look, width) => drawn(out, Drawn::Text(look, width)),
            Wanted::Page(look, asked) => drawn(out, Drawn::Page(look, asked)),
            Wanted::Json => Form::Json(Box::new(json(out))),
            Wanted::Csv => Form::Csv(Box::new(WriterBuilder::new().with_header(true).build(out))),
            Wanted::Parquet => Form::Parquet { out: Some(out), writer: None },
        };
        Self { form, rows: 0, failed }
    }

    /// Writes rows.
    ///
    /// # Errors
    /// [`Error::Output`], or [`Error::Engine`] for what the form cannot hold.
    pub fn push(&mut self, batch: &RecordBatch) -> Result<(), Error> {
        let done = self.write(batch);
        done.map_err(|error| typed(&self.failed, error))
    }

    fn write(&mut self, batch: &RecordBatch) -> Result<(), Error> {
        self.rows += batch.num_rows();
        match &mut self.form {
            Form::Drawn { held, .. } => {
                if self.rows - batch.num_rows() < MOST_ROWS {
                    held.push(batch.slice(0, batch.num_rows().min(MOST_ROWS - (self.rows - batch.num_rows()))));
                }
                Ok(())
            }
            Form::Json(writer) => writer.write(batch).map_err(engine),
            Form::Csv(writer) => writer.write(batch).map_err(engine),
            Form::Parquet { out, writer } => {
                if let Some(out) = out.take() {
                    *writer = Some(Box::new(ArrowWriter::try_new(out, batch.schema(), None).map_err(engine)?));
                }
                writer.as_mut().map_or(Ok(()), |writer| writer.write(batch).map_err(engine))
            }
        }
    }

    /// Ends the output; gives the number of rows.
    ///
    /// # Errors
    /// As [`Output::push`].
    pub fn finish(self, schema: &SchemaRef) -> Result<usize, Error> {
        let failed = self.failed.clone();
        self.end(schema).map_err(|error| typed(&failed, error))
    }

    fn end(mut self, schema: &SchemaRef) -> Result<usize, Error> {
        // The heading, where there was no row.
        if self.rows == 0 {
            self.write(&RecordBatch::new_empty(schema.clone()))?;
        }
        match self.form {
            Form::Drawn { mut out, held, wanted } => {
                let answered = Answered { schema, batches: &held, rows: self.rows };
                let text = match wanted {
                    Drawn::Text(look, width) => answered.text(look, width)?,
                    Drawn::Page(look, asked) => answered.page(look, &asked)?,
                };
                out.write_all(text.as_bytes())?;
                out.flush()?;
            }
            Form::Json(mut writer) => {
                writer.finish().map_err(engine)?;
                writer.into_inner().flush()?;
            }
            Form::Csv(writer) => writer.into_inner().flush()?,
            Form::Parquet { writer, .. } => {
                if let Some(writer) = writer {
                    writer.into_inner().map_err(engine)?.flush()?;
                }
            }
        }
        Ok(self.rows)
    }
}

/// The writer's error where it failed, else the engine's.
fn typed(failed: &Failed, error: Error) -> Error {
    failed.get().map_or(error, |failed| Error::Output(alike(failed)))
}

fn json<W: Write>(out: W) -> LineDelimitedWriter<W> {
    JsonBuilder::new().with_explicit_nulls(true).build::<W, LineDelimited>(out)
}
