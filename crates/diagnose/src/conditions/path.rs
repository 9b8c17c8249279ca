//! The path: its round trip, what it carries, and what it loses.

use record::Nanos;
use record::conversation::{Direction, FindingKind, Limit, Way};

use super::{Basis, Known, Lane, Reordering};
use crate::report::Report;

/// Bytes that Ethernet adds to an IP packet: preamble, header, checksum and gap.
const ETHERNET: u64 = 38;
/// Headers of IPv4 and TCP without options.
const HEADERS: u32 = 40;
/// A rate is taken from stretches of so many full segments.
const STRETCH: u64 = 16;
/// Stretches from which a rate is taken, at least.
const STRETCHES: usize = 8;
/// From this share of the time on, the path's rate was what the sender waited for.
const LIMITED: f64 = 0.1;

pub(super) fn mtu(report: &Report) -> Known<u32> {
    let announced = [&report.to_server, &report.to_client].into_iter().filter_map(|d| d.mss).min();
    let headers = if report.client.is_ipv6() { HEADERS + 20 } else { HEADERS };
    match announced {
        Some(mss) => Known::seen(u32::from(mss) + headers, "the smaller MSS of both SYNs"),
        None => Known::assumed(1_500, "no SYN announces an MSS; that of Ethernet"),
    }
}

/// The smallest round trip that was seen; its samples say how far it varies.
pub(super) fn round_trip(report: &Report) -> Known<Nanos> {
    let v = &report.vantage;
    let handshake = match (report.to_server.handshake_rtt_ns, report.to_client.handshake_rtt_ns) {
        (Some(to_server), Some(to_client)) => Some(to_server + to_client),
        _ => None,
    };
    let whole = v.to_server_ns.zip(v.to_client_ns).map(|(server, client)| server + client);
    let largest = |d: &Direction| d.rtt.median_ns.unwrap_or_default();
    let median = largest(&report.to_server) + largest(&report.to_client);
    match (whole, handshake) {
        (Some(whole), _) => {
            let known = Known::seen(whole, "the smallest round trips to both sides");
            known.between(whole, median.max(whole))
        }
        (None, Some(handshake)) => Known::seen(handshake, "the handshake"),
        (None, None) => Known::assumed(Nanos::from_millis(1), "no packet shows a round trip"),
    }
}

pub(super) fn lane(report: &Report, way: Way, mtu: u32) -> Lane {
    let d = report.of(way);
    let base = round_trip(report).value;
    let was_limit = share(report, Limit::PathRate) >= LIMITED;
    let rtt = |d: &Direction| d.rtt.p99_ns.zip(d.rtt.min_ns).map_or(Nanos::ZERO, |(p99, min)| p99.saturating_sub(min));
    let waited = rtt(d);
    let standing = was_limit && waited.0 > base.0 / 4;
    let lost = d.retransmitted_packets.saturating_sub(d.spurious_retransmissions.into());
    let segments = segments(d);
    let loss = lost as f64 / segments as f64;
    let queue = match (standing, lost > 0) {
        (true, true) => Known::seen(waited, "the longest round trips of a path that dropped what was beyond"),
        (true, false) => Known::at_least(Nanos(waited.0 * 2), "round trips that grew by half of this without a loss"),
        (false, _) => {
            Known::assumed(base.max(Nanos::from_millis(20)), "no queue stood; one round trip, 20 ms at least")
        }
    };
    let black_hole = black_hole(report, way);
    let loss = match (standing, lost) {
        _ if black_hole.is_some() => Known::assumed(0.0, "what was lost is taken for packets that were too large"),
        (_, 0) => {
            let most = 1.0 - 0.05f64.powf(1.0 / segments as f64);
            Known::seen(0.0, "no retransmission that was needed").between(0.0, most)
        }
        (true, _) => Known::assumed(0.0, "a queue stood, so what was lost is taken for its overflow"),
        (false, _) => {
            let error = 2.0 * (loss.max(1.0 / segments as f64) / segments as f64).sqrt();
            let known = Known::seen(loss, "retransmissions that were needed, taken as independent of one another");
            known.between((loss - error).max(0.0), (loss + error).min(1.0))
        }
    };
    let rate = rate(report, way, mtu, was_limit);
    Lane {
        reordering: reordering(report, way, rate.as_ref()),
        rate,
        queue,
        loss,
        retransmitted: d.retransmitted_packets,
        black_hole,
    }
}

/// Segments, however they were captured.
fn segments(d: &Direction) -> u64 {
    (d.unique_bytes / super::full_segment(d)).max(d.payload_packets).max(1)
}

/// Segments that came later than others sent after them, by what was seen of them on both sides of
/// the capture.
fn reordering(report: &Report, way: Way, rate: Option<&Known<u64>>) -> Option<Known<Reordering>> {
    let d = report.of(way);
    let times =
        u64::from(d.out_of_order_packets) + u64::from(d.reordered_beyond) + u64::from(d.spurious_retransmissions);
    let mean = d.unique_bytes as f64 / report.duration_ns.0.max(1) as f64;
    if times == 0 || mean <= 0.0 {
        return None;
    }
    let known = rate.filter(|rate| rate.basis == Basis::Seen).map(|rate| rate.value as f64 / 8e9);
    let extent = d.reorder_extent_bytes.max(d.segment_bytes.into());
    let by = Nanos((extent as f64 / known.unwrap_or(mean)) as u64).min(round_trip(report).value);
    let value = Reordering { share: (times as f64 / segments(d) as f64).min(1.0), by };
    let from = format!(
        "{} segments changed places, by up to {} bytes, at {}",
        quantity::count(times),
        quantity::count(extent),
        if known.is_some() { "the path's rate" } else { "the transfer's mean rate" }
    );
    Some(Known::seen(value, &from))
}

/// The largest packet that the path still carries, where it swallows larger ones.
fn black_hole(report: &Report, way: Way) -> Option<Known<u32>> {
    let is_one = |f: &crate::Finding| f.kind == FindingKind::MtuBlackHole && f.direction == Some(way);
    report.findings.iter().find(|f| is_one(f))?;
    let acknowledged = report.records.iter().filter(|r| r.way != way).filter_map(|r| r.ack).max().unwrap_or(0);
    let own = report.records.iter().filter(|r| r.way == way);
    let arrived = own.filter(|r| r.seq.is_some_and(|seq| seq + u64::from(r.segment.payload) <= acknowledged));
    let addresses = if report.client.is_ipv6() { HEADERS + 20 } else { HEADERS };
    let headers = addresses + if report.timestamps.in_use == Some(true) { 12 } else { 0 };
    let passed = headers + arrived.map(|r| r.segment.payload).max().unwrap_or(0);
    let swallowed = headers + report.of(way).segment_bytes;
    // The least that IPv6 demands of a path (RFC 8200, section 5), which tunnels keep to.
    let carried = passed.max(1_280).min(swallowed - 1);
    let why = format!("packets of {swallowed} B vanished; the largest that arrived had {passed} B");
    Some(Known::assumed(carried, &why).between(passed.min(carried), swallowed - 1))
}

fn share(report: &Report, limit: Limit) -> f64 {
    quantity::share(report.limits.of(limit).0.into(), report.duration_ns.0.into())
}

/// How fast bytes of direction `way` came through, by the times of their ACKs, or by their own
/// where the capture is behind the bottleneck.
fn rate(report: &Report, way: Way, mtu: u32, was_limit: bool) -> Option<Known<u64>> {
    let v = &report.vantage;
    let (own, other) = (v.to(way.sender()), v.to(way.receiver()));
    // Far from the sender, data themselves have crossed the bottleneck.
    let by_data = own.unwrap_or_default() > other.unwrap_or_default();
    let full = super::full_segment(report.of(way));
    let mut points: Vec<(u64, u64)> = Vec::new();
    for r in &report.records {
        let position = match by_data {
            true if r.way == way && r.segment.payload > 0 => r.seq.map(|s| s + u64::from(r.segment.payload)),
            false if r.way != way => r.ack,
            _ => None,
        };
        if let Some(position) = position.filter(|p| points.last().is_none_or(|(_, last)| p > last)) {
            points.push((r.segment.at.as_nanos(), position));
        }
    }
    let mut rates = Vec::new();
    let mut end = 0;
    for (start, (at, from)) in points.iter().enumerate() {
        end = end.max(start);
        while points.get(end).is_some_and(|(_, position)| position - from < full * STRETCH) {
            end += 1;
        }
        if let Some((until, position)) = points.get(end).filter(|(until, _)| until > at) {
            rates.push((position - from) as f64 * 8e9 / (until - at) as f64);
        }
    }
    if rates.len() < STRETCHES {
        return None;
    }
    // With what each segment has around it on the wire.
    let wire = |payload: f64| (payload * (u64::from(mtu) + ETHERNET) as f64 / full as f64) as u64;
    let at = |share: f64| stats::quantile(&rates, share).map(wire);
    let by = if by_data { "arrivals" } else { "ACKs" };
    let stretches = format!("{} stretches of 16 segments", quantity::count(rates.len() as u64));
    let known = match was_limit {
        true => Known::seen(at(0.75)?, &format!("times of {by} in {stretches}, with a full path")),
        false => Known::at_least(at(0.95)?, &format!("times of {by} in the fastest of {stretches}")),
    };
    Some(known.between(at(0.5)?, at(0.99)?))
}
