//! Columns of text that line up.

use unicode_width::UnicodeWidthStr as _;

use crate::canvas::{Canvas, Ink};

/// How a column is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// A table that is drawn as wide as its content, or cut to the canvas: the first left column gives way.
pub(crate) struct Table {
    align: Vec<Align>,
    rows: Vec<Vec<(String, Option<Ink>)>>,
}

const GAP: usize = 2;

impl Table {
    pub fn new(head: &[(&str, Align)]) -> Self {
        let rows = vec![head.iter().map(|(text, _)| ((*text).to_owned(), Some(Ink::Faint))).collect()];
        Self { align: head.iter().map(|h| h.1).collect(), rows }
    }

    pub fn row(&mut self, cells: Vec<(String, Option<Ink>)>) {
        self.rows.push(cells);
    }

    pub fn draw(&self, canvas: &Canvas, out: &mut String) {
        let rows: Vec<Vec<(String, Option<Ink>)>> =
            self.rows.iter().map(|row| row.iter().map(|(text, ink)| (canvas.plain(text), *ink)).collect()).collect();
        let mut widths: Vec<usize> = (0..self.align.len())
            .map(|i| rows.iter().filter_map(|row| row.get(i)).map(|cell| cell.0.width()).max().unwrap_or(0))
            .collect();
        let whole: usize = widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1);
        if let Some(excess) = whole.checked_sub(canvas.width)
            && let Some(first) = self.align.iter().position(|&a| a == Align::Left)
        {
            widths[first] = widths[first].saturating_sub(excess).max(8);
        }
        for row in &rows {
            let mut line = String::new();
            for (i, (text, ink)) in row.iter().enumerate() {
                let text = canvas.cut(text, widths[i]);
                let fill = " ".repeat(widths[i].saturating_sub(text.width()));
                let painted = ink.map_or_else(|| text.clone(), |ink| canvas.paint(ink, &text));
                if i > 0 {
                    line.push_str(&" ".repeat(GAP));
                }
                match self.align[i] {
                    Align::Left => line.push_str(&(painted + &fill)),
                    Align::Right => line.push_str(&(fill + &painted)),
                }
            }
            out.push_str(line.trim_end());
            out.push('\n');
        }
    }
}
