//! Packets and datagrams: their times, their connections, and what the kernel threw away.

use record::Direction;

use super::{tallies, times};
use crate::Canvas;
use crate::canvas::Ink;
use summary::{DatagramFigures, Drops, PacketFigures};

pub(super) fn draw(
    canvas: &Canvas,
    out: &mut String,
    (packets, datagrams): (&PacketFigures, &DatagramFigures),
    notes: &[String],
    connections: usize,
) {
    if !packets.is_empty() {
        tcp(canvas, out, packets, connections);
    }
    if !datagrams.is_empty() {
        udp(canvas, out, datagrams, connections);
    }
    if !(packets.is_empty() && datagrams.is_empty()) {
        times::remarks(canvas, out, notes);
    }
}

fn tcp(canvas: &Canvas, out: &mut String, packets: &PacketFigures, connections: usize) {
    let records = &packets.records;
    let title = format!(
        "Packets: {} of {}, {}",
        quantity::counted(records.n, "packet"),
        quantity::counted(packets.segments, "segment"),
        quantity::bytes(records.bytes),
    );
    canvas.heading(out, &title);
    times::table(canvas, out, "time", &times::lines(records));
    let mut remarks = vec![times::meanings(records)];
    remarks.extend(times::held(records.n, "packets"));
    remarks.extend(packet_words(packets));
    times::remarks(canvas, out, &remarks);
    dropped(canvas, out, &packets.drops);
    tallies::table(canvas, out, records.kind(), &records.tallies, connections);
    times::slowest(canvas, out, &times::slowest_title(records.slowest.sorted().len(), "packet"), records);
}

/// What packets came to on the wire.
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
            "{} of {} were sent again.",
            quantity::counted(packets.retransmissions, "packet"),
            quantity::counted(packets.retransmitted_segments, "segment"),
        ));
    }
    words
}

fn udp(canvas: &Canvas, out: &mut String, datagrams: &DatagramFigures, connections: usize) {
    let (sent, received) = (&datagrams.sent, &datagrams.received);
    let title = format!(
        "Datagrams: {} sent, {}; {} received, {}",
        quantity::count(sent.n),
        quantity::bytes(sent.bytes),
        quantity::count(received.n),
        quantity::bytes(received.bytes),
    );
    canvas.heading(out, &title);
    dropped(canvas, out, &datagrams.drops);
    for (records, direction) in [(sent, Direction::Sent), (received, Direction::Received)] {
        let how = direction.name();
        if records.n == 0 {
            continue;
        }
        out.push('\n');
        times::table(canvas, out, &format!("leg ({how})"), &times::lines(records));
        let mut remarks = vec![times::meanings(records)];
        remarks.extend(times::held(records.n, "datagrams"));
        remarks.extend(datagram_words(datagrams, direction));
        times::remarks(canvas, out, &remarks);
        tallies::table(canvas, out, records.kind(), &records.tallies, connections);
        let title = times::slowest_title(records.slowest.sorted().len(), "datagram");
        times::slowest(canvas, out, &format!("{title}, {how}"), records);
    }
}

/// What datagrams came to on the wire, where that is another number.
pub(crate) fn datagram_words(datagrams: &DatagramFigures, direction: Direction) -> Option<String> {
    let (n, segments, how, by) = match direction {
        Direction::Sent => (datagrams.sent.n, datagrams.sent_segments, "sent", "GSO"),
        Direction::Received => (datagrams.received.n, datagrams.received_segments, "received", "GRO"),
    };
    (segments > n).then(|| format!("On the wire ({by}): {} {how}.", quantity::counted(segments, "datagram")))
}

fn dropped(canvas: &Canvas, out: &mut String, drops: &Drops) {
    let width = drops.values().map(|&n| quantity::count(n).len()).max().unwrap_or(0);
    for ((direction, reason), &n) in drops {
        let line = format!("{:>width$}  {direction} and dropped on this host: {reason}", quantity::count(n));
        out.push_str(&canvas.paint(Ink::Warn, &canvas.plain(&line)));
        out.push('\n');
    }
}
