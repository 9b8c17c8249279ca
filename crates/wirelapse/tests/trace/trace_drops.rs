//! Packets that a host drops, as `wirelapse trace --packets` tells of them, held against what the
//! kernel's own counters say by `tc`, `nstat` and `ss`.

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use crate::scene::path::{in_a, lab};
use crate::scene::{BTF, TUN, turn};
use crate::trace_packets::{TSHARK, copied, copying, read};
use lab::{Host, Lab, Side};
use tier::{Need, text};

/// What a program says in a host.
fn said(host: &Host<'_>, words: &str) -> String {
    let mut words = words.split(' ');
    let mut command = tier::limit(host.command(words.next().unwrap()).unwrap());
    let out = command.args(words).output().unwrap();
    assert!(out.status.success(), "{}", text(&out.stderr));
    text(&out.stdout)
}

/// The number behind this word.
fn after(text: &str, word: &str) -> u64 {
    let number = text.split_once(word).unwrap_or_else(|| panic!("no {word}: {text}")).1.trim_start();
    number.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap()
}

/// Datagrams of host `a` to a socket in `b` that nobody reads; gives that socket.
fn flood(lab: &Lab, port: u16, datagrams: usize, apart: Duration) -> UdpSocket {
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let at = SocketAddr::new(b.ipv4().into(), port);
    let server = b.run(|| UdpSocket::bind(at).unwrap()).unwrap();
    let client = a.run(|| UdpSocket::bind(SocketAddr::new(a.ipv4().into(), 0)).unwrap()).unwrap();
    for _ in 0..datagrams {
        // A full queue of the host is no error of a datagram's.
        let _ = client.send_to(&[7; 1_000], at);
        std::thread::sleep(apart);
    }
    std::thread::sleep(Duration::from_millis(500));
    server
}

/// How many packets of a file were dropped, by reason.
fn dropped(path: &std::path::Path) -> std::collections::BTreeMap<String, u64> {
    let mut all = std::collections::BTreeMap::new();
    for (_, reason) in read(path).iter().filter_map(|seen| seen.context.as_ref()?.dropped.as_ref()) {
        *all.entry(reason.to_string()).or_default() += 1;
    }
    all
}

#[test]
fn drops_of_a_full_socket_are_those_of_ss_and_nstat() {
    tier::needs!(Need::Root, BTF, TUN, TSHARK, Need::Program("ss"), Need::Program("nstat"));
    let _turn = turn();
    let (lab, port) = (lab(1), 7_201);
    let file = tempfile::NamedTempFile::new().unwrap();
    let trace = copying(port, file.path(), &[]);
    let server = flood(&lab, port, 600, Duration::from_micros(200));
    let b = lab.host(Side::B);
    let of_socket = after(&said(&b, &format!("ss -Huanm sport = :{port}")).replace(')', ","), ",d");
    let of_host = after(&said(&b, "nstat -asz UdpRcvbufErrors"), "UdpRcvbufErrors");
    copied(trace, file.path());
    drop(server);
    let dropped = dropped(file.path());
    assert!(of_socket > 100, "the socket holds all of them");
    assert_eq!((of_socket, dropped.get("SOCKET_RCVBUFF")), (of_host, Some(&of_socket)), "{dropped:?}");
}

#[test]
fn drops_of_a_full_qdisc_are_those_of_tc() {
    tier::needs!(Need::Root, BTF, TUN, TSHARK, Need::Program("tc"));
    let _turn = turn();
    let (lab, port) = (lab(1), 7_202);
    in_a(&lab, "tc", &format!("qdisc replace dev {} root tbf rate 1mbit burst 2000 limit 5000", lab::INTERFACE));
    let file = tempfile::NamedTempFile::new().unwrap();
    let trace = copying(port, file.path(), &[]);
    drop(flood(&lab, port, 200, Duration::ZERO));
    let of_qdisc = after(&said(&lab.host(Side::A), &format!("tc -s qdisc show dev {}", lab::INTERFACE)), "(dropped ");
    copied(trace, file.path());
    let dropped = dropped(file.path());
    assert!(of_qdisc > 50, "{of_qdisc}");
    assert_eq!(dropped.values().sum::<u64>(), of_qdisc, "{dropped:?}");
    assert!(dropped.keys().all(|reason| reason.starts_with("QDISC")), "{dropped:?}");
}
