//! The busiest connections by their sends.

use record::{Leg, Nanos};
use stats::Quantile;

use crate::view::waits_for;
use paper::Canvas;
use paper::Ink;
use summary::{SendFigures, TraceSummary};

use super::Piece;
use super::table::{Align, Table};

/// The table of the `shown` busiest connections, and what became of the rest.
pub(super) fn table(canvas: &Canvas, out: &mut Vec<Piece>, summary: &TraceSummary, shown: usize) {
    let all = summary.connections();
    if all.is_empty() || shown == 0 {
        return;
    }
    let wide = canvas.width >= 132;
    out.extend(super::heading("Connections, busiest first"));
    let mut head =
        vec![("local → remote", Align::Left), ("owner", Align::Left), ("sends", Align::Right), ("bytes", Align::Right)];
    if wide {
        head.extend([("tcp p50", Align::Right), ("network p50", Align::Right)]);
    }
    head.extend([("total p50", Align::Right), ("p99", Align::Right)]);
    if wide {
        head.push(("max", Align::Right));
        head.push(("waits for", Align::Left));
    }
    let mut table = Table::new(&head);
    let mut row = |who: String, owner: String, sends: &SendFigures| {
        let time = |ns: Option<u64>| (ns.map_or_else(|| "—".into(), |ns| Nanos(ns).to_string()), None);
        let quantile = |leg: Leg, q: Quantile| time(sends.leg(leg).times.quantile(q));
        let mut cells = vec![
            (who, None),
            (owner, Some(Ink::Faint)),
            (quantity::count(sends.sends), None),
            (quantity::bytes(sends.bytes), None),
        ];
        if wide {
            cells.extend([quantile(Leg::Tcp, Quantile::P50), quantile(Leg::Network, Quantile::P50)]);
        }
        cells.extend([quantile(Leg::Total, Quantile::P50), quantile(Leg::Total, Quantile::P99)]);
        if wide {
            cells.push(time(sends.leg(Leg::Total).times.max()));
            cells.push((waits_for(sends), None));
        }
        table.row(cells);
    };
    for c in all.iter().take(shown) {
        let owner = match c.connection.owner.pid {
            0 => "not known".into(),
            pid => format!("{}[{pid}]", c.connection.owner.comm),
        };
        let (local, remote) = (c.connection.local, c.connection.remote);
        // Where there is little room the local address goes: it is this host's.
        let who = if wide { ends(local, remote) } else { format!(":{} → {remote}", local.port()) };
        row(who, owner, &c.sends);
    }
    let rest: Vec<_> = all.iter().skip(shown).collect();
    let others = summary.others();
    let count = rest.len() as u64 + others.connections;
    if count > 0 {
        let mut together = SendFigures::new(stats::Precision::Coarse);
        rest.iter().for_each(|c| together.merge(&c.sends));
        together.merge(&others.sends);
        row(format!("{} more", quantity::count(count)), String::new(), &together);
    }
    out.push(Piece::Table(table));
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

/// The ends of a connection, with the arrow that points to the peer.
pub(super) fn ends(local: std::net::SocketAddr, remote: std::net::SocketAddr) -> String {
    format!("{local} → {remote}")
}
