//! What is read back from a run is what was measured.

use std::net::SocketAddr;
use std::ops::ControlFlow;

use record::{ClockReading, Nanos};
use store::workload::Provenance;
use traffic::kept::Run;
use traffic::{Progress, Server, ServerConfig, Target, load, responsiveness, rr, stream, udp};

fn go_on(_: Progress<'_>) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

fn provenance() -> Provenance {
    Provenance {
        version: "1.2".into(),
        command_line: vec!["wirelapse".into(), "stream".into()],
        kernel: "6.18".into(),
        machine: "x86_64".into(),
        cpus: 2,
        clock: ClockReading { realtime_offset_ns: -3, realtime_offset_error_ns: 4 },
    }
}

/// Every workload for a short time over loopback, of a server that wants a token.
fn runs() -> Vec<Run> {
    let token = Some("s3cret".to_owned());
    let config = ServerConfig { token: token.clone(), ..ServerConfig::new(SocketAddr::from(([127, 0, 0, 1], 0))) };
    let server = Server::start(config).unwrap();
    let target = Target { token, ..Target::new(server.local_addr()) };
    let short = Nanos::from_millis(300);
    let streams = stream::Config {
        duration: short,
        interval: Nanos::from_millis(50),
        direction: stream::Direction::Both,
        ..stream::Config::new(target.clone())
    };
    let datagrams =
        stream::Config { udp: true, write_bytes: 1_000, pace_bits_per_second: Some(1_000_000), ..streams.clone() };
    let closed = rr::Config { duration: short, interval: Nanos::from_millis(50), ..rr::Config::new(target.clone()) };
    let each = rr::Config { connect_each: true, rate_per_second: Some(100.7), ..closed.clone() };
    let udp = udp::Config { duration: short, interval: Nanos::from_millis(50), ..udp::Config::new(target.clone()) };
    let load = load::Config {
        before: short,
        load: Nanos::from_millis(500),
        after: short,
        flows: 2,
        probe_interval: Nanos::from_millis(20),
        ..load::Config::new(target)
    };
    let of = |config: &stream::Config| Run::Stream(config.clone(), Box::new(stream::run(config, &mut go_on).unwrap()));
    let exchanged =
        |config: &rr::Config| Run::Transactions(config.clone(), Box::new(rr::run(config, &mut go_on).unwrap()));
    vec![
        of(&streams),
        of(&datagrams),
        exchanged(&closed),
        exchanged(&each),
        Run::Udp(udp.clone(), Box::new(udp::run(&udp, &mut go_on).unwrap())),
        Run::Load(load.clone(), Box::new(load::run(&load, &mut go_on).unwrap())),
        responsive(),
    ]
}

fn responsive() -> Run {
    let folder = tempfile::tempdir().unwrap();
    let rcgen::CertifiedKey { cert, signing_key } =
        rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let (chain, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    std::fs::write(&chain, cert.pem()).unwrap();
    std::fs::write(&key, signing_key.serialize_pem()).unwrap();
    let tls = Some(traffic::tls::Identity::load(&chain, &key).unwrap());
    let token = Some("s3cret".to_owned());
    let config = ServerConfig { tls, token: token.clone(), ..ServerConfig::new(SocketAddr::from(([127, 0, 0, 1], 0))) };
    let server = Server::start(config).unwrap();
    let config = responsiveness::Config {
        trusted: Some(chain),
        token,
        limit: Nanos::from_millis(600),
        parameters: responsiveness::Parameters { interval: Nanos::from_millis(100), ..Default::default() },
        ..responsiveness::Config::new(format!("https://{}/.well-known/nq", server.local_addr()))
    };
    let outcome = responsiveness::run(&config, &mut go_on).unwrap();
    Run::Responsiveness(config, Box::new(outcome))
}

#[test]
fn every_workload_is_read_back_as_it_was_and_shows_no_token() {
    let dir = tempfile::tempdir().unwrap();
    for (i, mut run) in runs().into_iter().enumerate() {
        let path = dir.path().join(format!("{i}"));
        run.write(&path, provenance()).unwrap();
        let text = std::fs::read_to_string(path.join("run.json")).unwrap();
        assert!(!text.contains("s3cret"), "{text}");
        match &mut run {
            Run::Stream(config, _) => config.target.token = None,
            Run::Transactions(config, _) => config.target.token = None,
            Run::Udp(config, _) => config.target.token = None,
            Run::Load(config, _) => config.target.token = None,
            Run::Responsiveness(config, _) => config.token = None,
        }
        assert_eq!(Run::read(&path).unwrap(), (run, provenance()), "{path:?}");
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 7, "nothing else is left");
}

#[test]
fn a_run_is_whole_or_not_there() {
    let dir = tempfile::tempdir().unwrap();
    let taken = dir.path().join("taken");
    std::fs::create_dir(&taken).unwrap();
    assert!(matches!(store::workload::Writer::create(&taken), Err(store::Error::Exists(_))));
    let writer = store::workload::Writer::create(&dir.path().join("new")).unwrap();
    writer.table(&[traffic::kept::Bucket { at_most: Nanos(1), n: 2 }]).unwrap();
    drop(writer);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "an unfinished run leaves nothing");
}
