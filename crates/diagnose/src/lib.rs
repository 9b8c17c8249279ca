//! Conversations and findings: what limited each TCP connection of a capture, and why, what became
//! of each name that was asked for ([`dns`]), what each handshake of TLS took ([`tls`]), what
//! became of each connection of QUIC ([`quic`]), what each other conversation of UDP was ([`udp`]),
//! and what the network itself said ([`network`]).
//!
//! **Does:** follows every connection segment by segment, shares its duration out over what limited
//! it, and draws findings with the packets that show them.
//!
//! **Does not:** make a system call, read a clock or a file: segments come from the caller, in
//! capture order.
//!
//! **Guarantees:** no sequence of segments makes it panic. Memory grows with connections, not with
//! packets, and stops at a limit that the caller sets; what lies beyond is counted. The shares of a
//! connection's time add up to its duration exactly, and unique and retransmitted bytes to its
//! payload.

#![forbid(unsafe_code)]

mod acks;
mod anomalies;
mod between;
mod checksums;
mod claims;
pub mod conditions;
mod connection;
mod distance;
mod distribution;
mod divergence;
pub mod dns;
mod drawn;
mod event;
mod fetch;
mod findings;
mod flight;
mod follower;
#[cfg(any(test, fuzzing))]
pub mod fuzzed;
mod gathering;
mod half;
mod handshake;
mod idle;
mod kept;
mod key;
mod link;
mod lockstep;
pub mod network;
mod next;
pub mod quic;
mod ranges;
mod refills;
mod repairing;
mod report;
mod retransmission;
mod rounds;
mod rtt;
mod sender;
mod series;
mod stall;
mod stamps;
mod steps;
pub mod tls;
mod together;
mod trains;
mod transactions;
pub mod udp;
mod unclear;
mod unread;
mod vantage;
mod waits;

pub use between::{Between, Crossing};
pub use distribution::Distribution;
pub use divergence::{Difference, Divergence, compare};
pub use fetch::Fetch;
pub use follower::{Follower, Keep, Options, Totals};
pub use idle::{Idle, Longest, Pause};
pub use kept::{Mark, Record};
pub use record::conversation::{
    Acknowledging, Budget, Direction, Ending, Finding, FindingKind, HeaderBytes, Limit, OptionState, Quantiles,
    Retransmissions, Side, Verdict, Way, Withheld,
};
pub use report::Report;
pub use retransmission::Class;
pub use unclear::Unclear;
pub use vantage::{Place, Vantage};

/// The example of the README, compiled and run with the documentation's.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
