//! A run that version 2 of the layout wrote is still read. `tests/version-2` was written by a
//! Wirelapse of that version, of the capture `loss.pcap` of the crate `wire`.

use std::path::Path;

use store::{State, capture};

#[test]
fn a_run_of_schema_2_is_read_by_its_former_names() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/version-2");
    let text = std::fs::read_to_string(path.join("run.json")).unwrap();
    assert!(text.contains("\"schema\": 2"));
    let (run, state) = capture::Run::read(&path).unwrap();
    assert_eq!((state, run.findings.is_empty()), (State::Finished, false));
    let retransmitted =
        run.conversations.iter().map(|c| (c.to_server.retransmitted_packets, c.to_client.retransmitted_packets));
    assert_eq!(retransmitted.collect::<Vec<_>>(), [(7, 1), (0, 1)]);
}
