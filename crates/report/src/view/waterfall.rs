//! The slowest sends, each as a small waterfall of its legs.

use std::net::SocketAddr;

use record::{ConnectionId, Leg, Nanos, Send, WaitReason};
use unicode_width::UnicodeWidthStr as _;

use crate::canvas::{Canvas, Ink};
use crate::colour::ink_of_send;
use summary::TraceSummary;

pub(super) fn draw(canvas: &Canvas, out: &mut String, summary: &TraceSummary) {
    let slowest = summary.slowest().sorted();
    if slowest.is_empty() {
        return;
    }
    let title = match slowest.len() {
        1 => "The slowest send".to_owned(),
        n => format!("The {n} slowest sends"),
    };
    canvas.heading(out, &title);
    let room = canvas.width.clamp(60, 120);
    // Beside the bar stand the leg and its time (23 columns) and why it waited (28).
    let bar = (room - 51).max(16);
    for (i, slow) in slowest.iter().enumerate() {
        if i > 0 {
            out.push('\n');
        }
        let send = &slow.send;
        let since = summary.first_send().and_then(|first| send.stamps.send.since(first).ok()).unwrap_or_default();
        let what = format!("{} · {}[{}]", quantity::bytes(send.bytes.into()), send.owner.comm, send.owner.pid);
        headline(canvas, out, (i, slow.total), &format!("{what} · at +{since}"), (slow.ends, send.connection));
        legs(canvas, out, send, slow.total, bar);
        canvas.paragraph(out, &state(send), 3);
    }
}

/// The line above a waterfall: its place and time, what it is of, and the ends of its connection or that one's number.
pub(super) fn headline(
    canvas: &Canvas,
    out: &mut String,
    (index, time): (usize, Nanos),
    what: &str,
    (ends, connection): (Option<(SocketAddr, SocketAddr)>, ConnectionId),
) {
    let head = format!("{}. {time}", index + 1);
    let rest = canvas.plain(&format!(" · {what}"));
    let who = ends
        .map_or_else(|| format!("connection {connection}"), |(local, remote)| super::connections::ends(local, remote));
    let who = canvas.plain(&who);
    let used = head.width() + rest.width();
    out.push_str(&canvas.paint(Ink::Strong, &head));
    out.push_str(&rest);
    out.push_str(&if used + 3 + who.width() <= canvas.width { canvas.plain(" · ") } else { "\n   ".into() });
    out.push_str(&who);
    out.push('\n');
}

fn legs(canvas: &Canvas, out: &mut String, send: &Send, total: Nanos, bar: usize) {
    let mut done = Nanos::ZERO;
    for leg in Leg::PARTS {
        let Ok(Some(time)) = send.leg(leg) else { continue };
        let drawn = stroke(done, time, total, bar, canvas.unicode);
        done += time;
        let mut why = if leg == Leg::Tcp { waited(send) } else { String::new() };
        let error = send.leg_error(leg);
        if error > Nanos::ZERO {
            why = format!("±{error}{}{why}", if why.is_empty() { "" } else { ", " });
        }
        let line = format!(
            "   {} {} {}  {}",
            canvas.paint(ink_of_send(leg), &format!("{leg:<8}")),
            canvas.paint(ink_of_send(leg), &drawn),
            canvas.plain(&format!("{:>8}", time.to_string())),
            canvas.cut(&why, canvas.width.saturating_sub(bar + 23).max(19)),
        );
        out.push_str(line.trim_end());
        out.push('\n');
    }
    if let Some(why) = missing(send) {
        canvas.paragraph(out, why, 3);
    }
}

/// Why legs are not there.
fn missing(send: &Send) -> Option<&'static str> {
    match (send.stamps.sched, send.stamps.driver) {
        (None, _) => Some(
            "No legs: the packet with its last byte gave no stamp, because TCP had moved the byte from another packet, and no packet near \
             it was stamped.",
        ),
        (_, None) => Some(
            "No qdisc and no network leg: the packet with its last byte gave no stamp at the driver (cut up on the way, its tag was in \
             another piece), and no packet near it was stamped.",
        ),
        _ => None,
    }
}

/// A bar from `from` for `length`, of a whole that is `columns` wide. Whatever took any time shows at least a sliver.
pub(super) fn stroke(from: Nanos, length: Nanos, whole: Nanos, columns: usize, unicode: bool) -> String {
    let scale = columns as f64 * 8.0 / whole.0.max(1) as f64;
    let (start, end) = (from.0 as f64 * scale, (from.0.saturating_add(length.0)) as f64 * scale);
    let start = ((start / 8.0).floor() as usize).min(columns - 1);
    let eighths = (end.round() as usize).clamp(start * 8 + 1, columns * 8) - start * 8;
    let (full, part) = (eighths / 8, eighths % 8);
    let mut text = " ".repeat(start);
    if unicode {
        text.push_str(&"█".repeat(full));
        text.extend([None, Some('▏'), Some('▎'), Some('▍'), Some('▌'), Some('▋'), Some('▊'), Some('▉')][part]);
    } else {
        text.push_str(&"#".repeat(full));
        if full == 0 {
            text.push('|');
        }
    }
    let used = text.chars().count();
    text.push_str(&" ".repeat(columns.saturating_sub(used)));
    text
}

fn waited(send: &Send) -> String {
    match send.wait {
        Some(wait) if wait.reason == WaitReason::SentAtOnce => "sent at once".into(),
        Some(wait) if wait.reason == WaitReason::Unknown => "reason not known".into(),
        Some(wait) => format!("{} ({})", wait.reason, wait.by_reason),
        None => String::new(),
    }
}

/// The connection's state when the send was made.
fn state(send: &Send) -> String {
    let s = &send.state;
    let mut parts = vec![
        format!("cwnd {}", quantity::count(s.cwnd.into())),
        format!("in flight {}", quantity::count(s.in_flight.into())),
        format!("peer window {}", quantity::bytes(s.peer_window.into())),
        format!("unsent {}", quantity::bytes(s.unsent.into())),
        format!("srtt {}", s.srtt),
    ];
    if send.merged.sends > 0 {
        parts.push(format!("with {}", quantity::counted(send.merged.sends.into(), "merged send")));
    }
    if send.retransmissions > 0 {
        parts.push(quantity::counted(send.retransmissions.into(), "retransmission"));
    }
    parts.into_iter().map(|p| p.replace(' ', "\u{a0}")).collect::<Vec<_>>().join(" · ")
}
