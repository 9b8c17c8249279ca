//! The server's side of request and response.

use std::io::{self, Read as _};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clock::{Instant, Monotonic, Nanos};
use socket2::Socket;

use super::accounts::{Served, Shared};
use super::listening::{canonical, family_of, listener};
use super::sessions::Session;
use crate::channel::Channel;
use crate::control::{Answer, Ready};
use crate::limits::Refusal;
use crate::options::{self, SocketOptions};
use crate::rr::connections::send;
use crate::rr::{Exchange, cuts};
use crate::timing;
use crate::wire;

/// Bytes of the buffer that requests are read into; what they say does not matter.
pub(crate) const READ_BYTES: usize = 64 << 10;
const SLICE: Duration = Duration::from_millis(200);

/// Why a workload ended early on the server.
pub(crate) enum Broken {
    /// In words.
    Why(String),
    /// Before it began.
    Refused(Refusal),
}

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Self {
        Self::Why(format!("the client went away: {error}"))
    }
}

/// Answers requests on one connection until the client closes it, or the server shuts it down (see
/// `server::sessions`).
pub(crate) fn answer_lasting(
    shared: &Arc<Shared>,
    channel: &Channel,
    (exchange, options): (&Exchange, &SocketOptions),
    session: &Session,
    until: Instant<Monotonic>,
    served: &mut Served,
) -> Result<(), Broken> {
    wire::write_json(channel, &Answer::Ready(Ready::default()))?;
    let stream = channel.stream();
    // write_json bounds its own writes; from here the idle bound of the server is what counts.
    stream.set_write_timeout(Some(Duration::from_millis(shared.config.limits.idle_ms.max(1))))?;
    let mut answerer = Answerer::new(exchange, options);
    session.limit(until, Nanos::from_millis(shared.config.limits.idle_ms));
    stream.set_read_timeout(None)?;
    answerer.answer(shared, stream, until, u64::MAX, served, |bytes| session.advance(bytes))
}

struct Answerer {
    response: Vec<u8>,
    cuts: Vec<usize>,
    buffer: Vec<u8>,
    request_bytes: u64,
    think: Duration,
    cork: bool,
    quickack: Option<bool>,
}

impl Answerer {
    fn new(exchange: &Exchange, options: &SocketOptions) -> Self {
        Self {
            response: vec![0; exchange.response_bytes as usize],
            cuts: cuts(exchange.response_bytes, exchange.response_writes),
            buffer: vec![0; READ_BYTES],
            request_bytes: exchange.request_bytes.into(),
            think: exchange.think.into(),
            cork: options.cork == Some(true),
            quickack: options.quickack,
        }
    }

    /// Answers at most `most` requests; `received` hears of the bytes that come. Where the socket's
    /// reads have a time limit, each of its lapses is a moment to look whether the client, or the
    /// test, took too long.
    fn answer(
        &mut self,
        shared: &Shared,
        stream: &TcpStream,
        until: Instant<Monotonic>,
        most: u64,
        served: &mut Served,
        received: impl Fn(u64),
    ) -> Result<(), Broken> {
        let mut reader = stream;
        let mut have = 0u64;
        let mut answered = 0u64;
        let mut silent_slices = 0u64;
        loop {
            if shared.stopping() {
                return Err(Broken::Why("the server is stopping".into()));
            }
            match reader.read(&mut self.buffer) {
                Ok(0) if have == 0 => return Ok(()),
                Ok(0) => return Err(Broken::Why("the client went away in the middle of a request".into())),
                Ok(n) => {
                    silent_slices = 0;
                    served.received_bytes += n as u64;
                    received(n as u64);
                    have += n as u64;
                    if let Some(on) = self.quickack {
                        options::quickack(stream, on);
                    }
                    while have >= self.request_bytes {
                        have -= self.request_bytes;
                        if !self.think.is_zero() {
                            std::thread::sleep(self.think);
                        }
                        send(stream, &self.response, &self.cuts, self.cork, || false)?;
                        served.transactions += 1;
                        served.sent_bytes += self.response.len() as u64;
                        answered += 1;
                        if answered == most {
                            return Ok(());
                        }
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                    silent_slices += 1;
                    if silent_slices * SLICE.as_millis() as u64 > shared.config.limits.idle_ms {
                        return Err(Broken::Why("the client was silent for too long".into()));
                    }
                    if timing::now() > until {
                        return Err(Broken::Why("the test went over its time".into()));
                    }
                }
                // A client that ends in the middle of a response resets the connection.
                Err(e) if e.kind() == io::ErrorKind::ConnectionReset => return Ok(()),
                Err(e) => return Err(e.into()),
            }
        }
    }
}

/// Opens a listener on which every connection is one transaction, until the client closes the one
/// it asked on.
pub(crate) fn answer_each(
    shared: &Arc<Shared>,
    control: &Channel,
    (exchange, workers): (&Exchange, u32),
    options: &SocketOptions,
    (session, until): (&Session, Instant<Monotonic>),
    served: &mut Served,
) -> Result<(), Broken> {
    let local = control.stream().local_addr()?;
    let peer = family_of(served.peer);
    let mut ports = match shared.config.data_ports {
        Some((first, last)) => first..=last,
        None => 0..=0,
    };
    let refused = |why: String| Broken::Refused(Refusal::Kernel { why });
    let listener = ports
        .find_map(|port| listener(std::net::SocketAddr::new(local.ip(), port), 4096).ok())
        .ok_or_else(|| refused("no free port for its listener".into()))?;
    // Whoever accepts waits until the listener is shut down.
    listener.set_read_timeout(None)?;
    // Accepted sockets inherit these, and buffers must be set before the SYN to count in the window
    // scale.
    options.apply_before_connect(&listener, peer).map_err(|e| refused(e.to_string()))?;
    let port = listener.local_addr()?.as_socket().map_or(0, |a| a.port());
    let ended = AtomicBool::new(false);
    let parts = std::thread::scope(|scope| {
        // However this ends: the workers end too, or the scope would wait for them for ever.
        let accepting = Accepting { listener: &listener, ended: &ended };
        let started: io::Result<Vec<_>> = (0..workers)
            .map(|_| {
                std::thread::Builder::new().name("serve-crr".into()).spawn_scoped(scope, || {
                    let mut mine = Served::new(served.peer, served.workload);
                    let mut answerer = Answerer::new(exchange, options);
                    while !ended.load(Ordering::Relaxed) && !shared.stopping() {
                        let Ok((socket, from)) = listener.accept() else {
                            // Without a descriptor for it, a connection goes on waiting.
                            std::thread::sleep(Duration::from_millis(1));
                            continue;
                        };
                        let stream = TcpStream::from(socket);
                        // Only who asked for it is answered.
                        if from.as_socket().map(canonical).is_none_or(|f| f.ip() != served.peer.ip()) {
                            continue;
                        }
                        if let Some(on) = options.quickack {
                            options::quickack(&stream, on);
                        }
                        stream.set_write_timeout(Some(SLICE * 10)).ok();
                        let patience = until.min(timing::now().after(Nanos::from_secs(10)));
                        let limited = stream.set_read_timeout(Some(SLICE)).map_err(Broken::from);
                        limited
                            .and_then(|()| {
                                answerer.answer(shared, &stream, patience, 1, &mut mine, |n| session.advance(n))
                            })
                            .ok();
                    }
                    mine
                })
            })
            .collect();
        let workers =
            started.map_err(|e| refused(format!("no thread for each of {workers} concurrent transactions: {e}")))?;
        wire::write_json(control, &Answer::Ready(Ready { port, ..Ready::default() }))?;
        session.limit(until, Nanos::from_millis(shared.config.limits.idle_ms));
        let result = wait_for_close(shared, control, until, || {});
        drop(accepting);
        let parts: Vec<Served> = workers.into_iter().filter_map(|w| w.join().ok()).collect();
        Ok::<_, Broken>((parts, result))
    })?;
    for part in &parts.0 {
        served.transactions += part.transactions;
        served.received_bytes += part.received_bytes;
        served.sent_bytes += part.sent_bytes;
    }
    parts.1
}

/// Threads that accept connections until this is dropped.
struct Accepting<'a> {
    listener: &'a Socket,
    ended: &'a AtomicBool,
}

impl Drop for Accepting<'_> {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        self.listener.shutdown(Shutdown::Both).ok();
    }
}

/// Sets a flag when dropped, a panic included.
pub(crate) struct EndOnDrop<'a>(pub &'a AtomicBool);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Waits until the client closes the connection it asked on; `now_and_then` runs a few times a
/// second meanwhile.
pub(crate) fn wait_for_close(
    shared: &Shared,
    control: &Channel,
    until: Instant<Monotonic>,
    mut now_and_then: impl FnMut(),
) -> Result<(), Broken> {
    let mut byte = [0];
    loop {
        let wake = until.min(timing::now().after(SLICE.into()));
        match wire::read_by(control, &mut byte, wake, &shared.stop) {
            Err(wire::ReadError::Stopped) => return Err(Broken::Why("the server is stopping".into())),
            Err(_) if timing::now() >= until => return Err(Broken::Why("the test went over its time".into())),
            Err(_) if timing::now() >= wake => now_and_then(),
            _ => return Ok(()),
        }
    }
}
