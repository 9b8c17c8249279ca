//! The corpora that fuzzing has gathered, cut at every byte, through the same entries in seconds.
//!
//! `fuzz/corpus/` is kept by `cargo +nightly fuzz cmin`; its targets are in `fuzz/fuzz_targets/`.

use std::path::Path;

use timestamping::{Report, TcpStats, TimestampingInfo, attributes, controls, report};

const CORPUS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus");

fn replay(target: &str, run: impl Fn(&[u8])) {
    let folder = Path::new(CORPUS).join(target);
    let mut inputs = 0;
    for entry in std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display())) {
        let input = std::fs::read(entry.expect("an entry").path()).expect("readable");
        (0..=input.len()).for_each(|end| run(&input[..end]));
        inputs += 1;
    }
    assert!(inputs > 20, "{inputs} inputs in {}", folder.display());
}

#[test]
fn control_messages() {
    replay("control", |bytes| {
        let [length, rest @ ..] = bytes else { return };
        let (control, payload) = rest.split_at(rest.len().min(usize::from(*length) * 4));
        assert!(controls(control).count() <= control.len());
        if let Ok(Report::Stamp(stamp)) = report(control, payload) {
            let _ = (stamp.software(), stamp.hardware(), stamp.stats());
        }
    });
}

#[test]
fn netlink_attributes() {
    replay("attribute", |bytes| {
        assert!(attributes(bytes).count() <= bytes.len());
        for attribute in attributes(bytes).flatten() {
            assert!(attribute.nested().count() <= attribute.data.len());
            let _ = (attribute.number(), attribute.text());
        }
        let _ = TcpStats::parse(bytes);
        let _ = TimestampingInfo::from_netlink(bytes);
    });
}
