//! The requests of a series: how many, what came of them, and where their time went.

use std::collections::BTreeMap;

use super::{Histogram, add};
use crate::{Component, Nanos, Request, Role};

/// The class of an HTTP status: 2 for 200 to 299; `None` where no status was read.
pub type StatusClass = Option<u8>;

/// Figures of requests by the end that this host was; they only grow. Each request is in one of the
/// first three.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    /// How long those took that were answered, by the class of the answer's status.
    pub answered: BTreeMap<(Role, StatusClass), Histogram>,
    /// Those without an answer: the connection ended before one came.
    pub unanswered: BTreeMap<Role, u64>,
    /// Those that overlap others, or of which a moment is missing: how long each took is not known.
    pub untimed: BTreeMap<Role, u64>,
    /// Where the time of those was spent that could be divided.
    pub spent: BTreeMap<(Role, Component), Nanos>,
}

impl Requests {
    /// Adds one that is over. Gives the distribution that has its time, and the time, if that is
    /// known.
    pub fn add(&mut self, request: &Request) -> Option<((Role, StatusClass), Nanos)> {
        let role = request.role;
        if request.answer.bytes == 0 {
            *self.unanswered.entry(role).or_default() += 1;
            return None;
        }
        let Some(whole) = request.whole().filter(|_| request.overlapping != Some(true)) else {
            *self.untimed.entry(role).or_default() += 1;
            return None;
        };
        let class = request.http.status.and_then(|status| u8::try_from(status / 100).ok());
        self.answered.entry((role, class)).or_default().add(whole);
        for component in Component::ALL {
            let time = request.components.as_ref().and_then(|all| all.get(component));
            if let Some(time) = time.filter(|time| time.0 > 0) {
                *self.spent.entry((role, component)).or_default() += time;
            }
        }
        Some(((role, class), whole))
    }

    /// Adds those of others.
    pub fn merge(&mut self, other: &Self) {
        for (of, took) in &other.answered {
            self.answered.entry(*of).or_default().merge(took);
        }
        add(&mut self.unanswered, &other.unanswered);
        add(&mut self.untimed, &other.untimed);
        for (of, time) in &other.spent {
            *self.spent.entry(*of).or_default() += *time;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Record as _;
    use crate::{Components, Http, Instant, Message, Moments};

    fn request(answer: u64, status: Option<u16>) -> Request {
        let at = |ns| Some(Instant::from_nanos(ns));
        Request {
            answer: Message { bytes: answer, ..Message::default() },
            moments: Moments { sent: at(1_000), read: at(9_000), ..Moments::default() },
            components: Some(Components { network: Some(Nanos(3_000)), kernel: Nanos(5_000), ..Components::default() }),
            http: Http { status, ..Http::default() },
            ..Request::blank()
        }
    }

    #[test]
    fn each_request_counts_once_and_those_that_are_answered_by_their_status() {
        let mut all = Requests::default();
        for (status, class) in [(Some(200), Some(2)), (Some(204), Some(2)), (Some(503), Some(5)), (None, None)] {
            assert_eq!(all.add(&request(10, status)), Some(((Role::Client, class), Nanos(8_000))));
        }
        for without_time in [
            request(0, None),
            Request { overlapping: Some(true), ..request(10, Some(200)) },
            Request { moments: Moments::default(), ..request(10, None) },
        ] {
            assert_eq!(all.add(&without_time), None);
        }
        let counts: Vec<_> = all.answered.iter().map(|((_, class), took)| (*class, took.count())).collect();
        assert_eq!(counts, [(None, 1), (Some(2), 2), (Some(5), 1)]);
        assert_eq!((all.unanswered[&Role::Client], all.untimed[&Role::Client]), (1, 2));
        assert_eq!(all.spent[&(Role::Client, Component::Network)], Nanos(12_000));
        assert!(all.answered.values().all(|took| took.sum.0 == 8_000 * took.count()));
        let mut twice = all.clone();
        twice.merge(&all);
        assert_eq!(twice.answered[&(Role::Client, Some(2))].count(), 4);
        assert_eq!((twice.unanswered[&Role::Client], twice.untimed[&Role::Client]), (2, 4));
        assert_eq!(twice.spent[&(Role::Client, Component::Kernel)], Nanos(40_000));
    }
}
