//! Receives the frames of a network interface, by every technique that Linux has, with every
//! timestamp that it gives.
//!
//! **Does:** receives frames ([`open`] gives a [`Receiver`]) by system calls, shared rings,
//! libpcap, AF_XDP, XDP programs and `io_uring`, with software and hardware timestamps; filters in
//! libpcap's language inside the kernel; writes pcapng files that rotate ([`output`]).
//!
//! It sends frames at a known rate, each with an id and its send time ([`generate`]).
//!
//! **Does not:** look into frames (crate `wire` does).
//!
//! **Guarantees:** a frame that the kernel dropped is counted, and so is one without the timestamp
//! that was asked for. A timestamp names its clock, its source and the error of its reading; a
//! clock is never replaced by another. What a receiver sets on an interface (programs, filters,
//! promiscuous mode) hangs on its descriptors and goes with its process, however that ends; the one
//! exception is a NIC's setting to stamp all frames, which is put back when the receiver is
//! dropped.
//!
//! ```no_run
//! use std::time::Duration;
//! use capture::{Options, Technique};
//!
//! let options = Options { filter: Some("udp port 53".into()), ..Options::of("eth0") };
//! let mut receiver = capture::open(Technique::RxRing, &options)?;
//! for _ in 0..10 {
//!     receiver.next_batch(Duration::from_secs(1), &mut |frame| {
//!         println!("{} bytes at {:?}", frame.original_length, frame.software);
//!     })?;
//! }
//! println!("{:?}", receiver.counts());
//! # Ok::<(), capture::Error>(())
//! ```

pub mod delay;
mod error;
mod filter;
mod frame;
pub mod generate;
mod hardware;
mod link;
mod options;
pub mod output;
mod packet;
mod receiver;
mod technique;
mod wait;
mod xdp;

pub use error::Error;
pub use filter::packets::PacketFilter;
pub use frame::{Frame, Vlan};
pub use options::{Direction, Fanout, NoSuchTechnique, Options, Stamps, Technique};
pub use receiver::{About, Counts, Receiver};
pub use technique::{best, open};
