//! Names of the places in a page that a link can point to. They are made of the headings, so that a
//! link to a section, a plot or a table of one report still points there in a later one.

use std::collections::BTreeSet;

use crate::document::{Block, Document};

/// Longest name made of a heading, characters.
const LONGEST: usize = 60;

/// A heading as the name of a place: lower case, with a dash for each stretch of anything but
/// letters and digits.
fn slug(heading: &str) -> String {
    let words: Vec<String> = heading
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(|word| word.to_lowercase())
        .collect();
    let whole: String = words.join("-").chars().take(LONGEST).collect();
    if whole.is_empty() { "untitled".into() } else { whole }
}

/// The names in use in one page.
#[derive(Debug, Default)]
pub(super) struct Anchors {
    used: BTreeSet<String>,
    /// What the names of the present document begin with: empty where the page has one document.
    prefix: String,
}

impl Anchors {
    /// Begins a document of the page; its rows have the names that its plots link to.
    pub fn begin(&mut self, document: &Document, several: bool) {
        self.prefix = String::new();
        if several {
            self.prefix = format!("{}-", self.unique(&slug(&document.title.to_string())));
        }
        for block in document.sections.iter().flat_map(|s| &s.blocks) {
            if let Block::OnPage(table) = block {
                self.used.extend(
                    table.rows.iter().filter_map(|row| Some(format!("{}{}", self.prefix, row.anchor.as_ref()?))),
                );
            }
        }
    }

    /// What the names of the present document begin with.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The name of the place with this heading, which no other place of the page has.
    pub fn of(&mut self, heading: &str) -> String {
        let name = format!("{}{}", self.prefix, slug(heading));
        self.unique(&name)
    }

    fn unique(&mut self, name: &str) -> String {
        let mut unique = name.to_owned();
        let mut number = 2;
        while !self.used.insert(unique.clone()) {
            unique = format!("{name}-{number}");
            number += 1;
        }
        unique
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_named_by_their_headings_and_no_two_alike() {
        let mut anchors = Anchors::default();
        anchors.begin(&Document::default(), false);
        assert_eq!(anchors.of("What it is worth"), "what-it-is-worth");
        assert_eq!(anchors.of("plan: goodput, 95 %"), "plan-goodput-95");
        assert_eq!(anchors.of("What it is worth"), "what-it-is-worth-2");
        assert_eq!((anchors.of("…"), anchors.of("µs")), ("untitled".into(), "µs".into()));
        assert!(anchors.of(&"x".repeat(500)).len() <= LONGEST);
    }

    #[test]
    fn documents_of_one_page_have_names_apart() {
        let mut anchors = Anchors::default();
        let document = Document { title: "run".into(), ..Document::default() };
        anchors.begin(&document, true);
        assert_eq!(anchors.of("Path"), "run-path");
        anchors.begin(&document, true);
        assert_eq!(anchors.prefix(), "run-2-");
        assert_eq!(anchors.of("Path"), "run-2-path");
    }
}
