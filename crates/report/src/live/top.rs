//! The screen of `wirelapse top`: rows of figures, what is chosen of them, and the keys.

use std::net::SocketAddr;

use ratatui::Frame;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span, Text};
use record::histogram::GroupBy;
use record::{Nanos, Send};
use summary::{Group, SortBy};
use unicode_width::UnicodeWidthStr as _;

use super::columns::{self, LEGS};
use super::spans::{self, left, right};
use super::{Column, Columns, Opened, help, opened, style};
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
    /// Whether the order is turned round.
    pub reversed: bool,
    /// How many rows there are without the filter.
    pub in_all: usize,
    /// Only rows that this takes; empty for all.
    pub filter: &'a str,
    /// Whether the filter is being written.
    pub typing: bool,
    /// What is wrong with it; empty where nothing is.
    pub wrong: &'a str,
    /// Whether the figures stand still.
    pub paused: bool,
    /// Whether rows stay in their places.
    pub frozen: bool,
    /// Whether the help is shown.
    pub help: bool,
    /// Which columns are shown.
    pub columns: &'a Columns,
    /// The column that is chosen in the list of them, where that is shown.
    pub choosing: Option<usize>,
    /// The share of the bytes that was sampled, in [0, 1].
    pub looked_at: f64,
    /// The CPU time of this program, as a share of one CPU.
    pub cpu: f64,
    /// The oldest send of each connection that is stuck, with the ends of its connection where they
    /// are known; the one that waits longest first.
    pub stuck: &'a [(Send, Option<(SocketAddr, SocketAddr)>)],
    /// How much time passes between two updates, where that is more than was asked for.
    pub updated: Option<Nanos>,
    /// How much time passes between two readings of the sockets, where that is more.
    pub pace: Option<Nanos>,
    /// What of the sockets could not be read; empty where all was.
    pub missed: &'a str,
    /// Something to say: a recording, a problem.
    pub message: &'a str,
    /// Whether the flight recorder is at work.
    pub recorder: bool,
    /// The row that is open.
    pub opened: Option<&'a Opened>,
    /// Whether it stands below the rows rather than in their place.
    pub below: bool,
    /// Lines of it that are above the screen.
    pub scrolled: usize,
}

impl Top<'_> {
    /// Whether all of the bytes were sampled, and not a part of them.
    pub(super) fn is_whole(&self) -> bool {
        self.looked_at >= WHOLE
    }
}

/// Whether a screen has room for rows and, below them, for the one that is chosen, opened.
pub fn has_room_below(width: u16, height: u16) -> bool {
    width >= 140 && height >= 44
}

/// Below this share of the bytes that was sampled rates are estimates.
pub const WHOLE: f64 = 0.995;

/// Rows of the table on a screen of this height.
pub fn visible(height: u16) -> usize {
    usize::from(height).saturating_sub(4).max(1)
}

/// Where rows were drawn, for those who point at them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placed {
    /// The line of the heads of columns, from 0; the rows are below it.
    head: usize,
    /// The number of the first row that is shown, and how many are.
    first: usize,
    shown: usize,
    /// Where each column begins, and what rows can be sorted by there.
    columns: Vec<(usize, Option<SortBy>)>,
    /// How many lines of an open row can be above the screen: then its end is in view.
    pub above: usize,
}

/// What stands at a place of the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pointed {
    /// The row of this number.
    Row(usize),
    /// The head of a column that rows can be sorted by.
    Head(SortBy),
}

impl Placed {
    /// What stands in this column and line of the screen, both from 0.
    pub fn at(&self, column: u16, line: u16) -> Option<Pointed> {
        let (column, line) = (usize::from(column), usize::from(line));
        if line == self.head && self.shown > 0 {
            return self.columns.iter().rev().find(|(begins, _)| *begins <= column)?.1.map(Pointed::Head);
        }
        let below = line.checked_sub(self.head + 1).filter(|below| *below < self.shown)?;
        Some(Pointed::Row(self.first + below))
    }
}

fn placed(canvas: &Canvas, top: &Top<'_>, head: usize, visible: usize) -> Placed {
    let (columns, label) = top.columns.fitting(canvas.width);
    let mut begins = columns::MARK + label + 1;
    let mut all = vec![(0, Some(SortBy::Name))];
    for column in columns {
        all.push((begins, column.sort()));
        begins += column.width(canvas.width) + 1;
    }
    let first = first_row(top, visible);
    Placed { head, first, shown: top.rows.len().saturating_sub(first).min(visible), columns: all, above: 0 }
}

/// The first row that is shown, so that the chosen one is.
fn first_row(top: &Top<'_>, visible: usize) -> usize {
    if top.selected == usize::MAX { 0 } else { (top.selected + 1).saturating_sub(visible) }
}

/// Draws it in the whole of the frame, and gives where its rows are. Of the canvas its width is
/// that of the frame.
pub fn top(frame: &mut Frame<'_>, canvas: &Canvas, top: &Top<'_>) -> Placed {
    let mut rows_at = Placed::default();
    let area = frame.area();
    let canvas = Canvas { width: area.width.into(), ..*canvas };
    let height = usize::from(area.height);
    let mut lines = vec![title(&canvas, top), state(&canvas, top)];
    lines.extend(stuck(&canvas, top));
    let visible = visible(area.height).saturating_sub(lines.len() - 2).max(1);
    match (top.help, top.choosing, top.opened) {
        (true, ..) => lines = help::lines(&canvas),
        (_, Some(chosen), _) => {
            let marked = |is: bool| {
                if is && canvas.colour { Style::default().add_modifier(Modifier::REVERSED) } else { Style::default() }
            };
            let list = columns::list(&canvas, top.columns, chosen, visible);
            lines.extend(list.into_iter().map(|(text, is)| Line::from(Span::styled(text, marked(is)))));
        }
        (_, _, Some(open)) if top.below => {
            let rows = visible / 2;
            rows_at = placed(&canvas, top, lines.len(), rows);
            let mut above = table(&canvas, top, rows);
            above.resize(rows + 1, Line::default());
            lines.extend(above);
            lines.push(Line::from(inked(
                &canvas,
                &if canvas.unicode { "─" } else { "-" }.repeat(canvas.width),
                Ink::Faint,
            )));
            lines.extend(opened::lines(&canvas, open, top.is_whole()));
        }
        (_, _, Some(open)) => {
            let all = opened::lines(&canvas, open, top.is_whole());
            rows_at.above = all.len().saturating_sub(visible + 1);
            lines.extend(all.into_iter().skip(top.scrolled.min(rows_at.above)));
        }
        _ => {
            rows_at = placed(&canvas, top, lines.len(), visible);
            lines.extend(table(&canvas, top, visible));
        }
    }
    lines.truncate(height.saturating_sub(1));
    lines.resize(height.saturating_sub(1), Line::default());
    lines.push(footer(&canvas, top));
    frame.render_widget(Text::from(lines), area);
    rows_at
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
    let all = || Column::ALL.into_iter().filter(|column| *column != Column::Legs);
    let head = std::iter::once(top.by.name()).chain(all().map(Column::name));
    let mut table = Table::new(words(top).join(" · "), head.chain(LEGS.split(' ')));
    for row in top.rows {
        let shares = row.shares().map(|all| all.map(|(_, share)| quantity::percent(share).to_string()));
        let cells = all().map(|column| column.cell(row, top, usize::MAX));
        let shares = shares.unwrap_or([const { String::new() }; 3]);
        table.push(Row::of(std::iter::once(row.label.clone()).chain(cells).chain(shares)));
    }
    let mut section = Section::new("");
    section.table(table);
    Document { sections: vec![section], ..Document::default() }
}

/// A row in one line, with what it says in each column.
pub fn line(top: &Top<'_>, row: &Group) -> String {
    let cell = |column: Column| {
        let cell = column.cell(row, top, usize::MAX);
        (!matches!(cell.as_str(), "" | "—")).then(|| format!("{} {cell}", column.name()))
    };
    let cells = Column::ALL.into_iter().filter(|column| *column != Column::Legs).filter_map(cell);
    std::iter::once(row.label.clone()).chain(cells).collect::<Vec<_>>().join(" · ")
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
    let seconds = top.rows.iter().map(|row| row.length.max(row.sockets_over)).max().unwrap_or_default();
    let order = if top.reversed { " upwards" } else { "" };
    let mut words = vec![format!("by {}", top.by.name()), format!("sorted by {}{order}", top.sort.name())];
    // Before what a narrow screen has no room for: without it a rate looks whole.
    if !top.is_whole() {
        words.push(format!("{} of the bytes sampled", quantity::percent(top.looked_at)));
    }
    if seconds > Nanos::ZERO {
        words.push(format!("last {} s", quantity::count((seconds.0 + 500_000_000) / 1_000_000_000)));
    }
    words.push(match top.in_all > top.rows.len() {
        true => format!("{} of {}", top.rows.len(), quantity::counted(top.in_all as u64, "row")),
        false => quantity::counted(top.rows.len() as u64, "row"),
    });
    if !top.filter.is_empty() && !top.typing {
        words.push(format!("filter: {}", top.filter));
    }
    if let Some(pace) = top.updated {
        words.push(format!("updated every {}", quantity::time_to(pace.0 as f64, 2)));
    }
    if let Some(pace) = top.pace {
        words.push(format!("sockets read every {}", quantity::time_to(pace.0 as f64, 2)));
    }
    if !top.missed.is_empty() {
        words.push(format!("missing: {}", top.missed));
    }
    words
}

fn state(canvas: &Canvas, top: &Top<'_>) -> Line<'static> {
    let mut spans = Vec::new();
    if top.paused {
        spans.push(inked(canvas, "PAUSED · ", Ink::Warn));
    }
    if top.frozen {
        spans.push(inked(canvas, "FROZEN · ", Ink::Warn));
    }
    if top.recorder {
        spans.push(inked(canvas, "RECORDER ON · ", Ink::Warn));
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

/// On a screen that is narrower than this, so many keys are named.
const WIDE: usize = 100;
const KEYS: usize = 6;
/// On one that is narrower than this, keys stand alone.
const NARROW: usize = 14;

/// The keys, or what is written or said instead.
fn footer(canvas: &Canvas, top: &Top<'_>) -> Line<'static> {
    if top.typing {
        let wrong = if top.wrong.is_empty() { String::new() } else { format!("   {}", top.wrong) };
        let text = canvas.cut(&format!("filter: {}_{wrong}", top.filter), canvas.width);
        return Line::from(Span::styled(text, style(canvas, Ink::Strong)));
    }
    if !top.message.is_empty() {
        return Line::from(Span::styled(canvas.cut(top.message, canvas.width), style(canvas, Ink::Warn)));
    }
    let keys: &[(&str, &str)] = match (top.help, top.choosing, top.opened) {
        (true, ..) => &[("any key", "back"), ("Ctrl-C", "quit")],
        (_, Some(_), _) => &[("Space", "show"), ("+ -", "move"), ("a", "automatic"), ("Enter", "keep")],
        (_, _, Some(_)) if !top.below => &[
            ("q", "quit"),
            ("?", "help"),
            ("Esc", "back"),
            ("j k", "next"),
            ("PgDn", "more"),
            ("t", "trace"),
            ("w", "packets"),
            ("a", "advise"),
            ("y", "copy"),
            ("r", "record"),
            ("p", "pause"),
        ],
        _ => &[
            ("q", "quit"),
            ("?", "help"),
            ("Enter", "open"),
            ("/", "filter"),
            ("s", "sort"),
            ("g", "group"),
            ("Space", "unfold"),
            ("t", "trace"),
            ("w", "packets"),
            ("a", "advise"),
            ("r", "record"),
            ("x", "recorder"),
            ("p", "pause"),
        ],
    };
    let keys = if canvas.width < WIDE { &keys[..keys.len().min(KEYS)] } else { keys };
    // On a narrow screen closer together, and only those that are whole.
    let room = |gap: usize| keys.iter().map(|(key, what)| key.width() + 1 + what.width() + gap).sum::<usize>() - gap;
    let gap = if room(2) <= canvas.width { 2 } else { 1 };
    let (mut spans, mut used) = (Vec::new(), 0);
    for (key, what) in keys {
        let said = if canvas.width < NARROW { String::new() } else { format!(" {what}") };
        let wide = key.width() + said.width();
        if used + wide > canvas.width {
            break;
        }
        used += wide + gap;
        spans.push(Span::styled((*key).to_owned(), style(canvas, Ink::Strong)));
        spans.push(Span::styled(format!("{said}{}", " ".repeat(gap)), style(canvas, Ink::Faint)));
    }
    Line::from(spans)
}

fn table(canvas: &Canvas, top: &Top<'_>, visible: usize) -> Vec<Line<'static>> {
    let (columns, label) = top.columns.fitting(canvas.width);
    let placed = |column: Column, text: &str| {
        let width = column.width(canvas.width);
        if column.is_words() { left(canvas, text, width) } else { right(canvas, text, width) }
    };
    let mut head = format!("  {}", left(canvas, top.by.name(), label));
    columns.iter().for_each(|column| head.push_str(&format!(" {}", placed(*column, column.name()))));
    let mut lines = vec![Line::from(Span::styled(head, style(canvas, Ink::Faint)))];
    let first = first_row(top, visible);
    let rows = || top.rows.iter().skip(first).take(visible);
    let labels: Vec<&str> = rows().map(|row| row.label.as_str()).collect();
    // What is cut still says which row it is: of connections the end differs. Those of a group that
    // is unfolded are indented.
    let indent = if top.rows.iter().any(|row| row.under.is_some()) { 2 } else { 0 };
    let names = apart(&labels, &|name| canvas.cut(name, label.saturating_sub(indent)));
    for (at, (row, name)) in (first..).zip(rows().zip(&names)) {
        let name = format!("{}{name}", if row.under.is_some() { "  " } else { "" });
        let chosen = at == top.selected;
        let gone = row.sockets.alive() == 0 && row.sockets.closed > 0;
        let ink = match () {
            () if chosen && canvas.colour => Style::default().add_modifier(Modifier::REVERSED),
            () if gone => style(canvas, Ink::Faint),
            () => Style::default(),
        };
        let mut spans =
            vec![Span::styled(format!("{} {}", if chosen { ">" } else { " " }, left(canvas, &name, label)), ink)];
        for column in &columns {
            let width = column.width(canvas.width);
            spans.push(Span::styled(" ", ink));
            match column {
                Column::Legs => spans.extend(bar(canvas, row, width)),
                Column::Heat => spans.extend(spans::strip(canvas, &row.heat)),
                Column::Why if !chosen && !gone => {
                    spans.push(Span::styled(placed(*column, &column.cell(row, top, width)), style(canvas, Ink::Warn)));
                }
                _ => spans.push(Span::styled(placed(*column, &column.cell(row, top, width)), ink)),
            }
        }
        lines.push(Line::from(spans));
    }
    if top.rows.is_empty() {
        let text = match top.filter {
            "" => "  there is no socket yet",
            _ => "  the filter takes no row",
        };
        lines.push(Line::from(Span::styled(canvas.cut(text, canvas.width), style(canvas, Ink::Faint))));
    }
    lines
}

/// The bar of the legs, and blanks to its width.
fn bar(canvas: &Canvas, row: &Group, width: usize) -> Vec<Span<'static>> {
    let mut spans = row.shares().map(|shares| spans::bar(canvas, &shares, width)).unwrap_or_default();
    let drawn: usize = spans.iter().map(|span| span.content.width()).sum();
    spans.push(Span::raw(" ".repeat(width.saturating_sub(drawn))));
    spans
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use record::histogram::Series;
    use record::{Leg, WaitReason};
    use summary::live::{Heat, Trouble};

    static AUTOMATIC: std::sync::OnceLock<Columns> = std::sync::OnceLock::new();

    fn rows(n: usize) -> Vec<Group> {
        let row = |i: usize| {
            let mut figures = Series { sends: 10_000 - i as u64, bytes: 1 << 20, ..Series::default() };
            figures.legs.insert(Leg::Total, [Nanos(1_200_000)].into_iter().collect());
            figures.legs.insert(Leg::Tcp, [Nanos(400_000)].into_iter().collect());
            figures.legs.insert(Leg::Network, [Nanos(800_000)].into_iter().collect());
            figures.waited[WaitReason::Nagle as usize] = Nanos(300_000);
            figures.retransmitted_segments = 7;
            let length = Nanos::from_millis(10_000);
            let trouble = Some(Trouble::Waits(WaitReason::Nagle, 1.0));
            Group { label: format!("192.0.2.{i}"), figures, length, trouble, ..Group::default() }
        };
        (0..n).map(row).collect()
    }

    fn drawn(width: u16, height: u16, colour: bool, unicode: bool, top: &Top<'_>) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        let canvas = Canvas { width: 0, colour, unicode };
        terminal.draw(|frame| drop(super::top(frame, &canvas, top))).unwrap();
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
            reversed: false,
            in_all: rows.len(),
            filter: "",
            typing: false,
            wrong: "",
            paused: false,
            frozen: false,
            help: false,
            columns: AUTOMATIC.get_or_init(Columns::default),
            choosing: None,
            missed: "",
            updated: None,
            pace: None,
            looked_at: 1.0,
            cpu: 0.004,
            stuck: &[],
            message: "",
            recorder: false,
            opened: None,
            below: false,
            scrolled: 0,
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
                assert!(screen[3].contains("Nagle's algorithm"), "{text}");
                let bar = if colour { "███" } else { "tttnnn" };
                assert_eq!(screen[3].contains(bar), width >= 200, "{text}");
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
        let wide = drawn(200, 10, true, true, &shown(&rows, 1)).join("\n");
        assert!(wide.contains("> :443 → 192.0.2.100:40002"), "{wide}");
    }

    #[test]
    fn connections_of_a_group_are_indented_and_the_last_minute_is_drawn() {
        let mut rows = rows(2);
        rows[1].under = Some(rows[0].label.clone());
        let mut heat = Heat::default();
        heat.turn(record::Instant::from_nanos(900_000_000_000));
        let key = record::histogram::SeriesKey::default();
        heat.add(&key, Nanos::from_millis(5));
        heat.turn(record::Instant::from_nanos(906_000_000_000));
        heat.add(&key, Nanos::from_millis(4_000));
        rows[0].heat = *heat.each().next().unwrap().1;
        let wide = drawn(120, 10, true, true, &shown(&rows, 1));
        assert!(wide[3].starts_with("  192.0.2.0") && wide[4].starts_with(">   192.0.2.1"), "{wide:?}");
        assert!(wide[2].contains(" last minute ") && wide[3].contains("▃ █"), "{wide:?}");
        let plain = drawn(120, 10, false, false, &shown(&rows, 1));
        assert!(plain[3].contains(": #") && plain.concat().is_ascii(), "{plain:?}");
    }

    #[test]
    fn who_points_at_a_row_or_a_head_finds_it() {
        let rows = rows(40);
        let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
        let canvas = Canvas { width: 0, colour: false, unicode: true };
        let mut placed = Placed::default();
        terminal.draw(|frame| placed = top(frame, &canvas, &shown(&rows, 30))).unwrap();
        let buffer = terminal.backend().buffer().clone();
        let line = |y: u16| (0..80).map(|x| buffer[(x, y)].symbol()).collect::<String>();
        for y in 0..24 {
            match placed.at(4, y) {
                Some(Pointed::Row(row)) => assert!(line(y).contains(&format!(" 192.0.2.{row} ")), "{}", line(y)),
                Some(Pointed::Head(by)) => assert_eq!((by, y), (SortBy::Name, 2)),
                None => assert!(y < 2 || y == 23, "{}", line(y)),
            }
        }
        for (name, by) in
            [("sends/s", SortBy::Rate), ("sent/s", SortBy::Sent), ("p99", SortBy::P99), ("why slow", SortBy::Trouble)]
        {
            let at = line(2).find(name).unwrap() as u16;
            assert_eq!(placed.at(at, 2), Some(Pointed::Head(by)), "{name}");
        }
        assert_eq!(Placed::default().at(0, 0), None);
    }

    #[test]
    fn a_large_screen_has_the_chosen_row_below_and_a_small_one_scrolls_through_it() {
        let rows = rows(3);
        let answer: Vec<String> = (0..60).map(|line| format!("line {line}.")).collect();
        let opened = Opened { label: "192.0.2.1".into(), answer, ..Opened::default() };
        let top = Top { opened: Some(&opened), below: true, ..shown(&rows, 1) };
        assert!(has_room_below(200, 60) && !has_room_below(100, 60));
        let large = drawn(200, 60, false, true, &top);
        assert!(large.iter().any(|line| line.starts_with("> 192.0.2.1 ")), "{large:?}");
        assert!(
            large.iter().any(|line| line.starts_with("line 20.")) && large[59].contains("Space unfold"),
            "{large:?}"
        );
        let small = |scrolled| drawn(60, 20, false, true, &Top { below: false, scrolled, ..top });
        assert!(small(0)[2].starts_with("192.0.2.1") && small(0)[19].starts_with("q quit"));
        assert!(small(10)[2].starts_with("line 9."), "{:?}", small(10));
        // The end is reached, and stays.
        assert!(small(500).iter().any(|line| line.starts_with("line 59.")), "{:?}", small(500));
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
        let time = Some(Nanos::from_millis(3_100));
        let slow = Top { pace: time, ..shown(&rows, 0) };
        assert!(drawn(90, 10, false, true, &slow)[1].contains("sockets read every 3.1"));
        let slow = Top { updated: time, ..shown(&rows, 0) };
        assert!(drawn(90, 10, false, true, &slow)[1].contains("updated every 3.1"));
        let top = Top { looked_at: 0.25, message: "recording", paused: true, ..shown(&rows, 0) };
        let text = drawn(90, 10, false, true, &top).join("\n");
        assert!(text.contains("~4000") && text.contains("PAUSED") && text.contains("25 %"), "{text}");
        // Bytes are counted whether or not sends are sampled.
        let wide = drawn(100, 10, false, true, &top).join("\n");
        assert!(wide.contains(" 102 KiB"), "{wide}");
        assert!(text.contains("recording") && !text.contains("q quit"), "{text}");
        let narrow = drawn(60, 10, false, true, &Top { message: "", paused: false, ..top });
        assert!(narrow[1].contains("25 % of the bytes sampled"), "{narrow:?}");
        assert!(
            narrow[9].starts_with("q quit  ? help  Enter open") && narrow[9].trim_end().ends_with("g group"),
            "{narrow:?}"
        );
        let keys = drawn(40, 10, false, true, &shown(&rows, 0))[9].trim_end().to_owned();
        assert_eq!(keys, "q quit ? help Enter open / filter s sort");
        let opened = Opened { label: "192.0.2.1".into(), ..Opened::default() };
        for width in 3..60 {
            for opened in [None, Some(&opened)] {
                let last = drawn(width, 10, false, true, &Top { opened, ..shown(&rows, 0) })[9].clone();
                let words: Vec<&str> = last.split_whitespace().collect();
                assert!(words.contains(&"q") && words.contains(&"?"), "{width}: {last:?}");
            }
        }
        let top = Top { typing: true, filter: "no\u{1b}[2J", rows: &[], ..shown(&rows, 0) };
        let text = drawn(90, 10, false, true, &top).join("\n");
        assert!(text.contains("filter: no\u{fffd}[2J_") && text.contains("the filter takes no row"), "{text}");
    }

    #[test]
    fn zero_windows_are_a_lower_bound_in_a_sample_and_none_where_they_are_not_counted() {
        let mut rows = rows(2);
        rows[0].zero_windows = Some(1_200);
        let columns = Columns::named(["zero win."]);
        let cell = |row: usize, looked_at| {
            let top = Top { columns: &columns, looked_at, ..shown(&rows, 0) };
            drawn(80, 10, false, true, &top)[3 + row].trim_end().rsplit("  ").next().unwrap().to_owned()
        };
        assert_eq!([cell(0, 1.0), cell(0, 0.5), cell(1, 1.0)], ["1,200", "≥ 1,200", "—"].map(str::to_owned));
        let figures = Series { sends: 1, zero_windows: 1_200, ..Default::default() };
        let over_time = vec![Group { figures, ..Group::default() }];
        let details = |row: usize, looked_at| {
            let row = Some(rows[row].clone());
            let opened = Opened { row, over_time: over_time.clone(), ..Opened::default() };
            let screen = drawn(80, 40, false, true, &Top { opened: Some(&opened), looked_at, ..shown(&rows, 0) });
            screen
                .iter()
                .find_map(|line| Some(line.trim_end().strip_prefix("the peer's receive window closed ")?.to_owned()))
        };
        let said = [details(0, 1.0), details(0, 0.5), details(1, 1.0)];
        assert_eq!(said, [Some("1,200 times".to_owned()), Some("at least 1,200 times".to_owned()), None]);
    }

    #[test]
    fn help_and_the_list_of_columns_are_whole_in_the_smallest_terminal() {
        let rows = rows(1);
        let help = drawn(60, 20, false, true, &Top { help: true, ..shown(&rows, 0) });
        for key in ["Up Down k j", "/ ", "s S f", "p c y", "t ", "w ", "a ", "r x", "q Ctrl-C", "wait:window"] {
            assert!(help.iter().any(|line| line.starts_with(key)), "{key}: {help:?}");
        }
        assert!(help[19].starts_with("any key back") && !help.join("").contains('…'), "{help:?}");
        let list = drawn(60, 20, false, true, &Top { choosing: Some(Column::ALL.len() - 1), ..shown(&rows, 0) });
        assert!(list.iter().any(|line| line.starts_with("> [x] tcp qdisc network")), "{list:?}");
        assert!(list[19].starts_with("Space show") && !list[2..].join("").contains('…'), "{list:?}");
    }

    #[test]
    fn a_filter_that_is_wrong_says_so_and_rows_are_counted_out_of_all() {
        let rows = rows(2);
        let top = Top { typing: true, filter: "por:1", wrong: "there is no field por", ..shown(&rows, 0) };
        assert!(drawn(80, 10, false, true, &top)[9].starts_with("filter: por:1_   there is no field por"));
        let top = Top { in_all: 40, filter: "port:1", frozen: true, ..shown(&rows, 0) };
        let state = drawn(100, 10, false, true, &top)[1].clone();
        assert!(state.starts_with("FROZEN · by peer") && state.contains("2 of 40 rows · filter: port:1"), "{state}");
    }

    #[test]
    fn a_row_in_one_line_leaves_out_what_it_has_not() {
        let rows = rows(1);
        let text = line(&shown(&rows, 0), &rows[0]);
        assert!(text.starts_with("192.0.2.0 · sends/s 1000 · sent/s") && text.contains("why slow Nagle's"), "{text}");
        assert!(!text.contains('—') && !text.contains("idle"), "{text}");
    }

    #[test]
    fn once_is_plain_text_with_every_row() {
        let rows = rows(3);
        let text = once(&Canvas { width: 100, colour: true, unicode: true }, &shown(&rows, 1));
        assert_eq!(text.lines().count(), 5, "{text}");
        assert!(!text.contains('\x1b') && !text.contains('>') && text.contains("192.0.2.2"), "{text}");
    }
}
