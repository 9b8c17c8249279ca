//! What a watch of a field shows: a histogram for each group of connections, and its figures in a
//! sentence.

use quantity::{bit_rate, bytes, count, counted};
use record::{Field, Nanos, ReadingsBy, Scale, Unit};
use stats::Quantile;
use summary::{FieldGroups, FieldHistogram};

use crate::view::capital;
use paper::document::{Block, Counts, Document, Section};

/// Histograms that people are shown at most, those with the most readings first.
pub const SHOWN: usize = 8;
/// Empty rows that are shown beyond the lowest and the highest value, so that a lone value is seen
/// in its place.
const AROUND: usize = 2;

/// The histograms as a document, so many of them at most; `by` names what the groups are, and
/// `missed` counts readings that did not reach this program.
pub fn document(groups: &FieldGroups, by: Option<ReadingsBy>, missed: u64, most: usize) -> Document {
    let field = groups.field();
    let sorted = groups.sorted();
    let mut document = Document {
        title: format!("watch {field}").into(),
        about: format!("{}.", capital(field.meaning())),
        ..Document::default()
    };
    if missed > 0 {
        document.warnings.push(format!("{} missed: this program did not keep up.", counted(missed, "reading")).into());
    }
    let empty = FieldHistogram::new(field);
    let nothing = [("", &empty)];
    let shown = if sorted.is_empty() { &nothing[..] } else { &sorted[..sorted.len().min(most)] };
    for (group, histogram) in shown {
        let mut section = Section::new(heading(field, group));
        section.blocks.extend(counts(histogram).map(Block::Counts));
        section.say(sentence(histogram));
        document.sections.push(section);
    }
    if let (Some(more), Some(last)) = (sorted.len().checked_sub(most).filter(|n| *n > 0), document.sections.last_mut())
    {
        let by = by.map_or("group", ReadingsBy::name);
        last.say(format!("{more} more with fewer values each, by {by}: --json has all of them."));
    }
    document
}

/// What a histogram is of, with the unit of its rows.
pub(crate) fn heading(field: Field, group: &str) -> String {
    let unit = match (field.scale(), field.unit()) {
        (Scale::PowersOfTwo { name, .. }, _) => format!(", {name}"),
        (_, Unit::Bytes) => ", bytes".into(),
        (_, Unit::Percent) => ", %".into(),
        _ => String::new(),
    };
    if group.is_empty() { format!("{field}{unit}") } else { format!("{field} of {group}{unit}") }
}

/// The rows from a little below the lowest value to a little above the highest one; `None` without
/// a value.
pub(crate) fn counts(histogram: &FieldHistogram) -> Option<Counts> {
    let rows: Vec<(u64, u64)> = histogram.rows().collect();
    let [below, above] = histogram.beyond();
    let mut shown = Vec::new();
    let filled = |row: &(u64, u64)| row.1 > 0;
    if let (Some(lowest), Some(highest)) = (rows.iter().position(filled), rows.iter().rposition(filled)) {
        let range = lowest.saturating_sub(AROUND)..=(highest + AROUND).min(rows.len() - 1);
        if below > 0 {
            shown.push((format!("< {}", count(rows[0].0)), below));
        }
        shown.extend(rows[range].iter().map(|(bound, n)| (count(*bound), *n)));
        if above > 0 {
            shown.push((format!("> {}", count(rows[rows.len() - 1].0)), above));
        }
    } else if below + above > 0 {
        shown = vec![("below the scale".into(), below), ("above the scale".into(), above)];
    }
    (!shown.is_empty()).then_some(Counts { title: String::new(), value: "value", rows: shown })
}

/// The figures in a sentence.
pub(crate) fn sentence(histogram: &FieldHistogram) -> String {
    let (field, values) = (histogram.field(), histogram.values());
    let n = values.n();
    let mut text = if let (Some(least), Some(most), Some(median)) =
        (values.min(), values.max(), values.quantile(Quantile::P50))
    {
        let show = |value| show(field, value);
        if least == most {
            format!("{}, all {}.", counted(n, "value"), show(least))
        } else {
            let tail = values.quantile(Quantile::P99).map(|value| format!(", p99 {}", show(value))).unwrap_or_default();
            format!("{}, {} to {}, median {}{tail}.", counted(n, "value"), show(least), show(most), show(median))
        }
    } else if let (1, Some(only)) = (n, values.min()) {
        format!("1 value: {}.", show(field, only))
    } else {
        "No value yet.".into()
    };
    if histogram.absent() > 0 {
        text += &format!(" {} without one: {}.", counted(histogram.absent(), "reading"), field.absence());
    }
    text
}

/// A value with its unit.
fn show(field: Field, value: u64) -> String {
    match field.unit() {
        // Few bytes to the byte: a header of 32 is not one of 33.
        Unit::Bytes if value < 1 << 20 => format!("{} B", count(value)),
        Unit::Bytes => bytes(value),
        Unit::Nanos => Nanos(value).to_string(),
        Unit::BytesPerSecond => bit_rate(value as f64 * 8.0),
        Unit::Percent => format!("{value} %"),
        Unit::Segments => counted(value, "segment"),
        Unit::Count => count(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use paper::{Canvas, terminal};

    fn drawn(field: Field, values: impl IntoIterator<Item = Option<u64>>) -> String {
        let mut groups = FieldGroups::new(field);
        values.into_iter().for_each(|value| groups.add(String::new(), value));
        let paper = Canvas { width: 60, colour: false, unicode: false };
        terminal::text(&paper, &[document(&groups, None, 0, SHOWN)])
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
    fn values_outside_a_scale_and_missing_ones_are_said() {
        let text = drawn(Field::HeaderLength, [Some(18), Some(20), Some(60), None]);
        assert!(text.contains("< 20 |") && text.contains("> 34 |"), "{text}");
        assert!(text.contains("3 values, 18 B to 60 B, median 20 B. 1 reading without one"), "{text}");
        assert!(drawn(Field::WindowScale, [None]).contains("No value yet. 1 reading without one: the two sides"));
        assert!(drawn(Field::PacingRate, [Some(125_000_000)]).contains("1 value: 1.00 Gbit/s."));
    }

    #[test]
    fn groups_that_are_not_shown_and_readings_that_were_missed_are_said() {
        let mut groups = FieldGroups::new(Field::Cwnd);
        (0..SHOWN + 3).for_each(|i| groups.add(format!("10.0.0.{i}"), Some(10)));
        let document = document(&groups, Some(ReadingsBy::Peer), 3, SHOWN);
        assert_eq!(document.sections.len(), SHOWN);
        assert_eq!(document.warnings, ["3 readings missed: this program did not keep up."]);
        let text = terminal::text(&Canvas { width: 80, colour: false, unicode: true }, &[document]);
        assert!(text.contains("cwnd of 10.0.0.1, segments") && text.contains("3 more with fewer values"), "{text}");
    }
}
