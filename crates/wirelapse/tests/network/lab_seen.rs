//! What the lab is asked for, beside what independent tools see: ping and iperf3. The table is that
//! of docs/lab.md.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use tier::{Need, Process};

fn wirelapse(args: &[&str]) -> Command {
    let mut command = tier::wirelapse!(["lab"]);
    command.args(args);
    command
}

/// A lab that goes with its test.
struct Lab {
    name: String,
    rows: String,
}

impl Lab {
    fn up(of: &str, settings: &[&str]) -> Self {
        let name = format!("{of}-{}", std::process::id());
        let out = wirelapse(&["up", "-d", "--name", &name]).args(settings).output().unwrap();
        assert!(out.status.success(), "{out:?}");
        Self { name, rows: String::new() }
    }

    fn change(&self, settings: &[&str]) {
        let out = wirelapse(&["change", &self.name]).args(settings).output().unwrap();
        assert!(out.status.success(), "{out:?}");
    }

    fn host(&self, host: &str, command: &[&str]) -> Command {
        let place = format!("{}:{host}", self.name);
        let mut exec = wirelapse(&["exec", &place, "--"]);
        exec.args(command).stdin(Stdio::null());
        exec
    }

    fn run(&self, host: &str, command: &[&str]) -> String {
        let out = self.host(host, command).output().unwrap();
        tier::text(&out.stdout) + &tier::text(&out.stderr)
    }

    /// Round trips by ping, ms, with the number of each.
    fn ping(&self, more: &[&str]) -> Vec<(u64, f64)> {
        let said = self.run("a", &[&["ping", "-n"][..], more, &["10.77.0.2"]].concat());
        let answer = |line: &str| {
            let number = line.split("icmp_seq=").nth(1)?.split(' ').next()?.parse().ok()?;
            Some((number, line.split("time=").nth(1)?.split(' ').next()?.parse().ok()?))
        };
        said.lines().filter_map(answer).collect()
    }

    /// What iperf3 says of a test from a to b.
    fn iperf3(&self, more: &[&str]) -> serde_json::Value {
        let server = Process::from(self.host("b", &["iperf3", "-s", "-1"]).stdout(Stdio::null()).spawn().unwrap());
        tier::until("iperf3 to listen", || {
            self.run("b", &["cat", "/proc/net/tcp6", "/proc/net/tcp"]).contains(":1451 ")
        });
        let said = self.run("a", &[&["iperf3", "-c", "10.77.0.2", "-J"][..], more].concat());
        drop(server);
        serde_json::from_str(&said).unwrap_or_else(|e| panic!("{e}: {said}"))
    }

    /// Of the frames of a test by iperf3 with datagrams, how many left host a and did not come to
    /// host b, and how many left. The hosts' interfaces count them: what a busy machine loses
    /// before or behind the path, at a full socket too, is not the path's.
    fn lost(&self) -> (f64, f64) {
        let before = self.frames();
        self.iperf3(&["-u", "-b", "10M", "-l", "200", "-t", "4"]);
        // The last frames travel still, or wait for a thread of the path.
        std::thread::sleep(Duration::from_millis(500));
        let after = self.frames();
        let [sent, came] = [0, 1].map(|host| after[host] - before[host]);
        (sent - came, sent)
    }

    /// Frames that host a has sent and host b has received, by the kernel's counters of their
    /// interfaces.
    fn frames(&self) -> [f64; 2] {
        [("a", "tx"), ("b", "rx")].map(|(host, way)| {
            let text = self.run(host, &["ip", "-s", "-j", "link", "show", "eth0"]);
            let links: serde_json::Value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"));
            links[0]["stats64"][way]["packets"].as_f64().unwrap()
        })
    }

    /// What was asked, what was seen, and what `within` allows.
    fn row(&mut self, what: &str, asked: String, seen: String, holds: bool) {
        self.rows += &format!("| {what} | {asked} | {seen} |{}\n", if holds { "" } else { " FAILED" });
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        // A lab that is gone already is as well.
        let _ = wirelapse(&["down", &self.name]).output();
        println!("{}", self.rows);
    }
}

macro_rules! needs_tools {
    () => {
        tier::needs!(Need::Root, Need::Path("/dev/net/tun"), Need::Program("ping"), Need::Program("iperf3"),)
    };
}

#[test]
fn delays_by_ping() {
    needs_tools!();
    let mut lab = Lab::up("delays", &["--delay", "200us"]);
    for (text, ms) in [("200us", 0.2), ("380us", 0.38), ("1ms", 1.0), ("10ms", 10.0), ("100ms", 100.0)] {
        lab.change(&["--delay", text]);
        let mut times: Vec<f64> = lab.ping(&["-c", "60", "-i", "0.02"]).into_iter().map(|(_, time)| time).collect();
        times.sort_by(f64::total_cmp);
        assert!(times.len() > 50);
        let (least, median) = (times[0], times[times.len() / 2]);
        // What is added is a socket's and a scheduler's, and on a virtual machine the wake-up of
        // its CPU: 0.04 to 0.13 ms were seen.
        let holds = least >= 2.0 * ms * 0.93 && least <= 2.0 * ms * 1.02 + 0.25;
        lab.row(
            "round trip, ping (n 60)",
            format!("{} ms", 2.0 * ms),
            format!("least {least} ms, median {median} ms"),
            holds,
        );
    }
    assert!(!lab.rows.contains("FAILED"), "{}", lab.rows);
}

#[test]
fn rates_by_iperf3() {
    needs_tools!();
    let mut lab = Lab::up("rates", &["--delay", "2ms", "--rate", "1mbit", "--queue", "50ms"]);
    for (text, mbit) in [("1mbit", 1.0), ("10mbit", 10.0), ("100mbit", 100.0), ("1gbit", 1_000.0)] {
        lab.change(&["--rate", text]);
        let report = lab.iperf3(&["-t", "4", "-O", "2"]);
        let seen = report["end"]["sum_received"]["bits_per_second"].as_f64().unwrap() / 1e6;
        let most = mbit * 1_448.0 / 1_538.0;
        // A busy machine does not fill a gigabit; none carries more than there is, but for what was
        // buffered when the count began.
        let share = seen / most;
        let holds = share < 1.03 && share > if mbit < 500.0 { 0.9 } else { 0.3 };
        lab.row(
            "goodput, iperf3 (4 s)",
            format!("{most:.3} Mbit/s of {text}"),
            format!("{seen:.3} Mbit/s ({:+.1} %)", (share - 1.0) * 100.0),
            holds,
        );
    }
    assert!(!lab.rows.contains("FAILED"), "{}", lab.rows);
}

/// Loss of what iperf3 sends by the counters of the hosts' interfaces, and bursts by ping.
#[test]
fn losses_by_interfaces_and_ping() {
    needs_tools!();
    tier::needs!(Need::Program("ip"));
    let mut lab = Lab::up("losses", &["--delay", "5ms"]);
    for (text, share) in [("0.1%", 0.001), ("1%", 0.01), ("5%", 0.05)] {
        lab.change(&["--loss", &format!("{text}/")]);
        let (lost, packets) = lab.lost();
        let five_deviations = 5.0 * (share * (1.0 - share) / packets).sqrt();
        let holds = (lost / packets - share).abs() < five_deviations;
        lab.row(
            "loss, by the interfaces, of iperf3 UDP",
            text.into(),
            format!("{:.3} % ({lost} of {packets})", lost / packets * 100.0),
            holds,
        );
    }
    lab.change(&["--burst-loss", "5%x4/"]);
    let (lost, packets) = lab.lost();
    // Of bursts of geometric length with mean L, the variance of the share is p (2L - 1) / n for
    // small p.
    let deviation = (0.05 * 7.0 / packets).sqrt();
    lab.row(
        "loss in bursts, likewise",
        "5 %".into(),
        format!("{:.3} % ({lost} of {packets})", lost / packets * 100.0),
        (lost / packets - 0.05).abs() < 5.0 * deviation,
    );
    let came: Vec<u64> =
        lab.ping(&["-c", "4000", "-i", "0.001", "-W", "1"]).into_iter().map(|(number, _)| number).collect();
    let gaps: Vec<u64> = came
        .windows(2)
        .map(|w| w[1].wrapping_sub(w[0]).wrapping_sub(1))
        .filter(|gap| (1..1_000).contains(gap))
        .collect();
    let lost: u64 = gaps.iter().sum();
    let length = lost as f64 / gaps.len() as f64;
    // Some 50 bursts of geometric length: five deviations of the mean are 2.4.
    let holds = (length - 4.0).abs() < 2.5;
    lab.row("length of bursts, ping (n 4,000)", "4".into(), format!("{length:.1} (n {} bursts)", gaps.len()), holds);
    assert!(!lab.rows.contains("FAILED"), "{}", lab.rows);
}

/// The length of the queue by ping under a flood, and the MTU by ping with "don't fragment".
#[test]
fn queue_and_mtu_by_ping() {
    needs_tools!();
    let mut lab = Lab::up("queue", &["--delay", "5ms", "--rate", "10mbit", "--queue", "40ms"]);
    let server = Process::from(lab.host("b", &["iperf3", "-s", "-1"]).stdout(Stdio::null()).spawn().unwrap());
    std::thread::sleep(Duration::from_millis(700));
    let load = lab
        .host("a", &["iperf3", "-c", "10.77.0.2", "-u", "-b", "15M", "-l", "1400", "-t", "5"])
        .stdout(Stdio::null())
        .spawn();
    let load = Process::from(load.unwrap());
    std::thread::sleep(Duration::from_millis(1_500));
    let mut times: Vec<f64> =
        lab.ping(&["-c", "100", "-i", "0.02", "-W", "1"]).into_iter().map(|(_, time)| time).collect();
    drop((load, server));
    times.sort_by(f64::total_cmp);
    // A full queue is where nearly all of them are; a busy machine holds single ones longer.
    let (most, longest) = (times[times.len() * 9 / 10], times[times.len() - 1]);
    lab.row(
        "round trip under a flood, ping (90 %)",
        "10 + 40 ms".into(),
        format!("{most} ms, longest {longest} ms"),
        (46.0..53.0).contains(&most),
    );

    for (size, passes) in [("1472", true), ("1473", false)] {
        let said = lab.run("a", &["ping", "-c", "1", "-W", "1", "-M", "do", "-s", size, "10.77.0.2"]);
        let came = said.contains("1 received");
        lab.row(
            "ping of this size, mtu 1500",
            format!("{size} + 28 bytes"),
            if came { "passes" } else { "refused" }.into(),
            came == passes,
        );
    }
    lab.change(&["--black-hole", "1400/"]);
    for (size, passes) in [("1372", true), ("1373", false)] {
        let came = !lab.ping(&["-c", "1", "-W", "1", "-s", size]).is_empty();
        lab.row(
            "ping of this size, black hole 1400",
            format!("{size} + 28 bytes"),
            if came { "passes" } else { "vanishes" }.into(),
            came == passes,
        );
    }
    assert!(!lab.rows.contains("FAILED"), "{}", lab.rows);
}

/// Order and copies, by what ping shows.
#[test]
fn order_and_copies_by_ping() {
    needs_tools!();
    let mut lab = Lab::up("order", &["--delay", "5ms", "--reorder", "10%@20ms/0%"]);
    // What is held for 20 ms is seen by its time; whether it is overtaken too depends on how often
    // a busy machine has ping send.
    let came = lab.ping(&["-c", "2000", "-i", "0.001", "-W", "1"]);
    let held = came.iter().filter(|(_, time)| *time > 27.0).count() as f64;
    let late = came.windows(2).filter(|w| w[1].0 < w[0].0).count();
    let five_deviations = 5.0 * (2_000.0_f64 * 0.1 * 0.9).sqrt();
    lab.row(
        "held back for 20 ms, ping (n 2,000)",
        "10 %".into(),
        format!("{:.2} % ({held} of {}), {late} overtaken", held / 20.0, came.len()),
        (held - 200.0).abs() < five_deviations && came.len() == 2_000 && late > 0,
    );
    lab.change(&["--reorder", "none", "--duplicate", "5%/"]);
    let said = lab.run("a", &["ping", "-q", "-c", "2000", "-i", "0.001", "10.77.0.2"]);
    let copies = said.split('+').nth(1).and_then(|rest| rest.split(' ').next()).and_then(|n| n.parse::<f64>().ok());
    let copies = copies.unwrap_or_else(|| panic!("{said}"));
    let five_deviations = 5.0 * (2_000.0_f64 * 0.05 * 0.95).sqrt();
    lab.row(
        "duplicates, ping (n 2,000)",
        "5 %".into(),
        format!("{:.2} % ({copies})", copies / 20.0),
        (copies - 100.0).abs() < five_deviations,
    );
    assert!(!lab.rows.contains("FAILED"), "{}", lab.rows);
}

/// The shapes of jitter by ping: each answer is late by one draw, as only the way there varies and
/// order is not kept.
#[test]
fn shapes_of_jitter_by_ping() {
    needs_tools!();
    let mut lab = Lab::up("shapes", &["--delay", "20ms", "--jitter", "4ms/0", "--reorder", "0%"]);
    // Mean, median and standard deviation of what is added: uniform, normal, exponential, and Lomax
    // of shape 3 and scale 8 ms.
    for (shape, mean, middle, deviation) in [
        ("uniform", 0.0, 0.0, 4.0 / 3f64.sqrt()),
        ("normal", 0.0, 0.0, 4.0),
        ("exponential", 4.0, 4.0 * 2f64.ln(), 4.0),
        ("pareto", 4.0, 8.0 * (2f64.cbrt() - 1.0), 4.0 * 3f64.sqrt()),
    ] {
        lab.change(&["--jitter-shape", &format!("{shape}/")]);
        let mut added: Vec<f64> =
            lab.ping(&["-c", "600", "-i", "0.004", "-W", "1"]).into_iter().map(|(_, time)| time - 40.0).collect();
        assert!(added.len() > 590, "{shape}: {}", added.len());
        let n = added.len() as f64;
        let seen_mean = added.iter().sum::<f64>() / n;
        let seen_deviation = (added.iter().map(|a| (a - seen_mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt();
        added.sort_by(f64::total_cmp);
        let seen_middle = added[added.len() / 2];
        // Five standard errors of the mean, and what a busy machine adds.
        let holds = (seen_mean - mean).abs() < 5.0 * deviation / n.sqrt() + 0.5
            && (seen_middle - middle).abs() < 5.0 * 1.3 * deviation / n.sqrt() + 0.5;
        lab.row(
            "jitter, ping (n 600), ms added: mean, median, deviation",
            format!("{shape}: {mean:.2}, {middle:.2}, {deviation:.2}"),
            format!("{seen_mean:.2}, {seen_middle:.2}, {seen_deviation:.2}"),
            holds,
        );
    }
    lab.change(&["--jitter-shape", "normal/", "--jitter-memory", "90%/"]);
    // Answers come in another order than requests went.
    let mut numbered = lab.ping(&["-c", "1000", "-i", "0.004", "-W", "1"]);
    numbered.sort_by_key(|(number, _)| *number);
    let mean = numbered.iter().map(|(_, time)| time).sum::<f64>() / numbered.len() as f64;
    let product = |lag: usize| {
        numbered.windows(lag + 1).map(|w| (w[0].1 - mean) * (w[lag].1 - mean)).sum::<f64>() / numbered.len() as f64
    };
    // What a busy machine adds to each time is in the variance alone, and in neither of these.
    let memory = product(2) / product(1);
    lab.row(
        "memory of jitter, ping (n 1,000)",
        "90 %".into(),
        format!("{:.0} % (of neighbours, {:.0} %)", memory * 100.0, product(1) / product(0) * 100.0),
        (0.8..1.0).contains(&memory) && product(1) / product(0) > 0.5,
    );
    assert!(!lab.rows.contains("FAILED"), "{}", lab.rows);
}

/// Marks "congestion experienced" by tcpdump: none below the rate, nearly all above it.
#[test]
fn marks_by_tcpdump() {
    needs_tools!();
    tier::needs!(Need::Program("tcpdump"));
    let dir = tempfile::tempdir().unwrap();
    let mut lab = Lab::up("marks", &["--delay", "2ms", "--rate", "10mbit", "--queue", "40ms", "--ecn", "20ms"]);
    // ECT(0) is 2 in the two lowest bits of the traffic class; 11 is "congestion experienced". A
    // sender that a busy machine holds up sends a burst after it: at a tenth of the rate only one
    // after a fifth of a second fills 20 ms.
    for (load, asked, range) in [("1M", "none below the rate", 0.0..0.01), ("14M", "all, once 20 ms wait", 0.9..1.0)] {
        let file = dir.path().join(load);
        let file = file.to_str().unwrap();
        let live =
            ["tcpdump", "-n", "-Z", "root", "-i", "eth0", "-B", "16384", "-U", "-w", file, "udp and dst port 5201"];
        let mut tcpdump = Process::from(lab.host("b", &live).stderr(Stdio::piped()).spawn().unwrap());
        let mut said = BufReader::new(tcpdump.stderr.take().unwrap()).lines();
        assert!(said.any(|line| line.unwrap().contains("listening on")), "tcpdump ended");
        lab.iperf3(&["-u", "-b", load, "-l", "1400", "-t", "4", "-S", "2"]);
        // The queue holds 40 ms.
        std::thread::sleep(Duration::from_millis(500));
        rustix::process::kill_process(rustix::process::Pid::from_child(&tcpdump), rustix::process::Signal::INT)
            .unwrap();
        tcpdump.wait().unwrap();
        let count = |filter: &str| {
            let out = Command::new("tcpdump").args(["-n", "-r", file, filter]).output().unwrap();
            assert!(out.status.success(), "{out:?}");
            tier::text(&out.stdout).lines().count() as f64
        };
        let (marked, plain) = (count("ip[1] & 3 = 3"), count("ip[1] & 3 != 3"));
        let all = marked + plain;
        assert!(all > 300.0, "{all}");
        lab.row(
            "marked, tcpdump, UDP at 10mbit",
            format!("at {load}bit/s {asked}"),
            format!("{:.1} % ({marked} of {all})", marked / all * 100.0),
            range.contains(&(marked / all)),
        );
    }
    assert!(!lab.rows.contains("FAILED"), "{}", lab.rows);
}
