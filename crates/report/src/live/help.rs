//! The help over the view: every key, and how a filter is written, in 60 columns and 20 rows.

use paper::{Canvas, Ink};
use ratatui::text::{Line, Span};

use super::style;

/// What stands in front of each line is a key, or an example of a filter.
const LINES: [(&str, &str); 18] = [
    ("Up Down k j", "choose a row; of an open one, its neighbours"),
    ("PgUp PgDn", "ten rows, or lines of an open row; Home, End"),
    ("Enter Esc", "open a row; back, clear the filter, quit"),
    ("Space", "unfold a row into its connections, or fold it"),
    ("g", "peer name program process unit pod port ..."),
    ("s S f", "next order; turn it round; freeze the rows"),
    ("p c y", "pause; choose columns (kept); copy the row"),
    ("t", "trace the row for 5 s: the verdict, here"),
    ("w", "write its packets of 10 s for Wireshark"),
    ("a", "advice: write its packets, try settings"),
    ("r x", "record 10 s; flight recorder: begin, write"),
    ("q Ctrl-C", "quit"),
    ("/", "show rows that a filter takes; -term: do not"),
    ("port:80,443", "proc:nginx peer:10.0.0.0/8 unit:web pod:x"),
    ("name:example", "user:www state:conn proto:udp pid:7 local:"),
    ("p99:>50ms", "p50 req rtt idle: times; sends: retr:"),
    ("sent:>1M", "recv: bytes a second"),
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
