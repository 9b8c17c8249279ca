//! The page of `study reception`: techniques to receive and stamp packets, beside the findings of
//! the study that it repeats.

use record::Nanos;
use stats::Estimate;
use study::reception::{
    Beside, CPU, Levels, Outcome, Plan, Response, Series, compare, figure, frames_a_second, two_machines,
};

use super::study::plan::Steps;
use crate::view::capital;
use paper::document::{Cell, Column, Document, Row, Section, Table, Text, clauses, columns};
use paper::plot::{Axis, Hue, Interval, Layer, Plot, Unit, tidy};

/// Effects in the table of each response, the surest first.
const EFFECTS: usize = 12;

/// The page of an outcome.
pub fn document(outcome: &Outcome) -> Document {
    let beside = compare(outcome);
    let mut warnings = Vec::new();
    if !outcome.finished {
        warnings.push(Text::from("The study did not come to its end: what is here was measured until then."));
    }
    let mut sections = vec![findings(&beside), series(outcome), step(outcome), main_effects(outcome)];
    sections.push(by_technique(outcome, Response::Deviation, "deviation", Some("Figure 5")));
    sections.push(by_technique(outcome, Response::Matched, "matched", Some("Figure 6")));
    sections.push(by_technique(outcome, Response::Mean, "mean", None));
    sections.push(by_technique(outcome, Response::Cpu, "cpu", None));
    sections.push(lossless(outcome));
    sections.push(effects(outcome));
    sections.push(combinations(outcome));
    sections.push(missing(outcome));
    sections.push(method(outcome));
    sections.retain(|s| !s.blocks.is_empty());
    Document {
        title: match (is_of_nics(outcome), outcome.timestamps) {
            (false, _) => "Study reception".into(),
            (true, stamps) => format!("Study reception between two machines, {} timestamps", stamps.name()).into(),
        },
        about: format!(
            "Packet reception and timestamping: {} of {} in {}, seed {}.",
            quantity::counted(outcome.trials.len() as u64, "trial"),
            quantity::counted(outcome.techniques.len() as u64, "technique"),
            quantity::counted(outcome.blocks.into(), "block"),
            outcome.seed
        ),
        verdict: clauses(verdict(outcome, &beside)),
        warnings,
        sections,
        ..Document::default()
    }
}

/// What `--dry-run` says.
pub fn planned(plan: &Plan) -> Document {
    let mut steps = Steps::default();
    let techniques: Vec<&str> = plan.techniques.iter().map(|t| t.name()).collect();
    let sizes: Vec<String> = plan.frame_sizes.iter().map(u16::to_string).collect();
    let rates: Vec<String> = plan.line_rates.iter().map(|r| quantity::bit_rate(*r as f64)).collect();
    steps.step("vary", "technique", techniques.join(", "));
    steps.step("vary", "frame size", format!("{} bytes", sizes.join(", ")));
    steps.step("vary", "frame rate", format!("as many as a link carries of {}", rates.join(", ")));
    steps.step("vary", "CPU", CPU.join(", "));
    let interfaces: Vec<&str> = plan.interfaces.iter().map(|i| i.name()).collect();
    steps.step("vary", "interface", interfaces.join(", "));
    let (trial, blocks) = (Nanos::from(plan.trial), plan.repetitions);
    steps.step("each", "", format!("{trial}, {blocks} blocks of {} trials in random order", plan.combinations()));
    let series = format!("{} series of {} frames", plan.series.0, quantity::count(plan.series.1));
    let step = quantity::counted(plan.step.0, "frame");
    steps.step("then", "", format!("the highest lossless rate of each, {series}, a step of 50 µs in {step}"));
    Document {
        title: "Plan of study reception".into(),
        about: format!("Seed {}, takes about {}.", plan.seed, Nanos::from(plan.forecast())),
        sections: vec![steps.section("")],
        ..Document::default()
    }
}

/// Whether it was measured between two machines.
fn is_of_nics(outcome: &Outcome) -> bool {
    outcome.interfaces.iter().any(|name| name == two_machines::NIC)
}

fn verdict(outcome: &Outcome, beside: &[Beside]) -> Vec<String> {
    let count = |agrees| beside.iter().filter(|b| b.agrees == agrees).count();
    let (yes, no, open) = (count(Some(true)), count(Some(false)), count(None));
    let mut verdict = vec![format!(
        "Of {} of the paper that this study repeats, {yes} hold in this run, {no} do not, and {open} cannot be judged here.",
        quantity::counted(beside.len() as u64, "finding")
    )];
    // Where the source is the limit, no technique is ahead of the others that take all of it.
    let rates: Vec<_> = outcome.lossless.iter().filter_map(|l| Some((l, l.per_second?))).collect();
    let of_source: Vec<_> = rates.iter().filter(|(l, _)| l.of_the_source).collect();
    if let Some(rate) = of_source.iter().map(|(_, rate)| *rate).reduce(f64::min) {
        let names: Vec<&str> = of_source.iter().map(|(l, _)| l.technique.as_str()).collect();
        verdict.push(format!(
            "On veth with the CPU idle, all frames of 64 bytes that the source sends, at least {}, are received by {}: the source is the limit, \
             so which of these takes more is not known.",
            quantity::per_second(rate),
            names.join(", ")
        ));
    } else if let Some((l, rate)) = rates.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)) {
        verdict.push(format!(
            "The highest rate of frames of 64 bytes without loss is {}, by {}.",
            quantity::per_second(rate),
            l.technique
        ));
    }
    let mut deviations: Vec<(Estimate, &str)> = (0..outcome.techniques.len())
        .filter_map(|t| {
            let idle = figure(outcome, Response::Deviation, |l| l[0] == t && l[3] == 0);
            Some((idle.estimate?, outcome.techniques[t].as_str()))
        })
        .collect();
    deviations.sort_by(|a, b| a.0.value.total_cmp(&b.0.value));
    if let [least, .., most] = deviations.as_slice() {
        verdict.push(if least.0.high < most.0.low {
            format!(
                "With the CPU idle the delay deviates least by {} ({}) and most by {} ({}).",
                least.1,
                estimate_words(Response::Deviation, Some(least.0)),
                most.1,
                estimate_words(Response::Deviation, Some(most.0))
            )
        } else {
            "With the CPU idle the deviations of the delay do not differ beyond their intervals, by whatever technique."
                .into()
        });
    }
    verdict
}

fn findings(beside: &[Beside]) -> Section {
    let mut section = Section::new("The paper's findings and ours");
    // What is asked of this table comes before three columns of sentences, which may need more
    // width than there is.
    let mut table = Table::new("", ["what", "agree", "source", "here", "possible reason (not measured)"]);
    for b in beside {
        let agree = match b.agrees {
            Some(true) => "yes",
            Some(false) => "no",
            None => "cannot be judged",
        };
        table.push(vec![b.what.into(), agree.into(), b.source.into(), b.here.clone(), b.why.into()]);
    }
    section.table(table);
    section
}

fn unit(response: Response) -> Unit {
    if response == Response::Matched { Unit::Share } else { Unit::Time }
}

/// The axis of a response; a share ends at all frames.
fn axis(response: Response) -> Axis {
    let axis = Axis::linear(response.name(), unit(response));
    if response == Response::Matched { axis.reaching(0.9).reaching(1.0) } else { axis }
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

/// The paper's Figures 5 and 6 are of frames of 64 bytes at 1 Gbit/s.
const FIGURE_BYTES: u16 = 64;
const FIGURE_RATE: u64 = 1_000_000_000;

/// The place of the paper's frame size and rate among the outcome's, where they were measured.
fn of_figure(outcome: &Outcome) -> Option<(usize, usize)> {
    let size = outcome.frame_sizes.iter().position(|bytes| *bytes == FIGURE_BYTES)?;
    Some((size, outcome.line_rates.iter().position(|rate| *rate == FIGURE_RATE)?))
}

/// A response of each technique by interface, idle and stressed: as a figure of the source, with
/// its frame size and rate, or over all of them.
fn by_technique(outcome: &Outcome, response: Response, id: &str, of_source: Option<&str>) -> Section {
    let fixed = of_source.and_then(|_| of_figure(outcome));
    let title = match (of_source, fixed) {
        (Some(name), Some(_)) => format!("{name}: {} by technique and CPU load", response.name()),
        _ => capital(response.name()),
    };
    let mut section = Section::new(title);
    let interfaces = outcome.interfaces.len();
    let mut layers = Vec::new();
    for (place, interface) in outcome.interfaces.iter().enumerate() {
        for (cpu, cpu_name) in CPU.iter().enumerate() {
            let keep = |l: &Levels, technique: usize| {
                let at_figure = fixed.is_none_or(|(size, rate)| l[1] == size && l[2] == rate);
                l[0] == technique && l[3] == cpu && l[4] == place && at_figure
            };
            let nth = place * CPU.len() + cpu;
            let name = if interfaces > 1 { format!("{interface}, CPU {cpu_name}") } else { format!("CPU {cpu_name}") };
            let items = (0..outcome.techniques.len()).filter_map(|t| {
                let e = figure(outcome, response, |l| keep(l, t)).estimate?;
                let among = (nth as f64 + 0.5) / (interfaces * CPU.len()) as f64 - 0.5;
                let label = format!("{}, {name}\n{}", outcome.techniques[t], estimate_words(response, Some(e)));
                Some(Interval {
                    at: t as f64 + among * 0.6,
                    low: tidy(e.low),
                    value: tidy(e.value),
                    high: tidy(e.high),
                    label,
                })
            });
            layers.push(Layer::Intervals { items: items.collect(), hue: Hue::nth(nth), name });
        }
    }
    let over = match fixed {
        Some(_) => {
            format!("{FIGURE_BYTES} bytes, as many frames as {} carries", quantity::bit_rate(FIGURE_RATE as f64))
        }
        None => "all frame sizes and rates".into(),
    };
    section.plot(Plot::new(
        &format!("reception-{id}"),
        format!("{} by technique and CPU load", capital(response.name())),
        format!(
            "{}: mean of {} with 95 % intervals, software timestamps; hardware timestamps: {}.",
            capital(&over),
            quantity::counted(outcome.blocks.into(), "block"),
            hardware_word(outcome)
        ),
        (axis(response), Axis::names("", outcome.techniques.clone())),
        layers,
    ));
    section
}

/// What is said of hardware timestamps where software's are drawn.
fn hardware_word(outcome: &Outcome) -> &'static str {
    match outcome.missing.iter().any(|m| m.timestamps.hardware()) {
        true => "not measured, for the reasons at the end",
        false => "not asked for",
    }
}

/// How each factor moves a response, over all levels of the others: the paper's Figure 4, which is
/// of its ring.
fn main_effects(outcome: &Outcome) -> Section {
    let mut section = Section::new("Figure 4: main effects of each factor");
    let ring = outcome.techniques.iter().position(|technique| technique == RING);
    let levels = [
        outcome.techniques.len(),
        outcome.frame_sizes.len(),
        outcome.line_rates.len(),
        CPU.len(),
        outcome.interfaces.len(),
    ];
    for (response, id) in [(Response::Matched, "matched"), (Response::Mean, "mean"), (Response::Deviation, "deviation")]
    {
        let mut names = Vec::new();
        let layers = FACTORS.iter().enumerate().map(|(factor, name)| {
            let items = (0..levels[factor]).filter_map(|place| {
                let of_ring = |l: &Levels| factor == 0 || ring.is_none_or(|ring| l[0] == ring);
                let e = figure(outcome, response, |l| l[factor] == place && of_ring(l)).estimate?;
                let at = names.len() as f64;
                names.push(level(outcome, factor, place));
                let label = format!("{}\n{}", level(outcome, factor, place), estimate_words(response, Some(e)));
                Some(Interval { at, low: tidy(e.low), value: tidy(e.value), high: tidy(e.high), label })
            });
            Layer::Intervals { name: (*name).into(), hue: Hue::nth(factor), items: items.collect() }
        });
        let layers: Vec<Layer> = layers.collect();
        section.plot(Plot::new(
            &format!("reception-effects-{id}"),
            format!("Main effects on the {}", response.name()),
            format!(
                "Each level's mean over all levels of the other factors, of {} with 95 % intervals, software timestamps; frame size, rate, CPU and interface {}.",
                quantity::counted(outcome.blocks.into(), "block"),
                if ring.is_some() { "with rx-ring" } else { "over all techniques" }
            ),
            (axis(response), Axis::names("", names)),
            layers,
        ));
    }
    section
}

/// The factors, in the order of a trial's levels.
const FACTORS: [&str; 5] = ["technique", "frame size", "rate", "CPU", "interface"];

/// The technique that the source calls mmap, or rx_ring.
const RING: &str = "rx-ring";

fn series_line(name: String, hue: Hue, series: &Series) -> Layer {
    Layer::line(name, hue, series.stretches.iter().map(|s| [s[0], tidy(s[2])]).collect())
}

fn series(outcome: &Outcome) -> Section {
    let mut section = Section::new("Figure 2: the delay over time");
    let lines = outcome.series.iter().enumerate();
    section.plot(Plot::new(
        "reception-series",
        "Delay of frames in a row, software timestamps",
        "rx-ring, 256 bytes, as many frames as 1 Gbit/s carries or the source sends, CPU idle; mean of each stretch of equally many frames.",
        (Axis::linear("matched frame", Unit::Plain), Axis::linear("delay", Unit::Time)),
        lines.map(|(i, s)| series_line(format!("run {}", i + 1), Hue::nth(i), s)).collect(),
    ));
    section.say(format!("The paper's second panel, hardware timestamps: {}.", hardware_word(outcome)));
    let figures = ["run", "sent", "matched", "mean", "deviation", "1 %", "50 %", "99 %", "largest"];
    let mut table = Table::new("Delays of the series", columns([], figures));
    for (i, s) in outcome.series.iter().enumerate() {
        let time = |ns: Option<f64>| ns.map_or_else(|| "—".into(), |ns| quantity::time_to(ns, 3));
        let quantile = |i: usize| time(s.quantiles_ns.map(|q| q[i]));
        let counts = [(i + 1).to_string(), quantity::count(s.sent), quantity::count(s.n as u64)];
        let times = [time(s.mean_ns), time(s.deviation_ns), quantile(1), quantile(3), quantile(5), quantile(7)];
        table.push(Row::of(counts.into_iter().chain(times)));
    }
    section.table(table);
    section
}

fn step(outcome: &Outcome) -> Section {
    let mut section = Section::new("Figure 3: a step in the delay");
    let Some(step) = &outcome.step else {
        if let Some(why) = &outcome.step_missing {
            section.say(format!("Not measured: {why}"));
        }
        return section;
    };
    let put_in = quantity::time_to(step.put_in.0 as f64, 3);
    // A single frame that waited long moves a mean by more than the step.
    let medians = &step.series.medians_ns;
    let measured = if medians.is_empty() {
        series_line("measured".into(), Hue(0), &step.series)
    } else {
        let points = step.series.stretches.iter().zip(medians).map(|(s, median)| [s[0], tidy(*median)]);
        Layer::line("measured", Hue(0), points.collect())
    };
    section.plot(Plot::new(
        "reception-step",
        format!("Delay of a path that is raised by {put_in} in the middle"),
        format!(
            "A path of the lab, {} matched of {} sent, rx-ring at both ends, software timestamps; {} of each stretch of equally many frames.",
            quantity::count(step.series.n as u64),
            quantity::count(step.series.sent),
            if medians.is_empty() { "mean" } else { "median" }
        ),
        (Axis::linear("matched frame", Unit::Plain), Axis::linear("delay", Unit::Time)),
        vec![
            Layer::Rule { name: "raised".into(), upright: true, value: step.at_frames[0] as f64 },
            Layer::Rule { name: "lowered".into(), upright: true, value: step.at_frames[1] as f64 },
            measured,
        ],
    ));
    let mut table = Table::new("Changes of level that were found", columns([], ["frame", "size", "95 % interval"]));
    for [frame, size, low, high] in &step.series.changes {
        let time = |ns: f64| quantity::time_to(ns, 3);
        table.push(vec![quantity::count(*frame as u64), time(*size), format!("{} to {}", time(*low), time(*high))]);
    }
    if table.rows.is_empty() {
        section.say("No change of level was found.");
    }
    section.table(table);
    section
}

fn lossless(outcome: &Outcome) -> Section {
    let mut section = Section::new("The highest rates without loss");
    let mut table = Table::new(
        "Frames of 64 bytes a second",
        [Column::text("technique"), Column::figures("highest rate"), Column::text("limit"), Column::figures("trials")],
    );
    for l in &outcome.lossless {
        let limit = match (l.per_second, l.of_the_source) {
            (_, true) => "the source sends no faster",
            (Some(_), false) => "frames are lost above it",
            (None, false) => "every rate that was tried lost frames",
        };
        let rate = |rate| Cell::figure(quantity::per_second(rate));
        let rate = Cell::or(l.per_second, rate, "no rate was free of loss");
        table.push([Cell::from(&l.technique), rate, limit.into(), Cell::count(l.trials)]);
    }
    if !table.rows.is_empty() {
        section.say(format!(
            "Searched by halving, each trial free of loss or not (RFC 2544 section 26.1), in trials of {}, not of its 60 s. While nothing \
             receives, the source sends {}.",
            outcome.trial,
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
        3 => CPU.get(level).map(|cpu| format!("CPU {cpu}")),
        _ => outcome.interfaces.get(level).cloned(),
    };
    known.unwrap_or_default()
}

fn effects(outcome: &Outcome) -> Section {
    let mut section = Section::new("Main effects and interactions");
    for (response, effects) in &outcome.effects {
        let title = format!("{}: effects, the surest first", response.name());
        let mut table = Table::new(title, columns(["of", "against"], ["effect, 95 % interval", "p"]))
            .with_basis(format!("{} blocks", effects.blocks));
        let mut sorted: Vec<_> = effects.effects.iter().collect();
        sorted.sort_by(|a, b| a.p.total_cmp(&b.p).then(b.size.value.abs().total_cmp(&a.size.value.abs())));
        for effect in sorted.iter().take(EFFECTS) {
            let names = |of: fn(usize) -> usize| {
                let all: Vec<String> = effect.of.iter().map(|&(f, l)| level(outcome, f, of(l))).collect();
                all.join(" × ")
            };
            let size = estimate_words(*response, Some(effect.size));
            table.push(vec![names(|l| l), names(|_| 0), size, quantity::p_value(effect.p)]);
        }
        section.table(table);
    }
    section
}

fn combinations(outcome: &Outcome) -> Section {
    let mut section = Section::new("Every combination");
    let figures = ["bytes", "rate", "CPU", "asked", "sent", "matched", "mean delay", "deviation", "CPU a frame"];
    let mut table = Table::new("Means with 95 % intervals", columns(["technique", "interface"], figures));
    for technique in 0..outcome.techniques.len() {
        for (s, size) in outcome.frame_sizes.iter().enumerate() {
            for (r, rate) in outcome.line_rates.iter().enumerate() {
                for (cpu, name) in CPU.iter().enumerate() {
                    for (i, interface) in outcome.interfaces.iter().enumerate() {
                        let levels = [technique, s, r, cpu, i];
                        let of = |response| figure(outcome, response, |l| *l == levels).estimate;
                        let sent = outcome.trials.iter().filter(|t| t.levels == levels);
                        let Some(sent) = stats::mean(&sent.map(|t| t.measured.per_second).collect::<Vec<_>>()) else {
                            continue;
                        };
                        let mut row = vec![
                            outcome.techniques[technique].clone(),
                            interface.clone(),
                            size.to_string(),
                            quantity::bit_rate(*rate as f64),
                            (*name).into(),
                            quantity::per_second(frames_a_second(*rate, *size)),
                            quantity::per_second(sent),
                        ];
                        row.extend(Response::ALL.map(|response| estimate_words(response, of(response))));
                        table.push(row);
                    }
                }
            }
        }
    }
    section.table(table);
    section
}

fn missing(outcome: &Outcome) -> Section {
    let mut section = Section::new("Not measured, and why");
    let mut table = Table::new("", ["technique", "timestamps", "reason"]);
    for m in &outcome.missing {
        table.push(vec![m.technique.clone(), m.timestamps.name().to_owned(), m.reason.clone()]);
    }
    section.table(table);
    section
}

fn method(outcome: &Outcome) -> Section {
    let mut section = Section::new("How it was measured");
    let sent = Text::from(format!(
        "Frames are sent for {} in each trial, by sendmmsg: the kernel forwards each frame on the sender's CPU. Where the source \
         cannot send at the rate that was asked for, the column ",
        outcome.trial
    ));
    if is_of_nics(outcome) {
        section.list([
            sent.and(Text::code("sent")).and(" says what it sent."),
            "One machine sends, and two ports of another get a copy of each frame. The delay is the difference of their timestamps, with \
             all that is between the two copies."
                .into(),
            "A stressed CPU of the receiving machine has one thread that spins for each CPU.".into(),
        ]);
        return section;
    }
    section.list([
        "All is in one network namespace: source, tap, a plain pair of veth devices, tap, sink. The kernel copies every frame at both \
         taps (tc mirred) to two interfaces, and one receiver of the same technique is on each."
            .into(),
        "The interfaces are virtual: veth, where XDP programs run in the driver, and macvlan on top of it, where they run in the network \
         stack (generic mode). A NIC would be a further level, and this testbed has none. Series, step and highest rates are of veth."
            .into(),
        sent.and(Text::code("sent")).and(" says what it sent."),
        "The share matched is of the frames that were sent, so it holds what the testbed lost on the way to the taps.".into(),
        "The delay is the difference of two timestamps of the kernel. It holds the time that the kernel takes to copy a frame at the first \
         tap and to forward it to the second."
            .into(),
        "CPU per frame is of the two receiving threads; what the kernel does for a frame before it reaches them is not in it.".into(),
        "A stressed CPU has one thread that spins for each CPU.".into(),
    ]);
    section
}
