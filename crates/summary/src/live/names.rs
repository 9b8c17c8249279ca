//! What peers, cgroups and users are called: peers by the traffic itself, from the names that TLS
//! asks for and the answers of DNS.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;

use record::{Question, words};

/// Where the name of a peer comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameSource {
    /// This end asked for it in its ClientHello of TLS (SNI).
    Sni,
    /// An answer of DNS had the address.
    Dns,
    /// The resolver was asked for the name of the address.
    Resolver,
}

words! { NameSource: Sni = "sni", Dns = "dns", Resolver = "resolver"; }

/// The name of a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerName {
    /// The name.
    pub name: String,
    /// Where it comes from.
    pub source: NameSource,
    /// Whether there are others that are as good: several names have this address, or several peers
    /// are meant.
    pub others: bool,
}

impl PeerName {
    /// As it is shown: with a sign where there are others.
    pub fn shown(&self) -> String {
        if self.others { format!("{}, …", self.name) } else { self.name.clone() }
    }
}

/// Addresses and connections that have a name at a time.
const MOST: usize = 20_000;
/// Names of one address that are kept.
const NAMES: usize = 8;

/// What is known of the cgroup with some number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// Its path.
    pub path: String,
    /// The systemd unit.
    pub unit: Option<String>,
    /// The pod, or the container where it is in none.
    pub pod: Option<String>,
}

/// How things are called that have numbers or addresses.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// The cgroups by the kernel's ids.
    pub places: HashMap<u64, Placement>,
    /// The users by their numbers.
    pub users: HashMap<u32, String>,
    /// The names that the resolver gave.
    pub resolved: HashMap<IpAddr, String>,
    hellos: Kept<u64, String>,
    answers: Kept<IpAddr, VecDeque<Answer>>,
    /// Sockets of UDP that speak QUIC.
    quic: Kept<u64, ()>,
}

/// A name that an address was found for.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Answer {
    name: String,
    /// Who asked.
    pid: u32,
}

/// What was put in last, up to [`MOST`].
#[derive(Clone, Debug)]
struct Kept<K, V> {
    all: HashMap<K, V>,
    order: VecDeque<K>,
}

impl<K, V> Default for Kept<K, V> {
    fn default() -> Self {
        Self { all: HashMap::new(), order: VecDeque::new() }
    }
}

impl<K: Copy + Eq + std::hash::Hash, V: Default> Kept<K, V> {
    fn of(&mut self, key: K) -> &mut V {
        if !self.all.contains_key(&key) {
            if self.order.len() == MOST
                && let Some(oldest) = self.order.pop_front()
            {
                self.all.remove(&oldest);
            }
            self.order.push_back(key);
        }
        self.all.entry(key).or_default()
    }
}

impl Names {
    /// The path of a cgroup.
    pub fn cgroup(&self, id: u64) -> String {
        self.places.get(&id).map_or_else(|| format!("cgroup {id}"), |place| place.path.clone())
    }

    /// A ClientHello on this connection asked for the server with this name.
    pub fn hello(&mut self, cookie: u64, server: &str) {
        server.clone_into(self.hellos.of(cookie));
    }

    /// This socket speaks QUIC.
    pub fn speaks_quic(&mut self, cookie: u64) {
        self.quic.of(cookie);
    }

    /// Whether a socket is known to speak QUIC.
    pub fn is_quic(&self, cookie: u64) -> bool {
        self.quic.all.contains_key(&cookie)
    }

    /// A name was asked for, and addresses were found.
    pub fn question(&mut self, question: &Question) {
        if !question.ends_lookup || !matches!(question.kind.as_str(), "A" | "AAAA") {
            return;
        }
        let answer = Answer { name: question.name.trim_end_matches('.').to_owned(), pid: question.owner.pid };
        for address in question.addresses.split(' ').filter_map(|address| address.parse().ok()) {
            let known = self.answers.of(address);
            known.retain(|other| *other != answer);
            known.push_front(answer.clone());
            known.truncate(NAMES);
        }
    }

    /// The name of the peer of a connection: what its own ClientHello says, then what its process
    /// was answered, then what others were, then what the resolver says.
    pub fn peer(&self, cookie: Option<u64>, pid: Option<u32>, at: IpAddr) -> Option<PeerName> {
        if let Some(name) = cookie.and_then(|cookie| self.hellos.all.get(&cookie)) {
            return Some(PeerName { name: name.clone(), source: NameSource::Sni, others: false });
        }
        if let Some(known) = self.answers.all.get(&at) {
            let own = || known.iter().filter(|answer| pid == Some(answer.pid));
            let latest = own().next().or_else(|| known.front())?;
            let whose: Vec<&str> = match own().next() {
                Some(_) => own().map(|answer| answer.name.as_str()).collect(),
                None => known.iter().map(|answer| answer.name.as_str()).collect(),
            };
            let others = whose.iter().any(|name| *name != latest.name);
            return Some(PeerName { name: latest.name.clone(), source: NameSource::Dns, others });
        }
        let name = self.resolved.get(&at)?.clone();
        Some(PeerName { name, source: NameSource::Resolver, others: false })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::Owner;

    fn answered(pid: u32, name: &str, addresses: &str) -> Question {
        let owner = Owner { pid, ..Owner::default() };
        let (name, addresses, kind) = (name.to_owned(), addresses.to_owned(), "A".to_owned());
        Question { owner, name, addresses, kind, ends_lookup: true, ..Question::blank() }
    }

    #[test]
    fn a_name_is_what_the_connection_itself_asked_for_or_its_process_was_answered() {
        let at: IpAddr = "192.0.2.1".parse().unwrap();
        let mut names = Names::default();
        assert_eq!(names.peer(Some(1), Some(7), at), None);
        names.resolved.insert(at, "host.example".into());
        let named = |names: &Names, cookie, pid| {
            let found = names.peer(cookie, pid, at).unwrap();
            (found.shown(), found.source)
        };
        assert_eq!(named(&names, None, None), ("host.example".into(), NameSource::Resolver));
        names.question(&answered(7, "a.example.", "192.0.2.9 192.0.2.1"));
        assert_eq!(named(&names, None, Some(8)), ("a.example".into(), NameSource::Dns));
        names.question(&answered(9, "b.example", "192.0.2.1"));
        // Two names have this address: whoever asked for one of them means that one.
        assert_eq!(named(&names, None, Some(7)), ("a.example".into(), NameSource::Dns));
        assert_eq!(named(&names, None, Some(8)), ("b.example, …".into(), NameSource::Dns));
        names.hello(5, "c.example");
        assert_eq!(named(&names, Some(5), Some(7)), ("c.example".into(), NameSource::Sni));
        assert_eq!(named(&names, Some(6), Some(7)), ("a.example".into(), NameSource::Dns));
    }

    #[test]
    fn only_addresses_that_a_lookup_ended_with_have_names_and_no_more_than_there_is_room_for() {
        let mut names = Names::default();
        let mail = Question { kind: "MX".into(), ..answered(1, "a", "192.0.2.1") };
        let late = Question { ends_lookup: false, ..answered(1, "a", "192.0.2.1") };
        [mail, late].iter().for_each(|question| names.question(question));
        assert_eq!(names.peer(None, None, "192.0.2.1".parse().unwrap()), None);
        for cookie in 0..MOST as u64 + 1 {
            names.hello(cookie, "a");
        }
        let of = |cookie| names.peer(Some(cookie), None, "192.0.2.1".parse().unwrap()).is_some();
        assert_eq!((of(0), of(1), of(MOST as u64)), (false, true, true));
        assert_eq!(names.hellos.all.len(), names.hellos.order.len());
    }
}
