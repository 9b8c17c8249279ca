//! What only sends have: what they waited for, and the connections with what the kernel counted of
//! them.

use record::{ClockReading, Leg, Nanos};
use stats::{Precision, Quantile};

use super::figures::Slowest;
use super::{CONNECTIONS, n_of};
use crate::colour::hue_of;
use crate::page::{NONE, TOO_FEW};
use crate::view;
use paper::document::{Cell, Column, Row, Table, Text, Waterfalls};
use paper::plot::{Axis, Layer, Plot, Span, Unit};
use summary::{Attribution, SendFigures, TimedKind, TraceSummary};

pub(super) fn waits(summary: &TraceSummary) -> Option<Plot> {
    let waits = summary.total().waits();
    let at_once = summary.total().wait(record::WaitReason::SentAtOnce).time;
    let known: u128 = waits.iter().map(|w| u128::from(w.1.time.0)).sum::<u128>() + u128::from(at_once.0);
    let whole = known.max(summary.total().leg(Leg::Tcp).sum());
    let label = |w: &(record::WaitReason, summary::WaitStats)| {
        format!("{}: {} over {}", w.0, w.1.time, quantity::counted(w.1.sends, "send"))
    };
    let items: Vec<Span> = (0u32..)
        .zip(&waits)
        .map(|(i, w)| Span { at: f64::from(i), from: 0.0, to: w.1.time.0 as f64, label: label(w) })
        .collect();
    let mut table = Table::new(
        "Waiting in TCP",
        [Column::text("reason"), Column::figures("sends"), Column::figures("time"), Column::figures("share")],
    );
    table.extend(waits.iter().map(|(reason, w)| {
        let share = quantity::share(w.time.0.into(), whole);
        [Cell::from(reason.to_string()), Cell::count(w.sends), w.time.into(), Cell::share(share)]
    }));
    if (whole - known) * 1_000 >= whole.max(1) {
        let rest = Nanos(u64::try_from(whole - known).unwrap_or(u64::MAX));
        let share = quantity::share(whole - known, whole);
        table.push([Cell::from("not known"), Cell::default(), rest.into(), Cell::share(share)]);
    }
    let waited = summary.total().waited();
    Plot::new(
        "waits",
        "What sends waited for in TCP",
        format!(
            "Time for which each reason held sends back, summed over sends; {} that waited.",
            n_of(waited, TimedKind::Sends)
        ),
        (
            Axis::linear("time, all sends together", Unit::Time).reaching(0.0),
            Axis::names("", waits.iter().map(|w| w.0.to_string())),
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
    let n = summary.total().leg(Leg::Total).n();
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
        [
            Column::text("local → remote"),
            Column::text("program").spare(8),
            Column::text("opened").spare(1),
            Column::text("control").spare(0),
            Column::figures("sends"),
            Column::figures("bytes").spare(6),
            Column::figures("tcp p50").spare(4),
            Column::figures("network p50").spare(5),
            Column::figures("total p50"),
            Column::figures("p99"),
            Column::figures("max").spare(3),
            Column::figures("retransmitted").spare(7),
            Column::text("waits for").spare(2),
        ],
    );
    let row = |who: Text, [program, opened, control]: [String; 3], sends: &SendFigures, retransmitted: Option<u64>| {
        let p = |leg, q| Cell::ns_or(sends.leg(leg).quantile(q), TOO_FEW);
        Row::of([
            who.into(),
            program.into(),
            opened.into(),
            control.into(),
            Cell::count(sends.sends),
            Cell::bytes(sends.bytes),
            p(Leg::Tcp, Quantile::P50),
            p(Leg::Network, Quantile::P50),
            p(Leg::Total, Quantile::P50),
            p(Leg::Total, Quantile::P99),
            Cell::ns_or(sends.leg(Leg::Total).max(), NONE),
            Cell::or(retransmitted, Cell::count, "the kernel's count was not read"),
            view::waits_for(sends).into(),
        ])
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
    table.extend(all.iter().take(CONNECTIONS).map(|c| {
        let program = match c.connection.owner.pid {
            0 => "not known".into(),
            pid => format!("{}[{pid}]", c.connection.owner.comm),
        };
        let opened = format!("{:?}", c.connection.opening).to_lowercase();
        row(
            Text::ends(c.connection.local, c.connection.remote),
            [program, opened, c.connection.congestion_control.clone()],
            &c.sends,
            c.totals.map(|t| t.segments_retransmitted.into()),
        )
        .or_brief(Text::to_peer(c.connection.local, c.connection.remote))
    }));
    table.extend(together(CONNECTIONS));
    table.rest = together(super::CONNECTIONS_SHOWN);
    table.shown = Some(super::CONNECTIONS_SHOWN);
    table
}
