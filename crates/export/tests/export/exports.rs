//! What machines read: every line and packet decodes, and says what the records say.

use std::collections::HashMap;

use export::ndjson::Ndjson;
use export::perfetto::Perfetto;
use proptest::prelude::*;
use prost::Message as _;
use record::{Coverage, Event, Instant, Leg, Lost, Nanos, Send, Source, Stamps, Timestamp};
use serde_json::{Value, json};
use store::{ClockReading, Provenance};
use summary::{Limits, TraceSummary};

const CLOCK: ClockReading =
    ClockReading { realtime_offset_ns: 1_700_000_000_000_000_000, realtime_offset_error_ns: 90 };

fn provenance() -> Provenance {
    Provenance {
        command_line: vec!["wirelapse".into(), "\"quoted\"\n".into()],
        clock: CLOCK,
        ..synthetic::provenance()
    }
}

fn lines(events: &[Event], lost: Lost) -> Vec<Value> {
    let mut summary = TraceSummary::new(Limits::default(), Instant::from_nanos(0));
    let mut out = Ndjson::begin(Vec::new(), &provenance()).unwrap();
    for event in events {
        summary.add(event);
        out.event(event).unwrap();
    }
    let bytes = out.finish(&summary.figures(), &lost, &Coverage::default()).unwrap();
    assert_eq!(bytes.last(), Some(&b'\n'));
    String::from_utf8(bytes).unwrap().lines().map(|l| serde_json::from_str(l).expect(l)).collect()
}

#[test]
fn every_event_is_a_line_and_lines_say_what_the_records_say() {
    let events = synthetic::trace(3, 40);
    let lines = lines(&events, Lost { inferred: 5, ..Lost::default() });
    assert_eq!(lines.len(), events.len() + 3);
    assert_eq!(
        (&lines[0]["kind"], &lines[0]["clock"], &lines[0]["realtime_offset_ns"]),
        (&json!("run"), &json!("monotonic"), &json!(1_700_000_000_000_000_000_u64))
    );
    for (event, line) in events.iter().zip(&lines[1..]) {
        match event {
            Event::Connection(c) => assert_eq!(
                (&line["kind"], &line["connection_id"], &line["remote_address"]),
                (&json!("connection"), &json!(c.id.0), &json!(c.remote.ip().to_string()))
            ),
            Event::Closed { connection, .. } => {
                assert_eq!((&line["kind"], &line["connection_id"]), (&json!("closed"), &json!(connection.0)));
            }
            Event::SetUp(_)
            | Event::Head(_)
            | Event::Exchange(_)
            | Event::Copy(_)
            | Event::CopyDropped(_)
            | Event::Connect(_)
            | Event::Receive(_)
            | Event::Request(_) => {
                panic!("there is none in a synthetic trace of sends")
            }
            Event::Packet(_) | Event::Datagram(_) | Event::Question(_) => {
                panic!("there is none in a synthetic trace of sends")
            }
            Event::Send(s) => {
                assert_eq!(line["kind"], "send");
                for (key, value) in [
                    ("at_ns", s.stamps.send.as_nanos()),
                    ("bytes", s.bytes.into()),
                    ("cwnd_segments", s.state.cwnd.into()),
                ] {
                    assert_eq!(line[key], json!(value), "{key}");
                }
                for (key, leg) in [("tcp_ns", Leg::Tcp), ("nic_ns", Leg::Nic), ("total_ns", Leg::Total)] {
                    assert_eq!(line[key], json!(s.leg(leg).unwrap().map(|n| n.0)), "{key}");
                }
                assert_eq!(line["pacing_rate_bytes_per_second"], Value::Null);
                assert_eq!(line["waited_for"], s.wait.unwrap().reason().name());
                assert!(line["local_address"].is_string());
            }
        }
    }
    let [lost, summary] = &lines[lines.len() - 2..] else { panic!() };
    assert_eq!((&lost["kind"], &lost["inferred"], &lost["ring_buffer"]), (&json!("lost"), &json!(5), &json!(0)));
    assert_eq!(
        (&summary["kind"], &summary["sends"], &summary["legs"]["total"]["n"]),
        (&json!("summary"), &json!(120), &json!(120))
    );
    assert_eq!(summary["legs"]["total"]["p99_9_ns"], Value::Null, "120 sends do not carry p99.9");
    assert!(summary["legs"]["total"]["p99_ns"].is_u64());
}

// The few messages of Perfetto's own schema that are read here, declared apart from the writer.
#[derive(Clone, PartialEq, prost::Message)]
struct Trace {
    #[prost(message, repeated, tag = "1")]
    packet: Vec<Packet>,
}
#[derive(Clone, PartialEq, prost::Message)]
struct Packet {
    #[prost(uint64, optional, tag = "8")]
    timestamp: Option<u64>,
    #[prost(uint32, optional, tag = "58")]
    timestamp_clock_id: Option<u32>,
    #[prost(uint32, optional, tag = "10")]
    trusted_packet_sequence_id: Option<u32>,
    #[prost(message, optional, tag = "6")]
    clock_snapshot: Option<ClockSnapshot>,
    #[prost(message, optional, tag = "11")]
    track_event: Option<TrackEvent>,
    #[prost(message, optional, tag = "60")]
    track_descriptor: Option<TrackDescriptor>,
}
#[derive(Clone, PartialEq, prost::Message)]
struct ClockSnapshot {
    #[prost(message, repeated, tag = "1")]
    clocks: Vec<Clock>,
    #[prost(uint32, optional, tag = "2")]
    primary_trace_clock: Option<u32>,
}
#[derive(Clone, PartialEq, prost::Message)]
struct Clock {
    #[prost(uint32, optional, tag = "1")]
    clock_id: Option<u32>,
    #[prost(uint64, optional, tag = "2")]
    timestamp: Option<u64>,
}
#[derive(Clone, PartialEq, prost::Message)]
struct TrackEvent {
    #[prost(uint32, optional, tag = "9")]
    kind: Option<u32>,
    #[prost(uint64, optional, tag = "11")]
    track_uuid: Option<u64>,
    #[prost(string, optional, tag = "23")]
    name: Option<String>,
    #[prost(message, repeated, tag = "4")]
    debug_annotations: Vec<Annotation>,
}
#[derive(Clone, PartialEq, prost::Message)]
struct Annotation {
    #[prost(string, optional, tag = "10")]
    name: Option<String>,
    #[prost(uint64, optional, tag = "3")]
    uint_value: Option<u64>,
    #[prost(string, optional, tag = "6")]
    string_value: Option<String>,
}
#[derive(Clone, PartialEq, prost::Message)]
struct TrackDescriptor {
    #[prost(uint64, optional, tag = "1")]
    uuid: Option<u64>,
    #[prost(uint64, optional, tag = "5")]
    parent_uuid: Option<u64>,
    #[prost(string, optional, tag = "2")]
    name: Option<String>,
    #[prost(message, optional, tag = "3")]
    process: Option<Process>,
}
#[derive(Clone, PartialEq, prost::Message)]
struct Process {
    #[prost(int32, optional, tag = "1")]
    pid: Option<i32>,
    #[prost(string, optional, tag = "6")]
    process_name: Option<String>,
}

fn perfetto(events: &[Event]) -> Trace {
    let mut out = Perfetto::begin(Vec::new(), 1_000_000_000, &CLOCK).unwrap();
    events.iter().for_each(|e| out.event(e).unwrap());
    Trace::decode(out.finish().unwrap().as_slice()).unwrap()
}

/// A slice as Perfetto would show it: where it lies, on which lane, and how deep.
struct Slice {
    lane: u64,
    name: String,
    from: u64,
    to: u64,
    depth: usize,
    arguments: HashMap<String, String>,
}

/// Replays begins and ends lane by lane and checks what Perfetto needs: time does not run backwards
/// in a lane, and every end has its begin.
fn slices(trace: &Trace) -> Vec<Slice> {
    let mut open: HashMap<u64, Vec<Slice>> = HashMap::new();
    let mut clock: HashMap<u64, u64> = HashMap::new();
    let mut done = Vec::new();
    for packet in &trace.packet {
        assert_eq!(packet.trusted_packet_sequence_id, Some(1));
        let Some(event) = &packet.track_event else { continue };
        assert_eq!(packet.timestamp_clock_id, Some(3), "CLOCK_MONOTONIC");
        let (lane, at) = (event.track_uuid.unwrap(), packet.timestamp.unwrap());
        let last = clock.insert(lane, at).unwrap_or(0);
        assert!(at >= last, "lane {lane} goes back from {last} to {at}");
        let stack = open.entry(lane).or_default();
        match event.kind {
            Some(1) => {
                let arguments = event.debug_annotations.iter().map(|a| {
                    let value = a.string_value.clone().or(a.uint_value.map(|n| n.to_string()));
                    (a.name.clone().unwrap(), value.unwrap())
                });
                let depth = stack.len();
                stack.push(Slice {
                    lane,
                    name: event.name.clone().unwrap(),
                    from: at,
                    to: 0,
                    depth,
                    arguments: arguments.collect(),
                });
            }
            Some(2) => done.push(Slice { to: at, ..stack.pop().expect("an end without a begin") }),
            other => panic!("event of type {other:?}"),
        }
    }
    assert!(open.values().all(Vec::is_empty), "a slice without an end");
    done
}

#[test]
fn hundreds_of_overlapping_sends_lie_on_lanes_of_their_connection() {
    // 50 to 150 µs apart and 20 to 100 ms long: several hundred are on their way at once.
    let events = synthetic::trace(1, 2_000);
    let trace = perfetto(&events);
    let tracks: HashMap<u64, &TrackDescriptor> =
        trace.packet.iter().filter_map(|p| p.track_descriptor.as_ref()).map(|t| (t.uuid.unwrap(), t)).collect();
    let slices = slices(&trace);
    let sends: Vec<&Slice> = slices.iter().filter(|s| s.depth == 0).collect();
    assert_eq!(sends.len(), 2_000);
    let lanes: std::collections::HashSet<u64> = sends.iter().map(|s| s.lane).collect();
    assert!(lanes.len() > 100, "{} lanes", lanes.len());
    for lane in lanes {
        let parent = tracks[&tracks[&lane].parent_uuid.unwrap()];
        assert!(parent.name.as_ref().unwrap().starts_with("10.0.0.1:40001 → 10.0.0.2:80"));
        let process = tracks[&parent.parent_uuid.unwrap()].process.clone().unwrap();
        assert_eq!((process.pid, process.process_name.as_deref()), (Some(4_001), Some("curl")));
        assert_eq!(tracks[&lane].name.as_deref(), Some("sends"), "one name, so that lanes are shown as one track");
    }
    let records = events.iter().filter_map(|e| match e {
        Event::Send(s) => Some(s),
        _ => None,
    });
    for (send, slice) in records.zip(&sends) {
        assert_eq!((slice.from, slice.to), (send.stamps.send.as_nanos(), send.stamps.ack.unwrap().as_nanos()));
        assert_eq!(slice.name, "send 16.0 KiB");
        assert_eq!(slice.arguments["waited for"], send.wait.unwrap().reason().name());
        assert_eq!(slice.arguments["cwnd (segments)"], "10");
    }
    let network: u64 = slices.iter().filter(|s| s.name == "network").map(|s| s.to - s.from).sum();
    let mut summary = TraceSummary::new(Limits::default(), Instant::from_nanos(0));
    events.iter().for_each(|e| summary.add(e));
    assert_eq!(u128::from(network), summary.total().leg(Leg::Network).times.sum());
}

#[test]
fn a_copied_packet_is_a_slice_of_its_stages() {
    let at = |ns| Some(Instant::from_nanos(ns));
    let stages = record::CopyStages {
        driver_rx: at(1_000),
        tcp_rx: at(1_500),
        ready: at(1_600),
        read: at(9_000),
        ..record::CopyStages::default()
    };
    let arrived = record::PacketCopy {
        at: Instant::from_nanos(1_450),
        id: 7,
        direction: record::Direction::Received,
        thread: Some(12),
        payload: 50,
        flags: record::TcpFlags(0x18),
        stages,
        ..<record::PacketCopy as record::table::Record>::blank()
    };
    let sent = record::PacketCopy { direction: record::Direction::Sent, ..arrived.clone() };
    let slices = slices(&perfetto(&[arrived.into(), sent.into()]));
    let seen: Vec<_> = slices.iter().map(|s| (s.name.as_str(), s.from, s.to)).collect();
    let legs = [("softirq", 1_000, 1_500), ("socket", 1_500, 1_600), ("wakeup", 1_600, 9_000)];
    assert!(legs.iter().all(|leg| seen.contains(leg)), "{seen:?}");
    assert!(seen.contains(&("← AP 50 B", 1_000, 9_000)), "{seen:?}");
    // The stages of a stream are those of its sends.
    assert!(seen.contains(&("→ AP 50 B", 1_450, 1_450)), "{seen:?}");
    let whole = slices.iter().find(|s| s.name == "← AP 50 B").unwrap();
    assert_eq!((&*whole.arguments["packet"], &*whole.arguments["thread"]), ("7", "12"));
}

#[test]
fn the_clocks_are_related_once_at_the_start() {
    let trace = perfetto(&[]);
    let snapshot = trace.packet[0].clock_snapshot.clone().unwrap();
    assert_eq!(snapshot.primary_trace_clock, Some(3));
    let clocks: Vec<_> = snapshot.clocks.iter().map(|c| (c.clock_id.unwrap(), c.timestamp.unwrap())).collect();
    assert_eq!(clocks, [(3, 1_000_000_000), (1, 1_700_000_001_000_000_000)]);
}

proptest! {
    /// Whatever stamps there are, in whatever order, and for connections that were never announced.
    #[test]
    fn any_stamps_export(stamps in prop::collection::vec(prop::array::uniform5(prop::option::of(0u64..1_000)), 1..30)) {
        let Some(Event::Send(base)) = synthetic::trace(1, 1).into_iter().find(|e| matches!(e, Event::Send(_))) else { panic!() };
        let at = |ns: Option<u64>| ns.map(Instant::from_nanos);
        let events: Vec<Event> = stamps.iter().map(|s| Event::Send(Send {
            stamps: Stamps {
                sched: at(s[1]),
                driver: at(s[2]),
                nic: at(s[3]).map(|at| Timestamp { at, source: Source::Nic, error: Nanos(7) }),
                ack: at(s[4]),
                ..Stamps::sent_at(Instant::from_nanos(s[0].unwrap_or(500)))
            },
            wait: None,
            ..base
        })).collect();
        let slices = slices(&perfetto(&events));
        prop_assert_eq!(slices.iter().filter(|s| s.depth == 0).count(), events.len());
        prop_assert!(slices.iter().all(|s| s.from <= s.to));
        for line in &lines(&events, Lost::default())[1..=events.len()] {
            prop_assert_eq!(&line["waited_for"], &Value::Null);
            prop_assert_eq!(&line["local_address"], &Value::Null);
        }
    }
}
