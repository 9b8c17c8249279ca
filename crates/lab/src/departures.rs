//! When frames left their host: a ring of packet(7) on a TAP device, where the kernel notes the
//! time at which each frame reaches the device.
//!
//! A frame that waits until the path's thread is awake and reads it has been on its way since then.
//! On an idle machine that takes 50 to 200 µs, which is nothing to a long path and most of a short
//! one.

use std::io;
use std::num::NonZeroUsize;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};

use machine::mapping::Mapping;
use machine::option;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

/// So many bytes of each frame are noted, to know it again.
const NOTED: usize = 64;
/// A note in the ring: its header, its address, and the first bytes of the frame.
const SLOT: usize = 256;
/// More notes than frames fit in the queue of a TAP device (`TUN_READQ_SIZE`, 500, and twice that
/// by its `txqueuelen`), so that none is missed because the ring is full.
const SLOTS: usize = 2048;
const BLOCK: usize = 1 << 16;

/// The notes of one device.
#[derive(Debug)]
pub(crate) struct Departures {
    // Unmapped before the socket closes.
    ring: Mapping,
    _socket: OwnedFd,
    /// The note that comes next.
    next: usize,
}

impl Departures {
    /// Notes the frames that are sent on a device of this network namespace.
    ///
    /// # Errors
    /// The kernel's: no packet sockets, or no right to them.
    pub(crate) fn of_device(index: u32) -> io::Result<Self> {
        let socket = socket_with(AddressFamily::PACKET, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
        let set = |name, value: i32| option::set(socket.as_fd(), libc::SOL_PACKET, name, &value);
        set(libc::PACKET_VERSION, libc::tpacket_versions::TPACKET_V2 as i32)?;
        let request = libc::tpacket_req {
            tp_block_size: BLOCK as u32,
            tp_block_nr: (SLOT * SLOTS / BLOCK) as u32,
            tp_frame_size: SLOT as u32,
            tp_frame_nr: SLOTS as u32,
        };
        option::set(socket.as_fd(), libc::SOL_PACKET, libc::PACKET_RX_RING, &request)?;
        let ring = Mapping::of(socket.as_fd(), NonZeroUsize::new(SLOT * SLOTS).unwrap_or(NonZeroUsize::MIN), 0)?;
        let mut program = sent_alone();
        let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
        option::set(socket.as_fd(), libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)?;
        let address = libc::sockaddr_ll {
            sll_family: libc::AF_PACKET as u16,
            sll_protocol: (libc::ETH_P_ALL as u16).to_be(),
            sll_ifindex: index.cast_signed(),
            sll_hatype: 0,
            sll_pkttype: 0,
            sll_halen: 0,
            sll_addr: [0; 8],
        };
        // SAFETY: the address lives over the call, with its true size. rustix has no addresses of
        // AF_PACKET.
        let bound = unsafe {
            libc::bind(socket.as_raw_fd(), (&raw const address).cast(), size_of_val(&address) as libc::socklen_t)
        };
        if bound != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { ring, _socket: socket, next: 0 })
    }

    /// When this frame (from its Ethernet header on) reached the device, ns on the real-time clock.
    /// Frames are asked for in the order in which the device gives them: notes before it are of
    /// frames that it dropped. `None` where there is no note of it.
    pub(crate) fn of(&mut self, frame: &[u8]) -> Option<u64> {
        for _ in 0..SLOTS {
            if self.status().load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
                return None;
            }
            let noted = self.note(frame);
            self.status().store(libc::TP_STATUS_KERNEL, Ordering::Release);
            self.next = (self.next + 1) % SLOTS;
            if noted.is_some() {
                return noted;
            }
        }
        None
    }

    /// The status word of the next note, which the kernel writes last and this program hands back.
    fn status(&self) -> &AtomicU32 {
        // SAFETY: the word lies within the mapping, is aligned as slots are, and both sides access
        // it atomically.
        unsafe { &*self.ring.at(self.next * SLOT).cast::<AtomicU32>() }
    }

    /// The time of the next note, where that is of this frame.
    fn note(&self, frame: &[u8]) -> Option<u64> {
        let base = self.next * SLOT;
        // SAFETY: the header lies within a slot, which the kernel does not touch once it has handed
        // it over.
        let header = unsafe { self.ring.at(base).cast::<libc::tpacket2_hdr>().read_unaligned() };
        let (start, length) = (usize::from(header.tp_mac), header.tp_snaplen as usize);
        if header.tp_len as usize != frame.len() || start + length > SLOT || length > frame.len() || length == 0 {
            return None;
        }
        // SAFETY: the bytes lie within the slot (just checked), which stays ours until its status
        // is handed back.
        let bytes = unsafe { std::slice::from_raw_parts(self.ring.at(base + start), length) };
        (bytes == &frame[..length]).then(|| u64::from(header.tp_sec) * 1_000_000_000 + u64::from(header.tp_nsec))
    }
}

/// A filter that takes the first bytes of the frames that are sent, and nothing of those that
/// arrive.
fn sent_alone() -> [libc::sock_filter; 4] {
    let op = |code: u32, jt: u8, jf: u8, k: u32| libc::sock_filter { code: code as u16, jt, jf, k };
    let kind = (libc::SKF_AD_OFF + libc::SKF_AD_PKTTYPE).cast_unsigned();
    [
        op(libc::BPF_LD | libc::BPF_B | libc::BPF_ABS, 0, 0, kind),
        op(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, u32::from(libc::PACKET_OUTGOING)),
        op(libc::BPF_RET | libc::BPF_K, 0, 0, NOTED as u32),
        op(libc::BPF_RET | libc::BPF_K, 0, 0, 0),
    ]
}
