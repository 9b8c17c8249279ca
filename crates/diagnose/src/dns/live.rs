//! DNS as it happens, for as long as it goes on: each lookup is handed out when it is over, and
//! then forgotten.

use std::collections::HashSet;
use std::net::SocketAddr;

use record::dns::{Answered, Protocol};
use record::{Instant, Nanos, Question, SeqNumber};
use wire::Flags;
use wire::packet::Span;
use wire::packet::dns::{code_name, kind_name};

use super::lookup::{Case, GIVEN_UP, PATIENCE, gather, joined, of_answer};
use super::{Dns, Ends, Met, Totals};

/// Of so many directions of TCP the messages are put together: a share of what a capture has.
const SHARE_OF_STREAMS: usize = 64;

/// Follows the lookups of one program. Both directions are seen, and every message once.
#[derive(Debug)]
pub struct Live {
    dns: Dns,
    messages: u64,
}

impl Live {
    /// One that has seen nothing, and keeps so many questions at a time.
    pub fn new(most: usize, seed: [u64; 2]) -> Self {
        let dns = Dns { copy: 0, most, ..Dns::new(most, SHARE_OF_STREAMS, seed) };
        Self { dns, messages: 0 }
    }

    /// Takes a datagram; times are on any one clock.
    pub fn datagram(&mut self, source: SocketAddr, destination: SocketAddr, at: u64, span: Span<'_>) {
        self.message(Met { source, destination, tcp: false, at, packet: 0 }, span);
    }

    /// Takes a segment of TCP.
    pub fn segment(&mut self, ends: (SocketAddr, SocketAddr), control: (SeqNumber, Flags), at: u64, payload: Span<'_>) {
        let mut streams = std::mem::take(&mut self.dns.streams);
        let (source, destination) = ends;
        streams.take(ends, control, payload, |span| {
            self.message(Met { source, destination, tcp: true, at, packet: 0 }, span);
        });
        self.dns.streams = streams;
    }

    fn message(&mut self, met: Met, span: Span<'_>) {
        self.messages += 1;
        if let Some(message) = self.dns.parse(span) {
            self.dns.read(Met { packet: self.messages, ..met }, Protocol::Dns, message);
        }
    }

    /// The tries of each lookup that is over now; they are forgotten.
    pub fn over(&mut self, now: u64) -> Vec<Vec<Question>> {
        self.take(|case| is_over(case, now), now)
    }

    /// Those of all others, as nothing more will come.
    pub fn end(&mut self, now: u64) -> Vec<Vec<Question>> {
        self.take(|_| true, now)
    }

    /// How many questions are not over.
    pub fn open(&self) -> usize {
        self.dns.exchanges.len()
    }

    /// Whether nothing is kept.
    pub fn is_idle(&self) -> bool {
        self.dns.exchanges.is_empty() && self.dns.streams.is_empty()
    }

    /// Counts over everything so far.
    pub fn totals(&self) -> Totals {
        self.dns.totals()
    }

    fn take(&mut self, is_taken: impl Fn(&Case<'_>) -> bool, now: u64) -> Vec<Vec<Question>> {
        let cases = gather(&self.dns.exchanges, now, |_| true);
        let taken: Vec<&Case<'_>> = cases.iter().filter(|case| is_taken(case)).collect();
        let rows: Vec<Vec<Question>> = taken.iter().map(|case| questions(case)).collect();
        let gone: HashSet<u64> = taken.iter().flat_map(|case| case.tries.iter().map(|e| e.packet)).collect();
        if !gone.is_empty() {
            self.forget(&gone);
        }
        rows
    }

    fn forget(&mut self, gone: &HashSet<u64>) {
        self.dns.exchanges.retain(|e| !gone.contains(&e.packet));
        self.dns.by_ends.clear();
        for index in 0..self.dns.exchanges.len() {
            let ends = Ends::of(&self.dns.exchanges[index]);
            self.dns.latest_is(&ends, index as u32);
        }
    }
}

/// Whether nothing more is to be expected of a lookup.
fn is_over(case: &Case<'_>, now: u64) -> bool {
    let all_answered = case.tries.iter().all(|e| e.answer.is_some());
    let waits = match (case.is_resolved(), all_answered) {
        (true, true) => return true,
        // A late answer to another try, or another try after an error.
        (true, false) | (false, true) => GIVEN_UP,
        (false, false) => PATIENCE,
    };
    case.tries.last().is_none_or(|last| now.saturating_sub(last.asked) > waits)
}

/// The tries of a lookup as records.
fn questions(case: &Case<'_>) -> Vec<Question> {
    let first = case.first();
    let of = |(i, e): (usize, &&super::Exchange)| {
        let answer = e.answer.as_deref();
        Question {
            number: i as u32 + 1,
            tries: case.tries.len() as u32,
            local: e.client,
            server: e.server,
            over_tcp: e.tcp,
            name: e.name.to_string(),
            kind: kind_name(e.kind).into_owned(),
            asked: Instant::from_nanos(e.asked),
            took: e.took().map(Nanos),
            answered: match answer {
                Some(answer) => of_answer(answer),
                None if case.is_given_up(i) => Answered::Unanswered,
                None => Answered::NotKnown,
            },
            code: answer.map(|answer| code_name(answer.code).into_owned()),
            truncated: answer.is_some_and(|answer| answer.truncated),
            ends_lookup: case.at == Some(i),
            since_first: Nanos(e.asked.saturating_sub(first.asked)),
            until_retry: case.tries.get(i + 1).map(|next| Nanos(next.asked.saturating_sub(e.asked))),
            addresses: answer.map(|answer| joined(&answer.addresses)).unwrap_or_default(),
            ..Question::blank()
        }
    };
    case.tries.iter().enumerate().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const CLIENT: &str = "10.0.0.1:4000";
    const SERVER: &str = "10.0.0.53:53";

    fn message(id: u16, answers: Option<(u8, bool)>) -> Vec<u8> {
        let (flags, truncated) = answers.map_or((0, false), |(_, cut)| (0x80_u8 | u8::from(cut) << 1, cut));
        let found = answers.is_some_and(|(code, _)| code == 0) && !truncated;
        let mut bytes = id.to_be_bytes().to_vec();
        bytes.extend([flags | 1, answers.map_or(0, |(code, _)| code), 0, 1, 0, found.into(), 0, 0, 0, 0]);
        bytes.extend(b"\x03www\x07example\x00\x00\x01\x00\x01");
        if found {
            bytes.extend(b"\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x3c\x00\x04\x0a\x00\x00\x09");
        }
        bytes
    }

    fn whole(data: &[u8]) -> Span<'_> {
        Span { data, wire: data.len() as u32 }
    }

    fn asks(live: &mut Live, server: &str, id: u16, ms: u64) {
        let bytes = message(id, None);
        live.datagram(CLIENT.parse().unwrap(), server.parse().unwrap(), ms * MS, whole(&bytes));
    }

    fn answers(live: &mut Live, server: &str, id: u16, code: u8, ms: u64) {
        let bytes = message(id, Some((code, false)));
        live.datagram(server.parse().unwrap(), CLIENT.parse().unwrap(), ms * MS, whole(&bytes));
    }

    #[test]
    fn a_lookup_is_handed_out_once_when_it_is_over() {
        let mut live = Live::new(100, [1, 2]);
        asks(&mut live, SERVER, 1, 0);
        assert_eq!(live.over(4_999 * MS), Vec::<Vec<Question>>::new());
        asks(&mut live, SERVER, 2, 5_000);
        answers(&mut live, SERVER, 2, 0, 5_020);
        // The first try may still be answered.
        assert_eq!((live.over(5_100 * MS).len(), live.open()), (0, 2));
        let over = live.over(10_001 * MS);
        assert_eq!((over.len(), live.open(), live.is_idle()), (1, 0, true));
        let [first, second] = &over[0][..] else { panic!("{over:?}") };
        assert_eq!(
            (first.answered, first.took, first.until_retry),
            (Answered::Unanswered, None, Some(Nanos(5_000 * MS)))
        );
        assert_eq!((second.number, second.tries, second.since_first), (2, 2, Nanos(5_000 * MS)));
        assert_eq!((second.took, second.code.as_deref()), (Some(Nanos(20 * MS)), Some("NOERROR")));
        assert_eq!((second.ends_lookup, second.addresses.as_str()), (true, "10.0.0.9"));
        assert_eq!((second.waited(), first.ends_lookup), (Nanos(5_020 * MS), false));
        assert_eq!(live.over(20_000 * MS).len(), 0);
    }

    #[test]
    fn a_late_answer_finds_its_question_after_others_were_forgotten() {
        let mut live = Live::new(100, [1, 2]);
        for id in 1..=3 {
            asks(&mut live, SERVER, id, u64::from(id) * 200);
            answers(&mut live, SERVER, id, 0, u64::from(id) * 200 + 1);
        }
        asks(&mut live, SERVER, 9, 1_000);
        assert_eq!((live.over(1_001 * MS).len(), live.open()), (3, 1));
        answers(&mut live, SERVER, 9, 3, 1_300);
        let over = live.over(1_301 * MS);
        assert_eq!((over[0][0].answered, over[0][0].took), (Answered::NoSuchName, Some(Nanos(300 * MS))));
        assert_eq!((live.totals().questions, live.totals().answers, live.totals().without_question), (4, 4, 0));
    }

    #[test]
    fn an_error_waits_for_the_next_server_and_the_end_says_what_is_not_known() {
        let mut live = Live::new(100, [1, 2]);
        asks(&mut live, SERVER, 1, 0);
        answers(&mut live, SERVER, 1, 2, 5);
        asks(&mut live, "10.0.0.54:53", 1, 6);
        assert_eq!(live.over(1_000 * MS).len(), 0);
        let over = live.end(2_000 * MS);
        let of: Vec<_> = over[0].iter().map(|q| (q.answered, q.code.clone(), q.ends_lookup)).collect();
        assert_eq!(of, [(Answered::Failed, Some("SERVFAIL".into()), true), (Answered::NotKnown, None, false)]);
        assert!(live.is_idle());
    }

    #[test]
    fn a_question_over_tcp_goes_on_with_the_one_that_was_cut_short() {
        let mut live = Live::new(100, [1, 2]);
        let (client, server): (SocketAddr, SocketAddr) = (CLIENT.parse().unwrap(), SERVER.parse().unwrap());
        asks(&mut live, SERVER, 1, 0);
        let cut = message(1, Some((0, true)));
        live.datagram(server, client, MS, whole(&cut));
        let framed = |bytes: Vec<u8>| [&(bytes.len() as u16).to_be_bytes()[..], &bytes].concat();
        let (question, answer) = (framed(message(1, None)), framed(message(1, Some((0, false)))));
        live.segment((client, server), (SeqNumber(10), Flags::ACK), 3 * MS, whole(&question));
        // In two pieces.
        live.segment((server, client), (SeqNumber(70), Flags::ACK), 4 * MS, whole(&answer[..7]));
        live.segment((server, client), (SeqNumber(77), Flags::ACK), 9 * MS, whole(&answer[7..]));
        let over = live.over(10 * MS);
        let of: Vec<_> = over[0].iter().map(|q| (q.over_tcp, q.truncated, q.took, q.ends_lookup)).collect();
        assert_eq!(of, [(false, true, Some(Nanos(MS)), false), (true, false, Some(Nanos(6 * MS)), true)]);
    }

    #[test]
    fn beyond_the_bound_questions_are_counted() {
        let mut live = Live::new(2, [1, 2]);
        (1..=5).for_each(|id| asks(&mut live, SERVER, id, u64::from(id)));
        assert_eq!((live.open(), live.totals().beyond_limit), (2, 3));
    }
}
