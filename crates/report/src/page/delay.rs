//! The page of a device's delay: what it adds, how that changes over time, and what became of the
//! frames.

use capture::delay::records::{ClockWord, Delay};
use capture::delay::{Change, Figures, QUANTILES};
use capture::generate::Gaps;
use record::Nanos;

use super::facts;
use paper::document::{Cell, Document, Section, Table, clauses, columns, texts};
use paper::plot::{Axis, Hue, Layer, Plot, Unit, tidy};

/// Changes of level that a verdict names.
const NAMED: usize = 3;

/// Tasks that wait for a CPU for more than this share of a run are in a warning.
const BUSY: f64 = 0.1;

/// The page of a measured delay.
pub fn document(delay: &Delay) -> Document {
    let title = format!("Delay between {} and {}", delay.before, delay.after).into();
    let by = match delay.matched_by.as_str() {
        "id" => "matched by the id in each frame",
        "nat" => "matched by what a device does not change, addresses and ports excluded",
        _ => "matched by what a device does not change",
    };
    let method = if delay.method.is_empty() { String::new() } else { format!(" · {}", delay.method) };
    let about = format!("{by}{method} · {}", delay.lasted);
    let Some(figures) = delay.figures.as_deref() else {
        return Document { title, about, verdict: vec!["Nothing was measured.".into()], ..Document::default() };
    };
    let mut sections = vec![
        delays(delay, figures),
        over_time(figures),
        frames(delay, figures),
        gaps(figures),
        accuracy(delay, figures),
    ];
    sections.retain(|s| !s.blocks.is_empty());
    Document {
        title,
        about,
        verdict: clauses(verdict(delay, figures)),
        warnings: texts(warnings(delay, figures)),
        sections,
        ..Document::default()
    }
}

fn time(ns: f64) -> String {
    quantity::time_to(ns, 4)
}

fn verdict(delay: &Delay, figures: &Figures) -> Vec<String> {
    let account = figures.account;
    let mut verdict = Vec::new();
    let least = if delay.clocks == ClockWord::Apart { " above the least" } else { "" };
    match (figures.mean, figures.quantiles, delay.error_ns()) {
        (Some(mean), Some(quantiles), Some(error)) => verdict.push(format!(
            "The mean delay{least} is {} ± {}; 99 % of the frames take at most {} (n = {}).",
            time(mean.value),
            time(error),
            time(quantiles[5]),
            quantity::count(figures.n as u64)
        )),
        _ if account.before == 0 && account.after == 0 => verdict.push("No frame was seen at either tap.".into()),
        _ => verdict.push("Too few frames were matched to give a delay.".into()),
    }
    if let Some(share) = delay.share() {
        let fates: Vec<String> =
            [(account.lost, "lost"), (account.duplicated, "duplicated"), (account.reordered, "reordered")]
                .iter()
                .map(|(n, what)| format!("{} {what}", if *n == 0 { "none".into() } else { quantity::count(*n) }))
                .collect();
        verdict.push(format!(
            "{} of {} frames were matched ({}): {}.",
            quantity::count(account.matched),
            quantity::count(account.before),
            quantity::percent(share),
            fates.join(", ")
        ));
    }
    if figures.mean.is_some() {
        verdict.push(changes_in_words(figures));
    }
    verdict
}

fn signed(ns: f64) -> String {
    if ns < 0.0 { format!("−{}", time(-ns)) } else { format!("+{}", time(ns)) }
}

/// When a change was, from the first frame on.
fn moment(figures: &Figures, change: &Change) -> Nanos {
    Nanos(change.at_ns.saturating_sub(figures.series.first().map_or(0, |s| s.at_ns)))
}

fn changes_in_words(figures: &Figures) -> String {
    let named: Vec<String> = figures
        .changes
        .iter()
        .take(NAMED)
        .map(|c| {
            format!("{} at frame {} ({})", signed(c.size.value), quantity::count(c.frame as u64), moment(figures, c))
        })
        .collect();
    match figures.changes.len() {
        0 => match figures.least_change {
            Some(least) => format!("No change of the delay's level was found; one of {} would have been.", time(least)),
            None => "There are too few frames to look for changes of the delay's level.".into(),
        },
        1 => format!("The delay's level changes once: {}.", named.join(", ")),
        n if n <= NAMED => format!("The delay's level changes {n} times: {}.", named.join(", ")),
        n => format!("The delay's level changes {n} times, first {}.", named.join(", ")),
    }
}

fn warnings(delay: &Delay, figures: &Figures) -> Vec<String> {
    let account = figures.account;
    let mut warnings = Vec::new();
    let [before, after] = delay.dropped;
    if before + after > 0 {
        warnings.push(format!(
            "The taps themselves dropped frames: {} before the device, {} behind it. Up to as many of the lost ones may have come through.",
            quantity::count(before),
            quantity::count(after)
        ));
    }
    let [before, after] = delay.unstamped;
    if before + after > 0 {
        warnings
            .push(format!("{} had no timestamp and could not be used.", quantity::counted(before + after, "frame")));
    }
    let [before, after] = delay.in_parts;
    if before + after > 0 {
        warnings.push(format!(
            "The taps saw some flows cut differently, by offloads (TSO, GRO) or fragments. {} before the device and {} behind it count as \
             their parts.",
            quantity::counted(before, "frame"),
            quantity::count(after)
        ));
    }
    if account.not_kept + figures.not_kept > 0 {
        warnings.push(format!(
            "There was no memory for {}: they are not in the figures.",
            quantity::counted(account.not_kept + figures.not_kept, "frame")
        ));
    }
    if account.matched == 0 && account.unrecognised > 0 && delay.matched_by == "id" {
        warnings.push("No frame has an id of wirelapse generate: match other traffic with --match content.".into());
    }
    if delay.clocks == ClockWord::Apart {
        warnings.push(
            "The taps' clocks are not the same. Their offset and drift are removed as far as the delays show them: the least delay is at 0, \
             and a delay that grows steadily would be taken for drift."
                .into(),
        );
    }
    if figures.negative > 0 && delay.clocks != ClockWord::Apart {
        warnings.push(format!(
            "{} of {} delays are below zero: the error of the taps is larger than the delay.",
            quantity::count(figures.negative),
            quantity::count(figures.n as u64)
        ));
    }
    if let Some(share) = delay.cpu_waited.filter(|share| *share > BUSY) {
        warnings.push(format!(
            "Tasks of this machine waited for a CPU during {} of the run. Software timestamps, and a device on this machine, take part in \
             that: the delays include such waits, and changes of level can be the machine's own.",
            quantity::percent(share)
        ));
    }
    warnings
}

fn delays(delay: &Delay, figures: &Figures) -> Section {
    let mut section = Section::new("Delay");
    let mut table = Table::new("Delay of matched frames", columns([""], ["time"]));
    let mut row = |what: &str, ns: f64| table.push(vec![what.into(), time(ns)]);
    if let (Some(mean), Some(deviation), Some(quantiles)) = (figures.mean, figures.deviation, figures.quantiles) {
        row("mean", mean.value);
        row("standard deviation", deviation);
        for (share, value) in QUANTILES.iter().zip(quantiles) {
            match *share {
                0.0 => row("least", value),
                1.0 => row("most", value),
                share => row(&format!("{} quantile", quantity::percent(share)), value),
            }
        }
    }
    section.table(table);
    let points = figures.histogram.iter().flat_map(|bin| {
        let width = (bin.to_ns - bin.from_ns).max(1.0);
        // A tail is wide and nearly empty: its bar stands for frames per width of the other bins.
        let per = bin.frames as f64 * figures.histogram.get(1).map_or(1.0, |b| (b.to_ns - b.from_ns) / width);
        [[tidy(bin.from_ns), tidy(per)], [tidy(bin.to_ns), tidy(per)]]
    });
    let points: Vec<[f64; 2]> = points.collect();
    section.plot(Plot::new(
        "delay-histogram",
        "How delays are spread",
        format!(
            "n = {} matched frames; the bins beyond 0.1 % and 99.9 % are drawn at the width of the others.",
            quantity::count(figures.n as u64)
        ),
        (Axis::linear("delay", Unit::Time), Axis::linear("frames", Unit::Plain).reaching(0.0)),
        vec![Layer::line("", Hue(0), middle(points, delay))],
    ));
    section
}

/// The bins between the tails: those are in the table, and would take all the room.
fn middle(points: Vec<[f64; 2]>, delay: &Delay) -> Vec<[f64; 2]> {
    let bins = delay.figures.as_deref().map_or(0, |f| f.histogram.len());
    if bins < 5 { points } else { points[2..points.len() - 2].to_vec() }
}

fn over_time(figures: &Figures) -> Section {
    let mut section = Section::new("The delay over time");
    let from = figures.series.first().map_or(0, |s| s.at_ns);
    let at = |ns: u64| ns.saturating_sub(from) as f64;
    let line = |name: &str, hue: u8, of: &dyn Fn(&capture::delay::Stretch) -> f64| {
        Layer::line(name, Hue(hue), figures.series.iter().map(|s| [at(s.at_ns), tidy(of(s))]).collect())
    };
    let mut layers = vec![
        line("least", 2, &|s| s.min_ns as f64),
        line("mean", 1, &|s| s.mean_ns),
        line("median", 0, &|s| s.median_ns),
    ];
    layers.extend(figures.changes.iter().map(|c| Layer::Rule {
        name: "change of level".into(),
        upright: true,
        value: at(c.at_ns),
    }));
    let each = figures.series.first().map_or(0, |s| s.n as u64);
    section.plot(Plot::new(
        "delay-series",
        "The delay over time",
        format!("Each point is of {} in a row.", quantity::counted(each, "matched frame")),
        (Axis::linear("time since the first frame", Unit::Time), Axis::linear("delay", Unit::Time)),
        layers,
    ));
    let mut table = Table::new("Changes of level", columns([], ["frame", "time", "size", "95 % interval"]));
    for change in &figures.changes {
        table.push(vec![
            quantity::count(change.frame as u64),
            moment(figures, change).to_string(),
            signed(change.size.value),
            format!("{} to {}", signed(change.size.low), signed(change.size.high)),
        ]);
    }
    section.table(table);
    section
}

fn frames(delay: &Delay, figures: &Figures) -> Section {
    let a = figures.account;
    let mut table = Table::new("Frames", columns([""], ["frames"]));
    let mut row = |what: &str, n: u64, always: bool| {
        if always || n > 0 {
            table.push([what.into(), Cell::count(n)]);
        }
    };
    row("seen before the device", a.before, true);
    row("seen behind it", a.after, true);
    row("matched", a.matched, true);
    row("lost: not seen behind the device within a second", a.lost, true);
    row("duplicated: seen behind the device more often", a.duplicated, true);
    row("reordered: overtaken by a later frame", a.reordered, true);
    row("seen only behind the device", a.unexplained, false);
    row("not recognised", a.unrecognised, false);
    row("no memory to match them", a.not_kept, false);
    row("dropped by the tap before the device", delay.dropped[0], false);
    row("dropped by the tap behind it", delay.dropped[1], false);
    let mut section = Section::new("Frames");
    section.table(table);
    section
}

fn gaps(figures: &Figures) -> Section {
    let mut section = Section::new("Gaps between frames");
    let [Some(before), Some(after)] = figures.gaps else { return section };
    let mut table = Table::new("Time between frames", columns([""], ["before the device", "behind it"]));
    let mut row = |what: &str, of: &dyn Fn(&Gaps) -> f64| {
        table.push(vec![what.into(), time(of(&before)), time(of(&after))]);
    };
    row("mean", &|g| g.mean_ns);
    row("standard deviation", &|g| g.deviation_ns);
    row("longest", &|g| g.max.0 as f64);
    let burstiness = |g: &Gaps| format!("{:.2}", g.deviation_ns / g.mean_ns.max(1e-9));
    table.push(vec!["burstiness: deviation ÷ mean".into(), burstiness(&before), burstiness(&after)]);
    section.table(table);
    section
}

fn accuracy(delay: &Delay, figures: &Figures) -> Section {
    let mut section = Section::new("How far to trust the mean");
    let clocks = match (delay.clocks, delay.drift_ppb) {
        (ClockWord::One, _) => "one clock stamps both taps".to_owned(),
        (ClockWord::Compared, Some(ppb)) => {
            format!("two, compared with each other; the one behind the device ran {:+.3} ppm faster", ppb / 1e3)
        }
        (ClockWord::Compared, None) => "two, compared with each other".into(),
        (ClockWord::Apart, ppb) => format!(
            "two; a drift of {:+.3} ± {:.3} ppm is removed",
            ppb.unwrap_or(0.0) / 1e3,
            delay.drift_error_ppb.unwrap_or(0.0) / 1e3
        ),
    };
    let offset = match delay.offset {
        Some(offset) => format!("{} ± {}, subtracted", time(offset.ns), time(offset.error_ns)),
        None => "not calibrated: it is in the delay (measure it with --calibrate)".into(),
    };
    let interval = figures.mean.map_or_else(|| "—".into(), |m| format!("± {}", time(m.half_width())));
    section.table(facts(
        "",
        [
            ("95 % interval of the mean", interval),
            ("the taps' own offset", offset),
            ("clocks", clocks),
            ("error of comparing two stamps", format!("± {}", delay.clock_error)),
            (
                "tasks waited for a CPU",
                delay.cpu_waited.map_or_else(|| "not known".into(), |s| format!("{} of the run", quantity::percent(s))),
            ),
            ("error of the mean, in all", delay.error_ns().map_or_else(|| "—".into(), |e| format!("± {}", time(e)))),
        ],
    ));
    section
}

#[cfg(test)]
mod tests {
    use capture::delay::{Account, Bin, Stretch};
    use stats::{Estimate, Method};

    use super::*;
    use paper::Canvas;

    fn delay() -> Delay {
        let size =
            Estimate { value: 5e4, low: 4.99e4, high: 5.01e4, confidence: 0.95, n: 10, method: Method::StudentT };
        let stretch = |i: u64| {
            let level = if i < 5 { 1e5 } else { 1.5e5 };
            Stretch {
                at_ns: 7_000 + i * 1_000_000,
                n: 100,
                min_ns: 90_000,
                median_ns: level,
                mean_ns: level,
                max_ns: 200_000,
            }
        };
        let figures = Figures {
            account: Account {
                before: 1_002,
                after: 1_001,
                matched: 1_000,
                lost: 2,
                duplicated: 1,
                ..Account::default()
            },
            n: 1_000,
            not_kept: 0,
            mean: Some(Estimate { value: 1.25e5, low: 1.24e5, high: 1.26e5, ..size }),
            deviation: Some(2.5e4),
            quantiles: Some([9e4, 9.1e4, 9.5e4, 1.2e5, 1.5e5, 1.6e5, 1.9e5, 2e5]),
            negative: 0,
            histogram: (0..6)
                .map(|i| Bin { from_ns: f64::from(i) * 3e4, to_ns: f64::from(i + 1) * 3e4, frames: 10 })
                .collect(),
            gaps: [Some(Gaps { n: 9, mean_ns: 1e6, deviation_ns: 1e5, max: Nanos(2_000_000) }); 2],
            series: (0..10).map(stretch).collect(),
            least_change: Some(3e3),
            changes: vec![Change { frame: 500, at_ns: 5_007_000, size }],
        };
        Delay {
            before: "before".into(),
            after: "after".into(),
            matched_by: "id".into(),
            figures: Some(Box::new(figures)),
            ..Delay::default()
        }
    }

    #[test]
    fn delay_losses_and_change_stand_in_the_verdict() {
        let text = paper::terminal::text(&Canvas { width: 100, colour: false, unicode: true }, &[document(&delay())]);
        assert!(text.contains("The mean delay is 125.0 µs ± 1.000 µs"), "{text}");
        assert!(text.contains("2 lost, 1 duplicated, none reordered"), "{text}");
        assert!(text.contains("+50.00 µs at frame 500 (5.00 ms)"), "{text}");
        assert!(text.contains("not calibrated"), "{text}");
    }

    #[test]
    fn what_the_taps_dropped_is_a_warning() {
        let dropped = Delay { dropped: [0, 7], ..delay() };
        assert!(document(&dropped).warnings.iter().any(|w| w.to_string().contains("7 behind it")));
        assert!(document(&delay()).warnings.is_empty());
    }
}
