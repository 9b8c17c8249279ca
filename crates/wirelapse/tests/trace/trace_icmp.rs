//! ICMP errors about packets of traced sockets, as `wirelapse trace --packets` copies them.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

use crate::scene::command::tracing;
use crate::scene::path::lab;
use crate::scene::{BTF, TUN, turn};
use crate::trace_packets::{Seen, TCPDUMP, TSHARK, copied, copying, dump, read};
use lab::Side;
use tier::{Need, text};
use wire::capture::flag;
use wire::packet::Icmp;
use wire::{Frame, LinkType, Packet, Reassembly, dissect};

/// The ICMP message that a packet is.
fn icmp(seen: &Seen) -> Option<Icmp> {
    let mut frame = Frame::new(1, record::Instant::from_nanos(0), LinkType::RAW, &seen.bytes);
    frame.original_length = seen.length;
    match dissect(&frame, &mut Reassembly::default()) {
        Ok(Packet::Icmp(icmp)) => Some(icmp),
        _ => None,
    }
}

/// A port of an address that nobody has.
fn closed(address: IpAddr) -> SocketAddr {
    UdpSocket::bind(SocketAddr::new(address, 0)).unwrap().local_addr().unwrap()
}

fn a_closed_port(v6: bool) {
    let lab = lab(3);
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let [own, there] = if v6 { [a.ipv6().into(), b.ipv6().into()] } else { [IpAddr::V4(a.ipv4()), b.ipv4().into()] };
    let closed = b.run(|| closed(there)).unwrap();
    let (ours, theirs) = (tempfile::NamedTempFile::new().unwrap(), tempfile::NamedTempFile::new().unwrap());
    let trace = copying(closed.port(), ours.path(), &[]);
    let tcpdump = dump(&lab, theirs.path(), if v6 { "icmp6 and ip6[40] = 1" } else { "icmp[icmptype] = icmp-unreach" });
    let socket = a.run(|| UdpSocket::bind(SocketAddr::new(own, 0)).unwrap()).unwrap();
    socket.connect(closed).unwrap();
    // Linux sends six of them at once to one host, and then one a second.
    for _ in 0..3 {
        socket.send(&[7; 100]).unwrap();
        assert!(socket.recv(&mut [0; 10]).is_err(), "nobody says that the port is closed");
    }
    tcpdump.finish();
    let (all, said) = copied(trace, ours.path());
    let errors: Vec<&Seen> = all.iter().filter(|seen| icmp(seen).is_some()).collect();
    let dumped = read(theirs.path());
    assert_eq!((errors.len(), dumped.len()), (3, 3), "{said}");
    for (seen, dumped) in errors.iter().zip(&dumped) {
        assert!(dumped.bytes.starts_with(&seen.bytes) && dumped.length == seen.length, "other bytes than tcpdump");
        assert!(seen.at.abs_diff(dumped.at) < 200_000, "{} ns apart", seen.at.abs_diff(dumped.at));
        let quoted = icmp(seen).unwrap().quoted.unwrap();
        assert_eq!((quoted.source, quoted.destination), (socket.local_addr().unwrap(), closed));
        assert_eq!((seen.flags & 3, seen.process), (flag::INBOUND, Some(std::process::id())));
        assert!(seen.interface.contains(lab::INTERFACE), "{}", seen.interface);
    }
    // The same socket as that of the datagrams.
    let socket_of = |seen: &Seen| seen.context.as_ref().unwrap().socket.unwrap().0;
    let datagrams = all.iter().filter(|seen| icmp(seen).is_none());
    assert_eq!(datagrams.map(socket_of).collect::<Vec<_>>(), [socket_of(errors[0]); 3]);
    let lines = tracing(&["-r", ours.path().to_str().unwrap(), "-c", "2"]).output().unwrap();
    let lines = text(&lines.stdout);
    let says = format!("port unreachable, about {}.{} > ", own, socket.local_addr().unwrap().port());
    assert!(lines.contains(&says) && lines.contains("ICMP error (port unreachable)"), "{lines}");
}

#[test]
fn a_closed_port_is_said_to_the_socket_that_asked() {
    tier::needs!(Need::Root, BTF, TUN, TCPDUMP, TSHARK);
    let _turn = turn();
    a_closed_port(false);
}

#[test]
fn a_closed_port_is_said_to_the_socket_that_asked_over_ipv6() {
    tier::needs!(Need::Root, BTF, TUN, TCPDUMP, TSHARK);
    let _turn = turn();
    a_closed_port(true);
}

/// A raw socket for ICMP.
fn raw(v6: bool) -> OwnedFd {
    let (family, protocol) =
        if v6 { (libc::AF_INET6, libc::IPPROTO_ICMPV6) } else { (libc::AF_INET, libc::IPPROTO_ICMP) };
    // SAFETY: the call has no pointers; what it gives is ours alone.
    let fd = unsafe { libc::socket(family, libc::SOCK_RAW | libc::SOCK_CLOEXEC, protocol) };
    assert!(fd >= 0, "{}", std::io::Error::last_os_error());
    // SAFETY: as above.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// The sum of RFC 1071.
fn checksum(bytes: &[u8]) -> u16 {
    let sum: u32 = bytes.chunks(2).map(|two| u32::from(u16::from_be_bytes([two[0], *two.get(1).unwrap_or(&0)]))).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    !((sum & 0xffff) + (sum >> 16)) as u16
}

/// An ICMP message about a datagram between two ends, to this host itself.
fn tell(by: &OwnedFd, [kind, code]: [u8; 2], from: SocketAddr, to: SocketAddr) {
    let mut message = vec![kind, code, 0, 0, 0, 0, 5, 0];
    match (from.ip(), to.ip()) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            message.extend([0x45, 0, 0, 128, 0, 9, 0, 0, 64, 17, 0, 0]);
            message.extend(source.octets());
            message.extend(destination.octets());
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            message.extend([0x60, 0, 0, 0, 0, 108, 17, 64]);
            message.extend(source.octets());
            message.extend(destination.octets());
        }
        _ => unreachable!(),
    }
    message.extend(from.port().to_be_bytes());
    message.extend(to.port().to_be_bytes());
    message.extend([0, 108, 0, 0, 1, 2, 3, 4]);
    if from.is_ipv4() {
        let sum = checksum(&message);
        message[2..4].copy_from_slice(&sum.to_be_bytes());
    }
    let address = socket2::SockAddr::from(SocketAddr::new(from.ip(), 0));
    // SAFETY: both pointers are good for the lengths that go with them.
    let sent = unsafe {
        libc::sendto(by.as_raw_fd(), message.as_ptr().cast(), message.len(), 0, address.as_ptr().cast(), address.len())
    };
    assert_eq!(sent, message.len() as isize, "{}", std::io::Error::last_os_error());
}

/// Types and codes of what was seen, out of all that was told to this host about two sockets, one
/// of which is traced.
fn told(address: &str, kinds: &[[u8; 2]], more: &[&str]) -> (Vec<[u8; 2]>, String) {
    let address: IpAddr = address.parse().unwrap();
    let [traced, other, peer] = [(); 3].map(|()| UdpSocket::bind(SocketAddr::new(address, 0)).unwrap());
    let [from, stranger, to] = [&traced, &other, &peer].map(|socket| socket.local_addr().unwrap());
    let file = tempfile::NamedTempFile::new().unwrap();
    let trace = copying(from.port(), file.path(), more);
    traced.send_to(b"one", to).unwrap();
    other.send_to(b"one", to).unwrap();
    let by = raw(address.is_ipv6());
    for &kind in kinds {
        tell(&by, kind, from, to);
        tell(&by, kind, stranger, to);
        // Of the traced socket, but to whom it has sent nothing.
        tell(&by, kind, from, stranger);
    }
    let (all, said) = copied(trace, file.path());
    assert_eq!(all.iter().filter(|seen| icmp(seen).is_none()).count(), 1, "{said}");
    let errors = all.iter().filter_map(icmp);
    (errors.map(|icmp| [icmp.kind, icmp.code]).collect(), said)
}

#[test]
fn errors_of_each_kind_are_seen_and_nothing_else() {
    tier::needs!(Need::Root, BTF, TSHARK);
    let _turn = turn();
    let errors = [[3, 1], [3, 3], [3, 4], [3, 13], [4, 0], [11, 0], [12, 0]];
    let others = [[0, 0], [8, 0], [13, 0], [5, 1]];
    assert_eq!(told("127.0.0.1", &[&errors[..], &others].concat(), &[]).0, errors);
    let errors = [[1, 0], [1, 4], [2, 0], [3, 0], [4, 1]];
    assert_eq!(told("::1", &[&errors[..], &[[128, 0], [129, 0], [137, 0]]].concat(), &[]).0, errors);
}

#[test]
fn a_trace_without_tracepoints_has_none_and_says_so() {
    tier::needs!(Need::Root, BTF, TSHARK);
    let _turn = turn();
    let (seen, said) = told("127.0.0.1", &[[3, 3]], &["--no-tracepoints"]);
    assert!(seen.is_empty());
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    for what in ["ICMP errors", "drops", "packets of connections without a socket (TIME_WAIT)"] {
        let says = format!("{what}: its tracepoint is left out (--no-tracepoints)");
        assert!(said.contains(&says), "{what}: {said}");
    }
    assert!(!said.contains("netif_receive_skb") && !said.contains("kfree_skb"), "{said}");
}
