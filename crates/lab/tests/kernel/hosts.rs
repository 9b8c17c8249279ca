//! A real lab: programs and closures in the hosts, over the path, and nothing left afterwards.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use clock::Nanos;
use lab::{Config, Direction, Lab, Side, program_pid};

/// How long the first byte takes there and back over an existing connection.
fn round_trip(lab: &Lab, to: IpAddr) -> Duration {
    let listener = lab.host(Side::B).run(|| TcpListener::bind(SocketAddr::new(to, 0)).unwrap()).unwrap();
    let address = listener.local_addr().unwrap();
    let echo = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut byte = [0];
        while stream.read(&mut byte).unwrap() == 1 {
            stream.write_all(&byte).unwrap();
        }
    });
    let mut stream = lab.host(Side::A).run(|| TcpStream::connect(address).unwrap()).unwrap();
    stream.set_nodelay(true).unwrap();
    let took = (0..5).map(|_| {
        let start = Instant::now();
        stream.write_all(b"x").unwrap();
        stream.read_exact(&mut [0]).unwrap();
        start.elapsed()
    });
    let shortest = took.min().unwrap();
    drop(stream);
    echo.join().unwrap();
    shortest
}

#[test]
fn round_trips_take_at_least_the_delay_and_move_with_it() {
    tier::needs!(tier::Need::Root, tier::Need::Path("/dev/net/tun"));
    let lab = Lab::up(&Config::with_delay(Nanos::from_millis(25))).unwrap();
    for to in [IpAddr::V4(lab.host(Side::B).ipv4()), IpAddr::V6(lab.host(Side::B).ipv6())] {
        let before = round_trip(&lab, to);
        assert!(before >= Duration::from_millis(50) && before < Duration::from_millis(75), "{before:?} to {to}");
    }
    let slower = Direction { delay: Nanos::from_millis(75), ..Direction::default() };
    lab.path().change(Side::B, &slower).unwrap();
    let after = round_trip(&lab, IpAddr::V4(Side::B.ipv4()));
    assert!(after >= Duration::from_millis(100) && after < Duration::from_millis(125), "{after:?}");
    let report = lab.path().report();
    assert_eq!((report.a_to_b.changes, report.b_to_a.changes), (0, 1));
    let delay = report.a_to_b.achieved.unwrap().delay.unwrap();
    assert!(delay.min >= Nanos::from_millis(25) && delay.p50 < Nanos::from_millis(35), "{delay:?}");
}

#[test]
fn programs_end_as_they_end_and_with_the_lab() {
    tier::needs!(tier::Need::Root, tier::Need::Path("/dev/net/tun"), tier::Need::Program("sh"));
    let lab = Lab::up(&Config::default()).unwrap();
    let a = lab.host(Side::A);
    let status = tier::limit(a.command("sh").unwrap()).args(["-c", "exit 7"]).status().unwrap();
    assert_eq!(status.code(), Some(7));
    let missing = a.command("/no/such/program").unwrap().spawn().unwrap_err();
    assert_eq!(missing.kind(), std::io::ErrorKind::NotFound);
    let out = tier::limit(a.command("sh").unwrap()).args(["-c", "hostname; ls /sys/class/net; pwd"]).output().unwrap();
    let here = std::env::current_dir().unwrap();
    assert_eq!(String::from_utf8_lossy(&out.stdout), format!("a\neth0\nlo\n{}\n", here.display()));

    let mut child = tier::limit(a.command("sleep").unwrap()).arg("600").spawn().unwrap();
    let pid = program_pid(&child).unwrap();
    let comm = || std::fs::read_to_string(format!("/proc/{pid}/comm"));
    tier::until("the program to run", || comm().unwrap().trim() == "sleep");
    drop(lab);
    let status = child.wait().unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(libc::SIGKILL));
    assert!(comm().is_err(), "process {pid} outlived its lab");
}

#[test]
fn sysctls_are_the_hosts_own() {
    tier::needs!(tier::Need::Root, tier::Need::Path("/dev/net/tun"));
    let lab = Lab::up(&Config::default()).unwrap();
    let outside = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_timestamps").unwrap();
    lab.host(Side::A).set_sysctl("net.ipv4.tcp_timestamps", 0).unwrap();
    assert_eq!(lab.host(Side::A).sysctl("net.ipv4.tcp_timestamps").unwrap(), "0");
    assert_eq!(lab.host(Side::B).sysctl("net.ipv4.tcp_timestamps").unwrap(), "1");
    assert_eq!(std::fs::read_to_string("/proc/sys/net/ipv4/tcp_timestamps").unwrap(), outside);
    for name in ["kernel.hostname", "net.../../kernel/hostname", "net."] {
        assert!(lab.host(Side::A).set_sysctl(name, "x").unwrap_err().is_wrong_use(), "{name}");
    }
}

#[test]
fn fragments_and_large_datagrams_pass() {
    tier::needs!(tier::Need::Root, tier::Need::Path("/dev/net/tun"));
    let lab = Lab::up(&Config::default()).unwrap();
    for address in [IpAddr::V4(Side::B.ipv4()), IpAddr::V6(Side::B.ipv6())] {
        let receiver = lab.host(Side::B).run(|| UdpSocket::bind(SocketAddr::new(address, 0)).unwrap()).unwrap();
        receiver.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let any = if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let sender = lab.host(Side::A).run(|| UdpSocket::bind(any).unwrap()).unwrap();
        let sent: Vec<u8> = (0..20_000u32).map(|i| (i * 7) as u8).collect();
        sender.send_to(&sent, receiver.local_addr().unwrap()).unwrap();
        let mut got = vec![0; 65_536];
        let (n, _) = receiver.recv_from(&mut got).unwrap();
        assert_eq!(got[..n], sent[..]);
    }
}

#[test]
fn a_plain_veth_stands_in_where_netem_has_nothing_to_do() {
    tier::needs!(tier::Need::Root);
    let config = Config { backend: lab::Choice::Netem, ..Config::default() };
    let lab = Lab::up(&config).unwrap();
    round_trip(&lab, IpAddr::V4(Side::B.ipv4()));
    let report = lab.path().report();
    assert_eq!(report.backend, "netem");
    assert!(report.a_to_b.achieved.unwrap().frames > 5);
}

#[test]
fn netem_delays_where_the_kernel_has_it() {
    tier::needs!(tier::Need::Root);
    let config = Config { backend: lab::Choice::Netem, ..Config::with_delay(Nanos::from_millis(10)) };
    let lab = match Lab::up(&config) {
        Ok(lab) => lab,
        Err(lab::Error::Backend { backend, reason }) => {
            assert_eq!(backend, "netem");
            return tier::skip("hosts::netem_delays_where_the_kernel_has_it", &reason);
        }
        Err(other) => panic!("{other}"),
    };
    let took = round_trip(&lab, IpAddr::V4(Side::B.ipv4()));
    assert!(took >= Duration::from_millis(20) && took < Duration::from_millis(40), "{took:?}");
}

#[test]
fn a_path_of_ten_gigabits_is_the_kernels_and_counts_segments() {
    tier::needs!(tier::Need::Root, tier::Need::Path("/dev/net/tun"));
    let rate = |gigabit: u32| Direction { rate: Some(lab::BitRate::mbit(gigabit * 1_000)), ..Direction::default() };
    let began = Instant::now();
    let lab = Lab::up(&Config::symmetric(rate(10))).unwrap();
    let report = lab.path().report();
    if report.backend != "tbf" {
        return tier::skip("hosts::a_path_of_ten_gigabits_is_the_kernels_and_counts_segments", &report.reason);
    }
    const LENGTH: usize = 64 << 20;
    for to in [IpAddr::V4(Side::B.ipv4()), IpAddr::V6(Side::B.ipv6())] {
        assert!(transfer(&lab, to, LENGTH), "bytes were changed on the way to {to}");
    }
    // The last reading is a hundredth of a second old.
    let carried = || lab.path().report().a_to_b.achieved.unwrap();
    tier::until("what was carried to be counted", || carried().bytes >= 2 * LENGTH as u64);
    let (seen, took) = (carried(), began.elapsed().as_secs_f64());
    // Segments of 1,448 bytes of data, in frames of many, each with 66 bytes of headers.
    let segments = 2 * LENGTH as u64 / 1_448;
    assert!(seen.delivered >= segments && seen.frames < segments / 4, "{seen:?}");
    assert!(seen.bytes >= 2 * LENGTH as u64 + segments * 66, "{seen:?}");
    assert_eq!(seen.offered, seen.delivered + seen.in_flight + seen.dropped_queue, "{seen:?}");
    // No more than its rate, but for what a bucket holds.
    assert!(seen.wire_bytes as f64 <= 1.25e9 * took + 300e3, "{took} {seen:?}");
    assert!(seen.busy_rate.is_none_or(|rate| rate < 10.1e9), "{seen:?}");
    // Slower than what passes whole, and as fast again.
    for gigabit in [1, 10] {
        lab.path().change(Side::A, &rate(gigabit)).unwrap();
        let before = carried();
        assert!(transfer(&lab, IpAddr::V4(Side::B.ipv4()), 1 << 20));
        tier::until("what was carried to be counted", || carried().bytes >= before.bytes + (1 << 20));
    }
    match lab.path().change(Side::A, &Direction { delay: Nanos::from_millis(5), ..rate(10) }) {
        Ok(()) => assert!(round_trip(&lab, IpAddr::V4(Side::B.ipv4())) >= Duration::from_millis(5)),
        // A kernel without netem: the path is as it was.
        Err(lab::Error::Backend { .. }) => assert_eq!(lab.path().report().a_to_b.asked, rate(10)),
        Err(other) => panic!("{other}"),
    }
    assert!(transfer(&lab, IpAddr::V4(Side::B.ipv4()), 1 << 20));
}

/// Sends `length` patterned bytes from a to b over TCP; whether they came whole and in order.
fn transfer(lab: &Lab, to: IpAddr, length: usize) -> bool {
    let listener = lab.host(Side::B).run(|| TcpListener::bind(SocketAddr::new(to, 0)).unwrap()).unwrap();
    let address = listener.local_addr().unwrap();
    let mut near = lab.host(Side::A).run(|| TcpStream::connect(address).unwrap()).unwrap();
    let sent: Vec<u8> = (0..length as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            near.write_all(&sent).unwrap();
            near.shutdown(std::net::Shutdown::Write).unwrap();
        });
        let mut got = Vec::new();
        listener.accept().unwrap().0.read_to_end(&mut got).unwrap();
        got == sent
    })
}

#[test]
fn streams_survive_everything_a_path_does_and_the_account_balances() {
    tier::needs!(tier::Need::Root, tier::Need::Path("/dev/net/tun"));
    let asked = Direction {
        delay: Nanos::from_millis(2),
        jitter: Nanos::from_millis(1),
        rate: lab::BitRate::new(200_000_000),
        loss: lab::Loss::bursts(0.01, 2.0).unwrap(),
        reorder: Some(lab::Reorder { share: 0.02, by: Nanos::from_millis(1) }),
        duplicate: 0.02,
        queue: Some(lab::Depth::Bytes(100_000)),
        ..Direction::default()
    };
    let lab = Lab::up(&Config { seed: 11, ..Config::symmetric(asked) }).unwrap();
    for to in [IpAddr::V4(Side::B.ipv4()), IpAddr::V6(Side::B.ipv6())] {
        assert!(transfer(&lab, to, 4 << 20), "bytes were changed on the way to {to}");
    }
    let a = lab.path().report().a_to_b.achieved.unwrap();
    let accounted = a.delivered + a.in_flight + a.lost + a.dropped_queue + a.dropped_memory + a.refused;
    assert_eq!(a.offered, accounted, "{a:?}");
    assert!(a.frames < a.offered, "no frame of many segments came through: {a:?}");
    for (what, n) in [("lost", a.lost), ("held", a.held), ("reordered", a.reordered), ("twice", a.duplicated)] {
        assert!(n > 0, "nothing was {what}: {a:?}");
    }
    // About 6,000 segments with losses in pairs: five standard deviations are 0.9 %.
    assert!((a.loss.unwrap() - 0.01).abs() < 0.009, "{a:?}");
    assert!(a.busy_rate.is_none_or(|rate| rate < 201e6), "{a:?}");
}

#[test]
fn marks_are_seen_by_tcp() {
    tier::needs!(tier::Need::Root, tier::Need::Path("/dev/net/tun"));
    let direction = Direction {
        delay: Nanos::from_millis(5),
        rate: lab::BitRate::new(50_000_000),
        ecn: Some(lab::Depth::Time(Nanos::from_millis(2))),
        ..Direction::default()
    };
    let lab = Lab::up(&Config::symmetric(direction)).unwrap();
    for side in Side::ALL {
        lab.host(side).set_sysctl("net.ipv4.tcp_ecn", 1).unwrap();
    }
    assert!(transfer(&lab, IpAddr::V4(Side::B.ipv4()), 4 << 20));
    let a = lab.path().report().a_to_b.achieved.unwrap();
    assert!(a.marked > 0 && a.dropped_queue == 0, "{a:?}");
    // The receiver's kernel counts the marks that reached it, each segment of a larger frame for
    // itself.
    let counts = |side| {
        let out = tier::limit(lab.host(side).command("cat").unwrap()).arg("/proc/net/netstat").output().unwrap();
        let text = String::from_utf8(out.stdout).unwrap();
        let mut lines = text.lines().filter_map(|l| l.strip_prefix("IpExt: "));
        let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
        let found = names.split(' ').zip(values.split(' ')).find(|(name, _)| *name == "InCEPkts").unwrap();
        found.1.parse::<u64>().unwrap()
    };
    assert_eq!(counts(Side::B), a.marked);
}

#[test]
fn large_mtus_and_several_labs_at_once() {
    tier::needs!(tier::Need::Root, tier::Need::Path("/dev/net/tun"));
    std::thread::scope(|scope| {
        for mtu in [1_280, 1_500, 9_000, 65_521] {
            scope.spawn(move || {
                let lab = Lab::up(&Config { mtu, ..Config::default() }).unwrap();
                assert!(transfer(&lab, IpAddr::V6(Side::B.ipv6()), 1 << 20), "mtu {mtu}");
                assert!(transfer(&lab, IpAddr::V4(Side::B.ipv4()), 1 << 20), "mtu {mtu}");
            });
        }
    });
}
