//! The names that a series looked up from a server of DNS.

use std::collections::BTreeMap;

use super::{Histogram, add};
use crate::Question;
use crate::dns::Answered;

/// Response codes that are kept apart: a server can send any number.
const CODES: usize = 24;
/// What all further ones are counted as.
const OTHER: &str = "other";

/// Figures of questions to one server; they only grow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// Questions sent.
    pub questions: u64,
    /// Of these, those that asked again, as an earlier one of the lookup had not brought what was
    /// wanted.
    pub retries: u64,
    /// Those that nobody answered.
    pub unanswered: u64,
    /// Answers, by their code.
    pub answers: BTreeMap<String, u64>,
    /// From a question to its answer.
    pub took: Histogram,
    /// From the first question of a lookup to the answer that it ended with, which this server
    /// gave.
    pub lookups: Histogram,
}

impl Names {
    /// Adds a question that is over.
    pub fn add(&mut self, question: &Question) {
        self.questions += 1;
        self.retries += u64::from(question.number > 1);
        self.unanswered += u64::from(question.answered == Answered::Unanswered);
        if let Some(code) = &question.code {
            let is_known = self.answers.len() < CODES || self.answers.contains_key(code);
            let code = if is_known { code } else { OTHER };
            *self.answers.entry(code.to_owned()).or_default() += 1;
        }
        self.took.extend(question.took);
        self.lookups.extend(question.took.filter(|_| question.ends_lookup).map(|took| question.since_first + took));
    }

    /// Adds those of others.
    pub fn merge(&mut self, other: &Self) {
        self.questions += other.questions;
        self.retries += other.retries;
        self.unanswered += other.unanswered;
        add(&mut self.answers, &other.answers);
        self.took.merge(&other.took);
        self.lookups.merge(&other.lookups);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Nanos;

    #[test]
    fn a_retry_counts_for_its_server_and_a_lookup_for_the_one_that_ended_it() {
        let mut all = Names::default();
        all.add(&Question { tries: 2, answered: Answered::Unanswered, ..Question::blank() });
        let second = Question {
            number: 2,
            tries: 2,
            answered: Answered::NoSuchName,
            code: Some("NXDOMAIN".into()),
            took: Some(Nanos(7_000)),
            since_first: Nanos(5_000_000_000),
            ends_lookup: true,
            ..Question::blank()
        };
        all.add(&second);
        assert_eq!((all.questions, all.retries, all.unanswered), (2, 1, 1));
        assert_eq!(all.answers, [("NXDOMAIN".to_owned(), 1)].into());
        assert_eq!((all.took.sum, all.lookups.sum), (Nanos(7_000), Nanos(5_000_007_000)));
        let mut twice = all.clone();
        twice.merge(&all);
        assert_eq!((twice.questions, twice.answers["NXDOMAIN"], twice.lookups.count()), (4, 2, 2));
    }

    #[test]
    fn codes_are_bounded() {
        let mut all = Names::default();
        (0..100).for_each(|n| all.add(&Question { code: Some(format!("{n}")), ..Question::blank() }));
        assert_eq!((all.answers.len(), all.answers[OTHER], all.answers.values().sum::<u64>()), (25, 76, 100));
    }
}
