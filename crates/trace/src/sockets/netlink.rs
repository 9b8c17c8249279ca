//! sock_diag(7): the sockets of one network namespace, and a report of each that is closed.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use record::socket::Transport;
use rustix::net::netlink::{SOCK_DIAG, SocketAddrNetlink};
use rustix::net::{self, AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, sockopt};

use super::message::{DONE, ERROR, Message, messages, number, request};

/// The kernel writes at most so much at once.
const CHUNK: usize = 1 << 16;
/// Room for reports of sockets that are closed between two readings.
const ROOM: usize = 1 << 21;
/// An answer takes microseconds: whoever waits longer than this waits in vain.
const PATIENCE: Duration = Duration::from_secs(5);
/// The groups of `<linux/sock_diag.h>` that report what is closed: TCP of IPv4 and IPv6.
const CLOSED: u32 = 1 << 0 | 1 << 2;

/// Two sockets in one network namespace, which they are of wherever they are read.
#[derive(Debug)]
pub(super) struct Diagnostics {
    asks: OwnedFd,
    closed: OwnedFd,
}

impl Diagnostics {
    /// In the calling thread's network namespace.
    pub(super) fn open() -> io::Result<Self> {
        let open = |groups, flags| -> io::Result<OwnedFd> {
            let flags = SocketFlags::CLOEXEC | flags;
            let socket = net::socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, Some(SOCK_DIAG))?;
            net::bind(&socket, &SocketAddrNetlink::new(0, groups))?;
            Ok(socket)
        };
        let asks = open(0, SocketFlags::empty())?;
        sockopt::set_socket_timeout(&asks, sockopt::Timeout::Recv, Some(PATIENCE))?;
        let closed = open(CLOSED, SocketFlags::NONBLOCK)?;
        // Without the right to more the usual room has to do.
        let _ = sockopt::set_socket_recv_buffer_size_force(&closed, ROOM)
            .or_else(|_| sockopt::set_socket_recv_buffer_size(&closed, ROOM));
        Ok(Self { asks, closed })
    }

    /// Each socket of TCP and UDP. The kernel has a dump of each family and protocol.
    pub(super) fn dump(&self, each: &mut dyn FnMut(Message<'_>)) -> io::Result<()> {
        let mut buffer = vec![0; CHUNK];
        for transport in Transport::ALL {
            for family in [AddressFamily::INET, AddressFamily::INET6] {
                net::send(&self.asks, &request(family.as_raw() as u8, transport), SendFlags::empty())?;
                while !self.chunk(&mut buffer, transport, each)? {}
            }
        }
        Ok(())
    }

    /// Reads a part of an answer; gives whether it was the last.
    fn chunk(&self, buffer: &mut [u8], transport: Transport, each: &mut dyn FnMut(Message<'_>)) -> io::Result<bool> {
        let (read, _) = net::recv(&self.asks, &mut *buffer, RecvFlags::empty())?;
        for (kind, body) in messages(&buffer[..read]) {
            match kind {
                DONE => return Ok(true),
                ERROR => match number(body, 0).unwrap_or(0).cast_signed() {
                    0 => return Ok(true),
                    // A kernel without diagnostics of this kind has no such sockets to show.
                    error if -error == rustix::io::Errno::NOENT.raw_os_error() => return Ok(true),
                    error => return Err(io::Error::from_raw_os_error(-error)),
                },
                _ => each(Message { body, transport }),
            }
        }
        Ok(read == 0)
    }

    /// Each socket that was closed since the last call; gives whether none is missed.
    pub(super) fn closed(&self, each: &mut dyn FnMut(Message<'_>)) -> bool {
        let mut buffer = vec![0; CHUNK];
        let mut whole = true;
        loop {
            match net::recv(&self.closed, &mut buffer[..], RecvFlags::empty()) {
                Ok((read, _)) if read > 0 => messages(&buffer[..read])
                    .filter(|(kind, _)| !matches!(*kind, DONE | ERROR))
                    .for_each(|(_, body)| each(Message { body, transport: Transport::Tcp })),
                Err(rustix::io::Errno::NOBUFS) => whole = false,
                _ => return whole,
            }
        }
    }
}
