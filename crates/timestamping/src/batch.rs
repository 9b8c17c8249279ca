//! Reading many messages with one system call.

use std::io;
use std::mem::zeroed;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::{ParseError, address};

/// Room for a batch of messages, laid out once and used again for every `recvmmsg`.
pub(crate) struct Batch {
    headers: Vec<libc::mmsghdr>,
    // The headers point into the next four. Their heap blocks never move or grow.
    _vectors: Box<[libc::iovec]>,
    names: Box<[libc::sockaddr_storage]>,
    payload: Box<[u8]>,
    control: Box<[u64]>,
    payload_each: usize,
    control_each: usize,
    /// Room for the address of who sent, where that is asked for.
    name_each: libc::socklen_t,
    /// How many headers the last call changed.
    used: usize,
}

// SAFETY: the raw pointers are to heap blocks that this value owns; nothing refers to the thread
// that made it.
unsafe impl Send for Batch {}

/// One message of a batch.
#[derive(Clone, Copy)]
pub(crate) struct Message<'a> {
    pub control: &'a [u8],
    pub payload: &'a [u8],
    pub payload_cut: bool,
    control_cut: bool,
    name: &'a libc::sockaddr_storage,
    name_length: libc::socklen_t,
}

impl Message<'_> {
    /// An error where the kernel had more control messages than there was room for.
    pub fn whole_control(&self) -> Result<(), ParseError> {
        let have = self.control.len();
        if self.control_cut {
            return Err(ParseError::Truncated { what: "the control messages", offset: have, need: have + 1, have });
        }
        Ok(())
    }

    pub fn address(&self) -> Option<SocketAddr> {
        (self.name_length > 0).then(|| address::from_kernel(self.name)).flatten()
    }
}

impl Batch {
    /// Room for `messages` of up to `payload` bytes and `control` bytes of control messages each,
    /// with who sent it where `names`. What there is no room for the kernel does not look at
    /// either, which it would for every message.
    pub fn new(messages: usize, payload: usize, control: usize, names: bool) -> Self {
        let messages = messages.clamp(1, 1024);
        // Control messages are read as aligned structures by the kernel: whole words.
        let words = control.div_ceil(8).max(4);
        let vector = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        // SAFETY: all zeroes are a valid mmsghdr: no pointers, no lengths.
        let header: libc::mmsghdr = unsafe { zeroed() };
        // SAFETY: all zeroes are a valid sockaddr_storage, of no family.
        let name: libc::sockaddr_storage = unsafe { zeroed() };
        let mut batch = Self {
            headers: vec![header; messages],
            _vectors: vec![vector; messages].into(),
            names: vec![name; messages].into(),
            payload: vec![0; messages * payload].into(),
            control: vec![0; messages * words].into(),
            payload_each: payload,
            control_each: words * 8,
            name_each: if names { size_of::<libc::sockaddr_storage>() as libc::socklen_t } else { 0 },
            used: messages,
        };
        for i in 0..messages {
            let vector = &mut batch._vectors[i];
            vector.iov_base = batch.payload[i * payload..].as_mut_ptr().cast();
            vector.iov_len = payload;
            let header = &mut batch.headers[i].msg_hdr;
            header.msg_iov = std::ptr::from_mut(vector);
            header.msg_iovlen = usize::from(payload > 0) as _;
            if names {
                header.msg_name = std::ptr::from_mut(&mut batch.names[i]).cast();
            }
            header.msg_control = batch.control[i * words..].as_mut_ptr().cast();
        }
        batch
    }

    /// How many messages one call can bring.
    pub fn capacity(&self) -> usize {
        self.headers.len()
    }

    /// Receives what is there, at most a batch; 0 where nothing is and the call does not wait.
    pub fn receive(&mut self, fd: BorrowedFd<'_>, flags: i32) -> io::Result<usize> {
        for header in &mut self.headers[..self.used] {
            header.msg_hdr.msg_namelen = self.name_each;
            header.msg_hdr.msg_controllen = self.control_each as _;
        }
        self.used = 0;
        // SAFETY: every header points to memory that `self` owns, of the lengths given, which the
        // kernel fills. rustix has no recvmmsg, and reads no timestamps.
        let count = unsafe {
            libc::recvmmsg(
                fd.as_raw_fd(),
                self.headers.as_mut_ptr(),
                self.headers.len() as libc::c_uint,
                flags as _,
                std::ptr::null_mut(),
            )
        };
        match usize::try_from(count) {
            Ok(count) => {
                // recvmmsg may have begun to fill one more header before it found the queue empty.
                self.used = (count + 1).min(self.headers.len());
                Ok(count)
            }
            Err(_) => {
                self.used = self.headers.len();
                let error = io::Error::last_os_error();
                if error.kind() == io::ErrorKind::WouldBlock { Ok(0) } else { Err(error) }
            }
        }
    }

    /// The message at `index` of those the last call brought.
    pub fn message(&self, index: usize) -> Message<'_> {
        let header = &self.headers[index];
        let length = header.msg_len as usize;
        let start = index * self.payload_each;
        let words = self.control_each / 8;
        let control = &self.control[index * words..][..words];
        #[allow(clippy::unnecessary_cast, reason = "as wide as the C library makes it")]
        let control_length = (header.msg_hdr.msg_controllen as usize).min(self.control_each);
        // SAFETY: a u64 is eight valid bytes, and the length is cut to the bytes of these.
        let control = unsafe { std::slice::from_raw_parts(control.as_ptr().cast::<u8>(), control_length) };
        Message {
            control,
            payload: &self.payload[start..start + length.min(self.payload_each)],
            payload_cut: header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
            control_cut: header.msg_hdr.msg_flags & libc::MSG_CTRUNC != 0,
            name: &self.names[index],
            name_length: header.msg_hdr.msg_namelen,
        }
    }
}
