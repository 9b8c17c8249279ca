//! The page of `study overhead --instructions`: what observing costs, to the instruction.

use paper::document::{Column, Document, Section, Table};
use quantity::change;
use study::overhead::instructions::{Counted, Counting, Counts, LoadCounts};

use super::study::plan::Steps;

/// What was counted, a section for each load.
pub fn document(counts: &Counts) -> Document {
    let mut sections: Vec<Section> = counts.tables.iter().map(section).collect();
    if !counts.missing.is_empty() {
        let mut section = Section::new("Not on this kernel");
        section.list(counts.missing.iter().map(|missing| format!("{}: {}", missing.name, missing.reason)));
        sections.push(section);
    }
    let build = match counts.development {
        true => " The readers' are those of a development build, which takes several times those of a release.",
        false => "",
    };
    Document {
        title: "Study overhead, instructions".into(),
        about: format!(
            "Instructions that observing adds to each send or exchange over loopback, on Linux {}: those of the sending and the receiving \
             program, the kernel and its BPF programs together. Those of whoever reads what was recorded are beside them.{build}",
            counts.kernel
        ),
        sections,
        ..Document::default()
    }
}

/// What `--dry-run` says.
pub fn planned(counting: &Counting) -> Document {
    let mut steps = Steps::default();
    let loads: Vec<String> = counting.loads.iter().map(|load| load.name()).collect();
    steps.step("load", "", loads.join(", "));
    counting.ways.iter().for_each(|way| steps.step("method", "", way.name));
    Document {
        title: "Plan of study overhead, instructions".into(),
        about: format!(
            "{} of each method under each load, in a guest.",
            quantity::counted(counting.slices.into(), "slice")
        ),
        sections: vec![steps.section("")],
        ..Document::default()
    }
}

fn section(load: &LoadCounts) -> Section {
    let mut section = Section::new(&*load.name);
    section.say(format!("Without anything each takes {} instructions.", whole(load.nothing)));
    let mut table = Table::new(
        "",
        vec![
            Column::text(""),
            Column::figures("added"),
            Column::figures("of nothing's"),
            Column::figures("reader's"),
            Column::figures("slices differ by"),
        ],
    );
    let row = |row: &Counted| {
        let reading = if row.reading < 0.5 { String::new() } else { whole(row.reading) };
        let spread = row.spread.map_or_else(String::new, whole);
        vec![row.name.to_owned(), signed(row.added), change(row.added / load.nothing), reading, spread]
    };
    table.extend(load.rows.iter().skip(1).map(row));
    section.table(table);
    section
}

/// Whole instructions.
fn whole(instructions: f64) -> String {
    quantity::count(instructions.round().abs() as u64)
}

fn signed(instructions: f64) -> String {
    let sign = if instructions.round() < 0.0 { '−' } else { '+' };
    format!("{sign}{}", whole(instructions))
}

#[cfg(test)]
mod tests {
    use super::*;
    use paper::{Canvas, terminal};
    use study::overhead::{Key, Missing};

    #[test]
    fn a_load_shows_what_each_way_adds_and_what_is_not_there() {
        let row = |key, name, added, reading| Counted { key, name, added, reading, spread: Some(3.4) };
        let counts = Counts {
            kernel: "6.1.0".into(),
            development: true,
            tables: vec![LoadCounts {
                load: "send_1024".into(),
                name: "1 KiB sends".into(),
                nothing: 6537.4,
                rows: vec![
                    row(Key::Nothing, "nothing", 0.0, 0.0),
                    row(Key::Every, "every send", 912.3, 345.0),
                    row(Key::Again, "nothing, again (A/A)", -2.2, 0.0),
                ],
            }],
            missing: vec![Missing { key: Key::Floor, name: "floor", reason: "no callbacks here".into() }],
        };
        let canvas = Canvas { width: 160, colour: false, unicode: true };
        let text = terminal::text(&canvas, &[document(&counts)]);
        for words in [
            "on Linux 6.1.0",
            "each takes 6,537 instructions",
            "+912",
            "+14.0 %",
            "345",
            "−2",
            "development",
            "floor: no callbacks here",
        ] {
            assert!(text.contains(words), "{words}\n{text}");
        }
        assert!(!text.contains("\n nothing "), "{text}");
    }
}
