//! Damaged and hostile input: counted with its place, never a panic, and what follows is read where
//! the format allows it.

use std::io::{self, Read as _};
use std::net::Ipv4Addr;

use proptest::prelude::*;
use record::Instant;
use wire::capture::{Format, Interface, PcapngWriter, Problem, Resolution};
use wire::generate::{Pattern, Traffic, write_traffic};
use wire::packet::{Ethernet, Gre, Head, Ipv4, Udp, VlanTag, Vxlan, ether_type};
use wire::{Capture, Frame, LinkType, Network, Packet, Reassembly, TextReader, dissect};

fn pcap(packets: u64) -> Vec<u8> {
    let mut out = Vec::new();
    write_traffic(&mut out, &Traffic { pattern: Pattern::Download, packets, connections: 2, seed: 5, loss_one_in: 9 })
        .expect("memory");
    out
}

fn pcapng(packets: u64) -> Vec<u8> {
    let source = pcap(packets);
    let mut capture = Capture::from_bytes(&source).expect("a capture");
    let mut writer = PcapngWriter::new(Vec::new(), "test").expect("memory");
    let mut interface = Interface::new(LinkType::ETHERNET, Resolution::NANOSECONDS);
    interface.name = Some("eth7".into());
    interface.dropped = Some(11);
    writer.interface(&interface).expect("memory");
    while let Some(frame) = capture.next_frame().expect("memory") {
        writer.frame(&frame, &["a finding", "and – another"]).expect("memory");
    }
    writer.statistics(0, &interface, 5).expect("memory");
    writer.finish().expect("memory")
}

/// Reads everything that can be; gives the number of packets and of problems.
fn read_all(bytes: &[u8]) -> (u64, u64) {
    let mut text = TextReader::new(bytes);
    while text.next_segment().expect("memory").is_some() {}
    let Ok(mut capture) = Capture::from_bytes(bytes) else { return (0, 1) };
    let mut reassembly = Reassembly::new();
    while let Some(frame) = capture.next_frame().expect("memory") {
        let _ = dissect(&frame, &mut reassembly);
        let _ = frame.comments().count();
    }
    (capture.packets(), capture.problems().total())
}

#[test]
fn pcapng_keeps_frames_times_comments_and_drops() {
    let (a, b) = (pcap(50), pcapng(50));
    let (mut a, mut b) = (Capture::from_bytes(&a).expect("pcap"), Capture::from_bytes(&b).expect("pcapng"));
    assert_eq!(b.format(), Format::Pcapng);
    while let Some(x) = a.next_frame().expect("memory") {
        let y = b.next_frame().expect("memory").expect("as many");
        assert_eq!((x.number, x.at, x.original_length, x.data), (y.number, y.at, y.original_length, y.data));
        assert_eq!(y.comments().collect::<Vec<_>>(), ["a finding", "and – another"]);
    }
    assert!(b.next_frame().expect("memory").is_none());
    assert_eq!((b.interfaces()[0].name.as_deref(), b.interfaces()[0].dropped), (Some("eth7"), Some(11)));
    assert_eq!(b.problems().total(), 0);
}

#[test]
fn a_block_of_4_gib_is_named_and_reading_goes_on_behind_it() {
    let mut bytes = pcapng(20);
    let mut offsets = Vec::new();
    let mut capture = Capture::from_bytes(&bytes).expect("a capture");
    while let Some(frame) = capture.next_frame().expect("memory") {
        offsets.push(frame.offset as usize);
    }
    drop(capture);
    bytes[offsets[9] + 4..offsets[9] + 8].copy_from_slice(&u32::MAX.to_le_bytes());
    let mut capture = Capture::from_bytes(&bytes).expect("a capture");
    while capture.next_frame().expect("memory").is_some() {}
    assert_eq!(capture.packets(), 19);
    let (kind, count) = capture.problems().iter().next().expect("one problem");
    assert_eq!((kind, count.count), (Problem::ImpossibleLength, 1));
    assert_eq!((count.first[0].packet, count.first[0].offset), (10, offsets[9] as u64));
}

#[test]
fn a_hole_of_a_gigabyte_is_passed_in_seconds_and_reading_goes_on_behind_it() {
    for bytes in [pcap(20), pcapng(20)] {
        let mut capture = Capture::from_bytes(&bytes).expect("a capture");
        let mut offset = 0;
        for _ in 0..10 {
            offset = capture.next_frame().expect("memory").expect("20 frames").offset;
        }
        drop(capture);
        let (before, behind) = bytes.split_at(offset as usize);
        let hole = io::repeat(0).take(1 << 30);
        let began = std::time::Instant::now();
        let mut capture = Capture::from_reader(before.chain(hole).chain(behind)).expect("a capture");
        while capture.next_frame().expect("memory").is_some() {}
        // Place by place that were 20 seconds and more.
        assert!(began.elapsed().as_secs() < 10, "{:?}", began.elapsed());
        assert_eq!(capture.packets(), 20);
        let (_, count) = capture.problems().iter().next().expect("one problem");
        assert_eq!((count.count, count.first[0].packet, count.first[0].offset), (1, 10, offset));
    }
}

#[test]
fn behind_an_impossible_length_in_pcap_reading_goes_on_with_the_next_whole_record() {
    let mut bytes = pcap(10);
    bytes[24 + 8..24 + 12].copy_from_slice(&u32::MAX.to_le_bytes());
    let mut capture = Capture::from_bytes(&bytes).expect("a capture");
    let mut frames = 0;
    while capture.next_frame().expect("memory").is_some() {
        frames += 1;
    }
    assert_eq!(frames, 9, "all but the damaged one");
    let (kind, count) = capture.problems().iter().next().expect("one problem");
    assert_eq!((kind, count.first[0].packet, count.first[0].offset), (Problem::ImpossibleLength, 1, 24));
    drop(capture);
    // Where nothing makes sense any more, reading ends.
    bytes[24..].fill(0xff);
    let mut capture = Capture::from_bytes(&bytes).expect("a capture");
    assert!(capture.next_frame().expect("memory").is_none());
}

#[test]
fn damage_in_the_middle_costs_the_records_that_it_touches_and_is_named() {
    for (whole, what) in [(pcap(60), "pcap"), (pcapng(60), "pcapng")] {
        let mut capture = Capture::from_bytes(&whole).expect("a capture");
        let mut offsets = Vec::new();
        while let Some(frame) = capture.next_frame().expect("memory") {
            offsets.push((frame.offset as usize, frame.at, frame.data.to_vec()));
        }
        drop(capture);
        // From within the header of the 21st record to the middle of the 24th, zeros or bits set.
        let (from, to) = (offsets[20].0 + 5, offsets[23].0 + 20);
        for (fill, flip) in [(0x00u8, 0u8), (0xff, 0), (0x00, 0xa5)] {
            let mut bytes = whole.clone();
            for b in &mut bytes[from..to] {
                *b = if flip == 0 { fill } else { *b ^ flip };
            }
            let mut capture = Capture::from_bytes(&bytes).expect("a capture");
            let mut read = Vec::new();
            while let Some(frame) = capture.next_frame().expect("memory") {
                read.push((frame.offset as usize, frame.at, frame.data.to_vec()));
            }
            let outside: Vec<_> = offsets[..20].iter().chain(&offsets[24..]).cloned().collect();
            assert!(
                outside.iter().all(|frame| read.contains(frame)),
                "{what} {fill:#x} {flip:#x}: {} read",
                read.len()
            );
            assert!(read.len() <= 60, "{what}: {} read", read.len());
            let (_, count) = capture.problems().iter().next().expect("it is said");
            assert_eq!(
                (count.first[0].packet, count.first[0].offset as usize),
                (21, offsets[20].0),
                "{what} {fill:#x}"
            );
        }
    }
}

#[test]
fn before_version_2_4_the_lengths_stood_the_other_way_round() {
    let mut bytes = pcap(3);
    bytes[6] = 2;
    let mut at = 24;
    while at < bytes.len() {
        let captured = u32::from_le_bytes(bytes[at + 8..at + 12].try_into().expect("4 bytes"));
        bytes[at + 8..at + 12].copy_from_slice(&1_500_u32.to_le_bytes());
        bytes[at + 12..at + 16].copy_from_slice(&captured.to_le_bytes());
        at += 16 + captured as usize;
    }
    let mut capture = Capture::from_bytes(&bytes).expect("a capture");
    for _ in 0..3 {
        let frame = capture.next_frame().expect("memory").expect("a frame");
        assert!(frame.original_length == 1_500 && frame.data.len() < 1_500);
    }
}

#[test]
fn tunnels_and_tags_are_opened_and_counted() {
    let plain = pcap(1);
    let mut capture = Capture::from_bytes(&plain).expect("a capture");
    let inner = capture.next_frame().expect("memory").expect("a frame").data.to_vec();
    let ip = |protocol| Ipv4 {
        source: Ipv4Addr::new(10, 1, 1, 1),
        destination: Ipv4Addr::new(10, 1, 1, 2),
        protocol,
        id: 0,
        dont_fragment: false,
        more_fragments: false,
        fragment_offset: 0,
        ttl: 3,
        traffic_class: 0,
    };
    let mut vxlan = vec![0x12, 0x34, 0x12, 0xb5];
    vxlan.extend_from_slice(&(16 + inner.len() as u16).to_be_bytes());
    vxlan.extend_from_slice(&[0, 0]);
    Vxlan { network: 9 }.emit(&mut vxlan);
    vxlan.extend_from_slice(&inner);
    let mut gre = Vec::new();
    Gre { protocol: ether_type::IPV4, checksum: true, key: Some(1), sequence: Some(2) }.emit(&mut gre);
    gre.extend_from_slice(&inner[14..]);
    for (protocol, payload) in [(17, vxlan), (47, gre), (4, inner[14..].to_vec())] {
        let mut frame = Vec::new();
        Ethernet { destination: [1; 6], source: [2; 6], ether_type: 0x88a8 }.emit(&mut frame);
        VlanTag { control: 1, ether_type: ether_type::VLAN }.emit(&mut frame);
        VlanTag { control: 2, ether_type: ether_type::IPV4 }.emit(&mut frame);
        ip(protocol).emit(payload.len(), &mut frame);
        frame.extend_from_slice(&payload);
        let frame = Frame::new(1, Instant::from_nanos(1), LinkType::ETHERNET, &frame);
        match dissect(&frame, &mut Reassembly::new()) {
            Ok(Packet::Tcp(s)) => assert_eq!((s.network.tunnels, s.destination.port()), (1, 443)),
            other => panic!("protocol {protocol}: {other:?}"),
        }
    }
    let [source, destination] = ["1.1.1.1:5", "[::1]:6"].map(|end| end.parse().expect("ok"));
    let (number, at, network) = (1, Instant::from_nanos(1), Network::default());
    let udp = Udp { number, at, source, destination, payload: 7, network, in_fragments: false, head: Head::of(&[]) };
    assert_eq!(udp.to_string(), "UDP 1.1.1.1:5 > [::1]:6 7 bytes");
}

#[test]
fn generated_files_cut_at_every_byte_say_so() {
    for bytes in [pcap(6), pcapng(6)] {
        for cut in 0..bytes.len() {
            let (packets, _) = read_all(&bytes[..cut]);
            assert!(packets <= 6);
        }
        assert_eq!(read_all(&bytes), (6, 0));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn changed_bytes_never_panic(ng: bool, changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12)) {
        let mut bytes = if ng { pcapng(8) } else { pcap(8) };
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        let (packets, _) = read_all(&bytes);
        prop_assert!(packets <= 60);
    }

    #[test]
    fn any_frame_of_any_link_type_never_panics(link in prop::sample::select(vec![0u16, 1, 12, 51, 101, 108, 113, 228, 229, 276]), data in prop::collection::vec(any::<u8>(), 0..200), first in prop::sample::select(vec![0x45u8, 0x46, 0x60, 0x11, 2])) {
        let mut data = data;
        for at in [0, 4, 14, 16, 20] {
            if let Some(byte) = data.get_mut(at) {
                *byte = first;
            }
        }
        let mut reassembly = Reassembly::new();
        let _ = dissect(&Frame::new(1, Instant::from_nanos(0), LinkType(link), &data), &mut reassembly);
    }

    #[test]
    fn any_text_never_panics(lines in prop::collection::vec("(12:00:00\\.[0-9]{1,7}|[0-9]{1,20}|2020-01-0[0-9] [0-9]{2}:00:00\\.1|) ?(IP|IP6|) ?[a-z0-9.:]{0,9}\\.[0-9]{1,6} > [a-z0-9.]{1,6}\\.[0-9]{1,3}: (Flags \\[[SFP.RX]{0,3}\\], seq [0-9]{1,11}, ack [0-9]{1,9}, win [0-9]{1,6}, options \\[[a-z ,{}:|\\[\\]0-9]{0,20}\\], length [0-9]{0,9}|[SFPR.] [0-9:()]{0,12} ack 1 win 5 <[a-zT |,\\[0-9]{0,12}>?)", 0..6)) {
        let text = lines.join("\n");
        let mut reader = TextReader::new(text.as_bytes());
        while reader.next_segment().expect("memory").is_some() {}
    }
}
