//! A graph as an image, with its title, its caption and what its colours say.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::frame::{Drawn, headed};
use super::keys::{Key, LEGEND_ROW, Symbol, rows};
use super::layer::stroke;
use super::legend::legend;
use super::{Error, FAINT, INK, Picture, TITLE, WIDTH, colour};
use crate::graph::{self, BOX, Edge, Graph, MARK, Node, Rect};

/// Height of letters, pixels.
const LETTER: f64 = 12.0;
/// Straight pieces that a curve is drawn in.
const PIECES: u32 = 16;

/// The legend.
fn keys(graph: &Graph) -> Vec<Vec<Key>> {
    let named: Vec<_> = graph.keys.iter().map(|(hue, says)| (says.as_str(), *hue, Symbol::Line)).collect();
    if named.is_empty() { Vec::new() } else { rows(&named) }
}

/// Pixels above the drawing.
fn top(graph: &Graph) -> u32 {
    TITLE + LEGEND_ROW as u32 * keys(graph).len() as u32
}

impl Picture for Graph {
    fn id(&self) -> String {
        self.id.clone()
    }

    fn size(&self) -> (u32, u32) {
        let [width, height] = self.drawing().size.map(|pixels| pixels.ceil() as u32);
        (width.max(WIDTH), top(self) + height)
    }

    fn draw<B: DrawingBackend>(&self, area: DrawingArea<B, Shift>) -> Result<(), Error>
    where
        B::ErrorType: 'static,
    {
        let drawn = drawn(self, &area).and_then(|()| area.present());
        drawn.map_err(|why| Error::Draw { id: self.id(), why: why.to_string() })
    }
}

/// Lines lie below boxes, and boxes below what is written on lines.
fn drawn<B: DrawingBackend>(graph: &Graph, area: &DrawingArea<B, Shift>) -> Drawn<B>
where
    B::ErrorType: 'static,
{
    area.fill(&WHITE)?;
    headed(area, &graph.title, &graph.caption)?;
    legend(area, keys(graph))?;
    let drawing = graph.drawing();
    // A graph that is narrower than the words above it stands in the middle.
    let left = (f64::from(area.dim_in_pixel().0) - drawing.size[0]) / 2.0;
    let at = |[x, y]: [f64; 2]| ((left + x).round() as i32, (f64::from(top(graph)) + y).round() as i32);
    let lines = || graph.edges.iter().zip(&drawing.lines).filter(|(_, line)| line.len() > 3);
    for (edge, curves) in lines() {
        let line: Vec<(i32, i32)> = straightened(curves).into_iter().map(at).collect();
        let ink = colour(edge.hue).mix(0.75);
        stroke(area, &line, ink.stroke_width(edge.thickness().round() as u32), false)?;
        if let Some(head) = graph::head(curves).filter(|_| edge.directed) {
            area.draw(&Polygon::new(head.map(at).to_vec(), colour(edge.hue).filled()))?;
        }
    }
    for ((node, place), name) in graph.nodes.iter().zip(&drawing.boxes).zip(graph.names()) {
        boxed(area, node, name, place, at)?;
    }
    let marks = graph.edges.iter().zip(&drawing.marks).filter_map(|(edge, mark)| Some((edge, (*mark)?)));
    marks.filter(|(edge, _)| !edge.mark.is_empty()).try_for_each(|(edge, mark)| marked(area, edge, at(mark)))
}

/// A word around a place.
fn word<B: DrawingBackend>(area: &DrawingArea<B, Shift>, text: String, ink: RGBColor, at: (i32, i32)) -> Drawn<B>
where
    B::ErrorType: 'static,
{
    let style = ("sans-serif", LETTER).into_font().color(&ink).pos(Pos::new(HPos::Center, VPos::Center));
    area.draw(&Text::new(text, at, style.into_text_style(area)))
}

fn boxed<B: DrawingBackend>(
    area: &DrawingArea<B, Shift>,
    node: &Node,
    name: String,
    place: &Rect,
    at: impl Fn([f64; 2]) -> (i32, i32),
) -> Drawn<B>
where
    B::ErrorType: 'static,
{
    let ([x, y], [width, height]) = ([place.x, place.y], BOX);
    area.draw(&Rectangle::new([at([x, y]), at([x + width, y + height])], WHITE.filled()))?;
    let corners = [[x, y], [x + width, y], [x + width, y + height], [x, y + height], [x, y]].map(&at);
    // Side by side: a line that turns is dashed from its first corner on, across the others.
    corners.windows(2).try_for_each(|side| stroke(area, side, FAINT.stroke_width(1), node.faint))?;
    let middle = |down: f64| at([x + width / 2.0, y + down]);
    if node.place.is_empty() {
        return word(area, name, INK, middle(height / 2.0));
    }
    word(area, name, INK, middle(height * 0.33))?;
    word(area, node.below(), FAINT, middle(height * 0.71))
}

fn marked<B: DrawingBackend>(area: &DrawingArea<B, Shift>, edge: &Edge, at: (i32, i32)) -> Drawn<B>
where
    B::ErrorType: 'static,
{
    area.draw(&Circle::new(at, MARK as i32, WHITE.filled()))?;
    area.draw(&Circle::new(at, MARK as i32, colour(edge.hue).stroke_width(1)))?;
    word(area, edge.mark.clone(), INK, at)
}

/// Cubic Bézier curves as points that lie close together.
fn straightened(curves: &[[f64; 2]]) -> Vec<[f64; 2]> {
    let mut points: Vec<[f64; 2]> = curves.first().copied().into_iter().collect();
    for curve in curves.windows(4).step_by(3) {
        let on = |t: f64, axis: usize| {
            let weights = [(1.0 - t).powi(3), 3.0 * t * (1.0 - t).powi(2), 3.0 * t * t * (1.0 - t), t.powi(3)];
            weights.iter().zip(curve).map(|(weight, point)| weight * point[axis]).sum::<f64>()
        };
        points.extend((1..=PIECES).map(|piece| f64::from(piece) / f64::from(PIECES)).map(|t| [on(t, 0), on(t, 1)]));
    }
    points
}

#[cfg(test)]
mod tests {
    use super::super::{graph_png, graph_svg};
    use super::*;
    use crate::hue::Hue;

    fn graph() -> Graph {
        let node = |name: &str, faint| Node { name: name.into(), place: "web-1".into(), faint, label: String::new() };
        let edge = |from, to, mark: &str| Edge {
            from,
            to,
            directed: true,
            hue: Hue(1),
            weight: 0.5,
            mark: mark.into(),
            label: String::new(),
        };
        Graph {
            id: "map".into(),
            title: "Who talks to <whom>".into(),
            caption: "How to read it".into(),
            nodes: vec![node("web & co", false), node("db", false), node("192.0.2.1", true)],
            // Back to where it began, and one with an end that is no box.
            edges: vec![edge(0, 1, "1"), edge(1, 2, "2"), edge(2, 0, "3"), edge(0, 0, "4"), edge(0, 9, "5")],
            keys: vec![(Hue(1), "most time in leg network".into())],
        }
    }

    #[test]
    fn an_image_has_every_box_line_and_word_and_nothing_in_it_is_markup() {
        let svg = graph_svg(&graph()).unwrap();
        for words in
            ["Who talks to &lt;whom&gt;", "How to read it", "web &amp; co", "192.0.2.1", "most time in leg network"]
        {
            assert!(svg.contains(words), "{words}: {svg}");
        }
        let count = |what: &str| svg.matches(what).count();
        // Arrowheads, and marks of white with a rim.
        assert_eq!((count("<polygon"), count("<circle")), (4, 8), "{svg}");
        // Only the box of what is outside has an outline of dashes.
        let lone = Graph { edges: Vec::new(), keys: Vec::new(), ..graph() };
        let dashed = graph_svg(&lone).unwrap().matches("<polyline").count();
        let plain = Graph { nodes: lone.nodes.iter().map(|of| Node { faint: false, ..of.clone() }).collect(), ..lone };
        assert!(dashed > graph_svg(&plain).unwrap().matches("<polyline").count() + 20);
    }

    #[test]
    fn an_image_of_pixels_shows_the_lines_in_their_colours() {
        let file = graph_png(&graph()).unwrap();
        let mut reader = png::Decoder::new(std::io::Cursor::new(file)).read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut pixels).unwrap();
        let (width, height) = graph().size();
        assert_eq!((info.width, info.height), (width, height));
        let RGBColor(r, g, b) = colour(Hue(1));
        assert!(pixels.chunks(3).filter(|pixel| **pixel == [r, g, b]).count() > 100);
        // Nothing to draw is a title alone.
        assert!(graph_png(&Graph::default()).is_ok());
    }

    #[test]
    fn a_curve_begins_and_ends_where_it_is_said_to() {
        let line = [[0.0, 0.0], [5.0, 0.0], [5.0, 10.0], [10.0, 10.0], [12.0, 10.0], [14.0, 10.0], [16.0, 10.0]];
        let points = straightened(&line);
        assert_eq!((points.len(), points[0], points[16], points[32]), (33, line[0], line[3], line[6]));
        assert_eq!(points[8], [5.0, 5.0]);
        assert!(straightened(&[]).is_empty());
    }
}
