//! The connections of a series: how they were set up, and how they ended.

use std::collections::BTreeMap;

use super::{Histogram, add};
use crate::{Connect, EndedBy, Ending, Opening, Outcome};

/// Figures of connections whose set-up was seen; they only grow. A connection that was there before
/// is in none of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Connections {
    /// Attempts, by which end this host was, and by what came of them.
    pub attempts: BTreeMap<(Opening, Outcome), u64>,
    /// Retransmissions of SYNs, where this host connected, or of SYN-ACKs, where it accepted.
    pub retries: BTreeMap<Opening, u64>,
    /// From the SYN until the connection was established here.
    pub handshakes: BTreeMap<Opening, Histogram>,
    /// In the accept queue, until a program accepted the connection.
    pub accept_waits: Histogram,
    /// Established connections that are over: why, and by whom.
    pub ends: BTreeMap<(Ending, EndedBy), u64>,
}

impl Connections {
    /// A connection was established, or, in a second call, accepted.
    pub fn set_up(&mut self, connect: &Connect) {
        if connect.opening == Opening::Found {
            return;
        }
        if connect.stamps.accepted.is_some() {
            self.accept_waits.extend(connect.accept_wait());
            return;
        }
        self.attempt(connect);
        if let Some(handshake) = connect.handshake() {
            self.handshakes.entry(connect.opening).or_default().add(handshake);
        }
    }

    /// An attempt, or a connection, is over.
    pub fn over(&mut self, connect: &Connect) {
        match (connect.outcome, connect.ending.zip(connect.ended_by)) {
            (Outcome::Found, _) => {}
            (Outcome::Established, Some(end)) => *self.ends.entry(end).or_default() += 1,
            (Outcome::Established, None) => {}
            _ => self.attempt(connect),
        }
    }

    fn attempt(&mut self, connect: &Connect) {
        *self.attempts.entry((connect.opening, connect.outcome)).or_default() += 1;
        if connect.retries > 0 {
            *self.retries.entry(connect.opening).or_default() += u64::from(connect.retries);
        }
    }

    /// Adds those of others.
    pub fn merge(&mut self, other: &Self) {
        add(&mut self.attempts, &other.attempts);
        add(&mut self.retries, &other.retries);
        add(&mut self.ends, &other.ends);
        for (opening, handshakes) in &other.handshakes {
            self.handshakes.entry(*opening).or_default().merge(handshakes);
        }
        self.accept_waits.merge(&other.accept_waits);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ConnectStamps, Instant, Nanos};

    fn connect(opening: Opening, outcome: Outcome) -> Connect {
        let stamps = ConnectStamps {
            syn: Some(Instant::from_nanos(1_000)),
            established: (outcome == Outcome::Established).then(|| Instant::from_nanos(5_000)),
            ..ConnectStamps::default()
        };
        Connect { opening, outcome, stamps, retries: 2, ..Connect::blank() }
    }

    #[test]
    fn an_attempt_counts_once_whatever_becomes_of_it() {
        let mut all = Connections::default();
        let mut accepted = connect(Opening::Accepted, Outcome::Established);
        all.set_up(&accepted);
        accepted.stamps.accepted = Some(Instant::from_nanos(8_000));
        all.set_up(&accepted);
        (accepted.ending, accepted.ended_by) = (Some(Ending::Reset), Some(EndedBy::Peer));
        all.over(&accepted);
        all.over(&connect(Opening::Connected, Outcome::Refused));
        all.over(&connect(Opening::Found, Outcome::Found));
        let attempts = [((Opening::Connected, Outcome::Refused), 1), ((Opening::Accepted, Outcome::Established), 1)];
        assert_eq!(all.attempts, attempts.into());
        assert_eq!(all.retries, [(Opening::Connected, 2), (Opening::Accepted, 2)].into());
        assert_eq!(all.handshakes[&Opening::Accepted].sum, Nanos(4_000));
        assert_eq!((all.accept_waits.count(), all.accept_waits.sum), (1, Nanos(3_000)));
        assert_eq!(all.ends, [((Ending::Reset, EndedBy::Peer), 1)].into());
        let mut twice = all.clone();
        twice.merge(&all);
        assert_eq!((twice.ends.values().sum::<u64>(), twice.accept_waits.count()), (2, 2));
        assert_eq!(twice.attempts[&(Opening::Connected, Outcome::Refused)], 2);
    }
}
