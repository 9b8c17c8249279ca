//! Waiting for frames.

use std::io;
use std::os::fd::RawFd;
use std::time::Duration;

use crate::Error;

/// Waits until one of these descriptors is readable or has an error; false where nothing came within `wait` or a signal
/// came first. Keeps to `wait` to the nanosecond, which `SO_RCVTIMEO` does not.
pub(crate) fn readable(descriptors: &[RawFd], wait: Duration) -> Result<bool, Error> {
    let mut polls: Vec<_> =
        descriptors.iter().map(|&fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 }).collect();
    let timeout = libc::timespec { tv_sec: wait.as_secs() as i64, tv_nsec: wait.subsec_nanos().into() };
    // SAFETY: as many pollfds as are counted, and one timespec, which live over the call; no signal mask.
    let ready = unsafe { libc::ppoll(polls.as_mut_ptr(), polls.len() as _, &raw const timeout, std::ptr::null()) };
    if ready >= 0 {
        return Ok(ready > 0);
    }
    let error = io::Error::last_os_error();
    match error.kind() {
        io::ErrorKind::Interrupted => Ok(false),
        _ => Err(Error::System { what: "wait for frames", source: error }),
    }
}
