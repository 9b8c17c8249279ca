//! The full story of one connection.

use std::io::{self, Write};

use diagnose::{Direction, Limit, OptionState, Quantiles, Report};
use quantity::count;
use record::Nanos;

use super::Reading;
use super::table::wrapped;

fn summary(s: &Quantiles) -> String {
    match (s.min_ns, s.median_ns, s.p99_ns, s.max_ns) {
        (Some(min), Some(median), Some(p99), Some(max)) => {
            format!("min {min}, median {median}, p99 {p99}, max {max} (n = {})", s.samples)
        }
        _ => "no sample".into(),
    }
}

fn option(name: &str, o: &OptionState) -> String {
    match (o.in_use, o.left_out_by) {
        (Some(true), _) => format!("{name} in use"),
        (Some(false), Some(who)) => format!("{name} not in use: left out by the {who} (or taken out on the way)"),
        (Some(false), None) => format!("{name} not in use"),
        (None, _) => format!("{name} unknown (handshake not in the capture, or cut short)"),
    }
}

fn direction(out: &mut impl Write, title: &str, d: &Direction) -> io::Result<()> {
    writeln!(out, "  {title}")?;
    writeln!(
        out,
        "    {} packets, {} with payload: {} bytes, and {} bytes again in {} packets",
        count(d.packets),
        count(d.payload_packets),
        count(d.unique_bytes),
        count(d.resent_bytes),
        count(d.resent_packets)
    )?;
    let r = &d.resends;
    if d.resent_packets > 0 || r.syn > 0 {
        wrapped(
            out,
            4,
            &format!(
                "sent again by timeout {}, fast retransmit {}, SACK recovery {}, tail-loss probe {}, SYN {}, unclear {}; {} needlessly, {} lost before the capture",
                r.timeout,
                r.fast,
                r.sack_recovery,
                r.tail_loss_probe,
                r.syn,
                r.unclear,
                d.spurious_resends,
                d.lost_before_capture
            ),
        )?;
    }
    if d.out_of_order_packets > 0 || d.reordered_beyond > 0 {
        writeln!(
            out,
            "    out of order {} here, {} beyond, by up to {} bytes",
            d.out_of_order_packets, d.reordered_beyond, d.reorder_extent_bytes
        )?;
    }
    let rare = [
        (d.larger_than_mss, "packets are larger than the MSS: offload left them whole (TSO, GRO)"),
        (d.capture_copies, "copies made by the capture itself are left out"),
        (d.unseen_bytes, "bytes were acknowledged that the capture does not hold"),
        (d.ce_marks.into(), "packets are marked \"congestion experienced\""),
    ];
    for (n, what) in rare.into_iter().filter(|r| r.0 > 0) {
        writeln!(out, "    {} {what}", count(n))?;
    }
    let headers: Vec<String> = d.header_bytes.0.iter().map(|(length, n)| format!("{n} of {length} B")).collect();
    writeln!(out, "    headers: {}", headers.join(", "))?;
    let scale = match (d.window_scale_in_use, d.window_scale_inferred) {
        (Some(s), _) => format!("scale {s}"),
        (None, Some(s)) => format!("scale unknown, at least {s}"),
        _ => "scale unknown".into(),
    };
    writeln!(
        out,
        "    window at most {} bytes ({scale})\n    in flight at most {} bytes, segments of {} bytes",
        count(d.max_window),
        count(d.max_in_flight.into()),
        count(d.segment_bytes.into())
    )?;
    let handshake = d.handshake_rtt_ns.map_or(String::new(), |rtt| format!("; handshake {rtt}"));
    writeln!(out, "    RTT: {}{handshake}", summary(&d.rtt))?;
    if d.rtt_timestamps.samples > 0 {
        writeln!(out, "    RTT by time stamps: {}", summary(&d.rtt_timestamps))?;
    }
    let a = &d.acknowledging;
    if a.acks > 0 {
        wrapped(
            out,
            4,
            &format!(
                "acknowledges every {:.1} segments ({} ACKs), {} at once, quick-ACK phases {} (longest {} ACKs), duplicate ACKs {}, with SACK {}",
                a.segments as f64 / a.acks as f64,
                a.acks,
                a.at_once,
                a.quick_ack_phases,
                a.longest_quick_ack_phase,
                d.duplicate_acks,
                d.sack_acks
            ),
        )?;
        if a.delayed.samples > 0 {
            wrapped(out, 4, &format!("delayed ACKs, later than the path by: {}", summary(&a.delayed)))?;
        }
    }
    if d.zero_window_packets + u64::from(d.window_probes) + u64::from(d.keep_alives) > 0 {
        writeln!(
            out,
            "    zero windows {}, window probes {}, keep-alives {}",
            d.zero_window_packets, d.window_probes, d.keep_alives
        )?;
    }
    if d.idle_times > 0 {
        writeln!(out, "    idle {} times for {}, longest {}", d.idle_times, d.idle_ns, d.longest_idle_ns)?;
    }
    Ok(())
}

/// What cannot be known from here, by reason.
fn withheld(out: &mut impl Write, r: &Report) -> io::Result<()> {
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for w in &r.withheld {
        match reasons.iter_mut().find(|(reason, _)| *reason == w.reason) {
            Some((_, kinds)) if kinds.contains(&w.words) => {}
            Some((_, kinds)) => kinds.push(w.words),
            None => reasons.push((w.reason, vec![w.words])),
        }
    }
    for (reason, kinds) in reasons {
        wrapped(out, 2, &format!("not known from here: {} ({reason})", kinds.join(", ")))?;
    }
    Ok(())
}

pub fn tell(out: &mut impl Write, r: &Report, reading: &Reading) -> anyhow::Result<()> {
    writeln!(
        out,
        "connection {}: {} > {}, {}, {}",
        r.number,
        reading.endpoint(r.client),
        reading.endpoint(r.server),
        r.duration_ns,
        r.ending.replace('_', " ")
    )?;
    wrapped(out, 2, &format!("captured {}", r.vantage.evidence()))?;
    wrapped(out, 2, &r.verdict)?;
    let options =
        [("window scaling", &r.window_scaling), ("SACK", &r.sack), ("time stamps", &r.timestamps), ("ECN", &r.ecn)];
    for (name, o) in options {
        writeln!(out, "  {}", option(name, o))?;
    }
    if r.to_server.mptcp || r.to_client.mptcp {
        writeln!(out, "  MPTCP offered by {}", if r.to_server.mptcp { "the client" } else { "the server" })?;
    }
    if let Some(cookie) = r.to_server.fast_open {
        writeln!(
            out,
            "  Fast Open: {}",
            if cookie == 0 { "cookie asked for".into() } else { format!("cookie of {cookie} bytes") }
        )?;
    }
    if r.accurate_ecn {
        writeln!(out, "  accurate ECN (RFC 9768) in use")?;
    }
    writeln!(out, "  time, by what limited it")?;
    let mut shares: Vec<(Nanos, Limit)> =
        Limit::ALL.into_iter().map(|l| (r.limits.of(l), l)).filter(|s| s.0.0 > 0).collect();
    shares.sort_unstable_by_key(|s| std::cmp::Reverse(s.0));
    for (time, limit) in shares {
        writeln!(
            out,
            "    {:>9}  {:>5.1} %  {}",
            time.to_string(),
            time.0 as f64 * 100.0 / r.duration_ns.0.max(1) as f64,
            limit.words()
        )?;
    }
    for (time, whose) in r.idle.parts().into_iter().filter(|p| p.0 > Nanos::ZERO) {
        writeln!(out, "    {:>9}           of the application's: {whose}", time.to_string())?;
    }
    for p in r.idle.longest.iter().filter(|p| p.ns > Nanos::ZERO) {
        let what = if p.thinking { "thought" } else { "paused" };
        writeln!(out, "    {:>9}           the {} {what} before packet {}", p.ns.to_string(), p.who, p.to_packet)?;
    }
    direction(out, "client to server", &r.to_server)?;
    direction(out, "server to client", &r.to_client)?;
    for f in &r.findings {
        let packets: Vec<String> = f.packets.iter().map(u64::to_string).collect();
        let cost = if f.cost_ns == Nanos::ZERO { String::new() } else { format!(", {}", f.cost_ns) };
        writeln!(out, "  finding: {}{cost}", f.words)?;
        wrapped(out, 4, &f.text)?;
        wrapped(out, 4, &format!("worth: {}", f.worth))?;
        if !packets.is_empty() {
            wrapped(out, 4, &format!("packets: {}", packets.join(", ")))?;
        }
    }
    withheld(out, r)?;
    if r.records_left_out > 0 {
        writeln!(out, "  {} packets found no room for the plot or dump", r.records_left_out)?;
    }
    writeln!(out)?;
    Ok(())
}
