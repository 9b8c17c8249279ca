//! Settings that are drawn by seed: what measuring commands say of them, beside the path's own
//! account of the same packets. `WIRELAPSE_DRAWN=20` draws that many for each command.

use std::io::BufReader;
use std::process::{ChildStdout, Command, Stdio};

use lab::{BitRate, Config, Depth, Device, Direction, Lab, Loss, Reorder, Side};
use record::Nanos;
use serde_json::Value;
use tier::draw::uniform;
use tier::{Need, Process, needs};

const WIRELAPSE: &str = env!("CARGO_BIN_EXE_wirelapse");

use super::delay_live::{alone, ended, watch};

/// Settings of each command, by their seeds.
fn settings() -> std::ops::Range<u64> {
    let asked = std::env::var("WIRELAPSE_DRAWN").map(|text| text.parse().expect("WIRELAPSE_DRAWN is a number"));
    0..asked.unwrap_or(6)
}

/// A number between two, evenly in its logarithm: settings span decades.
fn between(low: f64, high: f64, of: &[u64]) -> f64 {
    low * (high / low).powf(uniform(of))
}

/// One direction of a path, of a seed: `faults` are loss, duplicates and held back packets.
fn direction(seed: u64, way: u64, faults: bool) -> Direction {
    let share = |of: u64, most: f64| if faults { most * uniform(&[seed, way, of]) } else { 0.0 };
    let held = share(1, 0.03);
    Direction {
        delay: Nanos(between(300e3, 15e6, &[seed, way, 2]) as u64),
        rate: Some(BitRate::mbit(between(5.0, 200.0, &[seed, way, 3]) as u32)),
        loss: Loss::Independent(share(4, 0.03)),
        duplicate: share(5, 0.02),
        reorder: (held > 0.0).then_some(Reorder { share: held, by: Nanos(4_000_000) }),
        ..Direction::default()
    }
}

/// A lab whose path is drawn, with a server in host b.
struct Place {
    lab: Lab,
    _serve: (Process, BufReader<ChildStdout>),
}

/// What a direction of the path counted.
#[derive(Clone, Copy, Debug)]
struct Counted {
    offered: u64,
    /// All that came in and never came out.
    gone: u64,
    lost: u64,
    duplicated: u64,
    reordered: u64,
    bytes: u64,
    frames: u64,
}

impl Place {
    fn drawn(seed: u64, faults: bool) -> Self {
        let [a_to_b, b_to_a] = [0, 1].map(|way| direction(seed, way, faults));
        Self::served(Lab::up(&Config { a_to_b, b_to_a, seed, ..Config::default() }).unwrap())
    }

    fn served(lab: Lab) -> Self {
        let mut command = tier::limit(lab.host(Side::B).command(WIRELAPSE).unwrap());
        command.args(["serve", "--listen", "10.77.0.2:5201", "--json"]).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = Process::from(command.spawn().unwrap());
        let (line, out) = child.first_line();
        assert!(line.contains("listening"), "{line}");
        Self { lab, _serve: (child, out) }
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = tier::limit(self.lab.host(Side::A).command(WIRELAPSE).unwrap());
        command.args(words).arg("--json");
        command
    }

    /// The objects that a command in host a writes.
    fn all(&self, words: &[&str]) -> Vec<Value> {
        let output = self.command(words).output().unwrap();
        assert!(output.status.success(), "{words:?}: {}", tier::text(&output.stderr));
        tier::text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The last of them.
    fn last(&self, words: &[&str]) -> Value {
        self.all(words).pop().unwrap()
    }

    /// What each direction has counted, once nothing is under way.
    fn counted(&self) -> [Counted; 2] {
        counted(&self.lab)
    }

    fn round_trip(&self) -> f64 {
        let report = self.lab.path().report();
        (report.a_to_b.asked.delay + report.b_to_a.asked.delay).0 as f64
    }
}

fn counted(lab: &Lab) -> [Counted; 2] {
    let ways = || {
        let report = lab.path().report();
        [report.a_to_b, report.b_to_a].map(|way| way.achieved.unwrap())
    };
    tier::until("the path to be empty", || ways().iter().all(|way| way.in_flight == 0));
    ways().map(|way| {
        let dropped = way.dropped_queue + way.dropped_early + way.dropped_memory + way.refused;
        Counted {
            offered: way.offered,
            gone: way.lost + dropped + way.missed_frames,
            lost: way.lost,
            duplicated: way.duplicated,
            reordered: way.reordered,
            bytes: way.bytes,
            frames: way.frames,
        }
    })
}

fn figure(of: &Value, path: &str) -> f64 {
    of.pointer(path).and_then(Value::as_f64).unwrap_or_else(|| panic!("no {path} in {of}"))
}

#[test]
fn udp_counts_what_the_path_lost_doubled_and_held_back() {
    needs!(Need::Root, Need::Path("/dev/net/tun"));
    for seed in settings() {
        let place = Place::drawn(seed, true);
        let down = uniform(&[seed, 7]) < 0.5;
        let way = usize::from(down);
        let report = place.lab.path().report();
        let asked = [report.a_to_b.asked, report.b_to_a.asked][way].clone();
        let size = between(100.0, 1_400.0, &[seed, 8]) as u64;
        // Less than the path carries with the headers of each datagram, and no more than a busy
        // machine forwards.
        let payload = size as f64 / (size as f64 + 66.0);
        let rate = (asked.rate.unwrap().bits() as f64 * 0.8 * uniform(&[seed, 9]) * payload).clamp(200e3, 20e6);
        let (rate, size) = (format!("{}K", (rate / 1e3) as u64), size.to_string());
        let mut words = vec!["udp", "10.77.0.2", "-b", &rate, "-l", &size, "-t", "400ms"];
        words.extend(down.then_some("--down"));
        let before = place.counted()[way];
        let said = place.last(&words);
        let path = place.counted()[way];
        let of = |key: &str| said["datagrams"][key].as_u64().unwrap();
        let sent = said["sent"].as_u64().unwrap();
        // What else went this way: the connection on which the test is set up.
        let other = (path.offered - before.offered).saturating_sub(sent);
        let near = |figure: u64, account: u64| figure <= account && account - figure <= other;
        assert!(
            near(of("lost") - of("dropped_at_socket").min(of("lost")), path.gone - before.gone),
            "{seed} {path:?}\n{said}"
        );
        assert_eq!(of("received") + of("lost"), sent, "{seed}: {said}");
        assert!(near(of("duplicated"), path.duplicated - before.duplicated), "{seed} {path:?}\n{said}");
        let reordered = path.reordered - before.reordered;
        assert!(of("reordered").abs_diff(reordered) <= other + of("duplicated"), "{seed} {path:?}\n{said}");
        // Nothing is faster than the path. The two ends have one clock.
        let least = figure(&said, "/one_way_delay/min_ns");
        assert!(least >= asked.delay.0 as f64 - 20e3, "{seed}: {least} of {:?}", asked.delay);
    }
}

#[test]
fn datagrams_in_bursts_wait_for_each_other_and_keep_their_rate() {
    needs!(Need::Root, Need::Path("/dev/net/tun"));
    let way = || Direction { delay: Nanos(1_000_000), rate: Some(BitRate::mbit(20)), ..Direction::default() };
    let lab = Lab::up(&Config { a_to_b: way(), b_to_a: way(), ..Config::default() }).unwrap();
    let place = Place::served(lab);
    // 1,250 bytes on the wire take 0.5 ms each.
    for words in [&["udp"][..], &["udp", "--down"], &["stream", "-u"], &["stream", "-u", "--down"]] {
        let of = |rate: &str| place.last(&[words, &["10.77.0.2", "-b", rate, "-l", "1184", "-t", "1s"]].concat());
        let (one, many) = (of("2M"), of("2M/20"));
        if words[0] == "stream" {
            let total = |said: &Value| figure(&said["flows"][0], "/received_bytes");
            assert!((total(&many) / total(&one) - 1.0).abs() < 0.25, "{words:?} {one}\n{many}");
            // A jitter of a burst: the datagrams leave together and come apart.
            let jitter = |said: &Value| figure(&said["flows"][0], "/datagrams/jitter_ns");
            assert!(jitter(&many) > 150e3, "{words:?} {many}");
            continue;
        }
        let delay = |said: &Value, of: &str| figure(said, &format!("/one_way_delay/{of}_ns"));
        // 20 of them take 10 ms; where a busy sender is held up in a burst the last wait less.
        assert!(delay(&many, "max") >= 9e6 && delay(&many, "p50") >= 4e6, "{words:?} {many}");
        assert!(delay(&one, "p50") < 4e6, "{words:?} {one}");
        let sent = |said: &Value| said["sent"].as_f64().unwrap();
        assert!((sent(&many) / sent(&one) - 1.0).abs() < 0.15, "{words:?} {one}\n{many}");
    }
}

#[test]
fn probes_miss_what_the_path_lost_and_no_answer_comes_before_it_can() {
    needs!(Need::Root, Need::Path("/dev/net/tun"));
    for seed in settings() {
        let place = Place::drawn(100 + seed, true);
        let before = place.counted();
        let said = place.last(&["probe", "icmp", "10.77.0.2", "-c", "100", "-i", "3ms", "-W", "500ms"]);
        let path = place.counted();
        let unanswered = said["sent"].as_u64().unwrap() - said["outcomes"]["answer"].as_u64().unwrap();
        let gone: u64 = (0..2).map(|way| path[way].gone - before[way].gone).sum();
        let doubled = path[0].duplicated - before[0].duplicated;
        // A request that the path doubled has two answers, of which one may be lost unseen.
        assert!(unanswered <= gone && gone - unanswered <= doubled, "{seed} {path:?}\n{said}");
        let least = figure(&said, "/shares/total/min_ns");
        assert!(least >= place.round_trip() - 20e3, "{seed}: {least} of {}", place.round_trip());
    }
}

#[test]
fn transactions_take_a_round_trip_and_their_time_on_the_wire() {
    needs!(Need::Root, Need::Path("/dev/net/tun"));
    for seed in settings() {
        let place = Place::drawn(200 + seed, false);
        let bytes = [10, 11].map(|of| between(1.0, 20_000.0, &[seed, of]) as u64);
        let connects = uniform(&[seed, 12]) < 0.5;
        let [request, response] = bytes.map(|bytes| bytes.to_string());
        let name = if connects { "crr" } else { "rr" };
        let before = place.counted();
        let said = place.last(&[name, "10.77.0.2", "--request", &request, "--response", &response, "-t", "400ms"]);
        let path = place.counted();
        let report = place.lab.path().report();
        let rates = [&report.a_to_b, &report.b_to_a].map(|way| way.asked.rate.unwrap().bits() as f64);
        let wire: f64 = (0..2).map(|way| bytes[way] as f64 * 8e9 / rates[way]).sum();
        let least = place.round_trip() * if connects { 2.0 } else { 1.0 } + wire;
        assert!(figure(&said, "/latency/min_ns") >= least - 20e3, "{seed} {name}: {least} {said}");
        let done = figure(&said, "/transactions");
        // One may be of the warm-up as well.
        let took = (done - 1.0) * figure(&said, "/latency/mean_ns");
        assert!(took <= figure(&said, "/elapsed_ns") * 1.001, "{seed}: {said}");
        for way in 0..2 {
            let carried = (path[way].bytes - before[way].bytes) as f64;
            assert!(carried >= done * bytes[way] as f64, "{seed} {name}: {carried} {said}");
        }
    }
}

#[test]
fn a_stream_carries_no_more_than_the_path_and_retransmits_what_it_lost() {
    needs!(Need::Root, Need::Path("/dev/net/tun"));
    for seed in settings() {
        let place = Place::drawn(300 + seed, seed % 2 == 0);
        let down = uniform(&[seed, 13]) < 0.5;
        let way = usize::from(down);
        let mut words = vec!["stream", "10.77.0.2", "-t", "600ms"];
        words.extend(down.then_some("--down"));
        let before = place.counted()[way];
        let said = place.last(&words);
        let path = place.counted()[way];
        let report = place.lab.path().report();
        let rate = [&report.a_to_b, &report.b_to_a][way].asked.rate.unwrap().bits() as f64;
        let total = &said[if down { "down" } else { "up" }];
        let received = figure(total, "/received_bytes");
        // Ethernet, IP and TCP with timestamps are 90 bytes of 1,538. What comes before a busy
        // machine's receiver has begun to count is in its first moment.
        assert!(figure(total, "/goodput_bits_per_second") <= rate * 1448.0 / 1538.0 * 1.08, "{seed}: {total}");
        assert!((path.bytes - before.bytes) as f64 >= received, "{seed} {path:?}: {total}");
        let retransmitted = figure(total, "/retransmitted_segments");
        let segments = (path.offered - before.offered) as f64;
        assert!(received / 1448.0 + retransmitted <= segments + 1.0, "{seed} {path:?}: {total}");
        // A path that loses nothing and has room makes a sender repeat nothing but what it takes
        // for lost.
        let lost = (path.lost - before.lost) as f64;
        if lost > 30.0 {
            assert!(retransmitted > lost / 2.0, "{seed} {path:?}: {total}");
        }
    }
}

#[test]
fn latency_under_load_is_within_what_the_path_delayed_and_loads_for_as_long_as_asked() {
    needs!(Need::Root, Need::Path("/dev/net/tun"));
    for seed in settings() {
        let way = |way: u64| Direction {
            rate: Some(BitRate::mbit(between(2.0, 30.0, &[400 + seed, way, 14]) as u32)),
            queue: Some(Depth::Time(Nanos(between(20e6, 150e6, &[400 + seed, way, 15]) as u64))),
            ..direction(400 + seed, way, false)
        };
        let lab = Lab::up(&Config { a_to_b: way(0), b_to_a: way(1), seed, ..Config::default() }).unwrap();
        let place = Place::served(lab);
        let flows = (1.0 + 3.0 * uniform(&[seed, 16])).to_string();
        let load = ["up", "down", "both"][(3.0 * uniform(&[seed, 17])) as usize];
        let words = ["--before", "300ms", "--after", "300ms", "--for", "2s", "--probe-interval", "20ms"];
        let before = place.counted();
        let mut all =
            place.all(&[&["ping-under-load", "10.77.0.2", "--load", load, "-P", &flows[..1]], &words[..]].concat());
        let path = place.counted();
        let said = all.pop().unwrap();
        let report = place.lab.path().report();
        let ways = [&report.a_to_b, &report.b_to_a];
        // The longest that any packet was on its way, there and back.
        let longest: u64 = ways.iter().map(|way| way.achieved.as_ref().unwrap().transit.unwrap().max.0).sum();
        let least = place.round_trip();
        let gone: u64 = (0..2).map(|way| path[way].gone - before[way].gone).sum();
        for probed in all.iter().filter(|line| line["kind"] == "probe") {
            assert!(probed["error"].is_null(), "{seed} {probed}");
            let mut lost = 0;
            for phase in ["before", "loaded", "after"] {
                let phase = &probed[phase];
                let trip = &phase["round_trip"];
                lost += phase["lost"].as_u64().unwrap();
                assert!(phase["sent"].as_u64() == Some(phase["lost"].as_u64().unwrap() + trip["n"].as_u64().unwrap()));
                if trip["n"] == 0 {
                    continue;
                }
                assert!(figure(trip, "/min_ns") >= least - 20e3, "{seed}: {least} {phase}");
                // What a TCP probe lost comes again later, and a busy host takes its time.
                if probed["probe"] != "tcp" {
                    assert!(figure(trip, "/p50_ns") <= longest as f64 + 20e6, "{seed}: {longest} {probed}");
                }
            }
            let added = probed["added_by_load_ns"].as_f64().unwrap_or(0.0);
            assert!(probed["probe"] == "tcp" || added <= longest as f64 - least + 20e6, "{seed}: {longest} {probed}");
            assert!(probed["probe"] == "tcp" || lost <= gone, "{seed}: {gone} {probed}");
        }
        let of = |key: &str| figure(&said, &format!("/{key}"));
        let loaded = of("load_ended_ns") - of("load_started_ns");
        assert!(loaded >= 1.9e9 && of("drained_ns") >= of("load_ended_ns"), "{seed}: {said}");
        for (way, name) in ["up", "down"].into_iter().enumerate().filter(|(_, name)| load == "both" || load == *name) {
            let total = &said["stream"][name];
            let (received, rate) = (figure(total, "/received_bytes"), figure(total, "/goodput_bits_per_second"));
            assert!((path[way].bytes - before[way].bytes) as f64 >= received, "{seed} {path:?} {total}");
            // What comes before a busy machine's receiver has begun to count is in its first
            // moment.
            let most = ways[way].asked.rate.unwrap().bits() as f64 * 1448.0 / 1538.0;
            assert!(rate <= most * 1.08, "{seed}: {most} {total}");
        }
    }
}

#[test]
fn generated_frames_are_those_that_the_path_took_no_faster_than_asked() {
    needs!(Need::Root, Need::Path("/dev/net/tun"));
    for seed in settings() {
        let way = || Direction { delay: Nanos(1_000_000), rate: None, ..Direction::default() };
        let lab = Lab::up(&Config { a_to_b: way(), b_to_a: way(), seed, ..Config::default() }).unwrap();
        let draw = |of: u64| uniform(&[500 + seed, of]);
        let rate = between(20.0, 5_000.0, &[500 + seed, 18]) as u64;
        let count = (rate / 2).clamp(12, 1_500);
        let size = match (4.0 * draw(19)) as u32 {
            0 => "imix".to_owned(),
            1 => "60x2,1000".to_owned(),
            _ => (between(60.0, 1_514.0, &[500 + seed, 20]) as u64).to_string(),
        };
        let burst = 1 + (8.0 * draw(21)) as u64;
        let pattern = ["constant", "poisson", "bursts"][(3.0 * draw(22)) as usize];
        // Live frames and AF_XDP go past the device that the path reads.
        let method = ["sendmmsg", "tx-ring"][usize::from(draw(23) < 0.5)];
        let flows = (1 + (20.0 * draw(24)) as u64).to_string();
        let (rate_text, count_text, burst_text) = (format!("{rate}/s"), count.to_string(), burst.to_string());
        let words = ["generate", "-i", "eth0", "--rate", &rate_text, "-c", &count_text, "--size", &size];
        let more = ["--pattern", pattern, "--burst", &burst_text, "--method", method, "--flows", &flows, "--json"];
        let before = counted(&lab)[0];
        let output =
            tier::limit(lab.host(Side::A).command(WIRELAPSE).unwrap()).args(words).args(more).output().unwrap();
        assert!(output.status.success(), "{words:?} {more:?}: {}", tier::text(&output.stderr));
        let said: Value = serde_json::from_str(tier::text(&output.stdout).lines().last().unwrap()).unwrap();
        let sent = count - said["dropped"].as_u64().unwrap();
        assert_eq!(said["frames"], count, "{said}");
        tier::until("the path to have every frame", || counted(&lab)[0].frames >= before.frames + sent);
        let path = counted(&lab)[0];
        // The kernel may speak of itself meanwhile, in a frame or two.
        assert!(path.frames - before.frames <= sent + 3, "{seed} {path:?} {said}");
        let bytes = (path.bytes - before.bytes) as f64;
        let mean = figure(&said, "/size_mean_bytes");
        // A turn of several lengths may end in its middle.
        assert!((bytes / sent as f64 - mean).abs() <= 12.0 * 1_514.0 / sent as f64 + 1.0, "{seed} {bytes} {said}");
        let (gaps, gap) = ((count - 1) as f64, figure(&said, "/gap_mean_ns"));
        let at_once = if pattern == "bursts" { burst } else { 1 };
        let reached = figure(&said, "/frames_per_second");
        let by_gaps = (count - at_once) as f64 / (gaps * gap) * 1e9;
        assert!((reached / by_gaps - 1.0).abs() < 1e-6, "{seed}: {by_gaps} {said}");
        assert!(gaps * gap <= figure(&said, "/took_ns") && gap <= figure(&said, "/gap_max_ns"), "{seed}: {said}");
        // Nothing leaves before it is due. A Poisson process may be ahead of its mean by chance.
        if pattern != "poisson" {
            let due = (count - at_once) as f64 / rate as f64 * 1e9;
            assert!(figure(&said, "/took_ns") >= due * 0.999, "{seed}: {due} {said}");
        }
    }
}

#[test]
fn a_devices_delay_and_losses_are_those_of_the_paths_account() {
    needs!(Need::Root, Need::Path("/dev/net/tun"));
    let _alone = alone();
    for seed in settings() {
        let asked = Direction {
            delay: Nanos(between(200e3, 8e6, &[600 + seed, 25]) as u64),
            rate: Some(BitRate::mbit(between(20.0, 200.0, &[600 + seed, 26]) as u32)),
            ..direction(600 + seed, 0, true)
        };
        let lab = Lab::up_testbed(&Config { a_to_b: asked.clone(), seed, ..Config::default() }, Device::Path).unwrap();
        let methods = ["rx-ring", "recvmmsg", "recvmsg", "libpcap"];
        let method = methods[(4.0 * uniform(&[600 + seed, 27])) as usize];
        let running = watch(&lab, &["--method", method, "--for", "4s"]);
        let before = counted(&lab)[0];
        let size = (between(60.0, 1_400.0, &[600 + seed, 28]) as u64).to_string();
        let mut send = tier::limit(lab.host(Side::A).command(WIRELAPSE).unwrap());
        let frames =
            ["generate", "-i", "source", "--rate", "1k/s", "--method", "sendmmsg", "-c", "1000", "--size", &size];
        let sent = send.args(frames).output().unwrap();
        assert!(sent.status.success(), "{}", tier::text(&sent.stderr));
        let path = counted(&lab)[0];
        let (lines, status) = ended(running);
        let said = &lines[0];
        assert_eq!(status, Some(0), "{said}");
        let of = |key: &str| said[key].as_u64().unwrap();
        assert_eq!((of("before_frames"), of("matched") + of("lost")), (1_000, 1_000), "{seed} {said}");
        let lost = path.gone - before.gone;
        // Of a frame that the path doubled one copy may be lost.
        let doubled = path.duplicated - before.duplicated;
        assert!(of("lost") <= lost && lost - of("lost") <= doubled + 3, "{seed} {path:?} {said}");
        assert!(of("duplicated") <= doubled && doubled - of("duplicated") <= 3, "{seed} {path:?} {said}");
        assert_eq!(of("unexplained"), 0, "{seed} {said}");
        // The path counts a segment as overtaken by any that came in later, and the command too.
        let reordered = path.reordered - before.reordered;
        assert!(of("reordered").abs_diff(reordered) <= doubled + 3, "{seed} {path:?} {said}");
        let wire = (size.parse::<f64>().unwrap() + 24.0) * 8e9 / asked.rate.unwrap().bits() as f64;
        let seen = lab.path().report().a_to_b.achieved.unwrap().transit.unwrap();
        // What the machine adds beyond the taps is taken off short delays.
        let own = lab.path().report().a_to_b.overhead.unwrap().0 as f64;
        let least = figure(said, "/delay_min_ns") + figure(said, "/delay_error_ns");
        assert!(least >= asked.delay.0 as f64 + wire - own - 20e3, "{seed}: {wire} {own} {said}");
        let mean = figure(said, "/delay_mean_ns");
        let within = 30e3 + figure(said, "/delay_error_ns") + 0.02 * seen.mean.0 as f64;
        assert!((mean - seen.mean.0 as f64).abs() < within, "{seed}: {seen:?} {said}");
    }
}
