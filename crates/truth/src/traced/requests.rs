//! Where the time of requests really went: by what both programs did, and by the account of what
//! was limited meanwhile.

use super::sends::Causes;
use crate::account::{Cause, Truth};
use crate::plan::End;
use crate::run::{Doing, Observed, Span};

/// The time of all requests of a connection as one end sees them, ns, in parts that are disjoint.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Requests {
    /// The program of this end did something else.
    pub own: u64,
    /// That of the peer did.
    pub peer: u64,
    /// Something limited what was sent, in either direction.
    pub limited: u64,
    /// The rest: what is on its way without a limit.
    pub way: u64,
    /// The same time by cause.
    pub causes: Causes,
}

impl Requests {
    /// Those of a connection as `end` sees them, by the account of both ends.
    pub(super) fn of(seen: &Observed, truth: &Truth, end: End) -> Self {
        let mut all = Self::default();
        let spans = |of: End| seen.spans[of as usize].iter().filter(|span| span.doing == Doing::Think);
        for (from, to) in exchanges(&seen.spans[end as usize], end) {
            for moment in truth.part(from, to).moments() {
                *all.causes.entry(moment.cause).or_insert(0) += moment.to - moment.from;
                let within = |span: &Span| span.to.min(moment.to).saturating_sub(span.from.max(moment.from));
                let took = moment.to - moment.from;
                let peer = spans(end.other()).map(within).sum::<u64>().min(took);
                let own = spans(end).map(within).sum::<u64>().min(took - peer);
                all.peer += peer;
                all.own += own;
                match moment.cause {
                    Cause::Application | Cause::Handshake | Cause::Unseen => all.way += took - peer - own,
                    _ => all.limited += took - peer - own,
                }
            }
        }
        all
    }

    /// The largest part.
    pub(super) fn most(&self) -> u64 {
        self.own.max(self.peer).max(self.limited).max(self.way)
    }
}

/// From when to when each exchange lasted: at the client from its first write up to what it reads
/// last before it writes again, at the server from the end of its first read to that of its last
/// write.
fn exchanges(spans: &[Span], end: End) -> Vec<(u64, u64)> {
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
                Some((from, Some(to))) => all.push((from, to)),
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
    all.extend(open.and_then(|(from, to)| Some((from, to?))));
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
        assert_eq!(exchanges(&spans, End::Client), [(0, 10), (20, 30)]);
        assert_eq!(exchanges(&spans, End::Server), [(10, 21)]);
    }
}
