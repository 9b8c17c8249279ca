//! A comparison as a document.

use model::{Leg, Nanos};

use super::{Comparison, Side, between, percent, signed};
use crate::document::{Document, Section, Table};
use crate::page::{curve, facts};
use crate::plot::{Axis, Hue, Interval, Layer, Plot, Unit, tidy};
use crate::{Canvas, quantity, terminal};

/// Peers in the table.
const PEERS: usize = 50;

/// The comparison as text for a terminal.
pub fn text(canvas: &Canvas, comparison: &Comparison, a: &Side, b: &Side) -> String {
    terminal::text(canvas, &[document(comparison, a, b)])
}

/// The comparison as a document.
pub fn document(c: &Comparison, a: &Side, b: &Side) -> Document {
    let mut legs = Section::new("How long each leg took in both");
    for leg in [Leg::Total, Leg::Tcp, Leg::Qdisc, Leg::Nic, Leg::Network] {
        legs.plot(cdf(leg, a, b));
    }
    let mut moved = Section::new("How far it moved");
    moved.plot(shift_plot(c));
    moved.table(shift_table(c));
    moved.say(
        "Second less first. Intervals are 95 % each, by drawing stretches of consecutive sends rather than single sends, since \
         neighbours are alike; where fewer than ten sends lie beyond a percentile, or there are fewer than ten stretches, there \
         is none.",
    );
    let mut explained = Section::new("Which leg explains it");
    explained.table(explained_table(c));
    explained.say(
        "The mean of the total is the sum of the means of its legs over the sends that have every stamp, so the differences of \
         the legs add up to the difference of the total, and their shares to 100 %. A share below zero worked against it.",
    );
    let mut peers = Section::new("Where it sits");
    peers.table(peer_table(c));
    peers.say(
        "The difference of the mean total divided by peer: what a peer's own sends changed, weighted with its share of the sends, \
         and what its share changed (Kitagawa 1955). All parts add up to the difference.",
    );
    let mut runs = Section::new("The two runs");
    for side in [a, b] {
        let (f, total) = (&side.trace.facts, side.trace.summary.total());
        runs.table(facts(
            &side.name,
            [
                ("target", f.target.clone()),
                ("length", f.lasted.to_string()),
                ("sends", quantity::count(total.sends)),
                ("connections", quantity::count(side.trace.summary.connection_count())),
                ("sampling", crate::view::sampling(f.sampling)),
                ("backend", f.backend.clone()),
                ("kernel", side.kernel.clone()),
                ("not recorded or timed", quantity::count(f.lost.entries().map(|e| e.2).sum())),
                ("seen", crate::view::seen(&f.coverage, f.sampling)),
            ],
        ));
    }
    let mut sections = vec![legs, moved, explained, peers, runs];
    if c.legs.is_empty() {
        sections.drain(..4);
    }
    Document {
        title: format!("{} against {}", c.names[1], c.names[0]),
        about: "Two traces side by side.".into(),
        verdict: c.verdict.clone(),
        warnings: c.warnings.clone(),
        sections,
    }
}

fn cdf(leg: Leg, a: &Side, b: &Side) -> Option<Plot> {
    let line = |side: &Side, hue: u8, dashed: bool| {
        let times = &side.trace.summary.total().leg(leg).times;
        let name = format!("{}, n = {}", side.name, quantity::count(times.n()));
        Layer::Line { name, hue: Hue(hue), points: curve(times), step: true, dashed }
    };
    let note = if leg == Leg::Total { "" } else { " Sends without this leg are in neither curve." };
    Plot::new(
        &format!("cdf-{leg}"),
        format!("{leg}: {}", crate::view::meaning(leg)),
        format!(
            "The share of sends that took no longer than this; n = {} and {} sends.{note}",
            quantity::count(a.n(leg)),
            quantity::count(b.n(leg))
        ),
        (
            Axis::log("time (logarithmic)", Unit::Time),
            Axis::linear("share of sends", Unit::Share).reaching(0.0).reaching(1.0),
        ),
        vec![line(a, 0, false), line(b, 1, true)],
    )
}

fn shift_plot(c: &Comparison) -> Option<Plot> {
    let (mut names, mut items) = (Vec::new(), Vec::new());
    for leg in &c.legs {
        for m in &leg.moved {
            let Some(shift) = m.figures.shift else { continue };
            let label = format!(
                "{} {}: {} to {}, {} ({})",
                leg.leg,
                m.quantile,
                Nanos(m.figures.first),
                Nanos(m.figures.second),
                signed(shift.value),
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
    let n = c.legs.iter().map(|l| l.n).reduce(|x, y| [x[0].max(y[0]), x[1].max(y[1])]).unwrap_or_default();
    Plot::new(
        "shifts",
        "Shift of each percentile",
        format!(
            "Second less first with 95 % intervals; n = {} and {} sends.",
            quantity::count(n[0]),
            quantity::count(n[1])
        ),
        (Axis::linear("shift", Unit::Time), Axis::names("", names)),
        vec![
            Layer::Rule { name: "no difference".into(), upright: true, value: 0.0 },
            Layer::Intervals { name: "shift".into(), hue: Hue(0), items },
        ],
    )
}

fn shift_table(c: &Comparison) -> Table {
    let [first, second] = &c.names;
    let mut table = Table::new(
        "",
        &["leg", "n", "percentile", first, second, "shift", "95 % interval", "seen", "smallest that could be seen"],
    );
    for leg in &c.legs {
        for m in &leg.moved {
            let f = m.figures;
            table.rows.push(vec![
                leg.leg.to_string(),
                format!("{} / {}", quantity::count(leg.n[0]), quantity::count(leg.n[1])),
                m.quantile.clone(),
                Nanos(f.first).to_string(),
                Nanos(f.second).to_string(),
                signed(f.second as f64 - f.first as f64),
                f.shift.map_or_else(|| "too few".into(), |e| format!("{} to {}", signed(e.low), signed(e.high))),
                if m.seen { "yes" } else { "no" }.into(),
                f.smallest_seen.map_or_else(|| "—".into(), |s| Nanos(s as u64).to_string()),
            ]);
        }
    }
    table
}

fn explained_table(c: &Comparison) -> Table {
    let [first, second] = &c.names;
    let (first, second) = (format!("mean in {first}"), format!("mean in {second}"));
    let mut table = Table::new("", &["leg", &first, &second, "difference", "95 % interval", "share"]);
    for e in c.explained.iter().chain(&c.total) {
        let share = if e.leg == "total" { c.explained.iter().map(|e| e.share).sum() } else { e.share };
        table.rows.push(vec![
            e.leg.clone(),
            Nanos(e.mean_ns[0] as u64).to_string(),
            Nanos(e.mean_ns[1] as u64).to_string(),
            signed(e.mean_ns[1] - e.mean_ns[0]),
            e.difference_ns.map_or_else(|| "too few".into(), |d| format!("{} to {}", signed(d.low), signed(d.high))),
            share.map_or_else(|| "—".into(), percent),
        ]);
    }
    table
}

fn peer_table(c: &Comparison) -> Table {
    let [first, second] = &c.names;
    let head = [
        "peer".to_owned(),
        format!("n in {first}"),
        format!("n in {second}"),
        format!("mean in {first}"),
        format!("mean in {second}"),
        "its own sends".into(),
        "its share of the sends".into(),
        "share of the difference".into(),
    ];
    let title = match c.peers.len() {
        n if n > PEERS => format!("The {PEERS} peers with the largest parts, of {}", quantity::count(n as u64)),
        _ => String::new(),
    };
    let mut table = Table { title, head: head.into(), rows: Vec::new() };
    let mean = |m: Option<f64>| m.map_or_else(|| "—".into(), |ns| Nanos(ns as u64).to_string());
    for p in c.peers.iter().take(PEERS) {
        table.rows.push(vec![
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
