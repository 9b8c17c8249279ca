//! The page of `study reception`: techniques to receive and stamp packets, beside the findings of the study that it repeats.

use stats::Estimate;
use study::reception::{Beside, CPU, Outcome, Response, Series, compare, figure, frames_a_second};

use crate::document::{Block, Document, Section, Table};
use crate::plot::{Axis, Hue, Interval, Layer, Plot, Unit, tidy};

/// Effects in the table of each response, the surest first.
const EFFECTS: usize = 12;

/// The page of an outcome.
pub fn document(outcome: &Outcome) -> Document {
    let beside = compare(outcome);
    let mut warnings = Vec::new();
    if !outcome.finished {
        warnings.push("The study did not come to its end: what is here was measured until then.".into());
    }
    let mut sections = vec![findings(&beside)];
    for (response, id) in [
        (Response::Matched, "matched"),
        (Response::Deviation, "deviation"),
        (Response::Mean, "mean"),
        (Response::Cpu, "cpu"),
    ] {
        sections.push(by_technique(outcome, response, id));
    }
    sections.push(series(outcome));
    sections.push(step(outcome));
    sections.push(lossless(outcome));
    sections.push(effects(outcome));
    sections.push(combinations(outcome));
    sections.push(missing(outcome));
    sections.push(method(outcome));
    sections.retain(|s| !s.blocks.is_empty());
    Document {
        title: "Study reception".into(),
        about: format!(
            "Packet reception and timestamping: {} of {} in {}, seed {}.",
            quantity::counted(outcome.trials.len() as u64, "trial"),
            quantity::counted(outcome.techniques.len() as u64, "technique"),
            quantity::counted(outcome.blocks.into(), "block"),
            outcome.seed
        ),
        verdict: verdict(outcome, &beside),
        warnings,
        sections,
    }
}

fn verdict(outcome: &Outcome, beside: &[Beside]) -> Vec<String> {
    let count = |agrees| beside.iter().filter(|b| b.agrees == agrees).count();
    let (yes, no, open) = (count(Some(true)), count(Some(false)), count(None));
    let mut verdict = vec![format!(
        "Of the source's {} findings {yes} agree with this run, {no} do not, and {open} cannot be judged here.",
        beside.len()
    )];
    let best = outcome.lossless.iter().filter_map(|l| Some((l, l.per_second?))).max_by(|a, b| a.1.total_cmp(&b.1));
    if let Some((l, rate)) = best {
        let bound = if l.of_the_source { ", which is all that the source sends" } else { "" };
        verdict.push(format!(
            "The highest rate without loss is {} frames of 64 bytes by {}{bound}.",
            quantity::per_second(rate),
            l.technique
        ));
    }
    let mut deviations: Vec<(f64, &str)> = (0..outcome.techniques.len())
        .filter_map(|t| {
            let idle = figure(outcome, Response::Deviation, |l| l[0] == t && l[3] == 0);
            Some((stats::mean(&idle.values)?, outcome.techniques[t].as_str()))
        })
        .collect();
    deviations.sort_by(|a, b| a.0.total_cmp(&b.0));
    if let (Some(least), Some(most)) = (deviations.first(), deviations.last()) {
        verdict.push(format!(
            "With the CPU idle the delay deviates least by {} ({}) and most by {} ({}).",
            least.1,
            quantity::time_to(least.0, 3),
            most.1,
            quantity::time_to(most.0, 3)
        ));
    }
    verdict
}

fn findings(beside: &[Beside]) -> Section {
    let mut section = Section::new("The source's findings and ours");
    let mut table = Table::new("", &["what", "source", "here", "agree", "why"]);
    for b in beside {
        let agree = match b.agrees {
            Some(true) => "yes",
            Some(false) => "no",
            None => "cannot be judged",
        };
        table.rows.push(vec![b.what.into(), b.source.into(), b.here.clone(), agree.into(), b.why.into()]);
    }
    section.table(table);
    section
}

fn unit(response: Response) -> Unit {
    if response == Response::Matched { Unit::Share } else { Unit::Time }
}

fn words(response: Response, value: f64) -> String {
    if response == Response::Matched { quantity::percent(value) } else { quantity::time_to(value, 3) }
}

fn estimate_words(response: Response, e: Option<Estimate>) -> String {
    e.map_or_else(
        || "—".into(),
        |e| format!("{} ({} to {})", words(response, e.value), words(response, e.low), words(response, e.high)),
    )
}

/// A response of each technique, idle and stressed, over all frame sizes and rates.
fn by_technique(outcome: &Outcome, response: Response, id: &str) -> Section {
    let mut title: String = response.name().into();
    title.get_mut(..1).map(str::make_ascii_uppercase);
    let mut section = Section::new(title);
    let layers = (0..CPU.len()).map(|cpu| {
        let items = (0..outcome.techniques.len()).filter_map(|t| {
            let e = figure(outcome, response, |l| l[0] == t && l[3] == cpu).estimate?;
            let at = t as f64 + if cpu == 0 { -0.15 } else { 0.15 };
            let label = format!("{}, CPU {}\n{}", outcome.techniques[t], CPU[cpu], estimate_words(response, Some(e)));
            Some(Interval { at, low: tidy(e.low), value: tidy(e.value), high: tidy(e.high), label })
        });
        Layer::Intervals { name: format!("CPU {}", CPU[cpu]), hue: Hue::nth(cpu), items: items.collect() }
    });
    let label = format!("{} over all frame sizes and rates", response.name());
    section.plot(Plot::new(
        &format!("reception-{id}"),
        format!("{} by technique and CPU load", response.name()),
        format!(
            "Mean of {} with 95 % intervals, software timestamps.",
            quantity::counted(outcome.blocks.into(), "block")
        ),
        (Axis::linear(label, unit(response)), Axis::names("", outcome.techniques.clone())),
        layers.collect(),
    ));
    section
}

fn series_line(name: String, hue: Hue, series: &Series) -> Layer {
    Layer::line(name, hue, series.stretches.iter().map(|s| [s[0], tidy(s[2])]).collect())
}

fn series(outcome: &Outcome) -> Section {
    let mut section = Section::new("The delay over time");
    let lines = outcome.series.iter().enumerate();
    section.plot(Plot::new(
        "reception-series",
        "Delay of frames in a row, software timestamps",
        "rx-ring, 256 bytes, as many frames as 1 Gbit/s carries or the source sends, CPU idle; mean of each stretch of equally many frames.",
        (Axis::linear("frame", Unit::Plain), Axis::linear("delay", Unit::Time)),
        lines.map(|(i, s)| series_line(format!("run {}", i + 1), Hue::nth(i), s)).collect(),
    ));
    let head = ["run", "sent", "matched", "mean", "deviation", "1 %", "50 %", "99 %", "largest"];
    let mut table = Table::new("Delays of the series", &head);
    for (i, s) in outcome.series.iter().enumerate() {
        let time = |ns: Option<f64>| ns.map_or_else(|| "—".into(), |ns| quantity::time_to(ns, 3));
        let quantile = |i: usize| time(s.quantiles_ns.map(|q| q[i]));
        let counts = [(i + 1).to_string(), quantity::count(s.sent), quantity::count(s.n as u64)];
        let times = [time(s.mean_ns), time(s.deviation_ns), quantile(1), quantile(3), quantile(5), quantile(6)];
        table.rows.push(counts.into_iter().chain(times).collect());
    }
    section.table(table);
    section
}

fn step(outcome: &Outcome) -> Section {
    let mut section = Section::new("A step in the delay");
    let Some(step) = &outcome.step else {
        if let Some(why) = &outcome.step_missing {
            section.say(format!("Not measured: {why}"));
        }
        return section;
    };
    let put_in = quantity::time_to(step.put_in_ns as f64, 3);
    section.plot(Plot::new(
        "reception-step",
        format!("Delay of a path that is raised by {put_in} in the middle"),
        format!(
            "A path of the lab, {} matched of {} sent, rx-ring at both ends, software timestamps; mean of each stretch of equally many frames.",
            quantity::count(step.series.n as u64),
            quantity::count(step.series.sent)
        ),
        (Axis::linear("frame", Unit::Plain), Axis::linear("delay", Unit::Time)),
        vec![
            Layer::Rule { name: "raised".into(), upright: true, value: step.at_frames[0] as f64 },
            Layer::Rule { name: "lowered".into(), upright: true, value: step.at_frames[1] as f64 },
            series_line("measured".into(), Hue(0), &step.series),
        ],
    ));
    let mut table = Table::new("Changes of level that were found", &["frame", "size", "95 % interval"]);
    for [frame, size, low, high] in &step.series.changes {
        let time = |ns: f64| quantity::time_to(ns, 3);
        table.rows.push(vec![
            quantity::count(*frame as u64),
            time(*size),
            format!("{} to {}", time(*low), time(*high)),
        ]);
    }
    if table.rows.is_empty() {
        section.say("No change of level was found.");
    }
    section.table(table);
    section
}

fn lossless(outcome: &Outcome) -> Section {
    let mut section = Section::new("The highest rates without loss");
    let mut table = Table::new("Frames of 64 bytes a second", &["technique", "highest rate", "limit", "trials"]);
    for l in &outcome.lossless {
        let limit = match (l.per_second, l.of_the_source) {
            (_, true) => "the source sends no faster",
            (Some(_), false) => "frames are lost above it",
            (None, false) => "every rate that was tried lost frames",
        };
        let rate = l.per_second.map_or_else(|| "—".into(), quantity::per_second);
        table.rows.push(vec![l.technique.clone(), rate, limit.into(), l.trials.to_string()]);
    }
    if !table.rows.is_empty() {
        section.say(format!(
            "Searched by halving, each trial free of loss or not (RFC 2544 section 26.1), in trials of {}, not of its 60 s. While nothing \
             receives, the source sends {}.",
            record::Nanos(outcome.trial_ns),
            quantity::per_second(outcome.source_per_second)
        ));
    }
    section.table(table);
    section
}

fn level(outcome: &Outcome, factor: usize, level: usize) -> String {
    let known = match factor {
        0 => outcome.techniques.get(level).cloned(),
        1 => outcome.frame_sizes.get(level).map(|bytes| format!("{bytes} bytes")),
        2 => outcome.line_rates.get(level).map(|rate| quantity::bit_rate(*rate as f64)),
        _ => CPU.get(level).map(|cpu| format!("CPU {cpu}")),
    };
    known.unwrap_or_default()
}

fn effects(outcome: &Outcome) -> Section {
    let mut section = Section::new("Main effects and interactions");
    for (response, effects) in &outcome.effects {
        let title = format!("{}: effects, the surest first ({} blocks)", response.name(), effects.blocks);
        let mut table = Table::new(title, &["of", "against", "effect, 95 % interval", "p"]);
        let mut sorted: Vec<_> = effects.effects.iter().collect();
        sorted.sort_by(|a, b| a.p.total_cmp(&b.p).then(b.size.value.abs().total_cmp(&a.size.value.abs())));
        for effect in sorted.iter().take(EFFECTS) {
            let names = |of: fn(usize) -> usize| {
                let all: Vec<String> = effect.of.iter().map(|&(f, l)| level(outcome, f, of(l))).collect();
                all.join(" × ")
            };
            let size = estimate_words(*response, Some(effect.size));
            table.rows.push(vec![names(|l| l), names(|_| 0), size, format!("{:.4}", effect.p)]);
        }
        section.table(table);
    }
    section
}

fn combinations(outcome: &Outcome) -> Section {
    let mut section = Section::new("Every combination");
    let head =
        ["technique", "bytes", "rate", "CPU", "asked", "sent", "matched", "mean delay", "deviation", "CPU a frame"];
    let mut table = Table::new("Means with 95 % intervals", &head);
    for technique in 0..outcome.techniques.len() {
        for (s, size) in outcome.frame_sizes.iter().enumerate() {
            for (r, rate) in outcome.line_rates.iter().enumerate() {
                for (cpu, name) in CPU.iter().enumerate() {
                    let levels = [technique, s, r, cpu];
                    let of = |response| figure(outcome, response, |l| *l == levels).estimate;
                    let sent: Vec<f64> =
                        outcome.trials.iter().filter(|t| t.levels == levels).map(|t| t.measured.per_second).collect();
                    let Some(sent) = stats::mean(&sent) else { continue };
                    let mut row = vec![
                        outcome.techniques[technique].clone(),
                        size.to_string(),
                        quantity::bit_rate(*rate as f64),
                        (*name).into(),
                        quantity::per_second(frames_a_second(*rate, *size)),
                        quantity::per_second(sent),
                    ];
                    row.extend(Response::ALL.map(|response| estimate_words(response, of(response))));
                    table.rows.push(row);
                }
            }
        }
    }
    section.table(table);
    section
}

fn missing(outcome: &Outcome) -> Section {
    let mut section = Section::new("Not measured, and why");
    let mut table = Table::new("", &["technique", "timestamps", "reason"]);
    for m in &outcome.missing {
        table.rows.push(vec![m.technique.clone(), m.timestamps.into(), m.reason.clone()]);
    }
    section.table(table);
    section
}

fn method(outcome: &Outcome) -> Section {
    let mut section = Section::new("How it was measured");
    let trial = record::Nanos(outcome.trial_ns);
    section.blocks.push(Block::List(vec![
        "All is in one network namespace: source, tap, a plain pair of veth devices, tap, sink. The kernel copies every frame at both \
         taps (tc mirred) to two interfaces, and one receiver of the same technique is on each."
            .into(),
        "The interface is veth at every level of the study: a NIC would be a further level, and this testbed has none.".into(),
        format!(
            "Frames are sent for {trial} in each trial, by sendmmsg: the kernel forwards each frame on the sender's CPU. Where the source \
             cannot send at the rate that was asked for, the column `sent` says what it sent."
        ),
        "The share matched is of the frames that were sent, so it holds what the testbed lost on the way to the taps.".into(),
        "The delay is the difference of two timestamps of the kernel. It holds the time that the kernel takes to copy a frame at the first \
         tap and to forward it to the second."
            .into(),
        "CPU per frame is of the two receiving threads; what the kernel does for a frame before it reaches them is not in it.".into(),
        "A stressed CPU has one thread that spins for each CPU.".into(),
    ]));
    section
}
