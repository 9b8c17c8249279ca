//! `io_uring` with a multishot `recvmsg` (Linux 6.0): one request stays in place, and each frame
//! completes it once more into a buffer that this process provided. While frames are there, no
//! system call is made.

use std::io;
use std::mem::zeroed;
use std::num::NonZeroUsize;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use io_uring::types::{BufRingEntry, Fd, RecvMsgOut, SubmitArgs, Timespec};
use io_uring::{IoUring as Ring, cqueue, opcode};
use machine::mapping::Mapping;

use super::about;
use crate::hardware::HardwareStamps;
use crate::link::Link;
use crate::packet::PacketSocket;
use crate::packet::messages::{self, CONTROL};
use crate::{About, Counts, Error, Frame, Options, Receiver, Technique};

/// The group of the buffers; there is one.
const GROUP: u16 = 0;
/// `struct io_uring_recvmsg_out`, in front of each message.
const HEAD: usize = 16;
const NAME: usize = size_of::<libc::sockaddr_ll>();

pub(super) struct IoUring {
    // The ring goes before the memory and the socket that its request uses.
    ring: Ring,
    buffers: Buffers,
    message: Box<libc::msghdr>,
    socket: PacketSocket,
    armed: bool,
    options: Options,
    about: About,
    _hardware: Option<HardwareStamps>,
}

// SAFETY: `message` has no pointer but null ones; it only gives the kernel the lengths of name and
// control messages.
unsafe impl Send for IoUring {}

/// Buffers that the kernel takes from a ring in shared memory.
struct Buffers {
    ring: Mapping,
    memory: Mapping,
    each: usize,
    count: u16,
    tail: u16,
}

impl Buffers {
    fn new(options: &Options) -> io::Result<Self> {
        let each = (HEAD + NAME + CONTROL + options.snap_length as usize).next_multiple_of(64);
        let count = (options.buffer_bytes as usize / each).clamp(16, 32_768);
        let count = 1usize << count.ilog2();
        let size = |bytes| NonZeroUsize::new(bytes).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput));
        let ring = Mapping::anonymous(size(count * size_of::<BufRingEntry>())?)?;
        let memory = Mapping::anonymous(size(count * each)?)?;
        Ok(Self { ring, memory, each, count: count as u16, tail: 0 })
    }

    fn entries(&self) -> *mut BufRingEntry {
        self.ring.at(0).cast()
    }

    /// Lays a buffer into the ring; the kernel sees it after [`Buffers::publish`].
    fn give(&mut self, number: u16) {
        let place = usize::from(self.tail & (self.count - 1));
        let entry = self.ring.at(place * size_of::<BufRingEntry>()).cast::<BufRingEntry>();
        // SAFETY: the place is within the ring of `count` entries, and this side's until the tail
        // has passed it.
        let entry = unsafe { &mut *entry };
        entry.set_addr(self.memory.at(usize::from(number) * self.each) as u64);
        entry.set_len(self.each as u32);
        entry.set_bid(number);
        self.tail = self.tail.wrapping_add(1);
    }

    fn publish(&self) {
        // SAFETY: the tail is a field of the first entry of the ring, which is mapped.
        let tail = unsafe { BufRingEntry::tail(self.entries()) };
        // SAFETY: an aligned word that both sides access atomically.
        unsafe { &*tail.cast::<AtomicU16>() }.store(self.tail, Ordering::Release);
    }

    fn bytes(&self, number: u16, length: usize) -> &[u8] {
        let start = usize::from(number % self.count) * self.each;
        // SAFETY: the kernel gave this buffer back, so it is ours until it is given again; the
        // length is cut to its size.
        unsafe { std::slice::from_raw_parts(self.memory.at(start), length.min(self.each)) }
    }
}

impl IoUring {
    pub fn open(link: &Link, options: &Options, hardware: Option<HardwareStamps>) -> Result<Self, Error> {
        let refused = |source: io::Error| match source.raw_os_error() {
            Some(libc::EPERM | libc::ENOSYS) => Error::Technique {
                technique: Technique::IoUring,
                interface: link.name.clone(),
                reason:
                    "this machine does not allow io_uring (kernel.io_uring_disabled, or a filter of system calls); \
                         use rx-ring or recvmmsg"
                        .into(),
            },
            _ => Error::System { what: "make an io_uring", source },
        };
        let socket = PacketSocket::open(Technique::IoUring, link, options)?;
        socket.buffer(options.buffer_bytes)?;
        messages::ask(&socket, options.stamps)?;
        socket.wait_in_calls()?;
        socket.bind(options)?;
        let mut buffers = Buffers::new(options).map_err(Error::system("get memory for frames"))?;
        let ring = Ring::builder().setup_cqsize(2 * u32::from(buffers.count)).build(8).map_err(refused)?;
        // SAFETY: the buffers' ring is mapped for as long as `ring` lives: fields are dropped in
        // order.
        unsafe { ring.submitter().register_buf_ring_with_flags(buffers.entries() as u64, buffers.count, GROUP, 0) }
            .map_err(Error::system("register buffers (Linux 5.19)"))?;
        for number in 0..buffers.count {
            buffers.give(number);
        }
        buffers.publish();
        // SAFETY: all zeroes are a valid msghdr.
        let mut message: Box<libc::msghdr> = Box::new(unsafe { zeroed() });
        message.msg_namelen = NAME as libc::socklen_t;
        message.msg_controllen = CONTROL as _;
        Ok(Self {
            ring,
            buffers,
            message,
            socket,
            armed: false,
            options: options.clone(),
            about: about(Technique::IoUring, link, options, Vec::new()),
            _hardware: hardware,
        })
    }

    /// Puts the request in place, where it is not: the kernel ends it when buffers run out.
    fn arm(&mut self) -> Result<(), Error> {
        if self.armed {
            return Ok(());
        }
        let fd = Fd(self.socket.as_fd().as_raw_fd());
        let request = opcode::RecvMsgMulti::new(fd, &raw const *self.message, GROUP).build();
        // SAFETY: message, socket and buffers outlive the ring, and with it the request.
        let pushed = unsafe { self.ring.submission().push(&request) };
        pushed.map_err(|e| Error::System { what: "submit a request", source: io::Error::other(e) })?;
        self.ring.submit().map_err(Error::system("submit a request"))?;
        self.armed = true;
        Ok(())
    }

    fn wait(&self, wait: Duration) -> Result<(), Error> {
        let time = Timespec::new().sec(wait.as_secs()).nsec(wait.subsec_nanos());
        match self.ring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&time)) {
            Ok(_) => Ok(()),
            Err(error) if matches!(error.raw_os_error(), Some(libc::ETIME | libc::EINTR)) => Ok(()),
            Err(error) => Err(Error::System { what: "wait for frames", source: error }),
        }
    }

    fn read(&mut self, each: &mut dyn FnMut(&Frame<'_>)) -> Result<usize, Error> {
        let Self { ring, buffers, message, socket, armed, options, .. } = self;
        let (mut count, mut unstamped) = (0, 0);
        let mut failed = None;
        for completion in ring.completion().take(options.batch as usize) {
            *armed &= cqueue::more(completion.flags());
            let Ok(length) = usize::try_from(completion.result()) else {
                match -completion.result() {
                    libc::ENOBUFS | libc::EINTR | libc::EAGAIN => {}
                    number => failed = Some(io::Error::from_raw_os_error(number)),
                }
                continue;
            };
            let Some(number) = cqueue::buffer_select(completion.flags()) else { continue };
            if let Ok(out) = RecvMsgOut::parse(buffers.bytes(number, length), message)
                && let Some(from) = sender(out.name_data())
            {
                let frame = messages::frame(out.payload_data(), out.control_data(), &from, options.stamps);
                unstamped += u64::from(!messages::stamped(&frame, options.stamps));
                each(&frame);
                count += 1;
            }
            buffers.give(number);
        }
        buffers.publish();
        socket.received_batch(count as u64, unstamped);
        failed.map_or(Ok(count), |error| Err(socket.failure("receive frames", error)))
    }
}

/// The sender's address, as the kernel laid it into a buffer.
fn sender(bytes: &[u8]) -> Option<libc::sockaddr_ll> {
    // SAFETY: there are enough bytes (checked first), any bit pattern is a sockaddr_ll, and the
    // read asks for no alignment.
    (bytes.len() >= NAME).then(|| unsafe { bytes.as_ptr().cast::<libc::sockaddr_ll>().read_unaligned() })
}

impl Receiver for IoUring {
    fn next_batch(&mut self, wait: Duration, each: &mut dyn FnMut(&Frame<'_>)) -> Result<usize, Error> {
        self.arm()?;
        let count = self.read(each)?;
        if count > 0 {
            return Ok(count);
        }
        self.arm()?;
        self.wait(wait)?;
        self.read(each)
    }

    fn counts(&mut self) -> Counts {
        self.socket.counts()
    }

    fn about(&self) -> &About {
        &self.about
    }
}
