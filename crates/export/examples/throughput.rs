//! How many sends a second each output takes on one core: `cargo run --release -p wirelapse-export --example throughput`.

#[path = "../../report/tests/synthetic/mod.rs"]
mod synthetic;

use std::io::sink;
use std::time::Instant;

use export::ndjson::Ndjson;
use export::perfetto::Perfetto;
use record::Event;
use store::{ClockReading, Provenance, SamplingAsked, SamplingMethod, Writer};
use summary::{Limits, TraceSummary};

fn timed(name: &str, events: &[Event], mut each: impl FnMut(&Event)) {
    let start = Instant::now();
    events.iter().for_each(&mut each);
    println!("{name}: {:.0} events a second", events.len() as f64 / start.elapsed().as_secs_f64());
}

fn main() {
    let run = Provenance {
        version: String::new(),
        command_line: Vec::new(),
        kernel: String::new(),
        machine: String::new(),
        cpus: 1,
        backend: String::new(),
        target: String::new(),
        sampling: SamplingAsked { method: SamplingMethod::Every, one_in: 1 },
        max_rate: None,
        clock: ClockReading { realtime_offset_ns: 0, realtime_offset_error_ns: 0 },
        start_ns: 0,
        receiving: None,
        packets: None,
        path: None,
    };
    let events = synthetic::trace(100, 5_000);
    let mut summary = TraceSummary::new(Limits::default());
    timed("summary", &events, |e| summary.event(e));
    if let Ok(mut lines) = Ndjson::begin(sink(), &run) {
        timed("ndjson", &events, |e| drop(lines.event(e)));
    }
    if let Ok(mut perfetto) = Perfetto::begin(sink(), 0, &run.clock) {
        timed("perfetto", &events, |e| drop(perfetto.event(e)));
    }
    let path = std::env::temp_dir().join(format!("wirelapse-throughput-{}", std::process::id()));
    if let Ok(mut writer) = Writer::create(&path, run) {
        timed("parquet", &events, |e| drop(writer.event(e)));
        let _ = std::fs::remove_dir_all(&path);
    }
}
