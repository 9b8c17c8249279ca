//! A report as text for a terminal.

pub mod counts;
mod histogram;
mod table;
mod waterfall;

use crate::Canvas;
use crate::canvas::Ink;
use crate::document::{Block, Clause, Document, Table, Text, Waterfalls};
use crate::plot;

/// The documents as text, one after the other.
pub fn text(canvas: &Canvas, documents: &[Document]) -> String {
    let mut out = String::new();
    for (i, document) in documents.iter().enumerate() {
        if i > 0 {
            out.push('\n');
        }
        canvas.title(&mut out, &document.title.to_string());
        canvas.paragraph(&mut out, &document.about, 0);
        for warning in &document.warnings {
            canvas.lines(&mut out, Ink::Warn, &warning.to_string());
        }
        if !document.verdict.is_empty() {
            out.push('\n');
        }
        document.verdict.iter().for_each(|clause| said(canvas, &mut out, clause));
        for section in &document.sections {
            let later = |b: &&Block| section.plots_last && matches!(b, Block::Plot(_));
            let mut drawn = String::new();
            section.blocks.iter().filter(|b| !later(b)).for_each(|b| block(canvas, &mut drawn, b));
            section.blocks.iter().filter(later).for_each(|b| block(canvas, &mut drawn, b));
            // What is on the page alone needs no heading here.
            if !section.title.is_empty() && !drawn.is_empty() {
                canvas.heading(&mut out, &format!("# {}", section.title));
            }
            out.push_str(&drawn);
        }
        out.push_str(&then(canvas, document));
    }
    out
}

/// What to go on with, where there is something, below an empty line.
fn then(canvas: &Canvas, document: &Document) -> String {
    let mut out = String::new();
    if let Some(then) = &document.then {
        out.push('\n');
        canvas.paragraph(&mut out, &then.to_string(), 0);
    }
    out
}

/// A clause, and under it what to do about it.
fn said(canvas: &Canvas, out: &mut String, clause: &Clause) {
    canvas.paragraph(out, &clause.text.to_string(), 0);
    if let Some(next) = &clause.next {
        canvas.paragraph(out, &format!("Next: {next}"), 0);
    }
}

/// A sentence, broken at spaces to fit the width.
pub fn paragraph(canvas: &Canvas, words: &str) -> String {
    let mut out = String::new();
    canvas.paragraph(&mut out, words, 0);
    out
}

/// The documents as text where that fits so many rows, one below the other; where it does not, what
/// comes first of each: its headline, as much of its verdict as there is room for, the first table,
/// as many of the slowest records, the first plot where the section wants that, and a line that
/// says what `--full` adds.
pub fn screen(canvas: &Canvas, documents: &[Document], rows: usize) -> String {
    // The prompt comes back on a row, and the command's last words take a few.
    let rows = rows.saturating_sub(4);
    let whole = text(canvas, documents);
    if whole.lines().count() <= rows {
        return whole;
    }
    documents.iter().map(|document| first(canvas, document, rows)).collect::<Vec<_>>().join("\n")
}

/// What of a document's head one screen has.
#[derive(Clone, Copy)]
struct Head {
    title: bool,
    about: bool,
    /// Of the verdict, from the first on.
    sentences: usize,
    /// What `--full` adds is named piece by piece.
    named: bool,
}

fn first(canvas: &Canvas, document: &Document, rows: usize) -> String {
    let then = then(canvas, document);
    let rows = rows.saturating_sub(then.lines().count());
    let all = document.verdict.len();
    // What dominated, and what to do about it.
    let least = document.verdict.iter().position(|clause| clause.next.is_some()).map_or(all.min(1), |at| at + 1);
    let whole = Head { title: true, about: true, sentences: all, named: true };
    let shortest = Head { title: false, about: false, sentences: least, named: false };
    let heads = (least..=all).rev().map(|sentences| Head { sentences, ..whole });
    let shorter = [Head { title: true, about: true, ..shortest }, Head { about: true, ..shortest }, shortest];
    let with = |head| first_with(canvas, document, rows, head);
    let mut all: Vec<(String, bool)> = heads.chain(shorter).map(with).collect();
    all.retain(|(drawn, _)| drawn.lines().count() <= rows);
    let chosen = all.iter().find(|(_, has_wanted)| *has_wanted).or(all.first());
    chosen.map_or_else(|| with(shortest).0, |(drawn, _)| drawn.clone()) + &then
}

/// The screen with this head, and whether there was room for what its section is looked at for: the
/// first plot where that comes first, else the slowest record.
fn first_with(canvas: &Canvas, document: &Document, rows: usize, head: Head) -> (String, bool) {
    let headline = Document {
        title: if head.title { document.title.clone() } else { Text::default() },
        about: if head.about { document.about.clone() } else { String::new() },
        verdict: document.verdict[..head.sentences].to_vec(),
        warnings: document.warnings.clone(),
        ..Document::default()
    };
    let mut out = text(canvas, std::slice::from_ref(&headline)).trim_start_matches('\n').to_owned();
    let mut left: Vec<String> = Vec::new();
    let (mut has_plot, mut has_slowest) = (false, false);
    for (number, section) in document.sections.iter().enumerate() {
        let (mut has_table, mut kept) = (false, false);
        for piece in section.blocks.iter().filter(|_| number == 0) {
            let room = rows.saturating_sub(out.lines().count());
            let is_plot = matches!(piece, Block::Plot(_));
            if is_plot && (!section.plot_first || has_plot) {
                continue;
            }
            let shortened = shortened(piece).filter(|_| section.plot_first);
            let Some(drawn) = brief(canvas, shortened.as_ref().unwrap_or(piece), has_table, room) else { continue };
            out.push_str(&drawn);
            has_plot |= is_plot;
            has_slowest |= matches!(piece, Block::Waterfalls(_));
            has_table |= matches!(piece, Block::Table(_));
            kept = true;
        }
        if !kept && !section.title.is_empty() {
            left.push(section.title.to_lowercase());
        }
    }
    // What the section that is shown has besides.
    let blocks = || document.sections.iter().take(1).flat_map(|section| &section.blocks);
    let mut more: Vec<String> = Vec::new();
    if let beyond @ 1.. = document.verdict.len() - head.sentences {
        more.push(quantity::counted(beyond as u64, "more sentence"));
    }
    if blocks().any(|b| matches!(b, Block::Waterfalls(_))) {
        more.extend(["histograms", "connections", "every slow record"].map(str::to_owned));
    } else if blocks().filter(|b| matches!(b, Block::Plot(_))).nth(usize::from(has_plot)).is_some() {
        more.push("plots".to_owned());
    }
    more.append(&mut left);
    let more = if more.is_empty() || !head.named { String::new() } else { format!(": {}", more.join(", ")) };
    out.push('\n');
    canvas.paragraph(&mut out, &format!("--full shows the rest{more}."), 0);
    let wants_plot = document.sections.first().is_some_and(|section| section.plot_first);
    (out, if wants_plot { has_plot } else { has_slowest })
}

/// Rows that a table has in any case where they have no sentences, and at most beside a plot.
const SHORT: usize = 10;

/// The first rows of a long table, which leave room for a plot.
fn shortened(piece: &Block) -> Option<Block> {
    let Block::Table(table) = piece else { return None };
    let is_long = table.rows.len() > SHORT;
    is_long.then(|| Block::Table(Table { shown: Some(SHORT), elsewhere: ELSEWHERE.into(), ..table.clone() }))
}

/// Where the rows are that one screen has no room for.
const ELSEWHERE: &str = "--full shows them";

/// What one screen shows of a piece in so many rows. The first table is always there, if with fewer
/// of its rows.
fn brief(canvas: &Canvas, piece: &Block, has_table: bool, room: usize) -> Option<String> {
    let drawn = |piece: &Block| {
        let mut drawn = String::new();
        block(canvas, &mut drawn, piece);
        drawn
    };
    let fits = |drawn: &String| drawn.lines().count() < room;
    match piece {
        Block::Table(table) if !has_table => {
            let of = |shown: usize| {
                let shown = Some(shown.min(table.shown.unwrap_or(usize::MAX)));
                drawn(&Block::Table(Table { shown, elsewhere: ELSEWHERE.into(), ..table.clone() }))
            };
            let whole = Some(drawn(piece)).filter(fits);
            // A row says what it is by its name alone where rows have no sentences: such a table is
            // whole where it is short.
            let fewer = || (1..table.rows.len()).rev().map(of).find(fits);
            whole.or_else(|| {
                if table.rows.len() <= SHORT && table.rows.iter().all(|row| row.notes.is_empty()) {
                    Some(drawn(piece))
                } else {
                    fewer().or_else(|| Some(of(1)))
                }
            })
        }
        Block::List(_) | Block::Plot(_) => Some(drawn(piece)).filter(fits),
        Block::Waterfalls(of) => {
            let one = Block::Waterfalls(Waterfalls { shown: of.shown.min(1), ..of.clone() });
            // Below it stands what `--full` adds, after an empty line.
            let leaves_room = |drawn: &String| drawn.lines().count() + 2 <= room;
            Some(drawn(&one)).filter(fits).or_else(|| waterfall::in_words(canvas, of).filter(leaves_room))
        }
        _ => None,
    }
}

fn block(canvas: &Canvas, out: &mut String, block: &Block) {
    match block {
        Block::Words(text) => canvas.paragraph(out, &text.to_string(), 0),
        Block::Warning(text) => canvas.lines(out, Ink::Warn, &text.to_string()),
        Block::List(lines) => {
            for line in lines {
                let mut text = String::new();
                canvas.paragraph(&mut text, &line.to_string(), 2);
                out.push_str(&text.replacen("  ", "- ", 1));
            }
        }
        Block::Plot(plot) => plot::text::draw(canvas, out, plot),
        Block::Table(t) => draw_table(canvas, out, t),
        Block::OnPage(_) | Block::Graph(_) | Block::Glance(_) => {}
        Block::Counts(of) => counts::draw(canvas, out, of),
        Block::Histograms(of) => histogram::draw(canvas, out, of),
        Block::Waterfalls(of) => waterfall::draw(canvas, out, of),
        // Text without a title is for other programs, line by line as it is.
        Block::Code { title, text } if title.is_empty() => {
            for line in text.lines() {
                out.push_str(&canvas.plain(line));
                out.push('\n');
            }
        }
        Block::Code { title, text } => {
            out.push_str(&canvas.paint(Ink::Faint, &canvas.plain(title)));
            out.push('\n');
            for line in text.lines() {
                out.push_str(&canvas.plain(&format!("  {line}")));
                out.push('\n');
            }
        }
    }
}

fn draw_table(canvas: &Canvas, out: &mut String, t: &Table) {
    out.push('\n');
    canvas.title(out, &t.heading());
    table::draw(canvas, out, t);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Section;
    use crate::plot::Plot;

    #[test]
    fn one_screen_has_the_headline_what_to_do_and_the_table_whatever_else_goes() {
        let canvas = |width| Canvas { width, colour: false, unicode: true };
        let mut section = Section::new("Sends");
        let mut table = Table::new("Time by leg", ["leg", "p50"]);
        table.extend(["call", "tcp", "qdisc", "network", "total", "retrans"].map(|leg| [leg, "1 ms"]));
        section.table(table);
        let mut document = Document {
            title: "Trace".into(),
            about: "A trace of a program and port 5302 over 2.67 s: 201 sends on 1 connection, every send, by timestamping.".into(),
            verdict: vec!["Of 201 sends, the network leg took 92 % of the time.".into()],
            sections: vec![section, Section::new("Environment")],
            ..Document::default()
        };
        let next = format!("{}.", "trace the other end as well ".repeat(9).trim_end());
        document.verdict[0].next = Some(next.into());
        document
            .verdict
            .extend((0..6).map(|_| "Something more is said of what was seen, at some length, and it can wait.".into()));
        for width in [80, 60] {
            let canvas = canvas(width);
            let shown = screen(&canvas, std::slice::from_ref(&document), 24);
            assert!(shown.lines().count() <= 20, "{shown}");
            let at = |word: &str| shown.find(word).unwrap_or_else(|| panic!("no {word}: {shown}"));
            assert!(
                at("Of 201 sends") < at("Next: ") && at("Next: ") < at("retrans") && at("retrans") < at("--full"),
                "{shown}"
            );
            assert!(shown.lines().all(|line| line.chars().count() <= canvas.width), "{shown}");
        }
        let named = screen(&canvas(80), std::slice::from_ref(&document), 29);
        assert!(named.contains("Trace\n") && named.contains("more sentence"), "{named}");
    }

    #[test]
    fn one_screen_has_the_plot_of_a_section_that_is_looked_for_and_few_rows_of_a_long_table() {
        use crate::plot::{Axis, Hue, Interval, Layer, Unit};
        let canvas = Canvas { width: 80, colour: false, unicode: true };
        let items = vec![Interval { at: 0.0, low: 1.0, value: 2.0, high: 3.0, label: String::new() }];
        let axes = (Axis::linear("change", Unit::Plain), Axis::names("", ["5ms against 1ms"]));
        let layers = vec![Layer::Intervals { name: "measured".into(), hue: Hue(0), items }];
        let plot = Plot::new("effects", "Effects", "Change within blocks.", axes, layers);
        let document = |rows: usize, plot_first: bool| {
            let mut table = Table::new("plan", ["delay", "goodput"]);
            table.extend((0..rows).map(|row| [format!("{row}ms"), "1 Mbit/s".into()]));
            let mut section = Section { plot_first, ..Section::new("What it is worth") };
            section.table(table);
            section.plot(plot.clone());
            let verdict =
                (0..9).map(|n| format!("Sentence {n} says what was found, and it is a long one, {n} times.").into());
            let sections = vec![section, Section::new("Environment")];
            Document {
                title: "Study".into(),
                about: "A study.".into(),
                verdict: verdict.collect(),
                sections,
                ..Document::default()
            }
        };
        let shown = screen(&canvas, &[document(2, true)], 24);
        assert!(
            shown.contains("5ms against 1ms") && shown.contains("Sentence 0") && !shown.contains("plots"),
            "{shown}"
        );
        assert!(shown.lines().count() <= 20, "{shown}");
        let without = screen(&canvas, &[document(2, false)], 24);
        assert!(
            !without.contains("5ms against") && without.contains("Sentence 8") && without.contains("plots"),
            "{without}"
        );
        // A table of many rows leaves the screen to the rest.
        for rows in [24, 40] {
            let long = screen(&canvas, &[document(60, true)], rows);
            assert!(long.lines().count() <= rows - 4 && long.contains("more rows: --full shows them"), "{long}");
            assert_eq!(long.contains("5ms against 1ms"), rows == 40, "{long}");
        }
    }
}
