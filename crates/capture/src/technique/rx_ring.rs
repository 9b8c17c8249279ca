//! `TPACKET_V3`: a ring of blocks in memory that the kernel and this program share
//! (Documentation/networking/packet_mmap.rst).
//!
//! The kernel fills a block with frames and hands it over when it is full or its time is up; no
//! system call is needed while blocks are there.

use std::num::NonZeroUsize;
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use clock::{Instant, Nanos, Source, Timestamp};
use machine::mapping::Mapping;

use super::about;
use crate::hardware::HardwareStamps;
use crate::link::Link;
use crate::packet::PacketSocket;
use crate::packet::messages;
use crate::{About, Counts, Error, Frame, Options, Receiver, Technique};

/// The smallest block. A block holds at least one frame of the snap length with its headers.
const SMALLEST_BLOCK: usize = 1 << 20;

/// `TP_STATUS_TS_RAW_HARDWARE` (include/uapi/linux/if_packet.h). Any other timestamp of the ring is
/// the kernel's.
const STAMP_HARDWARE: u32 = 1 << 31;

pub(super) struct RxRing {
    // Unmapped before the socket closes.
    ring: Mapping,
    socket: PacketSocket,
    block_bytes: usize,
    blocks: usize,
    /// The block that comes next, or that is being read.
    block: usize,
    reading: Option<Reading>,
    /// That the interface went, to be told once everything before it is handed over.
    gone: Option<Error>,
    options: Options,
    about: About,
    _hardware: Option<HardwareStamps>,
}

/// How far a block has been read.
#[derive(Clone, Copy)]
struct Reading {
    /// Frames that are left in it.
    left: u32,
    /// Where the next one's header is, in bytes from the block's start.
    at: usize,
}

impl RxRing {
    pub fn open(link: &Link, options: &Options, hardware: Option<HardwareStamps>) -> Result<Self, Error> {
        let socket = PacketSocket::open(Technique::RxRing, link, options)?;
        let set = |name, value: i32, what| socket.set(libc::SOL_PACKET, name, &value).map_err(Error::system(what));
        set(libc::PACKET_VERSION, libc::tpacket_versions::TPACKET_V3 as i32, "use TPACKET_V3")?;
        // Without it the kernel stamps a frame when it copies it into the ring, later than it
        // could.
        messages::ask(&socket, options.stamps)?;
        if options.stamps.hardware() {
            set(libc::PACKET_TIMESTAMP, libc::SOF_TIMESTAMPING_RAW_HARDWARE as i32, "ask for hardware timestamps")?;
        }
        let block_bytes = (options.snap_length as usize + 4096).next_power_of_two().max(SMALLEST_BLOCK);
        let blocks = (options.buffer_bytes as usize / block_bytes).max(2);
        // A frame takes only the room that it needs in version 3; the frame size must still divide
        // the block.
        let frame_bytes = 2048;
        let request = libc::tpacket_req3 {
            tp_block_size: block_bytes as u32,
            tp_block_nr: blocks as u32,
            tp_frame_size: frame_bytes as u32,
            tp_frame_nr: (block_bytes / frame_bytes * blocks) as u32,
            tp_retire_blk_tov: options.hold_ms,
            tp_sizeof_priv: 0,
            tp_feature_req_word: 0,
        };
        socket.set(libc::SOL_PACKET, libc::PACKET_RX_RING, &request).map_err(Error::system("make a receive ring"))?;
        let bytes = NonZeroUsize::new(block_bytes * blocks).unwrap_or(NonZeroUsize::MIN);
        let ring = Mapping::of(socket.as_fd(), bytes, 0).map_err(Error::system("map a receive ring"))?;
        socket.bind(options)?;
        let remarks = vec![format!("a frame that comes alone waits up to {} ms for its block", 2 * options.hold_ms)];
        Ok(Self {
            ring,
            socket,
            block_bytes,
            blocks,
            block: 0,
            reading: None,
            gone: None,
            options: options.clone(),
            about: about(Technique::RxRing, link, options, remarks),
            _hardware: hardware,
        })
    }

    /// The status word of the next block, which the kernel writes last and this program hands back.
    fn status(&self) -> &AtomicU32 {
        let at = self.block * self.block_bytes + STATUS_AT;
        // SAFETY: the word lies within the mapping, is aligned as blocks are, and both sides access
        // it atomically.
        unsafe { &*self.ring.at(at).cast::<AtomicU32>() }
    }

    /// Goes to the next block if the kernel has handed it over.
    fn begin_block(&mut self) -> bool {
        if self.status().load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
            return false;
        }
        let header = self.block * self.block_bytes + BLOCK_HEADER_AT;
        // SAFETY: the block's header lies within the mapping, and the kernel does not touch a block
        // it handed over.
        let header = unsafe { self.ring.at(header).cast::<libc::tpacket_hdr_v1>().read_unaligned() };
        self.reading = Some(Reading { left: header.num_pkts, at: header.offset_to_first_pkt as usize });
        true
    }

    fn end_block(&mut self) {
        self.reading = None;
        self.status().store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.block = (self.block + 1) % self.blocks;
    }

    /// The next frame of the block that is being read, and how far it is read then.
    fn next(&self, reading: Reading) -> Option<(Frame<'_>, Reading)> {
        let base = self.block * self.block_bytes;
        let fits = |at: usize, bytes: usize| at.checked_add(bytes).is_some_and(|end| end <= self.block_bytes);
        if reading.left == 0 || !fits(reading.at, size_of::<libc::tpacket3_hdr>() + size_of::<libc::sockaddr_ll>()) {
            return None;
        }
        // SAFETY: the header lies within a block that is ours (just checked); the read asks for no
        // alignment.
        let header = unsafe { self.ring.at(base + reading.at).cast::<libc::tpacket3_hdr>().read_unaligned() };
        let address = base + reading.at + size_of::<libc::tpacket3_hdr>().next_multiple_of(libc::TPACKET_ALIGNMENT);
        // SAFETY: the address follows the header, within the block (just checked).
        let from = unsafe { self.ring.at(address).cast::<libc::sockaddr_ll>().read_unaligned() };
        let (start, length) = (reading.at + usize::from(header.tp_mac), header.tp_snaplen as usize);
        if !fits(start, length) {
            return None;
        }
        // SAFETY: the bytes lie within a block that stays ours until `end_block`, which needs
        // `&mut self`.
        let data = unsafe { std::slice::from_raw_parts(self.ring.at(base + start), length) };
        let nanos = u64::from(header.tp_sec) * 1_000_000_000 + u64::from(header.tp_nsec);
        let frame =
            Frame {
                data,
                original_length: header.tp_len,
                software: (self.options.stamps.software() && header.tp_status & STAMP_HARDWARE == 0)
                    .then(|| Timestamp { at: Instant::from_nanos(nanos), source: Source::Kernel, error: Nanos::ZERO }),
                hardware: (header.tp_status & STAMP_HARDWARE != 0).then(|| Timestamp {
                    at: Instant::from_nanos(nanos),
                    source: Source::Nic,
                    error: Nanos::ZERO,
                }),
                vlan: messages::vlan(header.tp_status, header.hv1.tp_vlan_tci as u16, header.hv1.tp_vlan_tpid),
                outgoing: from.sll_pkttype == libc::PACKET_OUTGOING,
                queue: None,
            };
        let at = reading.at + header.tp_next_offset as usize;
        Some((frame, Reading { left: reading.left - 1, at }))
    }
}

/// Where `struct tpacket_block_desc` has its status and the rest of its header: behind version and
/// private offset.
const STATUS_AT: usize = 8;
const BLOCK_HEADER_AT: usize = 8;

impl Receiver for RxRing {
    fn next_batch(&mut self, wait: Duration, each: &mut dyn FnMut(&Frame<'_>)) -> Result<usize, Error> {
        if self.reading.is_none() && !self.begin_block() {
            if let Some(gone) = self.gone.take() {
                return Err(gone);
            }
            match self.socket.wait(wait) {
                Ok(true) if self.begin_block() => {}
                Ok(_) => return Ok(0),
                Err(gone) => {
                    // The kernel hands over the block that it was filling in its time.
                    std::thread::sleep(Duration::from_millis(u64::from(2 * self.options.hold_ms) + 10));
                    self.gone = Some(gone);
                    return Ok(0);
                }
            }
        }
        let mut count = 0;
        let mut unstamped = 0u64;
        while count < self.options.batch as usize {
            let Some(reading) = self.reading else { break };
            // A block that says something impossible ends there.
            let Some((frame, next)) = self.next(reading) else {
                self.end_block();
                break;
            };
            unstamped += u64::from(!messages::stamped(&frame, self.options.stamps));
            each(&frame);
            self.reading = Some(next);
            count += 1;
            if next.left == 0 {
                self.end_block();
                if count < self.options.batch as usize && !self.begin_block() {
                    break;
                }
            }
        }
        self.socket.received_batch(count as u64, unstamped);
        Ok(count)
    }

    fn counts(&mut self) -> Counts {
        self.socket.counts()
    }

    fn about(&self) -> &About {
        &self.about
    }
}
