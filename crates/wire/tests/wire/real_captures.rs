//! Our own captures, and those beside the checkout where they are: packet and TCP counts, lengths
//! and times agree with tshark.

use std::fs::File;
use std::process::Command;

use wire::{Capture, Packet, Reassembly, dissect};

const RECORDED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/recorded");
const FOREIGN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/captures");

/// One TCP packet, as far as both sides tell: number, time in ns, ports, payload, window, header
/// bytes, raw sequence number.
type Line = (u64, u64, u16, u16, u32, u16, u8, u32);

fn ours(bytes: &[u8]) -> (u64, Vec<Line>) {
    let mut capture = Capture::from_bytes(bytes).expect("a capture");
    let (mut lines, mut reassembly, mut packets) = (Vec::new(), Reassembly::new(), 0);
    while let Some(frame) = capture.next_frame().expect("bytes in memory") {
        packets += 1;
        if let Ok(Packet::Tcp(s)) = dissect(&frame, &mut reassembly) {
            let (from, to) = (s.source.port(), s.destination.port());
            lines.push((s.number, s.at.as_nanos(), from, to, s.payload, s.window, s.header_bytes, s.seq.0));
        }
    }
    (packets, lines)
}

fn tshark(path: &str) -> Vec<Line> {
    let fields = [
        "frame.number",
        "frame.time_epoch",
        "tcp.srcport",
        "tcp.dstport",
        "tcp.len",
        "tcp.window_size_value",
        "tcp.hdr_len",
        "tcp.seq_raw",
    ];
    let mut command = Command::new("tshark");
    // Errors that quote a TCP header within ICMP are not TCP packets.
    command.args(["-r", path, "-n", "-T", "fields", "-E", "occurrence=l", "-Y", "tcp && !icmp && !icmpv6"]);
    for field in fields {
        command.args(["-e", field]);
    }
    let output = command.output().expect("tshark runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let number = |field: &str| field.parse::<u64>().ok();
    text.lines()
        .filter_map(|line| {
            let f: Vec<&str> = line.split('\t').collect();
            let (seconds, fraction) = f[1].split_once('.').expect("seconds");
            let at = number(seconds)? * 1_000_000_000 + number(&format!("{fraction:0<9}")[..9])?;
            // A header of which tshark cannot tell the length was cut short.
            Some((
                number(f[0])?,
                at,
                number(f[2])? as u16,
                number(f[3])? as u16,
                number(f[4])? as u32,
                number(f[5])? as u16,
                number(f[6])? as u8,
                number(f[7])? as u32,
            ))
        })
        .collect()
}

fn files() -> Vec<String> {
    let folders = [RECORDED, FOREIGN].into_iter().filter_map(|folder| std::fs::read_dir(folder).ok());
    let mut files: Vec<String> = folders
        .flatten()
        .map(|entry| entry.expect("an entry").path().display().to_string())
        .filter(|path| !path.ends_with(".md") && !path.ends_with(".txt"))
        .collect();
    files.sort();
    assert!(files.len() >= 5, "{files:?}");
    files
}

#[test]
fn every_tcp_packet_is_as_tshark_reads_it() {
    tier::needs!(tier::Need::Program("tshark"));
    let mut compared = 0;
    for path in files() {
        let (_, ours) = ours(&std::fs::read(&path).expect("readable"));
        if path.ends_with("D_bigtcp-ipv6.pcap") {
            // tshark 4.0 takes IPv6's length of 0 at its word and calls the packet malformed. The
            // frame has 80,054 bytes, of which 14 are Ethernet's, 40 IPv6's and 32 TCP's with its
            // timestamps.
            assert_eq!(ours.iter().map(|l| (l.2, l.3, l.4, l.6)).collect::<Vec<_>>(), [(43267, 41219, 79_968, 32)]);
            continue;
        }
        let theirs = tshark(&path);
        assert_eq!(ours.len(), theirs.len(), "{path}");
        for (a, b) in ours.iter().zip(&theirs) {
            assert_eq!(a, b, "{path}");
        }
        compared += ours.len();
    }
    let least = if std::path::Path::new(FOREIGN).exists() { 5_000 } else { 1_000 };
    assert!(compared > least, "{compared} TCP packets in all the captures");
}

#[test]
fn memory_and_stream_give_the_same_frames() {
    for path in files() {
        let bytes = std::fs::read(&path).expect("readable");
        let mut memory = Capture::from_bytes(&bytes).expect("a capture");
        let mut stream = Capture::from_reader(File::open(&path).expect("opens")).expect("a capture");
        loop {
            let (a, b) = (memory.next_frame().expect("memory"), stream.next_frame().expect("file"));
            match (a, b) {
                (None, None) => break,
                (Some(a), Some(b)) => {
                    assert_eq!(
                        (a.number, a.offset, a.at, a.original_length),
                        (b.number, b.offset, b.at, b.original_length)
                    );
                    assert_eq!(a.data, b.data);
                }
                _ => panic!("{path}: one ended before the other"),
            }
        }
        assert_eq!(memory.problems().total(), stream.problems().total());
    }
}

#[test]
fn a_file_cut_anywhere_gives_the_packets_before_the_cut() {
    for path in files() {
        let bytes = std::fs::read(&path).expect("readable");
        let whole = ours(&bytes[..bytes.len().min(4_000)]).0;
        for cut in 0..bytes.len().min(4_000) {
            let Ok(mut capture) = Capture::from_bytes(&bytes[..cut]) else { continue };
            let mut reassembly = Reassembly::new();
            let mut end = 0;
            while let Some(frame) = capture.next_frame().expect("bytes in memory") {
                let _ = dissect(&frame, &mut reassembly);
                end = frame.offset;
            }
            assert!(capture.packets() <= whole && end < cut as u64, "{path} at {cut}");
            let clean = capture.offset() == cut as u64;
            let unknown_only = capture.problems().iter().all(|(p, _)| p.class() == wire::Class::Unsupported);
            assert_eq!(clean, unknown_only, "{path} at {cut}: a cut within a record is said");
        }
    }
}

/// What a program prints of a capture, whatever it says on standard error.
fn printed(program: &str, arguments: &[&str], path: &str) -> String {
    let output = Command::new(program).args(arguments).arg(path).output().expect("the program runs");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn tcpdump_and_tcptrace_count_as_many_tcp_packets() {
    tier::needs!(tier::Need::Program("tcpdump"), tier::Need::Program("tcptrace"));
    for path in files() {
        let (packets, segments) = ours(&std::fs::read(&path).expect("readable"));
        let segments = segments.len();
        // Only lines on TCP give flags in brackets.
        let tcpdump = printed("tcpdump", &["-nn", "-r"], &path).matches(": Flags [").count();
        let text = printed("tcptrace", &["-n"], &path);
        let number_before = |words: &str| -> usize {
            let before = text.split(words).next().expect("a first part");
            before.rsplit(|c: char| !c.is_ascii_digit()).next().and_then(|n| n.parse().ok()).expect("a number")
        };
        let (seen, traced) = (number_before(" packets seen"), number_before(" TCP packets traced"));
        if path.ends_with("D_bigtcp-ipv6.pcap") {
            // tcpdump 4.99.3 takes IPv6's length of 0 at its word and prints no TCP.
            assert_eq!((segments, tcpdump, traced), (1, 0, 1));
            continue;
        }
        assert_eq!(segments, tcpdump, "{path}: tcpdump");
        if path.ends_with("Z_pppoe-over-qinq.pcap") {
            // tcptrace passes no stacked tags, so it sees nothing.
            assert_eq!((segments, seen, traced), (86, 0, 0));
            continue;
        }
        assert_eq!(segments, traced, "{path}: tcptrace");
        // Where tcptrace does not count all packets, it leaves out those that are not IP.
        assert!(seen as u64 <= packets && seen >= traced, "{path}: {seen} of {packets}");
    }
}
