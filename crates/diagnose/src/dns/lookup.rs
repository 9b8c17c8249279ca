//! The tries of one client for one name and type, and what became of them.

use std::hash::{BuildHasher as _, RandomState};
use std::net::IpAddr;
use std::ops::Range;

use record::Nanos;
use record::dns::{Answered, Lookup, Protocol};
use wire::packet::dns::{code, code_name, kind, kind_name};

use super::exchange::{Answer, Exchange};

/// The longest time that a client lets pass before it asks again: glibc's default is 5 s and its
/// most 30 s.
pub(super) const PATIENCE: u64 = 30_000_000_000;
/// The same question within this, while the first is under way, is another program's.
const RETRY: u64 = 100_000_000;
/// How long after a question a capture must go on for it to be without an answer: the wait of
/// glibc, and of most others.
pub(super) const GIVEN_UP: u64 = 5_000_000_000;

/// Servers that a row names.
const SERVERS: usize = 16;

/// Why it is not known what became of a lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unseen {
    /// The capture ends so long after the last question.
    Ends(u64),
    /// It holds no answer to this client at all.
    OneDirection,
    /// The client went on over TCP, which the capture does not show.
    OverTcp,
    /// Nothing was left in an answer that was cut short, and there is no other one.
    CutShort,
}

impl Unseen {
    fn reason(self) -> String {
        match self {
            Self::Ends(0) => "the capture ends with the question".into(),
            Self::Ends(after) => format!("the capture ends {} after the question", Nanos(after)),
            Self::OverTcp => "the client went on over TCP, and the capture does not show that".into(),
            Self::CutShort => "the answer was cut short, and the capture holds none over TCP".into(),
            Self::OneDirection => {
                "the capture holds no answer to this client, so that it may hold one direction only".into()
            }
        }
    }
}

/// A lookup in numbers. Its tries are exchanges.
#[derive(Clone, Debug)]
pub(super) struct Case<'a> {
    /// Its number, from 1.
    pub(super) number: u64,
    /// In the order in which they were asked; never empty.
    pub(super) tries: Vec<&'a Exchange>,
    pub(super) answered: Answered,
    /// The try with the answer that the client used, or the last one that it got.
    pub(super) at: Option<usize>,
    pub(super) unseen: Option<Unseen>,
    /// The protocol and the type of what was asked for.
    pub(super) protocol: Protocol,
    pub(super) kind: u16,
    /// One try that brought what it asked for, as most do: of these, rules need the time alone.
    pub(super) is_plain: bool,
    /// The latest packet of the capture.
    latest: u64,
}

impl<'a> Case<'a> {
    pub(super) fn new(tries: Vec<&'a Exchange>, has_answers: bool, latest: u64) -> Self {
        let usable = |e: &&Exchange| e.answer.as_ref().is_some_and(|answer| answer.is_final());
        let by_time = |(_, e): &(usize, &&Exchange)| e.answered_at();
        let all = || tries.iter().enumerate();
        // The first that it could use, else the last word of any server.
        let at = all().filter(|(_, e)| usable(e)).min_by_key(by_time).map(|(i, _)| i);
        let at = at.or_else(|| all().filter(|(_, e)| e.answered_at().is_some()).max_by_key(by_time).map(|(i, _)| i));
        let (answered, unseen) = match at.map(|i| tries[i]) {
            Some(Exchange { answer: Some(answer), .. }) if answer.truncated && answer.records == 0 => {
                (Answered::NotKnown, Some(Unseen::CutShort))
            }
            Some(Exchange { answer: Some(answer), .. }) => (of_answer(answer), None),
            Some(_) => (Answered::Failed, None),
            None => {
                // Its last socket was closed when an answer came to it.
                let is_over = tries.last().is_some_and(|e| e.refused().is_some());
                let after = tries.last().map_or(0, |e| latest.saturating_sub(e.asked));
                // A client that sends the same message again shows that it had no answer.
                let unseen = match (has_answers || tries.iter().any(|e| e.repeats), after) {
                    _ if is_over => None,
                    _ if tries.last().is_some_and(|e| e.is_left_for_tcp()) => Some(Unseen::OverTcp),
                    (false, _) => Some(Unseen::OneDirection),
                    (true, ..GIVEN_UP) => Some(Unseen::Ends(after)),
                    (true, _) => None,
                };
                (if unseen.is_some() { Answered::NotKnown } else { Answered::Unanswered }, unseen)
            }
        };
        let (protocol, kind) = (tries[0].protocol, tries[0].kind);
        let is_plain = tries.len() == 1 && answered == Answered::Found && tries.iter().all(usable);
        Self { number: 0, tries, answered, at, unseen, protocol, kind, is_plain, latest }
    }

    pub(super) fn first(&self) -> &'a Exchange {
        self.tries[0]
    }

    pub(super) fn is_address(&self) -> bool {
        matches!(self.kind, kind::A | kind::AAAA)
    }

    pub(super) fn client(&self) -> IpAddr {
        self.first().client.ip()
    }

    /// The answer that it ended with.
    pub(super) fn answer(&self) -> Option<&'a Answer> {
        self.tries[self.at?].answer.as_deref()
    }

    /// When it was over, as far as there was an answer.
    pub(super) fn end(&self) -> Option<u64> {
        self.tries[self.at?].came().map(|(at, _)| at)
    }

    /// From the first question to the answer.
    pub(super) fn took(&self) -> Option<u64> {
        self.end().map(|end| end.saturating_sub(self.first().asked))
    }

    /// From the first question to the last one: what the client waited at least.
    pub(super) fn waited(&self) -> u64 {
        self.tries.last().map_or(0, |last| last.asked.saturating_sub(self.first().asked))
    }

    /// Whether it has an answer that the client could use.
    pub(super) fn is_resolved(&self) -> bool {
        matches!(self.answered, Answered::Found | Answered::NoData | Answered::NoSuchName)
            && self.answer().is_some_and(Answer::is_final)
    }

    /// Whether the client gave a try up, or the capture goes on long enough after it: it has no
    /// answer, as far as it has none here.
    pub(super) fn is_given_up(&self, i: usize) -> bool {
        let (asked, next) = (self.tries[i].asked, self.tries.get(i + 1));
        let until = next.filter(|next| next.asked.saturating_sub(asked) >= RETRY).map_or(self.latest, |_| u64::MAX);
        self.unseen != Some(Unseen::OneDirection) && until.saturating_sub(asked) >= GIVEN_UP
    }

    /// What the client waited for a try that did not end it: to the next one.
    pub(super) fn waited_for(&self, i: usize) -> Option<Range<u64>> {
        let next = self.tries.get(i + 1).filter(|_| self.at.is_none_or(|at| i < at))?;
        Some(self.tries[i].asked..next.asked)
    }

    /// The first try with an answer that was cut short, and that answer.
    pub(super) fn cut(&self) -> Option<(&'a Exchange, &'a Answer)> {
        self.tries.iter().find_map(|e| Some((*e, e.cut()?)))
    }

    /// From an answer that was cut short to the one over TCP.
    pub(super) fn udp_to_tcp(&self) -> Option<u64> {
        let (_, cut) = self.cut()?;
        let over_tcp = self.tries[self.at?];
        over_tcp.answer.as_ref().filter(|_| over_tcp.tcp).map(|answer| answer.at.saturating_sub(cut.at))
    }

    /// Whether the capture goes on long enough after this time to show that nothing came.
    pub(super) fn shows_silence_after(&self, at: u64) -> bool {
        self.latest.saturating_sub(at) >= GIVEN_UP || self.tries.iter().any(|e| e.asked > at)
    }

    /// The name, as it is written in a text.
    pub(super) fn name(&self) -> String {
        format!("`{}`", self.first().name)
    }

    /// The packets of it: each question, and the answer, 24 at most.
    pub(super) fn packets(&self) -> Vec<u64> {
        let mut packets: Vec<u64> = self.tries.iter().take(23).map(|e| e.packet).collect();
        packets.extend(self.at.and_then(|i| self.tries[i].came()).map(|(_, packet)| packet));
        packets
    }

    pub(super) fn row(&self) -> Lookup {
        let first = self.first();
        let answer = self.answer();
        let mut servers: Vec<IpAddr> = Vec::new();
        for e in &self.tries {
            if servers.last() != Some(&e.server.ip()) && servers.len() < SERVERS {
                servers.push(e.server.ip());
            }
        }
        Lookup {
            number: self.number,
            client: self.client(),
            name: first.name.to_string(),
            kind: kind_name(first.kind).into_owned(),
            protocol: first.protocol,
            start_ns: Nanos(first.asked),
            took_ns: self.took().map(Nanos),
            answered: self.answered,
            code: answer.map(|answer| code_name(answer.code).into_owned()),
            server: answer.map(|answer| answer.from),
            tries: self.tries.len() as u64,
            answered_try: self.at.map(|i| i as u64 + 1),
            earlier_tries_ns: Nanos(self.at.map_or(0, |i| self.tries[i].asked.saturating_sub(first.asked))),
            last_try_ns: Nanos(self.waited()),
            servers: joined(&servers),
            truncated: self.cut().is_some(),
            over_tcp: self.at.is_some_and(|i| self.tries[i].tcp && answer.is_some()),
            too_late: self.tries.iter().filter(|e| e.refused().is_some()).count() as u64,
            addresses: answer.map(|answer| joined(&answer.addresses)).unwrap_or_default(),
            packets: joined(&self.packets()),
            withheld: self.unseen.map(Unseen::reason),
        }
    }
}

pub(super) fn of_answer(answer: &Answer) -> Answered {
    match answer.code {
        code::NO_ERROR if answer.records == 0 && !answer.truncated => Answered::NoData,
        code::NO_ERROR => Answered::Found,
        code::NO_SUCH_NAME => Answered::NoSuchName,
        _ => Answered::Failed,
    }
}

pub(crate) fn joined(all: &[impl ToString]) -> String {
    all.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

/// The tries of one lookup so far.
#[derive(Default)]
struct Tries<'a> {
    all: Vec<&'a Exchange>,
    /// The place of the first among all exchanges.
    first: u32,
    /// When the client had what it wanted.
    over: Option<u64>,
}

impl<'a> Tries<'a> {
    /// Whether a question goes on with the lookup: it was asked because none of the tries had
    /// brought what the client wanted.
    fn go_on_with(&self, e: &Exchange) -> bool {
        let Some(last) = self.all.last() else { return true };
        let gap = e.asked.saturating_sub(last.asked);
        if gap > PATIENCE || self.over.is_some_and(|at| at <= e.asked) {
            return false;
        }
        // It waits no longer for what has come back as useless.
        let is_answered = last.came().is_some_and(|(at, _)| at <= e.asked);
        // musl and others ask all servers at the same time.
        // The same message again is a try, whatever another program has asked in between.
        is_answered || e.repeats || gap >= RETRY || e.server != last.server
    }

    fn push(&mut self, e: &'a Exchange) {
        let at = e.answer.as_ref().filter(|answer| answer.is_final()).map(|answer| answer.at);
        self.over = [self.over, at].into_iter().flatten().min();
        self.all.push(e);
    }
}

/// The lookups of a capture, in the order of their first questions.
pub(super) fn gather<'a>(
    exchanges: &'a [Exchange],
    latest: u64,
    has_answers: impl Fn(IpAddr) -> bool,
) -> Vec<Case<'a>> {
    // Numbers sort faster than names, and `RandomState` keeps anyone from making them equal; within
    // one number, the order is that of the capture.
    let (random, key) = (RandomState::new(), |e: &'a Exchange| (e.client.ip(), &*e.name, e.kind, e.protocol));
    let mut order: Vec<(u64, u32)> = exchanges.iter().zip(0..).map(|(e, i)| (random.hash_one(key(e)), i)).collect();
    order.sort_unstable();
    let mut cases: Vec<Case<'_>> = Vec::new();
    let of = |i: u32| &exchanges[i as usize];
    for same in order.chunk_by(|a, b| a.0 == b.0 && key(of(a.1)) == key(of(b.1))) {
        let has_answers = has_answers(of(same[0].1).client.ip());
        let mut close = |tries: Tries<'a>| {
            let case = Case::new(tries.all, has_answers, latest);
            cases.push(Case { number: tries.first.into(), ..case });
        };
        let mut tries = Tries::default();
        for &(_, i) in same {
            if !tries.go_on_with(of(i)) {
                close(std::mem::take(&mut tries));
            }
            if tries.all.is_empty() {
                tries.first = i;
            }
            tries.push(of(i));
        }
        close(tries);
    }
    cases.sort_unstable_by_key(|case| case.number);
    (1..).zip(&mut cases).for_each(|(number, case)| case.number = number);
    cases
}
