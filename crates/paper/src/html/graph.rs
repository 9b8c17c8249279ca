//! A graph on a page: drawn here, so that it needs no script.

use maud::{Markup, html};

use super::{Place, link_to};
use crate::graph::{self, BOX, Graph, Hue, MARK};

fn ink(hue: Hue) -> String {
    format!("var(--h{})", hue.0)
}

/// The curves of a line as a path.
fn path(line: &[[f64; 2]]) -> String {
    let at = |[x, y]: &[f64; 2]| format!("{x:.1} {y:.1}");
    let curves = line[1..].chunks(3).map(|of| format!(" C {}", of.iter().map(at).collect::<Vec<_>>().join(", ")));
    format!("M {}{}", at(&line[0]), curves.collect::<String>())
}

/// An arrowhead at the end of a line.
fn head(line: &[[f64; 2]]) -> String {
    let corners = graph::head(line).into_iter().flatten().map(|[x, y]| format!("{x:.1} {y:.1}"));
    format!("M {} Z", corners.collect::<Vec<_>>().join(" L "))
}

/// The graph with its title, its caption and what its colours say.
pub(super) fn figure(graph: &Graph, place: &mut Place) -> Markup {
    let name = place.anchors.of(&graph.id);
    let drawing = graph.drawing();
    let [width, height] = drawing.size;
    let names = graph.names();
    let lines =
        || graph.edges.iter().zip(drawing.lines.iter().zip(&drawing.marks)).filter(|(_, (line, _))| line.len() > 3);
    html! {
        figure.wide id=(name) {
            figcaption {
                h3 { (graph.title) (link_to(&name)) }
                p { (graph.caption) }
            }
            @if !graph.keys.is_empty() {
                ul.legend {
                    @for (hue, says) in &graph.keys {
                        li { svg viewBox="0 0 22 10" aria-hidden="true" { rect.{ "hue" (hue.0) } x="0" y="3" width="22" height="4" {} } (says) }
                    }
                }
            }
            .graph {
                svg role="img" aria-label=(graph.title) width=(format!("{width:.0}")) height=(format!("{height:.0}")) viewBox=(format!("0 0 {width:.0} {height:.0}")) {
                    @for (edge, (line, _)) in lines() {
                        g {
                            title { (edge.label) }
                            path.edge d=(path(line)) stroke=(ink(edge.hue)) stroke-width=(format!("{:.1}", edge.thickness())) {}
                            @if edge.directed { path d=(head(line)) fill=(ink(edge.hue)) {} }
                        }
                    }
                    @for ((node, at), name) in graph.nodes.iter().zip(&drawing.boxes).zip(&names) {
                        g {
                            title { (node.label) }
                            rect.{ "box" @if node.faint { " faint" } } x=(format!("{:.1}", at.x)) y=(format!("{:.1}", at.y)) width=(BOX[0]) height=(BOX[1]) rx="5" {}
                            text.name x=(format!("{:.1}", at.x + BOX[0] / 2.0)) y=(format!("{:.1}", at.y + if node.place.is_empty() { 26.0 } else { 18.0 })) text-anchor="middle" { (name) }
                            @if !node.place.is_empty() {
                                text x=(format!("{:.1}", at.x + BOX[0] / 2.0)) y=(format!("{:.1}", at.y + 34.0)) text-anchor="middle" { (node.below()) }
                            }
                        }
                    }
                    @for (edge, mark) in lines().filter_map(|(edge, (_, mark))| Some((edge, (*mark)?))) {
                        @if !edge.mark.is_empty() {
                            g {
                                title { (edge.label) }
                                circle.mark cx=(format!("{:.1}", mark[0])) cy=(format!("{:.1}", mark[1])) r=(MARK) stroke=(ink(edge.hue)) {}
                                text.name x=(format!("{:.1}", mark[0])) y=(format!("{:.1}", mark[1] + 3.5)) text-anchor="middle" font-size="10" { (edge.mark) }
                            }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::{Block, Document, Section};
    use crate::graph::{Edge, Node};

    fn page(graph: Graph) -> String {
        let section = Section { blocks: vec![Block::Graph(graph)], ..Section::default() };
        super::super::page(&[Document { sections: vec![section], ..Document::default() }], "").unwrap()
    }

    #[test]
    fn boxes_lines_and_keys_are_drawn_without_a_script_and_nothing_in_them_is_markup() {
        let hostile = "</title><script>alert(1)</script>";
        let node = |name: &str| Node { name: name.into(), place: hostile.into(), label: hostile.into(), faint: true };
        let edge = |to| Edge {
            to,
            directed: true,
            hue: Hue(1),
            weight: 0.5,
            mark: "1".into(),
            label: hostile.into(),
            ..Edge::default()
        };
        let graph = Graph {
            id: "map".into(),
            nodes: vec![node("web"), node(hostile)],
            edges: vec![edge(1), edge(7)],
            keys: vec![(Hue(1), hostile.into())],
            ..Graph::default()
        };
        let page = page(graph);
        assert!(!page.contains("<script>alert"), "{page}");
        let drawn = page.split_once("class=\"graph\"").unwrap().1.split_once("</figure>").unwrap().0;
        // One of the two lines has no end.
        assert_eq!((drawn.matches("<rect").count(), drawn.matches("class=\"edge\"").count()), (2, 1), "{drawn}");
        assert!(drawn.contains("stroke=\"var(--h1)\"") && drawn.contains("class=\"box faint\""), "{drawn}");
        assert!(!drawn.contains("style="), "{drawn}");
    }

    #[test]
    fn long_names_are_cut_and_still_differ() {
        let name = |end: &str| Node {
            name: format!("a-service-with-a-very-long-name-of-its-own-{end}").into(),
            ..Node::default()
        };
        let page = page(Graph { nodes: vec![name("1"), name("2")], ..Graph::default() });
        assert!(page.contains("its-own-1<") && page.contains("its-own-2<"));
    }
}
