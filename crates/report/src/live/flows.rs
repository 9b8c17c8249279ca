//! The busiest connections by any kind of record but sends: number, bytes, where the time went, and
//! how long it took.

use record::Nanos;
use stats::{Distribution, Quantile};
use summary::{FlowFigures, FlowTable, LegPlace, TimedKind};

use super::Piece;
use super::table::{Align, Table};
use crate::view::{mostly, owner};
use paper::Canvas;
use paper::Ink;

/// The table of the `shown` busiest, and what became of the rest.
pub(super) fn table(canvas: &Canvas, out: &mut Vec<Piece>, kind: TimedKind, tallies: &FlowTable, shown: usize) {
    let all = tallies.sorted();
    if all.is_empty() || shown == 0 {
        return;
    }
    let (wide, narrow) = (canvas.width >= 132, canvas.width < 100);
    out.extend(super::heading(&format!("{}: connections, busiest first", kind.title())));
    let things = format!("{}s", kind.thing());
    let mut head = vec![
        ("local → remote", Align::Left),
        ("owner", Align::Left),
        (things.as_str(), Align::Right),
        ("bytes", Align::Right),
    ];
    let beside = kind.legs().iter().find(|leg| leg.place == LegPlace::Beside);
    let beside_name = beside.map(|leg| format!("{} p50", leg.name)).unwrap_or_default();
    if wide {
        head.extend(kind.counted().iter().map(|name| (*name, Align::Right)));
        if beside.is_some() {
            head.push((&beside_name, Align::Right));
        }
    }
    let total = kind.legs()[kind.total()].name;
    let total_name = format!("{total} p50");
    head.extend([(total_name.as_str(), Align::Right), ("p99", Align::Right)]);
    if wide {
        head.push(("max", Align::Right));
    }
    if !narrow {
        head.push(("mostly", Align::Left));
    }
    let mut table = Table::new(&head);
    let mut row = |who: String, owner: String, tally: &FlowFigures| {
        let time = |ns: Option<u64>| (ns.map_or_else(|| "—".into(), |ns| Nanos(ns).to_string()), None);
        let quantile = |times: &Distribution, q| time(times.quantile(q));
        let mut cells = vec![
            (who, None),
            (owner, Some(Ink::Faint)),
            (quantity::count(tally.n), None),
            (quantity::bytes(tally.bytes), None),
        ];
        if wide {
            cells.extend(kind.counted().iter().zip(tally.counts).map(|(_, n)| (quantity::count(n), None)));
            if beside.is_some() {
                cells.push(quantile(&tally.beside, Quantile::P50));
            }
        }
        cells.extend([quantile(&tally.total, Quantile::P50), quantile(&tally.total, Quantile::P99)]);
        if wide {
            cells.push(time(tally.total.max()));
        }
        if !narrow {
            cells.push((mostly(kind, tally), None));
        }
        table.row(cells);
    };
    for tally in all.iter().take(shown) {
        row(who(tally, wide), owner(tally), tally);
    }
    let rest: Vec<_> = all.iter().skip(shown).collect();
    let (others, folded) = tallies.others().map_or((None, 0), |(others, folded)| (Some(others), folded));
    if let Some(mut together) = rest.first().map(|t| (**t).clone()).or(others.cloned()) {
        rest.iter().skip(1).for_each(|t| together.merge(t));
        others.filter(|_| !rest.is_empty()).iter().for_each(|o| together.merge(o));
        row(format!("{} more", quantity::count(rest.len() as u64 + folded)), String::new(), &together);
    }
    out.push(Piece::Table(table));
}

fn who(tally: &FlowFigures, wide: bool) -> String {
    match tally.ends {
        Some((local, remote)) if wide => super::connections::ends(local, remote),
        // Where there is little room the local address goes: it is this host's.
        Some((local, remote)) => format!(":{} → {remote}", local.port()),
        None => format!("connection {}", tally.flow),
    }
}
