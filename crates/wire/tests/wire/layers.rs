//! One TCP segment through every link type, tag and tunnel, whole, cut at every byte and in
//! fragments.

use std::io::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::process::Command;

use record::{Instant, SeqNumber};
use wire::capture::{Interface, PcapngWriter, Resolution};
use wire::packet::{
    CookedV1, CookedV2, Ethernet, Gre, Icmp, Ipv4, Ipv6, Layer, Tcp, VlanTag, Vxlan, ether_type, ip_protocol,
};
use wire::{Flags, Frame, LinkType, NotDecoded, Packet, Reassembly, Segment, dissect};

const PAYLOAD: usize = 40;

fn tcp() -> Vec<u8> {
    let mut out = Vec::new();
    Tcp {
        source_port: 999,
        destination_port: 80,
        seq: SeqNumber(7),
        ack: SeqNumber(8),
        flags: Flags::ACK | Flags::PSH,
        window: 500,
        header_bytes: 32,
    }
    .emit(&[1, 1, 8, 10, 0, 0, 0, 3, 0, 0, 0, 4], &mut out);
    out.resize(out.len() + PAYLOAD, b'x');
    out
}

fn ipv4(protocol: u8, payload: &[u8]) -> Vec<u8> {
    ipv4_fragment(protocol, payload, 0, false)
}

fn ipv4_fragment(protocol: u8, payload: &[u8], fragment_offset: u16, more_fragments: bool) -> Vec<u8> {
    let ip = Ipv4 {
        source: Ipv4Addr::new(10, 0, 0, 1),
        destination: Ipv4Addr::new(10, 0, 0, 2),
        protocol,
        id: 77,
        dont_fragment: false,
        more_fragments,
        fragment_offset,
        ttl: 64,
        traffic_class: 0,
    };
    let mut out = Vec::new();
    ip.emit(payload.len(), &mut out);
    [out, payload.to_vec()].concat()
}

fn ipv6(next_header: u8, payload: &[u8]) -> Vec<u8> {
    let ip = Ipv6 {
        source: Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1),
        destination: Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2),
        next_header,
        hop_limit: 64,
        traffic_class: 0,
        flow_label: 0,
    };
    let mut out = Vec::new();
    ip.emit(payload.len(), &mut out);
    [out, payload.to_vec()].concat()
}

fn ethernet(ether_type: u16, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    Ethernet { destination: [2; 6], source: [4; 6], ether_type }.emit(&mut out);
    [out, payload.to_vec()].concat()
}

fn gre(protocol: u16, sequence: Option<u32>, own: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    Gre { protocol, checksum: false, key: None, sequence }.emit(&mut out);
    ethernet(ether_type::IPV4, &ipv4(ip_protocol::GRE, &[&out[..], own, payload].concat()))
}

fn vxlan(port: u16, payload: &[u8]) -> Vec<u8> {
    let length = (16 + payload.len()) as u16;
    let mut out = [[0x12, 0x34], port.to_be_bytes(), length.to_be_bytes(), [0, 0]].concat();
    Vxlan { network: 5 }.emit(&mut out);
    [out, payload.to_vec()].concat()
}

/// UDP to a tunnel's port.
fn udp(port: u16, payload: &[u8]) -> Vec<u8> {
    let length = (8 + payload.len()) as u16;
    [&[0x12, 0x34][..], &port.to_be_bytes(), &length.to_be_bytes(), &[0, 0], payload].concat()
}

/// 802.11 data: frame control, then as many addresses and fields as it asks for, then LLC and SNAP.
fn wireless(control: [u8; 2], header: usize, ether_type: u16, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![control[0], control[1], 0, 0];
    out.resize(header, 2);
    // The sequence number and the QoS field: no fragment, no aggregate.
    out[22..24].fill(0);
    if control[0] & 0x80 != 0 {
        let qos = if control[1] & 3 == 3 { 30 } else { 24 };
        out[qos..header].fill(0);
    }
    [&out[..], &[0xaa, 0xaa, 3, 0, 0, 0], &ether_type.to_be_bytes(), payload].concat()
}

/// A record of Endace's cards, with as many extension headers.
fn erf(kind: u8, extensions: usize, frame: &[u8]) -> Vec<u8> {
    let mut out = vec![0; 16];
    out[4..8].copy_from_slice(&1_700_000_000_u32.to_le_bytes());
    out[8] = kind | if extensions > 0 { 0x80 } else { 0 };
    let length = 16 + 8 * extensions + 2 + frame.len();
    out[10..12].copy_from_slice(&(length as u16).to_be_bytes());
    out[14..16].copy_from_slice(&(frame.len() as u16).to_be_bytes());
    for n in 0..extensions {
        out.extend_from_slice(&[if n + 1 < extensions { 0x84 } else { 4 }, 0, 0, 0, 0, 0, 0, 1]);
    }
    [&out[..], &[0, 0], frame].concat()
}

/// Every way in which the segment can be wrapped: its name, link type, frame, and how many tunnels
/// are in it.
fn wrapped() -> Vec<(&'static str, LinkType, Vec<u8>, u8)> {
    let (v4, v6) = (ipv4(6, &tcp()), ipv6(6, &tcp()));
    let plain = ethernet(ether_type::IPV4, &v4);
    let cooked_v1 = |protocol| {
        let mut out = Vec::new();
        CookedV1 { direction: 4, device_type: 1, protocol }.emit(&mut out);
        out
    };
    let cooked_v2 = |protocol| {
        let mut out = Vec::new();
        CookedV2 { protocol, interface: 2, device_type: 1, direction: 4 }.emit(&mut out);
        out
    };
    let tag = |ether_type| {
        let mut out = Vec::new();
        VlanTag { control: 5, ether_type }.emit(&mut out);
        out
    };
    let join = |head: &[u8], rest: &[u8]| [head, rest].concat();
    let pppoe = |ppp: &[u8], rest: &[u8]| {
        let length = ((ppp.len() + rest.len()) as u16).to_be_bytes();
        [&[0x11, 0, 0, 1][..], &length, ppp, rest].concat()
    };
    // Hop-by-hop, routing, destination options and authentication, one after the other.
    let mut extended = vec![43, 0, 1, 4, 0, 0, 0, 0, 60, 0, 0, 0, 0, 0, 0, 0, 51, 1, 1, 12];
    extended.extend([0; 12]);
    extended.extend([6, 4, 0, 0]);
    extended.extend([0; 20]);
    extended.extend(tcp());
    let mut with_options = v4.clone();
    with_options[0] = 0x46;
    with_options[3] += 4;
    with_options.splice(20..20, [1, 1, 1, 0]);
    let outer = |protocol, payload: &[u8]| ethernet(ether_type::IPV4, &ipv4(protocol, payload));
    let twice = ipv4(ip_protocol::IPV4, &ipv6(ip_protocol::IPV4, &v4));
    vec![
        ("Ethernet", LinkType::ETHERNET, plain.clone(), 0),
        ("Ethernet with padding", LinkType::ETHERNET, join(&plain, &[0; 6]), 0),
        ("IPv4 options", LinkType::ETHERNET, ethernet(ether_type::IPV4, &with_options), 0),
        ("Ethernet IPv6", LinkType::ETHERNET, ethernet(ether_type::IPV6, &v6), 0),
        ("IPv6 extensions", LinkType::ETHERNET, ethernet(ether_type::IPV6, &ipv6(0, &extended)), 0),
        ("802.1Q", LinkType::ETHERNET, ethernet(ether_type::VLAN, &join(&tag(ether_type::IPV6), &v6)), 0),
        (
            "QinQ",
            LinkType::ETHERNET,
            ethernet(ether_type::SERVICE_VLAN, &[tag(ether_type::VLAN), tag(ether_type::IPV4), v4.clone()].concat()),
            0,
        ),
        ("PPPoE", LinkType::ETHERNET, ethernet(ether_type::PPPOE_SESSION, &pppoe(&[0, 0x21], &v4)), 0),
        ("PPPoE alone", LinkType::PPP_ETHER, pppoe(&[0x57], &v6), 0),
        ("cooked v1", LinkType::LINUX_SLL, join(&cooked_v1(ether_type::IPV4), &v4), 0),
        ("cooked v1 IPv6", LinkType::LINUX_SLL, join(&cooked_v1(ether_type::IPV6), &v6), 0),
        (
            "cooked v1 tagged",
            LinkType::LINUX_SLL,
            [cooked_v1(ether_type::VLAN), tag(ether_type::IPV4), v4.clone()].concat(),
            0,
        ),
        ("cooked v2", LinkType::LINUX_SLL2, join(&cooked_v2(ether_type::IPV4), &v4), 0),
        ("cooked v2 IPv6", LinkType::LINUX_SLL2, join(&cooked_v2(ether_type::IPV6), &v6), 0),
        ("loopback little-endian", LinkType::NULL, join(&[2, 0, 0, 0], &v4), 0),
        ("loopback big-endian", LinkType::NULL, join(&[0, 0, 0, 2], &v4), 0),
        ("loopback of macOS", LinkType::NULL, join(&[30, 0, 0, 0], &v6), 0),
        ("OpenBSD loopback", LinkType::LOOP, join(&[0, 0, 0, 24], &v6), 0),
        ("raw IPv4", LinkType::RAW, v4.clone(), 0),
        ("raw IPv6", LinkType::RAW, v6.clone(), 0),
        ("raw by its old number", LinkType(12), v4.clone(), 0),
        ("IPv4", LinkType::IPV4, v4.clone(), 0),
        ("IPv6", LinkType::IPV6, v6.clone(), 0),
        ("VXLAN", LinkType::ETHERNET, outer(17, &vxlan(4789, &plain)), 1),
        (
            "VXLAN on Linux's old port, over IPv6",
            LinkType::ETHERNET,
            ethernet(ether_type::IPV6, &ipv6(17, &vxlan(8472, &ethernet(ether_type::IPV6, &v6)))),
            1,
        ),
        ("GRE", LinkType::ETHERNET, gre(ether_type::IPV4, None, &[], &v4), 1),
        ("GRE IPv6", LinkType::ETHERNET, gre(ether_type::IPV6, Some(1), &[], &v6), 1),
        ("GRE bridged", LinkType::ETHERNET, gre(ether_type::BRIDGED, None, &[], &plain), 1),
        ("ERSPAN I", LinkType::ETHERNET, gre(ether_type::ERSPAN_II, None, &[], &plain), 1),
        ("ERSPAN II", LinkType::ETHERNET, gre(ether_type::ERSPAN_II, Some(9), &[0x10; 8], &plain), 1),
        (
            "ERSPAN III",
            LinkType::ETHERNET,
            gre(ether_type::ERSPAN_III, Some(9), &[0x20, 7, 0, 9, 0, 0, 0, 5, 0, 0, 0, 6], &plain),
            1,
        ),
        (
            "ERSPAN III of a packet without Ethernet",
            LinkType::ETHERNET,
            gre(ether_type::ERSPAN_III, Some(9), &[0x20, 7, 0, 9, 0, 0, 0, 5, 0, 0, 0x08, 6], &v6),
            1,
        ),
        (
            "ERSPAN III for a platform",
            LinkType::ETHERNET,
            gre(
                ether_type::ERSPAN_III,
                Some(9),
                &[0x20, 7, 0, 9, 0, 0, 0, 5, 0, 0, 0, 7, 0x0c, 0, 0, 0, 0, 0, 0, 0],
                &plain,
            ),
            1,
        ),
        ("IP in IP", LinkType::ETHERNET, outer(4, &v4), 1),
        ("IPv6 in IPv4", LinkType::ETHERNET, outer(41, &v6), 1),
        ("IPv4 in IPv6", LinkType::ETHERNET, ethernet(ether_type::IPV6, &ipv6(4, &v4)), 1),
        ("three deep", LinkType::ETHERNET, outer(4, &twice), 3),
        ("Geneve", LinkType::ETHERNET, outer(17, &udp(6081, &join(&[0, 0, 0x65, 0x58, 0, 0, 9, 0], &plain))), 1),
        (
            "Geneve with options, IPv6 alone",
            LinkType::ETHERNET,
            outer(17, &udp(6081, &[&[2, 0, 0x86, 0xdd, 0, 0, 9, 0][..], &[1, 2, 0x10, 1, 9, 9, 9, 9], &v6].concat())),
            1,
        ),
        (
            "GTP-U",
            LinkType::ETHERNET,
            outer(17, &udp(2152, &[&[0x30, 0xff][..], &(v4.len() as u16).to_be_bytes(), &[0, 0, 0, 7], &v4].concat())),
            1,
        ),
        (
            "GTP-U with a sequence number, IPv6 within",
            LinkType::ETHERNET,
            outer(
                17,
                &udp(
                    2152,
                    &[&[0x32, 0xff][..], &(v6.len() as u16 + 4).to_be_bytes(), &[0, 0, 0, 7, 0, 5, 0, 0], &v6].concat(),
                ),
            ),
            1,
        ),
        (
            "GTP-U with the extension of 5G",
            LinkType::ETHERNET,
            outer(
                17,
                &udp(
                    2152,
                    &[
                        &[0x34, 0xff][..],
                        &(v4.len() as u16 + 8).to_be_bytes(),
                        &[0, 0, 0, 7, 0, 0, 0, 0x85, 1, 0x10, 1, 0],
                        &v4,
                    ]
                    .concat(),
                ),
            ),
            1,
        ),
        ("MPLS", LinkType::ETHERNET, ethernet(ether_type::MPLS, &join(&[0, 1, 0x01, 64], &v4)), 0),
        (
            "MPLS, two labels, IPv6",
            LinkType::ETHERNET,
            ethernet(ether_type::MPLS, &join(&[0, 1, 0x00, 64, 0, 2, 0x01, 64], &v6)),
            0,
        ),
        (
            "MPLS pseudowire",
            LinkType::ETHERNET,
            ethernet(ether_type::MPLS, &join(&[0, 0x64, 0x01, 64, 0, 0, 0, 0], &plain)),
            1,
        ),
        ("PPP", LinkType::PPP, join(&[0, 0x21], &v4), 0),
        ("PPP with its address", LinkType::PPP, join(&[0xff, 3, 0, 0x57], &v6), 0),
        ("PPP in HDLC", LinkType::PPP_SERIAL, join(&[0xff, 3, 0, 0x21], &v4), 0),
        ("Cisco's HDLC", LinkType::C_HDLC, join(&[0x0f, 0, 8, 0], &v4), 0),
        (
            "PPPoE over QinQ",
            LinkType::ETHERNET,
            ethernet(
                ether_type::SERVICE_VLAN,
                &[tag(ether_type::VLAN), tag(ether_type::PPPOE_SESSION), pppoe(&[0, 0x57], &v6)].concat(),
            ),
            0,
        ),
        (
            "FabricPath",
            LinkType::ETHERNET,
            ethernet(ether_type::FABRIC_PATH, &[&[0, 0x40][..], &plain, &[0; 4]].concat()),
            1,
        ),
        ("802.11", LinkType::IEEE802_11, wireless([0x08, 1], 24, ether_type::IPV4, &v4), 0),
        ("802.11 QoS", LinkType::IEEE802_11, wireless([0x88, 2], 26, ether_type::IPV6, &v6), 0),
        ("802.11 between access points", LinkType::IEEE802_11, wireless([0x88, 3], 32, ether_type::IPV4, &v4), 0),
        (
            "802.11 behind radiotap",
            LinkType::IEEE802_11_RADIOTAP,
            join(&[0, 0, 9, 0, 2, 0, 0, 0, 0], &wireless([0x88, 1], 26, ether_type::IPV4, &v4)),
            0,
        ),
        (
            "802.11 behind AVS",
            LinkType::IEEE802_11_AVS,
            [&[0x80, 0x21, 0x10, 1, 0, 0, 0, 64][..], &[0; 56], &wireless([0x08, 2], 24, ether_type::IPV4, &v4)]
                .concat(),
            0,
        ),
        (
            "802.11 behind Prism",
            LinkType::IEEE802_11_PRISM,
            [&[0, 0, 0, 0x44, 0, 0, 0, 144][..], &[0; 136], &wireless([0x08, 2], 24, ether_type::IPV4, &v4)].concat(),
            0,
        ),
        ("ERF", LinkType::ERF, erf(2, 0, &plain), 0),
        ("ERF with extension headers", LinkType::ERF, erf(2, 2, &plain), 0),
    ]
}

fn read(link_type: LinkType, data: &[u8], wire: usize) -> Result<Packet, NotDecoded> {
    let mut frame = Frame::new(3, Instant::from_nanos(5), link_type, data);
    frame.original_length = wire as u32;
    dissect(&frame, &mut Reassembly::new())
}

fn assert_whole(segment: &Segment, tunnels: u8, what: &str) {
    assert_eq!((segment.number, segment.at.as_nanos()), (3, 5), "{what}");
    assert_eq!((segment.source.port(), segment.destination.port()), (999, 80), "{what}");
    assert_eq!((segment.seq, segment.ack, segment.window), (SeqNumber(7), SeqNumber(8), 500), "{what}");
    assert_eq!((segment.payload, segment.header_bytes), (PAYLOAD as u32, 32), "{what}");
    assert_eq!(segment.flags, Flags::ACK | Flags::PSH, "{what}");
    assert_eq!((segment.network.tunnels, segment.network.ttl), (tunnels, 64), "{what}");
}

#[test]
fn the_segment_is_the_same_through_every_wrapping() {
    for (what, link_type, frame, tunnels) in wrapped() {
        match read(link_type, &frame, frame.len()) {
            Ok(Packet::Tcp(segment)) => {
                assert_whole(&segment, tunnels, what);
                assert_eq!(segment.options.timestamps, Some((Some(3), Some(4))), "{what}");
            }
            other => panic!("{what}: {other:?}"),
        }
    }
}

#[test]
fn padding_that_ips_length_counts_is_no_payload() {
    let frame = |flags: Flags, rest: &[u8], tagged: bool| {
        let mut segment = Vec::new();
        let (seq, ack) = (SeqNumber(7), SeqNumber(8));
        Tcp { source_port: 999, destination_port: 80, seq, ack, flags, window: 500, header_bytes: 20 }
            .emit(&[], &mut segment);
        let packet = ipv4(ip_protocol::TCP, &[&segment[..], rest].concat());
        let mut tag = Vec::new();
        VlanTag { control: 5, ether_type: ether_type::IPV4 }.emit(&mut tag);
        if tagged { ethernet(ether_type::VLAN, &[tag, packet].concat()) } else { ethernet(ether_type::IPV4, &packet) }
    };
    let payload = |frame: &[u8], captured: usize| match read(LinkType::ETHERNET, &frame[..captured], frame.len()) {
        Ok(Packet::Tcp(segment)) => segment.payload,
        other => panic!("{other:?}"),
    };
    let padded = frame(Flags::ACK, &[0; 6], false);
    assert_eq!((padded.len(), payload(&padded, 60), payload(&padded, 54)), (60, 0, 0));
    assert_eq!(payload(&frame(Flags::ACK | Flags::FIN, &[0; 2], true), 60), 0);
    // Data: their sender said that they are all it had, or they are not zero, or the frame is not
    // the least.
    assert_eq!(payload(&frame(Flags::ACK | Flags::PSH, &[0; 6], false), 60), 6);
    assert_eq!(payload(&frame(Flags::ACK, &[0, 0, 0, 0, 0, 1], false), 60), 6);
    assert_eq!(payload(&frame(Flags::ACK, &[0; 7], false), 61), 7);
    // A keep-alive with a byte, which IP's length does not count the padding of.
    let keep_alive = [frame(Flags::ACK, &[0], false), vec![0; 5]].concat();
    assert_eq!(payload(&keep_alive, 60), 1);
}

/// The frames are what they say: tshark finds the same segment in them.
#[test]
fn tshark_opens_the_same_wrappings() {
    tier::needs!(tier::Need::Program("tshark"));
    let frames = wrapped();
    let mut writer = PcapngWriter::new(Vec::new(), "test").unwrap();
    for (n, (_, link_type, data, _)) in frames.iter().enumerate() {
        writer.interface(&Interface::new(*link_type, Resolution::NANOSECONDS)).unwrap();
        let mut frame = Frame::new(n as u64 + 1, Instant::from_nanos(5), *link_type, data);
        frame.interface = n as u32;
        writer.frame(&frame, &[]).unwrap();
    }
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&writer.finish().unwrap()).unwrap();
    let out = Command::new("tshark")
        .args(["-n", "-o", "tcp.relative_sequence_numbers:FALSE", "-T", "fields", "-e", "frame.number"])
        .args(["-e", "tcp.srcport", "-e", "tcp.seq", "-e", "tcp.len", "-r"])
        .arg(file.path())
        .output()
        .unwrap();
    let out = String::from_utf8(out.stdout).unwrap();
    assert_eq!(out.lines().count(), frames.len());
    let mut differing = Vec::new();
    for ((what, ..), line) in frames.iter().zip(out.lines()) {
        let read: Vec<&str> = line.split('\t').skip(1).collect();
        // To tshark, Linux's old port of VXLAN is that of another tunnel, and ERSPAN carries
        // Ethernet alone.
        let other = ["VXLAN on Linux's old port, over IPv6", "ERSPAN III of a packet without Ethernet"].contains(what);
        if read != ["999", "7", "40"] && !other {
            differing.push((*what, read));
        }
    }
    assert_eq!(differing, []);
}

#[test]
fn a_frame_cut_at_every_byte_gives_the_segment_or_says_which_header_is_cut() {
    for (what, link_type, frame, tunnels) in wrapped() {
        let mut given = 0;
        for cut in 0..frame.len() {
            match read(link_type, &frame[..cut], frame.len()) {
                Ok(Packet::Tcp(segment)) => {
                    assert_whole(&segment, tunnels, what);
                    given += 1;
                }
                Err(NotDecoded::Truncated(_)) => assert_eq!(given, 0, "{what} cut at {cut}"),
                // The UDP around a VXLAN header that was cut off is a datagram like any other.
                Ok(Packet::Udp(udp)) => {
                    let tunnel = ["VXLAN", "Geneve", "GTP-U"].iter().any(|t| what.starts_with(t));
                    assert!(tunnel && given == 0 && udp.payload >= 100, "{what} cut at {cut}");
                }
                other => panic!("{what} cut at {cut}: {other:?}"),
            }
        }
        // All of the payload and 12 bytes of options may be missing.
        assert!(given >= PAYLOAD + 12, "{what}: {given}");
    }
}

#[test]
fn a_frame_that_ends_too_early_on_the_wire_is_malformed_never_a_panic() {
    for (what, link_type, frame, _) in wrapped() {
        for end in 0..frame.len() {
            match read(link_type, &frame[..end], end) {
                // Where both headers are there, the frame was cut short by a tool that lost its
                // length: IP's is believed. Otherwise length fields that claim more than there is
                // are not, so a shorter payload may be seen.
                Ok(Packet::Tcp(segment)) => {
                    assert!(segment.payload <= PAYLOAD as u32, "{what}");
                    let plain = what == "Ethernet" && end >= 54;
                    assert!(!plain || segment.payload == PAYLOAD as u32, "{what} ended at {end}: {}", segment.payload);
                }
                Ok(_) | Err(NotDecoded::Malformed(_)) => {}
                Err(NotDecoded::Truncated(_)) if end >= 40 => {}
                other => panic!("{what} ended at {end}: {other:?}"),
            }
        }
    }
}

#[test]
fn fragments_of_ipv4_and_ipv6_in_any_order_make_one_segment() {
    let whole = tcp();
    let v4 = |at: usize, end: usize| ipv4_fragment(6, &whole[at..end], at as u16, end < whole.len());
    let v6 = |at: usize, end: usize| {
        let place = (at as u16 | u16::from(end < whole.len())).to_be_bytes();
        ipv6(44, &[&[6, 0][..], &place, &[0, 0, 0, 9], &whole[at..end]].concat())
    };
    let cuts = [(0, 16), (16, 48), (48, whole.len())];
    for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
        let mut reassembly = Reassembly::new();
        for (kind, fragments) in [
            (ether_type::IPV4, order.map(|i| v4(cuts[i].0, cuts[i].1))),
            (ether_type::IPV6, order.map(|i| v6(cuts[i].0, cuts[i].1))),
        ] {
            for (n, fragment) in fragments.iter().enumerate() {
                let bytes = ethernet(kind, fragment);
                let frame = Frame::new(3, Instant::from_nanos(5), LinkType::ETHERNET, &bytes);
                match dissect(&frame, &mut reassembly) {
                    Ok(Packet::Tcp(segment)) if n == 2 => assert_whole(&segment, 0, "fragments"),
                    Err(NotDecoded::FragmentHeld) if n < 2 => {}
                    other => panic!("fragment {n} of {order:?}: {other:?}"),
                }
            }
        }
        assert_eq!((reassembly.waiting(), reassembly.losses().refused), (0, 0));
    }
}

#[test]
fn what_is_not_tcp_is_named() {
    let cases = [
        (ethernet(0x0806, &[0; 28]), "ARP"),
        (ethernet(100, &[0; 46]), "802.3 frame of length 100"),
        (ethernet(ether_type::IPV4, &ipv4(50, &[0; 20])), "ESP (encrypted)"),
        (ethernet(ether_type::IPV4, &ipv6(6, &tcp())), "IP version 6"),
        (ethernet(ether_type::IPV6, &ipv4(6, &tcp())), "IP version 4"),
        (gre(0x6559, None, &[], &[0; 20]), "EtherType 0x6559"),
        (ethernet(ether_type::PPPOE_SESSION, &[0x11, 0, 0, 1, 0, 2, 0xc0, 0x21]), "PPP protocol 0xc021"),
    ];
    for (frame, expected) in cases {
        assert_eq!(read(LinkType::ETHERNET, &frame, frame.len()).unwrap_err().to_string(), expected);
    }
    let frame = tcp();
    assert_eq!(read(LinkType(147), &frame, frame.len()), Err(NotDecoded::LinkType(LinkType(147))));
    assert_eq!(read(LinkType::RAW, &[], 40), Err(NotDecoded::Truncated(Layer::Ipv4)));
}

#[test]
fn tunnels_and_tags_beyond_the_limit_are_refused() {
    let mut packet = ipv4(6, &tcp());
    for depth in 1..=9 {
        packet = ipv4(4, &packet);
        let got = read(LinkType::RAW, &packet, packet.len());
        match got {
            Ok(Packet::Tcp(segment)) if depth <= wire::packet::DEEPEST => assert_eq!(segment.network.tunnels, depth),
            Err(NotDecoded::Depth) if depth > wire::packet::DEEPEST => {}
            other => panic!("{depth} deep: {other:?}"),
        }
    }
    let tags = ethernet(ether_type::VLAN, &[0, 1, 0x81, 0].repeat(20));
    assert_eq!(read(LinkType::ETHERNET, &tags, tags.len()), Err(NotDecoded::Depth));
}

#[test]
fn an_icmp_error_within_a_tunnel_names_the_connection_that_it_is_about() {
    let mut message = vec![3, 4, 0, 0, 0, 0, 0x05, 0x78];
    message.extend_from_slice(&ipv4(6, &tcp())[..28]);
    let frame = ethernet(ether_type::IPV4, &ipv4(4, &ipv4(1, &message)));
    let Ok(Packet::Icmp(Icmp { next_hop_mtu, quoted: Some(quoted), .. })) =
        read(LinkType::ETHERNET, &frame, frame.len())
    else {
        panic!("no ICMP")
    };
    assert_eq!((next_hop_mtu, quoted.source.port(), quoted.seq), (Some(1400), 999, Some(SeqNumber(7))));
}
