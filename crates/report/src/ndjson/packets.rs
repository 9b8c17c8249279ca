//! The lines of packets and datagrams, and what the summary says of them.

use record::{Datagram, DatagramLeg, DatagramStamps, Dropped, Packet};
use stats::Distribution;

use super::{moment, spread};
use crate::json::Object;
use summary::{DatagramFigures, Drops, PacketFigures};

fn dropped(o: &mut Object<'_>, dropped: Option<&Dropped>) {
    match dropped {
        Some(dropped) => o.text("dropped", &dropped.reason.0),
        None => o.raw("dropped", "null"),
    }
    moment(o, "dropped_at_ns", dropped.map(|d| d.at));
}

pub(super) fn packet(o: &mut Object<'_>, p: &Packet) {
    o.number("connection", p.connection.0);
    o.word("local", &p.local.to_string());
    o.word("remote", &p.remote.to_string());
    o.word("direction", p.direction.name());
    o.number("first_seq", p.first_seq.0);
    o.number("bytes", p.bytes);
    o.number("frame_bytes", p.frame_bytes);
    o.number("segments", p.segments);
    o.number("wire_bytes", p.wire_bytes());
    o.word("flags", &p.flags.to_string());
    o.flag("retransmission", p.retransmission);
    moment(o, "sched_at_ns", p.sched);
    moment(o, "driver_at_ns", p.driver);
    moment(o, "ack_at_ns", p.ack);
    o.number_or_null("qdisc_ns", p.qdisc().ok().flatten().map(|n| n.0));
    o.number_or_null("network_ns", p.network().ok().flatten().map(|n| n.0));
    o.number_or_null("gap_ns", p.gap.map(|n| n.0));
    dropped(o, p.dropped.as_ref());
}

const LEGS: [(&str, DatagramLeg); 4] = [
    ("udp_ns", DatagramLeg::Udp),
    ("qdisc_ns", DatagramLeg::Qdisc),
    ("softirq_ns", DatagramLeg::Softirq),
    ("socket_ns", DatagramLeg::Socket),
];

pub(super) fn datagram(o: &mut Object<'_>, d: &Datagram) {
    o.number("socket", d.socket.0);
    o.number("pid", d.owner.pid);
    o.text("comm", &d.owner.comm.to_string());
    o.word("local", &d.local.to_string());
    o.word("remote", &d.remote.to_string());
    o.word("direction", d.direction().name());
    o.number("bytes", d.bytes);
    o.number("segments", d.segments);
    let stamps = match d.stamps {
        DatagramStamps::Sent { send, sched, driver } => [send, sched, driver, None, None, None, None],
        DatagramStamps::Received { driver_rx, udp_rx, ready, read } => {
            [None, None, None, driver_rx, udp_rx, ready, read]
        }
    };
    let keys =
        ["send_at_ns", "sched_at_ns", "driver_at_ns", "driver_rx_at_ns", "udp_rx_at_ns", "ready_at_ns", "read_at_ns"];
    for (key, at) in keys.into_iter().zip(stamps) {
        moment(o, key, at);
    }
    for (key, leg) in LEGS {
        o.number_or_null(key, d.leg(leg).ok().flatten().map(|n| n.0));
    }
    dropped(o, d.dropped.as_ref());
}

fn times(o: &mut Object<'_>, key: &str, times: &Distribution) {
    o.object(key, |o| {
        o.number("n", times.n());
        spread(o, times);
    });
}

fn drops(o: &mut Object<'_>, drops: &Drops) {
    for direction in ["sent", "received"] {
        o.object(&format!("dropped_{direction}"), |o| {
            for ((_, reason), &n) in drops.iter().filter(|((of, _), _)| *of == direction) {
                o.number(&reason.0, n);
            }
        });
    }
}

pub(super) fn packets(o: &mut Object<'_>, p: &PacketFigures) {
    o.number("n", p.records.n);
    o.number("segments", p.segments);
    o.number("bytes", p.records.bytes);
    o.number("wire_bytes", p.wire_bytes);
    o.number("gso_packets", p.gso_packets);
    o.number("retransmissions", p.retransmissions);
    o.number("retransmitted_segments", p.retransmitted_segments);
    for (leg, of) in p.records.times() {
        times(o, leg.name, of);
    }
    drops(o, &p.drops);
}

pub(super) fn datagrams(o: &mut Object<'_>, d: &DatagramFigures) {
    o.number("sent", d.sent.n);
    o.number("sent_segments", d.sent_segments);
    o.number("sent_bytes", d.sent.bytes);
    o.number("received", d.received.n);
    o.number("received_segments", d.received_segments);
    o.number("received_bytes", d.received.bytes);
    for leg in DatagramLeg::ALL {
        times(o, leg.name(), &d.leg(leg).times);
    }
    drops(o, &d.drops);
}
