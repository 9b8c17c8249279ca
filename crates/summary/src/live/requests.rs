//! Requests, lookups of DNS, datagrams that were answered and handshakes of QUIC of the last
//! seconds, by what their series would be known by.

use std::collections::VecDeque;

use record::histogram::{Histogram, SeriesKey};
use record::{Component, Exchange, Instant, IpPrefix, Monotonic, Nanos, Question, Request, Role};

/// Requests that are kept, and lookups.
const MOST: usize = 20_000;

/// The requests of a row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestGroup {
    /// How long they took, from their beginning to their answer; of UDP, from a datagram to the
    /// next one of the other end.
    pub times: Histogram,
    /// How long each component took of all of them, in the order of [`Component::ALL`].
    pub components: [Nanos; Component::ALL.len()],
    /// How long programs waited for names: from the first question to the answer or, where there
    /// was none, to the last question.
    pub lookups: Histogram,
    /// Lookups among them that nothing answered.
    pub unanswered: u64,
    /// How long handshakes of QUIC took.
    pub handshakes: Histogram,
}

impl RequestGroup {
    /// A quantile of how long they took; where there is no request, of lookups, and where there is
    /// none of these either, of handshakes of QUIC. It is the middle of its bucket.
    pub fn quantile(&self, share: f64) -> Option<Nanos> {
        let of = [&self.times, &self.lookups, &self.handshakes].into_iter().find(|of| of.count() > 0)?;
        Some(of.quantile(share)?.middle())
    }

    /// How long the slowest lookup took, the middle of its bucket.
    pub fn slowest_lookup(&self) -> Option<Nanos> {
        Some(self.lookups.quantile(1.0)?.middle())
    }

    /// The component that took most of the time, and its share.
    pub fn chief(&self) -> Option<(Component, f64)> {
        let all: u64 = self.components.iter().map(|time| time.0).sum();
        let (component, time) = Component::ALL.into_iter().zip(self.components).max_by_key(|(_, time)| *time)?;
        (all > 0).then(|| (component, time.0 as f64 / all as f64))
    }

    pub(super) fn add(&mut self, asked: &Asked) {
        match &asked.what {
            What::Lookup(lookup) => {
                self.lookups.add(asked.whole);
                self.unanswered += u64::from(!lookup.answered);
            }
            What::Exchange(of) if of.is_quic => self.handshakes.add(asked.whole),
            What::Exchange(of) => self.times.add_times(asked.whole, of.times.into()),
            What::Request => self.times.add(asked.whole),
        }
        let times = if let What::Exchange(of) = &asked.what { of.times.into() } else { 1 };
        let parts = asked.components.map(|part| Nanos(part.0.saturating_mul(times)));
        self.components.iter_mut().zip(parts).for_each(|(all, part)| *all += part);
    }
}

/// Something that has ended.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    ended: Instant<Monotonic>,
    pub(super) key: SeriesKey,
    whole: Nanos,
    components: [Nanos; Component::ALL.len()],
    pub(super) what: What,
}

/// What it is.
#[derive(Clone, Debug)]
pub(super) enum What {
    /// A request over TCP.
    Request,
    /// A lookup of DNS.
    Lookup(Lookup),
    /// A datagram of UDP that was answered, or a handshake of QUIC.
    Exchange(Box<Exchange>),
}

/// Who asked what the series of a connection does not tell.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asker {
    /// The process; 0 where that is not known.
    pub(super) pid: u32,
    pub(super) over_tcp: bool,
    /// The socket, where it stays for more than one question.
    pub(super) socket: Option<u64>,
}

/// What is known of a lookup of DNS.
#[derive(Clone, Debug)]
pub(super) struct Lookup {
    pid: u32,
    over_tcp: bool,
    answered: bool,
    /// The type and the name.
    of: String,
}

/// One of the slowest requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlowRequest {
    /// When it ended.
    pub ended: Instant<Monotonic>,
    /// How long it took, from its beginning to its answer.
    pub whole: Nanos,
    /// The component that took most of that, and how long that took; `None` where it is not known.
    pub chief: Option<(Component, Nanos)>,
    /// Of a lookup of DNS the type and the name, and whether it was answered.
    pub lookup: Option<(String, bool)>,
    /// Whether it is a handshake of QUIC.
    pub is_handshake: bool,
}

impl Asked {
    /// Who asked; `None` of requests over TCP, whose sockets say it.
    pub(super) fn asker(&self) -> Option<Asker> {
        match &self.what {
            What::Request => None,
            What::Lookup(of) => Some(Asker { pid: of.pid, over_tcp: of.over_tcp, socket: None }),
            What::Exchange(of) => Some(Asker { pid: of.owner.pid, over_tcp: false, socket: Some(of.socket.0) }),
        }
    }

    fn shown(&self) -> SlowRequest {
        let chief = Component::ALL.into_iter().zip(self.components).max_by_key(|(_, time)| *time);
        SlowRequest {
            ended: self.ended,
            whole: self.whole,
            chief: chief.filter(|(_, time)| *time > Nanos::ZERO),
            lookup: match &self.what {
                What::Lookup(lookup) => Some((lookup.of.clone(), lookup.answered)),
                _ => None,
            },
            is_handshake: matches!(&self.what, What::Exchange(of) if of.is_quic),
        }
    }
}

/// The requests that ended in the last seconds.
#[derive(Clone, Debug, Default)]
pub struct RequestHistory {
    asked: VecDeque<Asked>,
}

impl RequestHistory {
    /// Adds a request on a connection of this key, where its beginning and end are known.
    pub fn add(&mut self, key: SeriesKey, request: &Request) {
        let (Some(ended), Some(whole)) = (request.ended(), request.whole()) else { return };
        let of = |component| request.components.as_ref().and_then(|all| all.get(component)).unwrap_or_default();
        self.put(Asked { ended, key, whole, components: Component::ALL.map(of), what: What::Request });
    }

    /// Adds a lookup of DNS: of its tries the last one counts, with the time since the first.
    /// `seen` is when it was handed on: the end of one without an answer.
    pub fn lookup(&mut self, question: &Question, seen: Instant<Monotonic>) {
        if !question.is_last() {
            return;
        }
        let Question { owner, server, local, cgroup, .. } = question;
        let key = SeriesKey {
            peer: Some(IpPrefix::from(server.ip())),
            peer_port: Some(server.port()),
            local_port: Some(local.port()),
            cgroup: *cgroup,
            program: Some(owner.comm.to_string()),
            overflow: false,
        };
        let lookup = Lookup {
            pid: owner.pid,
            over_tcp: question.over_tcp,
            answered: question.took.is_some(),
            of: format!("{} {}", question.kind, question.name),
        };
        let ended = question.took.map_or(seen, |took| question.asked.after(took));
        let components = [Nanos::ZERO; Component::ALL.len()];
        self.put(Asked { ended, key, whole: question.waited(), components, what: What::Lookup(lookup) });
    }

    /// Adds a datagram with its answer, or a handshake of QUIC that is over; gives what a series of
    /// it would be known by, and the time.
    pub fn exchange(&mut self, of: &Exchange) -> Option<(SeriesKey, Nanos)> {
        let whole = of.took?;
        let key = SeriesKey {
            peer: Some(IpPrefix::from(of.peer.ip())),
            peer_port: Some(of.peer.port()),
            local_port: Some(of.local.port()),
            cgroup: of.cgroup,
            program: Some(of.owner.comm.to_string()),
            overflow: false,
        };
        let mut components = [Nanos::ZERO; Component::ALL.len()];
        if of.role == Role::Server {
            // Between a question that came and its answer there is only the program.
            components[Component::Application as usize] = whole;
        }
        let what = What::Exchange(Box::new(*of));
        self.put(Asked { ended: of.asked.after(whole), key: key.clone(), whole, components, what });
        Some((key, whole))
    }

    fn put(&mut self, asked: Asked) {
        if self.asked.len() == MOST {
            self.asked.pop_front();
        }
        self.asked.push_back(asked);
    }

    /// Forgets those that ended before.
    pub fn forget_before(&mut self, start: Instant<Monotonic>) {
        while self.asked.front().is_some_and(|asked| asked.ended < start) {
            self.asked.pop_front();
        }
    }

    /// All of them.
    pub(super) fn each(&self) -> impl Iterator<Item = &Asked> {
        self.asked.iter()
    }

    /// The slowest of those that are taken, the slowest first, at most so many.
    pub(super) fn slowest(&self, most: usize, taken: impl Fn(&Asked) -> bool) -> Vec<SlowRequest> {
        let mut slow: Vec<&Asked> = self.asked.iter().collect();
        slow.sort_by_key(|asked| std::cmp::Reverse(asked.whole));
        slow.into_iter().filter(|asked| taken(asked)).take(most).map(Asked::shown).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::Owner;

    #[test]
    fn a_lookup_counts_once_with_all_its_tries_and_is_told_from_requests() {
        let asked = Instant::from_nanos(1_000_000_000);
        let try_of = |number, since_first, took| Question {
            owner: Owner { pid: 7, ..Owner::default() },
            name: "a.example".into(),
            kind: "AAAA".into(),
            number,
            tries: 2,
            asked,
            since_first: Nanos::from_millis(since_first),
            took,
            ..Question::blank()
        };
        let mut history = RequestHistory::default();
        history.lookup(&try_of(1, 0, None), asked);
        assert_eq!(history.each().count(), 0, "a try that another one followed");
        history.lookup(&try_of(2, 5_000, Some(Nanos::from_millis(30))), asked);
        history.lookup(&try_of(2, 5_000, None), asked.after(Nanos::from_secs(9)));
        let mut row = RequestGroup::default();
        history.each().for_each(|asked| row.add(asked));
        assert_eq!((row.lookups.count(), row.unanswered, row.times.count()), (2, 1, 0));
        let slowest = row.slowest_lookup().unwrap().0 as f64 / 5.03e9;
        assert!((0.95..1.05).contains(&slowest), "{slowest}");
        assert_eq!(row.quantile(1.0), row.slowest_lookup());
        let slow = history.slowest(1, |_| true);
        assert_eq!(slow[0].lookup, Some(("AAAA a.example".into(), true)));
        assert_eq!((slow[0].whole, slow[0].ended), (Nanos::from_millis(5_030), asked.after(Nanos::from_millis(30))));
        history.forget_before(asked.after(Nanos::from_secs(1)));
        assert_eq!(history.each().count(), 1);
    }
}
