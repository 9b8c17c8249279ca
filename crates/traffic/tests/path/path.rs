//! Every workload over a path whose delay and rate are known: what it says is held against them.

use std::net::{IpAddr, SocketAddr};
use std::ops::ControlFlow;

use lab::{BitRate, Config, Direction, Lab, Side};
use record::Nanos;
use traffic::{Progress, Server, ServerConfig, Target, load, rr, stream, udp};

const DELAY_NS: u64 = 5_000_000;

fn go_on(_: Progress<'_>) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// 5 ms each way at a rate, with a server in host b.
fn hosts(mbit: u32, ipv6: bool) -> (Lab, Server, Target) {
    let way = Direction { rate: Some(BitRate::mbit(mbit)), delay: Nanos(DELAY_NS), ..Direction::default() };
    let lab = Lab::up(&Config { a_to_b: way.clone(), b_to_a: way, ..Config::default() }).unwrap();
    let ip = if ipv6 { IpAddr::V6(Side::B.ipv6()) } else { IpAddr::V4(Side::B.ipv4()) };
    let server = lab.host(Side::B).run(|| Server::start(ServerConfig::new(SocketAddr::new(ip, 0)))).unwrap().unwrap();
    let target = Target::new(server.local_addr());
    (lab, server, target)
}

#[test]
fn bulk_transfer_carries_what_the_wire_can_and_no_more() {
    tier::needs!(tier::Need::Root, tier::Need::Path("/dev/net/tun"));
    for (mbit, ipv6, direction) in [
        (1_000, false, stream::Direction::Up),
        (1_000, true, stream::Direction::Down),
        (100, false, stream::Direction::Both),
    ] {
        let (lab, server, mut target) = hosts(mbit, ipv6);
        target.options.congestion_control = Some("reno".into());
        let config = stream::Config {
            direction,
            duration: Nanos::from_millis(1_500),
            warm_up_s: 1,
            interval: Nanos::from_millis(100),
            ..stream::Config::new(target)
        };
        let outcome = lab.host(Side::A).run(|| stream::run(&config, &mut go_on)).unwrap().unwrap();
        server.stop();
        assert_eq!(outcome.interrupted, None);
        // Payload of full segments with timestamps over what Ethernet charges for each.
        let wire = f64::from(mbit) * 1e6 * (1_500.0 - if ipv6 { 72.0 } else { 52.0 }) / 1_538.0;
        for total in [outcome.up, outcome.down].into_iter().flatten() {
            let goodput = total.goodput_bits_per_second.unwrap();
            // What is in the queue and in buffers at the end of the warm-up, and of the test, is
            // the error either way.
            assert!(goodput < 1.1 * wire && goodput > 0.3 * wire, "{goodput} of {wire}, {direction:?}");
        }
        assert_eq!(outcome.congestion_control.as_deref(), Some("reno"));
        assert_eq!(outcome.server_congestion_control.as_deref(), Some("reno"));
        for sample in outcome.series.iter().chain(&outcome.server_series).filter(|s| s.end > Nanos::from_millis(500)) {
            let (tcp, memory) = (sample.tcp.unwrap(), sample.memory.unwrap());
            assert!(!sample.sends || tcp.min_rtt.0 >= 2 * DELAY_NS, "{sample:?}");
            assert!(memory.receive_buffer_bytes > 0 && memory.send_buffer_bytes > 0, "{sample:?}");
        }
    }
}

#[test]
fn exchanges_and_datagrams_take_as_long_as_the_path() {
    tier::needs!(tier::Need::Root, tier::Need::Path("/dev/net/tun"));
    let (lab, server, target) = hosts(100, false);
    let a = lab.host(Side::A);
    for (connect_each, round_trips) in [(false, 1), (true, 2)] {
        let mut config =
            rr::Config { connect_each, duration: Nanos::from_millis(500), ..rr::Config::new(target.clone()) };
        config.target.options.nodelay = Some(true);
        config.target.options.dscp = Some(46);
        let outcome = a.run(|| rr::run(&config, &mut go_on)).unwrap().unwrap();
        let least = round_trips * 2 * DELAY_NS;
        assert!(outcome.transactions > 3 && outcome.latency.min.0 >= least, "{:?}", outcome.latency);
        assert!(outcome.transactions_per_second <= 1e9 / least as f64 * 1.01, "{}", outcome.transactions_per_second);
    }
    for direction in [udp::Direction::Up, udp::Direction::Down] {
        let config = udp::Config { direction, duration: Nanos::from_millis(500), ..udp::Config::new(target.clone()) };
        let outcome = a.run(|| udp::run(&config, &mut go_on)).unwrap().unwrap();
        assert_eq!((outcome.datagrams.lost, outcome.datagrams.received), (0, outcome.sent), "{:?}", outcome.datagrams);
        let delay = outcome.one_way_delay.expect("both ends have one clock");
        assert!(delay.min.0 >= DELAY_NS && delay.p50.0 < 20 * DELAY_NS, "{delay:?}");
    }
    server.stop();
}

#[test]
fn a_load_fills_the_queue_and_the_probes_see_it() {
    tier::needs!(tier::Need::Root, tier::Need::Path("/dev/net/tun"));
    let (lab, server, target) = hosts(20, false);
    let config = load::Config {
        before: Nanos::from_millis(500),
        load: Nanos::from_secs(3),
        after: Nanos::from_millis(500),
        flows: 1,
        probe_interval: Nanos::from_millis(20),
        ..load::Config::new(target)
    };
    let outcome = lab.host(Side::A).run(|| load::run(&config, &mut go_on)).unwrap().unwrap();
    server.stop();
    for probed in &outcome.probes {
        assert_eq!(probed.error, None, "{}", probed.probe);
        assert!(probed.before.round_trip.min.0 >= 2 * DELAY_NS, "{:?}", probed.before);
        // The lab's queue holds far more than a round trip: the load's own segments stand before
        // the probe's.
        assert!(probed.loaded.round_trip.p50.0 > probed.before.round_trip.p50.0 + DELAY_NS, "{probed:?}");
    }
}

/// The load is as long as it was asked to be; what stands in buffers and queues then drains in a
/// phase of its own.
#[test]
fn what_drains_after_a_load_is_no_part_of_it() {
    tier::needs!(tier::Need::Root, tier::Need::Path("/dev/net/tun"));
    let queue = Nanos::from_millis(300);
    let way = Direction {
        rate: Some(BitRate::new(512_000).unwrap()),
        delay: Nanos(DELAY_NS),
        queue: Some(lab::Depth::Time(queue)),
        ..Direction::default()
    };
    let lab = Lab::up(&Config { a_to_b: way.clone(), b_to_a: way, ..Config::default() }).unwrap();
    let address = SocketAddr::new(Side::B.ipv4().into(), 0);
    let server = lab.host(Side::B).run(|| Server::start(ServerConfig::new(address))).unwrap().unwrap();
    let config = load::Config {
        direction: stream::Direction::Up,
        before: Nanos::from_millis(500),
        load: Nanos::from_secs(4),
        after: Nanos::from_secs(1),
        ..load::Config::new(server.local_addr())
    };
    let outcome = lab.host(Side::A).run(|| load::run(&config, &mut go_on)).unwrap().unwrap();
    server.stop();
    let stream = outcome.stream.as_ref().unwrap();
    assert_eq!(outcome.load_ended.saturating_sub(outcome.load_started), stream.elapsed);
    // The word that it is over waits behind a full queue.
    let drained = outcome.drained.saturating_sub(outcome.load_ended);
    assert!(drained > Nanos(queue.0 / 2), "{drained}");
    assert!(outcome.filled.is_some_and(|at| at > outcome.load_started && at < outcome.load_ended), "{outcome:?}");
    for probed in &outcome.probes {
        let within = probed
            .rounds
            .iter()
            .filter(|r| (outcome.load_started + outcome.loaded_from(&config)..outcome.load_ended).contains(&r.at));
        assert_eq!(probed.loaded.sent, within.count() as u64, "{}", probed.probe);
        let after = probed.rounds.iter().filter(|r| r.at >= outcome.drained).count() as u64;
        assert!(probed.after.sent > 0 && probed.after.sent < after, "{}", probed.probe);
    }
}

/// What a path did to datagrams is said in both directions by the end that received them.
#[test]
fn a_stream_of_datagrams_counts_what_the_path_did_in_both_directions() {
    tier::needs!(tier::Need::Root, tier::Need::Path("/dev/net/tun"));
    let way = Direction {
        delay: Nanos(DELAY_NS),
        reorder: Some(lab::Reorder { share: 0.05, by: Nanos::from_millis(3) }),
        duplicate: 0.02,
        ..Direction::default()
    };
    let lab = Lab::up(&Config { a_to_b: way.clone(), b_to_a: way, ..Config::default() }).unwrap();
    let address = SocketAddr::new(Side::B.ipv4().into(), 0);
    let server = lab.host(Side::B).run(|| Server::start(ServerConfig::new(address))).unwrap().unwrap();
    let config = stream::Config {
        direction: stream::Direction::Both,
        udp: true,
        write_bytes: 1_200,
        pace_bits_per_second: Some(10_000_000),
        duration: Nanos::from_secs(1),
        ..stream::Config::new(server.local_addr())
    };
    let outcome = lab.host(Side::A).run(|| stream::run(&config, &mut go_on)).unwrap().unwrap();
    server.stop();
    let report = lab.path().report();
    for (flow, way) in outcome.flows.iter().zip([&report.a_to_b, &report.b_to_a]) {
        let (seen, path) = (flow.datagrams.unwrap(), way.achieved.as_ref().unwrap());
        // The path also carries the control connection.
        let (reordered, duplicated) = (seen.reordered.unwrap(), seen.duplicated.unwrap());
        assert!(reordered > 0 && duplicated > 0, "{seen:?}");
        assert!(duplicated <= path.duplicated && duplicated + 5 >= path.duplicated, "{seen:?} {path:?}");
        assert!(reordered.abs_diff(path.reordered) * 5 < path.reordered, "{seen:?} {path:?}");
    }
}

/// What a quarter of the round trips do not exceed: the programs that answer wait for a processor
/// of a busy machine, the kernel that answers `ping` does not.
fn quarter(mut round_trips: Vec<u64>) -> u64 {
    round_trips.sort_unstable();
    round_trips[round_trips.len() / 4]
}

/// What `ping` says of every echo, in nanoseconds.
fn ping(lab: &Lab, count: u32) -> Vec<u64> {
    let to = Side::B.ipv4().to_string();
    let mut ping = tier::limit(lab.host(Side::A).command("ping").unwrap());
    let output = ping.args(["-n", "-i", "0.02", "-c", &count.to_string(), &to]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let times = text.lines().filter_map(|l| l.split_once("time=")?.1.split_once(" ms")?.0.parse::<f64>().ok());
    let times: Vec<u64> = times.map(|ms| (ms * 1e6) as u64).collect();
    assert!(times.len() * 2 > count as usize, "{text}");
    times
}

/// The probes say what `ping` says of the same path at the same time, not what this host's timers
/// add to it.
#[test]
fn probes_take_as_long_as_ping_says() {
    tier::needs!(tier::Need::Root, tier::Need::Path("/dev/net/tun"), tier::Need::Program("ping"));
    for delay in [Nanos::ZERO, Nanos::from_millis(10)] {
        let way = Direction { delay, ..Direction::default() };
        let lab = Lab::up(&Config { a_to_b: way.clone(), b_to_a: way, ..Config::default() }).unwrap();
        let address = SocketAddr::new(Side::B.ipv4().into(), 0);
        let server = lab.host(Side::B).run(|| Server::start(ServerConfig::new(address))).unwrap().unwrap();
        let config = load::Config {
            before: Nanos::from_secs(3),
            load: Nanos::from_millis(100),
            after: Nanos::from_millis(100),
            flows: 1,
            probe_interval: Nanos::from_millis(20),
            ..load::Config::new(Target::new(server.local_addr()))
        };
        let (outcome, truth) = std::thread::scope(|scope| {
            let ping = scope.spawn(|| quarter(ping(&lab, 100)));
            let outcome = lab.host(Side::A).run(|| load::run(&config, &mut go_on)).unwrap().unwrap();
            (outcome, ping.join().unwrap())
        });
        server.stop();
        for probed in &outcome.probes {
            let s = probed.before.round_trip;
            let before = probed.rounds.iter().filter(|r| r.at < config.before).filter_map(|r| r.round_trip);
            let ours = Nanos(quarter(before.map(|round_trip| round_trip.0).collect()));
            println!("{}: ping {} ours {ours} late {:?}", probed.probe, Nanos(truth), probed.before.lateness);
            assert!(ours.0.abs_diff(truth) < 1_000_000, "{}: {ours} where ping says {}", probed.probe, Nanos(truth));
            assert!(probed.stamped > s.n / 2, "{}: {} of {} stamped", probed.probe, probed.stamped, s.n);
        }
    }
}

#[test]
fn what_a_window_limits_stays_within_it_from_the_first_interval_on() {
    tier::needs!(tier::Need::Root, tier::Need::Path("/dev/net/tun"));
    let (lab, server, mut target) = hosts(1_000, false);
    target.options.receive_buffer_bytes = Some(30_000);
    let config = stream::Config {
        duration: Nanos::from_secs(2),
        interval: Nanos::from_millis(200),
        ..stream::Config::new(target)
    };
    let outcome = lab.host(Side::A).run(|| stream::run(&config, &mut go_on)).unwrap().unwrap();
    server.stop();
    let windows = outcome.series.iter().filter_map(|s| s.tcp).map(|t| t.snd_wnd_bytes).max().unwrap();
    let limit = f64::from(windows) * 8e9 / (2 * DELAY_NS) as f64;
    // A window's worth more or less at the ends of an interval of 20 round trips.
    for sample in outcome.series.iter().filter(|s| s.end.saturating_sub(s.start) > Nanos::from_millis(100)) {
        let goodput = sample.goodput_bits_per_second();
        assert!(goodput > 0.0 && goodput < 1.06 * limit, "{goodput} of {limit}: {sample:?}");
    }
    // The send buffer took more than that at first.
    assert!(outcome.series[0].bits_per_second > 1.06 * limit, "{:?}", outcome.series[0]);
    let goodput = outcome.up.unwrap().goodput_bits_per_second.unwrap();
    assert!(goodput < 1.02 * limit, "{goodput} of {limit}");
}
