//! A lab, and connections from its host `a` to its host `b`.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd as _;
use std::time::Duration;

use lab::{Config, Direction, Lab, Side};
use record::Nanos;

/// A direction with nothing but a delay.
pub fn delay(millis: u64) -> Direction {
    Direction { delay: Nanos::from_millis(millis), ..Direction::default() }
}

/// A lab with so much delay each way. Its hosts use reno, which does not pace, so that one reason
/// to wait shows at a time.
pub fn lab(millis: u64) -> Lab {
    lab_with(&Config::symmetric(delay(millis)))
}

pub fn lab_with(config: &Config) -> Lab {
    let lab = Lab::up(config).unwrap();
    for side in Side::ALL {
        lab.host(side).set_sysctl("net.ipv4.tcp_congestion_control", "reno").unwrap();
    }
    lab
}

/// Makes the path another, both ways.
pub fn change(lab: &Lab, to: &Direction) {
    for side in Side::ALL {
        lab.path().change(side, to).unwrap();
    }
}

/// Runs a program in host `a`.
pub fn in_a(lab: &Lab, program: &str, args: &str) {
    let status = tier::limit(lab.host(Side::A).command(program).unwrap()).args(args.split(' ')).status().unwrap();
    assert!(status.success(), "{program} {args}");
}

/// Host `b` acknowledges every segment at once, by a property of its route: then the peer's own
/// delay of an ACK is no part of the `network` leg.
pub fn quick_acks(lab: &Lab) {
    let b = lab.host(Side::B);
    for args in ["-4 route add 10.77.0.1/32 dev eth0 quickack 1", "-6 route add fd77::1/128 dev eth0 quickack 1"] {
        let status = tier::limit(b.command("ip").unwrap()).args(args.split(' ')).status().unwrap();
        assert!(status.success(), "ip {args}");
    }
}

pub fn listen(lab: &Lab, v6: bool) -> TcpListener {
    let b = lab.host(Side::B);
    let address = if v6 { IpAddr::V6(b.ipv6()) } else { IpAddr::V4(b.ipv4()) };
    b.run(|| TcpListener::bind(SocketAddr::new(address, 0)).unwrap()).unwrap()
}

/// A client in `a` and a server in `b`.
pub fn join(lab: &Lab, listener: &TcpListener) -> (TcpStream, TcpStream) {
    let to = listener.local_addr().unwrap();
    let client = lab.host(Side::A).run(|| TcpStream::connect(to).unwrap()).unwrap();
    let (server, _) = listener.accept().unwrap();
    for socket in [&client, &server] {
        socket.set_nodelay(true).unwrap();
        // A test that goes wrong ends.
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        socket.set_write_timeout(Some(Duration::from_secs(20))).unwrap();
    }
    (client, server)
}

/// Sets an integer socket option.
pub fn set(socket: &TcpStream, level: i32, option: i32, value: i32) {
    // SAFETY: the option is an int, and its size is given.
    let done = unsafe {
        libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const value).cast(), size_of::<i32>() as u32)
    };
    assert_eq!(done, 0, "option {option}: {}", std::io::Error::last_os_error());
}

/// The kernel's own account of the connection.
pub fn tcp_info(socket: &TcpStream) -> libc::tcp_info {
    // SAFETY: tcp_info is plain data; all zeros is a value of it.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut size = size_of_val(&info) as u32;
    // SAFETY: the kernel writes at most `size` bytes.
    let done = unsafe {
        libc::getsockopt(socket.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, (&raw mut info).cast(), &raw mut size)
    };
    assert_eq!(done, 0);
    info
}

/// So many requests of 64 bytes, each answered with one of 16: never more than one on its way.
pub fn exchange(client: &mut TcpStream, server: &mut TcpStream, times: usize) {
    let mut far = server.try_clone().unwrap();
    let answering = std::thread::spawn(move || {
        for _ in 0..times {
            far.read_exact(&mut [0; 64]).unwrap();
            far.write_all(&[0; 16]).unwrap();
        }
    });
    for _ in 0..times {
        client.write_all(&[0; 64]).unwrap();
        client.read_exact(&mut [0; 16]).unwrap();
    }
    answering.join().unwrap();
}

/// Reads and throws away until the peer closes; gives how much it was.
pub fn drain(socket: TcpStream) -> std::thread::JoinHandle<u64> {
    std::thread::spawn(move || {
        let (mut buffer, mut total) = (vec![0; 1 << 16], 0);
        while let Ok(n @ 1..) = (&socket).read(&mut buffer) {
            total += n as u64;
        }
        total
    })
}
