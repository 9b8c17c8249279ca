//! A sender that its send buffer holds up in the middle of a transfer.
//!
//! A write that finds the buffer full waits until a third of it is free again
//! (`sk_stream_write_space`), but one that has begun is not stopped at the buffer's size: what is
//! sent of its last packet makes room in that (`tcp_sendmsg_locked`). So the sender fills its
//! congestion window, pauses while that drains, and goes on at a level that is the buffer's,
//! however much was in flight before.

use record::Nanos;
use record::conversation::{FindingKind, Way};

use super::{Basis, Cause, Known};
use crate::kept::{Mark, Record};
use crate::report::Report;

/// Pauses that ended at one level, at least: fewer may be chance.
const PAUSES: usize = 3;
/// They took no less of the time of all pauses: a program that is woken up late goes on below the
/// level, and what is held up for a moment stays above it.
const ON_LEVEL: f64 = 0.5;
/// How much higher one of them may end than the lowest: by an ACK, by a moment that the program
/// takes to wake up, and by what the kernel counts beside the bytes.
const NEAR: f64 = 1.4;
/// Other pauses than the buffer's, of a program that writes in time, begin and end alike: where the
/// fuller flights were so many times the emptier ones, the level is no part of them.
const VARIES: f64 = 1.5;
/// A buffer that is full to its size, of which a third has to be free, holds half as much again as
/// what it drains to; one write may go beyond.
const TO_ITS_SIZE: f64 = 2.0;
/// How long the program takes to wake up and write on, ns: beyond, it was not an ACK that let it.
const WOKEN: u64 = 2_000_000;

/// Pauses of a sender that had more to send, and was let go on by an ACK.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Drained {
    /// What was in flight when it went on, bytes.
    pub(super) level: Known<u64>,
    /// It filled to the buffer's size and no further, as where no write waits in the socket.
    pub(super) to_its_size: bool,
    /// How many there were.
    pub(super) pauses: u64,
    /// How long they took, from the first ACK to which it sent nothing.
    pub(super) took: Nanos,
}

impl Drained {
    /// The pauses as a cause.
    pub(super) fn cause(&self, way: Way) -> Cause {
        let kind = FindingKind::SendBuffer;
        Cause {
            kind: kind.name().into(),
            direction: Some(way.name().into()),
            cost_ns: self.took,
            saves_ns: None,
            text: format!(
                "{}: the {} sent nothing for {} ({}), each time until {} bytes were in flight, with room in the \
                 receive window and nothing lost{}",
                kind.words(),
                way.sender(),
                self.took,
                quantity::counted(self.pauses, "pause"),
                quantity::count(self.level.value),
                match self.level.basis {
                    Basis::Assumed => "; pauses of its program may look the same",
                    Basis::Seen | Basis::AtLeast => "",
                }
            ),
        }
    }
}

/// A pause.
struct Pause {
    /// In flight when it began, and when it ended.
    from: u64,
    to: u64,
    took: u64,
}

/// The level to which what is in flight drains in each pause; `None` where there is none.
pub(super) fn drained(report: &Report, way: Way) -> Option<Drained> {
    let pauses = pauses(report, way);
    let near = on_level(&pauses);
    let took = Nanos(near.iter().map(|p| p.took).sum());
    let in_all: u64 = pauses.iter().map(|p| p.took).sum();
    if near.len() < PAUSES || (took.0 as f64) < ON_LEVEL * in_all as f64 {
        return None;
    }
    let level = stats::median(&near.iter().map(|p| p.to as f64).collect::<Vec<f64>>())?;
    let ends = || near.iter().map(|p| p.to);
    let begins: Vec<f64> = near.iter().map(|p| p.from as f64).collect();
    let [emptier, fuller] = [0.25, 0.75].map(|share| stats::quantile(&begins, share).unwrap_or_default());
    let n = quantity::counted(near.len() as u64, "pause");
    let known = match fuller >= VARIES * emptier {
        true => Known::seen(level as u64, &format!("what was in flight at the end of {n}, however full it had been")),
        false => Known::assumed(level as u64, &format!("{n} that ended at one level, as a program's own may as well")),
    };
    Some(Drained {
        level: known.between(ends().min()?, ends().max()?),
        to_its_size: f64::from(report.of(way).max_in_flight) <= TO_ITS_SIZE * level,
        pauses: near.len() as u64,
        took,
    })
}

/// Those that ended near one level, of which most of the time was.
fn on_level(pauses: &[Pause]) -> Vec<&Pause> {
    let mut sorted: Vec<&Pause> = pauses.iter().collect();
    sorted.sort_by_key(|p| p.to);
    // How long those up to each place took.
    let mut took = vec![0];
    took.extend(sorted.iter().scan(0, |sum, p| {
        *sum += p.took;
        Some(*sum)
    }));
    let from_each = (0..sorted.len()).map(|first| {
        let most = sorted[first].to as f64 * NEAR;
        first..sorted.partition_point(|p| p.to as f64 <= most)
    });
    let near = from_each.max_by_key(|near| took[near.end] - took[near.start]).unwrap_or_default();
    sorted[near].to_vec()
}

/// What the sender knew, in the order in which it did: away from it, an ACK reaches it half a round
/// trip after it came by, and data came by as long after they had left.
fn pauses(report: &Report, way: Way) -> Vec<Pause> {
    let distance = report.vantage.to(way.sender()).unwrap_or_default().0;
    let full = super::full_segment(report.of(way));
    let mut events: Vec<_> = report.records.iter().collect();
    let at = |r: &Record| r.segment.at.as_nanos() + if r.way == way { 0 } else { distance };
    events.sort_by_key(|r| at(r));
    let (mut next, mut una, mut edge) = (0, 0, 0);
    // The end of what was sent when a loss was last repaired: until that is acknowledged, the
    // window is another one.
    let mut repaired = 0;
    let mut from = 0;
    let (mut first_ack, mut last_ack) = (None::<u64>, 0);
    // How much more the peer's window would have taken when the last segment left.
    let mut room = 0;
    // The peer has said something meanwhile, which the program may have waited for.
    let mut told = false;
    let mut pauses = Vec::new();
    for r in events {
        let now = at(r);
        if r.way != way {
            let Some(ack) = r.ack else { continue };
            edge = edge.max(ack + r.window);
            told |= r.segment.payload > 0;
            if ack > una {
                (una, last_ack) = (ack, now);
                first_ack.get_or_insert(now);
            }
            continue;
        }
        let Some(end) = r.seq.map(|seq| seq + u64::from(r.segment.payload)).filter(|_| r.segment.payload > 0) else {
            continue;
        };
        if end <= next || matches!(r.mark, Mark::Retransmitted(_)) {
            repaired = next;
            continue;
        }
        let to = next.saturating_sub(una);
        // A sender that its peer's window holds stops short of the edge: it waits until a good part
        // of the window is free (`tcp_tso_should_defer`).
        let had_room = room >= (from / 4).max(2 * full) && una >= repaired;
        let drained = from >= to + 4 * full && to * 4 <= from * 3 && to >= full;
        let prompt = now.saturating_sub(last_ack) <= WOKEN && !told;
        if let Some(began) = first_ack.filter(|_| drained && had_room && prompt) {
            pauses.push(Pause { from, to, took: now.saturating_sub(began) });
        }
        next = end;
        (from, room) = (next.saturating_sub(una), edge.saturating_sub(next));
        (first_ack, told) = (None, false);
    }
    pauses
}
