//! What a path and a setting must give, from first principles. Each says where it holds.

use lab::Side;
use record::Nanos;
use record::trial::Response;

use crate::named::Sysctl;
use crate::setting::{Setup, Workload};

/// Bytes that Ethernet puts round an IP packet on the wire.
const ETHERNET: f64 = lab::ETHERNET_OVERHEAD as f64;

/// Bytes of a UDP header (RFC 768).
const UDP_HEADER_BYTES: u32 = 8;

/// Bytes of an IP header: 20 for version 4, 40 for version 6.
pub fn ip_header_bytes(ipv6: bool) -> u32 {
    if ipv6 { 40 } else { 20 }
}

/// Payload bytes of a full segment: the MTU less the IP and TCP headers (RFC 9293, section 3.7.1).
pub fn segment_bytes(mtu: u32, ipv6: bool, tcp_header_bytes: u32) -> u32 {
    mtu.saturating_sub(ip_header_bytes(ipv6) + tcp_header_bytes)
}

/// Goodput, bits a second, of full segments on a wire of so many bits a second: payload over
/// payload, headers and Ethernet's 38 bytes. Holds for a saturated direction without loss.
pub fn framing(rate: f64, mtu: u32, ipv6: bool, tcp_header_bytes: u32) -> f64 {
    rate * f64::from(segment_bytes(mtu, ipv6, tcp_header_bytes)) / (f64::from(mtu) + ETHERNET)
}

/// A window's worth each round trip, bits a second. Holds where the window is what limits.
pub fn window(window_bytes: f64, round_trip_s: f64) -> f64 {
    window_bytes * 8.0 / round_trip_s
}

/// The largest window without scaling (RFC 9293: a field of 16 bits).
pub const UNSCALED_WINDOW_BYTES: f64 = 65_535.0;

/// Mathis, Semke, Mahdavi and Ott (1997): MSS/RTT · √(3/2p), bits a second. Holds for Reno with
/// SACK under independent loss up to about 1 %, without time-outs, and where neither rate nor
/// window limits first.
pub fn mathis(segment_bytes: u32, round_trip_s: f64, loss: f64) -> f64 {
    8.0 * f64::from(segment_bytes) / round_trip_s * (1.5 / loss).sqrt()
}

/// CUBIC's mean rate under independent loss, bits a second (RFC 9438, section 5.1, with β = 0.7 and
/// C = 0.4): the mean window is (C(3+β)/(4(1−β)))^¼ · RTT^¾ / p^¾ segments, or Reno's where that is
/// more (section 4.3). Same limits as [`mathis`]; the bound of Reno is an approximation.
pub fn cubic(segment_bytes: u32, round_trip_s: f64, loss: f64) -> f64 {
    let factor = (0.4f64 * 3.7 / (4.0 * 0.3)).powf(0.25);
    let segments = factor * (round_trip_s / loss).powf(0.75);
    (8.0 * f64::from(segment_bytes) * segments / round_trip_s).max(mathis(segment_bytes, round_trip_s, loss))
}

/// The shortest delayed ACK of Linux, seconds (`TCP_DELACK_MIN`, HZ/25 in include/net/tcp.h). Linux
/// of 1999 waited HZ/50, 20 ms, for small segments.
pub const DELAYED_ACK_S: f64 = 0.040;

/// Exchanges a second where each waits for one delayed ACK.
pub fn delayed_ack_exchanges(round_trip_s: f64) -> f64 {
    1.0 / (DELAYED_ACK_S + round_trip_s)
}

/// What first principles say of a figure, and how far they can be off: what is outside is a miss.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Predicted {
    /// The figure.
    pub value: f64,
    /// The least that still agrees with it.
    pub low: f64,
    /// The most.
    pub high: f64,
}

impl Predicted {
    /// Whether an interval that was measured has nothing in common with the reach of the
    /// prediction.
    pub fn missed_by(&self, measured: &stats::Estimate) -> bool {
        measured.high < self.low || measured.low > self.high
    }
}

/// What hosts take for themselves of each round trip at most: wake-ups and the stack at both ends,
/// and the lab's forwarder. Seconds.
const HOSTS_S: f64 = 150e-6;
/// What they take more for a connection each: its sockets are made, accepted and closed. Seconds.
const CONNECTION_S: f64 = 400e-6;
/// How much later than asked for a timer of the kernel ends, at 250 ticks a second. Seconds.
const TICK_S: f64 = 0.004;
/// What is left to rounding, slow start and the ends of a measurement, as a share.
const SLACK: f64 = 0.05;
/// The formulas of loss are means of models that know no time-outs: measured rates lie within this
/// factor of them.
const LOSS_FACTOR: f64 = 1.6;

/// How a message in several writes is held by Nagle's algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    /// Not at all.
    No,
    /// Until an ACK that the receiver sends at once: with the next full segment. So many bytes in
    /// further full segments leave until it comes.
    RoundTrip(u32),
    /// Until an ACK that the receiver delays.
    DelayedAck,
}

/// Whether the end of a message is held: a small segment waits while an earlier small one is
/// unacknowledged (RFC 896 in Minshall's form, `tcp_nagle_check()`). The receiver acknowledges at
/// once what is more than a full segment, and delays its ACK of less.
fn held(bytes: u32, writes: u32, mss: u32) -> Held {
    if writes < 2 || bytes < 2 || mss == 0 {
        return Held::No;
    }
    // What comes after the first write waits together.
    let first = bytes / writes;
    let rest = bytes - first;
    let (small, last) = (first % mss, rest % mss);
    match (small, last) {
        (0, _) | (_, 0) => Held::No,
        _ if bytes - last > mss => Held::RoundTrip((rest - last).saturating_sub(mss)),
        _ => Held::DelayedAck,
    }
}

/// How long an exchange takes, seconds, the pause before the next one left out.
#[derive(Clone, Copy, Debug)]
struct ExchangeTime {
    seconds: f64,
    /// The least and the most that still agree with it, without [`SLACK`].
    least: f64,
    most: f64,
}

/// Exchanges a second, one after the other, over a path with a rate: `exchange_time()`.
pub fn exchanges(setup: &Setup) -> Option<Predicted> {
    let time = exchange_time(setup)?;
    let think = setup.exchange.think.as_secs_f64();
    Some(Predicted {
        value: 1.0 / (time.seconds + think),
        low: (1.0 - SLACK) / (time.most + think),
        high: (1.0 + SLACK) / (time.least + think),
    })
}

/// The median time of an exchange, nanoseconds: `exchange_time()`. Loss and jitter of a path
/// are in it only as far as they reach half of the exchanges, so there is no prediction from 10 %
/// of loss on, nor where the delay varies.
pub fn exchange_latency(setup: &Setup) -> Option<Predicted> {
    let ways = [&setup.path.a_to_b, &setup.path.b_to_a];
    if ways.iter().any(|way| way.loss.share() >= 0.1 || way.jitter > Nanos::ZERO) {
        return None;
    }
    let time = exchange_time(setup)?;
    Some(Predicted {
        value: time.seconds * 1e9,
        low: time.least * (1.0 - SLACK) * 1e9,
        high: time.most * (1.0 + SLACK) * 1e9,
    })
}

/// A round trip, the time that request and response take on the wire, for `crr` the handshake's
/// round trip before and those of slow start, and what Nagle's algorithm holds of messages in
/// several writes. With a connection each the response is not held: the FIN that follows it takes
/// it along. `None` over loopback, without a rate, and where the hosts' own time is more than the
/// path's: there hosts decide.
fn exchange_time(setup: &Setup) -> Option<ExchangeTime> {
    if setup.schedule.is_some() {
        return None;
    }
    let (up, down) = (setup.path.a_to_b.rate?, setup.path.b_to_a.rate?);
    let round_trip_s = setup.round_trip_s().filter(|_| !setup.loopback)?;
    let v6 = setup.ipv6 == Some(true);
    let mss = segment_bytes(setup.path.mtu, v6, 32);
    let on_wire = |bytes: u32, rate: f64| {
        let headers = f64::from(bytes.div_ceil(mss.max(1))) * (f64::from(ip_header_bytes(v6) + 32) + ETHERNET);
        (f64::from(bytes) + headers) * 8.0 / rate
    };
    let e = &setup.exchange;
    let connect_each = setup.workload == Workload::Crr;
    let wire_s = on_wire(e.request_bytes, up.bits() as f64) + on_wire(e.response_bytes, down.bits() as f64);
    let (mut trips, mut timers, mut idle_s, mut meanwhile_s) = (1.0, 0.0, 0.0, 0.0);
    if connect_each {
        trips += 1.0;
        for (bytes, rate) in [(e.request_bytes, up), (e.response_bytes, down)] {
            idle_s += idle_in_slow_start_s(bytes, mss, rate.bits() as f64, round_trip_s);
        }
    }
    let o = &setup.options;
    if o.nodelay != Some(true) && o.cork.is_none() {
        let request = held(e.request_bytes, e.request_writes, mss);
        let response = if connect_each { Held::No } else { held(e.response_bytes, e.response_writes, mss) };
        // A new connection acknowledges at once until it has seen that the program answers.
        let at_once = [connect_each, false].map(|new| new || o.quickack == Some(true));
        for ((held, at_once), rate) in [request, response].into_iter().zip(at_once).zip([up, down]) {
            if let Held::RoundTrip(leaving) = held {
                // Their time on the wire is counted already; at the lower end of the reach the ACK
                // comes with the last of them.
                meanwhile_s += on_wire(leaving, rate.bits() as f64).min(round_trip_s);
            }
            trips += f64::from(u8::from(held != Held::No));
            timers += f64::from(u8::from(held == Held::DelayedAck && !at_once));
        }
    }
    let path_s = trips * round_trip_s + timers * DELAYED_ACK_S;
    let seconds = path_s + wire_s + idle_s - meanwhile_s;
    let hosts_s = trips * HOSTS_S + if connect_each { CONNECTION_S } else { 0.0 };
    (hosts_s < seconds + e.think.as_secs_f64()).then_some(ExchangeTime {
        seconds,
        least: seconds - timers * TICK_S,
        most: seconds + meanwhile_s + hosts_s + timers * TICK_S,
    })
}

/// The goodput of datagrams at a rate, bits a second: what is sent, or what the path's rate lets
/// through, less what is lost. `None` over loopback, as fast as it goes without a rate of the path,
/// where datagrams are larger than the MTU, and where the path duplicates or drops by size.
pub fn datagrams(setup: &Setup) -> Option<Predicted> {
    let down = setup.direction == Some(traffic::stream::Direction::Down);
    let way = if down { &setup.path.b_to_a } else { &setup.path.a_to_b };
    let packet = setup.datagram_bytes + ip_header_bytes(setup.ipv6 == Some(true)) + UDP_HEADER_BYTES;
    let changing = setup.schedule.is_some() || way.recorded.is_some();
    if setup.loopback || changing || packet > setup.path.mtu || way.duplicate > 0.0 || way.black_hole.is_some() {
        return None;
    }
    let sent = (setup.datagram_rate > 0).then_some(setup.datagram_rate as f64);
    let wire = f64::from(packet) + ETHERNET;
    let passed = way.rate.map(|rate| rate.bits() as f64 * f64::from(setup.datagram_bytes) / wire);
    let value = [sent, passed].into_iter().flatten().reduce(f64::min)? * (1.0 - way.loss.share());
    Some(Predicted { value, low: value * (1.0 - SLACK), high: value * (1.0 + SLACK) })
}

/// The share of datagrams that never come: what the path loses, and what it has no rate for. `None`
/// where [`datagrams`] says nothing.
pub fn datagrams_lost(setup: &Setup) -> Option<Predicted> {
    let through = datagrams(setup).filter(|_| setup.datagram_rate > 0)?.value / setup.datagram_rate as f64;
    let lost = (1.0 - through).max(0.0);
    // Chance moves a share of a few thousand datagrams by about as much as this.
    let reach = SLACK * lost + 0.005;
    Some(Predicted { value: lost, low: (lost - reach).max(0.0), high: lost + reach })
}

/// The median one-way delay of datagrams, nanoseconds, where the path has room for them: its delay,
/// and their time on the wire. `None` where [`datagrams`] says nothing, where the delay varies, and
/// where datagrams come at more than nine tenths of the path's rate: there a queue decides.
pub fn one_way(setup: &Setup) -> Option<Predicted> {
    datagrams(setup)?;
    let down = setup.direction == Some(traffic::stream::Direction::Down);
    let way = if down { &setup.path.b_to_a } else { &setup.path.a_to_b };
    let wire =
        f64::from(setup.datagram_bytes + ip_header_bytes(setup.ipv6 == Some(true)) + UDP_HEADER_BYTES) + ETHERNET;
    let asked = setup.datagram_rate as f64 * wire / f64::from(setup.datagram_bytes);
    let rate = way.rate?.bits() as f64;
    if setup.datagram_rate == 0 || asked > 0.9 * rate || way.jitter > Nanos::ZERO || way.reorder.is_some() {
        return None;
    }
    let seconds = way.delay.as_secs_f64() + wire * 8.0 / rate;
    let (low, high) = (seconds * (1.0 - SLACK), (seconds + HOSTS_S) * (1.0 + SLACK));
    (seconds > HOSTS_S).then_some(Predicted { value: seconds * 1e9, low: low * 1e9, high: high * 1e9 })
}

/// The shortest round trip of a stream, nanoseconds: the path's delay both ways, and a full segment
/// and its ACK on the wire. The handshake's is shorter by the segment. `None` over loopback,
/// without a rate, between real hosts, and where the delay varies or the hosts take longer.
pub fn shortest_round_trip(setup: &Setup) -> Option<Predicted> {
    let ways = [&setup.path.a_to_b, &setup.path.b_to_a];
    let steady = setup.schedule.is_none() && ways.iter().all(|way| way.jitter == Nanos::ZERO);
    let path_s = setup.round_trip_s().filter(|_| steady && !setup.loopback)?;
    let bits = 8.0 * (f64::from(setup.path.mtu) + ETHERNET);
    let wire_s = ways.iter().map(|way| Some(bits / way.rate?.bits() as f64)).sum::<Option<f64>>()?;
    (path_s > HOSTS_S).then_some(Predicted {
        value: path_s * 1e9,
        low: path_s * (1.0 - SLACK) * 1e9,
        high: (path_s + wire_s + HOSTS_S) * (1.0 + SLACK) * 1e9,
    })
}

/// How long a new connection that sends so many bytes has nothing that its window lets it send,
/// seconds: the window doubles each round trip from ten segments (RFC 6928), and what is in it
/// takes its time on the wire.
fn idle_in_slow_start_s(bytes: u32, mss: u32, rate: f64, round_trip_s: f64) -> f64 {
    let mut left = f64::from(bytes.div_ceil(mss.max(1)));
    let on_wire_s = (f64::from(mss) + ETHERNET) * 8.0 / rate;
    let (mut window, mut idle_s) = (10.0, 0.0);
    while left > window {
        idle_s += (round_trip_s - window * on_wire_s).max(0.0);
        left -= window;
        window *= 2.0;
    }
    idle_s
}

/// The goodput of one stream from a to b, bits a second: the least of framing, window (65,535 bytes
/// where scaling is off, the receive buffer's bound where the plan sets it) and loss. `None` where
/// nothing bounds it. Says nothing of short transfers, several flows, reordering, duplicates or
/// black holes.
pub fn goodput(setup: &Setup) -> Option<Predicted> {
    goodput_over(setup, setup.round_trip_s()?)
}

/// A window each round trip, under a rate. At least it is what comes where the window leaves as one
/// burst and is waited for: with the time that it takes on the wire, and the hosts' own.
fn window_under(window_bytes: f64, round_trip_s: f64, framing: Option<f64>) -> Predicted {
    let value = window(window_bytes, round_trip_s);
    let burst_s = framing.map_or(0.0, |rate| window_bytes * 8.0 / rate);
    let low = window(window_bytes, round_trip_s + burst_s + HOSTS_S) * (1.0 - SLACK);
    Predicted { value, low, high: value * (1.0 + SLACK) }
}

/// The same over a round trip that was measured: between real hosts.
pub fn goodput_over(setup: &Setup, round_trip_s: f64) -> Option<Predicted> {
    let off = |sysctl: Sysctl| Side::ALL.iter().any(|side| setup.sysctl(*side, &sysctl) == Some("0"));
    let disturbed =
        |d: &lab::Direction| d.reorder.is_some() || d.duplicate > 0.0 || d.black_hole.is_some() || d.recorded.is_some();
    if setup.loopback
        || setup.schedule.is_some()
        || setup.rival.is_some()
        || [&setup.path.a_to_b, &setup.path.b_to_a].into_iter().any(disturbed)
    {
        return None;
    }
    let header = if off(Sysctl::TIMESTAMPS) { 20 } else { 32 };
    let (v6, way) = (setup.ipv6 == Some(true), &setup.path.a_to_b);
    let mss = segment_bytes(setup.path.mtu, v6, header);
    let framing = way.rate.map(|rate| framing(rate.bits() as f64, setup.path.mtu, v6, header));
    let mut bounds: Vec<Predicted> = Vec::new();
    bounds.extend(framing.map(|value| Predicted { value, low: value * (1.0 - SLACK), high: value * 1.005 }));
    if off(Sysctl::WINDOW_SCALING) && round_trip_s > 0.0 {
        bounds.push(window_under(UNSCALED_WINDOW_BYTES, round_trip_s, framing));
    }
    // No window is larger than the buffer that it promises room in: the third number is the most it
    // grows to.
    let most =
        setup.sysctl(Side::B, &Sysctl::RECEIVE_BUFFERS).and_then(|v| v.split_whitespace().nth(2)?.parse::<f64>().ok());
    if let Some(bytes) = most.filter(|b| *b > 0.0 && round_trip_s > 0.0) {
        bounds.push(window_under(bytes, round_trip_s, framing));
    }
    let loss = way.loss.share();
    if loss > 0.0 && round_trip_s > 0.0 {
        let model = |value: f64| Predicted { value, low: value / LOSS_FACTOR, high: value * LOSS_FACTOR };
        match setup.options.congestion_control.as_deref() {
            Some("reno") => bounds.push(model(mathis(mss, round_trip_s, loss))),
            Some("cubic") => bounds.push(model(cubic(mss, round_trip_s, loss))),
            // BBR does not take loss for congestion below 2 %, and what the machine's default is is
            // not known here.
            _ => {}
        }
    }
    bounds.into_iter().reduce(|a, b| Predicted {
        value: a.value.min(b.value),
        low: a.low.min(b.low),
        high: a.high.min(b.high),
    })
}

/// What first principles say of a response, where they do: goodput under a rate, a window or loss;
/// exchanges and their time over a path; what becomes of datagrams; the shortest round trip.
pub fn of(response: Response, setup: &Setup) -> Option<Predicted> {
    match (response, setup.workload) {
        (Response::Goodput, Workload::Stream) => goodput(setup),
        (Response::Goodput, Workload::Udp) => datagrams(setup),
        (Response::DatagramsLost, Workload::Udp) => datagrams_lost(setup),
        (Response::OneWayP50, Workload::Udp) => one_way(setup),
        (Response::MinRoundTrip, Workload::Stream) => shortest_round_trip(setup),
        (Response::Transactions, Workload::Rr | Workload::Crr) => exchanges(setup),
        (Response::LatencyP50, Workload::Rr | Workload::Crr) => exchange_latency(setup),
        _ => None,
    }
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
        // 19.8 Mbit/s were measured at 25.4 ms; 784 at 0.388 ms is the rate's own bound, not the
        // window's.
        assert!((window(UNSCALED_WINDOW_BYTES, 0.025_392) / 1e6 - 20.65).abs() < 0.01);
        assert!(window(UNSCALED_WINDOW_BYTES, 0.000_388) > 1e9);
        assert!((delayed_ack_exchanges(0.001) - 24.39).abs() < 0.01);
    }

    #[test]
    fn the_receive_buffer_bounds_the_window() {
        let mut setup = Setup::default();
        for (name, value) in [("rate", "1gbit"), ("delay", "500ms"), ("net.ipv4.tcp_rmem", "4096 131072 67108864")] {
            setup.set(&name.parse().unwrap(), value).unwrap();
        }
        assert!((goodput(&setup).unwrap().value - 67_108_864.0 * 8.0).abs() < 1.0);
        setup.set(&"delay".parse().unwrap(), "10ms").unwrap();
        assert!((goodput(&setup).unwrap().value / 1e6 - 941.5).abs() < 0.1);
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
            setup.set(&name.parse().unwrap(), value).unwrap();
        }
        // 1 ms, and 94 and 1,538 bytes at 100 Mbit/s.
        let rate = |setup: &Setup| exchanges(setup).unwrap().value;
        let one = rate(&setup);
        assert!((one - 1.0 / 0.001_130_56).abs() < 0.1, "{one}");
        setup.set(&"response_writes".parse().unwrap(), "2").unwrap();
        let stalled = rate(&setup);
        assert!((stalled - 1.0 / 0.042_130_56).abs() < 0.01, "{stalled}");
        // The second of 1,447 and 1,448 bytes is a whole segment, which nothing holds.
        setup.set(&"response".parse().unwrap(), "2895").unwrap();
        assert!(rate(&setup) > 700.0);
        setup.set(&"response".parse().unwrap(), "2894").unwrap();
        assert!(rate(&setup) < 25.0);
        setup.set(&"socket".parse().unwrap(), "nodelay").unwrap();
        assert!(rate(&setup) > 700.0);
        setup.set(&"workload".parse().unwrap(), "crr").unwrap();
        assert!(rate(&setup) < 450.0);
        setup.set(&"over".parse().unwrap(), "loopback").unwrap();
        assert_eq!(exchanges(&setup), None);
    }

    /// What was measured in labs, and what was predicted once: each within the reach now.
    #[test]
    fn what_was_measured_is_within_the_reach() {
        let of = |settings: &[(&str, &str)]| {
            let mut setup = Setup::default();
            settings.iter().for_each(|(name, value)| setup.set(&name.parse().unwrap(), value).unwrap());
            setup
        };
        let path = [("rate", "100mbit"), ("delay", "500us"), ("request", "4"), ("socket", "default")];
        let reaches = |more: &[(&str, &str)], rate: f64| {
            let p = exchanges(&of(&[&path[..], more].concat())).unwrap();
            assert!(
                (p.low..=p.high).contains(&rate) && p.low <= p.value && p.value <= p.high,
                "{more:?}: {p:?}, {rate}"
            );
        };
        // The FIN takes the second write along: no delayed ACK.
        reaches(&[("workload", "crr"), ("response", "100"), ("response_writes", "2")], 387.0);
        // Both writes end in a small segment, of which the second waits for the ACK of the first,
        // which comes at once.
        reaches(&[("workload", "rr"), ("response", "2920"), ("response_writes", "2")], 408.0);
        reaches(&[("workload", "rr"), ("response", "4344"), ("response_writes", "2")], 400.0);
        // Two, five and eleven full segments leave while it waits.
        reaches(&[("workload", "rr"), ("response", "8192"), ("response_writes", "2")], 323.5);
        reaches(&[("workload", "rr"), ("response", "16384"), ("response_writes", "2")], 327.5);
        reaches(&[("workload", "rr"), ("response", "32000"), ("response_writes", "2")], 248.5);
        reaches(&[("workload", "rr"), ("response", "100"), ("response_writes", "2")], 23.5);
        // Ten segments take longer on this wire than the path: slow start leaves no gap.
        reaches(&[("workload", "crr"), ("response", "65536")], 123.3);
        // Hosts decide at zero delay.
        let near = of(&[("workload", "rr"), ("rate", "1gbit"), ("delay", "0")]);
        assert_eq!(exchanges(&near), None);
        // 65,535 bytes leave as one burst, and at 0.38 ms that burst takes longer on the wire than
        // the path.
        let short = of(&[("rate", "1gbit"), ("delay", "190us"), ("a.net.ipv4.tcp_window_scaling", "0")]);
        let p = goodput(&short).unwrap();
        assert!((p.low..=p.high).contains(&650e6) && (p.low..=p.high).contains(&784e6), "{p:?}");
        let far =
            goodput(&of(&[("rate", "1gbit"), ("delay", "12.7ms"), ("a.net.ipv4.tcp_window_scaling", "0")])).unwrap();
        assert!(far.high - far.low < 0.15 * far.value && (far.low..=far.high).contains(&19.8e6), "{far:?}");
    }

    #[test]
    fn datagrams_are_bounded_by_their_rate_and_by_the_path() {
        let of = |settings: &[(&str, &str)]| {
            let mut setup = Setup::default();
            let udp = [("workload", "udp"), ("rate", "10mbit"), ("datagram", "1200")];
            udp.iter().chain(settings).for_each(|(name, value)| setup.set(&name.parse().unwrap(), value).unwrap());
            datagrams(&setup).map(|p| p.value)
        };
        assert_eq!(of(&[("datagram_rate", "5M")]), Some(5e6));
        // 1,200 of 1,200 + 8 + 20 + 38 bytes on the wire.
        assert!((of(&[("datagram_rate", "20M")]).unwrap() - 1e7 * 1_200.0 / 1_266.0).abs() < 1.0);
        assert!((of(&[("datagram_rate", "5M"), ("loss", "2%")]).unwrap() - 4.9e6).abs() < 1.0);
        assert_eq!(of(&[("datagram_rate", "5M"), ("datagram", "9000")]), None);
        assert_eq!(of(&[("datagram_rate", "5M"), ("over", "loopback")]), None);
    }

    #[test]
    fn times_follow_from_the_path_and_lost_datagrams_from_its_rate() {
        let said = |response: Response, settings: &[(&str, &str)]| {
            let mut setup = Setup::default();
            let path = [("rate", "10mbit"), ("delay", "5ms")];
            path.iter().chain(settings).for_each(|(name, value)| setup.set(&name.parse().unwrap(), value).unwrap());
            of(response, &setup).unwrap()
        };
        // 10 ms, and 190 and 190 bytes at 10 Mbit/s.
        let rr = [("workload", "rr"), ("request", "100"), ("response", "100")];
        let latency = said(Response::LatencyP50, &rr);
        assert!((latency.value / 1e6 - 10.304).abs() < 0.001, "{latency:?}");
        assert!((latency.value / 1e9 * said(Response::Transactions, &rr).value - 1.0).abs() < 1e-9);
        assert!(latency.low < 10e6 && (10.4e6..11.1e6).contains(&latency.high), "{latency:?}");
        // A pause between exchanges makes them fewer, and none of them longer.
        let paused = [&rr[..], &[("think", "100ms")]].concat();
        assert_eq!(said(Response::LatencyP50, &paused), latency);
        assert!(said(Response::Transactions, &paused).value < 10.0);
        // A connection each takes a round trip more.
        let crr = [&rr[..], &[("workload", "crr")]].concat();
        assert!((said(Response::LatencyP50, &crr).value / 1e6 - 20.304).abs() < 0.001);

        let udp = [("workload", "udp"), ("datagram", "1200")];
        let at = |rate, more: &[(&'static str, &'static str)]| [&udp[..], &[("datagram_rate", rate)], more].concat();
        // 1,266 bytes on the wire.
        assert!((said(Response::OneWayP50, &at("2M", &[])).value / 1e6 - 6.0128).abs() < 0.001);
        assert_eq!(said(Response::DatagramsLost, &at("2M", &[])).value, 0.0);
        assert!((said(Response::DatagramsLost, &at("2M", &[("loss", "2%")])).value - 0.02).abs() < 1e-9);
        let over = said(Response::DatagramsLost, &at("20M", &[])).value;
        assert!((over - (1.0 - 1_200.0 / 1_266.0 / 2.0)).abs() < 1e-9, "{over}");
        let least = said(Response::MinRoundTrip, &[]);
        assert!(least.value == 10e6 && (12e6..13.3e6).contains(&least.high), "{least:?}");
    }

    #[test]
    fn nagles_algorithm_holds_a_small_end_behind_a_small_one() {
        for (bytes, writes, expected) in [
            (100, 1, Held::No),
            (100, 2, Held::DelayedAck),
            (2_894, 2, Held::DelayedAck),
            (2_895, 2, Held::No),
            (2_896, 2, Held::No),
            (2_920, 2, Held::RoundTrip(0)),
            (4_344, 2, Held::RoundTrip(0)),
            (16_384, 2, Held::RoundTrip(5_792)),
            (100, 4, Held::DelayedAck),
        ] {
            assert_eq!(held(bytes, writes, 1_448), expected, "{bytes} in {writes}");
        }
    }

    #[test]
    fn loss_formulas() {
        // RFC 9438, table 1: RTT 0.1 s, p = 1e-4: CUBIC's mean window is 187 segments (HSTCP 263,
        // Reno 120 by 1.2/√p).
        let segments = |rate: f64| rate * 0.1 / 8.0 / 1_448.0;
        assert!(
            (segments(cubic(1_448, 0.1, 1e-4)) / 187.0 - 1.0).abs() < 0.01,
            "{}",
            segments(cubic(1_448, 0.1, 1e-4))
        );
        assert!((segments(mathis(1_448, 0.1, 1e-4)) - 122.5).abs() < 0.1);
        assert!(cubic(1_448, 0.001, 1e-4) == mathis(1_448, 0.001, 1e-4));
    }
}
