//! Segments of a conversation as bytes.

use std::net::Ipv4Addr;

use wire::Segment;
use wire::packet::{Ipv4, Tcp, ip_protocol};

/// The TCP header of a segment with its options, checksum 0.
pub fn header(s: &Segment) -> Vec<u8> {
    let mut options = Vec::new();
    if let Some(mss) = s.options.mss {
        options.extend_from_slice(&[2, 4, (mss >> 8) as u8, mss as u8, 1, 3, 3, 7, 1, 1, 4, 2]);
    }
    for (left, right) in s.options.sack.as_slice() {
        options.extend_from_slice(&[1, 1, 5, 10]);
        options.extend_from_slice(&left.0.to_be_bytes());
        options.extend_from_slice(&right.0.to_be_bytes());
    }
    let mut tcp = Vec::new();
    let (source_port, destination_port) = (s.source.port(), s.destination.port());
    let (seq, ack, flags, window) = (s.seq, s.ack, s.flags, s.window);
    Tcp { source_port, destination_port, seq, ack, flags, window, header_bytes: 20 }.emit(&options, &mut tcp);
    tcp
}

/// The IPv4 header of a segment.
pub fn ipv4(s: &Segment, source: Ipv4Addr, destination: Ipv4Addr) -> Ipv4 {
    Ipv4 {
        source,
        destination,
        protocol: ip_protocol::TCP,
        id: s.network.id.unwrap_or(0),
        dont_fragment: true,
        more_fragments: false,
        fragment_offset: 0,
        ttl: 64,
        traffic_class: 0,
    }
}
