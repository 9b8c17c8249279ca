//! Connections that have not been admitted to a test, and which of them gives way to the next.
//!
//! A stranger can open connections faster than any time limit ends them. So no newcomer is turned
//! away for the sake of those that wait: where they are too many, the one that has waited longest
//! of the network that has most of them is closed.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr, Shutdown, TcpStream};
use std::sync::{Arc, Mutex};

use super::lock::lock;

/// What one subscriber has: an IPv4 address, or 64 bits of IPv6 (RFC 6177, section 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Network(IpAddr);

impl Network {
    /// The one of an address. IPv4 addresses within IPv6 are IPv4.
    pub fn of(ip: IpAddr) -> Self {
        Self(match ip.to_canonical() {
            IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits() & !u128::from(u64::MAX)).into(),
            ip @ IpAddr::V4(_) => ip,
        })
    }
}

struct Entry {
    network: Network,
    stream: Arc<TcpStream>,
    /// When it came or was last of use, as a number that only grows.
    turn: u64,
    /// Tests under way on it: it does not give way meanwhile.
    tests: u32,
}

#[derive(Default)]
struct Queue {
    entries: HashMap<u64, Entry>,
    turns: u64,
}

impl Queue {
    fn next_turn(&mut self) -> u64 {
        self.turns += 1;
        self.turns
    }

    /// Closes the one that gives way, where one does.
    fn displace(&mut self, from: impl Fn(Network) -> bool) -> bool {
        let mut held: HashMap<Network, u32> = HashMap::new();
        let candidates = || self.entries.iter().filter(|(_, entry)| entry.tests == 0 && from(entry.network));
        for (_, entry) in candidates() {
            *held.entry(entry.network).or_default() += 1;
        }
        let most = held.values().max().copied().unwrap_or(0);
        let first =
            candidates().filter(|(_, entry)| held.get(&entry.network) == Some(&most)).min_by_key(|(_, e)| e.turn);
        let Some(number) = first.map(|(number, _)| *number) else { return false };
        let Some(entry) = self.entries.remove(&number) else { return false };
        // Whoever reads it sees its end, and gives its place back.
        entry.stream.shutdown(Shutdown::Both).ok();
        true
    }
}

/// All of a server.
#[derive(Default)]
pub(crate) struct Waiting(Mutex<Queue>);

impl Waiting {
    /// Adds one. How many were closed for it, at most two, comes back too: one of a network that
    /// has `per_network` of them, and one where there are `all`.
    pub fn add(self: &Arc<Self>, ip: IpAddr, stream: Arc<TcpStream>, per_network: u32, all: u32) -> (Waits, u64) {
        let network = Network::of(ip);
        let mut queue = lock(&self.0);
        let mut closed = 0;
        let of_network = queue.entries.values().filter(|entry| entry.network == network).count();
        if of_network >= per_network as usize && queue.displace(|other| other == network) {
            closed += 1;
        }
        if queue.entries.len() >= all as usize && queue.displace(|_| true) {
            closed += 1;
        }
        let number = queue.next_turn();
        queue.entries.insert(number, Entry { network, stream, turn: number, tests: 0 });
        (Waits { all: self.clone(), number }, closed)
    }

    /// Closes one, where one gives way.
    pub fn make_room(&self) -> bool {
        lock(&self.0).displace(|_| true)
    }
}

/// The place of one, until dropped.
pub(crate) struct Waits {
    all: Arc<Waiting>,
    number: u64,
}

impl Waits {
    /// It was of use: others give way before it.
    pub fn renew(&self) {
        let mut queue = lock(&self.all.0);
        let turn = queue.next_turn();
        if let Some(entry) = queue.entries.get_mut(&self.number) {
            entry.turn = turn;
        }
    }

    /// It does not give way until what comes back is dropped.
    pub fn hold(self: &Arc<Self>) -> Held {
        self.count_tests(1);
        Held(self.clone())
    }

    fn count_tests(&self, more: i32) {
        if let Some(entry) = lock(&self.all.0).entries.get_mut(&self.number) {
            entry.tests = entry.tests.saturating_add_signed(more);
        }
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        lock(&self.all.0).entries.remove(&self.number);
    }
}

/// A test under way on a connection, until dropped.
pub(crate) struct Held(Arc<Waits>);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.count_tests(-1);
        self.0.renew();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;
    use std::net::TcpListener;

    struct Pairs(TcpListener, Arc<Waiting>);

    impl Pairs {
        /// A connection from `ip`, as it seems: the client's end, and its place.
        fn add(&self, ip: &str, per_network: u32, all: u32) -> (TcpStream, Waits, u64) {
            let client = TcpStream::connect(self.0.local_addr().unwrap()).unwrap();
            client.set_nonblocking(true).unwrap();
            let server = Arc::new(self.0.accept().unwrap().0);
            let (waits, closed) = self.1.add(ip.parse().unwrap(), server, per_network, all);
            (client, waits, closed)
        }
    }

    fn is_closed(client: &TcpStream) -> bool {
        matches!((&*client).read(&mut [0]), Ok(0))
    }

    #[test]
    fn the_oldest_of_the_network_with_the_most_gives_way() {
        let pairs = Pairs(TcpListener::bind("127.0.0.1:0").unwrap(), Arc::default());
        let honest = pairs.add("192.0.2.1", 8, 4);
        let many: Vec<_> = (0..3).map(|_| pairs.add("198.51.100.7", 8, 4)).collect();
        assert_eq!(honest.2 + many.iter().map(|m| m.2).sum::<u64>(), 0);
        many[0].1.renew();
        let next = pairs.add("192.0.2.1", 8, 4);
        assert_eq!(next.2, 1);
        let closed: Vec<bool> = many.iter().map(|m| is_closed(&m.0)).collect();
        assert_eq!(
            (closed, is_closed(&honest.0)),
            (vec![false, true, false], false),
            "the renewed one is not the oldest"
        );
    }

    #[test]
    fn a_network_has_a_bound_and_ipv6_counts_by_64_bits() {
        let pairs = Pairs(TcpListener::bind("127.0.0.1:0").unwrap(), Arc::default());
        let first = pairs.add("2001:db8::1", 2, 100);
        let second = pairs.add("2001:db8::ffff:1", 2, 100);
        let other = pairs.add("2001:db8:0:1::1", 2, 100);
        assert_eq!([first.2, second.2, other.2], [0; 3]);
        let third = pairs.add("2001:db8::2", 2, 100);
        assert_eq!((third.2, is_closed(&first.0), is_closed(&other.0)), (1, true, false));
        assert_eq!(Network::of("::ffff:192.0.2.1".parse().unwrap()), Network::of("192.0.2.1".parse().unwrap()));
    }

    #[test]
    fn a_connection_with_a_test_under_way_does_not_give_way() {
        let pairs = Pairs(TcpListener::bind("127.0.0.1:0").unwrap(), Arc::default());
        let (client, waits, _) = pairs.add("192.0.2.1", 8, 8);
        let waits = Arc::new(waits);
        let held = waits.hold();
        assert!(!pairs.1.make_room());
        drop(held);
        assert!(pairs.1.make_room() && is_closed(&client));
        drop(waits);
        assert!(!pairs.1.make_room());
    }
}
