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
    ("download, 1 in 0 lost", 0x73ea23551466d4b8),
    ("download, 1 in 20 lost", 0x32715a57362aacfe),
    ("download, 1 in 100 lost", 0x8e1a95b33d406062),
    ("both-ways, 1 in 0 lost", 0x8c1b030d080c69bb),
    ("both-ways, 1 in 20 lost", 0x288a43c8ae9e8ef6),
    ("both-ways, 1 in 100 lost", 0xe81c18ddcfc7d0e1),
    ("messages, 1 in 0 lost", 0xd4ca977e678c61c6),
    ("messages, 1 in 20 lost", 0x3b0fa7901d40465d),
    ("messages, 1 in 100 lost", 0xc4f3a5375f0ca0cd),
    ("short, 1 in 0 lost", 0x41a4ed2ea3fff6f5),
    ("short, 1 in 20 lost", 0x1741a75e9bdd6a24),
    ("short, 1 in 100 lost", 0xe32e0bd8ad779196),
    ("mixed, 1 in 0 lost", 0x14c879d54c3a1825),
    ("mixed, 1 in 20 lost", 0x15562cc426671927),
    ("mixed, 1 in 100 lost", 0x2073fadf75e6d828),
];
const RECORDED: [(&str, u64); 7] = [
    ("closed-window.pcap", 0x3b89e567fc84504e),
    ("ipv6.pcapng", 0x08e04f9a328ce08a),
    ("loss.pcap", 0x833d8f018c122722),
    ("lost-one.pcap", 0xc4bd0b21a936ffcf),
    ("refused.pcap", 0xa198eceef4262d82),
    ("small-messages.pcap", 0xeecc3640e9cc492e),
    ("timeouts.pcap", 0xe039392aa0b3100a),
];
const CAPTURES: [(&str, u64); 11] = [
    ("R_rto_rto001.trace", 0xa2340c01214d6afc),
    ("S_mime_mime-stream-depth_input.pcap", 0x356fe425b039d2c1),
    ("S_tcp-fastopen-07_tcp_fastopen_segmentation.pcap", 0x9dacdf303dc492aa),
    ("T_dsack.dmp", 0xd6b0e1c549bf5c58),
    ("T_zwnd.dmp", 0x91b190276279af73),
    ("Z_ftp_cwd-navigation.pcap", 0xa22826592868e82e),
    ("Z_http_206_example_a.pcap", 0x35d40a5a35a73547),
    ("Z_http_get-to-ssh-server.pcap", 0x65d4994155620338),
    ("D_bigtcp-ipv6.pcap", 0x6ff32a38913dd9fd),
    ("Z_pppoe-over-qinq.pcap", 0x41580a260841a256),
    ("Z_ssh_ssh.pcap", 0xf2b9cced178089fb),
];
