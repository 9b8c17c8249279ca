//! How the workloads compare with their peers, interleaved:
//! `peers stream|streams|udp|rr loopback|veth|path [ROUNDS]`.
//!
//! A bulk transfer of one stream, of four, and of datagrams of 64 bytes against iperf3 (goodput,
//! and CPU seconds a gigabyte of the client's and the server's process together), 14 bytes each way
//! (sockperf's smallest message) against sockperf and qperf (transactions a second; round trips and
//! CPU time a transaction beside sockperf's). There clients run on the first CPU and servers on the
//! second, whoever's they are: left to the scheduler, an exchange of ten microseconds is twice as
//! fast or as slow by where the two happen to meet. Each round runs every contestant once, in an
//! order that turns with the rounds; what is printed is the median of the rounds' ratios with its
//! distribution-free interval (second lowest to second highest of nine: 96 %). A run that fails is
//! reported and its round excluded.

use std::io::Read as _;
use std::ops::ControlFlow;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use clock::Nanos;
use lab::{BitRate, Config, Direction, Lab, Side};
use traffic::{Server, ServerConfig, rr, stream};

type Failure = Box<dyn std::error::Error>;

/// Seconds of one run.
const SECONDS: u64 = 2;
/// The first run's port; each has its own, so that none finds what the one before left.
const PORT: u16 = 15_201;

/// What a run is of.
struct Run<'a> {
    place: &'a Place,
    port: u16,
    /// Whether client and server are held to a CPU each.
    pinned: bool,
}

/// Where server and client run: on loopback, in two namespaces joined by a veth, or in a lab with a
/// path of 1 Gbit/s.
struct Place {
    server: &'static str,
    names: Option<(String, String)>,
    lab: Option<Lab>,
    port: std::cell::Cell<u16>,
}

impl Place {
    fn new(name: &str) -> Result<Self, Failure> {
        let port = std::cell::Cell::new(PORT);
        if name == "loopback" {
            return Ok(Self { server: "127.0.0.1", names: None, lab: None, port });
        }
        if name == "path" {
            let way = Direction { rate: Some(BitRate::mbit(1_000)), ..Direction::default() };
            let lab = Lab::up(&Config { a_to_b: way.clone(), b_to_a: way, ..Config::default() })?;
            return Ok(Self { server: "10.77.0.2", names: None, lab: Some(lab), port });
        }
        let id = std::process::id();
        let (a, b) = (format!("peers{id}a"), format!("peers{id}b"));
        let place = Self { server: "10.99.0.1", names: Some((a.clone(), b.clone())), lab: None, port };
        for command in [
            format!("netns add {a}"),
            format!("netns add {b}"),
            format!("-n {a} link add veth0 type veth peer name veth0 netns {b}"),
            format!("-n {a} address add 10.99.0.1/24 dev veth0"),
            format!("-n {b} address add 10.99.0.2/24 dev veth0"),
            format!("-n {a} link set veth0 up"),
            format!("-n {b} link set veth0 up"),
        ] {
            let done = Command::new("ip").args(command.split(' ')).status()?;
            if !done.success() {
                return Err(format!("ip {command}: {done}").into());
            }
        }
        Ok(place)
    }

    /// A free port for each call.
    fn next(&self, pinned: bool) -> Run<'_> {
        let port = self.port.get();
        self.port.set(port + 1);
        Run { place: self, port, pinned }
    }

    fn command(&self, at_server: bool, program: &str, args: &[&str]) -> Result<Command, Failure> {
        let mut command = match (&self.lab, &self.names) {
            (Some(lab), _) => lab.host(if at_server { Side::B } else { Side::A }).command(program)?,
            (None, None) => Command::new(program),
            (None, Some((a, b))) => {
                let mut command = Command::new("ip");
                command.args(["netns", "exec", if at_server { a } else { b }, program]);
                command
            }
        };
        command.args(args).stdin(Stdio::null()).stderr(Stdio::null());
        Ok(command)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some((a, b)) = &self.names {
            for name in [a, b] {
                Command::new("ip").args(["netns", "delete", name]).status().ok();
            }
        }
    }
}

/// CPU seconds of a child that has ended.
fn reap(child: &Child) -> f64 {
    // SAFETY: rusage is plain integers, for which zero is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: waits for our own child and writes into a live rusage; a status is not asked for.
    unsafe { libc::wait4(child.id().cast_signed(), std::ptr::null_mut(), 0, &raw mut usage) };
    let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

impl Run<'_> {
    fn command(&self, at_server: bool, program: &str, args: &[&str]) -> Result<Command, Failure> {
        if !self.pinned {
            return self.place.command(at_server, program, args);
        }
        let processor = if at_server { "1" } else { "0" };
        self.place.command(at_server, "taskset", &[&["-c", processor, program], args].concat())
    }

    /// Waits until somebody listens on the port.
    fn listening(&self, serving: &mut Child) -> Result<(), Failure> {
        for _ in 0..500 {
            let filter = format!("sport = :{}", self.port);
            let found = self.place.command(true, "ss", &["-Htln", &filter])?.output()?;
            if !found.stdout.is_empty() {
                return Ok(());
            }
            if let Some(status) = serving.try_wait()? {
                return Err(format!("the server ended at once: {status}").into());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Err(format!("no program listens on port {} after ten seconds", self.port).into())
    }

    /// Runs a server and a client of it; gives what the client printed, and the CPU seconds of
    /// both.
    fn pair(&self, server: (&str, &[&str]), client: (&str, &[&str])) -> Result<(String, f64), Failure> {
        let mut serving = self.command(true, server.0, server.1)?.stdout(Stdio::null()).spawn()?;
        let measured = self.listening(&mut serving).and_then(|()| {
            let mut running = self.command(false, client.0, client.1)?.stdout(Stdio::piped()).spawn()?;
            let mut text = String::new();
            running.stdout.take().ok_or("no output")?.read_to_string(&mut text)?;
            Ok((text, reap(&running)))
        });
        // Those that serve for ever are ended; iperf3 -1 and ours are done by then.
        std::thread::sleep(Duration::from_millis(100));
        // By a signal that a lab's supervisor of the program hands on, so that its CPU time is
        // reported. SAFETY: a signal to our own child, which has not been waited for unless it
        // ended by itself.
        unsafe { libc::kill(serving.id().cast_signed(), libc::SIGTERM) };
        let cpu = reap(&serving);
        measured.map(|(text, client)| (text, client + cpu))
    }

    /// Bits a second, and CPU seconds a gigabyte.
    fn transfer(&self, what: &str, ours: bool) -> Result<(f64, f64), Failure> {
        let (port, seconds, server) = (self.port.to_string(), SECONDS.to_string(), self.place.server);
        let me = std::env::current_exe()?.display().to_string();
        let (text, cpu) = if ours {
            self.pair((&me, &["serve", server, &port]), (&me, &["client", what, server, &port]))?
        } else {
            let more: &[&str] = match what {
                "streams" => &["-P", "4"],
                "udp" => &["-u", "-b", "0", "-l", "64"],
                _ => &[],
            };
            let client = [&["-c", server, "-p", &port, "-t", &seconds, "--json"], more].concat();
            self.pair(("iperf3", &["-s", "-1", "-p", &port]), ("iperf3", &client))?
        };
        let json: serde_json::Value = serde_json::from_str(&text).map_err(|e| format!("{e}: {text}"))?;
        let end = &json["end"];
        let received = if what == "udp" { &end["sum"] } else { &end["sum_received"] };
        let (rate, bytes) = (received["bits_per_second"].as_f64(), received["bytes"].as_f64());
        let (rate, bytes) = rate.zip(bytes).ok_or_else(|| format!("no result in {text}"))?;
        // Of datagrams the sum is what was sent.
        let came = 1.0 - if what == "udp" { received["lost_percent"].as_f64().unwrap_or(0.0) / 100.0 } else { 0.0 };
        Ok((rate * came, cpu / (bytes * came) * 1e9))
    }

    /// Exchanges of 14 bytes each way.
    fn transactions(&self, peer: &str) -> Result<Exchanges, Failure> {
        let (port, seconds, server) = (self.port.to_string(), SECONDS.to_string(), self.place.server);
        let me = std::env::current_exe()?.display().to_string();
        let number = |text: &str, before: &str| -> Result<f64, Failure> {
            let rest = text.split(before).nth(1).ok_or_else(|| format!("no {before:?} in {text}"))?;
            let digits: String =
                rest.trim_start_matches([' ', '=']).chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
            Ok(digits.parse()?)
        };
        match peer {
            "sockperf" => {
                let serve = ["server", "--tcp", "-i", server, "-p", &port];
                let client = ["ping-pong", "--tcp", "-i", server, "-p", &port, "-t", &seconds, "-m", "14"];
                let (text, cpu) = self.pair(("sockperf", &serve), ("sockperf", &client))?;
                let messages = number(&text, "ReceivedMessages=")?;
                // It gives halves of round trips, in microseconds.
                let percentile = |share| Ok::<_, Failure>(2.0 * number(&text, share)?);
                let round_trips = [percentile("percentile 50.000")?, percentile("percentile 99.000")?];
                let per_second = messages / number(&text, "RunTime=")?;
                Ok(Exchanges { per_second, round_trips_us: round_trips, cpu_us: cpu / messages * 1e6 })
            }
            "qperf" => {
                let client = [server, "-lp", &port, "-t", &seconds, "-m", "14", "-v", "-uu", "tcp_lat"];
                let (text, _) = self.pair(("qperf", &["-lp", &port]), ("qperf", &client))?;
                // It gives half a round trip, in whole nanoseconds with -uu.
                let latency = number(&text, "latency")?;
                let to_ns = if text.contains(" us") { 1e3 } else { 1.0 };
                let round_trip = 2.0 * latency * to_ns;
                Ok(Exchanges { per_second: 1e9 / round_trip, round_trips_us: [f64::NAN; 2], cpu_us: f64::NAN })
            }
            _ => {
                let client = ["client", "rr", server, &port];
                let (text, cpu) = self.pair((&me, &["serve", server, &port]), (&me, &client))?;
                let figures: Vec<f64> = text.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
                let [transactions, per_second, p50, p99] = figures[..] else {
                    return Err(format!("no result in {text}").into());
                };
                Ok(Exchanges { per_second, round_trips_us: [p50, p99], cpu_us: cpu / transactions * 1e6 })
            }
        }
    }
}

/// What an exchange of small messages takes.
#[derive(Clone, Copy)]
struct Exchanges {
    per_second: f64,
    /// The median and p99.
    round_trips_us: [f64; 2],
    /// CPU time of both processes for each, from their start to their end.
    cpu_us: f64,
}

/// The median of the ratios, and its interval.
fn show(what: &str, mut ratios: Vec<f64>, ours: f64, theirs: f64, unit: &str) {
    ratios.sort_by(f64::total_cmp);
    let n = ratios.len();
    let edge = usize::from(n >= 9);
    println!(
        "{what:<44} {:.3} [{:.3}, {:.3}]  n = {n}, medians {ours:.4} and {theirs:.4} {unit}",
        ratios[n / 2],
        ratios[edge],
        ratios[n - 1 - edge]
    );
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() -> Result<(), Failure> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words[..] {
        ["serve", address, port] => {
            let _server = Server::start(ServerConfig::new(format!("{address}:{port}").parse()?))?;
            // Until the one that started this kills it, and no longer than any run takes.
            std::thread::sleep(Duration::from_secs(60));
            Ok(())
        }
        ["client", what, address, port] => client(what, &format!("{address}:{port}")),
        [what @ ("stream" | "streams" | "udp" | "rr"), place @ ("loopback" | "veth" | "path"), ref rest @ ..] => {
            let rounds: usize = rest.first().map_or(Ok(9), |r| r.parse())?;
            let place = Place::new(place)?;
            if what == "rr" { round_trips(&place, rounds.max(1)) } else { transfers(&place, what, rounds.max(1)) }
        }
        _ => Err("peers stream|streams|udp|rr loopback|veth|path [ROUNDS]".into()),
    }
}

fn client(what: &str, server: &str) -> Result<(), Failure> {
    let server: std::net::SocketAddr = server.parse()?;
    let duration = Nanos::from_secs(SECONDS);
    if what != "rr" {
        let mut config = stream::Config { duration, ..stream::Config::new(server) };
        match what {
            "streams" => config.flows = 4,
            "udp" => (config.udp, config.write_bytes, config.pace_bits_per_second) = (true, 64, Some(0)),
            _ => {}
        }
        let outcome = stream::run(&config, &mut |_| ControlFlow::Continue(()))?;
        println!("{}", stream::iperf3_report(&config, &outcome));
    } else {
        // As many bytes as sockperf's smallest message.
        let exchange = rr::Exchange { request_bytes: 14, response_bytes: 14, ..rr::Config::new(server).exchange };
        let mut config = rr::Config { duration, exchange, ..rr::Config::new(server) };
        config.target.options.nodelay = Some(true);
        let outcome = rr::run(&config, &mut |_| ControlFlow::Continue(()))?;
        let [p50, p99] = [outcome.latency.p50, outcome.latency.p99].map(|time| time.0 as f64 / 1e3);
        println!("{} {} {p50} {p99}", outcome.transactions, outcome.transactions_per_second);
    }
    Ok(())
}

/// Every contestant once a round, in an order that turns; a round in which one failed is reported
/// and excluded.
fn rounds<const N: usize, T>(
    rounds: usize,
    mut run: impl FnMut(usize) -> Result<T, Failure>,
) -> Result<[Vec<T>; N], Failure> {
    let mut all: [Vec<T>; N] = std::array::from_fn(|_| Vec::new());
    for round in 0..rounds {
        let mut results: [Option<T>; N] = std::array::from_fn(|_| None);
        for turn in 0..N {
            let which = (round + turn) % N;
            match run(which) {
                Ok(result) => results[which] = Some(result),
                Err(why) => println!("round {round} excluded: contestant {which}: {why}"),
            }
        }
        if results.iter().all(Option::is_some) {
            all.iter_mut().zip(results).for_each(|(all, result)| all.extend(result));
        }
    }
    if all[0].is_empty() { Err("no round was whole".into()) } else { Ok(all) }
}

fn transfers(place: &Place, what: &str, n: usize) -> Result<(), Failure> {
    let [ours, theirs] = rounds(n, |which| place.next(false).transfer(what, which == 0))?;
    let beside = |name: &str, of: fn(&(f64, f64)) -> f64, unit: &str| {
        let ratios = ours.iter().zip(&theirs).map(|(a, b)| of(a) / of(b)).collect();
        let [mine, peer] = [&ours, &theirs].map(|all| median(all.iter().map(of)));
        show(&format!("{what}: {name}, ours over iperf3"), ratios, mine, peer, unit);
    };
    beside("goodput", |r| r.0 / 1e9, "Gbit/s");
    beside("CPU a byte", |r| r.1, "s/GB");
    Ok(())
}

fn round_trips(place: &Place, n: usize) -> Result<(), Failure> {
    let names = ["ours", "sockperf", "qperf"];
    let all: [Vec<Exchanges>; 3] = rounds(n, |which| place.next(true).transactions(names[which]))?;
    let beside = |peer: usize, name: &str, of: fn(&Exchanges) -> f64, unit: &str| {
        let ratios = all[0].iter().zip(&all[peer]).map(|(a, b)| of(a) / of(b)).collect();
        let [mine, theirs] = [0, peer].map(|which: usize| median(all[which].iter().map(of)));
        show(&format!("rr: {name}, ours over {}", names[peer]), ratios, mine, theirs, unit);
    };
    beside(1, "transactions", |e| e.per_second, "a second");
    beside(2, "transactions", |e| e.per_second, "a second");
    beside(1, "median round trip", |e| e.round_trips_us[0], "µs");
    beside(1, "p99 round trip", |e| e.round_trips_us[1], "µs");
    beside(1, "CPU a transaction", |e| e.cpu_us, "µs");
    Ok(())
}
