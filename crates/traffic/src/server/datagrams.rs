//! The server's UDP port: who opens a flow is given a connected socket of the same port.

use std::io;
use std::net::SocketAddr;

use rustix::net::RecvFlags;
use socket2::{Domain, Protocol, Socket, Type};

use super::accounts::Shared;
use super::listening::{SLICE, canonical};
use super::lock::lock;
use super::reflector::Reflector;
use crate::iperf3::{UDP_HELLO, UDP_HELLO_LEGACY, UDP_WELCOME};
use crate::timing;
use crate::udp::{Header, HeaderKind};

/// The payload that a UDP datagram over IPv4 can have at most.
const LARGEST: usize = 65_507;

/// A UDP socket on the server's address, beside those that are connected to peers already.
pub(super) fn bind(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.set_read_timeout(Some(SLICE))?;
    Ok(socket)
}

/// Hands flows over until the server stops.
pub(super) fn receive_loop(shared: &Shared, mut open: Socket, local: SocketAddr) {
    let reflector = Reflector::default();
    while !shared.stopping() {
        let Some((first, peer)) = receive(&open) else { continue };
        // Those that came for the same socket before it was connected to its peer follow here.
        let mut waiting = vec![(first, peer)];
        while let Some((opening, peer)) = waiting.pop() {
            let opening = match reflector.answer(opening, peer, timing::now()) {
                Ok(answer) => {
                    // Where it cannot be sent, the probe has no answer, and says so.
                    let _ = open.send_to(&answer, &peer.into());
                    continue;
                }
                Err(opening) => opening,
            };
            if !wanted(shared, &opening, peer) {
                shared.count(|c| &c.garbage);
                continue;
            }
            // The successor listens before this one is connected, so that no opening falls between.
            let Ok(next) = bind(local) else { continue };
            let mine = std::mem::replace(&mut open, next);
            if mine.connect(&peer.into()).is_err() || mine.set_nonblocking(true).is_err() {
                continue;
            }
            while let Some((other, from)) = receive(&mine) {
                if from != peer {
                    waiting.push((other, from));
                }
            }
            if mine.set_nonblocking(false).is_ok() {
                hand_over(shared, &opening, peer, mine);
            }
        }
    }
}

/// A datagram, and who sent it.
fn receive(socket: &Socket) -> Option<(Vec<u8>, SocketAddr)> {
    let mut buffer = [0; LARGEST];
    let (length, _, peer) = rustix::net::recvfrom(socket, &mut buffer[..], RecvFlags::empty()).ok()?;
    Some((buffer[..length].to_vec(), peer?.try_into().ok()?))
}

fn is_iperf3(opening: &[u8]) -> bool {
    opening == UDP_HELLO || opening == UDP_HELLO_LEGACY
}

fn wanted(shared: &Shared, opening: &[u8], peer: SocketAddr) -> bool {
    if is_iperf3(opening) {
        return lock(&shared.udp_waiting).contains_key(&canonical(peer).ip());
    }
    session_of(opening).is_some_and(|session| shared.awaits_datagrams(session, canonical(peer).ip()))
}

fn session_of(opening: &[u8]) -> Option<u64> {
    let header = Header::parse(opening).ok()?;
    (header.kind == HeaderKind::Open).then_some(header.number)
}

fn hand_over(shared: &Shared, opening: &[u8], peer: SocketAddr, socket: Socket) {
    if let Some(session) = session_of(opening) {
        if socket.send(opening).is_ok() {
            shared.hand_over_datagrams(session, socket);
        }
        return;
    }
    if is_iperf3(opening)
        && let Some(waiting) = lock(&shared.udp_waiting).get(&canonical(peer).ip())
    {
        // The client opens its next flow once it has this.
        if socket.send(&UDP_WELCOME).is_ok() {
            // One thread hands all of them over, in order.
            waiting.try_send((0, socket)).ok();
        }
    }
}
