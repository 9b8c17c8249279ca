//! How the workloads compare with their peers, interleaved:
//! `peers stream|rr loopback|veth|path [ROUNDS]`.
//!
//! A bulk transfer against iperf3 (goodput, and CPU seconds a gigabyte of the client's and the
//! server's process together), 14 bytes each way (sockperf's smallest message) against sockperf and
//! qperf (transactions a second). There clients run on the first CPU and servers on the second,
//! whoever's they are: left to the scheduler, an exchange of ten microseconds is twice as fast or
//! as slow by where the two happen to meet. Each round runs every contestant once, in an order that
//! turns with the rounds; what is printed is the median of the rounds' ratios with its
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
    fn transfer(&self, ours: bool) -> Result<(f64, f64), Failure> {
        let (port, seconds, server) = (self.port.to_string(), SECONDS.to_string(), self.place.server);
        let me = std::env::current_exe()?.display().to_string();
        let (text, cpu) = if ours {
            self.pair((&me, &["serve", server, &port]), (&me, &["client", "stream", server, &port]))?
        } else {
            let client = ["-c", server, "-p", &port, "-t", &seconds, "--json"];
            self.pair(("iperf3", &["-s", "-1", "-p", &port]), ("iperf3", &client))?
        };
        let json: serde_json::Value = serde_json::from_str(&text).map_err(|e| format!("{e}: {text}"))?;
        let received = &json["end"]["sum_received"];
        let (rate, bytes) = (received["bits_per_second"].as_f64(), received["bytes"].as_f64());
        let (rate, bytes) = rate.zip(bytes).ok_or_else(|| format!("no result in {text}"))?;
        Ok((rate, cpu / bytes * 1e9))
    }

    /// Transactions a second of 14 bytes each way.
    fn transactions(&self, peer: &str) -> Result<f64, Failure> {
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
                let (text, _) = self.pair(("sockperf", &serve), ("sockperf", &client))?;
                Ok(number(&text, "ReceivedMessages=")? / number(&text, "RunTime=")?)
            }
            "qperf" => {
                let client = [server, "-lp", &port, "-t", &seconds, "-m", "14", "-v", "-uu", "tcp_lat"];
                let (text, _) = self.pair(("qperf", &["-lp", &port]), ("qperf", &client))?;
                // It gives half a round trip, in whole nanoseconds with -uu.
                let latency = number(&text, "latency")?;
                let to_ns = if text.contains(" us") { 1e3 } else { 1.0 };
                Ok(1e9 / (2.0 * latency * to_ns))
            }
            _ => {
                let client = ["client", "rr", server, &port];
                let (text, _) = self.pair((&me, &["serve", server, &port]), (&me, &client))?;
                Ok(text.trim().parse().map_err(|e| format!("{e}: {text}"))?)
            }
        }
    }
}

/// The median of the ratios, and its interval.
fn show(what: &str, mut ratios: Vec<f64>, ours: f64, theirs: f64, unit: &str) {
    ratios.sort_by(f64::total_cmp);
    let n = ratios.len();
    let edge = usize::from(n >= 9);
    println!(
        "{what:<34} {:.3} [{:.3}, {:.3}]  n = {n}, medians {ours:.4} and {theirs:.4} {unit}",
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
        [what @ ("stream" | "rr"), place @ ("loopback" | "veth" | "path"), ref rest @ ..] => {
            let rounds: usize = rest.first().map_or(Ok(9), |r| r.parse())?;
            let place = Place::new(place)?;
            if what == "stream" { streams(&place, rounds.max(1)) } else { round_trips(&place, rounds.max(1)) }
        }
        _ => Err("peers stream|rr loopback|veth|path [ROUNDS]".into()),
    }
}

fn client(what: &str, server: &str) -> Result<(), Failure> {
    let server: std::net::SocketAddr = server.parse()?;
    let duration = Nanos::from_secs(SECONDS);
    if what == "stream" {
        let config = stream::Config { duration, ..stream::Config::new(server) };
        let outcome = stream::run(&config, &mut |_| ControlFlow::Continue(()))?;
        println!("{}", stream::iperf3_report(&config, &outcome));
    } else {
        // As many bytes as sockperf's smallest message.
        let exchange = rr::Exchange { request_bytes: 14, response_bytes: 14, ..rr::Config::new(server).exchange };
        let mut config = rr::Config { duration, exchange, ..rr::Config::new(server) };
        config.target.options.nodelay = Some(true);
        println!("{}", rr::run(&config, &mut |_| ControlFlow::Continue(()))?.transactions_per_second);
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

fn streams(place: &Place, n: usize) -> Result<(), Failure> {
    let [ours, theirs] = rounds(n, |which| place.next(false).transfer(which == 0))?;
    let pairs = || ours.iter().zip(&theirs);
    let of = |v: &[(f64, f64)], f: fn(&(f64, f64)) -> f64| median(v.iter().map(f));
    let rate = |r: &(f64, f64)| r.0 / 1e9;
    show(
        "goodput, ours over iperf3",
        pairs().map(|(a, b)| a.0 / b.0).collect(),
        of(&ours, rate),
        of(&theirs, rate),
        "Gbit/s",
    );
    let cpu = |r: &(f64, f64)| r.1;
    show(
        "CPU a byte, ours over iperf3",
        pairs().map(|(a, b)| a.1 / b.1).collect(),
        of(&ours, cpu),
        of(&theirs, cpu),
        "s/GB",
    );
    Ok(())
}

fn round_trips(place: &Place, n: usize) -> Result<(), Failure> {
    let names = ["ours", "sockperf", "qperf"];
    let all: [Vec<f64>; 3] = rounds(n, |which| place.next(true).transactions(names[which]))?;
    for peer in 1..3 {
        let ratios = all[0].iter().zip(&all[peer]).map(|(a, b)| a / b).collect();
        let of = |v: &[f64]| median(v.iter().copied());
        show(&format!("transactions, ours over {}", names[peer]), ratios, of(&all[0]), of(&all[peer]), "a second");
    }
    Ok(())
}
