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
    ("download, 1 in 0 lost", 0xe93eacd1953c1619),
    ("download, 1 in 20 lost", 0x3b09a8a12d785bde),
    ("download, 1 in 100 lost", 0x607ceb21c0a3ea3d),
    ("both-ways, 1 in 0 lost", 0xbce8a7f45c25ea19),
    ("both-ways, 1 in 20 lost", 0x8795f21da0aaaa00),
    ("both-ways, 1 in 100 lost", 0xf5f52ffee0650894),
    ("messages, 1 in 0 lost", 0x552d8cf68f608d4d),
    ("messages, 1 in 20 lost", 0x621d09a85de8083e),
    ("messages, 1 in 100 lost", 0xf092136d369762a4),
    ("short, 1 in 0 lost", 0x7e7016be3658c9f1),
    ("short, 1 in 20 lost", 0x24c5f71a11f95d61),
    ("short, 1 in 100 lost", 0xb16f557b8ff0f175),
    ("mixed, 1 in 0 lost", 0x315e124c53ad2fb4),
    ("mixed, 1 in 20 lost", 0xa017a169989ecb82),
    ("mixed, 1 in 100 lost", 0x1fe96e17a804a4b2),
];
const CAPTURES: [(&str, u64); 11] = [
    ("R_rto_rto001.trace", 0x99dc80ade1133600),
    ("S_mime_mime-stream-depth_input.pcap", 0xcae1faf8f79b29d4),
    ("S_tcp-fastopen-07_tcp_fastopen_segmentation.pcap", 0xea6349263644e920),
    ("T_dsack.dmp", 0x099fcc0566c24fbe),
    ("T_zwnd.dmp", 0xc8dd3eabcb2b6454),
    ("Z_ftp_cwd-navigation.pcap", 0x2530624a5b516b57),
    ("Z_http_206_example_a.pcap", 0x58fd94ff3c5338a7),
    ("Z_http_get-to-ssh-server.pcap", 0x4c7f2e9d37127334),
    ("D_bigtcp-ipv6.pcap", 0x1b034482b44716fe),
    ("Z_pppoe-over-qinq.pcap", 0xbc88621031bc87a6),
    ("Z_ssh_ssh.pcap", 0x1a4c4e1f692a55ab),
];
