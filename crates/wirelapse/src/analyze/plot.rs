//! One connection over time: its bytes, and window and flight; as a page to zoom into, as SVG or PNG.

use std::path::Path;

use diagnose::{Mark, Report};
use report::document::{Block, Document, Section};
use report::html;
use report::page::capture::sentence;
use report::plot::image;
use report::plot::{Axis, Hue, Layer, Plot, Unit};

use super::{Reading, story};
use crate::exit::BadInput;
use crate::report::{made_by, place};

/// More points than a screen has columns, so that nothing visible is left out.
const POINTS: usize = 4_000;

type Points = Vec<[f64; 2]>;

/// What is plotted, in nanoseconds and bytes.
#[derive(Default)]
struct Series {
    data: Points,
    resent: Points,
    acks: Points,
    edge: Points,
    flight: Points,
    window: Points,
}

/// Writes the plots of a connection to a file of the kind that its name ends in.
pub fn write(report: &Report, reading: &Reading, path: &Path) -> anyhow::Result<()> {
    let kind = path.extension().and_then(|e| e.to_str()).unwrap_or_default();
    if !["html", "svg", "png"].contains(&kind) {
        return Err(BadInput("a plot is .html, .svg or .png".into()).into());
    }
    if report.records.is_empty() {
        return Err(BadInput(format!("connection {} has no packets to plot", report.number)).into());
    }
    let plots = plots(report, reading);
    match kind {
        "html" => place(path, html::page(&[page(report, reading, plots)?], &made_by()).as_bytes()),
        // An SVG names its font, but the lengths of words decide where they are put.
        "svg" => place(path, image::svg(&plots)?.as_bytes()),
        _ => place(path, &image::png(&plots)?),
    }
}

/// The plots, with everything that is said of the connection.
fn page(report: &Report, reading: &Reading, plots: Vec<Plot>) -> anyhow::Result<Document> {
    let mut over_time = Section::new("Over time");
    plots.into_iter().for_each(|plot| over_time.plot(Some(plot)));
    let mut told = Vec::new();
    story::tell(&mut told, report, reading)?;
    let mut whole = Section::new("The whole story");
    let text = String::from_utf8_lossy(&told).trim_end().to_owned();
    whole.blocks.push(Block::Code { title: "As analyze tells it".into(), text });
    let (client, server) = (reading.endpoint(report.client), reading.endpoint(report.server));
    Ok(Document {
        title: format!("Connection {}: {client} > {server}", report.number),
        about: format!("{}, {}.", report.duration_ns, report.ending.replace('_', " ")),
        verdict: vec![sentence(&report.verdict)],
        warnings: Vec::new(),
        sections: vec![over_time, whole],
    })
}

fn series(report: &Report, to_server: bool) -> Series {
    let mut s = Series::default();
    let mut last_ack = 0u64;
    for r in &report.records {
        let t = r.segment.at.as_nanos().saturating_sub(report.start_ns) as f64;
        if r.to_server == to_server {
            if r.segment.payload > 0
                && let Some(seq) = r.seq
            {
                let end = (seq + u64::from(r.segment.payload)) as f64;
                if matches!(r.mark, Mark::Resent(_)) {
                    s.resent.push([t, end]);
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
        *series = thinned(std::mem::take(series));
    }
    s
}

/// As many points as a screen shows: of each of its columns the first, the lowest, the highest and the last.
fn thinned(points: Points) -> Points {
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return points };
    if points.len() <= POINTS {
        return points;
    }
    let (from, width) = (first[0], (last[0] - first[0]).max(1.0) * 4.0 / POINTS as f64);
    let column = |p: &[f64; 2]| ((p[0] - from) / width) as u64;
    let mut kept = Points::new();
    for group in points.chunk_by(|a, b| column(a) == column(b)) {
        let by_height = |a: &usize, b: &usize| group[*a][1].total_cmp(&group[*b][1]);
        let low = (0..group.len()).min_by(by_height).unwrap_or(0);
        let high = (0..group.len()).max_by(by_height).unwrap_or(0);
        let mut places = [0, low, high, group.len() - 1];
        places.sort_unstable();
        kept.extend(places.iter().enumerate().filter(|(i, p)| *i == 0 || places[i - 1] != **p).map(|(_, p)| group[*p]));
    }
    kept
}

fn plots(report: &Report, reading: &Reading) -> Vec<Plot> {
    // The direction that carried more is plotted.
    let to_server = report.to_server.unique_bytes > report.to_client.unique_bytes;
    let s = series(report, to_server);
    let way = if to_server { "to the server" } else { "to the client" };
    // The window's edge would dwarf a short transfer, so the scale follows the data.
    let height = [&s.data, &s.resent, &s.acks].into_iter().flatten().map(|p| p[1]).fold(1.0, f64::max) * 1.05;
    let edge = s.edge.into_iter().filter(|p| p[1] <= height).collect();
    let line = |name: &str, hue: Hue, points: Points| Layer::Line {
        name: name.into(),
        hue,
        points,
        step: true,
        dashed: false,
    };
    let dots = |name: &str, hue: Hue, points: Points| Layer::Dots { name: name.into(), hue, points };
    let axes = |label: &str| {
        let time = Axis::linear("time since the connection's first packet", Unit::Time).reaching(0.0);
        (time, Axis::linear(label, Unit::Bytes).reaching(0.0))
    };
    let n = report.records.len();
    let left_out = match (n > POINTS, report.records_left_out) {
        (false, 0) => String::new(),
        (_, 0) => {
            " Of each column of the screen the first, lowest, highest and last are drawn, and each retransmission."
                .into()
        }
        (_, more) => format!(" Each retransmission is drawn; {more} further packets were not kept."),
    };
    let (client, server) = (reading.endpoint(report.client), reading.endpoint(report.server));
    let caption = format!("Connection {}: {client} > {server}, {n} packets.{left_out}", report.number);
    let bytes = Plot::new(
        "bytes",
        format!("Bytes {way} over time"),
        caption.clone(),
        axes("position in the stream"),
        vec![
            line("window's edge", Hue::NEUTRAL, edge),
            dots("data", Hue(0), s.data),
            line("acknowledged", Hue(2), s.acks),
            dots("retransmitted", Hue(1), s.resent),
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
