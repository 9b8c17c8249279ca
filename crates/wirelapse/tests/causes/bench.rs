//! Connections over a lab path, captured by tcpdump and analysed.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use diagnose::{Finding, Follower, Keep, Limit, Options, Report};
use lab::{BitRate, Config, Depth, Direction, Lab, Side};
use record::Nanos;
use wire::{Capture, Packet, Reassembly, Segment, dissect};

use crate::tcpdump::Tcpdump;

/// What every test here needs.
#[macro_export]
macro_rules! in_the_lab {
    () => {
        tier::needs!(tier::Need::Root, tier::Need::Path("/dev/net/tun"), tier::Need::Program("tcpdump"))
    };
}

/// A direction with `ms` of delay and nothing else.
pub fn delayed(ms: u64) -> Direction {
    Direction { delay: Nanos::from_millis(ms), ..Direction::default() }
}

/// A direction with a rate and a queue of so much time.
pub fn shaped(ms: u64, mbit: u32, queue_ms: u64) -> Direction {
    Direction { rate: Some(BitRate::mbit(mbit)), queue: Some(Depth::Time(Nanos::from_millis(queue_ms))), ..delayed(ms) }
}

/// A lab whose path delays each way by `ms`.
pub fn path(ms: u64) -> Lab {
    uneven(delayed(ms), ms)
}

/// A lab with this way from a to b, and a plain one of `ms` back.
pub fn uneven(there: Direction, ms: u64) -> Lab {
    lab(&Config { a_to_b: there, ..Config::symmetric(delayed(ms)) })
}

/// A lab whose hosts use Reno, whatever the machine's default is: every kernel lets a namespace
/// choose it. The server's buffer holds what a reader on a busy machine leaves there.
pub fn lab(config: &Config) -> Lab {
    let lab = Lab::up(config).unwrap();
    sysctls(&lab, Side::B, &[("tcp_rmem", "4096 6291456 6291456")]);
    Side::ALL.into_iter().for_each(|side| sysctls(&lab, side, &[("tcp_congestion_control", "reno")]));
    lab
}

pub fn sysctls(lab: &Lab, side: Side, settings: &[(&str, &str)]) {
    for (name, value) in settings {
        lab.host(side).set_sysctl(&format!("net.ipv4.{name}"), value).unwrap();
    }
}

/// Runs a program inside a host; gives what it prints.
pub fn inside(lab: &Lab, side: Side, program: &str, args: &str) -> String {
    let mut command = tier::limit(lab.host(side).command(program).unwrap());
    let out = command.args(args.split_whitespace()).output().unwrap();
    assert!(out.status.success(), "{program} {args}: {}", tier::text(&out.stderr));
    String::from_utf8(out.stdout).unwrap()
}

/// tcpdump in a host.
pub struct Dump {
    tcpdump: Tcpdump,
    file: tempfile::NamedTempFile,
}

impl Dump {
    pub fn start(lab: &Lab, side: Side) -> Self {
        Self::of_bytes(lab, side, "128")
    }

    /// Keeps so many bytes of each packet.
    pub fn of_bytes(lab: &Lab, side: Side, kept: &str) -> Self {
        let file = tempfile::Builder::new().suffix(".pcap").tempfile().unwrap();
        let mut command = tier::limit(lab.host(side).command("tcpdump").unwrap());
        command.args(["-Z", "root", "-U", "--immediate-mode", "-s", kept, "-B", "8192", "-i", lab::INTERFACE]);
        command.args(["--time-stamp-precision=nano", "-w"]).arg(file.path()).arg("tcp");
        Self { tcpdump: Tcpdump::start(command), file }
    }

    /// Ends it once nothing more comes, and vouches that no packet is missing.
    pub fn finish(self) -> tempfile::NamedTempFile {
        self.tcpdump.finish();
        self.file
    }
}

/// The segments of a capture.
pub fn segments(file: &Path) -> Vec<Segment> {
    let bytes = std::fs::read(file).unwrap();
    let mut capture = Capture::from_bytes(&bytes).unwrap();
    let (mut reassembly, mut all) = (Reassembly::new(), Vec::new());
    while let Some(frame) = capture.next_frame().unwrap() {
        if let Ok(Packet::Tcp(segment)) = dissect(&frame, &mut reassembly) {
            all.push(segment);
        }
    }
    all
}

/// The connections of a capture.
pub fn analysed<'a>(segments: impl IntoIterator<Item = &'a Segment>) -> Vec<Report> {
    let keep = Keep::First(1_000, 200_000);
    let mut follower = Follower::new(Options { keep, ..Options::default() });
    segments.into_iter().for_each(|s| follower.take(s));
    let reports: Vec<Report> = follower.reports().collect();
    for r in &reports {
        assert_eq!(r.contradiction(), None);
    }
    reports
}

/// A connection that was captured, and what is said of it.
pub struct Seen {
    pub file: tempfile::NamedTempFile,
    pub report: Report,
}

/// One side's part in a connection.
pub trait Part: FnOnce(TcpStream) + Send {}
impl<T: FnOnce(TcpStream) + Send> Part for T {}

/// Runs `client` in host a against `server` in host b, with tcpdump in `at`.
pub fn captured_at(lab: &Lab, at: Side, client: impl Part, server: impl Part) -> Seen {
    let dump = Dump::start(lab, at);
    let address = join(lab, lab.host(Side::B).ipv4().into(), client, server);
    Seen::of(dump.finish(), address)
}

/// The same with tcpdump at the client, which sends most in these tests.
pub fn captured(lab: &Lab, client: impl Part, server: impl Part) -> Seen {
    captured_at(lab, Side::A, client, server)
}

/// A connection from host a to `address` of host b, without a capture itself. Gives the client's
/// end of it, once it is closed on both sides or the path has kept it from that for some seconds.
pub fn join(lab: &Lab, address: IpAddr, client: impl Part, server: impl Part) -> SocketAddr {
    let listener = lab.host(Side::B).run(|| TcpListener::bind(SocketAddr::new(address, 0)).unwrap()).unwrap();
    let address = listener.local_addr().unwrap();
    let patient = |stream: TcpStream| {
        // A test that goes wrong ends.
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream.set_write_timeout(Some(Duration::from_secs(30))).unwrap();
        stream
    };
    let own = thread::scope(|scope| {
        let served = scope.spawn(|| {
            at_once_when_woken();
            server(patient(listener.accept().unwrap().0));
        });
        let asked = scope.spawn(|| {
            let stream = lab.host(Side::A).run(|| TcpStream::connect(address).unwrap()).unwrap();
            let own = stream.local_addr().unwrap();
            at_once_when_woken();
            client(patient(stream));
            own
        });
        let own = asked.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        served.join().unwrap();
        own
    });
    let until = Instant::now() + Duration::from_secs(3);
    while Side::ALL.into_iter().any(|side| is_open(lab, side, own)) && Instant::now() < until {
        pause(10);
    }
    own
}

/// Lets this thread go before every ordinary one: an application that a busy machine keeps waiting
/// is a slow application, and `analyze` says so. Before the path's threads as well (priority 1),
/// which may hand over many packets in one go. Where it is not allowed, the machine must not be
/// busy.
fn at_once_when_woken() {
    let priority = libc::sched_param { sched_priority: 2 };
    // SAFETY: the parameter is read alone, and 0 is the calling thread.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &raw const priority) };
}

/// Whether the connection of this client's end has packets to come as far as this host knows.
fn is_open(lab: &Lab, side: Side, client: SocketAddr) -> bool {
    let file = if client.is_ipv4() { "/proc/thread-self/net/tcp" } else { "/proc/thread-self/net/tcp6" };
    let table = lab.host(side).run(|| std::fs::read_to_string(file).unwrap()).unwrap();
    let port = format!(":{:04X}", client.port());
    // Number, local end, remote end, state: 06 is TIME_WAIT.
    table.lines().any(|line| {
        let fields: Vec<&str> = line.split_whitespace().take(4).collect();
        let [_, local, remote, state] = fields[..] else { return false };
        let end = if side == Side::A { local } else { remote };
        end.ends_with(&port) && state != "06"
    })
}

impl Seen {
    /// The connection that has this address at one of its ends.
    pub fn of(file: tempfile::NamedTempFile, address: SocketAddr) -> Self {
        let all = analysed(&segments(file.path()));
        let report = all.into_iter().find(|r| r.client == address || r.server == address);
        Self { file, report: report.unwrap_or_else(|| panic!("no connection of {address} in the capture")) }
    }

    pub fn find(&self, kind: &str) -> Option<&Finding> {
        assert!(diagnose::FindingKind::from_name(kind).is_some(), "there is no finding {kind}");
        self.report.findings.iter().find(|f| f.kind.name() == kind)
    }

    /// The finding, which must be there with its evidence.
    #[track_caller]
    pub fn must(&self, kind: &str) -> &Finding {
        let finding = self.find(kind).unwrap_or_else(|| panic!("no {kind}\n{}", self.account()));
        let all = self.report.records.iter().map(|r| r.segment.number).collect::<Vec<_>>();
        assert!(finding.packets.iter().all(|n| all.contains(n)), "{finding:?} rests on packets of others");
        assert!(kind == "capture_incomplete" || !finding.packets.is_empty(), "{finding:?} rests on nothing");
        finding
    }

    #[track_caller]
    pub fn must_not(&self, kinds: &[&str]) {
        for kind in kinds {
            assert!(self.find(kind).is_none(), "{kind} is drawn\n{}", self.account());
        }
    }

    /// This limit has the largest share, and at least so much of the duration.
    #[track_caller]
    pub fn mostly(&self, limit: Limit, least: f64) {
        let share = self.share(limit);
        assert!(self.report.limits.largest() == limit && share >= least, "{limit:?} {share:.2}\n{}", self.account());
    }

    pub fn share(&self, limit: Limit) -> f64 {
        self.report.limits.of(limit).0 as f64 / self.report.duration_ns.0.max(1) as f64
    }

    /// For messages. Where the environment names a folder in `KEEP_CAPTURES`, the capture is copied
    /// there to be looked at.
    pub fn account(&self) -> String {
        if let Some(folder) = std::env::var_os("KEEP_CAPTURES") {
            let name = thread::current().name().unwrap_or("?").replace([':', ' '], "_") + ".pcap";
            std::fs::copy(self.file.path(), Path::new(&folder).join(name)).unwrap();
        }
        let r = &self.report;
        let findings: Vec<String> =
            r.findings.iter().map(|f| format!("{} ×{} {}: {}", f.kind, f.count, f.cost_ns, f.text)).collect();
        let shares = Limit::ALL.map(|l| format!("{l:?} {:.2}", self.share(l)));
        let direction = |d: &diagnose::Direction| {
            let (flight, window, rtt) = (d.max_in_flight, d.max_window, d.rtt.median_ns);
            format!("{} packets, {:?}, flight {flight}, window {window}, RTT {rtt:?}", d.packets, d.retransmissions)
        };
        format!(
            "{}, {}\n{}\n{}\nto server {}\nto client {}",
            r.duration_ns,
            r.verdict,
            shares.join(", "),
            findings.join("\n"),
            direction(&r.to_server),
            direction(&r.to_client)
        )
    }
}

/// Writes so many bytes as fast as they go, then closes.
pub fn send(bytes: usize) -> impl Part {
    move |mut stream| give(&mut stream, bytes)
}

pub fn give(stream: &mut TcpStream, bytes: usize) {
    let chunk = vec![0; 64 << 10];
    let mut left = bytes;
    while left > 0 {
        let n = left.min(chunk.len());
        stream.write_all(&chunk[..n]).unwrap();
        left -= n;
    }
}

/// Reads to the end.
pub fn drain(mut stream: TcpStream) {
    let mut buffer = vec![0; 256 << 10];
    while stream.read(&mut buffer).unwrap_or(0) > 0 {}
}

/// Asks `turns` times with `ask` bytes, in one write each, and waits for `answer` bytes.
pub fn ask(turns: usize, ask: usize, answer: usize) -> impl Part {
    move |mut stream| {
        stream.set_nodelay(true).unwrap();
        for _ in 0..turns {
            stream.write_all(&vec![1; ask]).unwrap();
            stream.read_exact(&mut vec![0; answer]).unwrap();
        }
    }
}

/// Answers every `ask` bytes with `answer`.
pub fn answer(ask: usize, answer: usize) -> impl Part {
    move |mut stream| {
        stream.set_nodelay(true).unwrap();
        let mut question = vec![0; ask];
        while stream.read_exact(&mut question).is_ok() {
            if stream.write_all(&vec![2; answer]).is_err() {
                break;
            }
        }
    }
}

pub fn pause(ms: u64) {
    thread::sleep(Duration::from_millis(ms));
}

/// Runs all at once, each on a thread itself: they mostly wait.
pub fn at_once(scenes: &[&(dyn Fn() + Sync)]) {
    let name = thread::current().name().unwrap_or("?").to_owned();
    thread::scope(|scope| {
        let running: Vec<_> = scenes
            .iter()
            .enumerate()
            .map(|(i, scene)| thread::Builder::new().name(format!("{name} {}", i + 1)).spawn_scoped(scope, scene))
            .collect();
        for scene in running {
            if let Err(panic) = scene.unwrap().join() {
                std::panic::resume_unwind(panic);
            }
        }
    });
}
