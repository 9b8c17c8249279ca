//! A plot of an answer in text: a bar for each row, by its last column of numbers, labelled by the columns that are no numbers.

use datafusion::arrow::array::{Array as _, Float64Array, RecordBatch};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, SchemaRef};

use crate::Error;
use crate::cells::cells;

/// The plot, so many columns wide.
///
/// # Errors
/// [`Error::Query`] where no column holds numbers.
pub fn bars(schema: &SchemaRef, batches: &[RecordBatch], width: usize) -> Result<String, Error> {
    let numbers = |at: &usize| schema.field(*at).data_type().is_numeric();
    let Some(value) = (0..schema.fields().len()).rev().find(numbers) else {
        return Err(Error::Query("--plot draws the last column of numbers, and the answer has none".into()));
    };
    let mut labels: Vec<usize> = (0..schema.fields().len()).filter(|at| !numbers(at)).collect();
    if labels.is_empty() {
        labels = (0..value).take(1).collect();
    }
    let mut values: Vec<Option<f64>> = Vec::new();
    for batch in batches {
        let reals = cast(batch.column(value), &DataType::Float64).map_err(|e| Error::Engine(e.into()))?;
        let reals = reals.as_any().downcast_ref::<Float64Array>();
        values.extend((0..batch.num_rows()).map(|row| reals.filter(|r| r.is_valid(row)).map(|r| r.value(row))));
    }
    let rows = cells(batches)?;
    let label = |row: &Vec<String>| labels.iter().filter_map(|at| row.get(*at)).cloned().collect::<Vec<_>>().join(" ");
    let names: Vec<String> = rows.iter().map(label).collect();
    let longest = |texts: &mut dyn Iterator<Item = usize>| texts.max().unwrap_or(0);
    let name = longest(&mut names.iter().map(|n| n.chars().count()));
    let figure = longest(&mut rows.iter().filter_map(|row| row.get(value)).map(|text| text.chars().count()));
    let room = width.saturating_sub(name + figure + 4).max(10);
    let most = values.iter().flatten().copied().fold(0.0, f64::max);
    let mut text = format!("{}\n", schema.field(value).name());
    for ((row, name_of), number) in rows.iter().zip(&names).zip(values) {
        let share = number.filter(|n| *n > 0.0 && most > 0.0).map_or(0.0, |n| n / most);
        let eighths = (share * room as f64 * 8.0).round() as usize;
        let mut bar = "█".repeat(eighths / 8);
        bar.extend(['▏', '▎', '▍', '▌', '▋', '▊', '▉'].get((eighths % 8).wrapping_sub(1)));
        let shown = row.get(value).map_or("", String::as_str);
        text.push_str(&format!("{name_of:name$}  {shown:>figure$}  {bar}\n"));
    }
    Ok(text)
}
