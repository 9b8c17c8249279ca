//! Bulk transfer.

use quantity::{bit_rate, bytes, count, counted, share};
use record::Nanos;
use traffic::stream::{Config, Direction, FlowOutcome, Outcome, Pacing, Sample, Total, paced_write_bytes};

use super::{ended_early, flows, spread, way};
use crate::page::facts;
use paper::document::{Block, Cell, Column, Document, Section, Table, Text, clauses, texts};
use paper::plot::{Axis, Hue, Layer, Plot, Unit, tidy};

/// One line of progress: what a flow did in an interval.
pub fn interval(s: &Sample) -> String {
    let warm_up = if s.warm_up { "  warm-up" } else { "" };
    let tcp = match (s.sends, s.tcp) {
        (true, Some(t)) => format!(
            "  cwnd {:>8}  rtt {:>8}  retransmitted {}",
            bytes(t.snd_cwnd_bytes()),
            t.srtt.to_string(),
            s.retransmitted_segments
        ),
        _ => String::new(),
    };
    let rate = bit_rate(s.goodput_bits_per_second());
    format!("{:>7}  flow {:<3} {:<4} {rate:>11}{tcp}{warm_up}", s.end.to_string(), s.flow, way(s.sends))
}

/// The congestion control of the ends that sent.
fn congestion(outcome: &Outcome) -> Option<String> {
    let ours = outcome.up.and(outcome.congestion_control.clone());
    let theirs = outcome.down.and(outcome.server_congestion_control.clone());
    match (ours, theirs) {
        (Some(ours), Some(theirs)) if ours != theirs => Some(format!("{ours} here, {theirs} at the server")),
        (ours, theirs) => ours.or(theirs),
    }
}

/// What the transfer showed.
pub fn document(config: &Config, outcome: &Outcome) -> Document {
    let mut verdict = Vec::new();
    for (way, total) in [("up", outcome.up), ("down", outcome.down)] {
        verdict.extend(total.map(|total| sentence(way, &total)));
    }
    let mut warnings = ended_early(outcome.interrupted.as_ref());
    for flow in &outcome.flows {
        warnings.extend(flow.error.iter().map(|error| format!("Flow {} ended early: {error}.", flow.flow)));
    }
    for (way, total) in [("up", outcome.up), ("down", outcome.down)] {
        warnings.extend(total.and_then(|total| faster_than_asked(way, config, &total)));
    }
    if !outcome.server_is_wirelapse && outcome.interrupted.is_none() {
        warnings.push("The server is a stock iperf3: socket options beyond its own were set on this end only.".into());
    }
    let protocol = match (config.udp, congestion(outcome)) {
        (true, _) => "UDP".to_owned(),
        (false, Some(name)) => format!("TCP ({name})"),
        (false, None) => "TCP".to_owned(),
    };
    let ways = match config.direction {
        Direction::Up => "from here",
        Direction::Down => "from the server",
        Direction::Both => "in both directions",
    };
    let about = format!("{} of {protocol} {ways} for {}.", flows(config.flows as usize), outcome.elapsed);
    let mut each = Section::new("Flows");
    each.table(table(config, outcome));
    each.plot(over_time("goodput", "Goodput over time", Axis::sizes("goodput", Unit::Rate), outcome, |s| {
        Some(s.goodput_bits_per_second())
    }));
    each.plot(over_time("rtt", "Smoothed RTT over time", Axis::sizes("smoothed RTT", Unit::Time), outcome, |s| {
        Some(s.tcp.filter(|_| s.sends)?.srtt.0 as f64)
    }));
    each.plot(over_time("cwnd", "Congestion window over time", Axis::sizes("window", Unit::Bytes), outcome, |s| {
        Some(s.tcp.filter(|_| s.sends)?.snd_cwnd_bytes() as f64)
    }));
    each.plot(spread::boxes(&outcome.series));
    if let Some(gaps) = spread::gaps(&outcome.series) {
        each.say(gaps);
    }
    let mut sections = vec![each, settings(config, outcome)];
    if let Some(text) = &outcome.server_output {
        let mut section = Section::new("The server's own report");
        // Under a title its lines are indented, so that none is taken for one of this program's.
        section.blocks.push(Block::Code { title: "As it sent it".into(), text: text.clone() });
        sections.push(section);
    }
    let title = Text::from("stream to ").and(config.target.server);
    Document { title, about, verdict: clauses(verdict), warnings: texts(warnings), sections, ..Document::default() }
}

fn sentence(way: &str, total: &Total) -> String {
    let by = flows(total.flows);
    let mut text = match (total.goodput_bits_per_second, total.received_bytes) {
        (Some(goodput), Some(received)) => {
            format!("{way}: {} received ({} by {by})", bit_rate(goodput), bytes(received))
        }
        _ => format!(
            "{way}: {} sent ({} by {by}); what arrived is not known",
            bit_rate(total.sent_bits_per_second),
            bytes(total.sent_bytes)
        ),
    };
    if let Some(segments) = total.retransmitted_segments {
        text += &format!("; {} retransmitted", counted(segments, "segment"));
    }
    text + "."
}

/// More than this above the rate that was asked for is worth a sentence.
const FASTER: f64 = 1.05;

/// That a sender of TCP was faster than it was asked to be, and why it may have been.
fn faster_than_asked(way: &str, config: &Config, total: &Total) -> Option<String> {
    let asked = config.pace_bits_per_second.filter(|asked| *asked > 0 && !config.udp)? as f64 * total.flows as f64;
    let reached = total.goodput_bits_per_second.filter(|reached| *reached > asked * FASTER)?;
    // net/ipv4/tcp_output.c, tcp_update_skb_after_send.
    let why = match config.pacing {
        Pacing::Kernel => "the kernel does not pace the first ten segments of a connection",
        Pacing::Program => "the sending program wrote ahead of its rate",
    };
    let (asked, reached) = (bit_rate(asked), bit_rate(reached));
    Some(format!("{way}: {reached} is more than the {asked} asked for: {why}, which a longer test makes up for."))
}

/// A row for each flow, where there is more to say than the totals do.
fn table(config: &Config, outcome: &Outcome) -> Table {
    let figures: &[&str] = match config.udp {
        true => &["goodput", "lost", "of", "share", "reordered", "duplicated", "jitter"],
        false => &["goodput", "received", "retransmitted", "mean RTT", "max RTT", "last RTT"],
    };
    let columns = [Column::figures("flow"), Column::text("direction")].into_iter();
    let mut table = Table::new("", columns.chain(figures.iter().map(|name| Column::figures(*name))));
    if !config.udp && outcome.flows.len() < 2 {
        return table;
    }
    let goodput = |f: &FlowOutcome| {
        let received = f.received_bytes.zip(f.received_in).filter(|(_, time)| time.0 > 0);
        let rate = received.map(|(n, time)| n as f64 * 8e9 / time.0 as f64);
        Cell::or(rate, Cell::bit_rate, "the receiver did not say what arrived")
    };
    for f in &outcome.flows {
        let mut row = vec![Cell::from(f.flow.to_string()), way(f.client_sends).into(), goodput(f)];
        if config.udp {
            let Some(d) = f.datagrams else { continue };
            row.extend([d.lost, d.expected].map(Cell::count));
            row.push(Cell::share(share(d.lost.into(), d.expected.into())));
            let unknown = "a stock iperf3 server does not say it";
            row.extend([d.reordered, d.duplicated].map(|n| Cell::or(n, Cell::count, unknown)));
            row.push(d.jitter.into());
        } else {
            row.push(Cell::or(f.received_bytes, Cell::bytes, "the receiver did not say what arrived"));
            row.push(Cell::or(f.retransmitted_segments, Cell::count, "the sender's kernel was not asked"));
            let unknown = "only this host's sending side knows it";
            let sampled = || outcome.series.iter().filter(|s| s.sends && (s.flow, s.sends) == (f.flow, f.client_sends));
            let rtts: Vec<Nanos> = sampled().filter_map(|s| Some(s.tcp?.srtt)).collect();
            let n = (rtts.len() as u64).max(1);
            let mean = rtts.iter().copied().reduce(|sum, rtt| sum + rtt).map(|sum| Nanos(sum.0 / n));
            row.extend([mean, rtts.iter().copied().max()].map(|rtt| Cell::time_or(rtt, unknown)));
            row.push(Cell::time_or(f.tcp.filter(|_| f.client_sends).map(|t| t.srtt), unknown));
        }
        table.push(row);
    }
    table
}

fn settings(config: &Config, outcome: &Outcome) -> Section {
    let mut section = Section::new("Settings and cost");
    let per_gb = |side: Option<f64>| side.map_or("not known".into(), |s| format!("{s:.3} s/GB"));
    let cpu = format!(
        "client {}, server {}",
        per_gb(outcome.cpu_seconds_per_gigabyte),
        per_gb(outcome.server_cpu_seconds_per_gigabyte)
    );
    let mut rows = vec![("CPU", cpu), ("sockets", outcome.socket_options.to_string())];
    if let Some(asked) = outcome.pace_bits_per_second.filter(|asked| *asked > 0) {
        let mut kept = format!("{} a flow, kept by {}", bit_rate(asked as f64), keeper(config, outcome));
        if !config.udp && config.pacing == Pacing::Program {
            let write = paced_write_bytes(config.write_bytes as usize, asked);
            kept += &format!(" in writes of {}", bytes(write as u64));
        }
        rows.push(("asked", kept));
    }
    if let Some(tcp) = outcome.flows.iter().find_map(|f| f.tcp) {
        let scale = tcp.window_scale.map_or("off".into(), |(ours, theirs)| format!("{ours}/{theirs}"));
        rows.push((
            "TCP",
            format!(
                "{}, MSS {} B, timestamps {}, window scale {scale} (this end/peer)",
                outcome.congestion_control.as_deref().unwrap_or("congestion control not known"),
                tcp.snd_mss_bytes,
                if tcp.timestamps { "on" } else { "off" },
            ),
        ));
    }
    for flow in &outcome.flows {
        if let Some(z) = flow.zerocopy {
            rows.push((
                "zerocopy",
                format!(
                    "flow {}: {} sends, {} completed, {} of them copied by the kernel all the same",
                    flow.flow,
                    count(z.sends),
                    count(z.completed),
                    count(z.copied)
                ),
            ));
        }
    }
    section.table(facts("", rows));
    section
}

/// Who keeps the rate that was asked for.
fn keeper(config: &Config, outcome: &Outcome) -> &'static str {
    match (config.udp || config.pacing == Pacing::Program, outcome.server_is_wirelapse) {
        (true, _) => "the sending program",
        (false, true) => "the sender's kernel",
        (false, false) => "the kernel here, and by iperf3 where the server sends",
    }
}

/// Flows with a line in a plot.
const LINES: usize = 6;

fn over_time(id: &str, title: &str, y: Axis, outcome: &Outcome, of: fn(&Sample) -> Option<f64>) -> Option<Plot> {
    let mut names: Vec<(i64, bool)> = Vec::new();
    for s in &outcome.series {
        if !names.contains(&(s.flow, s.sends)) {
            names.push((s.flow, s.sends));
        }
    }
    let left = names.len().saturating_sub(LINES);
    let layers = names
        .iter()
        .take(LINES)
        .enumerate()
        .map(|(i, (flow, sends))| {
            let own = outcome.series.iter().filter(|s| (s.flow, s.sends) == (*flow, *sends));
            let points: Vec<[f64; 2]> = own.filter_map(|s| Some([s.end.0 as f64, tidy(of(s)?)])).collect();
            Layer::line(format!("flow {flow} {}", way(*sends)), Hue::nth(i), points)
        })
        .collect();
    let more = if left > 0 { format!("; {left} more flows are not drawn") } else { String::new() };
    let x = Axis::linear("time since the transfer began", Unit::Time).reaching(0.0);
    let goodput = if id == "goodput" { ": read here, or acknowledged by the peer" } else { "" };
    let plot = Plot::new(id, title, format!("by interval, at this end{goodput}{more}"), (x, y), layers)?;
    (outcome.series.len() > names.len()).then(|| plot.in_strips())
}
