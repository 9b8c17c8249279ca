//! Where the time of requests really went: by what both programs did, and by the account of what
//! was limited meanwhile.

use super::judge::longest_distance;
use super::sends::Causes;
use crate::account::{Cause, Truth};
use crate::plan::End;
use crate::run::{Doing, Observed, Span, Tick};

/// The time of all requests of a connection as one end sees them, ns, in parts that are disjoint,
/// but for what is limited while this end's program does something else: that is in both.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Requests {
    /// The program of this end did something else.
    pub own: u64,
    /// That of the peer did.
    pub peer: u64,
    /// Something limited what was sent, in either direction.
    pub limited: u64,
    /// The rest: what is on its way without a limit, up to the path's round trip at rest, and what
    /// hosts need beside it.
    pub way: u64,
    /// And beyond that: others' data were before it in a queue, or the path took so long to send
    /// it.
    pub queue: u64,
    /// The same time by cause.
    pub causes: Causes,
}

impl Requests {
    /// Those of a connection as `end` sees them, by the account of both ends, on a path whose round
    /// trip at rest is `round_trip`, ns.
    pub(super) fn of(seen: &Observed, truth: &Truth, end: End, round_trip: u64) -> Self {
        let mut all = Self::default();
        let spans = |of: End| seen.spans[of as usize].iter().filter(|span| span.doing == Doing::Think);
        let gone = |at: u64| match end {
            End::Client => at,
            End::Server => sent(&seen.ticks, at, end),
        };
        for (from, to) in exchanges(&seen.spans[end as usize], end, gone) {
            let mut on_its_way = 0;
            for moment in truth.part(from, to).moments() {
                *all.causes.entry(moment.cause).or_insert(0) += moment.to - moment.from;
                let within = |span: &Span| span.to.min(moment.to).saturating_sub(span.from.max(moment.from));
                let took = moment.to - moment.from;
                // A peer that does something else holds up an answer only by its window.
                let is_open = matches!(moment.cause, Cause::Application | Cause::Handshake | Cause::Unseen);
                let waits_for_peer = end == End::Client || is_open || moment.cause == Cause::ReceiveWindow;
                let peer = if waits_for_peer { spans(end.other()).map(within).sum::<u64>().min(took) } else { 0 };
                let own = spans(end).map(within).sum::<u64>().min(took - peer);
                all.peer += peer;
                all.own += own;
                match is_open {
                    true => on_its_way += took - peer - own,
                    false => all.limited += took - peer,
                }
            }
            let way = on_its_way.min(longest_distance(round_trip));
            all.way += way;
            all.queue += on_its_way - way;
        }
        all
    }

    /// The largest part.
    pub(super) fn most(&self) -> u64 {
        [self.own, self.peer, self.limited, self.way, self.queue].into_iter().fold(0, u64::max)
    }
}

/// When all that `end` has written by `at` has been sent: at once, where the next look shows
/// nothing that waits.
fn sent(ticks: &[Tick], at: u64, end: End) -> u64 {
    let looks = ticks[ticks.partition_point(|tick| tick.at < at)..].iter();
    let waits = |tick: &&Tick| tick.ends[end as usize].is_some_and(|sample| sample.unsent > 0);
    looks.take_while(waits).last().map_or(at, |tick| tick.at)
}

/// From when to when each exchange lasted: at the client from its first write up to what it reads
/// last before it writes again, at the server from the end of its first read to when what it
/// wrote is `gone`, or to the end of the next read where that comes first.
fn exchanges(spans: &[Span], end: End, gone: impl Fn(u64) -> u64) -> Vec<(u64, u64)> {
    let (opens, closes) = match end {
        End::Client => (Doing::Write, Doing::Read),
        End::Server => (Doing::Read, Doing::Write),
    };
    let mut all = Vec::new();
    let mut open: Option<(u64, Option<u64>)> = None;
    for span in spans {
        if span.doing == opens {
            let from = if end == End::Client { span.from } else { span.to };
            match open {
                Some((since, Some(to))) => all.push((since, gone(to).min(from.max(to)))),
                Some((from, None)) if end == End::Client => {
                    open = Some((from, None));
                    continue;
                }
                _ => {}
            }
            open = Some((from, None));
        } else if span.doing == closes
            && let Some((_, to)) = &mut open
        {
            *to = Some(span.to);
        }
    }
    all.extend(open.and_then(|(from, to)| Some((from, gone(to?)))));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exchange_is_from_its_first_write_to_the_last_read_before_the_next() {
        let span = |from, to, doing| Span { from, to, doing };
        let spans = [
            span(0, 1, Doing::Write),
            span(2, 3, Doing::Think),
            span(3, 4, Doing::Write),
            span(4, 10, Doing::Read),
            span(10, 20, Doing::Think),
            span(20, 21, Doing::Write),
            span(21, 30, Doing::Read),
        ];
        assert_eq!(exchanges(&spans, End::Client, |at| at), [(0, 10), (20, 30)]);
        assert_eq!(exchanges(&spans, End::Server, |at| at), [(10, 21)]);
        // The answer was sent later, and no later than what was read next.
        assert_eq!(exchanges(&spans, End::Server, |at| at + 3), [(10, 24)]);
        let again =
            [span(0, 1, Doing::Read), span(2, 3, Doing::Write), span(4, 5, Doing::Read), span(6, 7, Doing::Write)];
        assert_eq!(exchanges(&again, End::Server, |at| at + 3), [(1, 5), (5, 10)]);
    }
}
