//! Targets of fuzzing: any bytes, through each entry that takes foreign ones.

use wire::PacketReader;

use crate::{Follower, Keep, Options, compare};

/// A capture in any format: every connection and all of DNS followed, and each reported.
pub fn connections(bytes: &[u8]) {
    let options = Options { connections: 1000, keep: Keep::First(4, 1000), ..Options::default() };
    let mut follower = Follower::new(options);
    let Ok(mut packets) = PacketReader::from_bytes(bytes) else { return };
    while let Ok(Some(packet)) = packets.next_packet() {
        follower.take_packet(&packet);
        if let Some(payload) = packets.payload() {
            follower.take_payload(payload);
        }
    }
    packets.take_unfinished().into_iter().for_each(|unfinished| follower.network.unfinished(unfinished));
    packets.reassembly().under_way().into_iter().for_each(|unfinished| follower.network.unfinished(unfinished));
    let dns = follower.dns.analysis();
    for lookup in dns.lookups() {
        assert!(lookup.tries > 0 && lookup.answered_try.is_none_or(|n| n <= lookup.tries), "{lookup:?}");
        assert_eq!(lookup.took_ns.is_some(), lookup.answered_try.is_some(), "{lookup:?}");
    }
    assert!(dns.findings().iter().all(|f| f.count > 0 && !f.text.is_empty()));
    let tls = follower.tls_analysis();
    for h in tls.handshakes() {
        let parts = [h.hello_ns, h.flight_ns, h.client_ns, h.finish_ns].into_iter().flatten();
        let all: record::Nanos = parts.chain([h.retry_ns]).sum();
        assert!(h.took_ns.is_none_or(|took| took == all), "{h:?}");
        let waits: Option<Vec<_>> = [h.server_wait_ns, h.client_wait_ns, h.path_wait_ns].into_iter().collect();
        assert!(waits.is_none_or(|waits| h.took_ns == Some(waits.into_iter().sum())), "{h:?}");
    }
    assert!(tls.findings().iter().all(|f| f.count > 0 && !f.text.is_empty()));
    let quic = follower.quic_analysis();
    for c in quic.connections() {
        let parts: Option<Vec<_>> = [c.hello_ns, c.flight_ns, c.client_ns].into_iter().collect();
        let sent_back = c.negotiation_ns + c.retry_ns;
        assert!(
            c.took_ns.is_none() || c.took_ns == parts.map(|p| p.into_iter().sum::<record::Nanos>() + sent_back),
            "{c:?}"
        );
        assert!(c.flight_ns.is_none_or(|flight| c.limited_ns <= flight), "{c:?}");
        assert!(c.limited_ns <= c.duration_ns && c.probes_ns <= c.duration_ns, "{c:?}");
    }
    assert!(quic.findings().iter().all(|f| f.count > 0 && !f.text.is_empty()));
    let udp = follower.udp_analysis(&quic);
    for c in udp.conversations() {
        let datagrams = c.by_client.datagrams + c.by_server.datagrams;
        assert!(datagrams > 0 && c.answered <= c.requests && c.requests <= datagrams, "{c:?}");
        assert!(c.answer_min_ns <= c.answer_max_ns && !c.verdict.is_empty(), "{c:?}");
    }
    for s in udp.streams() {
        assert!(s.expected == s.received + s.lost && s.lost_in_bursts <= s.expected, "{s:?}");
        assert!(s.received + s.duplicated + s.too_late <= s.datagrams, "{s:?}");
    }
    assert!(udp.findings().iter().all(|f| f.count > 0 && !f.text.is_empty()));
    let network = follower.network_analysis(&udp);
    for e in network.echoes() {
        assert!(e.sent == e.answered + e.lost + e.not_known && e.min_ns <= e.max_ns, "{e:?}");
    }
    for n in network.neighbours() {
        assert!(n.tries > 0 && (n.answered == Some(true)) == n.took_ns.is_some(), "{n:?}");
    }
    for e in network.errors() {
        assert!(e.count > 0 && (e.obeyed != Some(true) || e.larger == 0), "{e:?}");
    }
    assert!(network.incomplete().iter().all(|p| p.fragments > 0 && p.missing != Some(0)));
    assert!(network.findings().iter().all(|f| f.count > 0 && !f.text.is_empty()));
    assert!(follower.transactions(&dns, &tls, &quic).iter().all(|t| t.number > 0));
    let reports: Vec<_> = follower.reports().collect();
    for report in &reports {
        let _ = format!("{report:?}");
    }
    if let [a, b, ..] = &reports[..] {
        let _ = compare(a, b);
    }
}

#[cfg(test)]
mod tests {
    use tier::corpus::replay;

    #[test]
    fn corpora() {
        replay("connections", super::connections);
        replay("capture", super::connections);
    }
}
