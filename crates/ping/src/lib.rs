//! Active probes by TCP, UDP and ICMP, each timed at every stage that the socket and the machine can give.
//!
//! **Does:** sends one probe at a time ([`Prober`]) and waits for what comes back: an answer, an ICMP error (which is timed like
//! an answer: a closed port shows the round trip too), or nothing. The other end needs only a host that answers.
//!
//! **Does not:** resolve names, pace probes, or set an interface up for hardware stamps.
//!
//! **Guarantees:** a stage that this machine cannot give is `None`, never a guess; stages in an impossible order and a system
//! clock that was set meanwhile make a probe unsound ([`Probe::is_sound`]); answers to other probes are counted, not mixed in.

mod datagram;
mod icmp;
mod socket;
mod tap;
mod tcp;
mod udp;

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant as Deadline};

use clock::{Conversion, Disorder, Instant, Monotonic, Nanos, Phc, Realtime};

use timestamping::{
    ErrorQueue, IcmpError, Matcher, Ready, Report, TransmitStage, TransmitStamp, conversion, now, wait,
};

pub use timestamping::Error;

pub use icmp::IcmpProber;
pub use tcp::TcpProber;
pub use udp::UdpProber;

/// What all probes share.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How long an answer may take.
    pub timeout: Duration,
    /// Bytes of payload: of the ICMP echo, the datagram, or the TCP request (0: the handshake alone).
    pub size: usize,
    /// TTL or hop limit, where not the system's.
    pub ttl: Option<u8>,
    /// Differentiated services code point, 0 to 63 (RFC 2474).
    pub dscp: Option<u8>,
    /// Leave by this interface.
    pub interface: Option<String>,
    /// Ask for the NIC's stamps too. The interface has to be set to make them.
    pub hardware: bool,
    /// Bytes to send once a TCP connection is made, in place of `size` bytes of filling.
    pub request: Option<Vec<u8>>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(1),
            size: 56,
            ttl: None,
            dscp: None,
            interface: None,
            hardware: false,
            request: None,
        }
    }
}

/// Sends one probe after another.
pub trait Prober {
    /// Sends probe `number` and waits for what comes of it, or until `stop` is set.
    ///
    /// # Errors
    /// Where the probe could not be sent at all. An answer that does not come is an [`Outcome`].
    fn probe(&mut self, number: u64, stop: &AtomicBool) -> Result<Probe, Error>;

    /// How the probes are made, in words: `ping socket`, `raw socket`, ….
    fn method(&self) -> &'static str;

    /// What this prober cannot time here, and why; empty where it can do everything.
    fn limits(&self) -> &[String];
}

/// What came of a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// An answer.
    Answer,
    /// A TCP connection was refused: the port is closed, and its host answered.
    Refused,
    /// A TCP connection was made, but closed without an answer to the request.
    Closed,
    /// An ICMP error came back.
    Icmp {
        /// In words.
        name: &'static str,
        /// Who sent it.
        from: Option<IpAddr>,
    },
    /// Nothing came in time.
    NoAnswer,
    /// This host itself could not send it: no route, interface down, larger than the MTU.
    NotSent {
        /// The error number.
        errno: i32,
    },
    /// The program asked to stop meanwhile.
    Interrupted,
}

impl Outcome {
    /// The word used in output.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Answer => "answer",
            Self::Refused => "refused",
            Self::Closed => "closed",
            Self::Icmp { .. } => "icmp_error",
            Self::NoAnswer => "no_answer",
            Self::NotSent { .. } => "not_sent",
            Self::Interrupted => "interrupted",
        }
    }

    /// Whether something came back that has a round-trip time.
    pub const fn came_back(&self) -> bool {
        matches!(self, Self::Answer | Self::Refused | Self::Icmp { .. })
    }
}

/// When one exchange, out and back, passed each stage. A stage that this machine could not give is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exchange {
    /// Right before the call that sends, by the program's clock.
    pub send: Option<Instant<Realtime>>,
    /// Into the packet scheduler.
    pub sched: Option<Instant<Realtime>>,
    /// To the driver.
    pub driver: Option<Instant<Realtime>>,
    /// On the wire, by the NIC's clock.
    pub nic: Option<Instant<Phc>>,
    /// TCP: the last byte was acknowledged.
    pub ack: Option<Instant<Realtime>>,
    /// Back at the NIC, by its clock.
    pub nic_rx: Option<Instant<Phc>>,
    /// Into the stack.
    pub driver_rx: Option<Instant<Realtime>>,
    /// Right after the call that received returned, by the program's clock.
    pub read: Option<Instant<Realtime>>,
    /// TCP's own measure of the round trip of this handshake, where that is what is known of the network's share.
    pub tcp_rtt: Option<Nanos>,
}

impl Exchange {
    /// The stages on the system's clock, in the order they are passed.
    pub fn stages(&self) -> [(&'static str, Option<Instant<Realtime>>); 6] {
        [
            ("send", self.send),
            ("sched", self.sched),
            ("driver", self.driver),
            ("driver_rx", self.driver_rx),
            ("ack", self.ack),
            ("read", self.read),
        ]
    }

    /// How long it took as the program sees it.
    ///
    /// # Errors
    /// [`Disorder`], as for all of these, where the later stage has the earlier time.
    pub fn total(&self) -> Result<Option<Nanos>, Disorder> {
        between(self.send, self.read)
    }

    /// This host's share on the way out: from the call to the driver.
    ///
    /// # Errors
    /// [`Disorder`].
    pub fn kernel_out(&self) -> Result<Option<Nanos>, Disorder> {
        between(self.send, self.driver)
    }

    /// The share of network and peer: between the NIC's own stamps where there are both, else from driver to stack, else what
    /// TCP itself measured.
    ///
    /// # Errors
    /// [`Disorder`].
    pub fn network(&self) -> Result<Option<Nanos>, Disorder> {
        if let (Some(out), Some(back)) = (self.nic, self.nic_rx) {
            return back.since(out).map(Some);
        }
        Ok(between(self.driver, self.driver_rx)?.or(self.tcp_rtt))
    }

    /// This host's share on the way in: from the stack to the program.
    ///
    /// # Errors
    /// [`Disorder`].
    pub fn kernel_in(&self) -> Result<Option<Nanos>, Disorder> {
        between(self.driver_rx, self.read)
    }

    /// Whether all stages that there are come in order.
    pub fn is_in_order(&self) -> bool {
        let chain = [self.send, self.sched, self.driver, self.driver_rx, self.read];
        let times: Vec<_> = chain.into_iter().flatten().collect();
        times.is_sorted() && self.network().is_ok() && self.ack.is_none_or(|a| self.driver.is_none_or(|d| d <= a))
    }

    fn transmitted(&mut self, stamp: &TransmitStamp<'_>) {
        let slot = match stamp.stage {
            TransmitStage::Sched => Some(&mut self.sched),
            TransmitStage::Driver => Some(&mut self.driver),
            TransmitStage::Ack => Some(&mut self.ack),
            TransmitStage::Nic | TransmitStage::Completion => None,
        };
        if let (Some(slot), Some(at)) = (slot, stamp.software()) {
            slot.get_or_insert(at);
        }
        if let Some(at) = stamp.hardware() {
            self.nic.get_or_insert(at);
        }
    }
}

fn between<C: clock::Clock>(a: Option<Instant<C>>, b: Option<Instant<C>>) -> Result<Option<Nanos>, Disorder> {
    match (a, b) {
        (Some(a), Some(b)) => b.since(a).map(Some),
        _ => Ok(None),
    }
}

/// One probe, done.
#[derive(Clone, Debug)]
pub struct Probe {
    /// Which.
    pub number: u64,
    /// What came of it.
    pub outcome: Outcome,
    /// The exchange that the outcome is about: echo and answer, or the TCP handshake.
    pub exchange: Exchange,
    /// TCP: the request and the first bytes of its answer, where there was a request.
    pub request: Option<Exchange>,
    /// Who answered.
    pub from: Option<IpAddr>,
    /// Payload bytes of the answer.
    pub bytes: usize,
    /// Its TTL or hop limit.
    pub ttl: Option<u8>,
    /// Answers to earlier probes, and doubles, that came meanwhile.
    pub stray: u64,
    /// The system's clock was set while the probe was under way: its times are not to be used.
    pub clock_set: bool,
}

impl Probe {
    fn new(number: u64) -> Self {
        Self {
            number,
            outcome: Outcome::NoAnswer,
            exchange: Exchange::default(),
            request: None,
            from: None,
            bytes: 0,
            ttl: None,
            stray: 0,
            clock_set: false,
        }
    }

    /// Whether its times may be used: the clock stood and no stage is out of order.
    pub fn is_sound(&self) -> bool {
        !self.clock_set && self.exchange.is_in_order() && self.request.as_ref().is_none_or(Exchange::is_in_order)
    }
}

/// Notices when `CLOCK_REALTIME`, which the kernel's stamps are on, is set.
struct ClockWatch {
    began: Instant<Monotonic>,
    offset: Conversion<Monotonic, Realtime>,
}

/// The kernel slews `CLOCK_REALTIME` by at most 500 parts in a million (`MAXFREQ`, `kernel/time/ntp.c`), and `CLOCK_MONOTONIC`
/// with it; a difference beyond the readings' errors is a step. This much more leaves room for rounding.
const STEP: u64 = 100;

impl ClockWatch {
    fn begin() -> Self {
        Self { began: now(), offset: conversion() }
    }

    fn was_set(&self) -> bool {
        let end = conversion::<Monotonic, Realtime>();
        let allowed = self.offset.error + end.error + Nanos(STEP);
        debug_assert!(now::<Monotonic>() >= self.began);
        self.offset.offset.abs_diff(end.offset) > allowed.0
    }
}

/// How long transmit stamps may come after the answer before they are taken as missing: NICs give theirs late.
const STAMPS_LATE: Duration = Duration::from_millis(5);
/// How long one wait may last before `stop` is looked at again.
const SLICE: Duration = Duration::from_millis(100);

/// What a wait for an answer found.
enum Arrival {
    /// An answer, or an error in its place.
    Done,
    /// Nothing that matters yet.
    Nothing,
}

/// Waits until `arrived` says it is done, time is over or `stop` is set; then a little for what stamps are missing.
/// `arrived` is called whenever the socket has something; whether it has to wait for stamps is `complete`'s word.
fn until_answer<S: std::os::fd::AsFd, T>(
    socket: &S,
    timeout: Duration,
    stop: &AtomicBool,
    state: &mut T,
    mut arrived: impl FnMut(&mut T, Ready) -> Result<Arrival, Error>,
    complete: impl Fn(&T) -> bool,
) -> Result<bool, Error> {
    let start = Deadline::now();
    let readable = Ready { readable: true, ..Ready::default() };
    let mut done = false;
    while !done {
        let left = timeout.saturating_sub(start.elapsed());
        if left.is_zero() || stop.load(Ordering::Relaxed) {
            break;
        }
        let ready = wait(socket, readable, left.min(SLICE))?;
        if ready.any() {
            done = matches!(arrived(state, ready)?, Arrival::Done);
        }
    }
    let late = Deadline::now();
    while !complete(state) && late.elapsed() < STAMPS_LATE {
        let ready = wait(socket, Ready::default(), STAMPS_LATE)?;
        if ready.errors {
            arrived(state, ready)?;
        }
    }
    Ok(done)
}

/// Reads a probe socket's error queue: the stamps of the send with this id go to `exchange`, errors to `icmp`.
fn take_errors(
    socket: impl std::os::fd::AsFd,
    queue: &mut ErrorQueue,
    matcher: &mut Matcher<u64>,
    id: u64,
    exchange: &mut Exchange,
    mut icmp: impl FnMut(&IcmpError<'_>, &mut Exchange),
) -> Result<(), Error> {
    let mut unreadable = None;
    queue.drain(socket, |report| match report {
        Ok(Report::Stamp(stamp)) => {
            if matcher.stamp(&stamp) == Some(id) {
                exchange.transmitted(&stamp);
            }
        }
        Ok(Report::Icmp(error)) => icmp(&error, exchange),
        Ok(_) => {}
        Err(e) => unreadable = Some(e),
    })?;
    unreadable.map_or(Ok(()), |e| Err(e.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ns: u64) -> Option<Instant<Realtime>> {
        Some(Instant::from_nanos(ns))
    }

    #[test]
    fn the_shares_add_up_to_the_total() {
        let e = Exchange {
            send: at(10),
            sched: at(12),
            driver: at(15),
            driver_rx: at(115),
            read: at(130),
            ..Exchange::default()
        };
        let shares = [e.kernel_out(), e.network(), e.kernel_in()].map(|s| s.unwrap().unwrap());
        assert_eq!(shares, [Nanos(5), Nanos(100), Nanos(15)]);
        assert_eq!(e.total(), Ok(Some(shares.into_iter().sum())));
        assert!(e.is_in_order());
    }

    #[test]
    fn hardware_stamps_come_first_and_disorder_is_said() {
        let hw = |ns| Some(Instant::<Phc>::from_nanos(ns));
        let e =
            Exchange { driver: at(15), driver_rx: at(115), nic: hw(1_000), nic_rx: hw(1_070), ..Exchange::default() };
        assert_eq!(e.network(), Ok(Some(Nanos(70))));
        let wrong = Exchange { driver: at(15), driver_rx: at(11), ..Exchange::default() };
        assert!(wrong.network().is_err() && !wrong.is_in_order());
    }
}
