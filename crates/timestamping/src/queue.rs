//! The error queue, read in batches.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;

use crate::batch::Batch;
use crate::{Error, ParseError, Report, report};

/// Reads a socket's error queue, many messages a system call, in the order the kernel queued them.
///
/// One reader serves any number of sockets, one after the other. Reading never waits: to wait, poll
/// for `POLLERR` (which `poll` reports without being asked; tokio calls it [`Interest::ERROR`]), or
/// see [`wait`].
///
/// [`Interest::ERROR`]:
/// https://docs.rs/tokio/1/tokio/io/struct.Interest.html#associatedconstant.ERROR
pub struct ErrorQueue {
    batch: Batch,
}

/// How many messages one system call may bring, and how many bytes are kept of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchSize {
    /// Messages a system call may bring: 1 to 1024.
    pub messages: usize,
    /// Bytes of payload kept of each; the rest is cut off.
    pub payload: usize,
    /// Bytes of control messages kept of each. 512 hold everything the kernel sends, `OPT_STATS`
    /// included.
    pub control: usize,
}

impl Default for BatchSize {
    fn default() -> Self {
        Self { messages: 64, payload: 128, control: 512 }
    }
}

impl Default for ErrorQueue {
    fn default() -> Self {
        Self::new(BatchSize::default())
    }
}

impl ErrorQueue {
    /// A reader of batches of this size.
    pub fn new(size: BatchSize) -> Self {
        Self { batch: Batch::new(size.messages, size.payload, size.control, false) }
    }

    /// Reads up to one batch and hands each message to `each`; gives how many there were. Less than
    /// [`Self::capacity`] means that the queue was empty after them.
    ///
    /// A message that cannot be read is handed on as an error and does not end the batch: nothing
    /// is dropped in silence.
    ///
    /// # Errors
    /// [`Error::System`] where `recvmmsg` fails; an empty queue is no failure.
    pub fn read(
        &mut self,
        socket: impl AsFd,
        mut each: impl FnMut(Result<Report<'_>, ParseError>),
    ) -> Result<usize, Error> {
        let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
        let count = self
            .batch
            .receive(socket.as_fd(), flags)
            .map_err(|source| Error::System { call: "recvmmsg(MSG_ERRQUEUE)", source })?;
        for index in 0..count {
            let message = self.batch.message(index);
            let result = message.whole_control().and_then(|()| report(message.control, message.payload));
            each(result);
        }
        Ok(count)
    }

    /// Reads until the queue is empty; gives how many messages there were. A sender that is faster
    /// than this reader keeps it here: programs that do something else too use [`Self::read`].
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn drain(
        &mut self,
        socket: impl AsFd,
        mut each: impl FnMut(Result<Report<'_>, ParseError>),
    ) -> Result<usize, Error> {
        let mut total = 0;
        loop {
            let count = self.read(socket.as_fd(), &mut each)?;
            total += count;
            if count < self.batch.capacity() {
                return Ok(total);
            }
        }
    }

    /// How many messages one [`Self::read`] can bring.
    pub fn capacity(&self) -> usize {
        self.batch.capacity()
    }
}

/// What [`wait`] found a socket to have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ready {
    /// Something is on the error queue, or an error is pending.
    pub errors: bool,
    /// Something can be received.
    pub readable: bool,
    /// Something can be sent, or a connection is made.
    pub writable: bool,
}

impl Ready {
    /// Whether there is anything.
    pub const fn any(self) -> bool {
        self.errors || self.readable || self.writable
    }

    /// What `poll` is asked for; it reports errors without being asked.
    fn events(self) -> PollFlags {
        let mut events = PollFlags::empty();
        events.set(PollFlags::IN, self.readable);
        events.set(PollFlags::OUT, self.writable);
        events
    }
}

/// Waits until `socket` has something on its error queue, or, as `for_what` says, can be read or
/// written; at most `timeout`. All fields false mean that the time is over or a signal came.
///
/// # Errors
/// [`Error::System`] where `ppoll` fails.
pub fn wait(socket: impl AsFd, for_what: Ready, timeout: Duration) -> Result<Ready, Error> {
    poll(&mut [PollFd::new(&socket, for_what.events())], timeout)
}

/// As [`wait`] for the first of several sockets; gives what any of them has.
///
/// # Errors
/// As [`wait`].
pub fn wait_any(sockets: &[BorrowedFd<'_>], for_what: Ready, timeout: Duration) -> Result<Ready, Error> {
    let mut polls: Vec<_> = sockets.iter().map(|socket| PollFd::new(socket, for_what.events())).collect();
    poll(&mut polls, timeout)
}

fn poll(polls: &mut [PollFd<'_>], timeout: Duration) -> Result<Ready, Error> {
    let time =
        Timespec { tv_sec: timeout.as_secs().min(i32::MAX as u64) as i64, tv_nsec: timeout.subsec_nanos().into() };
    match rustix::event::poll(polls, Some(&time)) {
        Ok(_) => {}
        Err(Errno::INTR) => return Ok(Ready::default()),
        Err(e) => return Err(Error::System { call: "ppoll", source: e.into() }),
    }
    let found = polls.iter().fold(PollFlags::empty(), |all, poll| all | poll.revents());
    if found.contains(PollFlags::NVAL) {
        return Err(Error::System { call: "ppoll", source: Errno::BADF.into() });
    }
    Ok(Ready {
        errors: found.intersects(PollFlags::ERR | PollFlags::HUP),
        readable: found.contains(PollFlags::IN),
        writable: found.contains(PollFlags::OUT),
    })
}
