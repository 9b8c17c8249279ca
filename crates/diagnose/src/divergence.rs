//! Two connections side by side, to the first point where they diverge.

use compare::Verdict;
use record::Nanos;
use record::conversation::Way;
use wire::Flags;

use crate::between::{Between, between};
use crate::findings::precise;
use crate::kept::{Mark, Record};
use crate::report::Report;

/// In what two connections diverge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Difference {
    /// The same packet came later in one.
    Time,
    /// Another kind of packet came, or from the other side.
    Kind,
    /// One ended first.
    End,
}

/// Where and how two connections diverge, and why as far as the findings show.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub struct Divergence {
    /// The place in both, counted in packets from 0; `None` where they never diverge.
    pub at: Option<usize>,
    /// In what.
    pub difference: Option<Difference>,
    /// The packet's number in the first capture.
    pub first_packet: Option<u64>,
    /// In the second.
    pub second_packet: Option<u64>,
    /// How long after the packet before it came in the first.
    pub first_wait_ns: Option<Nanos>,
    /// In the second.
    pub second_wait_ns: Option<Nanos>,
    /// Where both are one connection, captured at two places: what happened between these.
    pub between: Option<Between>,
    /// In words, one sentence each.
    pub text: Vec<String>,
}

/// Times this much apart are the same: what hosts and clocks vary by from run to run, beside the
/// RTTs' difference.
const SAME: u64 = 2_000_000;

/// What kind of packet it is, for the comparison: control bits without PSH, and whether it has
/// data.
fn kind(r: &Record) -> (Way, Flags, bool, bool) {
    let flags = r.segment.flags & (Flags::SYN | Flags::FIN | Flags::RST | Flags::ACK);
    (r.way, flags, r.segment.payload > 0, matches!(r.mark, Mark::Retransmitted(_)))
}

fn wait(records: &[Record], i: usize) -> Nanos {
    let at = |j: usize| records[j].segment.at.as_nanos();
    Nanos(if i == 0 { 0 } else { at(i).saturating_sub(at(i - 1)) })
}

/// `server's ACK of 724 bytes`.
fn name(r: &Record) -> String {
    let who = format!("the {}'s", r.way.sender());
    let f = r.segment.flags;
    let again = if matches!(r.mark, Mark::Retransmitted(_)) { " retransmitted" } else { "" };
    let what = if f.contains(Flags::RST) {
        "RST".into()
    } else if f.contains(Flags::SYN) {
        if f.contains(Flags::ACK) { "SYN-ACK".to_owned() } else { "SYN".into() }
    } else if r.segment.payload > 0 {
        format!("{} bytes of data", r.segment.payload)
    } else if f.contains(Flags::FIN) {
        "FIN".into()
    } else {
        "ACK".into()
    };
    format!("{who} {what}{again}")
}

/// Compares two reports that have their packets.
pub fn compare(a: &Report, b: &Report) -> Divergence {
    if let Some(between) = between(a, b) {
        return Divergence { text: between.text(), between: Some(between), ..Divergence::default() };
    }
    let rtt = |r: &Report| r.vantage.whole().map_or(0, |n| n.0);
    let allowed = SAME + rtt(a).abs_diff(rtt(b));
    let (x, y) = (&a.records, &b.records);
    let shorter = x.len().min(y.len());
    let parted = (0..shorter).find_map(|i| {
        if kind(&x[i]) != kind(&y[i]) {
            return Some((i, Difference::Kind));
        }
        let late = Verdict::beyond([wait(x, i).0, wait(y, i).0], allowed);
        (late != Verdict::NotSeen).then_some((i, Difference::Time))
    });
    let parted = parted.or_else(|| (x.len() != y.len()).then_some((shorter, Difference::End)));
    let Some((at, difference)) = parted else {
        return Divergence {
            text: vec![format!(
                "the two run alike: {} packets each, of the same kinds, no wait apart by more than {}",
                x.len(),
                Nanos(allowed)
            )],
            ..Divergence::default()
        };
    };
    let number = |records: &[Record]| records.get(at).map(|r| r.segment.number);
    let waited = |records: &[Record]| (at < records.len()).then(|| wait(records, at));
    let mut text = Vec::new();
    for i in 0..at {
        let (p, q) = (x[i].segment.payload, y[i].segment.payload);
        if p != q {
            text.push(format!(
                "packet {} of both differs in size only: {} in the first, {} in the second",
                i + 1,
                name(&x[i]),
                name(&y[i])
            ));
        }
    }
    match difference {
        Difference::Time => time(a, b, at, &mut text),
        Difference::Kind => text.push(format!(
            "they diverge at packet {}: the first has {} (number {}), the second {} (number {})",
            at + 1,
            name(&x[at]),
            x[at].segment.number,
            name(&y[at]),
            y[at].segment.number
        )),
        Difference::End => text.push(format!("one ends after {shorter} packets, the other goes on")),
    }
    for (which, report, n) in [("first", a, number(x)), ("second", b, number(y))] {
        for f in report.findings.iter().filter(|f| n.is_some_and(|n| f.packets.contains(&n))) {
            text.push(format!("in the {which}, this is {}: {}", f.kind.words(), f.text));
            text.push(format!("what helps: {}", f.worth));
        }
    }
    Divergence {
        at: Some(at),
        difference: Some(difference),
        first_packet: number(x),
        second_packet: number(y),
        first_wait_ns: waited(x),
        second_wait_ns: waited(y),
        between: None,
        text,
    }
}

/// Says what came late, and what about the data it answers differs.
fn time(a: &Report, b: &Report, at: usize, text: &mut Vec<String>) {
    let (x, y) = (&a.records, &b.records);
    let (wa, wb) = (wait(x, at), wait(y, at));
    let first_late = wa > wb;
    let (which, other, late, prompt, more) = if first_late {
        ("first", "second", (x, wa), (y, wb), wa.saturating_sub(wb))
    } else {
        ("second", "first", (y, wb), (x, wa), wb.saturating_sub(wa))
    };
    text.push(format!(
        "they diverge at packet {}: in the {which}, {} (number {}) came {} after the packet before it, {} later than in the {other} (number {}), where it came {}",
        at + 1,
        name(&late.0[at]),
        late.0[at].segment.number,
        precise(late.1),
        precise(more),
        prompt.0[at].segment.number,
        if prompt.1.0 == 0 { "at once".to_owned() } else { format!("after {}", precise(prompt.1)) },
    ));
    let ack = &late.0[at];
    if ack.segment.payload > 0 || ack.segment.flags.intersects(Flags::SYN | Flags::FIN | Flags::RST) {
        return;
    }
    // The data that each of the two ACKs answers: the last of the other side before it.
    let answered = |records: &[Record]| {
        records[..at].iter().rev().find(|r| r.way != ack.way && r.segment.payload > 0).map(|r| r.segment.payload)
    };
    let (Some(p), Some(q)) = (answered(late.0), answered(prompt.0)) else { return };
    let report = if first_late { a } else { b };
    let direction = report.of(!ack.way);
    text.push(format!(
        "the late ACK answers {p} bytes; in the {other}, {q} bytes were acknowledged {}",
        if prompt.1.0 == 0 { "at once".to_owned() } else { format!("after {}", precise(prompt.1)) }
    ));
    let Some(full) = direction.segment_limit else { return };
    // Several stacks hold the ACK of a segment back by its size: Linux 2.2 that of less than half a
    // full segment.
    if 2 * p < full && 2 * q >= full {
        let half = if 2 * q == full {
            format!("{q} is half the {full}-byte segment")
        } else {
            format!("{q} is more than half of the {full}-byte segment")
        };
        text.push(format!(
            "{half}, {p} is less: the receiver takes less than half a segment for a small message and delays its ACK"
        ));
    }
}
