//! The lines of `wirelapse top --json`.

use record::histogram::GroupBy;
use record::socket::{SocketFigures, SocketState};
use record::{Leg, Nanos, WaitReason};

use crate::json::Object;

/// The figures of one row of `wirelapse top`.
#[derive(Clone, Debug)]
pub struct Row<'a> {
    /// What rows are.
    pub by: GroupBy,
    /// Which one this is.
    pub label: &'a str,
    /// The name of the peer, and where it comes from as a word.
    pub name: Option<(&'a str, &'static str)>,
    /// Time that the figures are of.
    pub length: Nanos,
    /// The figures of that time.
    pub figures: &'a record::histogram::Series,
    /// Median and 99th percentile of the total.
    pub quantiles: [Option<Nanos>; 2],
    /// Zero windows of its peers in that time, where they are counted.
    pub zero_windows: Option<u64>,
    /// What sends waited for longest.
    pub reason: Option<WaitReason>,
    /// What is wrong with it, as a word and as people read it.
    pub trouble: Option<(&'static str, String)>,
    /// Requests that ended in that time, where they are followed.
    pub requests: u64,
    /// Median and 99th percentile of how long they took.
    pub request_quantiles: [Option<Nanos>; 2],
    /// Lookups of DNS that were over in that time, and those among them that were not answered.
    pub lookups: [u64; 2],
    /// Median and 99th percentile of how long programs waited for them.
    pub lookup_quantiles: [Option<Nanos>; 2],
    /// Handshakes of QUIC that were over in that time.
    pub handshakes: u64,
    /// Median and 99th percentile of how long they took.
    pub handshake_quantiles: [Option<Nanos>; 2],
    /// Its sockets.
    pub sockets: &'a SocketFigures,
    /// Time that their figures are of.
    pub sockets_over: Nanos,
}

/// Adds the line of a row: `{"kind":"row", …}`.
pub fn row(out: &mut Vec<u8>, row: &Row<'_>) {
    let figures = row.figures;
    let mut object = Object::begin(out);
    object.word("kind", "row");
    object.word("by", row.by.name());
    object.text("label", row.label);
    match row.name {
        Some((name, source)) => {
            object.text("name", name);
            object.word("name_source", source);
        }
        None => ["name", "name_source"].into_iter().for_each(|key| object.number_or_null(key, None::<u64>)),
    }
    object.number("length_ns", row.length.0);
    object.number("sends", figures.sends);
    object.number("bytes", figures.bytes);
    object.number("unacknowledged", figures.unacked);
    object.number("vague", figures.vague);
    object.number("retransmitted_segments", figures.retransmitted_segments);
    object.number("dropped_segments", figures.dropped_segments);
    object.number_or_null("zero_windows", row.zero_windows);
    object.number_or_null("p50_ns", row.quantiles[0].map(|time| time.0));
    object.number_or_null("p99_ns", row.quantiles[1].map(|time| time.0));
    for leg in [Leg::Tcp, Leg::Qdisc, Leg::Network, Leg::Total] {
        let histogram = figures.legs.get(&leg);
        object.number(&format!("{leg}_n"), histogram.map_or(0, record::histogram::Histogram::count));
        object.number(&format!("{leg}_sum_ns"), histogram.map_or(0, |histogram| histogram.sum.0));
    }
    match row.reason {
        Some(reason) => object.word("waited_for", reason.name()),
        None => object.number_or_null("waited_for", None::<u64>),
    }
    match &row.trouble {
        Some((word, text)) => {
            object.word("trouble", word);
            object.text("trouble_text", text);
        }
        None => ["trouble", "trouble_text"].into_iter().for_each(|key| object.number_or_null(key, None::<u64>)),
    }
    object.number("requests", row.requests);
    object.number_or_null("request_p50_ns", row.request_quantiles[0].map(|time| time.0));
    object.number_or_null("request_p99_ns", row.request_quantiles[1].map(|time| time.0));
    object.number("lookups", row.lookups[0]);
    object.number("lookups_unanswered", row.lookups[1]);
    object.number_or_null("lookup_p50_ns", row.lookup_quantiles[0].map(|time| time.0));
    object.number_or_null("lookup_p99_ns", row.lookup_quantiles[1].map(|time| time.0));
    object.number("quic_handshakes", row.handshakes);
    object.number_or_null("quic_handshake_p50_ns", row.handshake_quantiles[0].map(|time| time.0));
    object.number_or_null("quic_handshake_p99_ns", row.handshake_quantiles[1].map(|time| time.0));
    object.object("sockets", |object| sockets(object, row.sockets, row.sockets_over));
    object.object("waited_ns", |waited| {
        for (reason, time) in WaitReason::ALL.into_iter().zip(figures.waited) {
            waited.number(reason.name(), time.0);
        }
    });
    object.end();
    out.push(b'\n');
}

fn sockets(object: &mut Object<'_>, sockets: &SocketFigures, length: Nanos) {
    object.number("length_ns", length.0);
    SocketState::ALL.into_iter().zip(sockets.states).for_each(|(state, n)| object.number(state.name(), n));
    object.number("closed", sockets.closed);
    object.number("bytes_sent", sockets.sent);
    object.number("bytes_received", sockets.received);
    object.number("retransmitted_segments", sockets.retransmitted);
    object.number("drops", sockets.drops);
    object.number_or_null("rtt_least_ns", sockets.rtt.map(|[least, _]| least.0));
    object.number_or_null("rtt_largest_ns", sockets.rtt.map(|[_, largest]| largest.0));
    object.number_or_null("quiet_ns", sockets.quiet.map(|quiet| quiet.0));
    object.number_or_null("accept_queue", sockets.queue.map(|[now, _]| now));
    object.number_or_null("accept_queue_limit", sockets.queue.map(|[_, most]| most));
    let owner = sockets.owner.as_ref().filter(|_| sockets.one_owner);
    object.number_or_null("pid", owner.map(|(pid, _)| *pid));
    match owner {
        Some((_, name)) => object.text("program", name),
        None => object.number_or_null("program", None::<u64>),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::histogram::Series;

    #[test]
    fn a_row_has_its_figures_by_the_words_of_legs_and_reasons() {
        let mut figures = Series { sends: 2, bytes: 10, ..Series::default() };
        figures.legs.insert(Leg::Total, [Nanos(5), Nanos(7)].into_iter().collect());
        figures.waited[WaitReason::Cork as usize] = Nanos(3);
        let mut out = Vec::new();
        let quantiles = [Some(Nanos(5)), None];
        let length = Nanos(9);
        let owner = Some((9, "c\"d".to_owned()));
        let sockets =
            SocketFigures { states: [2, 0, 0, 1, 0, 0], sent: 70, owner, one_owner: true, ..Default::default() };
        let trouble = Some(("no_answer", "no answer for 4 s".to_owned()));
        let (by, label, figures) = (GroupBy::Peer, "a\"b", &figures);
        let request_quantiles = [None, Some(Nanos(4))];
        let written = Row {
            by,
            label,
            name: Some(("a.example", "dns")),
            length,
            figures,
            quantiles,
            zero_windows: Some(4),
            reason: None,
            trouble,
            requests: 3,
            request_quantiles,
            lookups: [2, 1],
            lookup_quantiles: [Some(Nanos(6)), None],
            handshakes: 1,
            handshake_quantiles: [None, Some(Nanos(8))],
            sockets: &sockets,
            sockets_over: Nanos(0),
        };
        row(&mut out, &written);
        let line: serde_json::Value = serde_json::from_slice(&out).unwrap();
        assert_eq!((&line["label"], &line["total_n"], &line["total_sum_ns"]), (&"a\"b".into(), &2.into(), &12.into()));
        assert_eq!((&line["p50_ns"], &line["p99_ns"], &line["tcp_n"]), (&5.into(), &().into(), &0.into()));
        assert_eq!((&line["name"], &line["name_source"]), (&"a.example".into(), &"dns".into()));
        let sockets = &line["sockets"];
        assert_eq!(
            (&sockets["established"], &sockets["listening"], &sockets["bytes_sent"]),
            (&2.into(), &1.into(), &70.into())
        );
        assert_eq!(
            (&sockets["pid"], &sockets["program"], &sockets["quiet_ns"]),
            (&9.into(), &"c\"d".into(), &().into())
        );
        assert_eq!((&line["trouble"], &line["trouble_text"]), (&"no_answer".into(), &"no answer for 4 s".into()));
        assert_eq!(&line["zero_windows"], &4);
        assert_eq!((&line["requests"], &line["request_p99_ns"]), (&3.into(), &4.into()));
        assert_eq!((&line["lookups"], &line["lookups_unanswered"]), (&2.into(), &1.into()));
        assert_eq!((&line["lookup_p50_ns"], &line["lookup_p99_ns"]), (&6.into(), &().into()));
        assert_eq!((&line["quic_handshakes"], &line["quic_handshake_p99_ns"]), (&1.into(), &8.into()));
        assert_eq!((&line["waited_ns"]["cork"], &line["waited_for"]), (&3.into(), &().into()));
    }
}
