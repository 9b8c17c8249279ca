//! A table as a widget: as wide as its content, or cut to the width that there is.

use paper::document::{Column, Table};
use paper::plot::Hue;
use paper::{Canvas, Ink};
use ratatui::layout::{Alignment, Constraint};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Row, Table as Widget};
use unicode_width::UnicodeWidthStr as _;

use super::style;

/// Columns between two columns of a table.
const GAP: u16 = 2;

/// Lines that it takes: its head, and a line for each row.
pub(super) fn height(table: &Table) -> u16 {
    u16::try_from(table.rows.len() + 1).unwrap_or(u16::MAX)
}

/// The widget of a table for this canvas; `faint` is a column that only adds to the one before it.
/// Where the content is wider, columns that can be spared go, the first left column gives way, and
/// the last columns go: a figure is never cut, as a cut one is another figure.
pub(super) fn widget(canvas: &Canvas, table: &Table, faint: Option<usize>) -> Widget<'static> {
    let head: Vec<String> = table.columns.iter().map(|column| column.name.clone()).collect();
    let written: Vec<Vec<String>> =
        std::iter::once(head).chain((0..table.rows.len()).map(|row| table.written(row))).collect();
    let width = |i: usize| {
        written.iter().filter_map(|row| row.get(i)).map(|cell| canvas.plain(cell).width()).max().unwrap_or(0)
    };
    let mut widths: Vec<usize> = (0..table.columns.len()).map(width).collect();
    let mut columns: Vec<usize> = (0..widths.len()).collect();
    let excess = |columns: &[usize], widths: &[usize]| {
        let whole: usize = columns.iter().map(|i| widths[*i] + usize::from(GAP)).sum();
        whole.saturating_sub(usize::from(GAP)).saturating_sub(canvas.width)
    };
    for spare in table.in_order_of_sparing() {
        if excess(&columns, &widths) > 0 {
            columns.retain(|i| *i != spare);
        }
    }
    if let Some(first) = table.columns.iter().position(|column| !column.figures) {
        widths[first] = widths[first].saturating_sub(excess(&columns, &widths)).max(widths[first].min(8));
    }
    while columns.len() > 1 && excess(&columns, &widths) > 0 {
        columns.pop();
    }
    let ink = |row: usize, column: usize| match row.checked_sub(1).and_then(|row| table.rows.get(row)) {
        None => Some(Ink::Faint),
        // The neutral one is that of the total.
        Some(row) if column == 0 => row.hue.map(|hue| if hue == Hue::NEUTRAL { Ink::Strong } else { Ink::Hue(hue) }),
        Some(_) => Some(Ink::Faint).filter(|_| faint == Some(column)),
    };
    let cell = |row: usize, i: usize| {
        let text = written[row].get(i).map_or("", String::as_str);
        let style = ink(row, i).map(|ink| style(canvas, ink)).unwrap_or_default();
        Cell::from(Line::from(Span::styled(canvas.cut(text, widths[i]), style)).alignment(side(&table.columns[i])))
    };
    let rows: Vec<Row<'static>> =
        (0..written.len()).map(|row| columns.iter().map(|i| cell(row, *i)).collect()).collect();
    let widths = columns.iter().map(|i| Constraint::Length(u16::try_from(widths[*i]).unwrap_or(u16::MAX)));
    Widget::new(rows, widths).column_spacing(GAP)
}

fn side(column: &Column) -> Alignment {
    if column.figures { Alignment::Right } else { Alignment::Left }
}
