//! Why each segment was retransmitted: what `analyze` reads from the packets, against what the
//! kernel that sent them knew.

use std::collections::HashMap;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use diagnose::Class;
use lab::{Config, Direction, Lab, Loss, Reorder, Side};
use libbpf_rs::{MapCore as _, ObjectBuilder, RingBufferBuilder};
use record::{Monotonic, Nanos, Realtime};

use crate::bench::{Dump, analysed, at_once, delayed, give, inside, join, lab, pause, segments, shaped, sysctls};
use crate::in_the_lab;
use crate::record::keep;
use crate::truth::{self, Retransmission, Score, Truth};

/// States of the sender's congestion control (`include/uapi/linux/tcp.h`).
const TCP_CA_RECOVERY: u16 = 3;
const TCP_CA_LOSS: u16 = 4;

/// A retransmission as the kernel made it; the layout is `struct retransmission` of
/// `retransmissions.bpf.c`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct KernelRetransmission {
    /// `CLOCK_MONOTONIC`, ns.
    at: u64,
    netns: u32,
    seq: u32,
    end: u32,
    /// Where the recovery ends.
    high_seq: u32,
    /// The sender's port, and its peer's.
    ports: [u16; 2],
    /// `tcp_ca_state`.
    state: u16,
    _padding: u16,
}

/// The kernel's word on every retransmission, as long as this lives.
struct KernelWord {
    object: libbpf_rs::Object,
    _link: libbpf_rs::Link,
}

impl KernelWord {
    fn start() -> Self {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/causes/retransmissions.bpf.c");
        let object = tempfile::Builder::new().suffix(".o").tempfile().unwrap();
        let mut clang = Command::new("clang");
        clang.args(["-target", "bpf", "-O2", "-g", "-Wall", "-Werror", "-mcpu=v3", "-c"]).arg(source).arg("-o");
        assert!(clang.arg(object.path()).status().unwrap().success());
        let object = ObjectBuilder::default().open_file(object.path()).unwrap().load().unwrap();
        let link = object.progs_mut().next().unwrap().attach().unwrap();
        Self { object, _link: link }
    }

    fn finish(self) -> Vec<KernelRetransmission> {
        let all = Mutex::new(Vec::new());
        let map = self.object.maps().find(|m| m.name() == "retransmissions").unwrap();
        let mut builder = RingBufferBuilder::new();
        let take = |bytes: &[u8]| {
            // SAFETY: the program writes whole records of this layout, of which every value is
            // valid.
            let one = unsafe { bytes.as_ptr().cast::<KernelRetransmission>().read_unaligned() };
            all.lock().unwrap().push(one);
            0
        };
        builder.add(&map, take).unwrap();
        builder.build().unwrap().consume().unwrap();
        all.into_inner().unwrap()
    }
}

/// `CLOCK_REALTIME` less `CLOCK_MONOTONIC`, ns.
fn clocks_apart() -> i64 {
    timestamping::conversion::<Monotonic, Realtime>().offset
}

fn monotonic() -> i64 {
    timestamping::now::<Monotonic>().as_nanos().cast_signed()
}

/// A counter of the host's TCP (`/proc/net/netstat`).
fn counter(lab: &Lab, side: Side, name: &str) -> u64 {
    let text = inside(lab, side, "cat", "/proc/net/netstat /proc/net/snmp");
    let lines: Vec<&str> = text.lines().collect();
    let pair = lines.windows(2).find_map(|w| {
        let place = w[0].split(' ').position(|n| n == name)?;
        (w[0].split(' ').next() == w[1].split(' ').next()).then(|| w[1].split(' ').nth(place)?.parse().ok())?
    });
    pair.unwrap_or_else(|| panic!("no counter {name}"))
}

/// One lab with several connections, and what came of them.
struct Run {
    netns: u32,
    /// When it began and ended, `CLOCK_MONOTONIC`: network namespaces of other times may have the
    /// same number.
    span: [i64; 2],
    at_sender: tempfile::NamedTempFile,
    at_receiver: tempfile::NamedTempFile,
    counters: HashMap<&'static str, u64>,
    took: Duration,
    /// DSACKs that the receiver sent: data that came twice.
    twice: u64,
}

const COUNTERS: [&str; 7] = [
    "RetransSegs",
    "TCPTimeouts",
    "TCPFastRetrans",
    "TCPSlowStartRetrans",
    "TCPLossProbes",
    "TCPLostRetransmit",
    "TCPSpuriousRTOs",
];

fn netns(lab: &Lab) -> u32 {
    // SAFETY: stat is plain data; fstat fills it for a descriptor that lives.
    let stat = unsafe {
        let mut stat: libc::stat = std::mem::zeroed();
        assert_eq!(libc::fstat(lab.host(Side::A).network_namespace().as_raw_fd(), &raw mut stat), 0);
        stat
    };
    stat.st_ino as u32
}

/// What a client sends over the path.
#[derive(Clone, Copy)]
enum Traffic {
    /// So many bytes at once.
    Bulk(usize),
    /// So many questions of so many bytes, each answered by one byte.
    Questions(usize, usize),
}

/// A lossy path and what goes over it.
struct Scene {
    name: &'static str,
    there: Direction,
    back: Direction,
    seed: u64,
    settings: &'static [(&'static str, &'static str)],
    times: usize,
    traffic: Traffic,
}

impl Scene {
    fn new(name: &'static str, there: Direction, times: usize, traffic: Traffic) -> Self {
        let back = Direction { delay: there.delay, ..Direction::default() };
        Self { name, there, back, seed: 1, settings: &[], times, traffic }
    }

    fn with(self, settings: &'static [(&'static str, &'static str)]) -> Self {
        Self { settings, ..self }
    }

    fn seeded(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// ACKs are lost too.
    fn losing_acks(self, share: f64) -> Self {
        Self { back: Direction { loss: Loss::Independent(share), ..self.back.clone() }, ..self }
    }

    /// Runs it; the path is whole while each handshake lasts, so that every retransmission is of
    /// data.
    fn run(&self) -> Run {
        let (began, began_at) = (Instant::now(), monotonic());
        let whole = |d: &Direction| Direction { loss: Loss::None, reorder: None, rate: None, queue: None, ..d.clone() };
        let (there, back) = (whole(&self.there), whole(&self.back));
        let config =
            Config { a_to_b: there.clone(), b_to_a: back.clone(), seed: self.seed, ..Config::symmetric(there.clone()) };
        let lab = lab(&config);
        sysctls(&lab, Side::A, self.settings);
        let (at_sender, at_receiver) = (Dump::start(&lab, Side::A), Dump::start(&lab, Side::B));
        let question = if let Traffic::Questions(_, bytes) = self.traffic { bytes } else { 0 };
        for _ in 0..self.times {
            lab.path().change(Side::A, &there).unwrap();
            lab.path().change(Side::B, &back).unwrap();
            let client = |mut stream: TcpStream| {
                pause(30);
                lab.path().change(Side::A, &self.there).unwrap();
                lab.path().change(Side::B, &self.back).unwrap();
                match self.traffic {
                    Traffic::Bulk(bytes) => give(&mut stream, bytes),
                    Traffic::Questions(times, bytes) => {
                        for _ in 0..times {
                            give(&mut stream, bytes);
                            stream.read_exact(&mut [0; 1]).unwrap();
                        }
                    }
                }
                stream.shutdown(std::net::Shutdown::Write).unwrap();
                let _ = stream.read(&mut [0; 1]);
            };
            join(&lab, Side::B.ipv4().into(), client, |mut stream| {
                let mut buffer = vec![0; 256 << 10];
                let mut read = 0;
                while let Ok(n @ 1..) = stream.read(&mut buffer) {
                    read += n;
                    if question > 0 && read % question == 0 {
                        let _ = stream.write_all(&[1]);
                    }
                }
            });
        }
        Run {
            took: began.elapsed(),
            span: [began_at, monotonic()],
            netns: netns(&lab),
            at_sender: at_sender.finish(),
            at_receiver: at_receiver.finish(),
            counters: COUNTERS.iter().map(|n| (*n, counter(&lab, Side::A, n))).collect(),
            twice: counter(&lab, Side::B, "TCPDSACKOldSent") + counter(&lab, Side::B, "TCPDSACKOfoSent"),
        }
    }

    /// What the kernel said of it.
    fn truth(&self, run: &Run, all: &[KernelRetransmission]) -> Truth {
        let apart = clocks_apart();
        let within = |at: u64| (run.span[0]..=run.span[1]).contains(&(at as i64));
        let own = all.iter().filter(|r| r.netns == run.netns && within(r.at)).map(|r| Retransmission {
            at: r.at as i64 + apart,
            ports: r.ports,
            seq: r.seq,
            end: r.end,
            high_seq: r.high_seq,
            state: r.state,
        });
        Truth {
            sack: !self.settings.contains(&("tcp_sack", "0")),
            delay: (self.there.delay.0 - self.there.jitter.0) as i64,
            all: own.collect(),
        }
    }
}

fn independent(share: f64, path: Direction) -> Direction {
    Direction { loss: Loss::Independent(share), ..path }
}

/// Losses in a row. A bad state in which nothing at all gets through would last for as many of the
/// timer's doublings.
fn bursts(good_to_bad: f64, bad_to_good: f64, path: Direction) -> Direction {
    let loss = Loss::GilbertElliott { good_to_bad, bad_to_good, loss_in_good: 0.0, loss_in_bad: 0.8 };
    Direction { loss, ..path }
}

/// Nothing gets through for some packets in a row.
fn outages(good_to_bad: f64, bad_to_good: f64, path: Direction) -> Direction {
    let loss = Loss::GilbertElliott { good_to_bad, bad_to_good, loss_in_good: 0.0, loss_in_bad: 1.0 };
    Direction { loss, ..path }
}

fn overtaking(share: f64, ms: u64, path: Direction) -> Direction {
    Direction { reorder: Some(Reorder { share, by: Nanos::from_millis(ms) }), ..path }
}

fn restless(ms: u64, path: Direction) -> Direction {
    Direction { jitter: Nanos::from_millis(ms), ..path }
}

const NO_SACK: &[(&str, &str)] = &[("tcp_sack", "0")];
const NO_PROBES: &[(&str, &str)] = &[("tcp_early_retrans", "0")];
const NO_STAMPS: &[(&str, &str)] = &[("tcp_timestamps", "0")];
const BBR: &[(&str, &str)] = &[("tcp_congestion_control", "bbr")];

/// What rules were made with: paths of 50 Mbit/s and 20 ms, and some that are not.
fn tuned() -> Vec<Scene> {
    use Traffic::{Bulk, Questions};
    let path = || shaped(10, 50, 200);
    vec![
        // One or two segments behind the first: their loss leaves nothing that could bring a SACK.
        Scene::new("tails", independent(0.1, path()), 3, Questions(60, 3_500)),
        Scene::new("loss", independent(0.02, path()), 2, Bulk(1_500_000)),
        Scene::new("bursts", bursts(0.006, 0.25, path()), 2, Bulk(1_500_000)),
        Scene::new("reordering_and_loss", overtaking(0.01, 8, independent(0.005, path())), 3, Bulk(1_500_000)),
        Scene::new("questions", independent(0.08, path()), 3, Questions(12, 12_345)),
        Scene::new("bursts_on_questions", bursts(0.03, 0.6, path()), 2, Questions(12, 12_345)),
        Scene::new("no_sack", independent(0.01, path()), 3, Bulk(1_500_000)).with(NO_SACK),
        Scene::new("no_probes", independent(0.06, path()), 3, Questions(12, 12_345)).with(NO_PROBES),
        Scene::new("jitter", restless(6, independent(0.02, delayed(20))), 2, Bulk(800_000)),
        Scene::new("long_path", independent(0.01, shaped(80, 50, 200)), 1, Bulk(1_500_000)),
        Scene::new("overflow", shaped(10, 5, 60), 2, Bulk(700_000)),
        Scene::new("lost_acks", independent(0.02, path()), 2, Bulk(1_000_000)).losing_acks(0.1),
        Scene::new("no_timestamps", independent(0.03, path()), 2, Bulk(800_000)).with(NO_STAMPS),
        Scene::new("short_path", independent(0.03, shaped(1, 100, 50)), 2, Bulk(1_500_000)).with(BBR),
        Scene::new("heavy_loss", independent(0.2, path()), 4, Bulk(120_000)),
        Scene::new("outages", outages(0.015, 0.35, path()), 5, Bulk(400_000)),
        Scene::new("no_sack_2", independent(0.02, shaped(30, 50, 200)), 1, Bulk(1_000_000)).with(NO_SACK).seeded(82),
        Scene::new("tails_2", independent(0.12, shaped(35, 30, 100)), 3, Questions(40, 2_900)).seeded(77),
        Scene::new("no_probes_2", independent(0.05, shaped(4, 50, 200)), 3, Questions(15, 9_000))
            .with(NO_PROBES)
            .seeded(83),
        Scene::new("heavy_loss_2", independent(0.15, shaped(18, 30, 100)), 4, Bulk(120_000)).seeded(89),
    ]
}

/// Others, with which no rule was made.
fn unseen() -> Vec<Scene> {
    use Traffic::{Bulk, Questions};
    vec![
        Scene::new("tails", independent(0.1035, shaped(24, 67, 100)), 4, Questions(60, 3_900)).seeded(207),
        Scene::new("loss", independent(0.0345, shaped(13, 32, 120)), 2, Bulk(1_000_000)).seeded(208),
        Scene::new("bursts", bursts(0.007, 0.28, shaped(29, 42, 150)), 2, Bulk(900_000)).seeded(209),
        Scene::new(
            "reordering_and_loss",
            overtaking(0.02, 6, independent(0.0138, shaped(22, 47, 80))),
            2,
            Bulk(1_000_000),
        )
        .seeded(210),
        Scene::new("questions", independent(0.069, shaped(18, 87, 100)), 3, Questions(15, 17_000)).seeded(211),
        Scene::new("no_sack", independent(0.0207, shaped(20, 47, 200)), 1, Bulk(900_000)).with(NO_SACK).seeded(212),
        Scene::new("no_probes", independent(0.0805, shaped(11, 47, 200)), 3, Questions(15, 11_000))
            .with(NO_PROBES)
            .seeded(213),
        Scene::new("jitter", restless(9, independent(0.0207, delayed(26))), 2, Bulk(700_000)).seeded(214),
        Scene::new("overflow", shaped(21, 17, 40), 2, Bulk(800_000)).with(BBR).seeded(215),
        Scene::new("overflow_reno", shaped(19, 19, 25), 2, Bulk(800_000)).seeded(221),
        Scene::new("lost_acks", independent(0.0287, shaped(21, 37, 200)), 2, Bulk(800_000))
            .losing_acks(0.15)
            .seeded(216),
        Scene::new("no_timestamps", independent(0.0287, shaped(22, 47, 100)), 2, Bulk(800_000))
            .with(NO_STAMPS)
            .seeded(217),
        Scene::new("short_path", bursts(0.012, 0.35, shaped(8, 87, 40)), 2, Bulk(1_000_000)).seeded(218),
        Scene::new("heavy_loss", independent(0.207, shaped(18, 32, 100)), 6, Bulk(110_000)).seeded(219),
        Scene::new("outages", outages(0.02, 0.32, shaped(24, 47, 100)), 7, Bulk(300_000)).seeded(220),
    ]
}

/// Paths drawn by chance from a seed.
fn drawn(seed: u64) -> Vec<Scene> {
    use Traffic::{Bulk, Questions};
    let mut state = seed;
    // SplitMix64, as a share of one.
    let mut share = move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    };
    let mut between = move |least: f64, most: f64| least + (most - least) * share();
    let mut scenes = Vec::new();
    for kind in 0..14 {
        let (ms, mbit, queue) = (between(3.0, 45.0) as u64, between(15.0, 90.0) as u32, between(50.0, 200.0) as u64);
        let path = shaped(ms, mbit, queue);
        let loss = between(0.01, 0.035);
        let bytes = between(500_000.0, 1_000_000.0) as usize;
        let question = between(6_000.0, 20_000.0) as usize;
        scenes.push(
            match kind {
                0 => {
                    let (loss, question) = (between(0.06, 0.13), between(2_700.0, 4_300.0) as usize);
                    Scene::new("tails", independent(loss, path), 4, Questions(50, question))
                }
                1 => Scene::new("loss", independent(loss, path), 2, Bulk(bytes)),
                2 => Scene::new("bursts", bursts(between(0.005, 0.01), between(0.2, 0.4), path), 2, Bulk(bytes)),
                3 => {
                    let path = overtaking(between(0.008, 0.025), ms.min(8), independent(loss / 2.0, path));
                    Scene::new("reordering_and_loss", path, 2, Bulk(bytes))
                }
                4 => Scene::new("questions", independent(3.0 * loss, path), 3, Questions(15, question)),
                5 => Scene::new("no_sack", independent(loss, path), 1, Bulk(bytes)).with(NO_SACK),
                6 => Scene::new("no_probes", independent(3.0 * loss, path), 4, Questions(15, question)).with(NO_PROBES),
                7 => Scene::new("jitter", restless(ms / 3 + 1, independent(loss, delayed(ms))), 2, Bulk(bytes)),
                8 => Scene::new("overflow", shaped(ms, mbit / 3 + 4, between(20.0, 60.0) as u64), 2, Bulk(bytes)),
                9 => Scene::new("lost_acks", independent(loss, path), 2, Bulk(bytes)).losing_acks(between(0.05, 0.2)),
                10 => Scene::new("no_timestamps", independent(loss, path), 2, Bulk(bytes)).with(NO_STAMPS),
                11 => Scene::new("bbr", independent(loss, path), 2, Bulk(bytes)).with(BBR),
                12 => Scene::new("heavy_loss", independent(between(0.12, 0.22), path), 8, Bulk(100_000)),
                _ => Scene::new("outages", outages(between(0.012, 0.025), between(0.25, 0.4), path), 9, Bulk(250_000)),
            }
            .seeded(seed * 100 + kind),
        );
    }
    scenes
}

/// Runs the scenes, some at a time, with the kernel's word on each.
fn run_all(scenes: &[Scene]) -> Vec<(Run, Truth)> {
    let truth = KernelWord::start();
    let runs = Mutex::new(Vec::new());
    for some in scenes.chunks(4).enumerate() {
        let (first, some) = (some.0 * 4, some.1);
        let tasks: Vec<Box<dyn Fn() + Sync>> = some
            .iter()
            .enumerate()
            .map(|(i, scene)| {
                let runs = &runs;
                Box::new(move || {
                    let run = scene.run();
                    runs.lock().unwrap().push((first + i, run));
                }) as Box<dyn Fn() + Sync>
            })
            .collect();
        at_once(&tasks.iter().map(|t| &**t).collect::<Vec<_>>());
    }
    let all = truth.finish();
    let mut runs = runs.into_inner().unwrap();
    runs.sort_by_key(|r| r.0);
    runs.into_iter().map(|(i, run)| (scenes[i].truth(&run, &all), run)).map(|(t, r)| (r, t)).collect()
}

/// Records what `crates/diagnose/tests/diagnose/classes.rs` evaluates. Run by hand (root):
/// `RECORD=unseen cargo test -p wirelapse --test causes record_retransmissions -- --ignored`.
#[test]
#[ignore = "writes into the repository: run by hand where a path is added"]
fn record_retransmissions() {
    in_the_lab!();
    let sets = [
        ("tuned", tuned()),
        ("unseen", unseen()),
        ("drawn_1", drawn(1)),
        ("drawn_2", drawn(2)),
        ("drawn_3", drawn(3)),
        ("drawn_4", drawn(4)),
    ];
    let only = std::env::var("RECORD").ok();
    for (set, scenes) in sets.into_iter().filter(|s| only.as_deref().is_none_or(|o| o == s.0)) {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../diagnose/tests/retransmissions").join(set);

        for (scene, (run, truth)) in scenes.iter().zip(run_all(&scenes)) {
            keep(run.at_sender.path(), &folder, scene.name, "a");
            keep(run.at_receiver.path(), &folder, scene.name, "b");
            std::fs::write(folder.join(format!("{}.truth", scene.name)), truth.text()).unwrap();
            println!("{set} {}: {} retransmissions, {:.1} s", scene.name, truth.all.len(), run.took.as_secs_f64());
        }
    }
}

#[test]
fn classes_agree_with_the_kernel_that_retransmitted() {
    in_the_lab!();
    tier::needs!(tier::Need::Program("clang"), tier::Need::Path("/sys/kernel/btf/vmlinux"));
    let (mut sender, mut receiver) = (Score::default(), Score::default());
    let mut spurious = (0, 0);
    let scenes = tuned();
    for (scene, (run, truth)) in scenes.iter().zip(run_all(&scenes)) {
        let [at_sender, at_receiver] = [&run.at_sender, &run.at_receiver].map(|file| analysed(&segments(file.path())));
        let mut one = Score::default();
        for (a, b) in at_sender.iter().zip(&at_receiver) {
            assert_eq!(a.client, b.client);
            one.add(a, &truth, 0, true);
            receiver.add(b, &truth, truth.delay, false);
            spurious.0 += a.to_server.spurious_retransmissions;
        }
        spurious.1 += run.twice;
        let count = truth.all.len();
        println!(
            "{}",
            one.table(&format!("{} ({count} retransmissions, {:.1} s)", scene.name, run.took.as_secs_f64()))
        );
        println!("  kernel: {:?}, received twice {}", run.counters, run.twice);
        // `RetransSegs` counts the segments of a frame, the others frames, as the tracepoint does;
        // a frame is several packets here.
        let of = |name: &str| run.counters[name];
        let frames = |state: u16| truth.all.iter().filter(|r| r.state == state).count() as u64;
        assert!(count as u64 <= of("RetransSegs"), "{}: {count} seen, {} counted", scene.name, of("RetransSegs"));
        let (loss, recovery) = (frames(TCP_CA_LOSS), frames(TCP_CA_RECOVERY));
        assert!(loss <= of("TCPTimeouts") + of("TCPSlowStartRetrans"), "{}: {loss}", scene.name);
        assert!(recovery <= of("TCPFastRetrans"), "{}: {recovery}", scene.name);
        sender.join(&one);
    }
    println!("{}\n{}", sender.table("at the sender"), receiver.table("at the receiver"));
    println!("needless by DSACK or Eifel {}, received twice {}", spurious.0, spurious.1);
    assert!(spurious.0 + 3 >= spurious.1 as u32, "what came twice was sent needlessly");

    assert!(sender.total() >= 150, "{} retransmissions are too few to score", sender.total());
    // A probe and the timer cannot be distinguished where but one segment was out: how many of
    // these there are is chance.
    for (score, right, recall) in [(&sender, 94, 0.85), (&receiver, 85, 0.75)] {
        assert!(score.right() * 100 >= score.decided() * right, "{} of {}", score.right(), score.decided());
        assert!(score.decided() * 10 >= score.total() * 8, "{} of {} decided", score.decided(), score.total());
        for class in truth::TRUTHS {
            // With few, one mistake is many per cent.
            let few = score.of(class) < 20 || class == Class::TailLossProbe;
            let found = score.f1(class).is_none_or(|(_, found, _)| found >= recall);
            assert!(few || found, "{class:?}: {:?}", score.f1(class));
        }
        let strange =
            score.matrix[4].iter().sum::<u32>() + score.matrix.iter().map(|r| r[truth::NOT_SEEN]).sum::<u32>();
        assert!(strange * 50 <= score.total(), "{strange} retransmissions on one side only");
    }
}
