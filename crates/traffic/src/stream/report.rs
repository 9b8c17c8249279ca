//! An outcome in the JSON form of `iperf3 --json` (as of iperf3 3.12).

use clock::Nanos;
use serde_json::{Map, Value, json};

use super::{Config, Direction, FlowOutcome, Outcome, Total};
use crate::sample::{Sample, rate};

/// What `iperf3 -c … --json` would print of the same transfer. `socket` is the number of the flow,
/// and `version` is ours: a reader can see who measured.
pub fn report(config: &Config, outcome: &Outcome) -> Value {
    let mut end = Map::new();
    end.insert("streams".into(), outcome.flows.iter().map(|f| flow(config, outcome, f)).collect());
    // A transfer down is what iperf3 calls reverse: the same keys hold it.
    let (first, first_up) = match config.direction {
        Direction::Down => (outcome.down, false),
        _ => (outcome.up, true),
    };
    if let Some(total) = first {
        sums(config, outcome, &mut end, "", total, first_up);
    }
    if let (Direction::Both, Some(total)) = (config.direction, outcome.down) {
        sums(config, outcome, &mut end, "_bidir_reverse", total, false);
    }
    let percent = |spent: Nanos| 100.0 * spent.0 as f64 / outcome.elapsed.0.max(1) as f64;
    let remote = outcome.server_cpu.unwrap_or_default();
    end.insert(
        "cpu_utilization_percent".into(),
        json!({
            "host_total": percent(outcome.cpu.total()),
            "host_user": percent(outcome.cpu.user),
            "host_system": percent(outcome.cpu.system),
            "remote_total": percent(remote.total()),
            "remote_user": percent(remote.user),
            "remote_system": percent(remote.system),
        }),
    );
    if !config.udp {
        let (ours, theirs) = (&outcome.congestion_control, &outcome.server_congestion_control);
        let (sender, receiver) = if config.direction == Direction::Down { (theirs, ours) } else { (ours, theirs) };
        end.insert("sender_tcp_congestion".into(), json!(sender));
        end.insert("receiver_tcp_congestion".into(), json!(receiver));
    }
    let mut report = json!({
        "start": {
            "connected": outcome.flows.iter().map(|f| json!({
                "socket": f.flow,
                "local_host": f.local.ip(), "local_port": f.local.port(),
                "remote_host": f.remote.ip(), "remote_port": f.remote.port(),
            })).collect::<Vec<_>>(),
            "version": concat!("wirelapse ", env!("CARGO_PKG_VERSION")),
            "timestamp": { "timesecs": outcome.started_realtime.as_nanos() / 1_000_000_000 },
            "connecting_to": { "host": config.target.server.ip(), "port": config.target.server.port() },
            "cookie": outcome.cookie,
            "target_bitrate": config.pace_bits_per_second.unwrap_or(0),
            "test_start": {
                "protocol": if config.udp { "UDP" } else { "TCP" },
                "num_streams": config.flows,
                "blksize": config.write_bytes,
                "omit": config.warm_up_s,
                "duration": if config.bytes.is_some() { 0.0 } else { config.duration.as_secs_f64() },
                "bytes": config.bytes.unwrap_or(0),
                "blocks": 0,
                "reverse": u8::from(config.direction == Direction::Down),
                "tos": config.target.options.dscp.map_or(0, |d| d << 2),
                "target_bitrate": config.pace_bits_per_second.unwrap_or(0),
            },
        },
        "intervals": intervals(config, outcome),
        "end": end,
    });
    if let (Some(error), Some(object)) = (&outcome.interrupted, report.as_object_mut()) {
        object.insert("error".into(), json!(error));
    }
    report
}

fn seconds(time: Nanos) -> f64 {
    time.as_secs_f64()
}

/// The samples of one interval together, each direction summed.
fn intervals(config: &Config, outcome: &Outcome) -> Vec<Value> {
    outcome
        .series
        .chunk_by(|a, b| a.start == b.start)
        .map(|interval| {
            let mut object = Map::new();
            object.insert("streams".into(), interval.iter().map(|s| sample(config, s)).collect());
            let sender_first = config.direction != Direction::Down;
            for (key, sends) in [("sum", sender_first), ("sum_bidir_reverse", !sender_first)] {
                let of: Vec<&Sample> = interval.iter().filter(|s| s.sends == sends).collect();
                let Some(first) = of.first() else { continue };
                let mut sum = json!({
                    "start": seconds(first.start),
                    "end": seconds(first.end),
                    "seconds": seconds(first.end.saturating_sub(first.start)),
                    "bytes": of.iter().map(|s| s.bytes).sum::<u64>(),
                    "bits_per_second": of.iter().map(|s| s.bits_per_second).sum::<f64>(),
                    "omitted": first.warm_up,
                    "sender": sends,
                });
                if sends && !config.udp {
                    sum["retransmits"] = json!(of.iter().map(|s| u64::from(s.retransmitted_segments)).sum::<u64>());
                }
                if config.udp {
                    sum["packets"] = json!(of.iter().map(|s| s.datagrams).sum::<u64>());
                }
                object.insert(key.into(), sum);
            }
            Value::Object(object)
        })
        .collect()
}

fn sample(config: &Config, s: &Sample) -> Value {
    let mut value = json!({
        "socket": s.flow,
        "start": seconds(s.start),
        "end": seconds(s.end),
        "seconds": seconds(s.end.saturating_sub(s.start)),
        "bytes": s.bytes,
        "bits_per_second": s.bits_per_second,
        "omitted": s.warm_up,
        "sender": s.sends,
    });
    if config.udp {
        value["packets"] = json!(s.datagrams);
    } else if let (true, Some(tcp)) = (s.sends, s.tcp) {
        value["retransmits"] = json!(s.retransmitted_segments);
        value["snd_cwnd"] = json!(tcp.snd_cwnd_bytes());
        value["snd_wnd"] = json!(tcp.snd_wnd_bytes);
        value["rtt"] = json!(tcp.srtt.0 / 1_000);
        value["rttvar"] = json!(tcp.rttvar.0 / 1_000);
        value["pmtu"] = json!(tcp.path_mtu_bytes);
    }
    value
}

fn flow(config: &Config, outcome: &Outcome, f: &FlowOutcome) -> Value {
    let part = |bytes: Option<u64>, time: Option<Nanos>| {
        let (bytes, time) = (bytes.unwrap_or(0), time.unwrap_or_default());
        json!({
            "socket": f.flow,
            "start": 0,
            "end": seconds(time),
            "seconds": seconds(time),
            "bytes": bytes,
            "bits_per_second": rate(bytes, time),
            "sender": f.client_sends,
        })
    };
    if config.udp {
        let mut udp = part(f.sent_bytes.or(f.received_bytes), f.sent_in.or(f.received_in));
        let d = f.datagrams.unwrap_or_default();
        udp["jitter_ms"] = json!(d.jitter.as_millis_f64());
        udp["lost_packets"] = json!(d.lost);
        udp["packets"] = json!(d.expected);
        udp["lost_percent"] = json!(100.0 * d.lost as f64 / d.expected.max(1) as f64);
        udp["out_of_order"] = json!(d.reordered);
        return json!({ "udp": udp });
    }
    let mut sender = part(f.sent_bytes, f.sent_in);
    if let Some(segments) = f.retransmitted_segments {
        sender["retransmits"] = json!(segments);
    }
    let of: Vec<_> = outcome.series.iter().filter(|s| s.flow == f.flow && s.sends).filter_map(|s| s.tcp).collect();
    if !of.is_empty() {
        let rtts = || of.iter().map(|t| t.srtt.0 / 1_000);
        sender["max_snd_cwnd"] = json!(of.iter().map(|t| t.snd_cwnd_bytes()).max());
        sender["max_snd_wnd"] = json!(of.iter().map(|t| t.snd_wnd_bytes).max());
        sender["max_rtt"] = json!(rtts().max());
        sender["min_rtt"] = json!(rtts().min());
        sender["mean_rtt"] = json!(rtts().sum::<u64>() / of.len() as u64);
    }
    json!({ "sender": sender, "receiver": part(f.received_bytes, f.received_in) })
}

fn sums(config: &Config, outcome: &Outcome, end: &mut Map<String, Value>, suffix: &str, total: Total, up: bool) {
    let flows = || outcome.flows.iter().filter(move |f| f.client_sends == up);
    let part = |bytes: u64, time: Option<Nanos>, rate: f64, sender: bool| {
        json!({
            "start": 0, "end": seconds(time.unwrap_or_default()), "seconds": seconds(time.unwrap_or_default()),
            "bytes": bytes, "bits_per_second": rate, "sender": sender,
        })
    };
    let sent_in = flows().filter_map(|f| f.sent_in).max();
    let received_in = flows().filter_map(|f| f.received_in).max();
    let mut sent = part(total.sent_bytes, sent_in, total.sent_bits_per_second, true);
    let goodput = total.goodput_bits_per_second.unwrap_or(0.0);
    let mut received = part(total.received_bytes.unwrap_or(0), received_in, goodput, up && !config.udp);
    if let Some(segments) = total.retransmitted_segments {
        sent["retransmits"] = json!(segments);
    }
    if config.udp {
        let all = flows().filter_map(|f| f.datagrams);
        let (mut lost, mut expected, mut jitter, mut n) = (0, 0, Nanos::ZERO, 0u64);
        for d in all {
            lost += d.lost;
            expected += d.expected;
            jitter += d.jitter;
            n += 1;
        }
        for sum in [&mut sent, &mut received] {
            sum["jitter_ms"] = json!(jitter.as_millis_f64() / n.max(1) as f64);
            sum["lost_packets"] = json!(lost);
            sum["packets"] = json!(expected);
            sum["lost_percent"] = json!(100.0 * lost as f64 / expected.max(1) as f64);
        }
        end.insert(format!("sum{suffix}"), received.clone());
    }
    end.insert(format!("sum_sent{suffix}"), sent);
    end.insert(format!("sum_received{suffix}"), received);
}
