//! Packets and capture files: parse and emit.
//!
//! **Does:** turns foreign bytes into values and back: capture files ([`Capture`]) into frames,
//! frames into TCP [`Segment`]s, UDP and ICMP ([`dissect`]), DNS into its messages
//! ([`packet::dns`]), the clear part of TLS ([`packet::tls`]) and of QUIC ([`packet::quic`]), and
//! writes pcap and pcapng.
//!
//! **Does not:** make a system call, read a clock, or follow a connection: one packet at a time.
//! Files are opened by the caller, who passes a reader or the bytes.
//!
//! **Guarantees:** no input makes it panic or take memory without bound. What cannot be read is
//! counted by kind, with the packet number and byte offset of the first few ([`Tally`]), and
//! reading goes on where the format allows it.

#![forbid(unsafe_code)]

pub mod capture;
mod commented;
#[cfg(any(test, fuzzing))]
pub mod fuzzed;
pub mod generate;
pub mod packet;
mod packet_reader;
mod payload;
mod processes;
mod segment;
mod shard;
mod tally;
pub mod text;

pub use capture::{Capture, CaptureError, Frame, LinkType};
pub use packet::{NotDecoded, Packet, Reassembly, dissect, dissect_keeping};
pub use packet_reader::PacketReader;
pub use payload::{Carrier, Payload, Protocol, is_dns};
pub use processes::Process;
pub use segment::{Ecn, Flags, Integrity, Network, SackBlocks, Segment, TcpOptions};
pub use shard::Shard;
pub use tally::{Class, Count, Place, Tally};
pub use text::{TextCounts, TextReader};

/// The example of the README, compiled and run with the documentation's.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
