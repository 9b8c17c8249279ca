//! A graph as a description: boxes, and lines between them. A page draws it ([`crate::html`]), and
//! so does an image ([`crate::plot::image`]); a terminal has the table beside it.

mod layout;

pub use crate::hue::Hue;
use crate::plot::names::{apart, without_middle};
use crate::text::Text;
pub use layout::{BOX, Drawing, MARK, Rect};

/// Letters that a box has room for.
const LETTERS: usize = 24;
/// The thinnest and the thickest line, pixels.
const THICK: [f64; 2] = [1.2, 6.0];
/// Length and half the width of an arrowhead, pixels.
const HEAD: [f64; 2] = [9.0, 5.0];

/// A box.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Node {
    /// What it is called.
    pub name: Text,
    /// Where it is, below its name; empty for nowhere.
    pub place: String,
    /// Whether its outline is dashed: it is not what the graph is of.
    pub faint: bool,
    /// What it says when pointed at.
    pub label: String,
}

/// A line from one box to another.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Edge {
    /// The box that it begins at, by its index.
    pub from: usize,
    /// The box that it ends at.
    pub to: usize,
    /// Whether it has an arrowhead.
    pub directed: bool,
    /// Its colour.
    pub hue: Hue,
    /// How thick it is, 0 to 1.
    pub weight: f64,
    /// What is written on it: a few characters.
    pub mark: String,
    /// What it says when pointed at.
    pub label: String,
}

/// A graph.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Graph {
    /// Its name in a link: letters, digits and dashes.
    pub id: String,
    /// What it shows.
    pub title: String,
    /// How to read it, and what was omitted.
    pub caption: String,
    /// The boxes.
    pub nodes: Vec<Node>,
    /// The lines. One with an end that is no box is not drawn.
    pub edges: Vec<Edge>,
    /// What the colours say.
    pub keys: Vec<(Hue, String)>,
}

impl Graph {
    /// Where everything of it is drawn: the same for the same graph.
    pub fn drawing(&self) -> Drawing {
        let n = self.nodes.len();
        let ends: Vec<Option<[usize; 2]>> =
            self.edges.iter().map(|edge| (edge.from < n && edge.to < n).then_some([edge.from, edge.to])).collect();
        layout::of(n, &ends)
    }

    /// What is written in each box first: its name, as far as there is room and still different
    /// from the others.
    pub(crate) fn names(&self) -> Vec<String> {
        let names: Vec<String> = self.nodes.iter().map(|node| node.name.to_string()).collect();
        apart(&names, &|name| without_middle(name, LETTERS))
    }
}

impl Node {
    /// What is written below the name, where there is room for it.
    pub(crate) fn below(&self) -> String {
        without_middle(&self.place, LETTERS)
    }
}

impl Edge {
    /// How thick its line is, pixels.
    pub(crate) fn thickness(&self) -> f64 {
        THICK[0] + (THICK[1] - THICK[0]) * self.weight.clamp(0.0, 1.0)
    }
}

/// The corners of an arrowhead at the end of a line, which arrives level.
pub(crate) fn head(line: &[[f64; 2]]) -> Option<[[f64; 2]; 3]> {
    let [.., before, [x, y]] = line else { return None };
    let back = if before[0] <= *x { -HEAD[0] } else { HEAD[0] };
    Some([[*x, *y], [x + back, y - HEAD[1]], [x + back, y + HEAD[1]]])
}
