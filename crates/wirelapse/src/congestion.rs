//! Congestion controls that only who administers the network may set on a socket, for a process
//! that gives that right up.
//!
//! The kernel has such ones beside those of the sysctl `tcp_allowed_congestion_control`, for every
//! network namespace alike. A second process keeps the right, and does nothing with it but set a
//! congestion control on the sockets that it is handed.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, PoisonError};

use anyhow::Context as _;
use machine::keeper::Keeper;
use rights::Kept;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg, sockopt,
};
use rustix::thread::CapabilitySet;

/// The congestion controls that the kernel has and does not allow everyone.
fn restricted() -> bool {
    let list = |name: &str| {
        let path = format!("/proc/sys/net/ipv4/tcp_{name}_congestion_control");
        std::fs::read_to_string(path).unwrap_or_default()
    };
    let (available, allowed) = (list("available"), list("allowed"));
    available.split_whitespace().any(|name| !allowed.split_whitespace().any(|known| known == name))
}

/// Has all congestion controls set by a process that keeps the right to, where this one has it and
/// some of them take it. To be called while this process has one thread.
///
/// # Errors
/// Where that process cannot be started.
pub fn keep_the_right_to_set() -> anyhow::Result<()> {
    let may = rustix::thread::capabilities(None).is_ok_and(|have| have.effective.contains(CapabilitySet::NET_ADMIN));
    if !may || !restricted() {
        return Ok(());
    }
    let (ours, theirs) = UnixStream::pair().context("cannot make a socket pair")?;
    let limit = || {
        let kept = Kept { capabilities: CapabilitySet::NET_ADMIN, ..Kept::NOTHING };
        rights::keep_only(&kept).map_err(io::Error::other)
    };
    let inner = theirs.as_fd().as_raw_fd();
    let serve = move |name: String| {
        let socket = received(&theirs)?;
        Ok(sockopt::set_tcp_congestion(&socket, &name)?)
    };
    let keeper = Keeper::<String, ()>::fork(c"congestion", &[inner], limit, serve)
        .context("cannot start the process that sets congestion controls")?;
    let ours = Mutex::new(ours);
    traffic::set_congestion_by(Box::new(move |socket, name| {
        let ours = ours.lock().unwrap_or_else(PoisonError::into_inner);
        hand_over(&ours, socket)?;
        keeper.ask(&name.to_owned()).map_err(io::Error::other)
    }));
    Ok(())
}

/// Sends a descriptor over a socket, with a byte that carries it.
fn hand_over(to: &UnixStream, socket: BorrowedFd<'_>) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut message = SendAncillaryBuffer::new(&mut space);
    let handed = [socket];
    if !message.push(SendAncillaryMessage::ScmRights(&handed)) {
        return Err(io::Error::other("there is no room for a descriptor"));
    }
    sendmsg(to, &[IoSlice::new(&[0])], &mut message, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// The descriptor that was sent next.
fn received(from: &UnixStream) -> io::Result<OwnedFd> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut message = RecvAncillaryBuffer::new(&mut space);
    recvmsg(from, &mut [IoSliceMut::new(&mut [0])], &mut message, RecvFlags::CMSG_CLOEXEC)?;
    let handed = message.drain().find_map(|part| match part {
        RecvAncillaryMessage::ScmRights(mut handed) => handed.next(),
        _ => None,
    });
    handed.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "no socket came with the request"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_handed_over() {
        let (one, other) = UnixStream::pair().unwrap();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        hand_over(&one, listener.as_fd()).unwrap();
        let handed = std::net::TcpListener::from(received(&other).unwrap());
        assert_eq!(handed.local_addr().unwrap(), listener.local_addr().unwrap());
        drop(one);
        assert!(received(&other).is_err());
    }
}
