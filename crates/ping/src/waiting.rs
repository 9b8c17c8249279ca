//! Waiting for what comes back: answers, ICMP errors, and stamps that come late.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use timestamping::{ErrorQueue, IcmpError, Matcher, Ready, Report, wait};

use crate::{Error, Exchange};

/// How long transmit stamps may come after the answer before they are taken as missing: NICs give
/// theirs late.
const STAMPS_LATE: Duration = Duration::from_millis(5);
/// How long one wait may last before `stop` is looked at again.
pub(crate) const SLICE: Duration = Duration::from_millis(100);

/// What a wait for an answer found.
pub(crate) enum Arrival {
    /// An answer, or an error in its place.
    Done,
    /// Nothing that matters yet.
    Nothing,
}

/// Waits until `arrived` says it is done, time is over or `stop` is set; then a little for stamps
/// that are missing. `arrived` is called whenever the socket has something; `complete` says whether
/// every stamp is there.
pub(crate) fn until_answer<S: AsFd, T>(
    socket: &S,
    timeout: Duration,
    stop: &AtomicBool,
    state: &mut T,
    mut arrived: impl FnMut(&mut T, Ready) -> Result<Arrival, Error>,
    complete: impl Fn(&T) -> bool,
) -> Result<bool, Error> {
    let start = Instant::now();
    let readable = Ready { readable: true, ..Ready::default() };
    let mut done = false;
    while !done {
        let left = timeout.saturating_sub(start.elapsed());
        if left.is_zero() || stop.load(Ordering::Relaxed) {
            break;
        }
        let ready = wait(socket, readable, left.min(SLICE))?;
        if ready.any() {
            done = matches!(arrived(state, ready)?, Arrival::Done);
        }
    }
    let late = Instant::now();
    while !complete(state) && late.elapsed() < STAMPS_LATE {
        let ready = wait(socket, Ready::default(), STAMPS_LATE)?;
        if ready.errors {
            arrived(state, ready)?;
        }
    }
    Ok(done)
}

/// Reads a probe socket's error queue: the stamps of the send with this id go to `exchange`, errors
/// to `icmp`.
pub(crate) fn take_errors(
    socket: impl AsFd,
    queue: &mut ErrorQueue,
    matcher: &mut Matcher<u64>,
    id: u64,
    exchange: &mut Exchange,
    mut icmp: impl FnMut(&IcmpError<'_>, &mut Exchange),
) -> Result<(), Error> {
    let mut unreadable = None;
    queue.drain(socket, |report| match report {
        Ok(Report::Stamp(stamp)) => {
            if matcher.stamp(&stamp) == Some(id) {
                exchange.transmitted(&stamp);
            }
        }
        Ok(Report::Icmp(error)) => icmp(&error, exchange),
        Ok(_) => {}
        Err(e) => unreadable = Some(e),
    })?;
    unreadable.map_or(Ok(()), |e| Err(e.into()))
}
