//! How much a path of this machine carries, measured over one that is taken down again.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use clock::Nanos;
use serde::Serialize;

use crate::{Choice, Config, Error, Lab, PathReport, Side};

/// How long each kind of traffic is sent.
const MOMENT: Duration = Duration::from_millis(80);

/// Bytes of a datagram that make the smallest Ethernet frame: 60 with its headers.
const SMALLEST: usize = 18;

/// What a path without delay, rate and loss carried, with its sender and receiver on the same
/// machine.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Capacity {
    /// Packets of the smallest size, one way.
    pub packets_per_second: f64,
    /// CPU time of the path for each of them; `None` where the kernel makes the path, in whatever
    /// sends.
    #[serde(rename = "cpu_per_packet_ns")]
    pub cpu_per_packet: Option<Nanos>,
    /// Payload of one TCP stream.
    pub stream_bits_per_second: f64,
}

impl Capacity {
    /// Of paths as `report` has one: of the same maker and MTU.
    ///
    /// # Errors
    /// As [`Lab::up`], and where no socket can be had.
    pub fn measure(report: &PathReport) -> Result<Self, Error> {
        let backend = if report.backend == "built-in" { Choice::BuiltIn } else { Choice::Netem };
        let lab = Lab::up(&Config { backend, mtu: report.mtu, ..Config::default() })?;
        let failed = |error| Error::system("measure what a path carries")(error);
        let (packets, took, cpu) = packets(&lab)?.map_err(failed)?;
        let stream_bits_per_second = stream(&lab)?.map_err(failed)?;
        let cpu_per_packet = cpu.filter(|cpu| *cpu > Nanos::ZERO && packets > 0).map(|cpu| Nanos(cpu.0 / packets));
        Ok(Self { packets_per_second: packets as f64 / took.as_secs_f64(), cpu_per_packet, stream_bits_per_second })
    }
}

/// Packets that came through, how long they were sent, and the CPU time that the path took.
fn packets(lab: &Lab) -> Result<io::Result<(u64, Duration, Option<Nanos>)>, Error> {
    let to = SocketAddr::new(Side::B.ipv4().into(), 9);
    // Somebody takes them, or an ICMP error would answer each.
    let sink = lab.host(Side::B).run(|| UdpSocket::bind(to))?;
    let sent = lab.host(Side::A).run(|| {
        let _sink = sink?;
        let socket = UdpSocket::bind("0.0.0.0:0")?;
        socket.connect(to)?;
        let (before, began) = (cpu_of_paths(), Instant::now());
        while began.elapsed() < MOMENT {
            // One that finds no room is not carried.
            let _ = socket.send(&[0; SMALLEST]);
        }
        let took = began.elapsed();
        let spent = before.zip(cpu_of_paths()).map(|(before, after)| after.saturating_sub(before));
        Ok((took, spent))
    })?;
    let carried = lab.path().report().a_to_b.achieved.map_or(0, |achieved| achieved.delivered);
    Ok(sent.map(|(took, spent)| (carried, took, spent)))
}

/// Bits a second of payload of one stream, from its first read to its last.
fn stream(lab: &Lab) -> Result<io::Result<f64>, Error> {
    let listener = lab.host(Side::B).run(|| TcpListener::bind(SocketAddr::new(Side::B.ipv4().into(), 0)))?;
    Ok(listener.and_then(|listener| {
        let to = listener.local_addr()?;
        let client = lab.host(Side::A).run(|| TcpStream::connect(to)).map_err(io::Error::other)??;
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let (began, block) = (Instant::now(), vec![0; 128 << 10]);
                while began.elapsed() < MOMENT && (&client).write_all(&block).is_ok() {}
            });
            let (mut server, _) = listener.accept()?;
            let (mut block, mut total) = (vec![0; 256 << 10], 0);
            server.read_exact(&mut [0])?;
            let began = Instant::now();
            loop {
                match server.read(&mut block)? {
                    0 => break,
                    n => total += n,
                }
            }
            Ok(total as f64 * 8.0 / began.elapsed().as_secs_f64().max(1e-6))
        })
    }))
}

/// CPU time of this process's threads that carry packets; `None` where there is none.
fn cpu_of_paths() -> Option<Nanos> {
    let tasks = std::fs::read_dir("/proc/self/task").ok()?.flatten();
    let spent = tasks.filter_map(|task| {
        let name = std::fs::read_to_string(task.path().join("comm")).ok()?;
        let times = name.starts_with("lab-path").then(|| std::fs::read_to_string(task.path().join("schedstat")))?;
        times.ok()?.split_whitespace().next()?.parse::<u64>().ok()
    });
    spent.reduce(|one, other| one + other).map(Nanos)
}
