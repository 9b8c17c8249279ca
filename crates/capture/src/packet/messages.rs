//! Room for a batch of messages of a packet socket, laid out once, and what a message says of its
//! frame.

use std::io;
use std::mem::{offset_of, zeroed};
use std::os::fd::{AsFd, AsRawFd as _};
use std::time::Duration;

use clock::{Nanos, Source, Timestamp};
use libc::tpacket_auxdata;
use timestamping::{Control, Request, controls};

use crate::packet::PacketSocket;
use crate::{Error, Frame, Options, Stamps, Vlan};

/// Bytes for control messages: timestamps (64), auxiliary data (36 with its header), and some to
/// spare.
pub(crate) const CONTROL: usize = 160;

/// Asks for timestamps, original lengths and VLAN tags with each message.
pub(crate) fn ask(socket: &PacketSocket, stamps: Stamps) -> Result<(), Error> {
    socket.set(libc::SOL_PACKET, libc::PACKET_AUXDATA, &1i32).map_err(Error::system("ask for auxiliary data"))?;
    let mut request = Request::new();
    if stamps.software() {
        request = request.receive_software();
    }
    if stamps.hardware() {
        request = request.receive_hardware();
    }
    request.enable(socket).map_err(Error::stamping("ask for timestamps"))?;
    if stamps.software() {
        std::thread::sleep(SWITCHED_ON);
    }
    Ok(())
}

/// The first program of a machine that asks for software timestamps waits for them: the kernel
/// switches them on later, in a worker (`net_enable_timestamp`, net/core/dev.c). Frames that come
/// before that are counted as unstamped.
const SWITCHED_ON: Duration = Duration::from_millis(5);

/// The frame that a message is about: its kept bytes, control messages and sender.
pub(crate) fn frame<'a>(data: &'a [u8], control: &[u8], from: &libc::sockaddr_ll, stamps: Stamps) -> Frame<'a> {
    let mut frame = Frame {
        data,
        original_length: data.len() as u32,
        software: None,
        hardware: None,
        vlan: None,
        outgoing: from.sll_pkttype == libc::PACKET_OUTGOING,
        queue: None,
    };
    for control in controls(control) {
        match control {
            Ok(Control::Times(times)) => {
                let of = |source| move |at| Timestamp { at, source, error: Nanos::ZERO };
                frame.software = times.software.map(of(Source::Kernel)).filter(|_| stamps.software());
                let of = |source| move |at| Timestamp { at, source, error: Nanos::ZERO };
                frame.hardware = times.hardware.map(of(Source::Nic));
            }
            Ok(Control::Other { level: libc::SOL_PACKET, kind: libc::PACKET_AUXDATA, data }) => {
                auxiliary(data, &mut frame);
            }
            Ok(_) => {}
            Err(_) => break,
        }
    }
    frame
}

/// `TP_STATUS_VLAN_VALID` and `TP_STATUS_VLAN_TPID_VALID` (include/uapi/linux/if_packet.h).
pub(crate) const VLAN_VALID: u32 = 1 << 4;
pub(crate) const VLAN_PROTOCOL_VALID: u32 = 1 << 6;

/// The tag that status bits, tag control information and protocol stand for.
pub(crate) fn vlan(status: u32, control: u16, protocol: u16) -> Option<Vlan> {
    (status & VLAN_VALID != 0)
        .then_some(Vlan { protocol: if status & VLAN_PROTOCOL_VALID != 0 { protocol } else { 0x8100 }, control })
}

/// Auxiliary data: the frame's length before it was cut, and the VLAN tag that the kernel took out.
fn auxiliary(data: &[u8], frame: &mut Frame<'_>) {
    let word = |at: usize| Some(u32::from_ne_bytes(*data.get(at..)?.first_chunk()?));
    let half = |at: usize| Some(u16::from_ne_bytes(*data.get(at..)?.first_chunk()?));
    let (Some(status), Some(length), Some(tag), Some(protocol)) = (
        word(offset_of!(tpacket_auxdata, tp_status)),
        word(offset_of!(tpacket_auxdata, tp_len)),
        half(offset_of!(tpacket_auxdata, tp_vlan_tci)),
        half(offset_of!(tpacket_auxdata, tp_vlan_tpid)),
    ) else {
        return;
    };
    frame.original_length = length;
    frame.vlan = vlan(status, tag, protocol);
}

/// A batch of messages.
pub(crate) struct Messages {
    headers: Vec<libc::mmsghdr>,
    // The headers point into the next four, heap blocks that never move or grow.
    _vectors: Box<[libc::iovec]>,
    names: Box<[libc::sockaddr_ll]>,
    payload: Box<[u8]>,
    control: Box<[u64]>,
    payload_each: usize,
    stamps: Stamps,
}

// SAFETY: the raw pointers are to heap blocks that this value owns; nothing refers to the thread
// that made it.
unsafe impl Send for Messages {}

const CONTROL_WORDS: usize = CONTROL / 8;

impl Messages {
    /// Room for `count` messages of the options' snap length.
    pub fn new(count: u32, options: &Options) -> Self {
        let count = count.clamp(1, 1024) as usize;
        let payload_each = options.snap_length as usize;
        let vector = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        // SAFETY: all zeroes are a valid header: no pointers, no lengths.
        let header = unsafe { zeroed::<libc::mmsghdr>() };
        // SAFETY: all zeroes are a valid address, of no family.
        let name = unsafe { zeroed::<libc::sockaddr_ll>() };
        let mut this = Self {
            headers: vec![header; count],
            _vectors: vec![vector; count].into(),
            names: vec![name; count].into(),
            payload: vec![0; count * payload_each].into(),
            control: vec![0; count * CONTROL_WORDS].into(),
            payload_each,
            stamps: options.stamps,
        };
        for i in 0..count {
            let vector = &mut this._vectors[i];
            vector.iov_base = this.payload[i * payload_each..].as_mut_ptr().cast();
            vector.iov_len = payload_each;
            let header = &mut this.headers[i].msg_hdr;
            header.msg_iov = std::ptr::from_mut(vector);
            header.msg_iovlen = 1;
            header.msg_name = std::ptr::from_mut(&mut this.names[i]).cast();
            header.msg_control = this.control[i * CONTROL_WORDS..].as_mut_ptr().cast();
        }
        this
    }

    fn prepare(&mut self, count: usize) {
        for header in &mut self.headers[..count] {
            header.msg_hdr.msg_namelen = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
            header.msg_hdr.msg_controllen = CONTROL as _;
        }
    }

    /// One message by `recvmsg`; false where there is none.
    pub fn receive_one(&mut self, socket: &PacketSocket) -> Result<bool, Error> {
        self.prepare(1);
        let header = &raw mut self.headers[0].msg_hdr;
        // SAFETY: the header points to memory that `self` owns, of the lengths given, which the
        // kernel fills. rustix reads neither timestamps nor the addresses of AF_PACKET.
        let length = unsafe { libc::recvmsg(socket.as_fd().as_raw_fd(), header, libc::MSG_DONTWAIT) };
        match u32::try_from(length) {
            Ok(length) => {
                self.headers[0].msg_len = length;
                Ok(true)
            }
            Err(_) => nothing(socket).map(|()| false),
        }
    }

    /// Messages by `recvmmsg`, at most a batch; 0 where there is none.
    pub fn receive_batch(&mut self, socket: &PacketSocket) -> Result<usize, Error> {
        self.prepare(self.headers.len());
        // SAFETY: every header points to memory that `self` owns, of the lengths given, which the
        // kernel fills. rustix has no recvmmsg.
        let count = unsafe {
            libc::recvmmsg(
                socket.as_fd().as_raw_fd(),
                self.headers.as_mut_ptr(),
                self.headers.len() as libc::c_uint,
                libc::MSG_DONTWAIT as _,
                std::ptr::null_mut(),
            )
        };
        usize::try_from(count).or_else(|_| nothing(socket).map(|()| 0))
    }

    /// The frame of message `index` of those the last call brought.
    pub fn frame(&self, index: usize) -> Frame<'_> {
        let header = &self.headers[index];
        let data = &self.payload[index * self.payload_each..][..(header.msg_len as usize).min(self.payload_each)];
        #[allow(clippy::unnecessary_cast, reason = "as wide as the C library makes it")]
        let length = (header.msg_hdr.msg_controllen as usize).min(CONTROL);
        let words = &self.control[index * CONTROL_WORDS..][..CONTROL_WORDS];
        // SAFETY: a u64 is eight valid bytes, and `length` is at most the bytes of `words`.
        let control = unsafe { std::slice::from_raw_parts(words.as_ptr().cast::<u8>(), length) };
        frame(data, control, &self.names[index], self.stamps)
    }
}

/// After a call that brought nothing: fine where nothing was there, an error otherwise.
fn nothing(socket: &PacketSocket) -> Result<(), Error> {
    let error = io::Error::last_os_error();
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(()),
        _ => Err(socket.failure("receive frames", error)),
    }
}

/// Whether a frame carries what was asked for.
pub(crate) fn stamped(frame: &Frame<'_>, stamps: Stamps) -> bool {
    (!stamps.software() || frame.software.is_some()) && (!stamps.hardware() || frame.hardware.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of what `include/uapi/linux/if_packet.h` has at these places.
    fn read(status: u32) -> (u32, Option<Vlan>) {
        let mut data = [0xee; 20];
        data[..4].copy_from_slice(&status.to_ne_bytes());
        data[4..8].copy_from_slice(&1_514u32.to_ne_bytes());
        data[8..12].copy_from_slice(&64u32.to_ne_bytes());
        data[16..18].copy_from_slice(&0x2007u16.to_ne_bytes());
        data[18..20].copy_from_slice(&0x88a8u16.to_ne_bytes());
        // SAFETY: all zeroes are a valid address, of no family.
        let from = unsafe { zeroed::<libc::sockaddr_ll>() };
        let mut frame = frame(&[0; 64], &[], &from, Stamps::default());
        auxiliary(&data, &mut frame);
        (frame.original_length, frame.vlan)
    }

    #[test]
    fn auxiliary_data_gives_the_length_before_the_cut_and_the_tag() {
        assert_eq!(read(0), (1_514, None));
        let tag = |protocol| Some(Vlan { protocol, control: 0x2007 });
        assert_eq!(read(VLAN_VALID), (1_514, tag(0x8100)));
        assert_eq!(read(VLAN_VALID | VLAN_PROTOCOL_VALID), (1_514, tag(0x88a8)));
    }
}
