//! Perfetto's own schema, in Perfetto's Python package, reads what is written, with no field that
//! it does not know.
//!
//! The package is looked for in the virtual environment `target/python` of the checkout and then in
//! the `python3` of the machine.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use export::perfetto::Perfetto;
use store::ClockReading;

const CHECK: &str = r"
import json, sys
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace
data = sys.stdin.buffer.read()
trace = Trace()
trace.ParseFromString(data)
# A field of an unknown number, or of another type, is dropped by this, and the length then differs.
trace.DiscardUnknownFields()
begin = [p.track_event for p in trace.packet if p.HasField('track_event') and p.track_event.type == 1]
print(json.dumps([trace.ByteSize() == len(data), len(begin), sum(e.name == 'network' for e in begin),
    sorted({p.track_descriptor.process.pid for p in trace.packet if p.track_descriptor.HasField('process')}),
    trace.packet[0].clock_snapshot.primary_trace_clock]))
";

#[test]
fn perfettos_own_schema_reads_it() {
    tier::needs!(tier::Need::Program("python3"));
    let own = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/python/bin/python"));
    let python = if own.exists() { own } else { Path::new("python3") };
    let has = Command::new(python).args(["-c", "import perfetto.protos"]).output().unwrap();
    if !has.status.success() {
        tier::skip("perfetto_schema::perfettos_own_schema_reads_it", "needs the Python module perfetto");
        return;
    }
    let clock = ClockReading { realtime_offset_ns: 1_700_000_000_000_000_000, realtime_offset_error_ns: 90 };
    let mut out = Perfetto::begin(Vec::new(), 1_000_000_000, &clock).unwrap();
    synthetic::trace(2, 150).iter().for_each(|e| out.event(e).unwrap());
    let bytes = out.finish().unwrap();
    let mut reader = Command::new(python)
        .args(["-c", CHECK])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    reader.stdin.take().unwrap().write_all(&bytes).unwrap();
    let got = reader.wait_with_output().unwrap();
    assert!(got.status.success(), "{}", String::from_utf8_lossy(&got.stderr));
    let got: serde_json::Value = serde_json::from_slice(&got.stdout).unwrap();
    assert_eq!(got, serde_json::json!([true, 300 * 4, 300, [4_001, 4_002], 3]));
}
