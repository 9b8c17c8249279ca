//! The axes of an image: where they stand, their ticks and their words.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::keys::{MARGIN, further_rows};
use super::words::{cut, text_width, two_lines};
use super::{FAINT, GRID, INK, LETTER, TITLE, WIDTH, height};
use crate::plot::names::apart;
use crate::plot::{Axis, Plot, Scale};

pub(super) type Drawn<B> = Result<(), DrawingAreaErrorKind<<B as DrawingBackend>::ErrorType>>;

/// Where the axes stand, in pixels.
pub(super) struct Frame {
    pub(super) left: f64,
    pub(super) right: f64,
    pub(super) top: f64,
    pub(super) bottom: f64,
    /// Room for the words of the vertical axis.
    words: f64,
    /// A first name at the top rather than the bottom.
    pub(super) downwards: bool,
}

/// Draws the title and the caption.
pub(super) fn headed<B: DrawingBackend>(area: &DrawingArea<B, Shift>, title: &str, caption: &str) -> Drawn<B>
where
    B::ErrorType: 'static,
{
    let write = |text: String, size: f64, ink: RGBColor, y: i32| {
        let style = ("sans-serif", size).into_font().color(&ink).pos(Pos::new(HPos::Left, VPos::Top));
        area.draw(&Text::new(text, (MARGIN, y), style.into_text_style(area)))
    };
    write(cut(title, 1_250.0), 17.0, INK, 8)?;
    let lines = two_lines(caption, f64::from(WIDTH) - 40.0);
    (0i32..).zip(lines).try_for_each(|(i, line)| write(line, LETTER, FAINT, 30 + i * 16))
}

impl Frame {
    pub(super) fn around(plot: &Plot) -> Self {
        let named = matches!(plot.y.scale, Scale::Names { .. });
        let room = if named { 430.0 } else { 110.0 };
        let ticks = plot.y.ticks(6);
        let longest = ticks.iter().map(|t| text_width(&t.1, LETTER)).fold(0.0, f64::max).min(room);
        let title = if plot.y.label.is_empty() || named { 12.0 } else { 34.0 };
        Self {
            left: longest + title + 10.0,
            right: f64::from(WIDTH) - 24.0,
            top: f64::from(TITLE + further_rows(plot)) + 28.0,
            bottom: f64::from(height(plot))
                - if Self::slanted(plot, WIDTH) { Self::upright(plot) + 44.0 } else { 52.0 },
            words: longest + 1.0,
            downwards: named,
        }
    }

    /// Pixels for names that stand upright: the longest, within reason.
    fn upright(plot: &Plot) -> f64 {
        let Scale::Names { names } = &plot.x.scale else { return 0.0 };
        names.iter().map(|n| text_width(&n.to_string(), LETTER) + LETTER).fold(66.0, f64::max).min(170.0)
    }

    fn slanted(plot: &Plot, width: u32) -> bool {
        let Scale::Names { names } = &plot.x.scale else { return false };
        let each = f64::from(width) * 0.85 / names.len().max(1) as f64;
        names.iter().any(|n| text_width(&n.to_string(), LETTER) > each)
    }

    pub(super) fn x(&self, axis: &Axis, value: f64) -> i32 {
        (self.left + axis.place(value).clamp(-0.001, 1.001) * (self.right - self.left)).round() as i32
    }

    pub(super) fn y(&self, axis: &Axis, value: f64) -> i32 {
        let place = axis.place(value).clamp(-0.001, 1.001);
        let up = if self.downwards { 1.0 - place } else { place };
        (self.bottom - up * (self.bottom - self.top)).round() as i32
    }

    /// Draws the words above and the axes.
    pub(super) fn axes<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>, plot: &Plot) -> Drawn<B>
    where
        B::ErrorType: 'static,
    {
        area.fill(&WHITE)?;
        headed(area, &plot.title, &plot.caption)?;
        let letters = |size: f64, ink: RGBColor, h: HPos, v: VPos| {
            ("sans-serif", size).into_font().color(&ink).pos(Pos::new(h, v)).into_text_style(area)
        };
        let write =
            |text: &str, style: TextStyle<'_>, x: i32, y: i32| area.draw(&Text::new(text.to_owned(), (x, y), style));
        let [left, right, top, bottom] = [self.left, self.right, self.top, self.bottom].map(|v| v.round() as i32);
        let rule =
            |from: (i32, i32), to: (i32, i32), style: ShapeStyle| area.draw(&PathElement::new(vec![from, to], style));
        let names_on_x = matches!(plot.x.scale, Scale::Names { .. });
        let slanted = Self::slanted(plot, WIDTH);
        let mut free_from = f64::NEG_INFINITY;
        let ticks = |axis: &Axis, about: usize, room: f64| {
            let (values, names): (Vec<f64>, Vec<String>) = axis.ticks(about).into_iter().unzip();
            values.into_iter().zip(apart(&names, &|name| cut(name, room))).collect::<Vec<_>>()
        };
        let room = if slanted { Self::upright(plot) } else { f64::INFINITY };
        for (value, words) in ticks(&plot.x, 7, room) {
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
                    area.draw(&Text::new(words, (x, bottom + 8), style))?;
                    free_from = f64::from(x) + LETTER + 3.0;
                }
            } else if f64::from(x) - half >= free_from {
                write(&words, letters(LETTER, FAINT, HPos::Center, VPos::Top), x, bottom + 8)?;
                free_from = f64::from(x) + half;
            }
        }
        for (value, words) in ticks(&plot.y, 6, self.words) {
            let y = self.y(&plot.y, value);
            if !self.downwards {
                rule((left, y), (right, y), GRID.into())?;
            }
            rule((left - 5, y), (left, y), FAINT.into())?;
            write(&words, letters(LETTER, FAINT, HPos::Right, VPos::Center), left - 9, y)?;
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
        Ok(())
    }
}
