//! Tables as text.

use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Width};
use unicode_width::UnicodeWidthStr as _;

use crate::canvas::{Canvas, Ink};
use crate::document::Table;
use crate::hue::Hue;

/// Columns between two columns of a table.
const GAP: usize = 2;
/// The deepest that sentences under a row are indented.
const DEEPEST: usize = 8;
/// In a hidden first column: here a row begins. A character of private use, which no cell can bring
/// there.
const BEGINS: char = '\u{e000}';

/// Whether these columns stand beside each other.
fn fits(canvas: &Canvas, head: &[String], rows: &[Vec<String>], columns: &[usize]) -> bool {
    columns.iter().map(|&i| width(head, rows, i) + GAP).sum::<usize>().saturating_sub(GAP) <= canvas.width
}

fn width(head: &[String], rows: &[Vec<String>], column: usize) -> usize {
    rows.iter().filter_map(|r| r.get(column)).chain(head.get(column)).map(|c| c.width()).max().unwrap_or(0)
}

/// Draws the table as wide as its content. Where the canvas is narrower, first cells become brief,
/// then the columns that the table can spare go, and then cells are broken into lines. Where not
/// even single words stand beside each other, each row is a paragraph.
pub(super) fn draw(canvas: &Canvas, out: &mut String, table: &Table) {
    let cell = |text: &str| canvas.plain(&text.replace(['\n', '\t', '\u{1b}'], " "));
    let shown = table.rows.len().min(table.shown.unwrap_or(usize::MAX));
    let rest = table.rest.iter().filter(|_| shown < table.rows.len());
    let mut rows: Vec<Vec<String>> = table.rows[..shown]
        .iter()
        .chain(rest)
        .map(|row| row.cells.iter().map(|c| cell(&c.to_string())).collect())
        .collect();
    let head: Vec<String> = table.columns.iter().map(|column| cell(&column.name)).collect();
    let mut columns: Vec<usize> = (0..head.len()).collect();
    if !fits(canvas, &head, &rows, &columns) {
        for (cells, row) in rows.iter_mut().zip(&table.rows).take(shown) {
            if let (Some(first), Some(brief)) = (cells.first_mut(), &row.brief) {
                *first = cell(&brief.to_string());
            }
        }
    }
    let mut spare = table.in_order_of_sparing();
    while !fits(canvas, &head, &rows, &columns)
        && let Some(goes) = spare.next()
    {
        columns.retain(|i| *i != goes);
    }
    let longest: usize = columns.iter().map(|&i| longest_word(&head, &rows, i) + GAP).sum();
    if longest.saturating_sub(GAP) > canvas.width {
        for (n, row) in rows.iter().enumerate() {
            record(canvas, out, &head, row, &columns, table.rows.get(n).filter(|_| n < shown).and_then(|row| row.hue));
            notes(canvas, out, table, Some(n).filter(|&n| n < shown), GAP);
        }
        return left_out(canvas, out, table, shown);
    }
    let headed = head.iter().any(|h| !h.is_empty());
    let lines = arranged(canvas, table, &head, &rows, &columns);
    let indent = columns.first().map_or(0, |&i| width(&head, &rows, i) + GAP);
    let indent = if indent > DEEPEST { GAP } else { indent };
    // Counts the rows that have begun; the head is one of them.
    let mut begun = 0;
    for line in lines.lines() {
        let begins = line.starts_with(BEGINS);
        let line = line.trim_start_matches(BEGINS);
        let line = if begins { line } else { line.get(1..).unwrap_or("") }.trim_end();
        let row = |begun: usize| (begun).checked_sub(1 + usize::from(headed));
        if begins {
            notes(canvas, out, table, row(begun).filter(|&n| n < shown), indent);
            begun += 1;
        }
        let hue =
            row(begun).and_then(|n| table.rows.get(n).filter(|_| n < shown).and_then(|row| row.hue)).filter(|_| begins);
        match (hue, row(begun)) {
            (_, None) => out.push_str(&canvas.paint(Ink::Faint, line)),
            (Some(hue), Some(n)) if line.starts_with(rows[n][0].as_str()) => {
                let (name, others) = line.split_at(rows[n][0].len());
                out.push_str(&canvas.paint(Ink::Hue(hue), name));
                out.push_str(others);
            }
            _ => out.push_str(line),
        }
        out.push('\n');
    }
    notes(canvas, out, table, begun.checked_sub(1 + usize::from(headed)).filter(|&n| n < shown), indent);
    left_out(canvas, out, table, shown);
}

/// A row whose words do not fit beside each other: its first cell, and under it the others with the
/// names of their columns.
fn record(canvas: &Canvas, out: &mut String, head: &[String], row: &[String], columns: &[usize], hue: Option<Hue>) {
    let Some((first, others)) = columns.split_first() else { return };
    let cell = |i: usize| row.get(i).map_or("", String::as_str);
    canvas.lines(out, hue.map_or(Ink::Strong, Ink::Hue), cell(*first));
    let named = |&i: &usize| match (cell(i), head[i].as_str()) {
        ("", _) => None,
        (value, "") => Some(value.to_owned()),
        (value, name) => Some(format!("{name} {value}")),
    };
    let words: Vec<String> = others.iter().filter_map(named).collect();
    canvas.paragraph(out, &words.join("; "), GAP);
}

/// How many rows are not shown, and where they are.
fn left_out(canvas: &Canvas, out: &mut String, table: &Table, shown: usize) {
    if shown < table.rows.len() {
        let left = quantity::counted((table.rows.len() - shown) as u64, "more row");
        let place = match table.elsewhere.as_str() {
            "" => "a page (`wirelapse report RUN --html FILE`) has them",
            place => place,
        };
        canvas.lines(out, Ink::Faint, &format!("{left}: {place}."));
    }
}

/// The lines of the table, each with [`BEGINS`] before it where a row begins there and a blank
/// where none does.
fn arranged(canvas: &Canvas, table: &Table, head: &[String], rows: &[Vec<String>], columns: &[usize]) -> String {
    let mut drawn = comfy_table::Table::new();
    drawn.load_style(comfy_table::presets::NOTHING);
    drawn.set_content_arrangement(ContentArrangement::Dynamic);
    // A column is followed by the gap, which the last one has beyond the edge.
    drawn.set_width(u16::try_from(canvas.width + GAP + 1).unwrap_or(u16::MAX));
    let pick = |row: &[String]| -> Vec<String> {
        let cells = columns.iter().map(|i| row.get(*i).cloned().unwrap_or_default());
        std::iter::once(BEGINS.to_string()).chain(cells).collect()
    };
    if head.iter().any(|h| !h.is_empty()) {
        drawn.set_header(pick(head));
    }
    rows.iter().for_each(|row| _ = drawn.add_row(pick(row)));
    let widths = widths(canvas, head, rows, columns);
    for (n, column) in drawn.column_iter_mut().enumerate() {
        let Some(&i) = n.checked_sub(1).and_then(|n| columns.get(n)) else {
            column.set_padding((0, 0));
            continue;
        };
        column.set_padding((0, GAP as u16));
        let width = u16::try_from(widths[n - 1] + GAP).unwrap_or(u16::MAX);
        column.set_constraint(ColumnConstraint::Absolute(Width::Fixed(width)));
        if table.columns[i].figures {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    drawn.to_string()
}

/// The width of the longest word of a column.
fn longest_word(head: &[String], rows: &[Vec<String>], column: usize) -> usize {
    let cells = rows.iter().filter_map(|r| r.get(column)).chain(head.get(column));
    cells.flat_map(|c| c.split(' ')).map(|word| word.width()).max().unwrap_or(0)
}

/// How wide the columns are: as their content, or, where that is too wide together, the widest ones
/// as narrow as it takes. Words stay whole as long as another column can still give way.
fn widths(canvas: &Canvas, head: &[String], rows: &[Vec<String>], columns: &[usize]) -> Vec<usize> {
    let longest: Vec<usize> = columns.iter().map(|&i| longest_word(head, rows, i)).collect();
    let mut widths: Vec<usize> = columns.iter().map(|&i| width(head, rows, i)).collect();
    let room = (canvas.width + GAP).saturating_sub(columns.len() * GAP);
    while widths.iter().sum::<usize>() > room {
        let widest =
            |whole: bool| (0..widths.len()).filter(|&n| !whole || widths[n] > longest[n]).max_by_key(|&n| widths[n]);
        match widest(true).or_else(|| widest(false)).filter(|&n| widths[n] > 1) {
            Some(n) => widths[n] -= 1,
            None => break,
        }
    }
    widths
}

/// What stands under a row.
fn notes(canvas: &Canvas, out: &mut String, table: &Table, row: Option<usize>, indent: usize) {
    let Some(row) = row.and_then(|n| table.rows.get(n)) else { return };
    row.notes.iter().for_each(|note| canvas.paragraph(out, &note.to_string(), indent));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_word_is_broken_however_many_columns_there_are() {
        let canvas = Canvas { width: 80, colour: false, unicode: true };
        let figures =
            ["response", "change", "difference", "Hedges' g", "Cliff's delta", "p", "p permutation", "smallest seen"];
        let mut table = Table::new("by several measures", std::iter::once("what").chain(figures));
        let cells =
            ["transactions", "+9.1 % [+8.9, +9.3]", "12345.67 1/s", "44.10", "1.00", "0.00012", "0.0312", "+0.22 %"];
        table.push(std::iter::once("net.ipv4.tcp_slow_start_after_idle 0 against 1").chain(cells).collect::<Vec<_>>());
        let mut drawn = String::new();
        draw(&canvas, &mut drawn, &table);
        assert!(drawn.lines().all(|line| line.width() <= 80), "{drawn}");
        let words: Vec<&str> = drawn.split_whitespace().map(|word| word.trim_end_matches(';')).collect();
        let all = table.rows[0].cells.iter().map(ToString::to_string).chain(figures.map(str::to_owned));
        let missing: Vec<String> = all
            .flat_map(|cell| cell.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
            .filter(|word| !words.contains(&word.as_str()))
            .collect();
        assert_eq!(missing, Vec::<String>::new(), "{drawn}");
        // Where the words have room, columns stay.
        let wide = Canvas { width: 140, ..canvas };
        let mut drawn = String::new();
        draw(&wide, &mut drawn, &table);
        assert!(drawn.lines().next().is_some_and(|head| head.contains("what") && head.contains("smallest")), "{drawn}");
    }
}
