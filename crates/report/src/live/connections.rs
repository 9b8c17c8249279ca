//! The busiest connections by their sends.

use record::Leg;
use stats::Quantile;

use crate::page::NONE;
use crate::view::waits_for;
use paper::Canvas;
use paper::document::{Cell, Column, Table, Text, columns};
use summary::{SendFigures, TraceSummary};

use super::Piece;

/// The column of the programs.
pub(super) const OWNER: usize = 1;

/// The table of the `shown` busiest connections, and what became of the rest.
pub(super) fn table(canvas: &Canvas, out: &mut Vec<Piece>, summary: &TraceSummary, shown: usize) {
    let all = summary.connections();
    if all.is_empty() || shown == 0 {
        return;
    }
    let wide = canvas.width >= 132;
    out.extend(super::heading("Connections, busiest first"));
    let mut columns = columns(["local → remote", "owner"], ["sends", "bytes"]);
    if wide {
        columns.extend(["tcp p50", "network p50"].map(Column::figures));
    }
    columns.extend(["total p50", "p99"].map(Column::figures));
    if wide {
        columns.extend([Column::figures("max"), Column::text("waits for")]);
    }
    let mut table = Table::new("", columns);
    let mut row = |who: Text, owner: String, sends: &SendFigures| {
        let time = |ns: Option<u64>| Cell::ns_or(ns, NONE);
        let quantile = |leg: Leg, q: Quantile| time(sends.leg(leg).times.quantile(q));
        let mut cells = vec![who.into(), owner.into(), Cell::count(sends.sends), Cell::bytes(sends.bytes)];
        if wide {
            cells.extend([quantile(Leg::Tcp, Quantile::P50), quantile(Leg::Network, Quantile::P50)]);
        }
        cells.extend([quantile(Leg::Total, Quantile::P50), quantile(Leg::Total, Quantile::P99)]);
        if wide {
            cells.push(time(sends.leg(Leg::Total).times.max()));
            cells.push(waits_for(sends).into());
        }
        table.push(cells);
    };
    for c in all.iter().take(shown) {
        let owner = match c.connection.owner.pid {
            0 => "not known".into(),
            pid => format!("{}[{pid}]", c.connection.owner.comm),
        };
        let (local, remote) = (c.connection.local, c.connection.remote);
        // Where there is little room the local address goes: it is this host's.
        let who = if wide { Text::ends(local, remote) } else { Text::to_peer(local, remote) };
        row(who, owner, &c.sends);
    }
    let rest: Vec<_> = all.iter().skip(shown).collect();
    let others = summary.others();
    let count = rest.len() as u64 + others.connections;
    if count > 0 {
        let mut together = SendFigures::new(stats::Precision::Coarse);
        rest.iter().for_each(|c| together.merge(&c.sends));
        together.merge(&others.sends);
        row(format!("{} more", quantity::count(count)).into(), String::new(), &together);
    }
    out.push(Piece::Table(Box::new(table), Some(OWNER)));
    if others.connections > 0 {
        let note = format!(
            "{} with the fewest sends have no separate figures: {} are kept one by one.",
            quantity::counted(others.connections, "connection"),
            quantity::count(all.len() as u64)
        );
        let mut text = String::new();
        canvas.paragraph(&mut text, &note, 0);
        out.extend(text.lines().map(|line| Piece::Line(line.to_owned(), None)));
    }
}
