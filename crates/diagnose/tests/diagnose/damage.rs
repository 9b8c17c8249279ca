//! Damaged segments: real bytes with real checksums, of which some were changed, over IPv4 and
//! IPv6.

use crate::conversation;
use std::net::{IpAddr, SocketAddr};

use crate::bytes::{header, ipv4};
use crate::conversation::{Bulk, Script, check, has};
use diagnose::{Follower, Keep, Mark, Options, Report};
use wire::packet::{Ipv6, ip_protocol, transport_checksum};
use wire::{Frame, LinkType, Packet, Reassembly, Segment, dissect};

/// What a host leaves in the checksum field.
#[derive(Clone, Copy, PartialEq)]
enum Sums {
    Filled,
    /// For the network card to fill in: the sum of the pseudo-header.
    Offloaded,
}

/// The packet that a segment stands for, from its IP header on.
fn packet(s: &Segment, sums: Sums) -> Vec<u8> {
    let mut tcp = header(s);
    tcp.extend((0..s.payload).map(|i| (i ^ s.seq.0) as u8));
    let pseudo_header = || {
        // The sum over nothing but the pseudo-header is that of a segment of zeros, complemented.
        !transport_checksum(s.source.ip(), s.destination.ip(), ip_protocol::TCP, &vec![0; tcp.len()])
    };
    let sum = match sums {
        Sums::Filled => transport_checksum(s.source.ip(), s.destination.ip(), ip_protocol::TCP, &tcp),
        Sums::Offloaded => pseudo_header(),
    };
    tcp[16..18].copy_from_slice(&sum.to_be_bytes());
    let mut out = Vec::new();
    match (s.source.ip(), s.destination.ip()) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => ipv4(s, source, destination).emit(tcp.len(), &mut out),
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            Ipv6 { source, destination, next_header: 6, hop_limit: 64, traffic_class: 0, flow_label: 0 }
                .emit(tcp.len(), &mut out);
        }
        _ => unreachable!(),
    }
    [out, tcp].concat()
}

/// A download of 300 segments, of which the named ones vanish the first time.
fn download(v6: bool, lost: &[u64]) -> Script {
    let mut script = Script::new();
    if v6 {
        script.client.address = SocketAddr::new("2001:db8::1".parse().unwrap(), 40_000);
        script.server.address = SocketAddr::new("2001:db8::2".parse().unwrap(), 80);
    }
    (script.client.stamps, script.server.stamps) = (false, false);
    Bulk { segments: 300, lost: lost.to_vec(), ..Bulk::default() }.run(&mut script);
    script
}

/// The report on the segments as bytes, each changed by `alter` (given its place in the stream in
/// full segments, and whether it is the first there).
fn report(script: &Script, sums: Sums, alter: impl Fn(&Segment, u64, bool, &mut Vec<u8>)) -> Report {
    let mut follower = Follower::new(Options { keep: Keep::First(1, 100_000), ..Options::default() });
    let mut sent = std::collections::HashSet::new();
    for s in &script.segments {
        let place = u64::from(s.seq.0.wrapping_sub(script.server.isn).wrapping_sub(1)) / conversation::SIZE;
        let from_server = s.source == script.server.address && s.payload > 0;
        let first = from_server && sent.insert(place);
        let mut bytes = packet(s, if from_server { sums } else { Sums::Filled });
        alter(s, if from_server { place } else { u64::MAX }, first, &mut bytes);
        let frame = Frame::new(s.number, s.at, LinkType::RAW, &bytes);
        let Ok(Packet::Tcp(segment)) = dissect(&frame, &mut Reassembly::new()) else { panic!("no segment") };
        follower.take(&segment);
    }
    let report = follower.report(1).unwrap();
    check(&report);
    report
}

fn flip(bytes: &mut [u8]) {
    let last = bytes.len() - 5;
    bytes[last] ^= 0x20;
}

const LOST: [u64; 4] = [40, 41, 90, 200];

#[test]
fn a_damaged_segment_was_not_delivered_and_its_retransmission_is_needed() {
    for v6 in [false, true] {
        let script = download(v6, &LOST);
        let whole = report(&script, Sums::Filled, |_, _, _, _| {});
        assert_eq!((whole.to_client.damaged_packets, whole.to_client.wrong_checksums), (0, 0));
        let damaged = report(&script, Sums::Filled, |_, place, first, bytes| {
            if first && LOST.contains(&place) {
                flip(bytes);
            }
        });
        let (d, w) = (&damaged.to_client, &whole.to_client);
        assert_eq!((d.damaged_packets, d.wrong_checksums, d.checksum_offload), (4, 0, false));
        // The bytes count once: when they came whole.
        assert_eq!((d.unique_bytes, d.retransmitted_bytes), (w.unique_bytes, 0));
        assert_eq!((d.retransmitted_packets, d.retransmissions), (w.retransmitted_packets, w.retransmissions));
        assert_eq!(
            (d.packets, d.spurious_retransmissions, d.unseen_bytes, d.lost_before_capture),
            (w.packets, 0, 0, 0)
        );
        let finding = has(&damaged, "damaged_packets").unwrap();
        assert_eq!((finding.count, finding.packets.len()), (4, 4));
        let marked = damaged.records.iter().filter(|r| r.mark == Mark::Damaged).map(|r| r.segment.number);
        assert_eq!(marked.collect::<Vec<_>>(), finding.packets);
    }
}

#[test]
fn a_damaged_ack_says_nothing() {
    let script = download(false, &[]);
    let whole = report(&script, Sums::Filled, |_, _, _, _| {});
    let damaged = report(&script, Sums::Filled, |s, _, _, bytes| {
        // The window field of an ACK becomes zero.
        if s.source == script.client.address && s.number > 60 && s.number % 12 == 0 && s.payload == 0 {
            bytes[20 + 14..20 + 16].fill(0);
        }
    });
    assert!(damaged.to_server.damaged_packets > 2, "{}", damaged.to_server.damaged_packets);
    assert_eq!(damaged.to_server.zero_window_packets, 0);
    assert_eq!(damaged.to_client.unique_bytes, whole.to_client.unique_bytes);
}

#[test]
fn what_is_acknowledged_without_a_retransmission_was_not_damaged() {
    for v6 in [false, true] {
        let script = download(v6, &LOST);
        let whole = report(&script, Sums::Filled, |_, _, _, _| {});
        let altered = report(&script, Sums::Filled, |_, place, _, bytes| {
            if [60, 61, 150].contains(&place) {
                flip(bytes);
            }
        });
        let (d, w) = (&altered.to_client, &whole.to_client);
        assert_eq!((d.damaged_packets, d.wrong_checksums), (0, 3));
        assert_eq!((d.unique_bytes, d.retransmitted_bytes, d.unseen_bytes), (w.unique_bytes, w.retransmitted_bytes, 0));
        assert!(has(&altered, "damaged_packets").is_none());
    }
}

#[test]
fn nothing_is_said_where_checksums_are_offloaded_or_wrong_throughout() {
    let script = download(false, &LOST);
    let whole = report(&script, Sums::Filled, |_, _, _, _| {});
    let offloaded = report(&script, Sums::Offloaded, |_, _, _, _| {});
    // A tool that changes payload, or one that changes addresses, and no checksum.
    let scrubbed = report(&script, Sums::Filled, |s, _, _, bytes| {
        let start = bytes.len() - s.payload as usize;
        bytes[start..].fill(0);
    });
    let renumbered = report(&script, Sums::Filled, |_, _, _, bytes| {
        bytes[12] ^= 1;
        bytes[16] ^= 1;
    });
    for (what, r) in [("offloaded", offloaded), ("scrubbed", scrubbed), ("renumbered", renumbered)] {
        let d = &r.to_client;
        assert_eq!((d.damaged_packets, d.checksum_offload), (0, what == "offloaded"), "{what}");
        assert_eq!(d.wrong_checksums > 200, what != "offloaded", "{what}: {}", d.wrong_checksums);
        assert_eq!(d.unique_bytes, whole.to_client.unique_bytes, "{what}");
        assert_eq!(d.retransmitted_bytes, whole.to_client.retransmitted_bytes, "{what}");
        assert!(has(&r, "damaged_packets").is_none(), "{what}");
    }
}
