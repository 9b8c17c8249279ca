//! Packets and datagrams in words.

use record::Direction;
use summary::{DatagramFigures, PacketFigures};

/// What packets are on the wire.
pub(crate) fn packet_words(packets: &PacketFigures) -> Vec<String> {
    let mut words = Vec::new();
    if packets.gso_packets > 0 {
        words.push(format!(
            "{} left this host's stack as one packet of several segments (GSO).",
            quantity::counted(packets.gso_packets, "packet")
        ));
    }
    if packets.retransmissions > 0 {
        words.push(format!(
            "{} of {} were retransmitted.",
            quantity::counted(packets.retransmissions, "packet"),
            quantity::counted(packets.retransmitted_segments, "segment"),
        ));
    }
    words
}

/// What datagrams are on the wire, where that is another number.
pub(crate) fn datagram_words(datagrams: &DatagramFigures, direction: Direction) -> Option<String> {
    let (n, segments, how, by) = match direction {
        Direction::Sent => (datagrams.sent.n, datagrams.sent_segments, "sent", "GSO"),
        Direction::Received => (datagrams.received.n, datagrams.received_segments, "received", "GRO"),
    };
    (segments > n).then(|| format!("On the wire ({by}): {} {how}.", quantity::counted(segments, "datagram")))
}
