//! A graph as a description: boxes, and lines between them. A page draws it ([`crate::html`]); a
//! terminal has the table beside it.

mod layout;

pub use crate::hue::Hue;
use crate::text::Text;
pub use layout::{BOX, Drawing, MARK, Rect};

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
}
