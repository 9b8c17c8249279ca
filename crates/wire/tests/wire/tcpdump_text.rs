//! tcpdump's text, of 1999 and of today, against the packets it was printed from.

use std::process::Command;

use wire::{Capture, Flags, Packet, Reassembly, Segment, TextReader, dissect};

const SHARED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared");
const RECORDED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/recorded");

fn read(text: &str) -> (Vec<Segment>, TextReader<&[u8]>) {
    let mut reader = TextReader::new(text.as_bytes());
    let mut segments = Vec::new();
    while let Some(segment) = reader.next_segment().expect("bytes in memory") {
        segments.push(segment);
    }
    (segments, reader)
}

#[test]
fn the_two_dumps_of_1999() {
    let path = format!("{SHARED}/references/small-messages-and-delayed-acks.txt");
    tier::needs!(tier::Need::Path(&path));
    let text = String::from_utf8_lossy(&std::fs::read(&path).expect("readable")).into_owned();
    let (s, reader) = read(&text);
    assert_eq!((s.len(), reader.dump()), (20, 2));
    let (client, server) = (s[0].source, s[0].destination);
    assert_eq!((reader.name(client.ip()), client.port()), (Some("su2cn10"), 1033));
    assert_eq!((reader.name(server.ip()), server.port()), (Some("su2sn"), 7890));
    assert_eq!((s[0].flags, s[1].flags), (Flags::SYN, Flags::SYN | Flags::ACK));
    assert_eq!((s[0].options.mss, s[0].options.cut), (Some(1460), true));
    assert_eq!(s[0].options.timestamps, Some((Some(2_523_810), None)));
    assert_eq!((s[4].at.as_nanos(), s[5].at.as_nanos()), (977_000, 20_528_000));
    assert_eq!((s[4].payload, s[4].header_bytes, s[14].payload), (723, 32, 724));
    assert_eq!((s[4].seq.0, s[4].end_seq().0), (2_307_198_862, 2_307_199_585));
    assert_eq!(s[5].ack, s[4].end_seq());
    assert_eq!((s[2].seq, s[8].seq.0), (s[0].end_seq(), 2_590_564_684));
    assert_eq!(s[9].ack, s[8].end_seq());
    assert_eq!(s[10].at.as_nanos(), 0);
}

#[test]
fn sack_blocks_count_from_the_other_side_s_first_number() {
    let text = "1.000001 IP 10.0.0.1.9 > 10.0.0.2.80: Flags [S], seq 1000, win 100, length 0\n\
        1.000002 IP 10.0.0.2.80 > 10.0.0.1.9: Flags [S.], seq 5000, ack 1001, win 100, length 0\n\
        1.000003 IP 10.0.0.1.9 > 10.0.0.2.80: Flags [.], ack 1, win 100, length 0\n\
        1.000004 IP 10.0.0.1.9 > 10.0.0.2.80: Flags [.], ack 1, win 100, options [nop,nop,sack 2 {1449:2897}{4345:5793}], length 0\n";
    let (s, _) = read(text);
    let blocks: Vec<_> = s[3].options.sack.as_slice().iter().map(|(left, right)| (left.0, right.0)).collect();
    assert_eq!((s[3].ack.0, blocks), (5001, vec![(6449, 7897), (9345, 10_793)]));
}

#[test]
fn an_old_text_gives_what_the_capture_gives() {
    let text = std::fs::read_to_string(format!("{RECORDED}/small-messages.txt")).expect("readable");
    let (read, reader) = read(&text);
    let truth = segments(&format!("{RECORDED}/small-messages.pcap"));
    assert_eq!((read.len(), reader.dump()), (truth.len(), 2));
    for (a, b) in read.iter().zip(&truth) {
        let said = (a.source, a.destination, a.flags, a.payload, a.window, a.header_bytes);
        assert_eq!(said, (b.source, b.destination, b.flags, b.payload, b.window, b.header_bytes), "{a:?}");
        assert!(b.sequence_length() == 0 || a.seq == b.seq, "{a:?} {b:?}");
        assert!(!b.flags.contains(Flags::ACK) || a.ack == b.ack, "{a:?} {b:?}");
        assert_eq!((a.options.mss, a.options.timestamps), (b.options.mss, b.options.timestamps), "{a:?}");
        // Each dump counts from its own first packet.
        let first =
            truth.iter().find(|s| s.source.port() + s.destination.port() == b.source.port() + b.destination.port());
        assert_eq!(a.at.as_nanos(), b.at.as_nanos() - first.expect("its first packet").at.as_nanos(), "{a:?}");
    }
}

#[test]
fn today_s_text_gives_what_the_capture_gives() {
    for (file, sacks) in [("loss.pcap", 20), ("lost-one.pcap", 2), ("closed-window.pcap", 0), ("timeouts.pcap", 0)] {
        compare_with_tcpdump(&format!("{RECORDED}/{file}"), sacks);
    }
}

#[test]
fn today_s_text_of_foreign_captures_gives_what_they_give() {
    let folder = format!("{SHARED}/captures");
    tier::needs!(tier::Need::Path(&folder));
    for (file, sacks) in [("Z_ssh_ssh.pcap", 0), ("T_dsack.dmp", 20), ("Z_http_206_example_a.pcap", 1)] {
        compare_with_tcpdump(&format!("{folder}/{file}"), sacks);
    }
}

/// The TCP segments of a capture.
fn segments(path: &str) -> Vec<Segment> {
    let bytes = std::fs::read(path).expect("readable");
    let mut capture = Capture::from_bytes(&bytes).expect("a capture");
    let mut segments = Vec::new();
    let mut reassembly = Reassembly::new();
    while let Some(frame) = capture.next_frame().expect("bytes") {
        if let Ok(Packet::Tcp(segment)) = dissect(&frame, &mut reassembly) {
            segments.push(segment);
        }
    }
    segments
}

/// `sacks` is how many segments with SACK blocks there must be at least, so that comparing them
/// means something.
fn compare_with_tcpdump(path: &str, sacks: usize) {
    tier::needs!(tier::Need::Program("tcpdump"));
    let truth = segments(path);
    assert!(truth.iter().filter(|s| !s.options.sack.as_slice().is_empty()).count() >= sacks, "{path}");
    for options in [
        &["-nn"][..],
        &["-nn", "-tt"],
        &["-nn", "-ttt"],
        &["-nn", "-tttt"],
        &["-nn", "-S"],
        &["-nn", "-v", "-tt"],
        &["-nn", "-tt", "--number"],
        &["-nn", "-ttt", "--number"],
        &["-nn", "-tttt", "--number", "-v"],
        &["-nn", "-tt", "-e"],
        &["-nn", "-tt", "-e", "-v"],
        &["-nn", "-tt", "-A"],
        &["-nn", "-ttt", "-A", "-v"],
        &["-nn", "-tt", "-X"],
    ] {
        let output = Command::new("tcpdump").args(options).args(["-r", path]).env("TZ", "UTC").output().expect("runs");
        let (read, _) = read(&String::from_utf8_lossy(&output.stdout));
        assert_eq!(read.len(), truth.len(), "{options:?}");
        // One of them spans three years, of which neither a clock without a date nor -ttt prints
        // the days; its first 40 packets are of one day.
        let of_one_day = if options.contains(&"-tt") || options.contains(&"-tttt") { usize::MAX } else { 40 };
        let (mut same_seq, mut elapsed) = (0, true);
        for (n, (a, b)) in read.iter().zip(&truth).enumerate() {
            assert_eq!(
                (a.source, a.destination, a.flags, a.payload),
                (b.source, b.destination, b.flags, b.payload),
                "{options:?} {a:?}"
            );
            assert_eq!((a.window, a.header_bytes), (b.window, b.header_bytes), "{options:?} {a:?}");
            assert_eq!(a.options.sack, b.options.sack, "{options:?} {a:?}");
            if b.flags.contains(Flags::ACK) {
                assert_eq!(a.ack, b.ack, "{options:?} {a:?}");
            }
            assert!(b.sequence_length() == 0 || a.seq == b.seq, "{options:?} {a:?} {b:?}");
            same_seq += usize::from(a.seq == b.seq);
            elapsed &= n >= of_one_day || a.at.since(read[0].at) == b.at.since(truth[0].at);
        }
        assert!(elapsed, "{options:?}: times since the first packet");
        assert!(same_seq * 100 >= truth.len() * 90, "{options:?}: {same_seq} of {}", truth.len());
    }
}

#[test]
fn midnight_names_ports_ipv6_and_prose() {
    let text = "Here is what I saw at 12:00 > see below:\n\
        23:59:59.900000 IP6 ::1.5000 > ::1.80: Flags [S], seq 4294967295, win 100, options [mss 65476], length 0\n\
        00:00:00.100000 IP6 ::1.80 > ::1.5000: Flags [S.], seq 5, ack 0, win 100, length 0\n\
        \t0x0000:  6000 0000\n\
        00:00:00.200000 IP 10.0.0.1.53 > 10.0.0.2.999: 1234+ A? example.org. (29)\n";
    let (s, reader) = read(text);
    assert_eq!(s.len(), 2);
    assert_eq!(s[1].at.as_nanos() - s[0].at.as_nanos(), 200_000_000);
    assert_eq!((s[1].number, s[1].ack.0, reader.counts().other_packets, reader.counts().passed_over), (2, 0, 1, 2));
}
