//! What clients must not be able to do to a server.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use clock::Nanos;
use traffic::iperf3::State;
use traffic::stream::{Config, run};
use traffic::wire::Cookie;
use traffic::{Bounded, Error, Limits, Refusal, Server, ServerConfig, Target, rr};

fn server(limits: Limits, token: Option<&str>) -> Server {
    let config =
        ServerConfig { limits, token: token.map(Into::into), ..ServerConfig::new("127.0.0.1:0".parse().unwrap()) };
    Server::start(config).unwrap()
}

/// The server still does its work.
fn still_serves(server: &Server, token: Option<&str>) {
    let target = Target { token: token.map(Into::into), ..Target::new(server.local_addr()) };
    let c = Config { bytes: Some(1_000_000), ..Config::new(target) };
    let outcome = run(&c, &mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!(outcome.up.unwrap().received_bytes, Some(1_000_000));
}

fn refused(result: Result<impl Sized, Error>) -> Refusal {
    match result {
        Err(Error::Refused { refusal, .. }) => refusal,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("not refused"),
    }
}

/// Plays an iperf3 client up to its parameters; gives its control connection and its cookie.
fn begin_as_iperf3(to: SocketAddr, parameters: &str) -> (TcpStream, Cookie) {
    let mut s = TcpStream::connect(to).unwrap();
    s.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let cookie = Cookie::random();
    s.write_all(cookie.as_bytes()).unwrap();
    expect(&mut s, State::ParamExchange);
    say_json(&mut s, parameters);
    (s, cookie)
}

fn expect(control: &mut TcpStream, state: State) {
    let mut byte = [0];
    control.read_exact(&mut byte).unwrap();
    assert_eq!(State::try_from(byte[0]), Ok(state));
}

fn say_json(control: &mut TcpStream, text: &str) {
    control.write_all(&(text.len() as u32).to_be_bytes()).unwrap();
    control.write_all(text.as_bytes()).unwrap();
}

/// The server's answer to an iperf3 client's parameters.
fn ask_as_iperf3(to: SocketAddr, parameters: &str) -> Vec<u8> {
    let (mut s, _) = begin_as_iperf3(to, parameters);
    let mut answer = Vec::new();
    s.read_to_end(&mut answer).ok();
    answer
}

/// After `TEST_END` a stock client goes on to read whole blocks and looks at nothing else
/// meanwhile.
#[test]
fn a_client_that_first_reads_its_flow_to_the_end_gets_its_results() {
    let server = server(Limits::default(), None);
    let to = server.local_addr();
    let (mut control, cookie) = begin_as_iperf3(to, r#"{"tcp":true,"time":1,"parallel":1,"reverse":true}"#);
    expect(&mut control, State::CreateStreams);
    let mut flow = TcpStream::connect(to).unwrap();
    flow.write_all(cookie.as_bytes()).unwrap();
    expect(&mut control, State::TestStart);
    expect(&mut control, State::TestRunning);
    // Not a whole number of blocks, and the rest is left to wait.
    flow.read_exact(&mut [0; 100_001]).unwrap();
    control.write_all(&[State::TestEnd.byte()]).unwrap();
    std::io::copy(&mut flow, &mut std::io::sink()).unwrap();
    expect(&mut control, State::ExchangeResults);
    say_json(&mut control, r#"{"cpu_util_total":0,"cpu_util_user":0,"cpu_util_system":0,"streams":[]}"#);
    let mut length = [0; 4];
    control.read_exact(&mut length).unwrap();
    control.read_exact(&mut vec![0; u32::from_be_bytes(length) as usize]).unwrap();
    expect(&mut control, State::DisplayResults);
    control.write_all(&[State::Done.byte()]).unwrap();
    tier::until("the test to end", || server.counts().tests == 1);
    assert_eq!(server.counts().broken_off, 0);
}

#[test]
fn ten_thousand_flows_and_a_year_are_refused_with_the_limit() {
    let server = server(Limits::default(), None);
    let to = server.local_addr();
    for (parameters, code) in [
        (r#"{"tcp":true,"time":1,"parallel":10000}"#, 6u32),
        (r#"{"tcp":true,"time":31536000,"parallel":1}"#, 5),
        (r#"{"tcp":true,"time":1,"parallel":1,"len":1073741824}"#, 7),
        (r#"{"tcp":true,"time":1,"parallel":18446744073709551615,"len":18446744073709551615}"#, 6),
        (r#"{"udp":true,"time":1,"len":1}"#, 13),
        (r#"{"sctp":true}"#, 13),
    ] {
        let answer = ask_as_iperf3(to, parameters);
        assert_eq!(answer.first(), Some(&0xfe), "{parameters}");
        assert_eq!(answer[1..5], code.to_be_bytes(), "{parameters}");
    }
    // Our own client hears it in words, before any flow.
    let year = Config { duration: Nanos::from_secs(31_536_000), ..Config::new(to) };
    let refusal = refused(run(&year, &mut |_| ControlFlow::Continue(())));
    assert_eq!(refusal, Refusal::OverLimit { what: Bounded::Duration, asked: 31_536_000, limit: 3600 });
    let huge = rr::Config {
        exchange: rr::Exchange { response_bytes: 1 << 30, ..rr::Config::new(to).exchange },
        ..rr::Config::new(to)
    };
    let refusal = refused(rr::run(&huge, &mut |_| ControlFlow::Continue(())));
    assert_eq!(refusal, Refusal::OverLimit { what: Bounded::Message, asked: 1 << 30, limit: 4 << 20 });
    still_serves(&server, None);
}

#[test]
fn a_token_is_wanted_of_everyone() {
    let server = server(Limits::default(), Some("right"));
    let to = server.local_addr();
    for token in [None, Some("wrong".to_owned())] {
        let target = Target { token, ..Target::new(to) };
        let c = Config::new(target.clone());
        assert_eq!(refused(run(&c, &mut |_| ControlFlow::Continue(()))), Refusal::Token);
        let c = rr::Config::new(target);
        assert_eq!(refused(rr::run(&c, &mut |_| ControlFlow::Continue(()))), Refusal::Token);
    }
    assert_eq!(ask_as_iperf3(to, r#"{"tcp":true,"time":1,"parallel":1}"#)[0], 0xfe);
    still_serves(&server, Some("right"));
}

#[test]
fn garbage_is_counted_and_nothing_else() {
    let server = server(Limits::default(), None);
    let to = server.local_addr();
    let mut seed = 1u32;
    for round in 0..40 {
        let mut s = TcpStream::connect(to).unwrap();
        let bytes: Vec<u8> = (0..200)
            .map(|_| {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (seed >> 24) as u8
            })
            .collect();
        match round % 4 {
            0 => s.write_all(&bytes).ok(),
            1 => s.write_all(b"GET / HTTP/1.1\r\nHost: example.org\r\nAccept: */*\r\n\r\n").ok(),
            // Right openings, and garbage after them; a length of 4 GiB is not believed.
            2 => s.write_all(&[&traffic::wire::OWN_OPENING[..], &[0xff; 4], &bytes].concat()).ok(),
            _ => s.write_all(&[&traffic::wire::OWN_OPENING[..], &9u32.to_be_bytes(), b"{\"a\":[[[["].concat()).ok(),
        };
        UdpSocket::bind("127.0.0.1:0").unwrap().send_to(&bytes[..round * 4], to).unwrap();
    }
    tier::until("the garbage to be counted", || server.counts().garbage >= 75);
    assert_eq!(server.counts().tests, 0);
    still_serves(&server, None);
}

#[test]
fn those_who_drip_are_cut_off_and_do_not_keep_others_out() {
    let limits = Limits { handshake_ms: 400, connections: 8, ..Limits::default() };
    let server = server(limits, None);
    let to = server.local_addr();
    // More than there are places, half of them silent and half with a byte now and then.
    let mut slow: Vec<TcpStream> = (0..16).map(|_| TcpStream::connect(to).unwrap()).collect();
    for _ in 0..6 {
        for s in slow.iter_mut().step_by(2) {
            s.write_all(b"a").ok();
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    tier::until("the slow ones to be cut off", || server.counts().silent + server.counts().turned_away >= 16);
    assert!(server.counts().turned_away >= 1);
    still_serves(&server, None);
}

#[test]
fn half_open_and_vanished_clients_end_their_test_only() {
    let server = server(Limits::default(), None);
    let to = server.local_addr();
    // Gone between the parameters and the flows.
    let mut s = TcpStream::connect(to).unwrap();
    s.write_all(Cookie::random().as_bytes()).unwrap();
    s.read_exact(&mut [0]).unwrap();
    let parameters = br#"{"tcp":true,"time":1,"parallel":2}"#;
    s.write_all(&[&(parameters.len() as u32).to_be_bytes()[..], parameters].concat()).unwrap();
    s.read_exact(&mut [0]).unwrap();
    drop(s);
    tier::until("that test to be broken off", || server.counts().broken_off == 1);
    // Only its own half closed, in the middle of a request.
    let s = TcpStream::connect(to).unwrap();
    (&s).write_all(&traffic::wire::OWN_OPENING).unwrap();
    s.shutdown(std::net::Shutdown::Write).unwrap();
    tier::until("the half-open one to be dropped", || server.counts().silent >= 1);
    still_serves(&server, None);
    let begun = Instant::now();
    server.stop();
    assert!(begun.elapsed() < Duration::from_secs(30));
}

#[test]
fn a_port_in_use_is_wrong_use_with_advice() {
    let first = server(Limits::default(), None);
    let Err(error) = Server::start(ServerConfig::new(first.local_addr())) else { panic!("listened twice") };
    assert!(error.is_wrong_use());
    assert!(error.to_string().contains("another program has that port"), "{error}");
}

#[test]
fn places_are_given_back() {
    let limits = Limits { sessions: 1, memory_bytes: 1 << 20, ..Limits::default() };
    let server = server(limits, None);
    for _ in 0..5 {
        tier::until("the place", || {
            let c = Config { bytes: Some(1_000), ..Config::new(server.local_addr()) };
            run(&c, &mut |_| ControlFlow::Continue(())).is_ok()
        });
    }
}

/// A connection from another address of this host.
fn connect_from(local: &str, to: SocketAddr) -> TcpStream {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::new(local.parse().unwrap(), 0).into()).unwrap();
    socket.connect(&to.into()).unwrap();
    socket.into()
}

#[test]
fn those_without_the_token_take_no_test_from_those_with_it() {
    let server = server(Limits { sessions: 4, waiting_per_address: 20, ..Limits::default() }, Some("secret"));
    // More than there are tests, and more than one address may have: each says that it is an iperf3
    // client and no more.
    let silent: Vec<TcpStream> = (0..40)
        .map(|_| {
            let mut s = connect_from("127.0.0.2", server.local_addr());
            s.write_all(Cookie::random().as_bytes()).unwrap();
            s
        })
        .collect();
    tier::until("those that are one too many to be turned away", || server.counts().turned_away == 20);
    still_serves(&server, Some("secret"));
    assert_eq!(refused(run(&Config::new(server.local_addr()), &mut |_| ControlFlow::Continue(()))), Refusal::Token);
    drop(silent);
    server.stop();
}

#[test]
fn udp_tests_of_others_do_not_wait_for_a_silent_one() {
    let server = server(Limits::default(), None);
    let mut control = connect_from("127.0.0.2", server.local_addr());
    control.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    control.write_all(Cookie::random().as_bytes()).unwrap();
    expect(&mut control, State::ParamExchange);
    say_json(&mut control, r#"{"udp":true,"time":1,"parallel":1,"len":1000,"bandwidth":1000000}"#);
    expect(&mut control, State::CreateStreams);
    let c =
        Config { udp: true, write_bytes: 1_000, duration: Nanos::from_millis(200), ..Config::new(server.local_addr()) };
    let outcome = run(&c, &mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!(outcome.interrupted, None);
    // The silent one still waited all the while.
    tier::until("the other to be counted", || server.counts().tests == 1);
    assert_eq!(server.counts().broken_off, 0);
    server.stop();
}

#[test]
fn threads_of_all_tests_together_are_bounded() {
    let server = server(Limits { threads: 8, ..Limits::default() }, None);
    let config = |connections| rr::Config {
        connect_each: true,
        connections,
        duration: Nanos::from_millis(200),
        ..rr::Config::new(server.local_addr())
    };
    let refusal = refused(rr::run(&config(9), &mut |_| ControlFlow::Continue(())));
    assert_eq!(refusal, Refusal::OverLimit { what: Bounded::Threads, asked: 9, limit: 8 });
    let outcome = rr::run(&config(8), &mut |_| ControlFlow::Continue(())).unwrap();
    assert!(outcome.transactions > 0 && outcome.interrupted.is_none(), "{outcome:?}");
}

/// A request of ours, as bytes.
fn own_request(json: &str) -> Vec<u8> {
    [&traffic::wire::OWN_OPENING[..], &(json.len() as u32).to_be_bytes(), json.as_bytes()].concat()
}

#[test]
fn silent_tests_give_way_to_those_of_another_address() {
    let server = server(Limits { sessions: 4, ..Limits::default() }, None);
    let exchange = r#"{"request_bytes":1,"response_bytes":1,"request_writes":1,"response_writes":1,"think_ns":0}"#;
    let crr = format!(r#"{{"duration_ns":3600000000000,"workload":{{"crr":{{"exchange":{exchange},"at_once":2}}}}}}"#);
    let rr = format!(r#"{{"duration_ns":3600000000000,"workload":{{"rr":{exchange}}}}}"#);
    let silent: Vec<TcpStream> = (0..4)
        .map(|i| {
            let mut s = connect_from(&format!("127.0.0.{}", 2 + i % 2), server.local_addr());
            s.write_all(&own_request(if i < 2 { &crr } else { &rr })).unwrap();
            s.read_exact(&mut [0; 8]).unwrap();
            s
        })
        .collect();
    let c = Config { bytes: Some(1_000), ..Config::new(server.local_addr()) };
    // The first try waits until one gives way, and is not refused; for those that have tests
    // nothing is waited.
    let mut more = connect_from("127.0.0.2", server.local_addr());
    more.write_all(&own_request(&rr)).unwrap();
    let mut said = [0; 40];
    more.read_exact(&mut said).unwrap();
    assert!(String::from_utf8_lossy(&said).contains("refused"), "{}", String::from_utf8_lossy(&said));
    run(&c, &mut |_| ControlFlow::Continue(())).unwrap();
    for _ in 0..3 {
        still_serves(&server, None);
    }
    tier::until("the one that gave way to be counted", || server.counts().broken_off >= 1);
    tier::until("the others to be counted", || server.counts().tests >= 4);
    assert_eq!(server.counts().tests, 4, "a test that was ended is not carried out, whatever its workload");
    drop(silent);
    server.stop();
}

#[test]
fn newcomers_are_heard_however_many_of_many_addresses_wait() {
    let server = server(Limits { connections: 40, ..Limits::default() }, Some("secret"));
    let mut waiting = Vec::new();
    for round in 0..6 {
        for i in 0..20 {
            let mut s = connect_from(&format!("127.0.1.{}", 1 + i), server.local_addr());
            // Nothing at all, a part of an opening, or an iperf3 client without parameters.
            let said =
                [&b""[..], &traffic::wire::OWN_OPENING[..20], Cookie::random().as_bytes()][(i + round) % 3].to_vec();
            s.write_all(&said).ok();
            waiting.push(s);
        }
        still_serves(&server, Some("secret"));
    }
    assert!(server.counts().turned_away >= 80, "{:?}", server.counts());
    drop(waiting);
    server.stop();
}
