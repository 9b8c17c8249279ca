//! Interoperation with Debian's iperf3, in both roles.

use crate::iperf3_program;
use std::net::SocketAddr;
use std::ops::ControlFlow;

use crate::iperf3_program::{StockServer, stock_client, stock_client_as};
use clock::Nanos;
use traffic::iperf3::{Login, Padding, SKEW, Users};
use traffic::stream::{Config, Direction, run};
use traffic::{Server, ServerConfig};

fn server(address: &str) -> Server {
    // What the server says of each test stands beside a failure.
    Server::start_with(ServerConfig::new(address.parse().unwrap()), |event| eprintln!("{event:?}")).unwrap()
}

fn bits(report: &serde_json::Value, key: &str) -> f64 {
    assert!(report.get("error").is_none(), "{}", report["error"]);
    report["end"][key]["bits_per_second"].as_f64().unwrap_or_else(|| panic!("no {key} in {}", report["end"]))
}

fn bytes(report: &serde_json::Value, key: &str) -> u64 {
    report["end"][key]["bytes"].as_u64().unwrap()
}

#[test]
fn a_stock_client_is_served_up_down_and_both_ways_over_ipv4_and_ipv6() {
    tier::needs!(tier::Need::Program("iperf3"));
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let server = server(address);
        let to = server.local_addr();
        for (extra, keys) in [
            (&[][..], &["sum_sent", "sum_received"][..]),
            (&["-R"], &["sum_sent", "sum_received"]),
            (&["-P", "4"], &["sum_sent", "sum_received"]),
            (&["-P", "4", "-R"], &["sum_received"]),
            (&["--bidir"], &["sum_sent", "sum_received", "sum_sent_bidir_reverse", "sum_received_bidir_reverse"]),
            (&["-O", "1"], &["sum_received"]),
            (&["-Z", "-C", "reno", "-N", "-w", "200K", "-S", "0x28"], &["sum_received"]),
        ] {
            let report = stock_client(to, &[&["-t", "1"], extra].concat());
            for key in keys {
                assert!(bits(&report, key) > 1e6, "{address} {extra:?} {key}: {report}");
            }
            let (sent, received) = (bytes(&report, "sum_sent"), bytes(&report, "sum_received"));
            // What was in flight or unread at the end may be missing, and nothing may be there
            // twice. A warm-up ends at each side by its own clock: what a busy machine carries
            // between the two is counted by one side alone.
            let most = if extra.contains(&"-O") { sent.saturating_mul(2) } else { sent };
            assert!(received <= most && received.saturating_mul(2) > sent, "{extra:?}: {received} of {sent}");
        }
        tier::until("seven tests to end", || server.counts().tests == 7);
        assert_eq!(server.counts().broken_off, 0);
    }
}

#[test]
fn a_stock_client_sends_datagrams_and_gets_them() {
    tier::needs!(tier::Need::Program("iperf3"));
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let server = server(address);
        for extra in [&[][..], &["-R"], &["-P", "4"], &["--udp-counters-64bit"]] {
            let report =
                stock_client(server.local_addr(), &[&["-u", "-b", "8M", "-l", "1000", "-t", "1"], extra].concat());
            assert!(bits(&report, "sum") > 1e6, "{report}");
            let sum = &report["end"]["sum"];
            assert!(sum["packets"].as_u64().unwrap() > 100, "{sum}");
            assert!(sum["lost_packets"].as_u64().unwrap() * 2 < sum["packets"].as_u64().unwrap(), "{sum}");
        }
        tier::until("four tests to end", || server.counts().tests == 4);
    }
}

#[test]
fn two_stock_clients_are_served_at_once() {
    tier::needs!(tier::Need::Program("iperf3"));
    let server = server("127.0.0.1:0");
    let to = server.local_addr();
    let other = std::thread::spawn(move || stock_client(to, &["-t", "1"]));
    let mine = stock_client(to, &["-t", "1", "-u", "-b", "1M"]);
    assert!(bits(&mine, "sum") > 1e5);
    assert!(bits(&other.join().unwrap(), "sum_received") > 1e6);
    tier::until("two tests to end", || server.counts().tests == 2);
}

fn config(to: SocketAddr) -> Config {
    Config { duration: Nanos::from_millis(700), interval: Nanos::from_millis(200), ..Config::new(to) }
}

#[test]
fn a_stock_server_is_used_in_every_direction() {
    tier::needs!(tier::Need::Program("iperf3"));
    for host in ["127.0.0.1", "::1"] {
        let stock = StockServer::start(host);
        for (direction, flows) in
            [(Direction::Up, 1), (Direction::Down, 1), (Direction::Both, 1), (Direction::Up, 4), (Direction::Both, 4)]
        {
            let c = Config { direction, flows, ..config(stock.address) };
            let outcome = stock.retry(|| run(&c, &mut |_| ControlFlow::Continue(())));
            assert_eq!(outcome.interrupted, None);
            assert!(!outcome.server_is_wirelapse);
            for (total, wanted) in
                [(outcome.up, direction != Direction::Down), (outcome.down, direction != Direction::Up)]
            {
                assert_eq!(total.is_some(), wanted);
                let Some(total) = total else { continue };
                assert_eq!(total.flows, flows as usize);
                let received = total.received_bytes.unwrap();
                assert!(received > 1_000_000 && received <= total.sent_bytes, "{total:?}");
            }
            assert!(outcome.series.iter().any(|s| s.bytes > 0 && s.tcp.is_some()));
        }
    }
}

#[test]
fn a_stock_server_takes_exactly_the_bytes_asked_for() {
    const ASKED: u64 = 10_000_001;
    tier::needs!(tier::Need::Program("iperf3"));
    let stock = StockServer::start("127.0.0.1");
    let c = Config { bytes: Some(ASKED), flows: 3, ..config(stock.address) };
    // At the end of a test iperf3's server counts no more of what still waits in its sockets, so
    // one run of several has to be exact.
    let exact = (0..5).any(|_| {
        let total = stock.retry(|| run(&c, &mut |_| ControlFlow::Continue(()))).up.unwrap();
        let received = total.received_bytes.unwrap();
        assert_eq!(total.sent_bytes, ASKED);
        assert!(received <= ASKED, "{received}");
        received == ASKED
    });
    assert!(exact, "in no run were all bytes received");
}

#[test]
fn datagrams_reach_a_stock_server_and_come_from_it() {
    tier::needs!(tier::Need::Program("iperf3"));
    let stock = StockServer::start("127.0.0.1");
    for direction in [Direction::Up, Direction::Down] {
        let c = Config {
            udp: true,
            direction,
            write_bytes: 1000,
            flows: 2,
            pace_bits_per_second: Some(8_000_000),
            ..config(stock.address)
        };
        let outcome = stock.retry(|| run(&c, &mut |_| ControlFlow::Continue(())));
        assert_eq!(outcome.interrupted, None);
        for flow in &outcome.flows {
            let d = flow.datagrams.unwrap();
            assert!(d.expected > 50 && d.lost * 2 < d.expected, "{direction:?} {flow:?}");
            // Its protocol has no word for them.
            let told = direction == Direction::Down;
            assert_eq!((d.reordered.is_some(), d.duplicated.is_some()), (told, told), "{flow:?}");
        }
    }
}

#[test]
fn either_side_survives_the_others_death() {
    tier::needs!(tier::Need::Program("iperf3"));
    // A stock client killed in the middle: the server ends that test and serves the next.
    let server = server("127.0.0.1:0");
    let to = server.local_addr();
    for extra in [&[][..], &["-R"], &["-u", "-b", "1M"]] {
        let mut client = iperf3_program::spawn_client(to, &[&["-t", "20"], extra].concat());
        tier::until("the test to begin", || iperf3_program::flows_to(to) > 0);
        client.kill().unwrap();
        client.wait().unwrap();
    }
    tier::until("three tests to be broken off", || server.counts().broken_off == 3);
    assert!(bits(&stock_client(to, &["-t", "1"]), "sum_received") > 1e6);

    // A stock server killed in the middle: the client says so and keeps what it measured.
    for direction in [Direction::Up, Direction::Down] {
        let mut stock = StockServer::start("127.0.0.1");
        let c = Config { direction, duration: Nanos::from_secs(60), ..config(stock.address) };
        let outcome = run(&c, &mut |progress| {
            if matches!(progress, traffic::Progress::Interval(_)) {
                stock.kill();
            }
            ControlFlow::Continue(())
        })
        .unwrap();
        assert!(outcome.interrupted.is_some() && outcome.elapsed < Nanos::from_secs(60));
        assert!(!outcome.series.is_empty());
    }
}

#[test]
fn a_busy_stock_server_is_named_as_such() {
    tier::needs!(tier::Need::Program("iperf3"));
    let stock = StockServer::start("127.0.0.1");
    let long = Config { duration: Nanos::from_secs(60), ..config(stock.address) };
    let mut tried = None;
    run(&long, &mut |_| {
        tried = Some(run(&config(stock.address), &mut |_| ControlFlow::Continue(())));
        ControlFlow::Break(())
    })
    .unwrap();
    assert!(matches!(tried, Some(Err(traffic::Error::Busy { .. }))), "{tried:?}");
}

#[test]
fn our_report_has_the_keys_of_theirs() {
    tier::needs!(tier::Need::Program("iperf3"));
    let server = server("127.0.0.1:0");
    let to = server.local_addr();
    for (udp, direction, extra) in
        [(false, Direction::Up, &[][..]), (false, Direction::Both, &["--bidir"]), (true, Direction::Up, &["-u"])]
    {
        let theirs = stock_client(to, &[&["-t", "1"], extra].concat());
        let c = Config { udp, direction, duration: Nanos::from_secs(1), write_bytes: 1448, ..Config::new(to) };
        let ours = traffic::stream::iperf3_report(&c, &run(&c, &mut |_| ControlFlow::Continue(())).unwrap());
        // What stays out is of their process (socket buffers, words for the time) and not of the
        // transfer.
        let mut missing = Vec::new();
        iperf3_program::missing_keys(&theirs, &ours, "", &mut missing);
        missing.retain(|key| {
            !["system_info", "sock_bufsize", "sndbuf_actual", "rcvbuf_actual", "tcp_mss_default"]
                .iter()
                .any(|known| key.contains(known))
                && !key.ends_with("timestamp.time")
        });
        assert!(missing.is_empty(), "{udp} {direction:?}: {missing:?}");
    }
}

#[test]
fn a_stock_server_keeps_the_pace_that_is_asked_of_it() {
    tier::needs!(tier::Need::Program("iperf3"));
    let stock = StockServer::start("127.0.0.1");
    for direction in [Direction::Down, Direction::Both] {
        let pace_bits_per_second = Some(20_000_000);
        let c = Config { direction, pace_bits_per_second, ..config(stock.address) };
        let outcome = stock.retry(|| run(&c, &mut |_| ControlFlow::Continue(())));
        assert_eq!(outcome.interrupted, None);
        for total in [outcome.up, outcome.down].into_iter().flatten() {
            let goodput = total.goodput_bits_per_second.unwrap();
            // A first burst of a few writes is theirs.
            assert!(goodput < 60e6, "{goodput} bit/s of 20 Mbit/s asked, {direction:?}");
        }
    }
}

/// What a server with --authorized-users-path says to a client without a login: four bytes, not
/// eight.
#[test]
fn a_server_that_wants_a_login_is_a_refusal_in_words() {
    use std::io::{Read as _, Write as _};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let to = listener.local_addr().unwrap();
    let server = std::thread::spawn(move || {
        let (mut control, _) = listener.accept().unwrap();
        control.read_exact(&mut [0; 37]).unwrap();
        control.write_all(&[traffic::iperf3::State::ParamExchange.byte()]).unwrap();
        let mut length = [0; 4];
        control.read_exact(&mut length).unwrap();
        control.read_exact(&mut vec![0; u32::from_be_bytes(length) as usize]).unwrap();
        control.write_all(&[traffic::iperf3::State::ServerError.byte(), 0, 0, 0, 142]).unwrap();
    });
    let error = run(&config(to), &mut |_| ControlFlow::Continue(())).unwrap_err();
    server.join().unwrap();
    assert!(error.is_wrong_use() && error.to_string().contains("wants a login"), "{error}");
}

#[test]
fn the_servers_own_report_is_given_in_both_roles() {
    tier::needs!(tier::Need::Program("iperf3"));
    let ours = server("127.0.0.1:0");
    let report = stock_client(ours.local_addr(), &["-t", "1", "--get-server-output"]);
    let text = report["server_output_text"].as_str().unwrap_or_else(|| panic!("{report}"));
    assert!(text.contains("receiver") && text.contains("CPU of the server"), "{text}");
    let silent = stock_client(ours.local_addr(), &["-t", "1"]);
    assert!(silent.get("server_output_text").is_none());
    let stock = StockServer::start("127.0.0.1");
    for (address, says) in [(ours.local_addr(), "CPU of the server"), (stock.address, "receiver")] {
        let config = Config { duration: Nanos::from_secs(1), get_server_output: true, ..Config::new(address) };
        let outcome = run(&config, &mut |_| ControlFlow::Continue(())).unwrap();
        let text = outcome.server_output.unwrap_or_default();
        assert!(text.contains(says), "{address}: {text}");
    }
}

/// A pair of keys made by OpenSSL, and one user: mario with the password rossi.
fn keys() -> (tempfile::TempDir, [String; 3]) {
    let directory = tempfile::tempdir().unwrap();
    let [private, public, users] =
        ["private.pem", "public.pem", "users.csv"].map(|name| directory.path().join(name).display().to_string());
    let openssl = |args: &[&str]| {
        let done = std::process::Command::new("openssl").args(args).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    };
    openssl(&["genrsa", "-out", &private, "2048"]);
    openssl(&["rsa", "-in", &private, "-pubout", "-out", &public]);
    // The example of iperf3's manual.
    let row = "mario,bf7a49a846d44b454a5d11e7acfaf13d138bbe0b7483aa3e050879700572709b\n";
    std::fs::write(&users, format!("# file format: username,sha256\n{row}")).unwrap();
    (directory, [private, public, users])
}

#[test]
fn our_client_logs_in_at_a_stock_server() {
    tier::needs!(tier::Need::Program("iperf3"), tier::Need::Program("openssl"));
    let (_directory, [private, public, users]) = keys();
    let stock = StockServer::start_with(
        "127.0.0.1",
        &["--rsa-private-key-path", &private, "--authorized-users-path", &users, "--time-skew-threshold", "30"],
    );
    let as_user = |user: &str, password: &str| {
        // Debian's 3.12 knows no other padding.
        let login = Login::load(user, password, public.as_ref(), Padding::Pkcs1).unwrap();
        Config { login: Some(login), ..config(stock.address) }
    };
    let outcome = stock.retry(|| run(&as_user("mario", "rossi"), &mut |_| ControlFlow::Continue(())));
    assert!(outcome.up.unwrap().received_bytes.unwrap() > 1_000_000 && !outcome.server_is_wirelapse);
    for wrong in [as_user("mario", "verdi"), as_user("anna", "rossi"), config(stock.address)] {
        let refused = stock.retry(|| match run(&wrong, &mut |_| ControlFlow::Continue(())) {
            Err(e @ traffic::Error::Iperf3 { .. }) => Ok(e),
            Err(e) => Err(e),
            Ok(_) => panic!("a wrong login came in"),
        });
        assert!(refused.is_wrong_use() && refused.to_string().contains("wants a login"), "{refused}");
    }
    // Neither the configuration as it is kept nor what a failure prints shows the password.
    let config = as_user("mario", "rossi");
    assert!(!format!("{config:?}{}", serde_json::to_string(&config).unwrap()).contains("rossi"));
}

#[test]
fn a_stock_client_logs_in_at_our_server() {
    tier::needs!(tier::Need::Program("iperf3"), tier::Need::Program("openssl"));
    let (_directory, [private, public, list]) = keys();
    let users = Users::load(private.as_ref(), list.as_ref(), Padding::Pkcs1, Nanos::from_secs(30)).unwrap();
    let base = ServerConfig::new("127.0.0.1:0".parse().unwrap());
    let server = Server::start(ServerConfig { users: Some(users), ..base.clone() }).unwrap();
    let to = server.local_addr();
    let login = ["-t", "1", "--username", "mario", "--rsa-public-key-path", &public];
    assert!(bits(&stock_client_as(to, "rossi", &login), "sum_received") > 1e6);
    let refused =
        |report: &serde_json::Value| report["error"].as_str().unwrap_or_default().contains("authorization failed");
    let wrong = stock_client_as(to, "verdi", &login);
    assert!(refused(&wrong), "{}", wrong["error"]);
    let none = stock_client(to, &["-t", "1"]);
    assert!(refused(&none), "{}", none["error"]);
    // Our client is told in words; its other workloads have no login, and a server without a token
    // lets none of them in.
    let error = run(&config(to), &mut |_| ControlFlow::Continue(())).unwrap_err();
    assert!(error.to_string().contains("one of its users"), "{error}");
    let exchange = traffic::rr::Config { duration: Nanos::from_millis(100), ..traffic::rr::Config::new(to) };
    let error = traffic::rr::run(&exchange, &mut |_| ControlFlow::Continue(())).unwrap_err();
    assert!(error.is_wrong_use() && error.to_string().contains("this workload has no login"), "{error}");
    // With the padding of iperf3 from 3.17 on, both ends are ours. A token lets in too.
    let users = Users::load(private.as_ref(), list.as_ref(), Padding::Oaep, SKEW).unwrap();
    let server = Server::start(ServerConfig { users: Some(users), token: Some("t".into()), ..base }).unwrap();
    let login = Login::load("mario", "rossi", public.as_ref(), Padding::Oaep).unwrap();
    let to = server.local_addr();
    let by_login = Config { login: Some(login), ..config(to) };
    let mut by_token = config(to);
    by_token.target.token = Some("t".into());
    for config in [by_login, by_token] {
        assert!(run(&config, &mut |_| ControlFlow::Continue(())).unwrap().up.is_some());
    }
    assert!(run(&config(to), &mut |_| ControlFlow::Continue(())).is_err());
}
