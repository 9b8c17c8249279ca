//! Datagrams as `wirelapse trace --udp` tells of them, held against what the kernel counts:
//! `/proc/net/snmp`, `/proc/net/snmp6` and nstat.

use crate::scene;
use std::io::{BufRead as _, BufReader};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::scene::command::{signal, tracing};
use crate::scene::{BTF, IP, TUN, turn};
use lab::{Host, Side};
use serde_json::Value;
use tier::Need;

/// Counters of UDP of the calling thread's network namespace: of IPv4, or of IPv6.
fn counter(v6: bool, name: &str) -> u64 {
    if v6 {
        let text = std::fs::read_to_string("/proc/thread-self/net/snmp6").unwrap();
        let wanted = format!("Udp6{name}");
        let line = text.lines().find(|l| l.split_ascii_whitespace().next() == Some(&wanted)).unwrap();
        return line.split_ascii_whitespace().nth(1).unwrap().parse().unwrap();
    }
    let text = std::fs::read_to_string("/proc/thread-self/net/snmp").unwrap();
    let mut lines = text.lines().filter(|l| l.starts_with("Udp:"));
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
    let at = names.split(' ').position(|n| n == name).unwrap();
    values.split(' ').nth(at).unwrap().parse().unwrap()
}

/// The same by nstat, since the namespace was made.
fn nstat(host: &Host, v6: bool, name: &str) -> u64 {
    let name = format!("Udp{}{name}", if v6 { "6" } else { "" });
    let out = tier::limit(host.command("nstat").unwrap()).args(["-asz", &name]).output().unwrap();
    let text = tier::text(&out.stdout);
    let line = text.lines().find(|l| l.starts_with(&name)).unwrap_or_else(|| panic!("{text}"));
    line.split_ascii_whitespace().nth(1).unwrap().parse().unwrap()
}

/// More than a full socket takes comes over a path of 5 ms: what the trace tells is what both hosts
/// count.
fn drops_agree(v6: bool) {
    const SENT: u64 = 300;
    let lab = scene::path::lab(5);
    let (a, b) = (&lab.host(Side::A), &lab.host(Side::B));
    let address = |host: &Host| if v6 { IpAddr::V6(host.ipv6()) } else { IpAddr::V4(host.ipv4()) };
    let server = b.run(|| UdpSocket::bind(SocketAddr::new(address(b), 0)).unwrap()).unwrap();
    let client = a.run(|| UdpSocket::bind(SocketAddr::new(address(a), 0)).unwrap()).unwrap();
    let to = server.local_addr().unwrap();
    client.connect(to).unwrap();
    let bytes: i32 = 20_000;
    // SAFETY: the option is an int, and its size is given.
    let done = unsafe {
        libc::setsockopt(server.as_raw_fd(), libc::SOL_SOCKET, libc::SO_RCVBUF, (&raw const bytes).cast(), 4)
    };
    assert_eq!(done, 0);
    let counted = |host: &Host, name: &str| host.run(|| counter(v6, name)).unwrap();

    let mut trace = tracing(&["--udp", "--json", "--port", &to.port().to_string()]);
    let mut trace = trace.stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(trace.stdout.take().unwrap()).lines().map(|l| l.unwrap());
    // The first line comes when everything is attached.
    let run: Value = serde_json::from_str(&lines.next().unwrap()).unwrap();
    let whole = run["packets"]["missing"].as_array().is_some_and(Vec::is_empty);
    let before = ["InDatagrams", "RcvbufErrors"].map(|name| counted(b, name));
    let out_before = counted(a, "OutDatagrams");
    for _ in 0..SENT {
        client.send(&[1; 1_000]).unwrap();
    }
    let since = || [counted(b, "InDatagrams") - before[0], counted(b, "RcvbufErrors") - before[1]];
    assert!(tier::wait_for(|| since()[1] > 0), "the socket never filled");
    server.set_nonblocking(true).unwrap();
    let mut read = 0;
    // The kernel counts a datagram as taken in when it is read.
    let all = tier::wait_for(|| {
        read += (0..).take_while(|_| server.recv(&mut [0; 2_000]).is_ok()).count() as u64;
        since().iter().sum::<u64>() == SENT
    });
    assert!(all, "{:?} of {SENT}", since());
    let [taken, refused] = since();
    let by_nstat = nstat(b, v6, "RcvbufErrors");
    signal(&trace, libc::SIGINT);
    let events: Vec<Value> = lines.map(|l| serde_json::from_str(&l).unwrap()).collect();
    assert!(trace.wait().unwrap().success());

    assert!(taken > 0 && refused > 0, "{taken} taken, {refused} refused");
    assert_eq!((read, by_nstat), (taken, before[1] + refused));
    let count = |direction: &str, holds: &dyn Fn(&Value) -> bool| {
        let datagrams = events.iter().filter(|e| e["kind"] == "datagram" && e["direction"] == direction);
        datagrams.filter(|d| holds(d)).count() as u64
    };
    assert_eq!(counted(a, "OutDatagrams") - out_before, SENT);
    assert_eq!(count("sent", &|_| true), SENT);
    assert_eq!(count("sent", &|d| d["driver_at_ns"].is_u64() && d["qdisc_ns"].is_u64()), SENT);
    assert_eq!(count("received", &|d| d["dropped"] == "SOCKET_RCVBUFF" && d["dropped_at_ns"].is_u64()), refused);
    assert_eq!(count("received", &|d| d["dropped"].is_null() && d["socket_ns"].is_u64()), taken);
    assert_eq!(count("received", &|_| true), SENT);
    if whole {
        assert_eq!(
            count("sent", &|d| d["udp_ns"].is_u64()),
            SENT,
            "the socket is connected, and every send has its stamp"
        );
    }
    let lost = events.iter().find(|e| e["kind"] == "lost").unwrap();
    assert_eq!((&lost["datagram_ring_buffer"], &lost["datagram_no_read"]), (&0.into(), &0.into()), "{lost}");
}

#[test]
fn drops_over_a_path_are_those_that_both_hosts_count() {
    tier::needs!(Need::Root, BTF, TUN, IP, Need::Program("nstat"));
    let _turn = turn();
    drops_agree(false);
}

#[test]
fn drops_over_a_path_are_those_that_both_hosts_count_over_ipv6() {
    tier::needs!(Need::Root, BTF, TUN, IP, Need::Program("nstat"));
    let _turn = turn();
    drops_agree(true);
}

/// Two programs with so many datagrams a second between them, on a loopback of their own: every one
/// is in the trace, or counted as lost.
fn load(rate: u64, seconds: u64) {
    let wirelapse = env!("CARGO_BIN_EXE_wirelapse");
    // SAFETY: unshare changes this thread alone.
    assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNET) }, 0);
    assert!(Command::new("ip").args(["link", "set", "lo", "up"]).status().unwrap().success());
    let mut serve = Command::new(wirelapse);
    let mut serve =
        serve.args(["serve", "--listen", "127.0.0.1:5201", "--json"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(serve.stdout.take().unwrap());
    said.read_line(&mut String::new()).unwrap();
    let names = ["OutDatagrams", "InDatagrams", "RcvbufErrors"];
    let before = names.map(|name| counter(false, name));
    let (bits, time) = ((rate * 64 * 8).to_string(), format!("{seconds}s"));
    let pid = serve.id().to_string();
    let mut trace = tracing(&["--udp", "--json", "-p", &pid, "--"]);
    trace.args([wirelapse, "udp", "127.0.0.1:5201", "--size", "64", "--rate", &bits, "--for", &time]);
    let mut trace = trace.stderr(Stdio::null()).spawn().unwrap();
    let (mut told, mut summary, mut lost) = (0_u64, Value::Null, Value::Null);
    for line in BufReader::new(trace.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        told += u64::from(line.starts_with("{\"kind\":\"datagram\""));
        for (kind, to) in [("summary", &mut summary), ("lost", &mut lost)] {
            if line.starts_with(&format!("{{\"kind\":\"{kind}\"")) {
                *to = serde_json::from_str(&line).unwrap();
            }
        }
    }
    assert!(trace.wait().unwrap().success());
    // What is still on its way comes before anything is compared; the server's own sockets send
    // nothing afterwards.
    std::thread::sleep(Duration::from_millis(100));
    let [out, taken, refused] = [0, 1, 2].map(|n| counter(false, names[n]) - before[n]);
    signal(&serve, libc::SIGTERM);
    serve.wait().unwrap();
    let of = |from: &Value, key: &str| from[key].as_u64().unwrap();
    let datagrams = &summary["datagrams"];
    let (sent, received) = (of(datagrams, "sent"), of(datagrams, "received"));
    eprintln!(
        "{out} sent ({:.0} a second), {taken} received, {refused} refused by the kernel's count; {sent} and {received} told of, {lost}",
        out as f64 / seconds as f64
    );
    assert!(out >= rate * seconds / 4, "{out} were sent");
    assert_eq!(told, sent + received);
    assert_eq!(of(&lost, "packet_no_room"), 0);
    assert_eq!(told + of(&lost, "datagram_ring_buffer"), out + taken + refused);
    assert!(sent <= out && received <= taken + refused);
}

#[test]
fn every_datagram_of_two_programs_is_reported_or_counted() {
    tier::needs!(Need::Root, BTF, IP);
    let _turn = turn();
    std::thread::spawn(|| load(10_000, 3)).join().unwrap();
}

/// `cargo test --release -p wirelapse --test trace trace_datagrams -- --ignored --nocapture`
#[test]
#[ignore = "a load for a quiet machine, in release"]
fn a_hundred_thousand_datagrams_a_second_are_reported_or_counted() {
    tier::needs!(Need::Root, BTF, IP);
    let _turn = turn();
    std::thread::spawn(|| load(100_000, 15)).join().unwrap();
}
