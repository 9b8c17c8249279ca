//! The lines of `wirelapse watch --json`.

use record::table::Record as _;
use record::{Field, FieldFigures, Reading, ReadingsBy};

use crate::json::Object;

/// Adds the line of one reading: `{"kind":"reading", …}`.
pub fn reading(out: &mut Vec<u8>, field: Field, reading: &Reading) {
    let mut object = Object::begin(out);
    object.word("kind", Reading::KIND);
    object.word("field", field.name());
    object.number_or_null(&format!("value{}", field.suffix()), field.of(reading));
    record::json::fields(object.buffer(), reading, true);
    object.end();
    out.push(b'\n');
}

/// Adds the line of a histogram: `{"kind":"histogram", …}`. `by` is what the readings are grouped
/// by and the name of this group; `lost` counts the readings that did not reach this program.
pub fn histogram(out: &mut Vec<u8>, figures: &FieldFigures, by: Option<(ReadingsBy, &str)>, lost: u64) {
    let mut object = Object::begin(out);
    object.word("kind", "histogram");
    object.word("field", figures.field.name());
    if let Some((by, group)) = by {
        object.word("by", by.name());
        object.text(by.name(), group);
    }
    object.number("n", figures.n);
    object.number("absent", figures.absent);
    object.number("lost", lost);
    let key = |name: &str| format!("{name}{}", figures.field.suffix());
    object.number_or_null(&key("min"), figures.min);
    object.number_or_null(&key("median"), figures.median);
    object.number_or_null(&key("max"), figures.max);
    object.number("below", figures.below);
    object.number("above", figures.above);
    object.key("rows");
    let number = |out: &mut Vec<u8>, n: &u64| record::json::number(out, *n);
    record::json::array(object.buffer(), &figures.rows, |out, row| record::json::array(out, row, number));
    object.end();
    out.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_names_units_in_its_keys() {
        let figures = FieldFigures {
            field: Field::PacingRate,
            n: 2,
            absent: 1,
            min: None,
            median: Some(125_000_000),
            max: Some(125_000_000),
            below: 0,
            above: 0,
            rows: vec![[65_536_000, 2]],
        };
        let mut out = Vec::new();
        histogram(&mut out, &figures, Some((ReadingsBy::Comm, "a\"b")), 2);
        let line: serde_json::Value = serde_json::from_slice(&out).unwrap();
        assert_eq!((&line["n"], &line["absent"], &line["lost"]), (&2.into(), &1.into(), &2.into()));
        assert_eq!((&line["comm"], &line["median_bytes_per_second"]), (&"a\"b".into(), &line["max_bytes_per_second"]));
        assert_eq!(line["rows"], serde_json::json!([[65_536_000, 2]]));
    }
}
