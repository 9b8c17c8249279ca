//! Tables as text.

use comfy_table::{CellAlignment, ContentArrangement};
use unicode_width::UnicodeWidthStr as _;

use crate::canvas::{Canvas, Ink};
use crate::document::Table;

/// Columns between two columns of a table.
const GAP: usize = 2;

/// Whether these columns stand beside each other.
fn fits(canvas: &Canvas, head: &[String], rows: &[Vec<String>], columns: &[usize]) -> bool {
    let width =
        |i: &usize| rows.iter().filter_map(|r| r.get(*i)).chain(head.get(*i)).map(|c| c.width()).max().unwrap_or(0);
    columns.iter().map(|i| width(i) + GAP).sum::<usize>().saturating_sub(GAP) <= canvas.width
}

/// Draws the table as wide as its content. Where the canvas is narrower, first cells become brief, then the columns that the table can spare go, and then
/// cells are broken into lines.
pub(super) fn draw(canvas: &Canvas, out: &mut String, table: &Table) {
    let cell = |text: &str| canvas.plain(&text.replace(['\n', '\t', '\u{1b}'], " "));
    let shown = table.rows.len().min(table.shown.unwrap_or(usize::MAX));
    let rest = table.rest.iter().filter(|_| shown < table.rows.len());
    let mut rows: Vec<Vec<String>> =
        table.rows[..shown].iter().chain(rest).map(|r| r.iter().map(|c| cell(c)).collect()).collect();
    let head: Vec<String> = table.head.iter().map(|h| cell(h)).collect();
    let mut columns: Vec<usize> = (0..head.len()).collect();
    if !fits(canvas, &head, &rows, &columns) {
        rows.iter_mut().zip(&table.brief).take(shown).for_each(|(row, brief)| row[0] = cell(brief));
    }
    let mut spare = table.spare.iter();
    while !fits(canvas, &head, &rows, &columns)
        && let Some(name) = spare.next()
    {
        columns.retain(|i| table.head[*i] != *name);
    }
    let mut drawn = comfy_table::Table::new();
    drawn.load_style(comfy_table::presets::NOTHING);
    drawn.set_content_arrangement(ContentArrangement::Dynamic);
    // A column is followed by the gap, which the last one has beyond the edge.
    drawn.set_width(u16::try_from(canvas.width + GAP).unwrap_or(u16::MAX));
    let pick =
        |row: &[String]| -> Vec<String> { columns.iter().map(|i| row.get(*i).cloned().unwrap_or_default()).collect() };
    if head.iter().any(|h| !h.is_empty()) {
        drawn.set_header(pick(&head));
    }
    rows.iter().for_each(|row| _ = drawn.add_row(pick(row)));
    for (column, i) in drawn.column_iter_mut().zip(&columns) {
        column.set_padding((0, GAP as u16));
        if table.is_figures(*i) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let text = drawn.to_string();
    let headed = usize::from(head.iter().any(|h| !h.is_empty()));
    let mut row = 0;
    for (n, line) in text.lines().enumerate() {
        let line = line.trim_end();
        if n < headed {
            out.push_str(&canvas.paint(Ink::Faint, line));
        } else {
            // A row of several lines begins where its first cell does.
            let begins = !line.starts_with(' ')
                && rows.get(row).and_then(|r| r.first()).is_some_and(|c| line.starts_with(c.as_str()));
            match table.hues.get(row).copied().flatten().filter(|_| begins) {
                Some(hue) => {
                    let name = &rows[row][0];
                    out.push_str(&canvas.paint(Ink::Hue(hue.0), name));
                    out.push_str(&line[name.len()..]);
                }
                None => out.push_str(line),
            }
            row += usize::from(begins);
        }
        out.push('\n');
    }
    if shown < table.rows.len() {
        let left = quantity::counted((table.rows.len() - shown) as u64, "more row");
        let note = format!("{left}: a page (`wirelapse report RUN --html FILE`) has them.");
        let mut text = String::new();
        canvas.paragraph(&mut text, &note, 0);
        text.lines().for_each(|line| {
            out.push_str(&canvas.paint(Ink::Faint, line));
            out.push('\n');
        });
    }
}
