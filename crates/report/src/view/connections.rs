//! The busiest connections.

use record::{Leg, Nanos, WaitReason};
use stats::Quantile;

use crate::Canvas;
use crate::canvas::Ink;
use crate::table::{Align, Table};
use summary::{SendFigures, TraceSummary};

/// The table of the `shown` busiest connections, and what became of the rest.
pub(super) fn table(canvas: &Canvas, out: &mut String, summary: &TraceSummary, shown: usize) {
    let all = summary.connections();
    if all.is_empty() || shown == 0 {
        return;
    }
    let wide = canvas.width >= 132;
    canvas.heading(out, "Connections, busiest first");
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
    table.draw(canvas, out);
    if others.connections > 0 {
        let note = format!(
            "{} with the fewest sends have no figures of their own: {} are kept one by one.",
            quantity::counted(others.connections, "connection"),
            quantity::count(all.len() as u64)
        );
        let mut text = String::new();
        canvas.paragraph(&mut text, &note, 0);
        out.push_str(&text);
    }
}

/// The ends of a connection, with the arrow that points to the peer.
pub(super) fn ends(local: std::net::SocketAddr, remote: std::net::SocketAddr) -> String {
    format!("{local} → {remote}")
}

/// What sends of a connection waited for most.
pub(crate) fn waits_for(sends: &SendFigures) -> String {
    let all: u128 = sends.waits().iter().map(|w| u128::from(w.1.time.0)).sum();
    match sends.waits().first() {
        Some((reason, stats)) if all > 0 => {
            format!("{reason} ({})", quantity::percent(quantity::share(stats.time.0.into(), all)))
        }
        _ if sends.wait(WaitReason::SentAtOnce).sends > 0 => "nothing".into(),
        _ => "—".into(),
    }
}
