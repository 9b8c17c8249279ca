//! The application that stamps its own sends with `SO_TIMESTAMPING`.

use std::net::TcpStream;
use std::os::fd::AsRawFd as _;

use model::{Instant, Realtime};
use timestamping::{ErrorQueue, Matcher, Report, Request, Room, Stages, now};

use crate::Error;

/// What a sender asks its own socket for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stamps {
    /// Nothing.
    None,
    /// All stages of every send, read with one `recvmsg` a message after each send: what a program does that knows no better.
    Plain,
    /// All stages of every send, read in batches by the library after so many sends and put to their sends.
    Batched(u32),
}

pub(super) fn error(error: timestamping::Error) -> Error {
    Error::System { step: "use SO_TIMESTAMPING", source: std::io::Error::other(error) }
}

/// One slice's use of them.
pub(super) struct Stamping {
    stamps: Stamps,
    batch: Option<(ErrorQueue, Matcher<()>)>,
    sends: u32,
    at: Option<Instant<Realtime>>,
}

impl Stamping {
    pub fn begin(socket: &TcpStream, stamps: Stamps) -> Result<Self, Error> {
        let all = Stages::SCHED | Stages::DRIVER | Stages::ACK;
        let batch = match stamps {
            Stamps::None => None,
            Stamps::Plain => {
                Request::new().transmit(all).with_payload().enable(socket).map_err(error)?;
                None
            }
            Stamps::Batched(_) => {
                let enabled = Request::new().transmit(all).enable(socket).map_err(error)?;
                let queue = ErrorQueue::new(Room { payload: 0, ..Room::default() });
                Some((queue, Matcher::new(enabled.counting(), enabled.stages(), 4096)))
            }
        };
        Ok(Self { stamps, batch, sends: 0, at: None })
    }

    /// Just before a send.
    pub fn before(&mut self) {
        if self.batch.is_some() {
            self.at = Some(now::<Realtime>());
        }
    }

    /// Just after one of `bytes`.
    pub fn after(&mut self, socket: &TcpStream, bytes: usize) -> Result<(), Error> {
        if let (Some((_, matcher)), Some(at)) = (&mut self.batch, self.at) {
            matcher.sent(bytes, at, ());
        }
        match self.stamps {
            Stamps::None => return Ok(()),
            Stamps::Plain => return read_plainly(socket),
            Stamps::Batched(every) => {
                self.sends += 1;
                if !self.sends.is_multiple_of(every) {
                    return Ok(());
                }
            }
        }
        self.read(socket)
    }

    fn read(&mut self, socket: &TcpStream) -> Result<(), Error> {
        let Some((queue, matcher)) = &mut self.batch else { return Ok(()) };
        let stamp = |report: Result<Report<'_>, _>| {
            if let Ok(Report::Stamp(stamp)) = report {
                matcher.stamp(&stamp);
            }
        };
        queue.drain(socket, stamp).map_err(error)?;
        while matcher.finished().is_some() {}
        Ok(())
    }

    /// Turns them off and empties the queue.
    pub fn end(mut self, socket: &TcpStream) -> Result<(), Error> {
        match self.stamps {
            Stamps::None => return Ok(()),
            Stamps::Plain => read_plainly(socket)?,
            Stamps::Batched(_) => self.read(socket)?,
        }
        let off: libc::c_int = 0;
        let (level, option) = (libc::SOL_SOCKET, libc::SO_TIMESTAMPING);
        let size = size_of_val(&off) as libc::socklen_t;
        // SAFETY: the option takes an int of the given size.
        if unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const off).cast(), size) } != 0 {
            return Err(Error::System { step: "turn SO_TIMESTAMPING off", source: std::io::Error::last_os_error() });
        }
        read_plainly(socket)
    }
}

/// One message a call, until there is none.
fn read_plainly(socket: &TcpStream) -> Result<(), Error> {
    let (mut payload, mut control) = ([0u8; 2048], [0u64; 64]);
    loop {
        let mut vector = libc::iovec { iov_base: payload.as_mut_ptr().cast(), iov_len: payload.len() };
        // SAFETY: all zeroes are a valid msghdr.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = &raw mut vector;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&control) as _;
        let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
        // SAFETY: every pointer of `message` is to memory that outlives the call, of the length beside it.
        if unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, flags) } < 0 {
            return Ok(());
        }
        // SAFETY: the kernel wrote `msg_controllen` bytes there, which are no more than there are.
        let bytes = unsafe { std::slice::from_raw_parts(control.as_ptr().cast(), message.msg_controllen as _) };
        std::hint::black_box(timestamping::report(bytes, &[]).ok());
    }
}
