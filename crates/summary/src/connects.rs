//! The figures of attempts to set up connections, in bounded memory.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;

use record::{Connect, EndedBy, Ending, Opening, Outcome};
use stats::{Distribution, Precision};

/// Figures of some attempts.
#[derive(Clone, Debug)]
pub struct SetUps {
    outcomes: [u64; Outcome::ALL.len()],
    /// Attempts with a retransmitted SYN or SYN-ACK.
    pub retried: u64,
    /// Retransmissions of those.
    pub retries: u64,
    /// Those of them that had no answer when tracing ended.
    pending_retried: u64,
    /// Attempts with Fast Open.
    pub fast_open: u64,
    /// From the SYN until the connection was established.
    pub handshake: Distribution,
    /// In the accept queue.
    pub accept_wait: Distribution,
    /// From the SYN to the end of attempts that came to nothing.
    pub failed: Distribution,
}

impl SetUps {
    fn new() -> Self {
        Self {
            outcomes: [0; Outcome::ALL.len()],
            retried: 0,
            retries: 0,
            pending_retried: 0,
            fast_open: 0,
            handshake: Distribution::new(Precision::Coarse),
            accept_wait: Distribution::new(Precision::Coarse),
            failed: Distribution::new(Precision::Coarse),
        }
    }

    fn add(&mut self, connect: &Connect) {
        self.outcomes[connect.outcome as usize] += 1;
        self.retried += u64::from(connect.retries > 0);
        self.retries += u64::from(connect.retries);
        self.pending_retried += u64::from(connect.retries > 0 && connect.outcome == Outcome::Pending);
        self.fast_open += u64::from(connect.fast_open.is_some());
        if let Some(time) = connect.handshake() {
            self.handshake.record(time.0);
        }
        if let Some(time) = connect.accept_wait() {
            self.accept_wait.record(time.0);
        }
        let ended = connect.stamps.ended.or(connect.stamps.closed).filter(|_| connect.outcome != Outcome::Established);
        if let Some(time) = ended.zip(connect.stamps.syn).and_then(|(end, syn)| end.since(syn).ok()) {
            self.failed.record(time.0);
        }
    }

    /// How many attempts.
    pub fn n(&self) -> u64 {
        self.outcomes.iter().sum()
    }

    /// How many came to nothing, by their outcome: not those that had just begun when tracing
    /// ended.
    pub fn failures(&self) -> Vec<(Outcome, u64)> {
        let of = |outcome| match outcome {
            Outcome::Established | Outcome::Found => 0,
            Outcome::Pending => self.pending_retried,
            other => self.outcome(other),
        };
        Outcome::ALL.into_iter().map(|outcome| (outcome, of(outcome))).filter(|(_, n)| *n > 0).collect()
    }

    /// How many of them had this outcome.
    pub fn outcome(&self, outcome: Outcome) -> u64 {
        self.outcomes[outcome as usize]
    }
}

/// Where attempts go to: the peer's end of those from here, this host's of those that are accepted
/// here.
pub type Service = (Opening, SocketAddr);

/// The figures of all attempts.
#[derive(Clone, Debug)]
pub struct ConnectFigures {
    connected: SetUps,
    accepted: SetUps,
    services: HashMap<Service, SetUps>,
    most: usize,
    /// Attempts to services that have no separate figures, as there were too many.
    pub others: u64,
    /// Connections that were there before tracing.
    pub found: u64,
    /// How connections and attempts ended: why, and by whom.
    pub ends: BTreeMap<(Ending, EndedBy), u64>,
}

impl ConnectFigures {
    /// Nothing yet; keeps separate figures of this many services.
    pub fn new(most: usize) -> Self {
        Self {
            connected: SetUps::new(),
            accepted: SetUps::new(),
            services: HashMap::new(),
            most,
            others: 0,
            found: 0,
            ends: BTreeMap::new(),
        }
    }

    /// Adds an attempt.
    pub fn add(&mut self, connect: &Connect) {
        if let Some(end) = connect.ending.zip(connect.ended_by) {
            *self.ends.entry(end).or_default() += 1;
        }
        let (all, end) = match connect.opening {
            Opening::Found => {
                self.found += 1;
                return;
            }
            Opening::Connected => (&mut self.connected, connect.remote),
            Opening::Accepted => (&mut self.accepted, connect.local),
        };
        all.add(connect);
        let service = (connect.opening, end);
        if self.services.len() >= self.most && !self.services.contains_key(&service) {
            self.others += 1;
            return;
        }
        self.services.entry(service).or_insert_with(SetUps::new).add(connect);
    }

    /// All attempts from here, or here.
    pub fn of(&self, opening: Opening) -> &SetUps {
        match opening {
            Opening::Accepted => &self.accepted,
            Opening::Connected | Opening::Found => &self.connected,
        }
    }

    /// Each service, that with the most attempts first.
    pub fn services(&self) -> Vec<(Service, &SetUps)> {
        let mut all: Vec<_> = self.services.iter().map(|(service, of)| (*service, of)).collect();
        all.sort_by_key(|((opening, end), of)| (std::cmp::Reverse(of.n()), *opening as u8, *end));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::Instant;

    #[test]
    fn attempts_are_counted_by_service_outcome_and_end() {
        let end = |text: &str| text.parse::<SocketAddr>().unwrap();
        let mut one = Connect { remote: end("192.0.2.1:80"), ..Connect::blank() };
        (one.opening, one.outcome, one.retries) = (Opening::Connected, Outcome::Established, 2);
        (one.ending, one.ended_by) = (Some(Ending::Fin), Some(EndedBy::Peer));
        one.stamps.syn = Some(Instant::from_nanos(1_000));
        one.stamps.established = Some(Instant::from_nanos(4_000));
        let mut figures = ConnectFigures::new(1);
        figures.add(&one);
        figures.add(&Connect { outcome: Outcome::Refused, ending: None, ..one.clone() });
        figures.add(&Connect { remote: end("192.0.2.2:80"), ..one.clone() });
        figures.add(&Connect { opening: Opening::Found, ..one });
        let all = figures.of(Opening::Connected);
        assert_eq!((all.n(), all.outcome(Outcome::Refused), all.retried, all.retries), (3, 1, 3, 6));
        assert_eq!((figures.of(Opening::Accepted).n(), figures.found, figures.others), (0, 1, 1));
        assert_eq!(figures.services().len(), 1);
        assert_eq!(figures.ends[&(Ending::Fin, EndedBy::Peer)], 3);
        assert_eq!(all.handshake.n(), 3);
    }
}
