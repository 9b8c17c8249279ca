//! A histogram of one field of connections, as people and machines see it.

use record::{Field, FieldFigures, Nanos, Scale, Unit};
use stats::{Distribution, Precision, Quantile};
use unicode_width::UnicodeWidthStr as _;

use crate::Canvas;
use crate::canvas::Ink;
use quantity::{count, counted};

/// Rows of nothing that are still shown beyond the lowest and the highest value, so that a lone value is seen in its place.
const AROUND: usize = 2;

/// The values of a field, sorted into the rows that suit it. Memory depends on the field, not on the number of values.
#[derive(Clone, Debug)]
pub struct FieldHistogram {
    field: Field,
    rows: Vec<u64>,
    below: u64,
    above: u64,
    absent: u64,
    values: Distribution,
}

impl FieldHistogram {
    /// An empty one.
    pub fn new(field: Field) -> Self {
        let rows = match field.scale() {
            Scale::Linear { from, to, step } => (to - from) / step + 1,
            // Zero, and one row for each power of two.
            Scale::PowersOfTwo { .. } => 65,
        };
        let rows = vec![0; rows as usize];
        Self { field, rows, below: 0, above: 0, absent: 0, values: Distribution::new(Precision::Fine) }
    }

    /// Adds a value, or that a connection has none.
    pub fn add(&mut self, value: Option<u64>) {
        let Some(value) = value else {
            self.absent += 1;
            return;
        };
        self.values.record(value);
        let row = match self.field.scale() {
            Scale::Linear { from, .. } if value < from => {
                self.below += 1;
                return;
            }
            Scale::Linear { from, step, .. } => (value - from) / step,
            Scale::PowersOfTwo { of, .. } => (value / of).checked_ilog2().map_or(0, |power| u64::from(power) + 1),
        };
        match self.rows.get_mut(row as usize) {
            Some(row) => *row += 1,
            None => self.above += 1,
        }
    }

    /// How many values it holds.
    pub fn n(&self) -> u64 {
        self.values.n()
    }

    /// How many connections had none.
    pub fn absent(&self) -> u64 {
        self.absent
    }

    /// The least value that belongs in a row, in the unit of the scale.
    fn bound(&self, row: usize) -> u64 {
        match self.field.scale() {
            Scale::Linear { from, step, .. } => from + row as u64 * step,
            Scale::PowersOfTwo { .. } => row.checked_sub(1).map_or(0, |power| 1 << power),
        }
    }

    /// Draws it, a row a value, under the name of what it is of; `whose` names the group, or is empty.
    pub fn draw(&self, canvas: &Canvas, out: &mut String, whose: &str) {
        let unit = match (self.field.scale(), self.field.unit()) {
            (Scale::PowersOfTwo { name, .. }, _) => format!(", {name}"),
            (_, Unit::Bytes) => ", bytes".into(),
            (_, Unit::Percent) => ", %".into(),
            _ => String::new(),
        };
        let whose = if whose.is_empty() { String::new() } else { format!(" of {whose}") };
        canvas.heading(out, &format!("{}{whose}{unit}: {}", self.field, self.field.meaning()));
        let filled = |row: &usize| self.rows[*row] > 0;
        let lowest = (0..self.rows.len()).find(filled);
        if let Some(lowest) = lowest {
            let highest = (0..self.rows.len()).rev().find(filled).unwrap_or(lowest);
            let shown = lowest.saturating_sub(AROUND)..=(highest + AROUND).min(self.rows.len() - 1);
            let mut lines = Vec::new();
            if self.below > 0 {
                lines.push((format!("< {}", count(self.bound(0))), self.below));
            }
            lines.extend(shown.map(|row| (count(self.bound(row)), self.rows[row])));
            if self.above > 0 {
                lines.push((format!("> {}", count(self.bound(self.rows.len() - 1))), self.above));
            }
            self.bars(canvas, out, &lines);
        } else if self.below + self.above > 0 {
            let lines = [("below the scale".to_owned(), self.below), ("above the scale".to_owned(), self.above)];
            self.bars(canvas, out, &lines);
        }
        canvas.paragraph(out, &self.words(), 0);
    }

    fn bars(&self, canvas: &Canvas, out: &mut String, lines: &[(String, u64)]) {
        let label = lines.iter().map(|(label, _)| label.width()).max().unwrap_or(0).max("value".len());
        let most = lines.iter().map(|&(_, n)| n).max().unwrap_or(0).max(1);
        let figures = count(most).len().max("count".len());
        let room = canvas.width.clamp(40, 100).saturating_sub(label + figures + 5).max(10);
        let rule = if canvas.unicode { "─" } else { "-" };
        let head = format!("{:>label$} ┌{} {:>figures$}", "value", rule.repeat(room), "count");
        let head = if canvas.unicode { head } else { head.replace('┌', "|") };
        out.push_str(&canvas.paint(Ink::Faint, &head));
        out.push('\n');
        for (value, n) in lines {
            let eighths = (u128::from(*n) * room as u128 * 8).div_ceil(u128::from(most)) as usize;
            let bar = if canvas.unicode {
                let part = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"][eighths % 8];
                format!("{}{part}", "█".repeat(eighths / 8))
            } else {
                "#".repeat(eighths.div_ceil(8))
            };
            let gap = " ".repeat(room - bar.width().min(room));
            let edge = if canvas.unicode { "│" } else { "|" };
            let value = format!("{value:>label$}");
            out.push_str(&format!(
                "{} {edge}{}{gap} {:>figures$}\n",
                canvas.paint(Ink::Faint, &value),
                canvas.paint(Ink::Hue(1), &bar),
                count(*n)
            ));
        }
    }

    /// The figures in a sentence.
    fn words(&self) -> String {
        let mut text = String::new();
        let n = self.values.n();
        if let (Some(least), Some(most), Some(median)) =
            (self.values.min(), self.values.max(), self.values.quantile(Quantile::P50))
        {
            let show = |value| self.show(value);
            text = if least == most {
                format!("{}, all {}.", counted(n, "value"), show(least))
            } else {
                format!("{}, {} to {}, median {}", counted(n, "value"), show(least), show(most), show(median))
            };
            if least != most {
                let tail = self.values.quantile(Quantile::P99).filter(|_| n >= Quantile::P99.needs());
                text += &tail.map_or_else(String::new, |value| format!(", p99 {}", show(value)));
                text += ".";
            }
        } else {
            text += "No value yet.";
        }
        if self.absent > 0 {
            text += &format!(" {} without one: {}.", counted(self.absent, "reading"), self.field.absence());
        }
        text
    }

    /// A value with its unit.
    fn show(&self, value: u64) -> String {
        match self.field.unit() {
            Unit::Bytes => format!("{} B", count(value)),
            Unit::Nanos => Nanos(value).to_string(),
            Unit::BytesPerSecond => bits(value),
            Unit::Percent => format!("{value} %"),
            Unit::Segments => counted(value, "segment"),
            Unit::Count => count(value),
        }
    }

    /// The figures of the values so far.
    pub fn figures(&self) -> FieldFigures {
        let of = match self.field.scale() {
            Scale::Linear { .. } => 1,
            Scale::PowersOfTwo { of, .. } => of,
        };
        let filled = (0..self.rows.len()).filter(|&row| self.rows[row] > 0);
        FieldFigures {
            field: self.field,
            n: self.values.n(),
            absent: self.absent,
            min: self.values.min(),
            median: self.values.quantile(Quantile::P50),
            max: self.values.max(),
            below: self.below,
            above: self.above,
            rows: filled.map(|row| [self.bound(row).saturating_mul(of), self.rows[row]]).collect(),
        }
    }
}

/// Bytes a second as people read rates.
fn bits(bytes: u64) -> String {
    let mut rate = bytes as f64 * 8.0;
    for unit in ["bit/s", "kbit/s", "Mbit/s", "Gbit/s"] {
        if rate < 999.5 {
            return format!("{rate:.3} {unit}").replace(".000", "");
        }
        rate /= 1e3;
    }
    format!("{rate:.3} Tbit/s")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAPER: Canvas = Canvas { width: 60, colour: false, unicode: false };

    fn drawn(field: Field, values: impl IntoIterator<Item = Option<u64>>) -> String {
        let mut histogram = FieldHistogram::new(field);
        values.into_iter().for_each(|value| histogram.add(value));
        let mut out = String::new();
        histogram.draw(&PAPER, &mut out, "");
        out
    }

    #[test]
    fn a_linear_field_is_drawn_with_its_neighbours() {
        let text = drawn(Field::HeaderLength, std::iter::repeat_n(Some(32), 256));
        let rows: Vec<&str> = text.lines().filter(|line| line.contains('|')).collect();
        assert_eq!(rows.len(), 5, "{text}");
        assert!(rows[1].trim_start().starts_with("28 |") && rows[1].ends_with(" 0"), "{text}");
        assert!(rows[3].trim_start().starts_with("32 |#") && rows[3].ends_with(" 256"), "{text}");
        assert!(text.ends_with("256 values, all 32 B.\n"), "{text}");
    }

    #[test]
    fn values_beyond_a_scale_and_missing_ones_are_told() {
        let text = drawn(Field::HeaderLength, [Some(18), Some(20), Some(60), None]);
        assert!(text.contains("< 20 |") && text.contains("> 34 |"), "{text}");
        assert!(text.contains("3 values, 18 B to 60 B, median 20 B. 1 reading without one"), "{text}");
        assert!(drawn(Field::WindowScale, [None]).contains("No value yet. 1 reading without one: the two sides"));
    }

    #[test]
    fn powers_of_two_hold_from_their_bound_to_the_next() {
        let text = drawn(Field::Srtt, [Some(0), Some(999), Some(1_000), Some(2_047_999), Some(2_048_000)]);
        let row = |bound: &str| text.lines().find(|l| l.trim_start().starts_with(&format!("{bound} |"))).unwrap();
        for (bound, n) in [("0", "2"), ("1", "1"), ("1,024", "1"), ("2,048", "1")] {
            assert!(row(bound).ends_with(&format!(" {n}")), "{text}");
        }
        let mut most = FieldHistogram::new(Field::Cwnd);
        most.add(Some(u64::MAX));
        assert_eq!((most.n(), most.above), (1, 0));
    }

    #[test]
    fn figures_are_in_the_unit_of_the_field() {
        let mut histogram = FieldHistogram::new(Field::PacingRate);
        histogram.add(Some(125_000_000));
        histogram.add(Some(125_000_000));
        histogram.add(None);
        let figures = histogram.figures();
        assert_eq!((figures.n, figures.absent, figures.median), (2, 1, figures.max));
        assert_eq!(figures.rows, [[65_536_000, 2]]);
        assert_eq!(bits(125_000_000), "1 Gbit/s");
    }
}
