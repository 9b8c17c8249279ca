//! Latency under load over loopback, and its file in flent's own program.

use std::ops::ControlFlow;
use std::process::Command;

use clock::Nanos;
use traffic::load::{Config, Flent, run};
use traffic::{Server, ServerConfig};

fn quick(server: &Server) -> Config {
    Config {
        before: Nanos::from_millis(400),
        load: Nanos::from_secs(1),
        after: Nanos::from_millis(400),
        flows: 2,
        probe_interval: Nanos::from_millis(20),
        ..Config::new(server.local_addr())
    }
}

#[test]
fn every_probe_falls_into_its_part_and_flent_opens_the_file() {
    let server = Server::start(ServerConfig::new("127.0.0.1:0".parse().unwrap())).unwrap();
    let config = quick(&server);
    let outcome = run(&config, &mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!(outcome.interrupted, None);
    assert_eq!(outcome.probes.iter().map(|p| p.probe.name()).collect::<Vec<_>>(), ["tcp", "udp", "icmp"]);
    for probed in &outcome.probes {
        if probed.probe.name() == "icmp" && probed.error.is_some() {
            assert!(probed.rounds.is_empty(), "{:?}", probed.error);
            continue;
        }
        assert_eq!(probed.error, None);
        for part in [probed.before, probed.loaded, probed.after] {
            assert!(part.sent > 3 && part.round_trip.n + part.lost == part.sent, "{probed:?}");
            assert!(part.round_trips_per_minute.is_some());
        }
        // At fixed moments, whatever the answers did.
        assert!(probed.rounds.windows(2).all(|w| w[1].at.saturating_sub(w[0].at) == Nanos::from_millis(20)));
    }
    let stream = outcome.stream.as_ref().unwrap();
    assert!(stream.up.is_some() && stream.down.is_some());

    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("load-2026.flent.gz");
    let flent = Flent::of(&config, &outcome, "2026-11-21T00:00:00.000000Z");
    flent.write(std::fs::File::create(&path).unwrap()).unwrap();
    let read = Flent::read(&path).unwrap();
    assert_eq!(read.results.keys().collect::<Vec<_>>(), flent.results.keys().collect::<Vec<_>>());
    assert!(read.results["TCP upload sum"].iter().flatten().any(|v| *v > 1.0));

    tier::needs!(tier::Need::Program("flent"));
    let output = Command::new("flent")
        .env("HOME", dir.path())
        .current_dir(dir.path())
        .args(["-i", "load-2026.flent.gz", "-f", "summary"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("Ping (ms) avg") && text.contains("TCP upload sum"), "{text}");
    // Its plots need matplotlib, which Debian's package brings along.
    let output = Command::new("flent")
        .env("HOME", dir.path())
        .current_dir(dir.path())
        .args(["-i", "load-2026.flent.gz", "-f", "plot", "-p", "all_scaled", "-o", "plot.svg"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let plot = std::fs::read_to_string(dir.path().join("plot.svg")).unwrap_or_default();
    assert!(output.status.success() && plot.contains("<svg"), "{said}");
    // The lines themselves, not an empty frame: matplotlib names each line2d.
    assert!(plot.matches("line2d").count() > 10, "{said}");
    // No series that was not measured, and none under the name of another.
    assert!(
        read.results.contains_key("TCP upload BE::1") && read.results.contains_key("Ping (ms) UDP BE"),
        "{:?}",
        read.results.keys()
    );
    assert!(!plot.contains("BE3") && !plot.contains("BE4"), "{said}");
}

#[test]
fn a_caller_can_stop_it() {
    let server = Server::start(ServerConfig::new("127.0.0.1:0".parse().unwrap())).unwrap();
    let config = Config { before: Nanos::from_secs(60), ..quick(&server) };
    let outcome = run(&config, &mut |_| ControlFlow::Break(())).unwrap();
    assert!(outcome.interrupted.is_some() && outcome.stream.is_none());
}
