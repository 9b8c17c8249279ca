//! Why each segment was retransmitted: what `analyze` reads from the packets, against what the kernel that sent them knew.

use std::collections::HashMap;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use diagnose::{Class, Mark, Record, Report};
use lab::{Config, Direction, Lab, Loss, Reorder, Side};
use libbpf_rs::{MapCore as _, ObjectBuilder, RingBufferBuilder};
use record::{Monotonic, Nanos, Realtime};

use crate::bench::{Dump, analysed, at_once, give, inside, join, lab, pause, segments, shaped, sysctls};
use crate::in_the_lab;

/// A retransmission as the kernel made it; the layout is `struct resend` of `retransmissions.bpf.c`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Resend {
    /// `CLOCK_MONOTONIC`, ns.
    at: u64,
    netns: u32,
    seq: u32,
    end: u32,
    /// Where the recovery ends.
    high_seq: u32,
    port: u16,
    /// `tcp_ca_state`.
    state: u16,
    _padding: u32,
}

/// The kernel's word on every retransmission, as long as this lives.
struct Truth {
    object: libbpf_rs::Object,
    _link: libbpf_rs::Link,
}

impl Truth {
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

    fn finish(self) -> Vec<Resend> {
        let all = Mutex::new(Vec::new());
        let map = self.object.maps().find(|m| m.name() == "resends").unwrap();
        let mut builder = RingBufferBuilder::new();
        let take = |bytes: &[u8]| {
            // SAFETY: the program writes whole records of this layout, of which every value is valid.
            let one = unsafe { bytes.as_ptr().cast::<Resend>().read_unaligned() };
            all.lock().unwrap().push(one);
            0
        };
        builder.add(&map, take).unwrap();
        builder.build().unwrap().consume().unwrap();
        all.into_inner().unwrap()
    }
}

/// The kernel's classes in our words. `retries` are one connection's, in order; `sack` says whether SACK is in use.
fn classes(resends: &[Resend], sack: bool) -> Vec<Class> {
    let mut recovery = None;
    let class = |r: &Resend| {
        let further = recovery == Some(r.high_seq);
        recovery = (r.state == 3).then_some(r.high_seq);
        match r.state {
            4 => Class::Timeout,
            3 if further && sack => Class::SackRecovery,
            3 => Class::Fast,
            // Neither in recovery nor in loss, the kernel retransmissions nothing but a probe.
            _ => Class::TailLossProbe,
        }
    };
    resends.iter().map(class).collect()
}

/// By truth, then by what was read; the last column holds what was not seen to be a retransmission.
type Matrix = [[u32; 7]; 5];

const TRUTHS: [Class; 4] = [Class::Timeout, Class::Fast, Class::SackRecovery, Class::TailLossProbe];

#[derive(Default)]
struct Score {
    matrix: Matrix,
    wrong: Vec<String>,
}

impl Score {
    /// Each retransmission of the capture meets the one of the kernel's that covers it and left nearest to `delay` before.
    /// Behind a lossy path (`all` is false) those that are not there were lost.
    fn add(&mut self, report: &Report, resends: &[Resend], sack: bool, delay: i64, all: bool) {
        let truth = classes(resends, sack);
        let row = |i: usize| TRUTHS.iter().position(|t| *t == truth[i]).unwrap();
        let mut seen = vec![false; resends.len()];
        let offset = clocks_apart();
        for r in report.records.iter().filter(|r| r.to_server) {
            let Mark::Resent(class) = r.mark else { continue };
            let left = r.segment.at.as_nanos() as i64 - delay - offset;
            let covers = |e: &Resend| r.segment.seq.0.wrapping_sub(e.seq) < e.end.wrapping_sub(e.seq);
            let nearest = (0..resends.len()).filter(|i| covers(&resends[*i]));
            let Some(i) = nearest.min_by_key(|i| (resends[*i].at as i64 - left).abs()) else {
                self.matrix[4][class as usize] += 1;
                self.wrong.push(format!("not retransmitted, read as {class:?}: {}", around(report, r)));
                continue;
            };
            seen[i] = true;
            self.matrix[row(i)][class as usize] += 1;
            if truth[i] != class {
                self.wrong.push(format!("{:?} read as {class:?}: {}", truth[i], around(report, r)));
            }
        }
        for i in (0..resends.len()).filter(|i| all && !seen[*i]) {
            self.matrix[row(i)][6] += 1;
            self.wrong.push(format!("{:?} not seen: {:?}", truth[i], resends[i]));
        }
    }

    fn print(&self, title: &str) {
        println!("{title}\n| truth | timeout | fast | SACK recovery | tail-loss probe | unclear | not seen |");
        for (name, row) in
            ["timeout", "fast", "SACK recovery", "tail-loss probe", "not retransmitted"].iter().zip(self.matrix)
        {
            println!("| {name} | {} | {} | {} | {} | {} | {} |", row[0], row[1], row[2], row[3], row[5], row[6]);
        }
        for line in self.wrong.iter().take(12) {
            println!("  {line}");
        }
    }

    fn total(&self) -> u32 {
        self.matrix.iter().flatten().sum()
    }

    fn right(&self) -> u32 {
        TRUTHS.iter().enumerate().map(|(row, class)| self.matrix[row][*class as usize]).sum()
    }
}

/// What came before a packet, for messages.
fn around(report: &Report, record: &Record) -> String {
    let n = report.records.iter().position(|r| r.segment.number == record.segment.number).unwrap();
    let line = |r: &Record| {
        let (ms, arrow) =
            ((r.segment.at.as_nanos() - report.start_ns) as f64 / 1e6, if r.to_server { ">" } else { "<" });
        let sacks: Vec<String> = r.segment.options.sack.as_slice().iter().map(|s| format!("{}-{}", s.0, s.1)).collect();
        format!("{ms:.2}{arrow}{}+{} a{} {}", r.segment.seq, r.segment.payload, r.segment.ack, sacks.join(","))
    };
    report.records[n.saturating_sub(6)..=n].iter().map(line).collect::<Vec<_>>().join(" | ")
}

/// `CLOCK_REALTIME` less `CLOCK_MONOTONIC`, ns.
fn clocks_apart() -> i64 {
    timestamping::conversion::<Monotonic, Realtime>().offset
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
    name: &'static str,
    netns: u32,
    sack: bool,
    delay_ms: i64,
    at_sender: Vec<Report>,
    at_receiver: Vec<Report>,
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

/// Runs a client `times` over the path `there`, which is whole while the handshake lasts, so that every retransmission is of data.
fn run(
    name: &'static str,
    there: &Direction,
    settings: &[(&str, &str)],
    times: usize,
    question: usize,
    client: impl Fn(&mut TcpStream) + Sync,
) -> Run {
    let began = Instant::now();
    let whole = Direction { loss: Loss::None, reorder: None, ..there.clone() };
    let lab = lab(&Config::symmetric(Direction { rate: None, queue: None, ..whole.clone() }));
    sysctls(&lab, Side::A, settings);
    let (at_sender, at_receiver) = (Dump::start(&lab, Side::A), Dump::start(&lab, Side::B));
    for _ in 0..times {
        lab.path().change(Side::A, &whole).unwrap();
        let one = |mut stream: TcpStream| {
            pause(30);
            lab.path().change(Side::A, there).unwrap();
            client(&mut stream);
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            let _ = stream.read(&mut [0; 1]);
        };
        join(&lab, Side::B.ipv4().into(), one, |mut stream| {
            // Answers each question of so many bytes with one.
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
    let of = |dump: Dump| analysed(&segments(dump.finish().path()));
    Run {
        name,
        took: began.elapsed(),
        netns: netns(&lab),
        sack: !settings.contains(&("tcp_sack", "0")),
        delay_ms: (there.delay.0 / 1_000_000) as i64,
        at_sender: of(at_sender),
        at_receiver: of(at_receiver),
        counters: COUNTERS.iter().map(|n| (*n, counter(&lab, Side::A, n))).collect(),
        twice: counter(&lab, Side::B, "TCPDSACKOldSent") + counter(&lab, Side::B, "TCPDSACKOfoSent"),
    }
}

/// Bytes of a question that is answered.
const QUESTION: usize = 12_345;

#[test]
fn classes_agree_with_the_kernel_that_resent() {
    in_the_lab!();
    tier::needs!(tier::Need::Program("clang"), tier::Need::Path("/sys/kernel/btf/vmlinux"));
    let truth = Truth::start();
    let runs = Mutex::new(Vec::new());
    let lossy = |loss: Loss| Direction { loss, ..shaped(10, 50, 200) };
    let bulk = |s: &mut TcpStream| give(s, 1_500_000);
    let questions = |s: &mut TcpStream| {
        for _ in 0..12 {
            give(s, QUESTION);
            s.read_exact(&mut [0; 1]).unwrap();
        }
    };
    // A bad state in which nothing at all gets through would last for as many of the timer's doublings.
    let bursts = |good_to_bad: f64, bad_to_good: f64| Loss::GilbertElliott {
        good_to_bad,
        bad_to_good,
        loss_in_good: 0.0,
        loss_in_bad: 0.8,
    };
    let keep = |run: Run| runs.lock().unwrap().push(run);
    let reordered = || Direction {
        reorder: Some(Reorder { share: 0.01, by: Nanos::from_millis(8) }),
        ..lossy(Loss::Independent(0.005))
    };
    // One or two segments behind the first: their loss leaves nothing that could bring a SACK.
    let short = |s: &mut TcpStream| {
        for _ in 0..40 {
            give(s, 3_500);
            s.read_exact(&mut [0; 1]).unwrap();
        }
    };
    at_once(&[
        &|| keep(run("tails, loss 10 %", &lossy(Loss::Independent(0.1)), &[], 2, 3_500, short)),
        &|| keep(run("loss 2 %", &lossy(Loss::Independent(0.02)), &[], 3, 0, bulk)),
        &|| keep(run("bursts", &lossy(bursts(0.006, 0.25)), &[], 3, 0, bulk)),
        &|| keep(run("reordering and loss", &reordered(), &[], 3, 0, bulk)),
        &|| keep(run("short questions, loss 8 %", &lossy(Loss::Independent(0.08)), &[], 4, QUESTION, questions)),
        &|| keep(run("bursts on short questions", &lossy(bursts(0.03, 0.6)), &[], 2, QUESTION, questions)),
        &|| keep(run("no SACK, loss 1 %", &lossy(Loss::Independent(0.01)), &[("tcp_sack", "0")], 3, 0, bulk)),
        &|| {
            keep(run(
                "no probes, loss 6 %",
                &lossy(Loss::Independent(0.06)),
                &[("tcp_early_retrans", "0")],
                4,
                QUESTION,
                questions,
            ));
        },
    ]);
    let truth = truth.finish();
    let (mut sender, mut receiver) = (Score::default(), Score::default());
    let mut spurious = (0, 0);
    for run in runs.into_inner().unwrap() {
        let mut one = Score::default();
        let mut count = 0;
        for (a, b) in run.at_sender.iter().zip(&run.at_receiver) {
            assert_eq!(a.client, b.client);
            let of_it = |r: &&Resend| r.netns == run.netns && r.port == a.client.port();
            let resends: Vec<Resend> = truth.iter().filter(of_it).copied().collect();
            count += resends.len();
            one.add(a, &resends, run.sack, 0, true);
            sender.add(a, &resends, run.sack, 0, true);
            receiver.add(b, &resends, run.sack, run.delay_ms * 1_000_000, false);
            spurious.0 += a.to_server.spurious_resends;
        }
        spurious.1 += run.twice;
        one.print(&format!("\n{} ({count} retransmissions, {:.1} s)", run.name, run.took.as_secs_f64()));
        println!("  kernel: {:?}, received twice {}", run.counters, run.twice);
        // A frame of the kernel's may hold several segments; its counters count these.
        let of = |name: &str| run.counters[name];
        assert!(count as u64 <= of("RetransSegs"), "{}: {count} seen, {} counted", run.name, of("RetransSegs"));
        let (timeout, quick) = (one.matrix[0].iter().sum::<u32>(), one.matrix[1..3].iter().flatten().sum::<u32>());
        assert!(u64::from(timeout) <= of("TCPTimeouts") + of("TCPSlowStartRetrans"), "{}: {timeout}", run.name);
        assert!(u64::from(quick) <= of("TCPFastRetrans"), "{}: {quick}", run.name);
    }
    sender.print("\ncaptured at the sender");
    receiver.print("\ncaptured at the receiver");
    println!("needless by DSACK or Eifel {}, received twice {}", spurious.0, spurious.1);
    assert!(spurious.0 + 3 >= spurious.1 as u32, "what came twice was sent needlessly");

    assert!(sender.total() >= 150, "{} retransmissions are too few to score", sender.total());
    assert!(sender.right() * 100 >= sender.total() * 94, "{} of {}", sender.right(), sender.total());
    assert!(receiver.right() * 100 >= receiver.total() * 85, "{} of {}", receiver.right(), receiver.total());
    for (score, least) in [(&sender, 85), (&receiver, 75)] {
        for (row, class) in TRUTHS.iter().enumerate() {
            let all: u32 = score.matrix[row].iter().sum();
            // A probe and the timer cannot be distinguished where but one segment was out; with few, one mistake is many per cent.
            let few = all < 20 || *class == Class::TailLossProbe;
            assert!(
                few || score.matrix[row][*class as usize] * 100 >= all * least,
                "{class:?}: {:?}",
                score.matrix[row]
            );
        }
        let strange = score.matrix[4].iter().sum::<u32>() + score.matrix.iter().map(|r| r[6]).sum::<u32>();
        assert!(strange * 50 <= score.total(), "{strange} retransmissions on one side only");
    }
}
