//! Short delays as hosts see them, by `ping`.

use clock::Nanos;
use lab::{Config, Lab, Side};

/// What a quarter of the echoes do not exceed by `ping`, one after the other, in nanoseconds: a busy machine makes the others longer.
fn ping(lab: &Lab) -> u64 {
    let to = Side::B.ipv4().to_string();
    let mut ping = lab.host(Side::A).command("ping").unwrap();
    let output = ping.args(["-n", "-A", "-c", "400", &to]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let times = text.lines().filter_map(|l| l.split_once("time=")?.1.split_once(" ms")?.0.parse::<f64>().ok());
    let mut times: Vec<u64> = times.map(|ms| (ms * 1e6) as u64).collect();
    assert!(times.len() > 150, "{text}");
    times.sort_unstable();
    times[times.len() / 4]
}

/// The path asks for less by what the machine adds: hosts see the delay that was asked for, and the account agrees with them.
#[test]
fn a_short_path_is_as_short_as_asked() {
    tier::needs!(tier::Need::Root, tier::Need::Path("/dev/net/tun"), tier::Need::Program("ping"));
    for each_way in [Nanos::from_micros(190), Nanos::from_micros(500)] {
        let lab = Lab::up(&Config::with_delay(each_way)).unwrap();
        let seen = ping(&lab);
        let report = lab.path().report();
        let account = [&report.a_to_b, &report.b_to_a].map(|d| d.achieved.as_ref().unwrap().delay.unwrap().p50.0);
        println!(
            "{each_way} each way: ping {}, account {account:?}, overhead {:?} {:?}",
            Nanos(seen),
            report.a_to_b.overhead,
            report.b_to_a.overhead
        );
        assert!(seen.abs_diff(2 * each_way.0) < 60_000, "{} seen of {}", Nanos(seen), Nanos(2 * each_way.0));
        assert!(seen.abs_diff(account.iter().sum()) < 60_000, "{} seen, {account:?} in the account", Nanos(seen));
    }
}
