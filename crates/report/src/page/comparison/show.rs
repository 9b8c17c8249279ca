//! A comparison as a document.

use std::net::SocketAddr;

use record::Nanos;

use super::verdict::{between, percent, relative, signed};
use super::{Compared, Comparison, PathSplit, Side, labels};
use crate::page::{curve, facts, shortest_note};
use crate::view;
use paper::document::{Block, Document, Section, Table, clauses};
use paper::plot::{Axis, Hue, Interval, Layer, Plot, Unit, tidy};
use paper::{Canvas, terminal};
use summary::TimedKind;

/// Peers in the table.
const PEERS: usize = 50;

/// The comparison as text for a terminal.
pub fn text(canvas: &Canvas, comparison: &Comparison, a: &Side, b: &Side) -> String {
    terminal::text(canvas, &[document(comparison, a, b)])
}

/// The comparison as a document.
pub fn document(c: &Comparison, a: &Side, b: &Side) -> Document {
    let mut sections: Vec<Section> = c
        .kinds
        .iter()
        .filter(|compared| !compared.legs.is_empty())
        .map(|compared| section(c, compared, a, b))
        .collect();
    sections.push(runs(a, b));
    Document {
        title: format!("{} against {}", c.names[1], c.names[0]).into(),
        about: "Two traces side by side.".into(),
        verdict: clauses(c.verdict.clone()),
        warnings: c.warnings.clone(),
        sections,
    }
}

/// All of one kind.
fn section(c: &Comparison, compared: &Compared, a: &Side, b: &Side) -> Section {
    let (kind, thing) = (compared.kind, compared.kind.thing());
    let mut section = Section::new(kind.title());
    if c.kinds.len() > 1 {
        section.blocks.push(Block::List(compared.verdict.clone()));
    }
    let total = kind.total();
    section.plot(cdf(kind, total, a, b));
    (0..kind.legs().len()).filter(|leg| *leg != total).for_each(|leg| section.plot(cdf(kind, leg, a, b)));
    section.plot(shift_plot(compared));
    section.table(shift_table(c, compared));
    section.say(format!(
        "Second less first. Intervals are 95 % each, by drawing stretches of consecutive {thing}s rather than single {thing}s, since \
         neighbours are alike; where fewer than ten {thing}s lie beyond a percentile, or there are fewer than ten stretches, there \
         is none."
    ));
    section.table(explained_table(c, compared));
    section.say(format!(
        "The mean of the {} is the sum of the means of its legs over the {thing}s that have every stamp, so the differences of \
         the legs add up to its difference, and their shares to 100 %. A share below zero worked against it.",
        kind.legs()[total].name
    ));
    if let Some(split) = &compared.path {
        section.table(path_table(c, split));
        section.say(
            "The network leg ends with the ACK. The minimum RTT is that of each connection, as TCP measured it (`rtt_min`): beyond it \
             are ACKs that the peer delays or sends with its answers, and queues.",
        );
    }
    if !compared.waited.is_empty() {
        section.table(waited_table(c, compared));
    }
    if let Some(labels) = &compared.labels {
        section.table(labels.table(c));
        section.say(labels::NOTE);
    }
    section.table(peer_table(c, compared));
    section.say(format!(
        "The difference of the means divided by peer: what a peer's own {thing}s changed, weighted with its share of the {thing}s, \
         and what its share changed (Kitagawa 1955). All parts add up to the difference."
    ));
    if compared.connections.len() > 1 {
        section.table(connection_table(c, compared));
        section.say(format!(
            "What each connection of {} took beyond the mean of {}, over all {thing}s of {}: the parts of all connections add up to \
             the difference.",
            c.names[1], c.names[0], c.names[1]
        ));
    }
    section
}

fn runs(a: &Side, b: &Side) -> Section {
    let mut runs = Section::new("The two runs");
    for side in [a, b] {
        let (f, summary) = (&side.trace.facts, &side.trace.figures);
        let mut rows = vec![("target", f.target.clone()), ("length", f.lasted.to_string())];
        let there = TimedKind::ALL.into_iter().filter(|kind| *kind == TimedKind::Sends || summary.n(*kind) > 0);
        rows.push(("records", there.map(|kind| view::counted(kind, summary.n(kind))).collect::<Vec<_>>().join(", ")));
        rows.extend([
            ("connections", quantity::count(summary.connection_count())),
            ("sampling", view::sampling(f.sampling)),
            ("backend", f.backend.clone()),
            ("kernel", side.kernel.clone()),
            ("not recorded or timed", quantity::count(f.lost.entries().map(|e| e.2).sum())),
            ("seen", view::seen(&f.coverage, f.sampling)),
        ]);
        runs.table(facts(&side.name, rows));
    }
    runs
}

fn cdf(kind: TimedKind, leg: usize, a: &Side, b: &Side) -> Option<Plot> {
    let (of, thing) = (&kind.legs()[leg], kind.thing());
    let line = |side: &Side, hue: u8, dashed: bool| {
        let times = side.of(kind).times(leg);
        let name = format!("{}, n = {}", side.name, quantity::count(times.n()));
        Layer::Line { name, hue: Hue(hue), points: curve(&times), step: true, dashed }
    };
    let note = if leg == kind.total() {
        String::new()
    } else {
        format!(" {}s without it are in neither curve.", view::capital(thing))
    };
    let id = match kind {
        TimedKind::Sends => format!("cdf-{}", of.name),
        _ => format!("{}-cdf-{}", kind.key(), of.name),
    };
    Plot::new(
        &id,
        format!("{}: {}", of.name, of.meaning),
        format!(
            "The share of {thing}s that took no longer than this; n = {} and {}.{note}{}",
            quantity::count(a.of(kind).n(leg)),
            quantity::counted(b.of(kind).n(leg), thing),
            shortest_note([a, b].into_iter().map(|side| side.trace.figures.times(kind)[leg].1))
        ),
        (
            Axis::log("time (logarithmic)", Unit::Time),
            Axis::linear(format!("share of {thing}s"), Unit::Share).reaching(0.0).reaching(1.0),
        ),
        vec![line(a, 0, false), line(b, 1, true)],
    )
}

fn shift_plot(compared: &Compared) -> Option<Plot> {
    let (mut names, mut items) = (Vec::new(), Vec::new());
    for leg in &compared.legs {
        for m in &leg.moved {
            let Some(shift) = m.figures.shift else { continue };
            let label = format!(
                "{} {}: {} to {}, {} or {} ({})",
                leg.leg,
                m.quantile,
                Nanos(m.figures.first),
                Nanos(m.figures.second),
                signed(shift.value),
                relative(m.figures.first as f64, shift.value),
                between(&shift)
            );
            items.push(Interval {
                at: names.len() as f64,
                low: tidy(shift.low),
                value: tidy(shift.value),
                high: tidy(shift.high),
                label,
            });
            names.push(format!("{} {}", leg.leg, m.quantile));
        }
    }
    let id = match compared.kind {
        TimedKind::Sends => "shifts".to_owned(),
        kind => format!("{}-shifts", kind.key()),
    };
    Plot::new(
        &id,
        "Shift of each percentile",
        format!(
            "Second less first with 95 % intervals; n = {} and {}.",
            quantity::count(compared.n[0]),
            quantity::counted(compared.n[1], compared.kind.thing())
        ),
        (Axis::linear("shift", Unit::Time), Axis::names("", names)),
        vec![
            Layer::Rule { name: "no difference".into(), upright: true, value: 0.0 },
            Layer::Intervals { name: "shift".into(), hue: Hue(0), items },
        ],
    )
}

fn shift_table(c: &Comparison, compared: &Compared) -> Table {
    let [first, second] = &c.names;
    let mut table = Table::new(
        "How far each leg moved",
        [
            "leg",
            "n",
            "percentile",
            first,
            second,
            "shift",
            "in %",
            "95 % interval",
            "seen",
            "smallest that could be seen",
        ],
    );
    for leg in &compared.legs {
        for m in &leg.moved {
            let f = m.figures;
            table.push(vec![
                leg.leg.to_owned(),
                format!("{} / {}", quantity::count(leg.n[0]), quantity::count(leg.n[1])),
                m.quantile.clone(),
                Nanos(f.first).to_string(),
                Nanos(f.second).to_string(),
                signed(f.second as f64 - f.first as f64),
                relative(f.first as f64, f.second as f64 - f.first as f64),
                f.shift.map_or_else(|| "too few".into(), |e| format!("{} to {}", signed(e.low), signed(e.high))),
                if m.seen { "yes" } else { "no" }.into(),
                f.smallest_seen.map_or_else(|| "—".into(), |s| Nanos(s as u64).to_string()),
            ]);
        }
    }
    table
}

fn explained_table(c: &Comparison, compared: &Compared) -> Table {
    let [first, second] = &c.names;
    let (first, second) = (format!("mean in {first}"), format!("mean in {second}"));
    let mut table =
        Table::new("Which leg explains it", ["leg", &first, &second, "difference", "95 % interval", "share"]);
    let mut put = |e: &super::Explained, share: Option<f64>| {
        table.push(vec![
            e.leg.clone(),
            Nanos(e.mean_ns[0] as u64).to_string(),
            Nanos(e.mean_ns[1] as u64).to_string(),
            signed(e.mean_ns[1] - e.mean_ns[0]),
            e.difference_ns.map_or_else(|| "too few".into(), |d| format!("{} to {}", signed(d.low), signed(d.high))),
            share.map_or_else(|| "—".into(), percent),
        ]);
    };
    compared.explained.iter().for_each(|e| put(e, e.share));
    compared.total.iter().for_each(|e| put(e, compared.explained.iter().map(|e| e.share).sum()));
    table
}

fn path_table(c: &Comparison, split: &PathSplit) -> Table {
    let [first, second] = &c.names;
    let mut table = Table::new("The path and what comes beyond it, in the mean", ["", first, second, "difference"]);
    for (what, of) in [("minimum RTT", split.least_rtt_ns), ("network leg beyond it", split.beyond_ns)] {
        let time = |ns: f64| Nanos(ns.round() as u64).to_string();
        table.push(vec![what.into(), time(of[0]), time(of[1]), signed(of[1] - of[0])]);
    }
    table
}

fn waited_table(c: &Comparison, compared: &Compared) -> Table {
    let [first, second] = &c.names;
    let mut table = Table::new("What a send waited for, in the mean", ["leg", "reason", first, second, "difference"]);
    for waited in &compared.waited {
        let [before, after] = waited.mean_ns;
        let time = |ns: f64| Nanos(ns.round() as u64).to_string();
        let (leg, reason) = (waited.leg.to_owned(), waited.reason.to_string());
        table.push(vec![leg, reason, time(before), time(after), signed(after - before)]);
    }
    table
}

fn peer_table(c: &Comparison, compared: &Compared) -> Table {
    let [first, second] = &c.names;
    let head = [
        "peer".to_owned(),
        format!("n in {first}"),
        format!("n in {second}"),
        format!("mean in {first}"),
        format!("mean in {second}"),
        format!("its own {}s", compared.kind.thing()),
        format!("its share of the {}s", compared.kind.thing()),
        "share of the difference".into(),
    ];
    let title = match compared.peers.len() {
        n if n > PEERS => {
            format!("Where it sits: the {PEERS} peers with the largest parts, of {}", quantity::count(n as u64))
        }
        _ => "Where it sits: peers".into(),
    };
    let mut table = Table::new(title, head);
    let mean = |m: Option<f64>| m.map_or_else(|| "—".into(), |ns| Nanos(ns as u64).to_string());
    for p in compared.peers.iter().take(PEERS) {
        table.push(vec![
            p.peer.map_or_else(|| "not known".into(), |p| p.to_string()),
            quantity::count(p.n[0]),
            quantity::count(p.n[1]),
            mean(p.mean_ns[0]),
            mean(p.mean_ns[1]),
            signed(p.slower_ns),
            signed(p.mix_ns),
            p.share.map_or_else(|| "—".into(), percent),
        ]);
    }
    table
}

fn connection_table(c: &Comparison, compared: &Compared) -> Table {
    let head = ["connection", "program", "n", "mean", "part of the difference", "share of the difference"];
    let mut table = Table::new(format!("Where it sits: connections of {} with the largest parts", c.names[1]), head);
    let end = |end: Option<SocketAddr>| end.map_or_else(|| "not known".to_owned(), |end| end.to_string());
    for one in &compared.connections {
        table.push(vec![
            match one.local {
                Some(local) => format!("{local} → {}", end(one.remote)),
                None => end(one.remote),
            },
            one.comm.clone().unwrap_or_else(|| "—".into()),
            quantity::count(one.n),
            Nanos(one.mean_ns as u64).to_string(),
            signed(one.part_ns),
            one.share.map_or_else(|| "—".into(), percent),
        ]);
    }
    table
}
