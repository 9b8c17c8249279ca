//! Packets and datagrams: their times, and what the kernel threw away.

use model::DatagramLeg;

use super::times::{self, Line};
use crate::canvas::Ink;
use crate::packets::{Datagrams, Drops, Packets};
use crate::{Canvas, quantity};

pub(super) fn draw(canvas: &Canvas, out: &mut String, packets: &Packets, datagrams: &Datagrams, notes: &[String]) {
    if !packets.is_empty() {
        tcp(canvas, out, packets);
    }
    if !datagrams.is_empty() {
        udp(canvas, out, datagrams);
    }
    if !(packets.is_empty() && datagrams.is_empty()) {
        times::remarks(canvas, out, notes);
    }
}

fn tcp(canvas: &Canvas, out: &mut String, packets: &Packets) {
    let title = format!(
        "Packets: {} of {}, {}",
        quantity::counted(packets.packets, "packet"),
        quantity::counted(packets.segments, "segment"),
        quantity::bytes(packets.bytes),
    );
    canvas.heading(out, &title);
    let line = |name, ink, times| Line { name, ink, times, whole: None };
    let lines = [
        line("gap", Ink::Strong, &packets.gaps),
        line("qdisc", Ink::Qdisc, &packets.qdisc.times),
        line("network", Ink::Network, &packets.network.times),
    ];
    times::table(canvas, out, "time", &lines);
    let mut remarks = vec![
        "gap: between neighbours of a connection at the driver; qdisc: in the packet scheduler; network: from the driver to the \
         ACK of the last byte."
            .to_owned(),
    ];
    remarks.extend(times::held(packets.gaps.n(), "gaps"));
    if packets.gso_packets > 0 {
        remarks.push(format!(
            "{} left this host's stack as one packet of several segments (GSO).",
            quantity::counted(packets.gso_packets, "packet")
        ));
    }
    if packets.retransmissions > 0 {
        remarks.push(format!(
            "{} of {} were sent again.",
            quantity::counted(packets.retransmissions, "packet"),
            quantity::counted(packets.retransmitted_segments, "segment"),
        ));
    }
    times::remarks(canvas, out, &remarks);
    dropped(canvas, out, &packets.drops);
}

fn udp(canvas: &Canvas, out: &mut String, datagrams: &Datagrams) {
    let title = format!(
        "Datagrams: {} sent, {}; {} received, {}",
        quantity::count(datagrams.sent),
        quantity::bytes(datagrams.sent_bytes),
        quantity::count(datagrams.received),
        quantity::bytes(datagrams.received_bytes),
    );
    canvas.heading(out, &title);
    let inks = [Ink::Tcp, Ink::Qdisc, Ink::Tcp, Ink::Network];
    let lines: Vec<_> = DatagramLeg::ALL
        .into_iter()
        .zip(inks)
        .map(|(leg, ink)| Line { name: leg.name(), ink, times: &datagrams.leg(leg).times, whole: None })
        .collect();
    times::table(canvas, out, "leg", &lines);
    let mut remarks = vec![
        "udp: from the call to the packet scheduler; qdisc: in it; softirq: from the driver to the socket's queue; socket: in \
         that queue, until the program had read it."
            .to_owned(),
    ];
    let n = datagrams.sent.max(datagrams.received);
    remarks.extend(times::held(n, "datagrams"));
    if datagrams.sent_segments > datagrams.sent || datagrams.received_segments > datagrams.received {
        remarks.push(format!(
            "On the wire (GSO and GRO): {} sent, {} received.",
            quantity::counted(datagrams.sent_segments, "datagram"),
            quantity::count(datagrams.received_segments),
        ));
    }
    times::remarks(canvas, out, &remarks);
    dropped(canvas, out, &datagrams.drops);
}

fn dropped(canvas: &Canvas, out: &mut String, drops: &Drops) {
    let width = drops.values().map(|&n| quantity::count(n).len()).max().unwrap_or(0);
    for ((direction, reason), &n) in drops {
        let line = format!("{:>width$}  {direction} and dropped on this host: {reason}", quantity::count(n));
        out.push_str(&canvas.paint(Ink::Warn, &canvas.plain(&line)));
        out.push('\n');
    }
}
