//! Responsiveness, as its draft defines it, against our own server.

use std::net::{IpAddr, SocketAddr};
use std::ops::ControlFlow;
use std::path::PathBuf;

use lab::{BitRate, Config as Path, Direction, Lab, Side};
use record::Nanos;
use traffic::responsiveness::{self, Config, Load, Parameters, ProbeKind};
use traffic::tls::Identity;
use traffic::{Progress, Server, ServerConfig};

fn go_on(_: Progress<'_>) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// A certificate for these hosts, its file and what a server shows.
fn identity(folder: &std::path::Path, hosts: &[&str]) -> (PathBuf, Identity) {
    let names: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
    let rcgen::CertifiedKey { cert, signing_key } = rcgen::generate_simple_self_signed(names).unwrap();
    let (chain, key) = (folder.join("cert.pem"), folder.join("key.pem"));
    std::fs::write(&chain, cert.pem()).unwrap();
    std::fs::write(&key, signing_key.serialize_pem()).unwrap();
    let identity = Identity::load(&chain, &key).unwrap();
    (chain, identity)
}

fn config(server: SocketAddr, trusted: PathBuf, interval: Nanos, limit: Nanos) -> Config {
    Config {
        trusted: Some(trusted),
        limit,
        parameters: Parameters { interval, most_connections: 4, ..Parameters::default() },
        ..Config::new(format!("https://{server}/.well-known/nq"))
    }
}

#[test]
fn loopback_is_loaded_both_ways_and_both_kinds_of_probe_are_answered() {
    let folder = tempfile::tempdir().unwrap();
    for address in [IpAddr::from([127, 0, 0, 1]), IpAddr::V6(std::net::Ipv6Addr::LOCALHOST)] {
        let (trusted, tls) = identity(folder.path(), &[&address.to_string()]);
        let token = Some("s3cret".to_owned());
        let server = Server::start(ServerConfig {
            tls: Some(tls),
            token: token.clone(),
            ..ServerConfig::new(SocketAddr::new(address, 0))
        })
        .unwrap();
        let short = Nanos::from_millis(150);
        let config = Config {
            token,
            stages: vec![Load::Down, Load::Up],
            ..config(server.local_addr(), trusted, short, Nanos::from_millis(1_500))
        };
        // A stranger measures nothing.
        let stranger = responsiveness::run(&Config { token: None, ..config.clone() }, &mut go_on).unwrap_err();
        assert!(stranger.to_string().contains("token"), "{stranger}");
        let outcome = responsiveness::run(&config, &mut go_on).unwrap();
        assert_eq!(outcome.interrupted, None);
        assert_eq!(outcome.tls_version.as_deref(), Some("TLSv1_3"));
        assert!(outcome.idle.foreign == 10 && outcome.idle.foreign_rpm() > Some(100.0), "{:?}", outcome.idle);
        assert_eq!(outcome.stages.len(), 2);
        for stage in &outcome.stages {
            let goodput = if stage.load == Load::Down { stage.down_bits_per_second } else { stage.up_bits_per_second };
            assert!(goodput > Some(1e6) && stage.connections >= 1, "{stage:?}");
            let f = &stage.figures;
            assert!(f.foreign > 0 && f.own > 0 && f.failed == 0, "{stage:?}");
            // The result is the draft's arithmetic on the figures beside it.
            let foreign =
                [f.tcp_foreign, f.tls_foreign, f.http_foreign].map(|t| t.unwrap().as_millis_f64()).iter().sum::<f64>()
                    / 3.0;
            let wanted = (60_000.0 / foreign + 60_000.0 / f.http_self.unwrap().as_millis_f64()) / 2.0;
            assert!((stage.rpm.unwrap() / wanted - 1.0).abs() < 1e-6, "{stage:?} {wanted}");
        }
        assert!(server.stop().tests >= 2);
    }
}

#[test]
fn a_queue_is_in_the_round_trips_as_ping_sees_it() {
    tier::needs!(tier::Need::Root, tier::Need::Path("/dev/net/tun"), tier::Need::Program("ping"));
    let folder = tempfile::tempdir().unwrap();
    let way = Direction {
        rate: Some(BitRate::mbit(20)),
        delay: Nanos::from_millis(10),
        queue: Some(lab::Depth::Time(Nanos::from_millis(200))),
        ..Direction::default()
    };
    let lab = Lab::up(&Path { a_to_b: way.clone(), b_to_a: way, ..Path::default() }).unwrap();
    let server = IpAddr::V4(Side::B.ipv4());
    let (trusted, tls) = identity(folder.path(), &[&server.to_string()]);
    let serve = || Server::start(ServerConfig { tls: Some(tls), ..ServerConfig::new(SocketAddr::new(server, 0)) });
    let serving = lab.host(Side::B).run(serve).unwrap().unwrap();
    let mut config = config(serving.local_addr(), trusted, Nanos::from_millis(500), Nanos::from_secs(8));
    config.stages = vec![Load::Down];
    config.options.congestion_control = Some("cubic".into());
    let (outcome, pings) = std::thread::scope(|scope| {
        let ping = scope.spawn(|| {
            let mut ping = tier::limit(lab.host(Side::A).command("ping").unwrap());
            let output = ping.args(["-n", "-i", "0.05", "-w", "9", &server.to_string()]).output().unwrap();
            let text = String::from_utf8(output.stdout).unwrap();
            let field = |line: &str, name: &str| line.split(name).nth(1)?.split(' ').next()?.parse::<f64>().ok();
            text.lines().filter_map(|l| Some((field(l, "icmp_seq=")? * 0.05, field(l, "time=")?))).collect::<Vec<_>>()
        });
        let outcome = lab.host(Side::A).run(|| responsiveness::run(&config, &mut go_on)).unwrap().unwrap();
        (outcome, ping.join().unwrap())
    });
    serving.stop();
    let stage = &outcome.stages[0];
    let loaded = |kind: ProbeKind| outcome.probes.iter().filter(move |p| p.kind == kind && p.load.is_some());
    println!(
        "{stage:?}\n{} foreign, {} self, {} pings",
        loaded(ProbeKind::Foreign).count(),
        loaded(ProbeKind::Own).count(),
        pings.len()
    );
    assert_eq!(outcome.interrupted, None);
    // Without load a round trip is the path's, whatever asks for it.
    let idle = outcome.probes.iter().filter(|p| p.load.is_none()).filter_map(|p| p.tcp).min().unwrap().as_millis_f64();
    assert!((20.0..30.0).contains(&idle), "{:?}", outcome.idle);
    // Under load the handshakes wait as pings do, in the same queue: medians of the second half of
    // the time. A SYN that the queue drops takes another second, so means say less.
    let median = |mut all: Vec<f64>| {
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    };
    // A little later than the test, which looks at the server's configuration first.
    let under_load = |at: f64| at > outcome.elapsed.as_secs_f64() / 2.0 + 0.3 && at < outcome.elapsed.as_secs_f64();
    let ping = median(pings.iter().filter(|(at, _)| under_load(*at)).map(|(_, ms)| *ms).collect());
    let late = loaded(ProbeKind::Foreign).filter(|p| p.at > Nanos(outcome.elapsed.0 / 2));
    let tcp = median(late.filter_map(|p| Some(p.tcp?.as_millis_f64())).collect());
    assert!(ping > 60.0, "no queue stood: {ping} ms");
    assert!((tcp / ping - 1.0).abs() < 0.3, "handshakes {tcp} ms, pings {ping} ms");
    assert!(stage.rpm.unwrap() < 60_000.0 / 60.0, "{stage:?}");
    // The averages reach over two seconds here: what waits behind a lost segment, up to a queue of
    // 0.2 s, is delivered before or after, and what slow start lost is still being repaired.
    let goodput = stage.down_bits_per_second.unwrap();
    assert!((10e6..24e6).contains(&goodput), "{stage:?}");
}
