//! Measures what the lab promises: `bars [delay|rate|veth]`, all three without an argument. Needs root.
//!
//! Prints the figure, its n, and a 95 % interval of the median (order statistics), each beside its bar. Repetitions of
//! what is compared alternate. The exit status is 1 where a bar is missed.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use lab::{BitRate, Choice, Config, Direction, Lab, Side};
use model::Nanos;

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> Result<ExitCode, Failure> {
    let only = std::env::args().nth(1);
    let wanted = |name: &str| only.as_deref().is_none_or(|o| o == name);
    let mut met = true;
    if wanted("delay") {
        met &= delay()?;
    }
    if wanted("rate") {
        met &= rate()?;
    }
    if wanted("veth") {
        met &= veth()?;
    }
    Ok(if met { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The median and the 95 % interval of it, by ranks (exact for any distribution).
fn median(values: &mut [f64]) -> (f64, f64, f64) {
    values.sort_by(f64::total_cmp);
    let n = values.len();
    let half_width = 0.98 * (n as f64).sqrt();
    let at = |rank: f64| values[(rank.max(0.0) as usize).min(n - 1)];
    (values[n / 2], at(n as f64 / 2.0 - half_width), at(n as f64 / 2.0 + half_width))
}

/// Round trips of one byte over a TCP connection at 25 ms each way.
fn delay() -> Result<bool, Failure> {
    let lab = Lab::up(&Config::with_delay(Nanos::from_millis(25)))?;
    let (mut near, mut far) = connect(&lab)?;
    let echo = std::thread::spawn(move || {
        let mut byte = [0];
        while matches!(far.read(&mut byte), Ok(1)) && far.write_all(&byte).is_ok() {}
    });
    let mut took = Vec::new();
    for _ in 0..400 {
        let start = Instant::now();
        near.write_all(b"x")?;
        near.read_exact(&mut [0])?;
        took.push(start.elapsed().as_secs_f64() * 1e3);
        std::thread::sleep(Duration::from_millis(2));
    }
    drop(near);
    echo.join().map_err(|_| "the echoing thread failed")?;
    let (middle, low, high) = median(&mut took);
    let p99 = took[took.len() * 99 / 100];
    let lateness = lab.path().report().a_to_b.achieved.and_then(|a| a.lateness);
    println!(
        "delay: round trip at 25 ms each way: median {middle:.3} ms [{low:.3}, {high:.3}], p99 {p99:.3} ms, \
         max {:.3} ms, n {} (bar: p99 within 0.2 ms of 50 ms)",
        took[took.len() - 1],
        took.len()
    );
    if let Some(l) = lateness {
        println!("       the path's own lateness: p50 {}, p99 {}, max {}, n {}", l.p50, l.p99, l.max, l.n);
    }
    Ok(took[0] >= 50.0 && p99 <= 50.2)
}

/// One TCP stream over a path of 1 Gbit/s.
fn rate() -> Result<bool, Failure> {
    let direction = Direction { rate: Some(BitRate::mbit(1_000)), ..Direction::default() };
    let config = Config::symmetric(Direction { delay: Nanos::from_micros(200), ..direction });
    // Ethernet's 1538 bytes carry 1448 of payload with timestamps.
    let possible = 1e9 * 1448.0 / 1538.0;
    let mut shares = Vec::new();
    let mut reports = Vec::new();
    for _ in 0..5 {
        let lab = Lab::up(&config)?;
        shares.push(stream(&lab, Duration::from_secs(3))? / possible * 100.0);
        reports.push(lab.path().report().a_to_b.achieved.unwrap_or_default());
    }
    let (middle, low, high) = median(&mut shares);
    println!(
        "rate:  one stream at 1 Gbit/s: {middle:.2} % [{low:.2}, {high:.2}] of the {:.1} Mbit/s that framing allows, n {} \
         (bar: 97 %)",
        possible / 1e6,
        shares.len()
    );
    if let Some(a) = reports.last() {
        println!(
            "       the path's own busy rate: {:.3} Mbit/s over {}; dropped at the queue {}, missed {}",
            a.busy_rate.unwrap_or(0.0) / 1e6,
            a.busy,
            a.dropped_queue,
            a.missed_frames
        );
    }
    Ok(middle >= 97.0)
}

/// One TCP stream over a path that does nothing, against a plain veth pair, in turns.
fn veth() -> Result<bool, Failure> {
    let (mut built_in, mut plain) = (Vec::new(), Vec::new());
    for _ in 0..7 {
        for (backend, into) in [(Choice::BuiltIn, &mut built_in), (Choice::Netem, &mut plain)] {
            let lab = Lab::up(&Config { backend, ..Config::default() })?;
            into.push(stream(&lab, Duration::from_secs(2))? / 1e9);
        }
    }
    let mut ratios: Vec<f64> = built_in.iter().zip(&plain).map(|(a, b)| a / b).collect();
    let (ratio, low, high) = median(&mut ratios);
    println!(
        "veth:  one stream: built-in {:.2} Gbit/s, plain veth {:.2} Gbit/s, ratio {ratio:.3} [{low:.3}, {high:.3}], n {} \
         (bar: 0.25)",
        median(&mut built_in).0,
        median(&mut plain).0,
        ratios.len()
    );
    Ok(ratio >= 0.25)
}

fn connect(lab: &Lab) -> Result<(TcpStream, TcpStream), Failure> {
    let address = SocketAddr::new(IpAddr::V4(Side::B.ipv4()), 0);
    let listener = lab.host(Side::B).run(|| TcpListener::bind(address))??;
    let address = listener.local_addr()?;
    let near = lab.host(Side::A).run(|| TcpStream::connect(address))??;
    near.set_nodelay(true)?;
    let (far, _) = listener.accept()?;
    far.set_nodelay(true)?;
    Ok((near, far))
}

/// Payload bits a second that the receiver saw, the first half second left out.
fn stream(lab: &Lab, length: Duration) -> Result<f64, Failure> {
    let (mut near, mut far) = connect(lab)?;
    let until = Instant::now() + length;
    let sender = std::thread::spawn(move || {
        let block = vec![0x5a; 128 << 10];
        while Instant::now() < until && near.write_all(&block).is_ok() {}
    });
    let mut buffer = vec![0; 256 << 10];
    let (start, mut counted_from, mut bytes, mut last) = (Instant::now(), None, 0usize, Instant::now());
    loop {
        let n = far.read(&mut buffer)?;
        if n == 0 {
            break;
        }
        last = Instant::now();
        match counted_from {
            None if last - start > Duration::from_millis(500) => counted_from = Some(last),
            None => {}
            Some(_) => bytes += n,
        }
    }
    sender.join().map_err(|_| "the sending thread failed")?;
    let seconds = counted_from.map_or(0.0, |from| (last - from).as_secs_f64());
    Ok(if seconds > 0.0 { bytes as f64 * 8.0 / seconds } else { 0.0 })
}
