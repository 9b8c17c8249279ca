//! The end of a workload, as those hear of it who wait for something else.

use std::io;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use clock::{Instant, Monotonic, Nanos};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd};

use crate::error::Error;
use crate::progress::Progress;
use crate::timing;

/// How often the caller is asked whether to go on.
const TICK: Duration = Duration::from_millis(100);

/// Asked for once. Whoever waits by it wakes then: ten thousand threads that looked now and then
/// whether they should end would keep a CPU busy with that alone.
#[derive(Debug)]
pub(crate) struct Stop {
    asked: AtomicBool,
    /// Readable from then on.
    event: OwnedFd,
}

impl Stop {
    /// # Errors
    /// [`Error::Io`] where the process has no more descriptors.
    pub fn new() -> Result<Self, Error> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let event = event.map_err(|errno| Error::Io { doing: "a descriptor for the end", source: errno.into() })?;
        Ok(Self { asked: AtomicBool::new(false), event })
    }

    /// Asks for the end.
    pub fn ask(&self) {
        self.asked.store(true, Ordering::SeqCst);
        // It fails only where it was asked for 2^64 - 2 times.
        rustix::io::write(&self.event, &1_u64.to_ne_bytes()).ok();
    }

    /// Whether it was asked for.
    #[inline]
    pub fn asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }

    /// Waits until there is something to read, until `deadline`, or for the end; whether there is
    /// something. A signal counts as nothing to read.
    ///
    /// # Errors
    /// Of the socket.
    pub fn readable_before(&self, socket: &impl AsFd, deadline: Instant<Monotonic>) -> io::Result<bool> {
        self.ready_before(PollFd::new(socket, PollFlags::IN), deadline)
    }

    /// The same until something can be written, or a connection is made or refused.
    ///
    /// # Errors
    /// Of the socket.
    pub fn writable_before(&self, socket: &impl AsFd, deadline: Instant<Monotonic>) -> io::Result<bool> {
        self.ready_before(PollFd::new(socket, PollFlags::OUT), deadline)
    }

    fn ready_before(&self, socket: PollFd<'_>, deadline: Instant<Monotonic>) -> io::Result<bool> {
        let mut both = [socket, PollFd::new(&self.event, PollFlags::IN)];
        timing::poll_before(&mut both, deadline)?;
        Ok(!both[0].revents().is_empty())
    }

    /// Sleeps until `deadline`, or until the end.
    pub fn sleep_until(&self, deadline: Instant<Monotonic>) {
        while timing::now() < deadline && !self.asked() {
            // It fails only where the kernel has no memory for it.
            timing::poll_before(&mut [PollFd::new(&self.event, PollFlags::IN)], deadline).ok();
        }
    }
}

/// Does what blocks on another thread, in the caller's network namespace, while `progress` is
/// asked whether to go on: where it breaks, `stop` is asked for.
///
/// # Errors
/// [`Error::Io`] where there is no thread for it, and those of `work`.
pub(crate) fn attended<T: Send>(
    progress: &mut dyn FnMut(Progress<'_>) -> ControlFlow<()>,
    stop: &Stop,
    work: impl FnOnce() -> Result<T, Error> + Send,
) -> Result<T, Error> {
    std::thread::scope(|scope| {
        let (ends, ended) = channel::<()>();
        let worker = std::thread::Builder::new().name("attended".into()).spawn_scoped(scope, move || {
            let result = work();
            drop(ends);
            result
        });
        let worker = worker.map_err(Error::io("starting a thread"))?;
        while ended.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
            if progress(Progress::Tick { elapsed: Nanos::ZERO }).is_break() {
                stop.ask();
            }
        }
        worker.join().map_err(|_| Error::Config("a thread of the workload panicked".into()))?
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    const FAR: Instant<Monotonic> = Instant::from_nanos(u64::MAX);

    #[test]
    fn who_waits_wakes_with_the_end() {
        let (stop, socket) = (Stop::new().unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        assert!(!stop.asked() && !stop.readable_before(&socket, timing::now()).unwrap());
        assert!(stop.writable_before(&socket, FAR).unwrap());
        std::thread::scope(|scope| {
            let reads = scope.spawn(|| stop.readable_before(&socket, FAR).unwrap());
            let sleeps = scope.spawn(|| stop.sleep_until(FAR));
            stop.ask();
            assert!(!reads.join().unwrap());
            sleeps.join().unwrap();
        });
        // What is there to be read counts beside it.
        socket.send_to(b"x", socket.local_addr().unwrap()).unwrap();
        assert!(stop.asked() && stop.readable_before(&socket, FAR).unwrap());
    }

    #[test]
    fn work_that_blocks_ends_when_the_caller_breaks() {
        let (stop, socket) = (Stop::new().unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        let mut ticks = 0;
        let progress = &mut |_: Progress<'_>| {
            ticks += 1;
            if ticks < 2 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        };
        let read = attended(progress, &stop, || stop.readable_before(&socket, FAR).map_err(Error::io("waiting")));
        assert!(!read.unwrap() && ticks >= 2);
        let done = attended(&mut |_: Progress<'_>| ControlFlow::Continue(()), &stop, || Ok(7));
        assert_eq!(done.unwrap(), 7);
    }
}
