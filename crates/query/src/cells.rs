//! The values of rows as text, for tables and plots.

use datafusion::arrow::array::{Array as _, Float64Array, RecordBatch};
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};

use crate::Error;

/// Cell by cell; what steers a terminal is replaced.
///
/// # Errors
/// Values that have no text.
pub fn cells(batches: &[RecordBatch]) -> Result<Vec<Vec<String>>, Error> {
    let options = FormatOptions::default().with_null("null");
    let mut rows = Vec::new();
    for batch in batches {
        let columns = batch
            .columns()
            .iter()
            .map(|column| ArrayFormatter::try_new(column.as_ref(), &options).map_err(|e| Error::Engine(e.into())))
            .collect::<Result<Vec<_>, _>>()?;
        for row in 0..batch.num_rows() {
            let cell = |(at, column): (usize, &ArrayFormatter<'_>)| {
                let array = batch.column(at);
                if let Some(reals) = array.as_any().downcast_ref::<Float64Array>()
                    && reals.is_valid(row)
                {
                    return real(reals.value(row));
                }
                column.value(row).to_string().chars().map(|c| if record::steers(c) { '\u{fffd}' } else { c }).collect()
            };
            rows.push(columns.iter().enumerate().map(cell).collect());
        }
    }
    Ok(rows)
}

/// A real number with six digits that count, as a table shows it.
fn real(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return value.to_string();
    }
    let digits = 5 - value.abs().log10().floor() as i32;
    let text = format!("{value:.*}", usize::try_from(digits.clamp(0, 12)).unwrap_or(0));
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}
