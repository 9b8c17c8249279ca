//! The sockets that probes are sent from.

use std::io;
use std::net::{IpAddr, SocketAddr};

use socket2::{Domain, Protocol, Socket, Type};
use timestamping::{Request, Stages};

use crate::{Error, Settings};

/// A new non-blocking socket of `to`'s family.
pub(crate) fn open(to: IpAddr, kind: Type, protocol: Protocol) -> Result<Socket, Error> {
    let domain = if to.is_ipv6() { Domain::IPV6 } else { Domain::IPV4 };
    Socket::new(domain, kind.nonblocking(), Some(protocol)).map_err(|source| Error::System { call: "socket", source })
}

/// Sets the header fields of the probes' packets, and the interface that they leave by.
pub(crate) fn configure(socket: &Socket, to: IpAddr, settings: &Settings) -> Result<(), Error> {
    let v6 = to.is_ipv6();
    if let Some(ttl) = settings.ttl.map(u32::from) {
        let set = if v6 { socket.set_unicast_hops_v6(ttl) } else { socket.set_ttl_v4(ttl) };
        set.map_err(|source| Error::System { call: "setsockopt(IP_TTL)", source })?;
    }
    if let Some(dscp) = settings.dscp {
        let class = u32::from(dscp) << 2;
        let set = if v6 { socket.set_tclass_v6(class) } else { socket.set_tos_v4(class) };
        set.map_err(|source| Error::System { call: "setsockopt(IP_TOS)", source })?;
    }
    if let Some(interface) = &settings.interface {
        socket.bind_device(Some(interface.as_bytes())).map_err(|source| match source.raw_os_error() {
            Some(libc::ENODEV | libc::EINVAL) => Error::NoInterface(interface.to_owned()),
            Some(libc::EPERM) => Error::NotPermitted {
                what: "binding a socket to an interface",
                remedy: "before Linux 5.7 it takes CAP_NET_RAW: run as root",
            },
            _ => Error::System { call: "setsockopt(SO_BINDTODEVICE)", source },
        })?;
    }
    Ok(())
}

/// The stamps that a probe asks for.
pub(crate) fn request(settings: &Settings, stages: Stages) -> Request {
    let request = Request::new().transmit(stages).receive_software().icmp_errors().ttl().lenient();
    if settings.hardware { request.transmit(Stages::NIC).receive_hardware() } else { request }
}

/// Connects; a non-blocking stream socket may still be at it afterwards.
pub(crate) fn connect(socket: &Socket, to: SocketAddr) -> io::Result<()> {
    socket.connect(&to.into())
}

/// The error number with which this host refused to send a probe; `None` where it is a failure of
/// the program.
pub(crate) fn cannot_send(error: &Error) -> Option<i32> {
    let errno = error.raw_os_error()?;
    let host = [
        libc::ENETUNREACH,
        libc::EHOSTUNREACH,
        libc::ENETDOWN,
        libc::EMSGSIZE,
        libc::ENOBUFS,
        libc::EACCES,
        libc::EPERM,
        libc::EADDRNOTAVAIL,
        libc::EINVAL,
    ];
    host.contains(&errno).then_some(errno)
}

/// Bytes that fill a probe: the prober's own number and the probe's first, which distinguishes
/// answers to this probe from others.
pub(crate) fn payload(size: usize, own: u64, number: u64) -> Vec<u8> {
    let mut payload: Vec<u8> = (0..size).map(|i| i as u8).collect();
    for (to, from) in payload.iter_mut().zip(own.to_be_bytes().into_iter().chain(number.to_be_bytes())) {
        *to = from;
    }
    payload
}

/// A number that hardly any other prober has: the time, the process and the caller's stack mixed
/// (the constant is 2⁶⁴ divided by the golden ratio, which spreads neighbours).
pub(crate) fn own_number() -> u64 {
    let here = 0u8;
    let mixed = timestamping::now::<clock::Monotonic>().as_nanos() ^ (u64::from(std::process::id()) << 32);
    (mixed ^ (&raw const here as u64)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
