//! A table as a widget: as wide as its content, or cut to the width that there is.

use ratatui::layout::{Alignment, Constraint};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Row, Table as Widget};
use unicode_width::UnicodeWidthStr as _;

use super::style;
use crate::canvas::{Canvas, Ink};

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
    rows: Vec<Vec<Text>>,
}

impl Table {
    pub fn new(head: &[(&str, Align)]) -> Self {
        let rows = vec![head.iter().map(|(text, _)| ((*text).to_owned(), Some(Ink::Faint))).collect()];
        Self { align: head.iter().map(|h| h.1).collect(), rows }
    }

    pub fn row(&mut self, cells: Vec<Text>) {
        self.rows.push(cells);
    }

    /// Lines that it takes.
    pub fn height(&self) -> u16 {
        u16::try_from(self.rows.len()).unwrap_or(u16::MAX)
    }

    /// The widget for this canvas: where the content is wider, the first left column gives way.
    pub fn widget(&self, canvas: &Canvas) -> Widget<'static> {
        let rows: Vec<Vec<Text>> =
            self.rows.iter().map(|row| row.iter().map(|(text, ink)| (canvas.plain(text), *ink)).collect()).collect();
        let mut widths: Vec<usize> = (0..self.align.len())
            .map(|i| rows.iter().filter_map(|row| row.get(i)).map(|cell| cell.0.width()).max().unwrap_or(0))
            .collect();
        let whole = widths.iter().sum::<usize>() + usize::from(GAP) * widths.len().saturating_sub(1);
        if let Some(excess) = whole.checked_sub(canvas.width)
            && let Some(first) = self.align.iter().position(|&a| a == Align::Left)
        {
            widths[first] = widths[first].saturating_sub(excess).max(8);
        }
        let cell = |(((text, ink), width), align): ((&Text, &usize), &Align)| {
            let span = Span::styled(canvas.cut(text, *width), ink.map(|ink| style(canvas, ink)).unwrap_or_default());
            Cell::from(Line::from(span).alignment(match align {
                Align::Left => Alignment::Left,
                Align::Right => Alignment::Right,
            }))
        };
        let rows: Vec<Row<'static>> =
            rows.iter().map(|row| row.iter().zip(&widths).zip(&self.align).map(cell).collect()).collect();
        let widths = widths.iter().map(|w| Constraint::Length(u16::try_from(*w).unwrap_or(u16::MAX)));
        Widget::new(rows, widths).column_spacing(GAP)
    }
}
