//! What is said of a connection does not change unawares: the reports on generated traffic and on the real captures with TCP in them, as one number
//! each. A change that makes reading faster must leave every number as it is; one that changes a rule, a text or a key changes
//! them knowingly, and puts the numbers that this test prints in place of the old ones.

use diagnose::{Follower, Options};
use wire::generate::{Pattern, Traffic, write_traffic};
use wire::{Packet, PacketReader};

/// FNV-1a over the JSON of all reports and of the totals.
fn digest(file: &[u8]) -> u64 {
    let mut packets = PacketReader::from_bytes(file).unwrap();
    let mut follower = Follower::new(Options::default());
    while let Some(packet) = packets.next_packet().unwrap() {
        if let Packet::Tcp(segment) = packet {
            follower.take(segment);
        }
    }
    assert!(!follower.is_empty());
    let mut json = serde_json::to_vec(&follower.totals()).unwrap();
    follower.reports().for_each(|report| serde_json::to_writer(&mut json, &report).unwrap());
    json.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Compares all, so that one run prints every number that is to be put in place.
fn compare(found: &[(String, u64)], expected: &[(&str, u64)]) {
    let changed: String = found
        .iter()
        .filter(|(name, digest)| !expected.contains(&(name, *digest)))
        .map(|(name, digest)| format!("(\"{name}\", {digest:#018x}),\n"))
        .collect();
    assert!(changed.is_empty(), "reports have changed. Where that was meant, these are the new numbers:\n{changed}");
}

#[test]
fn reports_on_generated_traffic() {
    let mut found = Vec::new();
    for (name, pattern) in Pattern::ALL {
        for (loss_one_in, seed) in [(0, 1), (20, 2), (100, 3)] {
            let mut file = Vec::new();
            write_traffic(&mut file, &Traffic { pattern, packets: 12_000, connections: 64, seed, loss_one_in })
                .unwrap();
            found.push((format!("{name}, 1 in {loss_one_in} lost"), digest(&file)));
        }
    }
    compare(&found, &GENERATED);
}

#[test]
fn reports_on_real_captures() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/captures");
    tier::needs!(tier::Need::Path(folder));
    let found: Vec<(String, u64)> = CAPTURES
        .iter()
        .map(|(name, _)| ((*name).to_owned(), digest(&std::fs::read(format!("{folder}/{name}")).unwrap())))
        .collect();
    compare(&found, &CAPTURES);
}

const GENERATED: [(&str, u64); 15] = [
    ("download, 1 in 0 lost", 0xd79dad46e22c1b5b),
    ("download, 1 in 20 lost", 0xeb34741be32f19e5),
    ("download, 1 in 100 lost", 0xee89b062199c3fc9),
    ("both-ways, 1 in 0 lost", 0xc443b12b937a3394),
    ("both-ways, 1 in 20 lost", 0x6a54403f72cec272),
    ("both-ways, 1 in 100 lost", 0xe562a6831d2c3f7c),
    ("messages, 1 in 0 lost", 0x6aced8231bf42ab2),
    ("messages, 1 in 20 lost", 0x6629f5ce0e85ea86),
    ("messages, 1 in 100 lost", 0x093f2b19714c1584),
    ("short, 1 in 0 lost", 0xff47969e29cb9169),
    ("short, 1 in 20 lost", 0xe0a0d539e13b476f),
    ("short, 1 in 100 lost", 0xc422bb988190c6e7),
    ("mixed, 1 in 0 lost", 0xf741cac01c5995cc),
    ("mixed, 1 in 20 lost", 0x3ba162f56e1ab025),
    ("mixed, 1 in 100 lost", 0x111e41268de5002c),
];
const CAPTURES: [(&str, u64); 11] = [
    ("R_rto_rto001.trace", 0x8cee5c3b71079edc),
    ("S_mime_mime-stream-depth_input.pcap", 0x92250c2269803c13),
    ("S_tcp-fastopen-07_tcp_fastopen_segmentation.pcap", 0xfbac3e0fc2632a8b),
    ("T_dsack.dmp", 0x95a39d86b0e7155c),
    ("T_zwnd.dmp", 0x7b2e35d16a27a44a),
    ("Z_ftp_cwd-navigation.pcap", 0xcf0fc410c660cc56),
    ("Z_http_206_example_a.pcap", 0x4b02475be628f5c7),
    ("Z_http_get-to-ssh-server.pcap", 0x5ecaa36352476509),
    ("D_bigtcp-ipv6.pcap", 0xe09edfa83829e967),
    ("Z_pppoe-over-qinq.pcap", 0x1b04476980d89f15),
    ("Z_ssh_ssh.pcap", 0x785b2d5e283b4c10),
];
