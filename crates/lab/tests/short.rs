//! Short delays as hosts see them, by `ping`.

use clock::Nanos;
use lab::{Config, Lab, Side};

/// Round trips by `ping`, shortest first, in nanoseconds.
fn ping(lab: &Lab, how: &[&str], to: &str) -> Vec<u64> {
    let mut ping = tier::limit(lab.host(Side::A).command("ping").unwrap());
    let output = ping.arg("-n").args(how).arg(to).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let times = text.lines().filter_map(|l| l.split_once("time=")?.1.split_once(" ms")?.0.parse::<f64>().ok());
    let mut times: Vec<u64> = times.map(|ms| (ms * 1e6) as u64).collect();
    assert!(times.len() > 15, "{text}");
    times.sort_unstable();
    times
}

/// The path asks for less by what the machine adds: hosts see the delay that was asked for, and the
/// account agrees with them, whether packets follow each other or find CPUs asleep.
#[test]
fn a_short_path_is_as_short_as_asked() {
    tier::needs!(tier::Need::Root, tier::Need::Path("/dev/net/tun"), tier::Need::Program("ping"));
    for each_way in [Nanos::from_micros(190), Nanos::from_micros(500)] {
        // With pauses the hosts themselves take longer to send, to answer and to receive.
        let follow = (["-A", "-c", "400"], "one after the other", 60_000);
        for (how, name, hosts) in [follow, (["-i0.05", "-c", "40"], "with pauses", 120_000)] {
            let lab = Lab::up(&Config::with_delay(each_way)).unwrap();
            // A machine that wakes its CPUs slowly does so several times in a round trip: that is
            // the hosts' time as well, and seen on the loopback.
            let alone = ping(&lab, &how, "127.0.0.1");
            let hosts = hosts + 4 * alone[alone.len() * 3 / 4];
            let times = ping(&lab, &how, &Side::B.ipv4().to_string());
            // A busy machine makes the others longer.
            let (quarter, median) = (times[times.len() / 4], times[times.len() / 2]);
            let report = lab.path().report();
            let ways = [&report.a_to_b, &report.b_to_a];
            let account = ways.map(|d| d.achieved.as_ref().unwrap().delay.unwrap().p50.0);
            println!(
                "{each_way} each way, {name}: the hosts {}, ping {} and {}, account {account:?}, overhead {:?}, probes {:?}",
                Nanos(hosts),
                Nanos(quarter),
                Nanos(median),
                ways.map(|d| d.overhead.unwrap()),
                ways.map(|d| d.probes.as_ref().map(|p| (p.seen.min, p.seen.p50, p.seen.max))),
            );
            assert!(quarter.abs_diff(2 * each_way.0) < hosts, "{} seen of {}", Nanos(quarter), Nanos(2 * each_way.0));
            assert!(median.abs_diff(account.iter().sum()) < hosts, "{} seen, {account:?} accounted", Nanos(median));
            for way in ways {
                let probes = way.probes.as_ref().unwrap();
                assert!(probes.asked == each_way && probes.seen.min >= each_way, "{probes:?}");
                assert_eq!(way.achieved.as_ref().unwrap().timed_when_read, 0);
            }
        }
    }
    let long = Lab::up(&Config::with_delay(Nanos::from_millis(2))).unwrap();
    assert_eq!(long.path().report().a_to_b.probes, None);
}
