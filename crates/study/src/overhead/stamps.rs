//! The application that stamps its own sends with `SO_TIMESTAMPING`.

use std::io::{IoSlice, Write as _};
use std::net::TcpStream;
use std::os::fd::AsRawFd as _;

use record::Realtime;
use timestamping::{BatchSize, Enabled, ErrorQueue, Matcher, Report, Request, SendOptions, Stages, now};

use crate::Error;

/// What a sender asks its own socket for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stamps {
    /// Nothing.
    None,
    /// All stages of every send, read with one `recvmsg` a message after each send: what a program
    /// does that knows no better.
    Plain,
    /// All stages of every send, made and never read: the queue is full, and the kernel makes each
    /// stamp and throws it away.
    Unread,
    /// All stages of every send, taken off the queue in batches after so many sends, with no room
    /// for what they say: the least that reading can cost.
    Unseen(u32),
    /// All stages of every send, read in batches by the library after so many sends and put to
    /// their sends.
    Batched(u32),
    /// The same of the stage `ack` alone.
    Ack(u32),
    /// The same of all stages of one send in so many, read after eight of those.
    Sampled(u32),
}

pub(super) fn error(error: timestamping::Error) -> Error {
    Error::System { step: "use SO_TIMESTAMPING", source: std::io::Error::other(error) }
}

/// One slice's use of them.
pub(super) struct Stamping {
    stamps: Stamps,
    batch: Option<(ErrorQueue, Matcher<()>)>,
    enabled: Option<Enabled>,
    sends: u32,
}

impl Stamping {
    pub fn begin(socket: &TcpStream, stamps: Stamps) -> Result<Self, Error> {
        let all = Stages::SCHED | Stages::DRIVER | Stages::ACK;
        let request = match stamps {
            Stamps::None => None,
            Stamps::Plain => Some(Request::new().transmit(all).with_payload()),
            Stamps::Unread | Stamps::Unseen(_) | Stamps::Batched(_) => Some(Request::new().transmit(all)),
            Stamps::Ack(_) => Some(Request::new().transmit(Stages::ACK)),
            Stamps::Sampled(_) => Some(Request::new().transmit_per_send(all)),
        };
        let enabled = request.map(|request| request.enable(socket)).transpose().map_err(error)?;
        let matched = matches!(stamps, Stamps::Batched(_) | Stamps::Ack(_) | Stamps::Sampled(_));
        let batch = enabled.filter(|_| matched).map(|enabled| {
            let queue = ErrorQueue::new(BatchSize { payload: 0, ..BatchSize::default() });
            (queue, Matcher::new(enabled.counting(), enabled.stages(), 4096))
        });
        Ok(Self { stamps, batch, enabled, sends: 0 })
    }

    /// Sends all of it, and reads stamps where that is due.
    pub fn send(&mut self, mut socket: &TcpStream, data: &[u8]) -> Result<(), Error> {
        let failed = |source| Error::System { step: "send", source };
        self.sends = self.sends.wrapping_add(1);
        match (self.stamps, self.enabled, &mut self.batch) {
            (Stamps::Sampled(one_in), Some(_), Some((_, matcher))) if !self.sends.is_multiple_of(one_in) => {
                socket.write_all(data).map_err(failed)?;
                matcher.sent_unstamped(data.len());
            }
            (Stamps::Sampled(_), Some(enabled), Some((_, matcher))) => {
                let at = now::<Realtime>();
                let options = SendOptions { stages: Some(enabled.stages()), ..SendOptions::default() };
                let sent = enabled.send(socket, &[IoSlice::new(data)], &options).map_err(error)?;
                matcher.sent(sent, at, ());
                socket.write_all(&data[sent..]).map_err(failed)?;
                matcher.sent_unstamped(data.len() - sent);
            }
            (_, _, Some((_, matcher))) => {
                let at = now::<Realtime>();
                socket.write_all(data).map_err(failed)?;
                matcher.sent(data.len(), at, ());
            }
            _ => socket.write_all(data).map_err(failed)?,
        }
        let every = match self.stamps {
            Stamps::None | Stamps::Unread => return Ok(()),
            Stamps::Plain => 1,
            Stamps::Unseen(every) | Stamps::Batched(every) | Stamps::Ack(every) => every,
            Stamps::Sampled(one_in) => 8 * one_in,
        };
        if self.sends.is_multiple_of(every) { self.read(socket) } else { Ok(()) }
    }

    fn read(&mut self, socket: &TcpStream) -> Result<(), Error> {
        match self.stamps {
            Stamps::Plain => return read_plainly(socket),
            Stamps::Unseen(_) => {
                take_unseen(socket);
                return Ok(());
            }
            _ => {}
        }
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
        if self.stamps == Stamps::None {
            return Ok(());
        }
        self.read(socket)?;
        // A request for nothing sets no flag.
        Request::new().enable(socket).map_err(error)?;
        read_plainly(socket)
    }
}

/// Takes everything off the error queue without a look at it.
fn take_unseen(socket: &TcpStream) {
    const MESSAGES: usize = 64;
    // SAFETY: all zeroes are valid headers: no address, no data, no control messages.
    let mut headers: [libc::mmsghdr; MESSAGES] = unsafe { std::mem::zeroed() };
    let (first, none) = (headers.as_mut_ptr(), std::ptr::null_mut());
    let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
    // SAFETY: the headers outlive the call and point to nothing.
    while unsafe { libc::recvmmsg(socket.as_raw_fd(), first, MESSAGES as _, flags as _, none) } == MESSAGES as i32 {}
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
        // SAFETY: every pointer of `message` is to memory that outlives the call, of the length
        // beside it.
        if unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, flags) } < 0 {
            return Ok(());
        }
        // SAFETY: the kernel wrote `msg_controllen` bytes there, which are no more than there are.
        let bytes = unsafe { std::slice::from_raw_parts(control.as_ptr().cast(), message.msg_controllen as _) };
        std::hint::black_box(timestamping::report(bytes, &[]).ok());
    }
}
