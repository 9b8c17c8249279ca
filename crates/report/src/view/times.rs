//! Times of anything that has parts: a table of their distributions, histograms, and waterfalls.

use record::Nanos;
use stats::{Distribution, Quantile};
use unicode_width::UnicodeWidthStr as _;

use super::{distribution, waterfall};
use crate::canvas::{Canvas, Ink};
use crate::colour::ink_of;
use crate::described::Described;
use crate::table::{Align, Table};
use summary::TimedFigures;
use summary::{LegPlace, TimedKind, TimedLeg};

const DASH: &str = "—";

/// One row of a table of times.
pub(super) struct Line<'a> {
    pub name: &'static str,
    pub ink: Ink,
    pub times: &'a Distribution,
    /// Of what its share is taken, nanoseconds; `None` for the whole itself.
    pub whole: Option<u128>,
}

/// The legs of records as rows; those of requests that none can have, as where the peer was not traced, are left out.
pub(super) fn lines<T: Described>(records: &TimedFigures<T>) -> Vec<Line<'_>> {
    let whole = records.time();
    let line = |(leg, times): (&'static TimedLeg, _)| Line {
        name: leg.name,
        ink: ink_of(leg),
        times,
        whole: (leg.place == LegPlace::Adds).then_some(whole),
    };
    let optional = matches!(records.kind(), TimedKind::AtClient | TimedKind::AtServer);
    records.times().into_iter().map(line).filter(|l| !optional || l.times.n() > 0).collect()
}

/// What each leg is, in one sentence.
pub(super) fn meanings<T: Described>(records: &TimedFigures<T>) -> String {
    let there = lines(records);
    let legs = records.kind().legs().iter().filter(|leg| there.iter().any(|l| l.name == leg.name));
    let each: Vec<String> = legs.map(|leg| format!("{}: {}", leg.name, leg.meaning)).collect();
    format!("{}.", each.join("; "))
}

/// A table with a row for each line.
pub(super) fn table(canvas: &Canvas, out: &mut String, first: &str, lines: &[Line<'_>]) {
    let quantiles = Quantile::SHOWN.map(|q| q.to_string());
    let mut head = vec![(first, Align::Left), ("n", Align::Right), ("min", Align::Right)];
    head.extend(quantiles.iter().map(|q| (q.as_str(), Align::Right)));
    head.extend([("max", Align::Right), ("share", Align::Right)]);
    let mut table = Table::new(&head);
    for line in lines {
        let times = line.times;
        let time = |ns: Option<u64>| (ns.map_or_else(|| DASH.into(), |ns| Nanos(ns).to_string()), None);
        let mut row = vec![(line.name.to_owned(), Some(line.ink))];
        row.push((if times.n() == 0 { DASH.into() } else { quantity::count(times.n()) }, None));
        row.push(time(times.min()));
        row.extend(Quantile::SHOWN.map(|q| time(times.quantile(q))));
        row.push(time(times.max()));
        let share = match line.whole {
            None => String::new(),
            Some(_) if times.n() == 0 => DASH.into(),
            Some(whole) => quantity::percent(quantity::share(times.sum(), whole)),
        };
        row.push((share, None));
        table.row(row);
    }
    table.draw(canvas, out);
}

/// Why percentiles are not shown, where some are not.
pub(super) fn held(n: u64, things: &str) -> Option<String> {
    let held: Vec<String> = Quantile::SHOWN
        .into_iter()
        .filter(|q| n > 0 && n < q.needs())
        .map(|q| format!("{q} needs {} {things}", quantity::count(q.needs())))
        .collect();
    (!held.is_empty())
        .then(|| format!("{DASH} percentiles: {}, and there are {}.", held.join(", "), quantity::count(n)))
}

/// Faint paragraphs.
pub(super) fn remarks(canvas: &Canvas, out: &mut String, remarks: &[String]) {
    for remark in remarks {
        let mut text = String::new();
        canvas.paragraph(&mut text, remark, 0);
        for line in text.lines() {
            out.push_str(&canvas.paint(Ink::Faint, line));
            out.push('\n');
        }
    }
}

/// A histogram for each line that has any times.
pub(super) fn histograms(canvas: &Canvas, out: &mut String, title: &str, lines: &[Line<'_>]) {
    let lines: Vec<_> = lines.iter().filter(|l| l.times.n() > 0).map(|l| (l.name, l.ink, l.times)).collect();
    distribution::chart(canvas, out, title, &lines);
}

/// The slowest records, each as a small waterfall with what is known of why.
pub(super) fn slowest<T: Described>(canvas: &Canvas, out: &mut String, title: &str, records: &TimedFigures<T>) {
    let all = records.slowest.sorted();
    if all.is_empty() {
        return;
    }
    canvas.heading(out, title);
    for (i, (total, slow)) in all.into_iter().enumerate() {
        if i > 0 {
            out.push('\n');
        }
        let record = &slow.record;
        let since = records.first.zip(record.began()).and_then(|(first, at)| at.since(first).ok());
        let owner = slow.whose.owner.map_or_else(String::new, |o| format!(" · {}[{}]", o.comm, o.pid));
        let what = format!("{}{owner} · at +{}", quantity::bytes(record.bytes()), since.unwrap_or_default());
        waterfall::headline(canvas, out, (i, total), &what, (slow.whose.ends, record.flow()));
        let times = record.times();
        let parts: Vec<(&str, Ink, Nanos)> =
            record.kind().adding().filter_map(|(i, leg)| Some((leg.name, ink_of(leg), Nanos(times[i]?)))).collect();
        waterfall(canvas, out, &parts, total);
        let figures = record.figures().into_iter().map(|(what, figure)| format!("{what} {figure}"));
        let known: Vec<String> = record.reason().into_iter().chain(figures).map(|f| f.replace(' ', "\u{a0}")).collect();
        canvas.paragraph(out, &known.join(" · "), 3);
    }
}

pub(super) fn slowest_title(n: usize, thing: &str) -> String {
    match n {
        1 => format!("The slowest {thing}"),
        n => format!("The {n} slowest {thing}s"),
    }
}

/// The parts one under the other, each where it lies in the whole.
pub(super) fn waterfall(canvas: &Canvas, out: &mut String, parts: &[(&str, Ink, Nanos)], whole: Nanos) {
    let label = parts.iter().map(|p| p.0.width()).max().unwrap_or(0).max(8);
    let bar = (canvas.width.clamp(60, 120) - 43).max(16);
    let mut done = Nanos::ZERO;
    for (name, ink, time) in parts {
        let drawn = waterfall::stroke(done, *time, whole, bar, canvas.unicode);
        done += *time;
        let line = format!(
            "   {} {} {}",
            canvas.paint(*ink, &format!("{name:<label$}")),
            canvas.paint(*ink, &drawn),
            canvas.plain(&format!("{:>8}", time.to_string())),
        );
        out.push_str(line.trim_end());
        out.push('\n');
    }
}
