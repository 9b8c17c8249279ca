//! A report as a document: what it says first, then sections of words, plots and tables. The
//! renderers draw it: [`crate::html`] as one file, [`crate::terminal`] as text.

mod counts;
mod glance;
mod times;

use std::collections::HashMap;
use std::net::IpAddr;

use crate::graph::Graph;
use crate::plot::{Plot, Scale};
pub use crate::table::{Cell, Column, Row, Table, Value};
pub use crate::text::{Piece, Text};
pub use counts::Counts;
pub use glance::{Glance, Part};
pub use times::{Bar, Histograms, Series, Waterfall, Waterfalls};

/// A piece of a section.
#[derive(Clone, Debug, PartialEq)]
pub enum Block {
    /// A paragraph.
    Words(Text),
    /// Sentences that stand side by side.
    List(Vec<Text>),
    /// What has to be known before the figures are believed.
    Warning(Text),
    /// A plot.
    Plot(Box<Plot>),
    /// A graph, of pages and images: a terminal has the table beside it.
    Graph(Graph),
    /// A table.
    Table(Table),
    /// A table of pages alone: on a terminal its rows would bury the rest.
    OnPage(Table),
    /// Histograms of times: for a terminal, where a page has the cumulative curves and boxes beside
    /// them.
    Histograms(Histograms),
    /// How often values occur.
    Counts(Counts),
    /// What a page shows before all words, wherever it stands; elsewhere nothing.
    Glance(Glance),
    /// The slowest records: on a terminal the first of them leg by leg, elsewhere a plot.
    Waterfalls(Waterfalls),
    /// Text as it is in a file.
    Code {
        /// What it is.
        title: String,
        /// The text.
        text: String,
    },
}

/// Blocks under a heading.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Section {
    /// The heading.
    pub title: String,
    /// What is under it.
    pub blocks: Vec<Block>,
    /// Whether a terminal, which has one column, shows plots after everything else.
    pub plots_last: bool,
    /// Whether its first plot is what a reader looks for: one screen has it too, before sentences
    /// beyond the first, where there is room.
    pub plot_first: bool,
}

impl Section {
    /// One with this heading.
    pub fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), ..Self::default() }
    }

    /// Adds words.
    pub fn say(&mut self, text: impl Into<Text>) {
        self.blocks.push(Block::Words(text.into()));
    }

    /// Adds sentences that stand side by side, where there are any.
    pub fn list(&mut self, sentences: impl IntoIterator<Item = impl Into<Text>>) {
        let sentences = texts(sentences);
        self.blocks.extend((!sentences.is_empty()).then_some(Block::List(sentences)));
    }

    /// Adds a plot where there is one.
    pub fn plot(&mut self, plot: Option<Plot>) {
        self.blocks.extend(plot.map(|p| Block::Plot(Box::new(p))));
    }

    /// Adds a table where it has rows.
    pub fn table(&mut self, table: Table) {
        if !table.rows.is_empty() {
            self.blocks.push(Block::Table(table));
        }
    }
}

/// Columns of text, and after them columns of figures.
pub fn columns<'n>(text: impl IntoIterator<Item = &'n str>, figures: impl IntoIterator<Item = &'n str>) -> Vec<Column> {
    text.into_iter().map(Column::text).chain(figures.into_iter().map(Column::figures)).collect()
}

/// What kind of thing a [`Clause`] says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClauseKind {
    /// What was found.
    #[default]
    Finding,
    /// More on a finding.
    Detail,
    /// What has to be kept in mind with a finding: what is not known, or not covered.
    Caveat,
}

/// A clause of a verdict.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Clause {
    /// What kind of thing it says.
    pub kind: ClauseKind,
    /// One sentence, or a few that belong together.
    pub text: Text,
    /// What to look at or change next because of it: a sentence that begins in lower case.
    pub next: Option<Text>,
}

impl Clause {
    /// A finding.
    pub fn finding(text: impl Into<Text>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// More on a finding.
    pub fn detail(text: impl Into<Text>) -> Self {
        Self { kind: ClauseKind::Detail, ..Self::finding(text) }
    }

    /// What has to be kept in mind with a finding.
    pub fn caveat(text: impl Into<Text>) -> Self {
        Self { kind: ClauseKind::Caveat, ..Self::finding(text) }
    }

    /// With what to do about it.
    #[must_use]
    pub fn with_next(self, next: Option<Text>) -> Self {
        Self { next, ..self }
    }
}

/// A finding.
impl From<String> for Clause {
    fn from(text: String) -> Self {
        Self::finding(text)
    }
}

/// A finding.
impl From<Text> for Clause {
    fn from(text: Text) -> Self {
        Self::finding(text)
    }
}

/// A finding.
impl From<&str> for Clause {
    fn from(text: &str) -> Self {
        Self::finding(text)
    }
}

/// Sentences as texts.
pub fn texts(sentences: impl IntoIterator<Item = impl Into<Text>>) -> Vec<Text> {
    sentences.into_iter().map(Into::into).collect()
}

/// Clauses, each a finding of this text.
pub fn clauses(sentences: impl IntoIterator<Item = impl Into<Text>>) -> Vec<Clause> {
    sentences.into_iter().map(Clause::finding).collect()
}

/// What is said of one run, or of a comparison.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Document {
    /// Its heading.
    pub title: Text,
    /// What it is about, in one line.
    pub about: String,
    /// The verdict, the most important clause first.
    pub verdict: Vec<Clause>,
    /// What has to be known before the verdict is believed.
    pub warnings: Vec<Text>,
    /// The rest.
    pub sections: Vec<Section>,
    /// The command to go on with, which comes last: a sentence.
    pub then: Option<Text>,
}

impl Document {
    /// Lines as they are, such as those of a log: a terminal does not break them.
    pub fn lines(text: impl Into<String>) -> Self {
        let text = Block::Code { title: String::new(), text: text.into() };
        Self { sections: vec![Section { blocks: vec![text], ..Section::default() }], ..Self::default() }
    }

    /// Gives the hosts in it the names that are known.
    pub fn name_hosts(&mut self, names: &HashMap<IpAddr, String>) {
        if !names.is_empty() {
            self.each_text(&mut |text| text.name_hosts(names));
        }
    }

    /// The hosts in it, each once.
    pub fn hosts(&self) -> Vec<IpAddr> {
        let mut found = Vec::new();
        let mut seen = std::collections::HashSet::new();
        self.clone().each_text(&mut |text| found.extend(text.hosts().filter(|at| seen.insert(*at))));
        found
    }

    /// Every text in which hosts may be named.
    fn each_text(&mut self, put: &mut impl FnMut(&mut Text)) {
        fn of_plot(plot: &mut Plot, put: &mut impl FnMut(&mut Text)) {
            for axis in [&mut plot.x, &mut plot.y] {
                if let Scale::Names { names } = &mut axis.scale {
                    names.iter_mut().for_each(&mut *put);
                }
            }
            plot.table.iter_mut().flat_map(Table::texts_mut).for_each(put);
        }
        put(&mut self.title);
        self.verdict
            .iter_mut()
            .flat_map(|clause| [Some(&mut clause.text), clause.next.as_mut()])
            .flatten()
            .for_each(&mut *put);
        self.warnings.iter_mut().chain(&mut self.then).for_each(&mut *put);
        for block in self.sections.iter_mut().flat_map(|section| &mut section.blocks) {
            match block {
                Block::Table(table) | Block::OnPage(table) => table.texts_mut().for_each(&mut *put),
                Block::Plot(plot) => of_plot(plot, put),
                Block::Waterfalls(of) => {
                    of.items.iter_mut().for_each(|item| put(&mut item.connection));
                    of_plot(&mut of.plot, put);
                }
                Block::Graph(of) => of.nodes.iter_mut().for_each(|node| put(&mut node.name)),
                Block::Words(text) | Block::Warning(text) => put(text),
                Block::List(sentences) => sentences.iter_mut().for_each(&mut *put),
                Block::Histograms(_) | Block::Counts(_) | Block::Glance(_) | Block::Code { .. } => {}
            }
        }
    }

    /// All graphs, in order.
    pub fn graphs(&self) -> impl Iterator<Item = &Graph> {
        self.sections.iter().flat_map(|s| &s.blocks).filter_map(|b| match b {
            Block::Graph(graph) => Some(graph),
            _ => None,
        })
    }

    /// All plots, in order.
    pub fn plots(&self) -> impl Iterator<Item = &Plot> {
        self.sections.iter().flat_map(|s| &s.blocks).filter_map(|b| match b {
            Block::Plot(plot) => Some(plot.as_ref()),
            Block::Waterfalls(of) => Some(of.plot.as_ref()),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_host_of_a_document_is_found_once_and_named() {
        let at = |text: &str| text.parse::<std::net::SocketAddr>().unwrap();
        let names = HashMap::from([("::1".parse().unwrap(), "here".to_owned())]);
        let mut table = Table::new("peers", ["peer"]);
        table.push([Text::ends(at("10.0.0.1:80"), at("10.0.0.2:5432"))]);
        table.push([at("10.0.0.2:1").ip()]);
        let title = Text::from("Connection 1: ").and(Text::ends(at("10.0.0.1:80"), at("[::1]:7")));
        let mut document = Document { title, ..Document::default() };
        document.sections.push(Section { blocks: vec![Block::Table(table)], ..Section::default() });
        let hosts: Vec<String> = document.hosts().iter().map(ToString::to_string).collect();
        assert_eq!(hosts, ["10.0.0.1", "::1", "10.0.0.2"]);
        document.name_hosts(&names);
        assert_eq!(document.title.to_string(), "Connection 1: 10.0.0.1:80 → here:7");
    }
}
