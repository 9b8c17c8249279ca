//! Workloads: traffic of a known shape, and what became of it.
//!
//! **Does:** bulk transfers over the iperf3 protocol ([`stream`]), request and response with one
//! connection or a connection each ([`rr`]), datagrams ([`udp`]), latency under load ([`load`]),
//! responsiveness as the IETF draft defines it ([`responsiveness`]), the programs of a recorded
//! connection ([`script`]), and the [`Server`] that answers the others on one port. [`kept`] writes
//! what came of them as runs, and [`between`] compares two of these. Each workload is a plain
//! configuration and a `run` that blocks, in the network namespace of the calling thread; the
//! threads it starts inherit that.
//!
//! **Does not:** capture packets, change a sysctl or a route, or decide what a figure means. It
//! says what it did on the socket and what the kernel said of it.
//!
//! **Guarantees:** no byte of a peer makes it panic; a server spends no more than its [`Limits`]; a
//! latency under an open loop is counted from the intended time of sending; whatever was lost is
//! counted.

pub mod between;
mod channel;
mod control;
mod error;
mod exchange;
#[cfg(any(test, fuzzing))]
pub mod fuzzed;
pub mod iperf3;
pub mod kept;
mod limits;
pub mod load;
mod options;
mod progress;
pub mod responsiveness;
pub mod rr;
mod sample;
pub mod script;
mod sending;
pub mod server;
mod stop;
pub mod stream;
mod target;
mod tcp_info;
mod timing;
pub mod tls;
pub mod udp;
pub mod wire;
mod workload;

pub use error::{Error, WireError};
pub use limits::{Bounded, Limits, Refusal};
pub use options::{SetCongestion, SocketOptions, set_congestion_by};
pub use progress::Progress;
pub use sending::MOST_BURST;
pub use server::{Server, ServerConfig};
pub use target::{Target, first_that_connects};
pub use tcp_info::{TcpInfo, congestion_control};
pub use timing::{CpuTime, now, pin_this_thread, realtime, thread_cpu_time};
pub use workload::Workload;
