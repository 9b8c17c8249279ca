//! Measures what the lab promises: `bars [delay|rate|veth]`, all three without an argument. Needs
//! root.
//!
//! Prints the figure, its n, and a 95 % interval of the median (order statistics), each beside its
//! bar. Repetitions of what is compared alternate. The exit status is 1 where a bar is missed.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::FromRawFd as _;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clock::Nanos;
use lab::{BitRate, Choice, Config, Direction, Lab, Side};

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

/// Round trips at 25 ms each way: ICMP echo, which host b's kernel answers, and one byte over TCP,
/// which a program does.
fn delay() -> Result<bool, Failure> {
    let lab = Lab::up(&Config::with_delay(Nanos::from_millis(25)))?;
    let ping = echo_socket(&lab)?;
    let echo_request = [8, 0, 0, 0, 0, 0, 0, 1, 0x77];
    let mut echoed = repeat(|| {
        ping.send(&echo_request)?;
        ping.recv(&mut [0; 64]).map(drop)
    })?;
    let (mut near, mut far) = connect(&lab)?;
    let program = std::thread::spawn(move || {
        let mut byte = [0];
        while matches!(far.read(&mut byte), Ok(1)) && far.write_all(&byte).is_ok() {}
    });
    let mut answered = repeat(|| {
        near.write_all(b"x")?;
        near.read_exact(&mut [0])
    })?;
    drop(near);
    program.join().map_err(|_| "the echoing thread failed")?;
    println!("delay: round trips at 25 ms each way (bar: ICMP echo's p99 within 0.2 ms of 50 ms)");
    for (what, took) in [("ICMP echo", &mut echoed), ("TCP and a program", &mut answered)] {
        let (middle, low, high) = median(took);
        let (p99, max) = (took[took.len() * 99 / 100], took[took.len() - 1]);
        println!(
            "       {what}: median {middle:.3} ms [{low:.3}, {high:.3}], p99 {p99:.3} ms, max {max:.3} ms, n {}",
            took.len()
        );
    }
    if let Some(l) = lab.path().report().a_to_b.achieved.and_then(|a| a.lateness) {
        println!("       the path's own lateness: p50 {}, p99 {}, max {}, n {}", l.p50, l.p99, l.max, l.n);
    }
    Ok(echoed[0] >= 50.0 && echoed[echoed.len() * 99 / 100] <= 50.2)
}

/// How long each of 400 exchanges took, ms.
fn repeat(mut exchange: impl FnMut() -> std::io::Result<()>) -> Result<Vec<f64>, Failure> {
    let mut took = Vec::new();
    for _ in 0..400 {
        let start = Instant::now();
        exchange()?;
        took.push(start.elapsed().as_secs_f64() * 1e3);
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(took)
}

/// The kernel's ping socket (icmp(7)), connected to host b.
fn echo_socket(lab: &Lab) -> Result<UdpSocket, Failure> {
    lab.host(Side::A).set_sysctl("net.ipv4.ping_group_range", "0 0")?;
    // SAFETY: a plain system call; the result is checked before it is owned.
    let fd = lab
        .host(Side::A)
        .run(|| unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, libc::IPPROTO_ICMP) })?;
    if fd < 0 {
        return Err(std::io::Error::last_os_error().into());
    }
    // SAFETY: new, and owned by nothing else; send, receive and connect work on it as on a UDP
    // socket.
    let socket = unsafe { UdpSocket::from_raw_fd(fd) };
    socket.connect((Side::B.ipv4(), 1))?;
    socket.set_read_timeout(Some(Duration::from_secs(2)))?;
    Ok(socket)
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

/// Payload bits a second that the receiver saw, the first half second excluded.
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
