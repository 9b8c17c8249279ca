//! What is said of a connection from every place where people capture: causes that a lab made
//! (`tests/captures`, recorded at both ends by `crates/wirelapse/tests/causes/record.rs`), seen at
//! the sender, before and after the bottleneck, and at the receiver; each of these whole, from 30 %
//! on, and in one direction at a time.
//!
//! A place is right where the cause is found, withheld where it says why it cannot be known there,
//! and wrong otherwise: nothing said, or something that is not so. None may be wrong. The table in
//! `docs/analyze.md` is this test's.

use crate::causes::{CAUSES, Cause};
use crate::files;
use diagnose::{Follower, Options, Report};
use record::Instant;
use wire::{Ecn, Flags, Segment};

/// Where the capture is taken, along the data's way.
const PLACES: [&str; 4] = ["sender", "before", "after", "receiver"];
/// What of it there is.
const CUTS: [&str; 4] = ["whole", "from 30 %", "data only", "ACKs only"];

/// The captures that rules were made with, and those of the same causes with other delays, rates
/// and sizes, with which no rule was made; and ten causes, drawn by chance, with numbers 0.45 of
/// the way from the first set's to the second's.
const SETS: [&str; 3] = ["", "unseen/", "between/"];

fn one_way_ms(set: usize, cause: &Cause) -> u64 {
    let [first, second] = cause.one_way_ms;
    match set {
        0 => first,
        1 => second,
        _ => (first as f64 + (second as f64 - first as f64) * 0.45).round() as u64,
    }
}

fn file(set: usize, name: &str, end: char) -> String {
    format!("{}/tests/captures/{}{name}.{end}.pcap.zst", env!("CARGO_MANIFEST_DIR"), SETS[set])
}

fn recorded(set: usize, name: &str, end: char) -> Vec<Segment> {
    files::segments(&file(set, name, end))
}

/// The connection with most bytes: others only prepared the path.
fn connection(segments: &[Segment]) -> Vec<Segment> {
    let ends = |s: &Segment| (s.source.min(s.destination), s.source.max(s.destination));
    let mut bytes = std::collections::BTreeMap::new();
    segments.iter().for_each(|s| *bytes.entry(ends(s)).or_insert(0) += u64::from(s.payload) + 1);
    let most = bytes.iter().max_by_key(|b| b.1).unwrap().0;
    segments.iter().filter(|s| ends(s) == *most).copied().collect()
}

/// The capture of `cause` at `place` and in `cut`. Host a is the one with the lower address.
fn seen(set: usize, cause: &Cause, place: usize, cut: usize) -> Vec<Segment> {
    let near_a = (place < 2) == (cause.sender == 'a');
    let all = connection(&recorded(set, cause.name, if near_a { 'a' } else { 'b' }));
    let by_a = |s: &Segment| s.source.ip() < s.destination.ip();
    let mut all: Vec<Segment> = if place == 1 || place == 2 {
        // On the path, a quarter of the round trip away from the end where it was recorded: what
        // leaves that end comes by later, and what goes there has come by earlier. The delay is
        // constant, so this is what a capture there holds.
        let away = one_way_ms(set, cause) * 500_000;
        let moved = |s: &Segment| {
            let at = s.at.as_nanos();
            let at = if by_a(s) == near_a { at + away } else { at - away };
            Segment { at: Instant::from_nanos(at), ..*s }
        };
        all.iter().map(moved).collect()
    } else {
        all
    };
    all.sort_by_key(|s| s.at.as_nanos());
    let by_sender = |s: &Segment| by_a(s) == (cause.sender == 'a');
    match cut {
        1 => all.drain(..all.len() * 3 / 10).for_each(drop),
        2 => all.retain(by_sender),
        3 => all.retain(|s| !by_sender(s)),
        _ => {}
    }
    for (n, s) in (1..).zip(&mut all) {
        s.number = n;
    }
    all
}

/// Whether what the cause makes is in this capture at all: some causes act at the beginning alone,
/// and a capture from 30 % on begins behind it.
fn is_there(cause: &Cause, segments: &[Segment]) -> bool {
    let by_data = |s: &&Segment| (s.source.ip() < s.destination.ip()) == (cause.sender == 'a');
    match cause.name {
        "closed_window" => segments.iter().any(|s| s.window == 0 && !s.flags.intersects(Flags::SYN | Flags::RST)),
        "ecn_queue" => segments
            .iter()
            .any(|s| s.network.ecn == Ecn::Ce || s.flags.contains(Flags::ECE) && !s.flags.contains(Flags::SYN)),
        "policer" => {
            let mut data = segments.iter().filter(by_data).filter(|s| s.payload > 0);
            let first = data.next().map(|s| s.seq);
            // Bytes that were sent after later ones: retransmitted, or a hole that is filled.
            let mut highest = first;
            data.any(|s| {
                let behind = highest.is_some_and(|h| s.seq.distance_from(h) < 0);
                highest = highest.filter(|h| s.seq.distance_from(*h) < 0).or(Some(s.seq));
                behind
            })
        }
        _ => true,
    }
}

fn report(segments: &[Segment]) -> Report {
    let mut follower = Follower::new(Options::default());
    segments.iter().for_each(|s| follower.take(s));
    // A start in the middle may split off nothing: one pair of endpoints, one connection.
    let report = follower.reports().max_by_key(|r| r.to_server.packets + r.to_client.packets).unwrap();
    assert_eq!(report.contradiction(), None);
    report
}

#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Right,
    Withheld(String),
    /// What the cause made is not in this part of the connection.
    Past,
    Wrong(String),
}

fn judge(cause: &Cause, r: &Report) -> Outcome {
    let found: Vec<&str> = r.findings.iter().map(|f| f.kind.name()).collect();
    let false_claim = found.iter().find(|k| !cause.right.contains(k) && !cause.also.contains(k));
    let largest = format!("{:?}", r.limits.largest());
    let largest_known = largest == "Unknown" || cause.limits.contains(&largest.as_str()) || r.duration_ns.0 == 0;
    if let Some(kind) = false_claim {
        let text = &r.findings.iter().find(|f| f.kind.name() == *kind).unwrap().text;
        return Outcome::Wrong(format!("{kind}: {text}"));
    }
    if !largest_known {
        return Outcome::Wrong(format!("limit: {}", r.verdict));
    }
    let by_limit = cause.right.contains(&"limit") && largest != "Unknown";
    if by_limit || found.iter().any(|k| cause.right.contains(k)) {
        return Outcome::Right;
    }
    let withheld = r.withheld.iter().find(|w| cause.right.contains(&w.kind.name()));
    if let Some(w) = withheld {
        return Outcome::Withheld(w.reason.to_owned());
    }
    if cause.right.contains(&"limit") && largest == "Unknown" {
        return match r.unclear.map(diagnose::Unclear::reason).or(r.withheld.first().map(|w| w.reason)) {
            Some(reason) => Outcome::Withheld(reason.to_owned()),
            None => Outcome::Wrong(format!("limit: not known, and no reason is given: {}", r.verdict)),
        };
    }
    Outcome::Wrong(format!("nothing said of it: {}", r.verdict))
}

#[test]
fn no_place_claims_what_is_not_so() {
    judge_all(0);
}

#[test]
fn nor_does_any_with_captures_that_no_rule_was_made_with() {
    judge_all(1);
}

#[test]
fn nor_with_ten_causes_of_other_numbers_again() {
    judge_all(2);
}

/// Judges a set; its table is in the docs.
fn judge_all(set: usize) {
    let mut wrong = Vec::new();
    let mut reasons: Vec<String> = Vec::new();
    let mut rows = Vec::new();
    let (mut right, mut withheld) = (0, 0);
    // The third set has ten causes.
    let recorded = |cause: &&Cause| set < 2 || std::path::Path::new(&file(set, cause.name, 'a')).exists();
    for cause in CAUSES.iter().filter(recorded) {
        let mut row = format!("| {} |", cause.words);
        for (p, place) in PLACES.iter().enumerate() {
            for (c, cut) in CUTS.iter().enumerate() {
                let segments = seen(set, cause, p, c);
                let r = report(&segments);
                let outcome = match judge(cause, &r) {
                    Outcome::Wrong(what) if what.starts_with("nothing said") && !is_there(cause, &segments) => {
                        Outcome::Past
                    }
                    outcome => outcome,
                };
                let cell = match outcome {
                    Outcome::Past => "–".to_owned(),
                    Outcome::Right => {
                        right += 1;
                        "✓".to_owned()
                    }
                    Outcome::Withheld(reason) => {
                        withheld += 1;
                        let n = reasons.iter().position(|known| *known == reason).unwrap_or_else(|| {
                            reasons.push(reason);
                            reasons.len() - 1
                        });
                        char::from(b'a' + n as u8).to_string()
                    }
                    Outcome::Wrong(what) => {
                        let shares: Vec<String> = diagnose::Limit::ALL
                            .iter()
                            .map(|l| {
                                format!("{l:?} {:.0}", r.limits.of(*l).0 as f64 * 100.0 / r.duration_ns.0.max(1) as f64)
                            })
                            .collect();
                        wrong.push(format!(
                            "{} at {place}, {cut}: {what}\n      {:?} {}",
                            cause.name,
                            r.vantage.place,
                            shares.join(" ")
                        ));
                        "WRONG".to_owned()
                    }
                };
                row.push_str(&format!(" {cell} |"));
            }
        }
        rows.push(row);
    }
    let mut table = String::from("| cause |");
    for place in PLACES {
        for cut in CUTS {
            table.push_str(&format!(" {place}, {cut} |"));
        }
    }
    table.push_str(&format!("\n|---|{}\n{}\n\n", "---|".repeat(16), rows.join("\n")));
    for (n, reason) in reasons.iter().enumerate() {
        table.push_str(&format!("- {}: {reason}\n", char::from(b'a' + n as u8)));
    }
    println!("{table}\nright {right}, withheld {withheld}, wrong {}", wrong.len());
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
    let docs = include_str!("../../../../docs/analyze.md");
    assert!(docs.contains(&table), "docs/analyze.md does not hold this table");
}
