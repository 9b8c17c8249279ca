//! A trace ends with the text that `wirelapse report` shows of its run.
//!
//! What a run does not hold, and the text of its report lacks: which interfaces have hardware
//! timestamps switched off (`Facts::no_nic`), and the number of slow records that was asked for
//! (`--slowest`).

use paper::{Canvas, terminal};
use record::{Coverage, Instant, Lost, Nanos, Sampling};
use report::page::trace::{self, SLOWEST_SHOWN, Subject};
use report::view::Facts;
use store::{Run, Writer};

#[test]
fn the_end_of_a_trace_and_the_report_of_its_run_are_the_same_text() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run");
    let provenance = synthetic::provenance();
    let mut events = synthetic::trace(3, 400);
    events.extend(synthetic::others(600, 40_000));
    let end = Instant::from_nanos(9_000_000_000);
    let lost = Lost { ring_buffer: 12, ..Lost::default() };
    let coverage = Coverage { followed: Nanos(1_000), armed: Nanos(900), bytes_written: 1 << 20, bytes_armed: 900_000 };

    let mut figures = trace::figures(Instant::from_nanos(provenance.start_ns), SLOWEST_SHOWN);
    let mut writer = Writer::create(&path, provenance.clone()).unwrap();
    for event in &events {
        figures.add(event);
        writer.event(event).unwrap();
    }
    writer.finish(end, lost, coverage).unwrap();
    let facts = Facts {
        target: provenance.target.clone(),
        backend: provenance.backend.clone(),
        sampling: Sampling::Every,
        coverage,
        lost,
        lasted: end.since(Instant::from_nanos(provenance.start_ns)).unwrap(),
        no_nic: None,
        calls: Vec::new(),
        receiving: Vec::new(),
        connects: Vec::new(),
        http: Vec::new(),
        packets: Vec::new(),
        copies: Vec::new(),
        dns: Vec::new(),
    };
    let subject = Subject {
        name: Some("run"),
        provenance: &provenance,
        path: None,
        finished: true,
        facts: &facts,
        slowest: SLOWEST_SHOWN,
        figures: &figures,
    };
    let at_the_end = trace::describe(&subject);
    let later = trace::document("run", &Run::open(&path).unwrap()).unwrap();
    for (width, colour, unicode) in [(60, false, false), (80, true, true), (140, false, true)] {
        let canvas = Canvas { width, colour, unicode };
        let [first, second] =
            [&at_the_end, &later].map(|document| terminal::text(&canvas, std::slice::from_ref(document)));
        let differ = first.lines().zip(second.lines()).find(|(a, b)| a != b);
        assert_eq!(differ, None, "width {width}");
        assert_eq!(first, second);
        assert!(first.contains("Coverage:"), "coverage is in the headline where it is not whole");
    }
}
