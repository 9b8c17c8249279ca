//! The help over the view: every key, and how a filter is written, in 60 columns and 20 rows.

use paper::{Canvas, Ink};
use ratatui::text::{Line, Span};

use super::style;

/// What stands in front of each line is a key, or an example of a filter.
const LINES: [(&str, &str); 18] = [
    ("Up Down k j", "choose a row; of an open one, its neighbours"),
    ("PgUp PgDn", "ten rows; Home, End: first, last"),
    ("Enter Esc", "open a row; back, clear the filter, quit"),
    ("/", "show rows that a filter takes"),
    ("s S", "next order; turn it round"),
    ("g", "peer, program, port, cgroup, connection"),
    ("f", "freeze: rows stay in their places"),
    ("p Space", "pause: figures stay as they are"),
    ("c", "choose columns (kept)"),
    ("y", "copy the row to the clipboard"),
    ("r", "record 10 s for wirelapse report"),
    ("q Ctrl-C", "quit"),
    ("Filters", "all terms must hold, -term must not"),
    ("port:80,443", "proc:nginx peer:10.0.0.0/8 unit:web"),
    ("p99:>50ms", "p50 req rtt idle: times; sends retr"),
    ("sent:>1M", "recv: bytes a second; proto:udp pid:7"),
    ("state:conn", "established connecting listening ..."),
    ("wait:window", "what is wrong; a bare word: a name"),
];

pub(super) fn lines(canvas: &Canvas) -> Vec<Line<'static>> {
    LINES
        .into_iter()
        .map(|(key, what)| {
            let key = Span::styled(canvas.cut(&format!("{key:<13}"), canvas.width), style(canvas, Ink::Strong));
            Line::from(vec![key, Span::raw(canvas.cut(what, canvas.width.saturating_sub(13)))])
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_cut_at_sixty_columns_and_twenty_rows() {
        assert!(LINES.len() <= 18);
        for (key, what) in LINES {
            assert!(key.len() < 13 && 13 + what.len() <= 60, "{key} {what}");
        }
    }
}
