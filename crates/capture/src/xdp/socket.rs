//! An AF_XDP socket on one receive queue: memory for frames (UMEM), the fill ring that gives the kernel room, and the receive
//! ring that gives frames back (Documentation/networking/af_xdp.rst).

use std::io;
use std::num::NonZeroUsize;
use std::os::fd::{AsFd as _, AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::Error;
use crate::link::Link;
use crate::mapping::Mapping;
use crate::option;

/// Bytes of UMEM for each frame. One page, the largest that needs no huge pages.
pub(crate) const CHUNK: usize = 4096;
/// Bytes left in front of a frame, for the stamps that the XDP program puts there.
const HEADROOM: u32 = 64;

/// A ring that the kernel and this process share: indices that only grow, and entries at `index & mask`.
struct Ring {
    mapping: Mapping,
    producer: usize,
    consumer: usize,
    entries: usize,
    flags: usize,
    mask: u32,
}

impl Ring {
    fn map(fd: RawFd, offsets: &libc::xdp_ring_offset, entries: u32, entry: usize, at: i64) -> io::Result<Self> {
        let bytes = NonZeroUsize::new(offsets.desc as usize + entries as usize * entry);
        let bytes = bytes.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))?;
        Ok(Self {
            mapping: Mapping::of(fd, bytes, at)?,
            producer: offsets.producer as usize,
            consumer: offsets.consumer as usize,
            entries: offsets.desc as usize,
            flags: offsets.flags as usize,
            mask: entries - 1,
        })
    }

    fn word(&self, at: usize) -> &AtomicU32 {
        // SAFETY: the kernel gave this offset for an aligned word of the mapping, which both sides access atomically.
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
        // SAFETY: socket(2) takes numbers.
        let fd = unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
        if fd < 0 {
            let error = io::Error::last_os_error();
            let opened = Error::privileged("af-xdp", "CAP_NET_RAW", "open an AF_XDP socket");
            return Err(opened(error));
        }
        // SAFETY: a descriptor that was just made and has no other owner.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let chunks = (bytes / CHUNK as u32).clamp(64, 1 << 20);
        let chunks = if chunks.is_power_of_two() { chunks } else { chunks.next_power_of_two() / 2 };
        let size = NonZeroUsize::new(chunks as usize * CHUNK).unwrap_or(NonZeroUsize::MIN);
        let umem = Mapping::anonymous(size).map_err(Error::system("get memory for frames"))?;
        let register = libc::xdp_umem_reg {
            addr: umem.at(0) as u64,
            len: umem.bytes() as u64,
            chunk_size: CHUNK as u32,
            headroom: HEADROOM,
            flags: 0,
            tx_metadata_len: 0,
        };
        let raw = fd.as_raw_fd();
        option::set(fd.as_fd(), libc::SOL_XDP, libc::XDP_UMEM_REG, &register)
            .map_err(Error::system("register memory for frames"))?;
        for (name, entries) in
            [(libc::XDP_UMEM_FILL_RING, chunks), (libc::XDP_UMEM_COMPLETION_RING, 64), (libc::XDP_RX_RING, chunks)]
        {
            option::set(fd.as_fd(), libc::SOL_XDP, name, &entries)
                .map_err(Error::system("size a ring of an AF_XDP socket"))?;
        }
        let offsets = offsets(raw).map_err(Error::system("ask for the rings of an AF_XDP socket"))?;
        let map = |of: &libc::xdp_ring_offset, entries, entry, at: u64| {
            Ring::map(raw, of, entries, entry, at as i64).map_err(Error::system("map a ring of an AF_XDP socket"))
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
        this.zero_copy = this.bind(link)?;
        Ok(this)
    }

    /// Whether the driver writes straight into our memory.
    fn bind(&self, link: &Link) -> Result<bool, Error> {
        let mut refused = io::Error::from_raw_os_error(0);
        for (flags, zero_copy) in [(libc::XDP_ZEROCOPY, true), (libc::XDP_COPY, false)] {
            let address = libc::sockaddr_xdp {
                sxdp_family: libc::AF_XDP as u16,
                sxdp_flags: flags | libc::XDP_USE_NEED_WAKEUP,
                sxdp_ifindex: link.index,
                sxdp_queue_id: self.queue,
                sxdp_shared_umem_fd: 0,
            };
            let size = size_of_val(&address) as libc::socklen_t;
            let bound = super::unless_busy(super::QUEUE_LEAVES, || {
                // SAFETY: the address lives over the call, with its true size.
                match unsafe { libc::bind(self.fd.as_raw_fd(), (&raw const address).cast(), size) } {
                    0 => Ok(()),
                    _ => Err(io::Error::last_os_error()),
                }
            });
            match bound {
                Ok(()) => return Ok(zero_copy),
                Err(error) => refused = error,
            }
        }
        Err(match refused.raw_os_error() {
            Some(libc::EBUSY) => Error::Technique {
                technique: crate::Technique::AfXdp,
                interface: link.name.clone(),
                reason: format!("queue {} has an AF_XDP socket already; rx-ring works beside it", self.queue),
            },
            _ => Error::System { what: "bind an AF_XDP socket", source: refused },
        })
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
    pub fn descriptor(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// Gives a chunk back to the kernel. There are as many chunks as places in the ring, so there is always one.
    fn give(&mut self, address: u64) {
        let producer = self.fill.word(self.fill.producer).load(Ordering::Relaxed);
        // SAFETY: the place is this side's until the producer's index has passed it.
        unsafe { self.fill.entry::<u64>(producer).write(address) };
        self.fill.word(self.fill.producer).store(producer.wrapping_add(1), Ordering::Release);
    }

    /// Hands the frames that are there to `each`, at most `most`: the 16 bytes of stamps in front of a frame, and its bytes.
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
                // SAFETY: the chunk is ours until it is given back, and the range lies within it (just checked).
                let (stamps, data) = unsafe {
                    (&*self.umem.at(at - 16).cast::<[u8; 16]>(), std::slice::from_raw_parts(self.umem.at(at), length))
                };
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
            // SAFETY: no buffer is given; the call only makes the kernel poll the queue.
            unsafe {
                libc::recvfrom(
                    self.fd.as_raw_fd(),
                    std::ptr::null_mut(),
                    0,
                    libc::MSG_DONTWAIT,
                    std::ptr::null_mut(),
                    std::ptr::null_mut(),
                )
            };
        }
    }

    /// What was dropped so far; `None` where the kernel does not say.
    pub fn dropped(&self) -> Option<Dropped> {
        let mut statistics = [0u64; 6];
        let mut size = size_of_val(&statistics) as libc::socklen_t;
        // SAFETY: the kernel writes at most a struct xdp_statistics, six counters, of the size given.
        let result = unsafe {
            libc::getsockopt(
                self.fd.as_raw_fd(),
                libc::SOL_XDP,
                libc::XDP_STATISTICS,
                statistics.as_mut_ptr().cast(),
                &raw mut size,
            )
        };
        // rx_dropped, rx_invalid_descs, tx_invalid_descs, rx_ring_full, rx_fill_ring_empty_descs, tx_ring_empty_descs. A frame
        // that finds no chunk counts in the first or the fifth, by the driver's mode.
        let empty = if self.zero_copy { 0 } else { statistics[4] };
        (result == 0).then(|| Dropped { frames: statistics[0].max(empty) + statistics[3] })
    }
}

fn offsets(fd: RawFd) -> io::Result<libc::xdp_mmap_offsets> {
    // SAFETY: plain numbers, for which zeroes are valid.
    let mut offsets: libc::xdp_mmap_offsets = unsafe { std::mem::zeroed() };
    let mut size = size_of_val(&offsets) as libc::socklen_t;
    // SAFETY: the kernel writes one struct xdp_mmap_offsets, of the size given.
    let result = unsafe {
        libc::getsockopt(fd, libc::SOL_XDP, libc::XDP_MMAP_OFFSETS, (&raw mut offsets).cast(), &raw mut size)
    };
    if result == 0 { Ok(offsets) } else { Err(io::Error::last_os_error()) }
}
