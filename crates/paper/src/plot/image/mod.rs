//! Plots and graphs as SVG and PNG, drawn with plotters.

mod frame;
mod graph;
mod keys;
mod layer;
mod legend;
mod words;

use plotters::coord::Shift;
use plotters::prelude::*;

use super::{Hue, Plot};
use crate::graph::Graph;
use frame::Frame;
use keys::{further_rows, keys};

/// Why something could not be drawn.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Drawing failed.
    #[error("cannot draw {id}: {why}")]
    Draw {
        /// The plot or graph.
        id: String,
        /// Why.
        why: String,
    },
}

/// The letters of all plots: part of this program, so that images look the same on every machine.
const FONT: &[u8] = include_bytes!("../../../assets/DejaVuSans.ttf");

/// Gives plotters the font, once for a process. A font that it refuses shows as a failure to draw.
fn register_font() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| _ = plotters::style::register_font("sans-serif", FontStyle::Normal, FONT).is_ok());
}

const WIDTH: u32 = 1_000;
const TITLE: u32 = 64;
const LETTER: f64 = 13.0;

/// Okabe and Ito's colours as they read on white paper; the same as the page's.
const PALETTE: [RGBColor; 12] = [
    RGBColor(0x00, 0x72, 0xb2),
    RGBColor(0xd5, 0x5e, 0x00),
    RGBColor(0x00, 0x7a, 0x5a),
    RGBColor(0xb5, 0x79, 0x00),
    RGBColor(0x3f, 0x9b, 0xd0),
    RGBColor(0xb5, 0x56, 0x8a),
    RGBColor(0x4a, 0x52, 0x5c),
    RGBColor(0x7a, 0x5c, 0xc4),
    RGBColor(0x2f, 0x4b, 0x9a),
    RGBColor(0x8c, 0x4a, 0x2f),
    RGBColor(0x6b, 0x7a, 0x00),
    RGBColor(0xa3, 0x00, 0x2f),
];
const FAINT: RGBColor = RGBColor(0x5b, 0x64, 0x70);
const GRID: RGBColor = RGBColor(0xe3, 0xe6, 0xea);
const INK: RGBColor = RGBColor(0x1b, 0x1f, 0x24);

fn colour(hue: Hue) -> RGBColor {
    PALETTE[usize::from(hue.0) % PALETTE.len()]
}

fn height(plot: &Plot) -> u32 {
    plot.height() + TITLE + 40 + further_rows(plot)
}

/// What an image shows.
trait Picture {
    /// Its name, for whoever has to know what could not be drawn.
    fn id(&self) -> String;

    /// Width and height, pixels.
    fn size(&self) -> (u32, u32);

    fn draw<B: DrawingBackend>(&self, area: DrawingArea<B, Shift>) -> Result<(), Error>
    where
        B::ErrorType: 'static;
}

/// Plots, one above the other, as the text of an SVG file.
///
/// # Errors
/// [`Error::Draw`].
pub fn svg(plots: &[Plot]) -> Result<String, Error> {
    svg_of(plots)
}

/// Plots, one above the other, as the bytes of a PNG file.
///
/// # Errors
/// [`Error::Draw`].
pub fn png(plots: &[Plot]) -> Result<Vec<u8>, Error> {
    png_of(plots)
}

/// A graph as the text of an SVG file.
///
/// # Errors
/// [`Error::Draw`].
pub fn graph_svg(graph: &Graph) -> Result<String, Error> {
    svg_of(graph)
}

/// A graph as the bytes of a PNG file.
///
/// # Errors
/// [`Error::Draw`].
pub fn graph_png(graph: &Graph) -> Result<Vec<u8>, Error> {
    png_of(graph)
}

fn svg_of<P: Picture + ?Sized>(picture: &P) -> Result<String, Error> {
    register_font();
    let mut text = String::new();
    picture.draw(SVGBackend::with_string(&mut text, picture.size()).into_drawing_area())?;
    Ok(text)
}

fn png_of<P: Picture + ?Sized>(picture: &P) -> Result<Vec<u8>, Error> {
    register_font();
    let (width, height) = picture.size();
    let mut pixels = vec![0; width as usize * height as usize * 3];
    picture.draw(BitMapBackend::with_buffer(&mut pixels, (width, height)).into_drawing_area())?;
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let encoded = encoder.write_header().and_then(|mut writer| {
        writer.write_image_data(&pixels)?;
        writer.finish()
    });
    encoded.map_err(|e| Error::Draw { id: picture.id(), why: e.to_string() })?;
    Ok(file)
}

impl Picture for [Plot] {
    fn id(&self) -> String {
        self.iter().map(|plot| plot.id.as_str()).collect::<Vec<_>>().join(", ")
    }

    fn size(&self) -> (u32, u32) {
        (WIDTH, self.iter().map(height).sum::<u32>().max(1))
    }

    fn draw<B: DrawingBackend>(&self, area: DrawingArea<B, Shift>) -> Result<(), Error>
    where
        B::ErrorType: 'static,
    {
        let mut rest = area;
        for plot in self {
            let (own, below) = rest.split_vertically(height(plot));
            let frame = Frame::around(plot);
            let drawn = frame
                .axes(&own, plot)
                .and_then(|()| legend::legend(&own, keys(plot)))
                .and_then(|()| plot.lettered().try_for_each(|(layer, letter)| frame.layer(&own, plot, layer, letter)))
                .and_then(|()| own.present());
            drawn.map_err(|e| Error::Draw { id: plot.id.clone(), why: e.to_string() })?;
            rest = below;
        }
        Ok(())
    }
}
