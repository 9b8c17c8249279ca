//! Request and response, and datagrams, over loopback.

use std::net::TcpListener;
use std::ops::ControlFlow;

use clock::Nanos;
use traffic::{Progress, Server, ServerConfig, load, rr, stream, udp};

fn server(address: &str) -> Server {
    Server::start(ServerConfig::new(address.parse().unwrap())).unwrap()
}

fn go_on(_: Progress<'_>) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

fn quick(server: &Server) -> rr::Config {
    rr::Config {
        duration: Nanos::from_millis(500),
        interval: Nanos::from_millis(100),
        ..rr::Config::new(server.local_addr())
    }
}

#[test]
fn transactions_are_counted_alike_by_both_ends() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        for (connect_each, connections, outstanding) in
            [(false, 1, 1), (false, 3, 1), (false, 2, 8), (true, 1, 1), (true, 4, 1)]
        {
            let ended = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
            let told = ended.clone();
            let server = Server::start_with(ServerConfig::new(address.parse().unwrap()), move |event| {
                if let traffic::server::Event::Ended(served) = event {
                    told.lock().unwrap().push(served);
                }
            })
            .unwrap();
            let exchange = rr::Exchange {
                request_bytes: 100,
                response_bytes: 5_000,
                request_writes: 2,
                response_writes: 3,
                think: Nanos::ZERO,
            };
            let mut c = rr::Config { connect_each, connections, outstanding, exchange, ..quick(&server) };
            c.target.options.nodelay = Some(true);
            let o = rr::run(&c, &mut go_on).unwrap();
            server.stop();
            assert_eq!((o.interrupted.as_deref(), o.failed), (None, 0));
            assert!(o.transactions > 50, "{o:?}");
            assert_eq!(o.latency.n, o.transactions);
            assert_eq!(o.series.iter().map(|i| i.latency.n).sum::<u64>(), o.transactions);
            assert_eq!(o.latency_buckets.iter().map(|b| b.1).sum::<u64>(), o.transactions);
            assert_eq!(o.connect.is_some(), connect_each);
            for slow in &o.slowest {
                let parts = slow.queued + slow.connect + slow.first_byte + slow.rest;
                assert_eq!(parts, slow.latency, "{slow:?}");
            }
            let answered: u64 = ended.lock().unwrap().iter().map(|s| s.transactions).sum();
            // Those under way at the end were answered, or not.
            let begun = o.transactions + o.unfinished + u64::from(connections);
            assert!((o.transactions..=begun).contains(&answered), "{answered} answered, {o:?}");
        }
    }
}

#[test]
fn an_open_loop_keeps_its_rate_and_counts_the_wait_behind_a_slow_answer() {
    let server = server("127.0.0.1:0");
    let c = rr::Config { rate_per_second: Some(200.0), duration: Nanos::from_secs(1), ..quick(&server) };
    let o = rr::run(&c, &mut go_on).unwrap();
    assert_eq!(o.transactions + o.unfinished + o.never_sent, 200, "{o:?}");

    // 20 ms a transaction, asked for every 5 ms: from the meant moment the last ones wait for most
    // of the second, while a measurement from the moment of sending would show 20 ms for all.
    let exchange = rr::Exchange { think: Nanos::from_millis(20), ..c.exchange };
    let o = rr::run(&rr::Config { exchange, ..c }, &mut go_on).unwrap();
    assert!(o.transactions <= 50, "{o:?}");
    assert_eq!(o.transactions + o.unfinished + o.never_sent, 200, "{o:?}");
    assert!(o.latency.min.0 >= 20_000_000 && o.latency.max.0 > 400_000_000, "{o:?}");
    assert!(o.slowest[0].queued > Nanos::from_millis(300), "{:?}", o.slowest[0]);
}

#[test]
fn a_caller_can_stop_and_a_server_that_goes_is_reported() {
    let one = server("127.0.0.1:0");
    let long = rr::Config { duration: Nanos::from_secs(60), ..quick(&one) };
    let in_time = |progress: Progress<'_>| match progress {
        Progress::Tick { elapsed: Nanos::ZERO } => ControlFlow::Continue(()),
        _ => ControlFlow::Break(()),
    };
    let o = rr::run(&long, &mut { in_time }).unwrap();
    assert!(o.interrupted.is_some() && o.transactions > 0);

    for (connect_each, outstanding) in [(false, 1), (false, 4), (true, 1)] {
        let mut stopping = Some(server("127.0.0.1:0"));
        let c = rr::Config {
            connect_each,
            outstanding,
            duration: Nanos::from_secs(60),
            ..quick(stopping.as_ref().unwrap())
        };
        let o = rr::run(&c, &mut |_| {
            drop(stopping.take());
            ControlFlow::Continue(())
        })
        .unwrap();
        let why = o.interrupted.unwrap();
        assert!(why.contains("went away in the middle of the test"), "{why}");
    }
}

/// Connections are made, and nobody accepts them.
#[test]
fn a_caller_can_stop_where_the_server_never_answers() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    let breaks = &mut |_: Progress<'_>| ControlFlow::Break(());
    let each = rr::Config { connect_each: true, ..rr::Config::new(address) };
    let stopped = [
        rr::run(&rr::Config::new(address), breaks).map(drop),
        rr::run(&each, breaks).map(drop),
        stream::run(&stream::Config::new(address), breaks).map(drop),
        udp::run(&udp::Config::new(address), breaks).map(drop),
        load::run(&load::Config::new(address), breaks).map(drop),
    ];
    assert!(stopped.iter().all(|one| matches!(one, Err(traffic::Error::Stopped))), "{stopped:?}");
}

#[test]
fn a_server_that_goes_ends_datagrams_with_what_was_received() {
    for direction in [udp::Direction::Up, udp::Direction::Down] {
        let mut stopping = Some(server("127.0.0.1:0"));
        let config = udp::Config {
            direction,
            duration: Nanos::from_secs(60),
            ..udp::Config::new(stopping.as_ref().unwrap().local_addr())
        };
        let mut ticks = 0;
        let ended = udp::run(&config, &mut |_| {
            ticks += 1;
            if ticks == 5 {
                drop(stopping.take());
            }
            assert!(ticks < 300, "it goes on without its server");
            ControlFlow::Continue(())
        });
        match (direction, ended) {
            (udp::Direction::Up, Err(traffic::Error::Ended { peer })) => assert_eq!(peer, config.target.server),
            (udp::Direction::Down, Ok(o)) => {
                assert!(o.interrupted.is_some_and(|why| why.contains("went away")));
                assert!(o.datagrams.received > 0 && o.sent >= o.datagrams.received, "{:?}", o.datagrams);
            }
            (_, other) => panic!("{direction:?}: {other:?}"),
        }
    }
}

#[test]
fn datagrams_add_up_in_both_directions() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let server = server(address);
        for direction in [udp::Direction::Up, udp::Direction::Down] {
            let c = udp::Config {
                direction,
                datagram_bytes: 500,
                bits_per_second: 4_000_000,
                duration: Nanos::from_millis(600),
                interval: Nanos::from_millis(100),
                ..udp::Config::new(server.local_addr())
            };
            let o = udp::run(&c, &mut go_on).unwrap();
            // 1,000 a second for 0.6 s; a busy machine may have fallen behind, and never runs
            // ahead.
            assert!((100..=602).contains(&o.sent), "{o:?}");
            assert_eq!(o.sent_bytes, o.sent * 500);
            let d = o.datagrams;
            assert_eq!((d.expected, d.received + d.lost), (o.sent, o.sent));
            assert_eq!((d.duplicated, d.reordered, d.malformed, o.impossible_delays), (0, 0, 0, 0));
            assert_eq!(o.received_bytes, d.received * 500);
            assert_eq!(o.series.iter().map(|i| i.received).sum::<u64>(), d.received);
            // Loopback: one host, so there are delays, and each is longer than nothing.
            let delay = o.one_way_delay.unwrap();
            assert!(delay.n == d.received && delay.min.0 > 100, "{delay:?}");
        }
    }
}

#[test]
fn wrong_configurations_are_refused_before_anything_is_sent() {
    let nobody: std::net::SocketAddr = "127.0.0.1:1".parse().unwrap();
    let rr = rr::Config::new(nobody);
    for wrong in [
        rr::Config { connections: 0, ..rr.clone() },
        rr::Config { rate_per_second: Some(f64::NAN), ..rr.clone() },
        rr::Config { exchange: rr::Exchange { request_writes: 2, ..rr.exchange }, ..rr.clone() },
        rr::Config { connect_each: true, outstanding: 2, ..rr.clone() },
    ] {
        let error = rr::run(&wrong, &mut go_on).unwrap_err();
        assert!(matches!(error, traffic::Error::Config(_)) && error.is_wrong_use(), "{error}");
    }
    assert!(matches!(rr::run(&rr, &mut go_on), Err(traffic::Error::Connect { .. })));
    let udp = udp::Config { datagram_bytes: 10, ..udp::Config::new(nobody) };
    assert!(matches!(udp::run(&udp, &mut go_on), Err(traffic::Error::Config(_))));
}

#[test]
fn an_answer_that_does_not_come_is_given_up_at_the_end() {
    let server = server("127.0.0.1:0");
    for (outstanding, rate_per_second) in [(1, None), (4, None), (4, Some(100.0))] {
        let exchange = rr::Exchange { think: Nanos::from_secs(10), ..quick(&server).exchange };
        let c =
            rr::Config { outstanding, rate_per_second, exchange, duration: Nanos::from_millis(300), ..quick(&server) };
        let begun = std::time::Instant::now();
        let o = rr::run(&c, &mut go_on).unwrap();
        assert_eq!((o.transactions, o.unfinished, o.interrupted.as_deref()), (0, outstanding.into(), None), "{o:?}");
        // It did not wait for the ten seconds that the server thinks.
        assert!(o.elapsed == Nanos::from_millis(300) && begun.elapsed().as_secs() < 9, "{:?}", begun.elapsed());
    }
}

#[test]
fn a_client_that_falls_silent_is_closed_and_one_that_is_slow_is_not() {
    let ended = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let told = ended.clone();
    let limits = traffic::Limits { idle_ms: 1_500, ..traffic::Limits::default() };
    let config = ServerConfig { limits, ..ServerConfig::new("127.0.0.1:0".parse().unwrap()) };
    let server = Server::start_with(config, move |event| {
        if let traffic::server::Event::Ended(served) = event {
            told.lock().unwrap().push(served);
        }
    })
    .unwrap();
    for (rate, closed) in [(20.0, false), (0.2, true)] {
        let c = rr::Config { rate_per_second: Some(rate), duration: Nanos::from_secs(3), ..quick(&server) };
        let o = rr::run(&c, &mut go_on).unwrap();
        assert_eq!(o.transactions >= 20, !closed, "{o:?}");
    }
    tier::until("both to end", || ended.lock().unwrap().len() == 2);
    let why: Vec<Option<String>> = ended.lock().unwrap().iter().map(|s| s.ended.clone()).collect();
    assert_eq!(why, [None, Some("the client was silent for too long".into())]);
}

/// What is not asked for is as the kernel has it, on both ends: the second of two small writes
/// waits for the ACK of the first.
#[test]
fn nagles_algorithm_is_on_unless_it_is_asked_off() {
    let server = server("127.0.0.1:0");
    let exchange = rr::Exchange { response_bytes: 2, response_writes: 2, ..quick(&server).exchange };
    let [held, free] = [None, Some(true)].map(|nodelay| {
        let mut c = rr::Config { exchange, warm_up: Nanos::from_millis(500), ..quick(&server) };
        c.target.options.nodelay = nodelay;
        let o = rr::run(&c, &mut go_on).unwrap();
        assert_eq!(o.socket_options, c.target.options);
        o.transactions
    });
    assert!(held * 10 < free, "{held} as the kernel has it, {free} with TCP_NODELAY");
}

#[test]
fn the_last_interval_is_shown_however_short() {
    let server = server("127.0.0.1:0");
    let c = rr::Config { interval: Nanos::from_secs(1), ..quick(&server) };
    let mut shown = Vec::new();
    let mut note = |progress: Progress<'_>| {
        if let Progress::Transactions { done, .. } = progress {
            shown.push(done);
        }
        ControlFlow::Continue(())
    };
    let o = rr::run(&c, &mut note).unwrap();
    assert_eq!(shown, [o.transactions]);

    let c = stream::Config { duration: Nanos::from_millis(500), ..stream::Config::new(server.local_addr()) };
    let mut shown = Vec::new();
    let o = stream::run(&c, &mut |progress| {
        if let Progress::Interval(samples) = progress {
            shown.extend_from_slice(samples);
        }
        ControlFlow::Continue(())
    })
    .unwrap();
    assert!(!shown.is_empty() && shown == o.series, "{} of {} samples", shown.len(), o.series.len());
}

/// The rows that a caller is shown are those of the outcome, without a hole where the warm-up ends.
#[test]
fn every_interval_of_a_stream_is_shown_once() {
    let server = server("127.0.0.1:0");
    for interval in [Nanos::from_millis(300), Nanos::from_secs(1)] {
        let config = stream::Config {
            warm_up_s: 1,
            duration: Nanos::from_secs(1),
            interval,
            ..stream::Config::new(server.local_addr())
        };
        let mut shown = Vec::new();
        let outcome = stream::run(&config, &mut |at| {
            if let Progress::Interval(samples) = at {
                shown.extend_from_slice(samples);
            }
            ControlFlow::Continue(())
        })
        .unwrap();
        assert!(shown.windows(2).all(|w| w[0].end == w[1].start), "{shown:?}");
        assert!(shown.iter().any(|s| s.warm_up) && shown.iter().any(|s| !s.warm_up));
        assert_eq!(shown, outcome.series);
    }
}

/// A write that is larger than what its rate carries in a test would leave at once.
#[test]
fn a_program_that_keeps_a_rate_keeps_a_low_one_too() {
    let server = server("127.0.0.1:0");
    for (direction, bits_per_second) in [(stream::Direction::Up, 10_000), (stream::Direction::Down, 100_000)] {
        let config = stream::Config {
            direction,
            duration: Nanos::from_secs(2),
            pace_bits_per_second: Some(bits_per_second),
            pacing: stream::Pacing::Program,
            ..stream::Config::new(server.local_addr())
        };
        let outcome = stream::run(&config, &mut go_on).unwrap();
        let total = outcome.up.or(outcome.down).unwrap();
        // Two writes more than the time has room for: one at its beginning, one at its end.
        let most = bits_per_second * outcome.elapsed.0 / 8_000_000_000 + 2 * (bits_per_second / 80);
        assert!(total.sent_bytes > 0 && total.sent_bytes <= most, "{total:?}, {most} at most");
    }
}
