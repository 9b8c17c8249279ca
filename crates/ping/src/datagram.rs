//! One datagram out, one back: what ICMP and UDP probes have in common.

use std::io::IoSlice;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use clock::Realtime;
use socket2::Socket;
use timestamping::{
    BatchSize, Enabled, ErrorQueue, IcmpError, Matcher, Receiver, SendOptions, Stages, TransmitStage,
    kernel_has_ts_opt_id, now,
};

use crate::clock_watch::ClockWatch;
use crate::waiting::{Arrival, take_errors, until_answer};
use crate::{Answerer, Error, Exchange, Outcome, Probe, Settings, socket};

/// A connected datagram socket with its stamps.
pub(crate) struct Exchanger {
    socket: Socket,
    answerer: Answerer,
    enabled: Enabled,
    own_ids: bool,
    matcher: Matcher<u64>,
    queue: ErrorQueue,
    receiver: Receiver,
    settings: Settings,
}

/// What a probe is while it is in flight.
struct InFlight<'a> {
    probe: Probe,
    /// The id of its stamps.
    id: u64,
    answerer: Answerer,
    matcher: &'a mut Matcher<u64>,
    queue: &'a mut ErrorQueue,
    receiver: &'a mut Receiver,
}

impl Exchanger {
    /// Sets the socket up and connects it; `answerer` is what sends answers, other than ICMP
    /// errors.
    pub fn new(socket: Socket, answerer: Answerer, to: SocketAddr, settings: &Settings) -> Result<Self, Error> {
        socket::configure(&socket, to.ip(), settings)?;
        let enabled = socket::request(settings, Stages::SCHED | Stages::DRIVER).enable(&socket)?;
        socket::connect(&socket, to).map_err(|source| Error::System { call: "connect", source })?;
        let size = BatchSize { messages: 16, payload: settings.size + 256, ..BatchSize::default() };
        Ok(Self {
            own_ids: kernel_has_ts_opt_id(),
            matcher: Matcher::new(enabled.counting(), enabled.stages(), 16),
            queue: ErrorQueue::new(size),
            receiver: Receiver::new(size),
            settings: settings.clone(),
            socket,
            answerer,
            enabled,
        })
    }

    /// What cannot be timed on this machine.
    pub fn limits(&self) -> Vec<String> {
        let left_out = self.enabled.left_out();
        let mut limits = Vec::new();
        if !left_out.is_empty() {
            limits.push(format!("this kernel has no {left_out:?} (Linux {})", left_out.since()));
        }
        limits
    }

    /// Sends `message` and waits. `answer` gives the number of payload bytes where a message that
    /// came is the answer; `is_ours` says whether an ICMP error is about this probe.
    pub fn exchange(
        &mut self,
        number: u64,
        message: &[u8],
        stop: &AtomicBool,
        answer: impl Fn(&[u8]) -> Option<usize>,
        is_ours: impl Fn(&IcmpError<'_>) -> bool,
    ) -> Result<Probe, Error> {
        let mut probe = Probe::new(number);
        // What came too late for the probe before.
        let late = &mut probe.stray;
        let _ = self.receiver.receive(&self.socket, |_| *late += 1);
        take_errors(&self.socket, &mut self.queue, &mut self.matcher, u64::MAX, &mut Exchange::default(), |_, _| {})?;

        let clock = ClockWatch::begin();
        let options = SendOptions { id: self.own_ids.then_some(number as u32), ..SendOptions::default() };
        let send = now::<Realtime>();
        if let Err(error) = self.enabled.send(&self.socket, &[IoSlice::new(message)], &options) {
            let errno = socket::cannot_send(&error).or(error.raw_os_error().filter(|e| *e == libc::ECONNREFUSED));
            probe.outcome = Outcome::NotSent { errno: errno.ok_or(error)? };
            return Ok(probe);
        }
        probe.exchange.send = Some(send);
        let id = if self.own_ids {
            self.matcher.sent_with_id(number, send, number).then_some(number)
        } else {
            self.matcher.sent(message.len(), send, number)
        };

        let mut state = InFlight {
            probe,
            id: id.unwrap_or(number),
            answerer: self.answerer,
            matcher: &mut self.matcher,
            queue: &mut self.queue,
            receiver: &mut self.receiver,
        };
        let socket = &self.socket;
        let expected = self.enabled.stages();
        let done = until_answer(
            socket,
            self.settings.timeout,
            stop,
            &mut state,
            |s, ready| {
                if ready.errors {
                    s.take_errors(socket, &is_ours)?;
                }
                if ready.readable {
                    s.take_answers(socket, &answer)?;
                }
                Ok(if s.probe.outcome.came_back() { Arrival::Done } else { Arrival::Nothing })
            },
            |s| {
                let e = &s.probe.exchange;
                expected.stages().all(|stage| match stage {
                    TransmitStage::Sched => e.sched.is_some(),
                    TransmitStage::Driver => e.driver.is_some(),
                    TransmitStage::Nic => e.nic.is_some(),
                    TransmitStage::Ack | TransmitStage::Completion => true,
                })
            },
        )?;
        let mut probe = state.probe;
        if !done && stop.load(Ordering::Relaxed) {
            probe.outcome = Outcome::Interrupted;
        }
        while self.matcher.finished().is_some() {}
        probe.clock_set = clock.was_set();
        Ok(probe)
    }
}

impl InFlight<'_> {
    fn take_errors(&mut self, socket: &Socket, is_ours: impl Fn(&IcmpError<'_>) -> bool) -> Result<(), Error> {
        let Self { probe, id, matcher, queue, .. } = self;
        let Probe { exchange, outcome, from, stray, .. } = probe;
        take_errors(socket, queue, matcher, *id, exchange, |error, exchange| {
            if !is_ours(error) {
                *stray += 1;
            } else if !outcome.came_back() {
                exchange.read = Some(now());
                exchange.driver_rx = error.times.software;
                exchange.nic_rx = error.times.hardware;
                *from = error.offender;
                *outcome = Outcome::Icmp { name: error.name(), from: error.offender };
            }
        })
    }

    fn take_answers(&mut self, socket: &Socket, answer: impl Fn(&[u8]) -> Option<usize>) -> Result<(), Error> {
        let probe = &mut self.probe;
        let result = self.receiver.receive(socket, |received| {
            let read = now::<Realtime>();
            let Ok(received) = received else { return };
            match answer(received.payload) {
                Some(bytes) if !probe.outcome.came_back() => {
                    probe.exchange.answerer = self.answerer;
                    probe.exchange.read = Some(read);
                    probe.exchange.driver_rx = received.times.software;
                    probe.exchange.nic_rx = received.times.hardware;
                    probe.from = received.from.map(|f| f.ip());
                    probe.ttl = received.ttl;
                    probe.bytes = bytes;
                    probe.outcome = Outcome::Answer;
                }
                _ => probe.stray += 1,
            }
        });
        match result {
            // An ICMP error also shows here; the error queue says more about it.
            Err(Error::System { source, .. }) if is_from_icmp(source.raw_os_error()) => Ok(()),
            other => other.map(drop),
        }
    }
}

/// Error numbers that an ICMP error leaves pending on a socket (`icmp_err_convert`,
/// `net/ipv4/icmp.c`).
fn is_from_icmp(errno: Option<i32>) -> bool {
    let from_icmp = [
        libc::ECONNREFUSED,
        libc::EHOSTUNREACH,
        libc::ENETUNREACH,
        libc::ENOPROTOOPT,
        libc::EMSGSIZE,
        libc::EOPNOTSUPP,
        libc::EHOSTDOWN,
        libc::ENONET,
        libc::EPROTO,
        libc::EACCES,
    ];
    errno.is_some_and(|e| from_icmp.contains(&e))
}
