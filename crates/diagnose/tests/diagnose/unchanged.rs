//! What is said of a connection does not change unawares. `tests/snapshots` holds the reports on
//! our own captures and on real ones, one line for each figure of each connection, and on generated
//! traffic the sums over all connections.
//!
//! A change that makes reading faster must leave every line as it is. One that changes a rule, a
//! text or a key changes them knowingly: `WIRELAPSE_WRITE_SNAPSHOTS=1` writes the new lines in
//! place of the old ones.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::snapshot::compare;
use diagnose::{Follower, Options};
use serde_json::Value;
use wire::generate::{Pattern, Traffic, write_traffic};
use wire::{Packet, PacketReader};

/// The reports of a capture as JSON, and its totals last.
fn reports(file: &[u8]) -> Vec<Value> {
    let mut packets = PacketReader::from_bytes(file).unwrap();
    let mut follower = Follower::new(Options::default());
    while let Some(packet) = packets.next_packet().unwrap() {
        if let Packet::Tcp(segment) = packet {
            follower.take(segment);
        }
    }
    assert!(!follower.is_empty());
    let read = |report: diagnose::Report| {
        let mut json = Vec::new();
        report.write_json(&mut json);
        serde_json::from_slice(&json).unwrap()
    };
    follower.reports().map(read).chain([serde_json::to_value(follower.totals()).unwrap()]).collect()
}

/// Every figure that says something, with the path to it.
fn figures(value: &Value, path: &str, each: &mut impl FnMut(&str, &Value)) {
    let inside = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    match value {
        Value::Object(object) => object.iter().for_each(|(key, value)| figures(value, &inside(key), each)),
        Value::Array(list) if list.iter().any(Value::is_object) => {
            (1..).zip(list).for_each(|(i, value): (usize, _)| figures(value, &inside(&i.to_string()), each));
        }
        Value::Null | Value::Bool(false) => {}
        value if value.as_u64() == Some(0) => {}
        value => each(path, value),
    }
}

fn in_full(file: &[u8]) -> String {
    let mut text = String::new();
    for report in reports(file) {
        let name = report.get("number").map_or_else(|| "totals".to_owned(), Value::to_string);
        figures(&report, "", &mut |path, value| {
            // Pages put texts into sentences of theirs.
            assert!(!value.as_str().is_some_and(|text| text.ends_with('.')), "{path} ends in a full stop: {value}");
            writeln!(text, "{name} {path}: {value}").unwrap();
        });
    }
    text
}

/// Of each figure its sum and its largest value, or how often each word came, or how many different
/// texts there are; lists by their number.
fn in_sums(file: &[u8]) -> String {
    let mut sums: BTreeMap<String, (u128, u64)> = BTreeMap::new();
    let mut texts: BTreeMap<String, BTreeMap<String, u64>> = BTreeMap::new();
    for report in reports(file) {
        figures(&report, "", &mut |path, value| {
            // Findings and what else is a list, whatever its place in the list.
            let path: Vec<&str> =
                path.split('.').filter(|key| key.parse::<u32>().is_err() || path.contains("header")).collect();
            let path = path.join(".");
            match value.as_u64() {
                Some(n) => {
                    let (sum, most) = sums.entry(path).or_default();
                    (*sum, *most) = (*sum + u128::from(n), n.max(*most));
                }
                None => *texts.entry(path).or_default().entry(value.to_string()).or_default() += 1,
            }
        });
    }
    let mut text = String::new();
    for (path, (sum, most)) in sums {
        writeln!(text, "{path}: {sum} in all, {most} at most").unwrap();
    }
    for (path, found) in texts {
        if found.len() <= 30 && found.keys().all(|text| text.len() < 40) {
            found.iter().for_each(|(word, n)| writeln!(text, "{path}: {word} ×{n}").unwrap());
        } else {
            let length: usize = found.iter().map(|(text, n)| text.len() * *n as usize).sum();
            writeln!(text, "{path}: {} different, of {length} bytes in all", found.len()).unwrap();
        }
    }
    text
}

#[test]
fn reports_on_generated_traffic() {
    let mut found = Vec::new();
    for (name, pattern) in Pattern::ALL {
        for (loss_one_in, seed) in [(0, 1), (20, 2), (100, 3)] {
            let mut file = Vec::new();
            write_traffic(&mut file, &Traffic { pattern, packets: 12_000, connections: 64, seed, loss_one_in })
                .unwrap();
            found.push((format!("{name}-loss-{loss_one_in}"), in_sums(&file)));
        }
    }
    compare("generated", &found);
}

#[test]
fn reports_on_our_own_captures() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../wire/tests/recorded");
    let read = |name: &str| (name.to_owned(), in_full(&std::fs::read(format!("{folder}/{name}")).unwrap()));
    compare("recorded", &RECORDED.map(read));
}

#[test]
fn reports_on_real_captures() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/captures");
    tier::needs!(tier::Need::Path(folder));
    let read = |name: &str| (name.to_owned(), in_full(&std::fs::read(format!("{folder}/{name}")).unwrap()));
    compare("captures", &CAPTURES.map(read));
}

const RECORDED: [&str; 7] = [
    "closed-window.pcap",
    "ipv6.pcapng",
    "loss.pcap",
    "lost-one.pcap",
    "refused.pcap",
    "small-messages.pcap",
    "timeouts.pcap",
];
const CAPTURES: [&str; 11] = [
    "R_rto_rto001.trace",
    "S_mime_mime-stream-depth_input.pcap",
    "S_tcp-fastopen-07_tcp_fastopen_segmentation.pcap",
    "T_dsack.dmp",
    "T_zwnd.dmp",
    "Z_ftp_cwd-navigation.pcap",
    "Z_http_206_example_a.pcap",
    "Z_http_get-to-ssh-server.pcap",
    "D_bigtcp-ipv6.pcap",
    "Z_pppoe-over-qinq.pcap",
    "Z_ssh_ssh.pcap",
];
