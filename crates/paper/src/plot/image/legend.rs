//! The legend of an image.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::frame::{Drawn, Frame};
use super::keys::{LEGEND_ROW, MARGIN, keys};
use super::{INK, LETTER, TITLE, colour};
use crate::plot::Plot;

impl Frame {
    pub(super) fn legend<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>, plot: &Plot) -> Drawn<B>
    where
        B::ErrorType: 'static,
    {
        let mut y = TITLE as i32 + 14;
        for row in keys(plot) {
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
}
