//! Every format and variant of capture file, from bytes laid out by hand, whole and cut at every
//! byte.

use crate::samples;
use std::io::{self, Read, Write as _};

use crate::samples::{BIG, Kept, LITTLE, frames, read, rounded};
use wire::capture::{Compression, Format, PcapVariant, Problem};
use wire::{Capture, CaptureError, Packet, PacketReader};

fn variants() -> impl Iterator<Item = PcapVariant> {
    [(false, false), (true, false), (false, true)].into_iter().flat_map(|(nanoseconds, modified)| {
        [false, true].map(|big_endian| PcapVariant { big_endian, nanoseconds, modified })
    })
}

/// Each sample file with what it must give.
fn samples() -> Vec<(Vec<u8>, Vec<Kept>)> {
    let mut all: Vec<_> =
        variants().map(|v| (samples::pcap(v), rounded(if v.nanoseconds { 1 } else { 1_000 }))).collect();
    all.push((samples::snoop(4, 0), rounded(1_000)));
    all.push((samples::netmon(2, 0), rounded(1_000)));
    all.push((samples::netmon(2, 1), rounded(1_000)));
    all.push((samples::pcapng(LITTLE), frames()));
    all.push((samples::pcapng(BIG), frames()));
    all
}

#[test]
fn all_six_variants_of_pcap() {
    for variant in variants() {
        let file = samples::pcap(variant);
        assert_eq!(Capture::from_bytes(&file).expect("a capture").format(), Format::Pcap(variant));
        assert_eq!(read(Capture::from_bytes(&file)), (rounded(if variant.nanoseconds { 1 } else { 1_000 }), 0));
    }
}

#[test]
fn network_monitor_of_both_versions() {
    for (major, minor, unit) in [(1, 1, 1_000_000), (2, 0, 1_000), (2, 1, 1_000)] {
        let mut file = samples::netmon(major, if major == 1 { 0 } else { minor });
        // Behind the frames stand tables, which are no frames.
        file.extend([0xff; 64]);
        assert_eq!(Capture::from_bytes(&file).expect("a capture").format(), Format::NetworkMonitor);
        assert_eq!(read(Capture::from_bytes(&file)), (rounded(unit), 0));
    }
    let (mut version, mut network) = (samples::netmon(2, 0), samples::netmon(2, 0));
    (version[5], network[6]) = (3, 3);
    for file in [version, network] {
        assert!(matches!(Capture::from_bytes(&file), Err(CaptureError::Unsupported { .. })));
    }
}

#[test]
fn erf_files_have_no_header_and_are_recognised_by_their_records() {
    for extensions in [0, 1, 2] {
        let file = samples::erf(extensions);
        let mut capture = Capture::from_bytes(&file).expect("a capture");
        assert_eq!(capture.format(), Format::Erf);
        let mut at = Vec::new();
        while let Some(frame) = capture.next_frame().expect("memory") {
            at.push(frame.at.map(record::Instant::as_nanos));
        }
        assert_eq!(at, frames().iter().map(|f| f.0).collect::<Vec<_>>());
        // The frames within are decoded, and one cut short is counted.
        let tcp = |file: &[u8]| {
            let mut packets = PacketReader::from_bytes(file).expect("a capture");
            let (mut payload, mut segments) = (0, 0);
            while let Some(packet) = packets.next_packet().expect("memory") {
                if let Packet::Tcp(s) = packet {
                    (payload, segments) = (payload + u64::from(s.payload), segments + 1);
                }
            }
            (payload, segments)
        };
        assert_eq!(tcp(&file), tcp(&samples::pcapng(LITTLE)));
        assert_eq!(read(Capture::from_bytes(&file[..file.len() - 1])).1, 1);
    }
}

#[test]
fn snoop_with_padding_drops_and_both_ethernets() {
    for link_type in [0, 4] {
        let file = samples::snoop(link_type, 3);
        let mut capture = Capture::from_bytes(&file).expect("a capture");
        assert_eq!(capture.format(), Format::Snoop);
        while capture.next_frame().expect("memory").is_some() {}
        assert_eq!(capture.interfaces()[0].dropped, Some(3));
        assert_eq!(read(Capture::from_bytes(&file)), (rounded(1_000), 0));
    }
    let (other, mut old) = (samples::snoop(8, 0), samples::snoop(4, 0));
    let unsupported = |file: &[u8]| match Capture::from_bytes(file) {
        Err(CaptureError::Unsupported { offset, value, .. }) => (offset, value),
        _ => panic!("read"),
    };
    assert_eq!(unsupported(&other), (12, 8));
    old[11] = 1;
    assert_eq!(unsupported(&old), (8, 1));
}

#[test]
fn snoop_records_that_contradict_themselves_end_reading_at_their_place() {
    for (length, problem) in [(23u32, Problem::BadRecord), (u32::MAX, Problem::ImpossibleLength)] {
        let mut file = samples::snoop(4, 0);
        file[16 + 8..16 + 12].copy_from_slice(&length.to_be_bytes());
        let mut capture = Capture::from_bytes(&file).expect("a capture");
        assert!(capture.next_frame().expect("memory").is_none());
        let (kind, count) = capture.problems().iter().next().expect("a problem");
        assert_eq!((kind, count.first[0].packet, count.first[0].offset), (problem, 1, 16));
    }
}

#[test]
fn pcapng_units_and_offsets_of_time() {
    let second = 1_000_000_000u64;
    // A unit as written, the ticks of 12.5 s in it, and what they must be.
    for (unit, ticks) in [
        (0u8, 12),
        (1, 125),
        (3, 12_500),
        (6, 12_500_000),
        (9, 12_500_000_000),
        (12, 12_500_000_000_000),
        (0x80, 12),
        (0x81, 25),
        (0x8a, 12_800),
        (0x94, 12 * (1 << 20) + (1 << 19)),
        (0xa0, 12 * (1 << 32) + (1 << 31)),
    ] {
        for order in [LITTLE, BIG] {
            for offset in [0i64, 100, -10] {
                let eight = if order.big { offset.to_be_bytes() } else { offset.to_le_bytes() };
                let options = [order.option(9, &[unit]), order.option(14, &eight)].concat();
                let file = [order.section(1), order.interface(&options), order.packet(0, ticks, 60, b"0123")].concat();
                let expected = if unit & 0x7f == 0 { 12 * second } else { 12 * second + second / 2 };
                let expected = expected.checked_add_signed(offset * second as i64).expect("after 1970");
                assert_eq!(
                    read(Capture::from_bytes(&file)),
                    (vec![(Some(expected), 60, b"0123".to_vec())], 0),
                    "unit {unit:#x} offset {offset}"
                );
            }
        }
    }
    // Without the option a tick is a microsecond; a time before 1970 is no time.
    let file = [LITTLE.section(1), LITTLE.interface(&[]), LITTLE.packet(0, 5, 4, b"abcd")].concat();
    assert_eq!(read(Capture::from_bytes(&file)).0[0].0, Some(5_000));
    let options = LITTLE.option(14, &(-10i64).to_le_bytes());
    let file = [LITTLE.section(1), LITTLE.interface(&options), LITTLE.packet(0, 5, 4, b"abcd")].concat();
    assert_eq!(read(Capture::from_bytes(&file)), (vec![(None, 4, b"abcd".to_vec())], 1));
}

#[test]
fn pcapng_simple_and_old_packet_blocks() {
    for order in [LITTLE, BIG] {
        // A simple block has no time and no captured length; the interface keeps 96 bytes.
        let simple = order.block(3, &[&order.four(200)[..], &[7; 96]].concat());
        let short = order.block(3, &[&order.four(5)[..], b"abcde"].concat());
        // The old block has 16 bits of interface and as many of drops.
        let fixed = [&order.two(1)[..], &order.two(9), &order.words(&[0, 77, 3, 60])].concat();
        let old = order.block(2, &[&fixed[..], b"xyz"].concat());
        let file = [order.section(1), order.interface(&[]), order.interface(&[]), simple, old, short].concat();
        let expected =
            vec![(None, 200, vec![7; 96]), (Some(77_000), 60, b"xyz".to_vec()), (None, 5, b"abcde".to_vec())];
        assert_eq!(read(Capture::from_bytes(&file)), (expected, 0));
        let mut capture = Capture::from_bytes(&file).expect("a capture");
        capture.next_frame().expect("memory");
        assert_eq!(capture.next_frame().expect("memory").map(|f| f.interface), Some(1));
    }
}

#[test]
fn pcapng_sections_of_both_byte_orders_and_of_a_version_to_come() {
    let mut file = samples::pcapng(LITTLE);
    file.extend(samples::pcapng(BIG));
    // Passed over whole, down to the next section.
    file.extend(LITTLE.section(9));
    file.extend(LITTLE.packet(0, 1, 4, b"none"));
    file.extend(samples::pcapng(BIG));
    let (kept, problems) = read(Capture::from_bytes(&file));
    assert_eq!((kept, problems), ([frames(), frames(), frames()].concat(), 1));
    let mut capture = Capture::from_bytes(&file).expect("a capture");
    let mut interfaces = Vec::new();
    while let Some(frame) = capture.next_frame().expect("memory") {
        interfaces.push(frame.interface);
    }
    assert_eq!((interfaces[5], interfaces[6], interfaces[12], capture.interfaces().len()), (0, 1, 2, 3));
    assert_eq!(capture.problems().count(Problem::UnknownVersion(9)), 1);
}

#[test]
fn pcapng_blocks_and_interfaces_that_are_not_known_are_counted() {
    let packet = LITTLE.packet(0, 1, 4, b"abcd");
    let stray = LITTLE.packet(5, 1, 4, b"abcd");
    let unknown = LITTLE.block(0x0bad, b"whatever");
    let file =
        [LITTLE.section(1), packet.clone(), LITTLE.interface(&[]), unknown.clone(), packet, stray, unknown].concat();
    let mut capture = Capture::from_bytes(&file).expect("a capture");
    let mut numbers = Vec::new();
    while let Some(frame) = capture.next_frame().expect("memory") {
        numbers.push(frame.number);
    }
    // Packets that cannot be given are numbered all the same, as other programs number them.
    assert_eq!((numbers, capture.packets()), (vec![2], 3));
    assert_eq!(capture.problems().count(Problem::NoSuchInterface), 2);
    assert_eq!(capture.problems().count(Problem::UnknownBlock(0x0bad)), 2);
}

#[test]
fn every_sample_cut_at_every_byte_gives_the_packets_before_the_cut() {
    for (file, expected) in samples() {
        let mut clean = Vec::new();
        for cut in 0..file.len() {
            let (kept, problems) = read(Capture::from_bytes(&file[..cut]));
            assert!(expected.starts_with(&kept), "cut at {cut}");
            if problems == 0 {
                clean.push(kept.len());
            }
            let streamed = read(Capture::from_reader(&file[..cut]));
            assert_eq!((kept, problems), streamed, "cut at {cut}");
        }
        // A cut goes unsaid only where a record or block ends. pcapng has one more block, and
        // snoop's last record may lack its padding.
        clean.dedup();
        assert_eq!(clean[..6], [0, 1, 2, 3, 4, 5]);
        assert_eq!(read(Capture::from_bytes(&file)), (expected, 0));
    }
}

/// A file as each compression has it, in several members or frames where the compression allows it.
fn compressed(data: &[u8]) -> Vec<(Compression, Vec<u8>)> {
    let (a, b) = data.split_at(data.len() / 3);
    let gzip = |part: &[u8]| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(part).expect("memory");
        encoder.finish().expect("memory")
    };
    let xz = |part: &[u8]| {
        let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 1);
        encoder.write_all(part).expect("memory");
        encoder.finish().expect("memory")
    };
    let zstd = |part: &[u8]| zstd::encode_all(part, 3).expect("memory");
    vec![
        (Compression::Gzip, [gzip(a), gzip(b)].concat()),
        (Compression::Zstd, [zstd(a), zstd(b)].concat()),
        (Compression::Xz, [xz(a), xz(b)].concat()),
    ]
}

#[test]
fn compressed_files_cut_at_every_byte_give_what_can_be_decompressed_and_say_so() {
    let file = samples::pcap(PcapVariant { big_endian: false, nanoseconds: true, modified: false });
    for (compression, bytes) in compressed(&file) {
        assert_eq!(Capture::from_bytes(&bytes).expect("a capture").compression(), compression);
        assert_eq!(read(Capture::from_bytes(&bytes)), (frames(), 0));
        let mut most = 0;
        for cut in 0..bytes.len() {
            let Ok(mut capture) = Capture::from_bytes(&bytes[..cut]) else { continue };
            let mut kept = 0;
            while capture.next_frame().expect("memory").is_some() {
                kept += 1;
            }
            // Between two members nothing is amiss with the compression, and a record may end there
            // too.
            let said: u64 = [Problem::CutCompression, Problem::DamagedCompression, Problem::CutRecord]
                .map(|kind| capture.problems().count(kind))
                .iter()
                .sum();
            assert_eq!(said, 1, "{compression:?} cut at {cut}");
            most = most.max(kept);
        }
        assert!(most >= 1, "{compression:?}: the first member's packets are read though the second is cut");
    }
}

/// Gives one byte a call, as a slow pipe may.
struct Trickle<'a>(&'a [u8]);

impl Read for Trickle<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.0.len().min(into.len()).min(1);
        let (now, later) = self.0.split_at(count);
        into[..count].copy_from_slice(now);
        self.0 = later;
        Ok(count)
    }
}

const TEXT: &str = "1700000000.000001 IP 10.0.0.1.999 > 10.0.0.2.80: Flags [S], seq 7, win 100, length 0\n\
    1700000000.000002 IP 10.0.0.2.80 > 10.0.0.1.999: Flags [S.], seq 9, ack 8, win 100, length 0\n";

fn ports(packets: Result<PacketReader<'_>, CaptureError>) -> (Format, Vec<u16>) {
    let mut packets = packets.expect("packets");
    let mut ports = Vec::new();
    while let Some(packet) = packets.next_packet().expect("memory") {
        if let Packet::Tcp(segment) = packet {
            ports.push(segment.source.port());
        }
    }
    (packets.format(), ports)
}

#[test]
fn text_is_distinguished_from_captures_compressed_or_not_and_from_a_pipe() {
    let mut texts = compressed(TEXT.as_bytes());
    texts.push((Compression::None, TEXT.into()));
    for (compression, bytes) in texts {
        let expected = (Format::Text, vec![999, 80]);
        assert_eq!(ports(PacketReader::from_bytes(&bytes)), expected, "{compression:?}");
        assert_eq!(ports(PacketReader::from_reader(Trickle(&bytes))), expected, "{compression:?} from a pipe");
        assert_eq!(PacketReader::from_bytes(&bytes).expect("text").compression(), compression);
    }
    for (file, expected) in samples() {
        let (format, ports) = ports(PacketReader::from_reader(Trickle(&file)));
        assert_eq!(ports.len(), expected.len());
        assert!(format != Format::Text);
    }
}

#[test]
fn text_without_a_packet_and_bytes_that_are_neither_are_refused() {
    let mut prose = PacketReader::from_bytes(b"Dear reader,\nthere is no packet here.\n").expect("text");
    assert!(matches!(prose.next_packet(), Err(CaptureError::NoPacketInText { lines: 2 })));
    assert!(matches!(
        PacketReader::from_bytes(&[0x7f, b'E', b'L', b'F', 2, 1, 1, 0]),
        Err(CaptureError::UnknownMagic { .. })
    ));
    assert!(matches!(PacketReader::from_bytes(b"abc"), Err(CaptureError::NoCapture { have: 3, .. })));
    assert!(matches!(PacketReader::from_bytes(b""), Err(CaptureError::NoCapture { have: 0, .. })));
}

#[test]
fn packed_text_cut_short_says_so() {
    let (_, bytes) = compressed(TEXT.as_bytes()).remove(0);
    let mut packets = PacketReader::from_bytes(&bytes[..bytes.len() - 12]).expect("text");
    let mut count = 0;
    while packets.next_packet().expect("memory").is_some() {
        count += 1;
    }
    assert!(count >= 1);
    assert_eq!(packets.problems().count(Problem::CutCompression), 1);
}

/// A length that runs beyond the end of the file is damage where whole blocks follow, and not the
/// file's end.
#[test]
fn a_length_beyond_the_end_is_passed_where_blocks_follow() {
    let mut file = samples::pcapng(LITTLE);
    // The third packet's block: a section of 28 bytes, an interface, then packets, each with its
    // length at offset 4.
    let mut at = 0;
    for _ in 0..4 {
        at += u32::from_le_bytes(file[at + 4..at + 8].try_into().unwrap()) as usize;
    }
    file[at + 4..at + 8].copy_from_slice(&0x10_0000_u32.to_le_bytes());
    let (kept, problems) = read(Capture::from_bytes(&file));
    assert_eq!((kept.len(), problems), (5, 1));
}
