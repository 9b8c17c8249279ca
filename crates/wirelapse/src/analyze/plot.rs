//! Time and sequence, window and flight of one connection, as SVG or PNG.

use std::path::Path;

use diagnose::{Mark, Report};
use plotters::coord::Shift;
use plotters::coord::types::RangedCoordf64;
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

type Chart<'a, B> = ChartContext<'a, B, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

const GREY: RGBColor = RGBColor(120, 120, 120);

/// An empty chart of seconds up to `end` and bytes up to `height`.
fn chart<'a, B: DrawingBackend + 'a>(
    area: &DrawingArea<B, Shift>,
    caption: &str,
    bytes: &str,
    (end, height): (f64, f64),
) -> anyhow::Result<Chart<'a, B>>
where
    B::ErrorType: 'static,
{
    let mut chart = ChartBuilder::on(area)
        .margin(10)
        .x_label_area_size(30)
        .y_label_area_size(90)
        .caption(caption, ("sans-serif", 16))
        .build_cartesian_2d(0.0..end, 0.0..height)?;
    chart.configure_mesh().x_desc("seconds").y_desc(bytes).light_line_style(WHITE).draw()?;
    Ok(chart)
}

fn line<B: DrawingBackend>(
    chart: &mut Chart<'_, B>,
    points: Points,
    colour: RGBColor,
    label: &str,
) -> anyhow::Result<()>
where
    B::ErrorType: 'static,
{
    chart
        .draw_series(LineSeries::new(points, colour))?
        .label(label)
        .legend(move |(x, y)| PathElement::new([(x, y), (x + 15, y)], colour));
    Ok(())
}

fn dots<B: DrawingBackend>(
    chart: &mut Chart<'_, B>,
    points: &Points,
    (size, colour): (u32, RGBColor),
    label: &str,
) -> anyhow::Result<()>
where
    B::ErrorType: 'static,
{
    chart
        .draw_series(points.iter().map(|p| Circle::new(*p, size, colour.filled())))?
        .label(label)
        .legend(move |(x, y)| Circle::new((x + 7, y), 3, colour.filled()));
    Ok(())
}

fn legend<'a, B: DrawingBackend + 'a>(chart: &mut Chart<'a, B>) -> anyhow::Result<()>
where
    B::ErrorType: 'static,
{
    chart
        .configure_series_labels()
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK)
        .position(SeriesLabelPosition::UpperLeft)
        .draw()?;
    Ok(())
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
    let mut above = chart(&upper, "bytes over time", "position in the stream, bytes", (end, height))?;
    let edge: Points = s.edge.iter().copied().filter(|p| p.1 <= height).collect();
    line(&mut above, edge, GREY, "window's edge")?;
    line(&mut above, s.acks, GREEN, "acknowledged")?;
    dots(&mut above, &s.data, (1, BLUE), "data")?;
    dots(&mut above, &s.resent, (3, RED), "sent again")?;
    legend(&mut above)?;

    let height = top(&[&s.flight, &s.window]);
    let mut below = chart(&lower, "window and flight", "bytes", (end, height))?;
    line(&mut below, s.window, GREY, "receive window")?;
    line(&mut below, s.flight, BLUE, "in flight")?;
    legend(&mut below)?;
    root.present()?;
    Ok(())
}
