//! Datagrams that IP cuts up, as `wirelapse trace --packets` copies them: fragment by fragment,
//! held against tcpdump.

use std::net::{IpAddr, SocketAddr, UdpSocket};

use crate::scene::path::lab;
use crate::scene::{BTF, TUN, median, turn};
use crate::trace_packets::{Seen, TCPDUMP, TSHARK, copied, copying, dump, read};
use lab::{Host, Side};
use tier::Need;
use wire::capture::flag;

/// Bytes of the datagrams: of one, two, three and six packets.
const SIZES: [usize; 4] = [100, 2_000, 3_000, 8_000];
/// Packets that they are on a link of 1,500 bytes, one way.
const PACKETS: usize = 1 + 2 + 3 + 6;

/// What is in the file at both ends, and what tcpdump has at the first.
fn exchange(v6: bool, more: &[&str]) -> (Vec<Seen>, Vec<Seen>, SocketAddr) {
    let lab = lab(2);
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let bind = |host: &Host| {
        let address = if v6 { IpAddr::V6(host.ipv6()) } else { IpAddr::V4(host.ipv4()) };
        host.run(|| UdpSocket::bind(SocketAddr::new(address, 0)).unwrap()).unwrap()
    };
    let (client, server) = (bind(&a), bind(&b));
    let to = server.local_addr().unwrap();
    let (ours, theirs) = (tempfile::NamedTempFile::new().unwrap(), tempfile::NamedTempFile::new().unwrap());
    let trace = copying(to.port(), ours.path(), more);
    let tcpdump = dump(&lab, theirs.path(), if v6 { "udp or ip6[6] = 44" } else { "udp or ip[6:2] & 0x3fff != 0" });
    for bytes in SIZES {
        client.send_to(&vec![7; bytes], to).unwrap();
        let (got, from) = server.recv_from(&mut [0; 10_000]).unwrap();
        server.send_to(&vec![8; got], from).unwrap();
        assert_eq!(client.recv(&mut [0; 10_000]).unwrap(), bytes);
    }
    tcpdump.finish();
    let (all, _) = copied(trace, ours.path());
    (all, read(theirs.path()), client.local_addr().unwrap())
}

/// The sender of a packet.
fn source(seen: &Seen) -> IpAddr {
    match seen.bytes[0] >> 4 {
        4 => <[u8; 4]>::try_from(&seen.bytes[12..16]).unwrap().into(),
        _ => <[u8; 16]>::try_from(&seen.bytes[8..24]).unwrap().into(),
    }
}

fn beside_tcpdump(v6: bool) {
    let (all, dumped, client) = exchange(v6, &["--udp"]);
    assert_eq!((all.len(), dumped.len()), (4 * PACKETS, 2 * PACKETS));
    let at_a = |seen: &&Seen| (source(seen) == client.ip()) == (seen.flags & 3 == flag::OUTBOUND);
    let mut copied: Vec<&Seen> = all.iter().filter(at_a).collect();
    let mut apart = Vec::new();
    for packet in &dumped {
        let same = copied.iter().position(|seen| packet.bytes.starts_with(&seen.bytes) && packet.length == seen.length);
        let seen = copied.remove(same.expect("a packet that tcpdump has"));
        apart.push(seen.at.abs_diff(packet.at));
    }
    assert!(copied.is_empty(), "{} packets that tcpdump has not", copied.len());
    let apart = median(apart);
    assert!(apart < 20_000, "{apart} ns from tcpdump at the median");
    assert!(all.iter().all(|seen| seen.process == Some(std::process::id())));
    let sockets: std::collections::BTreeSet<u64> =
        all.iter().map(|seen| seen.context.as_ref().unwrap().socket.unwrap().0.0).collect();
    assert_eq!(sockets.len(), 2);
    // The first fragment has the stages of its datagram.
    let out: Vec<_> = all.iter().filter(|seen| seen.flags & 3 == flag::OUTBOUND).collect();
    let sends = out.iter().filter_map(|seen| seen.context.as_ref()?.send.as_ref());
    let mut bytes: Vec<_> = sends.map(|send| send.bytes as usize).collect();
    bytes.sort_unstable();
    assert_eq!(bytes, SIZES.into_iter().flat_map(|bytes| [bytes; 2]).collect::<Vec<_>>());
    let read = all.iter().filter(|seen| seen.context.as_ref().is_some_and(|of| of.arrival[4] > 0)).count();
    assert_eq!(read, 2 * SIZES.len());
}

#[test]
fn fragments_are_those_of_tcpdump() {
    tier::needs!(Need::Root, BTF, TUN, TCPDUMP, TSHARK);
    let _turn = turn();
    beside_tcpdump(false);
}

#[test]
fn fragments_are_those_of_tcpdump_over_ipv6() {
    tier::needs!(Need::Root, BTF, TUN, TCPDUMP, TSHARK);
    let _turn = turn();
    beside_tcpdump(true);
}

#[test]
fn without_tracepoints_a_datagram_is_whole() {
    tier::needs!(Need::Root, BTF, TUN, TCPDUMP, TSHARK);
    let _turn = turn();
    let (all, ..) = exchange(false, &["--no-tracepoints"]);
    let lengths: Vec<usize> = all.iter().map(|seen| seen.length as usize).collect();
    assert_eq!(lengths, SIZES.into_iter().flat_map(|bytes| [bytes + 28; 4]).collect::<Vec<_>>());
}
