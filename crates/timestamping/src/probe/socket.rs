//! The sockets that probes are sent from.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use super::Settings;
use crate::{Error, Request, Stages, address, option};

/// A new non-blocking socket of `to`'s family.
pub(super) fn open(to: IpAddr, kind: i32, protocol: i32) -> Result<OwnedFd, Error> {
    let domain = if to.is_ipv6() { libc::AF_INET6 } else { libc::AF_INET };
    // SAFETY: no pointers; the descriptor is owned at once.
    let fd = unsafe { libc::socket(domain, kind | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK, protocol) };
    if fd < 0 {
        return Err(Error::last("socket"));
    }
    // SAFETY: a fresh descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Sets what the probes' packets shall look like and where they leave by.
pub(super) fn configure(socket: impl AsFd, to: IpAddr, settings: &Settings) -> Result<(), Error> {
    let fd = socket.as_fd();
    let v6 = to.is_ipv6();
    let set = |v4: i32, v6_name: i32, value: i32, call| {
        let (level, name) = if v6 { (libc::SOL_IPV6, v6_name) } else { (libc::SOL_IP, v4) };
        option::set(fd, level, name, &value).map_err(|source| Error::System { call, source })
    };
    if let Some(ttl) = settings.ttl {
        set(libc::IP_TTL, libc::IPV6_UNICAST_HOPS, ttl.into(), "setsockopt(IP_TTL)")?;
    }
    if let Some(dscp) = settings.dscp {
        set(libc::IP_TOS, libc::IPV6_TCLASS, i32::from(dscp) << 2, "setsockopt(IP_TOS)")?;
    }
    set(libc::IP_RECVTTL, libc::IPV6_RECVHOPLIMIT, 1, "setsockopt(IP_RECVTTL)")?;
    if let Some(interface) = &settings.interface {
        bind_to_interface(fd.as_raw_fd(), interface)?;
    }
    Ok(())
}

fn bind_to_interface(fd: i32, interface: &str) -> Result<(), Error> {
    // SAFETY: the name's bytes and their number; the kernel only reads.
    let rc = unsafe {
        libc::setsockopt(
            fd,
            libc::SOL_SOCKET,
            libc::SO_BINDTODEVICE,
            interface.as_ptr().cast(),
            interface.len() as libc::socklen_t,
        )
    };
    if rc == 0 {
        return Ok(());
    }
    let source = io::Error::last_os_error();
    Err(match source.raw_os_error() {
        Some(libc::ENODEV | libc::EINVAL) => Error::NoInterface(interface.to_owned()),
        Some(libc::EPERM) => Error::NotPermitted {
            what: "binding a socket to an interface",
            remedy: "before Linux 5.7 it takes CAP_NET_RAW: run as root",
        },
        _ => Error::System { call: "setsockopt(SO_BINDTODEVICE)", source },
    })
}

/// The stamps that a probe asks for.
pub(super) fn request(settings: &Settings, stages: Stages) -> Request {
    let request = Request::new().transmit(stages).receive_software().icmp_errors().lenient();
    if settings.hardware { request.transmit(Stages::NIC).receive_hardware() } else { request }
}

/// Connects; a non-blocking stream socket may still be at it afterwards.
pub(super) fn connect(socket: impl AsFd, to: SocketAddr) -> io::Result<()> {
    let (name, length) = address::to_kernel(to);
    // SAFETY: a live socket address of the given length; the kernel only reads.
    let rc = unsafe { libc::connect(socket.as_fd().as_raw_fd(), (&raw const name).cast(), length) };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// What `errno` a probe's own sending met means that this host could not send it, rather than that the program failed.
pub(super) fn cannot_send(error: &Error) -> Option<i32> {
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

/// Bytes that fill a probe: its number and a number of the prober's own first, so that strangers' answers are told apart.
pub(super) fn payload(size: usize, own: u64, number: u64) -> Vec<u8> {
    let mut payload: Vec<u8> = (0..size).map(|i| i as u8).collect();
    for (to, from) in payload.iter_mut().zip(own.to_be_bytes().into_iter().chain(number.to_be_bytes())) {
        *to = from;
    }
    payload
}

/// A number that hardly anybody else has: the time, the process and the caller's stack mixed (the constant is 2⁶⁴ divided by the
/// golden ratio, which spreads neighbours).
pub(super) fn own_number() -> u64 {
    let here = 0u8;
    let mixed = crate::now::<clock::Monotonic>().as_nanos() ^ (u64::from(std::process::id()) << 32);
    (mixed ^ (&raw const here as u64)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
