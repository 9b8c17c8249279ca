//! Labs: what their paths are asked to be, beside what they do.

use ::lab::{
    Achieved, Capacity, Depth, Direction, DirectionReport, Discipline, HostReport, JitterShape, LinkReport, Loss,
    PathReport, Probes, Side,
};
use record::Nanos;
use stats::DurationSummary;

use paper::document::{Document, Section, Table, Text};

/// A direction in words.
fn words(asked: &Direction) -> String {
    let mut settings = vec![format!("delay {}", asked.delay)];
    if asked.jitter.0 > 0 {
        let jitter = asked.jitter;
        settings.push(match asked.jitter_shape {
            JitterShape::Uniform => format!("± {jitter}"),
            JitterShape::Normal => format!("jitter normal, deviation {jitter}"),
            JitterShape::Exponential => format!("jitter exponential, {jitter} more on average"),
            JitterShape::Pareto => format!("jitter pareto, {jitter} more on average"),
        });
        if asked.jitter_memory > 0.0 {
            settings.push(format!("memory {}", quantity::percent_exact(asked.jitter_memory)));
        }
    }
    settings.push(match (&asked.recorded, asked.rate) {
        (Some(link), _) => format!("recorded link {}, {} on average", link.file, rate(link.mean_rate.bits() as f64)),
        (None, Some(r)) => format!("rate {}", rate(r.bits() as f64)),
        (None, None) => "no rate limit".into(),
    });
    settings.push(match asked.loss {
        Loss::None => "no loss".into(),
        Loss::Independent(p) => format!("loss {}", quantity::percent_exact(p)),
        chain @ Loss::GilbertElliott { .. } => format!("loss {} in bursts", quantity::percent_exact(chain.share())),
    });
    if let Some(r) = asked.reorder {
        settings.push(format!("{} held back by {}", quantity::percent_exact(r.share), r.by));
    }
    if asked.duplicate > 0.0 {
        settings.push(format!("{} twice", quantity::percent_exact(asked.duplicate)));
    }
    let depth = |d: Depth| match d {
        Depth::Bytes(n) => quantity::bytes(n),
        Depth::Time(t) => t.to_string(),
    };
    settings.extend(asked.queue.map(|q| format!("queue {}", depth(q))));
    settings.extend(discipline(asked.qdisc));
    settings.extend(asked.ecn.map(|e| format!("ECN marks above {}", depth(e))));
    settings.extend(asked.black_hole.map(|n| format!("packets above {n} B vanish")));
    settings.join(", ")
}

/// A queue discipline that is not first in, first out.
fn discipline(asked: Discipline) -> Option<String> {
    let times = |first: Nanos, word: &str, second: Nanos, ecn: bool| {
        format!("target {first}, {word} {second}, {}", if ecn { "marks ECN" } else { "drops" })
    };
    let settings = match asked {
        Discipline::Fifo => return None,
        Discipline::Codel(c) => times(c.target, "interval", c.interval, c.ecn),
        Discipline::FqCodel(f) => {
            format!("{} flows, {}", f.flows, times(f.codel.target, "interval", f.codel.interval, f.codel.ecn))
        }
        Discipline::Pie(p) => times(p.target, "update", p.update, p.ecn),
    };
    Some(format!("{} ({settings})", asked.name()))
}

/// Four digits: a link is compared with what was asked for to a tenth of a per cent.
fn rate(bits: f64) -> String {
    quantity::bit_rate_to(bits, 4)
}

/// A lab of two hosts as it came up. `notes` are what else is to be known of it, and `end` is what
/// takes it down.
pub fn up(name: &str, report: &PathReport, notes: &[String], end: &str) -> Document {
    let mut hosts = Table::new("", ["", "", "", ""]);
    for side in Side::ALL {
        let (ipv4, ipv6) = (side.ipv4().to_string(), side.ipv6().to_string());
        hosts.push(vec![format!("host {}", side.name()), ::lab::INTERFACE.into(), ipv4, ipv6]);
    }
    let asked = asked_of(HOSTS, report);
    let about =
        format!("Up, backend {} ({}), MTU {}, seed {}.", report.backend, report.reason, report.mtu, report.seed);
    came_up(name, about, [hosts, asked], notes, HOSTS, end)
}

/// What a path of this machine carries, as a note of [`up`].
pub fn capacity(capacity: Capacity) -> String {
    let Capacity { packets_per_second, cpu_per_packet, stream_bits_per_second } = capacity;
    let cpu = cpu_per_packet.map_or_else(String::new, |cpu| format!(", each for {cpu} of CPU time in the path"));
    format!(
        "Just now this machine carried {} packets of 60 bytes a second over such a path without a rate{cpu}, and {} of one TCP stream.",
        quantity::count(packets_per_second as u64),
        rate(stream_bits_per_second)
    )
}

/// A topology as it came up, as [`up`].
pub fn network_up(name: &str, hosts: &[HostReport], links: &[LinkReport], notes: &[String], end: &str) -> Document {
    let mut asked = Table::new("", ["", ""]);
    for link in links {
        asked.extend(asked_of(link.between.each_ref().map(String::as_str), &link.path).rows);
    }
    let (first, last) = (hosts.first().map_or("", |h| &h.name), hosts.last().map_or("", |h| &h.name));
    came_up(name, format!("Up: {}.", size(hosts, links)), [host_table(hosts), asked], notes, [first, last], end)
}

fn came_up(name: &str, about: String, tables: [Table; 2], notes: &[String], hosts: [&str; 2], end: &str) -> Document {
    let mut section = Section::default();
    tables.into_iter().for_each(|table| section.table(table));
    notes.iter().for_each(|note| section.say(note));
    let [from, to] = hosts;
    let ping = Text::code(format!("wirelapse lab exec {name}:{from} -- ping -c 3 {to}"));
    section.say(Text::from("Try ").and(ping).and(format!(". {end} takes it down.")));
    Document { title: format!("lab {name}").into(), about, sections: vec![section], ..Document::default() }
}

/// What a lab of two hosts achieved, beside what was asked for.
pub fn achieved(name: &str, report: &PathReport) -> Document {
    let mut section = Section::default();
    section.table(beside(HOSTS, report));
    let about = format!("Up {}, backend {}, MTU {}.", report.up, report.backend, report.mtu);
    Document { title: format!("lab {name}").into(), about, sections: vec![section], ..Document::default() }
}

/// The hosts of a topology, and what each link achieved beside what was asked for.
pub fn network_achieved(name: &str, hosts: &[HostReport], links: &[LinkReport]) -> Document {
    let mut section = Section::default();
    section.table(host_table(hosts));
    let mut table = Table::new("", ["", "", ""]);
    for link in links {
        table.extend(beside(link.between.each_ref().map(String::as_str), &link.path).rows);
    }
    section.table(table);
    Document {
        title: format!("lab {name}").into(),
        about: format!("{}.", size(hosts, links)),
        sections: vec![section],
        ..Document::default()
    }
}

/// What the path between two hosts was asked to be before and after a change.
pub fn changed(name: &str, between: [&str; 2], before: &PathReport, after: &PathReport) -> Document {
    let mut table = Table::new("", ["", "", ""]);
    let directions = [(&before.a_to_b, &after.a_to_b), (&before.b_to_a, &after.b_to_a)];
    for (way, (before, after)) in ways(between).iter().zip(directions) {
        let (was, is) = (words(&before.asked), words(&after.asked));
        if was == is {
            table.push(row(way, "as before", is));
        } else {
            table.extend([row(way, "was", was), row("", "is now", is)]);
        }
    }
    let mut section = Section::default();
    section.table(table);
    Document { title: format!("lab {name}").into(), sections: vec![section], ..Document::default() }
}

/// The hosts of a lab of two.
const HOSTS: [&str; 2] = [Side::A.name(), Side::B.name()];

/// Both directions between two hosts, by name.
fn ways([a, b]: [&str; 2]) -> [String; 2] {
    [format!("{a} to {b}"), format!("{b} to {a}")]
}

fn size(hosts: &[HostReport], links: &[LinkReport]) -> String {
    let [hosts, links] = [(hosts.len(), "host"), (links.len(), "link")].map(|(n, of)| quantity::counted(n as u64, of));
    format!("{hosts}, {links}")
}

fn host_table(hosts: &[HostReport]) -> Table {
    let mut table = Table::new("", ["", "", "", ""]);
    for host in hosts {
        for (i, (interface, ipv4, ipv6)) in host.interfaces.iter().enumerate() {
            let name = if i == 0 { format!("host {}", host.name) } else { String::new() };
            table.push(vec![name, interface.clone(), ipv4.to_string(), ipv6.to_string()]);
        }
    }
    table
}

fn asked_of(between: [&str; 2], report: &PathReport) -> Table {
    let mut table = Table::new("", ["", ""]);
    for (way, direction) in ways(between).into_iter().zip([&report.a_to_b, &report.b_to_a]) {
        table.push(vec![way, words(&direction.asked)]);
    }
    table
}

fn row(way: &str, what: impl Into<String>, words: impl Into<String>) -> Vec<String> {
    vec![way.into(), what.into(), words.into()]
}

/// Each direction: what was asked, what was achieved, what this machine adds, what did not arrive
/// as it was sent, and the steps.
fn beside(between: [&str; 2], report: &PathReport) -> Table {
    let mut table = Table::new("", ["", "", ""]);
    for (way, direction) in ways(between).iter().zip([&report.a_to_b, &report.b_to_a]) {
        // Delays and rates of different settings have no common figure.
        let changed = !direction.steps.is_empty();
        table.push(row(way, if changed { "asked now" } else { "asked" }, words(&direction.asked)));
        let of = if changed { totals } else { figures };
        let seen = direction.achieved.as_ref().map_or("not known".into(), of);
        table.push(row("", if changed { "all steps" } else { "achieved" }, seen));
        if let Some(overhead) = direction.overhead.filter(|o| *o > Nanos::ZERO) {
            let least = if direction.asked.delay < overhead {
                "the least that the delay can be"
            } else {
                "which the delay includes"
            };
            table.push(row("", "", format!("{overhead} added by this machine, {least}")));
        }
        table.extend(direction.probes.as_ref().map(|probes| row("", "", probed(probes))));
        table.extend(direction.achieved.as_ref().and_then(losses).map(|words| row("", "", words)));
        steps(&mut table, direction);
    }
    table
}

/// What hosts saw as the path came up.
fn probed(probes: &Probes) -> String {
    let Probes { asked, seen, cpu_pressure } = probes;
    let (least, middle, most, n) = (seen.min, seen.p50, seen.max, seen.n);
    let waited =
        cpu_pressure.map(|share| format!("; tasks waited for a CPU {} of that time", quantity::percent(share)));
    let waited = waited.unwrap_or_default();
    format!("from host to host before it came up: p50 {middle}, min {least}, max {most} (n {n}) of {asked}{waited}")
}

/// How many steps are shown; `--json` has all.
const SHOWN: usize = 12;

/// What was achieved between changes.
fn steps(table: &mut Table, direction: &DirectionReport) {
    let hidden = direction.steps.len().saturating_sub(SHOWN);
    if hidden > 0 {
        let earlier = quantity::counted(hidden as u64, "earlier step");
        table.push(row("", "", format!("{earlier}: see --json")));
    }
    for step in &direction.steps[hidden..] {
        table.push(row("", format!("from {} for {}", step.at, step.lasted), words(&step.asked)));
        let any = step.achieved.offered + step.achieved.delivered > 0;
        table.push(row("", "achieved", if any { figures(&step.achieved) } else { "no packet".into() }));
        table.extend(losses(&step.achieved).map(|words| row("", "", words)));
    }
    if direction.steps_refused > 0 {
        let refused = quantity::counted(direction.steps_refused, "step");
        let why = "they do not fit the path as it was changed meanwhile";
        table.push(row("", "", format!("{refused} of the schedule skipped: {why}")));
    }
}

/// A wait in a queue that is worth a word.
const WAIT: Nanos = Nanos::from_micros(100);

/// What a path did, in figures.
fn figures(a: &Achieved) -> String {
    let mut settings = Vec::new();
    settings.push(a.delay.map_or("delay not known".into(), |d| {
        format!("delay p50 {}, p99 {}, max {} (n {})", d.p50, d.p99, d.max, d.n)
    }));
    // Where nothing waits and a rate takes no time worth a word, it is the delay.
    let waits =
        |transit: DurationSummary, delay: DurationSummary| transit.p99.0 > delay.p99.0 + (delay.p99.0 / 20).max(WAIT.0);
    if let Some(t) = a.transit.zip(a.delay).filter(|(t, d)| waits(*t, *d)).map(|(transit, _)| transit) {
        settings.push(format!("transit, with queue and wire, p50 {}, p99 {}, max {}", t.p50, t.p99, t.max));
    }
    settings.extend(a.lateness.map(|l| format!("late by p50 {}, p99 {}, max {}", l.p50, l.p99, l.max)));
    settings
        .extend(a.busy_rate.map(|r| format!("rate while busy {} over {} (n {})", rate(r), a.busy, a.busy_segments)));
    settings.push(totals(a));
    settings.join(", ")
}

/// What a path carried and lost.
fn totals(a: &Achieved) -> String {
    let loss =
        a.loss.map(|l| format!("loss {} ({} of {}), ", quantity::percent_to(l, 5), a.lost, a.lost + a.delivered));
    let segments = quantity::counted(a.delivered, "segment");
    format!("{}{segments}, {} on the wire", loss.unwrap_or_default(), quantity::bytes(a.wire_bytes))
}

/// Everything that did not arrive as it was sent, where there was any.
fn losses(a: &Achieved) -> Option<String> {
    let counted = [
        (a.dropped_queue, "dropped at a full queue"),
        (a.dropped_early, "dropped early by the queue discipline"),
        (a.dropped_memory, "dropped without memory to hold them"),
        (a.refused, "refused by the receiving host"),
        (a.missed_frames, "frames missed by the path"),
        (a.timed_when_read, "frames timed when they were read, not when they left"),
        (a.marked, "marked"),
        (a.held, "held back"),
        (a.reordered, "out of order"),
        (a.duplicated, "twice"),
    ];
    let counted: Vec<String> = counted.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}")).collect();
    (!counted.is_empty()).then(|| counted.join(", "))
}
