//! What `analyze` makes of its input: the same with any number of threads, in memory that depends
//! on connections, and something of damaged files.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use record::{Instant, SeqNumber};
use serde_json::Value;
use wire::capture::{Particulars, PcapngWriter, write_pcap_header, write_pcap_record};
use wire::generate::{Pattern, Traffic, write_traffic};
use wire::packet::{Ethernet, Ipv4, Tcp, ether_type, ip_protocol};
use wire::{Capture, Flags, LinkType};

fn capture(pattern: Pattern, packets: u64, connections: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_traffic(&mut bytes, &Traffic { pattern, packets, connections, seed: 1, loss_one_in: 100 }).expect("memory");
    bytes
}

fn wirelapse(args: &[&str]) -> Output {
    tier::wirelapse!(["analyze"]).args(args).output().expect("the binary runs")
}

/// The line on the capture.
fn last(output: &Output) -> Value {
    let text = tier::text(&output.stdout);
    serde_json::from_str(text.lines().last().expect("a line")).expect("JSON")
}

#[test]
fn any_number_of_threads_says_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mixed.pcap");
    fs::write(&path, capture(Pattern::Mixed, 40_000, 200)).unwrap();
    let file = path.to_str().unwrap();
    for limit in [&[][..], &["--max-connections", "50"]] {
        let run = |threads| wirelapse(&[&["--json", "--threads", threads, file], limit].concat());
        let one = run("1");
        assert!(one.status.success() && one.stderr.is_empty(), "{one:?}");
        let beyond = last(&one)["totals"]["beyond_limit"].as_u64().unwrap();
        assert_eq!(beyond > 0, !limit.is_empty());
        for threads in ["2", "3", "8"] {
            assert!(run(threads).stdout == one.stdout, "{threads} threads, {limit:?}");
        }
    }
    let rows = |threads| {
        let text = String::from_utf8(wirelapse(&["--rows", "10", "--threads", threads, file]).stdout).unwrap();
        // What follows names the command line, with its number of threads.
        text.split_once("# Environment").unwrap().0.to_owned()
    };
    assert!(rows("1").contains("490 more rows"), "500 of 724 are kept");
    assert_eq!(rows("1"), rows("3"));
}

/// Each thread meets only the processes of its own connections, and all of them the server's.
#[test]
fn any_number_of_threads_names_the_same_processes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("named.pcapng");
    let bytes = capture(Pattern::Mixed, 12_000, 60);
    let mut frames = Capture::from_bytes(&bytes).unwrap();
    let mut writer = PcapngWriter::new(fs::File::create(&path).unwrap(), "test").unwrap();
    writer.interfaces(frames.interfaces()).unwrap();
    while let Some(frame) = frames.next_frame().unwrap() {
        // The ports, behind Ethernet and IPv4.
        let [from, to] = [34, 36].map(|at| u16::from_be_bytes([frame.data[at], frame.data[at + 1]]));
        let comment = format!("rustnet process=program pid={from} direction=outgoing");
        let of = match from > to {
            true => Particulars { comments: &[&comment], ..Particulars::default() },
            false => Particulars { process: Some((to.into(), 0)), ..Particulars::default() },
        };
        writer.packet(&frame, &of).unwrap();
    }
    writer.finish().unwrap();
    assert!(fs::metadata(&path).unwrap().len() > 1 << 20, "a smaller file is read by one thread");
    let shown = |threads| {
        let text =
            String::from_utf8(wirelapse(&["--full", "--threads", threads, path.to_str().unwrap()]).stdout).unwrap();
        text.split_once("# Environment").unwrap().0.to_owned()
    };
    let one = shown("1");
    assert!(one.matches(" program[").count() >= 60, "{one}");
    for threads in ["2", "3"] {
        assert_eq!(shown(threads), one, "{threads} threads");
    }
}

/// A capture of so many connections that stay open, each of which sent these bytes to this port.
fn open_connections(connections: u16, port: u16, payload: &[u8]) -> Vec<u8> {
    let mut file = Vec::new();
    write_pcap_header(&mut file, LinkType::ETHERNET).unwrap();
    for n in 0..connections {
        let mut frame = Vec::new();
        Ethernet { destination: [2; 6], source: [4; 6], ether_type: ether_type::IPV4 }.emit(&mut frame);
        let [high, low] = n.to_be_bytes();
        let header = Ipv4 {
            source: [10, 0, high, low].into(),
            destination: [192, 0, 2, 53].into(),
            protocol: ip_protocol::TCP,
            id: 1,
            dont_fragment: true,
            more_fragments: false,
            fragment_offset: 0,
            ttl: 64,
            traffic_class: 0,
        };
        header.emit(20 + payload.len(), &mut frame);
        let (seq, flags) = (SeqNumber(1), Flags::ACK | Flags::PSH);
        let tcp =
            Tcp { source_port: 40_000, destination_port: port, seq, ack: seq, flags, window: 65_535, header_bytes: 20 };
        tcp.emit(&[], &mut frame);
        frame.extend_from_slice(payload);
        let at = Instant::from_nanos(1_000_000_000 + u64::from(n));
        write_pcap_record(&mut file, at, frame.len() as u32, &frame).unwrap();
    }
    // A file below 1 MiB is read by one thread.
    assert!(file.len() > 1 << 20);
    file
}

#[test]
fn what_is_open_beyond_a_limit_does_not_depend_on_threads() {
    let folder = tempfile::tempdir().unwrap();
    // A question whose length is there and nothing else, and the beginning of a hello.
    for (what, port, payload) in [("dns", 53, &[0, 40, 1, 2, 3][..]), ("tls", 443, &[22, 3, 1, 1, 0, 1, 0, 0, 252])] {
        let path = folder.path().join(what);
        fs::write(&path, open_connections(17_000, port, payload)).unwrap();
        let run = |threads| wirelapse(&["--json", "--threads", threads, path.to_str().unwrap()]);
        let one = run("1");
        assert_eq!(last(&one)[what]["beyond_limit"], 17_000 - 16_384, "{what}");
        for threads in ["2", "3"] {
            assert!(run(threads).stdout == one.stdout, "{what}, {threads} threads");
        }
    }
}

fn reading_from_a_pipe() -> Child {
    tier::wirelapse!(["analyze", "--rows", "1", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("the binary runs")
}

/// The most memory that the command had while it held all but the last pipe's fill of such a
/// capture, in bytes.
fn peak(packets: u64, connections: u32) -> u64 {
    let mut child = reading_from_a_pipe();
    let mut input = child.stdin.take().unwrap();
    input.write_all(&capture(Pattern::Messages, packets, connections)).unwrap();
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    drop(input);
    assert!(child.wait().unwrap().success());
    let line = status.lines().find(|l| l.starts_with("VmHWM:")).expect("VmHWM");
    line.split_whitespace().nth(1).and_then(|n| n.parse::<u64>().ok()).expect("a number of KiB") * 1024
}

#[test]
fn memory_goes_by_connections_and_not_by_packets() {
    // A connection's distributions grow with their range, up to a bound: so few of them that this
    // is little beside 100 bytes or more for each packet, were it kept.
    let (few, many) = (peak(20_000, 20), peak(120_000, 20));
    assert!(many.saturating_sub(few) < 100_000 * 10, "{few} {many}");
    // Eight packets each, and so many that a large page more, 2 MiB for each size of block, is
    // little to one. Lists that double their room are of the same relative size at both. What has
    // been read ahead at that moment, on a busy machine more, is in the figure too.
    let (few, many) = (peak(12_000 * 8, 12_000), peak(36_000 * 8, 36_000));
    let each = many.saturating_sub(few) / 24_000;
    assert!((1_000..3_072).contains(&each), "{each} bytes a connection");
}

#[test]
fn a_pipe_that_still_grows_is_read_to_its_end() {
    let whole = capture(Pattern::Messages, 3_000, 10);
    let mut child =
        tier::wirelapse!(["analyze", "--json", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    for piece in whole.chunks(whole.len() / 7 + 1) {
        input.write_all(piece).unwrap();
        input.flush().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    drop(input);
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), last(&output)["packets"].as_u64()), (Some(0), Some(3_000)));
}

/// Analyses `path`, of which nothing can be read: 2, and the message names it and says what is
/// wrong.
fn refused(path: &Path, words: &str) {
    let output = wirelapse(&[path.to_str().unwrap()]);
    let message = tier::text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(message.contains(path.to_str().unwrap()) && message.contains(words), "{words}: {message}");
    assert!(output.stdout.is_empty(), "{output:?}");
}

/// Analyses `path`, of which a part can be read: 0, the packets of that part, and a warning that
/// names file, packet and byte.
fn read_in_part(path: &Path, words: &str) -> u64 {
    let output = wirelapse(&["--json", path.to_str().unwrap()]);
    let message = tier::text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{message}");
    for part in [path.to_str().unwrap(), ": packet ", ", byte ", words] {
        assert!(message.contains(part), "{part}: {message}");
    }
    let capture = last(&output);
    assert!(!capture["problems"].as_array().unwrap().is_empty(), "{capture}");
    capture["packets"].as_u64().unwrap()
}

#[test]
fn nothing_to_read_ends_in_2() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| -> PathBuf {
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        path
    };
    let whole = capture(Pattern::Download, 100, 2);
    refused(folder.path(), "is a directory");
    refused(&folder.path().join("missing.pcap"), "No such file");
    refused(&write("empty.pcap", b""), "holds no packet");
    refused(&write("header.pcap", &whole[..20]), "holds no packet");
    refused(&write("magic.pcap", &[&[0xa1, 0xb2, 0xc3, 0xd5], &whole[4..]].concat()), "not a capture file");
    refused(&write("version.pcap", &[&whole[..4], &[9, 0], &whole[6..]].concat()), "pcap version 9 is not supported");
    // The only record claims 4 GiB, or is not all there.
    let only = 24 + 16 + u32::from_le_bytes(whole[24 + 8..24 + 12].try_into().unwrap()) as usize;
    let claimed = [&whole[..24 + 8], &u32::MAX.to_le_bytes(), &whole[24 + 12..only]].concat();
    refused(&write("record.pcap", &claimed), "longer than any packet");
    refused(&write("first.pcap", &whole[..24 + 16 + 5]), "the file ends within a record");
    refused(&write("cut.gz", &[0x1f, 0x8b, 8, 0]), "cut.gz");
}

#[test]
fn a_part_is_read_of_what_is_damaged_further_on() {
    let folder = tempfile::tempdir().unwrap();
    let whole = capture(Pattern::Download, 20_000, 20);
    let path = folder.path().join("cut.pcap");
    // More than 1 MiB, so that several threads read it.
    fs::write(&path, &whole[..whole.len() - 50]).unwrap();
    assert_eq!(read_in_part(&path, "the file ends within a record"), 19_999);
    // A record that claims 4 GiB, after 40 packets.
    let (mut bytes, mut at) = (capture(Pattern::Download, 100, 2), 24);
    for _ in 0..40 {
        at += 16 + u32::from_le_bytes(bytes[at + 8..at + 12].try_into().unwrap()) as usize;
    }
    bytes[at + 8..at + 12].copy_from_slice(&u32::MAX.to_le_bytes());
    let path = folder.path().join("record.pcap");
    fs::write(&path, bytes).unwrap();
    // It is skipped to the next whole one.
    assert_eq!(read_in_part(&path, "longer than any packet"), 99);
    // A pcapng block of 4 GiB in place of the last one, whose length takes 4 bytes at its end too.
    let path = folder.path().join("block.pcapng");
    fs::write(folder.path().join("plain.pcap"), capture(Pattern::Download, 100, 2)).unwrap();
    let plain = folder.path().join("plain.pcap");
    let made = wirelapse(&[plain.to_str().unwrap(), "--annotate", path.to_str().unwrap()]);
    assert!(made.status.success(), "{made:?}");
    let mut bytes = fs::read(&path).unwrap();
    let start = bytes.len() - u32::from_le_bytes(bytes[bytes.len() - 4..].try_into().unwrap()) as usize;
    bytes[start + 4..start + 8].copy_from_slice(&0xffff_fffc_u32.to_le_bytes());
    fs::write(&path, bytes).unwrap();
    assert_eq!(read_in_part(&path, "block.pcapng"), 99);
}

#[test]
fn compressed_files_cut_short_are_read_as_far_as_they_go() {
    let folder = tempfile::tempdir().unwrap();
    let plain = folder.path().join("whole.pcap");
    fs::write(&plain, capture(Pattern::Messages, 20_000, 20)).unwrap();
    for (program, ending) in [("gzip", "gz"), ("zstd", "zst"), ("xz", "xz")] {
        tier::needs!(tier::Need::Program(program));
        let compressed = Command::new(program).args(["-1", "-c", "-q"]).arg(&plain).output().unwrap().stdout;
        let path = folder.path().join(format!("cut.pcap.{ending}"));
        fs::write(&path, &compressed).unwrap();
        assert_eq!(last(&wirelapse(&["--json", path.to_str().unwrap()]))["packets"], 20_000);
        fs::write(&path, &compressed[..compressed.len() / 2]).unwrap();
        let read = read_in_part(&path, "compressed file");
        assert!((1_000..20_000).contains(&read), "{ending}: {read}");
    }
}
