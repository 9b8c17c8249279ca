//! What only sends have: what they waited for, and the connections with what the kernel counted of them.

use record::{ClockReading, Leg};
use stats::{Precision, Quantile};

use super::figures::{Slowest, time};
use super::{CONNECTIONS, n_of};
use crate::colour::hue_of;
use crate::view;
use paper::document::{Table, Waterfalls};
use paper::plot::{Axis, Layer, Plot, Span, Unit};
use summary::{Attribution, SendFigures, TimedKind, TraceSummary};

pub(super) fn waits(summary: &TraceSummary) -> Option<Plot> {
    let waits = summary.total().waits();
    let whole: u128 = waits.iter().map(|w| u128::from(w.1.time.0)).sum();
    let label = |w: &(record::WaitReason, summary::WaitStats)| {
        format!("{}: {} over {}", w.0, w.1.time, quantity::counted(w.1.sends, "send"))
    };
    let items: Vec<Span> = (0u32..)
        .zip(&waits)
        .map(|(i, w)| Span { at: f64::from(i), from: 0.0, to: w.1.time.0 as f64, label: label(w) })
        .collect();
    let mut table = Table::new("Waiting in TCP", &["reason", "sends", "time", "share"]);
    table.rows.extend(waits.iter().map(|(reason, w)| {
        let share = quantity::percent(quantity::share(w.time.0.into(), whole));
        vec![reason.to_string(), quantity::count(w.sends), w.time.to_string(), share]
    }));
    let waited = waits.iter().map(|w| w.1.sends).sum();
    Plot::new(
        "waits",
        "What sends waited for in TCP",
        format!(
            "Time by the reason that held a send back longest, summed over sends; {} that waited.",
            n_of(waited, TimedKind::Sends)
        ),
        (
            Axis::linear("time, all sends together", Unit::Time).reaching(0.0),
            Axis::names("", waits.iter().map(|w| w.0.to_string()).collect()),
        ),
        vec![Layer::Spans { name: String::new(), hue: hue_of(&TimedKind::Sends.legs()[0]), items }],
    )
    .map(|p| p.with_table(table))
}

pub(super) fn waterfalls(summary: &TraceSummary, clock: ClockReading) -> Option<Waterfalls> {
    let slow = summary.slowest().sorted().into_iter().map(|s| Slowest {
        total: s.total,
        whose: Attribution { ends: s.ends, owner: Some(s.send.owner) },
        record: s.send,
    });
    let n = summary.total().leg(Leg::Total).times.n();
    super::figures::waterfalls(TimedKind::Sends, &slow.collect::<Vec<_>>(), (summary.first_send(), clock), n)
}

pub(super) fn connection_table(summary: &TraceSummary) -> Table {
    let all = summary.connections();
    let left = summary.connection_count() - all.len().min(CONNECTIONS) as u64;
    let title = match left {
        0 => "Connections, busiest first".to_owned(),
        left => format!("The {CONNECTIONS} busiest connections; {} are not listed", quantity::count(left)),
    };
    let mut table = Table::new(
        title,
        &[
            "local → remote",
            "program",
            "opened",
            "control",
            "sends",
            "bytes",
            "tcp p50",
            "network p50",
            "total p50",
            "p99",
            "max",
            "retransmitted",
            "waits for",
        ],
    );
    let row =
        |who: String, [program, opened, control]: [String; 3], sends: &SendFigures, retransmitted: Option<u64>| {
            let p = |leg, q| time(sends.leg(leg).times.quantile(q));
            vec![
                who,
                program,
                opened,
                control,
                quantity::count(sends.sends),
                quantity::bytes(sends.bytes),
                p(Leg::Tcp, Quantile::P50),
                p(Leg::Network, Quantile::P50),
                p(Leg::Total, Quantile::P50),
                p(Leg::Total, Quantile::P99),
                time(sends.leg(Leg::Total).times.max()),
                retransmitted.map_or_else(|| "—".into(), quantity::count),
                view::waits_for(sends),
            ]
        };
    let together = |listed: usize| {
        let others = summary.others();
        (all.len() > listed || others.connections > 0).then(|| {
            let mut together = SendFigures::new(Precision::Coarse);
            all.iter().skip(listed).for_each(|c| together.merge(&c.sends));
            together.merge(&others.sends);
            row("all other connections together".into(), Default::default(), &together, None)
        })
    };
    table.rows.extend(all.iter().take(CONNECTIONS).map(|c| {
        let program = match c.connection.owner.pid {
            0 => "not known".into(),
            pid => format!("{}[{pid}]", c.connection.owner.comm),
        };
        let opened = format!("{:?}", c.connection.opening).to_lowercase();
        row(
            format!("{} → {}", c.connection.local, c.connection.remote),
            [program, opened, c.connection.congestion_control.clone()],
            &c.sends,
            c.totals.map(|t| t.segments_retransmitted.into()),
        )
    }));
    // Where there is little room the local address goes: it is this host's.
    let brief = all.iter().take(CONNECTIONS).map(|c| (c.connection.local.port(), c.connection.remote));
    table.brief = brief.map(|(port, remote)| format!(":{port} → {remote}")).collect();
    table.rows.extend(together(CONNECTIONS));
    table.rest = together(super::CONNECTIONS_SHOWN);
    table.shown = Some(super::CONNECTIONS_SHOWN);
    table.spare =
        vec!["control", "opened", "waits for", "max", "tcp p50", "network p50", "bytes", "retransmitted", "program"];
    table
}
