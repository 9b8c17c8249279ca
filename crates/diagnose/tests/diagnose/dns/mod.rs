//! DNS: each cause on a small capture, and what a capture cannot show.

pub mod made;
mod recorded;

use std::net::SocketAddrV4;

use diagnose::{Follower, Options};
use made::{
    A, AAAA, ASK, Ask, CLIENT, FIRST, MS, Made, NAME, NO_SUCH_NAME, REFUSED, Read, S, SECOND, TXT, name, of, read,
};
use record::Nanos;
use record::dns::{Answered, DnsFindingKind as Kind, Protocol};
use wire::{Flags, PacketReader, Shard};

#[test]
fn a_name_that_is_answered_takes_the_time_from_question_to_answer() {
    let mut made = Made::default();
    made.asks(0, ASK);
    made.answers(12 * MS, ASK);
    let read = made.read();
    let lookup = read.only();
    assert_eq!((lookup.name.as_str(), lookup.kind.as_str(), lookup.tries), (NAME, "A", 1));
    assert_eq!(
        (lookup.took_ns, lookup.answered, lookup.answered_try),
        (Some(Nanos(12 * MS)), Answered::Found, Some(1))
    );
    assert_eq!((lookup.addresses.as_str(), lookup.packets.as_str()), ("198.51.100.7", "1 2"));
    assert_eq!((lookup.client, lookup.server), (CLIENT.into(), Some(FIRST.into())));
    assert_eq!((read.findings.len(), read.totals.answers), (0, 1));
}

#[test]
fn the_same_message_again_is_answered_after_its_second_try() {
    let mut made = Made::default();
    made.asks(0, ASK);
    made.asks(5_000 * MS, ASK);
    made.answers(5_012 * MS, ASK);
    let read = made.read();
    let lookup = read.only();
    assert_eq!((lookup.tries, lookup.answered_try), (2, Some(2)));
    assert_eq!((lookup.took_ns, lookup.earlier_tries_ns), (Some(Nanos(5_012 * MS)), Nanos(5_000 * MS)));
    assert_eq!(read.kinds(), [Kind::Retries]);
    let finding = &read.findings[0];
    assert_eq!((finding.cost_ns, finding.count, finding.packets.as_str()), (Nanos(5_000 * MS), 1, "1 2 3"));
    assert_eq!(
        finding.text,
        "`www.example.com` took 5.01 s to resolve: 192.0.2.53 answered 12.0 ms after the second try, 5.00 s after the first"
    );
    // Whether the first try was answered late is not to be seen: the time is no server's.
    assert_eq!((read.servers[0].unanswered, read.servers[0].median_ns), (1, None));
}

#[test]
fn a_try_with_another_number_and_port_is_the_one_that_was_answered() {
    let mut made = Made::default();
    let again = Ask { id: 2, port: 40_001, ..ASK };
    made.asks(0, ASK);
    made.asks(5_000 * MS, again);
    made.answers(5_003 * MS, again);
    let read = made.read();
    assert_eq!(read.kinds(), [Kind::Retries]);
    assert_eq!(
        read.findings[0].text,
        "`www.example.com` took 5.00 s to resolve: 192.0.2.53 answered only the second try, 5.00 s after the first"
    );
    assert!(read.findings[0].next.contains("options timeout:1"), "{}", read.findings[0].next);
    assert_eq!(read.servers[0].median_ns, Some(Nanos(3 * MS)));
}

#[test]
fn two_programs_that_ask_for_the_same_at_the_same_time_do_not_retry() {
    let mut made = Made::default();
    let other = Ask { id: 2, port: 40_001, ..ASK };
    made.asks(0, ASK);
    made.asks(3 * MS, other);
    made.answers(20 * MS, ASK);
    made.answers(21 * MS, other);
    let read = made.read();
    assert_eq!((read.lookups.len(), read.findings.len()), (2, 0), "{read:#?}");
    assert!(read.lookups.iter().all(|l| l.tries == 1 && l.answered == Answered::Found));
    // A question asked again after its answer is a lookup of its own.
    made.asks(100 * MS, Ask { id: 3, ..ASK });
    made.answers(101 * MS, Ask { id: 3, ..ASK });
    assert_eq!(made.read().lookups.len(), 3);
}

#[test]
fn a_silent_server_costs_the_wait_before_the_other_one_is_asked() {
    let mut made = Made::default();
    for (n, host) in [(0, "a.example"), (1, "b.example")] {
        let dead = Ask { id: 10 + n, server: SECOND, name: host, ..ASK };
        let start = u64::from(n) * 60 * S;
        made.asks(start, dead);
        made.asks(start + 5_000 * MS, Ask { server: FIRST, ..dead });
        made.answers(start + 5_002 * MS, Ask { server: FIRST, ..dead });
    }
    let read = made.read();
    assert_eq!(read.kinds(), [Kind::Silent]);
    let finding = &read.findings[0];
    assert_eq!((finding.cost_ns, finding.count), (Nanos(10_000 * MS), 2));
    assert_eq!(
        finding.text,
        "`a.example` took 5.00 s to resolve: 192.0.2.54 did not answer, and 192.0.2.53 was asked 5.00 s later; 192.0.2.54 \
         answered none of 2 questions"
    );
    let dead = &read.servers[1];
    assert_eq!((dead.questions, dead.answered, dead.unanswered), (2, 0, 2));
}

#[test]
fn a_slow_server_is_named_by_its_median_beside_another() {
    let mut made = Made::default();
    let names: Vec<String> = (0..20).map(|n| format!("host{n}.example")).collect();
    for (n, host) in (0..).zip(&names) {
        let (server, took) = if n % 2 == 0 { (FIRST, 80 * MS) } else { (SECOND, 2 * MS) };
        let ask = Ask { id: n, server, name: host, ..ASK };
        made.asks(u64::from(n) * S, ask);
        made.answers(u64::from(n) * S + took, ask);
    }
    let read = made.read();
    assert_eq!(read.kinds(), [Kind::Slow]);
    let text = &read.findings[0].text;
    assert!(
        text.starts_with("answers of 192.0.2.53 take long (median of 10 answers: 80.0 ms, none below 80.0 ms)"),
        "{text}"
    );
    assert!(text.ends_with("192.0.2.54 takes 2.00 ms"), "{text}");
    assert_eq!(read.findings[0].cost_ns, Nanos(800 * MS));
}

#[test]
fn one_answer_that_took_long_is_named_beside_the_median() {
    let mut made = Made::default();
    let names: Vec<String> = (0..9).map(|n| format!("host{n}.example")).collect();
    for (n, host) in (0..).zip(&names) {
        let ask = Ask { id: n, name: host, ..ASK };
        made.asks(u64::from(n) * 10 * S, ask);
        made.answers(u64::from(n) * 10 * S + if n == 4 { 2 * S } else { 3 * MS }, ask);
    }
    let read = made.read();
    assert_eq!(read.kinds(), [Kind::Slow]);
    assert_eq!(
        read.findings[0].text,
        "192.0.2.53 took 2.00 s to answer for `host4.example` (median of 9 answers: 3.00 ms)"
    );
    assert_eq!(read.findings[0].cost_ns, Nanos(2 * S));
}

#[test]
fn a_server_that_refuses_is_named_with_its_code() {
    let mut made = Made::default();
    let refused = Ask { server: SECOND, ..ASK };
    made.asks(0, refused);
    made.says(MS, refused, &refused.error(REFUSED));
    made.asks(2 * MS, ASK);
    made.answers(4 * MS, ASK);
    let read = made.read();
    let lookup = read.only();
    assert_eq!((lookup.answered, lookup.tries, lookup.server), (Answered::Found, 2, Some(FIRST.into())));
    assert_eq!(read.kinds(), [Kind::Failed]);
    assert_eq!(
        read.findings[0].text,
        "192.0.2.54 answered with REFUSED (its only answer), for `www.example.com`: another server resolved it"
    );
    assert_eq!((read.findings[0].cost_ns, read.servers[1].failed), (Nanos(2 * MS), 1));
}

#[test]
fn a_closed_port_answers_by_icmp() {
    let mut made = Made::default();
    let nobody = Ask { server: SECOND, ..ASK };
    let question = made.asks(0, nobody);
    made.refuses(MS, &question);
    made.asks(2 * MS, ASK);
    made.answers(4 * MS, ASK);
    let read = made.read();
    assert_eq!((read.only().tries, read.only().answered), (2, Answered::Found));
    assert_eq!(read.kinds(), [Kind::Unreachable]);
    assert_eq!((read.servers[1].unreachable, read.servers[1].unanswered), (1, 0));
    assert!(read.findings[0].text.starts_with("ICMP came in answer to 1 question to 192.0.2.54"));
}

#[test]
fn an_answer_to_a_closed_socket_is_none() {
    let mut made = Made::default();
    let again = Ask { id: 2, port: 40_001, ..ASK };
    made.asks(0, ASK);
    made.asks(5 * S, again);
    let late = made.answers(6 * S, ASK);
    made.refuses(6 * S + MS, &late);
    made.answers(7 * S, again);
    let read = made.read();
    let lookup = read.only();
    assert_eq!((lookup.tries, lookup.too_late, lookup.answered_try), (2, 1, Some(2)));
    assert_eq!(lookup.took_ns, Some(Nanos(7 * S)));
    let finding = read.finding(Kind::TooLate);
    assert!(
        finding.text.starts_with("192.0.2.53 answered `www.example.com` 6.00 s after the first question"),
        "{}",
        finding.text
    );
}

#[test]
fn a_late_answer_that_the_client_still_takes_ends_the_lookup() {
    let mut made = Made::default();
    made.asks(0, ASK);
    made.asks(5 * S, Ask { id: 2, ..ASK });
    made.answers(5_200 * MS, ASK);
    let read = made.read();
    let lookup = read.only();
    assert_eq!((lookup.took_ns, lookup.answered_try, lookup.tries), (Some(Nanos(5_200 * MS)), Some(1), 2));
    assert_eq!(read.kinds(), [Kind::Slow], "the retry brought nothing: {read:#?}");
}

#[test]
fn an_answer_too_large_for_udp_comes_over_tcp() {
    let mut made = Made::default();
    let ask = Ask { kind: TXT, ..ASK };
    made.asks(0, ask);
    made.says(2 * MS, ask, &ask.truncated());
    let prefixed = |message: Vec<u8>| [&(message.len() as u16).to_be_bytes(), &message[..]].concat();
    let text = [&[200][..], &[b'x'; 200]].concat();
    let (question, answer) = (prefixed(ask.question(1_232)), prefixed(ask.answer(&[text.as_slice(); 8])));
    made.segment(3 * MS, true, 99, Flags::SYN, &[]);
    made.segment(13 * MS, false, 499, Flags::SYN | Flags::ACK, &[]);
    made.segment(14 * MS, true, 100, Flags::ACK | Flags::PSH, &question);
    made.segment(24 * MS, false, 500, Flags::ACK, &answer[..1_000]);
    made.segment(26 * MS, false, 1_500, Flags::ACK | Flags::PSH, &answer[1_000..]);
    let read = made.read();
    let lookup = read.only();
    assert_eq!((lookup.tries, lookup.truncated, lookup.over_tcp, lookup.answered), (2, true, true, Answered::Found));
    assert_eq!(lookup.took_ns, Some(Nanos(26 * MS)));
    assert_eq!(read.kinds(), [Kind::Truncated]);
    assert_eq!(read.findings[0].cost_ns, Nanos(24 * MS));
    assert_eq!(
        read.findings[0].text,
        "192.0.2.53 could not fit the answer for `www.example.com` into the 1232 bytes that the client takes: over TCP it \
         took 24.0 ms more"
    );
}

/// An answer that is cut short, and what becomes of the connection over TCP that follows it.
fn cut_short(then: impl Fn(&mut Made)) -> Read {
    let mut made = Made::default();
    made.asks(0, ASK);
    made.says(2 * MS, ASK, &ASK.truncated());
    made.segment(3 * MS, true, 99, Flags::SYN, &[]);
    then(&mut made);
    made.read()
}

#[test]
fn tcp_that_fails_after_an_answer_cut_short_says_how() {
    let refused = cut_short(|made| made.segment(13 * MS, false, 0, Flags::RST | Flags::ACK, &[]));
    assert_eq!((refused.kinds(), refused.only().answered), (vec![Kind::Truncated], Answered::NotKnown));
    let f = &refused.findings[0];
    assert!(f.text.ends_with("the connection over TCP was refused after 10.0 ms"), "{}", f.text);
    assert!(f.next.starts_with("open port 53 of TCP on 192.0.2.53"), "{}", f.next);
    assert_eq!(f.cost_ns, Nanos(11 * MS));
    let text = |read: &Read| read.finding(Kind::Truncated).text.clone();
    let silent = cut_short(|made| {
        made.segment(1_003 * MS, true, 99, Flags::SYN, &[]);
        made.segment(6_003 * MS, true, 99, Flags::SYN, &[]);
    });
    assert!(text(&silent).ends_with("nothing answered the connection over TCP"), "{silent:#?}");
    let ends = cut_short(|_| ());
    assert!(text(&ends).ends_with("the capture ends before the connection over TCP was answered"), "{ends:#?}");
    let other = cut_short(|made| {
        made.segment(13 * MS, false, 499, Flags::SYN | Flags::ACK, &[]);
        made.segment(20 * MS, false, 500, Flags::RST | Flags::ACK, &[]);
    });
    assert!(text(&other).ends_with("the capture holds no question over TCP after it"), "{other:#?}");
}

#[test]
fn a_socket_that_was_left_for_tcp_was_not_closed_too_soon() {
    let mut made = Made::default();
    let other = Ask { id: 2, kind: AAAA, ..ASK };
    made.asks(0, ASK);
    made.asks(0, other);
    made.says(10 * MS, ASK, &ASK.truncated());
    let late = made.answers(12 * MS, other);
    made.refuses(12 * MS, &late);
    let read = made.read();
    assert_eq!(read.kinds(), [Kind::Truncated]);
    let aaaa = read.lookups.iter().find(|l| l.kind == "AAAA").unwrap();
    assert_eq!((aaaa.answered, aaaa.too_late), (Answered::NotKnown, 0));
    assert_eq!(aaaa.withheld.as_deref(), Some("the client went on over TCP, and the capture does not show that"));
}

#[test]
fn an_answer_that_came_too_late_was_an_answer() {
    let mut made = Made::default();
    made.asks(0, ASK);
    let late = made.answers(1_500 * MS, ASK);
    made.refuses(1_500 * MS, &late);
    // It answers others.
    made.asks(2 * S, Ask { id: 2, port: 40_001, name: "other.example", ..ASK });
    made.answers(2_010 * MS, Ask { id: 2, port: 40_001, name: "other.example", ..ASK });
    assert_eq!(made.read().kinds(), [Kind::TooLate]);
}

#[test]
fn aaaa_that_is_late_makes_no_slow_server() {
    let mut made = Made::default();
    let other = Ask { id: 2, kind: AAAA, ..ASK };
    made.asks(0, ASK);
    made.asks(0, other);
    made.answers(10 * MS, ASK);
    made.answers(800 * MS, other);
    assert_eq!(made.read().kinds(), [Kind::LateAaaa]);
}

#[test]
fn a_search_list_asks_five_questions_where_one_would_do() {
    let mut made = Made::default();
    let base = "redis.data.svc.cluster.local";
    let suffixes = [".default.svc.cluster.local", ".svc.cluster.local", ".cluster.local", ".corp.example", ""];
    for kind in [A, AAAA] {
        for (n, suffix) in (0..).zip(suffixes) {
            let host = format!("{base}{suffix}");
            let ask = Ask { id: n + kind, name: &host, kind, ..ASK };
            let at = u64::from(n) * 2 * MS;
            made.asks(at, ask);
            match suffix {
                "" => made.answers(at + MS, ask),
                _ => made.says(at + MS, ask, &ask.error(NO_SUCH_NAME)),
            };
        }
    }
    made.packets.sort_by_key(|(at, _)| *at);
    let read = made.read();
    assert_eq!((read.lookups.len(), read.kinds()), (10, vec![Kind::Search]));
    let finding = &read.findings[0];
    assert_eq!((finding.count, finding.cost_ns), (2, Nanos(8 * MS)), "both types at the same time cost it once");
    assert!(finding.text.starts_with("`redis.data.svc.cluster.local` was found by the fifth question, 8.00 ms after"));
    assert!(
        finding.text.contains("`.default.svc.cluster.local`, `.svc.cluster.local`, `.cluster.local`, `.corp.example`")
            && finding.text.contains("8 such questions")
    );
    assert!(finding.next.contains("options ndots:4"), "{}", finding.next);
}

#[test]
fn aaaa_that_is_dropped_holds_up_a_name_that_is_known() {
    let mut made = Made::default();
    let six = Ask { id: 2, kind: AAAA, ..ASK };
    made.asks(0, ASK);
    made.asks(100_000, six);
    made.answers(2 * MS, ASK);
    made.asks(5 * S, Ask { id: 3, ..six });
    made.says(5_003 * MS, six, &Ask { id: 3, ..six }.answer(&[]));
    let read = made.read();
    assert_eq!(read.lookups[1].answered, Answered::NoData);
    let finding = read.finding(Kind::LateAaaa);
    assert_eq!(
        finding.text,
        "A of `www.example.com` was found, but AAAA, asked for with it, was answered 5.00 s later"
    );
    assert_eq!(finding.cost_ns, Nanos(5_001 * MS));
}

#[test]
fn aaaa_that_nobody_answers_is_no_name_that_nobody_resolves() {
    let mut made = Made::default();
    let six = Ask { id: 2, kind: AAAA, ..ASK };
    made.asks(0, ASK);
    made.asks(100_000, six);
    made.answers(2 * MS, ASK);
    made.asks(5 * S, six);
    made.asks(30 * S, Ask { id: 3, ..ASK });
    made.answers(30 * S + MS, Ask { id: 3, ..ASK });
    let read = made.read();
    assert_eq!(read.lookups[1].answered, Answered::Unanswered);
    assert_eq!(read.kinds(), [Kind::LateAaaa]);
    let text = &read.findings[0].text;
    assert!(text.ends_with("AAAA, asked for with it, was not answered, and asked for again for 5.00 s"), "{text}");
}

#[test]
fn a_name_that_nobody_resolves_is_told_from_a_silent_server() {
    let mut made = Made::default();
    made.asks(0, ASK);
    made.answers(MS, ASK);
    let lost = Ask { id: 7, name: "lost.example", ..ASK };
    made.asks(S, lost);
    made.asks(6 * S, lost);
    made.asks(30 * S, Ask { id: 9, ..ASK });
    let read = made.read();
    assert_eq!(read.lookups[1].answered, Answered::Unanswered);
    assert_eq!(read.kinds(), [Kind::Unanswered]);
    assert_eq!(read.findings[0].text, "`lost.example` was not resolved: none of 2 questions in 5.00 s was answered");
    assert_eq!((read.servers[0].answered, read.servers[0].unanswered, read.servers[0].not_known), (1, 2, 1));
}

#[test]
fn what_lies_outside_the_capture_is_withheld() {
    let mut made = Made::default();
    made.asks(0, ASK);
    made.answers(MS, ASK);
    let open = Ask { id: 7, name: "open.example", ..ASK };
    made.asks(2 * S, open);
    made.asks(3 * S, Ask { id: 8, name: "last.example", ..ASK });
    let read = made.read();
    assert_eq!(read.findings, []);
    assert_eq!(read.lookups[1].answered, Answered::NotKnown);
    assert_eq!(read.lookups[1].withheld.as_deref(), Some("the capture ends 1.00 s after the question"));
    assert_eq!(read.servers[0].unanswered, 0);
    // Begun late: the answer alone.
    let mut late = Made::default();
    late.answers(0, ASK);
    let read = late.read();
    assert_eq!((read.lookups.len(), read.totals.without_question), (0, 1));
}

#[test]
fn a_capture_of_one_direction_calls_nobody_silent() {
    let mut made = Made::default();
    for n in 0..10 {
        made.asks(u64::from(n) * 6 * S, Ask { id: n, ..ASK });
    }
    let read = made.read();
    assert_eq!(read.findings, []);
    assert!(read.lookups.iter().all(|l| l.answered == Answered::NotKnown), "{read:#?}");
    assert_eq!((read.servers[0].unanswered, read.servers[0].not_known), (0, 10));
    let why = "the capture holds no answer to this client, so that it may hold one direction only";
    assert_eq!(read.lookups[0].withheld.as_deref(), Some(why));
    // The same message again: the client itself had no answer.
    made.asks(65 * S, Ask { id: 9, ..ASK });
    made.asks(80 * S, Ask { id: 9, name: "later.example", ..ASK });
    assert_eq!(made.read().kinds(), [Kind::Silent]);
}

#[test]
fn silence_says_nothing_of_multicast_dns_and_llmnr() {
    let mut made = Made::default();
    let group = SocketAddrV4::new([224, 0, 0, 251].into(), 5353);
    let (host, printer) = (SocketAddrV4::new(CLIENT, 5353), SocketAddrV4::new(SECOND, 5353));
    let ask = Ask { id: 0, name: "printer.local", ..ASK };
    made.datagram(0, host, group, &ask.question(1_440));
    // Multicast DNS answers without the question.
    let mut answer = vec![0, 0, 0x84, 0, 0, 0, 0, 1, 0, 0, 0, 0];
    answer.extend_from_slice(&name("Printer.local"));
    answer.extend_from_slice(&[0, 1, 0x80, 1, 0, 0, 0, 120, 0, 4, 192, 0, 2, 54]);
    made.datagram(20 * MS, printer, group, &answer);
    made.datagram(S, host, group, &Ask { name: "nobody.local", ..ask }.question(1_440));
    let (asker, all) = (SocketAddrV4::new(CLIENT, 50_111), SocketAddrV4::new([224, 0, 0, 252].into(), 5355));
    let share = Ask { id: 5, name: "share", ..ASK };
    made.datagram(2 * S, asker, all, &share.question(1_440));
    made.datagram(2_010 * MS, SocketAddrV4::new(SECOND, 5355), asker, &share.answer(&[&[192, 0, 2, 54]]));
    made.asks(60 * S, ASK);
    made.answers(60 * S + MS, ASK);
    let read = made.read();
    assert_eq!(read.findings, []);
    let told: Vec<_> = read.lookups.iter().map(|l| (l.name.as_str(), l.protocol, l.answered, l.took_ns)).collect();
    assert_eq!(
        told,
        [
            ("printer.local", Protocol::Mdns, Answered::Found, Some(Nanos(20 * MS))),
            ("nobody.local", Protocol::Mdns, Answered::Unanswered, None),
            ("share", Protocol::Llmnr, Answered::Found, Some(Nanos(10 * MS))),
            (NAME, Protocol::Dns, Answered::Found, Some(Nanos(MS))),
        ]
    );
}

#[test]
fn a_flood_of_questions_is_counted_beyond_the_limit() {
    let mut made = Made::default();
    for n in 0..1_000_u16 {
        made.asks(u64::from(n) * MS, Ask { id: n, port: 1_024 + n, ..ASK });
    }
    let options = Options { connections: 100, ..Options::default() };
    let read = read(&made.file(65_535), options);
    assert_eq!((read.totals.questions, read.totals.beyond_limit), (100, 900));
    assert_eq!(read.servers[0].questions, 100);
}

/// Every cause of above in one capture, at different times.
fn all_causes() -> Made {
    let mut made = Made::default();
    for n in 0..300_u16 {
        let (server, at) = (if n % 3 == 0 { FIRST } else { SECOND }, u64::from(n) * 40 * MS);
        let host = format!("host{}.example", n % 40);
        let ask = Ask { id: n, port: 40_000 + n, server, name: &host, kind: if n % 2 == 0 { A } else { AAAA } };
        made.asks(at, ask);
        match n % 7 {
            0 => made.says(at + MS, ask, &ask.error(REFUSED)),
            1 => made.says(at + MS, ask, &ask.error(NO_SUCH_NAME)),
            2 => made.asks(at + 3 * S, Ask { id: n + 1_000, ..ask }),
            3 => continue,
            _ => made.answers(at + u64::from(n) * MS, ask),
        };
    }
    made.packets.sort_by_key(|(at, _)| *at);
    made
}

#[test]
fn shards_together_find_what_one_reader_does() {
    let file = all_causes().file(65_535);
    let whole = read(&file, Options::default());
    assert!(whole.findings.len() >= 3 && whole.lookups.len() > 100, "{whole:#?}");
    let mut joined: Option<Follower> = None;
    for shard in Shard::all(3, 99) {
        let mut packets = PacketReader::from_bytes(&file).unwrap().only(shard);
        let mut follower = Follower::new(Options::default());
        while packets.next_packet().unwrap().is_some() {
            if let Some(payload) = packets.payload() {
                follower.take_payload(payload);
            }
        }
        assert!(!follower.dns.is_empty());
        joined = Some(match joined {
            None => follower,
            Some(before) => before.join(follower),
        });
    }
    assert_eq!(of(&joined.unwrap()), whole);
}

#[test]
fn what_the_capture_cut_off_is_counted_and_the_rest_is_read() {
    let made = all_causes();
    let whole = read(&made.file(65_535), Options::default());
    // Ethernet, IP and UDP are 42 bytes, and the question begins 12 bytes later.
    for (kept, questions) in [(42, 0), (54, 0), (100, whole.totals.questions)] {
        let cut = read(&made.file(kept), Options::default());
        assert_eq!((cut.totals.questions, cut.totals.malformed), (questions, 0), "{kept} bytes");
        let missing = cut.totals.truncated;
        assert_eq!(missing, if questions == 0 { made.packets.len() as u64 } else { 0 }, "{kept} bytes");
    }
    let times = |r: &Read| r.lookups.iter().map(|l| l.took_ns).collect::<Vec<_>>();
    assert_eq!(times(&read(&made.file(100), Options::default())), times(&whole));
}

#[test]
fn times_that_go_backwards_make_no_negative_time() {
    let mut made = Made::default();
    made.asks(10 * S, ASK);
    made.asks(9 * S, Ask { id: 2, port: 40_001, server: SECOND, ..ASK });
    made.answers(8 * S, Ask { id: 2, port: 40_001, server: SECOND, ..ASK });
    made.asks(7 * S, Ask { id: 3, kind: AAAA, ..ASK });
    made.answers(5 * S, ASK);
    let read = made.read();
    assert_eq!(read.lookups.len(), 3);
    assert!(read.lookups.iter().all(|l| l.took_ns.is_none_or(|took| took <= Nanos(10 * S))), "{read:#?}");
    assert!(read.findings.iter().all(|f| f.cost_ns <= Nanos(10 * S)), "{read:#?}");
}

#[test]
fn the_same_message_again_is_a_try_though_another_program_asks_in_between() {
    let mut made = Made::default();
    made.asks(0, ASK);
    made.asks(950 * MS, Ask { id: 2, port: 40_001, ..ASK });
    made.asks(1_000 * MS, ASK);
    made.answers(1_020 * MS, ASK);
    let read = made.read();
    assert_eq!(read.lookups.len(), 1, "{read:#?}");
    assert_eq!((read.lookups[0].tries, read.lookups[0].packets.as_str()), (3, "1 2 3 4"));
    // Another program's, which asks at the same time.
    let mut made = Made::default();
    made.asks(0, ASK);
    made.asks(50 * MS, Ask { id: 2, port: 40_001, ..ASK });
    assert_eq!(made.read().lookups.len(), 2);
}
