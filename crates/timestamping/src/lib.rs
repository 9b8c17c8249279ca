//! Every timestamp that Linux gives for a socket's packets: `SO_TIMESTAMPING` as a safe library.
//!
//! **Does:** asks TCP, UDP, ping, raw and packet sockets (IPv4 and IPv6) for stamps of what they
//! send and receive; reads the error queue in batches; distinguishes stamps from ICMP errors;
//! matches stamps to sends and counts those that never came; sets NICs up, reads their clocks, and
//! converts between clocks with a stated error.
//!
//! **Does not:** own a socket, start a thread, or read a clock behind the program's back. It works
//! on any `AsFd`, so [`std::net`], `socket2` and tokio sockets all do.
//!
//! **Guarantees:** what the kernel queued is passed on in its order, each message once; what cannot
//! be read is passed on as an error; an option that the kernel lacks is [`Error::Unsupported`] with
//! its name and version, found by trying; no input makes it panic. Times of different clocks do not
//! subtract (they are [`Instant`]s of their clock), and no duration is negative ([`Disorder`]). The
//! README has a table of every flag with its kernel version.
//!
//! # Where stamps are taken
//!
//! ```text
//!   program       send()                                                          recv()   program's own clock
//!                   │                                                               ▲
//!   TCP, UDP        ▼                                                               │
//!                 queue ─── SCHED ──▶ qdisc ── DRIVER ──▶ ─┐               ┌─▶ RX software ─▶ socket    CLOCK_REALTIME
//!                                                          ▼               │
//!   NIC                                                   NIC ··· wire ··· RX hardware                  the NIC's clock
//!
//!                 ACK: the last byte of the send was acknowledged (TCP)                                 CLOCK_REALTIME
//! ```
//!
//! A stamp of something sent comes back on the *error queue* of the socket that sent it, one
//! message a stage, with the *id* of its send: the number of the datagram, or on a stream the
//! position of its last byte. A stamp of something received comes with it.
//!
//! # A worked example
//!
//! ```
//! use std::net::UdpSocket;
//! use std::time::Duration;
//! use timestamping::{
//!     BatchSize, ErrorQueue, Matcher, Ready, Realtime, Receiver, Report, Request, Stages, TransmitStage, now, wait,
//! };
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = UdpSocket::bind("127.0.0.1:0")?;
//! Request::new().receive_software().enable(&server)?;
//!
//! let client = UdpSocket::bind("127.0.0.1:0")?;
//! client.connect(server.local_addr()?)?;
//! // Where the kernel is older than an option, this fails with the option's name; `lenient()` goes on without it.
//! let enabled = Request::new().transmit(Stages::SCHED | Stages::DRIVER).icmp_errors().enable(&client)?;
//!
//! // The matcher gets each send, and later each stamp.
//! let mut matcher = Matcher::new(enabled.counting(), enabled.stages(), 1024);
//! for number in 0..3 {
//!     let before = now::<Realtime>();
//!     let bytes = client.send(b"hello")?;
//!     matcher.sent(bytes, before, number);
//! }
//!
//! // Stamps wait on the error queue. A program that cannot wait calls `read` whenever it likes.
//! let mut queue = ErrorQueue::default();
//! while matcher.pending() > 0 && wait(&client, Ready::default(), Duration::from_secs(1))?.errors {
//!     queue.read(&client, |report| match report {
//!         Ok(Report::Stamp(stamp)) => {
//!             matcher.stamp(&stamp);
//!         }
//!         Ok(Report::Icmp(error)) => eprintln!("{} from {:?}", error.name(), error.offender),
//!         Ok(other) => eprintln!("{other:?}"),
//!         Err(unreadable) => eprintln!("{unreadable}"),
//!     })?;
//! }
//! matcher.give_up(); // what has not come by now is counted
//!
//! while let Some(send) = matcher.finished() {
//!     let to_sched = send.since_sent(TransmitStage::Sched)?.expect("loopback loses nothing");
//!     let in_qdisc = send.between(TransmitStage::Sched, TransmitStage::Driver)?.expect("loopback loses nothing");
//!     println!("send {}: {to_sched} to the qdisc, {in_qdisc} in it", send.tag);
//! }
//! assert_eq!(matcher.counts().complete, 3);
//!
//! // The other side: when each datagram entered the stack.
//! let mut receiver = Receiver::new(BatchSize { payload: 2048, ..BatchSize::default() });
//! let count = receiver.receive(&server, |datagram| {
//!     if let Ok(datagram) = datagram {
//!         println!("{} bytes at {:?}", datagram.payload.len(), datagram.times.software);
//!     }
//! })?;
//! assert_eq!(count, 3);
//! # Ok(())
//! # }
//! ```
//!
//! `examples/blocking.rs`, `examples/nonblocking.rs`, `examples/socket2.rs` and `examples/tokio.rs`
//! are whole programs.
//!
//! # What it costs, and how to pay less
//!
//! Each stage of each send is a message that the kernel allocates, queues and wakes the socket for,
//! whether or not the program reads it. On one two-core virtual machine (Linux 6.18, TCP over
//! loopback, all three stages of every send) a send of 1, 16 and 128 KiB took so much more of the
//! sender's CPU time:
//!
//! | | 1 KiB | 16 KiB | 128 KiB |
//! |---|---|---|---|
//! | a `recvmsg` loop after each send | 410 ns | 1,538 ns | 2,888 ns |
//! | this library in batches of 32, every stamp matched to its send | 191 ns | 677 ns | 1,081 ns |
//! | taken off the queue unseen, in batches of 32: the floor of reading all | 83 ns | 477 ns | 726 ns |
//! | made and never read: the floor of asking | 34 ns | 324 ns | 38 ns |
//! | this library, the stage `ack` alone | 118 ns | 283 ns | 225 ns |
//! | this library, one send in a hundred | 17 ns | 26 ns | 82 ns |
//!
//! That is 0.47, 0.44 and 0.37 of the plain loop, where the kernel's own part is 0.20, 0.31 and
//! 0.25. (Small sends share packets here, Nagle's algorithm being on.) Further down it goes only
//! with fewer stamps. So:
//!
//! - read in batches ([`ErrorQueue`]), after some tens of sends or when polled, not after each
//!   send;
//! - leave the payload out (the default here: `OPT_TSONLY`);
//! - ask for the stages that are needed: each is a separate message;
//! - stamp one send in a hundred ([`Request::transmit_per_send`] with [`SendOptions::stages`]): an
//!   unstamped send on a prepared socket costs nothing.
//!
//! # What can be lost
//!
//! Stamps share the socket's receive buffer (`SO_RCVBUF`). One that finds it full is dropped by the
//! kernel **without any counter**: neither `SO_RXQ_OVFL` nor [`SocketMemory::drops`] has it. Its
//! missing id is the only sign, which is why [`Matcher`] counts by send; [`reserve_stamps`] makes
//! room. On a stream, writes that end up in one packet leave only the last one's stamps. The kernel
//! also drops stamps of a socket that is closed with stamps in its queue.

#[cfg(not(target_os = "linux"))]
compile_error!("wirelapse-timestamping is for Linux alone: no other system has SO_TIMESTAMPING");

mod address;
mod attribute;
mod batch;
mod clocks;
mod control;
mod error;
mod flags;
#[cfg(any(test, fuzzing))]
pub mod fuzzed;
mod hardware_clock;
mod id;
mod info;
mod interface;
mod matcher;
mod option;
mod queue;
mod receive;
mod report;
mod request;
mod send;
mod stats;
mod tsinfo;

pub use clock::{Clock, Conversion, Disorder, Instant, Monotonic, Nanos, Phc, Realtime, Source, Tai, Timestamp};

pub use attribute::{Attribute, Attributes, attributes};
pub use clocks::{SystemClock, conversion, now, tai_offset, timestamp};
pub use control::{Control, Controls, ExtendedError, PacketInfo, Times, controls};
pub use error::{Error, Feature, KernelVersion, ParseError, SocketKind};
pub use flags::{Flags, Stages, TransmitStage};
pub use hardware_clock::{HardwareClock, Method};
pub use id::IdExtender;
pub use info::{HardwareCounts, ReceiveFilter, TimestampingInfo, TransmitType};
pub use interface::{HardwareConfig, Interface};
pub use matcher::{Counts, Matched, Matcher};
pub use queue::{BatchSize, ErrorQueue, Ready, wait, wait_any};
pub use receive::{Received, Receiver};
pub use report::{IcmpError, Report, TransmitStamp, report};
pub use request::{Counting, Enabled, Request, SocketMemory, reserve_stamps, socket_memory};
pub use send::{SendOptions, kernel_has_ts_opt_id};
pub use stats::{CongestionState, TcpStats};

/// The examples of the README, compiled and run with the documentation's.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
