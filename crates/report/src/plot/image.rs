//! Plots as SVG and PNG, drawn with plotters.

use plotters::coord::Shift;
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::{Axis, Hue, Layer, Plot, Scale, pieces};

/// Why a plot could not be drawn.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Drawing failed.
    #[error("cannot draw the plot {id}: {why}")]
    Draw {
        /// The plot.
        id: String,
        /// Why.
        why: String,
    },
}

/// The letters of all plots: part of this program, so that images look the same on every machine.
const FONT: &[u8] = include_bytes!("../../assets/DejaVuSans.ttf");

/// Gives plotters the font, once for a process. A font that it refuses shows as a failure to draw.
fn register_font() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| _ = plotters::style::register_font("sans-serif", FontStyle::Normal, FONT).is_ok());
}

const WIDTH: u32 = 1_000;
/// Pixels left of what is written.
const MARGIN: i32 = 14;
/// Pixels from one row of the legend to the next.
const LEGEND_ROW: i32 = 20;
const TITLE: u32 = 64;
const LETTER: f64 = 13.0;

/// Okabe and Ito's colours as they read on white paper; the same as the page's.
const PALETTE: [RGBColor; 8] = [
    RGBColor(0x00, 0x72, 0xb2),
    RGBColor(0xd5, 0x5e, 0x00),
    RGBColor(0x00, 0x7a, 0x5a),
    RGBColor(0xb5, 0x79, 0x00),
    RGBColor(0x3f, 0x9b, 0xd0),
    RGBColor(0xb5, 0x56, 0x8a),
    RGBColor(0x4a, 0x52, 0x5c),
    RGBColor(0x7a, 0x5c, 0xc4),
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

/// The size of several plots, one above the other.
fn size(plots: &[Plot]) -> (u32, u32) {
    (WIDTH, plots.iter().map(height).sum::<u32>().max(1))
}

/// A name in the legend, with the pixels that it takes.
struct Key {
    name: String,
    hue: Hue,
    dashed: bool,
    width: i32,
}

/// The legend in rows; none where one plain series needs no name.
fn legend(plot: &Plot) -> Vec<Vec<Key>> {
    let mut named: Vec<(&str, Hue, bool)> = Vec::new();
    for key in plot.layers.iter().filter_map(Layer::key) {
        if !named.iter().any(|k| k.0 == key.0) {
            named.push(key);
        }
    }
    if named.len() < 2 && !named.iter().any(|k| k.2) {
        return Vec::new();
    }
    let mut rows: Vec<Vec<Key>> = vec![Vec::new()];
    let mut x = MARGIN;
    for (name, hue, dashed) in named {
        let name = cut(name, 240.0);
        let width = text_width(&name, LETTER) as i32 + 44;
        if x + width > WIDTH as i32 && x > MARGIN {
            rows.push(Vec::new());
            x = MARGIN;
        }
        x += width;
        rows.iter_mut()
            .next_back()
            .into_iter()
            .for_each(|row| row.push(Key { name: name.clone(), hue, dashed, width }));
    }
    rows
}

/// The height of the legend's rows but the first.
fn further_rows(plot: &Plot) -> u32 {
    legend(plot).len().saturating_sub(1) as u32 * LEGEND_ROW as u32
}

/// Plots, one above the other, as the text of an SVG file.
///
/// # Errors
/// [`Error::Draw`].
pub fn svg(plots: &[Plot]) -> Result<String, Error> {
    register_font();
    let mut text = String::new();
    draw(SVGBackend::with_string(&mut text, size(plots)).into_drawing_area(), plots)?;
    Ok(text)
}

/// Plots, one above the other, as the bytes of a PNG file.
///
/// # Errors
/// [`Error::Draw`].
pub fn png(plots: &[Plot]) -> Result<Vec<u8>, Error> {
    register_font();
    let (width, height) = size(plots);
    let mut pixels = vec![0; width as usize * height as usize * 3];
    draw(BitMapBackend::with_buffer(&mut pixels, (width, height)).into_drawing_area(), plots)?;
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let encoded = encoder.write_header().and_then(|mut writer| {
        writer.write_image_data(&pixels)?;
        writer.finish()
    });
    encoded.map_err(|e| Error::Draw {
        id: plots.iter().map(|p| p.id.as_str()).collect::<Vec<_>>().join(", "),
        why: e.to_string(),
    })?;
    Ok(file)
}

fn draw<B: DrawingBackend>(area: DrawingArea<B, Shift>, plots: &[Plot]) -> Result<(), Error>
where
    B::ErrorType: 'static,
{
    let mut rest = area;
    for plot in plots {
        let (own, below) = rest.split_vertically(height(plot));
        let drawn = Frame::around(plot).draw(&own, plot).and_then(|()| own.present());
        drawn.map_err(|e| Error::Draw { id: plot.id.clone(), why: e.to_string() })?;
        rest = below;
    }
    Ok(())
}

type Drawn<B> = Result<(), DrawingAreaErrorKind<<B as DrawingBackend>::ErrorType>>;

/// Where the axes stand, in pixels.
struct Frame {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    /// Room for the words of the vertical axis.
    words: f64,
    /// A first name at the top rather than the bottom.
    downwards: bool,
}

fn text_width(text: &str, letter: f64) -> f64 {
    text.chars().count() as f64 * letter * 0.56
}

/// Cut to a number of pixels.
fn cut(text: &str, room: f64) -> String {
    let letters = (room / (LETTER * 0.56)) as usize;
    if text.chars().count() <= letters {
        return text.to_owned();
    }
    // Names that begin alike differ at their ends, so what is cut is the middle.
    let (front, n) = ((letters * 45).div_ceil(100), text.chars().count());
    let back = letters.saturating_sub(front + 1);
    text.chars().take(front).chain(['…']).chain(text.chars().skip(n - back)).collect()
}

/// A path in parts that never turn back by more than a right angle: plotters' bitmaps lose the strokes of a sharper turn.
fn unfolded(path: &[(i32, i32)]) -> Vec<Vec<(i32, i32)>> {
    let mut parts: Vec<Vec<(i32, i32)>> = Vec::new();
    for &to in path {
        match parts.last_mut().map(Vec::as_mut_slice) {
            Some([.., last]) if *last == to => {}
            Some([.., before, last])
                if (last.0 - before.0) * (to.0 - last.0) + (last.1 - before.1) * (to.1 - last.1) < 0 =>
            {
                let turn = *last;
                parts.push(vec![turn, to]);
            }
            Some(_) => parts.iter_mut().next_back().into_iter().for_each(|part| part.push(to)),
            None => parts.push(vec![to]),
        }
    }
    parts
}

/// Broken at spaces into lines of at most so many pixels; what two lines do not hold is cut.
fn two_lines(text: &str, room: f64) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let last = lines.len() - 1;
        if !lines[last].is_empty() && text_width(&lines[last], LETTER) + text_width(word, LETTER) + 6.0 > room {
            if lines.len() == 2 {
                lines[last].push('…');
                return lines;
            }
            lines.push(String::new());
        }
        let last = lines.len() - 1;
        if !lines[last].is_empty() {
            lines[last].push(' ');
        }
        lines[last].push_str(word);
    }
    lines
}

impl Frame {
    fn around(plot: &Plot) -> Self {
        let named = matches!(plot.y.scale, Scale::Names { .. });
        let room = if named { 430.0 } else { 110.0 };
        let ticks = plot.y.ticks(6);
        let longest = ticks.iter().map(|t| text_width(&t.1, LETTER)).fold(0.0, f64::max).min(room);
        let title = if plot.y.label.is_empty() || named { 12.0 } else { 34.0 };
        Self {
            left: longest + title + 10.0,
            right: f64::from(WIDTH) - 24.0,
            top: f64::from(TITLE + further_rows(plot)) + 28.0,
            bottom: f64::from(height(plot)) - if Self::slanted(plot, WIDTH) { 110.0 } else { 52.0 },
            words: longest + 1.0,
            downwards: named,
        }
    }

    fn slanted(plot: &Plot, width: u32) -> bool {
        let Scale::Names { names } = &plot.x.scale else { return false };
        let each = f64::from(width) * 0.85 / names.len().max(1) as f64;
        names.iter().any(|n| text_width(n, LETTER) > each)
    }

    fn x(&self, axis: &Axis, value: f64) -> i32 {
        (self.left + axis.place(value).clamp(-0.001, 1.001) * (self.right - self.left)).round() as i32
    }

    fn y(&self, axis: &Axis, value: f64) -> i32 {
        let place = axis.place(value).clamp(-0.001, 1.001);
        let up = if self.downwards { 1.0 - place } else { place };
        (self.bottom - up * (self.bottom - self.top)).round() as i32
    }

    fn draw<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>, plot: &Plot) -> Drawn<B>
    where
        B::ErrorType: 'static,
    {
        area.fill(&WHITE)?;
        let letters = |size: f64, ink: RGBColor, h: HPos, v: VPos| {
            ("sans-serif", size).into_font().color(&ink).pos(Pos::new(h, v)).into_text_style(area)
        };
        let write =
            |text: &str, style: TextStyle<'_>, x: i32, y: i32| area.draw(&Text::new(text.to_owned(), (x, y), style));
        write(&cut(&plot.title, 1_250.0), letters(17.0, INK, HPos::Left, VPos::Top), 14, 8)?;
        for (i, line) in (0i32..).zip(two_lines(&plot.caption, f64::from(WIDTH) - 40.0)) {
            write(&line, letters(LETTER, FAINT, HPos::Left, VPos::Top), 14, 30 + i * 16)?;
        }
        self.legend(area, plot)?;
        let [left, right, top, bottom] = [self.left, self.right, self.top, self.bottom].map(|v| v.round() as i32);
        let rule =
            |from: (i32, i32), to: (i32, i32), style: ShapeStyle| area.draw(&PathElement::new(vec![from, to], style));
        let names_on_x = matches!(plot.x.scale, Scale::Names { .. });
        let slanted = Self::slanted(plot, WIDTH);
        let mut free_from = f64::NEG_INFINITY;
        for (value, words) in plot.x.ticks(7) {
            let x = self.x(&plot.x, value);
            if !names_on_x {
                rule((x, top), (x, bottom), GRID.into())?;
            }
            rule((x, bottom), (x, bottom + 5), FAINT.into())?;
            let half = text_width(&words, LETTER) / 2.0 + 3.0;
            if slanted {
                // Plotters turns text by quarters only; names that are long stand upright.
                if f64::from(x) >= free_from {
                    let style = ("sans-serif", LETTER).into_font().transform(FontTransform::Rotate90).color(&FAINT);
                    let style = style.pos(Pos::new(HPos::Left, VPos::Center)).into_text_style(area);
                    area.draw(&Text::new(cut(&words, 86.0), (x, bottom + 8), style))?;
                    free_from = f64::from(x) + LETTER + 3.0;
                }
            } else if f64::from(x) - half >= free_from {
                write(&words, letters(LETTER, FAINT, HPos::Center, VPos::Top), x, bottom + 8)?;
                free_from = f64::from(x) + half;
            }
        }
        for (value, words) in plot.y.ticks(6) {
            let y = self.y(&plot.y, value);
            if !self.downwards {
                rule((left, y), (right, y), GRID.into())?;
            }
            rule((left - 5, y), (left, y), FAINT.into())?;
            write(&cut(&words, self.words), letters(LETTER, FAINT, HPos::Right, VPos::Center), left - 9, y)?;
        }
        rule((left, top), (left, bottom), FAINT.into())?;
        rule((left, bottom), (right, bottom), FAINT.into())?;
        let lowest = area.dim_in_pixel().1 as i32 - 18;
        write(&plot.x.label, letters(LETTER, INK, HPos::Center, VPos::Center), i32::midpoint(left, right), lowest)?;
        if self.downwards {
            write(&plot.y.label, letters(LETTER, INK, HPos::Left, VPos::Bottom), 14, top - 4)?;
        } else if !plot.y.label.is_empty() {
            let style = ("sans-serif", LETTER).into_font().transform(FontTransform::Rotate270).color(&INK);
            let style = style.pos(Pos::new(HPos::Center, VPos::Center)).into_text_style(area);
            area.draw(&Text::new(plot.y.label.clone(), (14, i32::midpoint(top, bottom)), style))?;
        }
        plot.layers.iter().try_for_each(|layer| self.layer(area, plot, layer))
    }

    fn legend<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>, plot: &Plot) -> Drawn<B>
    where
        B::ErrorType: 'static,
    {
        let mut y = TITLE as i32 + 14;
        for row in legend(plot) {
            let mut x = MARGIN;
            for key in row {
                self.stroke(area, &[(x, y), (x + 22, y)], colour(key.hue).stroke_width(3), key.dashed)?;
                let style = ("sans-serif", LETTER).into_font().color(&INK).pos(Pos::new(HPos::Left, VPos::Center));
                area.draw(&Text::new(key.name, (x + 28, y), style.into_text_style(area)))?;
                x += key.width;
            }
            y += LEGEND_ROW;
        }
        Ok(())
    }

    fn stroke<B: DrawingBackend>(
        &self,
        area: &DrawingArea<B, Shift>,
        path: &[(i32, i32)],
        style: ShapeStyle,
        dashed: bool,
    ) -> Drawn<B>
    where
        B::ErrorType: 'static,
    {
        if dashed {
            return area.draw(&DashedPathElement::new(path.to_vec(), 6, 4, style));
        }
        unfolded(path).into_iter().try_for_each(|part| area.draw(&PathElement::new(part, style)))
    }

    fn layer<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>, plot: &Plot, layer: &Layer) -> Drawn<B>
    where
        B::ErrorType: 'static,
    {
        let (x, y) = (|v: f64| self.x(&plot.x, v), |v: f64| self.y(&plot.y, v));
        let row = f64::from((y(1.0) - y(0.0)).abs());
        let half = (row * 0.31).clamp(2.0, 10.0) as i32;
        let bar = |from: (i32, i32), to: (i32, i32), style: ShapeStyle| area.draw(&Rectangle::new([from, to], style));
        match layer {
            Layer::Line { name, hue, points, step, dashed } => {
                let thin = name.is_empty() && *hue == Hue::NEUTRAL;
                let ink = colour(*hue).mix(if thin { 0.45 } else { 1.0 });
                let style = ink.stroke_width(if thin { 1 } else { 2 });
                for piece in pieces(points) {
                    let mut path: Vec<(i32, i32)> = Vec::with_capacity(piece.len() * 2);
                    for p in piece {
                        let to = (x(p[0]), y(p[1]));
                        if let (true, Some(&(_, before))) = (step, path.last()) {
                            path.push((to.0, before));
                        }
                        path.push(to);
                    }
                    match path.as_slice() {
                        // A line of one point is nothing to see.
                        [alone] => area.draw(&Circle::new(*alone, 2, ink.filled()))?,
                        _ => self.stroke(area, &path, style, *dashed)?,
                    }
                }
                Ok(())
            }
            Layer::Dots { hue, points, .. } => points
                .iter()
                .filter(|p| p[0].is_finite() && p[1].is_finite())
                .try_for_each(|p| area.draw(&Circle::new((x(p[0]), y(p[1])), 3, colour(*hue).mix(0.75).filled()))),
            Layer::Intervals { hue, items, .. } => {
                let style = colour(*hue).stroke_width(2);
                let turn = |along: i32, across: i32| if self.downwards { (along, across) } else { (across, along) };
                items.iter().try_for_each(|i| {
                    let along = |v: f64| if self.downwards { x(v) } else { y(v) };
                    let at = if self.downwards { y(i.at) } else { x(i.at) };
                    let (low, value, high) = (along(i.low), along(i.value), along(i.high));
                    for (from, to) in [
                        (turn(low, at), turn(high, at)),
                        (turn(low, at - 5), turn(low, at + 5)),
                        (turn(high, at - 5), turn(high, at + 5)),
                    ] {
                        area.draw(&PathElement::new(vec![from, to], style))?;
                    }
                    area.draw(&Circle::new(turn(value, at), 4, colour(*hue).filled()))
                })
            }
            Layer::Boxes { hue, items, .. } => items.iter().try_for_each(|b| {
                let ([p0, p1, p2, p3, p4], at) = (b.figures.map(x), y(b.at));
                let line = colour(*hue).stroke_width(2);
                bar((p1, at - half), (p3.max(p1 + 1), at + half), colour(*hue).mix(0.3).filled())?;
                for path in [
                    vec![(p0, at), (p4, at)],
                    vec![(p0, at - half / 2), (p0, at + half / 2)],
                    vec![(p4, at - half / 2), (p4, at + half / 2)],
                    vec![(p1, at - half), (p3, at - half), (p3, at + half), (p1, at + half), (p1, at - half)],
                ] {
                    area.draw(&PathElement::new(path, line))?;
                }
                area.draw(&PathElement::new(vec![(p2, at - half), (p2, at + half)], colour(*hue).stroke_width(3)))
            }),
            Layer::Spans { hue, items, .. } => items.iter().try_for_each(|s| {
                let (from, to, at) = (x(s.from), x(s.to), y(s.at));
                bar((from, at - half), (to.max(from + 1), at + half), colour(*hue).filled())
            }),
            Layer::Heat { cells, .. } => cells.iter().try_for_each(|c| {
                let (from, to) = ((x(c.x[0]), y(c.y[1])), (x(c.x[1]), y(c.y[0])));
                let (from, to) = ((from.0, from.1.min(to.1)), (to.0.max(from.0 + 1), from.1.max(to.1)));
                bar(from, to, PALETTE[0].mix(0.12 + 0.88 * c.shade.clamp(0.0, 1.0)).filled())
            }),
            Layer::Rule { upright, value, .. } => {
                let [left, right, top, bottom] =
                    [self.left, self.right, self.top, self.bottom].map(|v| v.round() as i32);
                let path = if *upright {
                    [(x(*value), top), (x(*value), bottom)]
                } else {
                    [(left, y(*value)), (right, y(*value))]
                };
                self.stroke(area, &path, PALETTE[6].stroke_width(2), true)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::unfolded;

    #[test]
    fn a_path_is_broken_where_it_turns_back_and_nowhere_else() {
        let step = [(0, 5), (3, 5), (3, 9), (3, 9), (7, 9)];
        assert_eq!(unfolded(&step), [vec![(0, 5), (3, 5), (3, 9), (7, 9)]]);
        let spike = [(0, 5), (3, 5), (3, 9), (3, 2), (7, 2)];
        assert_eq!(unfolded(&spike), [vec![(0, 5), (3, 5), (3, 9)], vec![(3, 9), (3, 2), (7, 2)]]);
        assert_eq!(unfolded(&[(1, 1), (1, 1)]), [vec![(1, 1)]]);
        assert!(unfolded(&[]).is_empty());
    }
}
