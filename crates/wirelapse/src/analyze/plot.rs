//! Time and sequence, window and flight of one connection, as SVG or PNG.

use std::path::Path;

use diagnose::{Mark, Report};
use plotters::coord::Shift;
use plotters::prelude::*;

use crate::exit::BadInput;

/// More points than a screen has columns, so that nothing visible is left out.
const POINTS: usize = 4_000;
const SIZE: (u32, u32) = (1400, 1000);

type Points = Vec<(f64, f64)>;

/// What is plotted, in seconds and bytes.
#[derive(Default)]
struct Series {
    data: Points,
    resent: Points,
    acks: Points,
    edge: Points,
    flight: Points,
    window: Points,
}

pub fn write(report: &Report, path: &Path) -> anyhow::Result<()> {
    if report.records.is_empty() {
        return Err(BadInput(format!("connection {} has no packets to plot", report.number)).into());
    }
    // An SVG names its font, but the lengths of words decide where they are put.
    let font = crate::font::read()?;
    // The process ends after the plot; the registry wants the font for as long as it lives.
    plotters::style::register_font("sans-serif", FontStyle::Normal, font.leak())
        .map_err(|_| BadInput("the font DejaVu Sans cannot be read (package fonts-dejavu-core)".into()))?;
    match path.extension().and_then(|e| e.to_str()) {
        Some("svg") => draw(&SVGBackend::new(path, SIZE).into_drawing_area(), report),
        Some("png") => draw(&BitMapBackend::new(path, SIZE).into_drawing_area(), report),
        _ => Err(BadInput(format!("{}: a plot is .svg or .png", path.display())).into()),
    }
}

/// The direction that carried more is plotted.
fn series(report: &Report, to_server: bool) -> Series {
    let mut s = Series::default();
    let stride = report.records.len().div_ceil(POINTS);
    let mut last_ack = 0u64;
    for (i, r) in report.records.iter().enumerate() {
        let t = r.segment.at.as_nanos().saturating_sub(report.start_ns) as f64 / 1e9;
        let kept = i % stride == 0;
        if r.to_server == to_server {
            if r.segment.payload > 0
                && let Some(seq) = r.seq
            {
                let end = (seq + u64::from(r.segment.payload)) as f64;
                if matches!(r.mark, Mark::Resent(_)) {
                    s.resent.push((t, end));
                } else if kept {
                    s.data.push((t, end));
                }
            }
            if kept {
                s.flight.push((t, f64::from(r.in_flight)));
            }
        } else if let Some(ack) = r.ack {
            last_ack = last_ack.max(ack);
            if kept {
                s.acks.push((t, last_ack as f64));
                s.edge.push((t, (last_ack + r.window) as f64));
                s.window.push((t, r.window as f64));
            }
        }
    }
    s
}

fn draw<B: DrawingBackend>(root: &DrawingArea<B, Shift>, report: &Report) -> anyhow::Result<()>
where
    B::ErrorType: 'static,
{
    let to_server = report.to_server.unique_bytes > report.to_client.unique_bytes;
    let s = series(report, to_server);
    root.fill(&WHITE)?;
    let title = format!(
        "connection {}: {} > {}, {}",
        report.number,
        report.client,
        report.server,
        if to_server { "to the server" } else { "to the client" }
    );
    let (upper, lower) = root.titled(&title, ("sans-serif", 20))?.split_vertically(600);
    let end = report.duration_ns.as_secs_f64().max(1e-6);
    let top = |of: &[&Points]| of.iter().flat_map(|p| p.iter()).map(|p| p.1).fold(1.0, f64::max) * 1.05;

    // The window's edge would dwarf a short transfer, so the scale follows the data.
    let height = top(&[&s.data, &s.resent, &s.acks]);
    let mut chart = ChartBuilder::on(&upper)
        .margin(10)
        .x_label_area_size(30)
        .y_label_area_size(90)
        .caption("bytes over time", ("sans-serif", 16))
        .build_cartesian_2d(0.0..end, 0.0..height)?;
    chart.configure_mesh().x_desc("seconds").y_desc("position in the stream, bytes").light_line_style(WHITE).draw()?;
    let edge: Points = s.edge.iter().copied().filter(|p| p.1 <= height).collect();
    chart
        .draw_series(LineSeries::new(edge, RGBColor(120, 120, 120)))?
        .label("window's edge")
        .legend(|(x, y)| PathElement::new([(x, y), (x + 15, y)], RGBColor(120, 120, 120)));
    chart
        .draw_series(LineSeries::new(s.acks, GREEN))?
        .label("acknowledged")
        .legend(|(x, y)| PathElement::new([(x, y), (x + 15, y)], GREEN));
    chart
        .draw_series(s.data.iter().map(|p| Circle::new(*p, 1, BLUE.filled())))?
        .label("data")
        .legend(|(x, y)| Circle::new((x + 7, y), 3, BLUE.filled()));
    chart
        .draw_series(s.resent.iter().map(|p| Circle::new(*p, 3, RED.filled())))?
        .label("sent again")
        .legend(|(x, y)| Circle::new((x + 7, y), 3, RED.filled()));
    chart
        .configure_series_labels()
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK)
        .position(SeriesLabelPosition::UpperLeft)
        .draw()?;

    let height = top(&[&s.flight, &s.window]);
    let mut chart = ChartBuilder::on(&lower)
        .margin(10)
        .x_label_area_size(30)
        .y_label_area_size(90)
        .caption("window and flight", ("sans-serif", 16))
        .build_cartesian_2d(0.0..end, 0.0..height)?;
    chart.configure_mesh().x_desc("seconds").y_desc("bytes").light_line_style(WHITE).draw()?;
    chart
        .draw_series(LineSeries::new(s.window, RGBColor(120, 120, 120)))?
        .label("receive window")
        .legend(|(x, y)| PathElement::new([(x, y), (x + 15, y)], RGBColor(120, 120, 120)));
    chart
        .draw_series(LineSeries::new(s.flight, BLUE))?
        .label("in flight")
        .legend(|(x, y)| PathElement::new([(x, y), (x + 15, y)], BLUE));
    chart
        .configure_series_labels()
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK)
        .position(SeriesLabelPosition::UpperLeft)
        .draw()?;
    root.present()?;
    Ok(())
}
