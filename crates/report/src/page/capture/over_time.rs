//! One connection over time: its bytes, and window and flight.

use diagnose::{Mark, Report, Way};

use super::{Names, ends};
use paper::plot::{Axis, Hue, Layer, Plot, Unit, thinned};

/// More points than a screen has columns, so that nothing visible is omitted.
const POINTS: usize = 4_000;

type Points = Vec<[f64; 2]>;

/// What is plotted, in nanoseconds and bytes.
#[derive(Default)]
struct Series {
    data: Points,
    retransmitted: Points,
    acks: Points,
    edge: Points,
    flight: Points,
    window: Points,
}

fn series(report: &Report, way: Way) -> Series {
    let mut s = Series::default();
    let mut last_ack = 0u64;
    for r in &report.records {
        let t = r.segment.at.as_nanos().saturating_sub(report.start_ns) as f64;
        if r.way == way {
            if r.segment.payload > 0
                && let Some(seq) = r.seq
            {
                let end = (seq + u64::from(r.segment.payload)) as f64;
                if matches!(r.mark, Mark::Retransmitted(_)) {
                    s.retransmitted.push([t, end]);
                } else {
                    s.data.push([t, end]);
                }
            }
            s.flight.push([t, f64::from(r.in_flight)]);
        } else if let Some(ack) = r.ack {
            last_ack = last_ack.max(ack);
            s.acks.push([t, last_ack as f64]);
            s.edge.push([t, (last_ack + r.window) as f64]);
            s.window.push([t, r.window as f64]);
        }
    }
    for series in [&mut s.data, &mut s.acks, &mut s.edge, &mut s.flight, &mut s.window] {
        *series = thinned(std::mem::take(series), POINTS);
    }
    s
}

/// The plots of the direction that carried more; none where no packets were kept.
pub fn plots(report: &Report, names: &Names) -> Vec<Plot> {
    let more = report.to_server.unique_bytes > report.to_client.unique_bytes;
    let way = if more { Way::ToServer } else { Way::ToClient };
    let s = series(report, way);
    let way = way.words();
    // The window's edge would dwarf a short transfer, so the scale follows the data.
    let height = [&s.data, &s.retransmitted, &s.acks].into_iter().flatten().map(|p| p[1]).fold(1.0, f64::max) * 1.05;
    let edge = s.edge.into_iter().filter(|p| p[1] <= height).collect();
    let line = |name: &str, hue: Hue, points: Points| Layer::Line {
        name: name.into(),
        hue,
        points,
        step: true,
        dashed: false,
    };
    let dots = |name: &str, hue: Hue, points: Points| Layer::dots(name, hue, points);
    let axes = |label: &str| {
        let time = Axis::linear("time since the connection's first packet", Unit::Time).reaching(0.0);
        (time, Axis::linear(label, Unit::Bytes).reaching(0.0))
    };
    let n = report.records.len();
    let thinned = match (n > POINTS, report.records_left_out) {
        (false, 0) => String::new(),
        (_, 0) => {
            " Of each column of the screen the first, lowest, highest and last are drawn, and each retransmission."
                .into()
        }
        (_, more) => {
            format!(" Each retransmission is drawn; {} were not kept.", quantity::counted(more, "further packet"))
        }
    };
    let ends = ends(names, report.client, report.server);
    let caption = format!("Connection {}: {ends}, {}.{thinned}", report.number, quantity::counted(n as u64, "packet"));
    let bytes = Plot::new(
        "bytes",
        format!("Bytes {way} over time"),
        caption.clone(),
        axes("position in the stream"),
        vec![
            line("window's edge", Hue::NEUTRAL, edge),
            dots("data", Hue(0), s.data),
            line("acknowledged", Hue(2), s.acks),
            dots("retransmitted", Hue(1), s.retransmitted),
        ],
    );
    let flight = Plot::new(
        "window",
        "Window and flight",
        caption,
        axes("bytes"),
        vec![line("receive window", Hue::NEUTRAL, s.window), line("in flight", Hue(0), s.flight)],
    );
    bytes.into_iter().chain(flight).collect()
}
