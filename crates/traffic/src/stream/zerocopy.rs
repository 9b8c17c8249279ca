//! `MSG_ZEROCOPY`: the kernel sends from the program's pages and says on the error queue when it is
//! done with them (Documentation/networking/msg_zerocopy.rst).

use std::os::fd::AsFd;

use nix::sys::socket::setsockopt;
use nix::{setsockopt_impl, sockopt_impl};
use serde::{Deserialize, Serialize};
use timestamping::{BatchSize, ErrorQueue, Report};

use crate::error::Error;

/// What became of sends with `MSG_ZEROCOPY`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ZerocopyCounts {
    /// Sends that went out with the flag.
    pub sends: u64,
    /// Of these, completed.
    pub completed: u64,
    /// Completed after the kernel had copied all the same, as it always does on loopback.
    pub copied: u64,
    /// Sends made without the flag because the kernel had no room for one more notification.
    pub fell_back: u64,
}

/// `MSG_ZEROCOPY`, which rustix has no name for.
pub(super) const FLAG: rustix::net::SendFlags = rustix::net::SendFlags::from_bits_retain(libc::MSG_ZEROCOPY as _);

sockopt_impl!(
    /// Whether sends may ask for `MSG_ZEROCOPY`.
    Zerocopy,
    SetOnly,
    libc::SOL_SOCKET,
    libc::SO_ZEROCOPY,
    bool
);

/// Asks for `SO_ZEROCOPY` on a socket; gives what its completions are read with.
pub(super) fn enable(socket: &impl AsFd) -> Result<ErrorQueue, Error> {
    setsockopt(socket, Zerocopy, &true).map_err(|error| Error::SocketOption {
        option: "SO_ZEROCOPY",
        value: "1".into(),
        source: error.into(),
    })?;
    Ok(ErrorQueue::new(BatchSize { messages: 32, payload: 0, control: 256 }))
}

/// Takes the completions that wait on the error queue. Where reading fails, the next write shows
/// why.
pub(super) fn reap(queue: &mut ErrorQueue, socket: &impl AsFd, counts: &mut ZerocopyCounts) {
    let completed = |report: Result<Report<'_>, _>| {
        if let Ok(Report::ZeroCopy { first, last, copied }) = report {
            let number = u64::from(last.wrapping_sub(first)) + 1;
            counts.completed += number;
            counts.copied += if copied { number } else { 0 };
        }
    };
    queue.drain(socket, completed).ok();
}
