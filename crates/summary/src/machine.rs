//! The figures of a summary in the form that machines read (the line `summary` of `docs/json.md`).

use record::{Component, DatagramLeg, Direction, Figures, Join, Leg, Opening, Outcome, ReceiveLeg, Role, WaitReason};
use stats::{Distribution, Quantile};

use crate::{
    BASES, ConnectFigures, DatagramFigures, Drops, LegFigures, NameFigures, PacketFigures, ReceiveFigures,
    RequestFigures, RoleFigures, TraceSummary,
};

impl TraceSummary {
    /// All figures by their keys.
    pub fn figures(&self) -> Figures {
        let mut all = Figures::default();
        let total = self.total();
        all.number("connections", self.connection_count());
        all.number("sends", total.sends);
        all.number("bytes", total.bytes);
        all.number("retransmitted_sends", total.retransmitted);
        all.number("unacknowledged_sends", total.unacknowledged);
        all.group("legs", |legs| {
            for leg in Leg::ALL {
                legs.group(leg.name(), |f| {
                    let stats = total.leg(leg);
                    f.number("n", stats.times.n());
                    f.number("unacknowledged", stats.so_far.n());
                    f.number("missing", stats.missing);
                    f.number("disorder", stats.disorder);
                    f.number("inferred", stats.inferred);
                    f.number("vague", stats.vague);
                    f.number("error_ns", stats.error.0);
                    f.number("sum_ns", stats.sum());
                    f.number_or_null("min_ns", stats.times.min());
                    for (key, quantile) in QUANTILES {
                        f.number_or_null(key, stats.quantile(quantile));
                    }
                    f.number_or_null("max_ns", stats.max());
                });
            }
        });
        all.group("waits", |waits| {
            for reason in WaitReason::ALL {
                let stats = total.wait(reason);
                waits.group(reason.name(), |f| {
                    f.number("sends", stats.sends);
                    f.number("time_ns", stats.time.0);
                });
            }
        });
        all.group("connects", |f| connects(f, self.connects()));
        all.group("receives", |f| receives(f, self.receives()));
        all.group("requests", |f| requests(f, self.requests()));
        all.group("packets", |f| packets(f, self.packets()));
        all.group("datagrams", |f| datagrams(f, self.datagrams()));
        all.group("dns", |f| names(f, self.names()));
        all
    }
}

const QUANTILES: [(&str, Quantile); 4] =
    [("p50_ns", Quantile::P50), ("p90_ns", Quantile::P90), ("p99_ns", Quantile::P99), ("p99_9_ns", Quantile::P999)];

/// The least, the quantiles and the most of some times.
fn spread(f: &mut Figures, times: &Distribution) {
    f.number_or_null("min_ns", times.min());
    for (key, quantile) in QUANTILES {
        f.number_or_null(key, times.quantile(quantile));
    }
    f.number_or_null("max_ns", times.max());
}

fn times(f: &mut Figures, times: &Distribution) {
    f.number("sum_ns", times.sum());
    spread(f, times);
}

fn counted(f: &mut Figures, key: &'static str, times: &Distribution) {
    f.group(key, |f| {
        f.number("n", times.n());
        spread(f, times);
    });
}

fn leg(f: &mut Figures, stats: &LegFigures) {
    f.number("n", stats.times.n());
    f.number("missing", stats.missing);
    f.number("disorder", stats.disorder);
    times(f, &stats.times);
}

fn connects(f: &mut Figures, connects: &ConnectFigures) {
    for (opening, key) in [(Opening::Connected, "connected"), (Opening::Accepted, "accepted")] {
        let of = connects.of(opening);
        f.group(key, |f| {
            f.number("n", of.n());
            Outcome::ALL.into_iter().filter(|o| *o != Outcome::Found).for_each(|o| f.number(o.name(), of.outcome(o)));
            f.number("retried", of.retried);
            f.number("retries", of.retries);
            f.number("fast_open", of.fast_open);
            counted(f, "handshake", &of.handshake);
            counted(f, "accept_wait", &of.accept_wait);
        });
    }
    f.number("found", connects.found);
    f.group("endings", |f| {
        for ((ending, by), &n) in &connects.ends {
            f.counted(&format!("{}_by_{}", ending.name(), by.name()), n);
        }
    });
}

fn names(f: &mut Figures, names: &NameFigures) {
    f.number("lookups", names.lookups);
    f.number("questions", names.questions());
    f.number("retried", names.retried);
    f.number("failed", names.failed);
    f.number("unanswered", names.unanswered);
    f.number("waited_ns", names.waited.0);
    counted(f, "lookup", &names.took);
}

fn receives(f: &mut Figures, receives: &ReceiveFigures) {
    f.number("receives", receives.records.n);
    f.number("bytes", receives.records.bytes);
    f.number("segments", receives.segments);
    f.number("out_of_order", receives.out_of_order);
    f.number("unread", receives.unread);
    f.group("legs", |legs| {
        for l in ReceiveLeg::ALL {
            legs.group(l.name(), |f| leg(f, receives.leg(l)));
        }
    });
}

fn requests(f: &mut Figures, requests: &RequestFigures) {
    for role in Role::ALL {
        let of = requests.of(role);
        f.group(role.name(), |f| {
            f.number("requests", of.records.n);
            f.number("divided", of.divided());
            f.number("request_bytes", of.request_bytes);
            f.number("answer_bytes", of.answer_bytes);
            f.group("bases", |f| BASES.iter().zip(of.bases).for_each(|(basis, n)| f.number(basis.name(), n)));
            parts(f, of);
        });
    }
    let proxied = requests.proxied();
    f.group("proxied", |f| {
        f.number("requests", proxied.all());
        f.number(Join::Joined.name(), proxied.joined());
        f.number(Join::Withheld.name(), proxied.withheld);
        f.number(Join::Nothing.name(), proxied.nothing);
        f.number("both_ends", proxied.both_ends);
        parts(f, &proxied.of);
        for (key, of) in [("upstream_program", &proxied.program), ("upstream_network", &proxied.network)] {
            f.group(key, |f| summed(f, of));
        }
    });
}

/// How long requests took, and their components.
fn parts(f: &mut Figures, of: &RoleFigures) {
    f.group("whole", |f| summed(f, of.records.total()));
    f.group("parts", |components| {
        for component in Component::ALL {
            components.group(component.name(), |f| summed(f, of.component(component)));
        }
    });
}

fn summed(f: &mut Figures, of: &Distribution) {
    f.number("n", of.n());
    times(f, of);
}

fn drops(f: &mut Figures, drops: &Drops) {
    for (direction, key) in [(Direction::Sent, "dropped_sent"), (Direction::Received, "dropped_received")] {
        f.group(key, |f| {
            for ((_, reason), &n) in drops.iter().filter(|((of, _), _)| *of == direction) {
                f.counted(&reason.0, n);
            }
        });
    }
}

fn packets(f: &mut Figures, p: &PacketFigures) {
    f.number("n", p.records.n);
    f.number("segments", p.segments);
    f.number("bytes", p.records.bytes);
    f.number("wire_bytes", p.wire_bytes);
    f.number("gso_packets", p.gso_packets);
    f.number("retransmissions", p.retransmissions);
    f.number("retransmitted_segments", p.retransmitted_segments);
    for (leg, of) in p.records.times() {
        counted(f, leg.name.name(), of);
    }
    drops(f, &p.drops);
}

fn datagrams(f: &mut Figures, d: &DatagramFigures) {
    f.number("sent", d.sent.n);
    f.number("sent_segments", d.sent_segments);
    f.number("sent_bytes", d.sent.bytes);
    f.number("received", d.received.n);
    f.number("received_segments", d.received_segments);
    f.number("received_bytes", d.received.bytes);
    for leg in DatagramLeg::ALL {
        counted(f, leg.name(), &d.leg(leg).times);
    }
    drops(f, &d.drops);
}
