//! What is drawn and tabled of any kind.

use std::net::SocketAddr;

use record::{ClockReading, DropReason, Instant, Leg, Monotonic, Nanos};
use stats::{Distribution, Quantile};

use super::{CONNECTIONS, id, n_of};
use crate::colour::hue_of;
use crate::described::Described;
use crate::page::{NONE, SHORTEST, TOO_FEW, curve, shortest_note};
use crate::view;
use crate::view::capital;
use paper::document::{Bar, Cell, Column, Histograms, Row, Series, Table, Text, Waterfall, Waterfalls};
use paper::plot::{Axis, Boxed, Hue, Layer, Plot, Span, Unit, tidy};
use summary::{
    Attribution, Divided, FlowFigures, LegPlace, SendFigures, TimedFigures, TimedKind, TimedLeg, TraceSummary, divided,
};

/// Two legs of sends that cannot be distinguished.
const BELOW_TCP: &str = "qdisc or network";
/// Connections with shares that are drawn.
const SHARES: usize = 10;

/// The legs that any record has.
fn there(summary: &TraceSummary, kind: TimedKind) -> Vec<(&'static TimedLeg, &Distribution)> {
    summary.times(kind).into_iter().filter(|(_, times)| times.n() > 0).collect()
}

/// All time of all parts, nanoseconds.
fn whole(summary: &TraceSummary, kind: TimedKind) -> u128 {
    summary.times(kind).iter().filter(|(leg, _)| leg.place == LegPlace::Adds).map(|(_, times)| times.sum()).sum()
}

pub(super) fn leg_table(summary: &TraceSummary, kind: TimedKind) -> Table {
    // p50, p99 and the share are the ones to keep.
    let columns = [
        Column::text("leg"),
        Column::figures("n"),
        Column::figures("min").spare(1),
        Column::figures("p50"),
        Column::figures("p90").spare(2),
        Column::figures("p99"),
        Column::figures("p99.9").spare(0),
        Column::figures("max").spare(3),
        Column::figures("share"),
    ];
    let mut table = Table::new("Time by leg", columns);
    let of_sends = (kind == TimedKind::Sends).then(|| summary.total());
    let whole = of_sends.map_or_else(|| whole(summary, kind), SendFigures::time);
    for ((leg, times), at) in summary.times(kind).into_iter().zip(0..) {
        // Of sends also the time of those that no ACK has come for yet.
        let of = of_sends.zip(Leg::ALL.get(at)).map(|(sends, leg)| sends.leg(*leg));
        let (n, sum, max) = of.map_or((times.n(), times.sum(), times.max()), |of| (of.n(), of.sum(), of.max()));
        if n == 0 {
            continue;
        }
        let quantile = |q| of.map_or_else(|| times.quantile(q), |of| of.quantile(q));
        let mut row = vec![leg.name.name().into(), Cell::count(n), Cell::ns_or(times.min(), NONE)];
        row.extend(Quantile::SHOWN.map(|q| Cell::ns_or(quantile(q), TOO_FEW)));
        row.push(Cell::ns_or(max, NONE));
        row.push(match leg.place {
            LegPlace::Adds => Cell::share(quantity::share(sum, whole)),
            _ => Cell::default(),
        });
        table.push(Row::of(row).in_hue((leg.place != LegPlace::Total).then(|| hue_of(leg))));
    }
    if let Some(both) = of_sends.map(|sends| &sends.below_tcp).filter(|both| both.n() > 0) {
        let mut row = vec![Cell::from(BELOW_TCP), Cell::count(both.n()), Cell::ns_or(both.times.min(), NONE)];
        row.extend(Quantile::SHOWN.map(|q| Cell::ns_or(both.quantile(q), TOO_FEW)));
        row.extend([Cell::ns_or(both.max(), NONE), Cell::share(quantity::share(both.sum(), whole))]);
        table.push(row);
    }
    if let Some(undivided) =
        of_sends.map(|sends| sends.time() - sends.divided()).filter(|&time| time * 1_000 >= whole.max(1))
    {
        let mut row = vec![Cell::from("not known")];
        row.resize(table.columns.len() - 1, Cell::default());
        row.push(Cell::share(quantity::share(undivided, whole)));
        table.push(row);
    }
    if kind == TimedKind::Sends {
        // Beside the times, what happened to packets: n alone. `retrans` is what `ss` calls it, and
        // as short as a leg.
        let drops = summary.packets().drops.values().sum::<u64>();
        let seen = summary.n(TimedKind::Packets) > 0;
        let counts = [("retrans", Some(summary.total().retransmitted)), ("dropped", seen.then_some(drops))];
        for (what, n) in counts.into_iter().filter_map(|(what, n)| Some((what, n?))) {
            let mut row = vec![what.into(), Cell::count(n)];
            row.resize(table.columns.len(), Cell::default());
            table.push(row);
        }
    }
    table
}

/// A histogram of each leg.
pub(super) fn histograms(summary: &TraceSummary, kind: TimedKind) -> Option<Histograms> {
    let series: Vec<Series> = there(summary, kind)
        .into_iter()
        .map(|(leg, times)| Series {
            name: leg.name.to_string(),
            hue: (leg.place != LegPlace::Total).then(|| hue_of(leg)),
            values: times.values().collect(),
        })
        .collect();
    let title = format!("How long each leg took (time on a logarithmic axis, {}s upwards)", kind.thing());
    (!series.is_empty()).then_some(Histograms { title, series })
}

/// What each leg is, in one sentence.
pub(super) fn meanings(summary: &TraceSummary, kind: TimedKind) -> String {
    let each: Vec<String> =
        there(summary, kind).iter().map(|(leg, _)| format!("{}: {}", leg.name, leg.meaning)).collect();
    if each.is_empty() { "No leg has the stamps at both of its ends.".into() } else { format!("{}.", each.join("; ")) }
}

pub(super) fn cdf(summary: &TraceSummary, kind: TimedKind) -> Option<Plot> {
    let layers = there(summary, kind).into_iter().map(|(leg, times)| {
        let (name, points) = (format!("{}, n = {}", leg.name, quantity::count(times.n())), curve(times));
        Layer::Line { name, hue: hue_of(leg), points, step: true, dashed: leg.place != LegPlace::Adds }
    });
    let thing = kind.thing();
    Plot::new(
        &id(kind, "cdf"),
        "How long each leg took",
        format!(
            "The share of {thing}s with a leg no longer than this; {}. Times are within 0.1 %; a curve has a few hundred \
             points, more of them in its tail.{}",
            n_of(summary.n(kind), kind),
            shortest_note(there(summary, kind).into_iter().map(|(_, times)| times))
        ),
        (
            Axis::log("time (logarithmic)", Unit::Time),
            Axis::linear(format!("share of {thing}s"), Unit::Share).reaching(0.0).reaching(1.0),
        ),
        layers.collect(),
    )
}

pub(super) fn boxes(summary: &TraceSummary, kind: TimedKind) -> Option<Plot> {
    let legs: Vec<_> = there(summary, kind).into_iter().filter(|(_, times)| times.n() >= 10).collect();
    let layers = (0u32..)
        .zip(&legs)
        .filter_map(|(i, (leg, times))| {
            let p = |thousandths: u16| {
                let quantile = Quantile::from_thousandths(thousandths)?;
                times.quantile(quantile)
            };
            let shown = [p(100)?, p(250)?, p(500)?, p(750)?, p(900)?];
            let figures = shown.map(|v| v.max(SHORTEST) as f64);
            let [p10, p25, p50, p75, p90] = shown.map(Nanos);
            let label = format!(
                "{}: p10 {p10}, p25 {p25}, median {p50}, p75 {p75}, p90 {p90}; n = {}",
                leg.name,
                quantity::count(times.n())
            );
            let items = vec![Boxed { at: f64::from(i), figures, label }];
            Some(Layer::Boxes { name: String::new(), hue: hue_of(leg), items })
        })
        .collect();
    let names = legs.iter().map(|(leg, times)| format!("{} (n = {})", leg.name, quantity::count(times.n())));
    Plot::new(
        &id(kind, "boxes"),
        "Spread of each leg",
        format!(
            "Box: the middle half of the {}s, its line their median; whiskers: p10 and p90. n stands with each name.{}",
            kind.thing(),
            shortest_note(legs.iter().map(|(_, times)| *times))
        ),
        (Axis::log("time (logarithmic)", Unit::Time), Axis::names("", names)),
        layers,
    )
}

/// What a row of shares is of.
fn name(row: &Divided) -> Text {
    match row.of {
        None => "all".into(),
        Some((_, Some((local, remote)))) => Text::to_peer(local, remote),
        Some((flow, None)) => format!("connection {flow}").into(),
    }
}

/// Which part took which share of the time, of all and of the busiest connections.
pub(super) fn shares(summary: &TraceSummary, kind: TimedKind) -> Option<Plot> {
    let rows = divided(summary, kind, SHARES);
    let layers = kind.adding().map(|(part, leg)| {
        let items = (0u32..).zip(&rows).filter(|(_, row)| row.share(part) > 0.0).map(|(at, row)| {
            let [from, to] = row.reach(kind, part).map(tidy);
            let label = format!(
                "{}: {} of the time of {}, n = {}",
                leg.name,
                quantity::percent(row.share(part)),
                name(row),
                quantity::count(row.n)
            );
            Span { at: f64::from(at), from, to, label }
        });
        Layer::Spans { name: leg.name.to_string(), hue: hue_of(leg), items: items.collect() }
    });
    let mut table = Table::new("Shares of the time", [Column::text("connection"), Column::figures("n")]);
    let named: Vec<_> = kind.adding().filter(|(i, _)| rows.iter().any(|row| row.share(*i) > 0.0)).collect();
    table.columns.extend(named.iter().map(|(_, leg)| Column::figures(leg.name.name())));
    for row in &rows {
        let mut cells = vec![name(row).into(), Cell::count(row.n)];
        cells.extend(named.iter().map(|(i, _)| Cell::share(row.share(*i))));
        table.push(cells);
    }
    let which = if rows.len() > 1 { " All together, and the busiest connections." } else { "" };
    Plot::new(
        &id(kind, "shares"),
        "Where the time went",
        format!(
            "Each part's share of the time of all {}s together; {}.{which}",
            kind.thing(),
            n_of(summary.n(kind), kind)
        ),
        (
            Axis::linear("share of the time", Unit::Share).reaching(0.0).reaching(1.0),
            Axis::names("", rows.iter().map(|row| name(row).and(format!(" (n = {})", quantity::count(row.n))))),
        ),
        layers.collect(),
    )
    .map(|p| p.with_table(table))
}

/// One of the slowest records.
pub(super) struct Slowest<T> {
    pub total: Nanos,
    pub record: T,
    pub whose: Attribution,
}

pub(super) fn slowest<T: Described>(records: &TimedFigures<T>, clock: ClockReading) -> Option<Waterfalls> {
    let all = records.slowest.sorted().into_iter();
    let all: Vec<_> = all.map(|(total, s)| Slowest { total, record: s.record.clone(), whose: s.whose }).collect();
    waterfalls(records.kind(), &all, (records.first, clock), records.total().n())
}

/// The slowest as waterfalls: each leg after the one before it, with what is known of why. `n` are
/// those that have a total.
pub(super) fn waterfalls<T: Described>(
    kind: TimedKind,
    slowest: &[Slowest<T>],
    times: (Option<Instant<Monotonic>>, ClockReading),
    n: u64,
) -> Option<Waterfalls> {
    let plot = waterfall_plot(kind, slowest, times, n)?;
    let items = slowest
        .iter()
        .map(|slow| {
            let (at, (record, times)) = (when(&slow.record, times), (&slow.record, slow.record.times_so_far()));
            let owner = slow.whose.owner.map(|o| format!("{}[{}]", o.comm, o.pid));
            let what = record.name().into_iter().chain([quantity::bytes(record.bytes())]).chain(owner);
            Waterfall {
                total: slow.total,
                what: what.chain([format!("at {at}")]).collect(),
                connection: ends(slow.whose.ends, record.flow()),
                bars: kind
                    .adding()
                    .filter_map(|(i, leg)| {
                        let time = Nanos(times[i]?);
                        let figure = record.took(i, time);
                        Some(Bar { name: leg.name.name(), hue: hue_of(leg), time, figure, note: record.note(i) })
                    })
                    .collect(),
                missing: record.missing(),
                figures: record.lines(),
            }
        })
        .collect();
    let which = match kind {
        TimedKind::AtClient => ", seen from the client",
        TimedKind::AtServer => ", seen from the server",
        TimedKind::DatagramsSent => ", sent",
        TimedKind::DatagramsReceived => ", received",
        _ => "",
    };
    Some(Waterfalls { thing: kind.thing(), which, shown: slowest.len(), items, plot: Box::new(plot) })
}

fn ends(ends: Option<(SocketAddr, SocketAddr)>, flow: record::ConnectionId) -> Text {
    ends.map_or_else(|| format!("connection {flow}").into(), |(local, remote)| Text::ends(local, remote))
}

/// What a record is called, in front of what else is said of it.
fn named<T: Described>(record: &T) -> String {
    record.name().map_or_else(String::new, |name| format!("{name} · "))
}

/// When a record began: the time of day, and how long after the first.
fn when<T: Described>(record: &T, (first, clock): (Option<Instant<Monotonic>>, ClockReading)) -> String {
    let since = first.and_then(|first| record.began()?.since(first).ok()).unwrap_or_default();
    match record.began() {
        Some(at) => format!("{} (+{since})", clock.time_of_day(at.as_nanos())),
        None => format!("+{since}"),
    }
}

fn waterfall_plot<T: Described>(
    kind: TimedKind,
    slowest: &[Slowest<T>],
    when_begun: (Option<Instant<Monotonic>>, ClockReading),
    n: u64,
) -> Option<Plot> {
    let thing = kind.thing();
    let total = &kind.legs()[kind.total()];
    let parts: Vec<_> =
        kind.adding().filter(|(i, _)| slowest.iter().any(|s| s.record.times_so_far()[*i].is_some())).collect();
    let reasons = slowest.iter().any(|s| s.record.reason().is_some());
    let names_of_own = slowest.iter().any(|s| s.record.name().is_some());
    let figures = slowest.first().map(|s| s.record.figures()).unwrap_or_default();
    let mut columns = vec![Column::figures("#"), Column::figures(total.name.name())];
    if names_of_own {
        columns.push(thing.into());
    }
    columns.extend(parts.iter().map(|(_, leg)| Column::figures(leg.name.name())));
    if reasons {
        columns.push(if kind == TimedKind::Sends { "waited for" } else { "why" }.into());
    }
    columns.push(Column::figures("bytes"));
    columns.extend(["at", "program", "connection"].map(Column::text));
    columns.extend(figures.iter().map(|f| Column::figures(f.0)));
    let mut table = Table::new(format!("The slowest {thing}s"), columns);
    let mut spans: Vec<Vec<Span>> = parts.iter().map(|_| Vec::new()).collect();
    let mut names = Vec::new();
    for (i, slow) in (0u32..).zip(slowest) {
        let (record, times) = (&slow.record, slow.record.times_so_far());
        let ends = ends(slow.whose.ends, record.flow());
        let why = record.reason();
        let program =
            Cell::or(slow.whose.owner, |o| format!("{}[{}]", o.comm, o.pid).into(), "the program is not known");
        let who = slow.whose.owner.map_or_else(|| ends.clone(), |o| o.comm.to_string().into());
        names.push(Text::from(format!("{}. ", i + 1)).and(who).and(format!(" {}", slow.total)));
        let mut from = Nanos::ZERO;
        for ((part, leg), spans) in parts.iter().zip(&mut spans) {
            let Some(took) = times[*part].map(Nanos) else { continue };
            // Of a send the reason is what it waited for in TCP; of anything else it is that of the
            // whole.
            let why = why.as_ref().filter(|_| kind != TimedKind::Sends || *part == 0);
            let why = why.map_or_else(String::new, |why| match kind {
                TimedKind::Sends => format!(", waited for: {why}"),
                _ => format!(" ({why})"),
            });
            let figure = record.took(*part, took);
            let label =
                format!("{}: {figure}{why}\n{}{ends}, {}", leg.name, named(record), quantity::bytes(record.bytes()));
            spans.push(Span { at: f64::from(i), from: from.0 as f64, to: (from + took).0 as f64, label });
            from += took;
        }
        let mut row = vec![Cell::count(i + 1), slow.total.into()];
        if names_of_own {
            row.push(Cell::or(record.name(), Cell::from, "it has no name"));
        }
        row.extend(parts.iter().map(|(part, _)| {
            Cell::or(times[*part], |took| Cell::figure(record.took(*part, Nanos(took))), "a stage of it is missing")
        }));
        if reasons {
            row.push(Cell::or(why, Cell::from, "no reason is known"));
        }
        row.extend([Cell::count(record.bytes()), when(record, when_begun).into(), program, ends.into()]);
        row.extend(record.figures().into_iter().map(|f| Cell::figure(f.1)));
        table.push(row);
    }
    let layers = parts
        .iter()
        .zip(spans)
        .map(|((_, leg), items)| Layer::Spans { name: leg.name.to_string(), hue: hue_of(leg), items })
        .collect();
    Plot::new(
        &id(kind, "waterfalls"),
        format!("Where the slowest {thing}s lost their time"),
        format!(
            "The {} that took longest {}, of n = {}; each leg after the one before it.",
            quantity::counted(slowest.len() as u64, thing),
            total.meaning,
            quantity::count(n)
        ),
        (Axis::linear(format!("time since the {thing} began"), Unit::Time).reaching(0.0), Axis::names("", names)),
        layers,
    )
    .map(|p| p.with_table(table))
}

pub(super) fn connection_table(summary: &TraceSummary, kind: TimedKind) -> Table {
    let Some(tallies) = summary.tallies(kind) else { return Table::default() };
    let all = tallies.sorted();
    let folded = tallies.others().map_or(0, |(_, n)| n);
    let left = folded + all.len().saturating_sub(CONNECTIONS) as u64;
    let what = match kind {
        TimedKind::DatagramsSent | TimedKind::DatagramsReceived => "sockets' peers",
        _ => "connections",
    };
    let title = match left {
        0 => format!("{}, busiest first", capital(what)),
        left => format!("The {CONNECTIONS} busiest {what}; {} are not listed", quantity::count(left)),
    };
    let things = format!("{}s", kind.thing());
    let beside = kind.legs().iter().find(|leg| leg.place == LegPlace::Beside);
    // On a narrow terminal what most of the time went to goes first, then the largest time, the leg
    // beside the others, the counts, and last what says who it is.
    let mut columns = vec![
        Column::text("local → remote"),
        Column::text("program").spare(u8::MAX),
        Column::figures(things),
        Column::figures("bytes").spare(u8::MAX - 1),
    ];
    columns.extend((4..).zip(kind.counted()).map(|(order, count)| Column::figures(*count).spare(order)));
    columns.extend(beside.iter().flat_map(|leg| {
        [("p50", 3), ("p99", 2)].map(|(q, order)| Column::figures(format!("{} {q}", leg.name)).spare(order))
    }));
    columns.extend([Column::figures("p50"), Column::figures("p99"), Column::figures("max").spare(1)]);
    columns.push(Column::text("mostly").spare(0));
    let mut table = Table { shown: Some(super::CONNECTIONS_SHOWN), ..Table::new(title, columns) };
    let row = |who: Text, program: String, tally: &FlowFigures| {
        let mut row = vec![who.into(), program.into(), Cell::count(tally.n), Cell::bytes(tally.bytes)];
        row.extend(kind.counted().iter().zip(tally.counts).map(|(_, n)| Cell::count(n)));
        if beside.is_some() {
            row.extend([Quantile::P50, Quantile::P99].map(|q| Cell::ns_or(tally.beside.quantile(q), TOO_FEW)));
        }
        row.extend([Quantile::P50, Quantile::P99].map(|q| Cell::ns_or(tally.total.quantile(q), TOO_FEW)));
        row.extend([Cell::ns_or(tally.total.max(), NONE), view::mostly(kind, tally).into()]);
        Row::of(row)
    };
    let together = |listed: usize| {
        let mut rest = all.iter().skip(listed).copied().chain(tallies.others().map(|(others, _)| others));
        let mut together = rest.next()?.clone();
        rest.for_each(|tally| together.merge(tally));
        Some(row(format!("all other {what} together").into(), String::new(), &together))
    };
    table.extend(all.iter().take(CONNECTIONS).map(|tally| {
        let brief = tally.ends.map(|(local, remote)| Text::to_peer(local, remote));
        Row { brief, ..row(ends(tally.ends, tally.flow), view::owner(tally), tally) }
    }));
    table.extend(together(CONNECTIONS));
    table.rest = together(super::CONNECTIONS_SHOWN);
    table
}

/// How many were dropped, by what and by the kernel's reason.
pub(super) fn drops(rows: &[(u64, String, &DropReason)]) -> Option<Plot> {
    let names = rows.iter().map(|(_, what, reason)| format!("{reason} ({what})"));
    let span = |(at, (n, what, reason)): (u32, &(u64, String, &DropReason))| Span {
        at: f64::from(at),
        from: 0.0,
        to: *n as f64,
        label: format!("{reason}: {} {what}", quantity::count(*n)),
    };
    let n: u64 = rows.iter().map(|r| r.0).sum();
    Plot::new(
        "drops",
        "What this host's kernel threw away",
        format!("By the kernel's own reason (enum skb_drop_reason); n = {}.", quantity::counted(n, "drop")),
        (Axis::linear("drops", Unit::Plain).reaching(0.0), Axis::names("", names)),
        vec![Layer::Spans { name: String::new(), hue: Hue(1), items: (0u32..).zip(rows).map(span).collect() }],
    )
}
