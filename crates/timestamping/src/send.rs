//! Sending, with stages and an id for one send.

use std::io::{self, IoSlice};
use std::mem::zeroed;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd};

use crate::control::{SCM_TS_OPT_ID, put};
use crate::{Enabled, Error, Feature, Flags, SocketKind, Stages, address};

/// What one send asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendOptions {
    /// Stamp this send at these stages, whatever the socket's own are.
    pub stages: Option<Stages>,
    /// The id of its stamps, in place of the kernel's count (`SCM_TS_OPT_ID`, Linux 6.13; not for
    /// TCP: there ids are byte positions).
    pub id: Option<u32>,
    /// Where to, for a socket that is not connected.
    pub to: Option<SocketAddr>,
}

impl SendOptions {
    /// The control messages that say so, for programs that call `sendmsg` themselves. Empty where
    /// there is nothing to say.
    pub fn control(&self) -> Vec<u8> {
        let mut control = Vec::new();
        if let Some(stages) = self.stages {
            put(&mut control, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, &stages.flags().bits().to_ne_bytes());
        }
        if let Some(id) = self.id {
            put(&mut control, libc::SOL_SOCKET, SCM_TS_OPT_ID, &id.to_ne_bytes());
        }
        control
    }
}

impl Enabled {
    /// Sends `parts` as one write or one datagram. Gives the number of bytes taken.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where the kernel is too old for what `options` ask;
    /// [`Error::WrongSocket`] for an id on a TCP socket; [`Error::Contradiction`] for an id on a
    /// socket without ids; [`Error::System`] for what else `sendmsg` says, `WouldBlock` among it.
    pub fn send(&self, socket: impl AsFd, parts: &[IoSlice<'_>], options: &SendOptions) -> Result<usize, Error> {
        if options.id.is_some() {
            if self.kind == SocketKind::Tcp {
                return Err(Error::WrongSocket { kind: self.kind, what: "TCP's ids are byte positions" });
            }
            if !self.flags().contains(Flags::OPT_ID) {
                return Err(Error::Contradiction("an id for one send needs a socket with ids"));
            }
        }
        let name = options.to.map(address::to_kernel);
        send_message(socket.as_fd(), parts, &options.control(), name).map_err(|source| {
            // An unknown control message at SOL_SOCKET is EINVAL; a datagram send has few other
            // reasons for that.
            match (source.raw_os_error(), options.id, options.stages) {
                (Some(libc::EINVAL), Some(_), _) if !kernel_has_ts_opt_id() => {
                    Error::Unsupported { feature: Feature::TsOptId }
                }
                (Some(libc::EINVAL), None, Some(_)) if !kernel_has_per_send() => {
                    Error::Unsupported { feature: Feature::PerSend }
                }
                _ => Error::System { call: "sendmsg", source },
            }
        })
    }
}

/// `sendmsg` with these control messages, to this address; gives the number of bytes taken.
fn send_message(
    socket: BorrowedFd<'_>,
    parts: &[IoSlice<'_>],
    control: &[u8],
    mut name: Option<(libc::sockaddr_storage, libc::socklen_t)>,
) -> io::Result<usize> {
    // SAFETY: all zeroes are a valid msghdr: no address, no data, no control messages.
    let mut message: libc::msghdr = unsafe { zeroed() };
    if let Some((storage, length)) = &mut name {
        message.msg_name = std::ptr::from_mut(storage).cast();
        message.msg_namelen = *length;
    }
    message.msg_iov = parts.as_ptr().cast_mut().cast();
    message.msg_iovlen = parts.len() as _;
    if !control.is_empty() {
        message.msg_control = control.as_ptr().cast_mut().cast();
        message.msg_controllen = control.len() as _;
    }
    // SAFETY: every pointer of `message` is to memory that lives until the call returns, of the
    // length beside it; IoSlice has the layout of iovec; the kernel only reads. rustix sends no
    // such control messages.
    let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// Whether this kernel knows `SCM_TS_OPT_ID`; tried once, on a socket made for it.
pub fn kernel_has_ts_opt_id() -> bool {
    static KNOWN: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    *KNOWN.get_or_init(|| try_send(SendOptions { id: Some(0), stages: Some(Stages::SCHED), to: None }))
}

fn kernel_has_per_send() -> bool {
    try_send(SendOptions { stages: Some(Stages::SCHED), ..SendOptions::default() })
}

/// Whether a datagram from a socket to itself can be sent with these options.
fn try_send(options: SendOptions) -> bool {
    let attempt = || -> io::Result<bool> {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
        socket.connect(socket.local_addr()?)?;
        let flags = (Flags::OPT_ID | Flags::OPT_TSONLY | Flags::SOFTWARE).bits();
        crate::option::set(socket.as_fd(), libc::SOL_SOCKET, libc::SO_TIMESTAMPING, &flags)?;
        send_message(socket.as_fd(), &[], &options.control(), None).map(|_| true)
    };
    attempt().unwrap_or(false)
}
