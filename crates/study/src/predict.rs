//! What a path and a setting must give, from first principles. Each says where it holds.

use lab::Side;

use crate::setting::{Setup, Workload};

/// Bytes that Ethernet puts round an IP packet on the wire.
const ETHERNET: f64 = lab::ETHERNET_OVERHEAD as f64;

/// Bytes of an IP header: 20 for version 4, 40 for version 6.
pub fn ip_header_bytes(ipv6: bool) -> u32 {
    if ipv6 { 40 } else { 20 }
}

/// Payload bytes of a full segment: the MTU less the IP and TCP headers (RFC 9293, section 3.7.1).
pub fn segment_bytes(mtu: u32, ipv6: bool, tcp_header_bytes: u32) -> u32 {
    mtu.saturating_sub(ip_header_bytes(ipv6) + tcp_header_bytes)
}

/// Goodput, bits a second, of full segments on a wire of so many bits a second: payload over payload, headers and
/// Ethernet's 38 bytes. Holds for a saturated direction without loss.
pub fn framing(rate: f64, mtu: u32, ipv6: bool, tcp_header_bytes: u32) -> f64 {
    rate * f64::from(segment_bytes(mtu, ipv6, tcp_header_bytes)) / (f64::from(mtu) + ETHERNET)
}

/// A window's worth each round trip, bits a second. Holds where the window is what limits.
pub fn window(window_bytes: f64, round_trip_s: f64) -> f64 {
    window_bytes * 8.0 / round_trip_s
}

/// The largest window without scaling (RFC 9293: a field of 16 bits).
pub const UNSCALED_WINDOW_BYTES: f64 = 65_535.0;

/// How long slow start takes to a window of `bandwidth × round trip`: the window doubles each round trip from ten segments
/// (RFC 6928). Seconds; holds where every segment is acknowledged and nothing is lost, and is a third longer or so with
/// delayed ACKs on other systems than Linux, which counts the bytes that an ACK covers.
pub fn slow_start_s(rate: f64, round_trip_s: f64, segment_bytes: u32) -> f64 {
    let segments = rate * round_trip_s / 8.0 / f64::from(segment_bytes.max(1));
    (segments / 10.0).log2().max(0.0) * round_trip_s
}

/// Mathis, Semke, Mahdavi and Ott (1997): MSS/RTT · √(3/2p), bits a second. Holds for Reno with SACK under independent
/// loss up to about 1 %, without time-outs, and where neither rate nor window limits first.
pub fn mathis(segment_bytes: u32, round_trip_s: f64, loss: f64) -> f64 {
    8.0 * f64::from(segment_bytes) / round_trip_s * (1.5 / loss).sqrt()
}

/// CUBIC's mean rate under independent loss, bits a second (RFC 9438, section 5.1, with β = 0.7 and C = 0.4): the mean
/// window is (C(3+β)/(4(1−β)))^¼ · RTT^¾ / p^¾ segments, or Reno's where that is more (section 4.3). Same limits as
/// [`mathis`]; the bound of Reno is an approximation.
pub fn cubic(segment_bytes: u32, round_trip_s: f64, loss: f64) -> f64 {
    let factor = (0.4f64 * 3.7 / (4.0 * 0.3)).powf(0.25);
    let segments = factor * (round_trip_s / loss).powf(0.75);
    (8.0 * f64::from(segment_bytes) * segments / round_trip_s).max(mathis(segment_bytes, round_trip_s, loss))
}

/// The shortest delayed ACK of Linux, seconds (`TCP_DELACK_MIN`, HZ/25 in include/net/tcp.h). Linux of 1999 waited
/// HZ/50, 20 ms, for small segments.
pub const DELAYED_ACK_S: f64 = 0.040;

/// Exchanges a second where each waits for one delayed ACK.
pub fn delayed_ack_exchanges(round_trip_s: f64) -> f64 {
    1.0 / (DELAYED_ACK_S + round_trip_s)
}

/// Exchanges a second, one after the other, over a path with a rate: a round trip, the time that request and response take
/// on the wire, for `crr` the handshake's round trip before, and one delayed ACK where Nagle's algorithm holds the second of two
/// small writes of a response until it comes. `None` over loopback and without a rate: there hosts decide. Excludes the
/// hosts' own time and slow start, so it is an upper bound.
pub fn exchanges(setup: &Setup) -> Option<f64> {
    let (up, down) = (setup.path.a_to_b.rate?, setup.path.b_to_a.rate?);
    let round_trip_s = setup.round_trip_s().filter(|_| !setup.loopback)?;
    let v6 = setup.ipv6 == Some(true);
    let mss = segment_bytes(setup.path.mtu, v6, 32);
    let on_wire = |bytes: u32, rate: f64| {
        let headers = f64::from(bytes.div_ceil(mss.max(1))) * (f64::from(ip_header_bytes(v6) + 32) + ETHERNET);
        (f64::from(bytes) + headers) * 8.0 / rate
    };
    let e = &setup.exchange;
    let mut seconds = round_trip_s
        + on_wire(e.request_bytes, up.bits() as f64)
        + on_wire(e.response_bytes, down.bits() as f64)
        + e.think.as_secs_f64();
    if setup.workload == Workload::Crr {
        seconds += round_trip_s;
    }
    let o = &setup.options;
    let holds = o.nodelay != Some(true) && o.cork.is_none() && e.response_writes == 2;
    // The first leaves at once and is small; the second is held where it is small too.
    if holds && e.response_bytes.div_ceil(2) < mss {
        seconds += if o.quickack == Some(true) { round_trip_s } else { DELAYED_ACK_S + round_trip_s };
    }
    Some(1.0 / seconds)
}

/// The goodput of one stream from a to b, bits a second: the least of framing, window (65,535 bytes where scaling
/// is off, the receive buffer's bound where the plan sets it) and loss.
/// `None` where nothing bounds it. Says nothing of short transfers, several flows or reordering.
pub fn goodput(setup: &Setup) -> Option<f64> {
    goodput_over(setup, setup.round_trip_s()?)
}

/// The same over a round trip that was measured: between real hosts.
pub fn goodput_over(setup: &Setup, round_trip_s: f64) -> Option<f64> {
    let off = |name: &str| Side::ALL.iter().any(|side| setup.sysctl(*side, name) == Some("0"));
    if setup.loopback || setup.rival.is_some() {
        return None;
    }
    let header = if off("net.ipv4.tcp_timestamps") { 20 } else { 32 };
    let (v6, way) = (setup.ipv6 == Some(true), &setup.path.a_to_b);
    let mss = segment_bytes(setup.path.mtu, v6, header);
    let mut bounds = Vec::new();
    if let Some(rate) = way.rate {
        bounds.push(framing(rate.bits() as f64, setup.path.mtu, v6, header));
    }
    if off("net.ipv4.tcp_window_scaling") && round_trip_s > 0.0 {
        bounds.push(window(UNSCALED_WINDOW_BYTES, round_trip_s));
    }
    // No window is larger than the buffer that it promises room in: the third number is the most it grows to.
    let most =
        setup.sysctl(Side::B, "net.ipv4.tcp_rmem").and_then(|v| v.split_whitespace().nth(2)?.parse::<f64>().ok());
    if let Some(bytes) = most.filter(|b| *b > 0.0 && round_trip_s > 0.0) {
        bounds.push(window(bytes, round_trip_s));
    }
    let loss = way.loss.share();
    if loss > 0.0 && round_trip_s > 0.0 {
        match setup.options.congestion_control.as_deref() {
            Some("reno") => bounds.push(mathis(mss, round_trip_s, loss)),
            Some("cubic") => bounds.push(cubic(mss, round_trip_s, loss)),
            // BBR does not take loss for congestion below 2 %, and what the machine's default is is not known here.
            _ => {}
        }
    }
    bounds.into_iter().reduce(f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn framing_of_the_reference() {
        // The reference's table: 9.415 and 9.493 Gbit/s of 10, 0.83 % apart.
        let (with, without) = (framing(1e10, 1_500, false, 32), framing(1e10, 1_500, false, 20));
        assert!((with / 1e9 - 9.4148).abs() < 1e-3 && (without / 1e9 - 9.4928).abs() < 1e-3);
        assert!(((without / with - 1.0) * 100.0 - 0.8287).abs() < 1e-3);
    }

    #[test]
    fn windows_of_the_reference() {
        // 19.8 Mbit/s were measured at 25.4 ms; 784 at 0.388 ms is the rate's own bound, not the window's.
        assert!((window(UNSCALED_WINDOW_BYTES, 0.025_392) / 1e6 - 20.65).abs() < 0.01);
        assert!(window(UNSCALED_WINDOW_BYTES, 0.000_388) > 1e9);
        assert!((delayed_ack_exchanges(0.001) - 24.39).abs() < 0.01);
    }

    #[test]
    fn the_receive_buffer_bounds_the_window() {
        let mut setup = Setup::default();
        for (name, value) in [("rate", "1gbit"), ("delay", "500ms"), ("net.ipv4.tcp_rmem", "4096 131072 67108864")] {
            setup.set(name, value).unwrap();
        }
        assert!((goodput(&setup).unwrap() - 67_108_864.0 * 8.0).abs() < 1.0);
        setup.set("delay", "10ms").unwrap();
        assert!((goodput(&setup).unwrap() / 1e6 - 941.5).abs() < 0.1);
    }

    #[test]
    fn exchanges_take_round_trips_wire_time_and_a_timer() {
        let mut setup = Setup::default();
        for (name, value) in [
            ("workload", "rr"),
            ("rate", "100mbit"),
            ("delay", "500us"),
            ("request", "4"),
            ("response", "1448"),
            ("socket", "default"),
        ] {
            setup.set(name, value).unwrap();
        }
        // 1 ms, and 94 and 1,538 bytes at 100 Mbit/s.
        let one = exchanges(&setup).unwrap();
        assert!((one - 1.0 / 0.001_130_56).abs() < 0.1, "{one}");
        setup.set("response_writes", "2").unwrap();
        let stalled = exchanges(&setup).unwrap();
        assert!((stalled - 1.0 / 0.042_130_56).abs() < 0.01, "{stalled}");
        // The second of 1,447 and 1,448 bytes is a whole segment, which nothing holds.
        setup.set("response", "2895").unwrap();
        assert!(exchanges(&setup).unwrap() > 700.0);
        setup.set("response", "2894").unwrap();
        assert!(exchanges(&setup).unwrap() < 25.0);
        setup.set("socket", "nodelay").unwrap();
        assert!(exchanges(&setup).unwrap() > 700.0);
        setup.set("workload", "crr").unwrap();
        assert!(exchanges(&setup).unwrap() < 450.0);
        setup.set("over", "loopback").unwrap();
        assert_eq!(exchanges(&setup), None);
    }

    #[test]
    fn loss_formulas() {
        // RFC 9438, table 1: RTT 0.1 s, p = 1e-4: CUBIC's mean window is 187 segments (HSTCP 263, Reno 120 by 1.2/√p).
        let segments = |rate: f64| rate * 0.1 / 8.0 / 1_448.0;
        assert!(
            (segments(cubic(1_448, 0.1, 1e-4)) / 187.0 - 1.0).abs() < 0.01,
            "{}",
            segments(cubic(1_448, 0.1, 1e-4))
        );
        assert!((segments(mathis(1_448, 0.1, 1e-4)) - 122.5).abs() < 0.1);
        assert!(cubic(1_448, 0.001, 1e-4) == mathis(1_448, 0.001, 1e-4));
        assert!((slow_start_s(1e9, 0.1, 1_448) - 0.1 * (863.26f64).log2()).abs() < 1e-3);
        assert_eq!(slow_start_s(1e6, 0.001, 1_448), 0.0);
    }
}
