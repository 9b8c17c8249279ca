//! The datagrams' own header, and the loops that send and receive them.

use std::io;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use clock::{Instant, Monotonic, Nanos};
use stats::{Distribution, DurationSummary, Precision};

use super::{Interval, Received, Sent, Tracker};
use crate::error::WireError;
use crate::socket_memory::SocketMemory;
use crate::stream::Pacer;
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

fn may_retry(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted)
}

/// Sends at a rate until `until`, or until asked to stop.
pub(super) fn send(
    socket: &UdpSocket,
    datagram_bytes: u32,
    bits_per_second: u64,
    until: Instant<Monotonic>,
    stop: &AtomicBool,
    done: &AtomicU64,
) -> io::Result<Sent> {
    let mut buffer = vec![0u8; (datagram_bytes as usize).max(Header::BYTES)];
    let mut pacer = (bits_per_second > 0).then(|| Pacer::new(bits_per_second));
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

/// Receives until asked to stop. One-way delays only where `shared_clock`.
pub(super) fn receive(
    socket: &UdpSocket,
    shared_clock: bool,
    interval: Nanos,
    stop: &AtomicBool,
    done: &AtomicU64,
) -> io::Result<Received> {
    socket.set_read_timeout(Some(Duration::from_millis(50)))?;
    let mut buffer = vec![0u8; 65_536];
    let mut tracker = Tracker::default();
    let mut delays = Distribution::new(Precision::Fine);
    let mut received = Received::default();
    let (mut first, mut last) = (None, None);
    let mut now_row = Row::default();
    let interval = interval.max(Nanos::from_millis(10));
    // When the series' nth row begins, from the first datagram on.
    let row = |n: usize| Nanos(interval.0.saturating_mul(n as u64));
    while !stop.load(Ordering::Relaxed) {
        let length = match socket.recv(&mut buffer) {
            Ok(length) => length,
            Err(e) if may_retry(&e) || e.kind() == io::ErrorKind::ConnectionRefused => continue,
            Err(e) => return Err(e),
        };
        let now = timing::now();
        match Header::parse(&buffer[..length]) {
            Ok(Header { kind: HeaderKind::Open, .. }) => continue,
            Ok(Header { number, sent_monotonic, .. }) => {
                let since_first = now.saturating_since(*first.get_or_insert(now));
                while since_first >= row(received.series.len() + 1) && received.series.len() < 100_000 {
                    let start = row(received.series.len());
                    received.series.push(now_row.close(&tracker, start, start + interval, shared_clock));
                }
                tracker.arrived(number, sent_monotonic.as_nanos(), now.as_nanos());
                received.bytes += length as u64;
                now_row.bytes += length as u64;
                done.fetch_add(1, Ordering::Relaxed);
                last = Some(now);
                if shared_clock {
                    match now.since(sent_monotonic) {
                        Ok(delay) => {
                            delays.record(delay.0);
                            now_row.delay(delay);
                        }
                        Err(_) => received.impossible_delays += 1,
                    }
                }
            }
            Err(_) => tracker.malformed(),
        }
    }
    let elapsed = first.zip(last).map_or(Nanos::ZERO, |(first, last)| last.saturating_since(first));
    if elapsed > Nanos::ZERO {
        let start = row(received.series.len());
        received.series.push(now_row.close(&tracker, start, elapsed.max(start), shared_clock));
    }
    received.counts = tracker.counts();
    received.counts.dropped_at_socket = SocketMemory::of(socket).map_or(0, |m| m.drops.into());
    received.elapsed = elapsed;
    if shared_clock {
        received.one_way = DurationSummary::of(&delays);
        received.one_way_buckets = delays.values().map(|(upper, n)| (Nanos(upper), n)).collect();
    }
    Ok(received)
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
