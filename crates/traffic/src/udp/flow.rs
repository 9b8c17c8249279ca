//! The datagrams' own header, and the loops that send and receive them.

use std::io;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use clock::{Instant, Monotonic, Nanos};
use stats::{Distribution, DurationSummary, Precision};

use super::{Interval, Received, Sent, Tracker};
use crate::error::WireError;
use crate::error::may_retry;
use crate::sending::Pacer;
use crate::timing;

/// What a datagram is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderKind {
    /// It opens the flow of a session; the number is the session's. It is sent back.
    Open,
    /// It is one of a flow; the number counts from 1.
    Data,
}

/// What every datagram begins with: four bytes that say what it is, a number, and when it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What it is for.
    pub kind: HeaderKind,
    /// Its number.
    pub number: u64,
    /// The sender's `CLOCK_MONOTONIC`.
    pub sent_monotonic: Instant<Monotonic>,
}

impl Header {
    /// Bytes of it.
    pub const BYTES: usize = 24;

    /// Reads it.
    ///
    /// # Errors
    /// [`WireError::Truncated`], or [`WireError::Malformed`] for a datagram that is not ours.
    pub fn parse(bytes: &[u8]) -> Result<Self, WireError> {
        let what = "a datagram";
        let Some(bytes) = bytes.first_chunk::<{ Self::BYTES }>() else {
            return Err(WireError::Truncated { what, need: Self::BYTES, have: bytes.len() });
        };
        let kind = match &bytes[..4] {
            b"WLUO" => HeaderKind::Open,
            b"WLUD" => HeaderKind::Data,
            _ => return Err(WireError::Malformed { what, why: "it does not begin as ours do".into() }),
        };
        let number = |from: usize| {
            let mut eight = [0; 8];
            eight.copy_from_slice(&bytes[from..from + 8]);
            u64::from_be_bytes(eight)
        };
        Ok(Self { kind, number: number(8), sent_monotonic: Instant::from_nanos(number(16)) })
    }

    /// Writes it at the start of `bytes`, which hold at least [`Header::BYTES`].
    pub fn emit(self, bytes: &mut [u8]) {
        bytes[..4].copy_from_slice(match self.kind {
            HeaderKind::Open => b"WLUO",
            HeaderKind::Data => b"WLUD",
        });
        bytes[4..8].fill(0);
        bytes[8..16].copy_from_slice(&self.number.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.sent_monotonic.as_nanos().to_be_bytes());
    }
}

/// Sends at a rate, so many in a row, until `until`, or until asked to stop.
pub(crate) fn send(
    socket: &UdpSocket,
    datagram_bytes: u32,
    (bits_per_second, burst): (u64, u32),
    until: Instant<Monotonic>,
    stop: &AtomicBool,
    done: &AtomicU64,
) -> io::Result<Sent> {
    let mut buffer = vec![0u8; (datagram_bytes as usize).max(Header::BYTES)];
    let mut pacer = (bits_per_second > 0).then(|| Pacer::new(bits_per_second).in_bursts(burst));
    let start = timing::now();
    let mut sent = Sent::default();
    let mut offered = 0u64;
    loop {
        let now = match &mut pacer {
            Some(pacer) => pacer.wait(offered, stop),
            None => timing::now(),
        };
        if now >= until || stop.load(Ordering::Relaxed) {
            sent.elapsed = now.min(until).saturating_since(start);
            return Ok(sent);
        }
        let number = sent.datagrams + 1;
        Header { kind: HeaderKind::Data, number, sent_monotonic: now }.emit(&mut buffer);
        offered += buffer.len() as u64;
        match socket.send(&buffer) {
            Ok(n) => {
                sent.datagrams = number;
                sent.bytes += n as u64;
                done.store(number, Ordering::Relaxed);
            }
            Err(e) if e.raw_os_error() == Some(libc::ENOBUFS) => sent.not_sent += 1,
            // An ICMP error is about a datagram that has left already.
            Err(e) if may_retry(&e) || e.kind() == io::ErrorKind::ConnectionRefused => {}
            Err(e) => return Err(e),
        }
    }
}

/// A datagram that came.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrived {
    pub header: Header,
    /// Bytes of it.
    pub length: usize,
    pub at: Instant<Monotonic>,
}

/// Receives until asked to stop. `early` came before. One-way delays only where `shared_clock`.
pub(crate) fn receive(
    socket: &UdpSocket,
    early: Option<Arrived>,
    shared_clock: bool,
    interval: Nanos,
    stop: &AtomicBool,
    done: &AtomicU64,
) -> io::Result<Received> {
    socket.set_read_timeout(Some(Duration::from_millis(50)))?;
    let mut buffer = vec![0u8; 65_536];
    let mut account = Account::new(shared_clock, interval.max(Nanos::from_millis(10)));
    if let Some(arrived) = early {
        account.take(arrived, done);
    }
    while !stop.load(Ordering::Relaxed) {
        let length = match socket.recv(&mut buffer) {
            Ok(length) => length,
            Err(e) if may_retry(&e) || e.kind() == io::ErrorKind::ConnectionRefused => continue,
            Err(e) => return Err(e),
        };
        let at = timing::now();
        match Header::parse(&buffer[..length]) {
            Ok(header) if header.kind == HeaderKind::Open => {}
            Ok(header) => account.take(Arrived { header, length, at }, done),
            Err(_) => account.tracker.malformed(),
        }
    }
    let mut received = account.close();
    received.counts.dropped_at_socket = timestamping::socket_memory(socket).map_or(0, |m| m.drops.into());
    Ok(received)
}

/// What a receiver keeps of a flow.
pub(crate) struct Account {
    shared_clock: bool,
    interval: Nanos,
    tracker: Tracker,
    delays: Distribution,
    received: Received,
    first: Option<Instant<Monotonic>>,
    last: Option<Instant<Monotonic>>,
    row: Row,
}

impl Account {
    pub fn new(shared_clock: bool, interval: Nanos) -> Self {
        Self {
            shared_clock,
            interval,
            tracker: Tracker::default(),
            delays: Distribution::new(Precision::Fine),
            received: Received::default(),
            first: None,
            last: None,
            row: Row::default(),
        }
    }

    /// When the row that the series has next begins, from the first datagram on.
    fn next_row(&self) -> Nanos {
        Nanos(self.interval.0.saturating_mul(self.received.series.len() as u64))
    }

    pub fn take(&mut self, Arrived { header, length, at }: Arrived, done: &AtomicU64) {
        let since_first = at.saturating_since(*self.first.get_or_insert(at));
        while since_first >= self.next_row() + self.interval && self.received.series.len() < 100_000 {
            let start = self.next_row();
            let row = self.row.close(&self.tracker, start, start + self.interval, self.shared_clock);
            self.received.series.push(row);
        }
        self.tracker.arrived(header.number, header.sent_monotonic, at);
        self.received.bytes += length as u64;
        self.row.bytes += length as u64;
        done.fetch_add(1, Ordering::Relaxed);
        self.last = Some(at);
        if self.shared_clock {
            match at.since(header.sent_monotonic) {
                Ok(delay) => {
                    self.delays.record(delay.0);
                    self.row.delay(delay);
                }
                Err(_) => self.received.impossible_delays += 1,
            }
        }
    }

    pub fn close(mut self) -> Received {
        let elapsed = self.first.zip(self.last).map_or(Nanos::ZERO, |(first, last)| last.saturating_since(first));
        if elapsed > Nanos::ZERO {
            let start = self.next_row();
            let row = self.row.close(&self.tracker, start, elapsed.max(start), self.shared_clock);
            self.received.series.push(row);
        }
        self.received.counts = self.tracker.counts();
        self.received.elapsed = elapsed;
        if self.shared_clock {
            self.received.one_way = DurationSummary::of(&self.delays);
            self.received.one_way_buckets = self.delays.values().map(|(upper, n)| (Nanos(upper), n)).collect();
        }
        self.received
    }
}

/// The interval under way.
#[derive(Default)]
struct Row {
    bytes: u64,
    delays: u64,
    sum: Nanos,
    max: Nanos,
    received: u64,
    lost: u64,
}

impl Row {
    fn delay(&mut self, delay: Nanos) {
        self.delays += 1;
        self.sum += delay;
        self.max = self.max.max(delay);
    }

    /// Ends it and begins the next.
    fn close(&mut self, tracker: &Tracker, start: Nanos, end: Nanos, shared_clock: bool) -> Interval {
        let counts = tracker.counts();
        let interval = Interval {
            start,
            end,
            received: counts.received - self.received,
            bytes: self.bytes,
            lost: counts.lost as i64 - self.lost as i64,
            mean_delay: self.sum.0.checked_div(self.delays).filter(|_| shared_clock).map(Nanos),
            max_delay: (shared_clock && self.delays > 0).then_some(self.max),
        };
        *self = Self { received: counts.received, lost: counts.lost, ..Self::default() };
        interval
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn headers_come_back(number: u64, sent: u64, open: bool) {
            let kind = if open { HeaderKind::Open } else { HeaderKind::Data };
            let header = Header { kind, number, sent_monotonic: Instant::from_nanos(sent) };
            let mut bytes = [0xaa; 30];
            header.emit(&mut bytes);
            prop_assert_eq!(Header::parse(&bytes), Ok(header));
        }

        #[test]
        fn foreign_datagrams_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = Header::parse(&bytes);
        }
    }
}
