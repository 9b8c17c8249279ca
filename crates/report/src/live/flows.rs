//! The busiest connections by any kind of record but sends: number, bytes, where the time went, and
//! how long it took.

use stats::{Distribution, Quantile};
use summary::{FlowFigures, FlowTable, LegPlace, TimedKind};

use super::Piece;
use super::connections::OWNER;
use crate::page::NONE;
use crate::view::{mostly, owner};
use paper::Canvas;
use paper::document::{Cell, Column, Table, Text, columns};

/// The table of the `shown` busiest, and what became of the rest.
pub(super) fn table(canvas: &Canvas, out: &mut Vec<Piece>, kind: TimedKind, tallies: &FlowTable, shown: usize) {
    let all = tallies.sorted();
    if all.is_empty() || shown == 0 {
        return;
    }
    let (wide, narrow) = (canvas.width >= 132, canvas.width < 100);
    out.extend(super::heading(&format!("{}: connections, busiest first", kind.title())));
    let things = format!("{}s", kind.thing());
    let mut columns = columns(["local → remote", "owner"], [things.as_str(), "bytes"]);
    let beside = kind.legs().iter().find(|leg| leg.place == LegPlace::Beside);
    if wide {
        columns.extend(kind.counted().iter().map(|name| Column::figures(*name)));
        columns.extend(beside.map(|leg| Column::figures(format!("{} p50", leg.name))));
    }
    let total = kind.legs()[kind.total()].name;
    columns.extend([Column::figures(format!("{total} p50")), Column::figures("p99")]);
    if wide {
        columns.push(Column::figures("max"));
    }
    if !narrow {
        columns.push(Column::text("mostly"));
    }
    let mut table = Table::new("", columns);
    let mut row = |who: Text, owner: String, tally: &FlowFigures| {
        let time = |ns: Option<u64>| Cell::ns_or(ns, NONE);
        let quantile = |times: &Distribution, q| time(times.quantile(q));
        let mut cells = vec![who.into(), owner.into(), Cell::count(tally.n), Cell::bytes(tally.bytes)];
        if wide {
            cells.extend(kind.counted().iter().zip(tally.counts).map(|(_, n)| Cell::count(n)));
            if beside.is_some() {
                cells.push(quantile(&tally.beside, Quantile::P50));
            }
        }
        cells.extend([quantile(&tally.total, Quantile::P50), quantile(&tally.total, Quantile::P99)]);
        if wide {
            cells.push(time(tally.total.max()));
        }
        if !narrow {
            cells.push(mostly(kind, tally).into());
        }
        table.push(cells);
    };
    for tally in all.iter().take(shown) {
        row(who(tally, wide), owner(tally), tally);
    }
    let rest: Vec<_> = all.iter().skip(shown).collect();
    let (others, folded) = tallies.others().map_or((None, 0), |(others, folded)| (Some(others), folded));
    if let Some(mut together) = rest.first().map(|t| (**t).clone()).or(others.cloned()) {
        rest.iter().skip(1).for_each(|t| together.merge(t));
        others.filter(|_| !rest.is_empty()).iter().for_each(|o| together.merge(o));
        row(format!("{} more", quantity::count(rest.len() as u64 + folded)).into(), String::new(), &together);
    }
    out.push(Piece::Table(Box::new(table), Some(OWNER)));
}

fn who(tally: &FlowFigures, wide: bool) -> Text {
    match tally.ends {
        Some((local, remote)) if wide => Text::ends(local, remote),
        // Where there is little room the local address goes: it is this host's.
        Some((local, remote)) => Text::to_peer(local, remote),
        None => format!("connection {}", tally.flow).into(),
    }
}
