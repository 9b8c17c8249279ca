//! An AF_XDP socket on one receive queue: memory for frames (UMEM), the fill ring that gives the
//! kernel room, and the receive ring that gives frames back (Documentation/networking/af_xdp.rst).

use std::io;
use std::num::NonZeroUsize;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};

use machine::mapping::Mapping;
use machine::option;
use rustix::net::xdp::{SocketAddrXdp, SocketAddrXdpFlags, XdpMmapOffsets, XdpRingOffset, XdpUmemReg, XdpUmemRegFlags};
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, socket_with, sockopt};

use crate::Error;
use crate::link::Link;

/// Bytes of UMEM for each frame. One page, the largest that needs no huge pages.
pub(crate) const CHUNK: usize = 4096;
/// Bytes left in front of a frame, for the stamps that the XDP program puts there.
const HEADROOM: u32 = 64;

/// A ring that the kernel and this process share: indices that only grow, and entries at
/// `index & mask`.
struct Ring {
    mapping: Mapping,
    producer: usize,
    consumer: usize,
    entries: usize,
    flags: usize,
    mask: u32,
}

impl Ring {
    fn map(fd: &OwnedFd, offsets: &XdpRingOffset, entries: u32, entry: usize, at: u64) -> io::Result<Self> {
        let flags = offsets.flags.ok_or_else(|| io::Error::from(io::ErrorKind::Unsupported))?;
        let bytes = NonZeroUsize::new(offsets.desc as usize + entries as usize * entry);
        let bytes = bytes.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))?;
        Ok(Self {
            mapping: Mapping::of(fd.as_fd(), bytes, at)?,
            producer: offsets.producer as usize,
            consumer: offsets.consumer as usize,
            entries: offsets.desc as usize,
            flags: flags as usize,
            mask: entries - 1,
        })
    }

    fn word(&self, at: usize) -> &AtomicU32 {
        // SAFETY: the kernel gave this offset for an aligned word of the mapping, which both sides
        // access atomically.
        unsafe { &*self.mapping.at(at).cast::<AtomicU32>() }
    }

    fn entry<T>(&self, index: u32) -> *mut T {
        self.mapping.at(self.entries + (index & self.mask) as usize * size_of::<T>()).cast()
    }
}

/// The socket of one queue.
pub(crate) struct QueueSocket {
    fill: Ring,
    receive: Ring,
    // The completion ring has to be there, and is never used: nothing is sent.
    _completion: Ring,
    umem: Mapping,
    fd: OwnedFd,
    pub queue: u32,
    pub zero_copy: bool,
}

/// What a queue's socket dropped (`XDP_STATISTICS`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Dropped {
    /// The receive ring was full, or a frame did not fit a chunk.
    pub frames: u64,
}

impl QueueSocket {
    /// A socket on `queue`, which receives nothing until an XDP program redirects to it.
    pub fn open(link: &Link, queue: u32, bytes: u32, busy_poll_us: u32) -> Result<Self, Error> {
        let fd = socket()?;
        let chunks = (bytes / CHUNK as u32).clamp(64, 1 << 20);
        let chunks = if chunks.is_power_of_two() { chunks } else { chunks.next_power_of_two() / 2 };
        let umem = memory(&fd, chunks, HEADROOM)?;
        sockopt::set_xdp_umem_fill_ring_size(&fd, chunks)
            .and_then(|()| sockopt::set_xdp_umem_completion_ring_size(&fd, 64))
            .and_then(|()| sockopt::set_xdp_rx_ring_size(&fd, chunks))
            .map_err(|error| Error::system("size a ring of an AF_XDP socket")(error.into()))?;
        let offsets = offsets(&fd)?;
        let map = |of: &XdpRingOffset, entries, entry, at: u64| {
            Ring::map(&fd, of, entries, entry, at).map_err(Error::system("map a ring of an AF_XDP socket"))
        };
        let fill = map(&offsets.fr, chunks, size_of::<u64>(), libc::XDP_UMEM_PGOFF_FILL_RING)?;
        let completion = map(&offsets.cr, 64, size_of::<u64>(), libc::XDP_UMEM_PGOFF_COMPLETION_RING)?;
        let receive = map(&offsets.rx, chunks, size_of::<libc::xdp_desc>(), libc::XDP_PGOFF_RX_RING as u64)?;
        let mut this = Self { fill, receive, _completion: completion, umem, fd, queue, zero_copy: false };
        for chunk in 0..chunks {
            this.give(u64::from(chunk) * CHUNK as u64);
        }
        if busy_poll_us > 0 {
            this.busy_poll(busy_poll_us)?;
        }
        this.zero_copy = bind(&this.fd, link, queue)?;
        Ok(this)
    }

    fn busy_poll(&self, microseconds: u32) -> Result<(), Error> {
        for (name, value) in
            [(libc::SO_PREFER_BUSY_POLL, 1), (libc::SO_BUSY_POLL, microseconds), (libc::SO_BUSY_POLL_BUDGET, 64)]
        {
            option::set(self.fd.as_fd(), libc::SOL_SOCKET, name, &value)
                .map_err(Error::system("poll the driver (SO_BUSY_POLL, Linux 5.11)"))?;
        }
        Ok(())
    }

    /// What to wait on, and what the program's map of sockets takes.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Gives a chunk back to the kernel. There are as many chunks as places in the ring, so there
    /// is always one.
    fn give(&mut self, address: u64) {
        let producer = self.fill.word(self.fill.producer).load(Ordering::Relaxed);
        // SAFETY: the place is this side's until the producer's index has passed it.
        unsafe { self.fill.entry::<u64>(producer).write(address) };
        self.fill.word(self.fill.producer).store(producer.wrapping_add(1), Ordering::Release);
    }

    /// Hands the frames that are there to `each`, at most `most`: the 16 bytes of stamps in front
    /// of a frame, and its bytes.
    pub fn read(&mut self, most: usize, each: &mut dyn FnMut(&[u8; 16], &[u8])) -> usize {
        let produced = self.receive.word(self.receive.producer).load(Ordering::Acquire);
        let mut consumed = self.receive.word(self.receive.consumer).load(Ordering::Relaxed);
        let mut count = 0;
        while consumed != produced && count < most {
            // SAFETY: the place is this side's until the consumer's index has passed it.
            let descriptor = unsafe { self.receive.entry::<libc::xdp_desc>(consumed).read() };
            let (at, length) = (descriptor.addr as usize, descriptor.len as usize);
            let chunk = at - at % CHUNK;
            // The kernel says where in our memory; what would reach out of it is not read.
            if at >= chunk + 16 && at + length <= self.umem.bytes() && at % CHUNK + length <= CHUNK && length > 0 {
                // SAFETY: the chunk is ours until it is given back, and 16 bytes before `at` lie
                // within it (just checked).
                let stamps = unsafe { &*self.umem.at(at - 16).cast::<[u8; 16]>() };
                // SAFETY: as above, for `length` bytes from `at` on.
                let data = unsafe { std::slice::from_raw_parts(self.umem.at(at), length) };
                each(stamps, data);
                count += 1;
            }
            consumed = consumed.wrapping_add(1);
            self.receive.word(self.receive.consumer).store(consumed, Ordering::Release);
            self.give(chunk as u64);
        }
        count
    }

    /// Has the kernel look at the fill ring, where it asked for that or busy polling is on.
    pub fn wake(&self, always: bool) {
        let asked = self.fill.word(self.fill.flags).load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0;
        if asked || always {
            // No buffer is given; the call only makes the kernel poll the queue.
            rustix::net::recv(&self.fd, &mut [0u8; 0], RecvFlags::DONTWAIT).ok();
        }
    }

    /// What was dropped so far; `None` where the kernel does not say.
    pub fn dropped(&self) -> Option<Dropped> {
        let statistics = sockopt::xdp_statistics(&self.fd).ok()?;
        // A frame that finds no chunk counts as dropped or as one without a chunk, by the driver's
        // mode.
        let empty = if self.zero_copy { 0 } else { statistics.rx_fill_ring_empty_descs.unwrap_or(0) };
        Some(Dropped { frames: statistics.rx_dropped.max(empty) + statistics.rx_ring_full.unwrap_or(0) })
    }
}

fn socket() -> Result<OwnedFd, Error> {
    let fd = socket_with(AddressFamily::XDP, SocketType::RAW, SocketFlags::CLOEXEC, None);
    fd.map_err(|error| Error::privileged("af-xdp", "CAP_NET_RAW", "open an AF_XDP socket")(error.into()))
}

/// Memory for so many frames, with room in front of each.
fn memory(fd: &OwnedFd, chunks: u32, headroom: u32) -> Result<Mapping, Error> {
    let size = NonZeroUsize::new(chunks as usize * CHUNK).unwrap_or(NonZeroUsize::MIN);
    let umem = Mapping::anonymous(size).map_err(Error::system("get memory for frames"))?;
    let register = XdpUmemReg {
        addr: umem.at(0) as u64,
        len: umem.bytes() as u64,
        chunk_size: CHUNK as u32,
        headroom,
        flags: XdpUmemRegFlags::empty(),
        tx_metadata_len: 0,
    };
    sockopt::set_xdp_umem_reg(fd, register)
        .map_err(|error| Error::system("register memory for frames")(error.into()))?;
    Ok(umem)
}

/// Binds a socket to a queue; gives whether the driver uses our memory itself.
fn bind(fd: &OwnedFd, link: &Link, queue: u32) -> Result<bool, Error> {
    let mut refused = io::Error::from_raw_os_error(0);
    for (flags, zero_copy) in [(SocketAddrXdpFlags::XDP_ZEROCOPY, true), (SocketAddrXdpFlags::XDP_COPY, false)] {
        let address = SocketAddrXdp::new(flags | SocketAddrXdpFlags::XDP_USE_NEED_WAKEUP, link.index, queue);
        let bound =
            super::unless_busy(super::QUEUE_LEAVES, || rustix::net::bind(fd, &address).map_err(io::Error::from));
        match bound {
            Ok(()) => return Ok(zero_copy),
            Err(error) => refused = error,
        }
    }
    Err(match refused.raw_os_error() {
        Some(libc::EBUSY) => Error::Technique {
            technique: crate::Technique::AfXdp,
            interface: link.name.clone(),
            reason: format!("queue {queue} has an AF_XDP socket already; rx-ring works beside it"),
        },
        _ => Error::System { what: "bind an AF_XDP socket", source: refused },
    })
}

/// Frames that are written and not sent yet, at most.
const UNSENT: u32 = 2048;

/// A socket that sends on one queue.
pub(crate) struct SendingSocket {
    transmit: Ring,
    completion: Ring,
    // The fill ring has to be there, and is never used: nothing is received.
    _fill: Ring,
    umem: Mapping,
    fd: OwnedFd,
    /// Addresses of chunks that nothing is written in.
    free: Vec<u64>,
}

impl SendingSocket {
    /// A socket on `queue`.
    pub fn open(link: &Link, queue: u32) -> Result<Self, Error> {
        let fd = socket()?;
        let umem = memory(&fd, UNSENT, 0)?;
        sockopt::set_xdp_umem_fill_ring_size(&fd, 64)
            .and_then(|()| sockopt::set_xdp_umem_completion_ring_size(&fd, UNSENT))
            .and_then(|()| sockopt::set_xdp_tx_ring_size(&fd, UNSENT))
            .map_err(|error| Error::system("size a ring of an AF_XDP socket")(error.into()))?;
        let offsets = offsets(&fd)?;
        let map = |of: &XdpRingOffset, entries, entry, at: u64| {
            Ring::map(&fd, of, entries, entry, at).map_err(Error::system("map a ring of an AF_XDP socket"))
        };
        let fill = map(&offsets.fr, 64, size_of::<u64>(), libc::XDP_UMEM_PGOFF_FILL_RING)?;
        let completion = map(&offsets.cr, UNSENT, size_of::<u64>(), libc::XDP_UMEM_PGOFF_COMPLETION_RING)?;
        let transmit = map(&offsets.tx, UNSENT, size_of::<libc::xdp_desc>(), libc::XDP_PGOFF_TX_RING as u64)?;
        bind(&fd, link, queue)?;
        let free = (0..u64::from(UNSENT)).map(|chunk| chunk * CHUNK as u64).collect();
        Ok(Self { transmit, completion, _fill: fill, umem, fd, free })
    }

    pub fn descriptor(&self) -> &OwnedFd {
        &self.fd
    }

    /// Has `fill` write into every chunk, before anything is sent.
    pub fn each_chunk(&mut self, mut fill: impl FnMut(&mut [u8])) {
        for chunk in 0..UNSENT as usize {
            // SAFETY: the chunk lies within the memory, and is ours: nothing is sent yet.
            fill(unsafe { std::slice::from_raw_parts_mut(self.umem.at(chunk * CHUNK), CHUNK) });
        }
    }

    /// Writes a frame of `bytes` into a free chunk and its address into the ring; `false` where no
    /// chunk is free.
    pub fn lay(&mut self, bytes: usize, write: impl FnOnce(&mut [u8])) -> bool {
        if self.free.is_empty() {
            self.reclaim();
        }
        let Some(address) = self.free.pop() else { return false };
        // SAFETY: a free chunk is ours, and lies within the memory.
        write(unsafe { std::slice::from_raw_parts_mut(self.umem.at(address as usize), CHUNK) });
        let producer = self.transmit.word(self.transmit.producer).load(Ordering::Relaxed);
        let descriptor = libc::xdp_desc { addr: address, len: bytes as u32, options: 0 };
        // SAFETY: the place is this side's until the producer's index has passed it; there are as
        // many places as chunks.
        unsafe { self.transmit.entry::<libc::xdp_desc>(producer).write(descriptor) };
        self.transmit.word(self.transmit.producer).store(producer.wrapping_add(1), Ordering::Release);
        true
    }

    /// Frames that the kernel has not yet taken out of the ring.
    pub fn unsent(&self) -> u32 {
        let consumed = self.transmit.word(self.transmit.consumer).load(Ordering::Acquire);
        self.transmit.word(self.transmit.producer).load(Ordering::Relaxed).wrapping_sub(consumed)
    }

    /// Takes back the chunks of frames that are sent.
    fn reclaim(&mut self) {
        let produced = self.completion.word(self.completion.producer).load(Ordering::Acquire);
        let mut consumed = self.completion.word(self.completion.consumer).load(Ordering::Relaxed);
        while consumed != produced {
            // SAFETY: the place is this side's until the consumer's index has passed it.
            let address = unsafe { self.completion.entry::<u64>(consumed).read() };
            // What would lie outside our memory is not written to.
            if address as usize + CHUNK <= self.umem.bytes() {
                self.free.push(address - address % CHUNK as u64);
            }
            consumed = consumed.wrapping_add(1);
        }
        self.completion.word(self.completion.consumer).store(consumed, Ordering::Release);
    }
}

fn offsets(fd: &OwnedFd) -> Result<XdpMmapOffsets, Error> {
    sockopt::xdp_mmap_offsets(fd).map_err(|error| Error::system("ask for the rings of an AF_XDP socket")(error.into()))
}
