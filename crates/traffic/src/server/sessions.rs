//! Tests under way: which of them end for their silence or their length, and which gives way where
//! all places are taken.
//!
//! A limit on a socket (`SO_RCVTIMEO`) arms and disarms a kernel timer in every read that waits,
//! which costs an exchange of a few microseconds some percent of its rate. So the server's thread
//! that accepts looks after all tests ten times a second instead, and shuts down the connection of
//! one that is over its time: its read then ends at once.

use std::collections::HashMap;
use std::net::{IpAddr, Shutdown, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use clock::{Instant, Monotonic, Nanos};

use super::lock::lock;
use super::waiting::Network;

/// Silence after which a test may give way to one of another network.
pub(crate) const GIVES_WAY_AFTER: Nanos = Nanos::from_secs(2);

/// Why a test was ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// The server stops.
    Stopping,
    /// The client was silent for longer than it may be.
    Silent,
    /// The test went over its time.
    Overtime,
    /// It was silent while another client had no place.
    Displaced,
}

impl Reason {
    /// In words.
    pub fn why(self) -> &'static str {
        match self {
            Self::Stopping => "the server is stopping",
            Self::Silent => "the client was silent for too long",
            Self::Overtime => "the test went over its time",
            Self::Displaced => "the client was silent while others had no place",
        }
    }
}

/// All of a server.
#[derive(Default)]
pub(crate) struct Sessions(Mutex<Vec<Arc<Test>>>);

struct Test {
    network: Network,
    /// The connection that it was asked for on; its end is the end of the test.
    stream: Arc<TcpStream>,
    /// What the client did so far, in units of the workload's own.
    progress: AtomicU64,
    seen: Mutex<Seen>,
}

/// What the last check saw.
struct Seen {
    progress: u64,
    at: Instant<Monotonic>,
    limits: Option<(Instant<Monotonic>, Nanos)>,
    ended: Option<Reason>,
}

impl Test {
    fn end(&self, seen: &mut Seen, reason: Reason) {
        seen.ended = Some(reason);
        // A connection that is gone already has ended its read by itself.
        self.stream.shutdown(Shutdown::Both).ok();
    }

    fn check(&self, stopping: bool, now: Instant<Monotonic>) {
        let progress = self.progress.load(Ordering::Relaxed);
        let mut seen = lock(&self.seen);
        if progress != seen.progress {
            (seen.progress, seen.at) = (progress, now);
        }
        let silent = now.saturating_since(seen.at);
        let reason = match seen.limits {
            _ if seen.ended.is_some() => return,
            Some(_) if stopping => Reason::Stopping,
            Some((until, _)) if now > until => Reason::Overtime,
            Some((_, idle)) if silent > idle => Reason::Silent,
            _ => return,
        };
        self.end(&mut seen, reason);
    }
}

impl Sessions {
    /// Adds a test that `stream` was asked for on, where fewer than `most` are under way, or one
    /// that is silent gives way to it. The number under way comes back otherwise.
    pub fn add(
        self: &Arc<Self>,
        ip: IpAddr,
        stream: Arc<TcpStream>,
        most: u32,
        now: Instant<Monotonic>,
    ) -> Result<Session, u64> {
        let network = Network::of(ip);
        let mut all = lock(&self.0);
        if all.len() >= most as usize && !displace(&mut all, network, now) {
            return Err(all.len() as u64);
        }
        let seen = Mutex::new(Seen { progress: 0, at: now, limits: None, ended: None });
        let test = Arc::new(Test { network, stream, progress: AtomicU64::new(0), seen });
        all.push(test.clone());
        Ok(Session { all: self.clone(), test })
    }

    /// Whether the network of this address has a test under way.
    pub fn holds(&self, ip: IpAddr) -> bool {
        let network = Network::of(ip);
        lock(&self.0).iter().any(|test| test.network == network)
    }

    /// Ends each test that is over a limit of its own, and all that have one where the server
    /// stops.
    pub fn check(&self, stopping: bool, now: Instant<Monotonic>) {
        for test in lock(&self.0).iter() {
            test.check(stopping, now);
        }
    }
}

/// Ends the test that has been silent longest of the other network that has most of them.
fn displace(all: &mut Vec<Arc<Test>>, newcomer: Network, now: Instant<Monotonic>) -> bool {
    let mut held: HashMap<Network, usize> = HashMap::new();
    for test in all.iter() {
        *held.entry(test.network).or_default() += 1;
    }
    let silent = all.iter().enumerate().filter_map(|(index, test)| {
        test.check(false, now);
        let seen = lock(&test.seen);
        let gives_way = test.network != newcomer && now.saturating_since(seen.at) >= GIVES_WAY_AFTER;
        gives_way.then_some((std::cmp::Reverse(held[&test.network]), seen.at, index))
    });
    let Some((_, _, index)) = silent.min() else { return false };
    let test = all.swap_remove(index);
    let mut seen = lock(&test.seen);
    if seen.ended.is_none() {
        test.end(&mut seen, Reason::Displaced);
    }
    true
}

/// A test, until dropped.
pub(crate) struct Session {
    all: Arc<Sessions>,
    test: Arc<Test>,
}

impl Session {
    /// Ends it at `until`, and where nothing comes for `idle`.
    pub fn limit(&self, until: Instant<Monotonic>, idle: Nanos) {
        lock(&self.test.seen).limits = Some((until, idle));
    }

    /// The client did something: it is not silent.
    #[inline]
    pub fn advance(&self, amount: u64) {
        self.test.progress.fetch_add(amount, Ordering::Relaxed);
    }

    /// Why it was ended, where it was.
    pub fn ended(&self) -> Option<Reason> {
        lock(&self.test.seen).ended
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        lock(&self.all.0).retain(|other| !Arc::ptr_eq(other, &self.test));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;
    use std::net::TcpListener;

    fn at(ns: u64) -> Instant<Monotonic> {
        Instant::from_nanos(ns)
    }

    fn pair(listener: &TcpListener) -> (TcpStream, Arc<TcpStream>) {
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (client, Arc::new(listener.accept().unwrap().0))
    }

    #[test]
    fn each_is_ended_for_its_reason_and_reads_end_with_it() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let sessions = Arc::new(Sessions::default());
        let here = "127.0.0.1".parse().unwrap();
        let pairs = [pair(&listener), pair(&listener), pair(&listener)];
        let [late, silent, busy] =
            [0, 1, 2].map(|i: usize| sessions.add(here, pairs[i].1.clone(), 9, at(0)).unwrap_or_else(|_| panic!()));
        late.limit(at(1_000), Nanos(5_000));
        silent.limit(at(u64::MAX), Nanos(5_000));
        busy.limit(at(u64::MAX), Nanos(5_000));
        sessions.check(false, at(1_000));
        assert_eq!([late.ended(), silent.ended(), busy.ended()], [None; 3]);
        busy.advance(1);
        sessions.check(false, at(5_001));
        assert_eq!([late.ended(), silent.ended(), busy.ended()], [Some(Reason::Overtime), Some(Reason::Silent), None]);
        let reading = std::thread::spawn({
            let stream = pairs[2].1.clone();
            move || (&*stream).read(&mut [0]).unwrap()
        });
        sessions.check(true, at(5_002));
        assert_eq!((reading.join().unwrap(), busy.ended()), (0, Some(Reason::Stopping)));
        drop((late, silent, busy));
        assert!(lock(&sessions.0).is_empty());
    }

    #[test]
    fn a_silent_test_gives_way_to_one_of_another_network() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let sessions = Arc::new(Sessions::default());
        let ip = |n: u8| IpAddr::from([192, 0, 2, n]);
        let add = |n, now| sessions.add(ip(n), pair(&listener).1, 3, at(now));
        let (busy, first, second) = (add(1, 0).ok().unwrap(), add(2, 0).ok().unwrap(), add(2, 1).ok().unwrap());
        let second_s = 2_000_000_001;
        assert_eq!(add(3, 1_000_000_000).err(), Some(3), "none has been silent for long");
        busy.advance(1);
        assert_eq!(add(2, second_s).err(), Some(3), "those of its network do not give way to each other");
        let third = add(3, second_s).ok().unwrap();
        assert_eq!([first.ended(), second.ended(), busy.ended()], [Some(Reason::Displaced), None, None]);
        drop((third, first, second, busy));
    }
}
