//! The legend of an image.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::frame::Drawn;
use super::keys::{Key, LEGEND_ROW, MARGIN, Symbol};
use super::layer::{stroke, written};
use super::{INK, LETTER, TITLE, colour};

/// What stands before a name, from this place on.
fn symbol<B: DrawingBackend>(area: &DrawingArea<B, Shift>, key: &Key, (x, y): (i32, i32)) -> Drawn<B>
where
    B::ErrorType: 'static,
{
    let ink = colour(key.hue);
    let line = |width, dashed| stroke(area, &[(x, y), (x + 22, y)], ink.stroke_width(width), dashed);
    match key.symbol {
        Symbol::Line => line(3, false),
        Symbol::Dashes => line(3, true),
        Symbol::Dot => area.draw(&Circle::new((x + 11, y), 3, ink.filled())),
        Symbol::Interval => {
            line(2, false)?;
            area.draw(&Circle::new((x + 11, y), 4, ink.filled()))
        }
        Symbol::Bar(letter) => {
            area.draw(&Rectangle::new([(x, y - 7), (x + 22, y + 7)], ink.filled()))?;
            letter.map_or(Ok(()), |letter| written(area, letter, (x + 11, y)))
        }
    }
}

/// The rows of a legend, below title and caption.
pub(super) fn legend<B: DrawingBackend>(area: &DrawingArea<B, Shift>, rows: Vec<Vec<Key>>) -> Drawn<B>
where
    B::ErrorType: 'static,
{
    let mut y = TITLE as i32 + 14;
    for row in rows {
        let mut x = MARGIN;
        for key in row {
            symbol(area, &key, (x, y))?;
            let style = ("sans-serif", LETTER).into_font().color(&INK).pos(Pos::new(HPos::Left, VPos::Center));
            area.draw(&Text::new(key.name, (x + 28, y), style.into_text_style(area)))?;
            x += key.width;
        }
        y += LEGEND_ROW;
    }
    Ok(())
}
