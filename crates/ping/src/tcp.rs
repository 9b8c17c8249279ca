//! TCP handshakes, and where asked for a request on the new connection with the first bytes of its
//! answer.

use std::io;
use std::mem::offset_of;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant as Deadline;

use clock::{Nanos, Realtime};
use nix::sys::socket::getsockopt;
use nix::{getsockopt_impl, sockopt_impl};
use socket2::{Protocol, Socket, Type};
use timestamping::{
    BatchSize, Counting, ErrorQueue, Matcher, Ready, Receiver, Request, SendOptions, Stages, now, wait,
};

use crate::clock_watch::ClockWatch;
use crate::tap::Tap;
use crate::waiting::{Arrival, SLICE, take_errors, until_answer};
use crate::{Answerer, Error, Exchange, Outcome, Probe, Prober, Settings, socket};

/// Probes by connecting.
pub struct TcpProber {
    to: SocketAddr,
    settings: Settings,
    request: Vec<u8>,
    tap: Option<Tap>,
    queue: ErrorQueue,
    receiver: Receiver,
    limits: Vec<String>,
}

impl TcpProber {
    /// A prober for this host and port.
    ///
    /// # Errors
    /// None so far: what a machine cannot do is in [`Prober::limits`], and what a host does is an
    /// [`Outcome`].
    pub fn new(to: SocketAddr, settings: &Settings) -> Result<Self, Error> {
        let mut limits = Vec::new();
        let tap = Tap::open(to).map_err(|_| {
            limits.push(
                "no driver and driver_rx stamps of the handshake: they take a packet socket (root); the network's share \
                 is TCP's own measure of the round trip instead"
                    .to_owned(),
            );
        });
        let request = settings.request.clone().unwrap_or_else(|| vec![b'.'; settings.size]);
        let size = BatchSize { messages: 16, payload: 4096, ..BatchSize::default() };
        Ok(Self {
            to,
            settings: settings.clone(),
            request,
            tap: tap.ok(),
            queue: ErrorQueue::new(size),
            receiver: Receiver::new(BatchSize { messages: 1, ..size }),
            limits,
        })
    }

    /// Connects; what came of it is in `probe`.
    fn handshake(&mut self, probe: &mut Probe, stop: &AtomicBool) -> Result<Socket, Error> {
        let fd = socket::open(self.to.ip(), Type::STREAM, Protocol::TCP)?;
        socket::configure(&fd, self.to.ip(), &self.settings)?;
        fd.set_tcp_nodelay(true).map_err(|source| Error::System { call: "setsockopt(TCP_NODELAY)", source })?;
        // ICMP errors reach a connecting socket through its error alone; the queue has the rest of
        // what they say.
        Request::new().receive_software().icmp_errors().ttl().enable(&fd)?;
        if let Some(tap) = &mut self.tap {
            tap.clear();
        }
        let start = Deadline::now();
        probe.exchange.send = Some(now::<Realtime>());
        let mut result = socket::connect(&fd, self.to);
        while result.as_ref().is_err_and(|e| e.raw_os_error() == Some(libc::EINPROGRESS)) {
            let left = self.settings.timeout.saturating_sub(start.elapsed());
            if left.is_zero() || stop.load(Ordering::Relaxed) {
                probe.outcome = if left.is_zero() { Outcome::NoAnswer } else { Outcome::Interrupted };
                return Ok(fd);
            }
            let ready = wait(&fd, Ready { writable: true, ..Ready::default() }, left.min(SLICE))?;
            if ready.any() {
                let pending =
                    fd.take_error().map_err(|source| Error::System { call: "getsockopt(SO_ERROR)", source })?;
                result = pending.map_or(Ok(()), Err);
            }
        }
        let read = now::<Realtime>();
        probe.outcome = match result {
            Ok(()) => Outcome::Answer,
            Err(e) => match e.raw_os_error() {
                Some(libc::ECONNREFUSED) => Outcome::Refused,
                Some(libc::ETIMEDOUT) => Outcome::NoAnswer,
                errno => self.icmp_error(&fd, probe)?.unwrap_or(Outcome::NotSent { errno: errno.unwrap_or(0) }),
            },
        };
        if probe.outcome.came_back() {
            probe.exchange.read = Some(read);
            probe.from.get_or_insert(self.to.ip());
        }
        if probe.outcome == Outcome::Answer {
            probe.exchange.tcp_rtt = handshake_rtt(&fd);
        }
        if let Some(tap) = &mut self.tap {
            let seen = tap.handshake(local_port(&fd)?);
            // With a second SYN in flight it is not known which one was answered.
            if seen.syns == 1 || self.to.ip().is_loopback() {
                probe.exchange.driver = seen.syn;
                probe.exchange.driver_rx = probe.exchange.driver_rx.or(seen.answer);
            }
            probe.ttl = seen.ttl;
        }
        Ok(fd)
    }

    /// The ICMP error behind a failed connection, where there is one.
    fn icmp_error(&mut self, fd: &Socket, probe: &mut Probe) -> Result<Option<Outcome>, Error> {
        let mut outcome = None;
        let mut none = Matcher::new(Counting::Bytes, Stages::empty(), 1);
        take_errors(fd, &mut self.queue, &mut none, 0, &mut probe.exchange, |error, exchange| {
            exchange.driver_rx = error.times.software;
            outcome = Some(Outcome::Icmp { name: error.name(), from: error.offender });
        })?;
        if let Some(Outcome::Icmp { from, .. }) = &outcome {
            probe.from = *from;
        }
        Ok(outcome)
    }

    /// Sends the request and waits for the first bytes of the answer.
    fn ask(&mut self, fd: &Socket, probe: &mut Probe, stop: &AtomicBool) -> Result<(), Error> {
        let stages = Stages::SCHED | Stages::DRIVER | Stages::ACK;
        let enabled = match socket::request(&self.settings, stages).enable(fd) {
            // The peer has reset the connection already.
            Err(Error::NotConnected) => {
                probe.outcome = Outcome::Closed;
                return Ok(());
            }
            enabled => enabled?,
        };
        let mut matcher = Matcher::new(enabled.counting(), enabled.stages(), 4);
        let handshake = probe.exchange.network_and_peer().ok().flatten();
        let mut exchange =
            Exchange { answerer: Answerer::Program, handshake, send: Some(now::<Realtime>()), ..Exchange::default() };
        let sent = match enabled.send(fd, &[io::IoSlice::new(&self.request)], &SendOptions::default()) {
            Ok(sent) => sent,
            Err(e) if matches!(e.raw_os_error(), Some(libc::EPIPE | libc::ECONNRESET)) => {
                probe.outcome = Outcome::Closed;
                return Ok(());
            }
            Err(e) => return Err(e),
        };
        let id = matcher.sent(sent, exchange.send.unwrap_or(now()), probe.number).unwrap_or(0);
        let mut state = (&mut *probe, &mut exchange, &mut matcher, &mut self.queue, &mut self.receiver);
        let done = until_answer(
            fd,
            self.settings.timeout,
            stop,
            &mut state,
            |(probe, exchange, matcher, queue, receiver), ready| {
                if ready.errors {
                    take_errors(fd, queue, matcher, id, exchange, |_, _| {})?;
                }
                if !ready.readable || exchange.read.is_some() {
                    return Ok(Arrival::Nothing);
                }
                let result = receiver.receive(fd, |received| {
                    let read = now::<Realtime>();
                    let Ok(received) = received else { return };
                    if received.payload.is_empty() {
                        probe.outcome = Outcome::Closed;
                        return;
                    }
                    exchange.read = Some(read);
                    exchange.driver_rx = received.times.software;
                    exchange.nic_rx = received.times.hardware;
                    probe.bytes = received.payload.len();
                });
                match result {
                    Err(e) if e.raw_os_error() == Some(libc::ECONNRESET) => probe.outcome = Outcome::Closed,
                    other => drop(other?),
                }
                let over = exchange.read.is_some() || probe.outcome == Outcome::Closed;
                Ok(if over { Arrival::Done } else { Arrival::Nothing })
            },
            |(_, exchange, ..)| exchange.sched.is_some() && exchange.driver.is_some() && exchange.ack.is_some(),
        )?;
        if !done {
            let stopped = stop.load(Ordering::Relaxed);
            probe.outcome = if stopped { Outcome::Interrupted } else { Outcome::NoAnswer };
        }
        probe.request = Some(exchange);
        Ok(())
    }
}

impl Prober for TcpProber {
    fn probe(&mut self, number: u64, stop: &AtomicBool) -> Result<Probe, Error> {
        let mut probe = Probe::new(number);
        let clock = ClockWatch::begin();
        let connection = self.handshake(&mut probe, stop)?;
        if probe.outcome == Outcome::Answer && !self.request.is_empty() {
            self.ask(&connection, &mut probe, stop)?;
        }
        probe.clock_set = clock.was_set();
        Ok(probe)
    }

    fn method(&self) -> &'static str {
        match (self.tap.is_some(), self.request.is_empty()) {
            (true, true) => "TCP handshakes, watched by a packet socket",
            (true, false) => "TCP handshakes, watched by a packet socket, and a request",
            (false, true) => "TCP handshakes",
            (false, false) => "TCP handshakes and a request",
        }
    }

    fn limits(&self) -> &[String] {
        &self.limits
    }
}

/// Words of a `tcp_info` up to `tcpi_rtt`. Every kernel has these, and gives as many as are asked
/// for.
const INFO_WORDS: usize = offset_of!(libc::tcp_info, tcpi_rtt) / 4 + 1;

sockopt_impl!(
    /// The beginning of what TCP knows of a connection.
    InfoToRtt,
    GetOnly,
    libc::IPPROTO_TCP,
    libc::TCP_INFO,
    [u32; INFO_WORDS]
);

/// TCP's own measure of the handshake's round trip: the first sample is the smoothed value (RFC
/// 6298, section 2.2).
fn handshake_rtt(socket: &Socket) -> Option<Nanos> {
    let rtt_us = getsockopt(socket, InfoToRtt).ok()?[INFO_WORDS - 1];
    (rtt_us > 0).then(|| Nanos::from_micros(rtt_us.into()))
}

fn local_port(fd: &Socket) -> Result<u16, Error> {
    let address = fd.local_addr().map_err(|source| Error::System { call: "getsockname", source })?;
    Ok(address.as_socket().map_or(0, |a| a.port()))
}
