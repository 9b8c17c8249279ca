//! `wirelapse watch`, held against what `ss` says and against settings of the kernel.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};

use lab::{Config, Direction, Lab, Side};
use serde_json::Value;
use tier::{Need, Process};

const BTF: Need<'_> = Need::Path("/sys/kernel/btf/vmlinux");
const TUN: Need<'_> = Need::Path("/dev/net/tun");

fn wirelapse(args: &[&str]) -> Command {
    let mut command = tier::wirelapse!(["watch"]);
    command.args(args).stdin(Stdio::null());
    command
}

fn start(args: &[&str]) -> Process {
    Process::from(wirelapse(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
}

/// What it wrote, when it has ended.
fn output(mut watching: Process) -> (Option<i32>, String, String) {
    let (mut out, mut err) = (String::new(), String::new());
    watching.stdout.take().unwrap().read_to_string(&mut out).unwrap();
    watching.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    (watching.wait().unwrap().code(), out, err)
}

/// Connections, opened and closed one after the other, for as long as somebody watches.
fn connections(listener: &TcpListener, mut watched: impl FnMut() -> bool) {
    let address = listener.local_addr().unwrap();
    while watched() {
        let client = TcpStream::connect(address).unwrap();
        drop((listener.accept().unwrap(), client));
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
}

fn pair(address: SocketAddr) -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind(address).unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (client, listener.accept().unwrap().0)
}

#[test]
fn wrong_use_is_reported() {
    for (args, says) in [
        (&["no-such-field"][..], "header-length"),
        (&["srtt", "--port", "0"], "--port"),
        (&["srtt", "--every", "1x"], "500ms, 10s"),
        (&["srtt", "--count", "0"], "--count"),
    ] {
        let out = wirelapse(args).output().unwrap();
        assert_eq!(out.status.code(), Some(2), "{args:?}");
        assert!(tier::text(&out.stderr).contains(says), "{args:?}");
    }
}

#[test]
fn a_process_that_is_not_there_is_reported() {
    tier::needs!(Need::Root, BTF);
    let out = wirelapse(&["srtt", "-p", "4194304"]).output().unwrap();
    assert_eq!(out.status.code(), Some(2));
    assert!(tier::text(&out.stderr).contains("there is no process 4194304"));
}

#[test]
fn a_histogram_comes_as_values() {
    tier::needs!(Need::Root, BTF);
    let (client, server) = pair((Ipv4Addr::LOCALHOST, 0).into());
    let port = server.local_addr().unwrap().port().to_string();
    let args = ["mss", "--port", &port, "--at", "every", "--count", "2", "--csv"];
    let (code, out, err) = output(start(&args));
    assert_eq!(code, Some(0), "{err}");
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines[..2], ["# mss, bytes", "value,count"], "{out}");
    let counts = lines[2..].iter().map(|line| line.rsplit_once(',').unwrap().1.parse::<u64>().unwrap());
    assert_eq!(counts.sum::<u64>(), 2, "{out}");
    drop(client);
}

/// The reference's two histograms: 256 connections of 32 bytes with timestamps, 256 of 20 without.
#[test]
fn header_length_follows_tcp_timestamps() {
    tier::needs!(Need::Root, BTF, TUN);
    let lab = Lab::up(&Config::default()).unwrap();
    let host = lab.host(Side::A);
    for (timestamps, bytes) in [("1", 32), ("0", 20)] {
        host.set_sysctl("net.ipv4.tcp_timestamps", timestamps).unwrap();
        let listener = host.run(|| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap()).unwrap();
        let port = listener.local_addr().unwrap().port().to_string();
        let mut watching = start(&["header-length", "--port", &port, "--count", "256"]);
        host.run(|| connections(&listener, || watching.try_wait().unwrap().is_none())).unwrap();
        let (code, out, err) = output(watching);
        assert_eq!(code, Some(0), "{err}");
        assert!(out.ends_with(&format!("256 values, all {bytes} B.\n")), "{out}");
        let row = out.lines().find(|line| line.trim_start().starts_with(&bytes.to_string())).unwrap();
        assert!(row.ends_with(" 256"), "{out}");
    }
}

/// `key:value` of the connection to `port`, as `ss -ti` shows it in the caller's namespace.
fn ss(port: u16, key: &str) -> Option<String> {
    let out = Command::new("ss").args(["-tinH", "state", "established", "dport", "=", &port.to_string()]).output();
    let text = String::from_utf8(out.unwrap().stdout).unwrap();
    text.split_whitespace().find_map(|word| word.strip_prefix(key)?.strip_prefix(':').map(str::to_owned))
}

#[test]
fn the_fields_are_what_ss_says() {
    tier::needs!(Need::Root, BTF, TUN, Need::Program("ss"));
    let delayed = Direction { delay: record::Nanos(10_000_000), ..Direction::default() };
    let lab = Lab::up(&Config { a_to_b: delayed.clone(), b_to_a: delayed, ..Config::default() }).unwrap();
    let listener = lab.host(Side::B).run(|| TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0)).unwrap()).unwrap();
    let port = listener.local_addr().unwrap().port();
    let to = SocketAddr::from((Side::B.ipv6(), port));
    let mut client = lab.host(Side::A).run(|| TcpStream::connect(to).unwrap()).unwrap();
    let mut server = listener.accept().unwrap().0;
    for _ in 0..20 {
        client.write_all(&[1; 100]).unwrap();
        server.read_exact(&mut [0; 100]).unwrap();
        server.write_all(&[2; 100]).unwrap();
        client.read_exact(&mut [0; 100]).unwrap();
    }
    let peer = Side::B.ipv6().to_string();
    let ss = |key| lab.host(Side::A).run(|| ss(port, key)).unwrap().unwrap();
    let watched = |field: &str| {
        // Every lab has that address.
        let filter = ["--peer", &peer, "--port", &port.to_string()];
        let watching = start(&[&[field][..], &filter, &["--at", "every", "--count", "1", "--json"]].concat());
        let (code, out, err) = output(watching);
        assert_eq!(code, Some(0), "{err}");
        let reading: Value = serde_json::from_str(out.lines().next().unwrap()).unwrap();
        assert_eq!(reading["remote_address"], to.ip().to_string(), "{out}");
        assert_eq!(reading["remote_port"], to.port(), "{out}");
        let key = reading.as_object().unwrap().keys().find(|key| key.starts_with("value")).unwrap().clone();
        reading[key].as_u64().unwrap()
    };
    // Nobody sends any more: both look at the same values. ss shows milliseconds with three digits.
    let rtt = ss("rtt");
    let (srtt, rttvar) = rtt.split_once('/').unwrap();
    let ms = |text: &str| (text.parse::<f64>().unwrap() * 1e6) as u64;
    assert!(watched("srtt").abs_diff(ms(srtt)) <= 1_000, "{rtt}");
    assert!(watched("rttvar").abs_diff(ms(rttvar)) <= 1_000, "{rtt}");
    assert!(watched("srtt") >= 20_000_000, "the path alone takes 20 ms");
    assert_eq!(watched("cwnd"), ss("cwnd").parse::<u64>().unwrap());
    assert_eq!(watched("mss"), ss("mss").parse::<u64>().unwrap());
    assert_eq!(watched("ato") / 1_000_000, ss("ato").parse::<u64>().unwrap());
    let scales = ss("wscale");
    assert_eq!(watched("window-scale"), scales.split_once(',').unwrap().0.parse::<u64>().unwrap());
    assert_eq!(watched("retransmits"), 0);
}

#[test]
fn what_is_not_there_is_reported_and_not_made_up() {
    tier::needs!(Need::Root, BTF, TUN);
    let lab = Lab::up(&Config::default()).unwrap();
    let host = lab.host(Side::A);
    host.set_sysctl("net.ipv4.tcp_window_scaling", 0).unwrap();
    let pair = host.run(|| pair((Ipv4Addr::LOCALHOST, 0).into())).unwrap();
    let port = pair.1.local_addr().unwrap().port().to_string();
    let (code, out, _) = output(start(&["window-scale", "--port", &port, "--at", "every", "--for", "1500ms"]));
    assert_eq!(code, Some(0));
    assert!(out.contains("No value yet.") && out.contains("the two sides did not agree"), "{out}");
}

#[test]
fn a_closed_connection_is_looked_at_with_its_owner() {
    tier::needs!(Need::Root, BTF);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let foreign = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let own = std::process::id().to_string();
    let mut watching = start(&[
        "cwnd",
        "--at",
        "close",
        "-p",
        &own,
        "--port",
        &port.to_string(),
        "--by",
        "comm",
        "--count",
        "6",
        "--json",
    ]);
    connections(&foreign, || false);
    connections(&listener, || watching.try_wait().unwrap().is_none());
    let (code, out, err) = output(watching);
    assert_eq!(code, Some(0), "{err}");
    let lines: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (histograms, readings): (Vec<_>, Vec<_>) = lines.into_iter().partition(|line| line["kind"] == "histogram");
    assert_eq!(readings.len(), 6);
    for reading in &readings {
        assert_eq!((&reading["at"], &reading["pid"]), (&"close".into(), &std::process::id().into()), "{reading}");
        assert!([&reading["local_port"], &reading["remote_port"]].into_iter().any(|end| *end == port), "{reading}");
    }
    assert_eq!(histograms.iter().map(|h| h["n"].as_u64().unwrap()).sum::<u64>(), 6);
    assert!(histograms.iter().all(|h| h["by"] == "comm" && h["comm"] == readings[0]["comm"]), "{histograms:?}");
}

/// Programs of ours that are loaded, by name.
fn loaded() -> usize {
    libbpf_rs::query::ProgInfoIter::default()
        .filter(|program| {
            program.name.as_encoded_bytes() == b"state_set" || program.name.as_encoded_bytes() == b"read_all"
        })
        .count()
}

#[test]
fn killed_it_leaves_nothing_in_the_kernel() {
    tier::needs!(Need::Root, BTF);
    let pair = pair((Ipv4Addr::LOCALHOST, 0).into());
    let port = pair.1.local_addr().unwrap().port().to_string();
    let mut watching = start(&["cwnd", "--port", &port, "--every", "10ms", "--json"]);
    let mut lines = BufReader::new(watching.stdout.take().unwrap()).lines();
    lines.next().unwrap().unwrap();
    let with = loaded();
    assert!(with > 0);
    watching.kill().unwrap();
    watching.wait().unwrap();
    // The kernel frees programs after a grace period; others' watches of this test file may come
    // and go meanwhile.
    assert!((0..500).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(20));
        loaded() < with
    }));
}
