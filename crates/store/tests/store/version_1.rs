//! A run that version 1 of the layout wrote is still read. `tests/version-1` was written by a
//! Wirelapse of that version.

use std::path::Path;

use record::{Direction, TcpFlags};
use store::{Run, State};

#[test]
fn a_run_of_schema_1_is_read() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/version-1");
    let text = std::fs::read_to_string(path.join("run.json")).unwrap();
    assert!(text.contains("\"schema\": 1"));
    let run = Run::open(&path).unwrap();
    assert_eq!(run.state(), State::Finished);
    let rows = run.rows().unwrap();
    let (mut sends, mut bytes) = (0, 0);
    run.sends(|s| {
        sends += 1;
        bytes += u64::from(s.bytes);
        assert!(s.leg(record::Leg::Total).unwrap().is_some() && s.wait.is_some() && s.state.mss > 0);
    })
    .unwrap();
    // Five requests of 100 bytes and five answers of 2,000.
    assert_eq!((sends, bytes), (rows.sends, 5 * 2_100));
    let mut flags = Vec::new();
    run.packets(|p| {
        assert_eq!(p.direction, Direction::Sent);
        flags.push(p.flags);
    })
    .unwrap();
    assert_eq!(flags.len() as u64, rows.packets);
    assert_eq!(flags.iter().filter(|f| f.syn()).count(), 2, "{flags:?}");
    assert!(flags.contains(&TcpFlags(0x18)), "{flags:?}");
    let mut counts = [0; 5];
    run.connections(|c| counts[0] += u64::from(c.local.ip().is_loopback())).unwrap();
    run.receives(|r| counts[1] += u64::from(r.stamps.read.is_some())).unwrap();
    run.requests(|r| counts[2] += u64::from(r.components.is_some())).unwrap();
    run.datagrams(|d| counts[3] += u64::from(d.bytes == 50)).unwrap();
    run.totals(|t| counts[4] += u64::from(t.totals.bytes_written > 0)).unwrap();
    assert_eq!(counts, [rows.connections, rows.receives, rows.requests, rows.datagrams, rows.totals]);
}
