//! What a command shows while it goes on, drawn on a `ratatui` frame.

mod columns;
mod connections;
mod flows;
mod help;
mod legs;
mod opened;
#[cfg(test)]
mod screens;
mod socket;
mod spans;
mod table;
mod top;
mod trouble;
mod watch;

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Span;
use record::Role;
use summary::{TimedKind, TraceSummary};

use crate::view::{Facts, sampling};
use paper::document::Table;
use paper::{Canvas, Ink};

pub use columns::{Column, Columns, WIDEST};
pub use opened::{Opened, SlowestSend};
pub use socket::ShownSocket;
pub use top::{Placed, Pointed, Top, WHOLE, has_room_below, line, once, rows, top, visible};
pub use trouble::words;
pub use watch::watch;

/// Rows that the table of a trace takes of the terminal.
pub const ROWS: u16 = 18;

/// What the legs of receives and their connections take beside them, and then the parts of
/// requests.
pub const ROWS_OF_RECEIVES: u16 = 12;
/// As [`ROWS_OF_RECEIVES`].
pub const ROWS_OF_REQUESTS: u16 = 10;
/// Rows that a watch takes of the terminal.
pub const ROWS_OF_WATCH: u16 = 24;

/// What the screen of a trace is made of, from its top to its bottom.
enum Piece {
    Line(String, Option<Ink>),
    /// A table, and which of its columns is drawn faint.
    Table(Box<Table>, Option<usize>),
}

impl Piece {
    fn height(&self) -> u16 {
        match self {
            Self::Line(..) => 1,
            Self::Table(table, _) => table::height(table),
        }
    }
}

/// Draws the figures of a trace while it goes on, in the whole of the frame. Of the canvas its
/// width is that of the frame.
pub fn trace(frame: &mut Frame<'_>, canvas: &Canvas, summary: &TraceSummary, facts: &Facts) {
    let mut left = frame.area();
    let canvas = Canvas { width: left.width.into(), ..*canvas };
    for piece in pieces(&canvas, summary, facts, left.height.into()) {
        let area = Rect { height: piece.height().min(left.height), ..left };
        match piece {
            Piece::Line(text, ink) => {
                let style = ink.map(|ink| style(&canvas, ink)).unwrap_or_default();
                frame.render_widget(Span::styled(canvas.cut(&text, canvas.width), style), area);
            }
            Piece::Table(table, faint) => frame.render_widget(table::widget(&canvas, &table, faint), area),
        }
        left.y += area.height;
        left.height -= area.height;
        if left.height == 0 {
            return;
        }
    }
}

fn pieces(canvas: &Canvas, summary: &TraceSummary, facts: &Facts, rows: usize) -> Vec<Piece> {
    let mut out = Vec::from(headline(summary, facts));
    let blank = || Piece::Line(String::new(), None);
    out.extend([blank(), Piece::Table(Box::new(legs::table(summary, TimedKind::Sends, "leg")), None)]);
    let received = &summary.receives().records;
    if received.n > 0 {
        out.extend([
            blank(),
            Piece::Table(Box::new(legs::table(summary, TimedKind::Receives, "leg (received)")), None),
        ]);
    }
    // There is room for one role: that with the most requests.
    let requests = summary.requests();
    let most = Role::ALL.into_iter().max_by_key(|role| requests.of(*role).records.n);
    if let Some(role) = most.filter(|role| requests.of(*role).divided() > 0) {
        let kind = match role {
            Role::Client => TimedKind::AtClient,
            Role::Server => TimedKind::AtServer,
        };
        out.extend([blank(), Piece::Table(Box::new(legs::table(summary, kind, &format!("part (as {role})"))), None)]);
    }
    // A blank line, a heading, a head, a row for the rest, and the losses.
    let used: u16 = out.iter().map(Piece::height).sum();
    let left = rows.saturating_sub(usize::from(used) + 5);
    // Receives have a table as large as that of the sends, where both have room for two
    // connections.
    let (sent, in_all) = match received.n {
        0 => (left, 0),
        _ if summary.total().sends == 0 => (0, left),
        _ if left >= 8 => (left / 2 - 2, left - left / 2 - 2),
        _ => (left, 0),
    };
    connections::table(canvas, &mut out, summary, sent);
    flows::table(canvas, &mut out, received.kind(), &received.tallies, in_all);
    let lost: u64 = facts.lost.entries().map(|e| e.2).sum();
    if lost > 0 {
        let records = quantity::counted(lost, "record");
        out.push(Piece::Line(
            format!("{records} missed or timed only in part (details in the report)"),
            Some(Ink::Warn),
        ));
    }
    out
}

fn headline(summary: &TraceSummary, facts: &Facts) -> [Piece; 2] {
    let total = summary.total();
    let first = format!("wirelapse trace · {} · {}", facts.target, facts.lasted);
    let second = format!(
        "{} · {} · {} · {} · {}",
        quantity::counted(total.sends, "send"),
        quantity::bytes(total.bytes),
        quantity::counted(summary.connection_count(), "connection"),
        sampling(facts.sampling),
        facts.backend,
    );
    [Piece::Line(first, Some(Ink::Strong)), Piece::Line(second, Some(Ink::Faint))]
}

/// A heading with the space above it.
fn heading(text: &str) -> [Piece; 2] {
    [Piece::Line(String::new(), None), Piece::Line(text.to_owned(), Some(Ink::Strong))]
}

/// The terminal's own sixteen colours, by their usual numbers.
const PALETTE: [Color; 16] = [
    Color::Black,
    Color::Red,
    Color::Green,
    Color::Yellow,
    Color::Blue,
    Color::Magenta,
    Color::Cyan,
    Color::Gray,
    Color::DarkGray,
    Color::LightRed,
    Color::LightGreen,
    Color::LightYellow,
    Color::LightBlue,
    Color::LightMagenta,
    Color::LightCyan,
    Color::White,
];

/// The style of an ink: the colours of [`Canvas`]'s own text.
fn style(canvas: &Canvas, ink: Ink) -> Style {
    let style = Style::default();
    if !canvas.colour {
        return style;
    }
    match ink {
        Ink::Strong => style.add_modifier(Modifier::BOLD),
        Ink::Faint => style.add_modifier(Modifier::DIM),
        // Yellow cannot be read on a light background.
        Ink::Warn => style.fg(Color::Red),
        Ink::Hue(hue) => hue.on_terminal().map_or(style, |colour| style.fg(PALETTE[usize::from(colour)])),
    }
}
