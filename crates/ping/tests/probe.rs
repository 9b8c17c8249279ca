//! Probes over a lab whose delay and loss are known, beside Debian's `ping`.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clock::Nanos;
use lab::{Config, Direction, Lab, Loss, Side};
use ping::{IcmpProber, Outcome, Probe, Prober, Settings, TcpProber, UdpProber};
use tier::Need;

static GO_ON: AtomicBool = AtomicBool::new(false);
/// Each way, so that a round trip takes twice that.
const DELAY: Nanos = Nanos::from_millis(10);
const ROUND_TRIP: Nanos = Nanos::from_millis(20);
/// How much more a round trip may take on a machine that is busy with something else.
const BUSY: Nanos = Nanos::from_millis(10);

fn addresses(lab: &Lab) -> [IpAddr; 2] {
    [lab.host(Side::B).ipv4().into(), lab.host(Side::B).ipv6().into()]
}

/// Runs `count` probes in host `a`.
fn probes(lab: &Lab, count: u64, make: impl FnOnce() -> Box<dyn Prober> + Send) -> Vec<Probe> {
    lab.host(Side::A)
        .run(|| {
            let mut prober = make();
            (1..=count).map(|n| prober.probe(n, &GO_ON).unwrap()).collect()
        })
        .unwrap()
}

/// Every stage is there, in order, and the delay is beyond this host.
fn assert_known_path(probes: &[Probe]) {
    for probe in probes {
        let e = &probe.exchange;
        assert!(probe.is_sound(), "{probe:?}");
        let [out, network, back] =
            [e.kernel_out(), e.network_and_peer(), e.kernel_in()].map(|s| s.unwrap().expect("a stage"));
        assert!(network >= ROUND_TRIP, "{network} in {probe:?}");
        assert_eq!(e.total().unwrap(), Some(out + network + back));
    }
    let least = probes.iter().map(|p| p.exchange.network_and_peer().unwrap().unwrap()).min().unwrap();
    assert!(least < ROUND_TRIP + BUSY, "{least}");
    let kernel = probes.iter().map(|p| p.exchange.kernel_out().unwrap().unwrap()).min().unwrap();
    assert!(kernel < DELAY, "the path's delay shows as this host's: {kernel}");
}

#[test]
fn icmp_shows_the_labs_round_trip_and_agrees_with_ping() {
    tier::needs!(Need::Root, Need::Path("/dev/net/tun"), Need::Program("ping"));
    let lab = Lab::up(&Config::with_delay(DELAY)).unwrap();
    for to in addresses(&lab) {
        let settings = Settings::default();
        let ours = probes(&lab, 20, || Box::new(IcmpProber::new(SocketAddr::new(to, 0), &settings).unwrap()));
        assert!(ours.iter().all(|p| p.outcome == Outcome::Answer && p.from == Some(to) && p.bytes == 56), "{ours:?}");
        assert!(ours.iter().all(|p| p.exchange.sched.is_some() && p.ttl == Some(64)), "{:?}", ours[0]);
        assert_known_path(&ours);

        let mut ping = tier::limit(lab.host(Side::A).command("ping").unwrap());
        let output = ping.args(["-q", "-n", "-c", "20", "-i", "0.03", &to.to_string()]).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let theirs: f64 =
            text.split(" = ").nth(1).and_then(|t| t.split('/').next()).and_then(|t| t.parse().ok()).unwrap();
        let least = ours.iter().map(|p| p.exchange.total().unwrap().unwrap()).min().unwrap().as_millis_f64();
        // Two tools one after the other over a path of 20 ms: within a twentieth.
        println!("least round trip to {to}: ping {theirs} ms, probe {least} ms");
        assert!((least - theirs).abs() < 1.0, "ping {theirs} ms, probe {least} ms");
    }
}

#[test]
fn udp_is_timed_to_an_echo_and_to_a_closed_port() {
    tier::needs!(Need::Root, Need::Path("/dev/net/tun"));
    let lab = Lab::up(&Config::with_delay(DELAY)).unwrap();
    for to in addresses(&lab) {
        let server = lab.host(Side::B).run(|| UdpSocket::bind(SocketAddr::new(to, 0)).unwrap()).unwrap();
        let open = server.local_addr().unwrap();
        let echo = std::thread::spawn(move || {
            let mut buffer = [0; 2000];
            for _ in 0..5 {
                let (length, from) = server.recv_from(&mut buffer).unwrap();
                server.send_to(&buffer[..length], from).unwrap();
            }
        });
        let settings = Settings { size: 700, ..Settings::default() };
        let echoed = probes(&lab, 5, || Box::new(UdpProber::new(open, &settings).unwrap()));
        echo.join().unwrap();
        assert!(echoed.iter().all(|p| p.outcome == Outcome::Answer && p.bytes == 700), "{echoed:?}");
        assert_known_path(&echoed);
        // The server is gone, and its port with it.
        let closed = probes(&lab, 3, || Box::new(UdpProber::new(open, &settings).unwrap()));
        for probe in &closed {
            assert_eq!(probe.outcome, Outcome::Icmp { name: "port unreachable", from: Some(to) });
        }
        assert_known_path(&closed);
    }
}

#[test]
fn tcp_times_the_handshake_a_refusal_and_a_request() {
    tier::needs!(Need::Root, Need::Path("/dev/net/tun"));
    let lab = Lab::up(&Config::with_delay(DELAY)).unwrap();
    for to in addresses(&lab) {
        let listener = lab.host(Side::B).run(|| TcpListener::bind(SocketAddr::new(to, 0)).unwrap()).unwrap();
        let open = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            for _ in 0..4 {
                let (mut stream, _) = listener.accept().unwrap();
                let mut request = [0; 5];
                if stream.read_exact(&mut request).is_ok() {
                    stream.write_all(b"answer").unwrap();
                }
            }
        });
        let with_request = Settings { request: Some(b"hello".to_vec()), ..Settings::default() };
        let answered = probes(&lab, 4, || Box::new(TcpProber::new(open, &with_request).unwrap()));
        server.join().unwrap();
        assert_known_path(&answered);
        for probe in &answered {
            let request = probe.request.expect("a request was made");
            assert_eq!((&probe.outcome, probe.bytes), (&Outcome::Answer, 6));
            assert!(request.sched.is_some() && request.is_in_order(), "{probe:?}");
            assert!(request.network_and_peer().unwrap().unwrap() >= ROUND_TRIP);
            assert!(request.ack.unwrap().since(request.driver.unwrap()).unwrap() >= ROUND_TRIP);
            // TCP's own measure is in steps of 1 µs.
            let by_tcp = probe.exchange.tcp_rtt.unwrap();
            assert!(by_tcp >= ROUND_TRIP.saturating_sub(Nanos(1_000)), "{by_tcp}");
        }
        let refused = probes(&lab, 3, || Box::new(TcpProber::new(open, &Settings::default()).unwrap()));
        assert!(refused.iter().all(|p| p.outcome == Outcome::Refused), "{refused:?}");
        assert_known_path(&refused);
    }
}

#[test]
fn a_ping_socket_is_used_where_one_is_allowed() {
    tier::needs!(Need::Root, Need::Path("/dev/net/tun"));
    let lab = Lab::up(&Config::with_delay(DELAY)).unwrap();
    lab.host(Side::A).set_sysctl("net.ipv4.ping_group_range", "0 2147483647").unwrap();
    for to in addresses(&lab) {
        let to = SocketAddr::new(to, 0);
        let method = lab.host(Side::A).run(|| IcmpProber::new(to, &Settings::default()).unwrap().method()).unwrap();
        assert!(method.contains("ping socket"), "{method}");
        let probes = probes(&lab, 3, || Box::new(IcmpProber::new(to, &Settings::default()).unwrap()));
        assert!(probes.iter().all(|p| p.outcome == Outcome::Answer && p.exchange.sched.is_some()), "{probes:?}");
        assert_known_path(&probes);
    }
}

#[test]
fn a_router_that_lets_no_packet_on_is_named_and_timed() {
    tier::needs!(Need::Root, Need::Path("/dev/net/tun"), Need::Program("ip"));
    let lab = Lab::up(&Config::with_delay(DELAY)).unwrap();
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    b.set_sysctl("net.ipv4.ip_forward", 1).unwrap();
    let router = b.ipv4();
    // Both point at each other: what matters is that the router would send it on.
    for (host, via) in [(&a, router), (&b, a.ipv4())] {
        let mut route = tier::limit(host.command("ip").unwrap());
        assert!(route.args(["route", "add", "203.0.113.0/24", "via", &via.to_string()]).status().unwrap().success());
    }
    let behind: SocketAddr = "203.0.113.1:9".parse().unwrap();
    let settings = Settings { ttl: Some(1), ..Settings::default() };
    let exceeded = Outcome::Icmp { name: "TTL exceeded on the way", from: Some(router.into()) };
    for by_icmp in [true, false] {
        let probes = probes(&lab, 2, || -> Box<dyn Prober> {
            if by_icmp {
                Box::new(IcmpProber::new(behind, &settings).unwrap())
            } else {
                Box::new(UdpProber::new(behind, &settings).unwrap())
            }
        });
        assert!(probes.iter().all(|p| p.outcome == exceeded), "{probes:?}");
        assert_known_path(&probes);
    }
}

#[test]
fn what_never_comes_back_is_no_answer_and_still_has_its_way_out() {
    tier::needs!(Need::Root, Need::Path("/dev/net/tun"));
    let lost = Direction { loss: Loss::Independent(1.0), ..Direction::default() };
    let lab = Lab::up(&Config { b_to_a: lost, ..Config::default() }).unwrap();
    let to = SocketAddr::new(lab.host(Side::B).ipv4().into(), 0);
    let settings = Settings { timeout: Duration::from_millis(50), ..Settings::default() };
    // The neighbour's address has to be known, or the packet does not even get to the driver.
    let probes = probes(&lab, 3, || Box::new(IcmpProber::new(to, &settings).unwrap()));
    for probe in probes {
        assert_eq!(probe.outcome, Outcome::NoAnswer);
        assert_eq!((probe.exchange.read, probe.exchange.network().unwrap()), (None, None));
        assert!(probe.exchange.sched.is_some() && probe.exchange.driver.is_some(), "{probe:?}");
    }
}

#[test]
fn a_host_without_a_route_is_named() {
    tier::needs!(Need::Root, Need::Path("/dev/net/tun"));
    let lab = Lab::up(&Config::default()).unwrap();
    let nowhere: SocketAddr = "203.0.113.1:9".parse().unwrap();
    let error = lab.host(Side::A).run(|| UdpProber::new(nowhere, &Settings::default()).err()).unwrap();
    assert_eq!(error.unwrap().raw_os_error(), Some(libc::ENETUNREACH));
    let probe = probes(&lab, 1, || Box::new(TcpProber::new(nowhere, &Settings::default()).unwrap()));
    assert_eq!(probe[0].outcome, Outcome::NotSent { errno: libc::ENETUNREACH });
}
