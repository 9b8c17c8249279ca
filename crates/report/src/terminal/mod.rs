//! A report as text for a terminal.

mod histogram;
mod table;
mod waterfall;

use crate::Canvas;
use crate::canvas::Ink;
use crate::document::{Block, Document, Table};
use crate::plot;

/// The documents as text, one after the other.
pub fn text(canvas: &Canvas, documents: &[Document]) -> String {
    let mut out = String::new();
    for (i, document) in documents.iter().enumerate() {
        if i > 0 {
            out.push('\n');
        }
        out.push_str(&canvas.paint(Ink::Strong, &canvas.cut(&document.title, canvas.width)));
        out.push('\n');
        canvas.paragraph(&mut out, &document.about, 0);
        for warning in &document.warnings {
            warn(canvas, &mut out, warning);
        }
        if !document.verdict.is_empty() {
            out.push('\n');
        }
        document.verdict.iter().for_each(|v| canvas.paragraph(&mut out, v, 0));
        for section in &document.sections {
            canvas.heading(&mut out, &format!("# {}", section.title));
            let later = |b: &&Block| section.plots_last && matches!(b, Block::Plot(_));
            section.blocks.iter().filter(|b| !later(b)).for_each(|b| block(canvas, &mut out, b));
            section.blocks.iter().filter(later).for_each(|b| block(canvas, &mut out, b));
        }
    }
    out
}

fn warn(canvas: &Canvas, out: &mut String, text: &str) {
    let mut lines = String::new();
    canvas.paragraph(&mut lines, text, 0);
    for line in lines.lines() {
        out.push_str(&canvas.paint(Ink::Warn, line));
        out.push('\n');
    }
}

fn block(canvas: &Canvas, out: &mut String, block: &Block) {
    match block {
        Block::Words(text) => canvas.paragraph(out, text, 0),
        Block::Warning(text) => warn(canvas, out, text),
        Block::List(lines) => {
            for line in lines {
                let mut text = String::new();
                canvas.paragraph(&mut text, line, 2);
                out.push_str(&text.replacen("  ", "- ", 1));
            }
        }
        Block::Plot(plot) => plot::text::draw(canvas, out, plot),
        Block::Table(t) => draw_table(canvas, out, t),
        Block::Histograms(of) => histogram::draw(canvas, out, of),
        Block::Waterfalls(of) => waterfall::draw(canvas, out, of),
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
    if !t.title.is_empty() {
        out.push_str(&canvas.paint(Ink::Strong, &canvas.cut(&t.title, canvas.width)));
        out.push('\n');
    }
    table::draw(canvas, out, t);
}
