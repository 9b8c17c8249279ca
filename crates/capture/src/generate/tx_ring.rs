//! `PACKET_TX_RING`: frames are written into memory that the kernel shares, and one system call
//! sends all that are there (Documentation/networking/packet_mmap.rst).

use std::io;
use std::num::NonZeroUsize;
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicU32, Ordering};

use clock::Monotonic;
use machine::mapping::Mapping;
use rustix::net::SendFlags;

use super::mix::Templates;
use super::sendmmsg::Marks;
use super::template::Mark;
use super::{GapSums, Sender, emptied};
use crate::Error;
use crate::link::Link;
use crate::packet::PacketSocket;

/// Frames that the ring holds.
const FRAMES: usize = 4096;
/// Frames of a system call.
const BATCH: usize = 256;
/// Where a frame's bytes begin behind its header (`TPACKET2_HDRLEN - sizeof(struct sockaddr_ll)`).
const DATA: usize = libc::TPACKET2_HDRLEN - size_of::<libc::sockaddr_ll>();

/// `TP_STATUS_*` of a transmit ring (include/uapi/linux/if_packet.h).
const AVAILABLE: u32 = 0;
const SEND_REQUEST: u32 = 1;
const WRONG_FORMAT: u32 = 4;

pub(super) struct TxRing {
    // Unmapped before the socket closes.
    ring: Mapping,
    socket: PacketSocket,
    templates: Templates,
    frame_bytes: usize,
    next: usize,
    gaps: Marks,
}

impl TxRing {
    pub fn open(link: &Link, templates: &Templates) -> Result<Self, Error> {
        let socket = PacketSocket::sender(link)?;
        let version = libc::tpacket_versions::TPACKET_V2 as i32;
        socket.set(libc::SOL_PACKET, libc::PACKET_VERSION, &version).map_err(Error::system("use TPACKET_V2"))?;
        // A frame of the wrong form is skipped rather than ending the ring.
        socket.set(libc::SOL_PACKET, libc::PACKET_LOSS, &1i32).map_err(Error::system("set PACKET_LOSS"))?;
        let frame_bytes = (libc::TPACKET2_HDRLEN + templates.longest()).next_power_of_two().max(2048);
        let block_bytes = frame_bytes.max(1 << 16);
        let request = libc::tpacket_req {
            tp_block_size: block_bytes as u32,
            tp_block_nr: (FRAMES * frame_bytes / block_bytes) as u32,
            tp_frame_size: frame_bytes as u32,
            tp_frame_nr: FRAMES as u32,
        };
        socket.set(libc::SOL_PACKET, libc::PACKET_TX_RING, &request).map_err(Error::system("make a transmit ring"))?;
        let bytes = NonZeroUsize::new(FRAMES * frame_bytes).unwrap_or(NonZeroUsize::MIN);
        let ring = Mapping::of(socket.as_fd(), bytes, 0).map_err(Error::system("map a transmit ring"))?;
        for frame in (0..FRAMES).filter(|_| templates.only().is_some()) {
            // SAFETY: a frame's place is within the ring, ours until it is sent, and as long as
            // `frame_bytes`.
            let place = unsafe { std::slice::from_raw_parts_mut(ring.at(frame * frame_bytes), frame_bytes) };
            lay(place, templates.of(0).bytes());
        }
        Ok(Self { ring, socket, templates: templates.clone(), frame_bytes, next: 0, gaps: Marks::default() })
    }

    fn status(&self, frame: usize) -> &AtomicU32 {
        // SAFETY: the status is the first word of a frame's place, aligned, and accessed atomically
        // by both sides.
        unsafe { &*self.ring.at(frame * self.frame_bytes).cast::<AtomicU32>() }
    }

    /// Has the kernel look at the ring. What it does not take stays there for the next call.
    fn kick(&self) -> Result<(), Error> {
        // No buffer is given: the kernel sends what is laid into the ring.
        match rustix::net::send(&self.socket, &[], SendFlags::DONTWAIT).map_err(io::Error::from) {
            Err(error) if !matches!(error.raw_os_error(), Some(libc::ENOBUFS | libc::EAGAIN | libc::EINTR)) => {
                Err(self.socket.failure("send frames", error))
            }
            _ => Ok(()),
        }
    }

    /// Frames that the kernel has not yet taken out of the ring.
    fn unsent(&self) -> u64 {
        (0..FRAMES).filter(|frame| self.status(*frame).load(Ordering::Acquire) == SEND_REQUEST).count() as u64
    }
}

/// Writes a frame into its place, with its length in the header; the status before that stays.
fn lay(place: &mut [u8], frame: &[u8]) {
    place[4..8].copy_from_slice(&(frame.len() as u32).to_ne_bytes());
    place[DATA..][..frame.len()].copy_from_slice(frame);
}

impl Sender for TxRing {
    fn send(&mut self, first: u64, count: u32) -> Result<u32, Error> {
        let now = timestamping::now::<Monotonic>().as_nanos();
        let mut laid = 0;
        while laid < count.min(BATCH as u32) {
            if !matches!(self.status(self.next).load(Ordering::Acquire), AVAILABLE | WRONG_FORMAT) {
                break;
            }
            let at = self.next * self.frame_bytes;
            // SAFETY: the place is ours while its status says that it is available, and as long as
            // `frame_bytes`; the status is its first word, which is not written here.
            let place = unsafe { std::slice::from_raw_parts_mut(self.ring.at(at), self.frame_bytes) };
            let id = first + u64::from(laid);
            let template = self.templates.of(id);
            if self.templates.only().is_none() {
                lay(place, template.bytes());
            }
            template.write(&mut place[DATA..][..template.bytes().len()], Mark { id, sent_ns: now });
            self.status(self.next).store(SEND_REQUEST, Ordering::Release);
            self.next = (self.next + 1) % FRAMES;
            laid += 1;
        }
        self.kick()?;
        (0..laid).for_each(|_| self.gaps.take(now));
        Ok(laid)
    }

    fn finish(&mut self) -> Result<u64, Error> {
        emptied(self, Self::unsent, Self::kick)
    }

    fn batch(&self) -> u32 {
        BATCH as u32
    }

    fn gaps(&self) -> GapSums {
        self.gaps.sums()
    }
}
