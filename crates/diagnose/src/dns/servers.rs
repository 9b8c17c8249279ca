//! The servers of names, each with what it was asked and how long it took.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use record::Nanos;
use record::dns::{Protocol, Server};

use super::lookup::Case;

/// The servers in the order of their addresses.
pub(super) fn gather(cases: &[Case<'_>]) -> Vec<Server> {
    let mut all: BTreeMap<(SocketAddr, Protocol), (Server, Vec<u64>)> = BTreeMap::new();
    for case in cases {
        for (i, e) in case.tries.iter().enumerate() {
            let (server, times) =
                all.entry((e.server, e.protocol)).or_insert_with(|| (Server::new(e.server, e.protocol), Vec::new()));
            server.questions += 1;
            match (&e.answer, e.unreachable) {
                (Some(answer), _) => {
                    server.answered += 1;
                    server.failed += u64::from(!answer.is_of_name());
                    server.truncated += u64::from(answer.truncated);
                    // Which of two the answer is to is not known where both are the same.
                    if !e.repeats {
                        times.extend(e.took());
                    }
                }
                (None, Some(_)) => server.unreachable += 1,
                (None, None) if case.is_given_up(i) => server.unanswered += 1,
                (None, None) => server.not_known += 1,
            }
        }
    }
    let finished = |(mut server, mut times): (Server, Vec<u64>)| {
        times.sort_unstable();
        server.min_ns = times.first().copied().map(Nanos);
        server.max_ns = times.last().copied().map(Nanos);
        // Of two in the middle the shorter one: late AAAA beside A in time are half of all.
        server.median_ns = times.get(times.len().saturating_sub(1) / 2).copied().map(Nanos);
        server
    };
    all.into_values().map(finished).collect()
}
