//! What a server's threads share: its bounds, who waits for whom, and the counts.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use clock::{Instant, Monotonic, Nanos};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;
use socket2::Socket;

use super::config::ServerConfig;
use super::listening::SLICE;
use super::lock::lock;
use super::passes::Passes;
use super::sessions::{GIVES_WAY_AFTER, Session, Sessions};
use super::waiting::{Waiting, Waits};
use crate::channel::Channel;
use crate::error::{Error, WireError};
use crate::limits::{Bounded, Refusal};
use crate::stop::Stop;
use crate::timing;
use crate::wire::Cookie;
use crate::workload::Workload;

/// How many hear at a time, within TLS, that there is no place for them.
const DECLINED_AT_ONCE: u64 = 32;

/// Something that happened at a server.
#[derive(Clone, Debug)]
pub enum Event {
    /// A test began.
    Began {
        /// The client.
        peer: SocketAddr,
        /// Which workload.
        workload: Workload,
    },
    /// A test ended.
    Ended(Served),
    /// A client was refused.
    Refused {
        /// The client.
        peer: SocketAddr,
        /// Why.
        refusal: Refusal,
    },
    /// It accepts no more connections.
    Failed {
        /// Why.
        error: String,
    },
    /// Something that speaks another protocol connected.
    Garbage {
        /// Who.
        peer: SocketAddr,
        /// What was wrong.
        why: WireError,
    },
}

/// What a server has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Tests carried out to their end.
    pub tests: u64,
    /// Tests with a client that vanished, broke the protocol, or went over its time.
    pub broken_off: u64,
    /// Tests refused.
    pub refused: u64,
    /// Connections turned away because all places were taken.
    pub turned_away: u64,
    /// Connections that did not say in time what they want.
    pub silent: u64,
    /// Connections and datagrams that speak another protocol.
    pub garbage: u64,
}

/// The same, counting.
#[derive(Default)]
pub(crate) struct Counters {
    pub tests: AtomicU64,
    pub broken_off: AtomicU64,
    pub refused: AtomicU64,
    pub turned_away: AtomicU64,
    pub silent: AtomicU64,
    pub garbage: AtomicU64,
}

/// Gives back what was taken when dropped.
pub(crate) struct Taken {
    shared: Arc<Shared>,
    from: fn(&Shared) -> &AtomicU64,
    amount: u64,
}

impl Drop for Taken {
    fn drop(&mut self) {
        (self.from)(&self.shared).fetch_sub(self.amount, Ordering::SeqCst);
    }
}

/// What all threads of a server share.
pub(crate) struct Shared {
    pub config: ServerConfig,
    pub stop: Stop,
    connections: AtomicU64,
    declined: AtomicU64,
    threads: AtomicU64,
    memory: AtomicU64,
    counters: Counters,
    /// Connections that have not been admitted to a test.
    waiting: Arc<Waiting>,
    /// Tests under way.
    pub sessions: Arc<Sessions>,
    tell: Box<dyn Fn(Event) + Send + Sync>,
    /// iperf3 tests that wait for their TCP flows.
    flows: Mutex<HashMap<Cookie, SyncSender<(u64, TcpStream)>>>,
    /// The iperf3 test of each address that waits for its UDP flows: their opening says only the
    /// address they come from.
    pub udp_waiting: Mutex<HashMap<IpAddr, SyncSender<(u64, Socket)>>>,
    /// Own UDP sessions that await their flow, by number: from where, and whom to give it to.
    datagrams: Mutex<HashMap<u64, (IpAddr, SyncSender<Socket>)>>,
    /// What was given within TLS to ask for one test without it.
    pub passes: Passes,
}

impl Shared {
    pub fn new(config: ServerConfig, tell: Box<dyn Fn(Event) + Send + Sync>) -> Result<Self, Error> {
        Ok(Self {
            config,
            stop: Stop::new()?,
            connections: AtomicU64::new(0),
            declined: AtomicU64::new(0),
            threads: AtomicU64::new(0),
            waiting: Arc::default(),
            sessions: Arc::default(),
            memory: AtomicU64::new(0),
            counters: Counters::default(),
            tell,
            flows: Mutex::default(),
            udp_waiting: Mutex::default(),
            datagrams: Mutex::default(),
            passes: Passes::default(),
        })
    }

    pub fn stopping(&self) -> bool {
        self.stop.asked()
    }

    pub fn tell(&self, event: Event) {
        (self.tell)(event);
    }

    pub fn count(&self, which: fn(&Counters) -> &AtomicU64) {
        which(&self.counters).fetch_add(1, Ordering::Relaxed);
    }

    pub fn counts(&self) -> Counts {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let c = &self.counters;
        Counts {
            tests: of(&c.tests),
            broken_off: of(&c.broken_off),
            refused: of(&c.refused),
            turned_away: of(&c.turned_away),
            silent: of(&c.silent),
            garbage: of(&c.garbage),
        }
    }

    pub fn connections_open(&self) -> u64 {
        self.connections.load(Ordering::SeqCst)
    }

    fn take(self: &Arc<Self>, from: fn(&Self) -> &AtomicU64, amount: u64, limit: u64) -> Result<Taken, u64> {
        from(self)
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |used| {
                used.checked_add(amount).filter(|sum| *sum <= limit)
            })
            .map(|_| Taken { shared: self.clone(), from, amount })
    }

    /// A place for one more connection. Where all are taken, one that waits gives way; until its
    /// thread has ended, there are more for a moment, which is bounded too.
    pub fn take_connection(self: &Arc<Self>) -> Option<Taken> {
        let limit = u64::from(self.config.limits.connections);
        let place = |limit| self.take(|s| &s.connections, 1, limit).ok();
        place(limit).or_else(|| {
            if !self.waiting.make_room() {
                return None;
            }
            self.count(|c| &c.turned_away);
            place(limit + limit / 4 + 8)
        })
    }

    /// A place for one that only hears that there is none.
    pub fn take_declined(self: &Arc<Self>) -> Option<Taken> {
        self.take(|s| &s.declined, 1, DECLINED_AT_ONCE).ok()
    }

    /// A place for one more test, asked for on `stream`.
    pub fn take_session(&self, ip: IpAddr, stream: Arc<TcpStream>) -> Result<Session, Refusal> {
        let limit = self.config.limits.sessions;
        self.sessions.add(ip, stream, limit, timing::now()).map_err(|used| Refusal::OverLimit {
            what: Bounded::Sessions,
            asked: used.saturating_add(1),
            limit: limit.into(),
        })
    }

    /// The same for one whose client waits on `control`. Where its network has no test and all
    /// places are taken, it waits for as long as it takes a silent test to give way.
    pub fn await_session(&self, ip: IpAddr, control: &Channel) -> Result<Session, Refusal> {
        let until = timing::now().after(GIVES_WAY_AFTER).after(SLICE.into());
        loop {
            let taken = self.take_session(ip, control.stream().clone());
            let now = timing::now();
            if taken.is_ok() || now >= until || self.stopping() || self.sessions.holds(ip) {
                return taken;
            }
            self.pause(control, now.after(SLICE.into()));
        }
    }

    /// Threads that carry a test.
    pub fn take_threads(self: &Arc<Self>, threads: u64) -> Result<Taken, Refusal> {
        let limit = self.config.limits.threads.into();
        self.take(|s| &s.threads, threads, limit).map_err(|used| Refusal::OverLimit {
            what: Bounded::Threads,
            asked: used.saturating_add(threads),
            limit,
        })
    }

    /// A place for a connection from `ip` until it is admitted to a test. At most half of all
    /// places are for those.
    pub fn wait_from(&self, ip: IpAddr, stream: Arc<TcpStream>) -> Waits {
        let limits = &self.config.limits;
        let (waits, closed) = self.waiting.add(ip, stream, limits.waiting_per_address, limits.connections.div_ceil(2));
        for _ in 0..closed {
            self.count(|c| &c.turned_away);
        }
        waits
    }

    /// Sleeps until `deadline`, or until the connection is displaced. What its client sends or ends
    /// meanwhile shortens nothing.
    pub fn pause(&self, control: &Channel, deadline: Instant<Monotonic>) {
        loop {
            let left = deadline.saturating_since(timing::now());
            if left == Nanos::ZERO || self.stopping() {
                return;
            }
            let slice = Duration::from(left).min(SLICE);
            let slice = Timespec { tv_sec: 0, tv_nsec: slice.subsec_nanos().into() };
            // Both sides are closed when this one has closed them.
            let mut closed = [PollFd::new(control, PollFlags::empty())];
            match poll(&mut closed, Some(&slice)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                _ => return,
            }
        }
    }

    /// Room for message buffers.
    pub fn take_memory(self: &Arc<Self>, bytes: u64) -> Result<Taken, Refusal> {
        let limit = self.config.limits.memory_bytes;
        self.take(|s| &s.memory, bytes, limit).map_err(|used| Refusal::OverLimit {
            what: Bounded::Memory,
            asked: used.saturating_add(bytes),
            limit,
        })
    }

    /// Announces a test that waits for TCP flows with its cookie.
    pub fn await_flows(&self, cookie: Cookie, to: SyncSender<(u64, TcpStream)>) {
        lock(&self.flows).insert(cookie, to);
    }

    /// No more flows are awaited.
    pub fn await_no_more(&self, cookie: &Cookie) {
        lock(&self.flows).remove(cookie);
    }

    /// Gives a flow, with its place in the order of accepting, to the test that waits for it.
    /// Whether one does: otherwise it is a new test.
    pub fn hand_over(&self, cookie: &Cookie, order: u64, stream: &TcpStream) -> bool {
        let flows = lock(&self.flows);
        let Some(test) = flows.get(cookie) else { return false };
        // More flows than the test asked for find no place, and are closed, as is one where
        // descriptors have run out.
        if let Ok(stream) = stream.try_clone() {
            test.try_send((order, stream)).ok();
        }
        true
    }

    /// Announces a session that waits for its UDP flow.
    pub fn await_datagrams(&self, session: u64, ip: IpAddr, to: SyncSender<Socket>) -> Awaited<'_> {
        lock(&self.datagrams).insert(session, (ip, to));
        Awaited { shared: self, session }
    }

    /// Whether a session waits for a flow from there.
    pub fn awaits_datagrams(&self, session: u64, ip: IpAddr) -> bool {
        lock(&self.datagrams).get(&session).is_some_and(|(wanted, _)| *wanted == ip)
    }

    /// Gives a flow to the session that waits for it; a second opening of the same one finds it
    /// gone.
    pub fn hand_over_datagrams(&self, session: u64, socket: Socket) {
        if let Some((_, to)) = lock(&self.datagrams).remove(&session) {
            to.try_send(socket).ok();
        }
    }
}

/// A session that waits for its UDP flow, until dropped.
pub(crate) struct Awaited<'a> {
    shared: &'a Shared,
    session: u64,
}

impl Drop for Awaited<'_> {
    fn drop(&mut self) {
        lock(&self.shared.datagrams).remove(&self.session);
    }
}

/// A summary for people and programs: who asked for what, and how it went.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Served {
    /// The client.
    pub peer: SocketAddr,
    /// Which workload.
    pub workload: Workload,
    /// Bytes received from the client.
    pub received_bytes: u64,
    /// Bytes sent to it.
    pub sent_bytes: u64,
    /// Transactions answered.
    pub transactions: u64,
    /// How long.
    #[serde(rename = "elapsed_ns")]
    pub elapsed: Nanos,
    /// Why it ended, unless the client was simply done.
    pub ended: Option<String>,
}

impl Served {
    pub(crate) fn new(peer: SocketAddr, workload: Workload) -> Self {
        Self { peer, workload, received_bytes: 0, sent_bytes: 0, transactions: 0, elapsed: Nanos::ZERO, ended: None }
    }
}
