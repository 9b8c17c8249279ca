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
    ("download, 1 in 0 lost", 0x0d468d9c73797704),
    ("download, 1 in 20 lost", 0x1e46_8fff_59db_258f),
    ("download, 1 in 100 lost", 0xdb53_8731_21d0_ccf1),
    ("both-ways, 1 in 0 lost", 0x921f16c320ffaa58),
    ("both-ways, 1 in 20 lost", 0xf1e8_458b_34f2_3347),
    ("both-ways, 1 in 100 lost", 0x8812_dbe9_7fc7_3e73),
    ("messages, 1 in 0 lost", 0x398ebff866510620),
    ("messages, 1 in 20 lost", 0x1bcb_509a_60e7_e5e5),
    ("messages, 1 in 100 lost", 0xe43f_4ac0_4c84_8023),
    ("short, 1 in 0 lost", 0x01b6_fe24_a830_e12e),
    ("short, 1 in 20 lost", 0xb760_80da_a88e_347d),
    ("short, 1 in 100 lost", 0x5516_5009_e18e_8e95),
    ("mixed, 1 in 0 lost", 0xc90a_05fc_8ab6_0e15),
    ("mixed, 1 in 20 lost", 0x4b67_7c14_c93c_a287),
    ("mixed, 1 in 100 lost", 0xbb3c_e64a_1c18_1147),
];
const RECORDED: [(&str, u64); 5] = [
    ("closed-window.pcap", 0x29c90e6bc9842ca9),
    ("ipv6.pcapng", 0x37367eeac6c2b8db),
    ("loss.pcap", 0xada0_3bd2_d110_aca2),
    ("small-messages.pcap", 0x19aa_1440_9c0b_a2e4),
    ("timeouts.pcap", 0xf738_3ab5_1775_5a9e),
];
const CAPTURES: [(&str, u64); 11] = [
    ("R_rto_rto001.trace", 0x40cd_eada_28af_a4c0),
    ("S_mime_mime-stream-depth_input.pcap", 0xd5ea8bdba72e0655),
    ("S_tcp-fastopen-07_tcp_fastopen_segmentation.pcap", 0x26c69ce1e1aa2605),
    ("T_dsack.dmp", 0xd0dd_6739_ce1e_c78f),
    ("T_zwnd.dmp", 0x65ba_50aa_a361_92c2),
    ("Z_ftp_cwd-navigation.pcap", 0xe015_ed7f_bb29_a681),
    ("Z_http_206_example_a.pcap", 0x72c8_ab33_fa22_0260),
    ("Z_http_get-to-ssh-server.pcap", 0xe86a_f14a_7d4a_215c),
    ("D_bigtcp-ipv6.pcap", 0xde482b98454760a0),
    ("Z_pppoe-over-qinq.pcap", 0x6ca2_e4d3_38b2_0307),
    ("Z_ssh_ssh.pcap", 0xecb8_a6ed_8e2c_3eb2),
];
