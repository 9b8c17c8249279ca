//! Asking a socket for timestamps, and what it then has.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with, sockopt};
use serde::{Deserialize, Serialize};

use crate::option;
use crate::{Error, Feature, Flags, SocketKind, Stages};

/// What a socket's ids count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Counting {
    /// Stamped datagrams, from 0.
    Datagrams,
    /// Bytes: the id of a send is the position of its last byte, from 0, since the request was
    /// made.
    Bytes,
}

/// Which timestamps a socket shall give. Nothing happens before [`Request::enable`].
///
/// ```
/// use std::net::UdpSocket;
/// use timestamping::{Request, Stages};
///
/// let socket = UdpSocket::bind("127.0.0.1:0")?;
/// let enabled = Request::new().transmit(Stages::SCHED | Stages::DRIVER).receive_software().enable(&socket)?;
/// assert_eq!(enabled.counting(), timestamping::Counting::Datagrams);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "a request does nothing until `enable` is called"]
pub struct Request {
    flags: Flags,
    stages: Stages,
    per_send: bool,
    with_payload: bool,
    without_ids: bool,
    lenient: bool,
    icmp_errors: bool,
    packet_info: bool,
    ttl: bool,
    count_drops: bool,
    bind_phc: Option<u32>,
}

impl Request {
    /// No timestamps yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Stamp every send at these stages. Each stamp has its send's id (`OPT_ID`, for TCP with
    /// `OPT_ID_TCP`) and comes without the payload (`OPT_TSONLY`), which is also what makes it
    /// cheap and what works where the sysctl `net.core.tstamp_allow_data` is 0.
    pub fn transmit(mut self, stages: Stages) -> Self {
        self.stages |= stages;
        self
    }

    /// Stamp only those sends that ask for it themselves ([`crate::SendOptions::stages`]):
    /// sampling. `stages` are those which sends will ask for; the socket is prepared to report
    /// them.
    pub fn transmit_per_send(mut self, stages: Stages) -> Self {
        self.per_send = true;
        self.transmit(stages)
    }

    /// Stamp what is received, where it enters the stack. The first packets after the first socket
    /// of a machine asked for this may come without: the kernel turns it on in the background.
    pub fn receive_software(mut self) -> Self {
        self.flags |= Flags::RX_SOFTWARE | Flags::SOFTWARE;
        self
    }

    /// Stamp what is received by the NIC's clock. The interface has to be set to do so:
    /// [`crate::Interface::set_hardware`].
    pub fn receive_hardware(mut self) -> Self {
        self.flags |= Flags::RX_HARDWARE | Flags::RAW_HARDWARE;
        self
    }

    /// Do not report receive stamps which only other sockets asked for (`OPT_RX_FILTER`, Linux
    /// 6.12).
    pub fn only_own_receive_stamps(mut self) -> Self {
        self.flags |= Flags::OPT_RX_FILTER;
        self
    }

    /// TCP's own figures with each stamp (`OPT_STATS`, Linux 4.11).
    pub fn stats(mut self) -> Self {
        self.flags |= Flags::OPT_STATS;
        self
    }

    /// The interface a stamped packet left or came in by: `OPT_CMSG` with `IP_PKTINFO`, and
    /// `OPT_PKTINFO`.
    pub fn packet_info(mut self) -> Self {
        self.packet_info = true;
        self.flags |= Flags::OPT_CMSG | Flags::OPT_PKTINFO;
        self
    }

    /// Loop each sent packet back with its stamp. Costs a copy; needs `net.core.tstamp_allow_data`
    /// or `CAP_NET_RAW`.
    pub fn with_payload(mut self) -> Self {
        self.with_payload = true;
        self
    }

    /// No ids: only their payload distinguishes the stamps.
    pub fn without_ids(mut self) -> Self {
        self.without_ids = true;
        self
    }

    /// Hardware stamps on the virtual PTP clock with this index (`BIND_PHC`, Linux 5.14). The
    /// socket has to be bound to the clock's interface first (`SO_BINDTODEVICE`).
    pub fn bind_phc(mut self, index: u32) -> Self {
        self.bind_phc = Some(index);
        self.flags |= Flags::BIND_PHC;
        self
    }

    /// Also put ICMP errors on the error queue (`IP_RECVERR`). Stamps come without this.
    pub fn icmp_errors(mut self) -> Self {
        self.icmp_errors = true;
        self
    }

    /// The TTL or hop limit of each received packet (`IP_RECVTTL`, `IPV6_RECVHOPLIMIT`).
    pub fn ttl(mut self) -> Self {
        self.ttl = true;
        self
    }

    /// Report with each received datagram how many the socket had to drop (`SO_RXQ_OVFL`).
    pub fn count_drops(mut self) -> Self {
        self.count_drops = true;
        self
    }

    /// Further bits, as they are in the kernel's headers.
    pub fn flags(mut self, flags: Flags) -> Self {
        self.flags |= flags;
        self
    }

    /// Where the kernel is too old for a bit, go on without it; [`Enabled::left_out`] says which.
    /// Otherwise [`Error::Unsupported`] names the first such bit.
    pub fn lenient(mut self) -> Self {
        self.lenient = true;
        self
    }

    /// All bits that this request sets on a socket of this kind.
    fn resolve(&self, kind: SocketKind) -> Result<Flags, Error> {
        let mut flags = self.flags;
        if !self.stages.is_empty() {
            if kind != SocketKind::Tcp && self.stages.contains(Stages::ACK) {
                return Err(Error::WrongSocket { kind, what: "the stage `ack` is TCP's" });
            }
            if !self.per_send {
                flags |= self.stages.flags();
            }
            if self.stages.contains(Stages::NIC) {
                flags |= Flags::RAW_HARDWARE;
            }
            if !(self.stages - Stages::NIC).is_empty() {
                flags |= Flags::SOFTWARE;
            }
            if self.stages.contains(Stages::NIC | Stages::DRIVER) {
                flags |= Flags::OPT_TX_SWHW;
            }
            if !self.without_ids {
                flags |= Flags::OPT_ID;
                if kind == SocketKind::Tcp {
                    flags |= Flags::OPT_ID_TCP;
                }
            }
            if !self.with_payload {
                flags |= Flags::OPT_TSONLY;
            }
        }
        if flags.contains(Flags::OPT_STATS) {
            if kind != SocketKind::Tcp {
                return Err(Error::WrongSocket { kind, what: "TCP's figures (`stats`) are TCP's" });
            }
            if self.with_payload {
                return Err(Error::Contradiction("`stats` comes in place of the payload: do not ask `with_payload`"));
            }
            flags |= Flags::OPT_TSONLY;
        }
        Ok(flags)
    }

    /// Sets the options on `socket`. To ask again with other flags, call it again: the ids begin
    /// anew only where the socket had none.
    ///
    /// # Errors
    /// [`Error::Unsupported`] with the option's name and version where the kernel has not got it,
    /// found by trying the option by itself; [`Error::NotConnected`] for a TCP socket without a
    /// connection; [`Error::WrongSocket`] and [`Error::Contradiction`] for what no kernel can do;
    /// [`Error::System`] for the rest.
    pub fn enable(&self, socket: impl AsFd) -> Result<Enabled, Error> {
        let fd = socket.as_fd();
        let (kind, v6) = identify(fd)?;
        let mut flags = self.resolve(kind)?;
        let mut left_out = Flags::empty();
        loop {
            match set_flags(fd, flags, self.bind_phc) {
                Ok(()) => break,
                Err(e) if e.raw_os_error() == Some(libc::EINVAL) => {
                    if flags.contains(Flags::OPT_ID) && kind == SocketKind::Tcp && !is_connected(fd) {
                        return Err(Error::NotConnected);
                    }
                    let Some(refused) = first_refused(fd, flags) else {
                        return Err(Error::System { call: "setsockopt(SO_TIMESTAMPING)", source: e });
                    };
                    if !self.lenient {
                        return Err(Error::Unsupported { feature: Feature::Flag(refused) });
                    }
                    left_out |= refused;
                    flags -= refused;
                }
                Err(source) => return Err(Error::System { call: "setsockopt(SO_TIMESTAMPING)", source }),
            }
        }
        self.set_companions(fd, kind, v6)?;
        let stages = Stages::all().stages().map(Stages::from).filter(|s| !left_out.intersects(s.flags())).collect();
        Ok(Enabled { kind, flags, left_out, stages: self.stages & stages, per_send: self.per_send })
    }

    /// The options beside `SO_TIMESTAMPING`.
    fn set_companions(&self, fd: BorrowedFd<'_>, kind: SocketKind, v6: bool) -> Result<(), Error> {
        let on = 1i32;
        let ip = !matches!(kind, SocketKind::Packet | SocketKind::Other);
        // An IPv6 socket may carry IPv4 too; its errors and interfaces follow the IPv4 options.
        let set = |v4_name, v6_name, call| -> Result<(), Error> {
            let v4 = option::set(fd, libc::SOL_IP, v4_name, &on);
            let result = if v6 { option::set(fd, libc::SOL_IPV6, v6_name, &on) } else { v4 };
            result.map_err(|source| Error::System { call, source })
        };
        if self.icmp_errors && ip {
            set(libc::IP_RECVERR, libc::IPV6_RECVERR, "setsockopt(IP_RECVERR)")?;
        }
        if self.packet_info && ip {
            set(libc::IP_PKTINFO, libc::IPV6_RECVPKTINFO, "setsockopt(IP_PKTINFO)")?;
        }
        if self.ttl && ip {
            set(libc::IP_RECVTTL, libc::IPV6_RECVHOPLIMIT, "setsockopt(IP_RECVTTL)")?;
        }
        if self.count_drops {
            option::set(fd, libc::SOL_SOCKET, libc::SO_RXQ_OVFL, &on)
                .map_err(|source| Error::System { call: "setsockopt(SO_RXQ_OVFL)", source })?;
        }
        Ok(())
    }
}

/// `struct so_timestamping`. A kernel before 5.14 reads the first number only.
#[repr(C)]
#[derive(Clone, Copy)]
struct SoTimestamping {
    flags: u32,
    bind_phc: i32,
}

fn set_flags(fd: BorrowedFd<'_>, flags: Flags, bind_phc: Option<u32>) -> io::Result<()> {
    let value = SoTimestamping { flags: flags.bits(), bind_phc: bind_phc.unwrap_or(0) as i32 };
    option::set(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, &value)
}

/// The first of `flags` that the kernel does not know.
fn first_refused(fd: BorrowedFd<'_>, flags: Flags) -> Option<Flags> {
    let domain = sockopt::socket_domain(fd).ok()?;
    let ip = matches!(domain, AddressFamily::INET | AddressFamily::INET6);
    let scratch = scratch(if ip { domain } else { AddressFamily::INET }).ok()?;
    flags.iter().find(|flag| is_refused(scratch.as_fd(), *flag))
}

/// A datagram socket to try an option on, so that the caller's stays as it is.
fn scratch(domain: AddressFamily) -> io::Result<OwnedFd> {
    Ok(socket_with(domain, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?)
}

/// Whether the kernel does not know this flag. An unknown bit is EINVAL. A known one that wants
/// more of the socket is another error: BIND_PHC on a socket that is bound to no interface, as
/// `scratch` is, is EOPNOTSUPP.
fn is_refused(scratch: BorrowedFd<'_>, flag: Flags) -> bool {
    let alone = set_flags(scratch, flag | flag.prerequisites(), None);
    alone.is_err_and(|e| e.raw_os_error() == Some(libc::EINVAL))
}

impl Flags {
    /// The bits that the running kernel knows, each tried by itself on a socket made for it.
    ///
    /// # Errors
    /// [`Error::System`] where no socket can be made.
    pub fn supported() -> Result<Self, Error> {
        let scratch =
            scratch(AddressFamily::INET).map_err(|source| Error::System { call: "socket(AF_INET)", source })?;
        Ok(Self::all().iter().filter(|flag| !is_refused(scratch.as_fd(), *flag)).collect())
    }
}

fn is_connected(fd: BorrowedFd<'_>) -> bool {
    // TCP_INFO begins with tcpi_state; CLOSE is 7 and LISTEN 10 (include/net/tcp_states.h).
    option::get::<[u32; 1]>(fd, libc::IPPROTO_TCP, libc::TCP_INFO)
        .is_ok_and(|(info, _)| !matches!(info[0].to_ne_bytes()[0], 7 | 10))
}

/// The socket's kind, and whether it is an IPv6 one.
fn identify(fd: BorrowedFd<'_>) -> Result<(SocketKind, bool), Error> {
    let failed = |call| move |e: rustix::io::Errno| Error::System { call, source: e.into() };
    let domain = sockopt::socket_domain(fd).map_err(failed("getsockopt(SO_DOMAIN)"))?;
    let kind = sockopt::socket_type(fd).map_err(failed("getsockopt(SO_TYPE)"))?;
    let protocol = sockopt::socket_protocol(fd).map_err(failed("getsockopt(SO_PROTOCOL)"))?;
    let protocol = protocol.map_or(0, |p| p.as_raw().get() as i32);
    let kind = match (domain, kind, protocol) {
        (AddressFamily::INET | AddressFamily::INET6, SocketType::STREAM, libc::IPPROTO_TCP) => SocketKind::Tcp,
        (AddressFamily::INET | AddressFamily::INET6, SocketType::DGRAM, libc::IPPROTO_UDP | libc::IPPROTO_UDPLITE) => {
            SocketKind::Udp
        }
        (AddressFamily::INET | AddressFamily::INET6, SocketType::DGRAM, libc::IPPROTO_ICMP | libc::IPPROTO_ICMPV6) => {
            SocketKind::Ping
        }
        (AddressFamily::INET | AddressFamily::INET6, SocketType::RAW, _) => SocketKind::Raw,
        (AddressFamily::PACKET, ..) => SocketKind::Packet,
        _ => SocketKind::Other,
    };
    Ok((kind, domain == AddressFamily::INET6))
}

/// What [`Request::enable`] has set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Enabled {
    pub(crate) kind: SocketKind,
    flags: Flags,
    left_out: Flags,
    stages: Stages,
    pub(crate) per_send: bool,
}

impl Enabled {
    /// What the socket is.
    pub const fn kind(&self) -> SocketKind {
        self.kind
    }

    /// What its ids count.
    pub const fn counting(&self) -> Counting {
        match self.kind {
            SocketKind::Tcp => Counting::Bytes,
            _ => Counting::Datagrams,
        }
    }

    /// The bits in force.
    pub const fn flags(&self) -> Flags {
        self.flags
    }

    /// The bits that the kernel has not got and that a lenient request went on without.
    pub const fn left_out(&self) -> Flags {
        self.left_out
    }

    /// The stages that stamps will come for: of every send, or of those that ask.
    pub const fn stages(&self) -> Stages {
        self.stages
    }
}

/// What a socket holds and has dropped (`SO_MEMINFO`, Linux 4.12).
///
/// Packets count with all that the kernel keeps for them, not with their payload alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SocketMemory {
    /// Held by what waits to be read: the receive queue and the error queue together.
    pub receive_used_bytes: u32,
    /// The limit for it: tuned by the kernel unless `SO_RCVBUF` is set. A stamp that would go
    /// beyond is not queued, and nothing counts it but its missing id.
    pub receive_buffer_bytes: u32,
    /// Held by what is written and not acknowledged.
    pub send_used_bytes: u32,
    /// The limit for it.
    pub send_buffer_bytes: u32,
    /// Charged to the socket ahead of use.
    pub forward_bytes: u32,
    /// Packets this socket dropped since its receive buffer was full. Stamps are not among them.
    pub drops: u32,
}

/// Reads what `socket` holds and has dropped.
///
/// # Errors
/// [`Error::Unsupported`] before Linux 4.12, [`Error::System`] for what is no socket.
pub fn socket_memory(socket: impl AsFd) -> Result<SocketMemory, Error> {
    match option::get::<[u32; 9]>(socket.as_fd(), libc::SOL_SOCKET, libc::SO_MEMINFO) {
        Ok((m, length)) if length >= 36 => Ok(SocketMemory {
            receive_used_bytes: m[libc::SK_MEMINFO_RMEM_ALLOC as usize],
            receive_buffer_bytes: m[libc::SK_MEMINFO_RCVBUF as usize],
            send_used_bytes: m[libc::SK_MEMINFO_WMEM_QUEUED as usize],
            send_buffer_bytes: m[libc::SK_MEMINFO_SNDBUF as usize],
            forward_bytes: m[libc::SK_MEMINFO_FWD_ALLOC as usize],
            drops: m[libc::SK_MEMINFO_DROPS as usize],
        }),
        Err(e) if e.raw_os_error() != Some(libc::ENOPROTOOPT) => {
            Err(Error::System { call: "getsockopt(SO_MEMINFO)", source: e })
        }
        _ => Err(Error::Unsupported { feature: Feature::MemInfo }),
    }
}

/// A bound for what one stamp takes of the receive buffer, in bytes: an `sk_buff` without data and
/// its `skb_shared_info`, each from a slab cache of the next size. On Linux 6.18 it is 832.
const STAMP_TRUESIZE: u32 = 1024;

/// Makes room on `socket` for this many waiting stamps (sends in a batch × stages), by way of its
/// receive buffer; gives how many there is room for, which may be fewer without `CAP_NET_ADMIN`
/// (the sysctl `net.core.rmem_max` is the limit). A larger buffer is left as it is.
///
/// On a TCP socket this also fixes the receive window, which the kernel otherwise tunes: fine for
/// one that mostly sends.
///
/// # Errors
/// [`Error::Unsupported`] before Linux 4.12, [`Error::System`] for what is no socket.
pub fn reserve_stamps(socket: impl AsFd, stamps: u32) -> Result<u32, Error> {
    let fd = socket.as_fd();
    let bytes = stamps.saturating_mul(STAMP_TRUESIZE);
    if socket_memory(fd)?.receive_buffer_bytes < bytes {
        // The kernel doubles what it is given, for its own overhead (socket(7)).
        let half = bytes as usize / 2;
        sockopt::set_socket_recv_buffer_size_force(fd, half)
            .or_else(|_| sockopt::set_socket_recv_buffer_size(fd, half))
            .map_err(|e| Error::System { call: "setsockopt(SO_RCVBUF)", source: e.into() })?;
    }
    Ok(socket_memory(fd)?.receive_buffer_bytes / STAMP_TRUESIZE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn bytes_not_yet_read_take_memory() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut a = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (b, _) = listener.accept().unwrap();
        assert_eq!(socket_memory(&b).unwrap().receive_used_bytes, 0);
        a.write_all(&[0; 5_000]).unwrap();
        let mut one = [0];
        b.peek(&mut one).unwrap();
        let memory = socket_memory(&b).unwrap();
        assert!(memory.receive_used_bytes >= 5_000, "{memory:?}");
        assert_eq!(memory.receive_buffer_bytes as usize, sockopt::socket_recv_buffer_size(&b).unwrap());
        assert_eq!(memory.send_buffer_bytes as usize, sockopt::socket_send_buffer_size(&b).unwrap());
    }
}
