//! What is drawn between the axes of an image.

use plotters::coord::Shift;
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::frame::{Drawn, Frame};
use super::{LETTER, PALETTE, colour};
use crate::plot::{Hue, Layer, Plot, pieces};

/// A path in parts that never turn back by more than a right angle: plotters' bitmaps lose the
/// strokes of a sharper turn.
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

/// Pixels from which on a bar has room for its letter.
const LETTERED: i32 = 14;

/// Writes the letter of a bar on it.
pub(super) fn written<B: DrawingBackend>(area: &DrawingArea<B, Shift>, letter: char, at: (i32, i32)) -> Drawn<B>
where
    B::ErrorType: 'static,
{
    let style = ("sans-serif", LETTER).into_font().color(&WHITE).pos(Pos::new(HPos::Center, VPos::Center));
    area.draw(&Text::new(letter.to_string(), at, style.into_text_style(area)))
}

/// Draws a line.
pub(super) fn stroke<B: DrawingBackend>(
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

impl Frame {
    pub(super) fn layer<B: DrawingBackend>(
        &self,
        area: &DrawingArea<B, Shift>,
        plot: &Plot,
        layer: &Layer,
        letter: Option<char>,
    ) -> Drawn<B>
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
                        _ => stroke(area, &path, style, *dashed)?,
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
                bar((from, at - half), (to.max(from + 1), at + half), colour(*hue).filled())?;
                match letter.filter(|_| to - from >= LETTERED) {
                    Some(letter) => written(area, letter, (i32::midpoint(from, to), at)),
                    None => Ok(()),
                }
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
                stroke(area, &path, PALETTE[6].stroke_width(2), true)
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
