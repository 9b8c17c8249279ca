//! An answer as a document: its rows as a table, and bars of its last column of numbers.

use datafusion::arrow::array::{Array as _, AsArray as _, RecordBatch};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Float64Type, Schema};
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use paper::document::{Block, Column, Document, Section, Table};
use paper::plot::{Axis, Hue, Layer, Plot, Span, Unit};
use paper::{Canvas, html, terminal};
use quantity::count;

use crate::Error;

/// Rows that a table or a plot shows at most.
pub const MOST_ROWS: usize = 1_000;

/// What is drawn beside the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Look {
    /// Nothing.
    #[default]
    Table,
    /// Bars: on a terminal in place of the table, on a page above it.
    Bars,
}

/// The first rows of an answer.
#[derive(Clone, Debug)]
pub struct Answered<'a> {
    /// Its columns.
    pub schema: &'a Schema,
    /// As many of its rows as are drawn.
    pub batches: &'a [RecordBatch],
    /// How many rows it has in all.
    pub rows: usize,
}

impl Answered<'_> {
    /// As text. A table is as wide as its content, because the rows of a query are compared column
    /// by column; bars are as wide as the terminal.
    ///
    /// # Errors
    /// [`Error::Query`] where bars are asked for and no column holds numbers.
    pub fn text(&self, look: Look, width: usize) -> Result<String, Error> {
        let mut section = Section::default();
        let width = match look {
            Look::Table => {
                section.blocks.push(Block::Table(self.table("")?));
                WIDEST
            }
            Look::Bars => {
                self.bars(&mut section)?;
                width
            }
        };
        self.cut_off(&mut section);
        let document = Document { sections: vec![section], ..Document::default() };
        let canvas = Canvas { width, colour: false, unicode: true };
        Ok(terminal::text(&canvas, &[document]).trim_start_matches('\n').to_owned())
    }

    /// As a page, under what was asked of which runs.
    ///
    /// # Errors
    /// As [`Self::text`].
    pub fn page(&self, look: Look, asked: &Asked) -> Result<String, Error> {
        let mut section = Section::new("Answer");
        if look == Look::Bars {
            self.bars(&mut section)?;
        }
        section.blocks.push(Block::Table(self.table("Rows")?));
        self.cut_off(&mut section);
        section.blocks.push(Block::Code { title: "The query".into(), text: asked.sql.clone() });
        let rows = quantity::counted(self.rows as u64, "row");
        let document = Document {
            title: asked.title.as_str().into(),
            about: format!("{rows} of the runs in {}.", asked.runs),
            sections: vec![section],
            ..Document::default()
        };
        let made_by = format!("Made by wirelapse-query {}.", env!("CARGO_PKG_VERSION"));
        html::page(&[document], &made_by).map_err(|why| Error::Output(why.into()))
    }

    fn table(&self, title: &str) -> Result<Table, Error> {
        let columns = self.schema.fields().iter().map(|field| {
            let numbers = field.data_type().is_numeric();
            if numbers { Column::figures(field.name()) } else { Column::text(field.name()) }
        });
        let mut table = Table::new(title, columns);
        table.extend(self.cells()?);
        Ok(table)
    }

    /// Says how many rows are not shown, where some are not.
    fn cut_off(&self, section: &mut Section) {
        let shown = self.batches.iter().map(RecordBatch::num_rows).sum::<usize>();
        if shown < self.rows {
            let (shown, all) = (count(shown as u64), count(self.rows as u64));
            section.say(format!("The first {shown} of {all} rows: --format csv, json or parquet writes all of them."));
        }
    }

    /// Bars of the last column of numbers, named by the columns that hold none and by the figure.
    fn bars(&self, section: &mut Section) -> Result<(), Error> {
        let fields = self.schema.fields();
        let numbers = |at: &usize| fields[*at].data_type().is_numeric();
        let Some(value) = (0..fields.len()).rev().find(numbers) else {
            return Err(Error::Query("--plot draws the last column of numbers, and the answer has none".into()));
        };
        let mut labels: Vec<usize> = (0..fields.len()).filter(|at| !numbers(at)).collect();
        if labels.is_empty() {
            labels = (0..value).take(1).collect();
        }
        let name = fields[value].name();
        let mut names = Vec::new();
        let mut items = Vec::new();
        for (row, (cells, number)) in self.cells()?.iter().zip(self.numbers(value)?).enumerate() {
            let words: Vec<&str> = labels.iter().chain([&value]).map(|at| cells[*at].as_str()).collect();
            let label = words.join("  ");
            if let Some(number) = number {
                items.push(Span { at: row as f64, from: 0.0, to: number, label: label.clone() });
            }
            names.push(label);
        }
        let axes = (Axis::linear("", unit(name)).reaching(0.0), Axis::names("", names));
        match Plot::new("answer", name, "", axes, vec![Layer::Spans { name: String::new(), hue: Hue::nth(0), items }]) {
            Some(plot) => section.plot(Some(plot)),
            None => section.say(format!("No row has a {name}.")),
        }
        Ok(())
    }

    /// A column as real numbers; `None` where a row has none.
    fn numbers(&self, column: usize) -> Result<Vec<Option<f64>>, Error> {
        let mut numbers = Vec::new();
        for batch in self.batches {
            let reals = cast(batch.column(column), &DataType::Float64).map_err(|e| Error::Engine(e.into()))?;
            numbers.extend(reals.as_primitive::<Float64Type>().iter());
        }
        Ok(numbers)
    }

    /// The values as text, row by row.
    fn cells(&self) -> Result<Vec<Vec<String>>, Error> {
        let options = FormatOptions::default().with_null("null");
        let mut rows = Vec::new();
        for batch in self.batches {
            let columns = batch
                .columns()
                .iter()
                .map(|column| {
                    let reals = column.as_primitive_opt::<Float64Type>();
                    Ok((reals, ArrayFormatter::try_new(column.as_ref(), &options)?))
                })
                .collect::<Result<Vec<_>, datafusion::arrow::error::ArrowError>>()
                .map_err(|e| Error::Engine(e.into()))?;
            rows.extend((0..batch.num_rows()).map(|row| {
                columns
                    .iter()
                    .map(|(reals, column)| match reals.filter(|reals| reals.is_valid(row)) {
                        Some(reals) => real(reals.value(row)),
                        None => column.value(row).to_string(),
                    })
                    .collect()
            }));
        }
        Ok(rows)
    }
}

/// What a page says of its query.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// The page's heading.
    pub title: String,
    /// The query.
    pub sql: String,
    /// Where the runs are, as it was given.
    pub runs: String,
}

/// Columns of a canvas that no table is wider than.
const WIDEST: usize = 60_000;

/// The unit that the name of a column ends in.
fn unit(name: &str) -> Unit {
    match name {
        name if name.ends_with("_ns") => Unit::Time,
        name if name.ends_with("_bytes") => Unit::Bytes,
        name if name.ends_with("_bits_per_second") => Unit::Rate,
        _ => Unit::Plain,
    }
}

/// A real number with six significant digits.
fn real(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return value.to_string();
    }
    let digits = 5 - value.abs().log10().floor() as i32;
    let text = format!("{value:.*}", usize::try_from(digits.clamp(0, 12)).unwrap_or(0));
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::{Float64Array, StringArray};
    use datafusion::arrow::datatypes::Field;

    use super::*;

    fn with(look: Look, values: Vec<Option<f64>>, rows: usize) -> [String; 2] {
        let schema =
            Schema::new(vec![Field::new("host", DataType::Utf8, true), Field::new("p99_ns", DataType::Float64, true)]);
        let hosts: StringArray = (0..values.len()).map(|n| Some(format!("web-{n}<b>\u{1b}[2J"))).collect();
        let columns = vec![Arc::new(hosts) as _, Arc::new(Float64Array::from(values)) as _];
        let batch = RecordBatch::try_new(Arc::new(schema.clone()), columns).unwrap();
        let answered = Answered { schema: &schema, batches: &[batch], rows };
        let asked = Asked { title: "slow-hosts".into(), sql: "SELECT 1 < 2".into(), runs: "/runs".into() };
        [answered.text(look, 80).unwrap(), answered.page(look, &asked).unwrap()]
    }

    #[test]
    fn rows_are_a_table_on_a_terminal_and_on_a_page() {
        let [text, page] = with(Look::Table, vec![Some(1.234_567_8e6), None], 5);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("host") && lines[0].ends_with("p99_ns"), "{text}");
        assert!(lines[1].starts_with("web-0<b> [2J") && lines[1].ends_with("1234568"), "{text}");
        assert!(lines[2].ends_with("null"), "{text}");
        assert!(text.contains("The first 2 of 5 rows"), "{text}");
        assert!(page.contains("web-0&lt;b&gt;\u{fffd}[2J") && page.contains("SELECT 1 &lt; 2"), "{page}");
        assert!(!page.contains('\u{1b}'), "{page}");
    }

    #[test]
    fn bars_have_the_unit_of_their_column_and_the_figure_in_their_name() {
        let [text, page] = with(Look::Bars, vec![Some(2e6), Some(1e6), None], 3);
        let bar = |n: usize| text.lines().nth(n).unwrap().matches('█').count();
        assert!(bar(1) > 20 && bar(2) * 2 - bar(1) <= 2 && bar(3) == 0, "{text}");
        assert!(text.contains("2000000") && text.contains("ms"), "{text}");
        assert!(page.contains("\"spans\""), "{page}");
        let [none, _] = with(Look::Bars, vec![None], 1);
        assert!(none.contains("No row has a p99_ns."), "{none}");
    }
}
