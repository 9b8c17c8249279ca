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
    for report in follower.reports() {
        let at = json.len();
        report.write_json(&mut json);
        assert_eq!(json[at..], serde_json::to_vec(&report).unwrap());
    }
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
fn reports_on_our_own_captures() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../wire/tests/recorded");
    let read = |name: &str| digest(&std::fs::read(format!("{folder}/{name}")).unwrap());
    let found: Vec<(String, u64)> = RECORDED.iter().map(|(name, _)| ((*name).to_owned(), read(name))).collect();
    compare(&found, &RECORDED);
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
    ("download, 1 in 0 lost", 0x46a8d5b2e9c2addc),
    ("download, 1 in 20 lost", 0xf90c5a33d820fc43),
    ("download, 1 in 100 lost", 0x27c1247af21e8469),
    ("both-ways, 1 in 0 lost", 0x83293b1ed5598c10),
    ("both-ways, 1 in 20 lost", 0xc2626531d62f7adb),
    ("both-ways, 1 in 100 lost", 0x88c124827c63a81b),
    ("messages, 1 in 0 lost", 0x58d32b7601b3b75c),
    ("messages, 1 in 20 lost", 0x8e2ec22ae1b35059),
    ("messages, 1 in 100 lost", 0x9bede3430855f1db),
    ("short, 1 in 0 lost", 0x2b15580f2463b53a),
    ("short, 1 in 20 lost", 0xf40b7a64ff8df7c5),
    ("short, 1 in 100 lost", 0x4d974fb55287583d),
    ("mixed, 1 in 0 lost", 0xf238e19944623bcd),
    ("mixed, 1 in 20 lost", 0xcd7ef6f474548f07),
    ("mixed, 1 in 100 lost", 0x25210b775e6aa1b3),
];
const RECORDED: [(&str, u64); 5] = [
    ("closed-window.pcap", 0x7e0fc238ea239489),
    ("ipv6.pcapng", 0x0226b16a54e1f47f),
    ("loss.pcap", 0x4c5e85d316af2f58),
    ("small-messages.pcap", 0x5b9bbbe6d2a956cc),
    ("timeouts.pcap", 0x25d444b548fb86e0),
];
const CAPTURES: [(&str, u64); 11] = [
    ("R_rto_rto001.trace", 0x55745bceb54cb492),
    ("S_mime_mime-stream-depth_input.pcap", 0xbb41534c56ab953d),
    ("S_tcp-fastopen-07_tcp_fastopen_segmentation.pcap", 0x0dcd190250d27189),
    ("T_dsack.dmp", 0x41a90ac6a0275291),
    ("T_zwnd.dmp", 0x232a0ceea5be9202),
    ("Z_ftp_cwd-navigation.pcap", 0xb26fd8bb048cdfb5),
    ("Z_http_206_example_a.pcap", 0x2f4dea1849028cac),
    ("Z_http_get-to-ssh-server.pcap", 0x3634fb170cb3e960),
    ("D_bigtcp-ipv6.pcap", 0x72c12ab3fe3e3f28),
    ("Z_pppoe-over-qinq.pcap", 0x6b8916b6ae97472d),
    ("Z_ssh_ssh.pcap", 0x6ff80242e9419112),
];
