//! The connections of the endpoint, and which of them gives way to the next.
//!
//! A newcomer is never turned away for the sake of one that only waits: where all places are taken,
//! the one that has waited longest of the network that has most of them is closed. One that is
//! being answered is closed only where the answer has taken too long already.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::task::AbortHandle;

/// How long an answer may take before its connection gives way as any other does: a reader that is
/// slow on purpose holds a place no longer.
const ANSWER: Duration = Duration::from_secs(10);

/// What one subscriber has: an IPv4 address, or 64 bits of IPv6 (RFC 6177, section 2).
fn network(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits() & !u128::from(u64::MAX)).into(),
        ip @ IpAddr::V4(_) => ip,
    }
}

#[derive(Debug)]
struct Held {
    network: IpAddr,
    /// Since when it waits for a request.
    idle: Instant,
    /// Since when it is being answered.
    answered: Option<Instant>,
    /// Ends it; `None` until it runs.
    end: Option<AbortHandle>,
}

impl Held {
    fn gives_way(&self, now: Instant) -> bool {
        self.answered.is_none_or(|since| now.saturating_duration_since(since) > ANSWER)
    }
}

#[derive(Debug, Default)]
struct Table {
    held: HashMap<u64, Held>,
    next: u64,
}

/// All places.
#[derive(Clone, Debug, Default)]
pub(crate) struct Places(Arc<Mutex<Table>>);

impl Places {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for a connection from there, of `most`: a free one, or that of a connection which is
    /// closed for it. `None` where each is being answered.
    pub fn take(&self, from: IpAddr, most: usize, now: Instant) -> Option<Place> {
        let network = network(from);
        let mut table = self.table();
        if table.held.len() >= most {
            let mut of: HashMap<IpAddr, usize> = HashMap::from([(network, 1)]);
            table.held.values().for_each(|held| *of.entry(held.network).or_default() += 1);
            let waiting = table.held.iter().filter(|(_, held)| held.gives_way(now));
            let share = |held: &Held| of.get(&held.network).copied().unwrap_or(0);
            // The largest network's, and of these the one that has waited longest.
            let first = waiting.max_by_key(|(_, held)| (share(held), now.saturating_duration_since(held.idle)));
            let first = *first?.0;
            if let Some(end) = table.held.remove(&first).and_then(|held| held.end) {
                end.abort();
            }
        }
        table.next += 1;
        let number = table.next;
        table.held.insert(number, Held { network, idle: now, answered: None, end: None });
        Some(Place { all: self.clone(), number })
    }
}

/// A place, until dropped.
#[derive(Debug)]
pub(crate) struct Place {
    all: Places,
    number: u64,
}

impl Place {
    fn change(&self, change: impl FnOnce(&mut Held)) {
        if let Some(held) = self.all.table().held.get_mut(&self.number) {
            change(held);
        }
    }

    /// What ends the connection that has it. One that gave way already ends at once.
    pub fn runs(all: &Places, number: u64, end: AbortHandle) {
        match all.table().held.get_mut(&number) {
            Some(held) => held.end = Some(end),
            None => end.abort(),
        }
    }

    /// Its number, for [`Self::runs`].
    pub const fn number(&self) -> u64 {
        self.number
    }

    /// An answer begins.
    pub fn answering(&self) {
        self.change(|held| held.answered = Some(Instant::now()));
    }

    /// The answer has gone out, and the connection waits again.
    pub fn answered(&self) {
        self.change(|held| (held.idle, held.answered) = (Instant::now(), None));
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.all.table().held.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: usize = 4;

    fn from(ip: &str) -> IpAddr {
        ip.parse().unwrap()
    }

    fn is_there(place: &Place) -> bool {
        place.all.table().held.contains_key(&place.number)
    }

    #[test]
    fn the_network_that_has_most_gives_way_and_its_oldest_first() {
        let (places, now) = (Places::default(), Instant::now());
        let at = |second| now + Duration::from_secs(second);
        let honest = places.take(from("192.0.2.1"), MOST, at(0)).unwrap();
        let others: Vec<Place> =
            (1..=3).map(|n| places.take(from(&format!("2001:db8::{n}")), MOST, at(n)).unwrap()).collect();
        let next = places.take(from("2001:db8::9"), MOST, at(5)).unwrap();
        assert!(is_there(&honest) && !is_there(&others[0]) && is_there(&others[1]) && is_there(&next));
        // A scraper that comes while the others hold all but one place.
        drop(honest);
        let fourth = places.take(from("2001:db8::10"), MOST, at(6)).unwrap();
        let honest = places.take(from("192.0.2.1"), MOST, at(7)).unwrap();
        assert!(is_there(&honest) && is_there(&fourth) && !is_there(&others[1]));
    }

    #[test]
    fn what_is_being_answered_does_not_give_way_until_it_has_taken_too_long() {
        let (places, now) = (Places::default(), Instant::now());
        let held: Vec<Place> = (0..MOST).map(|_| places.take(from("192.0.2.1"), MOST, now).unwrap()).collect();
        held.iter().for_each(Place::answering);
        assert!(places.take(from("192.0.2.2"), MOST, now).is_none());
        held[2].answered();
        let came = places.take(from("192.0.2.2"), MOST, now).unwrap();
        assert!(is_there(&came) && !is_there(&held[2]) && is_there(&held[3]));
        came.answering();
        let late = Instant::now() + ANSWER + Duration::from_secs(1);
        assert!(places.take(from("192.0.2.3"), MOST, late).is_some());
        assert!(is_there(&came), "the other network has most");
    }
}
