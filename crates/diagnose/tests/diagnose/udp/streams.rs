//! Numbered streams: loss, order, jitter and pauses, of RTP and of load generators.

use std::net::{Ipv4Addr, SocketAddrV4};

use record::Nanos;
use record::conversation::Way;
use record::udp::{Numbering, Shape, UdpFindingKind as Kind};

use super::{Read, read};
use crate::dns::made::{CLIENT, MS, Made, S};

fn ends() -> (SocketAddrV4, SocketAddrV4) {
    (SocketAddrV4::new(CLIENT, 40_000), SocketAddrV4::new(Ipv4Addr::new(198, 51, 100, 9), 5_004))
}

/// A packet of RTP with 160 bytes of sound of 8 kHz.
fn rtp(number: u16, stamp: u32, kind: u8) -> Vec<u8> {
    let mut packet = vec![0x80, kind];
    packet.extend_from_slice(&number.to_be_bytes());
    packet.extend_from_slice(&stamp.to_be_bytes());
    packet.extend_from_slice(&[0xca, 0xfe, 0, 1]);
    packet.resize(172, 0x55);
    packet
}

/// 20 ms of sound in each packet, from number 65,000 on; `at` says when each came, if it did.
fn call(packets: u64, kind: u8, at: impl Fn(u64) -> Option<u64>) -> Read {
    let mut made = Made::default();
    let mut all: Vec<(u64, Vec<u8>)> = Vec::new();
    for n in 0..packets {
        let packet = rtp(65_000u16.wrapping_add(n as u16), (u32::MAX - 5_000).wrapping_add(n as u32 * 160), kind);
        all.extend(at(n).map(|at| (at, packet)));
    }
    all.sort_by_key(|(at, _)| *at);
    all.iter().for_each(|(at, packet)| drop(made.datagram(*at, ends().0, ends().1, packet)));
    read(&made)
}

const EVERY: u64 = 20 * MS;

#[test]
fn an_even_stream_has_no_finding_though_its_numbers_begin_again() {
    let read = call(2_000, 0, |n| Some(n * EVERY));
    let (c, s) = (read.only(), read.stream());
    assert_eq!((c.shape, c.protocol.as_deref()), (Shape::OneWay, Some("RTP")));
    assert_eq!((s.numbering, s.way, s.stream.as_str()), (Numbering::Rtp, Way::ToServer, "0xcafe0001"));
    assert_eq!((s.expected, s.received, s.lost, s.restarts, s.datagrams), (2_000, 2_000, 0, 0, 2_000));
    assert_eq!((s.payload_type, s.clock_hz), (Some(0), Some(8_000)));
    assert_eq!((s.jitter_ns, s.gap_median_ns), (Some(Nanos(0)), Some(Nanos(EVERY))));
    assert_eq!(read.kinds(), []);
    assert!(c.verdict.contains("at 69.1 kbit/s") || c.verdict.contains("at 68.8 kbit/s"), "{}", c.verdict);
}

#[test]
fn the_clock_of_a_dynamic_type_follows_from_its_stamps() {
    // 160 ticks every 20 ms are 8 kHz, and every 3.33 ms 48 kHz.
    for (every, clock) in [(EVERY, Some(8_000)), (EVERY / 6, Some(48_000)), (EVERY / 5, None)] {
        let read = call(1_000, 96, |n| Some(n * every));
        let s = read.stream();
        assert_eq!((s.payload_type, s.clock_hz, s.jitter_ns.is_some()), (Some(96), clock, clock.is_some()));
        assert_eq!(read.only().withheld.is_some(), clock.is_none());
    }
}

#[test]
fn loss_and_jitter_are_distinguished() {
    let lossy = call(2_000, 0, |n| (n % 100 != 50).then_some(n * EVERY));
    assert_eq!(lossy.kinds(), [Kind::Loss]);
    let s = lossy.stream();
    assert_eq!((s.expected, s.lost, s.gaps, s.longest_loss, s.lost_in_bursts), (2_000, 20, 20, 1, 0));
    assert_eq!(s.jitter_max_ns, Some(Nanos(0)));
    // The packet after the first gap: 51, in place 51.
    assert_eq!(lossy.findings[0].packets.split(' ').next(), Some("51"));
    let jittery = call(2_000, 0, |n| Some(n * EVERY + (n % 3) * 40 * MS));
    assert_eq!(jittery.stream().lost, 0);
    assert!(jittery.kinds().contains(&Kind::Jitter), "{jittery:#?}");
    assert!(!jittery.kinds().contains(&Kind::Loss));
    assert!(jittery.stream().jitter_max_ns.unwrap() > Nanos(40 * MS));
}

#[test]
fn a_late_packet_is_out_of_order_and_not_lost() {
    let read = call(2_000, 0, |n| Some(n * EVERY + if n % 50 == 7 { 70 * MS } else { 0 }));
    let s = read.stream();
    assert_eq!((s.lost, s.gaps, s.reordered), (0, 0, 40));
    assert_eq!(read.kinds(), [Kind::Reordered]);
}

#[test]
fn a_pause_of_the_path_is_one_and_a_pause_of_the_sender_is_not() {
    let path = call(1_000, 0, |n| Some(if (500..520).contains(&n) { 519 * EVERY + n * 10_000 } else { n * EVERY }));
    assert!(path.kinds().contains(&Kind::Pause), "{path:#?}");
    let finding = path.findings.iter().find(|f| f.kind == Kind::Pause).unwrap();
    assert!(finding.packets.contains("500 501"), "{}", finding.packets);
    assert!(finding.text.contains("the sender did not pause"), "{}", finding.text);
    // Stamps that go on meanwhile: silence was not sent.
    let mut made = Made::default();
    for n in 0..1_000u64 {
        let at = n * EVERY + if n >= 500 { 2 * S } else { 0 };
        made.datagram(at, ends().0, ends().1, &rtp(n as u16, (at / 125_000) as u32, 0));
    }
    assert_eq!(read(&made).kinds(), []);
}

/// A datagram of `wirelapse udp`.
fn own(number: u64, sent: u64) -> Vec<u8> {
    let mut packet = [b"WLUD\0\0\0\0".as_slice(), &number.to_be_bytes(), &sent.to_be_bytes()].concat();
    packet.resize(1_200, 0);
    packet
}

#[test]
fn loss_at_the_end_of_bursts_is_that_of_a_queue() {
    // 20 in a row every 20 ms, of which the queue has room for 15.
    let mut made = Made::default();
    for n in 0..2_000u64 {
        let sent = n / 20 * EVERY;
        if n % 20 < 15 || n < 20 {
            made.datagram(sent + n % 20 * 50_000, ends().0, ends().1, &own(n + 1, sent));
        }
    }
    let read = read(&made);
    let s = read.stream();
    assert_eq!((s.numbering, s.lost, s.gaps, s.longest_loss), (Numbering::Wirelapse, 490, 98, 5));
    assert_eq!(s.lost_in_bursts, 490);
    assert!(read.kinds().contains(&Kind::Bursts) && !read.kinds().contains(&Kind::Loss), "{read:#?}");
    let c = read.only();
    assert_eq!(c.by_client.burst_bits_per_second, Some(192_000_000));
}

#[test]
fn iperf3_is_known_by_its_stamps_and_what_only_looks_like_it_is_not() {
    let datagram = |number: u32, sent: u64| {
        let fields = [(sent / S) as u32, (sent % S / 1_000) as u32, number];
        let mut packet = fields.map(u32::to_be_bytes).concat();
        packet.resize(1_000, 0);
        packet
    };
    let mut made = Made::default();
    for n in 0..500u64 {
        if n != 400 {
            made.datagram(n * MS, ends().0, ends().1, &datagram(n as u32 + 1, 77 * S + n * MS));
        }
    }
    let s = read(&made).stream().clone();
    assert_eq!((s.numbering, s.expected, s.lost, s.clock_hz), (Numbering::Iperf3, 500, 1, Some(1_000_000)));
    // The same numbers with stamps that stand still.
    let mut other = Made::default();
    for n in 0..500u64 {
        other.datagram(n * S, ends().0, ends().1, &datagram(n as u32 + 1, 77 * S));
    }
    assert_eq!(read(&other).streams, []);
}

#[test]
fn numbers_that_begin_anew_are_no_loss() {
    let read = call(2_000, 0, |n| Some(n * EVERY));
    assert_eq!(read.stream().restarts, 0);
    let mut made = Made::default();
    for n in 0..1_000u64 {
        let number = if n < 500 { n } else { n + 20_000 };
        made.datagram(n * EVERY, ends().0, ends().1, &rtp(number as u16, n as u32 * 160, 0));
    }
    let read = super::read(&made);
    let s = read.stream();
    assert_eq!((s.lost, s.restarts, s.expected), (0, 1, 1_000));
    assert_eq!(read.kinds(), []);

    // By less than a long loss, but at once: nobody can have sent so much meanwhile.
    let mut made = Made::default();
    for n in 0..1_000u64 {
        let number = if n < 500 { n } else { n + 1_700 };
        made.datagram(n * EVERY, ends().0, ends().1, &rtp(number as u16, n as u32 * 160, 0));
    }
    let s = super::read(&made).stream().clone();
    assert_eq!((s.lost, s.restarts, s.expected), (0, 1, 1_000));
    // The same numbers after as long as they take to be sent: they were lost.
    let lost = call(3_000, 0, |n| (!(500..2_200).contains(&n)).then_some(n * EVERY));
    assert_eq!((lost.stream().lost, lost.stream().restarts, lost.stream().longest_loss), (1_700, 0, 1_700));
}
