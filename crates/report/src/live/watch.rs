//! The histograms of a watched field while it goes on.

use ratatui::Frame;
use ratatui::text::{Line, Span, Text};
use summary::{FieldGroups, FieldHistogram};

use super::style;
use crate::page::watch::{counts, heading, sentence};
use paper::Canvas;
use paper::Ink;
use paper::terminal::counts::lines;

/// Draws as many of the histograms as there is room for, those with the most readings first. Of the
/// canvas its width is that of the frame. `missed` counts readings that did not reach this program.
pub fn watch(frame: &mut Frame<'_>, canvas: &Canvas, groups: &FieldGroups, missed: u64) {
    let area = frame.area();
    let canvas = Canvas { width: area.width.into(), ..*canvas };
    let field = groups.field();
    let mut text: Vec<Line<'static>> = Vec::new();
    let inked = |text: &str, ink| Line::from(Span::styled(canvas.cut(text, canvas.width), style(&canvas, ink)));
    if missed > 0 {
        text.push(inked(&format!("{} missed so far", quantity::counted(missed, "reading")), Ink::Warn));
    }
    let empty = FieldHistogram::new(field);
    let sorted = groups.sorted();
    let nothing = [("", &empty)];
    for (group, histogram) in if sorted.is_empty() { &nothing[..] } else { &sorted } {
        if text.len() >= area.height.into() {
            break;
        }
        text.push(inked(&format!("{}: {}", heading(field, group), field.meaning()), Ink::Strong));
        for line in counts(histogram).iter().flat_map(|of| lines(&canvas, of)) {
            let span = |(text, ink): (String, Option<Ink>)| {
                Span::styled(canvas.plain(&text), ink.map(|ink| style(&canvas, ink)).unwrap_or_default())
            };
            text.push(Line::from(line.into_iter().map(span).collect::<Vec<_>>()));
        }
        let mut figures = String::new();
        canvas.paragraph(&mut figures, &sentence(histogram), 0);
        text.extend(figures.lines().map(|line| Line::from(line.to_owned())));
        text.push(Line::default());
    }
    frame.render_widget(Text::from(text), area);
}

#[cfg(test)]
mod tests {
    use super::super::ROWS_OF_WATCH;
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use record::Field;

    #[test]
    fn the_screen_shows_bars_and_figures_and_no_escape_sequence() {
        let mut groups = FieldGroups::new(Field::HeaderLength);
        (0..200).for_each(|_| groups.add("10.0.0.1".into(), Some(32)));
        groups.add("a\x1b[2Jb".into(), Some(20));
        let mut terminal = Terminal::new(TestBackend::new(60, ROWS_OF_WATCH)).unwrap();
        let canvas = Canvas { width: 0, colour: true, unicode: true };
        terminal.draw(|frame| watch(frame, &canvas, &groups, 2)).unwrap();
        let buffer = terminal.backend().buffer();
        let rows: Vec<String> =
            (0..ROWS_OF_WATCH).map(|y| (0..60).map(|x| buffer[(x, y)].symbol()).collect()).collect();
        let text = rows.join("\n");
        assert!(text.contains("2 readings missed so far"), "{text}");
        assert!(rows.iter().any(|row| row.contains("32 │███") && row.trim_end().ends_with(" 200")), "{text}");
        assert!(text.contains("200 values, all 32 B.") && text.contains("header-length of 10.0.0.1, bytes"), "{text}");
        assert!(!text.contains('\x1b') && text.contains("a\u{fffd}[2Jb"), "{text}");
        let bar = (0..ROWS_OF_WATCH)
            .flat_map(|y| (0..60).map(move |x| (x, y)))
            .find(|at| buffer[*at].symbol() == "█")
            .unwrap();
        assert_eq!(buffer[bar].fg, ratatui::style::Color::Cyan);
    }
}
