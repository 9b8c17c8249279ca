//! What other programs count in captures made in the lab: frames that offload left whole, IPv6,
//! SACK, segments retransmitted.

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;

use diagnose::Report;
use lab::{Direction, Loss, Side};

use crate::bench::{Dump, analysed, at_once, drain, join, segments, send, shaped, uneven};
use crate::in_the_lab;

/// What one of the programs prints.
fn output(program: &str, args: &[&str], file: &Path) -> String {
    let out = Command::new(program).args(args).arg(file).output().unwrap();
    tier::text(&out.stdout)
}

/// tcptrace's figures of the first connection, there and back.
fn tcptrace(file: &Path) -> HashMap<String, [u64; 2]> {
    let mut figures = HashMap::new();
    for line in output("tcptrace", &["-l", "-n"], file).lines() {
        let mut parts = line.split(':');
        let (Some(key), Some(there), Some(back)) = (parts.next(), parts.next(), parts.next()) else { continue };
        let number = |text: &str| text.split_whitespace().next().and_then(|n| n.parse().ok());
        if let (Some(there), Some(back)) = (number(there), number(back)) {
            figures.insert(key.trim().to_owned(), [there, back]);
        }
    }
    figures
}

/// tshark's sum of payload and number of packets to the server, and of those that it takes for
/// retransmissions.
fn tshark(file: &Path, port: u16) -> [u64; 3] {
    let fields =
        ["-n", "-T", "fields", "-e", "tcp.dstport", "-e", "tcp.len", "-e", "tcp.analysis.retransmission", "-r"];
    let mut sums = [0; 3];
    for line in output("tshark", &fields, file).lines() {
        let f: Vec<&str> = line.split('\t').collect();
        if f[0].parse() == Ok(port) {
            sums[0] += f[1].parse::<u64>().unwrap();
            sums[1] += 1;
            sums[2] += u64::from(!f[2].is_empty());
        }
    }
    sums
}

fn agrees(report: &Report, file: &Path) {
    let d = &report.to_server;
    let theirs = tcptrace(file);
    let there = |key: &str| theirs.get(key).unwrap_or_else(|| panic!("tcptrace has no {key}"))[0];
    let tell = || format!("{d:?}\n{theirs:?}");
    assert_eq!(d.packets, there("total packets"), "{}", tell());
    assert_eq!(report.to_client.packets, theirs["total packets"][1], "{}", tell());
    assert_eq!(d.payload_packets, there("actual data pkts"), "{}", tell());
    assert_eq!(d.unique_bytes + d.retransmitted_bytes, there("actual data bytes"), "{}", tell());
    assert_eq!(d.unique_bytes, there("unique bytes sent"), "{}", tell());
    // Not a byte of a FIN retransmitted is payload; tcptrace counts one.
    assert!((d.retransmitted_bytes..=d.retransmitted_bytes + 2).contains(&there("rexmt data bytes")), "{}", tell());
    assert_eq!(report.to_client.sack_acks, theirs["sack pkts sent"][1], "{}", tell());

    let [bytes, packets, again] = tshark(file, report.server.port());
    assert_eq!((bytes, packets), (d.unique_bytes + d.retransmitted_bytes, d.packets), "tshark");
    // Some of them tshark calls out of order or spurious instead, by times itself: it finds no more
    // than there are. Behind the loss it takes some first arrivals for retransmissions, too.
    assert!(d.lost_before_capture > 0 || again <= d.retransmitted_packets, "tshark {again}: {}", tell());
    let lines = output("tcpdump", &["-nn", "-r"], file).lines().count() as u64;
    assert_eq!(lines, d.packets + report.to_client.packets, "tcpdump");
}

#[test]
fn counts_agree_with_those_of_others() {
    in_the_lab!();
    tier::needs!(tier::Need::Program("tcptrace"), tier::Need::Program("tshark"));
    let run = |v6: bool, loss: f64| {
        let lab = uneven(Direction { loss: Loss::Independent(loss), ..shaped(5, 200, 100) }, 5);
        let dumps = Side::ALL.map(|side| Dump::start(&lab, side));
        let b = lab.host(Side::B);
        let address = if v6 { b.ipv6().into() } else { b.ipv4().into() };
        join(&lab, address, send(2 << 20), drain);
        let files = dumps.map(Dump::finish);
        let [sender, receiver] = files.each_ref().map(|f| analysed(&segments(f.path())).remove(0));
        agrees(&sender, files[0].path());
        agrees(&receiver, files[1].path());
        assert_eq!(sender.client.is_ipv6(), v6);
        // Offload leaves frames whole at the sender; both ends hold the same bytes once.
        assert!(sender.to_server.larger_than_mss > 10, "{:?}", sender.to_server);
        assert_eq!((sender.to_server.unique_bytes, receiver.to_server.unique_bytes), (2 << 20, 2 << 20));
        assert_eq!(loss > 0.0, sender.to_server.retransmitted_packets > 0, "{:?}", sender.to_server);
        assert_eq!(sender.to_client.sack_acks > 0, loss > 0.0);
    };
    at_once(&[&|| run(false, 0.01), &|| run(true, 0.01), &|| run(false, 0.0), &|| run(true, 0.0)]);
}
