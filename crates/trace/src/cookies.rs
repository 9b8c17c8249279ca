//! Cookies of sockets: the number by which a connection is known. A socket has one once someone has
//! asked for it. Before Linux 5.12 no program of an iterator can, but a dump of the sockets does
//! (sock_diag(7)).

use std::io;
use std::os::fd::OwnedFd;

use rustix::net::{self, AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink};

use crate::Error;

/// What it does, in errors.
const NUMBER: &str = "cannot have the kernel number the sockets that are there (sock_diag, module tcp_diag)";

/// `<linux/netlink.h>` and `<linux/sock_diag.h>`.
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLM_F_REQUEST_DUMP: u16 = 0x301;
const IPPROTO_TCP: u8 = 6;
/// `struct nlmsghdr`, and that with `struct inet_diag_req_v2` of `<linux/inet_diag.h>` behind it.
const HEADER: usize = 16;
const REQUEST: usize = HEADER + 56;

/// Gives each TCP socket of the calling thread's network namespace a cookie.
///
/// # Errors
/// The kernel's refusal.
pub(crate) fn give() -> Result<(), Error> {
    [AddressFamily::INET, AddressFamily::INET6].into_iter().try_for_each(dump).map_err(Error::system(NUMBER))
}

fn dump(family: AddressFamily) -> io::Result<()> {
    let socket =
        net::socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, Some(netlink::SOCK_DIAG))?;
    net::send(&socket, &request(family), SendFlags::empty())?;
    read_to_end(&socket)
}

/// Asks for all sockets of a family, in every state.
fn request(family: AddressFamily) -> [u8; REQUEST] {
    let mut request = [0; REQUEST];
    request[..4].copy_from_slice(&(REQUEST as u32).to_ne_bytes());
    request[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    request[6..8].copy_from_slice(&NLM_F_REQUEST_DUMP.to_ne_bytes());
    request[HEADER] = family.as_raw() as u8;
    request[HEADER + 1] = IPPROTO_TCP;
    request[HEADER + 4..HEADER + 8].fill(0xff);
    request
}

fn read_to_end(socket: &OwnedFd) -> io::Result<()> {
    let mut datagram = vec![0; 32 << 10];
    loop {
        let (length, _) = net::recv(socket, &mut datagram, RecvFlags::empty())?;
        if over(&datagram[..length])? {
            return Ok(());
        }
    }
}

/// Whether the dump ends in this datagram.
fn over(mut datagram: &[u8]) -> io::Result<bool> {
    while let Some((header, _)) = datagram.split_first_chunk::<HEADER>() {
        let length = u32::from_ne_bytes([header[0], header[1], header[2], header[3]]) as usize;
        match u16::from_ne_bytes([header[4], header[5]]) {
            NLMSG_DONE => return Ok(true),
            NLMSG_ERROR => {
                let code = datagram.get(HEADER..HEADER + 4).and_then(|code| code.try_into().ok());
                return Err(io::Error::from_raw_os_error(code.map_or(0, i32::from_ne_bytes).wrapping_neg()));
            }
            _ => {}
        }
        let next = length.max(HEADER).next_multiple_of(4);
        datagram = datagram.get(next..).unwrap_or_default();
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u16, body: &[u8]) -> Vec<u8> {
        let length = (HEADER + body.len()) as u32;
        [&length.to_ne_bytes()[..], &kind.to_ne_bytes(), &[0; 10], body].concat()
    }

    #[test]
    fn a_dump_is_over_where_the_kernel_says_so() {
        let (socket, done) = (message(SOCK_DIAG_BY_FAMILY, &[7; 8]), message(NLMSG_DONE, &[0; 4]));
        assert!(!over(&[socket.clone(), socket.clone()].concat()).unwrap());
        assert!(over(&[socket, done].concat()).unwrap());
        assert!(!over(&[]).unwrap() && !over(&[1; 7]).unwrap());
    }

    #[test]
    fn a_refusal_is_the_kernels_error() {
        let error = over(&message(NLMSG_ERROR, &(-2i32).to_ne_bytes())).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        over(&message(NLMSG_ERROR, &[])).unwrap_err();
    }

    #[test]
    fn this_kernel_numbers_its_sockets() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        give().unwrap();
        assert!(net::sockopt::socket_cookie(&listener).unwrap() > 0);
    }
}
