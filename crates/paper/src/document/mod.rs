//! A report as a document: what it says first, then sections of words, plots and tables. The renderers draw it: [`crate::html`]
//! as one file, [`crate::terminal`] as text.

mod counts;
mod times;

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use crate::plot::{Plot, Scale};
pub use crate::table::Table;
pub use counts::Counts;
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
    /// A table of pages alone: on a terminal its rows would bury the rest.
    OnPage(Table),
    /// Histograms of times: for a terminal, where a page has the cumulative curves and boxes beside them.
    Histograms(Histograms),
    /// How often values occur.
    Counts(Counts),
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
    /// Lines as they are, such as those of a log: a terminal does not break them.
    pub fn lines(text: impl Into<String>) -> Self {
        let text = Block::Code { title: String::new(), text: text.into() };
        Self { sections: vec![Section { blocks: vec![text], ..Section::default() }], ..Self::default() }
    }

    /// Puts names in place of addresses in tables, in the names of an axis and beside records. A word that is an address with a port, or an address
    /// alone, is looked up.
    pub fn name_hosts(&mut self, names: &HashMap<IpAddr, String>) {
        if !names.is_empty() {
            self.each_named(&mut |text| *text = with_names(text, names));
        }
    }

    /// The addresses that [`Self::name_hosts`] looks up, each once.
    pub fn hosts(&self) -> Vec<IpAddr> {
        let mut found = Vec::new();
        let mut seen = std::collections::HashSet::new();
        self.clone().each_named(&mut |text| {
            found.extend(addresses(text).filter(|at| seen.insert(*at)));
        });
        found
    }

    /// Every text in which addresses may stand for hosts.
    fn each_named(&mut self, put: &mut impl FnMut(&mut String)) {
        fn of_table(table: &mut Table, put: &mut impl FnMut(&mut String)) {
            table.rows.iter_mut().flatten().for_each(&mut *put);
            table.brief.iter_mut().for_each(put);
        }
        fn of_plot(plot: &mut Plot, put: &mut impl FnMut(&mut String)) {
            for axis in [&mut plot.x, &mut plot.y] {
                if let Scale::Names { names } = &mut axis.scale {
                    names.iter_mut().for_each(&mut *put);
                }
            }
            if let Some(table) = &mut plot.table {
                of_table(table, put);
            }
        }
        put(&mut self.title);
        for block in self.sections.iter_mut().flat_map(|section| &mut section.blocks) {
            match block {
                Block::Table(table) | Block::OnPage(table) => of_table(table, put),
                Block::Plot(plot) => of_plot(plot, put),
                Block::Waterfalls(of) => {
                    of.items.iter_mut().for_each(|item| put(&mut item.connection));
                    of_plot(&mut of.plot, put);
                }
                _ => {}
            }
        }
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

/// The address in a word that is one, and its port.
fn host(word: &str) -> Option<(IpAddr, Option<u16>)> {
    match (word.parse::<SocketAddr>(), word.parse::<IpAddr>()) {
        (Ok(at), _) => Some((at.ip(), Some(at.port()))),
        (_, Ok(at)) => Some((at, None)),
        _ => None,
    }
}

/// The addresses in a text that [`with_names`] looks up.
pub fn addresses(text: &str) -> impl Iterator<Item = IpAddr> + '_ {
    text.split(' ').filter_map(host).map(|(at, _)| at)
}

/// A text with the names of hosts in place of their addresses.
pub fn with_names(text: &str, names: &HashMap<IpAddr, String>) -> String {
    let named = |word: &str| {
        let (at, port) = host(word)?;
        let name = names.get(&at)?;
        Some(port.map_or_else(|| name.clone(), |port| format!("{name}:{port}")))
    };
    text.split(' ').map(|word| named(word).unwrap_or_else(|| word.to_owned())).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_take_the_place_of_addresses_alone() {
        let names = HashMap::from([
            ("10.0.0.2".parse().unwrap(), "db".to_owned()),
            ("::1".parse().unwrap(), "here".to_owned()),
        ]);
        let of = |text: &str| with_names(text, &names);
        assert_eq!(of("10.0.0.1:80 → 10.0.0.2:5432"), "10.0.0.1:80 → db:5432");
        assert_eq!(of(":80 → [::1]:7"), ":80 → here:7");
        assert_eq!(of("10.0.0.2 is not 10.0.0.23"), "db is not 10.0.0.23");
        let mut table = Table::new("peers", &["peer"]);
        table.rows.push(vec!["10.0.0.1:80 → 10.0.0.2:5432".into()]);
        table.rows.push(vec!["10.0.0.2".into()]);
        let mut document = Document { title: "Connection 1: 10.0.0.1:80 → [::1]:7".into(), ..Document::default() };
        document.sections.push(Section { blocks: vec![Block::Table(table)], ..Section::default() });
        let hosts: Vec<String> = document.hosts().iter().map(ToString::to_string).collect();
        assert_eq!(hosts, ["10.0.0.1", "::1", "10.0.0.2"]);
        document.name_hosts(&names);
        assert_eq!(document.title, "Connection 1: 10.0.0.1:80 → here:7");
    }
}
