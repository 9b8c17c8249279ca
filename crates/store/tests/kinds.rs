//! Runs of every kind: told apart, read back equal, and what is missing is said.

mod synthetic;

use std::collections::BTreeMap;
use std::fs;

use store::{Error, RunKind, State, capture, kind, study};

fn tables() -> study::Tables {
    let responses = BTreeMap::from([("goodput".to_owned(), 941.5e6), ("round_trip".to_owned(), 10_123_456.0)]);
    let trial = study::Trial { trial: 3, plan: "a </script> plan".into(), responses, ..study::Trial::default() };
    let broken = study::Trial { broken: Some("the path: 3 missed".into()), ..study::Trial::default() };
    let factor = study::Factor { trial: 3, factor: "delay".into(), level: "5ms".into() };
    let point = study::Point { at_ns: 7, goodput_bits_per_second: 1e9, warm_up: true, ..study::Point::default() };
    let comparison = study::Comparison { ratio: -0.5, ratio_predicted: None, ..study::Comparison::default() };
    study::Tables {
        trials: vec![broken, trial],
        factors: vec![factor],
        series: vec![point],
        comparisons: vec![study::Comparison { ratio_predicted: Some(0.01), ..comparison.clone() }, comparison],
    }
}

#[test]
fn a_study_reads_back_and_is_written_again_in_place() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("run.json"), r#"{"schema": 1, "kind": "study"}"#).unwrap();
    assert!(matches!(study::Tables::read(dir.path()).unwrap_err(), Error::NoTable { .. }));
    study::Tables::default().write(dir.path()).unwrap();
    assert_eq!(study::Tables::read(dir.path()).unwrap(), study::Tables::default());
    tables().write(dir.path()).unwrap();
    tables().write(dir.path()).unwrap();
    assert_eq!(study::Tables::read(dir.path()).unwrap(), tables());
    assert_eq!(kind(dir.path()).unwrap(), RunKind::Study);
    let error = store::Run::open(dir.path()).unwrap_err();
    assert!(matches!(error, Error::OtherKind { .. }), "{error}");
    assert!(error.to_string().contains("is a study, and a trace is needed"), "{error}");
}

#[test]
fn a_capture_reads_back_equal() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run");
    let way = capture::Way { packets: 9, bytes: 1_000, resent_packets: 1, rtt_p50_ns: Some(20_000_000) };
    let run = capture::Run {
        provenance: capture::Provenance {
            version: "0.0.0".into(),
            command_line: vec!["wirelapse".into()],
            source: "a.pcap".into(),
            packets: 18,
            unread: vec!["2 packets were cut short".into()],
        },
        conversations: vec![capture::Conversation {
            number: 1,
            client: "[2001:db8::1]:40000".parse().unwrap(),
            server: "192.0.2.1:80".parse().unwrap(),
            start_ns: 1_700_000_000_000_000_000,
            duration_ns: 5,
            verdict: "<b>slow</b>".into(),
            ending: "closed".into(),
            to_server: way,
            to_client: capture::Way { rtt_p50_ns: None, ..way },
            limits_ns: [1, 2, 3, 4, 5, 6, 7, 8],
        }],
        findings: vec![capture::Finding {
            number: 1,
            kind: "loss".into(),
            packets: "3 7".into(),
            ..Default::default()
        }],
    };
    run.write(&path).unwrap();
    assert_eq!(capture::Run::read(&path).unwrap(), (run.clone(), State::Finished));
    assert!(matches!(run.write(&path).unwrap_err(), Error::Exists(_)));
    fs::remove_dir_all(path.join("findings.parquet")).unwrap();
    let error = capture::Run::read(&path).unwrap_err();
    assert!(matches!(&error, Error::NoTable { table, .. } if table == "findings"), "{error}");
}

#[test]
fn kinds_that_nobody_knows_are_malformed() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("run.json"), r#"{"schema": 1, "kind": "recipe"}"#).unwrap();
    assert!(matches!(kind(dir.path()).unwrap_err(), Error::Malformed { .. }));
    let path = dir.path().join("run");
    store::Writer::create(&path, synthetic::provenance()).unwrap();
    assert_eq!(kind(&path).unwrap(), RunKind::Trace);
    assert_eq!(synthetic::plain_send().bytes, 100);
}
