//! Waiting for frames.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use timestamping::Ready;

use crate::Error;

/// Waits until one of these descriptors is readable or has an error; false where nothing came
/// within `wait` or a signal came first. Keeps to `wait` to the nanosecond, which `SO_RCVTIMEO`
/// does not.
pub(crate) fn readable(descriptors: &[BorrowedFd<'_>], wait: Duration) -> Result<bool, Error> {
    let found = timestamping::wait_any(descriptors, Ready { readable: true, ..Ready::default() }, wait);
    found.map(Ready::any).map_err(Error::stamping("wait for frames"))
}
