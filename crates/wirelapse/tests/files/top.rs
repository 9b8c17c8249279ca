//! `wirelapse top` on capture files, against what `analyze` reads there.

use std::path::Path;

use serde_json::Value;
use tier::text;

/// The JSON lines of a kind that a command prints of a file.
fn lines(words: &[&str], file: &Path, kind: &str) -> Vec<Value> {
    let output = tier::wirelapse!(words).arg(file).output().unwrap();
    assert!(output.status.success(), "{}: {}", file.display(), text(&output.stderr));
    let lines =
        text(&output.stdout).lines().map(|line| serde_json::from_str::<Value>(line).unwrap()).collect::<Vec<_>>();
    lines.into_iter().filter(|line| line["kind"] == kind).collect()
}

/// Also where segments are lost, sent again after the end, and from before the capture.
#[test]
fn bytes_are_those_that_analyze_counts() {
    let known = Path::new(env!("CARGO_MANIFEST_DIR")).join("../truth/known");
    let mut compared = 0;
    for file in std::fs::read_dir(known).unwrap().map(|entry| entry.unwrap().path()) {
        if !file.to_str().unwrap().ends_with("-sender-0.pcap.zst") {
            continue;
        }
        let of = |way: &str| {
            let all = lines(&["analyze", "--json"], &file, "connection");
            all.iter().map(|one| one[way]["unique_bytes"].as_u64().unwrap()).sum::<u64>()
        };
        let rows = lines(&["top", "--once", "--json", "--by", "peer"], &file, "row");
        let shown = |key: &str| rows.iter().map(|row| row["sockets"][key].as_u64().unwrap()).sum::<u64>();
        let mut both = [shown("bytes_sent"), shown("bytes_received")];
        let mut expected = [of("to_server"), of("to_client")];
        // Which end is this host's does not matter here.
        both.sort_unstable();
        expected.sort_unstable();
        assert_eq!(both, expected, "{}", file.display());
        compared += 1;
    }
    assert!(compared > 20, "{compared}");
}
