//! Figures of names that were looked up, from questions of DNS, in bounded memory.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;

use record::dns::Answered;
use record::{Nanos, Owner, Question};
use stats::{Distribution, Precision};

/// Servers with separate figures; questions to further ones are counted together.
const SERVERS: usize = 256;
/// Processes whose waits are put together exactly.
const PROCESSES: usize = 4_096;
/// A lookup that takes this long is noticed.
const NOTICED: Nanos = Nanos::from_millis(100);

/// What was asked of a server.
#[derive(Clone, Debug)]
pub struct ServerFigures {
    /// Questions.
    pub questions: u64,
    /// Those that had no answer, however long it was waited for.
    pub unanswered: u64,
    /// Those without an answer when tracing ended.
    pub open: u64,
    /// Answers with an error other than that the name does not exist.
    pub failed: u64,
    /// Answers that did not fit into a datagram.
    pub truncated: u64,
    /// From question to answer.
    pub took: Distribution,
}

impl ServerFigures {
    fn new() -> Self {
        let took = Distribution::new(Precision::Coarse);
        Self { questions: 0, unanswered: 0, open: 0, failed: 0, truncated: 0, took }
    }

    fn add(&mut self, question: &Question) {
        self.questions += 1;
        self.unanswered += u64::from(question.answered == Answered::Unanswered);
        self.open += u64::from(question.answered == Answered::NotKnown);
        self.failed += u64::from(question.answered == Answered::Failed);
        self.truncated += u64::from(question.truncated);
        if let Some(took) = question.took {
            self.took.record(took.0);
        }
    }
}

/// A lookup: one program's search for one name and type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LookedUp {
    /// Its first question.
    pub first: Question,
    /// The one with the answer that it ended with; the last one where there is no answer.
    pub last: Question,
    /// What it waited: to that answer, or at least.
    pub waited: Nanos,
}

impl LookedUp {
    /// Whether it had an answer.
    pub fn is_answered(&self) -> bool {
        self.last.ends_lookup
    }
}

/// The figures of all lookups.
#[derive(Clone, Debug)]
pub struct NameFigures {
    /// How many there were.
    pub lookups: u64,
    /// Of these, those that had no answer.
    pub unanswered: u64,
    /// Those whose answer was an error other than that the name does not exist.
    pub failed: u64,
    /// Those with more than one try.
    pub retried: u64,
    /// Those that took 100 ms or longer, unanswered ones among them.
    pub noticed: u64,
    /// Until the answer.
    pub took: Distribution,
    /// What programs waited; what several lookups of a process waited at the same time counts once.
    pub waited: Nanos,
    /// Answers by their code.
    pub codes: BTreeMap<String, u64>,
    servers: HashMap<SocketAddr, ServerFigures>,
    /// Questions to servers without separate figures.
    pub others: u64,
    slowest: Vec<LookedUp>,
    most: usize,
    /// The lookup whose tries are coming.
    current: Option<LookedUp>,
    /// Until when what a process waited is counted.
    counted_until: HashMap<Owner, u64>,
}

impl NameFigures {
    /// Nothing yet; keeps so many slow lookups.
    pub fn new(most: usize) -> Self {
        Self {
            lookups: 0,
            unanswered: 0,
            failed: 0,
            retried: 0,
            noticed: 0,
            took: Distribution::new(Precision::Coarse),
            waited: Nanos::ZERO,
            codes: BTreeMap::new(),
            servers: HashMap::new(),
            others: 0,
            slowest: Vec::new(),
            most,
            current: None,
            counted_until: HashMap::new(),
        }
    }

    /// Adds a question. Those of a lookup come one after the other.
    pub fn add(&mut self, question: &Question) {
        if let Some(code) = &question.code {
            *self.codes.entry(code.clone()).or_default() += 1;
        }
        if self.servers.len() < SERVERS || self.servers.contains_key(&question.server) {
            self.servers.entry(question.server).or_insert_with(ServerFigures::new).add(question);
        } else {
            self.others += 1;
        }
        let waited = question.waited();
        match &mut self.current {
            Some(of) if of.first.lookup == question.lookup => {
                if !of.is_answered() {
                    (of.last, of.waited) = (question.clone(), waited);
                }
            }
            _ => self.current = Some(LookedUp { first: question.clone(), last: question.clone(), waited }),
        }
        if question.is_last()
            && let Some(over) = self.current.take()
        {
            self.over(over);
        }
    }

    fn over(&mut self, of: LookedUp) {
        self.lookups += 1;
        self.retried += u64::from(of.first.tries > 1);
        self.failed += u64::from(of.is_answered() && of.last.answered == Answered::Failed);
        if of.is_answered() {
            self.took.record(of.waited.0);
        }
        let is_unanswered = !of.is_answered() && of.last.answered == Answered::Unanswered;
        self.unanswered += u64::from(is_unanswered);
        self.noticed += u64::from(is_unanswered || of.waited >= NOTICED);
        let (begin, end) = (of.first.asked.as_nanos(), of.first.asked.as_nanos().saturating_add(of.waited.0));
        if self.counted_until.len() >= PROCESSES {
            self.counted_until.clear();
        }
        let counted = self.counted_until.entry(of.first.owner).or_default();
        self.waited += Nanos(end.saturating_sub(begin.max(*counted)));
        *counted = end.max(*counted);
        let place = self.slowest.partition_point(|slow| slow.waited >= of.waited);
        if place < self.most {
            self.slowest.insert(place, of);
            self.slowest.truncate(self.most);
        }
    }

    /// The lookups that waited longest.
    pub fn slowest(&self) -> &[LookedUp] {
        &self.slowest
    }

    /// The servers, those with the most questions first.
    pub fn servers(&self) -> Vec<(SocketAddr, &ServerFigures)> {
        let mut all: Vec<_> = self.servers.iter().map(|(at, of)| (*at, of)).collect();
        all.sort_by_key(|(at, of)| (std::cmp::Reverse(of.questions), *at));
        all
    }

    /// Questions of all lookups.
    pub fn questions(&self) -> u64 {
        self.servers.values().map(|of| of.questions).sum::<u64>() + self.others
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::Instant;

    const SECOND: u64 = 1_000_000_000;

    fn question(lookup: u64, asked: u64, took: Option<u64>) -> Question {
        Question {
            lookup,
            asked: Instant::from_nanos(asked),
            took: took.map(Nanos),
            answered: if took.is_some() { Answered::Found } else { Answered::Unanswered },
            code: took.map(|_| "NOERROR".into()),
            ends_lookup: took.is_some(),
            server: "10.0.0.53:53".parse().unwrap(),
            ..Question::blank()
        }
    }

    #[test]
    fn a_lookup_takes_as_long_as_all_its_tries_and_what_waits_beside_it_counts_once() {
        let mut figures = NameFigures::new(2);
        let first = Question { tries: 2, until_retry: Some(Nanos(5 * SECOND)), ..question(1, 0, None) };
        let second =
            Question { number: 2, tries: 2, since_first: Nanos(5 * SECOND), ..question(1, 5 * SECOND, Some(1_000)) };
        figures.add(&first);
        figures.add(&second);
        // AAAA of the same name, at the same time.
        figures.add(&question(2, 10, Some(2_000)));
        figures.add(&question(3, 6 * SECOND, Some(7_000)));
        assert_eq!((figures.lookups, figures.retried, figures.noticed, figures.unanswered), (3, 1, 1, 0));
        assert_eq!(figures.waited, Nanos(5 * SECOND + 8_000));
        let slowest: Vec<_> =
            figures.slowest().iter().map(|of| (of.first.lookup, of.last.number, of.waited.0)).collect();
        assert_eq!(slowest, [(1, 2, 5 * SECOND + 1_000), (3, 1, 7_000)]);
        let (_, server) = figures.servers()[0];
        assert_eq!((server.questions, server.unanswered, server.took.n()), (4, 1, 3));
        assert_eq!((figures.questions(), figures.codes["NOERROR"]), (4, 3));
    }

    #[test]
    fn one_without_an_answer_waits_at_least_to_its_last_try() {
        let mut figures = NameFigures::new(2);
        figures.add(&Question { tries: 2, until_retry: Some(Nanos(5 * SECOND)), ..question(1, 0, None) });
        figures.add(&Question { number: 2, tries: 2, since_first: Nanos(5 * SECOND), ..question(1, 5 * SECOND, None) });
        assert_eq!((figures.unanswered, figures.took.n(), figures.waited), (1, 0, Nanos(5 * SECOND)));
        assert!(!figures.slowest()[0].is_answered());
    }
}
