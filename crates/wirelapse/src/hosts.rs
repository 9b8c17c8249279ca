//! `--resolve`: the names of hosts. They are asked for beside what goes on, many at a time, because
//! a name server may take its time or never answer.

use std::collections::{HashMap, HashSet, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use paper::document::Document;
use serde::{Deserialize, Serialize};

/// How long a report waits for names, all together.
pub const PATIENCE: Duration = Duration::from_secs(3);
/// Names that are asked for at the same time.
const AT_ONCE: usize = 32;
/// Names that are asked for at all.
const MOST: usize = 4_096;

/// Names to ask for, in a process that may still read the resolver's files.
#[derive(Debug, Serialize, Deserialize)]
pub struct Query {
    hosts: Vec<IpAddr>,
    wait: Duration,
}

impl Query {
    /// The names of these hosts, as far as they come after `wait` at the latest.
    pub fn new(hosts: impl IntoIterator<Item = IpAddr>, wait: Duration) -> Self {
        let mut seen = HashSet::new();
        Self { hosts: hosts.into_iter().filter(|host| seen.insert(*host)).take(MOST).collect(), wait }
    }
}

/// The names of hosts, as they come.
pub struct Names {
    asked: Arc<(Mutex<Asked>, Condvar)>,
    look_up: fn(IpAddr) -> Option<String>,
}

#[derive(Default)]
struct Asked {
    ever: HashSet<IpAddr>,
    waiting: VecDeque<IpAddr>,
    /// Threads that ask.
    busy: usize,
    known: HashMap<IpAddr, String>,
}

impl Default for Names {
    fn default() -> Self {
        Self { asked: Arc::default(), look_up: name_of }
    }
}

impl Names {
    /// The names of these hosts, as far as they have come after this time at the latest.
    pub fn of(&self, addresses: impl IntoIterator<Item = IpAddr>, wait: Duration) -> HashMap<IpAddr, String> {
        self.ask(addresses);
        let until = Instant::now() + wait;
        let (asked, came) = &*self.asked;
        let mut asked = held(asked);
        while asked.busy > 0 {
            let Some(left) = until.checked_duration_since(Instant::now()) else { break };
            asked = came.wait_timeout(asked, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        asked.known.clone()
    }

    fn ask(&self, addresses: impl IntoIterator<Item = IpAddr>) {
        let mut asked = held(&self.asked.0);
        for address in addresses {
            if asked.ever.len() < MOST && asked.ever.insert(address) {
                asked.waiting.push_back(address);
            }
        }
        // One that is busy may never come back, so that each address that waits gets another thread
        // as long as there may be one.
        for _ in 0..asked.waiting.len().min(AT_ONCE.saturating_sub(asked.busy)) {
            let (shared, look_up) = (Arc::clone(&self.asked), self.look_up);
            let asks = std::thread::Builder::new().name("resolve".into()).spawn(move || work(&shared, look_up));
            // What no thread asks for stays an address.
            asked.busy += usize::from(asks.is_ok());
        }
    }

    /// The names that a query asks for.
    pub fn answer(&self, query: Query) -> HashMap<IpAddr, String> {
        self.of(query.hosts, query.wait)
    }
}

fn held(asked: &Mutex<Asked>) -> MutexGuard<'_, Asked> {
    asked.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Asks for one name after the other, until none is left.
fn work((asked, came): &(Mutex<Asked>, Condvar), look_up: fn(IpAddr) -> Option<String>) {
    loop {
        let mut now = held(asked);
        let Some(address) = now.waiting.pop_front() else {
            now.busy -= 1;
            came.notify_all();
            return;
        };
        drop(now);
        if let Some(name) = look_up(address) {
            held(asked).known.insert(address, name);
        }
    }
}

/// Puts names in place of the addresses that documents show, as far as they come in time.
pub fn name(documents: &mut [Document]) {
    let addresses: Vec<IpAddr> = documents.iter().flat_map(Document::hosts).collect();
    let names = Names::default().of(addresses, PATIENCE);
    documents.iter_mut().for_each(|document| document.name_hosts(&names));
}

/// The name of a host. The library calls of the resolver are asked, as `getent hosts` does:
/// `/etc/hosts` and the name service.
fn name_of(address: IpAddr) -> Option<String> {
    let at = socket2::SockAddr::from(SocketAddr::new(address, 0));
    let mut name = [0 as libc::c_char; libc::NI_MAXHOST as usize];
    // SAFETY: the address is live and of the length given, and the resolver writes at most the
    // length of the buffer, with a zero at its end.
    let failed = unsafe {
        libc::getnameinfo(
            at.as_ptr().cast(),
            at.len(),
            name.as_mut_ptr(),
            libc::NI_MAXHOST,
            std::ptr::null_mut(),
            0,
            libc::NI_NAMEREQD,
        )
    };
    let bytes: Vec<u8> = name.iter().map(|&c| c.cast_unsigned()).take_while(|&b| b != 0).collect();
    // Names come from the network: what steers a terminal is replaced where they are drawn.
    (failed == 0).then(|| String::from_utf8_lossy(&bytes).into_owned()).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(last: u8) -> IpAddr {
        [192, 0, 2, last].into()
    }

    #[test]
    fn names_come_as_another_process_asks_for_them() {
        // As /etc/hosts has it on every machine.
        let here: IpAddr = "127.0.0.1".parse().unwrap();
        let asked = serde_json::to_value(Query::new([here, here], PATIENCE)).unwrap();
        let query: Query = serde_json::from_value(asked).unwrap();
        assert_eq!(query.hosts, [here]);
        let reply = serde_json::to_value(Names::default().answer(query)).unwrap();
        let names: HashMap<IpAddr, String> = serde_json::from_value(reply).unwrap();
        assert_eq!(names, HashMap::from([(here, "localhost".to_owned())]));
    }

    #[test]
    fn a_name_that_never_comes_keeps_no_other_one_waiting() {
        fn look_up(address: IpAddr) -> Option<String> {
            if address == at(7) {
                hang();
            }
            Some(format!("host {address}"))
        }
        let names = Names { look_up, ..Names::default() };
        // The others are all there, whenever they are looked for; the one that hangs is not, and
        // there is an end to the wait for it.
        while names.of((0..100).map(at), Duration::from_millis(1)).len() < 99 {}
        assert!(!names.of([], Duration::ZERO).contains_key(&at(7)));
        // Thirty more that hang leave one thread to ask for all others.
        let later = Names {
            look_up: |address| if address.is_ipv4() { hang() } else { Some("six".into()) },
            ..Names::default()
        };
        later.of((0..AT_ONCE as u8 - 1).map(at), Duration::ZERO);
        let six: Vec<IpAddr> = (0..40_u16).map(|i| [0x2001, 0xdb8, 0, 0, 0, 0, 0, i].into()).collect();
        while later.of(six.iter().copied(), Duration::from_millis(1)).len() < six.len() {}
    }

    fn hang() -> ! {
        loop {
            std::thread::park();
        }
    }
}
