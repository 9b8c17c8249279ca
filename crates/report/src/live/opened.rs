//! A row of `wirelapse top` that is open: its legs over time, why its sends waited, and the slowest
//! of them.

use ratatui::text::{Line, Span};
use record::{Component, Leg, Nanos, Send, WaitReason};
use summary::Group;
use summary::live::Trouble;

use super::socket::{self, ShownSocket};
use super::spans::{bar, left, leg_ink, right};
use super::style;
use super::trouble::{short, words};
use paper::Canvas;
use paper::Ink;

/// A row that is open.
#[derive(Clone, Debug, Default)]
pub struct Opened {
    /// Its name.
    pub label: String,
    /// Its figures of all intervals that rows show; `None` where it is gone.
    pub row: Option<Group>,
    /// Its figures of each interval, the oldest first.
    pub over_time: Vec<Group>,
    /// The slowest of its sends, the slowest first.
    pub slowest: Vec<SlowestSend>,
    /// Some of its sockets: those in trouble, then the busiest.
    pub sockets: Vec<ShownSocket>,
}

/// One of the slowest sends.
#[derive(Clone, Copy, Debug)]
pub struct SlowestSend {
    /// The send.
    pub send: Send,
    /// How long ago it was made.
    pub ago: Nanos,
}

const LEGS: [Leg; 4] = [Leg::Tcp, Leg::Qdisc, Leg::Network, Leg::Total];
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const BARS_ASCII: [char; 8] = ['.', '.', ':', ':', '-', '=', '+', '#'];

pub(super) fn lines(canvas: &Canvas, opened: &Opened) -> Vec<Line<'static>> {
    let heading = |text: &str| Line::from(Span::styled(canvas.cut(text, canvas.width), style(canvas, Ink::Strong)));
    let mut lines = vec![heading(&opened.label)];
    let trouble = opened.row.as_ref().and_then(|row| row.trouble.as_ref());
    lines.extend(trouble.map(|trouble| inked(canvas, &words(trouble), Ink::Warn)));
    // The first socket is what most rows have alone; where there is room, the others are below.
    let (first, others) = opened.sockets.split_at(opened.sockets.len().min(1));
    lines.extend(first.iter().flat_map(|shown| socket::lines(shown, canvas.width)).map(|line| plain(canvas, &line)));
    if together(opened).sends > 0 {
        lines.extend(legs(canvas, opened));
        lines.push(Line::default());
        lines.push(heading("Why sends waited in TCP"));
        lines.extend(reasons(canvas, opened));
        lines.push(Line::default());
        lines.push(heading("Slowest sends"));
        lines.extend(slowest(canvas, opened));
    }
    lines.extend(requests(canvas, opened));
    if !others.is_empty() {
        lines.extend([Line::default(), heading("Other sockets")]);
    }
    lines.extend(others.iter().map(|shown| plain(canvas, &socket::line(shown))));
    lines
}

fn plain(canvas: &Canvas, text: &str) -> Line<'static> {
    Line::from(canvas.cut(text, canvas.width))
}

fn inked(canvas: &Canvas, text: &str, ink: Ink) -> Line<'static> {
    Line::from(Span::styled(canvas.cut(text, canvas.width), style(canvas, ink)))
}

/// What requests took, and where that time went, the longest first.
fn requests(canvas: &Canvas, opened: &Opened) -> Vec<Line<'static>> {
    let Some(asked) = opened.row.as_ref().map(|row| &row.requests).filter(|asked| asked.times.count() > 0) else {
        return Vec::new();
    };
    let quantile = |share| time(asked.quantile(share));
    let n = quantity::counted(asked.times.count(), "request");
    let mut lines = vec![Line::default(), inked(canvas, "Requests", Ink::Strong)];
    lines.push(plain(canvas, &format!("{n}, p50 {}, p99 {}", quantile(0.5), quantile(0.99))));
    let all: u64 = asked.components.iter().map(|time| time.0).sum();
    let mut parts: Vec<(Component, Nanos)> = Component::ALL.into_iter().zip(asked.components).collect();
    parts.retain(|(_, time)| *time > Nanos::ZERO);
    parts.sort_by_key(|(_, time)| std::cmp::Reverse(*time));
    lines.extend(parts.into_iter().take(4).map(|(component, part)| {
        let share = part.0 as f64 / all.max(1) as f64;
        let name = short(&Trouble::Requests(component, share));
        plain(canvas, &format!("{} {}", left(canvas, &name, 22), right(canvas, &quantity::percent(share), 7)))
    }));
    lines
}

fn together(opened: &Opened) -> record::histogram::Series {
    let mut all = record::histogram::Series::default();
    opened.over_time.iter().for_each(|one| all.merge(&one.figures));
    all
}

fn time(time: Option<Nanos>) -> String {
    time.map_or_else(|| "—".into(), |time| quantity::time_to(time.0 as f64, 2))
}

/// A row for each leg: figures of all intervals, and the mean of each as a small bar; bars of one
/// leg have one scale.
fn legs(canvas: &Canvas, opened: &Opened) -> Vec<Line<'static>> {
    let all = together(opened);
    let mean = |group: &Group, leg: Leg| {
        let histogram = group.figures.legs.get(&leg)?;
        Some(histogram.sum.0 as f64 / histogram.count().max(1) as f64)
    };
    let head = format!(
        "{} {} {} {}  mean over time",
        left(canvas, "leg", 8),
        right(canvas, "n", 10),
        right(canvas, "p50", 8),
        right(canvas, "p99", 8)
    );
    let mut lines = vec![Line::from(Span::styled(canvas.cut(&head, canvas.width), style(canvas, Ink::Faint)))];
    for leg in LEGS {
        let histogram = all.legs.get(&leg);
        let quantile = |share| time(histogram.and_then(|h| h.quantile(share)).map(|bounds| bounds.middle()));
        let n = histogram.map_or(0, record::histogram::Histogram::count);
        let means: Vec<Option<f64>> = opened.over_time.iter().map(|group| mean(group, leg)).collect();
        let most = means.iter().flatten().copied().fold(0.0, f64::max);
        let room = canvas.width.saturating_sub(39 + 12);
        let bars: String =
            means.iter().rev().take(room).rev().map(|m| m.map_or(' ', |m| small_bar(canvas, m, most))).collect();
        lines.push(Line::from(vec![
            Span::styled(left(canvas, leg.name(), 8), style(canvas, leg_ink(leg))),
            Span::raw(format!(
                " {} {} {}  ",
                right(canvas, &quantity::count(n), 10),
                right(canvas, &quantile(0.5), 8),
                right(canvas, &quantile(0.99), 8)
            )),
            Span::styled(bars, style(canvas, leg_ink(leg))),
            Span::styled(
                canvas.plain(&format!(" ≤ {}", time((most > 0.0).then_some(Nanos(most as u64))))),
                style(canvas, Ink::Faint),
            ),
        ]));
    }
    lines
}

fn small_bar(canvas: &Canvas, value: f64, most: f64) -> char {
    let step = if most > 0.0 { ((value / most * 8.0).ceil() as usize).clamp(1, 8) - 1 } else { 0 };
    if canvas.unicode { BARS[step] } else { BARS_ASCII[step] }
}

/// The reasons that took any time, the longest first.
fn reasons(canvas: &Canvas, opened: &Opened) -> Vec<Line<'static>> {
    let waited = together(opened).waited;
    let all: u64 = waited.iter().map(|time| time.0).sum();
    let mut reasons: Vec<(WaitReason, Nanos)> =
        WaitReason::ALL.into_iter().zip(waited).filter(|(_, time)| *time > Nanos::ZERO).collect();
    reasons.sort_by_key(|(_, time)| std::cmp::Reverse(*time));
    if reasons.is_empty() {
        return vec![Line::from(Span::styled("they did not".to_owned(), style(canvas, Ink::Faint)))];
    }
    let line = |(reason, time): (WaitReason, Nanos)| {
        let share = time.0 as f64 / all as f64;
        let cells = ((share * 20.0).round() as usize).max(1);
        Line::from(vec![
            Span::raw(left(canvas, &reason.to_string(), 18)),
            Span::raw(format!(" {} ", right(canvas, &quantity::percent(share), 7))),
            Span::styled(canvas.plain(&"█".repeat(cells)), style(canvas, leg_ink(Leg::Tcp))),
        ])
    };
    reasons.into_iter().take(5).map(line).collect()
}

/// A waterfall of one line for each: as long as the slowest one's is wide.
fn slowest(canvas: &Canvas, opened: &Opened) -> Vec<Line<'static>> {
    let total = |slow: &SlowestSend| slow.send.leg(Leg::Total).ok().flatten().unwrap_or_default();
    let most = opened.slowest.iter().map(total).max().unwrap_or_default();
    if opened.slowest.is_empty() || most == Nanos::ZERO {
        let text = "none was seen since this row was opened, or none was acknowledged yet";
        return vec![Line::from(Span::styled(canvas.cut(text, canvas.width), style(canvas, Ink::Faint)))];
    }
    let width = canvas.width.saturating_sub(52).clamp(8, 60);
    let line = |slow: &SlowestSend| {
        let send = &slow.send;
        let part = |leg| send.leg(leg).ok().flatten().map(|time| (leg, time.0 as f64 / most.0 as f64));
        let parts: Vec<(Leg, f64)> = [Leg::Tcp, Leg::Qdisc, Leg::Network].into_iter().filter_map(part).collect();
        let mut spans = vec![Span::raw(format!("{} ", right(canvas, &time(Some(total(slow))), 8)))];
        let bar = bar(canvas, &parts, width);
        let drawn: usize = bar.iter().map(|span| span.content.chars().count()).sum();
        spans.extend(bar);
        let wait = send.wait.map_or_else(String::new, |wait| format!("  {}", wait.reason()));
        let ago = quantity::time_to(slow.ago.0 as f64, 2);
        // A call that was under way when its stretch began: what it had written by then is not
        // known.
        let bytes = if send.bytes == 0 { "—".into() } else { quantity::bytes(send.bytes.into()) };
        let words = format!("  {}  {ago} ago{wait}", left(canvas, &bytes, 8));
        let words = " ".repeat(width.saturating_sub(drawn)) + &words;
        spans.push(Span::raw(canvas.cut(&words, canvas.width.saturating_sub(9 + drawn))));
        Line::from(spans)
    };
    opened.slowest.iter().map(line).collect()
}
