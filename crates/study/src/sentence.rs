//! A sentence of a verdict, of clauses.

use std::fmt;

use serde::{Serialize, Serializer};

/// A sentence that can end after each of its clauses, where there is no room for all of them. It
/// begins in any case, and has no full stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sentence(Vec<String>);

impl Sentence {
    /// With a further clause.
    #[must_use]
    pub fn and(mut self, clause: impl Into<String>) -> Self {
        self.0.push(clause.into());
        self
    }

    /// With a further clause, where there is one.
    #[must_use]
    pub fn and_any(self, clause: Option<impl Into<String>>) -> Self {
        match clause {
            Some(clause) => self.and(clause),
            None => self,
        }
    }

    /// The first clause, and of the others as many as make so many words with it; `None` where that
    /// is all of it.
    pub fn beginning(&self, words: usize) -> Option<Self> {
        let count = |clause: &String| clause.split_whitespace().count();
        let mut room = words;
        let fits = self.0.iter().take_while(|clause| {
            let fits = count(clause) <= room;
            room = room.saturating_sub(count(clause));
            fits
        });
        let kept = fits.count().max(1);
        (kept < self.0.len()).then(|| Self(self.0[..kept].to_vec()))
    }
}

impl<T: Into<String>> From<T> for Sentence {
    fn from(clause: T) -> Self {
        Self(vec![clause.into()])
    }
}

impl fmt::Display for Sentence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("; "))
    }
}

impl Serialize for Sentence {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_ends_after_a_clause_where_there_is_no_room_for_all() {
        let sentence = Sentence::from("the rate falls, by a third").and("the packets show why").and_any(None::<String>);
        assert_eq!(sentence.to_string(), "the rate falls, by a third; the packets show why");
        assert_eq!(sentence.beginning(10), None);
        assert_eq!(sentence.beginning(9), Some("the rate falls, by a third".into()));
        // One clause is always there, and whole.
        assert_eq!(sentence.beginning(2), Some("the rate falls, by a third".into()));
        assert_eq!(Sentence::from("the rate falls").beginning(1), None);
    }
}
