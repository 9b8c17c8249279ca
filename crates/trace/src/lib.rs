//! Times every TCP send of real programs at each stage between `send()` and the peer's ACK, in the
//! kernel, with eBPF.
//!
//! **Does:** follows the TCP connections of a [`Target`] (those that exist and those to come),
//! joins the stages of each send in the kernel and gives one [`record::Event::Send`] a send, with
//! the connection's state and the reason why its bytes waited. Two backends: BPF timestamping
//! (Linux 6.15 and later), and tracepoints. Where asked, every packet of these connections
//! ([`record::Event::Packet`]) and every datagram of UDP sockets of the target
//! ([`record::Event::Datagram`]), with drops and their reason; copies of their packets in both
//! directions ([`record::Event::Copy`]); and the names that they ask for
//! ([`record::Event::Question`]).
//!
//! **Does not:** touch the traced programs or their packets, or show anything: views and files are
//! made elsewhere.
//!
//! **Guarantees:** every send seen is delivered or in exactly one counter of [`record::Lost`];
//! memory is bounded, and the bound is known before tracing starts ([`Config::memory`]); everything
//! the kernel holds is held by file descriptors, so that nothing outlives the process, however it
//! ends. Sockets outside the target are never armed.

mod aim;
pub mod baselines;
pub mod capabilities;
mod cgroup;
mod cgroups;
mod clock;
pub mod command;
mod config;
mod connects;
mod cookies;
mod copies;
mod cost;
mod decode;
mod dns;
mod error;
#[cfg(any(test, fuzzing))]
pub mod fuzzed;
pub mod histograms;
mod http;
mod keeper;
mod layout;
mod memory;
mod namespace;
mod nic;
mod object;
mod pace;
mod packets;
mod passes;
mod privilege;
mod probe;
mod process;
mod programs;
mod rate;
mod receive;
mod refusal;
mod ring;
mod sends;
mod sizes;
mod sockets;
mod stamps;
mod target;
mod tracer;
mod walk;
pub mod watch;

/// Every probe that can be put beside the sends. A further one is its folder, its module above, and
/// its entry here.
static PROBES: [&dyn probe::Probe; 6] =
    [&connects::Connects, &receive::Receives, &packets::Packets, &http::Beginnings, &copies::Copying, &dns::Names];

pub use cgroups::Named;
pub use config::{Backend, BackendChoice, Config};
pub use decode::DecodeError;
pub use error::Error;
pub use histograms::Histograms;
pub use keeper::Privileged;
pub use memory::Memory;
pub use probe::{Missing, Observation, Observed, Unseen};
pub use process::process_began;
pub use refusal::Refusal;
pub use sockets::{Sockets, ancestors};
pub use target::{IpNet, ParseIpNetError, ParsePortRangeError, PortRange, Target};
pub use tracer::{Summary, Tracer};
