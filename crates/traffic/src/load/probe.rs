//! Probes of three kinds, each on its own thread: numbered messages that come back.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use clock::{Conversion, Instant, Monotonic, Nanos, Realtime, Source, Timestamp};
use socket2::{Domain, Protocol, Socket, Type};
use timestamping::{BatchSize, Receiver, Request};

use super::{Config, ProbeKind, Round};
use crate::channel::Channel;
use crate::control::{self, Workload};
use crate::error::{Error, may_retry};
use crate::options::SocketOptions;
use crate::rr::Exchange;
use crate::stop::Stop;
use crate::timing;
use crate::udp::{Header, HeaderKind};

/// How long an answer is waited for after the last probe.
const PATIENCE: Nanos = Nanos::from_secs(2);
/// How often a waiting thread checks whether it is to stop.
const TICK: Nanos = Nanos::from_millis(50);

/// A way to ask for a round trip.
trait Probe: Send {
    /// Sends number `number`.
    fn send(&mut self, number: u64) -> io::Result<()>;
    /// Where answers arrive.
    fn socket(&self) -> BorrowedFd<'_>;
    /// The largest message that is checked, bytes. A stream has messages of one byte.
    fn message_bytes(&self) -> usize;
    /// Which probe a message answers; `None` for what is no answer.
    fn number(&mut self, message: &[u8]) -> Option<u64>;
}

/// A kind of probe, or why it cannot be had.
pub(super) struct Kind {
    pub name: ProbeKind,
    probe: Result<Box<dyn Probe>, String>,
}

/// Opens all kinds. A server that refuses is an error; ICMP that the kernel does not allow is not.
pub(super) fn open(config: &Config, duration: Nanos, stop: &Stop) -> Result<Vec<Kind>, Error> {
    let request = |workload| control::Request {
        token: config.target.token.clone(),
        pass: None,
        options: config.target.options.clone(),
        duration: duration + Nanos::from_secs(10),
        workload,
    };
    let exchange =
        Exchange { request_bytes: 1, response_bytes: 1, request_writes: 1, response_writes: 1, think: Nanos::ZERO };
    // On both ends: Nagle's algorithm would hold an answer until the one before is acknowledged, by
    // the next probe at the latest.
    let options = SocketOptions { nodelay: Some(true), ..config.target.options.clone() };
    let asked = control::Request { options: options.clone(), ..request(Workload::Rr(exchange)) };
    let (stream, _) = control::ask(&config.target, &options, &asked, stop)?;
    let echo = request(Workload::Echo { datagram_bytes: 64 });
    let udp = crate::udp::open(&config.target, &echo, stop)?;
    let icmp = Icmp::open(config.target.server).map(|p| Box::new(p) as Box<dyn Probe>);
    Ok(vec![
        Kind { name: ProbeKind::Tcp, probe: Ok(Box::new(Tcp { stream, answered: 0 })) },
        Kind { name: ProbeKind::Udp, probe: Ok(Box::new(Udp { _control: udp.control, socket: udp.socket.into() })) },
        Kind {
            name: ProbeKind::Icmp,
            probe: icmp.map_err(|e| {
                format!("{e}; as root it works, or with this group in the sysctl net.ipv4.ping_group_range")
            }),
        },
    ])
}

/// What the probes of one kind saw.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub rounds: Vec<Round>,
    /// Answers with an arrival that the kernel stamped.
    pub stamped: u64,
    /// Why there are none, or what ended them early.
    pub error: Option<String>,
}

impl Kind {
    /// Probes at fixed moments until asked to stop, then waits for the last answers.
    pub fn run(self, start: Instant<Monotonic>, interval: Nanos, stop: &AtomicBool) -> Seen {
        let mut seen = Seen::default();
        seen.error = match self.probe {
            Ok(mut probe) => probe_until(probe.as_mut(), start, interval, stop, &mut seen).err().map(|e| e.to_string()),
            Err(why) => Some(why),
        };
        seen
    }
}

fn probe_until(
    probe: &mut dyn Probe,
    start: Instant<Monotonic>,
    interval: Nanos,
    stop: &AtomicBool,
    seen: &mut Seen,
) -> io::Result<()> {
    timing::without_timer_slack();
    // Where the kernel does not stamp, an answer arrives when it is read.
    Request::new().receive_software().lenient().enable(probe.socket()).ok();
    let mut receiver = Receiver::new(BatchSize { messages: 1, payload: probe.message_bytes(), control: 256 });
    let mut give_up = None;
    loop {
        let now = timing::now();
        if give_up.is_none() && stop.load(Ordering::Relaxed) {
            give_up = Some(now.after(PATIENCE));
        }
        if give_up.is_some_and(|at| now >= at || seen.rounds.iter().rev().take(64).all(|r| r.round_trip.is_some())) {
            return Ok(());
        }
        let at = Nanos(interval.0.saturating_mul(seen.rounds.len() as u64));
        let due = start.after(at);
        if give_up.is_none() && now >= due {
            let sent = timing::now();
            seen.rounds.push(Round { at, late: sent.saturating_since(due), round_trip: None });
            match probe.send(seen.rounds.len() as u64 - 1) {
                // A full queue on this host loses the probe, and it is counted as lost.
                Err(e) if !may_retry(&e) && e.raw_os_error() != Some(libc::ENOBUFS) => return Err(e),
                _ => {}
            }
        }
        let tick = now.after(TICK);
        let next = start.after(Nanos(interval.0.saturating_mul(seen.rounds.len() as u64)));
        timing::readable_before(&probe.socket(), if give_up.is_none() { next.min(tick) } else { tick })?;
        while receive(probe, &mut receiver, start, seen)? {}
    }
}

/// Takes one message that has come; whether there was one.
fn receive(
    probe: &mut dyn Probe,
    receiver: &mut Receiver,
    start: Instant<Monotonic>,
    seen: &mut Seen,
) -> io::Result<bool> {
    let mut message = None;
    let socket = probe.socket();
    let taken = receiver.receive(socket, |received| {
        message =
            received.ok().map(|r| (r.payload.to_vec(), r.from.is_none() && r.payload.is_empty(), r.times.software));
    });
    match taken {
        Ok(0) => return Ok(false),
        Ok(_) => {}
        Err(timestamping::Error::System { source, .. }) if may_retry(&source) => return Ok(false),
        Err(timestamping::Error::System { source, .. }) => return Err(source),
        Err(other) => return Err(io::Error::other(other)),
    }
    let now = timing::now();
    let Some((bytes, stream_ended, stamp)) = message else { return Ok(true) };
    if stream_ended {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let Some(number) = probe.number(&bytes) else { return Ok(true) };
    let Some(round) = seen.rounds.get_mut(number as usize).filter(|r| r.round_trip.is_none()) else { return Ok(true) };
    let sent = start.after(round.at).after(round.late);
    let arrived = stamp.and_then(|stamp| arrival(stamp, &timestamping::conversion(), sent, now));
    seen.stamped += u64::from(arrived.is_some());
    round.round_trip = Some(arrived.unwrap_or(now).saturating_since(sent));
    Ok(true)
}

/// When an answer arrived by the kernel's stamp, on the clock that probes are timed with. The two
/// clocks must have been read between one another: a thread that is interrupted between two single
/// readings would make the answer early. `None` where the stamp says that the answer arrived before
/// the probe was sent at `sent` or after it was read at `read`: then `CLOCK_REALTIME` was set in
/// between.
fn arrival(
    stamp: Instant<Realtime>,
    to_monotonic: &Conversion<Realtime, Monotonic>,
    sent: Instant<Monotonic>,
    read: Instant<Monotonic>,
) -> Option<Instant<Monotonic>> {
    let on_monotonic = to_monotonic.convert(Timestamp { at: stamp, source: Source::Kernel, error: Nanos::ZERO });
    let at = on_monotonic.at;
    // The conversion is known to within its error, and at worst the answer arrived at the moment of
    // reading.
    (at >= sent && at <= read.after(on_monotonic.error)).then(|| at.min(read))
}

/// A byte each way; TCP keeps their order, so counting them numbers them.
struct Tcp {
    stream: Channel,
    answered: u64,
}

impl Probe for Tcp {
    fn send(&mut self, _: u64) -> io::Result<()> {
        self.stream.write_all(&[0])
    }

    fn socket(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    fn message_bytes(&self) -> usize {
        1
    }

    fn number(&mut self, _: &[u8]) -> Option<u64> {
        self.answered += 1;
        Some(self.answered - 1)
    }
}

/// A datagram with its number, sent back by the server.
struct Udp {
    _control: Channel,
    socket: Socket,
}

impl Probe for Udp {
    fn send(&mut self, number: u64) -> io::Result<()> {
        let mut bytes = [0; 64];
        Header { kind: HeaderKind::Data, number, sent_monotonic: Instant::from_nanos(0) }.emit(&mut bytes);
        self.socket.send(&bytes).map(drop)
    }

    fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn message_bytes(&self) -> usize {
        128
    }

    fn number(&mut self, message: &[u8]) -> Option<u64> {
        Header::parse(message).ok().filter(|h| h.kind == HeaderKind::Data).map(|h| h.number)
    }
}

/// An ICMP echo: over an unprivileged ping socket, or a raw one.
struct Icmp {
    socket: Socket,
    v6: bool,
    raw: bool,
    id: u16,
}

/// Types of echo request and reply: RFC 792, RFC 4443 §4.
const REQUEST: (u8, u8) = (8, 128);
const REPLY: (u8, u8) = (0, 129);

impl Icmp {
    fn open(server: SocketAddr) -> io::Result<Self> {
        let v6 = server.is_ipv6();
        let (domain, protocol) = if v6 { (Domain::IPV6, Protocol::ICMPV6) } else { (Domain::IPV4, Protocol::ICMPV4) };
        let (socket, raw) = match Socket::new(domain, Type::DGRAM, Some(protocol)) {
            Ok(socket) => (socket, false),
            Err(_) => (Socket::new(domain, Type::RAW, Some(protocol))?, true),
        };
        socket.connect(&SocketAddr::new(server.ip(), 0).into())?;
        Ok(Self { socket, v6, raw, id: u16::from_be_bytes(crate::wire::random_bytes()) })
    }
}

impl Probe for Icmp {
    fn send(&mut self, number: u64) -> io::Result<()> {
        let mut bytes = [0u8; 64];
        bytes[0] = if self.v6 { REQUEST.1 } else { REQUEST.0 };
        bytes[4..6].copy_from_slice(&self.id.to_be_bytes());
        bytes[6..8].copy_from_slice(&(number as u16).to_be_bytes());
        bytes[8..16].copy_from_slice(&number.to_be_bytes());
        // ICMPv6's checksum covers the addresses, and the kernel fills it in.
        if !self.v6 {
            let sum = checksum(&bytes);
            bytes[2..4].copy_from_slice(&sum.to_be_bytes());
        }
        self.socket.send(&bytes).map(drop)
    }

    fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn message_bytes(&self) -> usize {
        256
    }

    fn number(&mut self, message: &[u8]) -> Option<u64> {
        echo_number(message, self.v6, self.raw, self.id)
    }
}

/// The number in an echo reply of ours. A raw IPv4 socket gives the IP header too, and everybody's
/// replies; a ping socket gives neither, and has its own id.
pub(crate) fn echo_number(bytes: &[u8], v6: bool, raw: bool, id: u16) -> Option<u64> {
    let skip = if raw && !v6 { usize::from(bytes.first()? & 0xf) * 4 } else { 0 };
    let message = bytes.get(skip..)?;
    let reply = if v6 { REPLY.1 } else { REPLY.0 };
    if *message.first()? != reply || (raw && message.get(4..6)? != id.to_be_bytes()) {
        return None;
    }
    let mut number = [0; 8];
    number.copy_from_slice(message.get(8..16)?);
    Some(u64::from_be_bytes(number))
}

/// The Internet checksum (RFC 1071) of an even number of bytes.
fn checksum(bytes: &[u8]) -> u16 {
    let mut sum: u32 = bytes.chunks_exact(2).map(|w| u32::from(u16::from_be_bytes([w[0], w[1]]))).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_checksum_of_a_checked_message_is_zero() {
        let mut bytes = [8, 0, 0, 0, 0x12, 0x34, 0, 1, 9, 9];
        let sum = checksum(&bytes);
        bytes[2..4].copy_from_slice(&sum.to_be_bytes());
        assert_eq!(checksum(&bytes), 0);
    }

    #[test]
    fn a_stamp_is_an_arrival_only_between_sending_and_reading() {
        let at = Instant::<Monotonic>::from_nanos;
        let to_monotonic = Conversion::new(-1_000_000, Nanos(5));
        let arrived = |stamp| arrival(Instant::from_nanos(stamp), &to_monotonic, at(2_000), at(9_000));
        assert_eq!(arrived(1_002_000), Some(at(2_000)));
        assert_eq!(arrived(1_007_000), Some(at(7_000)));
        // Within the error of the conversion it may be the moment of reading.
        assert_eq!(arrived(1_009_005), Some(at(9_000)));
        assert_eq!(arrived(1_009_006), None);
        assert_eq!(arrived(1_001_999), None);
    }

    proptest! {
        #[test]
        fn foreign_packets_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100), v6: bool, raw: bool) {
            let _ = echo_number(&bytes, v6, raw, 7);
        }
    }
}
