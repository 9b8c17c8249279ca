//! A comparison as a document.

use super::words::{self, between, ends, longer, percent, signed, time};
use crate::page::{NONE, TOO_FEW, curve, facts, shortest_note};
use crate::view;
use paper::document::{Cell, Column, Document, Row, Section, Table, Text};
use paper::plot::{Axis, Hue, Interval, Layer, Plot, Unit, tidy};
use paper::{Canvas, terminal};
use record::Nanos;
use summary::TimedKind;
use summary::between::{Compared, Comparison, Explained, Labels, Moved, PathSplit, Side};

/// Peers in the table.
const PEERS: usize = 50;
/// How the table of methods and paths is to be read.
const LABELS: &str = "Compared are the methods and paths with the most requests, at most 20, that both runs have; what changed most, over all \
     its requests, comes first. The intervals of this table hold together in 95 % of comparisons, so each is wider than one of 95 %: among many \
     of them, one would else be off by chance.";

/// The comparison as text for a terminal.
pub fn text(canvas: &Canvas, comparison: &Comparison, a: &Side, b: &Side) -> String {
    terminal::text(canvas, &[document(comparison, a, b)])
}

/// The comparison as a document.
pub fn document(c: &Comparison, a: &Side, b: &Side) -> Document {
    let mut kinds: Vec<&Compared> = c.kinds.iter().filter(|compared| !compared.legs.is_empty()).collect();
    kinds.sort_by_key(|compared| words::comes_later(compared.kind));
    let mut sections: Vec<Section> = kinds.into_iter().map(|compared| section(c, compared, a, b)).collect();
    sections.push(runs(a, b));
    Document {
        title: format!("{} against {}", c.names[1], c.names[0]).into(),
        about: "Two traces side by side.".into(),
        verdict: words::verdict(c),
        warnings: words::warnings(&c.unlike),
        sections,
        ..Document::default()
    }
}

/// All of one kind.
fn section(c: &Comparison, compared: &Compared, a: &Side, b: &Side) -> Section {
    let (kind, thing) = (compared.kind, compared.kind.thing());
    let mut section = Section::new(kind.title());
    if c.kinds.len() > 1 {
        section.list(words::of_kind(&c.names, compared).into_iter().map(|clause| clause.text));
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
            Text::from(
                "The network leg ends with the ACK. The minimum RTT is that of each connection, as TCP measured it (",
            )
            .and(Text::code("rtt_min"))
            .and("): beyond it are ACKs that the peer delays or sends with its answers, and queues."),
        );
    }
    if !compared.waited.is_empty() {
        section.table(waited_table(c, compared));
    }
    if let Some(labels) = &compared.labels {
        section.table(label_table(c, labels));
        section.say(LABELS);
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
        let (f, summary) = (&side.about, &side.figures);
        let mut rows = vec![("target", f.target.clone()), ("length", f.lasted.to_string())];
        let there = TimedKind::ALL.into_iter().filter(|kind| *kind == TimedKind::Sends || summary.n(*kind) > 0);
        rows.push(("records", there.map(|kind| view::counted(kind, summary.n(kind))).collect::<Vec<_>>().join(", ")));
        rows.extend([
            ("connections", quantity::count(summary.connection_count())),
            ("sampling", view::sampling(f.sampling)),
            ("backend", f.backend.clone()),
            ("kernel", f.kernel.clone()),
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
        let times = side.times(kind, leg);
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
            quantity::count(a.times(kind, leg).n()),
            quantity::counted(b.times(kind, leg).n(), thing),
            shortest_note([a, b].into_iter().map(|side| side.figures.times(kind)[leg].1))
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
            let (Some(shift), Some(ratio)) = (m.change.by, m.change.ratio()) else { continue };
            let end = |shift: f64| 1.0 + shift / m.change.values[0];
            let [first, second] = m.change.values.map(time);
            let label = format!(
                "{} {}: {first} → {second}, {} or {} ({})",
                leg.leg,
                m.quantile,
                signed(shift.value),
                longer(m.change.ratio()),
                between(&shift)
            );
            items.push(Interval {
                at: names.len() as f64,
                low: tidy(end(shift.low)),
                value: tidy(ratio),
                high: tidy(end(shift.high)),
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
        "How many times as long each percentile is",
        format!(
            "Second over first with 95 % intervals; n = {} and {}.",
            quantity::count(compared.n[0]),
            quantity::counted(compared.n[1], compared.kind.thing())
        ),
        (Axis::log("times as long (logarithmic)", Unit::Plain), Axis::names("", names)),
        vec![
            Layer::Rule { name: "no difference".into(), upright: true, value: 1.0 },
            Layer::Intervals { name: "change".into(), hue: Hue(0), items },
        ],
    )
}

/// A time in a table.
pub(super) fn time_cell(ns: f64) -> Cell {
    Cell::time(Nanos(ns.max(0.0).round() as u64))
}

/// Whether a difference is seen.
pub(super) fn seen(seen: bool) -> Cell {
    if seen { "yes" } else { "no" }.into()
}

/// A share of the difference.
fn share(share: Option<f64>) -> Cell {
    Cell::or(share, |share| Cell::figure(percent(share)), "no difference of the total is seen")
}

fn shift_table(c: &Comparison, compared: &Compared) -> Table {
    let columns = [Column::text("leg"), Column::figures("n").spare(0)];
    let mut table = Table::new("How far each leg moved", columns.into_iter().chain(moved_columns(c, true)));
    for leg in &compared.legs {
        for m in &leg.moved {
            let cells = [Cell::from(leg.leg.name()), of_both(leg.n)].into_iter().chain(moved_cells(m));
            let smallest = Cell::or(m.change.smallest, time_cell, TOO_FEW);
            table.push(Row::of(cells.chain([smallest])));
        }
    }
    table
}

/// Records of both runs.
fn of_both(n: [u64; 2]) -> Cell {
    Cell::figure(format!("{} / {}", quantity::count(n[0]), quantity::count(n[1])))
}

/// What [`moved_cells`] fills, and where asked for the change that would have been seen.
fn moved_columns(c: &Comparison, smallest: bool) -> impl Iterator<Item = Column> {
    let [first, second] = c.names.each_ref().map(Column::figures);
    let [shift, change, interval] = ["shift", "change", "95 % interval"].map(Column::figures);
    let columns = [Column::text("percentile"), first, second, shift, change, interval, Column::text("seen")];
    columns.into_iter().chain(smallest.then(|| Column::figures("seen from")))
}

/// From the percentile to whether a difference is seen.
fn moved_cells(m: &Moved) -> [Cell; 7] {
    let [first, second] = m.change.values;
    [
        m.quantile.to_string().into(),
        time_cell(first),
        time_cell(second),
        Cell::figure(signed(second - first)),
        Cell::figure(longer(m.change.ratio())),
        Cell::figure(m.change.by.as_ref().map_or_else(|| "too few".into(), ends)),
        seen(m.is_seen()),
    ]
}

/// Requests by method and path: one row for each percentile of each, and what is not compared.
fn label_table(c: &Comparison, labels: &Labels) -> Table {
    let columns = [Column::text("request"), Column::figures("n")];
    let mut table = Table::new("By method and path", columns.into_iter().chain(moved_columns(c, false)));
    for label in &labels.each {
        for moved in &label.moved {
            let cells = [Cell::from(label.label.to_string()), of_both(label.n)];
            table.push(Row::of(cells.into_iter().chain(moved_cells(moved))));
        }
    }
    let not_compared = [(labels.others, "all others"), (labels.unlabelled, "not known")];
    for (counts, name) in not_compared.into_iter().filter(|(counts, _)| *counts != [0; 2]) {
        let mut cells = vec![name.into(), of_both(counts)];
        cells.resize(table.columns.len(), Cell::absent("these are not compared"));
        table.push(cells);
    }
    table
}

fn explained_table(c: &Comparison, compared: &Compared) -> Table {
    let means = c.names.each_ref().map(|name| Column::figures(format!("mean in {name}")));
    let others = ["difference", "95 % interval", "share"].map(Column::figures);
    let columns = [Column::text("leg")].into_iter().chain(means).chain(others);
    let mut table = Table::new("Which leg explains it", columns);
    let mut put = |e: &Explained, of: Option<f64>| {
        let [first, second] = e.mean_ns;
        table.push([
            Cell::from(e.leg.to_string()),
            time_cell(first),
            time_cell(second),
            Cell::figure(signed(second - first)),
            Cell::figure(e.difference_ns.as_ref().map_or_else(|| "too few".into(), ends)),
            share(of),
        ]);
    };
    compared.explained.iter().for_each(|e| put(e, e.share));
    compared.total.iter().for_each(|e| put(e, compared.explained.iter().map(|e| e.share).sum()));
    table
}

/// Columns of both runs and of what differs between them.
fn both(c: &Comparison) -> impl Iterator<Item = Column> {
    c.names.each_ref().map(Column::figures).into_iter().chain([Column::figures("difference")])
}

/// A mean of both runs, and its difference.
fn means([first, second]: [f64; 2]) -> [Cell; 3] {
    [time_cell(first), time_cell(second), Cell::figure(signed(second - first))]
}

fn path_table(c: &Comparison, split: &PathSplit) -> Table {
    let columns = [Column::text("")].into_iter().chain(both(c));
    let mut table = Table::new("The path and what comes beyond it, in the mean", columns);
    for (what, of) in [("minimum RTT", split.least_rtt_ns), ("network leg beyond it", split.beyond_ns)] {
        table.push(Row::of([Cell::from(what)].into_iter().chain(means(of))));
    }
    table
}

fn waited_table(c: &Comparison, compared: &Compared) -> Table {
    let columns = ["leg", "reason"].map(Column::text).into_iter().chain(both(c));
    let mut table = Table::new("What a send waited for, in the mean", columns);
    for waited in &compared.waited {
        let what = [Cell::from(waited.leg.name()), waited.reason.to_string().into()];
        table.push(Row::of(what.into_iter().chain(means(waited.mean_ns))));
    }
    table
}

fn peer_table(c: &Comparison, compared: &Compared) -> Table {
    let thing = compared.kind.thing();
    let [n, other_n] = c.names.each_ref().map(|name| Column::figures(format!("n in {name}")).spare(0));
    let [mean, other_mean] = c.names.each_ref().map(|name| Column::figures(format!("mean in {name}")));
    let columns = [
        Column::text("peer"),
        n,
        other_n,
        mean,
        other_mean,
        Column::figures(format!("its own {thing}s")),
        Column::figures(format!("its share of the {thing}s")),
        Column::figures("share of the difference"),
    ];
    let title = match compared.peers.len() {
        n if n > PEERS => {
            format!("Which peers: the {PEERS} with the largest parts, of {}", quantity::count(n as u64))
        }
        _ => "Which peers".into(),
    };
    let mut table = Table::new(title, columns);
    let mean = |mean| Cell::or(mean, time_cell, NONE);
    for p in compared.peers.iter().take(PEERS) {
        table.push([
            p.peer.map_or_else(|| "not known".into(), Cell::from),
            Cell::count(p.n[0]),
            Cell::count(p.n[1]),
            mean(p.mean_ns[0]),
            mean(p.mean_ns[1]),
            Cell::figure(signed(p.slower_ns)),
            Cell::figure(signed(p.mix_ns)),
            share(p.share),
        ]);
    }
    table
}

fn connection_table(c: &Comparison, compared: &Compared) -> Table {
    let figures = ["n", "mean", "part of the difference", "share of the difference"].map(Column::figures);
    let columns = ["connection", "program"].map(Column::text).into_iter().chain(figures);
    let mut table = Table::new(format!("Which connections: those of {} with the largest parts", c.names[1]), columns);
    for one in &compared.connections {
        let ends = match (one.local, one.remote) {
            (Some(local), Some(remote)) => Text::ends(local, remote),
            (Some(local), None) => Text::from(local).and(" → not known"),
            (None, Some(remote)) => remote.into(),
            (None, None) => "not known".into(),
        };
        table.push([
            Cell::from(ends),
            Cell::or(one.comm.as_ref(), Cell::from, "its program is not known"),
            Cell::count(one.n),
            time_cell(one.mean_ns),
            Cell::figure(signed(one.part_ns)),
            share(one.share),
        ]);
    }
    table
}
