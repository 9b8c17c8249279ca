//! Listening sockets, and the addresses of those who come.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};

/// How long the server's own threads sit in one system call.
pub(crate) const SLICE: Duration = Duration::from_millis(100);

/// A listening socket with an `accept` that returns now and then.
pub(crate) fn listener(address: SocketAddr, backlog: i32) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(backlog)?;
    socket.set_read_timeout(Some(SLICE))?;
    Ok(socket)
}

/// IPv4-mapped IPv6 addresses as IPv4.
pub(crate) fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// The address family of a peer, for options that differ by it.
pub(crate) fn family_of(peer: SocketAddr) -> IpAddr {
    peer.ip().to_canonical()
}
