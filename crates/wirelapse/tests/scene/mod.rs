//! What the tests of tracing play on: a lab, connections over it, and tracers that watch them.
//!
//! Each test program uses a part of it.
#![allow(dead_code)]

pub mod capture;
pub mod command;
pub mod path;
pub mod tcpdump;
pub mod terminal;
pub mod watch;

use std::sync::{Mutex, MutexGuard, PoisonError};

use record::Monotonic;
use tier::Need;

/// What tracing needs.
pub const BTF: Need<'static> = Need::Path("/sys/kernel/btf/vmlinux");
/// What the built-in path needs.
pub const TUN: Need<'static> = Need::Path("/dev/net/tun");
/// What changes a host's routes.
pub const IP: Need<'static> = Need::Program("ip");
/// What changes a host's queueing discipline.
pub const TC: Need<'static> = Need::Program("tc");

/// Tests of one program that measure take turns: each would disturb the next.
pub fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// `CLOCK_MONOTONIC`, ns: the clock of every stage.
pub fn monotonic() -> u64 {
    timestamping::now::<Monotonic>().as_nanos()
}

/// The middle one; of an even number, the upper of the two.
pub fn median<T: Ord + Copy>(values: impl IntoIterator<Item = T>) -> T {
    let mut values: Vec<T> = values.into_iter().collect();
    assert!(!values.is_empty(), "nothing to take the median of");
    values.sort_unstable();
    values[values.len() / 2]
}

/// Milliseconds, for messages.
pub fn ms(nanos: u64) -> f64 {
    nanos as f64 / 1e6
}
