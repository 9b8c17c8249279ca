//! Packets and capture files: parse and emit.
//!
//! **Does:** turns foreign bytes into values and back.
//!
//! **Does not:** make a system call, read a clock, or follow a connection: one packet at a time.
//!
//! **Guarantees:** no input makes it panic or take memory without bound.

mod segment;

pub use segment::{Ecn, Flags, Network, SackBlocks, Segment, TcpOptions};
