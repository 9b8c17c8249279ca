//! AF_XDP: frames are written into memory that the kernel shares (UMEM), and their addresses into a
//! transmit ring. A driver in zero-copy mode sends them from there
//! (Documentation/networking/af_xdp.rst).

use std::io;

use clock::Monotonic;
use rustix::net::SendFlags;

use super::sendmmsg::Marks;
use super::template::{Mark, Template};
use super::{GapSums, Sender, emptied};
use crate::Error;
use crate::link::Link;
use crate::xdp::socket::{CHUNK, SendingSocket};

/// Frames of a call.
const BATCH: u32 = 256;
/// Times that the kernel is asked to look at the ring in one call: in copy mode it takes up to 32
/// frames each time.
const KICKS: u32 = 1_000;

pub(super) struct AfXdp {
    socket: SendingSocket,
    template: Template,
    interface: String,
    gaps: Marks,
}

impl AfXdp {
    pub fn open(link: &Link, template: &Template) -> Result<Self, Error> {
        let bytes = template.bytes().len();
        if bytes > CHUNK {
            let reason = format!("frames of {bytes} bytes do not fit into its pages of {CHUNK}");
            return Err(Error::Sending { way: "af-xdp", interface: link.name.clone(), reason });
        }
        let mut socket = SendingSocket::open(link, 0)?;
        socket.each_chunk(|chunk| chunk[..bytes].copy_from_slice(template.bytes()));
        Ok(Self { socket, template: template.clone(), interface: link.name.clone(), gaps: Marks::default() })
    }
}

impl AfXdp {
    /// Has the kernel look at the ring. What it does not take stays there for the next call.
    fn kick(&self) -> Result<(), Error> {
        // No buffer is given: the kernel sends what is laid into the ring.
        let Err(error) = rustix::net::send(self.socket.descriptor(), &[], SendFlags::DONTWAIT) else { return Ok(()) };
        let error = io::Error::from(error);
        match error.raw_os_error() {
            Some(libc::EAGAIN | libc::EBUSY | libc::ENOBUFS | libc::EINTR) => Ok(()),
            Some(libc::ENETDOWN | libc::ENXIO) => Err(Error::InterfaceGone(self.interface.clone())),
            _ => Err(Error::System { what: "send frames", source: error }),
        }
    }
}

impl Sender for AfXdp {
    fn send(&mut self, first: u64, count: u32) -> Result<u32, Error> {
        let now = timestamping::now::<Monotonic>().as_nanos();
        let (template, bytes) = (&self.template, self.template.bytes().len());
        let mut laid = 0;
        while laid < count.min(BATCH) {
            let mark = Mark { id: first + u64::from(laid), sent_ns: now };
            if !self.socket.lay(bytes, |chunk| template.write(&mut chunk[..bytes], mark)) {
                break;
            }
            laid += 1;
        }
        for _ in 0..KICKS {
            if self.socket.unsent() == 0 {
                break;
            }
            self.kick()?;
        }
        (0..laid).for_each(|_| self.gaps.take(now));
        Ok(laid)
    }

    fn finish(&mut self) -> Result<u64, Error> {
        emptied(self, |sender| sender.socket.unsent().into(), Self::kick)
    }

    fn batch(&self) -> u32 {
        BATCH
    }

    fn gaps(&self) -> GapSums {
        self.gaps.sums()
    }
}
