//! Records written for other programs as they come: JSON lines, Perfetto traces, and packets as
//! pcapng.
//!
//! **Does:** writes each event into whatever the caller gives it ([`ndjson`], [`perfetto`],
//! [`pcapng`]), and the lines of a watch ([`watch`]) and of `top` ([`top`]); joins packets with the
//! records that they belong to ([`packets`]).
//!
//! **Does not:** gather figures, open files, or read a clock.
//!
//! **Guarantees:** a line or a packet is whole or not there; text of other programs is escaped.

#![forbid(unsafe_code)]

pub mod format;
mod json;
pub mod ndjson;
pub mod packets;
pub mod pcapng;
pub mod perfetto;
mod protobuf;
pub mod top;
pub mod watch;
