//! The workload of a trial, and what of its outcome are the trial's responses and series.

use record::trial::Response;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::{ControlFlow, Range};

use record::Nanos;
use traffic::stream::Direction;
use traffic::{Target, load, rr, stream, udp};

use crate::Error;
use crate::evidence::Evidence;
use crate::ground::Ends;
use crate::outcome::{Ping, Point};
use crate::plan::Plan;
use crate::setting::{Setup, Workload};

/// Width of every series.
pub(crate) const TENTH: Nanos = Nanos::from_millis(100);

/// What a workload gave.
#[derive(Debug, Default)]
pub(crate) struct Measured {
    pub responses: BTreeMap<Response, f64>,
    pub series: Vec<Point>,
    pub pings: Vec<Ping>,
    pub congestion: Option<String>,
    /// When the axis of the series begins, since the epoch of `CLOCK_REALTIME`.
    pub began_realtime: Nanos,
    pub broken: Vec<String>,
}

impl Measured {
    /// Takes the receive windows from the packets. TCP_INFO's is the window before the kernel cuts
    /// it to what the field can hold: without window scaling it is above 65,535 bytes.
    pub fn windows_of(&mut self, evidence: &Evidence) {
        if let Some(most) = evidence.windows.iter().map(|(_, window)| *window).max().filter(|_| !self.series.is_empty())
        {
            self.responses.insert(Response::ReceiveWindow, most as f64);
        }
        for point in &mut self.series {
            let end = self.began_realtime + point.at_ns;
            point.receive_window_bytes = evidence.window_between(end.saturating_sub(TENTH), end);
        }
    }
}

/// Runs it; `None` where `go_on` ended it.
pub(crate) fn run(
    ends: &Ends,
    setup: &Setup,
    plan: &Plan,
    go_on: &(dyn Fn() -> bool + Sync),
) -> Result<Option<Measured>, Error> {
    let progress = |_: traffic::Progress<'_>| if go_on() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) };
    let target = target(ends, setup);
    let measured = match setup.workload {
        Workload::Stream => {
            let (own, rival) = streams(ends, setup, plan, &progress)?;
            gone([Some(&own), rival.as_ref()].into_iter().flatten().find_map(|o| o.interrupted.as_ref()), go_on)?;
            of_stream(&own, rival.as_ref(), setup)
        }
        Workload::PingUnderLoad => {
            let config = load_config(target, setup, plan);
            let outcome = ends.run(|| load::run(&config, &mut { progress }))??;
            gone(outcome.interrupted.as_ref(), go_on)?;
            of_load(&outcome, setup, &config)
        }
        Workload::Rr | Workload::Crr => {
            let config = rr_config(target, setup, plan);
            let outcome = ends.run(|| rr::run(&config, &mut { progress }))??;
            gone(outcome.interrupted.as_ref(), go_on)?;
            of_exchanges(&outcome)
        }
        Workload::Udp => {
            let config = udp_config(target, setup, plan);
            let outcome = ends.run(|| udp::run(&config, &mut { progress }))??;
            gone(outcome.interrupted.as_ref(), go_on)?;
            of_datagrams(&outcome)
        }
    };
    Ok(go_on().then_some(measured))
}

/// The stream of the trial, and at the same time that of a rival congestion control where the plan
/// has one.
fn streams(
    ends: &Ends,
    setup: &Setup,
    plan: &Plan,
    progress: &(dyn Fn(traffic::Progress<'_>) -> ControlFlow<()> + Sync),
) -> Result<(stream::Outcome, Option<stream::Outcome>), Error> {
    let own = stream_config(ends, setup, plan, setup.options.congestion_control.clone());
    let rival = setup.rival.clone().map(|name| stream_config(ends, setup, plan, Some(name)));
    let stream = |config: &stream::Config| stream::run(config, &mut |at| progress(at));
    let side_by_side = || {
        std::thread::scope(|scope| {
            let rival =
                rival.as_ref().map(|rival| std::thread::Builder::new().spawn_scoped(scope, move || stream(rival)));
            let rival = rival.transpose()?;
            let own = stream(&own);
            Ok::<_, io::Error>((own, rival.map(|thread| thread.join())))
        })
    };
    let (own, rival) = ends
        .run(side_by_side)?
        .map_err(|source| Error::System { step: "start a thread for the rival stream", source })?;
    let rival = rival.map(|outcome| outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
    let rival = rival.transpose()?;
    Ok((own?, rival))
}

/// A workload that ended early, and not on request, has lost its server: the study can go no
/// further.
fn gone(interrupted: Option<&String>, go_on: &(dyn Fn() -> bool + Sync)) -> Result<(), Error> {
    match interrupted {
        Some(why) if go_on() => Err(Error::Gone(why.clone())),
        _ => Ok(()),
    }
}

fn target(ends: &Ends, setup: &Setup) -> Target {
    let (server, token, options) = (ends.server, ends.token.clone(), setup.options.clone());
    Target { token, tls: ends.tls.clone(), options, ..Target::new(server) }
}

fn stream_config(ends: &Ends, setup: &Setup, plan: &Plan, congestion: Option<String>) -> stream::Config {
    let mut target = target(ends, setup);
    target.options.congestion_control = congestion;
    stream::Config {
        direction: setup.direction.unwrap_or(Direction::Up),
        flows: setup.flows,
        duration: plan.duration,
        warm_up_s: plan.warm_up.0.div_ceil(1_000_000_000),
        write_bytes: setup.write_bytes,
        interval: TENTH,
        ..stream::Config::new(target)
    }
}

fn load_config(target: Target, setup: &Setup, plan: &Plan) -> load::Config {
    load::Config {
        direction: setup.direction.unwrap_or(Direction::Both),
        flows: setup.flows,
        before: plan.warm_up,
        load: plan.duration,
        after: plan.warm_up,
        probe_interval: TENTH,
        interval: TENTH,
        ..load::Config::new(target)
    }
}

fn rr_config(target: Target, setup: &Setup, plan: &Plan) -> rr::Config {
    rr::Config {
        connect_each: setup.workload == Workload::Crr,
        exchange: setup.exchange,
        duration: plan.duration,
        warm_up: plan.warm_up,
        ..rr::Config::new(target)
    }
}

fn udp_config(target: Target, setup: &Setup, plan: &Plan) -> udp::Config {
    let down = setup.direction == Some(Direction::Down);
    udp::Config {
        direction: if down { udp::Direction::Down } else { udp::Direction::Up },
        datagram_bytes: setup.datagram_bytes,
        bits_per_second: setup.datagram_rate,
        duration: plan.duration,
        interval: TENTH,
        ..udp::Config::new(target)
    }
}

/// Jain's index (1984): 1 where all have the same, 1/n where one has all.
fn fairness(shares: &[f64]) -> Option<f64> {
    let (sum, squares) = shares.iter().fold((0.0, 0.0), |(s, q), x| (s + x, q + x * x));
    (squares > 0.0).then(|| sum * sum / (shares.len() as f64 * squares))
}

fn goodput_of(outcome: &stream::Outcome) -> Option<f64> {
    outcome.up.or(outcome.down)?.goodput_bits_per_second
}

fn of_stream(own: &stream::Outcome, rival: Option<&stream::Outcome>, setup: &Setup) -> Measured {
    let mut m = Measured { congestion: own.congestion_control.clone(), ..Measured::default() };
    let mut put = |response: Response, value: Option<f64>| {
        if let Some(value) = value.filter(|v| v.is_finite()) {
            m.responses.insert(response, value);
        }
    };
    let goodput = goodput_of(own);
    put(Response::Goodput, goodput);
    if own.up.is_some() {
        put(Response::GoodputDown, own.down.and_then(|t| t.goodput_bits_per_second));
    }
    put(Response::Retransmitted, own.up.or(own.down).and_then(|t| t.retransmitted_segments).map(|n| n as f64));
    // The sender's view, whichever end sends.
    let sent = || own.series.iter().chain(&own.server_series).filter(|s| !s.warm_up && s.sends);
    let samples = || sent().filter_map(|s| s.tcp);
    let middle = |values: Vec<f64>| stats::median(&values);
    let srtt = middle(samples().map(|t| t.srtt.0 as f64).collect());
    let least = samples().map(|t| t.min_rtt).filter(|rtt| *rtt > Nanos::ZERO).min().map(|rtt| rtt.0 as f64);
    put(Response::RoundTrip, srtt);
    put(Response::MinRoundTrip, least);
    // Between real hosts the empty path is known only by its minimum RTT.
    let empty = setup.round_trip_s().map(|s| s * 1e9).or(least);
    put(Response::Queueing, srtt.zip(empty).map(|(s, e)| (s - e).max(0.0)));
    put(Response::RttDeviation, middle(samples().map(|t| t.rttvar.0 as f64).collect()));
    let received = || own.series.iter().chain(&own.server_series).filter(|s| !s.sends);
    let most = |values: &mut dyn Iterator<Item = u32>| values.max().map(f64::from);
    put(Response::ReceiveSpace, most(&mut received().filter_map(|s| s.tcp).map(|t| t.rcv_space_bytes)));
    put(Response::ReceiveBuffer, most(&mut received().filter_map(|s| s.memory).map(|m| m.receive_buffer_bytes)));
    put(Response::ReceiveUsed, most(&mut received().filter_map(|s| s.memory).map(|m| m.receive_used_bytes)));
    put(Response::SendBuffer, most(&mut sent().filter_map(|s| s.memory).map(|m| m.send_buffer_bytes)));
    put(Response::CpuPerGigabyte, own.cpu_seconds_per_gigabyte);
    if own.flows.len() > 1 && own.up.is_none_or(|_| own.down.is_none()) {
        let each: Vec<f64> = own.flows.iter().filter_map(|f| f.received_bytes).map(|b| b as f64).collect();
        put(Response::Fairness, fairness(&each));
    }
    if let (Some(mine), Some(theirs)) = (goodput, rival.and_then(goodput_of)) {
        put(Response::RivalShare, Some(theirs / (mine + theirs)));
        put(Response::Fairness, fairness(&[mine, theirs]));
    }
    for outcome in [Some(own), rival].into_iter().flatten() {
        m.broken.extend(outcome.flows.iter().filter_map(|f| f.error.clone()));
    }
    m.series = series(own, Nanos::ZERO);
    m.began_realtime = Nanos(own.started_realtime.as_nanos());
    if !m.responses.contains_key(&Response::Goodput) {
        m.broken.push("the server never said what it received".into());
    }
    m
}

fn of_load(outcome: &load::Outcome, setup: &Setup, config: &load::Config) -> Measured {
    let mut m = outcome.stream.as_ref().map(|s| of_stream(s, None, setup)).unwrap_or_default();
    if let Some(streams) = &outcome.stream {
        m.series = series(streams, outcome.load_started);
        m.began_realtime = Nanos(outcome.started_realtime.as_nanos());
        // As the probes': slow start both ways at once, and who wins it, is not what a setting is
        // worth.
        let from = outcome.loaded_from(config);
        let (up, down) = (settled(&streams.server_series, from), settled(&streams.series, from));
        let both = streams.up.is_some() && streams.down.is_some();
        for (name, rate) in
            [(Response::Goodput, if streams.up.is_some() { up } else { down }), (Response::GoodputDown, down)]
        {
            if let Some(rate) = rate.filter(|_| both || name == Response::Goodput) {
                m.responses.insert(name, rate);
            }
        }
    }
    for probed in &outcome.probes {
        // ICMP may be closed to this user; the request over TCP is what a program would see.
        match &probed.error {
            Some(why) if probed.probe == load::ProbeKind::Tcp => {
                m.broken.push(format!("the probe over TCP failed: {why}"));
            }
            _ => {}
        }
        if probed.probe == load::ProbeKind::Tcp && probed.loaded.round_trip.n > 0 {
            let s = &probed.loaded.round_trip;
            m.responses.insert(Response::LatencyP50, s.p50.0 as f64);
            m.responses.insert(Response::LatencyP99, s.p99.0 as f64);
        }
        m.pings.extend(probed.rounds.iter().map(|r| Ping {
            probe: probed.probe.name().into(),
            at_ns: r.at,
            round_trip_ns: r.round_trip,
        }));
    }
    m
}

/// What all flows received at one end a second, from `from` on; `None` where nothing was sampled
/// there.
fn settled(samples: &[stream::Sample], from: Nanos) -> Option<f64> {
    let mut bits = 0.0;
    let (mut start, mut end) = (Nanos(u64::MAX), Nanos::ZERO);
    for s in samples.iter().filter(|s| !s.sends && s.start >= from) {
        bits += s.bytes as f64 * 8.0;
        (start, end) = (start.min(s.start), end.max(s.end));
    }
    (end > start).then(|| bits / end.saturating_sub(start).as_secs_f64())
}

/// Samples of flows that are sampled together, in the order of time.
struct Samples<'s> {
    all: Vec<&'s stream::Sample>,
    flows: usize,
}

impl<'s> Samples<'s> {
    fn new(samples: impl Iterator<Item = &'s stream::Sample>) -> Self {
        let mut all: Vec<_> = samples.collect();
        all.sort_by_key(|s| s.end.0);
        let flows = all.iter().map(|s| s.flow).collect::<BTreeSet<_>>().len();
        Self { all, flows }
    }

    fn end(&self) -> Nanos {
        self.all.last().map_or(Nanos::ZERO, |s| s.end)
    }

    /// What the flows carried in a stretch of time, a second: bytes are spread evenly over the
    /// samples they are in, which are as long as timers made them. `None` where less than 60 % of
    /// the stretch was sampled.
    fn carried(&self, stretch: &Range<u64>) -> Option<f64> {
        let first = self.all.partition_point(|s| s.end.0 <= stretch.start);
        let (mut bits, mut covered) = (0.0, 0.0);
        for s in self.all[first..].iter().take_while(|s| s.start.0 < stretch.end) {
            let shared = s.end.0.min(stretch.end).saturating_sub(s.start.0.max(stretch.start));
            if shared > 0 {
                bits += s.bytes as f64 * 8.0 * shared as f64 / (s.end.0 - s.start.0) as f64;
                covered += shared as f64 / self.flows as f64;
            }
        }
        (covered >= 0.6 * (stretch.end - stretch.start) as f64).then(|| bits * 1e9 / covered)
    }

    /// The samples, one of each flow, that show the state at that moment.
    fn at(&self, moment_ns: u64) -> &[&'s stream::Sample] {
        let begun = &self.all[..self.all.partition_point(|s| s.start.0 < moment_ns)];
        let last = begun.last().map_or(0, |s| s.end.0);
        &begun[begun.partition_point(|s| s.end.0 < last)..]
    }
}

/// What all flows received in each tenth of a second from `from` on, with the senders' view of the
/// connection.
fn series(outcome: &stream::Outcome, from: Nanos) -> Vec<Point> {
    let both = outcome.up.is_some() && outcome.down.is_some();
    let at_client = |sends| outcome.series.iter().filter(move |s| s.sends == sends);
    let at_server = |sends| outcome.server_series.iter().filter(move |s| s.sends == sends);
    let (up, down) = (Samples::new(at_server(false)), Samples::new(at_client(false)));
    // With data both ways, the client's sending side alone.
    let sent = Samples::new(at_client(true).chain(at_server(true).filter(|_| !both)));
    // The receiver; its window and memory are reported.
    let receiver = if up.all.is_empty() { &down } else { &up };
    let end = up.end().max(down.end());
    let tenths = (0..end.0).step_by(TENTH.0 as usize).map(|start| start..start + TENTH.0);
    tenths
        .filter_map(|tenth| {
            let mut point = Point {
                at_ns: from + Nanos(tenth.end),
                bits_per_second: receiver.carried(&tenth)?,
                down_bits_per_second: if both { down.carried(&tenth).unwrap_or(0.0) } else { 0.0 },
                srtt_ns: Nanos::ZERO,
                cwnd_bytes: 0,
                receive_window_bytes: None,
                receive_used_bytes: 0,
                receive_buffer_bytes: 0,
                warm_up: receiver.at(tenth.end).iter().any(|s| s.warm_up),
            };
            for s in receiver.at(tenth.end) {
                if let Some(memory) = s.memory {
                    point.receive_used_bytes = point.receive_used_bytes.max(memory.receive_used_bytes.into());
                    point.receive_buffer_bytes = point.receive_buffer_bytes.max(memory.receive_buffer_bytes.into());
                }
            }
            for tcp in sent.at(tenth.end).iter().filter_map(|s| s.tcp) {
                point.srtt_ns = tcp.srtt;
                point.cwnd_bytes = point.cwnd_bytes.max(tcp.snd_cwnd_bytes());
            }
            Some(point)
        })
        .collect()
}

fn of_exchanges(outcome: &rr::Outcome) -> Measured {
    let mut m = Measured { congestion: outcome.congestion_control.clone(), ..Measured::default() };
    let mut put = |response: Response, value: f64| m.responses.insert(response, value);
    put(Response::Transactions, outcome.transactions_per_second);
    put(Response::LatencyP50, outcome.latency.p50.0 as f64);
    put(Response::LatencyP99, outcome.latency.p99.0 as f64);
    if outcome.transactions == 0 {
        m.broken.push("no exchange was finished in the time given".into());
    }
    if outcome.failed > 0 {
        m.broken.push(format!("{} connections failed", outcome.failed));
    }
    m
}

fn of_datagrams(outcome: &udp::Outcome) -> Measured {
    let mut m = Measured { began_realtime: Nanos(outcome.started_realtime.as_nanos()), ..Measured::default() };
    let mut put = |response: Response, value: f64| m.responses.insert(response, value);
    put(Response::Goodput, outcome.goodput_bits_per_second);
    if outcome.sent > 0 {
        put(Response::DatagramsLost, outcome.datagrams.lost as f64 / outcome.sent as f64);
    }
    if let Some(delay) = &outcome.one_way_delay {
        put(Response::OneWayP50, delay.p50.0 as f64);
        put(Response::OneWayP99, delay.p99.0 as f64);
    }
    // The first interval begins with the receiver's first datagram, as its series does.
    let intervals = outcome.series.iter().filter(|i| i.end.0 > i.start.0 + TENTH.0 / 2);
    m.series = intervals
        .map(|i| Point {
            at_ns: i.end,
            bits_per_second: i.bytes as f64 * 8e9 / (i.end.0 - i.start.0) as f64,
            ..Point::default()
        })
        .collect();
    if outcome.datagrams.received == 0 {
        m.broken.push("no datagram came".into());
    }
    if outcome.not_sent > 0 {
        m.broken.push(format!("the sender's kernel did not take {} datagrams", outcome.not_sent));
    }
    m
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jain() {
        assert_eq!(fairness(&[1.0, 1.0]), Some(1.0));
        assert_eq!(fairness(&[1.0, 0.0]), Some(0.5));
        assert_eq!(fairness(&[0.0]), None);
    }

    fn sample(flow: i64, start_ns: u64, end_ns: u64, bytes: u64) -> stream::Sample {
        stream::Sample {
            flow,
            sends: false,
            start: Nanos(start_ns),
            end: Nanos(end_ns),
            warm_up: false,
            bytes,
            bits_per_second: f64::NAN,
            acknowledged_bytes: None,
            retransmitted_segments: 0,
            datagrams: 0,
            tcp: None,
            memory: None,
        }
    }

    /// Timers are late: in tenths of a second, some hold the ends of two samples and some of none.
    #[test]
    fn late_samples_make_no_rate_that_was_not_there() {
        const MS: u64 = 1_000_000;
        // Two flows of 1 kB a millisecond each, in samples of 104 ms.
        let ends: Vec<u64> = (0..=29).map(|i| i * 104 * MS).chain([3_021 * MS]).collect();
        let of = |flow| ends.windows(2).map(move |w| sample(flow, w[0], w[1], (w[1] - w[0]) / MS * 1_000));
        let samples: Vec<stream::Sample> = of(1).chain(of(2)).collect();
        let samples = Samples::new(samples.iter());
        for tenth in 0..30 {
            let rate = samples.carried(&(tenth * TENTH.0..(tenth + 1) * TENTH.0)).unwrap();
            assert!((rate - 16e6).abs() < 1.0, "{rate} in tenth {tenth}");
        }
        assert_eq!(samples.carried(&(3_000 * MS..3_100 * MS)), None, "the last fifth of a tenth gives no rate");
        let later = samples.at(200 * MS).iter();
        assert!(later.map(|s| (s.start.0 / MS, s.end.0 / MS)).eq([(104, 208); 2]));
    }
}
