//! Packets of which fragments never came, by where they were to go.

use wire::packet::Unfinished;

/// Packets that are kept.
const MOST: usize = 50_000;

/// All of a capture.
#[derive(Debug, Default)]
pub(super) struct Fragments {
    pub(super) all: Vec<Unfinished>,
    pub(super) beyond: u64,
}

impl Fragments {
    pub(super) fn take(&mut self, unfinished: Unfinished) {
        if self.all.len() < MOST {
            self.all.push(unfinished);
        } else {
            self.beyond += 1;
        }
    }
}
