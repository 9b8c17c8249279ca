//! The lines of receives and requests, and what the summary says of them.

use record::{Part, Receive, ReceiveLeg, ReceiveStage, Request, Role};
use stats::Distribution;

use super::{Ends, addresses, moment, spread};
use crate::json::Object;
use summary::LegFigures;
use summary::{BASES, ReceiveFigures, RequestFigures};

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

fn times(o: &mut Object<'_>, times: &Distribution) {
    o.number("sum_ns", times.sum());
    spread(o, times);
}

fn leg(o: &mut Object<'_>, stats: &LegFigures) {
    o.number("n", stats.times.n());
    o.number("missing", stats.missing);
    o.number("disorder", stats.disorder);
    times(o, &stats.times);
}

pub(super) fn receives(o: &mut Object<'_>, receives: &ReceiveFigures) {
    o.number("receives", receives.records.n);
    o.number("bytes", receives.records.bytes);
    o.number("segments", receives.segments);
    o.number("out_of_order", receives.out_of_order);
    o.number("unread", receives.unread);
    o.object("legs", |legs| {
        for l in ReceiveLeg::ALL {
            legs.object(l.name(), |o| leg(o, receives.leg(l)));
        }
    });
}

pub(super) fn requests(o: &mut Object<'_>, requests: &RequestFigures) {
    for role in Role::ALL {
        let of = requests.of(role);
        o.object(role.name(), |o| {
            o.number("requests", of.records.n);
            o.number("divided", of.divided());
            o.number("request_bytes", of.request_bytes);
            o.number("answer_bytes", of.answer_bytes);
            o.object("bases", |o| BASES.iter().zip(of.bases).for_each(|(basis, n)| o.number(basis.name(), n)));
            o.object("whole", |o| {
                o.number("n", of.records.total().n());
                times(o, of.records.total());
            });
            o.object("parts", |parts| {
                for part in Part::ALL {
                    parts.object(part.name(), |o| {
                        o.number("n", of.part(part).n());
                        times(o, of.part(part));
                    });
                }
            });
        });
    }
}
