//! What looking names up cost: lookups that are slow, asked again, or have no answer.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use paper::document::{Clause, Text};
use record::Leg;
use summary::{LookedUp, TraceSummary};

use super::Facts;

/// Where the stub resolver of systemd-resolved listens.
const STUB: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 53));
/// Where this part of the trace's time goes into lookups, that is the answer to what takes so long.
const PART: u64 = 10;

/// A server as people read it: its port only where it is another than 53.
pub(crate) fn server(at: SocketAddr) -> Text {
    let named = match at.port() {
        53 => Text::from("").and(at.ip()),
        _ => Text::from("").and(at),
    };
    if at.ip() == STUB { named.and(" (systemd-resolved's stub)") } else { named }
}

/// Lookups that take long, and whether that is the answer.
pub(crate) fn trouble(summary: &TraceSummary, facts: &Facts) -> Option<(bool, Clause)> {
    let names = summary.names();
    let worst = names.slowest().first().filter(|_| names.noticed > 0)?;
    let n = quantity::counted(names.lookups, "name lookup");
    let how_many = match (names.noticed, names.lookups) {
        (1, 1) => Text::from("The only name lookup took long: "),
        (noticed, all) if noticed == all => Text::from(format!("All {n} took long: ")),
        (noticed, _) => Text::from(format!("{} of {n} took long: ", quantity::count(noticed))),
    };
    let text = of_worst(how_many.and(Text::code(&worst.first.name)), worst).and(".");
    let sends = summary.total().leg(Leg::Total).sum();
    let answer = u128::from(names.waited.0) >= sends || names.waited.0.saturating_mul(PART) >= facts.lasted.0;
    Some((answer, Clause::finding(text).with_next(Some(whats_next(worst)))))
}

/// What became of the lookup that waited longest.
fn of_worst(text: Text, worst: &LookedUp) -> Text {
    let (first, last) = (&worst.first, &worst.last);
    let (by, waited) = (server(last.server), quantity::whole(worst.waited));
    let tries = quantity::ordinal(last.number as usize);
    let again = quantity::whole(last.since_first);
    match (worst.is_answered(), last.number) {
        (true, 1) => text.and(format!(" ({}) took {waited}, until ", first.kind)).and(by).and(" answered"),
        (true, _) if first.server == last.server => {
            let text = text.and(format!(" ({}) took {waited}, because ", first.kind)).and(by);
            text.and(format!(" answered only the {tries} try, {again} after the first"))
        }
        (true, _) => {
            let text = text.and(format!(" ({}) took {waited}, because ", first.kind)).and(server(first.server));
            text.and(" did not help, and ").and(by).and(format!(" was asked {again} later"))
        }
        (false, 1) => text.and(format!(" ({}) was asked for once, and ", first.kind)).and(by).and(" did not answer"),
        (false, n) => {
            let text = text.and(format!(" ({}) was asked for {n} times over {again}, and ", first.kind)).and(by);
            text.and(" did not answer")
        }
    }
}

fn whats_next(worst: &LookedUp) -> Text {
    let silent = if worst.first.number == worst.last.number { &worst.last } else { &worst.first };
    let text = Text::from("see why ").and(server(silent.server));
    let text = match worst.is_answered() && worst.last.number == 1 {
        true => text.and(" takes so long, or ask one that is nearer"),
        false => text.and(" drops questions (it is down, overloaded, or something on the way drops UDP)"),
    };
    text.and("; ").and(Text::code("options timeout:1 attempts:2")).and(" in resolv.conf bounds the wait.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::connections;
    use record::dns::Answered;
    use record::{Event, Instant, Nanos, Question};
    use summary::Limits;

    const SECOND: u64 = 1_000_000_000;

    fn traced(questions: &[Question]) -> TraceSummary {
        let mut summary = TraceSummary::new(Limits::default(), Instant::from_nanos(0));
        questions.iter().for_each(|q| summary.add(&Event::from(q.clone())));
        summary
    }

    fn question(lookup: u64, number: u32, tries: u32, took: Option<u64>) -> Question {
        let since_first = Nanos(5 * SECOND * u64::from(number - 1));
        Question {
            lookup,
            number,
            tries,
            name: "www.example.com".into(),
            kind: "A".into(),
            server: "10.0.0.53:53".parse().unwrap(),
            asked: Instant::from_nanos(since_first.0),
            since_first,
            until_retry: (number < tries).then_some(Nanos(5 * SECOND)),
            took: took.map(Nanos),
            ends_lookup: took.is_some(),
            answered: if took.is_some() { Answered::Found } else { Answered::Unanswered },
            ..Question::blank()
        }
    }

    fn said(summary: &TraceSummary) -> (bool, String) {
        let (answer, clause) = trouble(summary, &connections::tests::facts(0)).unwrap();
        (answer, clause.text.to_string().replace('\u{a0}', " "))
    }

    #[test]
    fn a_lookup_that_was_answered_on_the_second_try_is_the_answer() {
        let summary =
            traced(&[question(1, 1, 2, None), question(1, 2, 2, Some(1_000_000)), question(2, 1, 1, Some(9))]);
        let text = "1 of 2 name lookups took long: `www.example.com` (A) took 5.00 s, because 10.0.0.53 answered only the second try, \
                    5.00 s after the first.";
        assert_eq!(said(&summary), (true, text.to_owned()));
    }

    #[test]
    fn the_stub_is_named_and_silence_is_said() {
        let stub = |of: Question| Question { server: "127.0.0.53:53".parse().unwrap(), ..of };
        let summary = traced(&[stub(question(1, 1, 1, Some(2 * SECOND)))]);
        let text = "The only name lookup took long: `www.example.com` (A) took 2.00 s, until 127.0.0.53 (systemd-resolved's stub) \
                    answered.";
        assert_eq!(said(&summary), (true, text.to_owned()));
        let silent = traced(&[question(1, 1, 2, None), question(1, 2, 2, None)]);
        let text = "The only name lookup took long: `www.example.com` (A) was asked for 2 times over 5.00 s, and 10.0.0.53 did not \
                    answer.";
        assert_eq!(said(&silent), (true, text.to_owned()));
    }

    #[test]
    fn quick_lookups_are_no_trouble() {
        let summary = traced(&[question(1, 1, 1, Some(3_000_000))]);
        assert!(trouble(&summary, &connections::tests::facts(0)).is_none());
    }
}
