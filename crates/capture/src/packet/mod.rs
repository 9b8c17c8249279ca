//! Packet sockets (`AF_PACKET`, packet(7)): what the techniques that use one have in common.

pub(crate) mod messages;

use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::time::Duration;

use machine::option;
use rustix::fs::OFlags;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with, sockopt};
use socket2::{SockFilter, SockRef};

use crate::filter::{Classic, Program};
use crate::link::Link;
use crate::{Counts, Direction, Error, Options, Technique, wait};

/// A packet socket that is bound to an interface, with its filter.
pub(crate) struct PacketSocket {
    fd: OwnedFd,
    link: Link,
    counts: Counts,
}

/// `PACKET_FANOUT_HASH` with `PACKET_FANOUT_FLAG_DEFRAG`: all fragments of a packet go to one
/// receiver.
const FANOUT_BY_FLOW: u32 = 0x8000;

impl PacketSocket {
    /// A socket with filter, buffer and membership set, which receives nothing until
    /// [`PacketSocket::bind`].
    pub fn open(technique: Technique, link: &Link, options: &Options) -> Result<Self, Error> {
        let socket = Self::made(technique.name(), link)?;
        let program = match &options.filter {
            Some(filter) => Program::for_packet_socket(&link.name, filter, options.snap_length)?,
            None => Program::everything(options.snap_length),
        };
        socket.filter(&program)?;
        if options.promiscuous {
            socket.promiscuous()?;
        }
        // A frame of the loopback interface would come twice, once sent and once received; libpcap
        // too gives the second alone.
        if options.direction == Direction::In || link.loops_back {
            socket
                .set(libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1i32)
                .map_err(Error::system("leave sent frames out (PACKET_IGNORE_OUTGOING, Linux 4.20)"))?;
        }
        Ok(socket)
    }

    fn made(what: &'static str, link: &Link) -> Result<Self, Error> {
        let needs = Error::privileged(what, "CAP_NET_RAW", "open a packet socket");
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let fd = socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None);
        let fd = fd.map_err(|error| needs(error.into()))?;
        Ok(Self { fd, link: link.clone(), counts: Counts::default() })
    }

    /// A socket that sends on an interface, past the packet scheduler, and receives nothing.
    pub fn sender(link: &Link) -> Result<Self, Error> {
        let socket = Self::made("sending", link)?;
        socket
            .set(libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, &1i32)
            .map_err(Error::system("send past the packet scheduler (PACKET_QDISC_BYPASS, Linux 3.14)"))?;
        socket.bind_to(0)?;
        Ok(socket)
    }

    /// Begins to receive.
    pub fn bind(&self, options: &Options) -> Result<(), Error> {
        self.bind_to(libc::ETH_P_ALL as u16)?;
        if let Some(fanout) = options.fanout {
            let value = u32::from(fanout.group) | FANOUT_BY_FLOW << 16;
            self.set(libc::SOL_PACKET, libc::PACKET_FANOUT, &value)
                .map_err(Error::system("share an interface (PACKET_FANOUT)"))?;
        }
        Ok(())
    }

    /// Binds to the interface, to receive frames of this protocol; 0 is none.
    fn bind_to(&self, protocol: u16) -> Result<(), Error> {
        let address = libc::sockaddr_ll {
            sll_family: libc::AF_PACKET as u16,
            sll_protocol: protocol.to_be(),
            sll_ifindex: self.link.index as i32,
            sll_hatype: 0,
            sll_pkttype: 0,
            sll_halen: 0,
            sll_addr: [0; 8],
        };
        // SAFETY: the address lives over the call, with its true size. rustix has no addresses of
        // AF_PACKET.
        let result = unsafe {
            libc::bind(self.fd.as_raw_fd(), (&raw const address).cast(), size_of_val(&address) as libc::socklen_t)
        };
        if result != 0 {
            return Err(self.failed("bind a packet socket"));
        }
        Ok(())
    }

    /// Memory for messages that are not read yet. The kernel charges what it holds of a frame, not
    /// its bytes alone.
    pub fn buffer(&self, bytes: u32) -> Result<(), Error> {
        let bytes = bytes.min(i32::MAX as u32 / 2) as usize;
        sockopt::set_socket_recv_buffer_size_force(&self.fd, bytes)
            .or_else(|_| sockopt::set_socket_recv_buffer_size(&self.fd, bytes))
            .map_err(|error| Error::system("set the size of a socket's buffer")(error.into()))
    }

    /// Has system calls on the socket wait, which `io_uring` takes as leave to wait itself.
    pub fn wait_in_calls(&self) -> Result<(), Error> {
        rustix::fs::fcntl_setfl(&self.fd, OFlags::empty())
            .map_err(|error| Error::system("make a socket wait")(error.into()))
    }

    fn filter(&self, program: &Program) -> Result<(), Error> {
        let instruction = |i: &Classic| SockFilter::new(i.code, i.jump_true, i.jump_false, i.k);
        let instructions: Vec<_> = program.0.iter().map(instruction).collect();
        if u16::try_from(instructions.len()).is_err() {
            let reason = "it is longer than the kernel takes".into();
            return Err(Error::Filter { expression: String::new(), reason });
        }
        SockRef::from(&self.fd).attach_filter(&instructions).map_err(Error::system("attach a filter"))
    }

    fn promiscuous(&self) -> Result<(), Error> {
        let request = libc::packet_mreq {
            mr_ifindex: self.link.index as i32,
            mr_type: libc::PACKET_MR_PROMISC as u16,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        // The kernel undoes it when the socket is closed, whatever way the process ends.
        self.set(libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &request)
            .map_err(Error::system("receive frames for other hosts (promiscuous mode)"))
    }

    /// Sets an option of a plain type.
    pub fn set<T: Copy>(&self, level: i32, name: i32, value: &T) -> io::Result<()> {
        option::set(self.fd.as_fd(), level, name, value)
    }

    /// The error of the call that just failed; an interface that is down or away has its own kind.
    pub fn failed(&self, what: &'static str) -> Error {
        self.failure(what, io::Error::last_os_error())
    }

    /// As [`PacketSocket::failed`] for an error that was kept.
    pub fn failure(&self, what: &'static str, error: io::Error) -> Error {
        match error.raw_os_error() {
            Some(libc::ENETDOWN | libc::ENODEV | libc::ENXIO) => Error::InterfaceGone(self.link.name.clone()),
            _ => Error::System { what, source: error },
        }
    }

    /// Waits until there is something to read; false where nothing came within `time` or a signal
    /// came first.
    pub fn wait(&self, time: Duration) -> Result<bool, Error> {
        let ready = wait::readable(&[self.fd.as_fd()], time)?;
        if ready {
            self.pending()?;
        }
        Ok(ready)
    }

    /// The error that is pending on the socket, where there is one.
    fn pending(&self) -> Result<(), Error> {
        match sockopt::socket_error(&self.fd) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) | Err(error) => Err(self.failure("receive frames", error.into())),
        }
    }

    /// Adds what the kernel dropped since the last call. Reading its counters sets them back
    /// (packet(7)).
    pub fn counts(&mut self) -> Counts {
        // struct tpacket_stats_v3: packets, drops, and with a ring how often it was full.
        if let Ok([_, drops, _]) = option::words(self.fd.as_fd(), libc::SOL_PACKET, libc::PACKET_STATISTICS) {
            self.counts.dropped += u64::from(drops);
        }
        self.counts
    }

    /// Counts a frame that was handed on.
    pub fn received(&mut self, stamped: bool) {
        self.counts.received += 1;
        self.counts.unstamped += u64::from(!stamped);
    }

    /// Counts a batch of frames that was handed on.
    pub const fn received_batch(&mut self, frames: u64, unstamped: u64) {
        self.counts.received += frames;
        self.counts.unstamped += unstamped;
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
