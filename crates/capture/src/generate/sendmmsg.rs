//! `sendmmsg` on a packet socket.

use std::io;
use std::mem::zeroed;
use std::os::fd::{AsFd as _, AsRawFd as _};

use clock::Monotonic;

use super::mix::Templates;
use super::template::Mark;
use super::{GapSums, Sender};
use crate::Error;
use crate::link::Link;
use crate::packet::PacketSocket;

/// Frames of a system call.
const BATCH: usize = 64;

pub(super) struct Sendmmsg {
    socket: PacketSocket,
    templates: Templates,
    /// Places for [`BATCH`] frames, each as long as the longest.
    frames: Box<[u8]>,
    // The headers point into the vectors, and those into the frames: heap blocks that never move.
    vectors: Box<[libc::iovec]>,
    headers: Box<[libc::mmsghdr]>,
    gaps: Marks,
}

/// The gaps between send times.
#[derive(Default)]
pub(super) struct Marks {
    sums: GapSums,
    last: Option<u64>,
}

impl Marks {
    /// Takes the send time of the next frame.
    pub fn take(&mut self, sent_ns: u64) {
        if let Some(last) = self.last.replace(sent_ns) {
            self.sums.take(sent_ns.saturating_sub(last));
        }
    }

    pub const fn sums(&self) -> GapSums {
        self.sums
    }
}

impl Sendmmsg {
    pub fn open(link: &Link, templates: &Templates) -> Result<Self, Error> {
        let socket = PacketSocket::sender(link)?;
        let bytes = templates.longest();
        let mut frames: Box<[u8]> = match templates.only() {
            Some(template) => template.bytes().repeat(BATCH).into(),
            None => vec![0; bytes * BATCH].into(),
        };
        let vector = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        // SAFETY: all zeroes are a valid header: no pointers, no lengths.
        let header = unsafe { zeroed::<libc::mmsghdr>() };
        let mut vectors: Box<[libc::iovec]> = vec![vector; BATCH].into();
        let mut headers: Box<[libc::mmsghdr]> = vec![header; BATCH].into();
        for (i, (vector, header)) in vectors.iter_mut().zip(&mut headers).enumerate() {
            vector.iov_base = frames[i * bytes..].as_mut_ptr().cast();
            vector.iov_len = bytes;
            header.msg_hdr.msg_iov = std::ptr::from_mut(vector);
            header.msg_hdr.msg_iovlen = 1;
        }
        Ok(Self { socket, templates: templates.clone(), frames, vectors, headers, gaps: Marks::default() })
    }
}

impl Sender for Sendmmsg {
    fn send(&mut self, first: u64, count: u32) -> Result<u32, Error> {
        let (places, several) = (self.templates.longest(), self.templates.only().is_none());
        let now = timestamping::now::<Monotonic>().as_nanos();
        let wanted = (count as usize).min(BATCH);
        for ((id, frame), vector) in (first..).zip(self.frames.chunks_mut(places)).zip(&mut self.vectors).take(wanted) {
            let template = self.templates.of(id);
            let frame = &mut frame[..template.bytes().len()];
            if several {
                frame.copy_from_slice(template.bytes());
                vector.iov_len = frame.len();
            }
            template.write(frame, Mark { id, sent_ns: now });
        }
        let fd = self.socket.as_fd().as_raw_fd();
        // SAFETY: the headers point to frames that `self` owns, of the lengths given; the kernel
        // only reads them. rustix's headers borrow the frames, and would have to be made anew for
        // every batch.
        let sent = unsafe { libc::sendmmsg(fd, self.headers.as_mut_ptr(), wanted as libc::c_uint, 0) };
        let Ok(sent) = u32::try_from(sent) else {
            let error = io::Error::last_os_error();
            return match error.raw_os_error() {
                // The driver's queue is full.
                Some(libc::ENOBUFS | libc::EAGAIN | libc::EINTR) => Ok(0),
                _ => Err(self.socket.failure("send frames", error)),
            };
        };
        (0..sent).for_each(|_| self.gaps.take(now));
        Ok(sent)
    }

    fn batch(&self) -> u32 {
        BATCH as u32
    }

    fn gaps(&self) -> GapSums {
        self.gaps.sums()
    }
}
