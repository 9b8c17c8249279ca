//! Connections that are read without a time limit, and who ends them all the same.
//!
//! A limit on a socket (`SO_RCVTIMEO`) arms and disarms a kernel timer in every read that waits, which costs an exchange of a
//! few microseconds some percent of its rate. So the server's thread that accepts looks after these connections ten times
//! a second instead, and shuts down the one that is over its time: its read then ends at once.

use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use clock::{Instant, Monotonic, Nanos};

use super::lock::lock;

/// Why a connection was shut down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// The server stops.
    Stopping,
    /// The client was silent for longer than it may be.
    Silent,
    /// The test went over its time.
    Overtime,
}

/// All such connections of a server.
#[derive(Default)]
pub(crate) struct Lasting {
    all: Mutex<Vec<Arc<Watched>>>,
}

/// One of them.
pub(crate) struct Watched {
    stream: Arc<TcpStream>,
    until: Instant<Monotonic>,
    received: AtomicU64,
    seen: Mutex<Seen>,
}

/// What its last check saw.
struct Seen {
    received: u64,
    at: Instant<Monotonic>,
    ended: Option<Reason>,
}

impl Watched {
    /// How many bytes came in all: what grows is not silent.
    #[inline]
    pub fn received(&self, bytes: u64) {
        self.received.store(bytes, Ordering::Relaxed);
    }

    /// Why it was shut down, where it was.
    pub fn ended(&self) -> Option<Reason> {
        lock(&self.seen).ended
    }

    fn check(&self, stopping: bool, idle: Nanos, now: Instant<Monotonic>) {
        let received = self.received.load(Ordering::Relaxed);
        let mut seen = lock(&self.seen);
        if received != seen.received {
            (seen.received, seen.at) = (received, now);
        }
        let reason = match () {
            () if seen.ended.is_some() => return,
            () if stopping => Reason::Stopping,
            () if now > self.until => Reason::Overtime,
            () if now.saturating_since(seen.at) > idle => Reason::Silent,
            () => return,
        };
        seen.ended = Some(reason);
        // A connection that is gone already has ended its read by itself.
        self.stream.shutdown(Shutdown::Both).ok();
    }
}

impl Lasting {
    /// Looks after `stream` until what is given back is dropped, and takes the time limit off its reads.
    ///
    /// # Errors
    /// Of the socket.
    pub fn watch(
        &self,
        stream: &Arc<TcpStream>,
        until: Instant<Monotonic>,
        now: Instant<Monotonic>,
    ) -> std::io::Result<Watching<'_>> {
        stream.set_read_timeout(None)?;
        let watched = Arc::new(Watched {
            stream: stream.clone(),
            until,
            received: AtomicU64::new(0),
            seen: Mutex::new(Seen { received: 0, at: now, ended: None }),
        });
        lock(&self.all).push(watched.clone());
        Ok(Watching { of: self, watched })
    }

    /// Shuts down every connection that is over its time; all of them where the server stops.
    pub fn check(&self, stopping: bool, idle: Nanos, now: Instant<Monotonic>) {
        for watched in lock(&self.all).iter() {
            watched.check(stopping, idle, now);
        }
    }
}

/// A connection that is looked after, until dropped.
pub(crate) struct Watching<'a> {
    of: &'a Lasting,
    watched: Arc<Watched>,
}

impl std::ops::Deref for Watching<'_> {
    type Target = Watched;

    fn deref(&self) -> &Watched {
        &self.watched
    }
}

impl Drop for Watching<'_> {
    fn drop(&mut self) {
        lock(&self.of.all).retain(|other| !Arc::ptr_eq(other, &self.watched));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;

    #[test]
    fn each_is_ended_for_its_reason_and_reads_end_with_it() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let pair = || {
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            (client, Arc::new(listener.accept().unwrap().0))
        };
        let at = Instant::from_nanos;
        let lasting = Lasting::default();
        let (first, second, third) = (pair(), pair(), pair());
        let late = lasting.watch(&first.1, at(1_000), at(0)).unwrap();
        let silent = lasting.watch(&second.1, at(u64::MAX), at(0)).unwrap();
        let busy = lasting.watch(&third.1, at(u64::MAX), at(0)).unwrap();
        lasting.check(false, Nanos(5_000), at(1_000));
        assert_eq!([late.ended(), silent.ended(), busy.ended()], [None; 3]);
        busy.received(1);
        lasting.check(false, Nanos(5_000), at(5_001));
        assert_eq!([late.ended(), silent.ended(), busy.ended()], [Some(Reason::Overtime), Some(Reason::Silent), None]);
        let reading = std::thread::spawn({
            let stream = third.1.clone();
            move || (&*stream).read(&mut [0]).unwrap()
        });
        lasting.check(true, Nanos(5_000), at(5_002));
        assert_eq!((reading.join().unwrap(), busy.ended()), (0, Some(Reason::Stopping)));
        drop((late, silent, busy));
        assert!(lock(&lasting.all).is_empty());
    }
}
