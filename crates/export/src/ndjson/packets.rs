//! The lines of packets and datagrams.

use record::{Datagram, DatagramLeg, DatagramStamps, Dropped, Packet};

use super::moment;
use crate::json::Object;

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
