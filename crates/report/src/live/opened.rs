//! A row of `wirelapse top` that is open: what was asked of it, how long its sends and requests
//! took, its sockets, its legs over time, why its sends waited, and the slowest of them.

use ratatui::text::{Line, Span};
use record::histogram::{Bounds, Histogram};
use record::{Component, Leg, Nanos, Send, WaitReason};
use summary::Group;
use summary::live::{NameSource, PeerName, SlowRequest, Trouble};
use unicode_width::UnicodeWidthStr as _;

use super::socket::{self, ShownSocket};
use super::spans::{self, bar, left, leg_ink, right};
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
    /// The slowest of its requests, the slowest first, and how long ago each ended.
    pub slowest_requests: Vec<(SlowRequest, Nanos)>,
    /// Some of its sockets: those in trouble, then the busiest.
    pub sockets: Vec<ShownSocket>,
    /// What was asked of this row and came back: the report of a trace, advice.
    pub answer: Vec<String>,
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

/// All that is to be said of it, from the top; a screen shows as much as it has lines for. Its
/// sends are all that there were where `whole`, else a sample.
pub(super) fn lines(canvas: &Canvas, opened: &Opened, whole: bool) -> Vec<Line<'static>> {
    let heading = |text: &str| inked(canvas, text, Ink::Strong);
    let mut lines = vec![heading(&opened.label)];
    let row = opened.row.as_ref();
    lines.extend(row.and_then(|row| row.trouble.as_ref()).map(|trouble| inked(canvas, &words(trouble), Ink::Warn)));
    lines.extend(row.and_then(|row| row.name.as_ref()).map(|name| plain(canvas, &named(name))));
    if !opened.answer.is_empty() {
        lines.extend(opened.answer.iter().map(|line| plain(canvas, line)));
        lines.push(Line::default());
    }
    if let Some(heat) = row.map(|row| &row.heat).filter(|heat| !heat.is_empty()) {
        let slowest = heat.times().flatten().max();
        let mut spans = vec![Span::raw("last minute ")];
        spans.extend(spans::strip(canvas, heat));
        spans.push(Span::styled(canvas.plain(&format!(" slowest {}", time(slowest))), style(canvas, Ink::Faint)));
        lines.push(Line::from(spans));
    }
    let all = together(opened);
    lines.extend(all.legs.get(&Leg::Total).into_iter().flat_map(|times| distribution(canvas, "sends", times)));
    lines.extend(row.into_iter().flat_map(|row| distribution(canvas, "requests", &row.requests.times)));
    lines.extend(row.into_iter().flat_map(|row| distribution(canvas, "DNS", &row.requests.lookups)));
    // The first socket is what most rows have alone; where there is room, the others are below.
    let (first, others) = opened.sockets.split_at(opened.sockets.len().min(1));
    lines.extend(first.iter().flat_map(|shown| socket::lines(shown, canvas.width)).map(|line| plain(canvas, &line)));
    if all.sends > 0 {
        lines.extend(legs(canvas, opened));
        lines.push(Line::default());
        lines.push(heading("Why sends waited in TCP"));
        lines.extend(reasons(canvas, opened));
        lines.extend(zero_windows(canvas, opened, whole));
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

/// The name of the peer, and how it is known.
fn named(name: &PeerName) -> String {
    let source = match name.source {
        NameSource::Sni => "asked for in its TLS handshake",
        NameSource::Dns => "by an answer of DNS",
        NameSource::Resolver => "by the resolver",
    };
    format!("peer {} ({source})", name.shown())
}

/// Percentiles of some times, and how many of them were how long: a bar for each part of the axis,
/// which is logarithmic. A percentile needs as many values as make one above it.
fn distribution(canvas: &Canvas, of: &str, times: &Histogram) -> Vec<Line<'static>> {
    let n = times.count();
    let (Some(first), Some(last)) = (times.buckets.keys().next(), times.buckets.keys().next_back()) else {
        return Vec::new();
    };
    let text = format!("{} n {}", left(canvas, of, 8), quantity::count(n));
    let mut parts = vec![(4, format!("  max {}", time(Some(Bounds::of(*last).middle()))))];
    // In the order in which they find room, with their places.
    for (place, name, share) in [(0, "p50", 0.5), (2, "p99", 0.99), (3, "p99.9", 0.999), (1, "p90", 0.9)] {
        if share <= 0.5 || n as f64 * (1.0 - share) >= 1.0 - 1e-9 {
            let middle = times.quantile(share).map(|bounds| bounds.middle());
            parts.push((place, format!("  {name} {}", time(middle))));
        }
    }
    let mut left_over = canvas.width.saturating_sub(text.width());
    parts.retain(|(_, part)| {
        let fits = part.width() <= left_over;
        left_over -= if fits { part.width() } else { 0 };
        fits
    });
    parts.sort();
    let text = parts.into_iter().fold(text, |text, (_, part)| text + &part);
    let room = canvas.width.saturating_sub(30).clamp(8, 64);
    let wide = (last - first + 1).max(1).cast_unsigned() as usize;
    let each = wide.div_ceil(room);
    let mut counts = vec![0_u64; wide.div_ceil(each)];
    for (bucket, n) in &times.buckets {
        counts[(bucket - first).cast_unsigned() as usize / each] += n;
    }
    let most = counts.iter().copied().max().unwrap_or(1).max(1) as f64;
    let bar = |n: &u64| match n {
        0 => ' ',
        n => spans::small_bar(canvas, (*n as f64 / most * 8.0).ceil() as usize - 1),
    };
    let bars: String = counts.iter().map(bar).collect();
    let [from, to] =
        [Bounds::of(*first).above, Bounds::of(*last).up_to].map(|time| quantity::time_to(time.0 as f64, 2));
    vec![plain(canvas, &text), plain(canvas, &format!("{} {bars} {to}", right(canvas, &from.to_string(), 16)))]
}

fn plain(canvas: &Canvas, text: &str) -> Line<'static> {
    Line::from(canvas.cut(text, canvas.width))
}

fn inked(canvas: &Canvas, text: &str, ink: Ink) -> Line<'static> {
    Line::from(Span::styled(canvas.cut(text, canvas.width), style(canvas, ink)))
}

/// What requests took, and where that time went, the longest first.
fn requests(canvas: &Canvas, opened: &Opened) -> Vec<Line<'static>> {
    let Some(asked) = opened.row.as_ref().map(|row| &row.requests) else { return Vec::new() };
    let mut lines = Vec::new();
    if asked.times.count() > 0 {
        lines.extend([Line::default(), inked(canvas, "Where the time of requests went", Ink::Strong)]);
    }
    let all: u64 = asked.components.iter().map(|time| time.0).sum();
    let mut parts: Vec<(Component, Nanos)> = Component::ALL.into_iter().zip(asked.components).collect();
    parts.retain(|(_, time)| *time > Nanos::ZERO);
    parts.sort_by_key(|(_, time)| std::cmp::Reverse(*time));
    lines.extend(parts.into_iter().take(4).map(|(component, part)| {
        let share = part.0 as f64 / all.max(1) as f64;
        let name = short(&Trouble::Requests(component, share));
        plain(canvas, &format!("{} {}", left(canvas, &name, 22), right(canvas, &quantity::percent(share), 7)))
    }));
    if !opened.slowest_requests.is_empty() {
        lines.extend([Line::default(), inked(canvas, "Slowest requests", Ink::Strong)]);
    }
    lines.extend(opened.slowest_requests.iter().map(|(slow, ago)| {
        let chief = match (&slow.lookup, slow.chief) {
            (Some((of, true)), _) => format!("  DNS {of}"),
            (Some((of, false)), _) => format!("  DNS {of}, not answered"),
            (None, Some((component, part))) => {
                format!("  {} {}", short(&Trouble::Requests(component, 1.0)), time(Some(part)))
            }
            (None, None) if slow.is_handshake => "  QUIC handshake".to_owned(),
            (None, None) => String::new(),
        };
        let whole = right(canvas, &time(Some(slow.whole)), 8);
        plain(canvas, &format!("{whole}  {} ago{chief}", right(canvas, &time(Some(*ago)), 8)))
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
        let n = histogram.map_or(0, Histogram::count);
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
    spans::small_bar(canvas, if most > 0.0 { ((value / most * 8.0).ceil() as usize).clamp(1, 8) - 1 } else { 0 })
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

/// How often windows of peers were seen to close, where they were. A sample misses some.
fn zero_windows(canvas: &Canvas, opened: &Opened, whole: bool) -> Option<Line<'static>> {
    let seen = together(opened).zero_windows;
    let counts = opened.row.as_ref().is_some_and(|row| row.zero_windows.is_some());
    let (bound, times) = (if whole { "" } else { "at least " }, quantity::counted(seen, "time"));
    (counts && seen > 0).then(|| plain(canvas, &format!("the peer's receive window closed {bound}{times}")))
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
