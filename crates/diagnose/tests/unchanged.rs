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
    ("download, 1 in 20 lost", 0x58480f7e95052ea0),
    ("download, 1 in 100 lost", 0x263bc1b4e2883784),
    ("both-ways, 1 in 0 lost", 0xbce8a7f45c25ea19),
    ("both-ways, 1 in 20 lost", 0xd66b0b30ca434058),
    ("both-ways, 1 in 100 lost", 0x620a18d00aa098aa),
    ("messages, 1 in 0 lost", 0x552d8cf68f608d4d),
    ("messages, 1 in 20 lost", 0x4fd2e99100d12583),
    ("messages, 1 in 100 lost", 0x3153e91806afd798),
    ("short, 1 in 0 lost", 0x7e7016be3658c9f1),
    ("short, 1 in 20 lost", 0x8b2fb07835ddeade),
    ("short, 1 in 100 lost", 0x482dcb8f35676722),
    ("mixed, 1 in 0 lost", 0x315e124c53ad2fb4),
    ("mixed, 1 in 20 lost", 0x2b3aab15ddef23c5),
    ("mixed, 1 in 100 lost", 0xe7434b0a84079754),
];
const CAPTURES: [(&str, u64); 11] = [
    ("R_rto_rto001.trace", 0x230983f63200dab3),
    ("S_mime_mime-stream-depth_input.pcap", 0xcae1faf8f79b29d4),
    ("S_tcp-fastopen-07_tcp_fastopen_segmentation.pcap", 0xea6349263644e920),
    ("T_dsack.dmp", 0xdb228bca73fb6db6),
    ("T_zwnd.dmp", 0xc8dd3eabcb2b6454),
    ("Z_ftp_cwd-navigation.pcap", 0x2530624a5b516b57),
    ("Z_http_206_example_a.pcap", 0x86b9d841c5ae5080),
    ("Z_http_get-to-ssh-server.pcap", 0x4c7f2e9d37127334),
    ("D_bigtcp-ipv6.pcap", 0x1b034482b44716fe),
    ("Z_pppoe-over-qinq.pcap", 0xa5ad370e86c2997b),
    ("Z_ssh_ssh.pcap", 0xb8ffd73ea8a770b1),
];
