//! A report as a document: what it says first, then sections of words, plots and tables. The renderers draw it: [`crate::html`]
//! as one file, [`crate::terminal`] as text.

pub(crate) mod table;
mod times;

use crate::plot::Plot;
pub use table::Table;
pub use times::{Bar, Histograms, Series, Waterfall, Waterfalls};

/// A piece of a section.
#[derive(Clone, Debug, PartialEq)]
pub enum Block {
    /// A paragraph.
    Words(String),
    /// Sentences that stand side by side.
    List(Vec<String>),
    /// What has to be known before the figures are believed.
    Warning(String),
    /// A plot.
    Plot(Box<Plot>),
    /// A table.
    Table(Table),
    /// Histograms of times: for a terminal, where a page has the cumulative curves and boxes beside them.
    Histograms(Histograms),
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
}

impl Section {
    /// One with this heading.
    pub fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), ..Self::default() }
    }

    /// Adds words.
    pub fn say(&mut self, text: impl Into<String>) {
        self.blocks.push(Block::Words(text.into()));
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

/// What is said of one run, or of a comparison.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Document {
    /// Its heading.
    pub title: String,
    /// What it is about, in one line.
    pub about: String,
    /// The verdict: one sentence each, the most important first.
    pub verdict: Vec<String>,
    /// What has to be known before the verdict is believed.
    pub warnings: Vec<String>,
    /// The rest.
    pub sections: Vec<Section>,
}

impl Document {
    /// All plots, in order.
    pub fn plots(&self) -> impl Iterator<Item = &Plot> {
        self.sections.iter().flat_map(|s| &s.blocks).filter_map(|b| match b {
            Block::Plot(plot) => Some(plot.as_ref()),
            Block::Waterfalls(of) => Some(of.plot.as_ref()),
            _ => None,
        })
    }
}
