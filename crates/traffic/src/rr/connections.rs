//! The loops of one thread: a lasting connection, closed or open, or a connection each.

use std::collections::VecDeque;
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clock::{Instant, Monotonic, Nanos};

use super::{Config, Gathered, Slow, cuts};
use crate::error::may_retry;
use crate::options;
use crate::stop::Stop;
use crate::target::Target;
use crate::tcp_info::congestion_control;
use crate::timing;

/// What the threads of one workload share.
pub(super) struct Job<'a> {
    pub config: &'a Config,
    pub start: Instant<Monotonic>,
    pub end: Instant<Monotonic>,
    pub stop: &'a Stop,
    pub done: &'a AtomicU64,
}

/// How a thread's work ended.
#[derive(Default)]
pub(super) struct Left {
    pub unfinished: u64,
    /// How long the oldest of the unfinished had waited when the test was over.
    pub waited: Nanos,
    pub never_sent: u64,
    pub failed: u64,
    pub error: Option<String>,
    /// The congestion control of the first of many connections.
    pub congestion_control: Option<String>,
}

/// How long a request may wait for room in the send buffer.
const SENT_WITHIN: Duration = Duration::from_secs(5);
/// How often a write that waits for room looks whether it may go on.
const SLICE: Duration = Duration::from_millis(50);

impl Left {
    /// The test was over before a transaction, which had waited for so long.
    fn cut_off(&mut self, waited: Nanos) {
        self.unfinished += 1;
        self.waited = waited;
    }
}

impl Job<'_> {
    pub fn over(&self, now: Instant<Monotonic>) -> bool {
        now >= self.end || self.stop.asked()
    }

    /// How long what was meant for this moment had waited when the test was over, which it is
    /// `now`.
    fn waited(&self, meant: Instant<Monotonic>, now: Instant<Monotonic>) -> Nanos {
        now.min(self.end).saturating_since(meant)
    }

    /// The connection ended with so many requests unanswered, the oldest of which was meant for
    /// this moment: as it must at the end, and by the server's doing before.
    fn cut_short(&self, unfinished: u64, meant: Instant<Monotonic>) -> io::Result<Left> {
        let now = timing::now();
        if self.over(now) {
            return Ok(Left { unfinished, waited: self.waited(meant, now), ..Left::default() });
        }
        Err(io::ErrorKind::UnexpectedEof.into())
    }
}

/// Sends one message in the writes it is cut into. Where the socket's writes have a time limit,
/// each of its lapses asks `goes_on`.
#[inline]
pub(crate) fn send(
    stream: &TcpStream,
    message: &[u8],
    cuts: &[usize],
    cork: bool,
    goes_on: impl Fn() -> bool,
) -> io::Result<()> {
    if cork {
        options::cork(stream, true);
    }
    let (mut writer, mut from) = (stream, 0);
    for to in cuts {
        while from < *to {
            match writer.write(&message[from..*to]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => from += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted || may_retry(&e) && goes_on() => {}
                Err(e) => return Err(e),
            }
        }
    }
    if cork {
        options::cork(stream, false);
    }
    Ok(())
}

/// A transaction that lost no time, to be filled in.
pub(crate) const NO_SLOW: Slow = Slow {
    connection: 0,
    local_port: 0,
    at_monotonic: Instant::from_nanos(0),
    at_realtime: Instant::from_nanos(0),
    latency: Nanos::ZERO,
    queued: Nanos::ZERO,
    connect: Nanos::ZERO,
    first_byte: Nanos::ZERO,
    rest: Nanos::ZERO,
};

/// One request at a time, the next when the last is done: one clock reading a transaction.
pub(super) fn closed(job: &Job<'_>, stream: &TcpStream, gathered: &mut Gathered) -> io::Result<Left> {
    // No time limit: it would arm a kernel timer in every read. Who waits for this thread shuts the
    // connection down.
    stream.set_read_timeout(None)?;
    let exchange = job.config.exchange;
    let local_port = stream.local_addr()?.port();
    let request = vec![0u8; exchange.request_bytes as usize];
    let cuts = cuts(exchange.request_bytes, exchange.request_writes);
    let response = exchange.response_bytes as usize;
    let mut buffer = vec![0u8; response];
    let cork = job.config.target.options.cork == Some(true);
    let quickack = job.config.target.options.quickack;
    let mut reader = stream;
    let mut done = 0u64;
    let mut now = timing::now();
    while !job.over(now) {
        let meant = now;
        send(stream, &request, &cuts, cork, || false)?;
        let (mut have, mut first) = (0, None);
        while have < response {
            match reader.read(&mut buffer[have..]) {
                Ok(0) => return job.cut_short(1, meant),
                Ok(n) => {
                    have += n;
                    // Only a response that comes in pieces needs the time of its first one.
                    if first.is_none() && have < response {
                        first = Some(timing::now());
                    }
                    if let Some(on) = quickack {
                        options::quickack(stream, on);
                    }
                }
                Err(e) if may_retry(&e) => {}
                Err(e) => return Err(e),
            }
        }
        now = timing::now();
        done += 1;
        job.done.fetch_add(u64::from(meant >= job.start), Ordering::Relaxed);
        gathered.done(meant, now, || {
            let first = first.unwrap_or(now);
            Slow { local_port, first_byte: first.saturating_since(meant), rest: now.saturating_since(first), ..NO_SLOW }
        });
    }
    debug_assert!(done > 0 || job.over(now));
    Ok(Left::default())
}

/// The moments at which one of several threads shall send.
pub(super) struct Schedule {
    start: Instant<Monotonic>,
    /// Not a whole number of nanoseconds.
    period_ns: f64,
    next: u64,
}

impl Schedule {
    /// This is thread `index` of `of` that share `rate_per_second`; their moments interleave.
    pub fn new(rate_per_second: f64, index: u32, of: u32, now: Instant<Monotonic>) -> Self {
        let period_ns = 1e9 / rate_per_second * f64::from(of);
        let offset = period_ns * f64::from(index) / f64::from(of);
        Self { start: now.after(Nanos(offset as u64)), period_ns, next: 0 }
    }

    fn due(&self) -> Instant<Monotonic> {
        self.start.after(Nanos((self.period_ns * self.next as f64) as u64))
    }

    /// How many moments lie before `end_ns` and have not been used.
    fn left_before(&self, end: Instant<Monotonic>) -> u64 {
        let all = end.saturating_since(self.start).0 as f64 / self.period_ns;
        (all.ceil() as u64).saturating_sub(self.next)
    }
}

/// Several requests under way, or requests at fixed moments.
pub(super) fn pipelined(
    job: &Job<'_>,
    stream: &TcpStream,
    gathered: &mut Gathered,
    mut schedule: Option<Schedule>,
) -> io::Result<Left> {
    let config = job.config;
    let exchange = config.exchange;
    let local_port = stream.local_addr()?.port();
    stream.set_read_timeout(None)?;
    stream.set_write_timeout(Some(SENT_WITHIN))?;
    timing::without_timer_slack();
    let request = vec![0u8; exchange.request_bytes as usize];
    let cuts = cuts(exchange.request_bytes, exchange.request_writes);
    let response = exchange.response_bytes as usize;
    let mut buffer = vec![0u8; response.clamp(16 << 10, 256 << 10)];
    let cork = config.target.options.cork == Some(true);
    let outstanding = config.outstanding as usize;
    // Meant and sent, oldest first.
    let mut under_way: VecDeque<(Instant<Monotonic>, Instant<Monotonic>)> = VecDeque::with_capacity(outstanding);
    let (mut have, mut first) = (0usize, timing::now());
    let mut reader = stream;
    loop {
        let mut now = timing::now();
        if job.over(now) {
            let never_sent = schedule.as_ref().map_or(0, |s| s.left_before(now.min(job.end)));
            let waited = under_way.front().map_or(Nanos::ZERO, |(meant, _)| job.waited(*meant, now));
            return Ok(Left { unfinished: under_way.len() as u64, waited, never_sent, ..Left::default() });
        }
        while under_way.len() < outstanding {
            let meant = match &mut schedule {
                Some(s) if s.due() > now => break,
                Some(s) => {
                    let due = s.due();
                    s.next += 1;
                    due
                }
                None => now,
            };
            send(stream, &request, &cuts, cork, || false)?;
            under_way.push_back((meant, now));
            now = timing::now();
        }
        // With as many on their way as may be, whoever waits for this thread shuts the connection
        // down.
        let due = schedule.as_ref().map_or(job.end, |s| s.due().min(job.end));
        if under_way.len() < outstanding && !job.stop.readable_before(stream, due)? {
            continue;
        }
        let n = match reader.read(&mut buffer) {
            Ok(0) if job.over(timing::now()) => continue,
            Ok(0) => return job.cut_short(under_way.len() as u64, under_way.front().map_or(now, |(meant, _)| *meant)),
            Ok(n) => n,
            Err(e) if may_retry(&e) => continue,
            Err(e) => return Err(e),
        };
        let now = timing::now();
        if let Some(on) = config.target.options.quickack {
            options::quickack(stream, on);
        }
        if have == 0 {
            first = now;
        }
        have += n;
        while have >= response {
            have -= response;
            let Some((meant, sent)) = under_way.pop_front() else {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "more responses than requests"));
            };
            job.done.fetch_add(u64::from(meant >= job.start), Ordering::Relaxed);
            gathered.done(meant, now, || Slow {
                local_port,
                queued: sent.saturating_since(meant),
                first_byte: first.saturating_since(sent),
                rest: now.saturating_since(first),
                ..NO_SLOW
            });
            first = now;
        }
    }
}

/// A connection for each transaction: it ends when the server has closed it.
pub(super) fn connect_each(
    job: &Job<'_>,
    to: SocketAddr,
    gathered: &mut Gathered,
    mut schedule: Option<Schedule>,
) -> io::Result<Left> {
    let config = job.config;
    let exchange = config.exchange;
    let request = vec![0u8; exchange.request_bytes as usize];
    let cuts = cuts(exchange.request_bytes, exchange.request_writes);
    let response = exchange.response_bytes as usize;
    let mut buffer = vec![0u8; response.clamp(4096, 256 << 10)];
    let cork = config.target.options.cork == Some(true);
    let mut left = Left::default();
    let mut now = timing::now();
    'next: while !job.over(now) {
        let meant = match &mut schedule {
            None => now,
            Some(s) => {
                let due = s.due();
                if due > now {
                    job.stop.sleep_until(due.min(job.end));
                    now = timing::now();
                    continue;
                }
                s.next += 1;
                due
            }
        };
        let began = now;
        let patience = Nanos::from_secs(5).min(job.end.saturating_since(now));
        let Target { options, local, .. } = &config.target;
        let socket = match options::connect(to, options, *local, patience, job.stop) {
            Ok(socket) => socket,
            Err(_) if job.over(timing::now()) => {
                now = timing::now();
                left.cut_off(job.waited(meant, now));
                break;
            }
            Err(error) => {
                left.failed += 1;
                left.error = Some(error.to_string());
                // A listener that is gone would otherwise be asked a hundred thousand times a
                // second.
                std::thread::sleep(Duration::from_millis(1));
                now = timing::now();
                continue;
            }
        };
        let connected = timing::now();
        let stream = TcpStream::from(socket);
        stream.set_write_timeout(Some(SLICE))?;
        let local_port = stream.local_addr().map_or(0, |a| a.port());
        if let Err(error) = send(&stream, &request, &cuts, cork, || !job.over(timing::now())) {
            now = timing::now();
            if job.over(now) {
                left.cut_off(job.waited(meant, now));
                break;
            }
            left.failed += 1;
            left.error = Some(error.to_string());
            continue;
        }
        let (mut have, mut first) = (0, connected);
        let mut reader = &stream;
        loop {
            let answers = job.stop.readable_before(&stream, job.end)?;
            now = timing::now();
            if job.stop.asked() || !answers && job.over(now) {
                left.cut_off(job.waited(meant, now));
                break 'next;
            }
            match reader.read(&mut buffer) {
                Ok(0) => break,
                Ok(n) => {
                    if have == 0 {
                        first = timing::now();
                    }
                    have += n;
                    if let Some(on) = config.target.options.quickack {
                        options::quickack(&stream, on);
                    }
                }
                Err(e) if may_retry(&e) => {}
                Err(error) => {
                    left.error = Some(error.to_string());
                    break;
                }
            }
        }
        now = timing::now();
        if have != response {
            left.failed += 1;
            left.error.get_or_insert_with(|| format!("a connection ended after {have} of {response} bytes"));
            continue;
        }
        if left.congestion_control.is_none() {
            left.congestion_control = congestion_control(&stream);
        }
        job.done.fetch_add(u64::from(meant >= job.start), Ordering::Relaxed);
        if meant >= job.start
            && let Some(connects) = &mut gathered.connects
        {
            connects.record(connected.saturating_since(began).0);
        }
        gathered.done(meant, now, || Slow {
            local_port,
            queued: began.saturating_since(meant),
            connect: connected.saturating_since(began),
            first_byte: first.saturating_since(connected),
            rest: now.saturating_since(first),
            ..NO_SLOW
        });
    }
    left.never_sent = schedule.map_or(0, |s| s.left_before(now.min(job.end)));
    Ok(left)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_interleave_and_count_what_was_never_sent() {
        let at = Instant::from_nanos;
        let a = Schedule::new(100.0, 0, 2, at(1_000));
        let b = Schedule::new(100.0, 1, 2, at(1_000));
        assert_eq!((a.due(), b.due()), (at(1_000), at(10_001_000)));
        assert_eq!(a.left_before(at(1_000 + 1_000_000_000)), 50);
        assert_eq!(Schedule { next: 50, ..a }.left_before(at(1_000 + 1_000_000_000)), 0);
        assert_eq!(b.left_before(at(0)), 0);
    }
}
