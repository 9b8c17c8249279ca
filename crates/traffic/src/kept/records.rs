//! The tables of workloads, field by field.

use std::net::{IpAddr, SocketAddr};

use clock::{Instant, Nanos};
use record::columns;
use record::table::{Cell, Value};
use stats::DurationSummary;
use timestamping::SocketMemory;

use crate::stream::{FlowOutcome, Sample};
use crate::tcp_info::TcpInfo;
use crate::{load, responsiveness, rr, udp};

/// One interval of a stream's flow, as one end sampled it.
#[derive(Clone, Debug, PartialEq)]
pub struct Interval {
    /// Whether the server sampled it.
    pub at_server: bool,
    /// What it sampled.
    pub sample: Sample,
}

impl Interval {
    fn blank() -> Self {
        let sample = Sample {
            flow: 0,
            sends: false,
            start: Nanos::ZERO,
            end: Nanos::ZERO,
            warm_up: false,
            bytes: 0,
            bits_per_second: 0.0,
            acknowledged_bytes: None,
            retransmitted_segments: 0,
            datagrams: 0,
            tcp: None,
            memory: None,
        };
        Self { at_server: false, sample }
    }

    fn tcp<C>(&self, of: fn(&TcpInfo) -> C) -> Option<C> {
        self.sample.tcp.as_ref().map(of)
    }

    fn memory(&self, of: fn(&SocketMemory) -> u32) -> Option<u32> {
        self.sample.memory.as_ref().map(of)
    }
}

/// A field of `TCP_INFO`, or none where there was none.
fn set_tcp<C: Cell>(row: &mut Interval, value: Value<'_>, put: fn(&mut TcpInfo, C)) -> Result<(), &'static str> {
    if let Some(value) = Option::<C>::from_value(value)? {
        put(row.sample.tcp.get_or_insert_default(), value);
    }
    Ok(())
}

fn set_memory(row: &mut Interval, value: Value<'_>, put: fn(&mut SocketMemory, u32)) -> Result<(), &'static str> {
    if let Some(value) = Option::<u32>::from_value(value)? {
        put(row.sample.memory.get_or_insert_default(), value);
    }
    Ok(())
}

/// A signed number that is stored without its sign.
fn unsigned(number: i64) -> u64 {
    number.unsigned_abs()
}

columns! {
    Interval: "intervals", "", blank = Interval::blank();
    flow = |i| unsigned(i.sample.flow), set |i, v| { i.sample.flow = u64::from_value(v)?.cast_signed(); Ok(()) }, "iperf3's number of the flow";
    at_server = at_server, "1 where the server sampled it, 0 where the client did";
    sends = sample.sends, "1 where the end that sampled it sends on the flow";
    start_ns = sample.start, "its beginning, since the transfer began";
    end_ns = sample.end, "its end, since the transfer began";
    warm_up = sample.warm_up, "1 where it is part of the warm-up, which is in no total";
    bytes = sample.bytes, "written to the socket, or read from it";
    bits_per_second = sample.bits_per_second, "their rate";
    acknowledged_bytes = sample.acknowledged_bytes, null "the end that sampled it receives, or the flow is not TCP", "bytes that the peer acknowledged in the interval: a send buffer takes bytes before the path does";
    retransmitted_segments = sample.retransmitted_segments, "retransmitted in the interval";
    datagrams = sample.datagrams, "datagrams, where the flow has those";
    tcp_timestamps = |i| i.tcp(|t| t.timestamps), set |i, v| set_tcp(i, v, |t, v| t.timestamps = v), null "the flow is not TCP", "1 where both ends agreed on TCP timestamps", from "tcpi_options";
    tcp_sack = |i| i.tcp(|t| t.sack), set |i, v| set_tcp(i, v, |t, v| t.sack = v), null "the flow is not TCP", "1 where both ends agreed on SACK", from "tcpi_options";
    window_scale = |i| i.tcp(|t| t.window_scale.map(|s| s.0)).flatten(), set |i, v| set_tcp(i, v, |t, v| t.window_scale.get_or_insert_default().0 = v), null "the ends did not agree on scaling", "window scale of this end", from "tcpi_rcv_wscale";
    peer_window_scale = |i| i.tcp(|t| t.window_scale.map(|s| s.1)).flatten(), set |i, v| set_tcp(i, v, |t, v| t.window_scale.get_or_insert_default().1 = v), null "the ends did not agree on scaling", "window scale of the peer", from "tcpi_snd_wscale";
    snd_mss_bytes = |i| i.tcp(|t| t.snd_mss_bytes), set |i, v| set_tcp(i, v, |t, v| t.snd_mss_bytes = v), null "the flow is not TCP", "largest segment sent", from "tcpi_snd_mss";
    snd_cwnd_segments = |i| i.tcp(|t| t.snd_cwnd_segments), set |i, v| set_tcp(i, v, |t, v| t.snd_cwnd_segments = v), null "the flow is not TCP", "congestion window at the end", from "tcpi_snd_cwnd";
    srtt_ns = |i| i.tcp(|t| t.srtt), set |i, v| set_tcp(i, v, |t, v| t.srtt = v), null "the flow is not TCP", "smoothed round trip", from "tcpi_rtt";
    rttvar_ns = |i| i.tcp(|t| t.rttvar), set |i, v| set_tcp(i, v, |t, v| t.rttvar = v), null "the flow is not TCP", "its mean deviation", from "tcpi_rttvar";
    min_rtt_ns = |i| i.tcp(|t| t.min_rtt), set |i, v| set_tcp(i, v, |t, v| t.min_rtt = v), null "the flow is not TCP", "lowest round trip of the last minutes", from "tcpi_min_rtt";
    total_retransmitted_segments = |i| i.tcp(|t| t.retransmitted_segments), set |i, v| set_tcp(i, v, |t, v| t.retransmitted_segments = v), null "the flow is not TCP", "retransmitted since the connection began", from "tcpi_total_retrans";
    snd_wnd_bytes = |i| i.tcp(|t| t.snd_wnd_bytes), set |i, v| set_tcp(i, v, |t, v| t.snd_wnd_bytes = v), null "the flow is not TCP", "the window that the peer offers", from "tcpi_snd_wnd";
    rcv_wnd_bytes = |i| i.tcp(|t| t.rcv_wnd_bytes), set |i, v| set_tcp(i, v, |t, v| t.rcv_wnd_bytes = v), null "the flow is not TCP", "the window that this end offers", from "tcpi_rcv_wnd";
    rcv_space_bytes = |i| i.tcp(|t| t.rcv_space_bytes), set |i, v| set_tcp(i, v, |t, v| t.rcv_space_bytes = v), null "the flow is not TCP", "what the receive buffer is tuned to", from "tcpi_rcv_space";
    path_mtu_bytes = |i| i.tcp(|t| t.path_mtu_bytes), set |i, v| set_tcp(i, v, |t, v| t.path_mtu_bytes = v), null "the flow is not TCP", "path MTU", from "tcpi_pmtu";
    notsent_bytes = |i| i.tcp(|t| t.notsent_bytes), set |i, v| set_tcp(i, v, |t, v| t.notsent_bytes = v), null "the flow is not TCP", "written and not sent yet", from "tcpi_notsent_bytes";
    unacked_segments = |i| i.tcp(|t| t.unacked_segments), set |i, v| set_tcp(i, v, |t, v| t.unacked_segments = v), null "the flow is not TCP", "in flight", from "tcpi_unacked";
    acked_bytes = |i| i.tcp(|t| t.acked_bytes), set |i, v| set_tcp(i, v, |t, v| t.acked_bytes = v), null "the flow is not TCP", "acknowledged by the peer since the connection began", from "tcpi_bytes_acked";
    received_bytes = |i| i.tcp(|t| t.received_bytes), set |i, v| set_tcp(i, v, |t, v| t.received_bytes = v), null "the flow is not TCP", "received in order since the connection began", from "tcpi_bytes_received";
    delivery_rate_bytes_per_second = |i| i.tcp(|t| t.delivery_rate_bytes_per_second), set |i, v| set_tcp(i, v, |t, v| t.delivery_rate_bytes_per_second = v), null "the flow is not TCP", "the kernel's estimate", from "tcpi_delivery_rate";
    pacing_rate_bytes_per_second = |i| i.tcp(|t| t.pacing_rate_bytes_per_second.min(i64::MAX as u64)), set |i, v| set_tcp(i, v, |t, v: u64| t.pacing_rate_bytes_per_second = if v == i64::MAX as u64 { u64::MAX } else { v }), null "the flow is not TCP", "pacing rate; 2^63 − 1 where nothing paces", from "tcpi_pacing_rate";
    busy_ns = |i| i.tcp(|t| t.busy), set |i, v| set_tcp(i, v, |t, v| t.busy = v), null "the flow is not TCP", "time with data in flight, since the connection began", from "tcpi_busy_time";
    rwnd_limited_ns = |i| i.tcp(|t| t.rwnd_limited), set |i, v| set_tcp(i, v, |t, v| t.rwnd_limited = v), null "the flow is not TCP", "of it, limited by the peer's window", from "tcpi_rwnd_limited";
    sndbuf_limited_ns = |i| i.tcp(|t| t.sndbuf_limited), set |i, v| set_tcp(i, v, |t, v| t.sndbuf_limited = v), null "the flow is not TCP", "of it, limited by the send buffer", from "tcpi_sndbuf_limited";
    receive_used_bytes = |i| i.memory(|m| m.receive_used_bytes), set |i, v| set_memory(i, v, |m, v| m.receive_used_bytes = v), null "the kernel did not say", "memory of packets that were received and not read (`skmem` r)";
    receive_buffer_bytes = |i| i.memory(|m| m.receive_buffer_bytes), set |i, v| set_memory(i, v, |m, v| m.receive_buffer_bytes = v), null "the kernel did not say", "the most of that (`skmem` rb)";
    send_used_bytes = |i| i.memory(|m| m.send_used_bytes), set |i, v| set_memory(i, v, |m, v| m.send_used_bytes = v), null "the kernel did not say", "memory of packets that are written and not acknowledged (`skmem` t)";
    send_buffer_bytes = |i| i.memory(|m| m.send_buffer_bytes), set |i, v| set_memory(i, v, |m, v| m.send_buffer_bytes = v), null "the kernel did not say", "the most of that (`skmem` tb)";
    forward_bytes = |i| i.memory(|m| m.forward_bytes), set |i, v| set_memory(i, v, |m, v| m.forward_bytes = v), null "the kernel did not say", "charged to the socket ahead of use (`skmem` f)";
    drops = |i| i.memory(|m| m.drops), set |i, v| set_memory(i, v, |m, v| m.drops = v), null "the kernel did not say", "packets dropped for lack of buffer (`skmem` d)";
}

/// One flow of a stream at its end.
#[derive(Clone, Debug, PartialEq)]
pub struct Flow(pub FlowOutcome);

impl Flow {
    fn blank() -> Self {
        let nowhere = SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED), 0);
        Self(FlowOutcome {
            flow: 0,
            client_sends: false,
            local: nowhere,
            remote: nowhere,
            sent_bytes: None,
            received_bytes: None,
            sent_in: None,
            received_in: None,
            retransmitted_segments: None,
            datagrams: None,
            zerocopy: None,
            tcp: None,
            error: None,
        })
    }
}

columns! {
    Flow: "flows", "", blank = Flow::blank();
    flow = |f| unsigned(f.0.flow), "iperf3's number of the flow";
    client_sends = |f| f.0.client_sends, "1 where the client sends on it";
    local_address = |f| f.0.local.ip(), "the client's address";
    local_port = |f| f.0.local.port(), "the client's port";
    remote_address = |f| f.0.remote.ip(), "the server's address";
    remote_port = |f| f.0.remote.port(), "the server's port";
    sent_bytes = |f| f.0.sent_bytes, null "the sender did not say", "written by the sender";
    received_bytes = |f| f.0.received_bytes, null "the receiver did not say", "read by the receiver";
    sent_in_ns = |f| f.0.sent_in, null "the sender did not say", "how long the sender measured";
    received_in_ns = |f| f.0.received_in, null "the receiver did not say", "how long the receiver measured";
    retransmitted_segments = |f| f.0.retransmitted_segments, null "the sender does not know", "retransmitted by the sender after the warm-up";
    expected_datagrams = |f| f.0.datagrams.map(|d| d.expected), null "the flow has none", "datagrams sent";
    lost_datagrams = |f| f.0.datagrams.map(|d| d.lost), null "the flow has none", "of them, never received";
    jitter_ns = |f| f.0.datagrams.map(|d| d.jitter), null "the flow has no datagrams", "RFC 3550's, at the receiver";
    error = |f| f.0.error.clone(), null "it came to its end", "what ended it early";
}

/// One probe of `ping-under-load`.
#[derive(Clone, Debug, PartialEq)]
pub struct Probe {
    /// Which kind.
    pub probe: load::ProbeKind,
    /// In which phase it was meant to be sent.
    pub phase: String,
    /// The probe.
    pub round: load::Round,
}

columns! {
    Probe: "probes", "", blank = Probe {
        probe: load::ProbeKind::Tcp,
        phase: String::new(),
        round: load::Round { at: Nanos::ZERO, late: Nanos::ZERO, round_trip: None },
    };
    probe = probe, "its protocol";
    phase = phase, "when it was meant to be sent: `before` the load, `growing` (until the streams have filled the path, and the first second of the load in any case, at most a quarter), `loaded`, `emptying` (what they sent leaves the path, and a second more, at most a quarter of the time after it), `after`";
    at_ns = round.at, "when it was meant to be sent, since the start";
    late_ns = round.late, "how much later this host sent it";
    round_trip_ns = round.round_trip, null "no answer came", "from sending it to the arrival of the answer";
}

columns! {
    rr::Interval: "transactions", "", blank = rr::Interval {
        connection: 0,
        start: Nanos::ZERO,
        end: Nanos::ZERO,
        latency: DurationSummary::default(),
    };
    connection = connection, "which connection (`crr`: which of those at the same time), from 0";
    start_ns = start, "its beginning, since measuring began";
    end_ns = end, "its end, since measuring began";
    n = latency.n, "transactions done in it";
    latency_min_ns = latency.min, "the shortest latency; 0 where n is";
    latency_mean_ns = latency.mean, "the mean";
    latency_p50_ns = latency.p50, "half are no longer";
    latency_p90_ns = latency.p90, "90 % are no longer";
    latency_p99_ns = latency.p99, "99 % are no longer; with n below 100 the longest";
    latency_p999_ns = latency.p999, "99.9 % are no longer; with n below 1,000 the longest";
    latency_max_ns = latency.max, "the longest";
}

/// Latencies of about the same length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bucket {
    /// The longest of them, to 0.1 %.
    pub at_most: Nanos,
    /// How many.
    pub n: u64,
}

columns! {
    Bucket: "latencies", "", blank = Bucket::default();
    at_most_ns = at_most, "upper bound of the bucket: of a transaction's latency, or of a datagram's one-way delay";
    n = n, "how many are in it";
}

columns! {
    rr::Slow: "slowest", "", blank = rr::connections::NO_SLOW;
    connection = connection, "which connection, from 0";
    local_port = local_port, "this end's port: with it the transaction is found in a trace or a capture";
    at_monotonic_ns = at_monotonic, "when it was meant to begin, `CLOCK_MONOTONIC`";
    at_realtime_ns = |s| s.at_realtime.as_nanos(), set |s, v| { s.at_realtime = Instant::from_nanos(u64::from_value(v)?); Ok(()) }, "the same, `CLOCK_REALTIME`";
    latency_ns = latency, "from the meant moment to the last byte";
    queued_ns = queued, "of it, waiting behind others before it was sent";
    connect_ns = connect, "of it, the connection's handshake (`crr`)";
    first_byte_ns = first_byte, "of it, from sending to the first bytes of the response";
    rest_ns = rest, "of it, from there to the last";
}

columns! {
    udp::Interval: "arrivals", "", blank = udp::Interval::default();
    start_ns = start, "its beginning, since the receiver's first datagram";
    end_ns = end, "its end, since the receiver's first datagram";
    received = received, "different datagrams that came";
    bytes = bytes, "bytes that came, duplicates included";
    lost = |i| i.lost as f64, set |i, v| { i.lost = f64::from_value(v)? as i64; Ok(()) }, "found missing in the interval, less those that came late in it";
    mean_delay_ns = mean_delay, null "the ends do not share a clock, or nothing came", "mean one-way delay";
    max_delay_ns = max_delay, null "the ends do not share a clock, or nothing came", "longest one-way delay";
}

columns! {
    responsiveness::Probe: "responses", "", blank = responsiveness::Probe {
        kind: responsiveness::ProbeKind::Foreign,
        load: None,
        at: Nanos::ZERO,
        tcp: None,
        tls: None,
        http: None,
    };
    probe = kind, "`foreign`: on a separate connection; `self`: on a load-generating connection";
    load = load, null "it was before the load", "which directions were loaded";
    at_ns = at, "when it began, since the start of the test";
    tcp_ns = tcp, null "a self probe has none, or it failed", "the TCP handshake";
    tls_ns = tls, null "a self probe has none, or it failed", "a round trip of the TLS handshake: its time divided by its round trips";
    http_ns = http, null "it failed", "from the request to the whole response of one byte";
}

columns! {
    responsiveness::Interval: "working_conditions", "", blank = responsiveness::Interval {
        load: responsiveness::Load::Both,
        start: Nanos::ZERO,
        end: Nanos::ZERO,
        connections: 0,
        down_bits_per_second: None,
        up_bits_per_second: None,
        rpm: None,
    };
    load = load, "which directions were loaded";
    start_ns = start, "its beginning, since the start of the test";
    end_ns = end, "its end";
    connections = connections, "load-generating connections at its end, in all loaded directions";
    down_bits_per_second = down_bits_per_second, null "that direction was not loaded", "read by the client";
    up_bits_per_second = up_bits_per_second, null "that direction was not loaded", "acknowledged by the server";
    rpm = rpm, null "goodput was not stable before it, or a kind of probe had no answer", "responsiveness of the last intervals, round trips a minute";
}
