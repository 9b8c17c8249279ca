//! The lines of receives and requests.

use record::{Part, Receive, ReceiveLeg, ReceiveStage, Request};

use super::{Ends, addresses, moment};
use crate::json::Object;

const STAGES: [(&str, ReceiveStage); 4] = [
    ("driver_rx_at_ns", ReceiveStage::DriverRx),
    ("tcp_rx_at_ns", ReceiveStage::TcpRx),
    ("ready_at_ns", ReceiveStage::Ready),
    ("read_at_ns", ReceiveStage::Read),
];

const LEGS: [(&str, ReceiveLeg); 4] = [
    ("softirq_ns", ReceiveLeg::Softirq),
    ("socket_ns", ReceiveLeg::Socket),
    ("wakeup_ns", ReceiveLeg::Wakeup),
    ("total_ns", ReceiveLeg::Total),
];

const PARTS: [(&str, Part); 7] = [
    ("application_ns", Part::Application),
    ("kernel_ns", Part::Kernel),
    ("network_ns", Part::Network),
    ("peer_receive_ns", Part::PeerReceive),
    ("peer_application_ns", Part::PeerApplication),
    ("peer_send_ns", Part::PeerSend),
    ("transfer_ns", Part::Transfer),
];

pub(super) fn receive(o: &mut Object<'_>, r: &Receive, ends: Option<&Ends>) {
    o.number("connection", r.connection.0);
    o.number("pid", r.reader.pid);
    o.text("comm", &r.reader.comm.to_string());
    addresses(o, ends);
    o.number("first_seq", r.first_seq.0);
    o.number("bytes", r.bytes);
    o.number("segments", r.segments);
    for (key, stage) in STAGES {
        moment(o, key, r.stamps.at(stage));
    }
    for (key, leg) in LEGS {
        o.number_or_null(key, r.leg(leg).ok().flatten().map(|n| n.0));
    }
    o.flag("out_of_order", r.out_of_order);
    o.number("queued", r.queued);
    o.number("receive_buffer", r.buffer);
    o.number("receive_buffer_used", r.buffer_used);
}

pub(super) fn request(o: &mut Object<'_>, r: &Request, ends: Option<&Ends>) {
    o.number("connection", r.connection.0);
    o.word("role", r.role.name());
    o.number("pid", r.owner.pid);
    o.text("comm", &r.owner.comm.to_string());
    addresses(o, ends);
    o.number("request_first_seq", r.request.first_seq.0);
    o.number("request_bytes", r.request.bytes);
    o.number("request_pieces", r.request.pieces);
    o.number("answer_first_seq", r.answer.first_seq.0);
    o.number("answer_bytes", r.answer.bytes);
    o.number("answer_pieces", r.answer.pieces);
    let m = &r.moments;
    moment(o, "sent_at_ns", m.sent);
    moment(o, "first_left_at_ns", m.first_left);
    moment(o, "written_at_ns", m.written);
    moment(o, "left_at_ns", m.left);
    moment(o, "acked_at_ns", m.acked);
    moment(o, "arrived_at_ns", m.arrived);
    moment(o, "last_arrived_at_ns", m.last_arrived);
    moment(o, "ready_at_ns", m.ready);
    moment(o, "read_at_ns", m.read);
    o.number_or_null("whole_ns", r.whole().map(|n| n.0));
    for (key, part) in PARTS {
        o.number_or_null(key, r.parts.as_ref().and_then(|p| p.get(part)).map(|n| n.0));
    }
    o.word("basis", r.basis.name());
}
