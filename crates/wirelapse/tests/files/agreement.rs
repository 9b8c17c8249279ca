//! DNS, TLS, QUIC, ICMP and UDP as `analyze` reads them, field by field beside tshark.

use std::path::{Path, PathBuf};

use tier::Need;

/// Equal of 1,000 fields; the others are meant to differ, and the comparison says why.
const LEAST: u64 = 995;

/// Our own captures: one of each protocol, and those on the way between two hosts of every cause.
fn captures() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../diagnose/tests/captures");
    let mut all: Vec<PathBuf> = ["dns", "quic", "quic_far", "quic_slow_hello", "tls", "udp"]
        .map(|name| folder.join(format!("{name}.pcap.zst")))
        .into();
    let provoked = std::fs::read_dir(folder.join("provoked")).expect("a folder");
    let provoked = provoked.map(|entry| entry.expect("an entry").path());
    all.extend(provoked.filter(|path| path.to_string_lossy().ends_with(".middle.pcap.zst")));
    all
}

#[test]
fn every_field_is_that_of_tshark_or_said_to_differ() {
    for program in ["tshark", "python3", "zstd"] {
        tier::needs!(Need::Program(program));
    }
    let compare = Path::new(env!("CARGO_MANIFEST_DIR")).join("../truth/others/agree.py");
    let out = tier::command("python3")
        .arg(compare)
        .arg(env!("CARGO_BIN_EXE_wirelapse"))
        .args(captures())
        .output()
        .expect("Python runs");
    let said = tier::text(&out.stdout);
    assert!(out.status.success(), "{said}{}", tier::text(&out.stderr));
    let sums = said.lines().find_map(|line| line.strip_prefix("all ")).expect("the sums");
    let sums: Vec<u64> = sums.split_whitespace().map(|n| n.parse().expect("a number")).collect();
    let [equal, meant, 0] = sums[..] else { panic!("{said}") };
    assert!(equal > 1_500 && equal * 1_000 >= (equal + meant) * LEAST, "{said}");
}
