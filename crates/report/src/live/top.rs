//! The screen of `wirelapse top`: rows of figures, what is chosen of them, and the keys.

use std::net::SocketAddr;

use ratatui::Frame;
use ratatui::style::Modifier;
use ratatui::text::{Line, Span, Text};
use record::histogram::GroupBy;
use record::{Leg, Nanos, Send};
use summary::{Group, SortBy};
use unicode_width::UnicodeWidthStr as _;

use super::spans::{self, left, right};
use super::{Opened, opened, style};
use paper::Canvas;
use paper::Ink;
use paper::document::{Document, Row, Section, Table};
use paper::plot::names::apart;

/// What the screen shows.
#[derive(Debug)]
pub struct Top<'a> {
    /// Which connections.
    pub target: &'a str,
    /// The rows, sorted and filtered.
    pub rows: &'a [Group],
    /// What rows are.
    pub by: GroupBy,
    /// What they are sorted by.
    pub sort: SortBy,
    /// Which row is chosen.
    pub selected: usize,
    /// Only rows with this in their labels; empty for all.
    pub filter: &'a str,
    /// Whether the filter is being written.
    pub typing: bool,
    /// Whether the figures stand still.
    pub paused: bool,
    /// The share of the bytes that was sampled, in [0, 1].
    pub looked_at: f64,
    /// The CPU time of this program, as a share of one CPU.
    pub cpu: f64,
    /// The oldest send of each connection that is stuck, with the ends of its connection where they
    /// are known; the one that waits longest first.
    pub stuck: &'a [(Send, Option<(SocketAddr, SocketAddr)>)],
    /// Something to say: a recording, a problem.
    pub message: &'a str,
    /// The row that is open.
    pub opened: Option<&'a Opened>,
}

/// The head of the bar of legs, where there is room for it.
const LEGS: &str = "tcp qdisc network";
/// Below this share rates are estimates.
const WHOLE: f64 = 0.995;

/// Rows of the table on a screen of this height.
pub fn visible(height: u16) -> usize {
    usize::from(height).saturating_sub(4).max(1)
}

/// Draws it in the whole of the frame. Of the canvas its width is that of the frame.
pub fn top(frame: &mut Frame<'_>, canvas: &Canvas, top: &Top<'_>) {
    let area = frame.area();
    let canvas = Canvas { width: area.width.into(), ..*canvas };
    let height = usize::from(area.height);
    let mut lines = vec![title(&canvas, top), state(&canvas, top)];
    lines.extend(stuck(&canvas, top));
    match top.opened {
        Some(open) => lines.extend(opened::lines(&canvas, open)),
        None => lines.extend(table(&canvas, top, visible(area.height).saturating_sub(lines.len() - 2).max(1))),
    }
    lines.truncate(height.saturating_sub(1));
    lines.resize(height.saturating_sub(1), Line::default());
    lines.push(footer(&canvas, top));
    frame.render_widget(Text::from(lines), area);
}

/// The table alone as text, for those who want it once.
pub fn once(canvas: &Canvas, top: &Top<'_>) -> String {
    let canvas = Canvas { colour: false, ..*canvas };
    let mut lines = vec![state(&canvas, top)];
    lines.extend(stuck(&canvas, top));
    lines.extend(table(&canvas, &Top { selected: usize::MAX, ..Top { opened: None, ..*top } }, top.rows.len()));
    let text = |line: Line<'_>| line.spans.iter().map(|span| &*span.content).collect::<String>().trim_end().to_owned();
    lines.into_iter().map(|line| text(line) + "\n").collect()
}

/// The rows with all columns, as a document of one table.
pub fn rows(top: &Top<'_>) -> Document {
    let head = std::iter::once(top.by.name()).chain(COLUMNS.iter().map(|(_, column)| column.name));
    let mut table = Table::new(words(top).join(" · "), head.chain(LEGS.split(' ')));
    for row in top.rows {
        let shares = row.shares().map(|all| all.map(|(_, share)| quantity::percent(share).to_string()));
        let cells = COLUMNS.iter().map(|(_, column)| (column.cell)(row, top));
        let shares = shares.unwrap_or([const { String::new() }; 3]);
        table.push(Row::of(std::iter::once(row.label.clone()).chain(cells).chain(shares)));
    }
    let mut section = Section::new("");
    section.table(table);
    Document { sections: vec![section], ..Document::default() }
}

fn inked(canvas: &Canvas, text: &str, ink: Ink) -> Span<'static> {
    Span::styled(canvas.plain(text), style(canvas, ink))
}

fn title(canvas: &Canvas, top: &Top<'_>) -> Line<'static> {
    let corner = canvas.plain(&format!("top: {} CPU", quantity::percent(top.cpu)));
    let left = canvas.cut(&format!("wirelapse top · {}", top.target), canvas.width.saturating_sub(corner.width() + 2));
    let gap = canvas.width.saturating_sub(left.width() + corner.width());
    Line::from(vec![
        Span::styled(left, style(canvas, Ink::Strong)),
        Span::raw(" ".repeat(gap)),
        Span::styled(corner, style(canvas, Ink::Faint)),
    ])
}

/// What the rows are and how much they hold.
fn words(top: &Top<'_>) -> Vec<String> {
    let seconds = top.rows.first().map_or(Nanos::ZERO, |row| row.length);
    let mut words = vec![format!("by {}", top.by.name()), format!("sorted by {}", top.sort.name())];
    // Before what a narrow screen has no room for: without it a rate looks whole.
    if top.looked_at < WHOLE {
        words.push(format!("{} of the bytes sampled", quantity::percent(top.looked_at)));
    }
    if seconds > Nanos::ZERO {
        words.push(format!("last {} s", quantity::count((seconds.0 + 500_000_000) / 1_000_000_000)));
    }
    words.push(quantity::counted(top.rows.len() as u64, "row"));
    if !top.filter.is_empty() && !top.typing {
        words.push(format!("filter: {}", top.filter));
    }
    words
}

fn state(canvas: &Canvas, top: &Top<'_>) -> Line<'static> {
    let mut spans = Vec::new();
    if top.paused {
        spans.push(inked(canvas, "PAUSED · ", Ink::Warn));
    }
    let used: usize = spans.iter().map(|span| span.content.width()).sum();
    spans.push(Span::styled(
        canvas.cut(&words(top).join(" · "), canvas.width.saturating_sub(used)),
        style(canvas, Ink::Faint),
    ));
    Line::from(spans)
}

/// Connections on which nothing is acknowledged any more: their sends are in no row, as none of
/// them has finished.
fn stuck(canvas: &Canvas, top: &Top<'_>) -> Option<Line<'static>> {
    let (send, ends) = top.stuck.first()?;
    let n = top.stuck.len() as u64;
    let idle = quantity::whole(send.unacknowledged?.idle);
    let of = ends.map_or_else(String::new, |(local, remote)| format!(": {local} → {remote}"));
    let retransmitted = match send.retransmissions {
        0 => String::new(),
        times => format!(", {}", quantity::counted(times.into(), "retransmission")),
    };
    let up_to = if n > 1 { "up to " } else { "" };
    let text = format!("{} stuck for {up_to}{idle}{of}{retransmitted}", quantity::counted(n, "connection"));
    Some(Line::from(inked(canvas, &canvas.cut(&text, canvas.width), Ink::Warn)))
}

/// The keys, or what is written or said instead.
fn footer(canvas: &Canvas, top: &Top<'_>) -> Line<'static> {
    if top.typing {
        let text = canvas.cut(&format!("filter: {}_", top.filter), canvas.width);
        return Line::from(Span::styled(text, style(canvas, Ink::Strong)));
    }
    if !top.message.is_empty() {
        return Line::from(Span::styled(canvas.cut(top.message, canvas.width), style(canvas, Ink::Warn)));
    }
    let keys: &[(&str, &str)] = match top.opened {
        Some(_) => &[("Esc", "back"), ("p", "pause"), ("r", "record"), ("q", "quit")],
        None => &[
            ("q", "quit"),
            ("Enter", "open"),
            ("s", "sort"),
            ("g", "group"),
            ("/", "filter"),
            ("p", "pause"),
            ("r", "record"),
        ],
    };
    // On a narrow screen closer together, and only those that are whole.
    let room = |gap: usize| keys.iter().map(|(key, what)| key.width() + 1 + what.width() + gap).sum::<usize>() - gap;
    let gap = if room(2) <= canvas.width { 2 } else { 1 };
    let (mut spans, mut used) = (Vec::new(), 0);
    for (key, what) in keys {
        let wide = key.width() + 1 + what.width();
        if used + wide > canvas.width {
            break;
        }
        used += wide + gap;
        spans.push(Span::styled((*key).to_owned(), style(canvas, Ink::Strong)));
        spans.push(Span::styled(format!(" {what}{}", " ".repeat(gap)), style(canvas, Ink::Faint)));
    }
    Line::from(spans)
}

/// A column: its name, its width, and what a row has in it.
struct Column {
    name: &'static str,
    width: usize,
    cell: fn(&Group, &Top<'_>) -> String,
}

/// Columns beside the label and the bar, in their order, each with the width of screen from which
/// on it is shown.
const COLUMNS: [(usize, Column); 7] = [
    (0, Column { name: "sends/s", width: 8, cell: |row, top| rate(row.per_second(row.figures.sends), top) }),
    (92, Column { name: "bytes/s", width: 9, cell: bytes }),
    (0, Column { name: "p50", width: 8, cell: |row, _| time(row.quantile(Leg::Total, 0.5)) }),
    (0, Column { name: "p99", width: 8, cell: |row, _| time(row.quantile(Leg::Total, 0.99)) }),
    (72, Column { name: "retr.", width: 6, cell: |row, _| quantity::count(row.figures.retransmitted_segments) }),
    (80, Column { name: "drops", width: 6, cell: |row, _| quantity::count(row.figures.dropped_segments) }),
    (112, Column { name: "waits for", width: 24, cell: reason }),
];

/// About so much: with a sign where it is an estimate from a sample.
fn about(text: String, top: &Top<'_>) -> String {
    if top.looked_at < WHOLE { format!("~{text}") } else { text }
}

fn rate(per_second: f64, top: &Top<'_>) -> String {
    let whole = per_second / top.looked_at.max(1e-6);
    about(if whole < 9.95 { format!("{whole:.1}") } else { short(whole) }, top)
}

/// A number in at most five characters.
fn short(n: f64) -> String {
    match n {
        ..9_999.5 => format!("{n:.0}"),
        ..999_500.0 => format!("{:.0}k", n / 1e3),
        _ => format!("{:.1}M", n / 1e6),
    }
}

/// Not of the sample alone.
fn bytes(row: &Group, _: &Top<'_>) -> String {
    quantity::bytes_to(row.per_second(row.figures.bytes), 2).to_string()
}

fn time(time: Option<Nanos>) -> String {
    time.map_or_else(|| "—".into(), |time| quantity::time_to(time.0 as f64, 2))
}

fn reason(row: &Group, _: &Top<'_>) -> String {
    row.chief_reason().map_or_else(|| "—".into(), |(reason, share)| format!("{reason} {}", quantity::percent(share)))
}

fn table(canvas: &Canvas, top: &Top<'_>, visible: usize) -> Vec<Line<'static>> {
    let columns: Vec<&Column> = COLUMNS.iter().filter(|(from, _)| canvas.width >= *from).map(|(_, c)| c).collect();
    let bar = if canvas.width >= 92 { LEGS.len() } else { 10 };
    let figures: usize = columns.iter().map(|column| column.width + 1).sum();
    let label = canvas.width.saturating_sub(figures + bar + 3);
    let mut head = format!("  {}", left(canvas, top.by.name(), label));
    for column in &columns {
        head.push_str(&if column.name == "waits for" {
            format!(" {}", left(canvas, column.name, column.width))
        } else {
            format!(" {}", right(canvas, column.name, column.width))
        });
    }
    let mut lines = vec![Line::from(vec![
        Span::styled(head, style(canvas, Ink::Faint)),
        Span::raw(" "),
        Span::styled((if bar < LEGS.len() { "legs" } else { LEGS }).to_owned(), style(canvas, Ink::Faint)),
    ])];
    let first = if top.selected == usize::MAX { 0 } else { (top.selected + 1).saturating_sub(visible) };
    let rows = || top.rows.iter().skip(first).take(visible);
    let labels: Vec<&str> = rows().map(|row| row.label.as_str()).collect();
    // What is cut still says which row it is: of connections the end differs.
    let names = apart(&labels, &|name| canvas.cut(name, label));
    for (at, (row, name)) in (first..).zip(rows().zip(&names)) {
        let chosen = at == top.selected;
        let mut text = format!("{} {}", if chosen { ">" } else { " " }, left(canvas, name, label));
        for column in &columns {
            let cell = (column.cell)(row, top);
            let cell = if column.name == "waits for" {
                left(canvas, &cell, column.width)
            } else {
                right(canvas, &cell, column.width)
            };
            text.push(' ');
            text.push_str(&cell);
        }
        let mut ink = ratatui::style::Style::default();
        if chosen && canvas.colour {
            ink = ink.add_modifier(Modifier::REVERSED);
        }
        let mut spans = vec![Span::styled(text, ink), Span::raw(" ")];
        spans.extend(row.shares().map(|shares| spans::bar(canvas, &shares, bar)).unwrap_or_default());
        lines.push(Line::from(spans));
    }
    if top.rows.is_empty() {
        let text = match top.filter {
            "" => "  no send has finished yet",
            _ => "  no row has this in its name",
        };
        lines.push(Line::from(Span::styled(canvas.cut(text, canvas.width), style(canvas, Ink::Faint))));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use record::WaitReason;
    use record::histogram::Series;

    fn rows(n: usize) -> Vec<Group> {
        let row = |i: usize| {
            let mut figures = Series { sends: 10_000 - i as u64, bytes: 1 << 20, ..Series::default() };
            figures.legs.insert(Leg::Total, [Nanos(1_200_000)].into_iter().collect());
            figures.legs.insert(Leg::Tcp, [Nanos(400_000)].into_iter().collect());
            figures.legs.insert(Leg::Network, [Nanos(800_000)].into_iter().collect());
            figures.waited[WaitReason::Nagle as usize] = Nanos(300_000);
            figures.retransmitted_segments = 7;
            Group { label: format!("192.0.2.{i}"), host: None, figures, length: Nanos::from_millis(10_000) }
        };
        (0..n).map(row).collect()
    }

    fn drawn(width: u16, height: u16, colour: bool, unicode: bool, top: &Top<'_>) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        let canvas = Canvas { width: 0, colour, unicode };
        terminal.draw(|frame| super::top(frame, &canvas, top)).unwrap();
        let buffer = terminal.backend().buffer();
        (0..height).map(|y| (0..width).map(|x| buffer[(x, y)].symbol()).collect()).collect()
    }

    fn shown<'a>(rows: &'a [Group], selected: usize) -> Top<'a> {
        Top {
            target: "this machine",
            rows,
            by: GroupBy::Peer,
            sort: SortBy::Rate,
            selected,
            filter: "",
            typing: false,
            paused: false,
            looked_at: 1.0,
            cpu: 0.004,
            stuck: &[],
            message: "",
            opened: None,
        }
    }

    #[test]
    fn a_connection_that_is_stuck_is_above_the_rows() {
        let rows = rows(30);
        let mut send = Send::blank();
        let idle = Nanos::from_millis(6_600);
        send.unacknowledged = Some(record::Unacknowledged { at: record::Instant::from_nanos(0), idle });
        send.retransmissions = 5;
        let ends = Some(("10.0.0.1:4000".parse().unwrap(), "10.0.0.2:80".parse().unwrap()));
        let stuck = [(send, ends), (send, None)];
        let one = drawn(100, 12, false, true, &Top { stuck: &stuck[..1], ..shown(&rows, 29) });
        let line = "1 connection stuck for 6.60\u{a0}s: 10.0.0.1:4000 → 10.0.0.2:80, 5 retransmissions";
        assert_eq!(one[2].trim_end(), line, "{one:?}");
        // The chosen row is still there.
        assert!(one.iter().any(|line| line.starts_with("> 192.0.2.29")), "{one:?}");
        let two = once(&Canvas { width: 100, colour: false, unicode: true }, &Top { stuck: &stuck, ..shown(&rows, 0) });
        assert!(two.contains("2 connections stuck for up to 6.60\u{a0}s: 10.0.0.1:4000"), "{two}");
    }

    #[test]
    fn every_size_has_the_title_a_row_and_the_keys() {
        let rows = rows(40);
        for (width, height) in [(60, 20), (80, 24), (120, 40), (200, 50)] {
            for (colour, unicode) in [(true, true), (false, false)] {
                let screen = drawn(width, height, colour, unicode, &shown(&rows, 0));
                let text = screen.join("\n");
                assert!(screen[0].starts_with("wirelapse top") && screen[0].trim_end().ends_with("CPU"), "{text}");
                assert!(screen[2].contains("sends/s") && screen[2].contains("p99"), "{text}");
                assert!(screen[3].starts_with("> 192.0.2.0") && screen[3].contains("1.2 ms"), "{text}");
                assert!(screen[usize::from(height) - 1].starts_with("q quit"), "{text}");
                assert!(unicode || text.is_ascii(), "{text}");
                assert!(screen[3].contains(if colour { "███" } else { "tttnnn" }), "{text}");
            }
        }
        let wide = drawn(200, 20, false, true, &shown(&rows, 0)).join("\n");
        assert!(wide.contains("Nagle's algorithm 100 %") && wide.contains("102 KiB"), "{wide}");
    }

    #[test]
    fn names_that_have_no_room_still_differ() {
        let mut rows = rows(3);
        for (row, port) in rows.iter_mut().zip([40_001, 40_002, 50_003]) {
            row.label = format!(":443 → 192.0.2.100:{port}");
        }
        let narrow = drawn(60, 10, true, true, &shown(&rows, 1));
        let names: Vec<&str> = narrow[3..6].iter().map(|row| row[2..].split_whitespace().next().unwrap()).collect();
        assert_eq!(names, ["…192.0.2.100:40001", "…192.0.2.100:40002", "…192.0.2.100:50003"], "{narrow:?}");
        let wide = drawn(80, 10, true, true, &shown(&rows, 1)).join("\n");
        assert!(wide.contains("> :443 → 192.0.2.100:40002"), "{wide}");
    }

    #[test]
    fn the_chosen_row_is_in_view() {
        let rows = rows(100);
        let screen = drawn(80, 24, true, true, &shown(&rows, 70));
        assert!(screen.iter().any(|row| row.starts_with("> 192.0.2.70 ")), "{}", screen.join("\n"));
        assert_eq!(screen.iter().filter(|row| row.contains("192.0.2.")).count(), visible(24));
    }

    #[test]
    fn what_is_a_sample_is_marked_and_what_is_said_takes_the_place_of_the_keys() {
        let rows = rows(1);
        let top = Top { looked_at: 0.25, message: "recording", paused: true, ..shown(&rows, 0) };
        let text = drawn(90, 10, false, true, &top).join("\n");
        assert!(text.contains("~4000") && text.contains("PAUSED") && text.contains("25 %"), "{text}");
        // Bytes are counted whether or not sends are sampled.
        let wide = drawn(100, 10, false, true, &top).join("\n");
        assert!(wide.contains(" 102 KiB"), "{wide}");
        assert!(text.contains("recording") && !text.contains("q quit"), "{text}");
        let narrow = drawn(60, 10, false, true, &Top { message: "", paused: false, ..top });
        assert!(narrow[1].contains("25 % of the bytes sampled"), "{narrow:?}");
        assert!(narrow[9].starts_with("q quit Enter open") && narrow[9].trim_end().ends_with("r record"), "{narrow:?}");
        let keys = drawn(40, 10, false, true, &shown(&rows, 0))[9].trim_end().to_owned();
        assert_eq!(keys, "q quit Enter open s sort g group");
        let top = Top { typing: true, filter: "no\u{1b}[2J", rows: &[], ..shown(&rows, 0) };
        let text = drawn(90, 10, false, true, &top).join("\n");
        assert!(text.contains("filter: no\u{fffd}[2J_") && text.contains("no row has this"), "{text}");
    }

    #[test]
    fn once_is_plain_text_with_every_row() {
        let rows = rows(3);
        let text = once(&Canvas { width: 100, colour: true, unicode: true }, &shown(&rows, 1));
        assert_eq!(text.lines().count(), 5, "{text}");
        assert!(!text.contains('\x1b') && !text.contains('>') && text.contains("192.0.2.2"), "{text}");
    }
}
