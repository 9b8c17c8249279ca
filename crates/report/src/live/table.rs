//! A table as a widget: as wide as its content, or cut to the width that there is.

use ratatui::layout::{Alignment, Constraint};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Row, Table as Widget};
use unicode_width::UnicodeWidthStr as _;

use super::style;
use paper::{Canvas, Ink};

/// Columns between two columns of a table.
const GAP: u16 = 2;

/// How a column is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Align {
    Left,
    Right,
}

/// A cell: its text, and how it is meant.
pub(super) type Text = (String, Option<Ink>);

/// A head and rows.
pub(super) struct Table {
    align: Vec<Align>,
    spare: &'static [&'static str],
    rows: Vec<Vec<Text>>,
}

impl Table {
    pub fn new(head: &[(&str, Align)]) -> Self {
        let rows = vec![head.iter().map(|(text, _)| ((*text).to_owned(), Some(Ink::Faint))).collect()];
        Self { align: head.iter().map(|h| h.1).collect(), spare: &[], rows }
    }

    /// Columns by name that go where the frame is too narrow, the first one first.
    pub fn spare(self, spare: &'static [&'static str]) -> Self {
        Self { spare, ..self }
    }

    pub fn row(&mut self, cells: Vec<Text>) {
        self.rows.push(cells);
    }

    /// Lines that it takes.
    pub fn height(&self) -> u16 {
        u16::try_from(self.rows.len()).unwrap_or(u16::MAX)
    }

    /// The widget for this canvas. Where the content is wider, columns that can be spared go, the
    /// first left column gives way, and the last columns go: a figure is never cut, as a cut one is
    /// another figure.
    pub fn widget(&self, canvas: &Canvas) -> Widget<'static> {
        let width = |i: usize| {
            self.rows.iter().filter_map(|row| row.get(i)).map(|cell| canvas.plain(&cell.0).width()).max().unwrap_or(0)
        };
        let mut widths: Vec<usize> = (0..self.align.len()).map(width).collect();
        let mut columns: Vec<usize> = (0..widths.len()).collect();
        let first = self.align.iter().position(|&a| a == Align::Left);
        let excess = |columns: &[usize], widths: &[usize]| {
            let whole: usize = columns.iter().map(|i| widths[*i] + usize::from(GAP)).sum();
            whole.saturating_sub(usize::from(GAP)).saturating_sub(canvas.width)
        };
        for name in self.spare {
            if excess(&columns, &widths) > 0 {
                columns.retain(|i| self.rows[0][*i].0 != *name);
            }
        }
        if let Some(first) = first {
            widths[first] = widths[first].saturating_sub(excess(&columns, &widths)).max(widths[first].min(8));
        }
        while columns.len() > 1 && excess(&columns, &widths) > 0 {
            columns.pop();
        }
        let cell = |row: &Vec<Text>, i: usize| {
            let (text, ink) = &row[i];
            let ink = ink.map(|ink| style(canvas, ink)).unwrap_or_default();
            let line = Line::from(Span::styled(canvas.cut(text, widths[i]), ink));
            Cell::from(line.alignment(match self.align[i] {
                Align::Left => Alignment::Left,
                Align::Right => Alignment::Right,
            }))
        };
        let rows: Vec<Row<'static>> =
            self.rows.iter().map(|row| columns.iter().map(|i| cell(row, *i)).collect()).collect();
        let widths = columns.iter().map(|i| Constraint::Length(u16::try_from(widths[*i]).unwrap_or(u16::MAX)));
        Widget::new(rows, widths).column_spacing(GAP)
    }
}
